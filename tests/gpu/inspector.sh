#!/usr/bin/env bash
# NVIDIA's Inspector beside muster on this machine's GPUs: what a callback and an all-reduce cost.
# usage: INSPECTOR_SRC=DIR inspector.sh BUILD [SECONDS]
#        INSPECTOR_SO=FILE inspector.sh BUILD [SECONDS]
# BUILD is where muster was built. DIR is the folder plugins/ of NVIDIA's nccl sources; Inspector is
# built in a copy of it (needs make, g++ and CUDA's headers below CUDA_HOME, default
# /usr/local/cuda). SECONDS (default 40) is for the rounds of all-reduces, after one life of each
# case that is not counted. What else the plugins shall read stands in the environment, such as
# NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS. Exit status 77: no two GPUs.
set -eu
[ $# -ge 1 ] || { sed -n '2,10s/^# //p' "$0" >&2; exit 2; }
build=$(realpath "$1")
seconds=${2:-40}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${INSPECTOR_SO:-}" ]; then
  [ -d "${INSPECTOR_SRC:-}/profiler/inspector" ] ||
    { echo "inspector: INSPECTOR_SRC: no profiler/inspector in \"${INSPECTOR_SRC:-}\"" >&2; exit 2; }
  cp -r "$INSPECTOR_SRC" "$work/plugins"
  # CUDA's runtime goes in, so that no other version of it is taken.
  make -C "$work/plugins/profiler/inspector" -j"$(nproc)" CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" \
    LIBS='-lcudart_static -ldl -lrt -lpthread' >"$work/make.log" 2>&1 ||
    { tail -n 20 "$work/make.log" >&2; exit 1; }
  INSPECTOR_SO=$work/plugins/profiler/inspector/libnccl-profiler-inspector.so
fi
inspector=$(realpath "$INSPECTOR_SO")
muster=$(find "$build" -name libnccl-profiler-muster.so -type f -print -quit)
callback_cost=$(find "$build" -name callback_cost -type f -print -quit)
[ -n "$muster" ] && [ -n "$callback_cost" ] || { echo "inspector: $build: muster is not built" >&2; exit 2; }

export NCCL_INSPECTOR_ENABLE=1
export NCCL_INSPECTOR_DUMP_DIR=$work/dump
export NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=${NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS:-500}
if [ "$(nvidia-smi --list-gpus 2>/dev/null | wc -l)" -lt 2 ]; then
  echo "built $inspector; skipped: the rest needs two GPUs"
  exit 77
fi
echo "== callbacks"
# A plugin's process that dies at its end has been measured: the all-reduces are worth having.
failed=0
"$callback_cost" --rounds 40 --api 5 --gpu "$muster" "$inspector" || failed=$?
echo "== all-reduces"
"$here/../../bench/allreduce_overhead.sh" --build "$build" --quick --rounds 40 --budget "$seconds" \
  --cases none,none-again,light,auto,full --seldom '' "$inspector" || failed=$?
exit "$failed"
