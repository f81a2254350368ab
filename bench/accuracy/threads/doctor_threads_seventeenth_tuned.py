"""Nine threads found and rebuilt together with those of doctor_threads_seventeenth.py, for mending doctor by class.

usage: doctor_threads_seventeenth_tuned.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from doctor_threads_fifth import a100, pod  # noqa: E402 pylint: disable=wrong-import-position
from doctor_threads_fourth import efa, main_said, nccl, p5  # noqa: E402 pylint: disable=wrong-import-position
from doctor_threads_more import consumer  # noqa: E402 pylint: disable=wrong-import-position


def boards_of_a_timm(host):  # pytorch/pytorch#76101, as mjun0812 tells of it: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 2, "NVIDIA RTX A6000", "8 6")
    host.nvml.append("cuda 11060\ndriver 510.54")
    nccl(host, "2.10.3", "+cuda11.3")


def boards_of_a_stage(host):  # deepspeedai/DeepSpeed#4433, as volcverse tells of it: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 8, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    host.env.update(LOCAL_WORLD_SIZE="8", WORLD_SIZE="8", RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                    MASTER_PORT="29500", OMP_NUM_THREADS="1")
    nccl(host, "2.18.1", "+cuda12.1")


def twelve_of_a_test(host):  # pytorch/PiPPy#396: a maintainer: its twelve ranks are more than the GPUs
    a100(host, "40GB")
    host.nvml.append("cuda 11060\ndriver 510.47.03")
    nccl(host, "2.10.3", "+cuda11.6")
    host.log = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"


def one_of_each_host(host):  # espnet/espnet#4726: CUDA_VISIBLE_DEVICES, its author
    host.several_hosts(local=1)
    consumer(host, 2, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    host.nvml.append("cuda 11040\ndriver 470.141.03")
    nccl(host, "2.7.8", "+cuda10.2")
    host.log = ("RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:784, invalid usage, "
                "NCCL version 2.7.8\n")


def driver_of_an_update(host):  # pytorch/pytorch#44171: 440.64 worked; another cured it, says its author in #22679
    consumer(host, 2, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    host.nvml.append("cuda 10020\ndriver 440.100")
    host.put(".dockerenv")
    host.put("proc/sys/kernel/osrelease", "5.4.0-45-generic\n")
    nccl(host, "2.4.8", "+cuda10.1")


def nccl_of_a_fork(host):  # marian-nmt/marian-dev#998: NCCL's newest cured it
    pod(host)
    host.gpus = 4
    a100(host, "40GB")
    host.nvml.append("cuda 11040\ndriver 470.161.03")
    host.put("sys/class/dmi/id/sys_vendor", "Google\n")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    nccl(host, "2.8.3", "+cuda11.1")
    host.log = ("[2023-04-21 19:17:31] Error: NCCL error 2 'unhandled system error' - "
                "/marian/src/training/communicator_nccl.h:43: ncclGroupEnd()\n")


def plugin_of_some_hosts(host):  # NVIDIA/nccl#1634: the network plugin of HPC-X on all hosts or on none
    host.several_hosts()
    p5(host)
    host.nvml.append("cuda 12080\ndriver 570.86.15")
    host.rdma([f"mlx5_{i}" for i in (0, 3, 4, 5, 6, 7, 8, 9)], rate="400 Gb/sec (4X NDR)", net=None)
    host.libraries += ["libnccl-net.so"]
    host.put("opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so")
    host.env.update(NCCL_IB_HCA="mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9", NCCL_DEBUG="INFO",
                    OMPI_COMM_WORLD_SIZE="16", OMPI_COMM_WORLD_LOCAL_SIZE="8", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0")
    nccl(host, "2.25.1", "+cuda12.8")
    host.log = ("HGX-H100-11:18226:18274 [5] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network "
                "plugin.\nHGX-H100-04:589474:589541 [0] NCCL INFO Plugin Path : "
                "/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so\n")


def libfabric_of_ubuntu(host):  # aws/aws-ofi-nccl#241: the plugin wants the libfabric that it was built with
    host.several_hosts()
    a100(host, "40GB")
    host.nvml.append("cuda 12020\ndriver 535.86.10")
    host.put(".dockerenv")
    efa(host, 4)
    host.put("opt/amazon/efa/lib/libfabric.so.1")
    host.put("usr/lib/x86_64-linux-gnu/libfabric.so.1")
    host.put("opt/aws-ofi-nccl/lib/libnccl-net.so")
    nccl(host, "2.18.3", "+cuda12.2")
    host.log = ("ip-10-1-0-1:71:102 [0] configure_sendrecv_inorder:213 NCCL WARN NET/OFI Couldn't set "
                "FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES\n")


def eight_of_a_cloud(host):  # KellerJordan/modded-nanogpt#15: a newer NCCL cured it, four H100 work
    p5(host)
    host.nvml.append("cuda 12040\ndriver 550.90.12")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    host.env.update(WORLD_SIZE="8", LOCAL_WORLD_SIZE="8", RANK="0", LOCAL_RANK="0", MASTER_ADDR="localhost",
                    MASTER_PORT="29500", OMP_NUM_THREADS="1", NCCL_DEBUG="INFO")
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = ("192-222-52-234:8043:8043 [0] NCCL INFO cudaDriverVersion 12040\nNCCL version 2.21.5+cuda12.4\n"
                "[I1107 01:20:27.770733060 TCPStoreLibUvBackend.cpp:119] [c10d - debug] Read callback failed. code:-4095 "
                "name:EOF desc:end of file\n")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("pytorch#76101", boards_of_a_timm, "hang_stuck", (), r"P2P",  # suspected
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
    ("DeepSpeed#4433", boards_of_a_stage, "hang_stuck", (), r"P2P",  # suspected
     "P2P over PCIe hangs with GeForce RTX 4090; NCCL_P2P_DISABLE=1"),
    ("PiPPy#396", twelve_of_a_test, "init_error", (), r"(one|same) GPU",  # seen
     "more ranks than GPUs, so two are on one GPU; as many ranks as GPUs"),
    ("espnet#4726", one_of_each_host, "init_error", (), r"(one|same) GPU|CUDA_VISIBLE_DEVICES",  # suspected
     "ranks take one GPU; CUDA_VISIBLE_DEVICES and LOCAL_RANK to each its own"),
    ("pytorch#44171", driver_of_an_update, "hang_stuck", (), r"driver 440|440\.100",  # unseen
     "driver 440.100 hangs, 440.64 does not; another driver"),
    ("marian-dev#998", nccl_of_a_fork, "init_error", (), r"2\.8\.3|NCCL .*(old|before)",  # suspected
     "NCCL 2.8.3 fails on A100 of a cloud; a newer NCCL"),
    ("nccl#1634", plugin_of_some_hosts, "hang_stuck", (), r"libnccl-net",  # seen
     "some hosts load libnccl-net.so of HPC-X, others have none; the same on all, or NCCL_NET_PLUGIN=none"),
    ("aws-ofi-nccl#241", libfabric_of_ubuntu, "init_error", (), r"libfabric",  # seen
     "an older libfabric than the plugin was built with is loaded; EFA's own first"),
    ("modded-nanogpt#15", eight_of_a_cloud, "hang_dead", (), r"2\.21\.5",  # suspected
     "NCCL 2.21.5 crashes with eight H100 of this virtual machine; a newer NCCL"),
)


if __name__ == "__main__":
    main_said(SAID)
