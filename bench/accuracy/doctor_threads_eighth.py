"""Twenty further threads with a confirmed cause, drawn, rebuilt without reading doctor's answers and frozen before
doctor was run on any of them: seven beside queries that do not name their cause, thirteen by look-ups.

usage: doctor_threads_eighth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text and lines of
NCCL's log are given as host.log where the thread shows them; --without-log leaves them out. The words only
sort the answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, interfaces, pod
from doctor_threads_fourth import main_said, nccl, p5, without_peermem
from doctor_threads_more import consumer, small_shm
from doctor_threads_seventh import v100


def bridges_of_docker(host):  # NVIDIA/nccl#697: NCCL_SOCKET_IFNAME=bond0 cured it
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla V100-PCIE-32GB", "7 0")
    interfaces(host, ("bond0", "192.168.1.161", "A8C0"), ("br-05ab815fa14e", "172.19.0.1", "13AC"),
               ("br-d5d80d7dbbad", "172.21.0.1", "15AC"), ("veth6163fba", "", ""), ("veth70ec058", "", ""))
    nccl(host, "2.10.3", "+cuda10.2")
    host.log = ("node1:81:81 [0] NCCL INFO NET/Socket : Using [0]bond0:192.168.1.161<0> [1]br-05ab815fa14e:172.19.0.1<0> "
                "[2]br-d5d80d7dbbad:172.21.0.1<0> [3]veth6163fba:fe80::b878:6cff:fe52:abe2%veth6163fba<0> "
                "[4]veth70ec058:fe80::e0:11ff:fec8:925f%veth70ec058<0>\n"
                "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:957, unhandled system error, "
                "NCCL version 21.0.3\nncclSystemError: System call (socket, malloc, munmap, etc) failed.\n")


def network_of_docker(host):  # deepinsight/insightface#1444: --network=host cured it
    host.several_hosts()
    consumer(host, 8, "Tesla V100-SXM2-32GB", "7 0")
    host.put(".dockerenv")
    interfaces(host, ("eth0", "172.17.0.2", "11AC"))
    nccl(host, "2.4.8", "+cuda10.1")
    host.log = ("RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:518, unhandled system error, "
                "NCCL version 2.4.8\n")


def another_nccl_than_others(host):  # NVIDIA/nccl#1267: one version on all hosts cured it
    host.several_hosts(nodes=4)
    consumer(host, 8, "NVIDIA L4", "8 9")
    host.nvml.append("cuda 12000\ndriver 525.105.17")
    interfaces(host, ("ens7", "10.128.0.32", "800A"))
    nccl(host, "2.20.5", "+cuda12.4")
    host.log = ("instance-8g-96c-1:2744870:2745046 [0] misc/socket.cc:484 NCCL WARN ncclSocketInit: connecting to address  with "
                "family 0 is neither AF_INET(2) nor AF_INET6(10)\n"
                "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, "
                "internal error - please report this issue to the NCCL developers, NCCL version 2.20.5\n")


def unused_parameters(host):  # aliyun/conditional-lane-detection#29: find_unused_parameters cured it
    consumer(host, 2, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    nccl(host, "2.7.8", "+cuda10.2")
    host.log = ("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error "
                "indicates that your module has parameters that were not used in producing loss.\n")


def shm_of_ucx(host):  # NVIDIA/ai-cloud-validation#643: a volume of memory at /dev/shm cured it
    p5(host)
    pod(host)
    small_shm(host, 64)
    host.env.update(OMPI_COMM_WORLD_SIZE="8", OMPI_COMM_WORLD_LOCAL_SIZE="8")
    nccl(host, "2.29.7", "+cuda13.0")
    host.log = "mm_iface failed to allocate receive FIFO\n[ucp_address_unpack] Caught signal 11 (Segmentation fault)\n"


def nvls_of_p5en(host):  # aarora79/agentic-coding-harness-benchmarks#173: NCCL_NVLS_ENABLE=0 cured it
    host.nvml.append("gpu * name NVIDIA H200\ngpu * links 18\ngpu * capability 9 0\ncuda 13000\ndriver 580.126.09")
    nccl(host, "2.28.9", "+cuda13.0")
    host.log = ("transport/nvls.cc:287 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA "
                "error 401 'the operation cannot be performed in the present state'.\nDisable NVLS (NCCL_NVLS_ENABLE=0) if you "
                "wish to avoid this error in the future.\nRuntimeError: NCCL error: unhandled cuda error (run with "
                "NCCL_DEBUG=INFO for details)\n")


def ranks_by_mps(host):  # NVIDIA/nccl#418: one rank a GPU is what NCCL takes
    v100(host, "450.51.06", "11000")
    host.gpus = 1
    host.env.update(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="2", CUDA_MPS_PIPE_DIRECTORY="/tmp/nvidia-mps")
    nccl(host, "2.7.8", "+cuda11.0")
    host.log = "Failed, NCCL error a.cpp:106 'invalid usage'\n"


def memlock_of_ucx(host):  # openucx/ucx#8229: ulimit -l was 64
    host.several_hosts()
    a100(host)
    host.rdma(["mlx5_0", "mlx5_1"])
    host.limits["memlock"] = 65536
    host.limits["nofile"] = 1024
    nccl(host, "2.12.12", "+cuda11.7")
    host.log = "ib_iface.c:947  UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n"


def older_nccl_before_torchs(host):  # pytorch/pytorch#119932: the other NCCL out of the loader's way cured it
    consumer(host, 1, "NVIDIA GeForce RTX 4070 Ti SUPER", "8 9")
    nccl(host, "2.18.5", "+cuda12.2")
    host.log = ("ImportError: /usr/local/lib/python3.10/dist-packages/torch/lib/libtorch_cuda.so: undefined symbol: "
                "ncclCommRegister\n")


def manager_of_another_version(host):  # ollama/ollama#12136: the fabric manager of the driver's version cured it
    p5(host)
    host.nvml.append("cuda 12090\ndriver 575.57.08\ngpu * fabric 2 0")
    host.put("sys/module/nvidia/version", "575.57.08\n")
    host.put("var/lib/dpkg/status", "Package: nvidia-fabricmanager-580\nStatus: install ok installed\nArchitecture: amd64\n"
             "Version: 580.65.06-1\n\n")
    nccl(host, "2.27.5", "+cuda12.9")
    host.log = "ggml_cuda_init: failed to initialize CUDA: system not yet initialized\n"


def no_nccl_of_vllm(host):  # vllm-project/vllm#4257: an NCCL of a later package cured it
    consumer(host, 2, "NVIDIA A30", "8 0")
    host.put("proc/sys/kernel/osrelease", "3.10.0-1160.el7.x86_64\n")
    nccl(host, "2.4.8", "+cuda10.0")
    host.remove("fakes/libnccl.so.2")
    del host.extra["args"]
    del host.env["FAKE_NCCL"]
    host.log = ("INFO 04-22 15:53:32 utils.py:580] Found nccl from library libnccl.so.2\nERROR 04-22 15:53:32 pynccl.py:44] "
                "Failed to load NCCL library from libnccl.so.2 .It is expected if you are not running on NVIDIA/AMD GPUs."
                "Otherwise, the nccl library might not exist, be corrupted or it does not support the current platform\n"
                "NameError: name 'ncclGetVersion' is not defined\n")


def rails_inside_a_host(host):  # NVIDIA/nccl#1405: NCCL_NET_DISABLE_INTRA=1 works around ports that do not reach each other
    host.several_hosts(local=4)
    pod(host)
    consumer(host, 4, "NVIDIA H100 PCIe", "9 0")
    host.rdma([f"mlx5_{i}" for i in range(4)], "Ethernet", "200 Gb/sec (4X HDR)")
    nccl(host, "2.23.4", "+cuda12.6")
    host.log = ("kp-ddp-worker-0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.216.210.236<54862> "
                "with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fd00:1148:9000:5000:4:200:3:ff22 remoteGids"
                "fd00:1148:9000:5000:4:200:3:ff1f\nkp-ddp-worker-0:3468:3905 [4] NCCL INFO transport/net.cc:1302 -> 6\n")


def no_peermem_on_one(host):  # NVIDIA/nccl-tests#152: nv_peer_mem was not loaded here
    host.several_hosts()
    a100(host)
    host.rdma([f"mlx5_{i}" for i in range(8)])
    without_peermem(host)
    nccl(host, "2.11.4", "+cuda11.4")
    host.log = ("gpu37:52125:52256 [0] NCCL INFO Channel 00 : 0[7000] -> 8[7000] [receive] via NET/IB/0\n"
                "gpu37:52129:52281 [4] NCCL INFO Channel 00 : 0[7000] -> 12[88000] [receive] via NET/IB/5/Shared\n")


def iommu_of_epyc(host):  # NVIDIA/nccl-tests#115: amd_iommu=off cured it
    consumer(host, 2, "NVIDIA RTX A6000", "8 6")
    host.nvml.append("cuda 11070\ndriver 515.65.01")
    for i, bus in enumerate(("01", "41")):
        port = f"pci0000:{('00', '40')[i]}/0000:{('00', '40')[i]}:01.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
        host.nvml.append(f"gpu {i} pci 00000000:{bus}:00.0")
    for group in range(60):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz-5.15.0-46-generic ro quiet splash\n")
    host.env.update(NCCL_CUDA_PATH="/usr/local/cuda-11.7")
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = ("SAIS1020:28329:28329 [0] NCCL INFO Bootstrap : Using enp2s0f0:130.245.67.30<0>\n"
                "SAIS1020:28329:28329 [0] misc/cudawrap.cc:90 NCCL WARN Failed to find CUDA library in /usr/local/cuda-11.7 "
                "(NCCL_CUDA_PATH=/usr/local/cuda-11.7)\nNCCL version 2.14.3+cuda11.7\n"
                "SAIS1020:28329:28341 [0] NCCL INFO NET/IB : No device found.\n")


def low_latency_of_2_4_7(host):  # tensorflow/tensorflow#34638: NCCL_LL_THRESHOLD=0 works around it
    host.several_hosts()
    v100(host, "418.87.00", "10010")
    nccl(host, "2.4.7", "+cuda10.0")


def low_latency_of_2_4_2(host):  # open-mmlab/mmselfsup#6: NCCL_LL_THRESHOLD=0 works around it
    v100(host, "418.87.00", "10010")
    host.env.update(LOCAL_WORLD_SIZE="8", WORLD_SIZE="8", OMP_NUM_THREADS="4")
    nccl(host, "2.4.2", "+cuda10.0")


def port_of_another_job(host):  # thu-coai/CDial-GPT#103: another --master_port cured it
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.env.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", OMP_NUM_THREADS="1",
                    MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    nccl(host, "2.7.8", "+cuda11.1")
    host.log = "RuntimeError: Address already in use\n"


def port_of_the_kernels(host):  # NVIDIA/enroot#243: a MASTER_PORT outside of the ephemeral ones cures it
    host.several_hosts(nodes=16)
    p5(host)
    host.env.update(MASTER_ADDR="node1", MASTER_PORT="57062")
    nccl(host, "2.27.3", "+cuda12.9")
    host.log = ("0: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
                "57062, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n")


def driver_of_two_versions(host):  # yahoo/TensorFlowOnSpark#51: a reboot cured it
    host.gpus = 4
    host.nvml.append("fail nvmlInit_v2 18")
    host.put("sys/module/nvidia/version", "367.57\n")
    for i in range(4):
        host.put(f"dev/nvidia{i}")
    host.log = "Failed to initialize NVML: Driver/library version mismatch\n"


def error_left_by_2_28_3(host):  # pytorch/pytorch#164402: NCCL's patch cured it
    p5(host)
    host.nvml.append("cuda 12090\ndriver 575.57.08")
    nccl(host, "2.28.3", "+cuda12.9")
    host.log = ("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\nSearch for "
                "`cudaErrorNoKernelImageForDevice' in the CUDA documentation for more information.\n")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("nccl#697", bridges_of_docker, "init_error", (), r"br-|veth|NCCL_SOCKET_IFNAME",
     "NCCL takes docker's bridges for its sockets; NCCL_SOCKET_IFNAME=bond0"),
    ("insightface#1444", network_of_docker, "init_error", (), r"network.?=?host|docker",
     "the container has docker's own network, which other hosts do not reach; --network=host"),
    ("nccl#1267", another_nccl_than_others, "init_error", (), r"version",
     "this host's NCCL is of another version than the other hosts'; one version on all"),
    ("conditional-lane-detection#29", unused_parameters, "init_error", (), r"find_unused_parameters",
     "parameters take no part in the loss; find_unused_parameters=True"),
    ("ai-cloud-validation#643", shm_of_ucx, "init_error", ("limit.shm",), "",
     "the container's /dev/shm is too small"),
    ("agentic-coding-harness-benchmarks#173", nvls_of_p5en, "init_error", (), r"NVLS|NVLink SHARP",
     "NVLink SHARP's multicast is refused; NCCL_NVLS_ENABLE=0"),
    ("nccl#418", ranks_by_mps, "init_error", (), r"one GPU|same GPU|ranks",
     "two ranks share one GPU, which NCCL refuses"),
    ("ucx#8229", memlock_of_ucx, "init_error", ("limit.memlock",), "",
     "locked memory is limited to 64 KiB (ulimit -l)"),
    ("pytorch#119932", older_nccl_before_torchs, "init_error", (), r"LD_LIBRARY_PATH|not the framework's",
     "another, older NCCL is loaded than the framework's own; take it away"),
    ("ollama#12136", manager_of_another_version, "init_error", (), r"[Ff]abric ?[Mm]anager",
     "the fabric manager is not of the driver's version"),
    ("vllm#4257", no_nccl_of_vllm, "init_error", (), r"NCCL",
     "no NCCL that works can be loaded; install one"),
    ("nccl#1405", rails_inside_a_host, "init_error", (), r"RDMA|RoCE|reach",
     "RDMA ports of the job do not reach each other; the way between rails, or NCCL kept from using it"),
    ("nccl-tests#152", no_peermem_on_one, "slow_transfer", ("ib.gdr",), "",
     "nv_peer_mem is not loaded: no GPUDirect RDMA"),
    ("nccl-tests#115", iommu_of_epyc, "hang_stuck", ("gpu.iommu",), "",
     "the IOMMU translates what GPUs send each other"),
    ("tensorflow#34638", low_latency_of_2_4_7, "hang_stuck", (), r"2\.4\.7",
     "NCCL 2.4.7 hangs with its low-latency protocol; NCCL_LL_THRESHOLD=0 or a newer one"),
    ("mmselfsup#6", low_latency_of_2_4_2, "hang_stuck", (), r"2\.4\.2",
     "NCCL 2.4.2 hangs with its low-latency protocol; NCCL_LL_THRESHOLD=0 or a newer one"),
    ("CDial-GPT#103", port_of_another_job, "init_error", (), r"port",
     "the port of the rendezvous is taken; another --master_port"),
    ("enroot#243", port_of_the_kernels, "init_error", (), r"ephemeral|ip_local_port_range|port of the rendezvous",
     "MASTER_PORT is one that the kernel gives to connections; one outside of that range"),
    ("TensorFlowOnSpark#51", driver_of_two_versions, "init_error", (), r"two versions|version",
     "the driver's module and library are of two versions; reboot"),
    ("pytorch#164402", error_left_by_2_28_3, "init_error", (), r"2\.28\.3",
     "NCCL 2.28.3 leaves a CUDA error behind; a newer one"),
)


if __name__ == "__main__":
    main_said(SAID)
