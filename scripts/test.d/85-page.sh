#!/bin/sh
# the page in Chromium and Firefox: opening, looking, checking, converting, and that nothing is sent
. scripts/lib.sh
# What the page says and writes is compared with what these do.
build release tftf tftf-lint && sh scripts/page.sh && install_packages tests/browser || exit 1
status=0
node tests/browser/run.mjs || status=1
node tests/browser/firefox.mjs || status=1
exit "$status"
