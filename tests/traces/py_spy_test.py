"""A command for findings that prints the stack of the rank that never came, by py-spy: with a stand-in of
its name, whose answer stands in the job's output, and where there is no py-spy, what to install.

usage: py_spy_test.py MUSTER RECORDINGS"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

MUSTER, RECORDINGS = sys.argv.pop(1), sys.argv.pop(1)
HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../config/hooks/py-spy-stacks.sh")
STAND_IN = """#!/bin/sh
echo "called as: $*"
echo "Thread 1 (idle): MainThread / load_batch (train.py:7)"
"""


class PySpy(unittest.TestCase):
    def play(self, py_spy):
        """A recorded job whose rank 1 never comes, for as long as the command takes; its output."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as segments:
            config, tools = os.path.join(folder, "on.yaml"), os.path.join(folder, "bin")
            with open(config, "w", encoding="ascii") as file:
                file.write(f"muster: 1\non:\n  hang_absent: [exec: [{HOOK}]]\n")
            os.mkdir(tools)
            if py_spy:
                with open(os.path.join(tools, "py-spy"), "w", encoding="ascii") as file:
                    file.write(STAND_IN)
                os.chmod(os.path.join(tools, "py-spy"), 0o755)
            environment = dict(os.environ, PATH=f"{tools}:/usr/bin:/bin", MUSTER_SEGMENT_DIR=segments,
                               MUSTER_HANG_SECONDS="1", MUSTER_CONFIG=config)
            run = os.path.join(folder, "run")
            done = subprocess.run([MUSTER, "run", "--no-report", "--dir", run, "--", MUSTER, "replay",
                                   os.path.join(RECORDINGS, "hang-absent"), "--speed", "20", "--hold", "8",
                                   "--out", run], env=environment, capture_output=True, text=True, timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

    def test_the_stack_of_the_rank_that_is_missing_is_printed(self):
        said = self.play(py_spy=True)
        pid = re.search(r"process (\d+), by py-spy:", said)
        self.assertIsNotNone(pid, said)
        self.assertIn(f"called as: dump --nonblocking --pid {pid.group(1)}\n", said)
        self.assertIn("load_batch (train.py:7)", said)

    def test_without_py_spy_it_is_said_what_to_install(self):
        self.assertIn("py-spy is not in PATH: pip install py-spy", self.play(py_spy=False))


if __name__ == "__main__":
    unittest.main()
