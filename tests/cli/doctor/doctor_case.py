"""A host that is made up of files, for the tests of muster doctor and muster topo.

usage of each test: TEST.py MUSTER FOLDER:FOLDER DOCTOR.md [unittest options]

The folders hold a CUDA driver, an NCCL and an NVML that are none.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from outcomes import watched

MUSTER, FAKES = sys.argv.pop(1), sys.argv.pop(1)
DOCUMENT = pathlib.Path(sys.argv.pop(1))

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            {}                 1048576              files
Max locked memory         {}                unlimited            bytes
"""
TWO_HOSTS = {"SLURM_JOB_NUM_NODES": "2"}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.put("sys/bus/pci/devices/.keep")
        self.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
        self.put("proc/swaps", "Filename Type Size Used Priority\n")
        self.put("proc/sys/net/ipv4/ip_local_port_range", "32768 60999\n")

    def put(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def others_folder(self):
        """Where a user keeps libraries that root may find."""
        folder = self.root / "others"
        folder.mkdir()
        os.chown(folder, 12345, 12345)
        return folder

    def muster(self, *args, **env):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("NCCL", "TORCH_", "CUDA_", "MASTER_", "MUSTER_", "SLURM_", "OMP_", "GOMP_", "OMPI_", "GLOO_", "TP_",
                                    "LOCAL_WORLD", "LOCAL_RANK", "WORLD_SIZE", "KUBERNETES_", "APPTAINER_", "SINGULARITY_"))
                and not k.lower().endswith("_proxy")}
        env = {**kept, "HOME": str(self.root), "MUSTER_LOAD_ANY": "1", "MUSTER_SYSFS": str(self.root / "sys"),
               "MUSTER_PROCFS": str(self.root / "proc"), "MUSTER_ROOT": str(self.root), **env}
        return subprocess.run([MUSTER, *args], env=env, capture_output=True, text=True,
                              timeout=120, check=False)

    def doctor(self, *args, **env):
        done = self.muster("doctor", "--passive", "--format", "json", *args, **env)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        problem = any(check["status"] == "problem" for check in report["checks"])
        self.assertEqual(done.returncode, int(problem))
        checks = {check["id"]: check for check in watched(report)["checks"]}
        self.assertEqual(len(checks), len(report["checks"]), "an id twice")
        return checks

    def expect(self, id_, status, **env):
        check = self.doctor(**env)[id_]
        self.assertEqual(check["status"], status, check)
        return check


class GpuCase(Case):
    """With a driver and an NVML that are none, found through LD_LIBRARY_PATH."""

    def report(self, *args, nvml="", gpus=3, **env):
        self.put("nvml", f"gpus {gpus}\ngpu * utilization 0\n{nvml}\n")
        env = {"FAKE_NVML": str(self.root / "nvml"), "FAKE_GPUS": str(gpus), "FAKE_MS": "2.77",
               "LD_LIBRARY_PATH": FAKES, **env}
        done = self.muster("doctor", *args, "--format", "json", **env)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return watched(json.loads(done.stdout))

    def doctor(self, *args, **given):
        return {check["id"]: check for check in self.report(*args, **given)["checks"]}

    def causes(self, *args, **given):
        return [cause["id"] for cause in self.report(*args, **given)["causes"]]
