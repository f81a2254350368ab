#!/usr/bin/env bash
# What a policy does to a real NCCL on this machine's GPUs. See --help.
set -u
usage() {
  cat <<'TEXT'
usage: policy.sh [PART...]     without an argument all parts but the last two of tune
  forced      simple, ll, ll128, ring, tree, 8 channels for 64 KiB to 8 MiB: exactly those change
  mixed       CALLS (100000) collectives under 50 rules: right results, no divergence, no hang
  divergent   ranks with policies of their own, without effect: found while the job lives
  presence    the tuner without a policy against no tuner: same choices; ratio of small all-reduces
  tune        muster tune on all-reduces of this machine; what it found measured again
  tune_no_p2p the same with NCCL_P2P_DISABLE=1
  tune_netns  the same over two network namespaces with a link of RATE (2gbit); root, ip and tc
  cost        nanoseconds of a decision, beside EXAMPLE_TUNER
Environment: MUSTER, the command (its libraries are where it finds them); ALLREDUCE and
DECISION_COST, bench/'s programs, else looked for below BUILD (two folders above MUSTER's);
EXAMPLE_TUNER, NCCL's example tuner; OUT, where to keep reports; GPUS; BUDGET of tune (60s);
ROUNDS of presence (6). Exit status 77: skipped, no two GPUs or no PyTorch here.
TEXT
}
[ "${1:-}" != --help ] || { usage; exit 0; }
here=$(cd "$(dirname "$0")" && pwd)
muster=$(realpath "${MUSTER:?names the command}")
build=${BUILD:-$(dirname "$muster")/../..}
gpus=${GPUS:-$(nvidia-smi --list-gpus 2>/dev/null | wc -l)}
if [ "$gpus" -lt 2 ] || ! python3 -c 'import torch' 2>/dev/null; then
  echo "skipped: needs two GPUs and PyTorch"
  exit 77
fi
work=$(mktemp -d)
spaces=()
clean() {
  local space
  for space in ${spaces[@]+"${spaces[@]}"}; do ${IP:-ip} netns del "$space" 2>/dev/null; done
  rm -rf "$work"
}
trap clean EXIT
out=${OUT:-$work/out}
mkdir -p "$out"
failed=0
fail() { echo "FAIL $*"; failed=1; }
find_program() { # NAME VALUE
  [ -n "$2" ] && { realpath "$2"; return; }
  find "$build" -maxdepth 3 -name "$1" -type f -perm -u+x -print -quit 2>/dev/null
}
allreduce=$(find_program allreduce "${ALLREDUCE:-}")
decision_cost=$(find_program decision_cost "${DECISION_COST:-}")

. "$here/ranks.sh"
export gpus rank_program="$here/policy_job.py"

# job NAME [run's options] -- MODE [N]: a recorded job; its account in $out/NAME.job.
job() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  "$muster" run --no-report --dir "$work/$name" ${options[@]+"${options[@]}"} -- \
    bash -c "ranks $*" >"$out/$name.job" 2>"$out/$name.err" ||
    { fail "$name: the job failed: $(tail -n 2 "$out/$name.err")"; return 1; }
  sed "s/^/     $name: /" "$out/$name.job"
  "$muster" report "$work/$name" --format json >"$out/$name.json" || fail "$name: no report"
  "$muster" diagnose "$work/$name" --format json >"$out/$name.findings" 2>>"$out/$name.err"
  return 0 # 1 is its way of saying that there are findings
}

# findings NAME: kinds and ranks of hangs and divergences.
findings() {
  python3 - "$out/$1.findings" <<'PY'
import json, sys
for f in json.load(open(sys.argv[1]))["findings"]:
    if f["kind"].startswith("hang_") or f["kind"] == "policy_divergence":
        print(f["kind"], *f["ranks"])
PY
}

no_findings() {
  local found
  found=$(findings "$1") || fail "$1: no findings could be read"
  [ -z "$found" ] || fail "$1: $found"
}

rule() { # NAME COLLECTIVES PREFER
  printf 'muster: 1\npolicy:\n- name: %s\n  match: {collective: [%s], bytes: 64KiB..8MiB}\n  prefer: {%s}\n' \
    "$1" "$2" "$3"
}

plain() { [ -s "$out/plain.json" ] || job plain --timing full -- sweep 3; }

forced() {
  local all="all_reduce, all_gather, reduce_scatter, broadcast" name kinds prefer want
  plain || return
  while IFS='|' read -r name kinds prefer want; do
    rule "$name" "$kinds" "$prefer" >"$out/$name.yaml"
    job "$name" --timing full --policy "$out/$name.yaml" -- sweep 3 || continue
    python3 "$here/policy_check.py" "$out/plain.json" "$out/$name.json" "$want" \
      "$(tr -d ' ' <<<"$kinds")" || failed=1
    no_findings "$name"
    "$muster" report --by rule "$work/$name" >"$out/$name.rules" 2>&1
    sed -n '/^rules of/,$s/^/     /p' "$out/$name.rules"
  done <<TEXT
simple|$all|proto: simple|proto=simple
ll|$all|proto: ll|proto=ll
ll128|$all|proto: ll128|proto=ll128
ring|all_reduce|algo: ring|algo=ring
tree|all_reduce|algo: tree|algo=tree
channels|all_reduce|channels: 8|channels=8
TEXT
}

