"""Thirty of 131 threads that were read for their causes, drawn (seed 2026) before anything was mended for them.

usage: doctor_threads_mined.py [--dry | --report THREAD] MUSTER FOLDER:FOLDER
"""

import shutil

from doctor_threads_fourth import efa, main, nccl, p5, workstation
from doctor_threads_more import consumer, small_shm


def container(host):
    host.put(".dockerenv")


def pod(host):
    host.put("proc/self/cgroup", "0::/kubepods/pod1\n")
    host.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1")


def no_efa_devices(host):  # aws/aws-ofi-nccl#803: docker --device of the EFA files cured it
    host.several_hosts()
    p5(host)
    efa(host, 32)
    shutil.rmtree(host.root / "dev/infiniband")
    container(host)
    nccl(host, "2.25.1", "+cuda12.4")


def nvls_hang(host):  # NVIDIA/nccl-tests#216: NCCL_NVLS_ENABLE=0 cured it
    p5(host)
    container(host)
    nccl(host, "2.19.3", "+cuda12.3")


def kernel_abi(host):  # k8snetworkplumbingwg/sriov-cni#348: libibverbs has no driver for the kernel's bnxt_re
    host.several_hosts()
    pod(host)
    host.rdma([f"bnxt_re{i}" for i in range(2)], "Ethernet", "100 Gb/sec (4X EDR)")
    for i in range(2):
        host.put(f"sys/class/infiniband/bnxt_re{i}/device/vendor", "0x14e4\n")
        host.put(f"sys/class/infiniband_verbs/uverbs{i}/abi_version", "6\n")
    host.libraries = ["libibverbs.so.1"]


def older_nccl_shadows(host):  # pytorch/pytorch#119072: torch 2.2 loads an older NCCL that is first
    consumer(host, 2, "NVIDIA A100-PCIE-40GB", "8 0")
    host.put("usr/local/lib/python3.10/dist-packages/torch/version.py",
             "__version__ = '2.2.0+cu121'\ncuda = '12.1'\n")
    lib = "usr/local/lib/python3.10/dist-packages/nvidia/nccl/lib/libnccl.so.2"
    host.put(lib, "\0NCCL version 2.19.3+cuda12.3\0")
    nccl(host, "2.18.3", "+cuda12.1")
    host.env["VIRTUAL_ENV"] = str(host.root / "usr/local")


def no_libcudart(host):  # aws/aws-ofi-nccl#244: the plugin wants libcudart.so
    host.several_hosts()
    p5(host)
    efa(host, 32)
    pod(host)
    nccl(host, "2.18.3", "+cuda12.2")


def nccl_2_18(host):  # NVIDIA/nccl-tests#275: 2.19.3 cured an internal error
    consumer(host, 4, "NVIDIA A100-PCIE-40GB", "8 0")
    nccl(host, "2.18.1", "+cuda12.1")


def no_hwloc(host):  # PrimeIntellect-ai/prime-rl#3452: the plugin is there, libhwloc.so.15 is not
    host.several_hosts()
    p5(host)
    efa(host, 32)
    container(host)
    host.libraries = ["libibverbs.so.1", "libfabric.so.1"]
    host.put("opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so")
    nccl(host, "2.28.9", "+cuda13.0")


def two_models(host):  # ray-project/ray_lightning#24: boards without P2P
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("p2p * * 5")
    nccl(host, "2.7.8", "+cuda11.0")


def multicast(host):  # NVIDIA/nccl#1788: worked for a month, NCCL_NVLS_ENABLE=0 cures
    p5(host)
    host.nvml.append("driver 575.51.03\ncuda 12090")
    nccl(host, "2.26.2", "+cuda12.9")


def nodes(host, cpus, memory):
    for i, (cpu, mem) in enumerate(zip(cpus, memory)):
        host.put(f"sys/devices/system/node/node{i}/cpulist", cpu + "\n")
        host.put(f"sys/devices/system/node/node{i}/meminfo", f"Node {i} MemTotal:  {mem} kB\n")
    host.put("sys/devices/system/node/online", f"0-{len(cpus) - 1}\n")


def node_without_cpus(host):  # NVIDIA/nccl#2190: cuMem host memory works on one node, not on another
    host.nvml.append("gpu * name NVIDIA H20\ngpu * capability 9 0")
    container(host)
    nodes(host, ["0-127", ""], [500000000, 500000000])
    nccl(host, "2.28.9", "+cuda12.8")


