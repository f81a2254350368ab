#!/bin/bash
# An installed muster runs from wherever its prefix was moved to, and the folder that it puts on
# LD_LIBRARY_PATH holds muster's libraries alone. Usage: install_test.sh CMAKE BUILD_FOLDER
set -euo pipefail
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail()
{
    echo "FAILED: $1" >&2
    exit 1
}

"$1" --install "$2" --prefix "$here/first" >/dev/null
mv "$here/first" "$here/moved"
libdir=$(dirname "$(find "$here/moved" -name 'libnccl-profiler-muster.so' -type l)")
# As in /usr/local/lib or an environment of conda: another NCCL beside it.
touch "$libdir/libnccl.so.2"

path=$(env -u LD_LIBRARY_PATH "$here/moved/bin/muster" run --no-report --quiet -d "$here/run" -- \
    sh -c 'echo "$LD_LIBRARY_PATH"')
[ "$(realpath "$path")" = "$(realpath "$libdir/muster")" ] || fail "LD_LIBRARY_PATH is $path"
for file in "$path"/*; do
    case $file in
    */libnccl-profiler-muster.so | */libnccl-tuner-muster.so) ;;
    *) fail "$file comes along" ;;
    esac
done
[ -e "$path/libnccl-tuner-muster.so" ] || fail "no tuner"
[ -e "$libdir/libnccl-profiler-muster.so" ] || fail "where the loader looks anyway, it finds nothing"

echo "an installed muster brings its own libraries and nothing else"
