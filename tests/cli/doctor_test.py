"""muster doctor and muster topo on hosts that are made up of files.

usage: doctor_test.py MUSTER DOCTOR.md [unittest options]
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

MUSTER = None
DOCUMENT = None


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

    def muster(self, *args, **env):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("NCCL", "TORCH_", "CUDA_", "MASTER_", "MUSTER_"))}
        env = {**kept, "HOME": str(self.root), "MUSTER_SYSFS": str(self.root / "sys"),
               "MUSTER_PROCFS": str(self.root / "proc"), **env}
        return subprocess.run([MUSTER, *args], env=env, capture_output=True, text=True,
                              timeout=120, check=False)

    def doctor(self, *args, **env):
        done = self.muster("doctor", "--passive", "--format", "json", *args, **env)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        checks = {check["id"]: check for check in report["checks"]}
        self.assertEqual(len(checks), len(report["checks"]), "an id twice")
        problem = any(check["status"] == "problem" for check in report["checks"])
        self.assertEqual(done.returncode, int(problem))
        return checks


class Doctor(Case):
    def test_every_id_is_documented_and_the_other_way_round(self):
        told = set(re.findall(r"^\| ([a-z0-9]+\.[a-z0-9_]+) ", DOCUMENT.read_text(), re.M))
        self.assertEqual(set(self.doctor()), told)

    def test_a_good_host_has_no_problem(self):
        for check in self.doctor().values():
            self.assertNotEqual(check["status"], "problem", check)

    def test_network_swap_is_a_problem(self):
        self.put("proc/swaps", "Filename Type Size Used Priority\n/mnt/a/swap file 1000 10 -2\n")
        self.put("proc/mounts", "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/a nfs4 rw 0 0\n")
        check = self.doctor()["host.swap"]
        self.assertEqual((check["status"], check["class"]), ("problem", "F12"))
        self.assertIn("/mnt/a/swap is on the network", check["evidence"][0])

    def test_local_swap_is_none(self):
        self.put("proc/swaps", "Filename Type Size Used Priority\n/swap file 1000 10 -2\n")
        self.put("proc/mounts", "/dev/sda / ext4 rw 0 0\n")
        self.assertEqual(self.doctor()["host.swap"]["status"], "ok")

    def test_pressure_little_memory_and_few_ports(self):
        self.put("proc/pressure/memory", "full avg10=0 avg60=40.00 avg300=0 total=1\n")
        self.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 9000 kB\n")
        self.put("proc/sys/net/ipv4/ip_local_port_range", "50000 50010\n")
        checks = self.doctor()
        for name in ("host.pressure", "host.memory", "net.ports"):
            self.assertEqual(checks[name]["status"], "warning", name)

    def test_quota_and_memory_limit(self):
        self.put("sys/fs/cgroup/cpu.max", "50000 100000\n")
        self.put("sys/fs/cgroup/memory.max", "1000000\n")
        self.put("sys/fs/cgroup/memory.current", "999000\n")
        checks = self.doctor(LOCAL_WORLD_SIZE="2")
        self.assertEqual(checks["limit.cpu_quota"]["status"], "problem")
        self.assertIn("0.50 CPUs", checks["limit.cpu_quota"]["found"])
        self.assertEqual(checks["limit.memory"]["status"], "warning")

    def test_ports_of_infiniband(self):
        for device, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
            self.put(f"sys/class/infiniband/{device}/ports/1/state", state)
            self.put(f"sys/class/infiniband/{device}/ports/1/rate", "400 Gb/sec (4X NDR)")
        checks = self.doctor(NCCL_IB_DISABLE="1")
        self.assertEqual(checks["ib.ports"]["status"], "warning")
        self.assertEqual(checks["ib.ports"]["found"], "2 RDMA ports")
        self.assertEqual(checks["env.costly"]["status"], "problem")

    def test_master_that_does_not_resolve_and_a_port_in_use(self):
        self.assertEqual(self.doctor(MASTER_ADDR="no.such.host.invalid")["net.master"]["status"],
                         "problem")
        with socket.create_server(("127.0.0.1", 0)) as server:
            check = self.doctor(MASTER_ADDR="127.0.0.1",
                                MASTER_PORT=str(server.getsockname()[1]))["net.master"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("is in use", check["evidence"][0])
        check = self.doctor(MASTER_ADDR="127.0.0.1", SLURM_JOB_NUM_NODES="2")["net.master"]
        self.assertEqual(check["status"], "problem")

    def test_interface_that_is_not_there(self):
        check = self.doctor(NCCL_SOCKET_IFNAME="nosuch9")["net.interface"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("nosuch9", check["found"])

    def test_loopback_for_several_hosts(self):
        check = self.doctor(NCCL_SOCKET_IFNAME="=lo", SLURM_JOB_NUM_NODES="2")["net.interface"]
        self.assertEqual(check["status"], "problem")

    def test_conf_file_adds_to_the_environment(self):
        self.put(".nccl.conf", "NCCL_P2P_DISABLE=true\nNCCL_DEBUG=INFO\n")
        checks = self.doctor(NCCL_DEBUG="WARN")
        self.assertEqual(checks["env.number"]["status"], "problem")
        self.assertIn("without effect", checks["env.files"]["evidence"][1])
        self.assertIn("NCCL_DEBUG=WARN", checks["env.set"]["evidence"])

    def test_net_plugin_that_is_missing(self):
        self.assertEqual(self.doctor(NCCL_NET_PLUGIN="nosuch")["net.plugin"]["status"], "problem")

    def test_text_says_what_to_do(self):
        done = self.muster("doctor", "--passive", NCCL_TIMEOUT="3600")
        self.assertIn("NCCL_TIMEOUT=3600: neither NCCL nor PyTorch reads it", done.stdout)
        self.assertIn("do: ", done.stdout)

    def test_wrong_calls(self):
        for call in (["x"], ["compare", "a"], ["--active", "--passive"], ["compare", "/a", "/b"]):
            done = self.muster("doctor", *call)
            self.assertEqual((done.returncode, done.stdout), (2, ""), call)

    def test_compare(self):
        reports = []
        for name, env in (("a", {}), ("b", {"NCCL_ALGO": "ring"})):
            done = self.muster("doctor", "--passive", "--format", "json", NCCL_HOSTID=name, **env)
            self.put(name, done.stdout)
            reports.append(str(self.root / name))
        done = self.muster("doctor", "compare", *reports)
        self.assertEqual(done.returncode, 1)
        self.assertIn("should be equal: env.set", done.stdout)
        self.assertIn("NCCL_ALGO=ring", done.stdout)
        found = json.loads(self.muster("doctor", "compare", "--format", "json", *reports).stdout)
        self.assertIn("env.set", [difference["id"] for difference in found["differences"]])


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
        self.assertIsNone(topo["pairs"][0]["class"])
        self.assertIn("PCI tree hidden by the hypervisor", self.muster("topo").stdout)

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
    MUSTER = sys.argv.pop(1)
    DOCUMENT = pathlib.Path(sys.argv.pop(1))
    unittest.main()
