"""Twenty further threads with a confirmed cause, found by search and rebuilt before muster doctor had been
run on any of them. What a thread does not tell is sound.

usage: doctor_threads_more.py MUSTER FOLDER:FOLDER
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from doctor_threads import FAKES, evaluate  # noqa: E402 pylint: disable=wrong-import-position


def redirecting():
    """PCI configuration of a bridge with ACS: 0x1d, as lspci shows it in these threads."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x000d | 0x200 << 20).to_bytes(4, "little")
    config[0x106] = 0x1d
    return bytes(config)


def consumer(host, gpus, name, capability):
    host.gpus = gpus
    host.nvml.append(f"gpu * name {name}\ngpu * links 0\ngpu * capability {capability}")


def small_shm(host, mib):
    host.put(".dockerenv")
    host.put("dev/shm.df", "Filesystem 1B-blocks Used Available\n"
             f"shm {mib << 20} 0 {mib << 20}\n")


def acs_on_root_ports(host):  # NVIDIA/nccl#2079: bridges of an AMD root complex
    consumer(host, 2, "NVIDIA RTX 5880 Ada Generation", "8 9")
    for root, bus in (("40", "41"), ("60", "61")):
        port = f"pci0000:{root}/0000:{root}:03.1"
        host.pci(port, "0x060400", "0x1022")
        (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
        host.pci(f"{port}/0000:{bus}:00.0", "0x030000")


def acs_and_gdr(host):  # NVIDIA/nccl#304: a crash only with GPUDirect RDMA
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="100 Gb/sec (4X EDR)")
    host.nvml.append("gpu * name Tesla V100-PCIE-32GB\ngpu * links 0\ngpu * capability 7 0")
    host.pci("pci0000:00/0000:00:02.0", "0x060400", "0x8086")
    for i in range(8):
        port = f"pci0000:00/0000:00:02.0/0000:02:{i + 8:02x}.0"
        host.pci(port, "0x060400", "0x10b5")
        (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
        host.pci(f"{port}/0000:1{i}:00.0", "0x030200")


def intel_iommu(host):  # NVIDIA/nccl#257: intel_iommu=off cured it
    consumer(host, 4, "NVIDIA GeForce GTX 1080 Ti", "6 1")
    for root, buses in (("00", ("02", "03")), ("80", ("82", "83"))):
        for i, bus in enumerate(buses):
            port = f"pci0000:{root}/0000:{root}:0{i + 2}.0"
            host.pci(port, "0x060400", "0x8086")
            host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
    for group in range(40):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet intel_iommu=on\n")


def acs_of_the_board(host):  # soumith/imagenet-multiGPU.torch#59: slow, PCIe x16, 32 cores
    consumer(host, 4, "NVIDIA GeForce GTX TITAN X", "5 2")
    host.put("proc/self/status", "Cpus_allowed_list:\t0-31\nCapEff:\t000001ffffffffff\n")
    for i in range(4):
        port = f"pci0000:00/0000:00:0{i + 1}.0"
        host.pci(port, "0x060400", "0x8086")
        (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
        host.pci(f"{port}/0000:0{i + 1}:00.0", "0x030000")


def shm_of_docker(host):  # NVIDIA/nccl#342
    consumer(host, 4, "NVIDIA GeForce RTX 2080", "7 5")
    small_shm(host, 64)


def shm_of_a_workflow(host):  # pytorch/torchtitan#853
    host.nvml.append("gpu * name NVIDIA H100 80GB HBM3\ngpu * capability 9 0")
    small_shm(host, 16)


def no_efa_plugin(host):  # NVIDIA-NeMo/RL#1973: the libraries are there, the loader does not look
    host.several_hosts()
    host.rdma([f"rdmap{i}s0" for i in range(4)], "Unspecified", "100 Gb/sec (4X EDR)")
    host.put(".dockerenv")
    host.put("sys/module/efa/version", "2.10.0\n")
    host.put("sys/module/efa_nv_peermem/version", "1.1.0\n")
    for i in range(4):
        host.put(f"sys/class/infiniband/rdmap{i}s0/device/vendor", "0x1d0f\n")
    host.libraries = ["libibverbs.so.1"]


def one_subnet(host):  # NVIDIA/nccl#1581: two interfaces in 192.168.0.0/20
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GeForce RTX 3090", "8 6")
    host.env.update(NCCL_SOCKET_IFNAME="enp37s0f0")
    host.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eno1: 1 2 3\n"
             "enp37s0f0: 1 2 3\n")
    host.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
             "eno1\t0000A8C0\t00000000\t0001\t0\t0\t100\t00F0FFFF\t0\t0\t0\n"
             "enp37s0f0\t0000A8C0\t00000000\t0001\t0\t0\t100\t00F0FFFF\t0\t0\t0\n")
    host.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
             "           |-- 192.168.3.15\n              /32 host LOCAL\n"
             "           |-- 192.168.5.15\n              /32 host LOCAL\n")
    for name in ("eno1", "enp37s0f0"):
        host.put(f"sys/class/net/{name}/mtu", "1500\n")
        host.put(f"sys/class/net/{name}/operstate", "up\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n192.168.3.15 node1\n")


