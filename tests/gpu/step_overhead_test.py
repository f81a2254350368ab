"""step_overhead.py with a stand-in for the rank that trains, whose step times are known.

usage: step_overhead_test.py [unittest's arguments]
"""
import contextlib
import glob
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import step_overhead  # noqa: E402
import turns  # noqa: E402

AWAIT_S = 60  # only reached when something is broken

# Takes 20 ms a step in its first turn and 0.5 ms more in each later one, all of it 10 % more with
# the plugin, give or take 1 % by turns. Writes down who it is, and when it works.
STAND_IN = r'''
import json, os, subprocess, sys
folder, does = os.environ["STANDIN"], os.environ.get("STANDIN_DOES")
plugin = "NCCL_PROFILER_PLUGIN" in os.environ
odd = plugin and os.environ["RANK"] == "1"   # the one rank that STANDIN_DOES is about
me = os.environ["MASTER_PORT"] + " " + os.environ["RANK"]
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for pid in os.getpid(), child.pid:
    open(os.path.join(folder, "pid-%d" % pid), "w").close()

def note(what):
    with open(os.path.join(folder, "witness"), "a") as witness:
        witness.write(what + "\n")

def answer(what):
    print(json.dumps(what), flush=True)

if plugin and does != "record-nothing":
    os.makedirs(os.path.join(os.environ["MUSTER_DIR"], "r%s.log" % os.environ["RANK"]))
answer({"nccl": "1.2.3"})
turn = 0
for line in iter(sys.stdin.readline, ""):
    if line == "end\n":
        sys.exit(7 if odd and does == "end-badly" else 0)
    word, unscored, scored = line.split()
    note(me + " begin " + line.strip())
    if odd and scored != "0":
        if does == "die":
            print("first words\nlost its footing", file=sys.stderr)
            sys.exit(3)
        if does == "say-nothing":
            note("silent")
            continue
    ms = 20 + 0.5 * turn
    if plugin:
        ms *= 1.1 * (1.01 if turn % 2 else 1 / 1.01)
    turn += scored != "0"
    note(me + " end")
    times = [ms] * int(scored)
    if does == "lie" and plugin and times:
        times[-1] = -1
    answer({"ms": times})
    if odd and does == "leave" and scored != "0":
        sys.exit(4)
'''

