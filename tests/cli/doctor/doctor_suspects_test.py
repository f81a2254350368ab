"""What muster doctor suspects where a job fails: surroundings that are fine for most."""

import unittest

from doctor_case import GpuCase

SEVERAL = {"SLURM_JOB_NUM_NODES": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}


class Suspects(GpuCase):
    def listening(self, *ports):
        self.put("proc/net/tcp", "  sl  local_address rem_address   st\n" + "".join(
            f"   {i}: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 {i}\n"
            for i, port in enumerate(ports)))

    def test_a_service_mesh(self):
        self.listening(22, 15001, 29500)
        self.assertEqual(self.doctor("--passive", **SEVERAL)["net.mesh"]["status"], "ok")  # half of it is no proxy
        self.listening(15001, 15006, 15020)
        check = self.doctor("--passive", **SEVERAL)["net.mesh"]
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "the proxy of Istio takes this pod's connections"))
        self.assertEqual(self.doctor("--passive")["net.mesh"]["status"], "ok")  # one host: only where its job hangs
        symptom = ("--passive", "--only", "net.mesh", "--symptom", "hang_stuck")
        self.assertEqual(self.causes(*symptom), ["net.mesh"])
        self.listening(4140, 4143)
        self.assertIn("linkerd.io/inject", self.doctor("--passive", **SEVERAL)["net.mesh"]["advice"])

    def addresses(self, address):
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n")
        first, second = (int(part) for part in address.split(".")[:2])
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 f"eth0\t0000{second:02X}{first:02X}\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
                 f"           |-- {address}\n              /32 host LOCAL\n")

    def test_the_own_network_of_docker_and_podman(self):
        self.put(".dockerenv")
        for address, whose in (("172.17.0.2", "docker"), ("10.88.0.7", "podman"), ("10.1.0.2", None)):
            self.addresses(address)
            check = self.doctor("--passive", **SEVERAL)["net.interface"]
            self.assertEqual(check["status"], "warning" if whose else "ok", check)
            if whose:
                self.assertIn(f"is in {whose}'s own network", check["found"])
            self.assertEqual(self.doctor("--passive")["net.interface"]["status"], "ok")  # one host
        self.addresses("172.17.0.2")
        for flag in ("--network=host", ""):  # which the second one has
            container = self.doctor("--passive", **SEVERAL)["host.container"]
            self.assertEqual("--network=host" in container["advice"], bool(flag), container)
            self.put("sys/class/net/eth0/device/vendor", "0x1af4\n")

    def test_an_address_that_no_other_host_reaches(self):
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n  agent0: 1 2 3\n")
        for address, network, status in (("169.254.0.1", "FEA9", "warning"), ("10.2.0.1", "020A", "ok")):
            self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                     "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n"
                     f"agent0\t0000{network}\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
            self.put("proc/net/fib_trie", "Local:\n           |-- 10.1.0.1\n              /32 host LOCAL\n"
                     f"           |-- {address}\n              /32 host LOCAL\n")
            check = self.doctor("--passive", **SEVERAL)["net.interface"]
            self.assertEqual(check["status"], status, check)
            self.assertEqual("NCCL_SOCKET_IFNAME=^docker,lo,agent0" in check["advice"], status == "warning")
            self.assertEqual(self.doctor("--passive")["net.interface"]["status"], "ok")

    def test_a_fabric_manager_that_was_started_again(self):
        symptom = ("--passive", "--only", "gpu.fabric", "--symptom", "init_error")
        self.put("proc/12/comm", "nv-fabricmanager\n")
        for ticks, causes in ((700, []), (61200000, ["gpu.fabric"])):
            self.put("proc/12/stat", "12 (nv-fabric) man) S 1 12 12 0 -1 4194560 1 0 0 0 5 3 0 0 20 0 9 0 "
                     f"{ticks} 1234567 1024\n")
            self.assertEqual(self.causes(*symptom, nvml="gpu * fabric 3 0\ngpu * capability 9 0"), causes)

    def test_an_nccl_of_years_ago(self):
        symptom = ("--passive", "--only", "version.nccl", "--symptom", "init_error")
        for version, causes in (("2213", ["version.nccl"]), ("20908", [])):
            self.assertEqual(self.causes(*symptom, FAKE_NCCL=version), causes)

    def test_huge_pages_that_a_cgroup_refuses(self):
        symptom = ("--passive", "--only", "host.hugepages", "--symptom", "init_error")
        self.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nHugePages_Free: 100\n"
                 "Hugepagesize: 2048 kB\n")
        for most, causes in (("0", ["host.hugepages"]), ("max", []), ("209715200", [])):
            self.put("sys/fs/cgroup/hugetlb.2MB.max", most + "\n")
            self.assertEqual(self.causes(*symptom), causes)

    def test_a_plugin_outside_of_the_loaders_path(self):
        self.put("sys/class/infiniband/rdmap0s0/ports/1/state", "4: ACTIVE\n")
        check = self.doctor("--passive", **SEVERAL)["ib.libraries"]
        self.assertNotIn("loader's path", "".join(check["evidence"]))
        self.put("opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so")
        check = self.doctor("--passive", **SEVERAL)["ib.libraries"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("outside of the loader's path", check["evidence"][-1])
        self.assertIn(f"LD_LIBRARY_PATH={self.root}/opt/amazon/ofi-nccl/lib", check["advice"])

    def second_interface(self, name, address, network, mask):
        """Beside eth0 of 10.1.0.2/16; network and mask as /proc/net/route has them."""
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n"
                 f"{name}: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n"
                 f"{name}\t{network}\t00000000\t0001\t0\t0\t1\t{mask}\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
                 "           |-- 10.1.0.2\n              /32 host LOCAL\n"
                 f"           |-- {address}\n              /32 host LOCAL\n")

    def meeting(self, *args, **env):
        return self.doctor(*args, **SEVERAL, **env)["net.interface"]["found"]

    def test_an_overlay_is_no_way_to_other_hosts(self):
        symptom = ("--passive", "--only", "net.interface", "--symptom", "hang_stuck")
        for name, overlay in (("flannel.1", True), ("eth0.100", False), ("br-4f1c1e2b7a9d", True)):
            self.second_interface(name, "10.244.4.1", "0004F40A", "00FFFFFF")
            if not name.startswith("br-"):  # docker's name says it
                self.put(f"sys/devices/virtual/net/{name}/mtu", "1450\n")
            self.assertEqual("leads to no other host" in self.meeting(*symptom), overlay, name)

    def test_interfaces_of_two_networks(self):
        symptom = ("--passive", "--only", "net.interface", "--symptom", "init_error")
        for second, network, another in (("10.1.0.9", "0000010A", False), ("172.30.12.7", "00001EAC", True)):
            self.second_interface("rsip", second, network, "0000FFFF")
            self.assertEqual("is in another network" in self.meeting(*symptom), another, second)
        self.assertIn("NCCL_SOCKET_IFNAME=rsip, or eth0", self.doctor(*symptom, **SEVERAL)["net.interface"]["advice"])
        self.assertEqual(self.causes(*symptom), [])  # of one host
        self.assertNotIn("another", self.meeting(*symptom, NCCL_SOCKET_IFNAME="eth0"))

    def test_where_hosts_meet_is_what_one_host_cannot_judge(self):
        for symptom, meeting in (("init_error", True), ("hang_stuck", True), ("hang_absent", True), ("wrong_result", False)):
            words = ("--passive", "--only", "net.interface", "--symptom", symptom)
            self.assertEqual("one host alone does not show" in self.meeting(*words), meeting, symptom)
            self.assertEqual("the same NCCL" in self.meeting(*words), meeting, symptom)
        words = ("--passive", "--symptom", "init_error")
        self.assertNotIn("net.interface", self.causes(*words))  # of one host
        self.put("job.log", "NCCL WARN Connect to 10.1.0.3<41000> failed : No route to host\n")
        log = ("--log", str(self.root / "job.log"))
        self.assertEqual(self.causes(*words, *log, **SEVERAL), ["log.unreachable"])  # a line has its own words
        self.assertEqual(self.causes(*words, **SEVERAL, FAKE_NCCL="22501"), ["version.nccl_bad"])  # few versions

    def test_a_port_that_the_kernel_gives_away(self):
        self.put("proc/sys/net/ipv4/ip_local_port_range", "32768 60999\n")
        symptom = ("--passive", "--only", "net.ports", "--symptom", "init_error")
        for port, causes in (("57062", ["net.ports"]), ("29500", []), ("none", [])):
            self.assertEqual(self.causes(*symptom, MASTER_PORT=port), causes, port)
        self.assertEqual(self.causes(*symptom, MASTER_PORT="57062", TORCHELASTIC_RUN_ID="none"), [])
        symptom = ("--passive", "--only", "net.ports", "--symptom", "hang_stuck")  # who finds it taken does not wait
        self.assertEqual(self.causes(*symptom, MASTER_PORT="57062"), [])

    def test_ranks_that_see_their_own_gpu_alone(self):
        symptom = ("--passive", "--only", "job.ranks", "--symptom", "path_missing")
        slurm = {"SLURM_NTASKS_PER_NODE": "4", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "LOCAL_WORLD_SIZE": "4"}
        self.assertEqual(self.causes(*symptom, gpus=4, **slurm), [])
        self.assertEqual(self.causes(*symptom, gpus=1, **slurm, SLURM_GPUS_PER_TASK="1"), ["job.ranks"])

    def test_what_the_program_alone_knows(self):
        for symptom, causes in (("init_error", ["job.ranks"]), ("hang_absent", ["job.ranks"]), ("hang_stuck", [])):
            words = ("--passive", "--only", "job.ranks", "--symptom", symptom)
            self.assertEqual(self.causes(*words, gpus=2), causes, symptom)
            self.assertEqual(self.causes(*words, gpus=1), [], symptom)
            self.assertEqual(self.causes(*words, gpus=2, **SEVERAL), [], symptom)
        words = ("--passive", "--symptom", "init_error")
        self.assertEqual(self.causes(*words, gpus=2, FAKE_NCCL="2708"), ["version.nccl_bad"])  # behind all others
        self.put("job.log", "n1: Test CUDA failure common.cu:1045 'unknown error'\n")
        self.assertNotIn("job.ranks", self.causes(*words, "--log", str(self.root / "job.log"), gpus=2))

    def test_fewer_tasks_than_gpus(self):
        symptom = ("--passive", "--only", "job.ranks", "--symptom", "hang_absent")
        slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_ID": "0"}
        self.assertEqual(self.causes(*symptom, gpus=4, **slurm), ["job.ranks"])
        check = self.doctor(*symptom, gpus=4, **slurm)["job.ranks"]
        self.assertIn("Slurm starts 1 task on a host for 4 GPUs", check["found"])
        self.assertIn("--ntasks-per-node=4", check["advice"])
        for fine in ({**slurm, "SLURM_NTASKS": "8"}, {**slurm, "TORCHELASTIC_RUN_ID": "none"}, {"SLURM_NTASKS": "2"},
                     {**slurm, "CUDA_VISIBLE_DEVICES": "1"}):
            self.assertNotIn("Slurm", self.doctor(*symptom, gpus=4, **fine)["job.ranks"]["found"], fine)
        self.assertEqual(self.doctor("--passive", gpus=4, **slurm)["job.ranks"]["status"], "ok")

    def test_a_batch_script_without_srun(self):
        symptom = ("--passive", "--only", "job.ranks", "--symptom", "hang_absent")
        slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "1"}
        check = self.doctor(*symptom, gpus=4, **slurm)["job.ranks"]
        self.assertIn("no srun started this (no SLURM_STEP_ID), and Slurm has 4 tasks", check["found"])
        self.assertIn("srun before the program", check["advice"])
        for fine in ({"SLURM_STEP_ID": "0"}, {"RANK": "0"}, {"OMPI_COMM_WORLD_SIZE": "4"}, {"SLURM_NTASKS": "1"},
                     {"SLURM_PROCID": "1"}):
            self.assertNotIn("no srun", self.doctor(*symptom, gpus=4, **{**slurm, **fine})["job.ranks"]["found"], fine)
        self.assertEqual(self.doctor("--passive", gpus=4, **slurm)["job.ranks"]["status"], "ok")

    def test_numbers_of_mpi_and_of_pytorch(self):
        symptom = ("--passive", "--only", "job.ranks", "--symptom", "wrong_result")
        mpi = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
        for wrong, told in (({"WORLD_SIZE": "4"}, "Open MPI starts 8 ranks, but WORLD_SIZE=4"),
                            ({"WORLD_SIZE": "8", "RANK": "1"}, "Open MPI says rank 5, but RANK=1"),
                            ({"NODE_RANK": "5"}, "with 4 a host, is on host 1: NODE_RANK counts hosts"),
                            ({"NODE_RANK": "0"}, "with 4 a host, is on host 1"),
                            ({"MASTER_ADDR": "10.0.0.4"}, "NODE_RANK is not set")):
            check = self.doctor(*symptom, gpus=4, **mpi, **wrong)["job.ranks"]
            self.assertIn(told, check["found"])
            self.assertIn("NODE_RANK, which is RANK / ranks of a host", check["advice"])
            self.assertEqual(self.doctor("--passive", gpus=4, **mpi, **wrong)["job.ranks"]["status"], "ok", wrong)
        for fine in ({}, {"WORLD_SIZE": "8", "RANK": "5", "MASTER_ADDR": "10.0.0.4"}, {"NODE_RANK": "1"},
                     {"WORLD_SIZE": "64", "RANK": "40"}, {"WORLD_SIZE": "8", "RANK": "1", "TORCHELASTIC_RUN_ID": "7"}):
            self.assertEqual(self.doctor(*symptom, gpus=4, **mpi, **fine)["job.ranks"]["status"], "ok", fine)

    def test_a_number_that_a_batch_script_set_once(self):
        symptom = ("--passive", "--only", "job.ranks", "--symptom", "hang_absent")
        slurm = {"SLURM_PROCID": "4", "SLURM_NODEID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0",
                 "SLURM_JOB_NUM_NODES": "2"}
        for name, of in (("RANK", "SLURM_PROCID"), ("NODE_RANK", "SLURM_NODEID")):
            check = self.doctor(*symptom, gpus=4, **slurm, **{name: "0"})["job.ranks"]
            self.assertIn(f"{name}=0, but {of}=", check["found"])
            self.assertIn("in single quotes", check["advice"])
        for fine in ({"RANK": "4"}, {"NODE_RANK": "1"}, {"RANK": "0", "WORLD_SIZE": "1"},
                     {"RANK": "0", "TORCHELASTIC_RUN_ID": "7"}):
            self.assertNotIn("batch script sets", self.doctor(*symptom, gpus=4, **slurm, **fine)["job.ranks"]["found"])

    def test_ranks_that_no_launcher_started(self):
        for symptom, launcher, told in (("hang_absent", {}, True), ("init_error", {}, False),
                                        ("hang_absent", {"WORLD_SIZE": "2"}, False)):
            words = ("--passive", "--only", "job.ranks", "--symptom", symptom)
            check = self.doctor(*words, gpus=2, **launcher)["job.ranks"]
            self.assertEqual("no launcher started the other ranks" in check["found"], told, (symptom, launcher))
            self.assertEqual("srun on each host" in check["advice"], told, (symptom, launcher))

    def test_where_hosts_meet_by_rdma(self):
        words = ("--passive", "--only", "net.interface", "--symptom", "hang_stuck")
        self.assertNotIn("RDMA", self.meeting(*words))
        for file, text in (("state", "4: ACTIVE"), ("link_layer", "InfiniBand"), ("rate", "200 Gb/sec (4X HDR)")):
            self.put(f"sys/class/infiniband/mlx5_0/ports/1/{file}", text + "\n")
        self.put("dev/infiniband/uverbs0")
        self.assertIn("on every port and by RDMA, nor whether they have the same NCCL", self.meeting(*words))
        check = self.doctor(*words, **SEVERAL)["net.interface"]
        self.assertIn("NCCL_IB_DISABLE=1 shows whether it is RDMA", check["advice"])

    def test_p2p_over_pcie(self):
        symptom = ("--passive", "--only", "gpu.p2p_status,version.nccl_bad", "--symptom", "hang_stuck")
        boards = "gpu * links 0\ngpu * capability 8 6\ngpu * name NVIDIA GeForce RTX 3090"
        self.assertEqual(self.causes(*symptom, nvml=boards), ["gpu.p2p_status"])
        self.assertIn("NCCL_P2P_DISABLE=1", self.doctor(*symptom, nvml=boards)["gpu.p2p_status"]["advice"])
        for off in ({"NCCL_P2P_DISABLE": "1"}, {"NCCL_P2P_LEVEL": "NVL"}):
            self.assertNotIn("gpu.p2p_status", self.causes(*symptom, nvml=boards, **off))
        self.assertNotIn("gpu.p2p_status", self.causes(*symptom))  # NVLinks
        self.assertEqual(self.doctor("--passive", nvml=boards)["gpu.p2p_status"]["status"], "ok")

    def test_nvlink_sharp(self):
        hopper = "gpu * capability 9 0\ngpu * name NVIDIA H100"
        dev = {"MUSTER_DEVFS": str(self.root / "dev")}
        symptom = ("--passive", "--only", "gpu.multicast", "--symptom", "init_error")
        check = self.doctor("--passive", nvml=hopper, **dev)["gpu.multicast"]
        self.assertEqual((check["status"], check["found"]), ("ok", "NCCL will try NVLink SHARP"))
        old = {"FAKE_NCCL": "22606"}  # from 2.27.3 on NCCL goes without what is refused
        self.assertEqual(self.causes(*symptom, nvml=hopper, **dev, **old), ["gpu.multicast"])
        self.assertEqual(self.causes(*symptom, nvml=hopper, **dev, FAKE_NCCL="22703"), [])
        insists = {"FAKE_NCCL": "22703", "NCCL_NVLS_ENABLE": "1"}
        self.assertEqual(self.causes(*symptom, nvml=hopper, **dev, **insists), ["gpu.multicast"])
        for off in ({"NCCL_NVLS_ENABLE": "0"}, {"NCCL_ALGO": "^NVLS"}, {"NCCL_ALGO": "Ring"}, {"FAKE_NCCL": "21605"}):
            self.assertEqual(self.causes(*symptom, nvml=hopper, **dev, **{**old, **off}), [], off)
        for none in ("gpu * capability 8 0", f"{hopper}\ngpu * links 0"):  # before Hopper; boards without NVLink
            self.assertEqual(self.causes(*symptom, nvml=none, **dev, **old), [], none)
        self.put(".dockerenv")
        self.assertIn("no /dev/nvidia-caps", self.doctor(*symptom, nvml=hopper, **dev)["gpu.multicast"]["found"])
        self.put("dev/nvidia-caps/nvidia-cap1")
        self.assertNotIn("no /dev/nvidia-caps", self.doctor(*symptom, nvml=hopper, **dev)["gpu.multicast"]["found"])

    def test_nvlink_sharp_in_a_job_of_several_hosts(self):
        hopper = "gpu * capability 9 0\ngpu * name NVIDIA H100"
        symptom = ("--passive", "--only", "gpu.multicast", "--symptom")
        dev = {"MUSTER_DEVFS": str(self.root / "dev")}
        self.assertEqual(self.causes(*symptom, "hang_stuck", nvml=hopper, **dev), ["gpu.multicast"])
        self.assertEqual(self.causes(*symptom, "hang_stuck", nvml=hopper, **dev, **SEVERAL), [])
        self.put(".dockerenv")  # with what this container lacks it is no longer every host of its kind
        self.assertEqual(self.causes(*symptom, "hang_stuck", nvml=hopper, **dev, **SEVERAL), ["gpu.multicast"])
        check = self.doctor(*symptom, "wrong_result", nvml=hopper, **dev)["gpu.multicast"]
        self.assertIn("in no fixed order", check["found"])

    def test_settings_of_channels(self):
        symptom = ("--passive", "--only", "env.unsafe", "--symptom", "hang_stuck")
        self.assertEqual(self.causes(*symptom), [])
        self.assertEqual(self.causes(*symptom, NCCL_NCHANNELS_PER_NET_PEER="4"), ["env.unsafe"])
        check = self.doctor(*symptom, NCCL_NCHANNELS_PER_NET_PEER="4")["env.unsafe"]
        self.assertIn("NCCL_NCHANNELS_PER_NET_PEER=4", check["found"])

    def test_a_topology_file_without_architectures(self):
        symptom = ("--passive", "--only", "env.files", "--symptom", "init_error")
        file = "usr/local/share/aws-ofi-nccl/xml/p5.48xl-topo.xml"
        self.put("sys/module/efa/version", "2.10.0\n")
        for cpu, causes in (('<cpu numaid="0">', ["env.files"]), ('<cpu numaid="0" arch="x86_64">', [])):
            self.put(file, f'<system version="1">{cpu}<pci arch="no"/></cpu></system>')
            self.assertEqual(self.causes(*symptom), causes)
        self.put(file, '<system version="1"><cpu numaid="0"></cpu></system>')
        self.put("etc/nccl.conf", f"NCCL_TOPO_FILE={self.root / file}\n")
        self.assertIn("without arch and vendor", self.doctor(*symptom)["env.files"]["found"])

    def test_a_guest_whose_pci_tree_is_flat(self):
        symptom = ("--passive", "--only", "gpu.virtual", "--symptom", "init_error")
        self.put("sys/class/dmi/id/sys_vendor", "QEMU\n")
        for product, found in (("Standard PC (i440FX + PIIX, 1996)", True), ("Standard PC (Q35 + ICH9, 2009)", False)):
            self.put("sys/class/dmi/id/product_name", f"{product}\n")
            self.assertEqual("i440FX" in self.doctor(*symptom)["gpu.virtual"]["found"], found)

    def test_a_guest_by_the_flags_of_its_cpus(self):
        for flags, found in (("fpu vme hypervisor lahf_lm", "a virtual machine"), ("fpu vme", "no virtual machine")):
            self.put("proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t:\n\n")
            self.assertEqual(self.doctor("--passive")["gpu.virtual"]["found"], found)

    def test_vgpus(self):
        name = "gpu * links 0\ngpu * name {}".format
        for board, status in (("GRID V100DX-32Q", "warning"), ("NVIDIA A100-1-5C", "warning"), ("GRID K520", "ok"),
                              ("NVIDIA H100 80GB HBM3", "ok"), ("Tesla V100-SXM2-16GB", "ok")):
            check = self.doctor("--passive", nvml=name(board))["gpu.virtual"]
            self.assertEqual(check["status"], status, board)
            self.assertEqual("3 vGPUs" in check["found"], status == "warning")

    def test_one_numa_node_a_socket(self):
        symptom = ("--passive", "--only", "host.numa", "--symptom", "slow_transfer")
        for model, nodes, causes in (("AMD EPYC 7742", 2, ["host.numa"]), ("AMD EPYC 7742", 4, []),
                                     ("Intel(R) Xeon(R)", 2, [])):
            self.put("proc/cpuinfo", "".join(f"processor\t: {i}\nmodel name\t: {model}\nphysical id\t: {i // 2}\n\n"
                                             for i in range(4)))
            for node in range(nodes):
                self.put(f"sys/devices/system/node/node{node}/cpulist", f"{node}\n")
            self.assertEqual(self.causes(*symptom), causes, (model, nodes))
            for node in range(nodes):
                (self.root / f"sys/devices/system/node/node{node}/cpulist").unlink()

    def pci(self, chain, code):
        name = chain.rsplit("/", 1)[1]
        for file, text in (("class", code), ("vendor", "0x10de"), ("numa_node", "0")):
            self.put(f"sys/devices/{chain}/{file}", text + "\n")
        (self.root / "sys/bus/pci/devices" / name).symlink_to(f"../../../devices/{chain}")

    def test_a_link_below_what_both_ends_can(self):
        chain = "pci0000:00/0000:00:02.0"
        self.pci(chain, "0x060400")
        self.pci(f"{chain}/0000:10:00.0", "0x030200")
        for below in (chain, f"{chain}/0000:10:00.0"):
            self.put(f"sys/devices/{below}/max_link_width", "16\n")
            self.put(f"sys/devices/{below}/current_link_width", "16\n")
        card = "gpu 0 pci 00000000:10:00.0"
        check = self.doctor("--passive", gpus=1, nvml=card)["gpu.pcie"]
        self.assertEqual(check["status"], "ok", check)
        self.put(f"sys/devices/{chain}/0000:10:00.0/current_link_width", "8\n")
        check = self.doctor("--passive", gpus=1, nvml=card)["gpu.pcie"]
        self.assertEqual(check["status"], "warning", check)

    def test_reads_that_go_by_way_of_the_host(self):
        symptom = ("--passive", "--only", "ib.gdr", "--symptom", "slow_transfer")
        root = "pci0000:00/0000:00:02.0"
        self.pci(root, "0x060400")
        self.pci(f"{root}/0000:02:00.0", "0x060400")
        for port, device, code in (("08", "10", "0x030200"), ("09", "11", "0x020700")):
            self.pci(f"{root}/0000:02:00.0/0000:03:{port}.0", "0x060400")
            self.pci(f"{root}/0000:02:00.0/0000:03:{port}.0/0000:{device}:00.0", code)
        self.put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
        self.put("sys/module/nvidia_peermem/version", "535.104.05\n")
        pcie = "gpu * links 0\ngpu 0 pci 00000000:10:00.0"
        self.assertEqual(self.causes(*symptom, gpus=1, nvml=pcie), ["ib.gdr"])
        self.assertEqual(self.causes(*symptom, gpus=1, nvml=pcie, NCCL_NET_GDR_READ="1"), [])
        self.assertEqual(self.causes(*symptom, gpus=1, nvml="gpu 0 pci 00000000:10:00.0"), [])  # with NVLink

    def test_a_gpu_that_the_driver_does_not_start(self):
        for bus in ("10", "11"):
            self.pci(f"pci0000:{bus}/0000:{bus}:00.0", "0x030200")
        both = "gpu 0 pci 00000000:10:00.0\ngpu 1 pci 00000000:11:00.0"
        self.assertEqual(self.doctor("--passive", gpus=2, nvml=both)["gpu.present"]["status"], "ok")
        for container, advice in ((False, "dmesg | grep NVRM"), (True, "hidden from this container")):
            check = self.doctor("--passive", gpus=1, nvml="gpu 0 pci 00000000:10:00.0")["gpu.present"]
            self.assertIn("2 GPUs in the PCI tree, 1 visible to the driver here", check["evidence"])
            self.assertIn(advice, check["advice"], container)
            self.put(".dockerenv")

    def test_what_passes_inside_a_host_where_it_has_one_rank(self):
        for several, status in ((SEVERAL, "ok"), ({}, "warning")):
            check = self.doctor("--passive", gpus=1, NCCL_SHM_DISABLE="1", **several)["env.costly"]
            self.assertEqual(check["status"], status, check)
            off = {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}
            check = self.doctor("--passive", gpus=1, **off, **several)["env.unsafe"]
            self.assertEqual(check["status"], status, check)

    def test_the_bridge_of_virtual_machines(self):
        """virbr0, which NCCL leaves for last from 2.28.3 on."""
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n  virbr0: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n"
                 "virbr0\t007AA8C0\t00000000\t0001\t0\t0\t1\t00FFFFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 10.1.0.7\n              /32 host LOCAL\n"
                 "           |-- 192.168.122.1\n              /32 host LOCAL\n")
        symptom = ("--passive", "--symptom", "hang_absent", "--only", "net.interface")
        for version, taken in (("22707", True), ("22803", False)):
            check = self.doctor(*symptom, FAKE_NCCL=version, **SEVERAL)["net.interface"]
            self.assertEqual("data also takes virbr0" in check["found"], taken, check)
        check = self.doctor(*symptom, FAKE_NCCL="22707", NCCL_SOCKET_IFNAME="eth0", **SEVERAL)["net.interface"]
        self.assertNotIn("virbr0", check["found"])

    def test_shared_memory_that_nobody_chose(self):
        """docker's 64 MiB, which one rank's NCCL does not fill by itself."""
        symptom = ("--passive", "--symptom", "hang_dead", "--only", "limit.shm")
        for container, mib, several, causes in ((True, 64, SEVERAL, ["limit.shm"]), (True, 64, {}, []),
                                                (True, 128, SEVERAL, []), (False, 64, SEVERAL, [])):
            self.put("dev/shm.df", f"Filesystem 1B-blocks Used Available\nshm {mib << 20} 0 {mib << 20}\n")
            if container:
                self.put(".dockerenv")
            else:
                (self.root / ".dockerenv").unlink()
            dev = {"MUSTER_DEVFS": str(self.root / "dev")}
            self.assertEqual(self.causes(*symptom, gpus=1, **dev, **several), causes, (container, mib, several))

    def test_too_little_shared_memory_where_a_job_hangs(self):
        """Ranks may wait for a buffer that one of them could not have (HugeCTR#243, xgboost#5963)."""
        for mib, causes in ((64, ["limit.shm"]), (1024, [])):
            self.put("dev/shm.df", f"Filesystem 1B-blocks Used Available\nshm {mib << 20} 0 {mib << 20}\n")
            for symptom in ("hang_stuck", "hang_absent"):
                self.assertEqual(self.causes("--passive", "--symptom", symptom, "--only", "limit.shm", gpus=4,
                                             MUSTER_DEVFS=str(self.root / "dev")), causes, (mib, symptom))


if __name__ == "__main__":
    unittest.main()
