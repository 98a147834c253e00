#!/bin/sh
# Passes when the number in the report is the number of server errors in the log.
# usage: count-errors.sh LOG REPORT
set -eu
[ -f "$2" ] || { echo "there is no $2" >&2; exit 1; }
expected=$(grep -c ' 5[0-9][0-9] ' "$1")
reported=$(sed -n 's/^errors: *//p' "$2")
[ "$expected" = "$reported" ] || { echo "expected $expected errors, the report says '$reported'" >&2; exit 1; }
