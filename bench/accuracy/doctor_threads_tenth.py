"""Twelve further threads of users who train, with a confirmed cause, drawn and rebuilt without reading doctor and
without running it: every second of twenty-six in the order in which they were found; doctor was mended by what the
others taught (doctor_threads_tenth_tuned.py) before it was run on these. Most came from queries that do not name
their cause, the others from look-ups.

usage: doctor_threads_tenth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text is given as
host.log where the thread shows it; --without-log leaves it out. The words only sort the answers; what counts is
the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, interfaces, pod
from doctor_threads_fourth import main_said, nccl, p5
from doctor_threads_more import consumer, small_shm


def extensions_of_before(host):  # deepspeedai/DeepSpeed#4443, as Yiqiu-Zhang tells of it: torch_extensions deleted, and
    a100(host)  # DeepSpeed installed anew, cured it; that the folder holds a lock is not told
    for name in ("fused_adam/fused_adam.so", "fused_adam/lock", "utils/utils.so", "utils/lock"):
        host.put(f".cache/torch_extensions/py310_cu116/{name}")
        host.put(f"root/.cache/torch_extensions/py310_cu116/{name}")
    host.env.update(WORLD_SIZE="8", LOCAL_WORLD_SIZE="8", OMP_NUM_THREADS="8")
    nccl(host, "2.14.3", "+cuda11.6")


def two_gpus_at_full(host):  # brandleyzhou/DIFFNet#10: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("gpu * utilization 100")
    host.env.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", OMP_NUM_THREADS="1",
                    MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    nccl(host, "2.10.3", "+cuda11.3")


def memory_of_one_rank(host):  # AkariAsai/self-rag#83: the memory is not enough
    consumer(host, 1, "NVIDIA A100-PCIE-40GB", "8 0")
    host.put("proc/meminfo", "MemTotal: 32000000 kB\nMemAvailable: 29000000 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB\n")
    nccl(host, "2.18.5", "+cuda12.1")
    host.log = ("torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: 0 (pid: 14447) of "
                "binary:\n")


def hostname_of_nobody(host):  # nyu-systems/Grendel-GS#9: "127.0.0.1 user" in /etc/hosts cured it
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    host.put("proc/sys/kernel/hostname", "user\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n")
    nccl(host, "2.10.3", "+cuda11.6")
    host.log = ("[W socket.cpp:601] [c10d] The IPv6 network addresses of (user, 53821) cannot be retrieved (gai error: -3 - "
                "Temporary failure in name resolution).\n")


def shm_of_llava(host):  # haotian-liu/LLaVA#739: a larger shm_size of docker cured it
    consumer(host, 8, "NVIDIA A100-PCIE-40GB", "8 0")
    small_shm(host, 64)
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = "Exits with return code = -7\n"


def shm_of_checkpoints(host):  # intelligent-machine-learning/dlrover#1046: a volume of memory at /dev/shm cured it
    pod(host)
    consumer(host, 2, "Tesla V100-PCIE-32GB", "7 0")
    small_shm(host, 64)
    nccl(host, "2.18.6", "+cuda12.1")
    host.log = ("The worker fails with {0: ProcessFailure(local_rank=0, pid=54, exitcode=-7, error_file='<N/A>', "
                "error_file_data={'message': '<NONE>'}, message='Signal 7 (SIGBUS) received by PID 54', "
                "timestamp=1711419181)}\n")


def endpoint_without_port(host):  # NVIDIA-NeMo/Run#292: torchrun without a rendezvous at localhost:0 cured it
    pod(host)
    p5(host)
    host.env.update(OMP_NUM_THREADS="8")
    nccl(host, "2.27.3", "+cuda12.9")
    host.log = ("[default7]:[I715 22:47:11.296780083 socket.cpp:872] [c10d] No socket on (localhost, 0) is listening yet, "
                "will retry.\n")


def four_ranks_of_alpaca(host):  # tatsu-lab/stanford_alpaca#67: nproc_per_node=1 for 4 cured it
    consumer(host, 1, "NVIDIA A100-SXM4-80GB", "8 0")
    host.env.update(WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", RANK="0", LOCAL_RANK="0", OMP_NUM_THREADS="1",
                    MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = ("RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel errors might be asynchronously reported at "
                "some other API call,so the stacktrace below might be incorrect.\n")


def two_visible_of_four(host):  # wenwenyu/PICK-pytorch#14: nproc_per_node=2 for 4 cured it
    consumer(host, 4, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    host.env.update(CUDA_VISIBLE_DEVICES="1,2", WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", RANK="0", LOCAL_RANK="0",
                    OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="5555")
    nccl(host, "2.4.8", "+cuda10.1")
    host.log = "RuntimeError: cuda runtime error (101) : invalid device ordinal at /pytorch/torch/csrc/cuda/Module.cpp:59\n"


def gloo_at_loopback(host):  # meta-pytorch/data#1142: GLOO_SOCKET_IFNAME=eth0 cured it
    host.several_hosts()
    a100(host)
    host.put("etc/hosts", "127.0.0.1 localhost node1\n")
    nccl(host, "2.14.3", "+cuda11.7")


def worker_without_cuda(host):  # NVIDIA/nccl#1029, as qingqiuhe tells of it: PATH and CUDA's variables passed to it cured it
    host.several_hosts()
    pod(host)
    p5(host)
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    interfaces(host, ("eth0", "10.224.3.48", "E00A"))
    host.put("usr/local/cuda-12.2/bin/nvcc")
    host.env.update(NCCL_DEBUG="TRACE", NCCL_NVLS_ENABLE="0", NCCL_ASYNC_ERROR_HANDLING="1", NCCL_IB_DISABLE="0",
                    PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    nccl(host, "2.18.3", "+cuda12.2")
    host.log = "NCCL WARN Cuda failure 'initialization error'\nncclUnhandledCudaError: Call to CUDA function failed.\n"


def addresses_of_ipv6(host):  # NVIDIA/nccl#833, as adi tells of it: net.ipv6.conf.all.disable_ipv6=1 cured it
    host.several_hosts()
    a100(host)
    host.put("proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n"
             "fd000000000000000000000000000011 02 40 00 80     eth0\nfe8000000000000002155dfffe3a0011 02 40 20 80     eth0\n")
    for name in ("all", "default", "eth0"):
        host.put(f"proc/sys/net/ipv6/conf/{name}/disable_ipv6", "0\n")
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = "ncclInternalError: Internal check failed. This is either a bug in NCCL or due to memory corruption\n"


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("DeepSpeed#4443", extensions_of_before, "hang_stuck", (), r"torch_extensions",
     "what an earlier run left in ~/.cache/torch_extensions blocks the load of DeepSpeed's kernels; delete it"),
    ("DIFFNet#10", two_gpus_at_full, "hang_stuck", (), r"P2P|peer",
     "P2P between these GPUs hangs; NCCL_P2P_DISABLE=1"),
    ("self-rag#83", memory_of_one_rank, "hang_dead", (), r"memory|kill",
     "the host's memory is too small: the kernel killed a rank (exit code -9)"),
    ("Grendel-GS#9", hostname_of_nobody, "init_error", (), r"/etc/hosts|name",
     "this host's own name ('user') has no address; put it in /etc/hosts"),
    ("LLaVA#739", shm_of_llava, "init_error", ("limit.shm",), "",
     "docker's /dev/shm is too small (return code -7 is SIGBUS); --shm-size"),
    ("dlrover#1046", shm_of_checkpoints, "hang_dead", ("limit.shm",), "",
     "the pod's /dev/shm of 64 MiB is too small (SIGBUS); a volume of memory at /dev/shm"),
    ("Run#292", endpoint_without_port, "hang_absent", (), r"port",
     "the rendezvous is at port 0 of localhost, where nothing listens; a port, or torchrun's own choice"),
    ("stanford_alpaca#67", four_ranks_of_alpaca, "init_error", (), r"rank|nproc|GPU",
     "four ranks are started and there is one GPU; nproc_per_node=1"),
    ("PICK-pytorch#14", two_visible_of_four, "init_error", (), r"CUDA_VISIBLE_DEVICES|rank|nproc",
     "four ranks are started and two GPUs are visible; nproc_per_node=2"),
    ("data#1142", gloo_at_loopback, "init_error", (), r"GLOO_SOCKET_IFNAME|127\.0\.0\.1|loopback|/etc/hosts",
     "this host's name is 127.0.0.1, which Gloo tells the others; GLOO_SOCKET_IFNAME=eth0, or the name mended"),
    ("nccl#1029", worker_without_cuda, "init_error", (), r"initialization error|LD_LIBRARY_PATH|PATH|environment",
     "CUDA cannot start in the workers, to which the launcher does not pass PATH and CUDA's variables; pass them"),
    ("nccl#833", addresses_of_ipv6, "init_error", (), r"IPv6|NCCL_SOCKET_FAMILY",
     "NCCL's sockets go by IPv6, which does not work between the hosts; no IPv6, or NCCL_SOCKET_FAMILY=AF_INET"),
)


if __name__ == "__main__":
    main_said(SAID)
