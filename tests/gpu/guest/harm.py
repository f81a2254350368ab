"""Whether muster harms programs that use NCCL in ways of their own: a grid of cells on two GPUs.

usage: harm.py --build BUILD [--nccl FOLDER] [--out FOLDER] [--modes MODE,...] [--cases CASE,...]
               [--libraries NAME,...] [--rounds N] [--cell-seconds S] [--limit SECONDS] [--jobs N]
               [--again FILE] [--list]
A cell is one process (harm_cell.py): a case, a library, a timing mode; `none` is without muster and
comes first, because CPU times and ends are compared with it. Libraries: what the machine has
(system, torch) and each libnccl*.so or .so.xz in FOLDER; with one GPU, those that let ranks share it
(2.30 and later). A row says rounds, counts and bytes of the
report against what the cell issued, findings that were told, the CPU seconds of NCCL's threads,
those burnt while idle, those of muster's, and OK or what is wrong. No cell begins that may not
end within --limit; cells that were not run are named, and `--again OUT/harm.jsonl` runs only those.
Exit status 0 if all that ran is OK; 1 if not; 77: no GPU here.
"""
import argparse
import concurrent.futures
import glob
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import harm_cell  # noqa: E402
import ranks  # noqa: E402

MODES = ("none", "light", "auto", "full")
START_S = 6  # for a process to start and end beside its rounds
IDLE_CPU = 0.05  # of IDLE_S: more than ticks of threads that wake now and then
MAY_TELL = {"late": {"hang_absent", "late_rank"}, "abort": {"hang_absent", "hang_dead"}}
COLUMNS = "%-5s %-14s %-11s %6s %9s %9s %6s %9s %9s  %s"


def libraries(folder, scratch, sharing=True):
    """{name: path}, in the order of the table. sharing: with one GPU only those that let ranks share it."""
    found = {}
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if "libnccl.so.2 " in line:
            found.setdefault("system", line.split()[-1])
    for path in sys.path:
        for library in glob.glob(os.path.join(path, "nvidia/nccl/lib/libnccl.so.2")):
            found.setdefault("torch", library)
    for path in sorted(glob.glob(os.path.join(folder, "libnccl*.so*"))) if folder else []:
        name = re.sub(r"^libnccl-?|\.so.*$", "", os.path.basename(path)) or "folder"
        if path.endswith(".xz"):
            plain = os.path.join(scratch, os.path.basename(path)[:-3])
            with lzma.open(path) as packed, open(plain, "wb") as out:
                out.write(packed.read())
            path = plain
        found[name] = os.path.abspath(path)
    if sharing and ranks.gpus() == 1:
        found = {name: path for name, path in found.items() if ranks.can_share(path)}
    return found


def enough(nccl):
    """Whether two ranks find GPUs here, by the libnccl named nccl, if any."""
    return ranks.gpus() > 1 or bool(ranks.gpus() and nccl and ranks.can_share(nccl))


class Cell:
    def __init__(self, mode, library, case):
        self.mode, self.library, self.case = mode, library, case

    def name(self):
        return "%s %s %s" % (self.mode, self.library, self.case)


def environment(options, cell, run):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("MUSTER_", "NCCL_PROFILER", "NCCL_TUNER"))}
    # Without names NCCL's threads cannot be told from Python's, and what they burn reads 0.
    env.update(PYTHONUNBUFFERED="1", NCCL_NVLS_ENABLE="0", NCCL_DEBUG="WARN",
               NCCL_DEBUG_FILE="/dev/stderr",
               NCCL_SET_THREAD_NAME="1")
    if ranks.gpus() == 1:
        env[ranks.ONE_FOR_ALL] = "1"
    if cell.mode != "none":
        env.update(NCCL_PROFILER_PLUGIN="libnccl-profiler-muster.so", MUSTER_TIMING=cell.mode,
                   MUSTER_DIR=run, MUSTER_LOG_LEVEL="warn",
                   LD_LIBRARY_PATH=":".join(p for p in (
                       os.path.dirname(options.plugin), os.environ.get("LD_LIBRARY_PATH")) if p))
    return env


