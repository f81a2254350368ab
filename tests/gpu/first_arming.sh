#!/usr/bin/env bash
# The stall of a communicator's first timed operation: its first all-reduces with kernel timing
# (channels) and without (light), by version of NCCL.
# usage: first_arming.sh BUILD [ROUNDS]    default 4 rounds of one life of each case, by turns
# BUILD is where muster was built. Versions: the libnccl that is found by itself, PyTorch's, and
# those in NCCL_LIBRARIES (paths, separated by colons). A life prints the host's time of its first
# 8 all-reduces of 8 bytes, each waited for, the mean over ranks. Exit status 77: no two GPUs.
set -eu
[ $# -ge 1 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
build=$(realpath "$1")
rounds=${2:-4}
[ "$(nvidia-smi --list-gpus 2>/dev/null | wc -l)" -ge 2 ] || { echo "skipped: needs two GPUs"; exit 77; }
program=$(find "$build" -name allreduce -type f -print -quit)
muster=$(find "$build" -name libnccl-profiler-muster.so -type f -print -quit)
[ -n "$program" ] && [ -n "$muster" ] || { echo "first_arming: $build: muster is not built" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$(dirname "$muster")
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

libraries=()
if ldconfig -p | grep -q 'libnccl\.so\.2'; then
  libraries+=("$(ldconfig -p | awk '/libnccl\.so\.2/ {print $NF; exit}')")
fi
of_torch=$(python3 -c 'import nvidia.nccl, os; print(os.path.join(list(nvidia.nccl.__path__)[0], "lib", "libnccl.so.2"))' 2>/dev/null || true)
[ -f "$of_torch" ] && libraries+=("$of_torch")
IFS=: read -ra more <<<"${NCCL_LIBRARIES:-}"
libraries+=(${more[@]+"${more[@]}"})

for library in "${libraries[@]}"; do
  for _ in $(seq "$rounds"); do
    for timing in light channels; do
      NCCL_PROFILER_PLUGIN=libnccl-profiler-muster.so MUSTER_TIMING=$timing MUSTER_DIR=$work/run \
        timeout 60 "$program" --json --mode first --rounds 8 --nccl "$library" >"$work/out" ||
        { echo "first_arming: $library, $timing: failed" >&2; exit 1; }
      sed "s,^{,{\"library\":\"$library\"\,\"timing\":\"$timing\"\,," "$work/out" >>"$work/lives"
      rm -rf "$work/run"
    done
  done
done
python3 - "$work/lives" <<'PY'
import json, statistics, sys
lives = {}
for line in open(sys.argv[1]):
    life = json.loads(line)
    lives.setdefault((life["library"], life["timing"]), []).append(life["us"])
for library in dict.fromkeys(key[0] for key in lives):
    print(library)
    first = {}
    for timing in ("light", "channels"):
        columns = [statistics.median(times) for times in zip(*lives[library, timing])]
        first[timing] = columns[0]
        print("  %-8s us: %s" % (timing, " ".join("%.1f" % us for us in columns)))
    print("  the first operation takes %.1f ms more with NCCL's stamps (median of %d lives each)" % (
        (first["channels"] - first["light"]) / 1e3, len(lives[library, "channels"])))
PY
