#!/usr/bin/env python3
"""extract.py RECORDINGS > models.txt

What the generated cases of bench/accuracy are made from: the steps of the clean recordings (and of
late-tpdp, with the injected delay taken out), as self times and transfer times of every operation.
Reads the call traces themselves and shares nothing with muster.

One recording:    model NAME POSITIONS STEPS
one position:     pos GROUP FUNC COUNT         GROUP: world, tp or dp
one operation:    op STEP POSITION TRANSFER SELF0 SELF1 SELF2 SELF3      (ns; -1: not known)
"""
import json
import lzma
import os
import sys
from collections import defaultdict

RANKS = 4
WARM_UP = 3  # first steps: a rank is late in them because it connects
# Recording; whether it has tensor- and data-parallel pairs; rank whose delay is taken out.
RECORDINGS = (("clean", False, None), ("fsdp-clean", False, None), ("net-clean", False, None),
              ("late-tpdp", True, 1))


def operations(path):
    """The collectives of one rank that the GPU timed, in the order of their begin."""
    comm_of = {}
    op = {}
    channel = {}
    with lzma.open(path) as file:
        for line in file:
            try:
                call = json.loads(line)
            except json.JSONDecodeError:
                break
            if call["op"] == "init":
                comm_of[call["ctx"]] = (call["comm"], call["nranks"])
            elif call["op"] == "start" and call["type"] == 2:
                op[call["h"]] = {"comm": comm_of[call["ctx"]], "func": call["func"],
                                 "count": call["count"], "begin": [], "end": []}
            elif call["op"] == "start" and call["type"] == 64 and call["parent"] in op:
                channel[call["h"]] = call["parent"]
                op[call["parent"]]["begin"].append(call["ptimer"])
            elif call["op"] == "state" and call["type"] == 64 and call["h"] in channel:
                if call.get("ptimer"):
                    op[channel[call["h"]]]["end"].append(call["ptimer"])
    timed = [o for o in op.values() if o["begin"] and o["end"]]
    for o in timed:
        o["begin"], o["end"] = min(o["begin"]), max(o["end"])
    timed.sort(key=lambda o: o["begin"])
    latest = None
    for o in timed:
        o["self"] = -1 if latest is None else max(0, o["begin"] - latest)
        latest = o["end"] if latest is None else max(latest, o["end"])
    return timed


def period(words):
    """Length of the step that the second half of the run repeats."""
    half = words[len(words) // 2:]
    for n in range(2, len(half) // 3):
        if sum(a == b for a, b in zip(half, half[n:])) >= 0.8 * (len(half) - n):
            return n
    raise SystemExit("extract.py: no step repeats")


def group_of(op, pairs):
    if not pairs:
        return "world"
    return "tp" if op["func"] == "AllReduce" and op["count"] <= 1 << 22 else "dp"


def steps_of(ops, pattern):
    """Where the pattern stands; the operation before each must be there, too."""
    words = [(o["func"], o["count"]) for o in ops]
    n, at, found = len(pattern), 1, []
    while at + n <= len(words):
        if words[at:at + n] == pattern and words[at - 1] == pattern[-1]:
            found.append(at)
            at += n
        else:
            at += 1
    return found


def model(name, folder, pairs, guilty):
    ranks = [operations(os.path.join(folder, name, f"rank-{r}.jsonl.xz")) for r in range(RANKS)]
    if pairs:
        ranks = [[o for o in ops if o["comm"][1] == 2] for ops in ranks]
    words = [(o["func"], o["count"]) for o in ranks[0]]
    n = period(words)
    middle = len(words) * 3 // 4
    # A step begins where the GPU computed longest.
    gaps = defaultdict(list)
    for i in range(middle - 3 * n, middle):
        gaps[i % n].append(ranks[0][i]["self"])
    first = max(gaps, key=lambda k: sorted(gaps[k])[len(gaps[k]) // 2])
    start = middle - middle % n + first
    pattern = words[start - n:start]
    places = [steps_of(ops, pattern) for ops in ranks]
    steps = min(len(p) for p in places)
    print("model", name, n, steps - WARM_UP)
    for op in ranks[0][start - n:start]:
        print("pos", group_of(op, pairs), op["func"], op["count"])
    for s in range(WARM_UP, steps):
        for i in range(n):
            own = [ranks[r][places[r][s] + i] for r in range(RANKS)]
            self_ns = [o["self"] for o in own]
            if guilty is not None:
                self_ns[guilty] = min(self_ns[guilty], self_ns[guilty ^ 1])
            transfer = min(o["end"] - o["begin"] for o in own)
            print("op", s - WARM_UP, i, transfer, *self_ns)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for recording in RECORDINGS:
        model(recording[0], sys.argv[1], *recording[1:])
