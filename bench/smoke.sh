#!/bin/sh
# callback_cost runs and prints a figure for every call and plugin.
set -eu
out=$("$1" --rounds 2 --threads 2 "$2")
echo "$out"
for row in 'GroupApi start' 'CollApi stop' 'KernelLaunch start' 'Coll start' 'whole collective'; do
    # once a way of calling; three plugins, median and p99 each; "-" where NCCL makes no call
    [ "$(echo "$out" | grep -Ec "^$row +([0-9.]+|-)( +([0-9.]+|-)){5}\$")" = 4 ] ||
        { echo "smoke: no four complete rows \"$row\"" >&2; exit 1; }
done
[ "$(echo "$out" | grep -Ec '^KernelCh (start|state|stop) ')" = 3 ] ||
    { echo "smoke: KernelCh rows are missing" >&2; exit 1; }
echo "$out" | grep -Eq '^# of which the driver takes .*: [0-9.]+$' ||
    { echo "smoke: the driver's share is missing" >&2; exit 1; }
# 2 rounds, 2 threads, 512 collectives, 3 plugins, 4 ways
echo "$out" | grep -q '^# 24576 collectives shown' ||
    { echo "smoke: not all collectives were shown" >&2; exit 1; }
if "$1" --rounds 1 /nonexistent.so; then
    echo "smoke: a missing plugin is no success" >&2
    exit 1
fi
