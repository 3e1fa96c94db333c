#!/usr/bin/env python3
"""Adds up the test cases that one ctest run executed: count_cases.py LastTest.log

Prints `N passed, M failed`. A Catch2 executable reports its own cases; any other test is one case; a test that
failed without a report of failed cases (it crashed, or ran out of time) is one failed case. Exit status 1 when
the log holds no test at all.
"""
import re
import sys

CATCH_ALL = re.compile(r"^All tests passed \(.*?(\d+) test cases?\)", re.M)
CATCH_SOME = re.compile(r"^test cases: +(\d+) \|(?: +(\d+) passed)?(?: +\|)?(?: +(\d+) failed)?", re.M)


def count(block):
    """(passed, failed) of one test's part of the log."""
    succeeded = re.search(r"^Test Passed\.$", block, re.M) is not None
    passed = failed = 0
    everything = CATCH_ALL.search(block)
    some = CATCH_SOME.search(block)
    if everything:
        passed = int(everything[1])
    elif some:
        passed, failed = int(some[2] or 0), int(some[3] or 0)
    elif succeeded:
        passed = 1
    if not succeeded and failed == 0:
        failed = 1
    return passed, failed


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        blocks = re.split(r"^\d+/\d+ Testing: ", log.read(), flags=re.M)[1:]
    counts = [count(block) for block in blocks]
    passed, failed = (sum(column) for column in zip(*counts)) if counts else (0, 0)
    print(f"{passed} passed, {failed} failed")
    return 0 if counts else 1


if __name__ == "__main__":
    sys.exit(main())
