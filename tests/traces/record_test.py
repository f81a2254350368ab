"""Records the calls of a replay with MUSTER_TRACE and compares them with the recording that was
replayed: the same calls in the same order, but for times, threads and numbers.

usage: record_test.py MUSTER RECORDINGS"""

import os
import subprocess
import sys
import tempfile

import recording

SCENARIOS = ("clean", "kinds-2rank", "net-clean", "late-pipeline")
PROXY_CTRL = 32  # muster never asks for these


def calls(path):
    """Each call with handles and contexts named by the order of their first start. A send or
    receive has its call's group for a parent: muster gives the calls of one group one handle."""
    handles, contexts, parents = {0: 0}, {0: 0}, {}
    for line in recording.lines(path):
        if line.get("type") == PROXY_CTRL:
            continue
        for key in ("t", "tid", "pid"):
            line.pop(key, None)
        if "ctx" in line:
            line["ctx"] = contexts.setdefault(line["ctx"], len(contexts))
        for key in ("h", "parent", "pgroup"):
            if key in line:
                line[key] = handles.setdefault(line[key], len(handles))
        if line["op"] == "start":
            parents[line["h"]] = line["parent"]
            if line["type"] == recording.BITS["P2p"]:
                line["parent"] = parents[line["parent"]]
        if line["op"] == "meta":
            line.pop("gpu")  # a machine without that GPU cannot know
        if line["op"] == "init":
            line["name"] = line["name"] or None
        yield line


def compare(path, copy):
    original, recorded = list(calls(path)), list(calls(copy))
    for number, (one, other) in enumerate(zip(original, recorded)):
        if one != other:
            return f"{path}: call {number} is {one}, recorded {other}"
    if len(original) != len(recorded):
        return f"{path}: {len(original)} calls, {len(recorded)} recorded"
    return None


def main(muster, recordings):
    wrong = []
    for scenario in SCENARIOS:
        folder = os.path.join(recordings, scenario)
        with tempfile.TemporaryDirectory() as scratch:
            copies = os.path.join(scratch, "copies")
            environment = dict(os.environ, MUSTER_TIMING="full", MUSTER_TRACE=copies)
            subprocess.run([muster, "replay", folder, "--speed", "max", "--out",
                            os.path.join(scratch, "run")], check=True, env=environment,
                           timeout=120)
            for rank, path in recording.files(folder).items():
                wrong.append(compare(path, os.path.join(copies, f"rank-{rank}.jsonl")))
    wrong = [text for text in wrong if text]
    print("\n".join(wrong) or "what was recorded again is the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
