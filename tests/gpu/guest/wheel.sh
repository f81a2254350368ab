#!/usr/bin/env bash
# The wheel as people use it: installed into an environment of its own that sees PyTorch, then `muster run -- torchrun`
# with two ranks, on two GPUs or on one (ranks on emulated hosts). Is its own muster used, and are both ranks reported?
# usage: wheel.sh WHEEL [FOLDER]    FOLDER keeps the environment, the run and the report.
# Exit status 77: skipped, no GPU or no PyTorch here.
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
wheel=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
if [ "$gpus" -lt 1 ] || ! beside=$(python3 -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))'); then
  echo "skipped: needs a GPU and PyTorch"
  exit 77
fi
out=${2:-}
if [ -z "$out" ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out"

die() {
  echo "FAIL: $*"
  exit 1
}

# An environment may be without pip, and then PyTorch's own pip installs into it.
python3 -m venv --without-pip "$out/venv" || die "no environment"
python3 -m pip --python "$out/venv/bin/python" install --no-index --no-deps --quiet "$wheel" || die "pip does not install it"
folders=("$out"/venv/lib/python3*/site-packages)
echo "$beside" >"${folders[0]}/beside.pth"
export PATH=$out/venv/bin:$PATH
[ "$(command -v muster)" = "$out/venv/bin/muster" ] || die "muster is $(command -v muster)"
muster version | head -n 1

# shellcheck disable=SC2016
rank='[ '"$gpus"' -gt 1 ] || export LOCAL_RANK=0 NCCL_HOSTID=host$RANK NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo; exec "$@"'
port=$((20000 + RANDOM % 12000))
rm -rf "$out/run"
muster run --dir "$out/run" -- python3 -m torch.distributed.run --nnodes 1 --node-rank 0 --nproc-per-node 2 \
  --master-addr 127.0.0.1 --master-port $port --no-python \
  bash -c "$rank" rank python3 "$here/../train.py" model 30 >"$out/job.txt" 2>&1 || die "status $?: $(tail -n 5 "$out/job.txt")"
muster report "$out/run" >"$out/report.txt" || die "no report"
muster report "$out/run" --format json >"$out/report.json" || die "no report"
python3 - "$out/report.json" <<'PY' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
for rank in report["ranks"]:
    print("rank %s: %d operations, %d timed" % (rank["rank"], rank["ops"], rank["timing"]["timed_ops"]))
sys.exit(sorted(r["rank"] for r in report["ranks"] if r["ops"]) != [0, 1])
PY
echo "== all right"
