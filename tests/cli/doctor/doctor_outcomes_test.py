"""For each check of muster doctor a test on a host where it fires, and one on a host where it does not.

usage: doctor_outcomes_test.py MUSTER FOLDER CAUSES.c DOCTOR.md: what the tests before saw (outcomes.py) is in FOLDER.
"""

import pathlib
import re
import sys
import unittest

FOLDER, CAUSES, DOCUMENT = (pathlib.Path(path) for path in sys.argv[2:5])
del sys.argv[1:5]

# What no host can show, and why.
NEVER_FIRES = {
    "env.set": "a list of variables for `compare`",
    "gpu.persistence": "evidence for other checks: a GPU without persistence mode is slow to start, not wrong",
    "log.job": "what the log says stands in checks of its own (doctor_job_log_test)",
}
NEVER_SILENT = {}


def ids():
    """Of the table of causes and of the page: either has some that the other has not."""
    told = set(re.findall(r"^ *\{\"([a-z0-9]+\.[a-z0-9_]+)\",", CAUSES.read_text(), re.M))
    return told | set(re.findall(r"^\| `?([a-z0-9]+\.[a-z0-9_]+)`? \|", DOCUMENT.read_text(), re.M))


def seen(*statuses):
    lines = {line for path in FOLDER.iterdir() for line in path.read_text().splitlines()}
    return {line.split()[0] for line in lines if line.split()[1] in statuses}


class Outcomes(unittest.TestCase):
    def test_every_check_fires_on_a_host(self):
        self.assertGreater(len(ids()), 80)
        self.assertEqual(sorted(ids() - seen("warning", "problem", "cause") - set(NEVER_FIRES)), [])

    def test_every_check_is_silent_on_a_host(self):
        self.assertEqual(sorted(ids() - seen("ok") - set(NEVER_SILENT)), [])

    def test_what_is_excused_is_not_shown_after_all(self):
        self.assertEqual(seen("warning", "problem", "cause") & set(NEVER_FIRES), set())
        self.assertEqual(seen("ok") & set(NEVER_SILENT), set())
        self.assertEqual((set(NEVER_FIRES) | set(NEVER_SILENT)) - ids(), set())


if __name__ == "__main__":
    unittest.main()
