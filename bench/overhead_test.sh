#!/bin/bash
# allreduce_overhead.sh with a stand-in for the all-reduce program, whose times are known, and with
# the real program on GPUs that are none.
#   overhead_test.sh [ALLREDUCE NULL_PLUGIN MUSTER_PLUGIN FAKE_GPU_DIR]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "overhead_test: $*" >&2
    cat "$work/out" "$work/err" >&2
    exit 1
}
run() { # ARGUMENTS: into $work/out and $work/err
    "$here/allreduce_overhead.sh" --build "$work/build" "$@" >"$work/out" 2>"$work/err"
}
expect() { # FILE PATTERN WHAT
    grep -Eq -- "$2" "$work/$1" || fail "$3"
}

# Leaves the traces that the plugins leave; takes 10 us, 10.05 with light, 10.3 with auto, 13 with
# full, give or take 0.2 %.
mkdir "$work/build"
touch "$work/build/libnccl-profiler-muster.so" "$work/build/libnull-plugin.so"
cat >"$work/build/allreduce" <<'STANDIN'
#!/bin/bash
count=$(cat "$STANDIN/lives" 2>/dev/null || echo 0)
echo $((count + 1)) >"$STANDIN/lives"
case $count in $STANDIN_FAILS) echo "rank 3 fell over" >&2; exit 1 ;; esac
us=10000 RANDOM=$count
case ${NCCL_PROFILER_PLUGIN-none} in
libnull-plugin.so)
    [ "$NULL_PLUGIN_MASK" = 6158 ] || exit 9
    touch "$NULL_PLUGIN_WITNESS" ;;
libnccl-profiler-muster.so)
    [ -n "$STANDIN_DEAD_PLUGIN" ] || mkdir "$MUSTER_DIR" "$MUSTER_DIR/a.log"
    [ -z "${MUSTER_CONFIG-}" ] || cp "$MUSTER_CONFIG" "$STANDIN/config"
    case $MUSTER_TIMING in light) us=10050 ;; auto) us=10300 ;; full) us=13000 ;; esac ;;
none) ;;
*) exit 8 ;;
esac
for bytes in 8 32768; do
    ((us += RANDOM % 41 - 20))
    printf '{"gpus":4,"mode":"launch","bytes":%d,"median_us":1,"us":[%d.%03d,%d.%03d,99]}\n' \
        $bytes $((us / 1000)) $((us % 1000)) $((us / 1000)) $((us % 1000))
done
STANDIN
chmod +x "$work/build/allreduce"
export STANDIN=$work STANDIN_FAILS='' STANDIN_DEAD_PLUGIN=''

# 12 rounds of 5 cases, full in 3 of them, and one life of each of the 6 before.
run --rounds 12 --gpus 4 --raw "$work/raw" || fail "does not run"
[ "$(cat "$work/lives")" = 69 ] || fail "$(cat "$work/lives") process lives, not 69"
[ "$(grep -c '"case"' "$work/raw")" = 126 ] || fail "not two lines for each life that counts"
for row in 'none +12 ' 'none-again +12 ' 'empty +12 .* reached$|empty +12 .* reached ' \
    'light +12 .* reached .* reached ' 'auto +12 .* not reached .* not reached ' \
    'full +3 .*1\.(29|30)[0-9]+ .* not reached '; do
    [ "$(grep -Ec "^($row)" "$work/out")" = 2 ] || fail "no two rows of \"$row\""
done
expect out '^8 bytes|4 GPUs, 8 bytes \(launch\)' "no heading"

# Rounds of two calls are put together; another machine's stay apart.
python3 "$here/overhead_stats.py" "$work/raw" "$work/raw" >"$work/out"
expect out '^none +12 ' "a file named twice counts twice"
run --rounds 3 --gpus 4 --seldom '' --no-check --raw "$work/raw2"
python3 "$here/overhead_stats.py" "$work/raw" "$work/raw2" >"$work/out"
expect out '^none +15 ' "rounds of two files are not put together"
echo 'not JSON' >>"$work/raw2"
! python3 "$here/overhead_stats.py" "$work/raw2" >"$work/out" 2>"$work/err" || fail "bad lines pass"
expect err 'raw2:[0-9]+: ' "the bad line is not named"

