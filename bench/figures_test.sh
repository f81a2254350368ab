#!/bin/sh
# The programs whose figures hang on no clock print what docs/cost.md says of them.
#   figures_test.sh MEMORY DRAIN_LOAD JOINT_SHARE MUSTER_PLUGIN
set -eu
fail() {
    echo "$out"
    echo "figures_test: $1" >&2
    exit 1
}

# Beyond the segment at most 256 KiB a communicator, and the segment at most 1 MiB.
out=$("$1" --communicators 32 --ops 100 "$4")
echo "$out" | awk '/^32 communicators/ { seen++; if ($5 <= 0 || $5 > 256 || $6 <= 0 || $6 > 256) exit 1 }
    END { exit seen != 1 }' || fail "memory: not between 0 and 256 KiB for each communicator"
echo "$out" | awk '/^segment: / { seen++; if ($2 < 1 || $2 > 1048576) exit 1 } END { exit seen != 1 }' ||
    fail "memory: no segment, or one of more than 1 MiB"

# Every row with both threads' shares; full times all operations, light none.
out=$("$2" --rate 100 --seconds 1 "$4")
[ "$(echo "$out" | grep -Ec ' [0-9]+ +[0-9.]+ +[0-9.]+$')" = 4 ] || fail "drain_load: not four rows"
echo "$out" | grep -Eq '^untimed \(light\) +0 ' || fail "drain_load: light timed something"
echo "$out" | grep -Eq '^all timed.* 100 +[0-9.]+ +[0-9.]+$' || fail "drain_load: full left some out"

# One communicator: what one rank times all do. More than 8: nothing.
out=$("$3" --steps 200)
echo "$out" | grep -Eq '^1 +\| +[0-9.]+ +[0-9.]+ +100\.0 +\| +[0-9.]+ +[0-9.]+ +100\.0' ||
    fail "joint_share: ranks differ about one communicator"
echo "$out" | grep -Eq '^2 +\| +[1-9]\.[0-9]+ +[0-9.]*[1-9]' || fail "joint_share: two share nothing"
echo "$out" | grep -Eq '^9 +\| +0\.00 +0\.00' || fail "joint_share: nine time something"
