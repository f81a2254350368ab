#!/bin/sh
# What makes a defect harder to exploit is in the files that are shipped.
# Usage: hardening_test.sh READELF FILE...
set -eu
readelf=$1
shift
failed=0
expect() # FILE WHAT TEXT PATTERN
{
    printf '%s\n' "$3" | grep -qE -- "$4" && return
    echo "FAILED: $1: $2" >&2
    failed=1
}

for file in "$@"; do
    dynamic=$("$readelf" -dW "$file") headers=$("$readelf" -lW "$file") symbols=$("$readelf" -sW "$file")
    expect "$file" "relocations can be written at run time (no RELRO)" "$headers" 'GNU_RELRO'
    expect "$file" "symbols are bound late (no BIND_NOW)" "$dynamic" 'BIND_NOW|FLAGS_1.*NOW'
    expect "$file" "the stack can be executed" "$headers" 'GNU_STACK.* RW +0x'
    expect "$file" "no stack protector" "$symbols" '__stack_chk_fail'
    expect "$file" "no fortified call" "$symbols" '__(snprintf|vsnprintf|memcpy|read|pread|pread64|strncpy|fprintf|memset)_chk'
done
[ "$failed" = 0 ] && echo "RELRO, BIND_NOW, stack protector and fortified calls in $# files"
exit "$failed"
