#!/bin/sh
# decision_cost measures muster's tuner with both numbers of rules, and the rules act.
set -eu
out=$("$1" "$2")
echo "$out"
for rules in 1 1000; do
    [ "$(echo "$out" | grep -Ec "v7 +$rules +-?[0-9.]+ +-?[0-9.]+ +steers\$")" = 1 ] ||
        { echo "decision_cost: no figure for $rules rules" >&2; exit 1; }
done
if "$1" /nonexistent.so; then
    echo "decision_cost: a missing plugin is no success" >&2
    exit 1
fi
