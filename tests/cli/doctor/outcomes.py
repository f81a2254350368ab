"""Which checks the tests saw fire, and which they saw pass by: a status that a test compared, and that was what it
expected. An id that is only listed, or whose status nobody compares, is not among them.

Each test program writes what it saw into MUSTER_TEST_OUTCOMES, a folder; doctor_outcomes_test.py reads all.
"""

import atexit
import os
import pathlib
import sys

SEEN = set()


class Watched(str):
    """A word of a report; that it was compared with the same word is what was seen."""

    outcome = ""

    def __eq__(self, other):
        same = str.__eq__(self, other)
        if same is True:
            SEEN.add(self.outcome)
        return same

    __hash__ = str.__hash__


def watch(word, outcome):
    watched_word = Watched(word)
    watched_word.outcome = outcome
    return watched_word


def watched(report):
    """The same report; comparisons of its statuses and causes count from now on."""
    for check in report.get("checks", ()):
        check["status"] = watch(check["status"], f"{check['id']} {check['status']}")
    for cause in report.get("causes", ()):  # it fired, also where it is a suspect
        cause["id"] = watch(cause["id"], f"{cause['id']} cause")
    return report


def write():
    folder = os.environ.get("MUSTER_TEST_OUTCOMES")
    if folder:
        os.makedirs(folder, exist_ok=True)
        pathlib.Path(folder, pathlib.Path(sys.argv[0]).name).write_text("".join(f"{line}\n" for line in sorted(SEEN)))


atexit.register(write)
