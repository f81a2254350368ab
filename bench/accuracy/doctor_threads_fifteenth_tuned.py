"""Nine threads found and rebuilt together with those of doctor_threads_fifteenth.py; doctor was mended by these, by
class.

usage: doctor_threads_fifteenth_tuned.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER
"""

from doctor_threads_fifteenth import translated
from doctor_threads_fifth import a100, interfaces
from doctor_threads_fourth import main_said, nccl, p5
from doctor_threads_more import consumer


def fabric_of_a_cluster(host):  # jax-ml/jax#13559: NCCL_IB_DISABLE=1 with NCCL_SOCKET_IFNAME cured it
    host.several_hosts(local=2)
    host.gpus = 2
    a100(host)
    host.nvml.append("cuda 11070\ndriver 515.65.01")
    host.rdma([f"mlx5_{i}" for i in range(4)])
    interfaces(host, ("enp49s0f0", "172.24.67.98", "18AC"))
    nccl(host, "2.13.4", "+cuda11.7")


def batch_without_srun(host):  # Lightning-AI/pytorch-lightning#17389, as shoang22 tells of it: srun cured it
    host.gpus = 4
    a100(host)
    host.env.update(SLURM_JOB_ID="4711", SLURM_JOB_NUM_NODES="1", SLURM_NNODES="1", SLURM_NTASKS="4",
                    SLURM_NTASKS_PER_NODE="4", SLURM_TASKS_PER_NODE="4", SLURM_PROCID="0", SLURM_LOCALID="0",
                    SLURM_NODEID="0", SLURM_JOB_NODELIST="node1", SLURMD_NODENAME="node1", SLURM_JOB_NAME="train.sh")
    nccl(host, "2.14.3", "+cuda11.7")


def six_of_eight(host):  # NVIDIA/nccl#1423: IOMMU off in the BIOS cured it
    consumer(host, 8, "NVIDIA RTX A6000", "8 6")
    host.nvml.append("gpu 6 links 4\ngpu 7 links 4\ncuda 12040\ndriver 550.54.15")
    host.nvml += [f"gpu {gpu} link {link} to {13 - gpu}" for gpu in (6, 7) for link in range(4)]
    translated(host, 80)
    nccl(host, "2.22.3", "+cuda12.4")


