#!/bin/bash
# What bash offers after a beginning. Usage: completion_test.sh COMPLETION
set -euo pipefail
# shellcheck source=/dev/null
source "$1"
failed=0

# Works only while bash itself completes.
# shellcheck disable=SC2317
compopt()
{
    :
}

# No pipe into grep -q: it ends at the first match, and whoever still writes then dies of it.
is_offered() # WORD
{
    local one
    for one in "${COMPREPLY[@]}"; do
        [ "$one" != "$1" ] || return 0
    done
    return 1
}

# expect "WORDS SO FAR" WANTED...: the last word is being completed, '' for a new one; a wanted word
# with ! in front must not be offered.
expect()
{
    local line=$1 wanted
    eval "COMP_WORDS=($line)"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _muster
    for wanted in "${@:2}"; do
        if [ "${wanted#!}" != "$wanted" ]; then
            is_offered "${wanted#!}" || continue
            echo "FAILED: $line: offers ${wanted#!}" >&2
        else
            ! is_offered "$wanted" || continue
            echo "FAILED: $line: does not offer $wanted, but: ${COMPREPLY[*]}" >&2
        fi
        failed=1
    done
}

here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here"
mkdir "muster-20260101T000000Z-1" "a folder"
touch settings.yaml

expect "muster ''" run report replay env version help !config
expect "muster re" report replay !run
expect "muster report --f" --format !--live
expect "muster report --format ''" text json csv !--live
expect "muster report -f j" json !text
expect "muster report --format = c" csv !text
expect "muster report --by ''" rank op comm size
expect "muster report ''" "muster-20260101T000000Z-1" "a folder" settings.yaml
expect "muster report --" --help --live --by
expect "muster run --timing ''" auto full light !--dir
expect "muster run --t" --timing --trace
expect "muster run --config set" settings.yaml
expect "muster run --timing full --d" --dir
expect "muster run --timing full tru" true !--timing
expect "muster run true --t" !--timing
expect "muster run -- settings.y" settings.yaml
expect "muster env --t" --timing
expect "muster env ''" !settings.yaml
expect "muster policy ''" check explain simulate show schema !settings.yaml
expect "muster policy ex" explain !check
expect "muster policy explain set" settings.yaml
expect "muster policy explain --n" --nodes --nvlink-domains !--format
expect "muster policy show settings.yaml --format ''" text json !csv
expect "muster policy check --" --help !--format
expect "muster help ''" config run !settings.yaml
expect "muster version ''" !settings.yaml !run
# zsh's and fish's are as the tables, too; read by the shells where they are.
others=$(dirname "$1")
case $others in /*) ;; *) others=$OLDPWD/$others ;; esac
for line in "_muster:'--format[text, json or csv (text)]:FORMAT:(text json csv)'" \
    "_muster:'report:who holds a job back" "muster.fish:-l format -s f -x -a 'text json csv'"; do
    grep -qF -- "${line#*:}" "$others/${line%%:*}" || { echo "FAILED: no ${line#*:} in ${line%%:*}" >&2; failed=1; }
done
! command -v zsh >/dev/null || zsh -n "$others/_muster" || failed=1
! command -v fish >/dev/null || fish -n "$others/muster.fish" || failed=1
[ "$failed" = 0 ] && echo "completion offers what the tables hold"
exit "$failed"
