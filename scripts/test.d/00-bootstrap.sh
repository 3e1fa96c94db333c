#!/bin/sh
# what the machine lacks is installed
sh scripts/bootstrap.sh
