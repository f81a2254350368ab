"""frameworks.py without GPUs: what it wants of a job, and a rank's turns against a made-up torch."""
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import frameworks  # noqa: E402

# A rank whose step n takes n ms.
RANK = r'''
import sys, types
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import turn_rank
clock = 0
class Event:
    def __init__(self, enable_timing): pass
    def record(self): self.at = clock
    def elapsed_time(self, other): return float(other.at - self.at)
cuda = types.SimpleNamespace(
    Event=Event, synchronize=lambda: None, get_device_name=lambda: "made-up",
    nccl=types.SimpleNamespace(version=lambda: (2, 28, 9)))
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, __version__="0")
turns = turn_rank.TurnRank()
print("a library's chatter")
step = 0
while turns.begin_step():
    step += 1
    clock += step
'''


class Turns(unittest.TestCase):
    def setUp(self):
        self.rank = subprocess.Popen([sys.executable, "-c", RANK, HERE],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, text=True)

    def tearDown(self):
        self.rank.kill()
        self.rank.wait()
        self.rank.stdin.close()
        self.rank.stdout.close()

    def ask(self, line):
        self.rank.stdin.write(line + "\n")
        self.rank.stdin.flush()
        return json.loads(self.rank.stdout.readline())

    def test_scored_steps_are_timed_each_and_the_others_are_not(self):
        self.assertEqual(json.loads(self.rank.stdout.readline())["nccl"], "2.28.9")
        self.assertEqual(self.ask("run 3 0"), {"ms": []})
        self.assertEqual(self.ask("run 2 4"), {"ms": [6, 7, 8, 9]})
        self.assertEqual(self.ask("run 0 2"), {"ms": [10, 11]})
        self.rank.stdin.write("end\n")
        self.rank.stdin.flush()
        self.assertEqual(self.rank.wait(), 0)
        self.assertEqual(self.rank.stdout.read(), "")

    def test_without_a_driver_it_ends(self):
        self.rank.stdout.readline()
        self.rank.stdin.close()
        self.assertEqual(self.rank.wait(), 1)


class Evaluate(unittest.TestCase):
    def wrong(self, job, ratio, timed, null=(0.999, 1.001)):
        made = {"ratios": {"with": {"ratio": ratio, "low": 0, "high": 2},
                           "none-again": {"ratio": 1, "low": null[0], "high": null[1]}},
                "recorded": {"with": {"ops": 1000, "timed_ops": timed}}}
        return frameworks.evaluate(job, made)

    def test_what_is_wanted_is_well(self):
        self.assertEqual(self.wrong("trainer", 1.0055, 900), [])
        self.assertEqual(self.wrong("graphs", 1.0005, 0), [])

    def test_dear_and_blind_are_said(self):
        self.assertIn("ratio 1.0070", self.wrong("trainer", 1.007, 950)[0])
        self.assertIn("89.9 %", self.wrong("experts", 1.0, 899)[0])
        self.assertIn("ratio 1.0050", self.wrong("graphs-at-once", 1.005, 0)[0])


if __name__ == "__main__":
    unittest.main()
