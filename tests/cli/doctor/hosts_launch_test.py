"""muster doctor --hosts by the launchers that people use, started here for real on loopback: sshd, Slurm.
Usage: hosts_launch_test.py MUSTER ssh|srun|spank"""

import getpass
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

MUSTER, LAUNCHER = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def wait_for(what, done, seconds=60):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


def answers(port):
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def reason_not_to_run():
    needed = {"ssh": ["sshd", "ssh", "ssh-keygen"], "srun": ["slurmctld", "slurmd", "srun", "munged"]}
    needed["spank"] = needed["srun"]
    for name in needed[LAUNCHER]:
        if not shutil.which(name, path=PATH):
            return f"no {name}"
    if LAUNCHER == "spank" and not os.path.exists(SPANK):
        return "srun --muster is not built: no slurm/spank.h"
    return "needs root" if os.geteuid() else None


class Launched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("NCCL", "SLURM_", "MASTER_", "RANK", "WORLD_"))}
        self.env["PATH"] = PATH

    def start(self, *words, **env):
        log = open(self.root / f"{pathlib.Path(words[0]).name}.log", "ab")
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env={**self.env, **env})
        log.close()

        def end():
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.addCleanup(end)
        return process

    def run_muster(self, *words, **env):
        done = subprocess.run([*words], env={**self.env, **env}, capture_output=True, text=True,
                              timeout=240, check=False, cwd=self.root)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        return done.stdout

    def expect_two(self, text):
        report = json.loads(text)
        checks = {check["id"]: check for check in report["checks"]}
        self.assertEqual(checks["hosts.reports"]["found"], "2 hosts", checks["hosts.reports"])
        self.assertEqual(checks["hosts.reach"]["found"], "2 pairs")
        self.assertEqual(checks["hosts.ports"]["found"], "open")
        self.assertIn("2 measurements", checks["hosts.bandwidth"]["evidence"][0])
        self.assertEqual([host["missing"] for host in report["hosts"]], [None, None])
        return report


