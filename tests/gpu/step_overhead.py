"""What muster adds to a training step: whole jobs with and without it, by turns on the same GPUs.

usage: step_overhead.py drive --with DIR [--kind ddp|fsdp|both] [--cases none,none-again,with]
                              [--steps 200] [--block 10] [--ranks N] [--timing auto] [--seed N]
                              [--budget SECONDS] [--muster PATH]
DIR holds libnccl-profiler-muster.so. A case is a job of N processes (train_step.py), started once:
none and none-again without the plugin; with, under --timing; light, auto, full, under that. After
30 steps of warm-up each, one job at a time, rounds: in random order every job makes 2 steps that do
not count and --block that do, while the others wait without work on the GPUs, until --steps have
counted. A round's figure is the mean of rank 0's step times. Printed: each round; a table with the
mean of the rounds, the ratio to none of the same round (geometric mean) and its 95 % interval, from
drawing rounds with replacement; what muster recorded of rank 0; a line of JSON with all rounds.
--budget: no round starts that would pass it, going by the longest so far; both kinds share it.
Exit status 1, with the last words of the ranks, if a job fails or the plugin recorded nothing.
"""
import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "../../bench")]
import overhead_stats  # noqa: E402  the arithmetic is that of the overhead's tables
import ranks  # noqa: E402
import turns  # noqa: E402

WARM_UP = 30  # steps: allocator, autotuning, and muster's first arming
UNSCORED = 2  # steps that bring clocks and caches back
START_LIMIT_S, ANSWER_LIMIT_S, REPORT_LIMIT_S = 240, 90, 60
PLUGIN = "libnccl-profiler-muster.so"
CASES = ("none", "none-again", "with", "light", "auto", "full")
# Where the command lies, seen from the plugin: one folder, a build, an installation.
COMMANDS = ("muster", "../cli/muster", "../bin/muster", "../../bin/muster")


# ---- Figures ----

def geometric(case, base):
    return math.exp(statistics.fmean(math.log(a / b) for a, b in zip(case, base)))


def ratios(rounds):
    """{case: Ratio to none} of a list of {case: ms}."""
    by_case = {case: {n: figures[case] for n, figures in enumerate(rounds)} for case in rounds[0]}
    none = by_case.pop("none")
    return {case: overhead_stats.Ratio(figures, none, geometric)
            for case, figures in by_case.items()}


def reach(null):
    """What two jobs without the plugin differ by, where they do; else 0."""
    if null is None or null.value is None or null.low <= 1 <= null.high:
        return 0
    return max(abs(null.low - 1), abs(null.high - 1))


def verdict(ratio, unseen=0):
    """`unseen`: of that size jobs differ anyway."""
    if ratio.value is None:
        return "too few rounds"
    if ratio.low <= 1 <= ratio.high:
        return "no difference beyond the interval"
    if abs(ratio.value - 1) <= unseen:
        return "no more than two jobs without it differ by"
    return "faster" if ratio.high < 1 else "a difference"


def print_table(rounds, to_none):
    null = to_none.get("none-again")
    print("%-11s %6s %10s  %s" % ("case", "rounds", "ms a step", "ratio to none"))
    for case in rounds[0]:
        ratio = to_none.get(case)
        unseen = 0 if case == "none-again" else reach(null)
        print("%-11s %6d %10.3f  %s" % (
            case, len(rounds), statistics.fmean(figures[case] for figures in rounds),
            "%s  %s" % (ratio, verdict(ratio, unseen)) if ratio else "1"))
    if null and null.value is not None:
        print("null case: half width %.4f" % null.half_width())
        if reach(null):
            print("the null case's interval misses 1: these jobs tell no difference below %.4f" %
                  reach(null))


# ---- Turns ----

def take_turns(cases, rounds, play, dice, end, clock=time.monotonic):
    """A list of {case: play(case)}, one for each round that began with time enough before end."""
    done, longest = [], 0.0
    for n in range(rounds):
        begin = clock()
        if begin + longest > end:
            break
        figures = {case: play(case) for case in dice.sample(cases, len(cases))}
        done.append({case: figures[case] for case in cases})
        print("round %d: %s" % (n + 1, ", ".join("%s %.4f" % of for of in done[-1].items())),
              flush=True)
        longest = max(longest, clock() - begin)
    return done


def step_times(answers, case, scored):
    """Rank 0's, checked."""
    times = answers[0].get("ms") if isinstance(answers[0], dict) else None
    if (not isinstance(times, list) or len(times) != scored or
            not all(isinstance(t, (int, float)) and 0 < t < math.inf for t in times)):
        raise turns.Failed("rank 0 of %s: %r are not the times of %d steps" % (
            case, answers[0], scored))
    return times


def start_jobs(stage, kind, options, work):
    for case in options.cases:
        # The same search path in all cases.
        changes = {"LD_LIBRARY_PATH": ":".join(filter(None, [
            options.dir, os.environ.get("LD_LIBRARY_PATH")]))}
        if timing_of(case, options):
            changes.update(NCCL_PROFILER_PLUGIN=PLUGIN, MUSTER_TIMING=timing_of(case, options),
                           MUSTER_DIR=os.path.join(work, case))
        stage.start(case, [sys.executable, "-B", options.rank_program, kind], options.ranks,
                    changes)


