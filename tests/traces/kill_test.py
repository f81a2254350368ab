"""SIGKILL at 100 random points of a replay: the report must show every operation whose call (of a
send, receive or graph replay: whose start) had returned, none whose call had not begun, and the
bytes of exactly these.

usage: kill_test.py MUSTER PLUGIN RECORDINGS [POINTS [SEED]]"""

import itertools
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile

import recording

# Collectives, a hang, sends with a captured graph, and network proxies.
FILES = ("clean/rank-0.jsonl.xz", "hang-absent/rank-2.jsonl.xz", "kinds-2rank/rank-1.jsonl.xz",
         "net-clean/rank-3.jsonl.xz")
TIMINGS = ("light", "full")
REPLAY_NS = 10**8  # about what a replay takes, so that kills come in time


class Replay:
    """One rank's process, with the counts that it keeps in a shared file."""

    def __init__(self, muster, plugin, path, speed, scratch, environment):
        self.run = os.path.join(scratch, "run")
        progress = os.path.join(scratch, "progress")
        with open(progress, "wb") as file:
            file.write(bytes(16))
        with open(progress, "rb") as file:
            self.counts = mmap.mmap(file.fileno(), 16, access=mmap.ACCESS_READ)
        self.process = subprocess.Popen(
            [muster, "replay", "--one-rank", path, plugin, str(speed), "0", self.run, "-1", "-1",
             progress], env=environment)

    def progress(self):
        """Starts of operations: entered, returned."""
        return struct.unpack("<QQ", self.counts[:])

    def kill_at(self, entered):
        """Kills once that many starts began; a process that is faster may have left already."""
        while self.progress()[0] < entered and self.process.poll() is None:
            pass
        self.process.kill()
        return self.process.wait()


def speed_of(path):
    times = [line["t"] for line in recording.lines(path) if "t" in line]
    return max(1, (max(times) - min(times)) // REPLAY_NS)


def report(muster, run, environment):
    text = subprocess.run([muster, "report", run, "--format", "json"], check=True, timeout=60,
                          stdout=subprocess.PIPE, env=environment).stdout
    rows = json.loads(text)["ranks"]
    assert len(rows) == 1, rows
    return rows[0]


def check(row, entered, returned, status, operations):
    """A sentence about what is wrong, or None."""
    if not returned <= row["ops"] <= entered:
        return f"ops {row['ops']}, but {returned} starts returned and {entered} began"
    expected = sum(operation.bytes for operation in operations[:row["ops"]])
    if row["bytes"] != expected:
        return f"bytes {row['bytes']} for {row['ops']} operations, counted {expected}"
    # Behind its last operation it may have been leaving already.
    if status == -signal.SIGKILL and entered < len(operations) and row["exit"] != "killed":
        return f"exit {row['exit']} of a killed process"
    return None


def main(muster, plugin, recordings, points="100", seed="1"):
    chance, wrong, killed = random.Random(int(seed)), [], 0
    paths = [os.path.join(recordings, name) for name in FILES]
    speeds = {path: speed_of(path) for path in paths}
    operations = {path: recording.read(path)[1] for path in paths}
    cases = itertools.cycle(itertools.product(paths, TIMINGS))
    for point, (path, timing) in zip(range(int(points)), cases):
        with tempfile.TemporaryDirectory() as scratch, \
                tempfile.TemporaryDirectory(dir="/dev/shm") as segments:
            environment = dict(os.environ, MUSTER_TIMING=timing, MUSTER_SEGMENT_DIR=segments)
            replay = Replay(muster, plugin, path, speeds[path], scratch, environment)
            target = chance.randint(1, len(operations[path]))
            status = replay.kill_at(target)
            row = report(muster, replay.run, environment)
            fault = check(row, *replay.progress(), status, operations[path])
            killed += status == -signal.SIGKILL
            if fault:
                wrong.append(f"point {point}, {path} {timing}, killed at {target}: {fault}")
    print("\n".join(wrong) or f"{killed} of {points} killed in time, all reports right")
    return 1 if wrong or not killed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
