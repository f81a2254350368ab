"""The other half of the threads of doctor_threads_tenth.py: those that doctor was mended by.

usage: doctor_threads_tenth_tuned.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text is given as
host.log where the thread shows it; --without-log leaves it out. The words only sort the answers; what counts is
the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, interfaces
from doctor_threads_fourth import main_said, nccl
from doctor_threads_mined import listening
from doctor_threads_more import consumer, small_shm
from doctor_threads_seventh import v100


def port_of_zero(host):  # RLHFlow/Online-RLHF#11: main_process_port: 0 out of accelerate's configuration cured it
    a100(host)
    host.nvml.append("cuda 12040\ndriver 550.54.15")
    host.env.update(WORLD_SIZE="8", LOCAL_WORLD_SIZE="8", RANK="0", LOCAL_RANK="0", OMP_NUM_THREADS="8",
                    MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    nccl(host, "2.20.5", "+cuda12.4")
    host.log = ("[2024-06-11 00:23:36,254] [INFO] [comm.py:637:init_distributed] cdb=None\n[2024-06-11 00:23:36,254] [INFO] "
                "[comm.py:668:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl\n"
                "[2024-06-11 00:23:36,296] [INFO] [comm.py:637:init_distributed] cdb=None\n")


def head_node_as_master(host):  # aws-samples/aws-hpc-tutorials#448: a compute node for MASTER_ADDR cured it
    host.several_hosts()
    a100(host, "40GB")
    host.put("etc/hosts", "127.0.0.1 localhost\n10.1.0.1 node1\n10.1.0.2 node2\n192.168.1.95 ip-192-168-1-95\n")
    host.env.update(SLURM_JOB_ID="12", SLURM_JOB_NODELIST="node[1-2]", SLURM_NODELIST="node[1-2]", SLURM_NODEID="0",
                    SLURMD_NODENAME="node1", SLURM_SUBMIT_HOST="ip-192-168-1-95", MASTER_ADDR="ip-192-168-1-95",
                    MASTER_PORT="12234", RANK="0")
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = ("[E socket.cpp:860] [c10d] The client socket has timed out after 900s while trying to connect to "
                "(ip-192-168-1-95, 12234)\n")


def proxy_of_the_shell(host):  # modelscope/ms-swift#5545: unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY cured it
    a100(host)
    host.env.update({name: "http://10.1.0.99:7890" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")})
    nccl(host, "2.26.2", "+cuda12.2")


def two_nccl_packages(host):  # rwth-i6/returnn#1802: NCCL of CUDA 11 and of CUDA 12 in one folder, and the older one loaded
    consumer(host, 1, "Tesla T4", "7 5")
    nccl(host, "2.14.3", "+cuda11.7")
    packages = ".local/lib/python3.10/site-packages"
    host.put(f"{packages}/torch/version.py", "__version__ = '2.8.0+cu128'\ncuda = '12.8'\n")
    host.put(f"{packages}/nvidia/nccl/lib/libnccl.so.2", "\0NCCL version 2.14.3+cuda11.7\0")
    for name, version in (("nvidia-nccl-cu11", "2.14.3"), ("nvidia-nccl-cu12", "2.27.3")):
        host.put(f"{packages}/{name.replace('-', '_')}-{version}.dist-info/METADATA",
                 f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    host.log = ("    from torch._C import *  # noqa: F403\nImportError: "
                "/root/.local/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclMemFree\n")


def name_of_a_dgx(host):  # msr-fiddle/pipedream#32: the interface that ifconfig shows, named to Gloo, cured it
    v100(host, "418.87.00", "10010")
    host.put(".dockerenv")
    host.put("proc/sys/kernel/hostname", "dgx-1.ai\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n")
    host.env.update(MASTER_ADDR="localhost", MASTER_PORT="12345")
    nccl(host, "2.4.8", "+cuda10.1")
    host.log = ("  File \"/opt/conda/lib/python3.6/site-packages/torch/distributed/distributed_c10d.py\", line 370, in "
                "init_process_group\n    timeout=timeout)\nRuntimeError: [enforce fail at "
                "../third_party/gloo/gloo/transport/tcp/device.cc:127] rp != nullptr. Unable to find address for: dgx-1.ai\n")


def shm_of_deepspeed_chat(host):  # deepspeedai/DeepSpeed#4002, as ezekielqu tells of it: 64 GB for docker's 64 MB cured it
    consumer(host, 4, "NVIDIA A100-PCIE-40GB", "8 0")
    small_shm(host, 64)
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = "exits with return code = -7\n"


def hostname_of_digits(host):  # Project-MONAI/model-zoo#146: without torchrun's --standalone it works
    v100(host, "515.65.01", "11070")
    host.put(".dockerenv")
    host.put("proc/sys/kernel/hostname", "3472853\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n10.1.0.1 3472853\n")
    nccl(host, "2.12.12", "+cuda11.7")
    host.log = ("[W socket.cpp:601] [c10d] The client socket has failed to connect to [::ffff:0.52.253.213]:59667 (errno: 110 "
                "- Connection timed out).\n[W socket.cpp:601] [c10d] The client socket has failed to connect to "
                "0.52.253.213:59667 (errno: 110 - Connection timed out).\n[E socket.cpp:657] [c10d] The client socket has "
                "failed to connect to any network address of (3472853, 59667).\n")


def port_of_a_neighbour(host):  # TorchDR/TorchDR#251: a port that the system gives (--standalone) for 29500 cured it
    a100(host)
    listening(host, 29500)
    host.env.update(SLURM_JOB_ID="4711", SLURM_JOB_NUM_NODES="1", WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", RANK="0",
                    OMP_NUM_THREADS="8", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    nccl(host, "2.27.5", "+cuda12.9")


def a_rank_too_many(host):  # HRNet/HRNet-Semantic-Segmentation#171: nproc_per_node of the three GPUs cured it
    consumer(host, 3, "NVIDIA GeForce GTX 1080 Ti", "6 1")
    host.env.update(WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", RANK="0", OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1",
                    MASTER_PORT="29500")
    nccl(host, "2.4.2", "+cuda10.0")
    host.log = ("RuntimeError: cuda runtime error (10) : invalid device ordinal at /pytorch/torch/csrc/cuda/Module.cpp:33\n"
                "THCudaCheck FAIL file=/pytorch/torch/csrc/cuda/Module.cpp line=33 error=10 : invalid device ordinal\n"
                "    torch.cuda.set_device(args.local_rank)\n")


def no_infiniband(host):  # mosaicml/llm-foundry#336: with InfiniBand two nodes are no longer eight times slower
    host.several_hosts()
    a100(host)
    nccl(host, "2.14.3", "+cuda11.7")


def rdma_of_a_cluster(host):  # Lightning-AI/pytorch-lightning#4420, as danielajisafe tells of it: NCCL_IB_DISABLE=1 cured it
    consumer(host, 2, "Tesla V100-SXM2-32GB", "7 0")
    host.rdma(["hfi1_0"], rate="100 Gb/sec (4X EDR)")  # the names of its nodes are of a cluster with Omni-Path
    host.put("sys/class/infiniband/hfi1_0/device/vendor", "0x8086\n")
    interfaces(host, ("eno1", "10.65.0.21", "410A"), ("ib0", "172.19.146.21", "13AC"))
    nccl(host, "2.12.12", "+cuda11.7")
    host.log = ("cdr2584:98188:98188 [0] NCCL INFO Bootstrap : Using ib0:172.19.146.21<0>\n"
                "cdr2584:98188:98188 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal "
                "implementation\nNCCL version 2.12.12+cuda11.7\n")


def kernels_before_ampere(host):  # niuchuangnn/SPICE#26: PyTorch of CUDA 11.0 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 11040\ndriver 470.57.02")
    nccl(host, "2.7.8", "+cuda10.2")
    host.log = ("UserWarning: NVIDIA GeForce RTX 3090 with CUDA capability sm_86 is not compatible with the current PyTorch "
                "installation.\nThe current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_61 sm_70 sm_75 "
                "compute_37.\n")


def master_of_an_example(host):  # pytorch/pytorch#49084: the address of node 0 for 192.168.1.1 is what it needs
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.env.update(MASTER_ADDR="192.168.1.1", MASTER_PORT="1234", RANK="0", LOCAL_RANK="0", NODE_RANK="0")
    nccl(host, "2.7.8", "+cuda10.2")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("Online-RLHF#11", port_of_zero, "hang_absent", (), r"MASTER_PORT|port",
     "MASTER_PORT is 0 (main_process_port: 0), at which ranks do not meet; name a port or leave it out"),
    ("aws-hpc-tutorials#448", head_node_as_master, "init_error", (), r"MASTER_ADDR",
     "MASTER_ADDR is the host that submitted the job, none of its nodes; the first node of the job"),
    ("ms-swift#5545", proxy_of_the_shell, "hang_absent", (), r"proxy|PROXY",
     "http_proxy takes what is meant for this host or for others of the job; unset it, or no_proxy"),
    ("returnn#1802", two_nccl_packages, "init_error", (), r"2\.14\.3|nvidia-nccl-cu11|two",
     "two NCCL packages share one folder and the older, of CUDA 11, is loaded; remove nvidia-nccl-cu11"),
    ("pipedream#32", name_of_a_dgx, "init_error", (), r"GLOO_SOCKET_IFNAME|/etc/hosts|dgx-1\.ai",
     "this host's own name has no address; GLOO_SOCKET_IFNAME, or the name in /etc/hosts"),
    ("DeepSpeed#4002", shm_of_deepspeed_chat, "init_error", ("limit.shm",), "",
     "docker's /dev/shm of 64 MiB is too small (return code -7 is SIGBUS); --shm-size"),
    ("model-zoo#146", hostname_of_digits, "init_error", (), r"3472853|host ?name|0\.52\.253\.213",
     "the host's name is a number, which is read as the address 0.52.253.213; 127.0.0.1 as the endpoint, or another name"),
    ("TorchDR#251", port_of_a_neighbour, "init_error", (), r"29500|MASTER_PORT",
     "another job of this host has the port 29500; another one, or --standalone"),
    ("HRNet-Semantic-Segmentation#171", a_rank_too_many, "init_error", (), r"rank|nproc|GPUs",
     "more ranks are started here than there are GPUs; nproc_per_node=3"),
    ("llm-foundry#336", no_infiniband, "slow_transfer", (), r"RDMA|InfiniBand|[Ss]ocket",
     "the hosts have no InfiniBand (RDMA), so that NCCL sends by sockets"),
    ("pytorch-lightning#4420", rdma_of_a_cluster, "init_error", (), r"NCCL_IB_DISABLE|RDMA|hfi1",
     "NCCL fails at this RDMA device (Omni-Path's verbs); NCCL_IB_DISABLE=1"),
    ("SPICE#26", kernels_before_ampere, "init_error", (), r"sm_86|capabilit|CUDA 1[01]|10\.2",
     "PyTorch (and its NCCL) is built for CUDA 10, which has no code for an RTX 3090; a build of CUDA 11"),
    ("pytorch#49084", master_of_an_example, "hang_absent", (), r"MASTER_ADDR|192\.168\.1\.1",
     "MASTER_ADDR is no address of rank 0's host; name that host's"),
)


if __name__ == "__main__":
    main_said(SAID)