class Ssh(Launched):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.root / name],
                           check=True)
        shutil.copy(self.root / "user.pub", self.root / "authorized")
        (self.root / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\n"
            f"HostKey {self.root}/host\nAuthorizedKeysFile {self.root}/authorized\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            f"PidFile {self.root}/pid\nBanner none\n")
        os.makedirs("/run/sshd", exist_ok=True)
        self.start(shutil.which("sshd", path=PATH), "-D", "-e", "-f", str(self.root / "sshd_config"))
        wait_for("sshd", lambda: answers(self.port))
        self.ssh = (f"ssh -i {self.root}/user -p {self.port} -o BatchMode=yes -F none "
                    f"-o UserKnownHostsFile={self.root}/known -o StrictHostKeyChecking=no "
                    f"-l {getpass.getuser()} {{}}")

    def test_two_hosts_by_ssh(self):
        """The variables of the job travel along."""
        report = self.expect_two(self.run_muster(
            MUSTER, "doctor", "--hosts", "--format", "json", "--with", self.ssh, "127.0.0.[1-2]",
            NCCL_DEBUG="WARN"))
        for host in report["hosts"]:
            checks = {check["id"]: check for check in host["report"]["checks"]}
            self.assertIn("NCCL_DEBUG=WARN", "\n".join(checks["env.set"]["evidence"]))

    def test_what_ssh_says_is_passed_on(self):
        (self.root / "authorized").write_text("")
        done = subprocess.run([MUSTER, "doctor", "--hosts", "--with", self.ssh, "127.0.0.[1-2]"],
                              env=self.env, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 of 2 hosts did not report", done.stdout)
        self.assertIn("Permission denied", done.stdout)

    def test_muster_that_is_not_there(self):
        done = subprocess.run([MUSTER, "doctor", "--hosts", "--with", self.ssh, "--command",
                               "/nonexistent/muster", "127.0.0.[1-2]"],
                              env=self.env, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/muster", done.stdout)


class Cluster(Launched):
    """A controller and two nodes of one machine."""

    def setUp(self):
        super().setUp()
        host = socket.gethostname().split(".")[0]
        ports = [free_port() for _ in range(3)]
        munge = self.root / "munge"
        munge.mkdir(mode=0o755)
        os.chmod(self.root, 0o755)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o600)
        (self.root / "slurm.conf").write_text(
            f"ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={ports[0]}\n"
            f"SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={self.root}/state\n"
            f"SlurmdSpoolDir={self.root}/spool.%n\nSlurmctldPidFile={self.root}/ctld.pid\n"
            f"SlurmdPidFile={self.root}/slurmd.%n.pid\nAuthType=auth/munge\n"
            f"AuthInfo=socket={munge}/socket\nCredType=cred/munge\nMpiDefault=none\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n"
            "SelectType=select/cons_tres\nReturnToService=2\nSlurmctldTimeout=30\n"
            f"NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2\n"
            f"NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2\n"
            "PartitionName=all Nodes=n[1-2] Default=YES State=UP\n" + self.more())
        self.env["SLURM_CONF"] = str(self.root / "slurm.conf")
        self.start(shutil.which("munged", path=PATH), "--foreground", "--force", "--key-file",
                   str(munge / "key"), "--socket", str(munge / "socket"), "--pid-file",
                   str(munge / "pid"), "--log-file", str(munge / "log"), "--seed-file",
                   str(munge / "seed"))
        wait_for("munged", (munge / "socket").exists)
        (self.root / "state").mkdir()
        self.start(shutil.which("slurmctld", path=PATH), "-D", "-i")
        for node in ("n1", "n2"):
            self.start(shutil.which("slurmd", path=PATH), "-D", "-N", node)
        wait_for("two idle nodes", self.idle)


    @staticmethod
    def more():
        return ""

    def idle(self):
        done = subprocess.run(["sinfo", "-h", "-o", "%D %t"], env=self.env, capture_output=True,
                              text=True, check=False)
        return done.stdout.strip() == "2 idle"


class Slurm(Cluster):
    def test_started_by_srun_they_meet_in_the_folder(self):
        report = self.expect_two(self.run_muster("srun", "-N2", "--ntasks-per-node=1", MUSTER,
                                                 "doctor", "--hosts", "--format", "json"))
        self.assertEqual([host["rank"] for host in report["hosts"]], [0, 1])
        self.assertEqual(list(self.root.glob("muster-hosts*")), [])

    def test_in_an_allocation_it_starts_its_own_step(self):
        """Through srun's own input and output."""
        self.expect_two(self.run_muster("salloc", "-N2", "--quiet", MUSTER, "doctor", "--hosts",
                                        "--format", "json"))


SPANK = os.path.join(os.path.dirname(MUSTER), "..", "slurm", "spank_muster.so")
PROLOG = pathlib.Path(__file__).parents[3] / "config" / "slurm" / "muster-taskprolog.sh"


class Spank(Cluster):
    """The option of srun, in slurmstepd's own process."""

    def more(self):
        return f"PlugStackConfig={self.stack}\n"

    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.stack = folder / "plugstack.conf"
        self.stack.write_text(f"optional {os.path.realpath(SPANK)} script={PROLOG} command={MUSTER}\n")
        super().setUp()

    def variables(self, *options):
        done = subprocess.run(["srun", "-N2", *options, "sh", "-c",
                               "env | grep -E '^(NCCL_PROFILER_PLUGIN|MUSTER_TIMING|LD_LIBRARY_PATH)=' || true"],
                              env=self.env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines(), done.stderr

    def test_tasks_get_what_the_option_says(self):
        lines, _ = self.variables()
        self.assertFalse([line for line in lines if "muster" in line.lower()], lines)
        lines, _ = self.variables("--muster")
        plugin = [line for line in lines if line.startswith("NCCL_PROFILER_PLUGIN=")]
        self.assertEqual(len(plugin), 2, lines)
        self.assertTrue(all(line.endswith("libnccl-profiler-muster.so") for line in plugin))
        lines, _ = self.variables("--muster=--timing light")
        self.assertEqual(lines.count("MUSTER_TIMING=light"), 2, lines)

    def test_what_goes_wrong_is_said_and_the_task_runs(self):
        self.stack.write_text(f"optional {os.path.realpath(SPANK)} script=/nowhere/prolog.sh\n")
        lines, err = self.variables("--muster")
        self.assertFalse([line for line in lines if "muster" in line.lower()])
        self.assertIn("muster: not recorded: /nowhere/prolog.sh: No such file", err)


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase({"ssh": Ssh, "srun": Slurm, "spank": Spank}[LAUNCHER])


if __name__ == "__main__":
    WHY_NOT = reason_not_to_run()
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main()
