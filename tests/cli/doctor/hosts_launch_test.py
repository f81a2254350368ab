"""muster doctor --hosts by the launchers that people use, started here for real on loopback: sshd, Slurm.
Usage: hosts_launch_test.py MUSTER ssh|srun"""

import getpass
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from started import PATH, SLURM, Cluster, Started, answers, free_port, reason_not_to_start, wait_for  # noqa: E402

MUSTER, LAUNCHER = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)


class Doctored:
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


class Ssh(Doctored, Started):
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


class Slurm(Doctored, Cluster):
    def test_started_by_srun_they_meet_in_the_folder(self):
        report = self.expect_two(self.run_muster("srun", "-N2", "--ntasks-per-node=1", MUSTER,
                                                 "doctor", "--hosts", "--format", "json"))
        self.assertEqual([host["rank"] for host in report["hosts"]], [0, 1])
        self.assertEqual(list(self.root.glob("muster-hosts*")), [])

    def test_in_an_allocation_it_starts_its_own_step(self):
        """Through srun's own input and output."""
        self.expect_two(self.run_muster("salloc", "-N2", "--quiet", MUSTER, "doctor", "--hosts",
                                        "--format", "json"))


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase({"ssh": Ssh, "srun": Slurm}[LAUNCHER])


if __name__ == "__main__":
    WHY_NOT = reason_not_to_start(("sshd", "ssh", "ssh-keygen") if LAUNCHER == "ssh" else SLURM)
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main()
