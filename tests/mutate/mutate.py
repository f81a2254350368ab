"""Breaks the plugin on purpose and says which breaks no test notices.

mutate.py rules [ID...]              each rule of tests/abi/RULES, or these, against the tests it names
mutate.py operators [N [SEED]]       N (60) operators of record, segment and policy, drawn by a seed
mutate.py check                      the table and the list of survivors fit the sources (nothing is built)

Works in build-mutate/ of the checkout (--work FOLDER), two jobs at a time, with low priority. Survivors
stand in tests/mutate/survivors with a reason, or are a test that is missing: then it leaves with 1."""
import argparse
import glob
import os
import re
import subprocess
import sys
import time

from mutants import draw, read_rules, read_survivors, read_table

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ROOMS = ("record", "segment", "policy")
WIDE = r"^(host|record|segment|policy|nccl|plugin|oplog|abi)_"
LEFT_OUT = r"^(host_allocation_test|abi_rules_test|abi_mutants_test)$"
SECONDS = 30  # of a test, the longest of which takes 7; a mutant may hang


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def programs_of_tests():
    """Of each cmocka test the program that has it."""
    programs = {}
    for path in glob.glob(f"{ROOT}/tests/**/*_test.c", recursive=True):
        for name in re.findall(r"\bcmocka_unit_test\w*\(\s*(\w+)|\bTEST\((\w+)\)", read(path)):
            programs[name[0] or name[1]] = os.path.basename(path)[:-2]
    return programs


