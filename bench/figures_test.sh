#!/bin/sh
# The programs whose figures hang on no clock print what docs/cost.md says of them.
#   figures_test.sh MEMORY DRAIN_LOAD JOINT_SHARE MUSTER_PLUGIN DRIVER
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

# Every row with both threads' shares; light times nothing.
out=$("$2" --rate 100 --seconds 1 "$4")
[ "$(echo "$out" | grep -Ec ' [0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$')" = 4 ] || fail "drain_load: not four rows"
echo "$out" | grep -Eq '^untimed \(light\) +0 ' || fail "drain_load: light timed something"
echo "$out" | grep -Eq '^all timed.* 100( +[0-9.]+){3}$' || fail "drain_load: full left some out"

# With a driver: no event without operations, two of each that is timed and of the one that is waited for.
out=$("$2" --rate 100 --seconds 1 --driver "$5" "$4")
echo "$out" | grep -Eq '^no operations +0 ' || fail "drain_load: events without operations"
for row in 'auto' 'all timed \(full\)'; do
    echo "$out" | grep -Eq "^$row +200 " || fail "drain_load: not two events an operation ($row)"
done
echo "$out" | grep -Eq '^a rank that waits \(auto\) +2( +[0-9.]+){3}$' || fail "drain_load: no rank waits"

# A training job is timed whole by all. In a loop the sparsest rank decides, whatever their number.
out=$("$3" --seconds 40)
echo "$out" | grep -Eq '^100 +64 +100\.00 +100\.00 +100\.00' || fail "joint_share: a slow job is not timed whole"
echo "$out" | awk '$1 == 100000 && NF == 5 { seen++; if ($3 <= 0 || $5 <= 0 || $5 > $3) exit 1 } END { exit seen != 6 }' ||
    fail "joint_share: a loop shares nothing"
# Level k times one window in 2^k; all that the sparsest rank times is shared, and more ranks share less.
echo "$out" | awk '/^level/ { table = 1; next }
    table { seen++; one_in = $1 == 0 ? 1 : 2 * one_in; if ($3 < 90 / one_in || $3 > 110 / one_in || $4 > $3) exit 1
        for (ranks = 5; ranks <= 9; ranks++) if ($ranks > $(ranks - 1) || $ranks < 0.3) exit 1 }
    END { exit seen != 9 }' || fail "joint_share: not nine levels, each half of the one before"
