"""Where a job's recording cannot go as usual: it is told in a line, the job does not notice, and the
report is as right as it can be. Usage: places_test.py MUSTER RECORDING"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MUSTER, RECORDING = sys.argv.pop(1), sys.argv.pop(1)
RANKS = 4


def mount(path, options):
    """A tmpfs of its own; False where that is not allowed."""
    return os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", path], stderr=subprocess.DEVNULL,
        check=False).returncode == 0


class Places(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.segments = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.segments, True)
        self.replay(self.path("undisturbed"))
        self.expected = self.totals(self.path("undisturbed"))
        self.assertEqual([row[0] for row in self.expected], list(range(RANKS)))

    def path(self, name):
        return os.path.join(self.folder, name)

    def mounted(self, name, options):
        path = self.path(name)
        os.mkdir(path)
        if not mount(path, options):
            self.skipTest("may not mount here")
        self.addCleanup(subprocess.run, ["umount", path], check=False)
        return path

    def start(self, run, *options, command=("replay",), **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        env.update(MUSTER_SEGMENT_DIR=self.segments, TMPDIR=self.folder)
        env.update(variables)
        return subprocess.Popen([MUSTER, *command, RECORDING, "--speed", "max", "--out", run,
                                 *options], env=env, stdin=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def finish(self, job):
        stderr = job.communicate(timeout=120)[1]
        self.assertEqual(job.returncode, 0, stderr)
        return stderr

    def replay(self, run, **variables):
        return self.finish(self.start(run, **variables))

    def report(self, *runs):
        done = subprocess.run([MUSTER, "report", "--format", "json", *runs], check=False,
                              env={**os.environ, "MUSTER_SEGMENT_DIR": self.segments},
                              stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        return json.loads(done.stdout)

    def totals(self, *runs):
        return sorted((row["rank"], row["ops"], row["bytes"], row["exit"])
                      for row in self.report(*runs)["ranks"])

    def test_full_shared_memory_costs_the_live_view_only(self):
        full = self.mounted("shm", "size=4m")
        stderr = self.replay(self.path("run"), MUSTER_SEGMENT_DIR=full)
        self.assertEqual(stderr.count("no live view"), RANKS)
        self.assertIn(f"{full}: too full", stderr)
        self.assertEqual(os.listdir(full), [])
        self.assertEqual(self.totals(self.path("run")), self.expected)

    def test_segments_on_a_disk_cost_the_live_view_only(self):
        stderr = self.replay(self.path("run"), MUSTER_SEGMENT_DIR="/proc")
        self.assertEqual(stderr.count("/proc: not a tmpfs"), RANKS)
        self.assertEqual(self.totals(self.path("run")), self.expected)

    def test_an_unwritable_run_directory_moves_under_tmpdir(self):
        stderr = self.replay("/proc/nowhere/muster-5")
        self.assertEqual(stderr.count(f"this run is written to {self.path('muster-5')}"), RANKS)
        self.assertEqual(self.totals(self.path("muster-5")), self.expected)

    def unwritable(self, name):
        """An empty directory; for root one on a file system that takes no writes."""
        if os.geteuid() == 0:
            return self.mounted(name, "ro,size=64k")
        os.mkdir(self.path(name), 0o555)
        return self.path(name)

    def ran(self, run, **variables):
        """What `muster run` says of a job that is to be recorded there."""
        job = self.start(run, command=("run", "--dir", run, "--", MUSTER, "replay"), **variables)
        return self.finish(job)

    def test_run_reports_what_moved_out_of_an_unwritable_directory(self):
        os.mkdir(self.path("tmp"))
        stderr = self.ran(self.unwritable("full"), TMPDIR=self.path("tmp"))
        self.assertIn(f"run {self.path('tmp/full')}:", stderr)
        self.assertIn(f"{RANKS} ranks on 1 host", stderr)

    def test_run_says_that_nothing_could_be_written(self):
        run = self.unwritable("full")
        stderr = self.ran(run, TMPDIR="/proc")
        self.assertRegex(stderr, f"nothing was recorded: {run}: (Read-only|Permission denied)")

    def test_run_reports_both_halves_of_a_job_on_a_full_disk(self):
        os.mkdir(self.path("tmp"))
        run = os.path.join(self.mounted("disk", "nr_inodes=4"), "run")
        stderr = self.ran(run, TMPDIR=self.path("tmp"))
        self.assertIn(f"this run is written to {self.path('tmp/run')}", stderr)
        self.assertIn(f"{RANKS} ranks on 1 host", stderr)

    def test_what_killed_jobs_left_is_not_taken_for_one_that_runs(self):
        run = self.path("run")
        job = self.start(run, "--hold", "300")
        try:
            while len([name for name in os.listdir(self.segments) if name.endswith(".seg")]) < RANKS:
                time.sleep(0.05)
            job.send_signal(signal.SIGSTOP)  # it would tidy up behind its ranks
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(job.pid)], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout.split()
            self.assertEqual(len(children), RANKS)
            for child in children:
                os.kill(int(child), signal.SIGKILL)
            for child in children:  # until nobody holds its lock any more
                while not subprocess.run(["ps", "-o", "stat=", "-p", child], check=False,
                                         stdout=subprocess.PIPE).stdout.startswith(b"Z"):
                    time.sleep(0.05)
            done = {command: self.live(command) for command in ("diagnose", "report")}
        finally:
            job.kill()
            job.communicate()
        for command, told in done.items():
            self.assertEqual((told.returncode, told.stdout), (2, ""), told)
            self.assertIn("No job recorded by muster is running here", told.stderr)
            self.assertRegex(told.stderr, f"last that was killed,.* was seen .*: muster {command} {run}")

    def live(self, command):
        return subprocess.run([MUSTER, command, "--live"], check=False, timeout=60, text=True,
                              env={**os.environ, "MUSTER_SEGMENT_DIR": self.segments},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_where_nothing_was_recorded_here_a_job_that_runs_is_named(self):
        run, empty = self.path("run"), self.path("empty")
        os.mkdir(empty)
        job = self.start(run, "--hold", "300")
        try:
            while len([name for name in os.listdir(self.segments) if name.endswith(".seg")]) < RANKS:
                time.sleep(0.05)
            done = subprocess.run([MUSTER, "report"], check=False, timeout=60, text=True, cwd=empty,
                                  env={**os.environ, "MUSTER_SEGMENT_DIR": self.segments},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        finally:
            job.terminate()
            job.communicate(timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        self.assertIn(f"no ./muster-* here; name a run directory or a pid: a job that runs on this "
                      f"host records to {run}", done.stderr)

    def test_nowhere_to_write_does_not_stop_the_job(self):
        stderr = self.replay("/proc/nowhere/muster-5", TMPDIR="/proc")
        self.assertIn("/proc/nowhere/muster-5", stderr)

    def test_a_full_disk_keeps_the_totals(self):
        run = os.path.join(self.mounted("disk", "size=64k"), "run")
        stderr = self.replay(run)
        self.assertIn("No space left on device", stderr)
        # A rank that found no room for its first bytes went where an unwritable directory's go.
        runs = [path for path in (run, self.path("run")) if os.path.isdir(path)]
        self.assertEqual(self.totals(*runs), self.expected)

    def test_two_jobs_at_once_stay_apart(self):
        jobs = [self.start(self.path(name), "--hold", "1") for name in "ab"]
        for job in jobs:
            self.finish(job)
        for name in "ab":
            self.assertEqual(self.totals(self.path(name)), self.expected)
        self.assertEqual(os.listdir(self.segments), [])

    def test_two_jobs_in_one_run_directory_lose_nothing(self):
        for job in [self.start(self.path("run"), "--hold", "1") for _ in range(2)]:
            self.finish(job)
        self.assertEqual(self.totals(self.path("run")), sorted(2 * self.expected))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
