"""`abort`: each process of a recorded hang, played again, ends itself after the grace time with the
finding as last words; for another kind, or without it, the job is held to its end.

usage: abort_test.py MUSTER RECORDINGS"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

THRESHOLD_S, GRACE_S, HOLD_S, DEADLINE_S = 2, 10, 16, 90

# Recording, what is configured, what every process says last (None: the job ends as it does).
CASES = (
    ("hang-absent", "hang_absent: [abort]", "hang_absent: rank 1 "),
    ("hang-mismatch", "hang_mismatch: [log, abort]", "hang_mismatch: rank 2 "),
    ("hang-mismatch", "hang_absent: [abort]\n  hang_dead: [abort]", None),
    ("hang-absent", "hang_dead: [abort]\n  hang_mismatch: [abort]", None),
    ("hang-absent", "hang_absent: [log]", None),
    ("clean", "hang_absent: [abort]\n  hang_dead: [abort]\n  hang_mismatch: [abort]", None),
)


def play(muster, recordings, scratch, case):
    name, on, words = case
    run = tempfile.mkdtemp(dir=scratch)
    config = os.path.join(run, "on.yaml")
    with open(config, "w", encoding="ascii") as file:
        file.write(f"muster: 1\non:\n  {on}\n")
    segments = tempfile.mkdtemp(dir="/dev/shm")
    environment = dict(os.environ, MUSTER_TIMING="full", MUSTER_SEGMENT_DIR=segments,
                       MUSTER_HANG_SECONDS=str(THRESHOLD_S), MUSTER_CONFIG=config)
    began = time.monotonic()
    hold = HOLD_S if words is None else DEADLINE_S
    done = subprocess.run([muster, "replay", os.path.join(recordings, name), "--speed", "20",
                           "--hold", str(hold), "--out", run], env=environment,
                          stderr=subprocess.PIPE, timeout=2 * DEADLINE_S, check=False)
    took, said = time.monotonic() - began, done.stderr.decode()
    shutil.rmtree(segments)
    last = re.findall(r"error: aborting, as configured: (.*)", said)
    if words is None:
        right = not last and took >= HOLD_S
    else:
        right = (len(last) == 4 and all(line.startswith(words) for line in last)
                 and THRESHOLD_S + GRACE_S <= took < DEADLINE_S)
    return None if right else f"{name}, {on!r}: {took:.1f} s, said {said!r}"


def main(muster, recordings):
    with tempfile.TemporaryDirectory() as scratch:
        with concurrent.futures.ThreadPoolExecutor(len(CASES)) as pool:
            wrong = [line for line in pool.map(
                lambda case: play(muster, recordings, scratch, case), CASES) if line]
    print("\n".join(wrong) or f"{len(CASES)} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
