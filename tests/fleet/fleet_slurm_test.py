"""The agent that Slurm's prolog starts and its epilog ends, in slurmd's place.
usage: fleet_slurm_test.py MUSTER SOURCE_ROOT"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KEEP = "-all,+dac_read_search"
MUSTER, ROOT = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))
SCRIPT = os.path.join(ROOT, "config", "slurm", "muster-agent.sh")


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="muster-slurm-")
        self.state = os.path.join(self.folder, "run", "muster-agent")
        self.seen = set()
        self.addCleanup(self.clean)

    def clean(self):
        for pid in self.seen:
            if self.lives(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def slurmd(self, context, job, muster=MUSTER, options="--all --listen 127.0.0.1:0", quiet=True):
        """As slurmd runs it: a few variables, and what is left of its process group afterwards is killed."""
        environment = {"PATH": os.environ["PATH"], "SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": str(job),
                       "MUSTER_AGENT_COMMAND": muster, "MUSTER_AGENT_OPTIONS": options, "MUSTER_AGENT_STATE": self.state}
        process = subprocess.Popen([SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        said = process.communicate(timeout=60)[0]
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.assertEqual(process.returncode, 0, said)  # else Slurm drains the node
        if quiet:
            self.assertEqual(said, "")
        return self.agent()

    def agent(self):
        """The number of the agent, None: none is noted."""
        try:
            with open(os.path.join(self.state, "pid"), encoding="ascii") as file:
                pid = int(file.read())
        except FileNotFoundError:
            return None
        self.seen.add(pid)
        return pid

    @staticmethod
    def lives(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def until(self, true, what):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = true()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what}: {self.log()}")

    def log(self):
        with open(os.path.join(self.state, "log"), encoding="utf-8") as file:
            return file.read()

    def serves(self):
        self.until(lambda: "/metrics" in self.log() or "libmicrohttpd" in self.log(), "it serves")
        if "libmicrohttpd" in self.log():
            self.skipTest("this build serves nothing")

    def test_one_agent_for_all_jobs(self):
        agent = self.slurmd("prolog_slurmd", 7)
        self.serves()
        self.assertNotIn("MUSTER_AGENT", self.log())  # as of a variable that muster does not know
        self.assertEqual(self.slurmd("prolog_slurmd", 8), agent)
        self.assertEqual(self.slurmd("epilog_slurmd", 7), agent)
        self.assertTrue(self.lives(agent))  # job 8 is there
        self.assertIsNone(self.slurmd("epilog_slurmd", 8))
        self.until(lambda: not self.lives(agent), "it ends with the last job")
        self.assertNotEqual(self.slurmd("prolog_slurmd", 9), agent)
        self.assertIsNone(self.slurmd("epilog_slurmd", 9))

    def test_an_agent_that_died_is_started_again(self):
        first = self.slurmd("prolog_slurmd", 7)
        self.serves()
        os.kill(first, signal.SIGKILL)
        self.until(lambda: not self.lives(first), "it is gone")
        self.assertNotEqual(self.slurmd("prolog_slurmd", 8), first)

    def test_a_number_that_became_another_process_is_left_alone(self):
        other = subprocess.Popen(["sleep", "600"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        os.makedirs(self.state)
        with open(os.path.join(self.state, "pid"), "w", encoding="ascii") as file:
            file.write(f"{other.pid}\n")
        self.slurmd("epilog_slurmd", 7)
        self.assertIsNone(other.poll())
        self.assertNotEqual(self.slurmd("prolog_slurmd", 8), other.pid)

    def test_without_muster_jobs_start(self):
        self.slurmd("prolog_slurmd", 7, muster="/nowhere/muster")
        self.slurmd("epilog_slurmd", 7, muster="/nowhere/muster")

    def test_folders_where_files_belong(self):
        for name in ("lock", os.path.join("jobs", "7")):
            with self.subTest(name):
                os.makedirs(os.path.join(self.state, name))
                self.slurmd("prolog_slurmd", 7, muster="/nowhere/muster", quiet=False)
                self.slurmd("epilog_slurmd", 7, muster="/nowhere/muster", quiet=False)
                shutil.rmtree(self.state)

    def test_a_job_that_ends_while_another_has_the_lock_is_forgotten(self):
        self.slurmd("prolog_slurmd", 7, muster="/nowhere/muster")
        self.assertEqual(os.listdir(os.path.join(self.state, "jobs")), ["7"])
        with open(os.path.join(self.state, "lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.slurmd("epilog_slurmd", 7, muster="/nowhere/muster")
        self.assertEqual(os.listdir(os.path.join(self.state, "jobs")), [])

    def stand_in(self, script):
        """Its path: a folder that others may look into."""
        outside = tempfile.mkdtemp(prefix="muster-slurm-")
        self.addCleanup(shutil.rmtree, outside)
        path = os.path.join(outside, "muster")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        os.chmod(outside, 0o755)
        return path

    def test_an_epilog_ends_when_its_agent_has(self):
        slow = self.stand_in("trap 'sleep 0.3; exit' TERM\necho ready\nwhile :; do sleep 0.1; done\n")
        agent = self.slurmd("prolog_slurmd", 7, muster=slow)
        self.until(lambda: "ready" in self.log(), "it can be ended")
        self.assertIsNone(self.slurmd("epilog_slurmd", 7, muster=slow))
        self.assertFalse(self.lives(agent))  # the next one gets its port

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "not root, or no setpriv")
    def test_it_may_read_and_no_more(self):
        if subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", f"--inh-caps={KEEP}",
                           f"--ambient-caps={KEEP}", f"--bounding-set={KEEP}", "true"], capture_output=True).returncode:
            self.skipTest("capabilities cannot be handed on here")
        of = self.stand_in("id -u\ngrep -E '^(Cap|NoNewPrivs)' /proc/self/status\nexec sleep 600\n")
        self.slurmd("prolog_slurmd", 7, muster=of)
        said = self.until(lambda: (log := self.log()).count("\n") >= 7 and log, "it says who it is")
        search = format(1 << 2, "016x")  # CAP_DAC_READ_SEARCH
        self.assertEqual(said.splitlines()[0], "65534")
        self.assertEqual(re.findall(r"(\w+):\t(\w+)", said),
                         [(name, search) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] +
                         [("NoNewPrivs", "1")])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
