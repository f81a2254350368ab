"""muster doctor and muster topo on hosts that are made up of files.

usage: doctor_test.py MUSTER FOLDER:FOLDER DOCTOR.md [unittest options]

The folders hold a CUDA driver, an NCCL and an NVML that are none.
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

MUSTER = FAKES = None
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

    def test_errors_and_gids_of_roce(self):
        ports = "sys/class/infiniband/mlx5_0/ports/1"
        self.put(f"{ports}/state", "4: ACTIVE")
        self.put(f"{ports}/link_layer", "Ethernet")
        self.put(f"{ports}/hw_counters/packet_seq_err", "12")
        self.put(f"{ports}/gids/0", "fe80:0000:0000:0000:0a00:0000:0000:0001")
        self.put(f"{ports}/gid_attrs/types/0", "RoCE v2")
        self.put(f"{ports}/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000")
        checks = self.doctor()
        self.assertIn("mlx5_0 port 1: packet_seq_err 12 since it was reset",
                      checks["ib.ports"]["evidence"])
        self.assertEqual(checks["ib.gid"]["status"], "warning")
        self.put(f"{ports}/gids/3", "0000:0000:0000:0000:0000:ffff:0a01:0007")
        self.put(f"{ports}/gid_attrs/types/3", "RoCE v2")
        self.assertEqual(self.doctor()["ib.gid"]["status"], "ok")
        self.assertEqual(self.doctor(NCCL_IB_GID_INDEX="3")["ib.gid"]["status"], "ok")
        for index, word in (("0", "link-local"), ("1", "empty")):
            check = self.doctor(NCCL_IB_GID_INDEX=index)["ib.gid"]
            self.assertEqual(check["status"], "problem")
            self.assertIn(f"NCCL_IB_GID_INDEX={index} is {word}", check["evidence"][0])

    def test_xids_of_a_recorded_log(self):
        self.put("proc/kmsg", "[1.0] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off\n"
                 "[2.0] NVRM: Xid (PCI:0000:17:00): 45, pid=1, Ch 8\nother\n")
        check = self.doctor()["host.kernel_log"]
        self.assertEqual((check["status"], check["found"]), ("warning", "1 Xid events since boot"))
        self.assertIn("79", check["evidence"][0])
        self.put("proc/kmsg", "[1.0] quiet\n")
        self.assertEqual(self.doctor()["host.kernel_log"]["status"], "ok")

    def test_iommu_and_acs(self):
        self.put("sys/kernel/iommu_groups/0/type", "DMA-FQ\n")
        self.put("proc/cmdline", "quiet\n")
        self.assertEqual(self.doctor()["gpu.iommu"]["found"], "IOMMU in use")
        self.put("proc/cmdline", "quiet iommu=pt\n")
        self.assertEqual(self.doctor()["gpu.iommu"]["found"], "IOMMU, passed through")
        port, gpu = "pci0000:10/0000:10:01.0", "pci0000:10/0000:10:01.0/0000:11:00.0"
        for chain, code, vendor in ((port, "0x060400", "0x8086"), (gpu, "0x030200", "0x10de")):
            name = chain.rsplit("/", 1)[1]
            self.put(f"sys/devices/{chain}/class", code)
            self.put(f"sys/devices/{chain}/vendor", vendor)
            self.put(f"sys/devices/{chain}/current_link_width", "16")
            (self.root / "sys/bus/pci/devices" / name).symlink_to(f"../../../devices/{chain}")
        config = bytearray(4096)
        config[0x100:0x104] = (0x000d | 0x200 << 20).to_bytes(4, "little")
        for bits, status in ((0x0c, "warning"), (0x00, "ok")):
            config[0x106] = bits
            (self.root / f"sys/devices/{port}/config").write_bytes(config)
            self.assertEqual(self.doctor()["gpu.acs"]["status"], status)
        (self.root / f"sys/devices/{port}/config").write_bytes(b"\0" * 64)
        self.assertIn("only root", self.doctor()["gpu.acs"]["found"])

    def test_master_that_does_not_resolve_and_a_port_in_use(self):
        self.assertEqual(self.doctor(MASTER_ADDR="no.such.host.invalid")["net.master"]["status"],
                         "problem")
        with socket.create_server(("127.0.0.1", 0)) as server:
            check = self.doctor(MASTER_ADDR="127.0.0.1",
                                MASTER_PORT=str(server.getsockname()[1]))["net.master"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("is in use", check["evidence"][-1])
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


    def test_hosts_of_one_name_are_told_by_their_files(self):
        reports = []
        for name, env in (("a", {}), ("b", {"NCCL_ALGO": "ring"})):
            done = self.muster("doctor", "--passive", "--format", "json", NCCL_HOSTID=name, **env)
            self.put(name, done.stdout)
            reports.append(str(self.root / name))
        text = self.muster("doctor", "compare", *reports).stdout
        self.assertIn(f"({reports[0]}): ok, 0 variables", text)
        self.assertNotIn("NCCL_HOSTID", text)

    def test_only_some_checks(self):
        done = self.muster("doctor", "--all", "--only", "env.number,limit",
                           NCCL_P2P_DISABLE="true", NCCL_TIMEOUT="3600")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NCCL_P2P_DISABLE=true", done.stdout)
        self.assertIn("limit.stack", done.stdout)
        self.assertNotIn("NCCL_TIMEOUT", done.stdout)
        for wrong in ("nosuch", "env.", "env,", ""):
            done = self.muster("doctor", "--only", wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)


class Recorded(Case):
    """Interfaces of a host that is recorded below MUSTER_PROCFS."""

    def interface(self, name, address, mask, mtu="1500", state="up"):
        index = len(list((self.root / "sys/class/net").glob("*"))) + 1
        self.put(f"sys/class/net/{name}/mtu", mtu)
        self.put(f"sys/class/net/{name}/operstate", state)
        little = "".join(f"{int(part):02X}" for part in reversed(mask.split(".")))
        net = [int(a) & int(b) for a, b in zip(address.split("."), mask.split("."))]
        to = "".join(f"{part:02X}" for part in reversed(net))
        with (self.root / "proc/net/route").open("a") as route:
            route.write(f"{name}\t{to}\t00000000\t0001\t0\t0\t{index}\t{little}\t0\t0\t0\n")
        with (self.root / "proc/net/fib_trie").open("a") as trie:
            trie.write(f"           |-- {address}\n              /32 host LOCAL\n")
        with (self.root / "proc/net/dev").open("a") as dev:
            dev.write(f"{name:>8}: 1 2 3\n")

    def setUp(self):
        super().setUp()
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n"
                 "              /32 host LOCAL\n")

    def test_the_first_that_is_not_left_out(self):
        self.interface("docker0", "172.17.0.1", "255.255.0.0")
        self.interface("br-4f1a", "172.18.0.1", "255.255.0.0")
        self.interface("enp1s0", "10.1.0.7", "255.255.255.0", mtu="9000")
        (self.root / "sys/devices/virtual/net/br-4f1a").mkdir(parents=True)
        checks = self.doctor(SLURM_JOB_NUM_NODES="2")
        self.assertEqual(checks["net.interface"]["status"], "problem")
        self.assertIn("br-4f1a", checks["net.interface"]["found"])
        checks = self.doctor(NCCL_SOCKET_IFNAME="enp1s0", SLURM_JOB_NUM_NODES="2")
        self.assertEqual(checks["net.interface"]["status"], "ok")
        self.assertEqual(checks["net.interface"]["evidence"], ["bootstrap: enp1s0 10.1.0.7/24"])
        self.assertEqual(checks["net.mtu"]["found"], "MTU 9000")
        check = self.doctor(NCCL_SOCKET_IFNAME="eth0")["net.interface"]
        self.assertIn("this host has enp1s0 10.1.0.7/24", check["evidence"])

    def test_what_is_down_is_left_out_and_a_subnet_is_shared(self):
        self.interface("eth0", "10.1.0.7", "255.255.255.0", state="down")
        self.interface("eth1", "10.1.0.8", "255.255.255.0")
        checks = self.doctor()
        self.assertIn("eth1", checks["net.interface"]["found"])
        self.put("sys/class/net/eth0/operstate", "up")
        self.assertEqual(self.doctor()["net.subnet"]["status"], "warning")

    def test_ipv6(self):
        self.put("proc/net/if_inet6", "fe800000000000000000000000000001 02 40 20 80     eth0\n"
                 "fd000000000000000000000000000001 02 40 00 80     eth0\n")
        self.put("sys/class/net/eth0/operstate", "up")
        check = self.doctor(NCCL_SOCKET_IFNAME="eth", NCCL_SOCKET_FAMILY="AF_INET6")["net.interface"]
        self.assertIn("bootstrap: eth0 fe80::1/64", check["evidence"])

    def test_files_that_make_no_sense(self):
        self.put("proc/net/route", "a b c d\n" * 1000 + "x" * 5000)
        self.put("proc/net/fib_trie", "|-- \n/32 host LOCAL\n|-- 999.1.1.1\n/32 host LOCAL\n" * 50)
        self.put("proc/net/if_inet6", "zz\n" + "f" * 32 + " 1 fff 1 1 eth0\n")
        self.assertEqual(self.doctor()["net.interface"]["status"], "problem")


class Gpus(Case):
    """A driver and an NVML that are none, found through LD_LIBRARY_PATH."""

    def doctor(self, *args, nvml="", gpus=3, **env):
        self.put("nvml", f"gpus {gpus}\ngpu * utilization 0\n{nvml}\n")
        env = {"FAKE_NVML": str(self.root / "nvml"), "FAKE_GPUS": str(gpus), "FAKE_MS": "2.77",
               "LD_LIBRARY_PATH": FAKES, **env}
        done = self.muster("doctor", *args, "--format", "json", **env)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return {check["id"]: check for check in json.loads(done.stdout)["checks"]}

    def test_good_gpus(self):
        checks = self.doctor("--only", "gpu,p2p,allreduce", gpus=2)
        for name in ("kernel", "copy"):
            self.assertEqual((checks[f"p2p.{name}"]["status"], checks[f"p2p.{name}"]["found"]),
                             ("ok", "2 of 2 pairs right"))
        self.assertEqual(checks["p2p.bandwidth"]["evidence"][0],
                         "387.6 to 387.6 GB/s, at least 81 % of what the path allows")
        for name in ("small", "large"):
            self.assertEqual(checks[f"allreduce.{name}"]["found"], "right on 2 GPUs")

    def test_one_gpu_has_no_bandwidth_between_gpus(self):
        checks = self.doctor("--only", "p2p,allreduce", gpus=1)
        self.assertEqual(checks["p2p.kernel"]["found"], "1 GPU: no pairs")
        self.assertEqual(checks["allreduce.large"]["found"], "right on 1 GPU")
        self.assertNotIn("bandwidth", checks["allreduce.large"]["evidence"][0])

    def test_slow_links(self):
        check = self.doctor("--only", "p2p", gpus=2, FAKE_MS="10")["p2p.bandwidth"]
        self.assertEqual((check["status"], check["found"]), ("warning", "2 pairs are slow"))
        self.assertIn(": slow", check["evidence"][1])

    def test_a_mirror_the_owner_never_sees(self):
        checks = self.doctor("--only", "p2p", gpus=2, FAKE_PAIR="0-1", FAKE_P2P="mirror")
        self.assertEqual((checks["p2p.kernel"]["status"], checks["p2p.kernel"]["found"]),
                         ("problem", "1 of 2 pairs right, wrong data"))
        self.assertIn("GPU 0 to 1: the owner reads 16777", checks["p2p.kernel"]["evidence"][0])
        self.assertEqual(checks["p2p.copy"]["status"], "ok")

    def test_a_copy_that_never_returns(self):
        checks = self.doctor("--only", "p2p", gpus=2, FAKE_PAIR="1-0", FAKE_P2P="hang-copy")
        self.assertEqual(checks["p2p.kernel"]["status"], "ok")
        self.assertEqual((checks["p2p.copy"]["status"], checks["p2p.copy"]["evidence"]),
                         ("problem", ["GPU 1 to 0: hung or crashed"]))

    def test_no_peer_access(self):
        checks = self.doctor("--only", "p2p", gpus=2, FAKE_P2P="no-access")
        self.assertEqual((checks["p2p.kernel"]["status"], checks["p2p.kernel"]["found"]),
                         ("unchecked", "the driver grants no peer access between these GPUs"))
        self.assertEqual(checks["p2p.copy"]["found"], "2 of 2 pairs right")

    def test_wrong_sums(self):
        checks = self.doctor("--only", "allreduce", gpus=2, FAKE_LARGE="wrong")
        self.assertEqual(checks["allreduce.small"]["status"], "ok")
        self.assertEqual(checks["allreduce.large"]["status"], "problem")
        self.assertIn("wrong result", checks["allreduce.large"]["found"])
        checks = self.doctor("--only", "allreduce", gpus=2, FAKE_FAULT="wrong", FAKE_RANK="1")
        self.assertEqual(checks["allreduce.small"]["status"], "problem")
        self.assertEqual(checks["allreduce.large"]["found"], "the small one fails already")

    def test_cuda_that_does_not_start(self):
        checks = self.doctor("--only", "p2p", FAKE_INIT="802")
        self.assertEqual(checks["p2p.kernel"]["status"], "problem")
        self.assertIn("CUDA error 802", checks["p2p.kernel"]["found"])
        self.assertEqual(checks["p2p.copy"]["status"], "unchecked")

    def test_gpus_in_use_are_left_alone(self):
        for use in ("processes 77:1000", "utilization 50", "memory 1000 500"):
            checks = self.doctor("--only", "p2p,gpu.in_use", nvml=f"gpu 1 {use}")
            self.assertEqual(checks["gpu.in_use"]["status"], "warning", use)
            self.assertEqual(checks["p2p.copy"]["found"],
                             "the GPUs are in use; --active tests them all the same")

    def test_faults_of_gpus(self):
        for id_, status, nvml in (
                ("gpu.fabric", "problem", "gpu 1 fabric 2 0"),
                ("gpu.nvlink", "problem", "gpu 1 links 12"),
                ("gpu.nvlink", "warning", "gpu 1 link 3 errors 1 7"),
                ("gpu.pcie", "warning", "gpu 1 width 8"),
                ("gpu.clocks", "warning", "gpu 1 limits 0x40"),
                ("gpu.ecc", "problem", "gpu 1 ecc_uncorrected 2"),
                ("gpu.ecc", "problem", "gpu 1 remap_pending 1"),
                ("gpu.mig", "warning", "gpu 1 mig 1"),
                ("gpu.virtual", "warning", "gpu 1 virtualization 2"),
                ("gpu.p2p_status", "warning", "p2p 0 1 4"),
                ("gpu.present", "problem", "fail nvmlDeviceGetHandleByIndex_v2 15"),
                ("version.driver", "problem", "driver 545.23.08\ngpu * name NVIDIA GeForce RTX 3090\n"
                 "gpu * links 0")):
            check = self.doctor("--passive", nvml=nvml)[id_]
            self.assertEqual(check["status"], status, f"{nvml}: {check}")
            self.assertTrue(check["advice"] or id_ == "gpu.pcie", check)

    def test_nvml_that_fails_or_never_returns(self):
        checks = self.doctor("--passive", nvml="fail nvmlInit_v2 9")
        self.assertEqual(checks["gpu.ecc"]["status"], "unchecked")
        checks = self.doctor("--passive", nvml="hang nvmlDeviceGetNvLinkState")
        self.assertEqual(checks["gpu.ecc"]["status"], "unchecked")
        self.assertIn("no answer", checks["gpu.ecc"]["found"])

    def test_64_gpus_in_wide_domains(self):
        nvml = "\n".join(f"gpu {i} pci {0x10000 + i:08x}:01:00.0" for i in range(64))
        checks = self.doctor("--passive", nvml=nvml, gpus=64)
        self.assertEqual(checks["gpu.present"]["found"], "64 x NVIDIA H200")
        self.assertEqual(checks["gpu.nvlink"]["status"], "ok")

    def test_what_cuda_shows(self):
        check = self.doctor("--passive", CUDA_VISIBLE_DEVICES="2")["gpu.present"]
        self.assertEqual(check["status"], "ok")
        self.assertIn("CUDA shows 1 of them", check["evidence"][0])
        check = self.doctor("--passive", CUDA_VISIBLE_DEVICES="0,9,1")["gpu.present"]
        self.assertEqual(check["status"], "warning")
        self.assertIn('"9" is no GPU of this host', check["evidence"][1])
        check = self.doctor("--passive", CUDA_VISIBLE_DEVICES="9")["gpu.present"]
        self.assertEqual(check["status"], "problem")
        mixed = self.doctor("--passive", nvml="gpu 1 name other", CUDA_VISIBLE_DEVICES="0")
        self.assertEqual(mixed["gpu.present"]["evidence"], [])


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
    MUSTER, FAKES = sys.argv.pop(1), sys.argv.pop(1)
    DOCUMENT = pathlib.Path(sys.argv.pop(1))
    unittest.main()
