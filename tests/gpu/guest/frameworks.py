"""What frameworks' jobs pay for muster and how much of them it times: whole jobs with and without,
by turns on the same GPUs.

usage: frameworks.py --build BUILD [--out FOLDER] [--jobs JOB,...] [--rounds 40] [--block 8]
                     [--timing auto] [--budget SECONDS] [--nccl FOLDER] [--share]
Jobs: trainer (transformers, DDP), trainer-fsdp, lightning, experts, and the decode loops eager,
graphs, graphs-at-once; programs beside this file, turns as in step_overhead.py. Of each: the ratio of step
times to no plugin (`none-again`: no plugin against no plugin) and the share of operations timed.
Wanted: trainers and experts at most 1.005, the eager decode loop at most 1.01, graphs 1.00, each
plus half the width of the null case's interval; 90 % timed but in graphs. --nccl is accepted for
the call's sake: the frameworks bring their own. --share: the job with muster alone, and how much of it was
timed; nothing is said of cost, so that ranks may share one GPU (ranks.py says how). OUT/frameworks.json holds
all rounds. Exit status 0 if all is as wanted, 1 if not, 77: no GPUs for that or no PyTorch.
"""
import argparse
import json
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import ranks  # noqa: E402
import step_overhead  # noqa: E402
import turns  # noqa: E402

# Program, its argument, the ratio wanted, and the share timed; None: NCCL does not show replays.
JOBS = {
    "trainer": ("trainer_rank.py", "ddp", 1.005, 0.9),
    "trainer-fsdp": ("trainer_rank.py", "fsdp", 1.005, 0.9),
    "lightning": ("lightning_rank.py", "ddp", 1.005, 0.9),
    "experts": ("experts_rank.py", "alltoall", 1.005, 0.9),
    "eager": ("decode_rank.py", "eager", 1.01, None),
    "graphs": ("decode_rank.py", "graphs", 1.0, None),
    "graphs-at-once": ("decode_rank.py", "graphs-at-once", 1.0, None),
}
CASES = ["none", "none-again", "with"]
SHARE_WARM_UP = 4  # steps, and the rounds and steps a round that follow
SHARE_ROUNDS, SHARE_BLOCK = 2, 6


def evaluate(name, result):
    """What is not as wanted, in words."""
    _, _, limit, share = JOBS[name]
    ratio, null = (result["ratios"].get(case) for case in ("with", "none-again"))
    if not ratio or ratio["ratio"] is None:
        return ["too few rounds"]
    wrong = []
    width = (null["high"] - null["low"]) / 2
    if ratio["ratio"] > limit + width:
        wrong.append("step time ratio %.4f, wanted at most %.3f + %.4f" % (
            ratio["ratio"], limit, width))
    return wrong + evaluate_share(share, result["recorded"].get("with"))


def evaluate_share(share, recorded):
    if share is None:
        return []
    if not recorded:
        return ["no report"]
    timed = recorded["timed_ops"] / recorded["ops"]
    return [] if timed >= share else ["%.1f %% of %d operations timed, wanted %.0f %%" % (
        100 * timed, recorded["ops"], 100 * share)]


def share_of(name, options, end):
    """(the job's result, what is not as wanted), without a job to compare it with."""
    of = turn_options(options, name)
    of.cases, of.rounds, of.block = ["with"], SHARE_ROUNDS, SHARE_BLOCK
    step_overhead.WARM_UP = SHARE_WARM_UP
    rounds, about, recorded = step_overhead.measure(JOBS[name][1], of, end)
    print("%s: rank 0, %s" % (name, recorded["with"]), flush=True)
    return {"rounds": rounds, "recorded": recorded, **about}, evaluate_share(JOBS[name][3], recorded["with"])


def cost_of(name, options, end):
    result = step_overhead.compare(JOBS[name][1], turn_options(options, name), end)
    return result, evaluate(name, result)


def parse(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--out", default=".")
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=list(JOBS))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--block", type=int, default=8)
    parser.add_argument("--timing", default="auto")
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--share", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.jobs:
        if name not in JOBS:
            parser.error("no job %s: %s" % (name, ", ".join(JOBS)))
    return options


def find(build, name):
    for folder, _, files in os.walk(build):
        if name in files:
            return os.path.join(folder, name)
    sys.exit("frameworks: no %s below %s" % (name, build))


def turn_options(options, name):
    """As step_overhead.py parses its own."""
    program, _, _, _ = JOBS[name]
    return argparse.Namespace(
        cases=CASES, dir=os.path.dirname(os.path.abspath(find(options.build, step_overhead.PLUGIN))),
        muster=find(options.build, "muster"), timing=options.timing, rounds=options.rounds,
        block=options.block, ranks=2, seed=random.randrange(1 << 31),
        rank_program=os.path.join(HERE, program))


def main(arguments):
    options = parse(arguments)
    if ranks.gpus() < (1 if options.share else 2) or not ranks.have_torch():
        print("skipped: needs two GPUs, or one for --share, and PyTorch")
        return 77
    os.makedirs(options.out, exist_ok=True)
    begin, results, bad = time.monotonic(), {}, []
    for i, name in enumerate(options.jobs):
        print("== %s" % name, flush=True)
        end = begin + options.budget * (i + 1) / len(options.jobs)
        try:
            results[name], wrong = (share_of if options.share else cost_of)(name, options, end)
        except turns.Failed as error:
            wrong = [str(error)]
        for line in wrong:
            print("FAIL %s: %s" % (name, line), flush=True)
        bad += wrong
        with open(os.path.join(options.out, "frameworks.json"), "w") as out:
            json.dump(results, out)
    print("== %s" % ("FAILED" if bad else "all as wanted"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