def run_cell(options, cell):
    """What came of it: a dictionary for the record."""
    paths = options.paths
    other = next((p for name, p in paths.items() if name != cell.library), paths[cell.library])
    with tempfile.TemporaryDirectory() as scratch:
        run = os.path.join(scratch, "run")
        seconds = options.cell_seconds - START_S
        command = [sys.executable, "-B", os.path.join(HERE, "harm_cell.py"), cell.case,
                   paths[cell.library], "--other", other, "--rounds", str(options.rounds),
                   "--seconds", str(seconds)]
        begin = time.monotonic()
        process = subprocess.Popen(command, env=environment(options, cell, run), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        try:
            output, errors = process.communicate(timeout=options.cell_seconds)
            hung = False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            hung = True
        result = {"mode": cell.mode, "library": cell.library, "case": cell.case, "hung": hung,
                  "status": process.returncode, "wall_s": round(time.monotonic() - begin, 1),
                  "words": errors.strip().splitlines()[-12:]}
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if lines:
            result.update(json.loads(lines[-1]))
        if cell.mode != "none" and not hung:
            result.update(read_report(options.muster, run))
    return result


def read_report(muster, run):
    def ask(*arguments):
        answer = subprocess.run([muster, *arguments, run, "--format", "json"],
                                capture_output=True, text=True)
        return json.loads(answer.stdout) if answer.stdout.startswith("{") else None
    report, told = ask("report"), ask("diagnose")
    if not report:
        return {"report_error": "no report"}
    recorded = {}
    for row in report["ops"]:
        entry = recorded.setdefault(row["func"], [0, 0])
        entry[0] += row["count"]
        entry[1] += row["bytes"]
    timed = sum(r["timing"]["timed_ops"] for r in report["ranks"])
    count = sum(r["ops"] for r in report["ranks"])
    drops = {k: v for r in report["ranks"] for k, v in r["drops"].items() if v and k != "total"}
    return {"recorded": recorded, "timed": timed, "ops": count, "drops": drops,
            "told": sorted({f["kind"] for f in (told or {}).get("findings", [])})}


def verdict(result, without):
    """What is wrong, in words; nothing if all is well. `without`: the same cell's under none."""
    wrong = []
    alike = without and (result["hung"], result["status"]) == (without["hung"], without["status"])
    if result["status"] == 77:
        return []
    if result["hung"] and not (result["case"] == "assertion" and alike):
        wrong.append("HANGS")
    elif result["status"] and not (result["case"] == "assertion" and alike):
        wrong.append({3: "WRONG RESULT", 5: "HANGS"}.get(result["status"],
                                                         "status %d" % result["status"]))
    if result["mode"] == "none" or wrong or "issued" not in result:
        return wrong
    if result.get("report_error"):
        return [result["report_error"]]
    if result["case"] != "assertion" and result["recorded"] != result["issued"]:
        wrong.append("recorded %s of %s" % (result["recorded"], result["issued"]))
    extra = set(result["told"]) - MAY_TELL.get(result["case"], set())
    if extra:
        wrong.append("told " + ", ".join(sorted(extra)))
    if result["mode"] in ("light", "auto") and result["cpu"]["idle"] > \
            (without["cpu"]["idle"] if without and "cpu" in without else 0) + IDLE_CPU:
        wrong.append("NCCL's threads burn %.2f s of %.1f idle" % (result["cpu"]["idle"],
                                                                harm_cell.IDLE_S))
    return wrong


def row(result, wrong):
    cpu = result.get("cpu", {})
    share = "%.0f%%" % (100 * result["timed"] / result["ops"]) if result.get("ops") else "-"

    def seconds(name):
        return "%.2f" % cpu[name] if name in cpu else "-"
    ops = sum(n for n, _ in result.get("issued", {}).values())
    text = "; ".join(wrong) or ("skipped: " + (result["words"] or [""])[-1]
                                if result["status"] == 77 else "OK")
    if cpu.get("waiting") is not None:
        text += ", %.2f s of CPU in a wait of 10 s" % cpu["waiting"]
    if result.get("drops"):
        text += ", drops %s" % result["drops"]
    return COLUMNS % (result["mode"], result["library"], result["case"], result.get("rounds", "-"),
                      ops or "-", share, seconds("idle"), seconds("nccl"), seconds("muster"), text)


def cells_of(options):
    modes = sorted(options.modes, key=lambda mode: mode != "none")
    cells = [Cell(mode, library, case) for case in options.cases for library in options.paths
             if not options.libraries or library in options.libraries for mode in modes]
    if not options.again:
        return cells
    with open(options.again) as f:
        done = {tuple(json.loads(line)[k] for k in ("mode", "library", "case")) for line in f}
    return [c for c in cells if (c.mode, c.library, c.case) not in done]


def earlier(options):
    if not options.again:
        return []
    with open(options.again) as f:
        return [json.loads(line) for line in f]


def drive(options, cells, run=run_cell, clock=time.monotonic):
    """Runs what fits; returns whether all that ran is well, and the cells that were not run."""
    end = clock() + options.limit
    without = {(r["library"], r["case"]): r for r in earlier(options) if r["mode"] == "none"}
    good, left = True, []
    print(COLUMNS % ("mode", "NCCL", "case", "rounds", "ops", "timed", "idle s", "NCCL s",
                     "muster s", ""), flush=True)
    with open(os.path.join(options.out, "harm.jsonl"), "a") as record, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # none comes first in each case and library, so that the others have what to compare with.
        groups = {}
        for cell in cells:
            groups.setdefault((cell.library, cell.case), []).append(cell)

        def one_group(group):
            done = []
            for cell in group:
                if clock() + options.cell_seconds > end:
                    done.append((cell, None))
                else:
                    done.append((cell, run(options, cell)))
            return done
        waiting = [pool.submit(one_group, group) for group in groups.values()]
        for future in concurrent.futures.as_completed(waiting):
            for cell, result in future.result():
                if result is None:
                    left.append(cell)
                    continue
                if cell.mode == "none":
                    without[cell.library, cell.case] = result
                wrong = verdict(result, without.get((cell.library, cell.case)))
                good &= not wrong
                print(row(result, wrong), flush=True)
                if wrong:
                    print("".join("      | %s\n" % line for line in result["words"]), end="",
                          flush=True)
                record.write(json.dumps(result) + "\n")
                record.flush()
    for cell in left:
        print("not run: " + cell.name(), flush=True)
    return good, left


def parse(arguments):
    parser = argparse.ArgumentParser()

    def words(text):
        return text.split(",")
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--out", default=".")
    parser.add_argument("--modes", type=words, default=list(MODES))
    parser.add_argument("--cases", type=words, default=list(harm_cell.CASES))
    parser.add_argument("--libraries", type=words)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cell-seconds", type=float, default=20)
    parser.add_argument("--limit", type=float, default=540)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--again")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    for name, allowed in (("modes", MODES + ("channels",)), ("cases", harm_cell.CASES)):
        for word in getattr(options, name):
            if word not in allowed:
                parser.error("no %s in %s: %s" % (word, name, ", ".join(allowed)))
    return options


def find(build, name):
    for folder, _, files in os.walk(build):
        if name in files:
            return os.path.join(folder, name)
    sys.exit("harm.py: no %s in %s: build muster there" % (name, build))


def main(arguments):
    options = parse(arguments)
    options.build = os.path.abspath(options.build)
    os.makedirs(options.out, exist_ok=True)
    if not options.list and ranks.gpus() < 1:
        print("skipped: needs a GPU")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        options.paths = libraries(options.nccl, scratch)
        cells = cells_of(options)
        if options.list:
            print("\n".join(cell.name() for cell in cells))
            return 0
        options.plugin = find(options.build, "libnccl-profiler-muster.so")
        options.muster = find(options.build, "muster")
        for name, path in options.paths.items():
            print("%s: %s" % (name, path), flush=True)
        good, left = drive(options, cells)
    print("== %s; %d of %d cells were not run" % ("all right" if good else "FAILED", len(left),
                                                  len(cells)))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
