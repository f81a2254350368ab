"""Eight further threads with a confirmed cause, found by queries that name none or beside them, rebuilt before doctor
ran on any.

usage: doctor_threads_sixteenth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

These are the half that a coin (an even first byte of the name's SHA-1) kept apart while doctor was mended by the other,
doctor_threads_sixteenth_tuned.py. What a thread does not tell is sound, or, where a host needs a value, usual for its
day. Error text is given as host.log where the thread shows it; --without-log leaves it out. The words only sort the
answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100
from doctor_threads_fourth import main_said, nccl, p5
from doctor_threads_more import consumer, small_shm


def batch_of_two_nodes(host):  # Lightning-AI/pytorch-lightning#8707, as catalys1 tells of it: srun cured it
    consumer(host, 4, "Tesla P100-PCIE-16GB", "6 0")
    host.nvml.append("cuda 10010\ndriver 418.87.01")
    host.env.update(SLURM_JOB_ID="4711", SLURM_JOB_NUM_NODES="2", SLURM_NNODES="2", SLURM_NTASKS="8",
                    SLURM_NTASKS_PER_NODE="4", SLURM_TASKS_PER_NODE="4(x2)", SLURM_PROCID="0", SLURM_LOCALID="0",
                    SLURM_NODEID="0", SLURM_JOB_NODELIST="node[1-2]", SLURMD_NODENAME="node1",
                    SLURM_JOB_NAME="train.sh")
    nccl(host, "2.7.8", "+cuda10.1")
    host.log = "initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/8\n"


def argument_of_two_hosts(host):  # NVIDIA/TensorRT-LLM#4238: 2.26.2 cured it
    host.several_hosts()
    p5(host)
    host.nvml.append("cuda 12080\ndriver 570.124.06")
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.put(".dockerenv")
    nccl(host, "2.25.1", "+cuda12.8")
    host.log = ("node1:2150:2150 [0] enqueue.cc:1500 NCCL WARN Cuda failure 1 'invalid argument'\n"
                "Failed, NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n")


def segments_of_a_container(host):  # pytorch/tutorials#2475: --shm-size 2g cured it
    consumer(host, 4, "Tesla M60", "5 2")
    host.nvml.append("cuda 12000\ndriver 525.105.17")
    small_shm(host, 64)
    nccl(host, "2.18.1", "+cuda12.1")
    host.log = "Segmentation fault (core dumped)\n"


def two_jobs_at_a_time(host):  # pytorch/pytorch#1656: not two such jobs on the same GPUs, the maintainers
    consumer(host, 4, "NVIDIA TITAN X (Pascal)", "6 1")
    host.nvml.append("cuda 8000\ndriver 375.66")
    for gpu in (2, 3):
        host.nvml.append(f"gpu {gpu} utilization 100\ngpu {gpu} processes 4711:4096 4999:4096")
    host.env.update(CUDA_VISIBLE_DEVICES="2,3")
    nccl(host, "2.0.5", "+cuda8.0")


def fabric_left_out(host):  # hiyouga/LlamaFactory#8045, as chancharikmitra tells of it: TCP for InfiniBand cured it
    host.several_hosts()
    a100(host)
    host.nvml.append("cuda 12040\ndriver 550.90.07")
    host.rdma([f"mlx5_{i}" for i in range(4)])
    host.env.update(FORCE_TORCHRUN="1", NNODES="2", NODE_RANK="0", MASTER_ADDR="10.1.0.1", MASTER_PORT="29500",
                    RANK="0", LOCAL_RANK="0")
    nccl(host, "2.26.2", "+cuda12.6")


def python_of_ubuntu(host):  # open-mmlab/mmdetection#1483: Python 3.7.3 for Ubuntu's 3.5.2 cured it
    consumer(host, 4, "NVIDIA GeForce GTX 1080 Ti", "6 1")
    host.nvml.append("cuda 10000\ndriver 410.104")
    host.put("etc/os-release", 'NAME="Ubuntu"\nVERSION="16.04.6 LTS (Xenial Xerus)"\n')
    host.put("usr/bin/python3.5")
    host.put("usr/local/lib/python3.5/dist-packages/torch/version.py", "__version__ = '1.1.0'\ncuda = '10.0.130'\n")
    host.env.update(WORLD_SIZE="4", RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500",
                    OMP_NUM_THREADS="1")
    nccl(host, "2.4.2", "+cuda10.0")


def first_device_of_all(host):  # facebookresearch/fairseq#2924: a device of its own for each rank cured it
    consumer(host, 4, "Tesla V100-PCIE-32GB", "7 0")
    host.nvml.append("cuda 10020\ndriver 440.33.01")
    host.put(".dockerenv")
    host.env.update(WORLD_SIZE="4", RANK="1", LOCAL_RANK="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500",
                    OMP_NUM_THREADS="1")
    nccl(host, "2.6.3", "+cuda10.2")
    host.log = ("RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:514, invalid usage, "
                "NCCL version 2.6.3\n")


def communicators_that_end(host):  # NVIDIA/Fuser#3055: the same order on all ranks cured it, 2.22 has it not
    consumer(host, 4, "Tesla V100-SXM2-32GB", "7 0")
    host.nvml.append("gpu * links 2\ncuda 12060\ndriver 560.35.03")
    host.env.update(OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_LOCAL_SIZE="4", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0", TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="10", NCCL_DEBUG="INFO")
    nccl(host, "2.23.4", "+cuda12.6")
    host.log = ("[----------] Global test environment tear-down\n"
                "dgx1v-loki-23:5891:6272 [1] NCCL INFO misc/socket.cc:47 -> 3\n"
                "dgx1v-loki-23:5891:6272 [1] NCCL INFO misc/socket.cc:58 -> 3\n"
                "dgx1v-loki-23:5891:6272 [1] NCCL INFO misc/socket.cc:781 -> 3\n"
                "dgx1v-loki-23:5891:5928 [1] NCCL INFO misc/socket.cc:832 -> 3\n"
                "[E930 15:23:00.059980974 ProcessGroupNCCL.cpp:1487] [PG ID 4 PG GUID  Rank 2] ProcessGroupNCCL's "
                "watchdog got stuck for 10 seconds without making progress in monitoring enqueued collectives.\n")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("pytorch-lightning#8707", batch_of_two_nodes, "hang_absent", (), r"srun",
     "one process of a batch script waits for seven that nobody starts; srun starts them"),
    ("TensorRT-LLM#4238", argument_of_two_hosts, "init_error", (), r"2\.25\.1|2\.26",
     "NCCL 2.25.1 fails with an argument of its own when it launches; 2.26.2"),
    ("tutorials#2475", segments_of_a_container, "init_error", ("limit.shm",), r"shm",
     "the container's /dev/shm of 64 MiB is too small; --shm-size"),
    ("pytorch#1656", two_jobs_at_a_time, "hang_stuck", (), r"process|in use|busy",
     "two jobs with NCCL on the same GPUs lock each other; one at a time"),
    ("LlamaFactory#8045", fabric_left_out, "hang_stuck", (), r"NCCL_IB_DISABLE",
     "what goes over InfiniBand does not arrive; NCCL_IB_DISABLE=1 shows it and gets past it"),
    ("mmdetection#1483", python_of_ubuntu, "hang_absent", (), r"Python 3\.5|3\.5\.2",
     "Ubuntu's Python 3.5.2 stops ranks while they start; a later Python"),
    ("fairseq#2924", first_device_of_all, "init_error", (), r"LOCAL_RANK|set_device|one GPU|same GPU",
     "ranks take one GPU; to each the GPU of its LOCAL_RANK"),
    ("Fuser#3055", communicators_that_end, "hang_stuck", (), r"2\.23\.4|destroy|same order",
     "NCCL 2.23.4 waits for the other ranks at the end of a communicator; the same order on all ranks, or 2.22"),
)


if __name__ == "__main__":
    main_said(SAID)
