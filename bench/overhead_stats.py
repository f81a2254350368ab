#!/usr/bin/env python3
"""Tables of allreduce_overhead.sh's raw lines.

usage: overhead_stats.py FILE...     a table per size
       overhead_stats.py --describe  one line about the JSON report on stdin

A process life is one sample: the median of its batches. The ratio of two cases is the ratio of the
medians of their samples, over the rounds that have both; its 95 % interval comes from drawing
rounds with replacement. `means` is the same with the mean of a life's batches: what comes seldom
and is expensive shows there. Reached: the interval's upper end is at most 1.01 plus half the width
of the interval of none-again (no plugin against no plugin).
"""
import collections
import json
import random
import statistics
import sys

DRAWS = 4000
LIMIT = 1.01
MUSTERS = ("light", "auto", "full", "light-nomark", "auto-nomark", "light-nodiag",
           "auto-nodiag")
ORDER = ("none", "none-again", "empty", "handles", "empty-kernel") + MUSTERS


def of_medians(case, base):
    return statistics.median(case) / statistics.median(base)


class Ratio:
    """Of two cases, {round: figure} each, over the rounds that both have; `of` makes the ratio of
    two lists in the order of their rounds."""

    def __init__(self, case, base, of=of_medians):
        common = sorted(set(case) & set(base))
        self.rounds = len(common)
        if self.rounds < 3:
            self.value = self.low = self.high = None
            return
        a, b = [case[r] for r in common], [base[r] for r in common]
        self.value = of(a, b)
        dice = random.Random(1)
        drawn = sorted(self._draw(a, b, of, dice) for _ in range(DRAWS))
        self.low, self.high = drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS) - 1]

    @staticmethod
    def _draw(a, b, of, dice):
        chosen = dice.choices(range(len(a)), k=len(a))
        return of([a[i] for i in chosen], [b[i] for i in chosen])

    def half_width(self):
        return (self.high - self.low) / 2

    def __str__(self):
        if self.value is None:
            return "%-22s" % "-"
        return "%.4f [%.4f %.4f]" % (self.value, self.low, self.high)


def read(paths):
    """{(gpus, mode, bytes): {case: {round: [us of a batch]}}}, notes."""
    lives = collections.defaultdict(lambda: collections.defaultdict(dict))
    notes = []
    for path in paths:
        with open(path) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    life = json.loads(line)
                    if "note" in life:
                        notes.append(life["note"])
                        continue
                    key = life["gpus"], life["mode"], life["bytes"]
                    lives[key][life["case"]][life["session"], life["round"]] = life["us"]
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit("%s:%d: no line of allreduce_overhead.sh: %s" % (path, number, error))
    return lives, notes


def samples(lives, of):
    return {case: {r: of(us) for r, us in rounds.items()} for case, rounds in lives.items()}


def verdict(ratio, null):
    if ratio.value is None or null is None:
        return "too few rounds"
    return "reached" if ratio.high <= LIMIT + null.half_width() else "not reached"


def place(case):
    return (ORDER.index(case), case) if case in ORDER else (len(ORDER), case)


def table(key, lives):
    middle, mean = samples(lives, statistics.median), samples(lives, statistics.fmean)
    none, empty = middle.get("none", {}), middle.get("empty")
    null = Ratio(middle.get("none-again", {}), none)
    null = null if null.value is not None else None
    print("\n%d GPUs, %d bytes (%s)" % (key[0], key[2], key[1]))
    print("%-20s %6s %9s  %-23s  %-11s  %-23s  %-11s  %s" %
          ("case", "rounds", "us", "ratio to none", "", "ratio to empty", "", "means, to none"))
    for case in sorted(lives, key=place):
        plugin = case not in ("none", "none-again")
        to_none = Ratio(middle[case], none)
        to_empty = Ratio(middle[case], empty) if empty and plugin and case != "empty" else None
        line = "%-20s %6d %9.3f  %-23s  %-11s  %-23s  %-11s  %s" % (
            case, len(middle[case]), statistics.median(middle[case].values()),
            to_none if case != "none" else "1", verdict(to_none, null) if plugin else "",
            to_empty or "", verdict(to_empty, null) if to_empty else "",
            Ratio(mean[case], mean.get("none", {})) if case != "none" else "1")
        print(line.rstrip())
    if null is None:
        print("no verdicts: fewer than 3 rounds of none and none-again")
        return
    print("null case: half width %.4f; reached means: upper end <= %.4f" %
          (null.half_width(), LIMIT + null.half_width()))
    if not null.low <= 1 <= null.high:
        print("the null case's interval misses 1: these rounds tell no difference below %.4f" %
              max(abs(null.low - 1), abs(null.high - 1)))
    if null.rounds < 40:
        print("a first look: the procedure asks for 40 rounds")


def describe():
    """What muster recorded in one life, so that a figure without recording is not believed."""
    try:
        report = json.load(sys.stdin)
        ranks = report["ranks"]
        ops = sum(r["ops"] for r in ranks)
        timed = sum(r["timing"]["timed_ops"] for r in ranks)
        drops = {}
        for rank in ranks:
            for reason, n in rank["drops"].items():
                drops[reason] = drops.get(reason, 0) + n
        total = drops.pop("total", 0)
        reasons = ", ".join("%s %d" % d for d in sorted(drops.items()) if d[1])
        print("NCCL %s, %d ranks, %d operations recorded, %.2f %% timed, %d drops%s" %
              (ranks[0]["nccl"], len(ranks), ops, 100 * timed / max(ops, 1), total,
               ": " + reasons if reasons else ""))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        print("no report: %s" % type(error).__name__)


def main():
    if sys.argv[1:] == ["--describe"]:
        describe()
        return
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    lives, notes = read(sys.argv[1:])
    for note in notes:
        print("# " + note)
    if not lives:
        sys.exit("no process life in %s" % ", ".join(sys.argv[1:]))
    for key in sorted(lives):
        table(key, lives[key])


if __name__ == "__main__":
    main()
