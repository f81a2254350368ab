"""Takes from a trace of StragglerAnalysis what ranks tell each other: begin and duration of each
collective, send and receive.

usage: bytedance_convert.py TRACE.parquet STEPS > NAME.txt

The first STEPS steps. A line is `rank RANK STAGE DP`, `step NUMBER`, or `KIND BEGIN DURATION` in us
since the step began, in the order of begins. What computes is not kept: it is the time between.
optimizer-clip-main-grad and layernorm-grads-all-reduce are left out, because who takes part in them
is not told."""

import sys

import bytedance_parquet

KINDS = {"params-all-gather": "ag", "grads-reduce-scatter": "rs", "embedding-grads-all-reduce": "ea",
         "forward-send": "fs", "forward-recv": "fr", "backward-send": "bs", "backward-recv": "br"}


def main(path, steps):
    columns = bytedance_parquet.read(path)
    kept = sorted(set(columns["step"]))[:steps]
    of_rank = {}
    for rank, stage, dp, step, kind, begin, duration in zip(
            *(columns[name] for name in ("rank", "stage", "dp_rank", "step", "optype", "start_ts",
                                         "duration"))):
        if kind in KINDS and step in kept:
            of_rank.setdefault((rank, stage, dp), {}).setdefault(step, []).append(
                (round(begin * 1e6), KINDS[kind], round(duration * 1e6)))
    for rank in sorted(of_rank):
        print("rank", *rank)
        for step in kept:
            print("step", step)
            for begin, kind, duration in sorted(of_rank[rank].get(step, [])):
                print(kind, begin, duration)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], int(sys.argv[2]))
