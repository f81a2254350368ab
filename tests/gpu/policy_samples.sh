#!/bin/bash
# What the sample policies in config/ are worth on this machine's GPUs: the time of all-reduces of
# 8 B to 64 MiB with each, against none, in interleaved rounds. See --help.
set -u
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    cat <<'TEXT'
usage: policy_samples.sh [options] [POLICY.yaml...]
  --build DIR      where muster was built (default: build, beside tests/)
  --part A,...     no-p2p, network (default: both)
  --gpus N         default 4
  --nccl PATH      libnccl to load (default: wherever it is found)
  --budget S       seconds for all of it, set-up included; starts no round that would not end
                   within (default 100)
  --rounds N       at most (default 40)
  --sizes B,...    default: 15 from 8 B to 64 MiB
  --rate R         of the link in part network, for tc (default 2gbit)
  --raw FILE       append every process life as a line of JSON; default: thrown away
no-p2p: one host with NCCL_P2P_DISABLE=1, config/no-p2p.yaml.
network: two network namespaces, half of the GPUs in each, joined by a veth pair whose first end is
limited to R; config/flaky-network.yaml. Needs root, ip and tc (or IP and TC name them).
POLICY.yaml: measured in place of the sample, side by side, to find a better one; with one --part.
Ratio: with the policy / without, of the medians over rounds; 95 % interval by drawing rounds. No
profiler is loaded while it measures; one more life per policy shows what ran.
TEXT
}

build=$here/../../build parts=no-p2p,network gpus=4 nccl='' budget=100 rounds=40 rate=2gbit raw=''
sizes=8,512,4KiB,16KiB,32KiB,64KiB,128KiB,256KiB,512KiB,1MiB,2MiB,4MiB,8MiB,16MiB,64MiB
policies=()
while [ $# -gt 0 ]; do
    case $1 in
    --help) usage; exit 0 ;;
    --*) [ $# -ge 2 ] || { usage >&2; exit 2; } ;;
    *) policies+=("$(realpath "$1")"); shift; continue ;;
    esac
    case $1 in
    --build) build=$2 ;;
    --part) parts=$2 ;;
    --gpus) gpus=$2 ;;
    --nccl) nccl=$2 ;;
    --budget) budget=$2 ;;
    --rounds) rounds=$2 ;;
    --sizes) sizes=$2 ;;
    --rate) rate=$2 ;;
    --raw) raw=$2 ;;
    *) echo "policy_samples: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift 2
done

die() {
    echo "policy_samples: $*" >&2
    exit 1
}

find_file() { # NAME: below the build directory
    find "$build" -name "$1" -type f -print -quit 2>/dev/null
}

program=$(find_file allreduce)
plugin=$(find_file libnccl-profiler-muster.so)
command=$(find_file muster)
[ -n "$program" ] && [ -n "$plugin" ] && [ -n "$command" ] ||
    die "$build: needs allreduce, libnccl-profiler-muster.so and muster: see --build"
IP=${IP:-ip} TC=${TC:-tc}
work=$(mktemp -d "${TMPDIR:-/tmp}/samples-XXXXXX") || exit 1
lines=${raw:-$work/raw}
session=$(date -u +%Y%m%dT%H%M%SZ)-$$
spaces=()