fifty_rules() {
  python3 - <<'PY'
import random
r = random.Random(50)
print("muster: 1\npolicy:")
for i in range(50):
    kind = r.choice(["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
    algo = r.choice(["ring", "tree"]) if kind == "all_reduce" else "ring"
    low = r.randrange(0, 1 << 20)
    act = r.choice(["prefer: {algo: %s, proto: %s}" % (algo, r.choice(["ll", "ll128", "simple"])),
                    "prefer: {proto: %s, channels: %d}" % (r.choice(["ll", "simple"]), r.randrange(1, 17)),
                    "avoid: {proto: %s}" % r.choice(["ll", "ll128", "simple"]),
                    "channels: %d" % r.randrange(1, 17), "leave: true"])
    print("- {name: rule-%d, match: {collective: %s, bytes: %d..%d}, %s}" %
          (i, kind, low, low + r.randrange(256, 1 << 18), act))
PY
}

mixed() {
  fifty_rules >"$out/fifty.yaml"
  "$muster" policy check "$out/fifty.yaml" >"$out/fifty.check" 2>&1 || fail "fifty.yaml: $(head -n 3 "$out/fifty.check")"
  job mixed --policy "$out/fifty.yaml" -- mixed "${CALLS:-100000}" || return
  no_findings mixed
  "$muster" report --by rule "$work/mixed" >"$out/mixed.rules" 2>&1
  echo "     $(grep -c . "$out/mixed.rules") lines of rules and what ran under them in $out/mixed.rules"
}

divergent() {
  local unused='muster: 1
policy:
- {name: unused, match: {collective: reduce}, prefer: {algo: ring}}
' live
  printf '%s' "$unused" >"$out/unused.yaml"
  # What NCCL does not offer changes nothing: where NVLS is off, or else a rule that is not met.
  local other='muster: 1
policy:
- {name: other, match: {collective: all_reduce}, prefer: {algo: nvls}}
'
  [ "${NCCL_NVLS_ENABLE:-}" = 0 ] || other="$unused# another text
"
  POLICY_1=$other job divergent --policy "$out/unused.yaml" -- wait 4 || return
  if [ "$gpus" -gt 2 ]; then
    [ "$(findings divergent)" = "policy_divergence 1" ] || fail "divergent: found '$(findings divergent)', not rank 1"
  else
    [ "$(findings divergent)" = "policy_divergence 0 1" ] || fail "divergent: found '$(findings divergent)'"
  fi
  live=$(cat "$work"/divergent/*.findings.jsonl 2>/dev/null | grep -c policy_divergence)
  [ "$live" -ge 1 ] || fail "divergent: not found while the job lived"
  python3 - "$out/divergent.job" "$work"/divergent/*.findings.jsonl <<'PY'
import json, os, sys
ready = json.loads(open(sys.argv[1]).readline())["ready_unix"]
for path in sys.argv[2:]:
    print("     found %.1f s after the first barrier" % (os.stat(path).st_mtime - ready))
PY
  grep -h policy_divergence "$out/divergent.err" | head -n 2 | sed 's/^/     /'
  cp -r "$work/divergent" "$out/divergent-run" 2>/dev/null
}

presence() {
  plain || return
  # No policy: muster run does not load the tuner, so that it is named by hand.
  NCCL_TUNER_PLUGIN=libnccl-tuner-muster.so job with-tuner --timing full -- sweep 3 || return
  python3 "$here/policy_check.py" --same "$out/plain.json" "$out/with-tuner.json" || failed=1
  [ -n "$allreduce" ] || { fail "presence: no bench/allreduce: name it with ALLREDUCE"; return; }
  local folder round name
  folder=$(eval "$("$muster" env)"; printf %s "${LD_LIBRARY_PATH%%:*}")
  : >"$out/presence.lines"
  for round in $(seq "${ROUNDS:-6}"); do
    for name in $(shuf -e none none-again tuner); do
      (
        [ "$name" != tuner ] || export NCCL_TUNER_PLUGIN=libnccl-tuner-muster.so \
          LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        timeout 60 "$allreduce" --gpus "$gpus" --mode launch --sizes 8,32768 --iters 2000 --rounds 3 --json
      ) 2>"$out/presence.err" | sed "s/^{/{\"session\":\"s\",\"round\":$round,\"case\":\"$name\",/" >>"$out/presence.lines"
    done
  done
  python3 "$here/policy_ratios.py" "$out/presence.lines" || fail "presence: $(tail -n 1 "$out/presence.err")"
}

# tune_job NAME [VAR=value...]: tunes all-reduces, then measures the result against none.
tune_job() {
  local name=$1 cases c
  shift
  [ -n "$allreduce" ] || { fail "$name: no bench/allreduce: name it with ALLREDUCE"; return; }
  local command=(env "$@" timeout 60 "$allreduce" --gpus "$gpus" --mode step --warmup 3
    --rounds "${STEPS:-60}" --sizes "${SIZES:-4KiB,64KiB,1MiB,8MiB}")
  "$muster" tune --budget "${BUDGET:-60s}" -o "$out/$name.yaml" -- "${command[@]}" 2>"$out/$name.err"
  local rc=$?
  tail -n 30 "$out/$name.err" | sed 's/^/     /'
  [ $rc = 0 ] || { fail "$name: muster tune exits with $rc"; return; }
  "$muster" policy check "$out/$name.yaml" || fail "$name: what it wrote has errors"
  sed 's/^/     | /' "$out/$name.yaml"
  grep -q '^ *- name' "$out/$name.yaml" || { echo "ok   $name: no rule was proven; nothing to measure again"; return; }
  : >"$out/$name.lines"
  for c in 1 2 3 4; do
    for cases in $(shuf -e none tuned); do
      local with=()
      [ "$cases" = none ] || with=("NCCL_TUNER_PLUGIN=libnccl-tuner-muster.so" "MUSTER_CONFIG=$out/$name.yaml"
        "LD_LIBRARY_PATH=$(eval "$("$muster" env)"; printf %s "$LD_LIBRARY_PATH")")
      env ${with[@]+"${with[@]}"} "${command[@]}" --json 2>/dev/null |
        sed "s/^{/{\"session\":\"s\",\"round\":$c,\"case\":\"$cases\",/" >>"$out/$name.lines"
    done
  done
  python3 "$here/policy_ratios.py" "$out/$name.lines" || fail "$name: not measured again"
}

tune() { tune_job tune-local; }

tune_no_p2p() {
  SIZES=${SIZES:-64KiB,256KiB,512KiB,1MiB,4MiB} tune_job tune-no-p2p NCCL_P2P_DISABLE=1
}

tune_netns() {
  local k space environment=()
  gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$work/two_hosts.so" "$here/two_hosts.c" || { fail "cannot compile two_hosts.c"; return; }
  for k in 0 1; do
    space=muster$$-$k
    ${IP:-ip} netns add "$space" || { fail "tune_netns: cannot make a network namespace"; return; }
    spaces+=("$space")
    environment+=("TWO_HOSTS_NETNS$k=/var/run/netns/$space" "TWO_HOSTS_IFNAME$k=mv$k")
  done
  ${IP:-ip} link add mv0 netns "${spaces[0]}" type veth peer name mv1 netns "${spaces[1]}" || { fail "cannot make the link"; return; }
  for k in 0 1; do
    ${IP:-ip} -n "${spaces[k]}" addr add 10.77.0.$((k + 1))/24 dev mv$k
    ${IP:-ip} -n "${spaces[k]}" link set lo up
    ${IP:-ip} -n "${spaces[k]}" link set mv$k up
  done
  ${TC:-tc} -n "${spaces[0]}" qdisc add dev mv0 root tbf rate "${RATE:-2gbit}" burst 4mb latency 50ms ||
    { fail "cannot limit mv0"; return; }
  STEPS=${STEPS:-20} BUDGET=${BUDGET:-100s} tune_job tune-netns "${environment[@]}" "LD_PRELOAD=$work/two_hosts.so"
}

cost() {
  [ -n "$decision_cost" ] || { fail "cost: no bench/decision_cost: name it with DECISION_COST"; return; }
  local tuner
  tuner=$(eval "$("$muster" env)"; printf %s "${LD_LIBRARY_PATH%%:*}")/libnccl-tuner-muster.so
  [ -e "$tuner" ] || tuner=$(find "$build" -maxdepth 3 -name libnccl-tuner-muster.so -print -quit)
  "$decision_cost" "$tuner" ${EXAMPLE_TUNER:+"$EXAMPLE_TUNER"} || fail "cost: decision_cost failed"
}

[ $# -gt 0 ] || set -- forced mixed divergent presence tune cost
for part in "$@"; do
  case $part in
  forced | mixed | divergent | presence | tune | tune_no_p2p | tune_netns | cost) ;;
  *) usage >&2; exit 2 ;;
  esac
  begin=$SECONDS
  echo "== $part"
  "$part"
  echo "     $((SECONDS - begin)) s"
done
echo "== $([ $failed = 0 ] && echo all right || echo FAILED), $SECONDS s"
exit $failed
