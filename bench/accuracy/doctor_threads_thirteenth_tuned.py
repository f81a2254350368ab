"""Twelve threads found and rebuilt together with those of doctor_threads_thirteenth.py; doctor was mended by these, by
class.

usage: doctor_threads_thirteenth_tuned.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER
"""

from doctor_threads_fifth import a100, interfaces
from doctor_threads_fourth import main_said, nccl
from doctor_threads_more import consumer


def scanner_of_connections(host):  # NVIDIA/nccl-tests#217: ESET's Web Access Protection off cured it
    consumer(host, 4, "NVIDIA RTX A6000", "8 6")
    host.put("proc/modules", "eset_wap 45056 2 - Live 0x0000000000000000 (OE)\n"
             "eset_rtp 69632 4 - Live 0x0000000000000000 (OE)\nnvidia 56717312 100 - Live 0x0000000000000000 (POE)\n")
    host.put("proc/1877/comm", "wapd\n")
    host.put("proc/1877/cmdline", "/opt/eset/eea/lib/wapd\0")
    nccl(host, "2.21.5", "+cuda12.4")


def numbers_of_the_host(host):  # vllm-project/vllm#6732, as crj-1992 tells of it: the variable unset cured it
    consumer(host, 2, "Tesla V100-PCIE-32GB", "7 0")
    host.put(".dockerenv")
    host.env.update(CUDA_VISIBLE_DEVICES="6,7")
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"


def bridge_of_a_container(host):  # OpenRLHF/OpenRLHF#265: the host's network for its containers cured it
    host.several_hosts()
    a100(host)
    host.put(".dockerenv")
    interfaces(host, ("eth0", "172.17.0.2", "11AC"))
    nccl(host, "2.19.3", "+cuda12.1")
    host.log = ("(RayWorkerVllm pid=207931, ip=10.0.1.75) [E socket.cpp:922] [c10d] The client socket has timed out after "
                "1800s while trying to connect to (172.17.0.2, 44737).\n")


def range_of_ports(host):  # wenet-e2e/wenet#1490: the range of open ports
    host.several_hosts(local=4)
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    host.put("etc/ufw/ufw.conf", "# /etc/ufw/ufw.conf\nENABLED=yes\n")
    nccl(host, "2.10.3", "+cuda11.3")
    host.log = ("node1:3141:3190 [0] include/socket.h:409 NCCL WARN Net : Connect to 10.1.0.2<41123> failed : "
                "Connection timed out\n")


def node_that_is_not_reached(host):  # NVIDIA/nccl#207: it ran with the interface named and without the firewall
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    interfaces(host, ("eno1", "10.30.1.11", "1E0A"), ("ib0", "11.11.11.11", "0B0B"))
    nccl(host, "2.3.7", "+cuda9.0")
    host.log = ("node1:9721:9788 [0] include/socket.h:361 NCCL WARN Call to connect failed : No route to host\n"
                "RuntimeError: NCCL error in: /torch/lib/c10d/ProcessGroupNCCL.cpp:260, unhandled system error\n")


def peers_of_a_detector(host):  # open-mmlab/mmdetection#6534, as jiwei0921 tells of it: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 11040\ndriver 470.57.02")
    host.env.update(LOCAL_WORLD_SIZE="4", WORLD_SIZE="4", OMP_NUM_THREADS="1")
    nccl(host, "2.7.8", "+cuda11.1")


