"""What tests of launchers share: servers that are started for a test and ended behind it, and a cluster of
Slurm on this machine."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
SLURM = ("slurmctld", "slurmd", "srun", "munged")


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


def reason_not_to_start(programs):
    for name in programs:
        if not shutil.which(name, path=PATH):
            return f"no {name}"
    return "needs root" if os.geteuid() else None


class Started(unittest.TestCase):
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


class Cluster(Started):
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

    def more(self):
        """Further lines of slurm.conf."""
        return ""

    def idle(self):
        done = subprocess.run(["sinfo", "-h", "-o", "%D %t"], env=self.env, capture_output=True,
                              text=True, check=False)
        return done.stdout.strip() == "2 idle"