MUSTER = '''#!/bin/sh
[ "$1 $2 $3" = "report --format json" ] && [ -d "$4/r0.log" ] || exit 2
echo '{"ranks": [{"rank": 1, "ops": 5, "timing": {"timed_ops": 0, "to_itself_ops": 0}},'
echo '{"rank": 0, "ops": 1240, "timing": {"timed_ops": 56, "to_itself_ops": 6}}]}'
'''


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition):
    end = time.monotonic() + AWAIT_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Driver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program = self.write("rank.py", STAND_IN)
        self.write(step_overhead.PLUGIN, "")

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def witness(self):
        try:
            with open(os.path.join(self.folder, "witness")) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def start(self, *arguments, does=""):
        return subprocess.Popen(
            [sys.executable, os.path.join(HERE, "step_overhead.py"), "drive", "--with", self.folder,
             "--rank-program", self.program, "--ranks", "2", "--kind", "ddp", *arguments],
            env=dict(os.environ, STANDIN=self.folder, STANDIN_DOES=does), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_it(self, *arguments, does=""):
        status = self.end(self.start(*arguments, does=does))
        self.assert_all_gone()
        return status

    def end(self, driver):
        """Its status; what it said in self.out and self.err."""
        try:
            self.out, self.err = driver.communicate(timeout=AWAIT_S)
        except subprocess.TimeoutExpired:
            driver.terminate()
            self.out, self.err = driver.communicate()
            self.fail("the driver does not end: " + self.err)
        return driver.returncode

    def assert_all_gone(self, least=12):
        pids = [int(path.rpartition("-")[2]) for path in glob.glob(self.folder + "/pid-*")]
        self.assertGreaterEqual(len(pids), least)
        self.assertTrue(wait_until(lambda: not any(map(alive, pids))), "processes are left over")

    def assert_fails(self, *words):
        self.assertNotIn("step_overhead\"", self.out)
        for word in words:
            self.assertIn(word, self.err)
        self.assertNotIn("Traceback", self.err)

    # ---- What comes out ----

    def test_the_ratio_is_the_known_one(self):
        self.write("muster", MUSTER, 0o755)
        self.assertEqual(self.run_it("--steps", "40", "--block", "4", "--seed", "5"), 0)
        result, = json.loads(self.out.splitlines()[-1])["step_overhead"]
        with_it, null = result["ratios"]["with"], result["ratios"]["none-again"]
        self.assertAlmostEqual(with_it["ratio"], 1.1, 9)
        self.assertTrue(1.088 < with_it["low"] < 1.1 < with_it["high"] < 1.112, with_it)
        self.assertEqual([null["ratio"], null["low"], null["high"]], [1, 1, 1])
        self.assertEqual([figures["none"] for figures in result["rounds"]],
                         [20 + 0.5 * n for n in range(10)])
        self.assertAlmostEqual(result["rounds"][1]["with"], 20.5 * 1.1 * 1.01)
        self.assertEqual(result["recorded"], {"with": {"ops": 1234, "timed_ops": 56}})
        self.assertEqual((result["kind"], result["seed"], result["nccl"]), ("ddp", 5, "1.2.3"))
        self.assertRegex(self.out, r"(?m)^with +10 .* 1\.1000 \[.* a difference$")
        self.assertRegex(self.out, r"(?m)^none-again +10 .* no difference beyond the interval$")
        self.assertIn("null case: half width 0.0000", self.out)
        self.assertIn("with (auto), rank 0: 1234 operations recorded, 56 of them timed", self.out)

    def test_one_job_works_at_a_time(self):
        self.assertEqual(self.run_it("--steps", "6", "--block", "1", "--seed", "5"), 0)
        lines = self.witness()
        turns_of = [lines[i:i + 4] for i in range(0, len(lines), 4)]  # 2 ranks begin and end
        jobs = [{line.split()[0] for line in turn} for turn in turns_of]
        self.assertEqual(len(turns_of), 3 * (1 + 6))
        self.assertTrue(all(len(job) == 1 for job in jobs), lines)
        orders = [tuple(job.pop() for job in jobs[i:i + 3]) for i in range(0, len(jobs), 3)]
        self.assertTrue(all(len(set(order)) == 3 for order in orders), orders)
        self.assertGreater(len(set(orders[1:])), 1, "every round has the same order")
        told = [line.split(" ", 3)[3] for line in lines if "begin" in line]
        self.assertEqual(told, ["run 30 0"] * 6 + ["run 2 1"] * 36)

    def test_cases_and_kinds_are_chosen(self):
        self.assertEqual(self.run_it("--cases", "full,none", "--steps", "3", "--block", "2",
                                     "--kind", "both"), 0)
        results = json.loads(self.out.splitlines()[-1])["step_overhead"]
        self.assertEqual([result["kind"] for result in results], ["ddp", "fsdp"])
        self.assertEqual([sorted(figures) for figures in results[0]["rounds"]],
                         [["full", "none"]] * 2)
        self.assertIn("too few rounds", self.out)

    # ---- What goes wrong ----

    def test_a_rank_that_dies_is_named_with_its_last_words(self):
        self.assertEqual(self.run_it(does="die"), 1)
        self.assert_fails("ddp: rank 1 of with died (status 3)",
                          "rank 1 of with: first words | lost its footing",
                          "rank 0 of with: (silent)")

    def test_a_rank_that_leaves_while_it_waits_is_noticed(self):
        self.assertEqual(self.run_it(does="leave"), 1)
        self.assert_fails("ddp: rank 1 of with died (status 4)")

    def test_a_rank_that_ends_badly_is_noticed(self):
        self.assertEqual(self.run_it("--steps", "1", does="end-badly"), 1)
        self.assert_fails("ddp: rank 1 of with ended with status 7")

    def test_times_that_are_none_are_refused(self):
        self.assertEqual(self.run_it(does="lie"), 1)
        self.assert_fails("rank 0 of with: ", "are not the times of 10 steps")

    def test_a_plugin_that_records_nothing_is_noticed(self):
        self.assertEqual(self.run_it("--steps", "1", does="record-nothing"), 1)
        self.assert_fails("was not loaded, or recorded nothing")

    def test_without_a_report_the_figures_stay(self):
        self.write("muster", "#!/bin/sh\necho cannot >&2\nexit 1\n", 0o755)
        self.assertEqual(self.run_it("--steps", "10", "--block", "2"), 0)
        self.assertIn("cannot", self.err)
        result, = json.loads(self.out.splitlines()[-1])["step_overhead"]
        self.assertEqual((len(result["rounds"]), result["recorded"]), (5, {"with": None}))

    def test_no_time_for_a_round_is_said(self):
        self.assertEqual(self.run_it("--budget", "0"), 1)
        self.assert_fails("the budget ends after 0 of 20 rounds", "ddp: no round in the budget")

    def test_a_killed_driver_leaves_nobody(self):
        driver = self.start(does="say-nothing")
        waits = wait_until(lambda: "silent" in self.witness())
        driver.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(driver), 128 + signal.SIGTERM)
        self.assertTrue(waits)
        self.assert_all_gone()

    def test_a_rank_that_never_answers_is_named(self):
        """The clock stands still until the rank has fallen silent, then hurries at every look."""
        now = 0.0

        def clock():
            nonlocal now
            now += 1000 if "silent" in self.witness() else 0
            return now
        changes = {"STANDIN": self.folder, "STANDIN_DOES": "say-nothing",
                   "MUSTER_DIR": os.path.join(self.folder, "run")}
        with self.assertRaisesRegex(turns.Failed, "^no answer in 5 s: .*rank 1 of with"):
            with turns.Stage(5, clock) as stage:
                for case, plugin in (("none", None), ("with", "x")):
                    stage.start(case, [sys.executable, self.program], 2,
                                {"NCCL_PROFILER_PLUGIN": plugin, **changes})
                stage.ready(5)
                self.assertEqual(stage.ask("none", "run 0 1"), [{"ms": [20.0]}] * 2)
                stage.ask("with", "run 0 1")
        self.assert_all_gone(least=8)

    def test_bad_arguments_are_refused(self):
        for arguments, word in ((["--cases", "none,fast"], "found 'fast'"),
                                (["--cases", "with,light"], "none is missing"),
                                (["--cases", "none,with,with"], "at most once"),
                                (["--block", "0"], "at least 1"), (["--ranks", "1"], "at least 2"),
                                (["--muster", "/nowhere"], "no file /nowhere"),
                                (["--with", "/nowhere"], "no " + step_overhead.PLUGIN)):
            self.assertEqual(self.end(self.start(*arguments)), 2, arguments)
            self.assertIn(word, self.err)


