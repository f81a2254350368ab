"""every_nccl.py without GPUs: which cells follow which, what is right of one, and what a rank issues."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import every_nccl  # noqa: E402
import ranks  # noqa: E402

OWN = dict(zip(every_nccl.SIZES, ("ll", "ll", "simple", "ll128")))


def report(protocols):
    return {"ops": [{"func": "AllReduce", "size": size, "proto": proto, "count": 2, "bytes": 2 * size}
                    for size, proto in protocols.items()]}


def found(**other):
    return {"recorded": {"AllReduce": [8, 100]}, "told": [], "drops": {}, **other}


class Policies(unittest.TestCase):
    def test_each_size_gets_another_protocol_than_its_own(self):
        self.assertEqual(list(every_nccl.other_policy(OWN).values()), ["simple", "simple", "ll", "simple"])

    def test_a_size_whose_own_is_unknown_gets_one(self):
        self.assertEqual(set(every_nccl.other_policy({}).values()), {"simple"})


class Compared(unittest.TestCase):
    ISSUED = {"AllReduce": [8, 100]}

    def wrong(self, protocols, wanted, **other):
        return every_nccl.compare(self.ISSUED, found(**other), report(protocols), wanted)

    def test_what_was_issued_and_ran_as_wanted_is_right(self):
        self.assertEqual(self.wrong(OWN, OWN), [])

    def test_without_a_policy_any_protocol_is_right(self):
        self.assertEqual(self.wrong({}, None), [])

    def test_another_protocol_is_named(self):
        wanted = every_nccl.other_policy(OWN)
        self.assertEqual(self.wrong(OWN, wanted)[0], "16384 bytes: ll, not simple")

    def test_missing_operations_findings_and_drops_are_named(self):
        words = self.wrong(OWN, OWN, recorded={}, told=["late_rank"], drops={"ring": 3})
        self.assertEqual(words, ["recorded {} of {'AllReduce': [8, 100]}", "told late_rank", "drops {'ring': 3}"])


class OneLibrary(unittest.TestCase):
    def play(self, wrong_in=()):
        options, seen = every_nccl.parse(["--build", ".", "--modes", "light,auto"]), []

        def run(_, cell):
            return {"case": cell.what(), "mode": cell.mode, "wanted": cell.wanted,
                    "wrong": ["bad"] if cell.mode in wrong_in else [],
                    "own": {size: [proto] for size, proto in OWN.items()} if cell.mode == "light" else None}
        bad = every_nccl.one_library(options, "lib", seen.append, run)
        return bad, [(one["mode"], one["case"]) for one in seen], seen

    def test_plain_comes_first_and_broadcasts_last(self):
        bad, order, seen = self.play()
        self.assertEqual(order, [("none", "plain"), ("light", "plain"), ("light", "tuned"), ("auto", "tuned"),
                                 ("none", "broadcasts"), ("auto", "broadcasts")])
        self.assertEqual((bad, seen[2]["wanted"]), (0, every_nccl.other_policy(OWN)))

    def test_what_is_not_right_is_counted_and_the_rest_runs(self):
        bad, order, _ = self.play(wrong_in=("auto",))
        self.assertEqual((bad, len(order)), (2, 6))


class Hosts(unittest.TestCase):
    def test_ranks_are_on_hosts_of_their_own(self):
        both = [every_nccl.environment_of(rank, {ranks.ONE_FOR_ALL: "1"}) for rank in range(2)]
        self.assertNotEqual(both[0]["NCCL_HOSTID"], both[1]["NCCL_HOSTID"])
        self.assertEqual([env["LOCAL_RANK"] for env in both], ["0", "0"])
        self.assertNotIn(ranks.ONE_FOR_ALL, both[0])

    def test_or_on_one(self):
        both = [every_nccl.environment_of(rank, {}, one_host=True) for rank in range(2)]
        self.assertEqual([env["LOCAL_RANK"] for env in both], ["0", "1"])
        self.assertNotIn("NCCL_HOSTID", both[0])


if __name__ == "__main__":
    unittest.main()
