"""Eight threads found and rebuilt together with those of doctor_threads_sixteenth.py, for mending doctor by class.

usage: doctor_threads_sixteenth_tuned.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER
"""

from doctor_threads_fifth import interfaces
from doctor_threads_fourth import main_said, nccl
from doctor_threads_more import consumer, small_shm


def peers_of_a_server(host):  # huggingface/open-r1#319, as VincentXWD tells of it: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 8, "NVIDIA A800 80GB PCIe", "8 0")
    host.nvml.append("cuda 12040\ndriver 550.90.07")
    host.env.update(LOCAL_WORLD_SIZE="7", WORLD_SIZE="7", RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                    MASTER_PORT="29500", OMP_NUM_THREADS="8")
    nccl(host, "2.21.5", "+cuda12.4")


def bridge_of_mpi(host):  # horovod/horovod#310: mpirun with -mca btl_tcp_if_exclude lo,docker0 cured it
    consumer(host, 4, "Tesla P100-PCIE-16GB", "6 0")
    host.nvml.append("cuda 9000\ndriver 384.111")
    host.put(".dockerenv")
    interfaces(host, ("docker0", "172.17.0.1", "11AC"), ("eth0", "10.1.0.5", "010A"))
    host.env.update(OMPI_COMM_WORLD_SIZE="8", OMPI_COMM_WORLD_LOCAL_SIZE="4", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0")
    nccl(host, "2.1.15", "+cuda9.0")


def memory_of_a_neighbour(host):  # deepinsight/insightface#1284: --privileged cured it
    consumer(host, 8, "Tesla V100-PCIE-32GB", "7 0")
    host.put(".dockerenv")
    host.put("proc/self/status", "Cpus_allowed_list:\t0-127\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n")
    host.env.update(OMPI_COMM_WORLD_SIZE="8", OMPI_COMM_WORLD_LOCAL_SIZE="8", OMPI_COMM_WORLD_RANK="5",
                    OMPI_COMM_WORLD_LOCAL_RANK="5")
    nccl(host, "2.4.8", "+cuda10.1")
    host.log = "[1,5]<stderr>:[8311b4012d34:153937] Read -1, expected 131072, errno = 1\n"


def list_of_visible_devices(host):  # horovod/horovod#1290, as Owen864720655 tells of it: CUDA_VISIBLE_DEVICES cured it
    consumer(host, 2, "NVIDIA GeForce GTX 1080 Ti", "6 1")
    host.nvml.append("cuda 10000\ndriver 410.104")
    host.put("usr/local/lib/python3.6/dist-packages/tensorflow/__init__.py")
    host.env.update(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="2", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0")
    nccl(host, "2.4.7", "+cuda10.0")
    host.log = "tensorflow.python.framework.errors_impl.UnknownError: ncclCommInitRank failed: internal error\n"


def channels_of_a10g(host):  # NVIDIA/nccl#1298, as Noezor tells of it: NCCL_MIN_CTAS=1 NCCL_MAX_CTAS=1 cured it
    consumer(host, 4, "NVIDIA A10G", "8 6")
    host.nvml.append("cuda 12020\ndriver 535.161.08")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    host.put("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    host.put("sys/class/dmi/id/product_name", "g5.24xlarge\n")
    nccl(host, "2.20.5", "+cuda12.1")


def trainer_and_server(host):  # PrimeIntellect-ai/verifiers#78: NCCL_P2P_DISABLE=1 cured it, its owner
    host.gpus = 2
    host.nvml.append("gpu * name NVIDIA H200\ngpu * links 18\ngpu * capability 9 0\ncuda 12040\ndriver 550.127.05")
    host.env.update(CUDA_VISIBLE_DEVICES="1")
    nccl(host, "2.26.2", "+cuda12.4")


def graph_of_an_older_driver(host):  # vllm-project/vllm#7201: an NCCL built for the host's CUDA cured it
    consumer(host, 2, "NVIDIA A10", "8 6")
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    nccl(host, "2.20.5", "+cuda12.4")
    host.log = "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)\n"


def memory_of_a_container(host):  # NVIDIA-Merlin/HugeCTR#243: a larger --shm-size cured it
    consumer(host, 4, "Tesla V100-PCIE-32GB", "7 0")
    host.nvml.append("cuda 11020\ndriver 460.32.03")
    small_shm(host, 64)
    nccl(host, "2.8.3", "+cuda11.2")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("open-r1#319", peers_of_a_server, "hang_stuck", (), r"NCCL_P2P_DISABLE",
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it and gets past it"),
    ("horovod#310", bridge_of_mpi, "hang_absent", (), r"docker0",
     "MPI takes docker0, which the other host does not reach; btl_tcp_if_exclude"),
    ("insightface#1284", memory_of_a_neighbour, "init_error", (), r"vader|ptrace|PTRACE|privileged|CMA",
     "the container may not read another process's memory; --cap-add SYS_PTRACE, --privileged, or MPI without it"),
    ("horovod#1290", list_of_visible_devices, "init_error", (), r"one GPU|same GPU|CUDA_VISIBLE_DEVICES|local rank",
     "ranks take one GPU; CUDA_VISIBLE_DEVICES to each rank its own"),
    ("nccl#1298", channels_of_a10g, "slow_transfer", (), r"CTAS|2\.18|2\.20",
     "NCCL 2.20 is slower than 2.18 here; NCCL_MAX_CTAS=1"),
    ("verifiers#78", trainer_and_server, "init_error", (), r"NCCL_P2P_DISABLE",
     "P2P between trainer and server fails; NCCL_P2P_DISABLE=1 gets past it"),
    ("vllm#7201", graph_of_an_older_driver, "init_error", (), r"CUDA 12\.2|CUDA 12\.4",
     "NCCL is built for a CUDA later than the driver's; a newer driver, or an NCCL of the driver's CUDA"),
    ("HugeCTR#243", memory_of_a_container, "hang_stuck", ("limit.shm",), r"shm",
     "the container's /dev/shm of 64 MiB is too small; --shm-size"),
)


if __name__ == "__main__":
    main_said(SAID)
