#!/bin/bash
# policy_samples.sh on GPUs that are none: every size gets its line, and what cannot be measured is
# said.  policy_samples_test.sh ALLREDUCE MUSTER PLUGIN FAKE_GPU_DIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "policy_samples_test: $*" >&2
    cat "$work/out" "$work/err" >&2
    exit 1
}
run() {
    "$here/policy_samples.sh" --build "$work/build" --gpus 2 "$@" >"$work/out" 2>"$work/err"
}

mkdir "$work/build"
! run || fail "passes without a build"
grep -q 'needs allreduce' "$work/err" || fail "what is missing is not named"
cp "$1" "$2" "$3" "$work/build"
ln -s "$(basename "$3")" "$work/build/libnccl-tuner-muster.so"
export LD_LIBRARY_PATH=$4

run --part no-p2p --rounds 3 --budget 300 --sizes 8,512,4KiB --raw "$work/raw" || fail "does not run"
[ "$(grep -Ec '^ +[0-9]+ +3 .*[0-9]\] +no-p2p\.yaml$' "$work/out")" = 3 ] || fail "not 3 sizes"
[ "$(grep -c '"case":"none"' "$work/raw")" = 9 ] || fail "not 3 lives without"

! run --part nowhere || fail "an unknown part passes"
! run --part no-p2p --budget 1 --rounds 0 || fail "no rounds pass"
grep -q 'not one round' "$work/err" || fail "no rounds are not said"
! run "$work/policy.yaml" || fail "a policy for both parts passes"