class Rounds(unittest.TestCase):
    """take_turns() by a clock that only the turns move."""

    def take(self, rounds, end, seed=1, lasts=lambda case: 10):
        self.now, order = 0.0, []

        def play(case):
            order.append(case)
            self.now += lasts(case)
            return float(len(order))
        with contextlib.redirect_stdout(io.StringIO()):
            done = step_overhead.take_turns(["none", "none-again", "with"], rounds, play,
                                            random.Random(seed), end, lambda: self.now)
        return done, order

    def test_stops_before_the_round_that_would_pass_the_budget(self):
        for end, rounds in ((90, 3), (89, 2), (1000, 4), (0, 1), (-1, 0)):
            self.assertEqual(len(self.take(4, end)[0]), rounds, end)

    def test_a_seed_is_an_order(self):
        self.assertEqual(self.take(20, 1e9, seed=3), self.take(20, 1e9, seed=3))
        self.assertNotEqual(self.take(20, 1e9, seed=3)[1], self.take(20, 1e9, seed=4)[1])

    def test_figures_stay_with_their_case(self):
        done, order = self.take(5, 1e9)
        for n, figures in enumerate(done):
            for case, figure in figures.items():
                self.assertEqual(order[int(figure) - 1], case)
                self.assertEqual((int(figure) - 1) // 3, n)


class Figures(unittest.TestCase):
    def test_drift_from_round_to_round_does_not_count(self):
        rounds = [{"none": 20.0 + n, "with": (20.0 + n) * 1.02} for n in range(10)]
        ratio = step_overhead.ratios(rounds)["with"]
        for figure in (ratio.value, ratio.low, ratio.high):
            self.assertAlmostEqual(figure, 1.02)
        self.assertEqual(step_overhead.verdict(ratio), "a difference")

    def test_noise_larger_than_the_difference_is_no_difference(self):
        noise = (1.03, 0.97, 1.02, 0.98, 1.04, 0.96, 1.01, 0.99)
        rounds = [{"none": 20.0, "with": 20.02 * by} for by in noise]
        ratio = step_overhead.ratios(rounds)["with"]
        self.assertTrue(ratio.low < 1 < ratio.high)
        self.assertEqual(step_overhead.verdict(ratio), "no difference beyond the interval")
        faster = step_overhead.ratios([{"none": 20.0, "with": 19.0 * by} for by in noise])["with"]
        self.assertEqual(step_overhead.verdict(faster), "faster")

    def test_what_jobs_without_it_differ_by_is_not_blamed_on_it(self):
        rounds = [{"none": 20.0, "none-again": 20.4, "with": 20.2, "full": 21.0} for _ in range(9)]
        ratios = step_overhead.ratios(rounds)
        unseen = step_overhead.reach(ratios["none-again"])
        self.assertAlmostEqual(unseen, 0.02)
        self.assertIn("no more than", step_overhead.verdict(ratios["with"], unseen))
        self.assertEqual(step_overhead.verdict(ratios["full"], unseen), "a difference")


if __name__ == "__main__":
    unittest.main()
