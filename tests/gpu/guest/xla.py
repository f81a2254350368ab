"""What of a JAX program's collectives NCCL sees, and what of them muster counts.

usage: xla.py --build BUILD [--nccl FOLDER] [--out FOLDER] [--modes auto,full]
xla_job.py in one process on two GPUs: as it is, without command buffers (CUDA graphs), without
XLA's own all-reduce kernels, and without both. Printed of each: what the program called, the calls
that NCCL itself logged (NCCL_DEBUG=INFO, subsystem COLL), what muster recorded, captured and
replayed, and the NCCL libraries in the process. Exit status 0 if muster counted, or counted as
captured, every call that NCCL logged; 1 if not; 77: no two GPUs or no JAX. OUT holds the logs.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import harm  # noqa: E402
import ranks  # noqa: E402

JOB_S = 90
NO_GRAPHS = "--xla_gpu_enable_command_buffer="
NO_KERNELS = "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false"
CASES = {"as it is": "", "no graphs": NO_GRAPHS, "no own kernels": NO_KERNELS,
         "neither": NO_GRAPHS + " " + NO_KERNELS}
CALL = re.compile(r"NCCL INFO (\w+): opCount")


def logged(text):
    """{function: calls} by NCCL's own account."""
    return dict(collections.Counter(CALL.findall(text)))


def run_case(options, mode, name):
    with tempfile.TemporaryDirectory() as work:
        run = os.path.join(work, "run")
        env = harm.environment(options, harm.Cell(mode, "jax", name), run)
        env.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,COLL,P2P,ENV,PROFILE",
                   XLA_FLAGS=CASES[name], XLA_PYTHON_CLIENT_PREALLOCATE="false",
                   CUDA_VISIBLE_DEVICES="0,1")
        job = subprocess.run([sys.executable, "-B", os.path.join(HERE, "xla_job.py")], env=env,
                             capture_output=True, text=True, timeout=JOB_S)
        stem = os.path.join(options.out, "xla-%s-%s" % (mode, name.replace(" ", "-")))
        with open(stem + ".log", "w") as log:
            log.write((job.stdout + job.stderr)[-4 << 20:])
        lines = [line for line in job.stdout.splitlines() if line.startswith("{")]
        answer = subprocess.run([options.muster, "report", run, "--format", "json"],
                                capture_output=True, text=True)
        report = json.loads(answer.stdout) if answer.stdout.startswith("{") else None
        return job, json.loads(lines[-1]) if lines else None, logged(job.stdout + job.stderr), \
            report, answer.stderr.strip()


def evaluate(calls, report):
    """`calls`: by NCCL's account; a send and a receive are logged each."""
    recorded = collections.Counter()
    for row in report["ops"] if report else []:
        recorded[row["func"]] += row["count"] - row["graph_ops"]
    captured = sum(r["captured"] for r in report["ranks"]) if report else 0
    missing = sum(calls.values()) - sum(recorded.values()) - captured
    return dict(recorded), captured, missing


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--out", default=".")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["auto", "full"])
    options = parser.parse_args(arguments)
    have = subprocess.run([sys.executable, "-c", "import jax"], capture_output=True).returncode == 0
    if ranks.gpus() < 2 or not have:
        print("skipped: needs two GPUs and JAX")
        return 77
    os.makedirs(options.out, exist_ok=True)
    options.plugin = harm.find(options.build, "libnccl-profiler-muster.so")
    options.muster = harm.find(options.build, "muster")
    bad = False
    for name in CASES:
        for mode in options.modes:
            try:
                job, said, calls, report, words = run_case(options, mode, name)
            except subprocess.TimeoutExpired:
                print("FAIL %s %s: no end in %d s" % (mode, name, JOB_S), flush=True)
                bad = True
                continue
            if not said:
                print("FAIL %s %s: status %d: %s" % (mode, name, job.returncode,
                                                     job.stderr.strip()[-400:]), flush=True)
                bad = True
                continue
            recorded, captured, missing = evaluate(calls, report)
            bad |= missing > 0 or not said["right"]
            print("%-4s %s %s: JAX %s called %s" % (
                "ok" if missing <= 0 else "FAIL", mode, name, said["jax"], said["called"]))
            print("     NCCL logged %s; muster counted %s, captured %d, %d missing; results %s" % (
                calls, recorded, captured, missing, "right" if said["right"] else "WRONG"))
            print("     in the process: %s" % ", ".join(said["loaded"]))
            for gap in (report or {}).get("gaps", []) or [words]:
                print("     | %s" % gap)
            sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
