"""Whether muster does on each NCCL what it says: a tuner's rules are followed, and other profilers
beside it write what they write alone. On two GPUs, or on one that ranks share (harm.py says where).

usage: versions.py --build BUILD [--nccl FOLDER] [--out FOLDER] [--child NAME=SO,...] [--libraries NAME,...]
                   [--modes MODE,...] [--jobs N]
Tuner: all-reduces of 16 to 512 KiB under a policy that gives each size another protocol than NCCL
does, in every timing mode: counts, bytes and results are right, and each size ran as its rule says.
Child (inspector or example, NVIDIA's profilers): the same job with it alone, and in MUSTER_CHAIN:
the operations that its own output lists are the same; the example's, which alone may lose those of whole
communicators at its end, lists no fewer, and as many as were issued. Child muster: another copy of
muster's library; each operation is counted once, by one of the two, and the other says so. A row each.
Exit status 0 if all is right, 1 if not, 77: no GPU here.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import harm  # noqa: E402
import harm_cell  # noqa: E402
import ranks  # noqa: E402

# NCCL itself takes ll for the small ones and ll128 or simple for the large.
WANTED = dict(zip([4 * words for words in harm_cell.SIZES], ("simple", "ll128", "ll", "simple")))
SECOND = "another copy of muster records this process already"
ROW = "%-7s %-11s %-10s %s"
CELL_S = 40


def policy():
    rules = ["- {name: b%d, match: {collective: all_reduce, bytes: %d..%d}, prefer: {proto: %s}}" %
             (size, size, size, proto) for size, proto in WANTED.items()]
    return "muster: 1\npolicy:\n" + "\n".join(rules) + "\n"


def play(options, library, environment):
    """What the cell printed, what is wrong, and its standard error."""
    command = [sys.executable, "-B", os.path.join(HERE, "harm_cell.py"), "sizes",
               options.paths[library], "--rounds", "2", "--seconds", "20"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=CELL_S)
    except subprocess.TimeoutExpired:
        return None, "HANGS", ""
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines()
        return None, "status %d: %s" % (done.returncode, words[-1] if words else ""), done.stderr
    return json.loads(lines[-1]), None, done.stderr


def tuned(options, library, mode):
    """What is wrong; nothing if all is well."""
    with tempfile.TemporaryDirectory() as scratch:
        run, rules = os.path.join(scratch, "run"), os.path.join(scratch, "policy.yaml")
        with open(rules, "w") as file:
            file.write(policy())
        environment = harm.environment(options, harm.Cell(mode, library, "sizes"), run)
        environment.update(NCCL_TUNER_PLUGIN="libnccl-tuner-muster.so", MUSTER_CONFIG=rules)
        own, wrong, _ = play(options, library, environment)
        if wrong:
            return [wrong]
        report, wrong = report_of(options, run)
        return [wrong] if wrong else compare_tuned(own["issued"], report)


def report_of(options, run):
    answer = subprocess.run([options.muster, "report", run, "--format", "json"],
                            capture_output=True, text=True)
    if not answer.stdout.startswith("{"):
        return None, "no report: " + answer.stderr.strip()
    return json.loads(answer.stdout), None


def counted(issued, report):
    """What is wrong of the report's operations and bytes."""
    found = [sum(row["count"] for row in report["ops"]), sum(row["bytes"] for row in report["ops"])]
    return ["recorded %s of %s" % (found, issued["AllReduce"])] if found != issued["AllReduce"] else []


def compare_tuned(issued, report):
    wrong = []
    for row in report["ops"]:
        if row["proto"] != WANTED.get(row["size"]):
            wrong.append("%d bytes: %s, not %s" % (row["size"], row["proto"],
                                                   WANTED.get(row["size"])))
    return wrong + counted(issued, report)


def of_inspector(folder):
    """{(collective, bytes): operations}"""
    found = collections.Counter()
    for path in glob.glob(folder + "/**/*", recursive=True):
        if os.path.isfile(path):
            with open(path, errors="replace") as file:
                for line in file:
                    if line.startswith("{"):
                        one = json.loads(line).get("coll_perf", {})
                        found[one.get("coll"), one.get("coll_msg_size_bytes")] += 1
    return found


def of_example(folder):
    """{(category, name): begins}; its last line may be cut where a process ends."""
    found = collections.Counter()
    for path in glob.glob(folder + "/*"):
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    one = json.loads(line.strip().rstrip(","))
                except ValueError:
                    continue
                if isinstance(one, dict) and one.get("ph") == "b":
                    found[one["cat"], one["name"]] += 1
    return found


