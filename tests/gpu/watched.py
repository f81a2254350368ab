"""A job of the fault scenarios under `muster run`, watched while it runs: by its own leader (the
findings.jsonl of its run directory) and by `muster diagnose --follow`.

The scenarios are those of a launcher called like this, with one process per GPU:
launch.sh [-n GPUS] [-m local|hosts|netns] NAME [VAR=value ...]"""

import json
import glob
import os
import signal
import subprocess
import tempfile
import threading
import time

CONFIG = """muster: 1
on:
  late_rank: [log, report]
  slow_transfer: [log, report]
"""


class Told:
    """A finding, and when it was read (seconds since 1970)."""

    def __init__(self, finding):
        self.at = time.time()
        self.finding = finding
        self.kind, self.ranks = finding["kind"], finding["ranks"]
        self.resolved = finding["resolved"]

    def names(self):
        return f"{self.kind} {' '.join(map(str, self.ranks))}".strip()


class Job:
    """Starts at once. `launch` and `muster` are paths; `words` what launch.sh is called with."""

    def __init__(self, muster, launch, words, run, timing="auto", hang_s=10, by="live",
                 environment=None):
        self.muster, self.run, self.by = muster, run, by
        os.makedirs(run, exist_ok=True)
        self.segments = tempfile.mkdtemp(prefix="muster-watched-", dir="/dev/shm")
        config = os.path.join(run, "on.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(CONFIG)
        self.environment = dict(os.environ, MUSTER_SEGMENT_DIR=self.segments,
                                MUSTER_HANG_SECONDS=str(hang_s), MUSTER_CONFIG=config,
                                **(environment or {}))
        self.began = time.time()
        self.by_job, self.by_command = [], []
        self.errors = open(os.path.join(run, "stderr"), "wb")
        self.job = subprocess.Popen(
            [muster, "run", "--no-report", "--timing", timing, "--dir", run, "--", "bash", launch,
             *words], env=self.environment, stdout=self.errors, stderr=self.errors,
            start_new_session=True)
        self.over = False
        self.follower = None
        self.threads = [threading.Thread(target=target, daemon=True)
                        for target in (self.follow, self.tail)]
        for thread in self.threads:
            thread.start()

    # ---- watching ----

    def follow(self):
        """`muster diagnose --live --follow`, or of the run directory: what several hosts share."""
        what = ["--live"] if self.by == "live" else [self.run]
        while not glob.glob(self.run + "/*.log") and not self.over:
            time.sleep(0.02)
        if self.over:
            return
        with open(self.run + "/follow.err", "wb") as errors:
            self.follower = subprocess.Popen(
                [self.muster, "diagnose", *what, "--follow", "--format", "json"],
                env=self.environment, stdout=subprocess.PIPE, stderr=errors)
        for line in self.follower.stdout:
            self.by_command.append(Told(json.loads(line)))

    def tail(self):
        read = {}
        while not self.over:
            for path in glob.glob(self.run + "/*.findings.jsonl"):
                with open(path, "rb") as file:
                    file.seek(read.get(path, 0))
                    for line in file:
                        if line.endswith(b"\n"):
                            read[path] = read.get(path, 0) + len(line)
                            self.by_job.append(Told(json.loads(line)))
            time.sleep(0.05)

    def wait_for(self, condition, limit_s):
        """Until the condition holds, the job ends, or the limit is over. Whether it held."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if condition():
                return True
            if self.job.poll() is not None:
                return condition()
            time.sleep(0.02)
        return False

    def recording(self, ranks):
        return self.wait_for(lambda: len(glob.glob(self.run + "/*.log")) >= ranks, 60)

    # ---- the processes ----

    def rank_pid(self, rank):
        """The process that recorded rank `rank`."""
        text = subprocess.run([self.muster, "report", self.run, "--format", "json"],
                              env=self.environment, stdout=subprocess.PIPE, check=True,
                              timeout=60).stdout
        return next(row["pid"] for row in json.loads(text)["ranks"] if row["rank"] == rank)

    # ---- the end ----

    def end(self, grace_s=8):
        """Ends what still runs; the follower sees the end by itself."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.job.poll() is None:
                try:
                    os.killpg(self.job.pid, sign)
                    self.job.wait(grace_s)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        time.sleep(0.3)
        self.over = True
        if self.follower:
            try:
                self.follower.wait(5)
            except subprocess.TimeoutExpired:
                self.follower.terminate()
        for thread in self.threads:
            thread.join(10)
        self.errors.close()
        afterwards = subprocess.run([self.muster, "diagnose", self.run, "--format", "json"],
                                    env=self.environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, check=False, timeout=120).stdout
        with open(self.run + "/diagnose.json", "wb") as file:
            file.write(afterwards)
        for name in os.listdir(self.segments):
            os.unlink(os.path.join(self.segments, name))
        os.rmdir(self.segments)
        return json.loads(afterwards)["findings"] if afterwards else None


def machine():
    """(launch.sh, muster) from the environment variables LAUNCH and MUSTER."""
    launch, muster = os.environ.get("LAUNCH"), os.environ.get("MUSTER")
    if not launch or not muster:
        raise SystemExit("LAUNCH names launch.sh, MUSTER the command")
    return os.path.realpath(launch), os.path.realpath(muster)