def anothers_interface(host):  # NVIDIA/nccl-tests#219: one host has enp4s0, this one enp6s0
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GeForce RTX 3090", "8 6")
    host.env.update(NCCL_SOCKET_IFNAME="enp4s0")


def old_cuda_driver(host):  # PaddlePaddle/Paddle#8195: NCCL for CUDA 9.1, a driver for 8.0
    consumer(host, 4, "Tesla P40", "6 1")
    host.nvml.append("cuda 8000\ndriver 375.26")
    for folder in FAKES.split(":"):
        for name in sorted(os.listdir(folder)):
            if name.startswith("libnccl.so"):
                data = pathlib.Path(folder, name).read_bytes()
                data = data.replace(b"NCCL version 2.", b"NCCX version 2.")
                to = host.root / "lib/libnccl.so.2"
                to.parent.mkdir(exist_ok=True)
                to.write_bytes(data + b"\0NCCL version 2.1.4+cuda9.1\0")
                host.extra["args"] = ["--nccl", str(to)]
                return


def fabric_in_progress(host):  # NVIDIA/gpu-operator#2781: B200, error 802 from CUDA
    host.nvml.append("gpu * name NVIDIA B200\ngpu * capability 10 0\ngpu * fabric 2 0")
    host.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1")


def no_ipc_lock(host):  # microsoft/mscclpp#335: docker with --device, without IPC_LOCK
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.put(".dockerenv")
    host.limits["memlock"] = 64 << 10
    host.put("proc/self/status", "Cpus_allowed_list:\t0-127\nCapEff:\t00000000a80425fb\n")


def memlock_of_slurm(host):  # ai4d-iasc/trixie#81: systemd ignores limits.conf
    host.several_hosts(local=4)
    host.gpus = 4
    host.nvml.append("gpu * name Tesla V100-SXM2-32GB\ngpu * links 6\ngpu * capability 7 0")
    host.rdma(["mlx5_0"], rate="100 Gb/sec (4X EDR)")
    host.limits["memlock"] = 64 << 10
    host.put("etc/security/limits.conf", "* soft memlock unlimited\n* hard memlock unlimited\n")


def peermem_on_one_node(host):  # NVIDIA/nccl#897: this is the node without it; 8 GPUs, 3 NICs
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(3)], rate="200 Gb/sec (4X HDR)")
    for name in ("sys/module/nvidia_peermem/version", "sys/kernel/mm/memory_peers/nv_mem/version"):
        host.remove(name)
        (host.root / name).parent.rmdir()
    host.put("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  515.65.01\n")


