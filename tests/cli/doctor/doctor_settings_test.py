"""Checks of muster doctor that look at settings, launchers and logs: a host on which each fires, and one on
which it does not."""

import shutil
import unittest

from doctor_case import FAKES, Case, GpuCase

TWO_HOSTS = {"SLURM_JOB_NUM_NODES": "2"}
PCI = (("vendor", "0x10de"), ("numa_node", "0"), ("current_link_width", "16"), ("max_link_width", "16"))


class Settings(Case):
    def suspect(self, id_, symptom, **env):
        """What the check says where nothing else explains the symptom."""
        return self.doctor("--symptom", symptom, "--only", id_, **env)[id_]

    def expect_suspect(self, id_, symptom, found, **env):
        self.expect(id_, "ok", **env)
        check = self.suspect(id_, symptom, **env)
        self.assertEqual(check["status"], "warning", check)
        self.assertIn(found, check["found"])
        self.assertTrue(check["advice"])

    def test_numbers_of_ranks(self):
        sound = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_PORT": "29500"}
        self.expect("job.ranks", "ok")
        self.expect("job.ranks", "ok", **sound)
        for wrong in ({"RANK": "8"}, {"LOCAL_RANK": "4"}, {"LOCAL_WORLD_SIZE": "16"}, {"MASTER_PORT": "http"}):
            self.expect("job.ranks", "problem", **{**sound, **wrong})
        slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "WORLD_SIZE": "16"}
        self.expect_suspect("job.ranks", "hang_absent", "Slurm starts 2 tasks", **slurm)
        self.assertEqual(self.suspect("job.ranks", "hang_absent", TORCHELASTIC_RUN_ID="1", **slurm)["status"], "ok")
        self.expect_suspect("job.ranks", "init_error", "--gpus-per-task", SLURM_GPUS_PER_TASK="1",
                            SLURM_NTASKS_PER_NODE="4", SLURM_LOCALID="2")

    def test_a_variable_that_a_launcher_left(self):
        for left in ({"NODE_RANK": "0"}, {"LOCAL_RANK": "0"}):
            for symptom in ("init_error", "hang_absent"):
                self.expect_suspect("job.ranks", symptom, "ranks that nobody starts", **left)
            self.assertEqual(self.suspect("job.ranks", "slow_transfer", **left)["status"], "ok")
            for launched in ({"RANK": "0", "WORLD_SIZE": "1"}, {"SLURM_PROCID": "0"}, {"OMPI_COMM_WORLD_RANK": "0"}):
                self.assertEqual(self.suspect("job.ranks", "init_error", **left, **launched)["status"], "ok", launched)

    def two_interfaces(self, other):
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n  eth1: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n" + "".join(
            f"{name}\t0000{net}0A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n"
            for name, net in (("eth0", "01"), ("eth1", f"{other:02X}"))))
        self.put("proc/net/fib_trie", "Local:\n           |-- 10.1.0.7\n              /32 host LOCAL\n"
                 f"           |-- 10.{other}.0.8\n              /32 host LOCAL\n")

    def test_a_strict_reverse_path_filter(self):
        self.two_interfaces(1)
        self.put("proc/sys/net/ipv4/conf/all/rp_filter", "1\n")
        check = self.expect("net.kernel", "warning")
        self.assertIn("eth0 and eth1 share a subnet, rp_filter is 1", check["evidence"])
        self.put("proc/sys/net/ipv4/conf/all/rp_filter", "2\n")
        self.expect("net.kernel", "ok")
        self.put("proc/sys/net/ipv4/conf/all/rp_filter", "1\n")
        self.two_interfaces(2)
        self.expect("net.kernel", "ok")

    def test_connections_that_find_no_place(self):
        self.put("proc/sys/net/netfilter/nf_conntrack_max", "262144\n")
        self.put("proc/sys/net/netfilter/nf_conntrack_count", "1200\n")
        self.expect("net.kernel", "ok")
        self.put("proc/sys/net/netfilter/nf_conntrack_count", "262140\n")
        self.assertIn("nearly full", self.expect("net.kernel", "problem")["found"])
        self.put("proc/sys/net/netfilter/nf_conntrack_count", "12\n")
        self.put("proc/sys/net/ipv4/ip_local_reserved_ports", "30000-31000,32768-60500\n")
        self.assertIn("few ports are left", self.expect("net.kernel", "warning")["found"])
        self.put("proc/sys/net/ipv4/ip_local_reserved_ports", "30000-32767,60999\n")
        self.expect("net.kernel", "ok")
        self.put("proc/net/sockstat", "sockets: used 9\nTCP: inuse 5 orphan 0 tw 27500 alloc 9 mem 3\n")
        self.expect("net.kernel", "warning")
        self.put("proc/net/sockstat", "sockets: used 9\nTCP: inuse 5 orphan 0 tw 50 alloc 9 mem 3\n")
        self.put("proc/sys/net/core/somaxconn", "128\n")
        self.expect_suspect("net.kernel", "hang_stuck", "512 ranks connect to rank 0", WORLD_SIZE="512")
        self.assertEqual(self.suspect("net.kernel", "hang_stuck", WORLD_SIZE="64")["status"], "ok")

    def test_few_processes(self):
        ranks = {"LOCAL_WORLD_SIZE": "8"}
        limits = "Limit  Soft Limit  Hard Limit  Units\nMax processes             {}  {}  processes\n" \
                 "Max address space         {}  unlimited  bytes\n"
        self.put("proc/self/limits", limits.format("unlimited", "unlimited", "unlimited"))
        self.put("sys/fs/cgroup/pids.max", "max\n")
        self.expect("limit.processes", "ok", **ranks)
        self.put("sys/fs/cgroup/pids.max", "1500\n")
        self.put("sys/fs/cgroup/pids.current", "20\n")
        self.expect("limit.processes", "warning", **ranks)
        self.put("sys/fs/cgroup/pids.current", "1400\n")
        check = self.expect("limit.processes", "problem", **ranks)
        self.assertIn("--pids-limit", check["advice"])
        self.put("sys/fs/cgroup/pids.max", "30000\n")
        self.expect("limit.processes", "ok", **ranks)
        self.put("proc/self/limits", limits.format("400", "400", "unlimited"))
        self.expect("limit.processes", "problem", **ranks)
        self.put("proc/self/limits", limits.format("4096", "4096", str(64 << 30)))
        self.assertIn("CUDA does not start", self.expect("limit.processes", "problem", **ranks)["found"])
        self.put("proc/self/limits", limits.format("4096", "4096", "unlimited"))
        self.put("proc/sys/vm/overcommit_memory", "2\n")
        self.expect("limit.processes", "warning", **ranks)
        self.put("proc/sys/vm/overcommit_memory", "1\n")
        self.expect("limit.processes", "ok", **ranks)

    def test_stacks_without_a_limit(self):
        """glibc gives threads 2 MiB then; NCCL 2.28 and later say themselves what theirs get."""
        limits = "Limit  Soft Limit  Hard Limit  Units\nMax stack size            {}  unlimited  bytes\n"
        self.put("proc/self/limits", limits.format(8 << 20))
        self.expect("limit.stack", "ok", FAKE_NCCL="22703", LD_LIBRARY_PATH=FAKES)
        self.put("proc/self/limits", limits.format("unlimited"))
        check = self.expect("limit.stack", "warning", FAKE_NCCL="22703", LD_LIBRARY_PATH=FAKES)
        self.assertEqual(check["found"], "stack unlimited")
        self.assertIn("ulimit -s 8192", check["advice"])
        self.expect("limit.stack", "ok", FAKE_NCCL="22807", LD_LIBRARY_PATH=FAKES)

    def test_a_kernel_with_settings(self):
        self.put("proc/sys/kernel/osrelease", "5.15.0-100-generic\n")
        self.put("proc/cmdline", "quiet iommu=pt\n")
        self.put("proc/driver/nvidia/params", 'RegistryDwords: ""\nEnableGpuFirmware: 18\n')
        self.assertEqual(self.suspect("host.kernel", "hang_stuck")["status"], "ok")
        self.put("proc/sys/kernel/osrelease", "4.15.0-20-generic\n")
        self.expect_suspect("host.kernel", "hang_stuck", "Linux 4.15 is old")
        self.assertEqual(self.suspect("host.kernel", "init_error")["status"], "ok")
        self.put("proc/cmdline", "quiet pcie_acs_override=downstream,multifunction\n")
        self.expect_suspect("host.kernel", "hang_stuck", "pcie_acs_override")
        self.put("proc/driver/nvidia/params", 'RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1"\n')
        self.expect_suspect("host.kernel", "wrong_result", "ForceP2P=0x11")

    def test_a_host_that_is_tuned(self):
        cpu = "sys/devices/system/cpu/cpu0/cpufreq"
        self.put(f"{cpu}/scaling_governor", "powersave\n")
        self.put(f"{cpu}/scaling_driver", "intel_pstate\n")  # whose powersave is not slow
        self.put("proc/sys/kernel/numa_balancing", "0\n")
        self.assertEqual(self.suspect("host.tuning", "late_rank")["status"], "ok")
        self.put("proc/sys/kernel/numa_balancing", "1\n")
        self.expect_suspect("host.tuning", "late_rank", "numa_balancing")
        self.put("proc/sys/vm/zone_reclaim_mode", "1\n")
        self.expect_suspect("host.tuning", "slow_transfer", "zone_reclaim_mode")
        self.put(f"{cpu}/scaling_driver", "acpi-cpufreq\n")
        self.expect_suspect("host.tuning", "late_host", "governor powersave")

    def test_what_an_xid_means(self):
        head = "[1.0] NVRM: Xid (PCI:0000:19:00): "
        self.put("proc/kmsg", f"{head}45, pid=1\n")
        self.expect("host.kernel_log", "ok")
        self.put("proc/kmsg", f"{head}31, pid=1, MMU fault\n{head}79, pid=1, GPU has fallen off the bus\n{head}45, x\n")
        check = self.expect("host.kernel_log", "warning")
        self.assertEqual(check["found"], "a GPU fell off the bus (Xid 79), of 2 Xid events since boot")
        self.put("proc/kmsg", f"{head}31, pid=1, MMU fault\n")
        self.assertIn("the program's own fault", self.expect("host.kernel_log", "warning")["advice"])
        for number, found in ((109, "a GPU did not change from one program to another in time"), (143, "a GPU could not be started"),
                              (155, "an NVLink was switched off after errors"), (171, "memory of a GPU lost bits")):
            self.put("proc/kmsg", f"{head}{number}, pid=1\n")
            self.assertIn(found, self.expect("host.kernel_log", "warning")["found"])
        self.put("proc/kmsg", f"{head}999, pid=1\n")
        self.assertEqual(self.expect("host.kernel_log", "warning")["found"], "1 Xid events since boot")

    def test_faults_in_the_kernel_log(self):
        self.put("proc/kmsg", "eth0: link up\n")
        self.expect("host.faults", "ok")
        for line, found in (
                ("pcieport 0000:16:01.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer", "PCIe devices"),
                ("nf_conntrack: nf_conntrack: table full, dropping packet", "tracked connections"),
                ("mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable", "cable"),
                ("infiniband efa_0: Failed to process command REG_MR (opcode 7) comp_status 1 err -12", "refused a command"),
                ("INFO: task python:812 blocked for more than 122 seconds.", "stuck in the kernel"),
                ("NVRM: GPU 0000:19:00.0: RmInitAdapter failed! (0x24:0xffff:1436)", "could not start a GPU")):
            self.put("proc/kmsg", line + "\n")
            self.assertIn(found, self.expect("host.faults", "warning")["found"])

    def port(self, device, state="4: ACTIVE", layer="InfiniBand", rate="400 Gb/sec (4X NDR)"):
        for file, text in (("state", state), ("link_layer", layer), ("rate", rate), ("pkeys/0", "0xffff")):
            self.put(f"sys/class/infiniband/{device}/ports/1/{file}", text + "\n")

    def test_ports_that_nccl_takes(self):
        self.assertEqual(self.expect("ib.hca", "unchecked")["found"], "no RDMA device")
        self.assertIn("init fails", self.expect("ib.hca", "problem", NCCL_NET="IB")["found"])
        for name in ("mlx5_0", "mlx5_1", "mlx5_10"):
            self.port(name)
        self.assertEqual(self.suspect("ib.hca", "slow_transfer")["status"], "ok")
        for fine in ("mlx5", "=mlx5_1", "^mlx5_0", "mlx5_0:1,mlx5_10"):
            self.expect("ib.hca", "ok", NCCL_IB_HCA=fine)
        check = self.expect("ib.hca", "problem", NCCL_IB_HCA="ib0")
        self.assertEqual(check["found"], "NCCL_IB_HCA=ib0 names no device of this host: NCCL uses TCP")
        self.expect("ib.hca", "problem", NCCL_IB_HCA="=mlx5")
        self.expect("ib.hca", "problem", NCCL_IB_HCA="mlx5_0:2")
        self.assertIn("also takes mlx5_10", self.expect("ib.hca", "warning", NCCL_IB_HCA="mlx5_0,mlx5_1")["found"])
        self.expect_suspect("ib.hca", "slow_transfer", "1 of the 3 RDMA ports", NCCL_IB_HCA="=mlx5_0")
        self.port("mlx5_0", state="1: DOWN")
        self.assertIn("no port that is up", self.expect("ib.hca", "problem", NCCL_IB_HCA="=mlx5_0")["found"])
        self.expect("ib.hca", "ok", NCCL_IB_HCA="=mlx5_0", NCCL_IB_DISABLE="1")

    def test_ports_of_two_networks(self):
        self.port("mlx5_0")
        self.port("mlx5_1", rate="25 Gb/sec (1X EDR)")
        self.expect_suspect("ib.hca", "slow_transfer", "of 25 and of 400 Gb/s together")
        self.port("mlx5_1", layer="Ethernet")
        self.expect_suspect("ib.hca", "hang_stuck", "InfiniBand and RoCE ports together: 1 and 1")
        self.assertEqual(self.suspect("ib.hca", "hang_stuck", NCCL_IB_HCA="=mlx5_0")["found"],
                         "NCCL_IB_HCA takes 1 of the 2 RDMA ports that are up")
        self.expect("ib.hca", "ok", NCCL_IB_PKEY="0")
        self.assertIn("partition table is empty", self.expect("ib.hca", "problem", NCCL_IB_PKEY="3")["found"])

    def test_two_halves_of_a_card(self):
        """As a DGX Spark has them."""
        self.port("rocep1s0f0", layer="Ethernet")
        self.port("roceP2p1s0f1", layer="Ethernet")  # of the other socket for a cable
        self.assertEqual(self.suspect("ib.hca", "slow_transfer")["status"], "ok")
        self.port("roceP2p1s0f0", layer="Ethernet")
        self.expect_suspect("ib.hca", "slow_transfer", "rocep1s0f0 and roceP2p1s0f0 may be one socket")
        self.assertIn("NCCL_IB_HCA==rocep1s0f0,roceP2p1s0f0", self.suspect("ib.hca", "slow_transfer")["advice"])
        self.assertEqual(self.suspect("ib.hca", "slow_transfer", NCCL_IB_HCA="=rocep1s0f0,roceP2p1s0f0,roceP2p1s0f1")["status"],
                         "ok")
        self.assertEqual(self.suspect("ib.hca", "init_error")["status"], "ok")

    def test_devices_that_nccl_was_not_made_for(self):
        self.port("hfi1_0")
        self.expect_suspect("ib.hca", "init_error", "hfi1_0, Omni-Path")
        self.expect("ib.hca", "ok")
        self.assertEqual(self.suspect("ib.hca", "init_error", NCCL_IB_DISABLE="1")["status"], "ok")
        self.port("mlx5_0")
        self.assertEqual(self.suspect("ib.hca", "init_error", NCCL_IB_HCA="=mlx5_0")["found"],
                         "NCCL_IB_HCA takes 1 of the 2 RDMA ports that are up")

    def test_an_iwarp_card(self):
        self.port("irdma0")
        for kind, several, status in (("4: RNIC", TWO_HOSTS, "warning"), ("4: RNIC", {}, "ok"), ("1: CA", TWO_HOSTS, "ok")):
            self.put("sys/class/infiniband/irdma0/node_type", f"{kind}\n")
            self.assertEqual(self.expect("ib.hca", status, **several)["status"], status)
        self.put("sys/class/infiniband/irdma0/node_type", "4: RNIC\n")
        self.assertIn("an iWARP card", self.expect("ib.hca", "warning", **TWO_HOSTS)["found"])
        self.expect("ib.hca", "ok", NCCL_NET="Socket", **TWO_HOSTS)

    def test_other_devices_beside_efa(self):
        self.port("rdmap0s6")
        self.assertEqual(self.suspect("ib.hca", "slow_transfer")["status"], "ok")
        self.port("ibp115s0f0")
        self.expect_suspect("ib.hca", "slow_transfer", "ibp115s0f0, which is none of EFA's")

    def test_memory_that_is_kept_for_kexec_handover(self):
        self.port("mlx5_0")
        self.put("proc/self/limits", "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  unlimited  unlimited  bytes\n")
        memory = "MemTotal: 125000000 kB\nMemAvailable: 110000000 kB\nCmaTotal: 32768 kB\nCmaFree: {} kB\n"
        self.put("proc/meminfo", memory.format(9751757))
        self.expect("limit.memlock", "ok")
        self.expect_suspect("limit.memlock", "init_error", "9491 MiB for Kexec HandOver")
        self.put("proc/cmdline", "quiet kho=off\n")
        self.assertEqual(self.suspect("limit.memlock", "init_error")["status"], "ok")
        self.put("proc/cmdline", "quiet\n")
        self.put("proc/meminfo", memory.format(16384))
        self.assertEqual(self.suspect("limit.memlock", "init_error")["status"], "ok")

    def test_hosts_without_rdma(self):
        self.two_interfaces(2)
        self.put("sys/class/net/eth0/speed", "25000\n")
        several = {**TWO_HOSTS, "NCCL_SOCKET_IFNAME": "eth0"}
        self.expect("net.interface", "ok", **several)
        self.expect_suspect("net.interface", "slow_transfer", "by sockets over eth0 at 25 Gb/s: no RDMA", **several)
        self.assertEqual(self.suspect("net.interface", "slow_transfer")["status"], "ok")  # one host
        self.port("mlx5_0")
        self.assertEqual(self.suspect("net.interface", "slow_transfer", **several)["status"], "ok")
        self.expect_suspect("net.interface", "slow_transfer", "RDMA is switched off", NCCL_NET="Socket", **several)

    def test_a_slow_interface(self):
        self.two_interfaces(2)
        self.put("sys/class/net/eth0/speed", "1000\n")
        self.put("sys/class/net/eth1/speed", "25000\n")
        check = self.expect("net.interface", "warning", **TWO_HOSTS)
        self.assertEqual(check["found"], "NCCL's data goes over eth0 at 1000 Mb/s, and eth1 has 25000")
        self.expect("net.interface", "ok")
        self.expect("net.interface", "ok", NCCL_SOCKET_IFNAME="eth1", **TWO_HOSTS)
        self.port("mlx5_0")
        self.expect("net.interface", "ok", **TWO_HOSTS)
        self.expect("net.interface", "warning", NCCL_IB_DISABLE="1", **TWO_HOSTS)
        self.put("sys/class/net/eth1/speed", "-1\n")
        self.expect_suspect("net.interface", "slow_transfer", "eth0, which is slow", NCCL_NET="Socket", **TWO_HOSTS)

    def test_frames_larger_than_what_is_below(self):
        self.two_interfaces(2)
        self.put("sys/class/net/eth0/mtu", "1460\n")
        self.put("sys/class/net/eth1/mtu", "1500\n")
        (self.root / "sys/devices/virtual/net/eth1").mkdir(parents=True)
        self.expect_suspect("net.mtu", "hang_stuck", "eth1 has MTU 1500, and eth0, below it, 1460")
        self.put("sys/class/net/eth1/mtu", "1460\n")
        self.assertEqual(self.suspect("net.mtu", "hang_stuck")["status"], "ok")

    def test_files_of_settings(self):
        self.expect("env.files", "ok")
        self.expect("env.files", "warning", NCCL_TOPO_FILE="/nowhere/topo.xml")
        self.put("topo.xml", "<system/>")
        self.expect_suspect("env.files", "slow_transfer", "takes the place of what NCCL would see",
                            NCCL_TOPO_FILE=str(self.root / "topo.xml"))
        self.put("etc/nccl.conf", "NCCL_GRAPH_FILE=/opt/graph.xml\n")
        self.assertIn("NCCL_GRAPH_FILE", self.expect("env.unsafe", "warning")["found"])

    def test_variables_that_are_fine_for_most(self):
        self.assertEqual(self.suspect("env.unsafe", "hang_stuck", NCCL_P2P_LEVEL="PHB")["status"], "ok")
        self.expect_suspect("env.unsafe", "hang_stuck", "NCCL_P2P_LEVEL=SYS", NCCL_P2P_LEVEL="SYS")
        self.expect_suspect("env.unsafe", "hang_stuck", "grows in place",
                            PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64,expandable_segments:True")
        self.expect_suspect("env.unsafe", "init_error", "different rails", NCCL_CROSS_NIC="1")
        self.expect_suspect("env.unsafe", "hang_stuck", "each kernel is waited for", CUDA_LAUNCH_BLOCKING="1")
        self.expect_suspect("env.unsafe", "hang_stuck", "froze on some cards", NCCL_IB_USE_INLINE="1")
        self.expect_suspect("env.unsafe", "init_error", "kept off the fabric", FI_PROVIDER="tcp")
        self.assertEqual(self.suspect("env.unsafe", "init_error", FI_PROVIDER="efa")["status"], "ok")
        self.assertEqual(self.suspect("env.unsafe", "init_error", NCCL_CROSS_NIC="0")["status"], "ok")

    def test_variables_and_their_sound_twins(self):
        for id_, wrong, sound in (
                ("env.unread", {"NCCL_TIMEOUT": "3600"}, {"NCCL_DEBUG": "INFO"}),
                ("env.misspelt", {"NCCL_ALGOO": "Ring"}, {"NCCL_ALGO": "Ring"}),
                ("env.removed", {"NCCL_LL_THRESHOLD": "0"}, {"NCCL_PROTO": "^LL"}),
                ("env.legacy", {"NCCL_ASYNC_ERROR_HANDLING": "1"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}),
                ("env.number", {"NCCL_P2P_DISABLE": "true"}, {"NCCL_P2P_DISABLE": "0"}),
                ("env.value", {"NCCL_PROTO": "fast"}, {"NCCL_PROTO": "Simple"}),
                ("env.contradiction", {"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "NVL"}, {"NCCL_P2P_LEVEL": "NVL"})):
            check = self.doctor("--only", "env", **wrong)[id_]
            self.assertIn(check["status"], ("warning", "problem"), check)
            self.assertEqual(self.doctor("--only", "env", **sound)[id_]["status"], "ok", id_)
        check = self.doctor("--only", "env", NCCL_DEBUG="INFO")["env.set"]  # for `compare`
        self.assertEqual((check["status"], check["evidence"]), ("ok", ["NCCL_DEBUG=INFO"]))

    def test_a_library_between_the_job_and_cuda(self):
        (self.root / "lib").mkdir()
        self.put("lib/libnccl-net.so", "no library")
        path = {"LD_LIBRARY_PATH": str(self.root / "lib")}
        self.assertEqual(self.suspect("net.plugin", "hang_stuck", **path)["status"], "ok")
        self.put("lib/libnccl-net.so", "\x7fELF and more")
        self.expect_suspect("net.plugin", "hang_stuck", "lib/libnccl-net.so", **path)
        self.assertEqual(self.suspect("net.plugin", "init_error", **path)["status"], "ok")  # on one host
        path.update(TWO_HOSTS)
        self.expect_suspect("net.plugin", "init_error", "lib/libnccl-net.so", **path)
        self.put("proc/cmdline", "quiet pcie_acs_override=downstream\n")  # weighs more
        both = self.doctor("--symptom", "hang_stuck", "--only", "net.plugin,host.kernel", **path)
        self.assertEqual([both[id_]["status"] for id_ in ("host.kernel", "net.plugin")], ["warning", "ok"])
        self.put("proc/cmdline", "quiet\n")
        self.put("proc/sys/kernel/osrelease", "4.15.0-20-generic\n")  # weighs less
        both = self.doctor("--symptom", "hang_stuck", "--only", "net.plugin,host.kernel", **path)
        self.assertEqual([both[id_]["status"] for id_ in ("host.kernel", "net.plugin")], ["ok", "warning"])

    def test_a_library_that_the_network_needs(self):
        (self.root / "lib").mkdir()
        self.put("lib/libnccl-net.so", "\x7fELF and more")
        path = {"LD_LIBRARY_PATH": str(self.root / "lib"), **TWO_HOSTS}
        for device in ("sys/class/infiniband/rdmap0s6/ports/1/link_layer", "sys/class/cxi/cxi0/device/uevent"):
            self.put(device, "Unspecified\n")
            self.assertEqual(self.suspect("net.plugin", "slow_transfer", **path)["status"], "ok")
            shutil.rmtree(self.root / "sys/class")
        self.put("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
        self.expect_suspect("net.plugin", "slow_transfer", "lib/libnccl-net.so", **path)


class Gpus(GpuCase):
    def switch(self):
        chain = "pci0000:80/0000:80:00.0"
        for file, text in (("class", "0x068000"), *PCI):
            self.put(f"sys/devices/{chain}/{file}", text + "\n")
        (self.root / "sys/bus/pci/devices/0000:80:00.0").symlink_to(f"../../../devices/{chain}")

    def fabric(self, nvml="gpu * fabric 0 0\ndriver 535.104.05"):
        return self.doctor("--passive", nvml=nvml)["gpu.fabric"]

    def test_a_fabric_manager(self):
        self.assertEqual(self.fabric()["status"], "ok")
        self.switch()
        self.assertEqual(self.fabric()["found"], "no fabric manager runs, and this host has NVSwitches")
        self.put("proc/900/comm", "nv-fabricmanage\n")
        self.assertEqual(self.fabric()["status"], "ok")
        package = "Package: nvidia-fabricmanager-535\nStatus: install ok installed\nVersion: {}-1\n\n"
        self.put("var/lib/dpkg/status", package.format("535.104.05"))
        self.assertEqual(self.fabric()["status"], "ok")
        self.put("var/lib/dpkg/status", package.format("535.129.03"))
        self.assertEqual(self.fabric()["found"], "the fabric manager is of version 535.129.03, the driver of 535.104.05")
        self.put("var/lib/dpkg/status", package.format("535.129.03").replace("ok installed", "ok config-files"))
        self.assertEqual(self.fabric()["status"], "ok")

    def test_a_mode_that_keeps_processes_out(self):
        self.assertEqual(self.doctor("--passive")["gpu.mode"]["status"], "ok")
        self.assertEqual(self.doctor("--passive", nvml="gpu 1 compute_mode 2")["gpu.mode"]["status"], "problem")
        exclusive = self.doctor("--passive", "--only", "gpu.mode", "--symptom", "init_error",
                                nvml="gpu * compute_mode 3")["gpu.mode"]
        self.assertEqual(exclusive["status"], "warning")
        self.assertIn("one process alone", exclusive["found"])

    def test_clocks_that_somebody_set(self):
        symptom = ("--passive", "--only", "gpu.clocks", "--symptom", "late_rank")
        self.assertEqual(self.doctor(*symptom)["gpu.clocks"]["status"], "ok")
        self.assertEqual(self.doctor("--passive", nvml="gpu 1 limits 2")["gpu.clocks"]["status"], "ok")
        self.assertIn("GPU 1: clocks that somebody set", self.doctor(*symptom, nvml="gpu 1 limits 2")["gpu.clocks"]["found"])

    def test_a_bug_that_depends_on_the_program(self):
        symptom = ("--passive", "--only", "version.nccl_bad", "--symptom", "wrong_result")
        self.assertEqual(self.doctor(*symptom)["version.nccl_bad"]["status"], "ok")
        self.assertEqual(self.doctor("--passive", FAKE_NCCL="22803")["version.nccl_bad"]["status"], "ok")
        check = self.doctor(*symptom, FAKE_NCCL="22803")["version.nccl_bad"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("with some programs (notes of 2.28.7)", check["found"])

    def test_gpus_of_several_models(self):
        symptom = ("--passive", "--only", "gpu.present", "--symptom", "hang_stuck")
        self.assertEqual(self.doctor(*symptom)["gpu.present"]["status"], "ok")
        check = self.doctor(*symptom, nvml="gpu 2 name NVIDIA L40S")["gpu.present"]
        self.assertIn("GPUs of several models", check["found"])

    def test_a_container_without_a_file_that_cuda_needs(self):
        dev = {"MUSTER_DEVFS": str(self.root / "dev")}
        self.put(".dockerenv")
        self.put("dev/nvidia0")
        check = self.doctor("--passive", **dev)["gpu.driver"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("no /dev/nvidia-uvm", check["found"])
        self.put("dev/nvidia-uvm")
        self.assertEqual(self.doctor("--passive", **dev)["gpu.driver"]["status"], "ok")

    def test_an_nccl_before_the_frameworks(self):
        """In LD_LIBRARY_PATH; what is loaded is the fake's 2.28."""
        self.put("env/lib/python3/site-packages/nvidia/nccl/lib/libnccl.so.2", "NCCL version 2.30.7+cuda13.0\0")
        env = {"VIRTUAL_ENV": str(self.root / "env"), "CONDA_PREFIX": str(self.root / "env")}
        version = self.doctor("--passive", **env)["version.nccl"]
        self.assertIn("2.30.7", "".join(version["evidence"]))
        self.assertEqual(version["status"], "warning", version)
        self.assertIn("before the framework's own 2.30.7", version["found"])

    def test_a_typo_in_the_name_of_nccl(self):
        symptom = ("--symptom", "slow_transfer")
        check = self.doctor(*symptom, CCL_NET_GDR_LEVEL="PHB")["env.misspelt"]
        self.assertIn("did you mean NCCL_NET_GDR_LEVEL?", check["evidence"][0])
        self.assertEqual(self.doctor(*symptom, HCCL_SOCKET_IFNAME="eth0")["env.misspelt"]["status"], "ok")


if __name__ == "__main__":
    assert FAKES
    unittest.main(verbosity=2)  # names what it skips
