"""Thirteen further threads of clusters, clouds and servers of models, with a confirmed cause, rebuilt without reading
doctor's answers: every second of twenty-nine in the order in which they were found; doctor was mended by what the
others taught (doctor_threads_eleventh_tuned.py) before it was run on these.

usage: doctor_threads_eleventh.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text is given as
host.log where the thread shows it; --without-log leaves it out. The words only sort the answers; what counts is
the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, interfaces, pod
from doctor_threads_fourth import efa, main_said, nccl, p5
from doctor_threads_more import consumer, small_shm
from doctor_threads_seventh import hopper


def three_ranks_on_two(host):  # NVIDIA/nccl#1241: one rank per GPU cured it
    host.several_hosts(local=3)
    consumer(host, 2, "Tesla V100S-PCIE-32GB", "7 0")
    host.put(".dockerenv")
    nccl(host, "2.17.1", "+cuda12.0")
    host.log = ("NCCL error in: /opt/pytorch/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1287, invalid usage, "
                "NCCL version 2.17.1\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n")


def no_uvm(host):  # NVIDIA/pyxis#81: modprobe nvidia_uvm cured it
    host.several_hosts()
    a100(host, "40GB")
    efa(host, 4)
    for name in (*(f"nvidia{i}" for i in range(8)), "nvidiactl"):
        host.put(f"dev/{name}")
    host.put("sys/module/nvidia/version", "510.47.03\n")
    host.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  510.47.03\n")
    host.put("proc/devices", "Character devices:\n  1 mem\n195 nvidia-frontend\n231 infiniband_verbs\n")
    host.nvml.append("cuda 11060\ndriver 510.47.03")
    nccl(host, "2.12.10", "+cuda11.6")
    host.log = ("compute-od-gpu-dy-p4d-24xlarge-1: Test CUDA failure common.cu:1045 'unknown error'\n"
                " .. compute-od-gpu-dy-p4d-24xlarge-1 pid 8575: Test failure common.cu:1007\n")


def slingshot_without_plugin(host):  # CliMA/Oceananigans.jl#5445: the OFI plugin cured it
    host.several_hosts(local=4)
    host.gpus = 4
    host.nvml.append("gpu * name NVIDIA A100-SXM4-40GB\ngpu * links 12\ngpu * capability 8 0")
    for i in range(4):
        host.put(f"sys/class/cxi/cxi{i}/device/uevent", "DRIVER=cxi_ss1\n")
        host.put(f"dev/cxi{i}")
    host.libraries = ["libfabric.so.1"]
    nccl(host, "2.27.7", "+cuda12.9")


def one_name_of_two_hosts(host):  # horovod/horovod#110: another hostname cured it
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GeForce GTX 1080", "6 1")
    host.nvml.append("cuda 8000\ndriver 384.111")
    interfaces(host, ("enp0s31f6", "192.168.2.243", "A8C0"))
    host.put("proc/sys/kernel/hostname", "mtk\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n192.168.2.243 mtk\n")
    nccl(host, "2.1.2", "+cuda8.0")
    host.log = ("NCCL version 2.1.2+cuda8.0\nmtk:2521:2528 [0] INFO 0 -> 1 via P2P/IPC\n"
                "mtk:2521:2528 [0] INFO 0 -> 1 via P2P/IPC\n")


def machine_without_ats(host):  # NVIDIA/nccl#949: ATS and ACS's direct translated on the VM's host cured it, 48 GB/s
    host.several_hosts()
    a100(host)
    host.put("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu sse2 hypervisor\n")
    host.put("sys/class/dmi/id/sys_vendor", "QEMU\n")
    host.put("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n")
    host.rdma(["mlx5_0", "mlx5_1"])
    for i in range(10):
        port = f"pci0000:00/0000:00:{i + 2:02x}.0"
        host.pci(port, "0x060400", "0x1b36")
        host.pci(f"{port}/0000:{i + 1:02x}:00.0", *(("0x030200", "0x10de") if i < 8 else ("0x020700", "0x15b3")))
        if i < 8:
            host.nvml.append(f"gpu {i} pci 00000000:{i + 1:02X}:00.0")
        else:
            (host.root / f"sys/class/infiniband/mlx5_{i - 8}/device").symlink_to(
                f"../../../devices/{port}/0000:{i + 1:02x}:00.0")
    nccl(host, "2.18.3", "+cuda12.2")


def link_local_interface(host):  # uccl-project/uccl#1034: NCCL_SOCKET_IFNAME cured it
    host.several_hosts(local=1)
    host.gpus = 1
    hopper(host, "NVIDIA GH200 480GB")
    host.nvml.append("gpu * links 0\ncuda 13000\ndriver 580.95.05")
    host.put("proc/version", "Linux version 6.8.0-1021-nvidia-64k (aarch64)\n")
    interfaces(host, ("usb0", "169.254.3.1", "FEA9"), ("enP6p3s0f0", "10.1.0.1", "010A"))
    host.rdma(["mlx5_0"], rate="400 Gb/sec (4X NDR)")
    nccl(host, "2.28.9", "+cuda13.0")


def older_nccl_of_usr_lib(host):  # NVIDIA/nccl#1784: the NCCL that nccl-tests was built with cured it
    p5(host)
    host.nvml.append("cuda 12080\ndriver 570.124.06")
    nccl(host, "2.23.4", "+cuda12.6")
    host.put("home/user/nccl/build/lib/libnccl.so.2.27.5", "\0NCCL version 2.27.5+cuda12.8\0")
    host.env.update(NCCL_HOME="/opt/nccl/build", CUDA_HOME="/usr/local/cuda-12.8")
    host.log = "undefined symbol: ncclCommWindowRegister\n"


def rdma_beside_sockets(host):  # hiyouga/LlamaFactory#3641: NCCL_IB_DISABLE=1 cured it
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12040\ndriver 550.54.15")
    host.rdma(["mlx5_0"], "Ethernet", "25 Gb/sec (1X EDR)", net="eth0")
    host.env.update(MASTER_ADDR="49.122.1.6", MASTER_PORT="29555")
    nccl(host, "2.20.5", "+cuda12.4")
    host.log = "socketFinalizeAccept: wrong type 3 != 4\n"


def efa_without_device_files(host):  # aws/aws-ofi-nccl#1020: /dev/infiniband in the container cured it
    host.several_hosts()
    p5(host)
    host.nvml.append("cuda 13000\ndriver 580.65.06")
    efa(host, 32)
    host.remove("dev/infiniband")
    host.put(".dockerenv")
    nccl(host, "2.27.7", "+cuda13.0")
    host.log = ("[2025-10-16 22:16:08] ip-172-31-3-90:1929:1937 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI "
                "fi_getinfo() call failed: No data available\n")


def overlay_on_google(host):  # deepspeedai/DeepSpeed#5093: an MTU not greater than the host's cured it
    host.several_hosts()
    consumer(host, 8, "NVIDIA L4", "8 9")
    host.put(".dockerenv")
    host.put("sys/class/dmi/id/sys_vendor", "Google\n")
    host.put("sys/class/dmi/id/product_name", "Google Compute Engine\n")
    interfaces(host, ("eth1", "172.18.0.3", "12AC"), ("eth0", "10.0.1.3", "000A"))
    nccl(host, "2.19.3", "+cuda12.3")


def shm_of_a_test(host):  # dmlc/xgboost#5966: a larger /dev/shm cured it
    consumer(host, 4, "Tesla T4", "7 5")
    small_shm(host, 64)
    nccl(host, "2.7.8", "+cuda11.0")


def mtu_of_gin(host):  # NVIDIA/nccl#1957: a larger MTU or the dev branch cured it
    host.several_hosts()
    p5(host)
    host.nvml.append("cuda 13000\ndriver 580.95.05")
    host.rdma([f"mlx5_{i}" for i in range(8)], "Ethernet", "400 Gb/sec (4X NDR)")
    for i in range(8):
        host.put(f"sys/class/infiniband/mlx5_{i}/device/net/eth{i + 1}/mtu", "1500\n")
        host.put(f"sys/class/net/eth{i + 1}/mtu", "1500\n")
    host.env.update(NCCL_GIN_TYPE="3")
    nccl(host, "2.28.9", "+cuda13.0")


def shm_of_kubeflow(host):  # NVIDIA/nccl#525: NCCL_SHM_DISABLE=1 works
    pod(host)
    consumer(host, 4, "Tesla T4", "7 5")
    small_shm(host, 64)
    nccl(host, "2.9.6", "+cuda11.0")
    host.log = ("[3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n"
                "[3] NCCL INFO include/shm.h:41 -> 2\n[3] include/shm.h:48 NCCL WARN Error while creating shared memory "
                "segment nccl-shm-recv-1462445a6f01cbfc-1-2-3 (size 9637888)\n")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("nccl#1241", three_ranks_on_two, "init_error", (), r"one GPU|same GPU|ranks|Duplicate",
     "more ranks than GPUs, two of them use one; one rank per GPU"),
    ("pyxis#81", no_uvm, "init_error", (), r"nvidia[-_]uvm",
     "nvidia_uvm is not loaded, so that there is no /dev/nvidia-uvm; modprobe nvidia_uvm"),
    ("Oceananigans.jl#5445", slingshot_without_plugin, "slow_transfer", (), r"libnccl-net|OFI|plugin",
     "Slingshot without NCCL's OFI plugin: sockets; load libnccl-net.so of aws-ofi-nccl"),
    ("horovod#110", one_name_of_two_hosts, "hang_stuck", (), r"host ?name",
     "both hosts have one hostname, NCCL takes them for one; give each its own"),
    ("nccl#949", machine_without_ats, "slow_transfer", (), r"ACS|ATS",
     "a virtual machine: ATS of the NICs and ACS's direct translated P2P have to be set on its host"),
    ("uccl#1034", link_local_interface, "init_error", (), r"169\.254|link-local|NCCL_SOCKET_IFNAME|usb0",
     "NCCL takes the link-local interface, which no other host reaches; NCCL_SOCKET_IFNAME of the other"),
    ("nccl#1784", older_nccl_of_usr_lib, "init_error", (), r"older|symbol|LD_LIBRARY_PATH|2\.23\.4",
     "the NCCL that is loaded, 2.23.4, is older than the one the program was built with; LD_LIBRARY_PATH to that"),
    ("LlamaFactory#3641", rdma_beside_sockets, "init_error", (), r"RDMA|InfiniBand|RoCE|NCCL_IB_DISABLE",
     "this host uses RDMA, its peer sockets; NCCL_IB_DISABLE=1 on both"),
    ("aws-ofi-nccl#1020", efa_without_device_files, "init_error", ("ib.devices",), "",
     "the container lacks /dev/infiniband; give it"),
    ("DeepSpeed#5093", overlay_on_google, "hang_stuck", (), r"MTU|mtu",
     "the MTU of 1500 exceeds Google's 1460; lower the container's"),
    ("xgboost#5966", shm_of_a_test, "init_error", ("limit.shm",), "",
     "docker's /dev/shm is too small; --shm-size"),
    ("nccl#1957", mtu_of_gin, "hang_stuck", (), r"MTU|mtu",
     "GIN takes an MTU of 4096 for granted, the NICs have 1500; raise it or a newer NCCL"),
    ("nccl#525", shm_of_kubeflow, "init_error", ("limit.shm",), "",
     "the pod's /dev/shm of 64 MiB is full; an emptyDir of medium Memory"),
)


if __name__ == "__main__":
    main_said(SAID)
