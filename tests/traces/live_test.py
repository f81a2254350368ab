"""Recordings with a late rank or a slow link, played and then held: the job's own leader, its log,
its hook, and `muster diagnose --live --follow` name them while the job lives, once, and what is
said afterwards is the same. Clean ones, held as long, have no finding.

usage: live_test.py MUSTER RECORDINGS"""

import concurrent.futures
import glob
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time

HOLD_S, DEADLINE_S = 5, 60
LONGER_S = 15  # a slow transfer has to last

# kinds-2rank is a known miss (diagnose_test.py): 9 operations are hit, in 3 bursts.
# Recording: (kind, ranks) or None. Ranks of two hosts are evaluated by each host alone.
CASES = {
    "late-gpu": ("late_rank", [2]),
    "late-cpu": ("late_rank", [3]),
    "late-tpdp": ("late_rank", [1]),
    "late-pipeline": ("late_rank", [2]),
    "late-graph": ("late_rank", [3]),
    "net-throttled on one host": ("slow_transfer", [1, 2]),
    "net-throttled": None,
    "clean": None,
    "fsdp-clean": None,
    "net-clean": None,
}
CONFIG = """muster: 1
on:
  late_rank: [log, exec: [sh, -c, "cat >> {file}"]]
  slow_transfer: [log, exec: [sh, -c, "cat >> {file}"]]
"""


def on_one_host(folder, to):
    """A copy whose ranks say that they are on one host."""
    os.makedirs(to)
    for name in os.listdir(folder):
        if not name.endswith(".jsonl.xz"):
            continue
        with lzma.open(os.path.join(folder, name)) as file:
            head, rest = file.read().split(b"\n", 1)
        meta = dict(json.loads(head), host="one")
        with open(os.path.join(to, name[:-len(".xz")]), "wb") as file:
            file.write(json.dumps(meta).encode() + b"\n" + rest)
    return to


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def verdict(findings):
    return [(finding["kind"], finding["ranks"]) for finding in findings]


class Case:
    def __init__(self, muster, recordings, scratch, name, expected):
        self.name, self.muster = name, muster
        self.expected = [expected] if expected else []
        self.run = tempfile.mkdtemp(dir=scratch)
        folder = os.path.join(recordings, name.split()[0])
        if "one host" in name:
            folder = on_one_host(folder, os.path.join(scratch, "one-host"))
        self.hooked = os.path.join(self.run, "hooked")
        config = os.path.join(self.run, "on.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(CONFIG.replace("{file}", self.hooked))
        self.environment = dict(os.environ, MUSTER_CONFIG=config,
                                MUSTER_SEGMENT_DIR=tempfile.mkdtemp(dir="/dev/shm"))
        hold = LONGER_S if name.startswith("net-throttled") else HOLD_S
        # Replays of CUDA graphs are timed by `channels` alone.
        timing = "channels" if name == "late-graph" else "full"
        self.job = subprocess.Popen(
            [muster, "run", "--timing", timing, "--no-report", "--dir", self.run, "--", muster,
             "replay", folder, "--hold", str(hold), "--out", self.run],
            env=self.environment, stderr=subprocess.PIPE)

    def follow(self):
        while not glob.glob(self.run + "/*.log") and self.job.poll() is None:
            time.sleep(0.05)
        return subprocess.run(
            [self.muster, "diagnose", "--live", "--follow", "--format", "json"],
            env=self.environment, stdout=subprocess.PIPE, check=False, timeout=DEADLINE_S).stdout

    def check(self):
        followed = objects(self.follow())
        said = self.job.communicate(timeout=DEADLINE_S)[1].decode()
        after = subprocess.run([self.muster, "diagnose", self.run, "--format", "json"],
                               env=self.environment, stdout=subprocess.PIPE, check=False,
                               timeout=DEADLINE_S).stdout
        shutil.rmtree(self.environment["MUSTER_SEGMENT_DIR"])
        written = [json.loads(line) for path in glob.glob(self.run + "/*.findings.jsonl")
                   for line in open(path, encoding="utf-8")]
        hooked = (objects(open(self.hooked, encoding="utf-8").read())
                  if os.path.exists(self.hooked) else [])
        # The command sees both hosts, as it does afterwards.
        whole = [("slow_transfer", [1, 2])] if self.name == "net-throttled" else self.expected
        for who, found, expected in (("the leader", verdict(written), self.expected),
                                     ("the hook", verdict(hooked), self.expected),
                                     ("--live --follow", verdict(followed), whole),
                                     ("RUN", verdict(json.loads(after)["findings"]), whole)):
            if found != expected:
                yield f"{self.name}: {who} says {found}, expected {expected}"
        for kind in ("late_rank", "slow_transfer"):
            if said.count(f"warning: {kind}:") != [one[0] for one in self.expected].count(kind):
                yield f"{self.name}: on stderr: {said!r}"


def main(muster, recordings):
    with tempfile.TemporaryDirectory() as scratch:
        cases = [Case(muster, recordings, scratch, *case) for case in CASES.items()]
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            wrong = [line for lines in pool.map(lambda case: list(case.check()), cases)
                     for line in lines]
    print("\n".join(wrong) or f"{len(cases)} right, live and afterwards")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