def no_gid(host):  # NVIDIA/nccl#426: NCCL_IB_GID_INDEX=3 cured it
    host.several_hosts()
    host.rdma(["mlx5_0"], "Ethernet", "100 Gb/sec (4X EDR)")
    for i, kind in enumerate(("IB/RoCE v1", "RoCE v2", "IB/RoCE v1")):
        host.put(f"sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/{i}", kind + "\n")
        host.put(f"sys/class/infiniband/mlx5_0/ports/1/gids/{i}",
                 "fe80:0000:0000:0000:0e42:a1ff:fe2c:0001\n" if i < 2 else
                 "0000:0000:0000:0000:0000:ffff:0a19:0001\n")
    host.nvml.append("gpu * name Tesla V100-SXM2-32GB\ngpu * links 6\ngpu * capability 7 0")
    nccl(host, "2.7.8", "+cuda11.0")


def sidecar(host):  # kubeflow/trainer#1636: without the service mesh it runs
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA A100-PCIE-40GB", "8 0")
    pod(host)
    host.put("etc/istio/proxy/.keep")
    listening(host, 15001, 15006, 15020, 15090)


def listening(host, *ports):
    host.put("proc/net/tcp", "  sl  local_address rem_address   st\n" + "".join(
        f"   {i}: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1337"
        f"        0 {i + 1000}\n" for i, port in enumerate(ports)))


def ten_gpus(host):  # tensorflow#30887
    consumer(host, 10, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    nccl(host, "2.4.7", "+cuda10.0")


def asymmetric_numa(host):  # NVIDIA/nccl#2106: all memory on one of two nodes; a crash in cuMemCreate
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    nodes(host, ["0-63", "64-127"], [128000000, 0])
    nccl(host, "2.28.9", "+cuda12.8")


def no_peermem(host):  # NVIDIA/nccl#489
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="100 Gb/sec (4X EDR)")
    shutil.rmtree(host.root / "sys/module/nvidia_peermem")
    shutil.rmtree(host.root / "sys/kernel/mm")
    host.put("proc/sys/kernel/osrelease", "3.10.0-957.el7.x86_64\n")
    host.nvml.append("gpu * name Tesla V100-SXM2-32GB\ngpu * links 6\ngpu * capability 7 0")


def graph(host):  # NVIDIA/nccl#1008: /etc/nccl.conf
    consumer(host, 2, "NVIDIA A100 80GB PCIe", "8 0")
    host.put("opt/microsoft/ncv4/topo.xml", "<system/>\n")
    host.put("opt/microsoft/ncv4/graph.xml", "<graphs/>\n")
    host.put("etc/nccl.conf", f"NCCL_TOPO_FILE={host.root}/opt/microsoft/ncv4/topo.xml\n"
             f"NCCL_GRAPH_FILE={host.root}/opt/microsoft/ncv4/graph.xml\n")


def launcher_pod(host):  # kubeflow/trainer#1681
    sidecar(host)


def istio_and_rdma(host):  # NVIDIA/nccl-tests#248
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA RTX 6000 Ada Generation", "8 9")
    pod(host)
    listening(host, 15001, 15006, 15021)


def two_ports_a_nic(host):  # NVIDIA/nccl#1043: NVLS with cards of two ports, to 2.19.3
    p5(host)
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    nccl(host, "2.19.3", "+cuda12.2")


def each_task_its_gpu(host):  # NVIDIA/nccl-tests#300: one GPU visible a task, -g 2
    consumer(host, 2, "NVIDIA A100 80GB PCIe", "8 0")
    host.env.update(SLURM_NTASKS="2", SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NNODES="1",
                    SLURM_NTASKS_PER_NODE="2", SLURM_GPUS_PER_TASK="1", CUDA_VISIBLE_DEVICES="0",
                    SLURM_STEP_GPUS="0")


def cross_numa(host):  # NVIDIA/nccl-tests#347: four NICs for eight GPUs, both sides of the machine
    host.several_hosts()
    p5(host)
    for socket in range(2):
        for i in range(4):
            root = f"{socket * 8 + i + 1:x}0"
            port = f"pci0000:{root}/0000:{root}:01.0"
            host.pci(port, "0x060400", "0x8086")
            host.pci(f"{port}/0000:{root[0]}4:00.0", "0x030200")
            host.put(f"sys/devices/{port}/0000:{root[0]}4:00.0/numa_node", f"{socket}\n")
            if i < 2:
                host.pci(f"pci0000:{root}/0000:{root}:02.0", "0x060400", "0x8086")
                host.pci(f"pci0000:{root}/0000:{root}:02.0/0000:{root[0]}5:00.0", "0x020700", "0x15b3")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="400 Gb/sec (4X NDR)")


def no_p2p(host):  # sgl-project/sglang#1509
    consumer(host, 2, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("p2p * * 5")
    nccl(host, "2.20.5", "+cuda12.4")


def huge_pages(host):  # openucx/ucx#8999
    host.several_hosts()
    host.rdma(["mlx5_0"])
    pod(host)
    host.put("proc/meminfo", "MemTotal: 1000000000 kB\nMemAvailable: 900000000 kB\n"
             "HugePages_Total: 1024\nHugePages_Free: 1024\nHugepagesize: 2048 kB\n")
    host.put("sys/fs/cgroup/hugetlb.2MB.max", "0\n")


def launch_blocking(host):  # NVIDIA/nccl#750
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(4)])
    host.env["CUDA_LAUNCH_BLOCKING"] = "1"
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    nccl(host, "2.14.3", "+cuda11.7")


