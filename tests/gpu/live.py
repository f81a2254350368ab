"""The live table: faults injected into jobs on this machine's GPUs, and what muster says while they
run: the job's own leader, `muster diagnose --live --follow` for one host, `muster diagnose RUN
--follow` for two emulated ones, and `muster diagnose RUN` afterwards.

usage: live.py [ROW...]    all rows without ROW; a ROW may end in * ; --list names them
Environment: LAUNCH and MUSTER, see watched.py; OUTDIR keeps each run directory as ROW.tar.xz.

Prints a row of a markdown table each: what was injected, what was found by command and job, whether
that is right, and the seconds. For a hang these count from the threshold, else from the first
operation that the finding says was hit (its since_unix_ns); "in N" is how many operations the
finding counted by then, so that what is named within 50 needs no time at all."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import cpu_faults
import watched

HANG_S, LIMIT_S = 5, 60
IP = os.environ.get("IP", "ip")


class Row:
    """One job. expect: (kind, ranks) or None; ranks None: whatever. at: what is done to it while
    it runs, called with the job. until_found: the job is ended once what it suffers is named."""

    def __init__(self, name, words, expect, timing="auto", mode="local", gpus=4, at=None,
                 until_found=False, resolved=False, environment=None, beside=None):
        self.name, self.words, self.expect, self.timing = name, words, expect, timing
        self.mode, self.gpus, self.at, self.until_found = mode, gpus, at, until_found
        self.resolved, self.environment, self.beside = resolved, environment, beside

    def injected(self):
        where = "" if self.mode == "local" else f", {self.mode}"
        return f"{' '.join(self.words)}, {self.gpus} GPUs, {self.timing}{where}"


def late(name, words, rank, **more):
    return Row(name, words, ("late_rank", [rank]), until_found=True, **more)


def hang(name, scenario, kind, rank, **more):
    """rank None: nobody is to blame. Named by then, the job need not linger."""
    words = [scenario, f"BAD={1 if rank is None else rank}", "LINGER=18"]
    return Row(name, words, (kind, [] if rank is None else [rank]), until_found=True, **more)


def link_down(job):
    """Five seconds into the job the path between the hosts is gone."""
    if job.recording(4):
        time.sleep(5)
        subprocess.run([IP, "-n", "muster0", "link", "set", "mv0", "down"], check=True)


def quota(job):
    if job.recording(4):
        time.sleep(1)
        job.fault = cpu_faults.Quota(job.rank_pid(1))


ROWS = [
    Row("clean", ["clean", "STEPS=2500"], None),
    Row("jitter", ["jitter", "STEPS=2000"], None),
    late("gpuslow-0.3", ["gpuslow", "BAD=1", "MAG=0.3", "STEPS=3000"], 1),
    late("gpuslow-1", ["gpuslow", "BAD=3", "MAG=1", "STEPS=2500"], 3),
    late("gpuslow-5", ["gpuslow", "BAD=2", "MAG=5", "STEPS=1200"], 2),
    late("cpuslow", ["cpuslow", "BAD=1", "STEPS=1500"], 1),
    late("tpdp", ["tpdp", "BAD=1", "STEPS=2000"], 1),
    late("pipeline", ["pipeline", "BAD=2", "STEPS=5000", "LIMIT=300"], 2),
    late("graph", ["graph", "BAD=3", "STEPS=800"], 3, timing="full"),
    hang("hang_absent", "hang_absent", "hang_absent", 1),
    hang("hang_mismatch", "hang_mismatch", "hang_mismatch", 2),
    hang("hang_size", "hang_size", "hang_mismatch", 3),
    hang("hang_order", "hang_order", "hang_order", 2),
    hang("killed", "killed", "hang_dead", 1),
    Row("stopped", ["stopped", "BAD=2"], ("hang_absent", [2]), resolved=True),
    Row("spinning", ["spinning", "BAD=0"], ("hang_absent", [0]), resolved=True),
    late("quota", ["clean", "STEPS=8000"], 1, at=quota),
    late("two-gpuslow", ["gpuslow", "BAD=1", "STEPS=2000"], 1, gpus=2, beside="two-hang_absent"),
    hang("two-hang_absent", "hang_absent", "hang_absent", 0, gpus=2,
         environment={"CUDA_VISIBLE_DEVICES": "2,3"}),
]
for MODE, SLOWER in (("hosts", 1), ("netns", 2)):
    ROWS += [
        Row(f"{MODE}-clean", ["clean", f"STEPS={500 // SLOWER}"], None, mode=MODE),
        late(f"{MODE}-gpuslow", ["gpuslow", "BAD=3", "MAG=5", f"STEPS={300 // SLOWER}"], 3,
             mode=MODE, timing="full"),
        late(f"{MODE}-tpdp", ["tpdp", "BAD=1", "MAG=5", f"STEPS={300 // SLOWER}"], 1, mode=MODE,
             timing="full"),
        hang(f"{MODE}-hang_absent", "hang_absent", "hang_absent", 1, mode=MODE),
        hang(f"{MODE}-killed", "killed", "hang_dead", 2, mode=MODE),
    ]
ROWS += [
    Row("netns-2gbit", ["clean", "STEPS=25"], ("slow_transfer", [1, 2]), mode="netns",
        timing="full", environment={"RATE": "2gbit"}),
    Row("netns-hang_stuck", ["clean", "STEPS=5000"], ("hang_stuck", []), mode="netns",
        at=link_down, until_found=True),
    hang("netns-hang_order", "hang_order", "hang_order", 2, mode="netns"),
]


# ---- one row ----

def right(told, expect, resolved):
    """Whether what was told is what was expected: that and nothing else."""
    found = [one for one in told if not one.resolved]
    if expect is None:
        return not told
    kind, ranks = expect
    over = any(one.resolved and one.kind == kind for one in told)
    return [(one.kind, one.ranks) for one in found] == [(kind, ranks)] and over == resolved


def first(told, expect):
    return next((one for one in told if expect and one.kind == expect[0] and not one.resolved),
                None)


def seconds(one):
    """From the threshold of a hang, or from the first operation hit, to the finding."""
    if not one:
        return ""
    since = one.finding["since_unix_ns"] / 1e9
    if one.kind.startswith("hang_"):
        return f"{one.at - since - HANG_S:.1f}"
    counted = re.search(r"in (\d+) of (\d+) operations|to (\d+) of (\d+) exchanges",
                        " ".join(one.finding["evidence"]))
    n = next((group for group in counted.groups() if group), None) if counted else None
    return f"{one.at - since:.1f}" + (f" (in {n})" if n else "")


def names(told):
    return "; ".join(dict.fromkeys(
        one.names() + (" (resolved)" if one.resolved else "") for one in told)) or "nothing"


def watch(row, job):
    """Until there is nothing more to be learned."""
    helper = threading.Thread(target=row.at, args=(job,), daemon=True) if row.at else None
    if helper:
        helper.start()
    if row.until_found:
        # The leaders of the job see one host each.
        tellers = [job.by_command] + [job.by_job] * (row.mode == "local")
        if job.wait_for(lambda: all(first(told, row.expect) for told in tellers), LIMIT_S):
            time.sleep(2)  # for what should not come
    else:
        job.wait_for(lambda: False, LIMIT_S)
    if helper:
        helper.join(20)


def play(row, launch, muster, folder):
    run = os.path.join(folder, row.name)
    words = ["-n", str(row.gpus), "-m", row.mode, *row.words]
    job = watched.Job(muster, launch, words, run, row.timing, HANG_S,
                      "live" if row.mode == "local" else "run", row.environment)
    job.fault = None
    try:
        watch(row, job)
    finally:
        if job.fault:
            job.fault.undo()
        afterwards = job.end()
        if row.mode == "netns":
            subprocess.run(["bash", launch, "-m", "clean"], check=False)
    told = [watched.Told(finding) for finding in afterwards or []]
    # A hang that is over is not found again; the job's leaders see one host each.
    final = right(told, row.expect, False) if not row.resolved else not told
    verdicts = [afterwards is not None, right(job.by_command, row.expect, row.resolved), final]
    if row.mode == "local":
        verdicts.append(right(job.by_job, row.expect, row.resolved))
    else:
        verdicts.append(all((one.kind, one.ranks) == row.expect for one in job.by_job))
    return (f"| {row.name} | {row.injected()} | {names(job.by_command)} | "
            f"{seconds(first(job.by_command, row.expect))} | {names(job.by_job)} | "
            f"{seconds(first(job.by_job, row.expect))} | {names(told)} | "
            f"{'yes' if all(verdicts) else '**no**'} | {time.time() - job.began:.0f} |",
            all(verdicts))


def keep(row, folder, outdir):
    if outdir:
        subprocess.run(["tar", "-C", folder, "-cJf", os.path.join(outdir, row.name + ".tar.xz"),
                        row.name], check=False)


def main(patterns):
    if patterns == ["--list"]:
        print(" ".join(row.name for row in ROWS))
        return 0
    rows = [row for row in ROWS
            if not patterns or any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns)]
    if not rows:
        raise SystemExit(f"no such row; there are {' '.join(row.name for row in ROWS)}")
    launch, muster = watched.machine()
    outdir = os.environ.get("OUTDIR")
    if outdir:
        os.makedirs(outdir, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="muster-live-")
    began, wrong, done, keepers = time.time(), 0, set(), []
    print("| row | injected | by command | seconds | by the job | seconds | afterwards | right | "
          "took s |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    for row in rows:
        if row.name in done:
            continue
        # Two jobs of two GPUs have room beside each other.
        both = [row] + [other for other in rows if other.name == row.beside]
        lines = {}
        workers = [threading.Thread(target=lambda one=one: lines.update(
            {one.name: play(one, launch, muster, folder)})) for one in both]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for one in both:
            done.add(one.name)
            keepers.append(threading.Thread(target=keep, args=(one, folder, outdir)))
            keepers[-1].start()
            line, fine = lines.get(one.name, (f"| {one.name} | broke | | | | | | **no** | |", False))
            wrong += not fine
            print(line, flush=True)
    for keeper in keepers:
        keeper.join()
    shutil.rmtree(folder)
    print(f"\n{len(done) - wrong} of {len(done)} right, {time.time() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
