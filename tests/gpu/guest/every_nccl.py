"""Whether muster says and does what it should on each NCCL: two ranks as two processes on emulated hosts, over
sockets, which every version can do, also on one GPU that both share.

usage: every_nccl.py --build BUILD [--nccl FOLDER] [--out FOLDER] [--libraries NAME,...] [--modes MODE,...]
                     [--jobs N] [--seconds S] [--without reduce_scatter]
Of each library: the program without muster; under it (plain); in every mode under a policy that gives each
size of all-reduce the other of ll and simple than NCCL took (tuned); broadcasts without and with. Right:
results are, communicators end, counts and bytes are those that were issued, nothing is told of nobody's
fault, and each size ran as its rule says. --without is for an NCCL that was built with few device functions.
Times that were refused (drops of time_ring, channels) are told and not wrong. A row each; OUT/every_nccl.jsonl keeps them. Where one GPU is shared start
CUDA's MPS first, else the ranks' kernels take turns. Exit status 0 if all is right, 1 if not, 77: no GPU here.
"""
import argparse
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import harm  # noqa: E402
import harm_cell  # noqa: E402
import ranks  # noqa: E402

SIZES = [4 * words for words in harm_cell.SIZES]
MODES = ("light", "auto", "full", "channels")
OTHER = {"ll": "simple", "simple": "ll"}
WORDS = 600  # characters of what a rank that failed said
ROW = "%-14s %-7s %-8s %-10s %6s %6s  %s"


def other_policy(own):
    """{bytes: protocol} that NCCL does not take by itself."""
    return {size: OTHER.get(own.get(size), "simple") for size in SIZES}


def policy_text(wanted):
    rules = ["- {name: b%d, match: {collective: all_reduce, bytes: %d..%d}, prefer: {proto: %s}}" %
             (size, size, size, proto) for size, proto in wanted.items()]
    return "muster: 1\npolicy:\n" + "\n".join(rules) + "\n"


def environment_of(rank, shared, one_host=False):
    """That of one of both ranks. shared: of both."""
    place = {"LOCAL_RANK": str(rank)} if one_host else ranks.on_host_of_its_own(rank)
    env = {**shared, "RANK": str(rank), "WORLD_SIZE": "2", **place}
    env.pop(ranks.ONE_FOR_ALL, None)
    return env


