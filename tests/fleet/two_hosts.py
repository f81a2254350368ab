"""Two H200 ranks on two hosts as NCCL ran them (two_hosts/*.txt.xz), as traces for `muster replay`. A line is an
operation: rank, function, elements, microseconds from the call before to its own, units of half a microsecond from
the begin of the kernel before to that of its own, and units that its kernel took. The first line of a rank counts from
where its recording begins. late: from two seconds on rank 1's host thread sleeps in each step; its second half is
played twice, as who is held against one other rank alone is named after ten seconds."""

import json
import lzma
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "two_hosts")
GROUP_API, COLL_API, LAUNCH, GROUP, COLL, CHANNEL = 256, 512, 2048, 1, 2, 64
BEGIN_NS, YOUNG_NS, STOPPED = 10**10, 10**9, 22


def operation(rank, number, func, count, call_ns, begin_ns, took_ns):
    """What NCCL tells a profiler of it: calls at once, its kernel when that runs, by a clock of the GPU's own."""
    api, coll, launch, group, task, kernel = range(6 * number + 1, 6 * number + 7)
    kinds = {"ctx": 1, "graph": 0}
    of = {"func": func, "count": count, "dt": "ncclBfloat16", "root": 0}
    ran_ns = max(call_ns + 1000, BEGIN_NS + begin_ns)
    end_ns = ran_ns + max(took_ns, 1000)
    yield call_ns - 2000, {"op": "start", **kinds, "h": api, "type": GROUP_API, "parent": 0, "depth": 1}
    yield call_ns - 1500, {"op": "start", **kinds, "h": coll, "type": COLL_API, "parent": api, "stream": "0x1", **of}
    yield call_ns - 1000, {"op": "stop", "h": coll, "type": COLL_API}
    yield call_ns - 800, {"op": "start", "ctx": 1, "h": launch, "type": LAUNCH, "parent": api, "stream": "0x1"}
    yield call_ns - 700, {"op": "stop", "h": launch, "type": LAUNCH}
    yield call_ns - 600, {"op": "start", "ctx": 1, "h": group, "type": GROUP, "parent": 0}
    yield call_ns - 500, {"op": "start", "ctx": 1, "h": task, "type": COLL, "parent": coll, "rank": rank, "seq": number,
                          "nch": 1, "nwarps": 17, "algo": "RING", "proto": "SIMPLE", "pgroup": group, **of}
    yield call_ns - 400, {"op": "stop", "h": group, "type": GROUP}
    yield call_ns - 300, {"op": "stop", "h": api, "type": GROUP_API}
    yield ran_ns, {"op": "start", "ctx": 1, "h": kernel, "type": CHANNEL, "parent": task, "ch": 0,
                   "ptimer": YOUNG_NS + begin_ns}
    yield end_ns, {"op": "state", "h": kernel, "type": CHANNEL, "state": STOPPED, "ptimer": YOUNG_NS + begin_ns + took_ns}
    yield end_ns + 1, {"op": "stop", "h": kernel, "type": CHANNEL}
    yield end_ns + 500, {"op": "stop", "h": task, "type": COLL}


def read(name):
    """Of each rank [(function, elements, called, began, took)], in nanoseconds since the first operation."""
    ranks, call, begin = ([], []), [0, 0], [0, 0]
    with lzma.open(os.path.join(FOLDER, name + ".txt.xz"), "rt") as lines:
        for line in lines:
            own, func, *numbers = line.split()
            rank = int(own)
            count, since_call, since_begin, took = map(int, numbers)
            call[rank] += since_call * 1000
            begin[rank] += since_begin * 500
            ranks[rank].append((func, count, call[rank], begin[rank], took * 500))
    return ranks


def twice(ranks):
    """The second half once more behind it: both ranks move by the same time, so that their clocks stand alike."""
    half = len(ranks[0]) // 2
    moved = ranks[0][-1][2] - ranks[0][half - 1][2]
    return [own + [(func, count, call + moved, begin + moved, took) for func, count, call, begin, took in own[half:]]
            for own in ranks]


def write(name, host, rank, path):
    """Rank `rank` of the recording `name`, on a host."""
    events, ranks = [], read(name)
    for number, (func, count, call, begin, took) in enumerate((twice(ranks) if name == "late" else ranks)[rank]):
        events += operation(rank, number, func, count, BEGIN_NS + call, begin, took)
    events.sort(key=lambda event: event[0])
    head = [{"op": "meta", "format": 1, "api": 5, "nccl": 22809, "rank": rank, "nranks": 2, "host": host,
             "local_rank": 0, "gpu": "NVIDIA H200"},
            {"t": BEGIN_NS - 10**9, "tid": 1, "op": "init", "ctx": 1, "comm": "27506eff30dc85ff", "name": "", "nNodes": 2,
             "nranks": 2, "rank": rank}]
    with open(path, "w", encoding="utf-8") as out:
        for line in head + [{"t": at, "tid": 2 if event["type"] == CHANNEL else 1, **event} for at, event in events]:
            out.write(json.dumps(line) + "\n")