CHILDREN = {"inspector": of_inspector, "example": of_example}


def output_of(options, library, child, chained):
    """(operations by its own output, what the cell printed, what is wrong)"""
    with tempfile.TemporaryDirectory() as scratch:
        dump = os.path.join(scratch, "dump")
        os.mkdir(dump)
        environment = harm.environment(options, harm.Cell("auto" if chained else "none", library,
                                                          "sizes"), os.path.join(scratch, "run"))
        environment.update(
            NCCL_INSPECTOR_ENABLE="1", NCCL_INSPECTOR_DUMP_DIR=dump,
            NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS="500",
            NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING="0", NCCL_PROFILE_EVENT_MASK="2",
            NCCL_PROFILE_COLL_POOL_SIZE="4096", NCCL_PROFILE_GROUP_POOL_SIZE="4096",
            NCCL_PROFILE_GROUP_API_POOL_SIZE="4096", NCCL_PROFILE_COLL_API_POOL_SIZE="4096",
            NCCL_PROFILE_DUMP_FILE=os.path.join(dump, "example"))
        environment["MUSTER_CHAIN" if chained else "NCCL_PROFILER_PLUGIN"] = options.child[child]
        own, wrong, _ = play(options, library, environment)
        return CHILDREN[child](dump), own, wrong


def beside(options, library, child):
    alone, _, wrong = output_of(options, library, child, False)
    if wrong:
        return ["alone: " + wrong]
    chained, own, wrong = output_of(options, library, child, True)
    if wrong:
        return ["chained: " + wrong]
    if not alone:
        return ["alone it wrote nothing"]
    return compare_child(child, alone, chained, own["issued"])


def compare_child(child, alone, chained, issued):
    """What is wrong of operations by a child's own output."""
    if child == "example" and not alone - chained:
        listed, wanted = chained["COLL", "AllReduce"], issued["AllReduce"][0]
        return ["chained %d of %d" % (listed, wanted)] if listed != wanted else []
    if alone != chained:
        return ["alone %s, chained %s" % (dict(alone - chained) or "no more",
                                          dict(chained - alone) or "no more")]
    return []


def with_itself(options, library):
    """What is wrong where another copy of muster is the other profiler."""
    with tempfile.TemporaryDirectory() as scratch:
        run = os.path.join(scratch, "run")
        environment = harm.environment(options, harm.Cell("auto", library, "sizes"), run)
        environment["MUSTER_CHAIN"] = options.child["muster"]
        own, wrong, said = play(options, library, environment)
        if wrong:
            return [wrong]
        report, wrong = report_of(options, run)
        if wrong:
            return [wrong]
        unsaid = [] if SECOND in said else ["no word that the other copy records"]
        return counted(own["issued"], report) + unsaid


def parse(arguments):
    def words(text):
        return text.split(",")
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--out", default=".")
    parser.add_argument("--child", type=words, default=[])
    parser.add_argument("--libraries", type=words)
    parser.add_argument("--modes", type=words, default=["light", "auto", "full", "channels"])
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args(arguments)
    options.child = dict(child.split("=", 1) for child in options.child)
    for child in set(options.child) - {*CHILDREN, "muster"}:
        parser.error("no %s in %s, muster" % (child, ", ".join(CHILDREN)))
    return options


def main(arguments):
    options = parse(arguments)
    options.build = os.path.abspath(options.build)
    if ranks.gpus() < 1:
        print("skipped: needs a GPU")
        return 77
    options.plugin = harm.find(options.build, "libnccl-profiler-muster.so")
    options.muster = harm.find(options.build, "muster")
    bad = 0
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        options.paths = harm.libraries(options.nccl, scratch)
        wanted = [n for n in options.paths if not options.libraries or n in options.libraries]
        rows = [("tuner", library, mode, pool.submit(tuned, options, library, mode))
                for library in wanted for mode in options.modes]
        rows += [("child", library, child, pool.submit(with_itself, options, library) if child == "muster"
                  else pool.submit(beside, options, library, child))
                 for library in wanted for child in options.child]
        for what, library, how, future in rows:
            wrong = future.result()
            bad += bool(wrong)
            print(ROW % (what, library, how, "; ".join(wrong) or "OK"), flush=True)
    print("== %s" % ("%d rows are not right" % bad if bad else "all right"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