# One failure is reported and made good, two in a row leave a gap; the rest goes on.
rm "$work/lives"
STANDIN_FAILS='[79]' run --rounds 4 --gpus 4 --no-check --seldom '' || fail "stops at a failure"
[ "$(grep -c 'rank 3 fell over; once more' "$work/err")" = 2 ] || fail "two failures, not reported"
! grep -q 'failed again' "$work/err" || fail "repeated, yet failed"
rm "$work/lives"
STANDIN_FAILS='[78]' run --rounds 4 --gpus 4 --no-check --seldom '' || fail "stops at a gap"
expect err 'failed again: rank 3 fell over' "the gap is not reported"
expect out '^# 1 process lives failed twice' "the gap is not in the notes"

# Without diagnosis no finding of any kind is asked for.
run --rounds 1 --gpus 4 --no-check --cases light-nodiag --seldom '' || fail "light-nodiag does not run"
kinds=$(grep -c '^ *ROW(' "$here/../plugin/base/finding_kinds.h")
[ "$(grep -Ec '^  [a-z_]+: \[\]$' "$work/config")" = "$kinds" ] || fail "$(cat "$work/config"): not all $kinds kinds"
for kind in hang_absent mismatch late_host all_wait policy_divergence; do
    grep -q "^  $kind: " "$work/config" || fail "light-nodiag looks for $kind"
done

# What would measure the wrong thing, or nothing, says so.
! STANDIN_DEAD_PLUGIN=1 run --rounds 4 --gpus 4 || fail "a plugin that was not loaded passes"
expect err 'case light: the plugin was not loaded' "the unloaded plugin is not named"
! run --rounds 4 --gpus 4 --cases none,fast || fail "an unknown case passes"
expect err 'unknown case fast' "the unknown case is not named"
! run --rounds 4 --gpus 1 || fail "one GPU passes"
! run --rounds 4 "$work/nothing.so" || fail "a missing plugin passes"
touch "$work/build/libnccl-profiler.so"
! run --rounds 4 --gpus 4 || fail "a plugin in the none case passes"

[ $# -eq 4 ] || exit 0
rm -r "$work/build"
mkdir "$work/build"
cp "$1" "$2" "$3" "$work/build"
export LD_LIBRARY_PATH=$4
run --rounds 3 --iters 20 --warmup 5 --batches 2 --sizes 8,4096 --no-check || fail "real program"
expect out '2 GPUs, 4096 bytes' "the GPUs are not counted"
for name in none none-again empty light auto; do
    [ "$(grep -Ec "^$name +3 " "$work/out")" = 2 ] || fail "no rows of $name"
done
run --rounds 3 --together --iters 20 --warmup 5 --batches 2 --sizes 8 --no-check || fail "real program, by turns"
for name in none none-again empty light auto; do
    expect out "^$name +3 " "no row of $name, by turns"
done
FAKE_RANK=1 FAKE_FAULT=die run --rounds 1 --together --gpus 2 --iters 2 --no-check && fail "a round without lives"
expect err 'round 1: allreduce: rank 1 was killed' "who died of those at work by turns is not said"
run --rounds 1 --cases none,none-again --seldom '' --iters 20 --warmup 5 --batches 2 --sizes 8 --no-check \
    --pin "$(sed -nE 's/^Cpus_allowed_list:\s*([0-9]+).*/\1/p' /proc/self/status)" || fail "pinned to a CPU"
! run --rounds 1 --iters 2 --no-check --pin 1023 || fail "a CPU that is not here passes"
expect err 'cannot stay on CPU 1023' "the CPU that is not here is not named"
FAKE_RANK=1 FAKE_FAULT=die run --rounds 1 --iters 2 && fail "a dying rank is no failure"
expect err 'cannot count the GPUs|does not run' "the dying rank is not reported"