def timing_of(case, options):
    """MUSTER_TIMING; None without the plugin."""
    return None if case.startswith("none") else options.timing if case == "with" else case


def measure(kind, options, end):
    """The rounds, what rank 0 says about its software, and {case: what muster recorded of it}."""
    with tempfile.TemporaryDirectory() as work, turns.Stage(ANSWER_LIMIT_S) as stage:
        start_jobs(stage, kind, options, work)
        about = stage.ready(START_LIMIT_S)[options.cases[0]][0]
        for case in options.cases:
            stage.ask(case, "run %d 0" % WARM_UP)

        def play(case):
            answers = stage.ask(case, "run %d %d" % (UNSCORED, options.block))
            return statistics.fmean(step_times(answers, case, options.block))

        rounds = take_turns(options.cases, options.rounds, play, random.Random(options.seed), end)
        stage.finish()
        return rounds, about, {case: recorded(case, os.path.join(work, case), options)
                               for case in options.cases if timing_of(case, options)}


def recorded(case, run_dir, options):
    if not (os.path.isdir(run_dir) and os.listdir(run_dir)):
        raise turns.Failed("%s: %s was not loaded, or recorded nothing" % (case, PLUGIN))
    if not options.muster:
        return None
    try:
        report = json.loads(subprocess.run(
            [options.muster, "report", "--format", "json", run_dir], check=True,
            capture_output=True, timeout=REPORT_LIMIT_S).stdout)
        rank = next(r for r in report["ranks"] if r["rank"] == 0)
        timing = rank["timing"]
        figures = {"ops": rank["ops"] - timing["to_itself_ops"], "timed_ops": timing["timed_ops"]}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError,
            StopIteration) as error:
        words = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
        print("%s: no report of rank 0: %r %s" % (case, error, words), file=sys.stderr)
        return None
    if not figures["ops"]:
        raise turns.Failed("%s: no operation of rank 0 was recorded" % case)
    return figures


def compare(kind, options, end):
    print("%s: %d ranks, %d rounds of %d steps, seed %d; ms a step of rank 0" % (
        kind, options.ranks, options.rounds, options.block, options.seed), flush=True)
    rounds, about, by_muster = measure(kind, options, end)
    if len(rounds) < options.rounds:
        print("%s: the budget ends after %d of %d rounds" % (kind, len(rounds), options.rounds),
              file=sys.stderr)
    if not rounds:
        raise turns.Failed("%s: no round in the budget" % kind)
    to_none = ratios(rounds)
    print_table(rounds, to_none)
    for case, figures in by_muster.items():
        if figures:
            print("%s (%s), rank 0: %d operations recorded, %d of them timed" % (
                case, timing_of(case, options), figures["ops"], figures["timed_ops"]))
    sys.stdout.flush()
    return {"kind": kind, "timing": options.timing, "ranks": options.ranks, "seed": options.seed,
            "block": options.block, "rounds": rounds, "recorded": by_muster,
            "ratios": {case: {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
                       for case, ratio in to_none.items()},
            **(about if isinstance(about, dict) else {})}


# ---- Command line ----

def parse(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--with", dest="dir", required=True)
    parser.add_argument("--kind", choices=("ddp", "fsdp", "both"), default="both")
    parser.add_argument("--cases", type=lambda text: text.split(","),
                        default=["none", "none-again", "with"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--block", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--timing", choices=("light", "auto", "full"), default="auto")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--budget", type=float, default=math.inf)
    parser.add_argument("--muster")
    parser.add_argument("--rank-program", default=os.path.join(HERE, "train_step.py"),
                        help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.dir = os.path.abspath(options.dir)
    if not os.path.isfile(os.path.join(options.dir, PLUGIN)):
        parser.error("%s: no %s in it" % (options.dir, PLUGIN))
    for case in options.cases:
        if case not in CASES or options.cases.count(case) > 1:
            parser.error("--cases: found '%s', expected each of %s at most once" % (
                case, ", ".join(CASES)))
    if "none" not in options.cases:
        parser.error("--cases: none is missing, which the others are compared with")
    if options.steps < 1 or options.block < 1:
        parser.error("--steps and --block: at least 1")
    options.rounds = -(-options.steps // options.block)
    options.ranks = options.ranks or ranks.gpus()
    if options.ranks < 2:
        parser.error("%d GPUs: at least 2 are needed" % options.ranks)
    if options.muster and not os.path.isfile(options.muster):
        parser.error("--muster: no file %s" % options.muster)
    found = (os.path.join(options.dir, name) for name in COMMANDS)
    options.muster = options.muster or next(filter(os.path.isfile, found), None)
    return options


def drive(arguments):
    options = parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):  # as an exception: it ends the jobs
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    kinds = ("ddp", "fsdp") if options.kind == "both" else (options.kind,)
    begin, results = time.monotonic(), []
    try:
        for i, kind in enumerate(kinds):
            results.append(compare(kind, options,
                                   begin + options.budget * (i + 1) / len(kinds)))
    except turns.Failed as error:
        sys.exit("%s: %s" % (kind, error))
    finally:
        if results:
            print(json.dumps({"step_overhead": results}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "drive":
        drive(sys.argv[2:])
    else:
        sys.exit(__doc__)
