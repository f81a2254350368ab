"""`muster compare`: what became slower from one recorded run to another.

Usage: compare_test.py MUSTER RECORDINGS
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

MUSTER, RECORDINGS = sys.argv.pop(1), sys.argv.pop(1)
LATE = 2  # labels.yaml of late-gpu
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_"))}, "MUSTER_TIMING": "full"}


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.runs = {}
        for recording in ("clean", "late-gpu", "kinds-2rank"):
            cls.runs[recording] = cls.replay(recording, recording)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def replay(cls, recording, name, **more):
        where = os.path.join(cls.folder.name, name)
        subprocess.run([MUSTER, "replay", os.path.join(RECORDINGS, recording), "--out", where, "--speed", "max"],
                       env={**ENV, **more}, check=True, timeout=240, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return where

    def compare(self, a, b, *options):
        return subprocess.run([MUSTER, "compare", self.runs.get(a, a), self.runs.get(b, b), *options], env=ENV,
                              timeout=240, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def data(self, a, b, *options):
        done = self.compare(a, b, "--format", "json", *options)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout), done.returncode

    def test_a_run_and_itself_are_alike(self):
        for run in ("clean", "late-gpu"):
            data, status = self.data(run, run, "--limit", "0")
            self.assertEqual((status, data["worse"]), (0, False))
            self.assertEqual(data["change"], {"value": 0, "low": 0, "high": 0})
            self.assertEqual([row for row in data["classes"] + data["ranks"] if row["told"]], [])
            self.assertEqual(data["findings_came"] + data["findings_went"], [])
            text = self.compare(run, run).stdout
            self.assertIn("No difference that counts", text)
            self.assertEqual(len(text.splitlines()), 3, text)

    def test_the_same_recording_twice_is_alike(self):
        again = self.replay("clean", "again")
        data, status = self.data("clean", again, "--limit", "1")
        self.assertEqual((status, data["worse"]), (0, False))
        self.assertEqual([row for row in data["classes"] + data["ranks"] if row["told"]], [])

    def test_who_became_late_is_told_with_what_it_cost(self):
        data, status = self.data("clean", "late-gpu", "--limit", "5")
        self.assertEqual((status, data["worse"]), (1, True))
        change = data["change"]
        self.assertGreater(change["low"], 0)
        self.assertTrue(change["low"] < change["value"] < change["high"])
        self.assertIn(LATE, [row["rank"] for row in data["ranks"] if row["told"]])
        late = next(row for row in data["ranks"] if row["rank"] == LATE)
        self.assertGreater(late["own"]["change"]["low"], 0)
        self.assertGreater(late["cost"]["b_us"], 10 * late["cost"]["a_us"])
        self.assertEqual([finding["ranks"][0] for finding in data["findings_came"]], [LATE])
        slow = [row for row in data["classes"] if row["told"]]
        self.assertTrue(slow)
        for row in slow:
            self.assertGreater(row["beat"]["change"]["low"], 0)

    def test_the_other_way_round_it_is_faster_and_the_finding_is_gone(self):
        data, status = self.data("late-gpu", "clean", "--limit", "0")
        self.assertEqual((status, data["worse"]), (0, False))
        self.assertLess(data["change"]["high"], 0)
        self.assertEqual([finding["ranks"][0] for finding in data["findings_went"]], [LATE])
        text = self.compare("late-gpu", "clean").stdout
        self.assertIn("B is faster than A", text)
        self.assertIn("findings that went", text)

    def test_a_hang_that_came_goes_first_and_keeps_no_limit(self):
        hang = os.path.join(self.folder.name, "hang")
        subprocess.run([MUSTER, "replay", os.path.join(RECORDINGS, "hang-absent"), "--dir", hang, "--hold", "5"],
                       env={**ENV, "MUSTER_HANG_SECONDS": "1"}, timeout=240, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        done = self.compare("clean", hang, "--limit", "1000")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertTrue(done.stdout.startswith("B hangs, and A does not: hang_absent: rank 1 "), done.stdout)
        self.assertIn("exceeded", done.stdout)
        report = subprocess.run([MUSTER, "report", hang], env=ENV, timeout=60, text=True, stdout=subprocess.PIPE,
                                check=False).stdout
        self.assertTrue(report.startswith("This job hung: rank 1 "), report)
        data, status = self.data(hang, "clean", "--limit", "1000")
        self.assertEqual((status, data["worse"]), (0, False))

    def test_text_and_json_say_the_same(self):
        data, _ = self.data("clean", "late-gpu")
        done = self.compare("clean", "late-gpu", "--limit", "100000000")
        self.assertEqual(done.returncode, 2)
        text = self.compare("clean", "late-gpu").stdout
        self.assertIn("B is slower than A by %.1f %%" % (100 * data["change"]["value"]), text)
        self.assertIn(f"rank {LATE} (", text)

    def test_a_limit_of_which_nothing_is_known_is_not_kept(self):
        run = self.runs["kinds-2rank"]  # each kind of operation a few times
        done = self.compare(run, run, "--limit", "5")
        self.assertEqual(done.returncode, 2)
        self.assertIn("Limit 5.0 %: not known.", done.stdout)
        self.assertNotIn("kept", done.stdout)
        for text in (" ".join(done.stdout.split()), done.stderr):
            self.assertIn("kinds of operations that both runs have none was timed in 8 or more of 32 parts", text)
            self.assertNotIn("only one of them has", text)
        self.assertIn("whether --limit is kept is not known", done.stderr)
        done = self.compare(run, run, "--limit", "5", "--format", "json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["worse"]), (2, None))

    def test_who_is_waited_for_more_is_said_where_the_whole_is_not_known(self):
        done = self.compare("clean", self.replay("late-tpdp", "late-tpdp"))
        text = " ".join(done.stdout.split())
        self.assertIn("Whether B is slower as a whole is not known", text)
        self.assertRegex(text, r"For rank 1 \(node0\) the others waited [\d.]+ us an operation in A, [\d.]+ (us|ms) in B\.")

    def test_what_cannot_be_compared_is_refused_with_a_reason(self):
        done = self.compare("clean", "kinds-2rank")
        if done.returncode == 0:
            self.assertIn("Ranks are not compared: A has 4, B has 2", done.stdout)
        else:
            self.assertIn("no operations in common", done.stderr)
        untimed = self.replay("clean", "untimed", MUSTER_TIMING="light")
        done = self.compare("clean", untimed)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("untimed: no operation was timed", done.stderr)
        for arguments in ([], [self.runs["clean"]], [self.runs["clean"]] * 3):
            done = subprocess.run([MUSTER, "compare", *arguments], env=ENV, timeout=60, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 2)
            self.assertIn("two runs are compared", done.stderr)
        done = self.compare("clean", "/nonexistent")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent", done.stderr)


if __name__ == "__main__":
    unittest.main()
