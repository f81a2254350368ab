"""muster topo on hosts that are made up of files."""

import json
import os
import unittest

from doctor_case import Case, FAKES


class Topo(Case):
    def device(self, chain, code, **files):
        folder = f"sys/devices/{chain}"
        name = chain.rsplit("/", 1)[1]
        for file, text in {"class": code, "vendor": "0x10de", "device": "0x2330", "numa_node": "0",
                           "current_link_width": "16", "max_link_width": "16",
                           "current_link_speed": "32.0 GT/s PCIe",
                           "max_link_speed": "32.0 GT/s PCIe", **files}.items():
            self.put(f"{folder}/{file}", text + "\n")
        link = self.root / "sys/bus/pci/devices" / name
        link.symlink_to(f"../../../devices/{chain}")

    def test_a_narrow_link_is_degraded(self):
        for bus, width in (("10", "16"), ("20", "8")):
            port = f"pci0000:{bus}/0000:{bus}:01.0"
            self.device(port, "0x060400", vendor="0x8086")
            self.device(f"{port}/00{bus}:11:00.0", "0x030200", current_link_width=width)
        done = self.muster("topo", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        topo = json.loads(done.stdout)
        self.assertEqual([gpu["id"] for gpu in topo["gpus"]], [0, 1])
        self.assertEqual([d["kind"] for d in topo["degraded"]], ["width"])
        pair = topo["pairs"][0]
        self.assertEqual((pair["a"], pair["b"], pair["class"]), (0, 1, "NODE"))
        self.assertEqual(pair["narrowest"]["width"], 8)
        self.assertIn("runs gen5 x8, both ends can gen5 x16", pair["degraded"][0])
        text = self.muster("topo").stdout
        self.assertIn("degraded: PCIe link", text)
        self.assertIn("gen5 x8 of gen5 x16", text)

    def test_a_flat_tree_is_called_hidden(self):
        for slot in ("06", "07"):
            self.device(f"pci0000:00/0000:00:{slot}.0", "0x030200", numa_node="-1")
        topo = json.loads(self.muster("topo", "--format", "json").stdout)
        self.assertTrue(topo["pci_hidden"])
        self.assertTrue(topo["virtual"])
        self.assertIsNone(topo["pairs"][0]["class"])
        self.assertIn("PCI tree hidden by the hypervisor", self.muster("topo").stdout)

    def test_gpus_that_cuda_hides_are_marked(self):
        self.put("nvml", "gpus 2\ngpu * utilization 0\n")
        env = {"FAKE_NVML": str(self.root / "nvml"), "LD_LIBRARY_PATH": FAKES}
        for visible, expected in (("1", [False, True]), ("GPU-00000000-0000-0000-0000-000000000001",
                                                         [True, False]),
                                  ("MIG-1", [None, None]), ("", [False, False])):
            topo = json.loads(self.muster("topo", "--format", "json", CUDA_VISIBLE_DEVICES=visible,
                                          **env).stdout)
            self.assertEqual([gpu["visible"] for gpu in topo["gpus"]], expected)
        text = self.muster("topo", CUDA_VISIBLE_DEVICES="1", **env).stdout
        self.assertEqual(text.count("hidden by CUDA_VISIBLE_DEVICES"), 1)

    def test_hostile_files(self):
        port, gpu = "pci0000:10/0000:10:01.0", "pci0000:10/0000:10:01.0/0000:11:00.0"
        self.device(port, "0x060400", vendor="0x8086", current_link_width="-5",
                    max_link_width="9" * 60, max_link_speed="1e999 GT/s", numa_node="x" * 9000)
        self.device(gpu, "0x030200", current_link_speed="nan", max_link_speed="-8.0 GT/s",
                    current_link_width="0x7fffffffffffffff", numa_node="63\0\1\2")
        for name in ("config", "resource"):  # a reader that waits for a writer would hang
            os.mkfifo(self.root / f"sys/devices/{port}/{name}")
        os.mkfifo(self.root / "proc/cmdline")
        (self.root / "proc/pressure/memory").mkdir(parents=True)
        for link in ("loop", "0000:99:00.0"):
            (self.root / "sys/bus/pci/devices" / link).symlink_to(link)
        (self.root / "sys/bus/pci/devices/none").symlink_to("../../../devices/pcizz:00/0000:zz:0.0")
        topo = json.loads(self.muster("topo", "--format", "json").stdout)
        self.assertEqual(len(topo["gpus"]), 1)
        self.assertIsNone(topo["gpus"][0]["pcie"]["width"])
        self.assertIsNone(topo["gpus"][0]["pcie"]["gbs"])
        self.assertEqual(topo["degraded"], [])
        for check in self.doctor().values():
            if check["id"] != "gpu.driver":  # a GPU, and no driver: that is one
                self.assertNotEqual(check["status"], "problem", check)

    def test_files_that_may_not_be_read(self):
        chain = "pci0000:10/0000:10:01.0/0000:11:00.0"
        self.device("pci0000:10/0000:10:01.0", "0x060400", vendor="0x8086")
        self.device(chain, "0x030200")
        for name in ("current_link_width", "max_link_speed", "numa_node"):
            path = self.root / f"sys/devices/{chain}/{name}"
            path.unlink()
            path.mkdir()  # root may read everything, but no folder as a file
        topo = json.loads(self.muster("topo", "--format", "json").stdout)
        self.assertEqual(topo["gpus"][0]["pcie"]["width"], 16)  # what the other end says
        self.assertEqual(topo["gpus"][0]["numa"], 0)
        self.assertEqual(topo["degraded"], [])

    def test_domains_above_16_bits(self):
        for bus in ("e0", "e8"):
            port = f"pci10000:{bus}/10000:{bus}:01.0"
            self.device(port, "0x060400", vendor="0x8086")
            self.device(f"{port}/10000:{bus[0]}{int(bus[1]) + 1}:00.0", "0x030200")
        topo = json.loads(self.muster("topo", "--format", "json").stdout)
        self.assertEqual([gpu["pci"] for gpu in topo["gpus"]], ["10000:e1:00.0", "10000:e9:00.0"])
        self.assertEqual(topo["pairs"][0]["class"], "NODE")

    def test_64_gpus_and_no_more(self):
        for i in range(70):
            port = f"pci0000:{i:02x}/0000:{i:02x}:01.0"
            self.device(port, "0x060400", vendor="0x8086")
            self.device(f"{port}/00{i + 0x80:02x}:01:00.0", "0x030200")
        topo = json.loads(self.muster("topo", "--format", "json").stdout)
        self.assertEqual((len(topo["gpus"]), len(topo["pairs"])), (64, 64 * 63))
        self.assertIn("more than 64 GPUs: the rest is left out", topo["notes"])
        self.assertIn("GPU63", self.muster("topo").stdout)

    def test_hwloc_that_cannot_be_loaded(self):
        self.put("lib/libhwloc.so.15", "not a library")
        env = {"MUSTER_SYSFS": "", "LD_LIBRARY_PATH": str(self.root / "lib")}
        done = self.muster("topo", "--format", "json", **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the PCI tree is from /sys", "".join(json.loads(done.stdout)["notes"]))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_loads_no_hwloc_that_others_can_change(self):
        lib = self.others_folder()
        for name in ("libhwloc.so.15", "libnvidia-ml.so.1"):
            (lib / name).write_text("not a library")
        env = {"MUSTER_SYSFS": "", "MUSTER_LOAD_ANY": "", "LD_LIBRARY_PATH": str(lib)}
        notes = json.loads(self.muster("topo", "--format", "json", **env).stdout)["notes"]
        self.assertIn(f"{lib}/libhwloc.so.15: not loaded by root, as others can change it; the PCI tree is "
                      "from /sys", notes)
        self.assertIn(f"{lib}/libnvidia-ml.so.1: not loaded by root, as others can change it", notes)

    def test_no_gpu_and_no_sysfs_are_said(self):
        self.assertIn("No GPU", self.muster("topo").stdout)
        done = self.muster("topo", MUSTER_SYSFS="/nowhere")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no PCI tree: /nowhere", done.stdout)

    def test_xml_that_is_none(self):
        self.put("x.xml", "<html>")
        for path, text in (("x.xml", "x.xml:1: found <html>"), ("none.xml", "No such file")):
            done = self.muster("topo", "--xml", str(self.root / path))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
