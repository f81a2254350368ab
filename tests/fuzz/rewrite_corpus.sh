#!/bin/bash
# Rewrites the corpora of log and segment after a change of format: lets both targets search for a
# while, from what stands there and from a log of today's format, and keeps what reaches something.
#
# usage: rewrite_corpus.sh [SECONDS]    with build/ and build-fuzz/ built (presets release and fuzz)
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A short run as a log: one input as the file (first byte 0), one as its slots (first byte 1).
mkdir "$scratch/seed-log" "$scratch/seed-segment" "$scratch/run"
{ xz -dc tests/traces/runs/pipeline/rank2.txt.xz || true; } | head -n 60 |
    build/tests/traces/log_text make - "$scratch/run"
log=$(echo "$scratch"/run/*.log)
{ printf '\0'; cat "$log"; } >"$scratch/seed-log/file"
{ printf '\1'; tail -c +4097 "$log"; } >"$scratch/seed-log/slots"

for name in log segment; do
    target=$(find build-fuzz -name "fuzz_$name" -type f)
    mkdir "$scratch/$name" "$scratch/merged-$name"
    "$target" -max_total_time="$seconds" -max_len=20000 -artifact_prefix="$scratch/found-" \
        "$scratch/$name" "tests/fuzz/corpus/$name" "$scratch/seed-$name" 2>&1 | tail -n 1
    "$target" -merge=1 -max_len=20000 "$scratch/merged-$name" "$scratch/seed-$name" "$scratch/$name" \
        "tests/fuzz/corpus/$name" 2>&1 | grep MERGE-OUTER | tail -n 1
    rm -r "tests/fuzz/corpus/$name"
    cp -r "$scratch/merged-$name" "tests/fuzz/corpus/$name"
done