def half_in_each_container(host):  # NVIDIA/nccl-tests#93: NCCL does not see that the two are one host, a maintainer
    consumer(host, 2, "Tesla V100-SXM2-32GB", "7 0")
    host.nvml.append("gpu * links 2\ncuda 11040\ndriver 450.102.04")
    host.nvml += [f"gpu {gpu} link {link} to {1 - gpu}" for gpu in (0, 1) for link in range(2)]
    host.put(".dockerenv")
    for i in range(4):  # docker shows the PCI tree of the machine
        host.pci(f"pci0000:00/0000:00:0{i + 1}.0", "0x060400", "0x8086")
        host.pci(f"pci0000:00/0000:00:0{i + 1}.0/0000:1{i}:00.0", "0x030200")
    host.env.update(OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_LOCAL_SIZE="2", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0", HOROVOD_NUM_NODES="2")
    nccl(host, "2.10.3", "+cuda11.4")


def toolkit_without_patches(host):  # facebookresearch/maskrcnn-benchmark#58: CUDA 9.0's patches cured it
    consumer(host, 4, "TITAN Xp", "6 1")
    host.nvml.append("cuda 9010\ndriver 390.87")
    host.put("usr/local/cuda/version.txt", "CUDA Version 9.0.176\n")
    host.env.update(LOCAL_WORLD_SIZE="4", WORLD_SIZE="4", OMP_NUM_THREADS="1")
    nccl(host, "2.3.7", "+cuda9.0")


def devices_that_nccl_merges(host):  # NVIDIA-NeMo/Run#266, as its author tells elsewhere: NCCL 2.27 cured it
    host.several_hosts(local=4)
    host.gpus = 4
    a100(host)
    host.nvml.append("cuda 12080\ndriver 570.133.20")
    host.rdma([f"mlx5_{i}" for i in range(4)])
    host.env.update(SLURM_JOB_ID="4711", SLURM_NNODES="2", SLURM_JOB_NODELIST="node[1-2]")
    nccl(host, "2.25.1", "+cuda12.8")
    host.log = ("graph/search.cc:1135 NCCL WARN Could not find a path for pattern 1, falling back to simple order\n"
                "graph/topo.h:230 NCCL WARN Could not find NET with id 0\n"
                "torch.distributed.DistBackendError: NCCL error in: /opt/pytorch/pytorch/torch/csrc/distributed/c10d/"
                "ProcessGroupNCCL.cpp:3376, internal error - please report this issue to the NCCL developers, NCCL "
                "version 2.25.1\n")


def seven_and_eight(host):  # NVIDIA/nccl#2385: NCCL_NVLS_ENABLE=0 cured it
    p5(host)
    host.nvml.append("cuda 13030\ndriver 610.43.02")
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.env.update(OMPI_COMM_WORLD_SIZE="15", OMPI_COMM_WORLD_LOCAL_SIZE="7", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0")
    nccl(host, "2.31.2", "+cuda13.3")


def seven_of_two_hosts(host):  # facebookresearch/fast3r#38: torchrun cured it
    host.gpus = 7
    a100(host)
    nccl(host, "2.21.5", "+cuda12.4")


def nccl_of_another_framework(host):  # PaddlePaddle/Paddle#74792: two packages want two NCCLs, a maintainer
    host.gpus = 2
    a100(host)
    host.nvml.append("cuda 12060\ndriver 560.35.03")
    site = "root/miniconda3/envs/py310/lib/python3.10/site-packages"
    host.put(f"{site}/torch/version.py", "__version__ = '2.7.0+cu126'\ncuda: Optional[str] = '12.6'\nhip = None\n")
    host.put(f"{site}/paddle/version/__init__.py", "full_version = '3.0.0.dev20250702'\nnccl_version = '2.19.3'\n")
    nccl(host, "2.19.3", "+cuda12.3")
    host.log = ("ImportError: site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommInitRankScalable\n")


SAID = (
    ("jax#13559", fabric_of_a_cluster, "hang_stuck", (), r"NCCL_IB_DISABLE|NCCL_SOCKET_IFNAME",
     "InfiniBand between the hosts does not carry it; NCCL_IB_DISABLE=1 shows it"),
    ("pytorch-lightning#17389", batch_without_srun, "hang_absent", (), r"srun",
     "Slurm has four tasks, the batch script starts one of them itself; srun"),
    ("nccl#1423", six_of_eight, "wrong_result", (), r"IOMMU",
     "an IOMMU redirects what GPUs without NVLink copy to each other; off, or in pass-through"),
    ("nccl-tests#93", half_in_each_container, "slow_transfer", (), r"container",
     "two containers of one host are two hosts to NCCL; one container with all GPUs"),
    ("maskrcnn-benchmark#58", toolkit_without_patches, "hang_stuck", (), r"9\.0|patch",
     "CUDA 9.0 without its patches hangs; the patches, or a newer CUDA"),
    ("Run#266", devices_that_nccl_merges, "init_error", (), r"2\.27",
     "NCCL before 2.27 loses a merged NIC; NCCL 2.27"),
    ("nccl#2385", seven_and_eight, "hang_stuck", (), r"NVLS",
     "NVLS hangs where hosts have seven and eight ranks; NCCL_NVLS_ENABLE=0"),
    ("fast3r#38", seven_of_two_hosts, "hang_absent", (), r"torchrun|launcher",
     "no launcher tells the ranks of two hosts of each other; torchrun on each"),
    ("Paddle#74792", nccl_of_another_framework, "init_error", (), r"2\.19\.3|older|PyTorch",
     "the NCCL that Paddle brings is older than PyTorch was built for; one NCCL for both"),
)


if __name__ == "__main__":
    main_said(SAID)
