"""harm.py without GPUs: what it calls wrong, and that no cell goes missing."""
import argparse
import contextlib
import io
import json
import os
import tempfile
import unittest

import harm

ISSUED = {"AllReduce": [100, 102400]}


def result(mode="auto", case="threads", **changes):
    made = {"mode": mode, "library": "torch", "case": case, "hung": False, "status": 0,
            "words": ["last words"], "rounds": 10, "issued": ISSUED, "wall_s": 3.0,
            "cpu": {"nccl": 1.0, "muster": 0.1, "idle": 0.0}}
    if mode != "none":
        made.update(recorded=ISSUED, timed=90, ops=100, drops={}, told=[])
    made.update(changes)
    return made


class Verdict(unittest.TestCase):
    def wrong(self, made, without=None):
        return "; ".join(harm.verdict(made, without))

    def test_what_is_well_is_ok(self):
        self.assertEqual(self.wrong(result(), result("none")), "")
        self.assertEqual(self.wrong(result("none")), "")

    def test_hangs_deaths_and_wrong_results(self):
        self.assertIn("HANGS", self.wrong(result(hung=True, status=-9)))
        self.assertIn("HANGS", self.wrong(result(status=5)))
        self.assertIn("WRONG RESULT", self.wrong(result(status=3)))
        self.assertIn("status -11", self.wrong(result(status=-11)))

    def test_counts_and_bytes_are_the_issued_ones(self):
        self.assertIn("recorded", self.wrong(result(recorded={"AllReduce": [99, 102400]})))
        self.assertIn("recorded", self.wrong(result(recorded={"AllReduce": [100, 102396]})))
        self.assertIn("recorded", self.wrong(result(recorded={})))

    def test_findings_that_nobody_caused(self):
        self.assertIn("told hang_stuck", self.wrong(result(told=["hang_stuck"])))
        self.assertEqual(self.wrong(result(case="late", told=["hang_absent"])), "")

    def test_threads_that_spin_while_nothing_is_asked(self):
        busy = {"nccl": 1.0, "muster": 0.1, "idle": 0.2}
        self.assertIn("idle", self.wrong(result(cpu=busy), result("none")))
        self.assertEqual(self.wrong(result(cpu=busy), result("none", cpu=busy)), "")

    def test_an_assertion_ends_as_without_a_plugin(self):
        end = {"case": "assertion", "status": 5}
        self.assertEqual(self.wrong(result(**end), result("none", **end)), "")
        self.assertIn("HANGS", self.wrong(result(**end), result("none", case="assertion")))

    def test_calls_that_this_nccl_lacks_are_skipped(self):
        lacking = result(status=77, words=["no ncclCommShrink"])
        self.assertEqual(self.wrong(lacking), "")
        self.assertIn("skipped: no ncclCommShrink", harm.row(lacking, []))


class Drive(unittest.TestCase):
    def drive(self, cells, seconds_each, limit, results=None):
        self.now = 0

        def run(_, cell):
            self.now += seconds_each
            return (results or {}).get(cell.mode) or result(cell.mode, cell.case)
        with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(io.StringIO()) as said:
            options = argparse.Namespace(out=out, limit=limit, jobs=1, cell_seconds=20, again=None)
            good, left = harm.drive(options, cells, run, lambda: self.now)
            with open(os.path.join(out, "harm.jsonl")) as f:
                recorded = [json.loads(line) for line in f]
        return good, left, recorded, said.getvalue()

    def cells(self):
        return [harm.Cell(mode, "torch", "threads") for mode in harm.MODES]

    def test_every_cell_has_a_row_and_a_record(self):
        good, left, recorded, said = self.drive(self.cells(), 5, 500)
        self.assertTrue(good)
        self.assertEqual((len(left), len(recorded)), (0, 4))
        self.assertEqual(said.count("threads"), 4)

    def test_cells_that_would_not_end_in_time_are_named(self):
        good, left, recorded, said = self.drive(self.cells(), 15, 40)
        self.assertTrue(good)
        self.assertEqual((len(left), len(recorded)), (2, 2))
        self.assertIn("not run: full torch threads", said)

    def test_one_bad_cell_fails_the_grid_with_its_last_words(self):
        good, _, _, said = self.drive(self.cells(), 1, 500, {"auto": result(hung=True)})
        self.assertFalse(good)
        self.assertIn("| last words", said)


if __name__ == "__main__":
    unittest.main()
