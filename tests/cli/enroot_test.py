"""enroot's hook, in the place of enroot: its files of mounts and of the environment, its variables.

usage: enroot_test.py MUSTER STEERED HOOK [unittest options]; STEERED: tests/host/steered.c
"""

import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from clean import CleanCase  # noqa: E402

MUSTER = STEERED = HOOK = None


class Enroot(CleanCase):
    def setUp(self):
        super().setUp()
        self.environ, self.mounts = self.path("environment"), self.path("fstab")
        for name in (self.environ, self.mounts):
            with open(name, "w", encoding="ascii"):
                pass

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def image(self, text):
        """What the container's environment is before hooks."""
        with open(self.environ, "w", encoding="ascii") as file:
            file.write(text)

    def start(self, **variables):
        """The hook, as enroot starts it; (variables of the container, mounts, what was said)."""
        variables.setdefault("WITH_MUSTER_COMMAND", MUSTER)
        done = subprocess.run(["bash", HOOK], cwd=self.folder.name, text=True, capture_output=True, timeout=60,
                              env=self.env(ENROOT_ENVIRON=self.environ, ENROOT_MOUNTS=self.mounts, **variables),
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)  # else no container starts
        self.assertEqual(done.stdout, "")
        with open(self.environ, encoding="ascii") as file:
            inside = dict(line.rstrip("\n").split("=", 1) for line in file)
        with open(self.mounts, encoding="ascii") as file:
            mounts = [line.split() for line in file]
        return inside, mounts, done.stderr

    def test_who_does_not_ask_gets_nothing(self):
        for variables in ({}, {"WITH_MUSTER": ""}, {"WITH_MUSTER": "0"}):
            self.assertEqual(self.start(**variables), ({}, [], ""))

    def test_the_library_is_mounted_and_found_by_name_before_what_the_image_looks_through(self):
        self.image("A=1\nLD_LIBRARY_PATH=/old\nLD_LIBRARY_PATH=/usr/local/cuda/lib64\n")
        inside, mounts, said = self.start(WITH_MUSTER="1")
        self.assertEqual(said, "")
        folder, _, rest = inside["LD_LIBRARY_PATH"].partition(":")
        self.assertEqual(rest, "/usr/local/cuda/lib64")
        self.assertEqual(inside["NCCL_PROFILER_PLUGIN"], "libnccl-profiler-muster.so")
        self.assertEqual(os.listdir(folder).count("libnccl-profiler-muster.so"), 1)
        self.assertEqual(mounts, [[folder, folder, "none", "x-create=auto,bind,ro,nosuid,nodev"]])

    def test_the_image_may_ask_and_another_profiler_stays(self):
        self.image("NCCL_PROFILER_PLUGIN=/opt/other.so\nWITH_MUSTER=--timing light\n")
        inside, _, _ = self.start(NCCL_PROFILER_PLUGIN="/host/only.so")
        self.assertEqual(inside["MUSTER_TIMING"], "light")
        self.assertEqual(inside["MUSTER_CHAIN"], "/opt/other.so")
        self.assertEqual(inside["NCCL_PROFILER_PLUGIN"], "libnccl-profiler-muster.so")

    def test_what_goes_wrong_is_one_line_and_changes_nothing(self):
        policy = self.path("policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write("muster: 1\npolicy:\n- name: tree\n  match: {collective: all_reduce}\n  prefer: {algo: tree}\n")
        for variables, why in (({"WITH_MUSTER": "1", "WITH_MUSTER_COMMAND": "/nowhere/muster"}, "failed on"),
                               ({"WITH_MUSTER": "--timing sundial"}, "failed on"),
                               ({"WITH_MUSTER": f"-q --policy {policy}"}, "use `muster run` inside")):
            inside, mounts, said = self.start(**variables)
            self.assertEqual((inside, mounts), ({}, []))
            self.assertIn("muster: not recorded in this container: ", said.splitlines()[-1])
            self.assertIn(why, said)

    def test_a_job_with_these_variables_is_recorded_where_dir_says(self):
        run = self.path("runs/42")
        inside, mounts, _ = self.start(WITH_MUSTER=f"--timing full --dir {run}")
        self.assertIn([run, run, "none", "x-create=auto,bind,rw,nosuid,nodev"], mounts)
        self.assertTrue(os.path.isdir(run))  # what is not there cannot be mounted
        subprocess.run([STEERED, "2", "3"], env=self.env(**inside), check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        report = subprocess.run([MUSTER, "report", run, "--format", "json"], env=self.env(), check=True,
                                stdout=subprocess.PIPE, timeout=60).stdout
        self.assertEqual(len(json.loads(report)["ranks"]), 2)


if __name__ == "__main__":
    MUSTER, STEERED, HOOK = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
