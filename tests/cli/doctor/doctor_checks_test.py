"""Checks of muster doctor one by one: a host on which each fires, and one on which it does not."""

import os
import pathlib
import shutil
import struct
import unittest

from doctor_case import FAKES, LIMITS, TWO_HOSTS, Case, GpuCase


class Host(Case):
    def test_names_that_lead_nowhere(self):
        self.put("proc/sys/kernel/hostname", "node7\n")
        self.put("etc/hosts", "127.0.0.1 localhost\n127.0.1.1\tnode7.cluster node7\n")
        self.expect("net.names", "ok")  # one host
        check = self.expect("net.names", "problem", **TWO_HOSTS)
        self.assertIn("this host's name node7 is an address that other hosts cannot reach",
                      check["found"])
        self.expect("net.names", "ok", GLOO_SOCKET_IFNAME="lo", **TWO_HOSTS)
        self.put("etc/hosts", "127.0.0.1 localhost\n10.1.0.7 node7\n")
        self.expect("net.names", "ok", **TWO_HOSTS)
        check = self.doctor("--symptom", "init_error", "--only", "net.names", **TWO_HOSTS)["net.names"]
        self.assertEqual((check["status"], check["found"]), ("warning", "this host's name node7 is an address that "
                                                             "this host does not have"))
        check = self.expect("net.names", "problem", GLOO_SOCKET_IFNAME="eth77")
        self.assertIn("GLOO_SOCKET_IFNAME=eth77: no such interface", check["found"])
        self.expect("net.names", "problem", GLOO_SOCKET_IFNAME="lo", NCCL_COMM_ID="127.0.0.1:99",
                    **TWO_HOSTS)

    def test_a_name_in_another_subnet(self):
        """As of hosts with a network for management: fine, unless something fails."""
        self.put("proc/sys/kernel/hostname", "node7\n")
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n  eth1: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n" + "".join(
            f"eth{i}\t00000{i + 1}0A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n" for i in range(2)))
        self.put("proc/net/fib_trie", "Local:\n" + "".join(
            f"           |-- {address}\n              /32 host LOCAL\n"
            for address in ("127.0.0.1", "10.1.0.7", "10.2.0.7")))
        self.put("etc/hosts", "127.0.0.1 localhost\n10.2.0.7 node7\n")
        self.expect("net.names", "ok", **TWO_HOSTS)
        symptom = ("--symptom", "init_error", "--only", "net.names")
        check = self.doctor(*symptom, NCCL_SOCKET_IFNAME="eth0", **TWO_HOSTS)["net.names"]
        self.assertEqual((check["status"], check["found"]), ("warning", "this host's name node7 is on eth1, in "
                                                             "another subnet than what NCCL takes"))
        check = self.doctor(*symptom, NCCL_SOCKET_IFNAME="eth1", **TWO_HOSTS)["net.names"]
        self.assertEqual(check["status"], "ok")

    def test_a_veth_beside_the_interface(self):
        """As on hosts of containers: NCCL takes it, too."""
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n  veth1: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 10.1.0.7\n              /32 host LOCAL\n")
        self.put("proc/net/if_inet6", "fe80000000000000581148fffea8315f 03 40 20 80 veth1\n")
        self.put("sys/devices/virtual/net/veth1/mtu", "1500\n")
        self.expect("net.interface", "ok", **TWO_HOSTS)
        symptom = ("--symptom", "init_error", "--only", "net.interface")
        check = self.doctor(*symptom, **TWO_HOSTS)["net.interface"]
        self.assertEqual((check["status"], check["found"]), (
            "warning", "NCCL's data also takes veth1, a virtual interface that leads to no other host"))
        check = self.doctor(*symptom, NCCL_SOCKET_IFNAME="eth0", **TWO_HOSTS)["net.interface"]
        self.assertNotIn("veth1", check["found"])

    def test_a_pattern_that_takes_more_than_it_names(self):
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n  eth1: 1 2 3\n eth10: 1 2 3\n eth11: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n" + "".join(
            f"{name}\t00000{i + 1}0A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n"
            for i, name in enumerate(("eth1", "eth10", "eth11"))))
        self.put("proc/net/fib_trie", "Local:\n" + "".join(
            f"           |-- 10.{i + 1}.0.7\n              /32 host LOCAL\n" for i in range(3)))
        self.expect("net.pattern", "ok")
        self.expect("net.pattern", "ok", NCCL_SOCKET_IFNAME="=eth1")
        check = self.expect("net.pattern", "warning", NCCL_SOCKET_IFNAME="eth1")
        self.assertEqual(check["found"], "the pattern takes 2 interfaces by prefix")
        self.assertEqual(check["advice"], "put = before the name: =eth1")

    def test_a_host_that_is_told_who_it_is(self):
        self.expect("host.identity", "ok")
        check = self.expect("host.identity", "warning", NCCL_HOSTID="node7")
        self.assertIn("NCCL_HOSTID=node7", check["evidence"])

    def test_nvlink_between_hosts_without_a_channel(self):
        dev = {"MUSTER_DEVFS": str(self.root / "dev")}
        self.assertEqual(self.expect("gpu.imex", "ok", **dev)["found"], "no IMEX channels")
        (self.root / "dev/nvidia-caps-imex-channels").mkdir(parents=True)
        self.assertIn("channel0", self.expect("gpu.imex", "warning", **dev)["advice"])
        self.put("dev/nvidia-caps-imex-channels/channel0")
        self.assertEqual(self.expect("gpu.imex", "ok", **dev)["found"], "IMEX channels")

    def test_a_firewall(self):
        self.put("etc/ufw/ufw.conf", "# x\nENABLED=no\n")
        self.expect("net.firewall", "ok", **TWO_HOSTS)
        self.put("etc/ufw/ufw.conf", "# x\nENABLED=yes\n")
        self.expect("net.firewall", "ok")  # one host: nobody comes from outside
        check = self.doctor("--symptom", "init_error", "--only", "net.firewall")["net.firewall"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("may close the address of this host to its own ranks", check["found"])
        check = self.expect("net.firewall", "warning", **TWO_HOSTS)
        self.assertEqual(check["found"], "ufw is enabled here")
        self.put("etc/ufw/ufw.conf", "ENABLED=yes\nLOGLEVEL=low\n")
        self.expect("net.firewall", "warning", **TWO_HOSTS)
        self.put("etc/ufw/ufw.conf", "#ENABLED=yes\n")
        self.expect("net.firewall", "ok", **TWO_HOSTS)
        self.expect("net.firewall", "ok", MUSTER_ROOT="/nowhere", **TWO_HOSTS)

    def test_rules_of_a_firewall(self):
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 10.1.0.7\n              /32 host LOCAL\n")
        (self.root / "sys/module/nf_tables").mkdir(parents=True)
        self.assertEqual(self.expect("net.firewall", "unchecked", **TWO_HOSTS)["found"],
                         "firewall rules not readable without root")
        rules = "*filter\n:INPUT ACCEPT [0:0]\n{}-A INPUT -p tcp --dport 22 -j ACCEPT\n-A INPUT -j REJECT\n"
        self.put("run/iptables-save", rules.format("-A INPUT -i lo -j ACCEPT\n"))
        self.expect("net.firewall", "ok")  # one host
        check = self.expect("net.firewall", "problem", **TWO_HOSTS)
        self.assertEqual(check["found"], "a firewall rule drops connections of the job's other hosts: "
                         "-A INPUT -j REJECT")
        self.assertIn("on all of them", check["advice"])
        self.put("run/iptables-save", rules.format("-A INPUT -s 10.1.0.0/16 -j ACCEPT\n"))
        self.put("etc/ufw/ufw.conf", "ENABLED=yes\n")  # what its rules do is known
        self.expect("net.firewall", "ok", **TWO_HOSTS)
        self.put("run/iptables-save", rules.format(""))
        self.assertIn("of this host's ranks to each other", self.expect("net.firewall", "problem")["found"])
        self.put("run/iptables-save", rules.format("-A INPUT -i lo -j ACCEPT\n-A INPUT -s 10.1.0.9 -j ACCEPT\n"))
        self.expect("net.firewall", "ok", **TWO_HOSTS)
        check = self.doctor("--symptom", "init_error", "--only", "net.firewall", **TWO_HOSTS)["net.firewall"]
        self.assertEqual(check["status"], "warning")
        self.put("run/iptables-save", "*filter\n:INPUT ACCEPT [0:0]\n")
        self.put("run/nft-ruleset", "table inet a {\nchain b {\ntype filter hook input priority 0; policy drop;\n"
                 "iifname \"lo\" accept\n}\n}\n")
        self.assertIn("the policy of chain b, drop", self.expect("net.firewall", "problem", **TWO_HOSTS)["found"])

    def test_threads_of_openmp(self):
        self.put("proc/self/status", "Cpus_allowed_list:\t0-15\n")
        self.put("sys/devices/system/cpu/online", "0-15\n")
        self.expect("limit.threads", "ok")  # no launcher
        self.expect("limit.threads", "warning", LOCAL_WORLD_SIZE="8")
        self.expect("limit.threads", "ok", LOCAL_WORLD_SIZE="8", OMP_NUM_THREADS="2")
        self.expect("limit.threads", "warning", LOCAL_WORLD_SIZE="8", OMP_NUM_THREADS="16")
        self.expect("limit.threads", "warning", SLURM_NTASKS_PER_NODE="8", SLURM_LOCALID="0")
        self.put("sys/devices/system/cpu/online", "0-127\n")  # 16 of them are this rank's
        self.expect("limit.threads", "ok", SLURM_NTASKS_PER_NODE="8", SLURM_LOCALID="0")

    def test_threads_bound_alike(self):
        self.put("proc/self/status", "Cpus_allowed_list:\t0-15\n")
        self.put("sys/devices/system/cpu/online", "0-15\n")
        few = {"LOCAL_WORLD_SIZE": "4", "OMP_NUM_THREADS": "4"}
        self.expect("limit.threads", "ok", **few)
        self.expect("limit.threads", "ok", OMP_PROC_BIND="false", **few)
        check = self.expect("limit.threads", "warning", OMP_PROC_BIND="close", **few)
        self.assertIn("OMP_PROC_BIND binds", check["evidence"][0])
        self.expect("limit.threads", "warning", GOMP_CPU_AFFINITY="0-3", **few)
        self.expect("limit.threads", "ok", GOMP_CPU_AFFINITY="0-3", LOCAL_RANK="0", **few)

    def rank(self, pid, local_rank, cpus, more=""):
        self.put(f"proc/{pid}/environ", f"SLURM_LOCALID=0\0LOCAL_RANK={local_rank}\0MASTER_PORT=29500\0{more}")
        self.put(f"proc/{pid}/status", f"Cpus_allowed_list:\t{cpus}\n")

    def test_ranks_bound_to_the_same_cpus(self):
        self.put("sys/devices/system/cpu/online", "0-63\n")
        self.expect("limit.binding", "ok")
        self.rank(100, 0, "0-7")
        self.rank(101, 1, "8-15")
        self.rank(102, 0, "0-63")  # what rank 0 started
        self.expect("limit.binding", "ok")
        self.rank(101, 1, "4-11")
        check = self.expect("limit.binding", "warning")
        self.assertEqual(check["evidence"],
                         ["ranks 0 and 1 share 4 of their CPUs: CPUs 0-7, CPUs 4-11"])
        self.rank(101, 1, "0-7")  # a socket's, for the ranks of its GPUs
        self.expect("limit.binding", "ok")
        for pid, cpus in ((100, "3"), (101, "3")):
            self.rank(pid, pid - 100, cpus)
        check = self.expect("limit.binding", "warning")
        self.assertEqual(check["evidence"], ["2 ranks on 1 CPU: rank 0 and others, CPUs 3"])
        for pid in (100, 101):  # not bound at all
            self.rank(pid, pid - 100, "0-63")
        self.expect("limit.binding", "ok")

    def test_cpus_that_slurm_gives(self):
        def slurm(kind, cpus):
            return {"LOCAL_WORLD_SIZE": "4", "SLURM_CPU_BIND_TYPE": kind, "SLURM_CPU_BIND_LIST": cpus}
        self.expect("limit.binding", "ok", **slurm("mask_cpu:", "0x00f,0x0f0,0xf00,0xf000"))
        check = self.expect("limit.binding", "warning", **slurm("mask_cpu:", "0x00f,0x078,0xf00,0xf000"))
        self.assertEqual(check["evidence"],
                         ["ranks 0 and 1 share 1 of their CPUs: mask 0x00f, mask 0x078"])
        self.expect("limit.binding", "ok", **slurm("map_cpu:", "0,1,2,3"))
        check = self.expect("limit.binding", "warning", **slurm("map_cpu:", "0,1"))  # goes round
        self.assertEqual(len(check["evidence"]), 2)
        self.expect("limit.binding", "ok", **slurm("none", ""))
        for junk in (",", ",,,", "0x", "xyz", "0x" + "f" * 5000):
            self.doctor(**slurm("mask_cpu:", junk))

    def test_numa_nodes(self):
        for node in range(4):
            self.put(f"sys/devices/system/node/node{node}/cpulist", f"{node * 8}-{node * 8 + 7}\n")
            self.put(f"sys/devices/system/cpu/cpu{node * 8}/topology/physical_package_id", f"{node // 2}\n")
        self.put("sys/devices/system/node/node4/cpulist", "\n")  # memory of a GPU
        check = self.expect("host.numa", "ok")
        self.assertEqual(check["found"], "4 NUMA nodes on 2 sockets")
        self.assertIn("several nodes a socket", check["evidence"][0])
        for chain, numa in (("pci0000:00/0000:00:01.0", "1"), ("pci0000:00/0000:00:01.0/0000:01:00.0", "1"),
                            ("pci0000:40/0000:40:01.0", "-1"), ("pci0000:40/0000:40:01.0/0000:41:00.0", "-1")):
            gpu = chain.count("/") == 2
            for file, text in (("class", "0x030200" if gpu else "0x060400"), ("vendor", "0x10de"),
                               ("numa_node", numa), ("current_link_width", "16"), ("max_link_width", "16")):
                self.put(f"sys/devices/{chain}/{file}", text + "\n")
            (self.root / "sys/bus/pci/devices" / chain.rsplit("/", 1)[1]).symlink_to(f"../../../devices/{chain}")
        check = self.expect("host.numa", "warning")
        self.assertIn("GPU 0: node 1", check["evidence"])
        self.assertIn("GPU 1: its node is not told (numa_node is -1)", check["evidence"])

    def device(self, node, chain, kind):
        for file, text in (("class", kind), ("vendor", "0x10de"), ("numa_node", str(node)),
                           ("current_link_width", "16"), ("max_link_width", "16")):
            self.put(f"sys/devices/{chain}/{file}", text + "\n")
        (self.root / "sys/bus/pci/devices" / chain.rsplit("/", 1)[1]).symlink_to(f"../../../devices/{chain}")

    def two_nodes_with_a_gpu_each(self):
        self.put("sys/devices/system/cpu/online", "0-15\n")
        for node in range(2):
            self.put(f"sys/devices/system/node/node{node}/cpulist", f"{node * 8}-{node * 8 + 7}\n")
            bridge = f"pci0000:{node}0/0000:{node}0:01.0"
            self.device(node, bridge, "0x060400")
            self.device(node, f"{bridge}/0000:{node}1:00.0", "0x030200")

    def fabric_nic(self, node, name, number):
        bridge = f"pci0000:{node}0/0000:{node}0:0{number}.0"
        nic = f"{bridge}/0000:{node}{number}:00.0"
        self.device(node, bridge, "0x060400")
        self.device(node, nic, "0x020700")
        self.put(f"sys/devices/{nic}/infiniband/{name}/.keep")
        self.put(f"sys/class/infiniband/{name}/ports/1/state", "4: ACTIVE\n")

    def test_nics_that_one_socket_lacks(self):
        self.two_nodes_with_a_gpu_each()
        self.fabric_nic(0, "mlx5_0", 2)
        self.expect("gpu.nic", "ok")  # one alone has to be somewhere
        self.fabric_nic(0, "mlx5_1", 3)
        check = self.expect("gpu.nic", "warning")
        self.assertEqual(check["evidence"], ["NUMA node 1 has 1 GPUs and 0 fabric NICs, node 0 has 1 and 2: "
                                             "traffic of the first crosses the socket"])
        self.fabric_nic(1, "mlx5_2", 2)
        self.fabric_nic(1, "mlx5_3", 3)
        self.expect("gpu.nic", "ok")

    def test_ranks_far_from_their_gpus(self):
        self.two_nodes_with_a_gpu_each()
        self.expect("limit.near", "ok")
        self.rank(100, 0, "0-3")
        self.rank(101, 1, "8-11")
        self.assertEqual(self.expect("limit.near", "ok")["found"], "every rank has CPUs near its GPU")
        self.rank(101, 1, "4-7")
        check = self.expect("limit.near", "warning")
        self.assertEqual(check["evidence"], ["rank 1: CPUs 4-7, none of them on the node of GPU 1"])
        self.rank(101, 1, "4-7", "CUDA_VISIBLE_DEVICES=0\0")  # the same GPU is another matter
        self.expect("limit.near", "ok")
        self.rank(101, 1, "0-15")  # not bound
        self.expect("limit.near", "ok")

    def test_limits_of_the_service_that_starts_jobs(self):
        self.put("proc/812/comm", "slurmd\n")
        self.put("proc/812/limits", LIMITS.format(131072, "unlimited"))
        self.put("proc/813/comm", "bash\n")
        self.put("proc/813/limits", LIMITS.format(1024, "65536"))
        self.expect("limit.service", "ok")
        self.put("proc/812/limits", LIMITS.format(1024, "65536"))
        check = self.expect("limit.service", "warning")
        self.assertEqual(check["evidence"], ["slurmd: Max open files 1024"])
        self.put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
        self.assertEqual(len(self.expect("limit.service", "warning")["evidence"]), 2)

    def test_a_slow_clock(self):
        path = "sys/devices/system/clocksource/clocksource0/current_clocksource"
        self.expect("host.clock", "unchecked")
        for source, status in (("tsc", "ok"), ("kvm-clock", "ok"), ("arch_sys_counter", "ok"),
                               ("hpet", "warning"), ("acpi_pm", "warning")):
            self.put(path, source + "\n")
            self.expect("host.clock", status)

    def test_huge_pages_that_nobody_uses(self):
        text = "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nHugePages_Free: {}\n" \
               "Hugepagesize: 2048 kB\n"
        for pages, status in ((0, "ok"), (100, "ok"), (300, "warning")):
            self.put("proc/meminfo", text.format(pages))
            self.expect("host.hugepages", status)

    def test_memory_for_the_ranks(self):
        for gib, status in ((64, "ok"), (24, "warning"), (8, "problem")):
            self.put("sys/fs/cgroup/memory.max", f"{gib << 30}\n")
            self.expect("limit.memory", status, LOCAL_WORLD_SIZE="8")
        self.put("sys/fs/cgroup/memory.max", "max\n")
        self.expect("limit.memory", "ok", LOCAL_WORLD_SIZE="8")


class Rdma(Case):
    def port(self, device="mlx5_0", layer="InfiniBand", state="4: ACTIVE", rate="400 Gb/sec (4X NDR)"):
        below = f"sys/class/infiniband/{device}/ports/1"
        for name, text in (("link_layer", layer), ("state", state), ("rate", rate)):
            self.put(f"{below}/{name}", text + "\n")
        return below

    def net(self, device, name, mtu):
        self.put(f"sys/class/infiniband/{device}/device/net/{name}/mtu", mtu)
        self.put(f"sys/class/net/{name}/mtu", mtu)

    def test_congestion_control_of_roce(self):
        self.port(layer="Ethernet")
        self.net("mlx5_0", "eth1", "9000\n")
        self.assertEqual(self.doctor()["ib.ecn"]["status"], "unchecked")

        def enable(side, priorities, net="eth1"):
            for i, on in enumerate(priorities):
                self.put(f"sys/class/net/{net}/ecn/{side}/enable/{i}", on + "\n")
        enable("roce_np", "11111111")
        enable("roce_rp", "11111111")
        self.assertEqual(self.doctor()["ib.ecn"]["status"], "ok")
        enable("roce_rp", "11101111")
        check = self.doctor()["ib.ecn"]
        self.assertEqual((check["status"], check["found"]), ("warning", "ECN on one side only"))
        enable("roce_rp", "11111111")
        self.port("mlx5_1", layer="Ethernet")
        self.net("mlx5_1", "eth2", "9000\n")
        enable("roce_np", "00000000", "eth2")
        enable("roce_rp", "00000000", "eth2")
        check = self.doctor()["ib.ecn"]
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "ECN differs between ports"))

    def test_what_roce_ports_trust(self):
        self.port(layer="Ethernet")
        self.net("mlx5_0", "eth1", "9000\n")
        self.expect("ib.trust", "unchecked")
        self.put("sys/class/net/eth1/qos/trust", "pcp\n")
        self.expect("ib.trust", "ok")
        self.expect("ib.trust", "ok", NCCL_IB_TC="0")
        check = self.expect("ib.trust", "warning", NCCL_IB_TC="106")
        self.assertEqual(check["found"], "NCCL_IB_TC is set, but ports do not look at it")
        self.put("sys/class/net/eth1/qos/trust", "dscp\n")
        self.expect("ib.trust", "ok", NCCL_IB_TC="106")
        self.port("mlx5_1", layer="Ethernet")
        self.net("mlx5_1", "eth2", "9000\n")
        self.put("sys/class/net/eth2/qos/trust", "pcp\n")
        check = self.expect("ib.trust", "warning")
        self.assertEqual(check["evidence"], ["eth1: trusts dscp", "eth2: trusts pcp"])

    def dcb(self, net, pfc, priorities=(), indications=0):
        """As the kernel answers DCB_CMD_IEEE_GET: PFC's bits, pairs of DSCP and priority."""
        def attribute(kind, value):
            return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
        state = struct.pack("=BBBxHxx16Q", 8, pfc, 0, 0, *([0] * 11), indications, *([0] * 4))
        table = b"".join(attribute(1, struct.pack("=BBH", 5, priority, dscp))
                         for dscp, priority in priorities)
        ieee = attribute(13, attribute(2, state) + attribute(3, table))
        body = struct.pack("=BBH", 0, 21, 0) + attribute(1, net.encode() + b"\0") + ieee
        self.put(f"sys/class/net/{net}/dcb")
        (self.root / f"sys/class/net/{net}/dcb").write_bytes(
            struct.pack("=IHHII", 16 + len(body), 78, 0, 0, 0) + body)

    def test_pauses_of_roce(self):
        self.expect("ib.pfc", "unchecked")
        self.port(layer="Ethernet")
        self.net("mlx5_0", "eth1", "9000\n")
        self.assertEqual(self.expect("ib.pfc", "unchecked")["found"], "eth1: not recorded")
        self.dcb("eth1", 0)
        self.assertEqual(self.expect("ib.pfc", "ok", NCCL_IB_TC="106")["found"],
                         "no PFC on RoCE ports")
        self.dcb("eth1", 1 << 3, indications=7)
        check = self.expect("ib.pfc", "ok", NCCL_IB_TC="106")
        self.assertEqual(check["evidence"], [
            "eth1: PFC of priorities 3; NCCL's frames get priority 3 (traffic class 106)",
            "eth1: 7 pauses came in, 0 went out since the driver was loaded"])
        check = self.expect("ib.pfc", "warning", NCCL_IB_TC="160")
        self.assertEqual(check["found"], "NCCL's frames are in a priority without PFC")
        self.dcb("eth1", 1 << 3, [(40, 3)])  # the port's own table
        self.expect("ib.pfc", "ok", NCCL_IB_TC="160")
        self.put("sys/class/net/eth1/qos/trust", "pcp\n")
        self.expect("ib.pfc", "warning", NCCL_IB_TC="160")
        self.expect("ib.pfc", "ok", NCCL_IB_SL="3")

    def test_a_priority_that_nobody_chose(self):
        """Who relies on congestion control alone has no problem; a slow transfer is another matter."""
        self.port(layer="Ethernet")
        self.net("mlx5_0", "eth1", "9000\n")
        self.dcb("eth1", 1 << 3)
        self.expect("ib.pfc", "ok")
        check = self.doctor("--symptom", "slow_transfer", "--only", "ib.pfc")["ib.pfc"]
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "NCCL's frames are in a priority without PFC"))
        self.put("sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106\n")
        check = self.doctor("--symptom", "slow_transfer", "--only", "ib.pfc")["ib.pfc"]
        self.assertEqual(check["status"], "ok")

    def test_pauses_that_differ(self):
        for i, pfc in enumerate((8, 16)):
            self.port(f"mlx5_{i}", layer="Ethernet")
            self.net(f"mlx5_{i}", f"eth{i}", "9000\n")
            self.dcb(f"eth{i}", pfc)
        check = self.expect("ib.pfc", "warning")
        self.assertEqual(check["found"], "PFC differs between RoCE ports")

    def test_a_module_that_the_drivers_do_not_know_of(self):
        self.port()
        self.put("sys/module/nvidia_peermem/version", "580.95.05\n")
        self.put("sys/kernel/mm/memory_peers/nv_mem/version", "1\n")
        self.assertEqual(self.doctor()["ib.gdr"]["status"], "ok")
        (self.root / "sys/kernel/mm/memory_peers/nv_mem/version").unlink()
        (self.root / "sys/kernel/mm/memory_peers/nv_mem").rmdir()
        check = self.doctor()["ib.gdr"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("do not know of it", check["found"])

    def test_ports_that_wait_for_a_subnet_manager(self):
        self.assertEqual(self.doctor()["ib.subnet"]["status"], "unchecked")
        self.port()
        self.assertEqual(self.doctor()["ib.subnet"]["status"], "ok")
        self.port(state="2: INIT")
        self.assertEqual(self.doctor()["ib.subnet"]["status"], "problem")
        self.port(layer="Ethernet", state="2: INIT")
        self.assertEqual(self.doctor()["ib.subnet"]["found"], "no InfiniBand port")

    def test_frames_of_roce(self):
        for device, name in (("mlx5_0", "eth1"), ("mlx5_1", "eth2")):
            self.port(device, "Ethernet")
            self.net(device, name, "9000")
        self.assertEqual(self.doctor()["ib.frames"]["status"], "ok")
        self.net("mlx5_1", "eth2", "1500")
        self.assertEqual(self.expect("ib.frames", "warning")["found"], "RoCE ports of different MTUs")
        self.net("mlx5_0", "eth1", "1500")
        self.assertEqual(self.expect("ib.frames", "warning")["found"], "RoCE in small frames")
        for device in ("mlx5_0", "mlx5_1"):
            self.port(device, "Ethernet", rate="25 Gb/sec (1X EDR)")
        self.assertEqual(self.doctor()["ib.frames"]["status"], "ok")

    def test_links_that_go_down(self):
        below = self.port()
        for times, status in (("0", "ok"), ("2", "ok"), ("3", "warning")):
            self.put(f"{below}/counters/link_downed", times)
            self.assertEqual(self.doctor()["ib.flaps"]["status"], status)

    def test_libraries_of_rdma(self):
        library = next(path for folder in FAKES.split(":") for path in
                       sorted(os.path.join(folder, name) for name in os.listdir(folder))
                       if "libcuda" in path and os.path.isfile(path))
        os.mkdir(self.root / "lib")
        env = {"LD_LIBRARY_PATH": str(self.root / "lib")}
        self.port("rdmap0s6", layer="Unspecified")
        shutil.copy(library, self.root / "lib/libibverbs.so.1")
        check = self.doctor(**env)["ib.libraries"]
        self.assertEqual(check["status"], "problem")
        # libfabric.so.1, too, where the machine has none
        self.assertIn("libnccl-net.so", check["evidence"][-1])
        for name in ("libfabric.so.1", "libnccl-net.so"):
            shutil.copy(library, self.root / "lib" / name)
        self.assertEqual(self.doctor(**env)["ib.libraries"]["status"], "ok")

    def test_slingshot_wants_a_plugin(self):
        """It has no RDMA devices."""
        library = next(path for folder in FAKES.split(":") for path in
                       sorted(os.path.join(folder, name) for name in os.listdir(folder))
                       if "libcuda" in path and os.path.isfile(path))
        os.mkdir(self.root / "lib")
        env = {"LD_LIBRARY_PATH": str(self.root / "lib")}
        self.assertEqual(self.doctor(**env)["ib.libraries"]["status"], "unchecked")
        self.put("sys/class/cxi/cxi0/device/uevent", "DRIVER=cxi_ss1\n")
        shutil.copy(library, self.root / "lib/libfabric.so.1")
        check = self.doctor(**env)["ib.libraries"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("libnccl-net.so", check["evidence"][-1])
        shutil.copy(library, self.root / "lib/libnccl-net.so")
        self.assertEqual(self.doctor(**env)["ib.libraries"]["status"], "ok")

    def test_devices_of_rdma(self):
        self.port()
        env = {"MUSTER_DEVFS": str(self.root / "dev")}
        self.assertEqual(self.doctor(**env)["ib.devices"]["status"], "problem")
        self.put("dev/infiniband/uverbs0")
        self.assertEqual(self.doctor(**env)["ib.devices"]["status"], "ok")

    def test_locked_memory(self):
        self.put("proc/self/limits", LIMITS.format(65536, 8 << 20))
        self.assertEqual(self.doctor()["limit.memlock"]["status"], "ok")  # nobody needs it
        self.port()
        self.assertEqual(self.doctor()["limit.memlock"]["status"], "problem")
        self.put("proc/self/limits", LIMITS.format(65536, "unlimited"))
        self.assertEqual(self.doctor()["limit.memlock"]["status"], "ok")

    def test_small_read_requests(self):
        chain = "pci0000:10/0000:10:01.0/0000:11:00.0"
        for below, code in (("pci0000:10/0000:10:01.0", "0x060400"), (chain, "0x020700")):
            name = below.rsplit("/", 1)[1]
            self.put(f"sys/devices/{below}/class", code)
            self.put(f"sys/devices/{below}/vendor", "0x15b3")
            (self.root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
            (self.root / "sys/bus/pci/devices" / name).symlink_to(f"../../../devices/{below}")
        self.put(f"sys/devices/{chain}/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)")
        self.port()
        self.assertEqual(self.doctor()["gpu.requests"]["status"], "unchecked")
        config = bytearray(256)
        config[0x34], config[0x60] = 0x60, 0x10
        for control, status in ((5 << 12 | 1 << 5, "ok"), (2 << 12 | 1 << 5, "warning")):
            config[0x68:0x6a] = control.to_bytes(2, "little")
            (self.root / f"sys/devices/{chain}/config").write_bytes(config)
            check = self.doctor()["gpu.requests"]
            self.assertEqual(check["status"], status, check)
        self.assertEqual(check["evidence"], ["mlx5_0: payload 256, read requests 512 bytes"])


class Gpus(GpuCase):
    def expect(self, id_, status, **given):
        check = self.doctor("--passive", **given)[id_]
        self.assertEqual(check["status"], status, check)
        return check

    def test_more_ranks_than_gpus(self):
        self.expect("gpu.shared", "ok")
        self.expect("gpu.shared", "ok", LOCAL_WORLD_SIZE="3")
        self.expect("gpu.shared", "problem", LOCAL_WORLD_SIZE="4")
        self.expect("gpu.shared", "problem", LOCAL_WORLD_SIZE="3", CUDA_VISIBLE_DEVICES="0,1")
        self.expect("gpu.shared", "ok", SLURM_NTASKS_PER_NODE="3", SLURM_LOCALID="1",
                    CUDA_VISIBLE_DEVICES="1")  # each rank has its own list

    def test_boards_made_for_nvlink(self):
        self.expect("gpu.bridge", "ok")
        check = self.expect("gpu.bridge", "problem", nvml="gpu 1 links 0")
        self.assertEqual(check["evidence"], ["GPU 1: NVIDIA H200, no NVLink is up"])
        for name in ("NVIDIA A100-PCIE-40GB", "NVIDIA H200 NVL", "NVIDIA GeForce RTX 3090"):
            self.expect("gpu.bridge", "ok", nvml=f"gpu * links 0\ngpu * name {name}")

    def test_too_many_peers(self):
        self.expect("gpu.peers", "ok", gpus=16)  # NVSwitch
        self.expect("gpu.peers", "warning", gpus=10, nvml="gpu * links 0")
        self.expect("gpu.peers", "ok", gpus=8, nvml="gpu * links 0")

    def test_persistence_is_told(self):
        self.assertEqual(self.expect("gpu.persistence", "ok")["evidence"], [])
        self.assertIn("3 GPUs", self.expect("gpu.persistence", "ok",
                                            nvml="gpu * persistence 0")["evidence"][0])

    def test_compatibility_libraries(self):
        self.put("cuda/compat/libcuda.so.550.54.15")
        path = f"{FAKES}:{self.root}/cuda/compat"
        self.expect("version.compat", "ok")
        self.expect("version.compat", "ok", nvml="driver 535.104.05", LD_LIBRARY_PATH=path)
        check = self.expect("version.compat", "problem", nvml="driver 580.95.05",
                            LD_LIBRARY_PATH=path)
        self.assertIn("out of LD_LIBRARY_PATH", check["advice"])
        self.expect("version.compat", "problem", LD_LIBRARY_PATH=path,
                    nvml="driver 535.104.05\ngpu * name NVIDIA GeForce RTX 4090")

    def test_known_bugs_of_nccl(self):
        self.expect("version.nccl_bad", "ok", NCCL_CUMEM_ENABLE="0")
        check = self.expect("version.nccl_bad", "problem", FAKE_NCCL="22602", NCCL_CUMEM_ENABLE="0")
        self.assertIn("send and receive hang with NCCL_CUMEM_ENABLE=0", check["found"])
        self.assertNotEqual(self.doctor("--passive", FAKE_NCCL="22602")["version.nccl_bad"]["status"], "problem")

    def test_gpudirect(self):
        self.put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
        self.expect("ib.gdr", "problem")
        self.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for "
                 "x86_64  580.95.05\n")
        self.put("proc/sys/kernel/osrelease", "5.4.0-100-generic\n")
        self.expect("ib.gdr", "problem")
        self.put("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
        self.expect("ib.gdr", "ok")
        self.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module\n")
        self.expect("ib.gdr", "problem")
        self.put("sys/module/efa_nv_peermem/version", "1.2.0")
        self.assertEqual(self.expect("ib.gdr", "ok")["found"], "efa_nv_peermem is loaded")


if __name__ == "__main__":
    unittest.main()