def shm(host):  # NVIDIA/nccl#473
    consumer(host, 4, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    small_shm(host, 64)
    nccl(host, "2.8.4", "+cuda11.2")


def h100_runner(host):  # pytorch/ao#3841
    host.gpus = 4
    p5(host)
    container(host)
    nccl(host, "2.28.9", "+cuda12.8")


def one_gpu_a_node(host):  # NVIDIA/nccl#394
    host.several_hosts(nodes=40, local=1)
    host.gpus = 1
    host.nvml.append("gpu * name Tesla V100-PCIE-32GB\ngpu * links 0\ngpu * capability 7 0")
    container(host)
    nccl(host, "2.5.7", "+cuda10.0")


def docker_bridge(host):  # pytorch/pytorch#23363: --network=host cured it
    host.several_hosts()
    container(host)
    host.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
             "eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
             "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    host.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
             "           |-- 172.17.0.2\n              /32 host LOCAL\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n172.17.0.2 node1\n")
    host.env.update(MASTER_ADDR="10.30.112.212", MASTER_PORT="10087")


def p2p_of_3090s(host):  # pytorch/pytorch#73496: NCCL_P2P_LEVEL=NVL cured it
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    for i, root in enumerate(("00", "20", "40", "60")):
        port = f"pci0000:{root}/0000:{root}:01.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{i * 32 + 1:02x}:00.0", "0x030000")
    for group in range(30):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet\n")


THREADS = [
    ("aws-ofi-nccl#803", no_efa_devices, "init_error", ("ib.devices",), ""),
    ("nccl-tests#216", nvls_hang, "hang_stuck", (), "NVLS"),
    ("sriov-cni#348", kernel_abi, "slow_transfer", ("ib.libraries",), ""),
    ("pytorch#119072", older_nccl_shadows, "init_error", ("version.nccl",), "older"),
    ("aws-ofi-nccl#244", no_libcudart, "init_error", (), "libcudart"),
    ("nccl-tests#275", nccl_2_18, "init_error", ("version.nccl_bad",), ""),
    ("prime-rl#3452", no_hwloc, "slow_transfer", ("ib.libraries", "net.plugin"), ""),
    ("ray_lightning#24", two_models, "init_error", ("gpu.p2p_status",), ""),
    ("nccl#1788", multicast, "init_error", (), "NVLS"),
    ("nccl#2190", node_without_cpus, "init_error", (), "NUMA"),
    ("nccl#426", no_gid, "init_error", ("ib.gid", "version.nccl_bad"), "GID"),
    ("trainer#1636", sidecar, "hang_stuck", (), "(?i)mesh|istio"),
    ("tensorflow#30887", ten_gpus, "init_error", ("gpu.peers",), ""),
    ("nccl#2106", asymmetric_numa, "init_error", (), "NUMA"),
    ("nccl#489", no_peermem, "slow_transfer", ("ib.gdr",), ""),
    ("nccl#1008", graph, "init_error", (), "NCCL_GRAPH_FILE"),
    ("trainer#1681", launcher_pod, "init_error", (), "(?i)mesh|istio"),
    ("nccl-tests#248", istio_and_rdma, "init_error", (), "(?i)mesh|istio"),
    ("nccl#1043", two_ports_a_nic, "init_error", (), "NVLS|NVLink SHARP"),
    ("nccl-tests#300", each_task_its_gpu, "init_error", ("job.ranks", "gpu.present"), ""),
    ("nccl-tests#347", cross_numa, "slow_transfer", ("gpu.nic", "limit.near", "host.numa"), ""),
    ("sglang#1509", no_p2p, "init_error", ("gpu.p2p_status",), ""),
    ("ucx#8999", huge_pages, "init_error", ("host.hugepages",), ""),
    ("nccl#750", launch_blocking, "hang_stuck", (), "CUDA_LAUNCH_BLOCKING"),
    ("nccl#473", shm, "init_error", ("limit.shm",), ""),
    ("ao#3841", h100_runner, "init_error", (), "NVLS"),
    ("nccl#394", one_gpu_a_node, "hang_stuck", ("version.nccl_bad",), "one GPU a host"),
    ("vllm#9920", workstation, "hang_stuck", ("gpu.acs", "gpu.iommu"), ""),
    ("pytorch#23363", docker_bridge, "init_error", ("net.interface", "net.names"), ""),
    ("pytorch#73496", p2p_of_3090s, "hang_stuck", ("gpu.iommu",), ""),
]


if __name__ == "__main__":
    main(THREADS)
