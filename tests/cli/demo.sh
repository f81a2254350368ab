#!/bin/sh
# muster demo without GPUs: says why, plays its recording through the plugin, names the late rank's
# figures in the report, keeps what it was told to keep and nothing else.
set -eu
muster=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/tmp" "$dir/cwd"
cd "$dir/cwd"
fail() { echo "demo: $1" >&2; cat "$dir/out" >&2; exit 1; }

TMPDIR=$dir/tmp MUSTER_TIMING=light MUSTER_OFF=1 "$muster" demo --recording --out "$dir/run" > "$dir/out"
grep -q 'No job on GPUs here: --recording was given' "$dir/out" || fail "no reason"
grep -q '908 operations, 908 (100.0 %) timed' "$dir/out" || fail "not every operation was recorded and timed"
[ "$(ls "$dir/run"/*.seg | wc -l)" = 4 ] || fail "--out does not hold four ranks"
[ -z "$(find "$dir/tmp" "$dir/cwd" -mindepth 1)" ] || fail "something was left behind"

grep -q 'is gone' "$dir/out" && fail "what is kept is said to be gone"
TMPDIR=$dir/tmp "$muster" demo --recording > "$dir/out"
grep -q 'was temporary and is gone; `muster demo --dir DIR` keeps it' "$dir/out" || fail "it names a directory that is gone"

# Rank 2 was late: it waited least and the others for it.
"$muster" report --format csv --by rank "$dir/run" > "$dir/out"
late=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    $c["made_wait_us"] > most { most = $c["made_wait_us"]; who = $c["rank"] } END { print who }' "$dir/out")
[ "$late" = 2 ] || fail "rank $late is said to be the latest, not rank 2"

if "$muster" demo nonsense 2> "$dir/out"; then
    fail "an operand is no error"
fi
