"""Replays every recording without a hang and compares the findings with what was injected.

usage: diagnose_test.py MUSTER RECORDINGS

In `full` everything that was injected must be found, but for the known misses and for replays of
CUDA graphs, which only `channels` times; in `auto` and `light` what is found must be right. Host times mean nothing at full speed, so the two recordings with network proxies are
replayed at their own pace."""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

# Recording: (kind, guilty ranks in order, mode, victims).
INJECTED = {
    "clean": None,
    "fsdp-clean": None,
    "net-clean": None,
    "late-gpu": ("late_rank", [2], "persistent", []),
    "late-cpu": ("late_rank", [3], "persistent", []),
    "late-tpdp": ("late_rank", [1], "persistent", [0, 2, 3]),
    "late-pipeline": ("late_rank", [2], "persistent", []),
    "late-graph": ("late_rank", [3], "persistent", []),
    "kinds-2rank": ("late_rank", [1], "intermittent", []),
    "net-throttled": ("slow_transfer", [1, 2], None, []),
}

# Recording: why nothing needs to be found. What is found must be right all the same.
KNOWN_MISSES = {
    "kinds-2rank": "9 operations hit, in 3 bursts; fewer than 20 are not due (docs/accuracy.md)",
}


def findings(muster, folder, run, timing, speed):
    environment = dict(os.environ, MUSTER_TIMING=timing, MUSTER_SEGMENT_DIR="/dev/shm")
    subprocess.run([muster, "replay", folder, "--speed", speed, "--out", run], check=True,
                   env=environment, timeout=240)
    done = subprocess.run([muster, "diagnose", run, "--format", "json"], timeout=60,
                          stdout=subprocess.PIPE)
    found = json.loads(done.stdout)["findings"]
    if done.returncode != bool(found):
        raise SystemExit(f"{folder}: exit {done.returncode} with {len(found)} findings")
    return found


def problem(found, injected, must, may_miss):
    """What is wrong with the findings; None: nothing."""
    if not found:
        return "nothing found" if injected and must and not may_miss else None
    if len(found) > 1 or not injected:
        return f"found {[(f['kind'], f['ranks']) for f in found]}"
    kind, ranks, mode, victims = injected
    one = found[0]
    if (one["kind"], one["ranks"]) != (kind, ranks):
        return f"found {one['kind']} of {one['ranks']}"
    if must and (one["mode"] != mode or sorted(one["victims"]) != victims):
        return f"mode {one['mode']}, victims {one['victims']}"
    if not 0 < one["cost_share"] <= 1 or not 0 < one["confidence"] <= 1 or not one["evidence"]:
        return f"cost_share {one['cost_share']}, confidence {one['confidence']}"
    return None


def speed_of(name, timing):
    return "1" if name.startswith("net") and timing == "full" else "max"


def must_find(name):
    return "channels" if name == "late-graph" else "full"


def evaluate(muster, recordings, name, timing):
    """(what to print, whether it is wrong)."""
    injected = INJECTED[name]
    with tempfile.TemporaryDirectory() as run:
        found = findings(muster, os.path.join(recordings, name), os.path.join(run, "out"), timing,
                         speed_of(name, timing))
    reason = KNOWN_MISSES.get(name)
    trouble = problem(found, injected, timing == must_find(name), reason)
    missed = injected is not None and not found
    told = (f"known miss: {reason}" if reason else "missed") if missed else "right"
    return f"{name} {timing}: {trouble or told}", trouble is not None


def main(muster, recordings):
    runs = [(name, timing) for name in INJECTED for timing in ("full", "auto", "light")]
    runs.append(("late-graph", "channels"))
    paced = [run for run in runs if speed_of(*run) == "1"]
    wrong = 0
    # At full speed no time counts, so these may share the processors; the others need their pace.
    for together, workers in ((set(runs) - set(paced), os.cpu_count()), (paced, 1)):
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            for line, bad in pool.map(lambda run: evaluate(muster, recordings, *run),
                                      sorted(together)):
                wrong += bad
                print(line, flush=True)
    return wrong != 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
