#!/usr/bin/env python3
"""Ratios with a policy to without, per size, of policy_samples.sh's lines: policy_ratios.py FILE"""
import os
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import overhead_stats  # noqa: E402  the arithmetic is that of the overhead's tables


def main():
    lives, _ = overhead_stats.read(sys.argv[1:])
    print("%12s  %6s %12s %12s  %-24s %s" %
          ("bytes", "rounds", "without us", "with us", "ratio [95 % interval]", "policy"))
    for key in sorted(lives, key=lambda key: key[2]):
        middle = overhead_stats.samples(lives[key], statistics.median)
        none = middle.pop("none", {})
        for case in sorted(middle):
            if not none:
                continue
            ratio = overhead_stats.Ratio(middle[case], none)
            print("%12d  %6d %12.1f %12.1f  %-24s %s" %
                  (key[2], ratio.rounds, statistics.median(none.values()),
                   statistics.median(middle[case].values()), ratio, case))


if __name__ == "__main__":
    main()
