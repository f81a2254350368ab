"""late_jobs.py without GPUs: what is right of a cell, and that jobs which overlap do not meet."""
import os
import socket
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import late_jobs  # noqa: E402
import ranks  # noqa: E402

CLEAN, LATE = {"ms": 0.0, "rank": 1, "live": True}, {"ms": 5.0, "rank": 1, "live": True}


def own(step, late):
    return {"steps": 100, "step_ms": step, "late_ms": late}


def finding(ranks, cost, kind="late_rank"):
    return {"kind": kind, "ranks": ranks, "cost_s": cost, "cost_run_s": cost}


class Evaluate(unittest.TestCase):
    def test_the_late_rank_is_due_where_it_costs_a_hundredth(self):
        right = [finding([1], 0.5)]
        self.assertEqual(late_jobs.evaluate(LATE, own(20, 25), right, right), [])
        self.assertEqual(len(late_jobs.evaluate(LATE, own(20, 25), [], right)), 1)
        self.assertEqual(late_jobs.evaluate(LATE, own(20, 20.1), [], []), [])

    def test_what_no_host_sees_is_not_wanted_live(self):
        right = [finding([1], 0.5)]
        self.assertEqual(late_jobs.evaluate({**LATE, "live": False}, own(20, 25), [], right), [])

    def test_nobody_else_may_be_named(self):
        other = [finding([0], 0.5)]
        self.assertEqual(len(late_jobs.evaluate(CLEAN, own(20, 20), other, other)), 2)
        self.assertEqual(len(late_jobs.evaluate(LATE, own(20, 25), other, [finding([1], 0.5)])), 1)
        self.assertEqual(len(late_jobs.evaluate(CLEAN, own(20, 20), [],
                                             [finding([0, 1], 1, "slow_transfer")])), 1)

    def test_the_cost_is_the_jobs_own_within_30_percent(self):
        for cost, wrong in ((0.4, 0), (0.6, 0), (0.3, 1), (0.7, 1)):
            found = [finding([1], cost)]
            self.assertEqual(len(late_jobs.evaluate(LATE, own(20, 25), found, found)), wrong)


# What a rank finds long after its launcher chose: another job asks for this very port, then the store listens.
COMES_LATE = """
import os, socket
address = "127.0.0.1", int(os.environ["MASTER_PORT"])
def bind(reuse):
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            own.bind(address)
            own.listen()
        except OSError as error:
            return os.strerror(error.errno)
    return "listens"
print(bind(False), "|", bind(True))
"""


class Ports(unittest.TestCase):
    def test_no_other_job_is_given_a_port_before_its_ranks_listen_there(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(COMES_LATE)
            script.flush()
            self.assertEqual(ranks.run([script.name], 1, {}, 60), "Address already in use | listens\n")

    def test_it_is_free_once_the_job_is_over(self):
        held, port = ranks.hold_port()
        held.close()
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))


if __name__ == "__main__":
    unittest.main()
