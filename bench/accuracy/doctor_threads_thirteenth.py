"""Eighteen further threads with a confirmed cause, found by queries that name none, rebuilt before doctor ran on any.

usage: doctor_threads_thirteenth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

These are the half that a coin (an even first byte of the name's SHA-1) kept apart while doctor was mended by the other,
doctor_threads_thirteenth_tuned.py. What a thread does not tell is sound, or, where a host needs a value, usual for its
day. Error text is given as host.log where the thread shows it; --without-log leaves it out. The words only sort the
answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, pod
from doctor_threads_fourth import efa, main_said, nccl, p5
from doctor_threads_more import consumer, small_shm


def switches_behind_vt_d(host):  # NVIDIA/nccl#667: VT-d off cured it, together with a cold start
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    for root, pairs in (("16", (("17", "18"), ("17", "19"))), ("97", (("98", "99"), ("98", "9a")))):
        host.pci(f"pci0000:{root}/0000:{root}:02.0", "0x060400", "0x8086")
        for slot, (switch, bus) in enumerate(pairs):
            port = f"pci0000:{root}/0000:{root}:02.0/0000:{switch}:{slot + 8:02x}.0"
            host.pci(port, "0x060400", "0x10b5")
            host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
    for group in range(60):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet intel_iommu=on\n")
    nccl(host, "2.10.3", "+cuda11.4")


def memory_of_the_batch(host):  # horovod/horovod#3929: a smaller batch cured it
    host.several_hosts(local=4)
    host.gpus = 4
    a100(host)
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = ("[1,3]<stderr>:torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.27 GiB (GPU 3; 79.15 GiB "
                "total capacity; 76.02 GiB already allocated; 702.31 MiB free)\n"
                "[1,0]<stderr>:horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: invalid usage\n")


def shm_of_a_cloud(host):  # MiniMax-AI/MiniMax-01#42: more of it
    host.nvml.append("gpu * name NVIDIA H200\ngpu * capability 9 0\ncuda 12040\ndriver 550.144.03")
    small_shm(host, 64)
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = ("a1b2c3d4e5f6:221:221 [3] misc/shmutils.cc:72 NCCL WARN Error while creating shared memory segment "
                "/dev/shm/nccl-k3Qz1x (size 7340384)\ntorch.distributed.DistBackendError: NCCL error in: "
                "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled system error (run with NCCL_DEBUG=INFO for "
                "details), NCCL version 2.21.5\nncclSystemError: System call (e.g. socket, malloc) or external library call "
                "failed or device error.\n")


def variable_of_vllm(host):  # NovaSky-AI/SkyRL#143: the variable that vLLM sets, for the trainer, too, cured it
    p5(host)
    host.put("opt/venv/lib/python3.12/site-packages/vllm-0.9.2.dist-info/METADATA", "Name: vllm\nVersion: 0.9.2\n")
    nccl(host, "2.26.2", "+cuda12.2")
    host.log = ("(AsyncVLLMInferenceEngine pid=1021) INFO 08-12 10:01:07 [pynccl.py:70] vLLM is using nccl==2.26.2\n"
                "(FSDPPolicyWorker pid=1207) torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/"
                "distributed/c10d/NCCLUtils.cpp:77, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version "
                "2.26.2\n")


def torch_before_the_board(host):  # pytorch/pytorch#152077: 2.7 for CUDA 12.8 in place of 2.0, a maintainer
    consumer(host, 2, "NVIDIA GeForce RTX 5090", "12 0")
    host.nvml.append("cuda 12080\ndriver 570.133.07")
    nccl(host, "2.14.3", "+cuda11.8")
    host.log = "RuntimeError: NCCL Error 1: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"


def shm_of_deepspeed(host):  # Blealtan/RWKV-LM-LoRA#18: --shm-size cured it
    consumer(host, 2, "Tesla T4", "7 5")
    small_shm(host, 64)
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = ("Loading extension module fused_adam...\n"
                "train_cmd.sh: line 34:   894 Bus error               (core dumped) python train.py\n")


def shm_of_onmt(host):  # OpenNMT/OpenNMT-py#1928: --ipc=host cured it
    consumer(host, 2, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    small_shm(host, 64)
    nccl(host, "2.7.8", "+cuda10.2")
    host.log = "Bus error (core dumped)\n"


def library_of_conda(host):  # awslabs/awsome-distributed-ai#284: the plugin's build for that PyTorch cured it
    host.several_hosts()
    p5(host)
    efa(host, 32)
    nccl(host, "2.19.3", "+cuda12.1")
    host.log = ("ip-10-1-1-1:4711:4711 [0] NCCL INFO NET/Plugin : dlerror=/opt/conda/lib/libefa.so.1: version "
                "`EFA_1.2' not found (required by /opt/amazon/efa/lib/libfabric.so.1) No plugin found (libnccl-net.so), using internal "
                "implementation\nip-10-1-1-1:4711:4790 [0] NCCL INFO NET/Socket : Using [0]enp71s0:10.1.1.1<0>\n"
                "ip-10-1-1-1:4711:4790 [0] NCCL INFO Using network Socket\n")


def rdma_that_leads_nowhere(host):  # karpathy/nanoGPT#55: NCCL_IB_DISABLE=1 cured it
    host.several_hosts()
    a100(host, "40GB")
    host.rdma(["mlx5_0"], "Ethernet", "100 Gb/sec (4X EDR)", net="eth0")
    nccl(host, "2.14.3", "+cuda11.7")
    host.log = ("[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out. Due to the asynchronous nature of "
                "CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
                "[E ProcessGroupNCCL.cpp:460] To avoid data inconsistency, we are taking the entire process down.\n")


def no_ssh_to_the_worker(host):  # NVIDIA/nccl-tests#299: MPI does not reach the worker, a maintainer
    pod(host)
    p5(host)
    nccl(host, "2.25.1", "+cuda12.8")
    host.log = ("ssh: connect to host 10.42.3.17 port 22: Connection refused\n"
                "--------------------------------------------------------------------------\n"
                "PRTE has lost communication with a remote daemon.\n\n"
                "  HNP daemon   : [prterun-job-master-0-34@0,0] on node job-master-0\n"
                "  Remote daemon: [prterun-job-master-0-34@0,1] on node 10.42.3.17\n\n"
                "This is usually due to either a failure of the TCP network connection to the node\n")


def driver_of_ray_workers(host):  # vllm-project/vllm#1801: a driver before 545 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 12030\ndriver 545.29.02")
    host.put(".dockerenv")
    nccl(host, "2.18.1", "+cuda12.1")
    host.log = ("(RayWorker pid=4751) [E ProcessGroupNCCL.cpp:474] [Rank 1] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800108 "
                "milliseconds before timing out.\n")


def peers_of_a_service(host):  # vllm-project/vllm#3974: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 4, "NVIDIA L40S", "8 9")
    host.nvml.append("cuda 12020\ndriver 535.129.03")
    nccl(host, "2.18.1", "+cuda12.1")


def one_of_three(host):  # NVIDIA/nccl-tests#171: two of the three GPUs work
    consumer(host, 2, "NVIDIA TITAN Xp", "6 1")
    for i, bus in enumerate(("02", "03", "82")):
        root = "80" if bus == "82" else "00"
        host.pci(f"pci0000:{root}/0000:{root}:0{i + 1}.0", "0x060400", "0x8086")
        host.pci(f"pci0000:{root}/0000:{root}:0{i + 1}.0/0000:{bus}:00.0", "0x030000")
    host.nvml.append("gpu 0 pci 00000000:02:00.0\ngpu 1 pci 00000000:82:00.0")
    nccl(host, "2.18.5", "+cuda12.2")
    host.log = ("# nThread 1 nGpus 3 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n"
                "# Using devices\nsniper: Test CUDA failure common.cu:892 'invalid device ordinal'\n"
                " .. sniper pid 307887: Test failure common.cu:842\n")


def shm_of_yolox(host):  # Megvii-BaseDetection/YOLOX#1421, as Leon-Cheung-CQ tells of it: --ipc=host cured it
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.nvml.append("cuda 11020\ndriver 460.56")
    small_shm(host, 64)
    nccl(host, "2.10.3", "+cuda10.2")
    host.log = ("RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:957, unhandled system error, "
                "NCCL version 21.0.3\nncclSystemError: System call (socket, malloc, munmap, etc) failed.\n")


def two_racks(host):  # NVIDIA-NeMo/RL#2937: NCCL_PXN_DISABLE=1 cured it
    host.several_hosts(nodes=32, local=4)
    host.gpus = 4
    host.put(".dockerenv")
    host.put("proc/version", "Linux version 6.8.0-1028-nvidia-64k (aarch64)\n")
    host.put("dev/nvidia-caps-imex-channels/channel0")
    host.nvml.append("gpu * name NVIDIA GB200\ngpu * capability 10 0\ncuda 13000\ndriver 580.126.09")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="400 Gb/sec (4X NDR)")
    nccl(host, "2.28.9", "+cuda13.0")
    host.log = ("[rank8]:[E626 03:11:52.4 ProcessGroupNCCL.cpp:688] [Rank 8] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=211, OpType=ALLTOALL_BASE, NumelIn=8388608, NumelOut=8388608, Timeout(ms)=600000) ran for "
                "600012 milliseconds before timing out.\n")


def rendezvous_between_containers(host):  # flagos-ai/FlagScale#314: rdzv_backend: static cured it
    host.several_hosts()
    a100(host)
    host.put(".dockerenv")
    host.env.update(MASTER_ADDR="10.1.0.9", MASTER_PORT="29501")
    nccl(host, "2.22.3", "+cuda12.5")
    host.log = ("torch.distributed.DistNetworkError: The client socket has timed out after 60s while trying to connect to "
                "(10.1.0.9, 29501).\n")


def board_that_is_lost(host):  # stanford-cs336/assignment4-data#1: a GPU that no longer answers
    consumer(host, 4, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12020\ndriver 535.216.03")
    host.env.update(LOCAL_WORLD_SIZE="4", WORLD_SIZE="4", OMP_NUM_THREADS="1")
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = "Unable to determine the device handle for GPU0000:62:00.0: Unknown Error\n"


def loopback_of_an_engine(host):  # xorbitsai/inference#4834: master_addr for vLLM cured it
    host.several_hosts(local=2)
    host.gpus = 2
    a100(host)
    nccl(host, "2.27.5", "+cuda12.9")
    host.log = ("INFO 04-22 10:11:12 [parallel_state.py:1208] world_size=4 rank=2 local_rank=0 "
                "distributed_init_method=tcp://127.0.0.1:29501 backend=nccl\n")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("nccl#667", switches_behind_vt_d, "hang_stuck", ("gpu.iommu", "gpu.acs"), "",
     "VT-d is on: the IOMMU takes P2P between GPUs behind a switch; off, or iommu=pt"),
    ("horovod#3929", memory_of_the_batch, "init_error", (), r"memory",
     "a rank's GPU ran out of memory; a smaller batch"),
    ("MiniMax-01#42", shm_of_a_cloud, "init_error", ("limit.shm",), "",
     "/dev/shm of the container is too small; --ipc=host"),
    ("SkyRL#143", variable_of_vllm, "init_error", (), r"NCCL_CUMEM_ENABLE",
     "vLLM sets NCCL_CUMEM_ENABLE=0 for its ranks alone; the same for the trainer's"),
    ("pytorch#152077", torch_before_the_board, "init_error", ("version.gpu_code", "version.nccl_bad", "version.cuda"), "",
     "this PyTorch's CUDA 11.8 is older than the boards; PyTorch 2.7 for CUDA 12.8"),
    ("RWKV-LM-LoRA#18", shm_of_deepspeed, "init_error", ("limit.shm",), "",
     "/dev/shm of the container is too small; --shm-size"),
    ("OpenNMT-py#1928", shm_of_onmt, "init_error", ("limit.shm",), "",
     "/dev/shm of the container is too small; --ipc=host"),
    ("awsome-distr.-ai#284", library_of_conda, "slow_transfer", (), r"EFA_1\.2|libefa|libfabric",
     "EFA's plugin is not loaded, as a libefa of conda's stands before the system's; a plugin and libfabric that fit"),
    ("nanoGPT#55", rdma_that_leads_nowhere, "hang_stuck", (), r"NCCL_IB_DISABLE|RDMA|RoCE",
     "NCCL takes an RDMA device that leads to no other host; NCCL_IB_DISABLE=1, or mend RDMA"),
    ("nccl-tests#299", no_ssh_to_the_worker, "init_error", (), r"ssh",
     "the worker refuses ssh, which mpirun needs; sshd there"),
    ("vllm#1801", driver_of_ray_workers, "hang_stuck", ("version.driver",), "",
     "driver 545 hangs with GeForce boards; another one"),
    ("vllm#3974", peers_of_a_service, "hang_stuck", (), r"P2P",
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
    ("nccl-tests#171", one_of_three, "init_error", ("gpu.present",), "",
     "one of three GPUs does not answer; two, or mend it"),
    ("YOLOX#1421", shm_of_yolox, "init_error", ("limit.shm",), "",
     "/dev/shm of the container is too small; --ipc=host"),
    ("RL#2937", two_racks, "hang_stuck", (), r"PXN",
     "PXN over two NVLink domains hangs; NCCL_PXN_DISABLE=1"),
    ("FlagScale#314", rendezvous_between_containers, "hang_absent", (), r"10\.1\.0\.9|rendezvous|rdzv",
     "the rendezvous is not reached from this container; its port published, --net=host, or a static one"),
    ("assignment4-data#1", board_that_is_lost, "hang_dead", (), r"62:00|lost|no longer answers",
     "the GPU at 62:00.0 is lost; power, seat, driver, and a reboot"),
    ("inference#4834", loopback_of_an_engine, "hang_absent", (), r"127\.0\.0\.1|loopback",
     "ranks of two hosts look for rank 0 at 127.0.0.1; master_addr"),
)


if __name__ == "__main__":
    main_said(SAID)
