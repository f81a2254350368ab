"""What muster says of training jobs whose one rank is late: live, when, and afterwards, beside what the
job lost by its own clock.

usage: late_jobs.py --build BUILD [--out FOLDER] [--families F,...] [--ms 1,5] [--sides host,gpu,slow]
                    [--ranks 1] [--clean 3] [--late 15] [--width N] [--timing auto] [--limit SECONDS]
                    [--nccl FILE | --share] [--world 2]
A cell is a job of late_rank.py of --world ranks, on two GPUs, or on one or with more ranks than GPUs, if
FILE, which is preloaded then, lets ranks share them (start CUDA's MPS before); such builds may know float32 and sums only, so the job keeps to these (late_rank.py --plain). --share:
on one GPU as two emulated hosts (ranks.py says how), of which nothing can be told live. 0 ms is a clean job,
of both parts' length. --width: of late_rank.py's layers; with 1024 the host sets the pace. A row each: the
step, what it lost, share of the run; who was named while it ran and after how many seconds; who by `muster
diagnose` afterwards, with cause and cost. Right: a rank that costs the job 1 % and more is named and nobody
else, and the cost is within 30 %. OUT/runs.tar.xz keeps the recordings.
Exit status 0 if all is right, 1 if not, 77: no GPUs for that or no PyTorch.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import harm  # noqa: E402
import ranks  # noqa: E402

FAMILIES = ("ddp", "fsdp", "tensor", "pipeline", "experts")
HEAD = "%-9s %3s %5s %4s %8s %8s %7s  %-22s %6s  %-22s %-8s %8s %8s"
LATE = ("late_rank", "late_host")
WORTH, NEAR, START_S = 0.01, 0.3, 60
LIBRARY = "TEST_LIBNCCL"  # which a job's ranks preload


def names(findings):
    return "; ".join(dict.fromkeys("%s %s" % (f["kind"], " ".join(map(str, f["ranks"])))
                                   for f in findings)) or "nothing"


def evaluate(cell, own, told, found):
    """What is not as it should be, in words. found: afterwards."""
    lost_s = own["steps"] * (own["late_ms"] - own["step_ms"]) / 1e3
    due = cell["ms"] > 0 and lost_s >= WORTH * own["steps"] * own["late_ms"] / 1e3
    wrong = []
    for when, findings in (("live", told),) * cell["live"] + (("afterwards", found),):
        named = sorted({rank for f in findings if f["kind"] in LATE for rank in f["ranks"]})
        others = [f["kind"] for f in findings if f["kind"] not in LATE]
        if due and named != [cell["rank"]]:
            wrong.append("%s: named %s, late is %d" % (when, named or "nobody", cell["rank"]))
        if not due and set(named) - ({cell["rank"]} if cell["ms"] else set()):
            wrong.append("%s: named %s of nobody late" % (when, named))
        if others:
            wrong.append("%s: %s" % (when, " ".join(others)))
    said = sum(f["cost_run_s"] or f["cost_s"] for f in found if f["kind"] in LATE)
    if due and said and abs(said - lost_s) > NEAR * lost_s:
        wrong.append("cost %.2f s, lost %.2f s" % (said, lost_s))
    return wrong


def after(out):
    """The file for which a job waits with its libraries loaded."""
    return out + ".go"


def start(options, cell, run, out):
    environment = dict(os.environ, MUSTER_CONFIG=options.config,
                       **{LIBRARY: options.nccl} if options.nccl else {})
    command = [options.muster, "run", "--no-report", "--quiet", "--timing", options.timing, "--dir",
               run, "--", sys.executable, "-B", os.path.abspath(__file__), "--launch",
               options.world, cell["family"], "--rank", cell["rank"], "--ms", cell["ms"], "--side", cell["side"],
               "--clean", options.clean, "--late", options.late, "--out", out, "--after", after(out),
               *["--width", options.width] * bool(options.width), *["--plain"] * bool(options.nccl)]
    return subprocess.Popen(list(map(str, command)), env=environment, start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def watch(job, run, limit_s):
    """[(unix time, finding)] in the order in which the job's leader told."""
    told, seen, end = [], {}, time.monotonic() + limit_s
    while True:
        over = job.poll() is not None
        for path in glob.glob(os.path.join(run, "*.findings.jsonl")):
            with open(path, "rb") as file:
                file.seek(seen.get(path, 0))
                for line in file:
                    if line.endswith(b"\n"):
                        seen[path] = seen.get(path, 0) + len(line)
                        told.append((time.time(), json.loads(line)))
        if over:
            return told
        if time.monotonic() > end:
            os.killpg(job.pid, 9)
            job.wait()
            raise RuntimeError("not over after %d s" % limit_s)
        time.sleep(0.05)


class Begun:
    """A cell whose job loads its libraries, and then waits for its turn."""

    def __init__(self, options, cell, scratch):
        self.cell = cell
        self.work = os.path.join(scratch, "%(family)s-%(side)s-%(ms)g-rank%(rank)d" % cell)
        os.mkdir(self.work)
        self.run, self.out = os.path.join(self.work, "run"), os.path.join(self.work, "own.json")
        self.job = start(options, cell, self.run, self.out)

    def drop(self):
        os.killpg(self.job.pid, 9)
        self.job.wait()


