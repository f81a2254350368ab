"""muster's durations against CUDA events on NCCL's own stream.

usage: events.py MUSTER ALLREDUCE [--sizes 4MiB,32MiB,128MiB] [--iters 100] [--rounds 9] [--gpus N]
ALLREDUCE is bench/allreduce of the build. It puts an event before and one after ITERS all-reduces
that follow each other on the communicator's stream; the median over ROUNDS of what one took must
agree with the p50 of muster's report, under full, within 5 %, below 32 MiB within 5 % or 6 us,
whichever is larger. Prints a line per size. Exit status 1 if one fails, 77: no two GPUs.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import ranks


def slack_us(size, us):
    return 0.05 * us if size >= 32 << 20 else max(0.05 * us, 6)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("muster")
    parser.add_argument("allreduce")
    parser.add_argument("--sizes", default="4MiB,32MiB,128MiB")
    parser.add_argument("--iters", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gpus", type=int, default=0)
    options = parser.parse_args()
    if ranks.gpus() < 2 and not options.gpus:
        print("skipped: needs two GPUs")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        run_dir = os.path.join(work, "run")
        command = [options.muster, "run", "--no-report", "--timing", "full", "--dir", run_dir, "--",
                   options.allreduce, "--mode", "gpu", "--json", "--sizes", options.sizes,
                   "--iters", str(options.iters), "--rounds", str(options.rounds), "--warmup", "20"]
        if options.gpus:
            command += ["--gpus", str(options.gpus)]
        job = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        report = json.loads(subprocess.run([options.muster, "report", "--format", "json", run_dir],
                                           check=True, stdout=subprocess.PIPE).stdout)
    lines = [line for line in job.splitlines() if line.startswith("{")]
    failed = not lines
    for line in lines:
        events = json.loads(line)
        rows = [r for r in report["ops"]
                if r["func"] == "AllReduce" and r["size"] == events["bytes"]]
        p50 = rows[0]["p50_us"] if len(rows) == 1 else None
        slack = slack_us(events["bytes"], events["median_us"])
        good = p50 is not None and abs(p50 - events["median_us"]) <= slack
        failed |= not good
        print("%-4s %3d MiB: muster's p50 %s us, by events %.1f us, allowed are %.1f us apart" % (
            "ok" if good else "FAIL", events["bytes"] >> 20, p50, events["median_us"], slack))
    sys.exit(failed)


if __name__ == "__main__":
    main()
