#!/usr/bin/env bash
# What .ci/run counts and names of a run of ctest: usage ci_tally_test.sh CTEST SOURCE_ROOT
set -euo pipefail
ctest=$1 root=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# shellcheck source=/dev/null
source "$root/.ci/run" --list >sections
tally=$folder/tally

fail()
{
    echo "$1" >&2
    cat "$folder/log" "$tally"* >&2
    exit 1
}

# A test whose first run ends by a command, whose second is good.
second() # NAME COMMAND
{
    echo "add_test($1 bash -c \"test -e $1.seen || { touch $1.seen; $2; }\")"
}

tests() # < CTestTestfile
{
    rm -f tally* ./*.seen
    touch tally tally.skipped tally.again
    cat >CTestTestfile.cmake
    "$ctest" -j2 --repeat until-pass:3 >log 2>&1 || true
}

tests <<EOF
add_test(good true)
add_test(bad false)
add_test(bad_by_signal bash -c "kill -ABRT \$\$")
$(second failed 'exit 1')
$(second aborted "kill -ABRT \$\$")
$(second crashed "kill -SEGV \$\$")
$(second killed "kill -KILL \$\$")
$(second late 'sleep 30')
set_tests_properties(late PROPERTIES TIMEOUT 1)
$(second a_name_that_is_so_long_that_ctest_has_no_room_for_the_dots_that_it_puts_before_results 'exit 1')
EOF
count_tests log here
[ "$(cat tally)" = "7 2" ] || fail "7 passed and 2 failed"
[ "$(LC_ALL=C sort tally.again)" = "a_name_that_is_so_long_that_ctest_has_no_room_for_the_dots_that_it_puts_before_results (here)
aborted (here)
crashed (here)
failed (here)
killed (here)
late (here)" ] || fail "six passed on a second try, however the first ended"
summary=$(tell_tally "$tally") && fail "two failed, and the summary is good"
grep -qxF "7 passed (6 of them on a second try), 2 failed, 0 skipped" <<<"$summary" || fail "the summary: $summary"
grep -qxF "passed on a second try: killed (here)" <<<"$summary" || fail "the summary names none: $summary"

tests <<<"add_test(good true)"
count_tests log here
[ "$(tell_tally "$tally")" = "1 passed, 0 failed, 0 skipped" ] || fail "one test, and it is good"

tests <<EOF
add_test(good true)
add_test(could_run bash -c "exit 77")
set_tests_properties(could_run PROPERTIES SKIP_RETURN_CODE 77)
EOF
(count_tests log here 2>said) && fail "a test was skipped that can run here"
grep -q "could_run was skipped" said || fail "it is not named: $(cat said)"

tests <<EOF
add_test(good true)
add_test(gpu_that_is_left_out false)
add_test(left_out true)
set_tests_properties(gpu_that_is_left_out PROPERTIES DISABLED TRUE)
EOF
skip_reason() # TEST
{
    case $1 in gpu_*) echo "a reason" ;; esac
}
count_tests log here >said
[ "$(cat tally)" = "2 0" ] || fail "two passed"
grep -qxF "skipped: gpu_that_is_left_out (here): a reason" said || fail "a disabled test is not named"

tests <<EOF
add_test(good true)
add_test(left_out true)
set_tests_properties(left_out PROPERTIES DISABLED TRUE)
EOF
(count_tests log here 2>said) && fail "a test is disabled, and nothing says why"
grep -q "left_out was skipped" said || fail "it is not named: $(cat said)"

# Parts of tests that pass, as cmocka and unittest print them.
part_reason() # TEST PART SECTION
{
    case $1-$2-$3 in compiled-needs_root-here | scripted-test_*-here) echo "no reason to run $2" ;; esac
}
cat >scripted.py <<EOF
import unittest
class Parts(unittest.TestCase):
    def test_told(self):
        "A test with a line of its own."
        self.skipTest("none of it here")
    @unittest.skipIf(True, "it's of another machine")
    def test_left_out(self): pass
    def test_good(self): pass
    def test_after_noise(self):
        print("noise", flush=True)
        self.skipTest("none")
import sys
unittest.main(verbosity=int(sys.argv.pop(1)))
EOF
cat >compiled.sh <<EOF
head -c 100000 /dev/zero
echo
echo "[  SKIPPED ] needs_root"
echo "[  SKIPPED ] 1 test(s), listed below:"
echo "[  SKIPPED ] needs_root"
EOF
tests <<EOF
add_test(good true)
add_test(compiled bash compiled.sh)
add_test(scripted python3 scripted.py 2)
EOF
count_tests log here >said
[ "$(cat tally)" = "3 0" ] || fail "three passed"
[ "$(wc -l <tally.skipped)" = 4 ] || fail "four parts were skipped"
for part in "needs_root of compiled" "test_told of scripted" "test_left_out of scripted" "test_after_noise of scripted"; do
    grep -qxF "skipped: $part (here): no reason to run ${part%% *}" said || fail "not named: $part"
done
(count_tests log elsewhere 2>said) && fail "parts were skipped that can run there"
grep -q "needs_root of compiled was skipped, but can run here" said || fail "it is not named: $(cat said)"

tests <<<"add_test(scripted python3 scripted.py 1)"
(count_tests log here 2>said) && fail "parts were skipped without a name"
grep -q "scripted skips parts without their names" said || fail "it is not named: $(cat said)"

tests <<<"add_test(good true)"
rm Testing/Temporary/LastTest.log
(count_tests log here 2>said) && fail "what was skipped is not known"
grep -q "ctest kept no log" said || fail "it is not said: $(cat said)"

tests <<<""
(count_tests log here 2>said) && fail "no tests are no good tests"
echo "what passed, failed, was skipped or was tried again is counted and named"
