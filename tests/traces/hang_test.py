"""Recorded hangs played again: the live leader, `muster diagnose --live` and `muster diagnose RUN`
name the rank in every timing mode; a clean recording, held as long, has no finding.

usage: hang_test.py MUSTER RECORDINGS"""

import concurrent.futures
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

CASES = (("hang-absent", "hang_absent", 1), ("hang-mismatch", "hang_mismatch", 2),
         ("clean", None, None))
BEREFT = ("hang-absent", "hang_absent", 1)  # the first leader is killed, the next one stopped
TIMINGS = ("full", "auto", "light")
THRESHOLD_S, DEADLINE_S = 3, 120
QUIET_S = 9  # how long a recording without a hang stands still


def diagnose(muster, environment, *what):
    done = subprocess.run([muster, "diagnose", *what, "--format", "json"], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def verdict(findings):
    hangs = [finding for finding in findings if finding["kind"].startswith("hang_")]
    return [(finding["kind"], finding["ranks"], finding["resolved"]) for finding in hangs]


class Case:
    def __init__(self, muster, recordings, scratch, name, kind, rank, timing):
        hold_s = DEADLINE_S if kind else QUIET_S
        self.name, self.muster = f"{name} {timing}", muster
        self.expected = [(kind, [rank], False)] if kind else []
        self.run = tempfile.mkdtemp(dir=scratch)
        segments = tempfile.mkdtemp(dir="/dev/shm")
        self.environment = dict(os.environ, MUSTER_TIMING=timing, MUSTER_SEGMENT_DIR=segments,
                                MUSTER_HANG_SECONDS=str(THRESHOLD_S))
        self.job = subprocess.Popen(
            [muster, "replay", os.path.join(recordings, name), "--speed", "20", "--hold",
             str(hold_s), "--out", self.run], env=self.environment, stderr=subprocess.PIPE)

    def test_another_leads_once_the_leader_is_gone(self):
        """Once the hang is told, kills rank 0, the leader, and stops rank 1, which would be next."""
        end = time.monotonic() + DEADLINE_S
        while not self.written() and time.monotonic() < end:
            time.sleep(0.1)
        first = glob.glob(self.run + "/*.findings.jsonl")
        ranks = subprocess.run(["pgrep", "-P", str(self.job.pid)], stdout=subprocess.PIPE,
                               check=True).stdout.split()
        ranks = sorted(int(pid) for pid in ranks)
        os.kill(ranks[0], signal.SIGKILL)
        os.kill(ranks[1], signal.SIGSTOP)
        live, lines = self.wait_for_live(), []
        while not lines and time.monotonic() < end:
            lines = self.written(first)
            time.sleep(0.5)
        os.kill(ranks[1], signal.SIGKILL)
        self.job.terminate()
        self.job.communicate(timeout=DEADLINE_S)
        diagnose(self.muster, self.environment, self.run)  # puts their segments away
        os.rmdir(self.environment["MUSTER_SEGMENT_DIR"])
        return [f"{self.name}, leader gone: {what} says {found}"
                for what, found in (("--live", live), ("leader", verdict(lines)))
                if found != self.expected]

    def written(self, but=()):
        return [json.loads(line) for path in glob.glob(self.run + "/*.findings.jsonl")
                if path not in but for line in open(path)]

    def wait_for_live(self):
        """What --live says once it says something, or all the while."""
        live = []
        while self.job.poll() is None and not live:
            document = diagnose(self.muster, self.environment, "--live")[1]
            live = verdict(document["findings"]) if document else []
            time.sleep(0.5)
        return live

    def check(self):
        """A job that hangs is ended once it was told everywhere, however long that takes."""
        wrong = []
        live = self.wait_for_live()
        while self.expected and self.job.poll() is None and not self.written():
            time.sleep(0.2)
        if self.expected:
            self.job.terminate()
        said = self.job.communicate(timeout=DEADLINE_S)[1].decode()
        lines = self.written()
        status, document = diagnose(self.muster, self.environment, self.run)
        os.rmdir(self.environment["MUSTER_SEGMENT_DIR"])
        for what, found in (("--live", live), ("leader", verdict(lines)),
                            ("RUN", verdict(document["findings"]))):
            if found != self.expected:
                wrong.append(f"{self.name}: {what} says {found}, expected {self.expected}")
        if status != (1 if self.expected else 0):
            wrong.append(f"{self.name}: exit status {status}")
        if self.expected and said.count(self.expected[0][0]) != 1:
            wrong.append(f"{self.name}: on stderr: {said!r}")
        return wrong


def main(muster, recordings):
    with tempfile.TemporaryDirectory() as scratch:
        cases = [Case(muster, recordings, scratch, *case, timing)
                 for case in CASES for timing in TIMINGS]
        bereft = Case(muster, recordings, scratch, *BEREFT, "full")
        with concurrent.futures.ThreadPoolExecutor(len(cases) + 1) as pool:
            alone = pool.submit(bereft.test_another_leads_once_the_leader_is_gone)
            wrong = [line for lines in pool.map(Case.check, cases) for line in lines]
            wrong += alone.result()
    print("\n".join(wrong) or f"{len(cases)} right, live, by the leader and afterwards")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
