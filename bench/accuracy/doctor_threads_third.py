"""Ten more threads with a confirmed cause, found by search and rebuilt before muster doctor had been run on
any of them. What a thread does not tell is sound.

usage: doctor_threads_third.py MUSTER FOLDER:FOLDER
"""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from doctor_threads import evaluate  # noqa: E402 pylint: disable=wrong-import-position


def consumer(host, gpus, name, capability):
    host.gpus = gpus
    host.nvml.append(f"gpu * name {name}\ngpu * links 0\ngpu * capability {capability}")


def docker_shm(host):
    """docker's own: --ipc=host cured it."""
    host.put(".dockerenv")
    host.put("dev/shm.df", "Filesystem 1B-blocks Used Available\n"
             f"shm {64 << 20} 0 {64 << 20}\n")


def four_in_docker(host):  # NVIDIA/nccl#473
    consumer(host, 4, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    docker_shm(host)


def two_in_docker(host):  # HRNet/DEKR#18
    consumer(host, 2, "NVIDIA GeForce GTX 1080 Ti", "6 1")
    docker_shm(host)


def no_interface(host):  # NVIDIA/nccl-tests#14: --net host cured it
    host.put(".dockerenv")
    host.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n")
    host.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n")
    host.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n")


def veth(host):  # pytorch/pytorch#68893: NCCL_SOCKET_IFNAME=ens5 cured it
    consumer(host, 1, "Tesla T4", "7 5")
    host.several_hosts(local=1)
    host.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  ens5: 1 2 3\n"
             "vethe2e6725: 1 2 3\n")
    host.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
             "ens5\t00501FAC\t00000000\t0001\t0\t0\t1\t00F0FFFF\t0\t0\t0\n")
    host.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
             "           |-- 172.31.92.218\n              /32 host LOCAL\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n172.31.92.218 node1\n")
    host.put("proc/net/if_inet6", "fe80000000000000581148fffea8315f 03 40 20 80 vethe2e6725\n")
    host.put("sys/class/net/ens5/operstate", "up\n")
    host.put("sys/class/net/vethe2e6725/operstate", "up\n")
    host.put("sys/devices/virtual/net/vethe2e6725/mtu", "1500\n")


def fabric_manager_of_another_version(host):  # Azure/azhpc-images#86: after apt-get upgrade
    host.nvml.append("gpu * name NVIDIA A100-SXM4-40GB\ngpu * links 12\ngpu * capability 8 0")
    host.nvml.append("gpu * fabric 0 0")
    host.env.update(FAKE_INIT="802")
    host.extra["active"] = True


def compat_older_than_the_driver(host):  # espressomd/espresso#4090
    consumer(host, 1, "NVIDIA GeForce GTX 1080", "6 1")
    host.nvml.append("driver 450.102.04")
    host.put(".dockerenv")
    host.put("usr/local/cuda-11.0/compat/libcuda.so.450.80.02")
    host.env.update(LD_LIBRARY_PATH=f"{host.fakes}:{host.root}/lib:"
                                    f"{host.root}/usr/local/cuda-11.0/compat")


def loopback_let_in(host):  # horovod/horovod#666: ^docker0,lo cured it
    consumer(host, 4, "Tesla P100-PCIE-16GB", "6 0")
    host.several_hosts(local=4)
    host.env.update(NCCL_SOCKET_IFNAME="^docker0")


def small_container(host):  # awslabs/awsome-distributed-ai#312: 8 GB for eight ranks
    host.nvml.append("gpu * name NVIDIA A100-SXM4-40GB\ngpu * links 12\ngpu * capability 8 0")
    host.several_hosts()
    host.rdma([f"rdmap{n}s6" for n in range(4)], "Unspecified", "100 Gb/sec (4X EDR)")
    shutil.rmtree(host.root / "sys/module/nvidia_peermem")
    shutil.rmtree(host.root / "sys/kernel/mm")
    host.put("sys/module/efa_nv_peermem/version", "1.2.0\n")
    host.libraries = ["libibverbs.so.1", "libfabric.so.1", "libnccl-net.so"]
    host.env.update(KUBERNETES_SERVICE_HOST="10.96.0.1")
    host.put("sys/fs/cgroup/memory.max", f"{8 << 30}\n")
    host.put("sys/fs/cgroup/memory.current", f"{1 << 30}\n")


def no_gdr(host):  # NVIDIA/nccl#1412: with it 93 GB/s instead of 33
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(4)])
    shutil.rmtree(host.root / "sys/module/nvidia_peermem")
    shutil.rmtree(host.root / "sys/kernel/mm")
    host.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54\n")


def nofile_over_two_nodes(host):  # skypilot-org/skypilot#3004: two nodes of four V100
    host.gpus = 4
    host.nvml.append("gpu * name Tesla V100-SXM2-16GB\ngpu * links 6\ngpu * capability 7 0")
    host.several_hosts(local=4)
    host.limits["nofile"] = 1024


THREADS = (
    ("nccl#473", four_in_docker, "init_error", "limit.shm"),
    ("DEKR#18", two_in_docker, "init_error", "limit.shm"),
    ("nccl-tests#14", no_interface, "init_error", "net.interface"),
    ("pytorch#68893", veth, "init_error", "net.interface"),
    ("azhpc-images#86", fabric_manager_of_another_version, "init_error", "gpu.fabric"),
    ("espresso#4090", compat_older_than_the_driver, "init_error", "version.compat"),
    ("horovod#666", loopback_let_in, "init_error", "net.interface"),
    ("awsome-distributed-ai#312", small_container, "hang_dead", "limit.memory"),
    ("nccl#1412", no_gdr, "slow_transfer", "ib.gdr"),
    ("skypilot#3004", nofile_over_two_nodes, "init_error", "limit.nofile"),
)

if __name__ == "__main__":
    evaluate(THREADS)