def play(library, case, shared, seconds, *arguments, one_host=False):
    """(what each rank printed, what is wrong in words or None)"""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-B", os.path.join(HERE, "every_nccl_rank.py"), case, library,
                   "--id", os.path.join(scratch, "id"), "--seconds", str(seconds - 3), *arguments]
        both = [subprocess.Popen(command, env=environment_of(rank, shared, one_host), text=True,
                                 start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for rank in range(2)]
        end, said, words = time.monotonic() + seconds, [], []
        hung = False
        for process in both:
            try:
                output, errors = process.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                hung = True
                os.killpg(process.pid, signal.SIGKILL)
                output, errors = process.communicate()
            if process.returncode:
                end = min(end, time.monotonic() + 5)  # the other one waits for this one
            said += [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            words += errors.strip().splitlines()[-8:]
    status = max(both[0].returncode, both[1].returncode, key=abs)
    if hung and all(process.returncode in (0, -9) for process in both):
        return None, "HANGS: " + last(words)
    if status or len(said) != 2:
        return None, "%s: %s" % ("WRONG RESULT" if status == 3 else "status %d" % status, last(words))
    return said, None


def last(words):
    return " | ".join(filter(None, words))[-WORDS:]


def issued_by(said):
    total = {}
    for rank in said:
        for function, (count, size) in rank["issued"].items():
            entry = total.setdefault(function, [0, 0])
            entry[0] += count
            entry[1] += size
    return total


def protocols(report):
    """{bytes: {protocols}} of the all-reduces that the rules are about."""
    ran = {}
    for row in report["ops"]:
        if row["func"] == "AllReduce" and row["size"] in SIZES:
            ran.setdefault(row["size"], set()).add(row["proto"])
    return ran


def compare(issued, found, report, wanted):
    """What is not as it should be, in words. found: harm.read_report's; wanted: {bytes: protocol}, if any."""
    wrong = []
    if found["recorded"] != issued:
        wrong.append("recorded %s of %s" % (found["recorded"], issued))
    if found["told"]:
        wrong.append("told " + ", ".join(found["told"]))
    lost = {why: n for why, n in found["drops"].items() if not why.startswith("time_")}
    if lost:
        wrong.append("drops %s" % lost)
    ran = protocols(report)
    for size, proto in (wanted or {}).items():
        if ran.get(size) != {proto}:
            wrong.append("%d bytes: %s, not %s" % (size, "/".join(sorted(map(str, ran.get(size, [])))) or "none", proto))
    return wrong


class Cell:
    def __init__(self, library, mode, case, wanted=None):
        self.library, self.mode, self.case, self.wanted = library, mode, case, wanted

    def what(self):
        return "broadcasts" if self.case == "broadcasts" else "tuned" if self.wanted else "plain"


def run_cell(options, cell):
    """What came of it; `own` is which protocol NCCL took of each size."""
    result = {"library": cell.library, "mode": cell.mode, "case": cell.what(), "nccl": None, "ops": None, "timed": None}
    with tempfile.TemporaryDirectory() as scratch:
        run = os.path.join(scratch, "run")
        shared = harm.environment(options, harm.Cell(cell.mode, cell.library, cell.case), run)
        if cell.wanted:
            rules = os.path.join(scratch, "policy.yaml")
            with open(rules, "w") as file:
                file.write(policy_text(cell.wanted))
            shared.update(NCCL_TUNER_PLUGIN="libnccl-tuner-muster.so", MUSTER_CONFIG=rules)
        begin = time.monotonic()
        said, wrong = play(options.paths[cell.library], cell.case, shared, options.seconds, "--rounds", "2",
                           "--without", options.without)
        result.update(wall_s=round(time.monotonic() - begin, 1), wrong=[wrong] if wrong else [])
        if wrong:
            return result
        issued = issued_by(said)
        result.update(nccl=said[0]["nccl"], issued=issued, ops=sum(count for count, _ in issued.values()))
        if cell.mode != "none":
            read(options, cell, run, issued, result)
    return result


def read(options, cell, run, issued, result):
    found = harm.read_report(options.muster, run)
    if found.get("report_error"):
        result["wrong"] = [found["report_error"]]
        return
    answer = subprocess.run([options.muster, "report", run, "--format", "json"], capture_output=True, text=True)
    report = json.loads(answer.stdout)
    result.update(found, wrong=compare(issued, found, report, cell.wanted),
                  own={size: sorted(map(str, ran)) for size, ran in protocols(report).items()})


def show(result):
    timed = "%.0f%%" % (100 * result["timed"] / result["ops"]) if result["timed"] is not None and result["ops"] else "-"
    words = "; ".join(result["wrong"]) or "OK"
    if result.get("drops"):
        words += ", drops %s" % result["drops"]
    if result["case"] == "plain" and result.get("own"):
        words += ", NCCL takes " + " ".join("%s:%s" % (size, "/".join(ran)) for size, ran in result["own"].items())
    return ROW % (result["library"], result["nccl"] or "-", result["mode"], result["case"], result["ops"] or "-", timed,
                  words)


def cells_of(modes, own):
    """What follows the plain cells; own: {bytes: protocol}."""
    wanted = other_policy(own)
    tuned = [(mode, "kinds", wanted) for mode in modes]
    return tuned + [("none", "broadcasts", None), (modes[0] if "auto" not in modes else "auto", "broadcasts", None)]


def one_library(options, library, tell, run=run_cell):
    """All cells of a library, one after the other; how many are not right."""
    bad, own = 0, {}
    rest = [("none", "kinds", None), ("light", "kinds", None)]
    planned = False
    while rest:
        mode, case, wanted = rest.pop(0)
        result = run(options, Cell(library, mode, case, wanted))
        bad += bool(result["wrong"])
        tell(result)
        if result["case"] == "plain" and result.get("own"):
            own = {int(size): ran[0] for size, ran in result["own"].items() if len(ran) == 1}
        if not rest and not planned:
            rest, planned = cells_of(options.modes, own), True
    return bad


def parse(arguments):
    def words(text):
        return text.split(",")
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--out", default=".")
    parser.add_argument("--libraries", type=words)
    parser.add_argument("--modes", type=words, default=list(MODES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--without", default="")
    options = parser.parse_args(arguments)
    for mode in options.modes:
        if mode not in MODES:
            parser.error("no %s in %s" % (mode, ", ".join(MODES)))
    return options


def main(arguments):
    options = parse(arguments)
    if ranks.gpus() < 1:
        print("skipped: needs a GPU")
        return 77
    options.plugin = harm.find(os.path.abspath(options.build), "libnccl-profiler-muster.so")
    options.muster = harm.find(os.path.abspath(options.build), "muster")
    os.makedirs(options.out, exist_ok=True)
    print(ROW % ("library", "NCCL", "mode", "", "ops", "timed", ""), flush=True)
    with tempfile.TemporaryDirectory() as scratch, \
            open(os.path.join(options.out, "every_nccl.jsonl"), "a") as record, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        options.paths = harm.libraries(options.nccl, scratch, sharing=False)

        def tell(result):
            print(show(result), flush=True)
            record.write(json.dumps(result) + "\n")
            record.flush()
        wanted = [name for name in options.paths if not options.libraries or name in options.libraries]
        bad = sum(pool.map(lambda name: one_library(options, name, tell), wanted))
    print("== %s" % ("%d cells are not right" % bad if bad else "all right"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
