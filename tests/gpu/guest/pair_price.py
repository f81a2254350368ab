"""What a pair of CUDA events around a launch costs inside a training step, where communication overlaps with
computing. A job of train_step.py by a rank a GPU; each round has a block of steps with pairs and one without,
in random order, in the same processes, so that no start decides.

usage: pair_price.py --build BUILD [--kinds ddp,fsdp] [--rounds 40] [--block 10] [--budget SECONDS]
Printed of each kind: launches a step, a step without and with pairs, what a pair costs in us with the 95 %
interval from drawing rounds with replacement, and the same of two blocks without pairs: chance. Exit status 77:
no two GPUs or no PyTorch.
"""
import argparse
import math
import os
import random
import statistics
import struct
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import ranks  # noqa: E402
import turns  # noqa: E402

CASES = ("none", "again", "pairs")
WARM_UP, UNSCORED, DRAWS = 30, 2, 4000
START_LIMIT_S, ANSWER_LIMIT_S = 240, 90


def interval(values, draws=DRAWS):
    """(mean, low, high), by drawing them with replacement."""
    means = sorted(statistics.fmean(random.choices(values, k=len(values))) for _ in range(draws))
    return statistics.fmean(values), means[int(0.025 * draws)], means[int(0.975 * draws)]


def price_us(rounds, case, launches):
    """Of `case` over none, a launch: rounds are {case: ms a step}."""
    return [1e3 * (one[case] - one["none"]) / launches for one in rounds]


class Switch:
    """The plugin's file, one of all ranks."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "switch")
        with open(self.path, "wb") as file:
            file.write(bytes(16))

    def ask(self, asked):
        with open(self.path, "r+b") as file:
            file.write(struct.pack("=Q", asked))

    def pairs(self):
        with open(self.path, "rb") as file:
            return struct.unpack("=QQ", file.read(16))[1]


def play(options, kind, switch):
    """[{case: ms a step}]"""
    with turns.Stage(ANSWER_LIMIT_S) as stage:
        environment = {"NCCL_PROFILER_PLUGIN": options.plugin, "PAIR_PLUGIN_SWITCH": switch.path}
        command = [sys.executable, "-B", os.path.join(os.path.dirname(HERE), "train_step.py"), kind]
        stage.start(kind, command, options.ranks, environment)
        stage.ready(START_LIMIT_S)
        stage.ask(kind, "run %d 1" % WARM_UP)
        rounds, begin, longest = [], time.monotonic(), 0
        while len(rounds) < options.rounds and time.monotonic() + longest - begin < options.budget:
            started, one = time.monotonic(), {}
            for case in random.sample(CASES, len(CASES)):
                switch.ask(case == "pairs")
                answers = stage.ask(kind, "run %d %d" % (UNSCORED, options.block))
                one[case] = statistics.fmean(answers[0]["ms"])
            rounds.append(one)
            longest = max(longest, time.monotonic() - started)
        stage.finish()
    return rounds


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=["ddp", "fsdp"])
    parser.add_argument("--ranks", type=int, default=ranks.gpus())
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--block", type=int, default=10)
    parser.add_argument("--budget", type=float, default=math.inf)
    options = parser.parse_args(arguments)
    if options.ranks < 2 or not ranks.have_torch():
        print("skipped: needs two GPUs and PyTorch")
        return 77
    options.plugin = os.path.abspath(os.path.join(options.build, "bench", "libpair-plugin.so"))
    options.budget /= len(options.kinds)
    print("%-5s %6s %9s %9s %9s  %-26s %s" % ("kind", "rounds", "launches", "without", "pairs",
                                              "us a pair", "the same without"))
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder:
            switch = Switch(folder)
            rounds = play(options, kind, switch)
            steps = len(rounds) * (options.block + UNSCORED)
            launches = switch.pairs() / options.ranks / steps if rounds else 0
        if not launches:
            print("%-5s no launch was shown" % kind)
            return 1
        prices = ["%.2f [%.2f %.2f]" % interval(price_us(rounds, case, launches))
                  for case in ("pairs", "again")]
        print("%-5s %6d %9.1f %9.3f %9.3f  %-26s %s" % (
            kind, len(rounds), launches, statistics.fmean(one["none"] for one in rounds),
            statistics.fmean(one["pairs"] for one in rounds), *prices), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
