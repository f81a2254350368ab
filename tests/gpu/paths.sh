#!/usr/bin/env bash
# Jobs on four GPUs whose direct paths are there or not, and what muster says of each.
# usage: MUSTER=COMMAND LAUNCH=LAUNCHER paths.sh [FOLDER]
# LAUNCHER is called as LAUNCHER [-m local|hosts|netns] clean STEPS=N [VAR=value ...] and runs one
# process per GPU on four GPUs; netns needs root and takes RATE from the environment. Runs are kept
# in FOLDER (default: a new one under /tmp). Exit status: 1 if a row is not as expected.
set -u
[ -n "${MUSTER:-}" ] && [ -n "${LAUNCH:-}" ] || { sed -n '3,6s/^# //p' "$0" >&2; exit 2; }
muster=$(realpath "$MUSTER") launch=$(realpath "$LAUNCH")
work=${1:-$(mktemp -d /tmp/muster-paths-XXXXXX)}
mkdir -p "$work"
failed=0
export LIMIT=${LIMIT:-40}

# What the sampler's threads of this job have used, in ns, and how long they were watched.
watch_sampler() {
  local begin=$SECONDS task used total last=0 n
  while [ ! -e "$work/over" ]; do
    total=0 n=0
    for task in $(grep -lx muster-topo /proc/[0-9]*/task/[0-9]*/comm 2>/dev/null); do
      used=$(cut -d' ' -f1 "${task%comm}schedstat" 2>/dev/null)
      total=$((total + ${used:-0})) n=$((n + 1))
    done
    [ "$n" -gt 0 ] && last="$((total / 1000 / n)) us each of $n, after about $((SECONDS - begin)) s"
    sleep 1
  done
  echo "  sampler threads on a CPU: $last"
}

# row NAME EXPECTED[,EXPECTED] REASON MODE STEPS VAR=value...: EXPECTED `-`: no finding about paths
# or transfers; REASON: a word that the first finding's evidence must hold, or -
row() {
  local name=$1 expected=$2 reason=$3 mode=$4 steps=$5
  shift 5
  local begin=$SECONDS rc=0
  rm -f "$work/over"
  watch_sampler >"$work/$name.cpu" &
  local watcher=$!
  "$muster" run --no-report --timing full --dir "$work/$name" -- \
    "$launch" -m "$mode" clean STEPS="$steps" "$@" >"$work/$name.out" 2>"$work/$name.err" || rc=$?
  touch "$work/over"
  wait "$watcher"
  "$muster" diagnose "$work/$name" --format json >"$work/$name.json" 2>"$work/$name.diagnose"
  echo "== $name: expected $expected; job left with $rc after $((SECONDS - begin)) s"
  cat "$work/$name.cpu"
  python3 - "$work/$name.json" "$expected" "$reason" <<'PY' || failed=1
import json, sys
path, expected, reason = sys.argv[1:]
try:
    report = json.load(open(path))
except Exception as error:
    print("  FAIL: no findings:", error)
    sys.exit(1)
wanted = [] if expected == "-" else expected.split(",")
kinds = ("path_missing", "path_degraded", "slow_transfer")
found = [f for f in report["findings"] if f["kind"] in kinds]
for f in found:
    print("  found", f["kind"], f["ranks"], f["host"], "confidence", f["confidence"])
    for line in f["evidence"]:
        print("    -", line)
    for line in f["not_observable"]:
        print("    ?", line)
for f in report["findings"]:
    if f["kind"] not in kinds:
        print("  also", f["kind"], f["ranks"], *f["evidence"][-3:], sep="\n    - ")
for line in report["not_observable"]:
    print("  ?", line)
ok = sorted({f["kind"] for f in found}) == sorted(wanted)
if ok and reason != "-":
    ok = any(reason in line for line in found[0]["evidence"])
print("  ok" if ok else "  FAIL: expected %s with \"%s\"" % (expected, reason))
sys.exit(0 if ok else 1)
PY
}

row plain - - local 2500
row p2p-disabled path_missing NCCL_P2P_DISABLE=1 local 400 NCCL_P2P_DISABLE=1
row p2p-shm-disabled path_missing "over the network" local 60 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
row shm-disabled - - local 400 NCCL_SHM_DISABLE=1
row hosts - - hosts 200
export RATE=2gbit
row netns-2gbit slow_transfer mv0 netns 25
"$launch" -m clean >/dev/null 2>&1
echo "runs are in $work"
exit $failed
