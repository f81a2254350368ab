#!/bin/bash
# What a profiler plugin adds to an all-reduce over all GPUs of this machine: rounds, in each of
# which every case gets one process life, in random order. See --help and docs/cost.md.
set -u
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    cat <<'TEXT'
usage: allreduce_overhead.sh [options] [PLUGIN.so...]
  --build DIR      where muster was built (default: build, beside bench/)
  --gpus N         default: all
  --nccl PATH      libnccl to load (default: wherever it is found)
  --rounds N       default 40
  --sizes B,...    default 8,32768
  --mode M         launch: host clock (default); gpu: CUDA events, for large sizes
  --iters N        all-reduces in a batch, default 4352: twice the distance of auto's blocks
  --batches N      batches of a size in a process life, default 5
  --warmup N       all-reduces before a size's batches, default 400: auto's first arming is in it
  --cases A,...    in every round (default none,none-again,empty,light,auto)
  --seldom A,...   in every 4th round only (default full)
  --pin CPU,...    rank r's calling thread stays on the r-th of these (default: as scheduled)
  --budget S       start no round that would not end within S seconds
  --raw FILE       append every process life as a line of JSON; default: thrown away
  --quick          8 rounds, all cases in each
  --together       a round's lives are started at once and work by turns: less time, and less that
                   differs between them
  --hosts          ranks are hosts of their own to NCCL, over sockets: they can share a GPU
  --no-check       do not look whether the plugins were loaded
Cases: none, none-again, empty (callbacks that do nothing, the events of light), handles (the same
with handles, so that NCCL makes all calls), empty-kernel (empty, kernels always timed), light,
auto, full, light-nomark, auto-nomark (no completion marks), light-nodiag, auto-nodiag (no diagnosis
while the job runs). PLUGIN.so is another plugin, a case
of its own in --seldom's rounds. Tables of several --raw files: overhead_stats.py FILE...
TEXT
}

build=$here/../build gpus='' nccl='' rounds=40 sizes=8,32768 mode=launch iters=4352 batches=5
warmup=400 cases=none,none-again,empty,light,auto seldom=full budget=0 pin='' raw='' every=4 check=1 hosts='' together=0
others=()
while [ $# -gt 0 ]; do
    case $1 in
    --help) usage; exit 0 ;;
    --quick) rounds=8 every=1; shift; continue ;;
    --no-check) check=0; shift; continue ;;
    --hosts) hosts=--hosts; shift; continue ;;
    --together) together=1; shift; continue ;;
    --*) [ $# -ge 2 ] || { usage >&2; exit 2; } ;;
    *) others+=("$1"); shift; continue ;;
    esac
    case $1 in
    --build) build=$2 ;;
    --gpus) gpus=$2 ;;
    --nccl) nccl=$2 ;;
    --rounds) rounds=$2 ;;
    --sizes) sizes=$2 ;;
    --mode) mode=$2 ;;
    --iters) iters=$2 ;;
    --batches) batches=$2 ;;
    --warmup) warmup=$2 ;;
    --cases) cases=$2 ;;
    --seldom) seldom=$2 ;;
    --budget) budget=$2 ;;
    --pin) pin=$2 ;;
    --raw) raw=$2 ;;
    *) echo "allreduce_overhead: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift 2
done

die() {
    echo "allreduce_overhead: $*" >&2
    exit 1
}

find_file() { # NAME: below the build directory
    find "$build" -name "$1" -type f -print -quit 2>/dev/null
}

program=$(find_file allreduce)
muster=$(find_file libnccl-profiler-muster.so)
command=$(find_file muster)
null=$(find_file libnull-plugin.so)
for file in "$program" "$muster" "$null"; do
    [ -n "$file" ] ||
        die "$build: needs allreduce, libnccl-profiler-muster.so and libnull-plugin.so: see --build"
done
for plugin in ${others[@]+"${others[@]}"}; do
    [ -f "$plugin" ] || die "$plugin: no such file"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/overhead-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
{ # nothing is diagnosed where nothing would be done about it
    printf 'muster: 1\non:\n'
    sed -nE 's/^ *ROW\([A-Z_]+, +([a-z_]+),.*/  \1: []/p' "$here/../plugin/base/finding_kinds.h"
} >"$work/nodiag.yaml"
trap 'exit 130' INT TERM
lines=${raw:-$work/raw}

