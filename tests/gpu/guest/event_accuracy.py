"""muster's durations against CUDA events of the program itself, operation by operation.

usage: event_accuracy.py --build BUILD [--nccl FOLDER] [--out FOLDER] [--modes full,channels]
                         [--kinds sizes,mixed,bursts] [--libraries NAME,...] [--limit SECONDS]
A job of event_cell.py under each mode (auto, full, channels) and library (as harm.py names them).
A row per size: operations, share timed; what muster's duration is longer by (median); how far the
difference between the two ranks, and the time from one begin to the next, are from the program's
own (median, 95 of 100); operations whose time is that of another one: which lie outside the program's
own events around the operation, the clocks being tied by its 15 neighbours on either side. Wanted:
differences between ranks within 1 us, no operation with the time of another. Exit status 0 if all is as wanted, 1 if not; 77: no GPU.
"""
import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import event_cell  # noqa: E402
import harm  # noqa: E402
import ranks  # noqa: E402

# OUTSIDE_US: the clocks agree within half a microsecond, and operations are 10 us apart.
NEAR_US, OUTSIDE_US, NEIGHBOURS = 1.0, 2.0, 15
HEAD = "%-8s %-12s %-6s %9s %7s %6s %8s %13s %13s %6s"
KINDS = ("sizes", "mixed", "bursts")
JOB_S = 60


