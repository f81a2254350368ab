"""Whoever waits at a terminal is told what a command is at; nobody else is.
usage: progress_test.py MUSTER RECORDINGS"""
import os
import pty
import subprocess
import sys
import unittest

import clean

MUSTER, RECORDINGS = sys.argv.pop(1), sys.argv.pop(1)
DEADLINE_S = 120


class Progress(clean.CleanCase):
    def replay(self, stderr, **more):
        out = os.path.join(self.folder.name, "out")
        return subprocess.Popen([MUSTER, "replay", os.path.join(RECORDINGS, "clean"), "--hold", "3", "--dir", out],
                                env=self.env(MUSTER_SEGMENT_DIR="", **more), stderr=stderr)

    def at_a_terminal(self, **more):
        ours, theirs = pty.openpty()
        job = self.replay(theirs, **more)
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
        os.close(ours)
        self.assertEqual(job.wait(timeout=DEADLINE_S), 0, said)
        return said.decode()

    def test_a_terminal_is_told_what_is_going_on(self):
        said = self.at_a_terminal(TERM="xterm")
        self.assertRegex(said, r"\rmuster replay: playing, \d+ of about \d s\x1b\[K")
        self.assertTrue(said.endswith("\r\x1b[K"), repr(said))  # and it is gone

    def test_nothing_for_a_terminal_that_cannot_rewrite(self):
        self.assertNotIn("playing", self.at_a_terminal(TERM="dumb"))

    def test_nothing_where_nobody_looks(self):
        job = self.replay(subprocess.PIPE)
        _, said = job.communicate(timeout=DEADLINE_S)
        self.assertEqual((job.returncode, said), (0, b""))


if __name__ == "__main__":
    unittest.main()
