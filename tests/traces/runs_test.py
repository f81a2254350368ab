"""Diagnoses recorded jobs of real GPUs (runs/README.md) and compares the verdicts.

usage: runs_test.py MUSTER LOG_TEXT RUNS [LIVE_PLAY]
LIVE_PLAY: bench/live_play, of which it is asked what would have been told live."""

import glob
import json
import lzma
import os
import subprocess
import sys
import tempfile

# Run: (kind, guilty ranks, cause) or None, and what must be said about what is not observable; what the
# job lost, in seconds of its own clock, where that is known.
EXPECTED = {
    "clean": (None, "(4 of 4 ranks): nobody late"),
    "clean-unlike": (None, "(4 of 4 ranks): nobody late"),
    "jitter": (None, "(4 of 4 ranks): nobody late"),
    "ddp": (None, "(4 of 4 ranks): nobody late"),
    "fsdp": (None, "all waited for a host that was behind"),
    "gpuslow03": (("late_rank", [1], "gpu"), ""),
    "hosts-gpuslow": (("late_rank", [2], "gpu"), ""),
    "grid-late": (("late_rank", [1], "gpu"), ""),
    "pipeline": (("late_rank", [2], "gpu"), ""),
    "pipeline-turns": (None, "(2 of 2 ranks): nobody late"),
    "pipeline-exchanges": (("late_rank", [0], "gpu"), ""),
    "pipeline-four": (None, "(4 of 4 ranks): nobody late"),
    "pipeline-host": (("late_rank", [1], "unknown"), ""),
    "pipeline-late": (("late_rank", [1], "unknown"), ""),
    "pipeline-queued": (None, "three times as long by itself as the other stage"),
}
# What is told live is not what is found: of fsdp a host is named, and taken back; each of two hosts sees itself alone.
NOT_LIVE = {"fsdp", "hosts-gpuslow"}
LOST_S = {"pipeline-host": 7.96, "grid-late": 2.10}
NEAR = 0.3


def unpack(log_text, folder, run):
    for packed in glob.glob(os.path.join(folder, "*.txt.xz")):
        with lzma.open(packed) as source:
            subprocess.run([log_text, "make", "-", run], input=source.read(), check=True)


def problem(told, finding, said, lost_s):
    """What is wrong with the verdict; None: nothing. lost_s: None where it is not known."""
    found = [(f["kind"], f["ranks"], f["cause"]) for f in told["findings"]]
    if found != ([finding] if finding else []):
        return f"found {found}"
    costs = [f["cost_run_s"] or f["cost_s"] for f in told["findings"]]
    if any(f["every"] for f in told["findings"]):
        return "at a beat, of ranks that are late in each step"
    if lost_s and abs(sum(costs) - lost_s) > NEAR * lost_s:
        return f"cost {costs}, lost {lost_s}"
    if not any(said in line for line in told["not_observable"] + [""]):
        return f"not observable: {told['not_observable']}"
    return None


def told_live(live_play, run):
    """What is wrong with what would have been told; None: it is what is found afterwards, and nothing was taken back."""
    played = subprocess.run([live_play, run], timeout=60, stdout=subprocess.PIPE, text=True)
    return played.stdout if played.returncode or "retracted" in played.stdout else None


def main(muster, log_text, runs, live_play=None):
    folders = {name for name in os.listdir(runs) if os.path.isdir(os.path.join(runs, name))}
    wrong = folders != set(EXPECTED)
    for name, (finding, said) in EXPECTED.items():
        with tempfile.TemporaryDirectory() as run:
            unpack(log_text, os.path.join(runs, name), run)
            done = subprocess.run([muster, "diagnose", run, "--format", "json"], timeout=60,
                                  stdout=subprocess.PIPE)
            trouble = problem(json.loads(done.stdout), finding, said, LOST_S.get(name))
            if live_play and name not in NOT_LIVE:
                trouble = trouble or told_live(live_play, run)
        print(f"{name}: {trouble or 'right'}", flush=True)
        wrong |= trouble is not None or done.returncode != (finding is not None)
    return wrong


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