def two_gpus_for_each_of_two(host):  # NVIDIA/nccl-tests#92: without -g 2, a maintainer
    consumer(host, 2, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    host.env.update(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="2", OMPI_COMM_WORLD_RANK="1",
                    OMPI_COMM_WORLD_LOCAL_RANK="1")
    nccl(host, "2.10.3", "+cuda11.4")
    host.log = ("# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 \n"
                "#\n# Using devices\nnode1: Test CUDA failure common.cu:963 'invalid device ordinal'\n"
                " .. node1 pid 198671: Test failure common.cu:925\n")


def peers_of_a_g5(host):  # ray-project/ray#39471: NCCL_P2P_DISABLE=1 works around it
    consumer(host, 4, "NVIDIA A10G", "8 6")
    host.put("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    host.put("sys/class/dmi/id/product_name", "g5.12xlarge\n")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    nccl(host, "2.16.2", "+cuda11.8")
    host.log = ("cupy_backends.cuda.libs.nccl.NcclError: NCCL_ERROR_INTERNAL_ERROR: internal error - please report this issue "
                "to the NCCL developers\n")


def both_halves_of_a_port(host):  # NVIDIA/dgx-spark-playbooks#102: both devices of the cable in NCCL_IB_HCA cured it
    host.several_hosts(local=1)
    host.gpus = 1
    host.nvml.append("gpu * name NVIDIA GB10\ngpu * capability 12 1\ngpu * links 0\ncuda 13000\ndriver 580.173.02")
    host.put("proc/version", "Linux version 6.17.0-1029-nvidia (aarch64)\n")
    interfaces(host, ("enP7s7", "192.168.1.40", "A8C0"))
    host.rdma(["rocep1s0f0", "roceP2p1s0f0"], "Ethernet", "200 Gb/sec (2X NDR)")
    host.env.update(NCCL_SOCKET_IFNAME="enP7s7", UCX_NET_DEVICES="enP7s7", OMPI_MCA_btl_tcp_if_include="enP7s7")
    nccl(host, "2.28.9", "+cuda13.0")


def driver_of_two_shards(host):  # huggingface/text-generation-inference#1559: 545 in place of 535
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 12030\ndriver 545.29.06")
    host.put(".dockerenv")
    nccl(host, "2.18.1", "+cuda12.1")
    host.log = ("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, "
                "unhandled cuda error, NCCL version 2.18.1\n")


def file_for_an_address(host):  # huggingface/accelerate#2245: the address of rank 0 was a file's name
    host.several_hosts()
    a100(host)
    nccl(host, "2.18.1", "+cuda11.8")
    host.log = ("9.91.4.251: [W socket.cpp:601] [c10d] The IPv6 network addresses of (/data/cuda11.8.bashrc, 45458) cannot be "
                "retrieved (gai error: -3 - Temporary failure in name resolution).\n")


def ways_inside_that_are_off(host):  # NVIDIA/nccl#1608: NCCL_SOCKET_IFNAME=lo cured it
    host.gpus = 3
    host.nvml.append("gpu * name NVIDIA H100 NVL\ngpu * capability 9 0\ncuda 12040\ndriver 550.127.05")
    host.env.update(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", LOCAL_WORLD_SIZE="3", WORLD_SIZE="3")
    nccl(host, "2.21.5", "+cuda12.4")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("nccl-tests#217", scanner_of_connections, "hang_absent", (), r"ESET|eset|scann",
     "ESET's Web Access Protection takes the host's own connections; off"),
    ("vllm#6732", numbers_of_the_host, "init_error", (), r"CUDA_VISIBLE_DEVICES",
     "CUDA_VISIBLE_DEVICES names GPUs 6 and 7, the container numbers its two from 0; leave it out"),
    ("OpenRLHF#265", bridge_of_a_container, "hang_absent", (), r"network=host|172\.17",
     "ranks look for rank 0 at an address of docker's own network; --network=host"),
    ("wenet#1490", range_of_ports, "init_error", (), r"port|firewall",
     "NCCL's ports are not open between the hosts; open them"),
    ("nccl#207", node_that_is_not_reached, "init_error", (), r"firewall|NCCL_SOCKET_IFNAME",
     "the other host is not reached there: its firewall, or NCCL_SOCKET_IFNAME"),
    ("mmdetection#6534", peers_of_a_detector, "hang_stuck", (), r"P2P",
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
    ("nccl-tests#92", two_gpus_for_each_of_two, "init_error", (), r"-g |more GPUs|each",
     "two processes ask for two GPUs each, where there are two; -g 1"),
    ("ray#39471", peers_of_a_g5, "init_error", (), r"P2P",
     "P2P in a virtual machine that hides the PCI tree; NCCL_P2P_DISABLE=1"),
    ("dgx-spark-playbooks#102", both_halves_of_a_port, "slow_transfer", (), r"NCCL_IB_HCA",
     "the port is two devices of half its rate; both in NCCL_IB_HCA"),
    ("text-gen.-inference#1559", driver_of_two_shards, "init_error", ("version.driver",), "",
     "driver 545 fails with GeForce boards; another one"),
    ("accelerate#2245", file_for_an_address, "init_error", (), r"bashrc|MASTER_ADDR|main_process_ip",
     "what was given as the address of rank 0 is none, a file's name; its address"),
    ("nccl#1608", ways_inside_that_are_off, "hang_stuck", (), r"NCCL_SHM_DISABLE|NCCL_SOCKET_IFNAME",
     "with P2P and shared memory off ranks of one host speak over its network interface; leave them on, or lo"),
)


if __name__ == "__main__":
    main_said(SAID)
