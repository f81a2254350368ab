#!/bin/sh
# What the dynamic linker sees of the plugin: exactly the versioned tables, no library but libc (libm
# and the loader where the linker adds them), and that dlclose never unmaps it.
# Usage: exports_test.sh PLUGIN NM READELF PLUGIN_MAP [SANITIZER]
set -eu
plugin=$1 nm=$2 readelf=$3 map=$4 sanitizer=${5:-}
failed=0

fail()
{
    echo "FAILED: $1" >&2
    failed=1
}

expected=$(
    printf 'ncclProfiler_v%s\n' 1 2 3 4 5 6 7
    printf 'ncclTunerPlugin_v%s\n' 2 3 4 5 6 7
)
# Format of nm: address, type, name; D or R for data, which is what NCCL looks up. A second line of
# defence against an instrumented build's own symbols is the version script, so no exception here.
exported=$("$nm" -D --defined-only "$plugin" | awk '{ print $3 }' | sort)
[ "$exported" = "$expected" ] || fail "exports are not the thirteen tables: $(echo $exported)"
code=$("$nm" -D --defined-only "$plugin" | awk '$2 !~ /^[DR]$/ { print $3 }')
[ -z "$code" ] || fail "not data symbols: $(echo $code)"

listed=$(sed -n 's/^ *\(nccl[A-Za-z0-9_]*\);$/\1/p' "$map" | sort)
[ "$listed" = "$expected" ] || fail "$map does not list the thirteen tables"

dynamic=$("$readelf" -dW "$plugin")
echo "$dynamic" | grep -q 'NODELETE' || fail "the NODELETE flag is missing"
echo "$dynamic" | grep -Eq 'BIND_NOW|Flags:.*NOW' || fail "symbols are not bound at load"
echo "$dynamic" | grep -Eq '\((RPATH|RUNPATH)\)' && fail "it has a run path"
"$readelf" -lW "$plugin" | grep -q 'GNU_RELRO' || fail "relocated data is not made read-only"
"$readelf" -lW "$plugin" | grep -Eq 'GNU_STACK.* RWE ' && fail "it asks for an executable stack"

needed=$(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
if [ -n "$sanitizer" ]; then
    echo "libraries needed are not checked: built with -fsanitize=$sanitizer"
else
    for library in $needed; do
        case $library in
        libc.so.6 | libm.so.6 | ld-linux*.so.*) ;;
        *) fail "it needs $library" ;;
        esac
    done
    echo "$needed" | grep -qx 'libc.so.6' || fail "it does not need libc.so.6"
    # Nothing of NCCL's or CUDA's may be wanted at load: NCCL opens the plugin RTLD_LOCAL.
    foreign=$("$nm" -D --undefined-only "$plugin" | awk '$NF ~ /^(nccl|cu|nvml)/ { print $NF }')
    [ -z "$foreign" ] || fail "undefined symbols of NCCL or CUDA: $(echo $foreign)"
fi
[ "$failed" = 0 ] && echo "exports, libraries and flags are as documented"
exit "$failed"
