"""A second, independent reader of call traces: counts and durations by the definitions of
docs/reference/words.md, with nothing but the standard library."""

import json
import lzma
import os
import re

BITS = {"Coll": 2, "P2p": 4, "KernelCh": 64, "CollApi": 512}
ELEMENT = {"ncclInt8": 1, "Unknown": 1, "ncclInt32": 4, "ncclUint32": 4, "ncclInt64": 8,
           "ncclUint64": 8, "ncclFloat16": 2, "ncclFloat32": 4, "ncclFloat64": 8,
           "ncclBfloat16": 2, "ncclFloat8e4m3": 1, "ncclFloat8e5m2": 1}


def lines(path):
    """The objects of a file; a last line cut short is left out."""
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                assert not line.endswith(b"\n"), f"{path}: {line!r}"


def files(folder):
    """{rank: path} of a recording."""
    found = {}
    for name in os.listdir(folder):
        match = re.fullmatch(r"rank-(\d+)\.jsonl(\.xz)?", name)
        if match:
            found[int(match[1])] = os.path.join(folder, name)
    return found


class Operation:
    """One collective that was called, or one send, receive or graph replay that NCCL showed."""

    def __init__(self, start, nranks):
        count = start["count"] * ELEMENT[start["dt"]]
        # NCCL tells the count of AllGather's and Broadcast's launch in bytes, as int8
        self.bytes = count * nranks if start["func"] in ("AllGather", "ReduceScatter") else count
        self.begin = {}  # by channel event
        self.end = {}

    def duration_ns(self):
        """None unless every channel that began has ended."""
        if not self.begin or len(self.end) < len(self.begin):
            return None
        return max(self.end.values()) - min(self.begin.values())


def read(path):
    """(meta, operations) of one rank's file."""
    meta, operations, nranks, of_call, of_handle, of_channel = None, [], {}, {}, {}, {}
    for line in lines(path):
        kind = line.get("type")
        if line["op"] == "meta":
            meta = line
        elif line["op"] == "init":
            nranks[line["ctx"]] = line["nranks"]
        elif line["op"] == "start" and kind == BITS["Coll"] and line["parent"] in of_call:
            of_handle[line["h"]] = of_call[line["parent"]]
        elif line["op"] == "start" and kind == BITS["CollApi"]:
            if not line["graph"]:  # captured, it runs nothing
                of_call[line["h"]] = Operation(line, nranks[line["ctx"]])
                operations.append(of_call[line["h"]])
        elif line["op"] == "start" and kind in (BITS["Coll"], BITS["P2p"]):
            operation = Operation(line, nranks[line["ctx"]])
            operations.append(operation)
            of_handle[line["h"]] = operation
        elif line["op"] == "start" and kind == BITS["KernelCh"] and line["parent"] in of_handle:
            operation = of_handle[line["parent"]]
            of_channel[line["h"]] = operation
            operation.begin[line["h"]] = line["ptimer"]
        elif line["op"] == "state" and line.get("state") == 22 and line["h"] in of_channel:
            of_channel[line["h"]].end[line["h"]] = line["ptimer"]
    return meta, operations