def near(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def match(own, recorded):
    """[{size, d: [us, us] or None by rank, own: [us, us], ...}] of the operations that the program
    made, in order."""
    by_number = {(op["rank"], op["number"]): op for op in recorded if op["func"] == "AllReduce"}
    joint = collections.defaultdict(dict)
    for row in own:
        op = by_number.get((row["rank"], row["number"]))
        timed = op and op["count"] == row["words"] and op["end"] > op["begin"]
        joint[row["number"]][row["rank"]] = dict(
            row, counted=bool(op and op["count"] == row["words"]),
            muster_us=(op["end"] - op["begin"]) / 1e3 if timed else None,
            muster_begin=op["begin"] / 1e3 if timed else None)
    return [joint[n] for n in sorted(joint)]


def figures(pairs):
    """Of the operations of one size: see the usage."""
    offsets, gaps, timed, uncounted = [], [], 0, 0
    for pair in pairs:
        for row in pair.values():
            uncounted += not row["counted"]
            if row["muster_us"] is not None:
                timed += 1
                offsets.append(row["muster_us"] - row["us"])
                if row.get("gap") is not None:
                    gaps.append(row["gap"])
    offset = statistics.median(offsets) if offsets else 0
    wrong = sum(row.get("outside", False) for pair in pairs for row in pair.values())
    between = [abs((pair[0]["muster_us"] - pair[1]["muster_us"]) - (pair[0]["us"] - pair[1]["us"]))
               for pair in pairs if len(pair) == 2 and
               all(row["muster_us"] is not None for row in pair.values())]
    return {"operations": 2 * len(pairs), "uncounted": uncounted, "timed": timed,
            "offset_us": offset, "between_us": (near(between, 0.5), near(between, 0.95)),
            "gap_us": (near(gaps, 0.5), near(gaps, 0.95)), "wrong": wrong}


def add_gaps(pairs):
    """How far from one begin to the next muster's clock is from the program's."""
    last = {}
    for pair in pairs:
        for rank, row in pair.items():
            before = last.get(rank)
            if before and None not in (row["muster_begin"], before["muster_begin"]):
                row["gap"] = abs((row["muster_begin"] - before["muster_begin"]) -
                                 (row["begin_us"] - before["begin_us"]))
            last[rank] = row


def mark_outside(pairs):
    """Marks what muster timed outside the program's own events. Between those the host may pause
    anywhere, so that durations and distances of begins say nothing; only the order is certain: the
    smallest lead of the neighbours is at most a launch from the clocks' distance."""
    for rank in range(2):
        rows = [pair[rank] for pair in pairs
                if rank in pair and pair[rank]["muster_begin"] is not None]
        leads = [row["muster_begin"] - row["begin_us"] for row in rows]
        for i, row in enumerate(rows):
            clock = min(leads[max(0, i - NEIGHBOURS):i] + leads[i + 1:i + NEIGHBOURS + 1],
                        default=leads[i])
            begin = leads[i] - clock
            row["outside"] = (begin < -OUTSIDE_US or
                              begin + row["muster_us"] > row["us"] + OUTSIDE_US)


def evaluate(of_size, kind, mode):
    wrong = []
    if of_size["uncounted"]:
        wrong.append("%d operations are not recorded" % of_size["uncounted"])
    if of_size["wrong"]:
        wrong.append("%d operations have the time of another" % of_size["wrong"])
    between = of_size["between_us"][1]
    # As fast as the host goes, its own delay between two records is in the program's events.
    if kind != "bursts" and mode != "channels" and between is not None and between > NEAR_US:
        wrong.append("differences between ranks are %.1f us off" % between)
    if mode == "full" and of_size["timed"] < of_size["operations"]:
        wrong.append("%d of %d timed" % (of_size["timed"], of_size["operations"]))
    return wrong


def both(values):
    return "-" if values[0] is None else "%.2f %.2f" % values


def run_job(options, mode, library, kind):
    """What the program measured, and what muster recorded."""
    with tempfile.TemporaryDirectory() as work:
        run, out = os.path.join(work, "run"), os.path.join(work, "own.jsonl")
        cell = harm.Cell(mode, library, kind)
        job = subprocess.run([sys.executable, "-B", os.path.join(HERE, "event_cell.py"), kind,
                              options.paths[library], out], env=harm.environment(options, cell, run),
                             capture_output=True, text=True, timeout=JOB_S)
        if job.returncode:
            raise RuntimeError("status %d: %s" % (job.returncode, job.stderr.strip()[-300:]))
        recorded = subprocess.run([options.ops_of, run], capture_output=True, text=True, check=True)
        with open(out) as file:
            return ([json.loads(line) for line in file],
                    [json.loads(line) for line in recorded.stdout.splitlines()])


def compare(own, recorded, mode, library, kind):
    """Prints the rows; returns what is wrong."""
    pairs, bad = match(own, recorded), []
    add_gaps(pairs)
    mark_outside(pairs)
    for words in dict.fromkeys(pair[0]["words"] for pair in pairs):
        of_size = figures([pair for pair in pairs[5:] if pair[0]["words"] == words])
        wrong = evaluate(of_size, kind, mode)
        bad += wrong
        print(HEAD % (mode, library, kind, 4 * words, of_size["operations"],
                      "%.0f%%" % (100 * of_size["timed"] / max(1, of_size["operations"])),
                      "%.2f" % of_size["offset_us"], both(of_size["between_us"]),
                      both(of_size["gap_us"]), of_size["wrong"]) +
              "  " + ("; ".join(wrong) or "OK"), flush=True)
    return bad


def parse(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))

    def words(text):
        return text.split(",")
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--out", default=".")
    parser.add_argument("--modes", type=words, default=["full", "channels"])
    parser.add_argument("--kinds", type=words, default=list(KINDS))
    parser.add_argument("--libraries", type=words)
    parser.add_argument("--limit", type=float, default=540)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    if ranks.gpus() < 1:
        print("skipped: needs a GPU")
        return 77
    os.makedirs(options.out, exist_ok=True)
    options.plugin = harm.find(options.build, "libnccl-profiler-muster.so")
    options.ops_of = harm.find(options.build, "ops_of")
    bad, end = [], time.monotonic() + options.limit
    print(HEAD % ("mode", "NCCL", "kind", "bytes", "ops", "timed", "longer", "between ranks",
                  "begin to begin", "wrong"))
    with tempfile.TemporaryDirectory() as scratch:
        options.paths = harm.libraries(options.nccl, scratch)
        for library in options.libraries or options.paths:
            for mode in options.modes:
                for kind in options.kinds:
                    if time.monotonic() + JOB_S / 2 > end:
                        print("not run: %s %s %s" % (mode, library, kind), flush=True)
                        continue
                    try:
                        own, recorded = run_job(options, mode, library, kind)
                        bad += compare(own, recorded, mode, library, kind)
                    except (RuntimeError, subprocess.SubprocessError) as error:
                        bad.append(str(error))
                        print("FAIL %s %s %s: %s" % (mode, library, kind, error), flush=True)
    print("== %s" % ("FAILED" if bad else "all as wanted"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
