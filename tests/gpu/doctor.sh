#!/usr/bin/env bash
# muster doctor and muster topo on 1, 2 and 4 of this machine's GPUs: how long they take, what the
# paths reach, what they say while a job runs. Takes less than a minute.
# usage: doctor.sh MUSTER [FOLDER]    FOLDER keeps what was printed.
# Exit status 77: skipped, no GPU here.
set -u
muster=$(realpath "$1")
gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
if [ "$gpus" -lt 1 ]; then
  echo "skipped: no GPU"
  exit 77
fi
out=${2:-}
if [ -z "$out" ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out"
failed=0

fail() {
  echo "FAIL: $*"
  failed=1
}

# Runs a command into a file and holds it to a time.
timed() { # FILE LIMIT_S COMMAND...
  local file=$1 limit=$2 begin end
  shift 2
  begin=$EPOCHREALTIME
  "$@" >"$out/$file" 2>"$out/$file.err"
  local status=$?
  end=$EPOCHREALTIME
  awk -v what="${file%.*}" -v a="$begin" -v b="$end" -v limit="$limit" -v status="$status" 'BEGIN {
    printf "%-24s %6.2f s, exit status %d\n", what, b - a, status
    exit b - a >= limit || status > 1 }' || fail "$file: $(cat "$out/$file.err")"
}

for n in 1 2 4; do
  [ "$n" -le "$gpus" ] || continue
  visible=$(seq -s, 0 $((n - 1)))
  export CUDA_VISIBLE_DEVICES=$visible
  echo "== CUDA_VISIBLE_DEVICES=$visible"
  timed "passive-$n.txt" 10 "$muster" doctor --passive
  timed "active-$n.json" 60 "$muster" doctor --active --format json
  timed "topo-$n.txt" 10 "$muster" topo
  timed "topo-$n.json" 10 "$muster" topo --format json
  python3 - "$out/active-$n.json" "$out/topo-$n.json" "$n" <<'PYTHON' || fail "the reports of $n GPUs"
import json, re, sys
checks = {check["id"]: check for check in json.load(open(sys.argv[1]))["checks"]}
topo, n, wrong = json.load(open(sys.argv[2])), int(sys.argv[3]), []

def expect(true, what):
    if not true:
        wrong.append(what)

for check in checks.values():
    expect(check["status"] != "problem", f"{check['id']}: {check['found']} {check['evidence']}")
visible = [gpu["id"] for gpu in topo["gpus"] if gpu["visible"]]
expect(len(visible) == n, f"topo shows {visible} as visible")
for size in ("small", "large"):
    expect(checks[f"allreduce.{size}"]["status"] == "ok", f"allreduce.{size}")
    print(f"allreduce.{size}: {checks[f'allreduce.{size}']['evidence'][0]}")
for name in ("kernel", "copy", "bandwidth"):
    check = checks[f"p2p.{name}"]
    expect(check["status"] == ("ok" if n > 1 else "unchecked"), f"p2p.{name}: {check}")
    print(f"p2p.{name}: {check['found']}" + "".join("; " + line for line in check["evidence"][:1]))
pairs = [pair for pair in topo["pairs"] if pair["a"] in visible and pair["b"] in visible]
if n > 1:
    print(f"{len(pairs)} pairs: class {sorted({p['class'] for p in pairs}, key=str)}, "
          f"limit {sorted({p['limit_gbs'] for p in pairs}, key=str)} GB/s")
share = re.search(r"at least (\d+) %", "".join(checks["p2p.bandwidth"]["evidence"]))
expect(n == 1 or not share or int(share[1]) >= 80, "less than 80 % of what the links give")
print("\n".join("FAIL: " + line for line in wrong) or "as expected")
sys.exit(bool(wrong))
PYTHON
done
unset CUDA_VISIBLE_DEVICES

timed active-all.txt 60 "$muster" doctor --active --all

echo "== while a job holds the GPUs"
python3 - >"$out/holder" <<'PYTHON' &
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
n, context = ctypes.c_int(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(n)) == 0
for device in range(n.value):
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    memory = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(16 << 30)) == 0
print("held", flush=True)
time.sleep(60)
PYTHON
holder=$!
for _ in $(seq 200); do
  grep -q held "$out/holder" && break
  sleep 0.1
done
timed in-use.txt 10 "$muster" doctor --all --only gpu.in_use,p2p,allreduce
cat "$out/in-use.txt"
grep -q 'unchecked p2p.kernel: the GPUs are in use' "$out/in-use.txt" || fail "tests on GPUs in use"
kill "$holder"
wait "$holder" 2>/dev/null

echo "== compare"
for host in a b c; do
  extra=
  [ $host = c ] && extra=NCCL_ALGO=ring
  env NCCL_HOSTID=$host ${extra:+"$extra"} "$muster" doctor --passive --format json >"$out/$host.json"
done
"$muster" doctor compare "$out/a.json" "$out/b.json"
"$muster" doctor compare "$out/a.json" "$out/b.json" "$out/c.json" >"$out/compare.txt"
[ $? = 1 ] || fail "a host with NCCL_ALGO is no difference that matters"
cat "$out/compare.txt"
grep -q 'NCCL_ALGO=ring' "$out/compare.txt" || fail "compare does not name NCCL_ALGO"

[ $failed = 0 ] && echo "all as expected"
exit $failed