clean() {
    local space
    for space in ${spaces[@]+"${spaces[@]}"}; do
        $IP netns del "$space" 2>/dev/null
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# One link between two namespaces; $environment of the ranks becomes that of two hosts.
two_hosts() {
    local k space
    gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$work/two_hosts.so" "$here/two_hosts.c" ||
        die "cannot compile two_hosts.c"
    for k in 0 1; do
        space=muster$$-$k
        $IP netns add "$space" || die "cannot make a network namespace: is this root?"
        spaces+=("$space")
        environment+=("TWO_HOSTS_NETNS$k=/var/run/netns/$space" "TWO_HOSTS_IFNAME$k=mv$k")
    done
    $IP link add mv0 netns "${spaces[0]}" type veth peer name mv1 netns "${spaces[1]}" ||
        die "cannot make the link"
    for k in 0 1; do
        { $IP -n "${spaces[k]}" addr add 10.77.0.$((k + 1))/24 dev mv$k &&
            $IP -n "${spaces[k]}" link set lo up && $IP -n "${spaces[k]}" link set mv$k up; } ||
            die "cannot set up mv$k"
    done
    $TC -n "${spaces[0]}" qdisc add dev mv0 root tbf rate "$rate" burst 4mb latency 50ms ||
        die "cannot limit mv0 to $rate"
    environment+=("LD_PRELOAD=$work/two_hosts.so${LD_PRELOAD:+:$LD_PRELOAD}")
}

# A process life with policy $1 (none: without) in round $2; its lines go to $work/life.
life() {
    local with=()
    [ "$1" = none ] || with=("NCCL_TUNER_PLUGIN=$(basename "$tuner")" "MUSTER_CONFIG=$1")
    env -u NCCL_PROFILER_PLUGIN -u NCCL_TUNER_PLUGIN -u MUSTER_POLICY_INLINE \
        LD_LIBRARY_PATH="$(dirname "$tuner")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        ${environment[@]+"${environment[@]}"} ${with[@]+"${with[@]}"} "${@:3}" \
        timeout -k 5 60 "$program" --json --deadline 50 --gpus "$gpus" ${nccl:+--nccl "$nccl"} \
        "${job[@]}" >"$work/out" 2>"$work/err" &&
        sed "s/^{/{\"session\":\"$session\",\"round\":$2,\"case\":\"$(basename "$1")\",/" \
            "$work/out" >"$work/life"
}

# What the job did under the policy, by the profiler.
show() {
    rm -rf "$work/run"
    if ! life "$1" 0 "NCCL_PROFILER_PLUGIN=$(basename "$plugin")" "MUSTER_DIR=$work/run" \
        MUSTER_TIMING=light; then
        echo "policy_samples: $1: $(tail -n 1 "$work/err")" >&2
    elif [ -d "$work/run" ]; then
        "$command" report --by rule "$work/run"
    else
        echo "policy_samples: $1: nothing was recorded, so what ran is not known" >&2
    fi
}

# Rounds of all cases in random order until second $1.
measure() {
    local begin longest=0 round=1 name
    : >"$work/part"
    while [ "$round" -le "$rounds" ] && [ $((SECONDS + longest)) -le "$1" ]; do
        begin=$SECONDS
        for name in $(printf '%s\n' none "${cases[@]}" | shuf); do
            if life "$name" "$round"; then
                cat "$work/life" >>"$work/part"
            else
                echo "policy_samples: round $round, $name: $(tail -n 1 "$work/err")" >&2
            fi
        done
        [ $((SECONDS - begin)) -le "$longest" ] || longest=$((SECONDS - begin))
        round=$((round + 1))
    done
    cat "$work/part" >>"$lines"
    [ -s "$work/part" ] || die "$part: not one round in the time that is left, or no life that ended well"
    echo "$((round - 1)) rounds, the longest of $longest s"
    python3 "$here/policy_ratios.py" "$work/part"
}

tuner=$(find_file libnccl-tuner-muster.so)
[ -n "$tuner" ] || tuner=$(find "$build" -name libnccl-tuner-muster.so -print -quit)
[ -n "$tuner" ] || die "$build: no libnccl-tuner-muster.so"
count=$(tr , '\n' <<<"$parts" | grep -c .)
[ ${#policies[@]} -eq 0 ] || [ "$count" -eq 1 ] || die "policies of your own go with one --part"
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
done_parts=0
for part in ${parts//,/ }; do
    # of the time that is left, this part's share, less some seconds for what ran
    until=$((SECONDS + (budget - SECONDS) / (count - done_parts) - 6 * (${#policies[@]} + 1)))
    environment=()
    case $part in
    no-p2p)
        environment=(NCCL_P2P_DISABLE=1)
        cases=("$here/../../config/no-p2p.yaml")
        job=(--mode launch --iters 20 --warmup 5 --rounds 3 --sizes "$sizes")
        ;;
    network)
        two_hosts
        cases=("$here/../../config/flaky-network.yaml")
        # each size once a step: seconds must go round at the speed of the link
        job=(--mode step --warmup 1 --rounds 3 --sizes "$sizes")
        ;;
    *) die "no such part: $part" ;;
    esac
    [ ${#policies[@]} -eq 0 ] || cases=("${policies[@]}")
    echo "== $part, $gpus GPUs${gpu:+, $gpu}"
    measure "$until"
    for policy in "${cases[@]}"; do
        show "$policy"
    done
    done_parts=$((done_parts + 1))
done
echo "== $SECONDS s"