# One search path for all cases: the environment is of the same size in all of them.
path=$(dirname "$muster"):$(dirname "$null")
for plugin in ${others[@]+"${others[@]}"}; do
    path=$path:$(cd "$(dirname "$plugin")" && pwd)
done
path=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
IFS=: read -ra folders <<<"$path"
for folder in "${folders[@]}"; do
    [ ! -e "$folder/libnccl-profiler.so" ] ||
        die "$folder/libnccl-profiler.so: NCCL loads it of itself, so that no case is \"none\""
done

light_mask=$((2 + 4 + 8 + 2048 + 4096)) # Coll, P2p, ProxyOp, KernelLaunch, CeColl
kernel_mask=$((16 + 64))                # ProxyStep, KernelCh

case_plugin() {
    case $1 in
    none | none-again) ;;
    empty | empty-kernel) echo libnull-plugin.so ;;
    handles) echo libnull-plugin-handles.so ;;
    light | auto | full | light-nomark | auto-nomark | light-nodiag | auto-nodiag) echo libnccl-profiler-muster.so ;;
    *)
        for plugin in ${others[@]+"${others[@]}"}; do
            [ "$(basename "$plugin")" = "$1" ] && echo "$1"
        done
        ;;
    esac
}

case_environment() { # NAME=VALUE, one a line
    local plugin
    plugin=$(case_plugin "$1")
    [ -z "$plugin" ] || echo "NCCL_PROFILER_PLUGIN=$plugin"
    case $1 in
    empty | handles) echo "NULL_PLUGIN_MASK=$light_mask" ;;
    empty-kernel) echo "NULL_PLUGIN_MASK=$((light_mask + kernel_mask))" ;;
    *-nodiag) echo "MUSTER_TIMING=${1%-nodiag}"; echo "MUSTER_CONFIG=$work/nodiag.yaml" ;;
    *-nomark) echo "MUSTER_TIMING=${1%-nomark}"; echo MUSTER_MARK=0 ;;
    light | auto | full) echo "MUSTER_TIMING=$1" ;;
    esac
}

# A process life of case $1 in round $2; its lines go to $work/$3/life. $4: the jobs of its turns.
life() {
    local environment=() at=$work/$3
    mapfile -t environment < <(case_environment "$1")
    rm -rf "$at"
    mkdir "$at"
    env -u NCCL_PROFILER_PLUGIN LD_LIBRARY_PATH="$path" MUSTER_DIR="$at/run" \
        NULL_PLUGIN_WITNESS="$at/witness" ${environment[@]+"${environment[@]}"} \
        timeout -k 5 90 "$program" --json --deadline 80 ${gpus:+--gpus "$gpus"} \
        ${4:+--turns "$4:$work/turns"} ${pin:+--pin "$pin"} ${nccl:+--nccl "$nccl"} ${hosts:+"$hosts"} \
        --mode "$mode" --sizes "$sizes" --iters "$iters" \
        --warmup "$warmup" --rounds "$batches" >"$at/out" 2>"$at/err" || return 1
    [ "$(wc -l <"$at/out")" -eq "$n_sizes" ] || return 1
    sed "s/^{/{\"session\":\"$session\",\"round\":$2,\"case\":\"$1\",/" "$at/out" >"$at/life"
}

# The same alone, once more if it failed.
life_or_again() {
    life "$1" "$2" 0 && return 0
    echo "allreduce_overhead: round $2, $1: $(tail -n 1 "$work/0/err"); once more" >&2
    life "$1" "$2" 0 && return 0
    echo "allreduce_overhead: round $2, $1: failed again: $(tail -n 1 "$work/0/err")" >&2
    return 1
}

one_by_one() { # ROUND CASE...: adds the round's lives to $lines
    local round=$1 name
    shift
    for name in "$@"; do
        if life_or_again "$name" "$round"; then
            cat "$work/0/life" >>"$lines"
        else
            missing=$((missing + 1))
        fi
    done
}

