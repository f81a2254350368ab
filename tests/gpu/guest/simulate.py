"""Whether `muster policy simulate` says what a policy does: two policies by turns, two ranks on emulated hosts
over sockets, also on one GPU that both share; --one-host: on two GPUs of one host.

usage: simulate.py --build BUILD [--nccl FOLDER] [--out FOLDER] [--libraries NAME,...] [--policies A=PROTO,B=PROTO]
                   [--turns N] [--loops N] [--seconds S] [--one-host]
The first turn's runs, timed in full, are what simulate sees: A's with B's policy, and B's with A's. Measured is
the program's own clock in the later turns, in light. A row for each size and way: microseconds an all-reduce
with one policy and the other, the ratio of these (medians of the turns) with the lowest and highest of a turn, what
simulate says of it, and by which clock. OUT/simulate.jsonl keeps all. Exit status 0 if simulate knows each size, 1 if not, 77: no GPU here.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import every_nccl  # noqa: E402
import every_nccl_rank  # noqa: E402
import harm  # noqa: E402
import ranks  # noqa: E402

ROW = "%-14s %-16s %8s %9s %9s %8s %17s %9s %-5s"


def policy_text(name, proto):
    return "muster: 1\npolicy:\n- {name: %s, match: {collective: all_reduce}, prefer: {proto: %s}}\n" % (name, proto)


def pace(options, library, policy, mode, run):
    """{bytes: microseconds}, the mean of both ranks."""
    shared = harm.environment(options, harm.Cell(mode, library, "pace"), run)
    shared.update(NCCL_TUNER_PLUGIN="libnccl-tuner-muster.so", MUSTER_CONFIG=policy)
    said, wrong = every_nccl.play(options.paths[library], "pace", shared, options.seconds,
                                  "--loops", str(options.loops), one_host=options.one_host)
    if wrong:
        raise RuntimeError(wrong)
    return {int(size): statistics.fmean(rank["pace"][size] for rank in said) for size in said[0]["pace"]}


def ask(muster, policy, *runs):
    answer = subprocess.run([muster, "policy", "simulate", policy, *runs, "--format", "json"],
                            capture_output=True, text=True)
    if not answer.stdout.startswith("{"):
        raise RuntimeError("simulate: " + answer.stderr.strip())
    return json.loads(answer.stdout)


def predicted(simulation, size):
    """(ratio, by) of the operations of `size` bytes; None where simulate does not know."""
    for one in simulation["classes"]:
        if one["size"] <= size < 2 * max(1, one["size"]) and one["change"] == "would" and one["count"]:
            known = [e for e in one["effects"] if e["ratio"] is not None]
            if known:
                return known[0]["ratio"], known[0]["by"]
    return None, None


def ratio_of(turns, a, b, size):
    """(median, lowest, highest) of b over a by the program's clock."""
    each = [turn[b][size] / turn[a][size] for turn in turns]
    both = [statistics.median(turn[name][size] for turn in turns) for name in (b, a)]
    return both[0] / both[1], min(each), max(each)


def one_library(options, library, scratch, record):
    paths, runs = {}, {}
    for name, proto in options.policies:
        paths[name] = os.path.join(scratch, "%s.yaml" % name)
        with open(paths[name], "w") as file:
            file.write(policy_text(name, proto))
    for name in paths:
        runs[name] = os.path.join(scratch, "%s-%s" % (library, name))
        pace(options, library, paths[name], "full", runs[name])
    turns = [{name: pace(options, library, paths[name], "light", os.path.join(scratch, "light-%s-%s-%d" % (
        library, name, turn))) for name in (paths if turn % 2 else reversed(list(paths)))} for turn in range(options.turns)]
    unknown, names = 0, list(paths)
    for a, b in (names, names[::-1]):
        simulation = ask(options.muster, paths[b], runs[a], runs[b])
        for size in (4 * words for words in every_nccl_rank.PACE):
            ratio, low, high = ratio_of(turns, a, b, size)
            said, by = predicted(simulation, size)
            unknown += said is None
            print(ROW % (library, "%s to %s" % (a, b), size, *["%.1f" % statistics.median(
                turn[name][size] for turn in turns) for name in (a, b)], "%.3f" % ratio, "%.3f to %.3f" % (low, high),
                "unknown" if said is None else "%.3f" % said, by or "-"), flush=True)
        record.write(json.dumps({"library": library, "from": a, "to": b, "turns": turns, "simulation": simulation}) + "\n")
        record.flush()
    return unknown


def parse(arguments):
    def words(text):
        return text.split(",")
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--out", default=".")
    parser.add_argument("--libraries", type=words)
    parser.add_argument("--policies", type=words, default=["simple=simple", "ll=ll"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--loops", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--one-host", action="store_true")
    options = parser.parse_args(arguments)
    options.policies = [tuple(text.split("=", 1)) for text in options.policies]
    return options


def main(arguments):
    options = parse(arguments)
    if ranks.gpus() < 1 + options.one_host:
        print("skipped: needs %s" % ("two GPUs" if options.one_host else "a GPU"))
        return 77
    options.plugin = harm.find(os.path.abspath(options.build), "libnccl-profiler-muster.so")
    options.muster = harm.find(os.path.abspath(options.build), "muster")
    os.makedirs(options.out, exist_ok=True)
    print(ROW % ("library", "from", "bytes", "us before", "us after", "measured", "of a turn", "simulate", "by"), flush=True)
    bad = 0
    with tempfile.TemporaryDirectory() as scratch, open(os.path.join(options.out, "simulate.jsonl"), "a") as record:
        options.paths = harm.libraries(options.nccl, scratch, sharing=False)
        for library in options.paths:
            if options.libraries and library not in options.libraries:
                continue
            try:
                bad += one_library(options, library, scratch, record)
            except RuntimeError as error:
                bad += 1
                print("FAIL %s: %s" % (library, error), flush=True)
    print("== %s" % ("%d are not known" % bad if bad else "each size is known"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
