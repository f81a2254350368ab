#!/usr/bin/env bash
# Real jobs on this machine's GPUs, and whether muster says of them what they did.
# usage: run.sh MUSTER ALLREDUCE [PART...]    Parts: counts events weights trace (default: all)
# ALLREDUCE is bench/allreduce of the build. Exit status 77: skipped, no two GPUs or no PyTorch here.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }
muster=$(realpath "$1")
allreduce=$(realpath "$2")
shift 2
parts=${*:-counts events weights trace}
here=$(cd "$(dirname "$0")" && pwd)
gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
if [ "$gpus" -lt 2 ] || ! python3 -c 'import torch' 2>/dev/null; then
  echo "skipped: needs two GPUs and PyTorch"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

. "$here/ranks.sh"
export gpus rank_program="$here/train.py"

counts() {
  local timing
  for timing in full light auto; do
    echo "== all-reduces under $timing"
    "$muster" run --no-report --timing "$timing" --dir "$work/$timing" -- bash -c 'ranks timed 100' |
      grep '^{' >"$work/$timing.job" || failed=1
    "$muster" report "$work/$timing" --format json >"$work/$timing.json" || failed=1
    python3 "$here/compare.py" "$work/$timing.json" "$work/$timing.job" || failed=1
  done
}

events() {
  echo "== durations against CUDA events on NCCL's stream"
  python3 -B "$here/events.py" "$muster" "$allreduce" || failed=1
}

weights() {
  local without with
  echo "== the same weights with and without muster"
  without=$(ranks model 30 | grep '^{') || failed=1
  with=$("$muster" run --no-report --timing full --dir "$work/model" -- bash -c 'ranks model 30' |
    grep '^{') || failed=1
  echo "$without"
  if [ -z "$with" ] || [ "$with" != "$without" ]; then
    echo "FAIL: $with"
    failed=1
  fi
}

trace() {
  local run
  echo "== a trace of a live job plays back to the same report"
  "$muster" run --no-report --trace "$work/trace" --dir "$work/traced" -- bash -c 'ranks model 5' >/dev/null || failed=1
  MUSTER_TIMING=full "$muster" replay "$work/trace" --speed max --out "$work/replayed" || failed=1
  for run in traced replayed; do
    "$muster" report "$work/$run" --format csv --by rank >"$work/$run.csv" || failed=1
  done
  python3 - "$work/traced.csv" "$work/replayed.csv" <<'EOF' || failed=1
import csv, sys
live, played = ([(r["rank"], r["ops"], r["bytes"]) for r in csv.DictReader(open(p))] for p in sys.argv[1:])
print(live, played)
sys.exit(live != played or not live)
EOF
}

for part in $parts; do
  case $part in
  counts | events | weights | trace) "$part" ;;
  *) echo "run.sh: no part $part: counts, events, weights, trace" >&2; exit 2 ;;
  esac
done

echo "== $([ $failed = 0 ] && echo all right || echo FAILED)"
exit $failed