# The others wait for one that fails before its first turn; one that fails later works no turns beside
# theirs. Either way the round compares no equals: then none of them counts.
all_at_once() { # ROUND CASE...
    local round=$1 name slot=0 pids=() failed=0
    shift
    rm -f "$work/turns"
    for name in "$@"; do
        life "$name" "$round" "$((slot + 1))" "$#" &
        pids[slot]=$!
        slot=$((slot + 1))
    done
    for slot in "${!pids[@]}"; do
        wait "${pids[slot]}" || [ "$failed" -ne 0 ] || failed=$((slot + 1))
    done
    if [ "$failed" -ne 0 ]; then
        echo "allreduce_overhead: round $round: $(tail -qn 1 "$work/$failed/err")" >&2
        missing=$((missing + $#))
        return
    fi
    for slot in "${!pids[@]}"; do
        cat "$work/$((slot + 1))/life" >>"$lines"
    done
}

note() { # TEXT without quotes: into the raw lines
    printf '{"session":"%s","note":"%s"}\n' "$session" "$*" >>"$lines"
}

recorded() {
    find "$work/0/run" -mindepth 1 -print -quit 2>/dev/null | grep -q .
}

loaded() { # whether the plugin of case $1 left the trace it leaves
    case $(case_plugin "$1") in
    libnccl-profiler-muster.so) recorded ;;
    libnull-plugin*) [ -e "$work/0/witness" ] ;;
    '') ! recorded && [ ! -e "$work/0/witness" ] ;;
    *) grep -qis 'profiler' "$work"/nccl.* ;;
    esac
}

# Before the first round: does every case run, with its plugin in it?
check_case() {
    export NCCL_DEBUG_FILE=$work/nccl.%p
    case $1 in *.so) export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT ;; esac
    life_or_again "$1" 0 || die "case $1 does not run: $(cat "$work/0/err")"
    unset NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE
    loaded "$1" || die "case $1: the plugin was not loaded, or another one was"
    case $(case_plugin "$1") in
    libnccl-profiler-muster.so)
        [ -z "$command" ] ||
            note "$1: $("$command" report --format json "$work/0/run" 2>/dev/null |
                python3 "$here/overhead_stats.py" --describe)"
        ;;
    *.so) grep -ihs profiler "$work"/nccl.* | head -n 2 ;;
    esac
    rm -f "$work"/nccl.*
}

shuffled() { # CASE,...
    tr , '\n' <<<"$1" | grep . | shuf
}

session=$(date -u +%Y%m%dT%H%M%SZ)-$$
commas=${sizes//[!,]/}
n_sizes=$((${#commas} + 1))
for plugin in ${others[@]+"${others[@]}"}; do
    seldom=${seldom:+$seldom,}$(basename "$plugin")
done
for name in ${cases//,/ } ${seldom//,/ }; do
    case $name in
    none | none-again) ;;
    *) [ -n "$(case_plugin "$name")" ] || die "unknown case $name: see --help" ;;
    esac
done
if [ -z "$gpus" ]; then
    gpus=$("$program" --json --sizes 8 --iters 1 --rounds 1 --warmup 0 ${nccl:+--nccl "$nccl"} \
        2>"$work/err" | sed -n 's/.*"gpus":\([0-9]*\).*/\1/p')
    [ -n "$gpus" ] || die "cannot count the GPUs: $(cat "$work/err")"
fi
[ "$gpus" -ge 2 ] || die "$gpus GPU: an all-reduce needs at least 2"

note "$gpus GPUs, mode $mode, $batches batches of $iters after $warmup; $(uname -m), $(nproc) cores"
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
[ -z "$gpu" ] || note "$gpu"
if [ $check = 1 ]; then
    for name in ${cases//,/ } ${seldom//,/ }; do
        check_case "$name"
    done
fi

missing=0 longest=0 round=1
while [ "$round" -le "$rounds" ]; do
    begin=$SECONDS
    if [ "$budget" -gt 0 ] && [ $((SECONDS + longest)) -gt "$budget" ]; then
        echo "allreduce_overhead: the budget of $budget s ends after $((round - 1)) rounds" >&2
        break
    fi
    names=$cases
    [ $(((round - 1) % every)) -ne 0 ] || names=$names,$seldom
    mapfile -t now < <(shuffled "$names")
    if [ "$together" = 1 ]; then
        all_at_once "$round" "${now[@]}"
    else
        one_by_one "$round" "${now[@]}"
    fi
    [ $((SECONDS - begin)) -le "$longest" ] || longest=$((SECONDS - begin))
    round=$((round + 1))
done
[ "$missing" -eq 0 ] || note "$missing process lives failed twice and are missing"
note "$((round - 1)) rounds in $SECONDS s, the longest $longest s"
python3 "$here/overhead_stats.py" "$lines"
