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
            printf '%s\n' "${COMPREPLY[@]}" | grep -qxF -- "${wanted#!}" || continue
            echo "FAILED: $line: offers ${wanted#!}" >&2
        else
            ! printf '%s\n' "${COMPREPLY[@]}" | grep -qxF -- "$wanted" || continue
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
[ "$failed" = 0 ] && echo "completion offers what the tables hold"
exit "$failed"
