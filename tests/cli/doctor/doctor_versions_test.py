"""What muster doctor says of versions: of NCCL, and of CUDA against the driver's."""

import pathlib
import unittest

from doctor_case import FAKES, GpuCase


class Versions(GpuCase):
    def first_nccl(self, hidden):
        """The stand-in, without one of its functions."""
        fake = next(path for folder in FAKES.split(":") for path in sorted(pathlib.Path(folder).glob("libnccl.so*")))
        self.put("lib/libnccl.so.1")
        (self.root / "lib/libnccl.so.1").write_bytes(fake.read_bytes().replace(hidden, b"X" + hidden[1:]))
        return ("--passive", "--nccl", str(self.root / "lib/libnccl.so.1"))

    def test_the_first_nccl(self):
        check = self.doctor("--passive", FAKE_NCCL="1304")["version.nccl"]
        self.assertEqual((check["status"], check["found"]), ("problem", "NCCL 1.3.4"))
        self.assertIn("upgrade", check["advice"])
        check = self.doctor(*self.first_nccl(b"ncclGetVersion"))["version.nccl"]
        self.assertEqual((check["status"], check["found"]), ("problem", "NCCL 1"))
        check = self.doctor(*self.first_nccl(b"ncclCommInitRank"))["version.nccl"]
        self.assertEqual(check["status"], "unchecked")  # not an NCCL at all

    def test_versions_before_2_9(self):
        for said, version in (("2408", "2.4.8"), ("2804", "2.8.4"), ("20902", "2.9.2")):
            check = self.doctor("--passive", FAKE_NCCL=said)["version.nccl"]
            self.assertNotEqual(check["status"], "problem")
            self.assertEqual(check["found"], f"NCCL {version}")
        volta = "gpu * capability 7 0"
        check = self.doctor("--passive", FAKE_NCCL="2402", nvml=volta)["version.nccl_bad"]
        self.assertIn("hangs at random with the LL protocol", check["found"])
        check = self.doctor("--passive", FAKE_NCCL="2408", nvml=volta)["version.nccl_bad"]
        self.assertNotIn("hangs at random", check["found"])

    def test_a_bug_explains_what_it_brings_about(self):
        a100 = "gpu * capability 8 0"
        slow = ("--passive", "--symptom", "slow_transfer")
        hang = ("--passive", "--symptom", "hang_stuck")
        several = {"SLURM_JOB_NUM_NODES": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
        check = self.doctor(*hang, FAKE_NCCL="20802", nvml=a100, **several)["version.nccl_bad"]
        self.assertIn("NCCL 2.8.2 ranks choose different protocols", check["found"])
        self.assertIn("version.nccl_bad", self.causes(*hang, FAKE_NCCL="20802", nvml=a100, **several))
        self.assertNotIn("version.nccl_bad", self.causes(*slow, FAKE_NCCL="20802", nvml=a100, **several))

    def test_a_network_interface_on_usb(self):
        nvml = "gpu * capability 8 6"
        below = "devices/pci0000:00/0000:00:14.0/usb1/1-11/1-11:2.0/net/enx0"
        self.put(f"sys/{below}/mtu", "1500\n")
        self.put("sys/class/net/.keep")
        (self.root / "sys/class/net/enx0").symlink_to(f"../../{below}")
        check = self.doctor("--passive", FAKE_NCCL="21904", nvml=nvml)["version.nccl_bad"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("on USB", check["found"])
        (self.root / "sys/class/net/enx0").unlink()
        check = self.doctor("--passive", FAKE_NCCL="21904", nvml=nvml)["version.nccl_bad"]
        self.assertNotIn("on USB", check["found"])

    def test_numa_nodes_without_memory(self):
        symptom = ("--passive", "--symptom", "init_error", "--only", "version.nccl_bad")
        for memory, found in ((0, True), (64000000, False)):
            self.put("sys/devices/system/node/node0/cpulist", "0-63\n")
            self.put("sys/devices/system/node/node0/meminfo", f"Node 0 MemTotal:  {memory} kB\n")
            check = self.doctor(*symptom, FAKE_NCCL="22809", nvml="gpu * capability 8 6")["version.nccl_bad"]
            self.assertEqual("NUMA nodes that have no CPUs or no memory" in check["found"], found, check)

    def built_for(self, cuda, *args, nvml):
        self.put("lib/libnccl.so.2")
        fake = next(path for folder in FAKES.split(":") for path in sorted(pathlib.Path(folder).glob("libnccl.so*")))
        built = fake.read_bytes().replace(b"NCCL version 2.", b"NCCX version 2.")
        (self.root / "lib/libnccl.so.2").write_bytes(built + f"\0NCCL version 2.28.9+cuda{cuda}\0".encode())
        given = ("--passive", "--nccl", str(self.root / "lib/libnccl.so.2"))
        return self.doctor(*given, *args, nvml=nvml)["version.cuda"]

    def test_a_driver_older_than_what_nccl_was_built_for(self):
        self.assertEqual(self.built_for("12.9", nvml="cuda 12080")["status"], "ok")
        check = self.built_for("12.9", nvml="cuda 11080\ndriver 520.61.05")
        self.assertEqual(check["status"], "problem", check)

    def test_minor_versions_of_cuda(self):
        check = self.built_for("9.1", nvml="cuda 9000\ndriver 384.111")
        self.assertEqual((check["status"], check["advice"]), ("problem", "a newer driver, or NCCL for CUDA 9.0"))
        self.assertEqual(self.built_for("9.0", nvml="cuda 9010\ndriver 390.30")["status"], "ok")
        symptom = ("--symptom", "init_error", "--only", "version.cuda")
        check = self.built_for("12.4", *symptom, nvml="cuda 12020\ndriver 535.104.05")
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "NCCL was built for CUDA 12.4, the driver gives 12.2"))
        self.assertEqual(self.built_for("12.2", *symptom, nvml="cuda 12040\ndriver 550.54.15")["status"], "ok")


if __name__ == "__main__":
    unittest.main()
