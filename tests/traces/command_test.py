"""`muster replay` as a person meets it: what it refuses, how it ends, how it is stopped.

usage: command_test.py MUSTER RECORDINGS"""

import json
import lzma
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import recording

MUSTER, RECORDINGS = sys.argv[1:3]
LONG = os.path.join(RECORDINGS, "clean")  # several seconds at speed 1


def replay(*words, **more):
    return subprocess.run([MUSTER, "replay", *words], stderr=subprocess.PIPE, text=True,
                          timeout=120, check=False, **more)


def ranks(run):
    text = subprocess.run([MUSTER, "report", run, "--format", "json"], check=True, timeout=60,
                          stdout=subprocess.PIPE).stdout
    return json.loads(text)["ranks"]


class Replay(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        self.run_directory = os.path.join(scratch.name, "run")

    def cut(self, name, lines, last=b"", end=None):
        """A recording of the first `lines` lines of hang-absent's rank 0."""
        source = os.path.join(RECORDINGS, "hang-absent", "rank-0.jsonl.xz")
        text = lzma.open(source).read().split(b"\n")[:lines]
        if end:
            text[0] = text[0].replace(b"}", b', "end": "' + end + b'"}')
        with open(os.path.join(self.scratch, name), "wb") as file:
            file.write(b"\n".join(text) + b"\n" + last)

    def refuses(self, says, *words):
        done = replay(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertFalse(os.path.exists(self.run_directory))

    def test_wrong_calls(self):
        self.refuses("which recording?")
        self.refuses("neither a whole number from 1 on nor max", LONG, "--speed", "0")
        self.refuses("neither a whole number from 1 on nor max", LONG, "--speed", "fast")
        self.refuses("/nowhere: No such file or directory", "/nowhere")
        self.refuses("no files rank-*.jsonl", self.scratch)

    def test_wrong_plugins(self):
        self.refuses("/nowhere.so: No such file or directory", LONG, "--plugin", "/nowhere.so")
        self.refuses("no profiler plugin of interface v5", LONG, "--plugin", "libc.so.6")

    def test_damaged_file_stops_all_ranks_before_the_first_call(self):
        self.cut("rank-0.jsonl", 100)
        self.cut("rank-1.jsonl", 100, last=b'{"op":"begin"}\n')
        self.refuses('rank-1.jsonl:101: "op" is "begin", expected init, start', self.scratch,
                     "--out", self.run_directory)

    def test_cut_file_is_played_up_to_the_cut(self):
        self.cut("rank-0.jsonl", 100, last=b'{"t":5')
        done = replay(self.scratch, "--speed", "max", "--out", self.run_directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank-0.jsonl: ends in the middle", done.stderr)
        _, operations = recording.read(os.path.join(self.scratch, "rank-0.jsonl"))
        self.assertEqual(ranks(self.run_directory)[0]["ops"], len(operations))

    def test_ranks_leave_as_recorded(self):
        for name, end, leaves in (("left", None, "exited"), ("killed", b"killed", "killed")):
            run = os.path.join(self.scratch, name)
            self.cut("rank-0.jsonl", 500, end=end)
            done = replay(self.scratch, "--speed", "max", "--out", run)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(ranks(run)[0]["exit"], leaves)
        done = replay(os.path.join(LONG, "rank-2.jsonl.xz"), "--speed", "max", "--out",
                      self.run_directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = ranks(self.run_directory)[0]
        self.assertEqual((row["rank"], row["exit"], row["nccl"]), (2, "finalized", "2.28.9"))

    def test_since_when_a_rank_is_late_is_told(self):
        """The recording's first operation waits for connections for a third of a second, which is
        no part of what came later."""
        for name in ("late-gpu", "late-tpdp"):
            run = os.path.join(self.scratch, name)
            self.assertEqual(replay(os.path.join(RECORDINGS, name), "--dir", run).returncode, 0)
            text = subprocess.run([MUSTER, "diagnose", run, "--format", "json"], check=False,
                                  timeout=60, stdout=subprocess.PIPE).stdout
            finding, = json.loads(text)["findings"]
            when, = finding["when"]
            self.assertLessEqual(finding["since_unix_ns"], when["since_unix_ns"])
            self.assertLess(when["since_unix_ns"], when["until_unix_ns"])
            for command in ("diagnose", "report"):
                text = subprocess.run([MUSTER, command, run], check=False, timeout=60, text=True,
                                      env=dict(os.environ, TZ="UTC"), stdout=subprocess.PIPE).stdout
                since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(finding["since_unix_ns"] // 10**9))
                last = time.strftime("%H:%M:%S UTC", time.gmtime(when["until_unix_ns"] // 10**9))
                self.assertIn(f"\n  when: {since} to {last}\n", text)
                low, high = finding["cost_low_s"], finding["cost_high_s"]
                said = re.search("\n  cost: between (.*) and (.*) s in four of five such findings; (.*) GPU-seconds\n",
                                 text)
                for word, value in zip(said.groups(), (low, high, 3600 * finding["gpu_hours"])):
                    self.assertAlmostEqual(float(word) / value, 1, delta=0.01)

    def test_interrupt_stops_every_rank(self):
        process = subprocess.Popen([MUSTER, "replay", LONG, "--hold", "100", "--out",
                                    self.run_directory], start_new_session=True)
        while len(live_ranks(process.pid)) < 4:  # all started
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        children = live_ranks(process.pid)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), -signal.SIGINT)
        for pid in children:
            self.assertFalse(os.path.exists(f"/proc/{pid}"))


def live_ranks(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
