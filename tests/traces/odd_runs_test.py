"""Runs that are not as they should be: what `muster diagnose` says of them, offline, following and
live.

usage: odd_runs_test.py MUSTER RECORDINGS"""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MUSTER, RECORDINGS = sys.argv[1:3]
DEADLINE_S = 120
MAGIC_AND_VERSION = (8, 4)  # where the version stands in a segment, and its bytes


def folder_of(name):
    return os.path.join(RECORDINGS, name)


def diagnose(*words, environment=None):
    done = subprocess.run([MUSTER, "diagnose", *words, "--format", "json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=DEADLINE_S, env=environment)
    return done.returncode, json.loads(done.stdout), done.stderr.decode()


def verdict(findings):
    return [(finding["kind"], finding["ranks"]) for finding in findings]


def step(number, time_ns):
    """The calls of one all-reduce, as NCCL makes them: (start, stop) of API, launch and operation."""
    first = 1 + 5 * number
    return [
        {"t": time_ns, "op": "start", "h": first, "type": 256, "parent": 0, "graph": 0,
         "depth": 1},
        {"t": time_ns, "op": "start", "h": first + 1, "type": 512, "parent": first,
         "func": "AllReduce", "count": 1024, "dt": "ncclFloat32", "root": 0, "stream": "(nil)",
         "graph": 0},
        {"t": time_ns, "op": "stop", "h": first + 1, "type": 512},
        {"t": time_ns, "op": "start", "h": first + 2, "type": 2048, "parent": first,
         "stream": "(nil)"},
        {"t": time_ns, "op": "stop", "h": first + 2, "type": 2048},
        {"t": time_ns, "op": "start", "h": first + 3, "type": 1, "parent": 0},
        {"t": time_ns, "op": "start", "h": first + 4, "type": 2, "parent": first + 1, "rank": 0,
         "seq": 0, "func": "AllReduce", "count": 1024, "dt": "ncclFloat32", "root": 0, "nch": 1,
         "nwarps": 4, "algo": "RING", "proto": "LL", "pgroup": first + 3},
        {"t": time_ns, "op": "stop", "h": first + 4, "type": 2},
        {"t": time_ns, "op": "stop", "h": first + 3, "type": 1},
        {"t": time_ns, "op": "stop", "h": first, "type": 256},
    ]


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)
        segments = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(shutil.rmtree, segments)
        self.environment = dict(os.environ, MUSTER_TIMING="full", MUSTER_SEGMENT_DIR=segments)

    def place(self, name):
        return os.path.join(self.scratch, name)

    def replay(self, folder, run, *words):
        return subprocess.Popen([MUSTER, "replay", folder, "--out", run, *words],
                                env=self.environment, stderr=subprocess.PIPE)

    def play(self, folder, run, *words):
        job = self.replay(folder, run, "--speed", "max", *words)
        said = job.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(job.returncode, 0, said)

    def part(self, name, ranks):
        """A recording of these ranks alone."""
        to = self.place(f"{name}-{'-'.join(map(str, ranks))}")
        os.makedirs(to)
        for rank in ranks:
            os.symlink(f"{folder_of(name)}/rank-{rank}.jsonl.xz", f"{to}/rank-{rank}.jsonl.xz")
        return to

    def segments_of(self, run):
        """{rank: path without its ending}"""
        text = subprocess.run([MUSTER, "report", run, "--format", "json"], check=True,
                              stdout=subprocess.PIPE, timeout=DEADLINE_S).stdout
        return {row["rank"]: glob.glob(f"{run}/*-{row['pid']}.seg")[0][:-len(".seg")]
                for row in json.loads(text)["ranks"]}


class OddRuns(Case):
    def test_a_rank_of_another_version_is_refused_and_the_others_are_evaluated(self):
        run = self.place("run")
        self.play(folder_of("late-gpu"), run)
        stem = self.segments_of(run)[3]
        os.unlink(stem + ".log")
        with open(stem + ".seg", "r+b") as file:
            file.seek(MAGIC_AND_VERSION[0])
            file.write((99).to_bytes(MAGIC_AND_VERSION[1], "little"))
        status, document, _ = diagnose(run)
        self.assertEqual(verdict(document["findings"]), [("late_rank", [2])])
        self.assertEqual(status, 1)
        said = " ".join(document["not_observable"])
        self.assertIn("segment format 99, this muster reads", said)
        self.assertTrue("1 of 4 ranks" in said
                        or "1 of 4 ranks" in json.dumps(document["findings"]), document)

    def test_a_rank_restarted_under_its_number_is_not_compared(self):
        run = self.place("run")
        self.play(folder_of("late-gpu"), run)
        self.play(self.part("late-gpu", [1]), run)
        status, document, _ = diagnose(run)
        self.assertEqual((status, document["findings"]), (0, []))
        self.assertIn("recorded twice", " ".join(document["not_observable"]))

    def test_a_job_that_comes_back_with_its_hashes_is_not_compared_with_itself(self):
        run = self.place("run")
        for _ in range(2):
            self.play(folder_of("late-gpu"), run)
        status, document, _ = diagnose(run)
        self.assertEqual((status, document["findings"]), (0, []))
        self.assertIn("recorded twice", " ".join(document["not_observable"]))

    def test_two_hosts_directories_are_followed_together(self):
        runs, jobs = [self.place("node0"), self.place("node1")], []
        for run, ranks in zip(runs, ([0, 1], [2, 3])):
            jobs.append(self.replay(self.part("hang-absent", ranks), run, "--speed", "20",
                                    "--hold", "12"))
        while not all(glob.glob(run + "/*.log") for run in runs):
            time.sleep(0.05)
        environment = dict(self.environment, MUSTER_HANG_SECONDS="3")
        done = subprocess.run([MUSTER, "diagnose", *runs, "--follow", "--format", "json"],
                              env=environment, stdout=subprocess.PIPE, check=False,
                              timeout=DEADLINE_S)
        for job in jobs:
            job.communicate(timeout=DEADLINE_S)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(verdict(told), [("hang_absent", [1])])
        self.assertEqual(sorted(told[0]["victims"]), [0, 2, 3])
        self.assertEqual(done.returncode, 1)

    def test_1024_communicators_are_survived_live_and_afterwards(self):
        folder, run = self.place("recording"), self.place("run")
        os.makedirs(folder)
        for rank in range(2):
            meta = {"op": "meta", "format": 1, "api": 5, "nccl": 22809, "rank": rank, "nranks": 2,
                    "host": "node0", "local_rank": rank, "gpu": "x"}
            lines, now = [meta], 10**9
            for comm in range(1024):
                lines.append({"t": now, "tid": 1, "op": "init", "ctx": comm + 1,
                              "comm": f"{comm + 1:016x}", "name": "", "nNodes": 1, "nranks": 2,
                              "rank": rank})
            for number in range(2048):
                now += 10**5
                for line in step(number, now):
                    line["tid"] = 1
                    if line["op"] == "start":
                        line["ctx"] = number % 1024 + 1
                    lines.append(line)
            with open(f"{folder}/rank-{rank}.jsonl", "w", encoding="ascii") as file:
                for line in lines:
                    file.write(json.dumps(line) + "\n")
        self.environment["MUSTER_HANG_SECONDS"] = "2"
        job = self.replay(folder, run, "--hold", "6")
        while len(glob.glob(run + "/*.log")) < 2 and job.poll() is None:
            time.sleep(0.05)
        status, document, said = diagnose("--live", environment=self.environment)
        self.assertIn(status, (0, 1), said)
        self.assertEqual(verdict(document["findings"]), [])
        errors = job.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(job.returncode, 0, errors)
        self.assertNotIn(b"hang_", errors)
        status, document, said = diagnose(run, environment=self.environment)
        self.assertEqual((status, document["findings"]), (0, []), said)
        self.assertEqual(glob.glob(run + "/*.findings.jsonl"), [])


class SeveralJobs(Case):
    """One hangs, one is clean, and one that is over has left its segments."""

    def setUp(self):
        super().setUp()
        self.environment["MUSTER_HANG_SECONDS"] = "3"
        self.hangs, self.clean = self.place("hangs"), self.place("clean")
        self.jobs = {run: self.replay(folder_of(name), run, "--speed", "20", "--hold", "120")
                     for name, run in (("hang-absent", self.hangs), ("clean", self.clean))}
        self.addCleanup(self.end)

    def end(self):
        for job in self.jobs.values():
            if job.poll() is None:
                job.terminate()
            job.communicate(timeout=DEADLINE_S)

    def live(self, *words):
        return subprocess.run([MUSTER, "diagnose", "--live", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment, check=False, text=True,
                              timeout=DEADLINE_S)

    def until_told(self):
        """What is said once both have come to their ends."""
        document, end = {}, time.monotonic() + DEADLINE_S
        while not (document.get("findings") and len(document.get("jobs", [])) == 2
                   and document["jobs"][1]["verdict"]["state"] == "nobody"):
            self.assertLess(time.monotonic(), end, document)
            time.sleep(0.5)
            done = self.live("--format", "json")
            document = json.loads(done.stdout or "{}")
        self.assertEqual(done.returncode, 1, done.stderr)
        return document

    def test_each_has_its_own_verdict(self):
        document = self.until_told()
        self.assertEqual([(finding["kind"], finding["ranks"], finding["job"])
                          for finding in document["findings"]],
                         [("hang_absent", [1], self.hangs)])
        self.assertEqual([(job["job"], job["verdict"]["state"]) for job in document["jobs"]],
                         [(self.hangs, "held_back"), (self.clean, "nobody")])
        pids = {job["job"]: job["pids"] for job in document["jobs"]}
        for run in self.jobs:
            ranks = {rank["pid"]: rank["rank"] for rank in document["ranks"] if rank["job"] == run}
            self.assertEqual(ranks, {pid: rank for rank, pid in enumerate(pids[run])})
        self.assertFalse(set(pids[self.hangs]) & set(pids[self.clean]))
        self.assertNotIn("recorded twice", json.dumps(document))
        guilty = pids[self.hangs][1]
        evidence = " ".join(document["findings"][0]["evidence"])
        self.assertIn(f"{guilty}", evidence)
        for pid in pids[self.clean]:
            self.assertNotIn(f"{pid}", evidence)

        said = self.live().stdout
        first, second = (said.index(f"job {at} of 2: {run}:")
                         for at, run in ((1, self.hangs), (2, self.clean)))
        self.assertEqual(first, 0)
        self.assertIn("This job hangs: rank 1 ", said[:second])
        self.assertIn(f"pids {', '.join(map(str, pids[self.hangs]))}\n", said[:second])
        self.assertIn("Nobody holds this job back", said[second:])
        self.assertNotIn("no findings", said[:second])

    def test_what_another_job_left_is_not_of_the_one_that_lives(self):
        self.until_told()
        ranks = subprocess.run(["pgrep", "-P", str(self.jobs[self.clean].pid)], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split()
        for pid in ranks:
            os.kill(int(pid), signal.SIGKILL)
        self.jobs[self.clean].communicate(timeout=DEADLINE_S)
        status, document, _ = diagnose("--live", environment=self.environment)
        self.assertEqual((status, verdict(document["findings"])), (1, [("hang_absent", [1])]))
        self.assertEqual(document["run"], [self.hangs])
        self.assertEqual(len(document["ranks"]), 4)
        self.assertNotIn("jobs", document)

    def report(self, *words):
        return subprocess.run([MUSTER, "report", "--live", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment, check=False, text=True,
                              timeout=DEADLINE_S)

    def documents(self):
        """Of `report --live`: {run directory: its report}."""
        text, decoder, of_run = self.report("--format", "json").stdout.strip(), json.JSONDecoder(), {}
        while text:
            document, end = decoder.raw_decode(text)
            self.assertEqual(len(document["run"]), 1)
            of_run[document["run"][0]] = document
            text = text[end:].strip()
        return of_run

    def test_each_has_its_own_report_and_what_a_killed_one_left_is_in_none(self):
        self.until_told()
        of_run = self.documents()
        self.assertEqual(set(of_run), {self.hangs, self.clean})
        for document in of_run.values():
            self.assertEqual(sorted(rank["rank"] for rank in document["ranks"]), [0, 1, 2, 3])
            self.assertNotIn("recorded twice", json.dumps(document))
        self.assertEqual([of_run[run]["verdict"]["state"] for run in (self.hangs, self.clean)],
                         ["held_back", "nobody"])
        said = self.report().stdout
        for run in of_run:
            self.assertRegex(said, f"job [12] of 2: {run}:")
        table = self.report("--format", "csv")
        self.assertEqual((table.returncode, table.stdout), (2, ""))
        self.assertIn(self.clean, table.stderr)

        job = self.jobs[self.hangs]
        ranks = subprocess.run(["pgrep", "-P", str(job.pid)], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split()
        job.send_signal(signal.SIGSTOP)  # it would tidy up behind its ranks
        try:
            for pid in ranks:
                os.kill(int(pid), signal.SIGKILL)
            end = time.monotonic() + DEADLINE_S
            while self.hangs in self.documents():  # until the kernel has let go of its locks
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)
            self.assertEqual(set(self.documents()), {self.clean})
            alone = self.report()
            self.assertEqual(alone.returncode, 0)
            self.assertIn("Nobody holds this job back", alone.stdout)
            for other in ("killed", "job 1 of", self.hangs):
                self.assertNotIn(other, alone.stdout)
        finally:
            job.send_signal(signal.SIGCONT)

    def test_followed_each_line_names_its_job(self):
        self.until_told()
        told = []
        for words in (["--format", "json"], []):
            follower = subprocess.Popen([MUSTER, "diagnose", "--live", "--follow", *words],
                                        stdout=subprocess.PIPE, env=self.environment, text=True)
            told.append(follower.stdout.readline())
            follower.terminate()
            follower.communicate(timeout=DEADLINE_S)
        finding = json.loads(told[0])
        self.assertEqual((finding["kind"], finding["job"]), ("hang_absent", self.hangs))
        self.assertTrue(told[1].startswith(f"job {self.hangs}: "), told[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
