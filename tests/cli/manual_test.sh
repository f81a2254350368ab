#!/bin/bash
# A page for every command, each with every option that --help shows, and all without a warning of
# groff's. Usage: manual_test.sh MUSTER MANUAL_FOLDER
set -euo pipefail
muster=$1 manual=$2
failed=0

fail()
{
    echo "FAILED: $1" >&2
    failed=1
}

plain()
{
    groff -man -Tascii -P-cbou -rLL=200n "$1"
}

command -v groff >/dev/null || { echo "skipped: no groff here"; exit 77; }

for page in "$manual"/man*/*; do
    warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1)
    [ -z "$warnings" ] || fail "$page: $warnings"
done

# The examples that --help of a command, or of a command's own, ends with stand in the page, and what they call
# exists: commands with every option.
examples_of()
{
    local page=$1 text=$2 shown line word option
    shift 2
    shown=$("$muster" "$@" --help | sed -n '/^examples:$/,$p' | grep '^  ' | sed 's/^ *//' || true)
    [ -n "$shown" ] || { fail "muster $* --help has no example"; return; }
    while read -r line; do
        grep -qF -- "$line" <<<"$text" || fail "$page does not show the example: $line"
        for word in $(grep -oE 'muster [a-z]+( [a-z]+)?' <<<"$line" | cut -d' ' -f2 | sort -u); do
            "$muster" help "$word" >/dev/null 2>&1 || fail "an example calls muster $word: $line"
        done
    done <<<"$shown"
    for option in $(sed 's/ -- .*//; s/|.*//' <<<"$shown" | grep -E "^muster $*( |$)" | grep -oE -- '--[a-z-]+' | sort -u); do
        "$muster" "$@" --help | grep -q -e "$option\b" || fail "an example gives muster $* $option, which it does not have"
    done
}

commands=$("$muster" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 5 ] || fail "\`muster help\` lists hardly any command: $commands"
overview=$(plain "$manual/man1/muster.1")
for command in $commands; do
    page=$manual/man1/muster-$command.1
    [ -s "$page" ] || { fail "no page for muster $command"; continue; }
    grep -q "muster-$command(1)" <<<"$overview" || fail "muster(1) does not refer to muster-$command(1)"
    text=$(plain "$page")
    while read -r option; do
        grep -q -e "$option\b" <<<"$text" || fail "muster-$command(1) does not tell of $option"
    done < <("$muster" "$command" --help | grep -oE '^  [ -].{0,4}--[a-z-]+' | grep -oE -- '--[a-z-]+')
    [ "$command" = version ] && continue
    examples_of "muster-$command(1)" "$text" "$command"
    for sub in $("$muster" "$command" --help | sed -n "s/^usage: muster $command \([a-z]*|[a-z|]*\) .*/\1/p" | tr '|' ' '); do
        examples_of "muster-$command(1)" "$text" "$command" "$sub"
    done
done

config=$(plain "$manual/man5/muster-config.5")
while read -r key variable; do
    grep -qF "$key ($variable)" <<<"$config" || fail "muster-config(5) does not tell of $key"
    grep -qw "$variable" <<<"$overview" || fail "muster(1) does not tell of $variable"
done < <("$muster" help config | grep -oE '^[a-z]+\.[a-z_]+ +MUSTER_[A-Z_]+')

"$muster" help --man no-such-topic >/dev/null 2>&1 && fail "a page for an unknown topic"
[ "$failed" = 0 ] && echo "$(wc -w <<<"$commands") commands, every option and setting in the manual"
exit "$failed"