class Tree:
    """A copy of the tracked files, its build, and tests of it."""

    def __init__(self, work):
        self.source, self.build = os.path.join(work, "source"), os.path.join(work, "build")
        os.makedirs(self.source, exist_ok=True)
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True)
        names = [name for name in listed.stdout.split(b"\0") if os.path.isfile(os.path.join(ROOT.encode(), name))]
        self.copy(names)
        self.run("cmake", "--preset", "release", "-S", self.source, "-B", self.build, "-DMUSTER_BENCH=OFF",
                 cwd=self.source, check=True)
        self.targets = {line.split(":")[0] for line in
                        self.run("ninja", "-C", self.build, "-t", "targets", "all").stdout.splitlines()}
        listed = self.run("ctest", "--test-dir", self.build, "-N").stdout
        self.tests = re.findall(r"Test +#\d+: (\S+)", listed)

    def copy(self, names):
        """Only what differs is written, so that a second run builds little."""
        for name in names:
            source, target = os.path.join(ROOT.encode(), name), os.path.join(self.source.encode(), name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(source, "rb") as file:
                content = file.read()
            if os.path.exists(target):
                with open(target, "rb") as file:
                    if file.read() == content:
                        continue
            with open(target, "wb") as file:
                file.write(content)
            os.chmod(target, os.stat(source).st_mode)

    @staticmethod
    def run(*argv, cwd=None, check=False):
        done = subprocess.run(["nice", "-n", "10", *argv], cwd=cwd, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if check and done.returncode:
            sys.exit(f"{' '.join(argv)}\n{done.stdout}")
        return done

    def matching(self, pattern):
        return [name for name in self.tests if re.search(pattern, name) and not re.search(LEFT_OUT, name)]

    def make(self, tests):
        """Builds what these tests need; says whether that worked."""
        wanted = [name for name in tests if name in self.targets]
        return self.run("cmake", "--build", self.build, "-j2", "--target", "nccl-profiler-muster", *wanted)

    def failures(self, tests):
        """Of these tests the programs that fail, and within them the tests."""
        run = self.run("ctest", "--test-dir", self.build, "-j2", "--timeout", str(SECONDS), "--stop-on-failure",
                       "--output-on-failure", "-R", f"^({'|'.join(tests)})$")
        programs = set(re.findall(r"^\s*\d+ - (\S+) \((?!Skipped)", run.stdout, re.M))
        return programs, set(re.findall(r"\[  FAILED  \] (?:\S+: )?([a-z]\w+)", run.stdout))


class Evaluator:
    def __init__(self, tree):
        self.tree, self.known = tree, read_survivors(f"{HERE}/survivors")
        self.counts, self.wrong = {}, []

    def say(self, mutant, verdict, detail, seconds):
        self.counts[verdict] = self.counts.get(verdict, 0) + 1
        line = f"{verdict:10} {mutant.key}{': ' + detail if detail else ''} ({seconds:.0f} s)"
        if verdict in ("SURVIVED", "UNNAMED", "BROKEN"):
            self.wrong.append(line)
        print(line, flush=True)

    def try_one(self, mutant, stages):
        """Runs the stages of tests (programs, names that must fail or None) until one notices."""
        path = os.path.join(self.tree.source, mutant.path)
        before, begin = read(path), time.monotonic()
        with open(path, "w", encoding="utf-8") as file:
            file.write(mutant.apply(before))
        try:
            verdict, detail = self.evaluate(mutant, stages)
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(before)
        self.say(mutant, verdict, detail, time.monotonic() - begin)

    def evaluate(self, mutant, stages):
        for tests, named in stages:
            if not tests:
                continue
            made = self.tree.make(tests)
            if made.returncode:
                if not mutant.builds:
                    return "caught", "it does not build"
                return ("no C", "") if named is None else ("BROKEN", made.stdout[-1500:])
            programs, failed = self.tree.failures(tests)
            if programs and (named is None or named & (failed | programs) or not failed):
                return "caught", ", ".join(sorted(failed or programs))
            if programs:
                return self.known_or("UNNAMED", mutant, ", ".join(sorted(failed)))
        return self.known_or("SURVIVED", mutant, "")

    def known_or(self, verdict, mutant, detail):
        reason = self.known.get(mutant.key)
        return ("explained", reason) if reason else (verdict, detail)

    def end(self):
        caught, total = self.counts.get("caught", 0), sum(self.counts.values())
        print(f"\n{caught} of {total} caught; " +
              ", ".join(f"{n} {verdict}" for verdict, n in sorted(self.counts.items())))
        print("\n".join(self.wrong))
        return 1 if self.wrong else 0


def mutate_rules(tree, wanted):
    rules, (mutants, _) = read_rules(f"{ROOT}/tests/abi/RULES"), read_table(f"{HERE}/rule-mutants")
    programs, evaluator = programs_of_tests(), Evaluator(tree)
    for rule, mutant in mutants.items():
        if wanted and rule not in wanted:
            continue
        named = rules[rule]
        own = sorted({programs.get(name, name) for name in named})
        wide = [name for name in tree.matching(WIDE) if name not in own]
        evaluator.try_one(mutant, [(own, set(named)), (wide, set())])
    return evaluator.end()


def mutate_operators(tree, n, seed):
    texts = {f"plugin/{room}/{os.path.basename(path)}": read(path) for room in ROOMS
             for path in glob.glob(f"{tree.source}/plugin/{room}/*.c")}
    print(f"{n} operators, seed {seed}")
    evaluator = Evaluator(tree)
    for mutant in draw(texts, n, seed):
        room = mutant.path.split("/")[1]
        evaluator.try_one(mutant, [(tree.matching(f"^{room}_"), None), (tree.matching("^(host|plugin|oplog)_"), None)])
    return evaluator.end()


def check():
    """Every rule has a mutant that fits, or a reason; every survivor that is explained exists."""
    rules, (mutants, reasons) = read_rules(f"{ROOT}/tests/abi/RULES"), read_table(f"{HERE}/rule-mutants")
    wrong = [f"rule {rule} has no mutant in tests/mutate/rule-mutants" for rule, tests in rules.items()
             if tests and rule not in mutants and rule not in reasons]
    wrong += [f"tests/abi/RULES has no rule {rule}" for rule in [*mutants, *reasons] if rule not in rules]
    for mutant in mutants.values():
        try:
            mutant.apply(read(ROOT, mutant.path))
        except (OSError, ValueError) as error:
            wrong.append(f"{mutant.key}: {error}")
    for key in read_survivors(f"{HERE}/survivors"):
        path, _, rest = key.partition(": ")
        if key.startswith("rule "):
            if key[5:] not in mutants:
                wrong.append(f"survivors: no mutant is called {key}")
        elif rest.rpartition(": ")[0] not in read(ROOT, path):
            wrong.append(f"survivors: {path} has no line {rest.rpartition(': ')[0]!r}")
    print("\n".join(wrong) or f"{len(mutants)} mutants for {len(rules)} rules")
    return 1 if wrong else 0


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--work", default=f"{ROOT}/build-mutate")
    ask.add_argument("what", choices=("rules", "operators", "check"))
    ask.add_argument("rest", nargs="*")
    asked = ask.parse_args()
    if asked.what == "check":
        return check()
    tree = Tree(asked.work)
    if asked.what == "rules":
        return mutate_rules(tree, set(asked.rest))
    n, seed = (*map(int, asked.rest), *(60, time.time_ns() % 100000)[len(asked.rest):])
    return mutate_operators(tree, n, seed)


if __name__ == "__main__":
    sys.exit(main())
