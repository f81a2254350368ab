"""Faults of this machine's kernel injected into one rank's process, and whether the finding that
names the rank cites them: what the last column of the table in docs/evidence.md stands on.

usage: evidence.py [FAULT...]
Environment: MUSTER names the command; LAUNCH names launch.sh (watched.py): jobs on two GPUs each.
Without LAUNCH, RECORDINGS names the folder of recordings: one whose rank 1 never comes is played,
which needs no GPU. Needs root. Prints a row of a markdown table for each fault."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import cpu_faults
import watched

HANG_S, LIMIT_S, BAD = 3, 45, 1
LONGER_S = {"swap": 10}  # to have memory go round


def cpus_of_machine(n, first=2):
    """n processors that jobs seldom use, or the last there are."""
    all_cpus = sorted(os.sched_getaffinity(0))
    at = min(first, max(0, len(all_cpus) - n))
    return set(all_cpus[at:at + n])


def busy_first_of(pid):
    return cpu_faults.Crowd(pid, cpus_of_machine(1), 6)


# Name: (what, scenario on GPUs, made by, lines that must be cited).
FAULTS = {
    "quota": ("its cgroup may use 2 ms of processor in 10", ["clean", "STEPS=20000"],
              cpu_faults.Quota, [r"its cgroup throttled it for .* s of .* s \(quota: 0.20 CPUs\)"]),
    "crowd": ("six busy loops on the only processor it may use", ["clean", "STEPS=20000"],
              busy_first_of, [r"ready and had no CPU for",
                              r"its host: tasks waited for CPU .* \(PSI\)"]),
    "affinity": ("one processor for all its threads", ["gpuslow", f"BAD={BAD}", "STEPS=20000"],
                 lambda pid: cpu_faults.Affinity(pid, cpus_of_machine(1, 5)),
                 [r"it may use 1 CPUs, the others at least"]),
    "stopped": ("SIGSTOP", ["clean", "STEPS=20000"], cpu_faults.Stopped,
                [r"main thread: state T", rf"rank {BAD} is stopped: kill -CONT"]),
    "frozen": ("its cgroup frozen by the older freezer", None, cpu_faults.Frozen,
               [r"it sleeps uninterruptibly \(state D\) in", r"main thread: state D"]),
    "memory": ("a neighbour in its cgroup takes more memory than there may be",
               ["hang_absent", f"BAD={BAD}"], cpu_faults.Hog,
               [r"ran out of memory: 1 processes killed", r"met its memory limit"]),
    "swap": ("neighbours in its cgroup go through more memory than may stay", None,
             cpu_faults.Swapping,
             [r"its host: .* pages swapped in", r"its host: tasks waited for memory .* \(PSI\)"]),
    "disk": ("four loops that write to the disk and wait for it", None, cpu_faults.Writing,
             [r"its host: tasks waited for I/O .* \(PSI\)"]),
    "drops": ("100 packets that no protocol takes, on an interface of the host",
              ["hang_absent", f"BAD={BAD}"], cpu_faults.Drops, [r"its host: .* packets dropped"]),
}
# Two jobs of two GPUs have room beside each other.
TOGETHER = [("quota", "affinity"), ("crowd", "drops"), ("stopped", "memory"), ("swap", "frozen"),
            ("disk",)]


def player(muster, recordings, folder):
    """A launcher that plays a recording."""
    path = os.path.join(folder, "play.sh")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"exec {muster} replay {recordings}/hang-absent --speed 20 --hold 20 "
                   '--out "$MUSTER_DIR"\n')
    return path


def fault_of(name, replayed, pid):
    if name == "quota" and replayed:  # what is played sleeps
        return cpu_faults.Quota(pid, busy=True)
    return FAULTS[name][2](pid)


def left_out(name, replayed):
    """Why it is; None: it is not."""
    if FAULTS[name][1] is None and not replayed:
        return "needs no GPU: with RECORDINGS"
    if name == "frozen" and cpu_faults.UNIFIED:
        return "needs the older cgroups"
    if name == "crowd" and replayed:
        return "needs a rank that computes"
    return None


def cited(job, wanted):
    """The lines found, of findings that name the rank first."""
    lines = [line for told in job.by_job if told.ranks[:1] == [BAD]
             for line in told.finding["evidence"]]
    return [next((line for line in lines if re.search(pattern, line)), None) for pattern in wanted]


def play(name, muster, launch, folder, replayed, devices):
    what, words, _, wanted = FAULTS[name]
    if left_out(name, replayed):
        return True, f"| {name} | {what} | | left out: {left_out(name, replayed)} | | |"
    environment = {} if replayed else {"CUDA_VISIBLE_DEVICES": devices}
    job = watched.Job(muster, launch, ["-n", "2", *(words or [])], os.path.join(folder, name),
                      "full", LONGER_S.get(name, HANG_S), environment=environment)
    fault, trouble = None, None
    try:
        if job.recording(4 if replayed else 2):
            # A first reading of everything; affinity is not compared with before.
            time.sleep(0 if name == "affinity" else 1.2)
            fault = fault_of(name, replayed, job.rank_pid(BAD))
            job.wait_for(lambda: all(cited(job, wanted)), LIMIT_S)
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        trouble = f"not injected: {error}"
    finally:
        if fault:
            fault.undo()
        job.end()
    lines = cited(job, wanted)
    says = trouble or "; ".join(line or f"**nothing like** `{pattern}`"
                                for line, pattern in zip(lines, wanted))
    fine = not trouble and all(lines)
    return fine, (f"| {name} | {what} | {', '.join(one.names() for one in job.by_job) or 'nothing'} "
                  f"| {says} | {'yes' if fine else '**no**'} | {time.time() - job.began:.0f} |")


def main(names):
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise SystemExit(f"no such fault: {unknown[0]}; there are {' '.join(FAULTS)}")
    muster, recordings = os.environ.get("MUSTER"), os.environ.get("RECORDINGS")
    replayed = "LAUNCH" not in os.environ
    if not muster or (replayed and not recordings):
        raise SystemExit("MUSTER names the command, and LAUNCH launch.sh or RECORDINGS a folder")
    muster, wrong = os.path.realpath(muster), 0
    print("| fault | injected | found | evidence | cited | took s |\n|---|---|---|---|---|---|",
          flush=True)
    with tempfile.TemporaryDirectory(prefix="muster-evidence-") as folder:
        launch = (player(muster, os.path.realpath(recordings), folder) if replayed
                  else os.path.realpath(os.environ["LAUNCH"]))
        for group in TOGETHER:
            lines = {}
            workers = [threading.Thread(target=lambda name=name, at=at: lines.update(
                {name: play(name, muster, launch, folder, replayed, ("0,1", "2,3")[at])}))
                       for at, name in enumerate(group) if not names or name in names]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            for fine, line in lines.values():
                wrong += not fine
                print(line, flush=True)
            wrong += len(workers) - len(lines)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
