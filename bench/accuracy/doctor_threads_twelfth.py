"""Twenty further threads of clusters, clouds and servers of models, with a confirmed cause, rebuilt and judged once
before doctor was mended: its lines were added afterwards, message by message, without a look at these.

usage: doctor_threads_twelfth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

The first twelve stood beside queries that name no cause. What a thread does not tell is sound, or, where a host needs
a value, usual for its day. Error text is given as host.log where the thread shows it; --without-log leaves it out.
The words only sort the answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import interfaces, pod
from doctor_threads_fourth import efa, main_said, nccl, p5
from doctor_threads_more import consumer, small_shm


def spark(host):
    host.several_hosts(local=1)
    host.gpus = 1
    host.nvml.append("gpu * name NVIDIA GB10\ngpu * capability 12 1\ngpu * links 0\ncuda 13000\ndriver 580.173.02")
    host.put("proc/version", "Linux version 6.17.0-1029-nvidia (aarch64)\n")


def loopback_of_the_image(host):  # aws/deep-learning-containers#4756: ^docker,lo in /etc/nccl.conf cured it
    host.several_hosts()
    p5(host)
    host.put(".dockerenv")
    host.put("etc/nccl.conf", "NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=^docker0\n")
    nccl(host, "2.23.4", "+cuda12.6")
    host.log = "node1:71:71 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n"


def localhost_for_all(host):  # mlc-ai/pith-train#91: scontrol was not in the image, each host met itself
    host.several_hosts()
    p5(host)
    host.put(".dockerenv")
    host.env.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    nccl(host, "2.27.5", "+cuda12.9")


def one_port_for_all_jobs(host):  # m2lines/Samudra#805: torchrun --standalone cured it
    host.gpus = 4
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    host.env.update(LOCAL_WORLD_SIZE="4", WORLD_SIZE="4", MASTER_ADDR="localhost", MASTER_PORT="29500")
    host.log = ("torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
                "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n")


def one_rendezvous_for_all_jobs(host):  # wenet-e2e/wespeaker#171: another rendezvous for each job cured it
    host.gpus = 2
    host.env.update(LOCAL_WORLD_SIZE="2", WORLD_SIZE="2")
    host.log = (
        "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'node04.localdomain_3882442_0' has failed "
        "to shutdown the rendezvous '9987b766-350c-48bf-aa45-cfc2da182f33' due to an error of type "
        "RendezvousConnectionError.\nTraceback (most recent call last):\n"
        '  File "torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 113, in _call_store\n'
        "    return getattr(self._store, store_op)(*args, **kwargs)\nRuntimeError: Broken pipe\n")


def no_sshd(host):  # NVIDIA/cloudai#720: an image with sshd cured it
    host.several_hosts()
    p5(host)
    pod(host)
    nccl(host, "2.27.3", "+cuda12.9")
    host.log = "/bin/bash: line 1: /usr/sbin/sshd: No such file or directory\n"


def two_copies_of_nccl(host):  # pegainfer-project/pegainfer#810: a libnccl.so beside libnccl.so.2 cured it
    p5(host)
    host.nvml.append("cuda 13000\ndriver 580.95.05")
    nccl(host, "2.30.7", "+cuda13.0")
    host.put("usr/lib/x86_64-linux-gnu/libnccl.so", "\0NCCL version 2.27.7+cuda12.9\0")
    host.log = "failed to start GLM5.2 engine\nGLM5.2 prefill NCCL all-reduce failed: ncclInvalidArgument\n"


def nccl_of_another_torch(host):  # NVIDIA/TensorRT-LLM#1131: PyTorch 2.2 with its NCCL 2.19.3 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12000\ndriver 525.116.03")
    host.put(".dockerenv")
    nccl(host, "2.18.6", "+cuda12.1")
    host.put("usr/lib/x86_64-linux-gnu/libnccl.so.2.19.3", "\0NCCL version 2.19.3+cuda12.3\0")
    host.log = ("Failed, NCCL error /src/TensorRT-LLM/cpp/tensorrt_llm/plugins/ncclPlugin/allreducePlugin.cpp:183 "
                "'unknown result code'\n")


def driver_545(host):  # InternLM/lmdeploy#1750: 550.54.15 cured it, and so did other boards
    consumer(host, 2, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12030\ndriver 545.29.06")
    host.put(".dockerenv")
    nccl(host, "2.19.3", "+cuda12.1")


def ipc_of_a_container(host):  # pytorch/pytorch#49095: --ipc=host cured it
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    small_shm(host, 64)
    nccl(host, "2.7.8", "+cuda11.0")
    host.log = ("RuntimeError: NCCL error in: /opt/conda/conda-bld/torch/lib/c10d/"
                "ProcessGroupNCCL.cpp:784, unhandled system error, NCCL version 2.7.8\n")


def nccl_of_the_wheel(host):  # vllm-project/vllm#42354: the system's build of NCCL cured it
    spark(host)
    host.rdma(["rocep1s0f1"], "Ethernet", "200 Gb/sec (2X NDR)", net="enp1s0f1np1")
    nccl(host, "2.28.9", "+cuda13.0")
    host.log = ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12590, OpType=_ALLGATHER_BASE, "
                "NumelIn=1404928, NumelOut=2809856, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n")


def two_ranks_of_a_service(host):  # NVIDIA/TensorRT-LLM#9263: a maintainer read it from the line
    host.gpus = 1
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    pod(host)
    nccl(host, "2.27.3", "+cuda12.9")
    host.log = ("[2025-11-18 09:33:30] test-trt-prefill-worker-0-0:42:982 [0] init.cc:737 NCCL WARN Duplicate GPU detected : "
                "rank 0 and rank 1 both on CUDA device 3b000\nRuntimeError: [TensorRT-LLM][ERROR] Assertion failed: Failed, "
                "NCCL error ../tensorrt_llm/runtime/ncclCommunicator.cpp:90 'invalid usage (run with NCCL_DEBUG=WARN for "
                "details)'\n")


def address_of_the_program(host):  # MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#3: SGLANG_HOST_IP cured it
    spark(host)
    interfaces(host, ("wlP9s9", "192.168.1.40", "A8C0"), ("enp1s0f1np1", "192.168.100.1", "A8C0"))
    host.rdma(["rocep1s0f1"], "Ethernet", "200 Gb/sec (2X NDR)", net="enp1s0f1np1")
    host.env.update(NCCL_SOCKET_IFNAME="enp1s0f1np1", GLOO_SOCKET_IFNAME="enp1s0f1np1", TP_SOCKET_IFNAME="enp1s0f1np1",
                    NCCL_IB_HCA="rocep1s0f1", NCCL_IB_GID_INDEX="3")
    nccl(host, "2.30.7", "+cuda13.0")
    host.log = "CustomAllreduce is disabled because this process group spans across nodes.\n"


def frames_that_are_lost(host):  # MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#115: no PFC, no ECN, packets lost
    spark(host)
    host.several_hosts(nodes=4, local=1)
    host.rdma(["rocep1s0f0", "rocep1s0f1"], "Ethernet", "100 Gb/sec (2X HDR)")
    for name, lost, again in (("rocep1s0f0", 5057, 498), ("rocep1s0f1", 4830, 312)):
        below = f"sys/class/infiniband/{name}/ports/1/hw_counters"
        host.put(f"{below}/out_of_sequence", f"{lost}\n")
        host.put(f"{below}/packet_seq_err", f"{lost}\n")
        host.put(f"{below}/roce_adp_retrans", f"{again}\n")
        host.put(f"{below}/req_transport_retries_exceeded", "8\n")
    for i in (1, 2):
        host.put(f"sys/class/net/eth{i}/mtu", "1500\n")
    host.env.update(NCCL_PROTO="Simple")
    nccl(host, "2.30.7", "+cuda13.0")


def subset_of_a_p5(host):  # aws/aws-ofi-nccl#785: a plugin from 1.11 on cured it
    p5(host)
    efa(host, 32)
    host.env.update(CUDA_VISIBLE_DEVICES="0,1", WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    host.put("opt/amazon/efa/share/aws-ofi-nccl/xml/p5.48xl-topo.xml",
             '<system version="1">\n  <cpu numaid="0" affinity="ff">\n  </cpu>\n</system>\n')
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = ("2a8874e7d1e6:2196:2275 [1] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.9.1-aws\n"
                "2a8874e7d1e6:2196:2275 [1] NCCL INFO NCCL_TOPO_FILE set by environment to "
                "/opt/amazon/efa/share/aws-ofi-nccl/xml/p5.48xl-topo.xml\n"
                "2a8874e7d1e6:2196:2275 [1] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found\n"
                "2a8874e7d1e6:2196:2275 [1] NCCL INFO graph/topo.cc:493 -> 3\n")


def sidecar_of_a_notebook(host):  # kubeflow/kubeflow#5143: NCCL_SOCKET_IFNAME=lo cured it, Istio's sidecar was blamed
    pod(host)
    host.gpus = 2
    host.nvml.append("gpu * name Tesla V100-SXM2-32GB\ngpu * links 6\ngpu * capability 7 0")
    host.env.update(ISTIO_META_INTERCEPTION_MODE="REDIRECT", NB_PREFIX="/notebook/user/nccl")
    nccl(host, "2.7.6", "+cuda11.0")


def sidecar_of_a_job(host):  # kubeflow/trainer#1634: the sidecar off cured it
    pod(host)
    host.several_hosts(nodes=4, local=1)
    host.gpus = 1
    host.env.update(MASTER_ADDR="pytorch-simple-master-0", MASTER_PORT="23456", RANK="1")
    host.put("etc/hosts", "127.0.0.1 localhost\n10.1.0.1 node1\n10.1.0.200 pytorch-simple-master-0\n")
    host.log = "rbac_access_denied_matched_policy[none]\n"


def manager_that_failed(host):  # pytorch/pytorch#129749: the fabric manager of the driver's version cured it
    p5(host)
    host.nvml.append("cuda 12040\ndriver 550.54.15\ngpu * fabric 0 0")
    host.put("sys/module/nvidia/version", "550.54.15\n")
    for i in range(4):
        host.pci(f"pci0000:85/0000:8{i}:00.0", "0x068000")
    host.put("var/lib/dpkg/status", "Package: nvidia-fabricmanager-550\nStatus: install ok installed\n"
             "Architecture: amd64\nVersion: 550.90.07-1\n\n")
    nccl(host, "2.20.5", "+cuda12.4")


def virtual_functions(host):  # NVIDIA/nccl#925: NCCL_IB_HCA of the container's own devices cured it
    host.several_hosts()
    p5(host)
    host.put(".dockerenv")
    host.rdma([f"mlx5_{i}" for i in range(16)], "Ethernet", "200 Gb/sec (4X HDR)")
    for i in range(8, 16):  # the others' network interfaces are not in this container
        host.remove(f"sys/class/infiniband/mlx5_{i}/device/net")
        host.remove(f"sys/class/infiniband/mlx5_{i}/ports/1/gids")
        host.remove(f"sys/class/infiniband/mlx5_{i}/ports/1/gid_attrs")
    nccl(host, "2.18.1", "+cuda12.1")
    host.log = "[0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error No such device\n"


def scan_of_rank_zero(host):  # ultralytics/ultralytics#1439: a longer time-out cured it, rank 0 scans 2.2 TB
    host.gpus = 4
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    host.env.update(WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT="41215")
    host.log = ("train: Scanning /data/labels/train... 11% 1203113/10800000\n"
                "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran "
                "for 1800512 milliseconds before timing out.\n")


def no_manager_of_the_fabric(host):  # pytorch/ci-infra#541: its service, and the channels of IMEX, cured it
    p5(host)
    host.nvml.append("cuda 13000\ndriver 580.126.09")
    for i in range(4):
        host.pci(f"pci0000:85/0000:8{i}:00.0", "0x068000")
    host.put(".dockerenv")
    nccl(host, "2.29.7", "+cuda13.0")
    host.log = ("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, unhandled cuda error, NCCL version "
                "2.29.7\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to bind NVLink SHARP "
                "(NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present "
                "state'.\n")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("deep-learning-cont.#4756", loopback_of_the_image, "init_error", (), r"nccl\.conf|\blo\b|loopback",
     "the image's /etc/nccl.conf lets NCCL take lo; ^docker,lo there, or the right interface"),
    ("pith-train#91", localhost_for_all, "hang_stuck", ("net.master",), "",
     "MASTER_ADDR is localhost on each host; rank 0's address"),
    ("Samudra#805", one_port_for_all_jobs, "init_error", (), r"port",
     "another job of this host has the port; --standalone or another port"),
    ("wespeaker#171", one_rendezvous_for_all_jobs, "hang_dead", (), r"rdzv|rendezvous",
     "the job that held the rendezvous ended, others share it; an endpoint and an id for each job"),
    ("cloudai#720", no_sshd, "init_error", (), r"sshd",
     "the image has no sshd, which the launcher needs; install openssh-server"),
    ("pegainfer#810", two_copies_of_nccl, "init_error", (), r"[Tt]wo|2\.27\.7|one NCCL|LD_LIBRARY_PATH",
     "two NCCLs in one process, libnccl.so leads to another one than libnccl.so.2"),
    ("TensorRT-LLM#1131", nccl_of_another_torch, "init_error", (), r"2\.18\.6|older",
     "the NCCL that is loaded, 2.18.6, is older than the one the program was built with; PyTorch with 2.19.3"),
    ("lmdeploy#1750", driver_545, "hang_stuck", ("version.driver",), "",
     "driver 545 with GeForce boards hangs; 550"),
    ("pytorch#49095", ipc_of_a_container, "init_error", ("limit.shm",), "",
     "the container's /dev/shm is too small; --ipc=host"),
    ("vllm#42354", nccl_of_the_wheel, "hang_stuck", ("version.nccl_bad", "version.nccl"), "",
     "this NCCL of pip's hangs there; the system's build, or another NCCL"),
    ("TensorRT-LLM#9263", two_ranks_of_a_service, "init_error", (), r"same GPU|two ranks",
     "two ranks on one GPU; a GPU for each"),
    ("Dual-DGX-Sparks#3", address_of_the_program, "hang_stuck", (), r"SGLANG_HOST_IP|[Ww]i-?[Ff]i|wlP9s9",
     "SGLang takes the Wi-Fi's address for its own connections; SGLANG_HOST_IP"),
    ("2x-DGX-Sparks#115", frames_that_are_lost, "hang_stuck", (), r"order|lost|ECN|PFC",
     "packets are lost on RoCE, without PFC and ECN"),
    ("aws-ofi-nccl#785", subset_of_a_p5, "init_error", (), r"topo|plugin|1\.9\.1",
     "the plugin's static topology file does not fit some of the GPUs; plugin 1.11 or later"),
    ("kubeflow#5143", sidecar_of_a_notebook, "hang_stuck", (), r"[Ss]idecar|[Ii]stio|IFNAME",
     "the mesh's sidecar takes NCCL's connections; leave it out, or NCCL_SOCKET_IFNAME=lo"),
    ("trainer#1634", sidecar_of_a_job, "hang_absent", (), r"[Ss]idecar|[Ii]stio",
     "the mesh's sidecar refuses the job's connections; leave it out"),
    ("pytorch#129749", manager_that_failed, "hang_stuck", ("gpu.fabric",), "",
     "the fabric manager does not run, as its version is not the driver's; align both"),
    ("nccl#925", virtual_functions, "init_error", (), r"NCCL_IB_HCA|network interface|namespace|container",
     "RDMA devices of other containers are seen; NCCL_IB_HCA of this container's own"),
    ("ultralytics#1439", scan_of_rank_zero, "hang_stuck", (), r"preproc|rank 0|longer|time-?out",
     "rank 0 scans the data for longer than the time-out while others wait; a longer time-out"),
    ("ci-infra#541", no_manager_of_the_fabric, "init_error", (), r"[Ff]abric ?[Mm]anager",
     "the fabric manager does not run; start it, with its devices"),
)


if __name__ == "__main__":
    main_said(SAID)