def peermem_not_registered(host):  # NVIDIA/nccl#1939: loaded, but the RDMA stack knows of none
    host.several_hosts(local=1)
    host.gpus = 1
    host.rdma(["mlx5_0"], "Ethernet", "100 Gb/sec (4X EDR)")
    host.remove("sys/kernel/mm/memory_peers/nv_mem/version")
    (host.root / "sys/kernel/mm/memory_peers/nv_mem").rmdir()
    host.put("proc/sys/kernel/osrelease", "6.8.0-90-generic\n")
    host.put("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n")


def link_local_gid(host):  # NVIDIA/nccl#769: GID 1 is RoCE v2 of a link-local address
    host.several_hosts()
    host.rdma(["mlx5_bond_0"], "Ethernet", "200 Gb/sec (4X HDR)", net="bond0")
    gids = ("fe80:0000:0000:0000:0ac0:ebff:feda:1cfb",) * 2 + \
        ("0000:0000:0000:0000:0000:ffff:c800:d106",) * 2
    below = "sys/class/infiniband/mlx5_bond_0/ports/1"
    for i, gid in enumerate(gids):
        host.put(f"{below}/gids/{i}", gid + "\n")
        host.put(f"{below}/gid_attrs/types/{i}", ("RoCE v2" if i % 2 else "IB/RoCE v1") + "\n")
    host.env.update(NCCL_IB_GID_INDEX="1")


def loopback_of_ubuntu(host):  # ray-project/ray#37461: 127.0.1.1 in /etc/hosts
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GeForce RTX 3090", "8 6")
    host.put("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 node1\n")


def openmp_of_every_rank(host):  # FlashML-org/FreeToken#371: few cores, OMP_NUM_THREADS unset
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    host.env.update(LOCAL_WORLD_SIZE="4", WORLD_SIZE="4")
    host.put("proc/self/status", "Cpus_allowed_list:\t0-7\nCapEff:\t000001ffffffffff\n")
    host.put("sys/devices/system/cpu/online", "0-7\n")


def firewall_between(host):  # sgl-project/sglang#3794: two hosts of eight A100
    host.several_hosts()
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    host.put("etc/ufw/ufw.conf", "ENABLED=yes\nLOGLEVEL=low\n")


def ten_peers(host):  # NVIDIA/nccl#241: ten GPUs on PCIe, of which each can have eight peers
    consumer(host, 10, "NVIDIA TITAN RTX", "7 5")


THREADS = (
    ("nccl#2079", acs_on_root_ports, "hang_stuck", "gpu.acs"),
    ("nccl#304", acs_and_gdr, "init_error", "gpu.acs"),
    ("nccl#257", intel_iommu, "hang_stuck", "gpu.iommu"),
    ("imagenet-multiGPU.torch#59", acs_of_the_board, "slow_transfer", "gpu.acs"),
    ("nccl#342", shm_of_docker, "init_error", "limit.shm"),
    ("torchtitan#853", shm_of_a_workflow, "init_error", "limit.shm"),
    ("NeMo-RL#1973", no_efa_plugin, "slow_transfer", "ib.libraries"),
    ("nccl#1581", one_subnet, "init_error", "net.subnet"),
    ("nccl-tests#219", anothers_interface, "init_error", "net.interface"),
    ("Paddle#8195", old_cuda_driver, "init_error", "version.cuda"),
    ("gpu-operator#2781", fabric_in_progress, "init_error", "gpu.fabric"),
    ("mscclpp#335", no_ipc_lock, "init_error", "limit.memlock"),
    ("trixie#81", memlock_of_slurm, "init_error", "limit.memlock"),
    ("nccl#897", peermem_on_one_node, "slow_transfer", "ib.gdr"),
    ("nccl#1939", peermem_not_registered, "slow_transfer", "ib.gdr"),
    ("nccl#769", link_local_gid, "init_error", "ib.gid"),
    ("ray#37461", loopback_of_ubuntu, "init_error", "net.names"),
    ("FreeToken#371", openmp_of_every_rank, "late_rank", "limit.threads"),
    ("sglang#3794", firewall_between, "init_error", "net.firewall"),
    ("nccl#241", ten_peers, "init_error", "gpu.peers"),
)

if __name__ == "__main__":
    evaluate(THREADS)