def play(options, begun):
    """The cell's own figures, what was told, and what diagnose says afterwards."""
    job, run, out = begun.job, begun.run, begun.out
    with open(after(out), "w"):
        pass
    told = watch(job, run, START_S + options.clean + options.late)
    if job.returncode:
        raise RuntimeError("status %d: %s" % (job.returncode, job.stdout.read()[-400:]))
    found = subprocess.run([options.muster, "diagnose", run, "--format", "json"],
                           capture_output=True, text=True, timeout=60)
    if found.returncode not in (0, 1):
        raise RuntimeError("diagnose: " + found.stderr[-300:])
    with open(out) as file:
        return json.load(file), told, json.loads(found.stdout)


def still(findings):
    return [f for f in findings if not f["resolved"] and not f["retracted"]]


def show(cell, own, told, diagnosed):
    listed = diagnosed["findings"]
    found = still(listed)
    lives = [f for _, f in told if not f["resolved"] and not f["retracted"]]
    wrong = evaluate(cell, own, lives, found)
    first = next((at for at, f in told if f["kind"] in LATE), None)
    lost_s = own["steps"] * (own["late_ms"] - own["step_ms"]) / 1e3
    late = [f for f in found if f["kind"] in LATE]
    print(HEAD % (cell["family"], cell["rank"], cell["side"], "%g" % cell["ms"],
                  "%.2f" % own["step_ms"], "%.2f" % own["late_ms"],
                  "%.2f s" % lost_s, names(lives), "%.1f" % (first - own["since"]) if first else "-",
                  names(found), " ".join(f["cause"] for f in late) or "-",
                  "%.2f" % sum(f["cost_s"] for f in late) if late else "-",
                  "%.2f" % sum(f["cost_run_s"] or 0 for f in late) if late else "-") +
          "  " + ("; ".join(wrong) or "OK"), flush=True)
    return wrong


def one(options, begun):
    """Plays a cell and shows it; what is not as it should be."""
    try:
        own, told, found = play(options, begun)
        wrong = show(begun.cell, own, told, found)
        with open(os.path.join(options.out, "late_jobs.jsonl"), "a") as out:
            out.write(json.dumps({"cell": begun.cell, "own": own, "told": told, "found": found,
                                  "wrong": wrong}) + "\n")
        return wrong
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print("FAIL %s: %s" % (begun.cell, error), flush=True)
        return [str(error)]


def launch(arguments):
    """As a launcher does. The first argument: how many ranks."""
    sys.stdout.write(ranks.run([os.path.join(HERE, "late_rank.py"), *arguments[1:]],
                               int(arguments[0]), keep_muster(), 600))


def keep_muster():
    """ranks.run takes muster away from its ranks; this job is about it."""
    kept = {k: v for k, v in os.environ.items()
            if k.startswith("MUSTER_") or k == "NCCL_PROFILER_PLUGIN"}
    library = os.environ.get(LIBRARY)
    return {**kept, "LD_PRELOAD": library, ranks.ONE_FOR_ALL: "1"} if library else kept


def cells(options):
    for family in options.families:
        for ms in options.ms:
            for side in options.sides if ms else options.sides[:1]:
                for rank in options.ranks if ms else options.ranks[:1]:
                    yield {"family": family, "ms": ms, "side": side, "rank": rank,
                           "live": not options.share}  # no host sees the other one


def parse(arguments):
    def words(kind):
        return lambda text: [kind(word) for word in text.split(",")]
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--share", action="store_true")
    parser.add_argument("--out", default=".")
    parser.add_argument("--families", type=words(str), default=list(FAMILIES))
    parser.add_argument("--ms", type=words(float), default=[0, 1, 5])
    parser.add_argument("--sides", type=words(str), default=["host", "gpu"])
    parser.add_argument("--ranks", type=words(int), default=[1])
    parser.add_argument("--clean", type=float, default=3)
    parser.add_argument("--late", type=float, default=15)
    parser.add_argument("--width", type=int)
    parser.add_argument("--timing", default="auto")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--limit", type=float, default=540)
    return parser.parse_args(arguments)


def main(arguments):
    if arguments[:1] == ["--launch"]:
        launch(arguments[1:])
        return 0
    options = parse(arguments)
    if not (harm.enough(options.nccl) or options.share and ranks.gpus()) or not ranks.have_torch():
        print("skipped: needs two GPUs, or --share or an NCCL that lets ranks share one, and PyTorch")
        return 77
    options.nccl = options.nccl and os.path.abspath(options.nccl)
    os.makedirs(options.out, exist_ok=True)
    options.muster = harm.find(options.build, "muster")
    bad, end = 0, time.monotonic() + options.limit
    print(HEAD % ("family", "bad", "side", "ms", "step ms", "late ms", "lost", "live", "after s",
                  "afterwards", "cause", "cost", "of run"))
    with tempfile.TemporaryDirectory() as scratch:
        options.config = os.path.join(scratch, "on.yaml")
        with open(options.config, "w") as config:
            config.write("muster: 1\non:\n  late_rank: [log, report]\n  late_host: [log, report]\n")
        begun, waiting = None, list(cells(options))
        while waiting or begun:
            cell = begun.cell if begun else waiting.pop(0)
            if time.monotonic() + options.clean + options.late + 10 > end:
                print("not run: %(family)s %(side)s %(ms)g ms rank %(rank)d" % cell, flush=True)
                if begun:
                    begun = begun.drop()
                continue
            begun = begun or Begun(options, cell, scratch)
            following = Begun(options, waiting.pop(0), scratch) if waiting else None
            bad += bool(one(options, begun))
            begun = following
        subprocess.run(["tar", "-C", scratch, "-cJf", os.path.join(options.out, "runs.tar.xz"),
                        "."], check=False)
    print("== %s" % ("%d cells not as wanted" % bad if bad else "all as wanted"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
