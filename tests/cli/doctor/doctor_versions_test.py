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


if __name__ == "__main__":
    unittest.main()
