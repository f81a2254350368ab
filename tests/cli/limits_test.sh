#!/bin/bash
# Every row of docs/limits.md (and docs/security.md) names tests in its last column, and all that it names
# exist: tests of ctest, those of benchmarks also where these are not built, functions of C and Python tests, fuzz targets.
# Usage: limits_test.sh LIMITS TESTS_FOLDER CTEST BUILD_FOLDER
set -euo pipefail
limits=$1 tests=$2 ctest=$3 build=$4
# In a folder of its own: ctest writes over the log of the run that this test is part of.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "subdirs(\"$build\")" >"$folder/CTestTestfile.cmake"
{
    "$ctest" --test-dir "$folder" -N 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p'
    grep -rhoE --include=CMakeLists.txt 'add_test\(NAME [a-z0-9_]+' "$tests/../bench" | sed 's/.* //'
    grep -rhoE --include='*.c' '^static void [a-z0-9_]+\(void \*\*[a-z]+\)' "$tests" |
        sed 's/static void //; s/(.*//'
    grep -rhoE --include='*.py' '^ +def test_[a-z0-9_]+' "$tests" | sed 's/.* //'
    find "$tests" -name '*_fuzz.c' | sed 's/.*\///; s/\(.*\)_fuzz\.c/fuzz_\1/'
    echo '--limits--'
    cat "$limits"
} | awk -F ' *[|] *' -v file="$limits" '
    function fail(text) { print file ":" line ": " text; failed = 1 }
    !in_limits { if ($0 == "--limits--") in_limits = 1; else known[$0] = 1; next }
    { line++ }
    /[|] *test *[|]$/ { columns = NF; next }
    !/^[|]/ || /^[|]-/ { next }
    NF != columns { fail("other columns than the table has"); next }
    { n++ }
    $(NF - 1) == "" { fail("no test"); next }
    {
        count = split($(NF - 1), wanted, /, /)
        for (i = 1; i <= count; i++)
            if (!(wanted[i] in known)) fail("no test is called \"" wanted[i] "\"")
    }
    END { print n + 0 " rows"; exit failed || n == 0 }
'
