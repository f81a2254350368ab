#!/bin/sh
# What makes a defect harder to exploit is in the files that are shipped.
# Usage: hardening_test.sh READELF OBJDUMP ARCHIVE FILE...
# ARCHIVE: of objects of the project's own; "" where neither branch targets nor stack probes can be asked for.
set -eu
readelf=$1 objdump=$2 archive=$3
shift 3
failed=0 all_probes=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() # FILE WHAT
{
    echo "FAILED: $1: $2" >&2
    failed=1
}

expect() # FILE WHAT TEXT PATTERN
{
    printf '%s\n' "$3" | grep -qE -- "$4" || fail "$1" "$2"
}

# A frame of more than a page is entered page by page: no guard page is jumped over.
check_stack_clash() # FILE, its code in $folder/code
{
    jumps=$(grep -cE 'sub +\$0x(100[1-9a-f]|10[1-9a-f].|1[1-9a-f]..|[2-9a-f]...|[0-9a-f]{5,8}),%rsp' "$folder/code") || :
    probes=$(grep -A1 -E 'sub +\$0x1000,%rsp' "$folder/code" | grep -cE '(or|mov)[ql] +\$0x0,\(%rsp\)') || :
    [ "$jumps" = 0 ] || fail "$1" "$jumps frames of more than a page are entered at once"
    all_probes=$((all_probes + probes))
}

# Whatever is called by an address that stands in the file begins with endbr64. (The file's own note
# says so only where the C library's start files do, too.)
check_branch_targets() # FILE, its code in $folder/code
{
    "$readelf" -rW "$1" | awk '$3 == "R_X86_64_RELATIVE" {print $4}' >"$folder/addresses"
    awk 'NR == FNR {wanted[$1]; next}
        />:$/ {at = $1; sub(/^0+/, "", at); name = $2; if ((getline) && at in wanted) print name, $2}' \
        "$folder/addresses" "$folder/code" >"$folder/targets"
    [ -s "$folder/targets" ] || fail "$1" "no function whose address is taken was found: is it stripped?"
    ! grep -v ' endbr64$' "$folder/targets" >&2 || fail "$1" "these can be called by address without endbr64"
}

for file in "$@"; do
    dynamic=$("$readelf" -dW "$file") headers=$("$readelf" -lW "$file") symbols=$("$readelf" -sW "$file")
    expect "$file" "relocations can be written at run time (no RELRO)" "$headers" 'GNU_RELRO'
    expect "$file" "symbols are bound late (no BIND_NOW)" "$dynamic" 'BIND_NOW|FLAGS_1.*NOW'
    expect "$file" "the stack can be executed" "$headers" 'GNU_STACK.* RW +0x'
    expect "$file" "no stack protector" "$symbols" '__stack_chk_fail'
    expect "$file" "no fortified call" "$symbols" '__(snprintf|vsnprintf|memcpy|read|pread|pread64|strncpy|fprintf|memset)_chk'
done
said="RELRO, BIND_NOW, stack protector and fortified calls in $# files"

if [ -n "$archive" ]; then
    notes=$("$readelf" -nW "$archive")
    [ "$(echo "$notes" | grep -c '^File:')" = "$(echo "$notes" | grep -c 'IBT, SHSTK')" ] ||
        fail "$archive" "an object is not made for branch tracking and shadow stacks"
    for file in "$@"; do
        "$objdump" -d --no-show-raw-insn "$file" >"$folder/code"
        check_stack_clash "$file"
        check_branch_targets "$file"
    done
    # A small file may have none of its own.
    [ "$all_probes" -gt 0 ] || fail "$*" "no stack probe, though there are frames of more than a page"
    said="$said; stack probes and branch targets"
else
    said="$said (stack probes and branch targets are not looked for in this build)"
fi
[ "$failed" = 0 ] && echo "$said"
exit "$failed"
