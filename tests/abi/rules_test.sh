#!/bin/sh
# Every line of RULES has a unique id and names tests that exist, or says why there is none.
# Usage: rules_test.sh RULES TESTS_FOLDER
set -eu
rules=$1 tests=$2
names=$(
    grep -rhoE --include='*.c' 'cmocka_unit_test[a-z_]*\( *[a-z0-9_]+' "$tests" |
        sed 's/.*( *//'
    grep -rhoE --include='CMakeLists.txt' '(muster_test\(|add_test\(NAME )[a-z0-9_]+' "$tests" |
        sed 's/.*[( ]//'
)
{
    echo "$names"
    echo '--rules--'
    cat "$rules"
} | awk -F ' [|] ' -v file="$rules" '
    function fail(text) { print file ":" line ": " text; failed = 1 }
    !in_rules { if ($0 == "--rules--") in_rules = 1; else known[$0] = 1; next }
    { line++ }
    /^#/ || /^$/ { next }
    NF != 3 { fail("expected: id | rule | tests"); next }
    $1 in seen { fail("id " $1 " is used twice") }
    { seen[$1] = 1; n++ }
    $3 ~ /^not testable because ....../ { next }
    {
        count = split($3, wanted, ", ")
        for (i = 1; i <= count; i++)
            if (!(wanted[i] in known)) fail("no test is called \"" wanted[i] "\"")
    }
    END { print n + 0 " rules"; exit failed || n == 0 }
'
