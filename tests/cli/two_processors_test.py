"""What is worked out on two processors is what one works out: report, diagnose and compare of recorded runs.

Usage: two_processors_test.py MUSTER RECORDINGS [TEST...]
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

MUSTER, RECORDINGS = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_"))}, "MUSTER_TIMING": "full"}
NAMES = ("clean", "late-gpu", "late-pipeline", "net-throttled", "hang-mismatch", "kinds-2rank", "late-tpdp")
ALL = os.sched_getaffinity(0)


def told(cpus, *command):
    """Status, output and errors, on these processors."""
    done = subprocess.run([MUSTER, *command], env=ENV, timeout=240, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    # The only thing that the clock changes.
    return done.returncode, re.sub(rb"ended (now|\d.* ago)", b"ended", done.stdout), done.stderr


@unittest.skipIf(len(ALL) < 2, "one processor")
class TwoProcessors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name in NAMES:
            subprocess.run([MUSTER, "replay", os.path.join(RECORDINGS, name), "--out", cls.run_of(name), "--speed", "max"],
                           env=ENV, check=True, timeout=240, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_of(cls, name):
        return os.path.join(cls.folder.name, name)

    def check(self, *command):
        one, two = told({min(ALL)}, *command), told(ALL, *command)
        self.assertEqual(one, two, command)
        self.assertGreater(len(two[1]), 100)

    def test_diagnose(self):
        for name in NAMES:
            for form in ("text", "json"):
                self.check("diagnose", self.run_of(name), "--format", form)

    def test_report(self):
        for name in NAMES:
            for form in ("text", "json", "csv"):
                self.check("report", self.run_of(name), "--format", form)

    def test_compare(self):
        for name in NAMES[1:3]:
            self.check("compare", self.run_of("clean"), self.run_of(name), "--format", "json")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
