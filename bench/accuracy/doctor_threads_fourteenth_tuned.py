"""Ten threads found and rebuilt together with those of doctor_threads_fourteenth.py; doctor was mended by these, by
class.

usage: doctor_threads_fourteenth_tuned.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER
"""

from doctor_threads_fifth import a100, interfaces
from doctor_threads_fourth import epyc, main_said, nccl
from doctor_threads_more import consumer, small_shm


def bridge_of_virtual_machines(host):  # deepinsight/insightface#1905: NCCL_SOCKET_IFNAME without virbr0 cured it
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GeForce RTX 3090", "8 6")
    interfaces(host, ("eno1", "10.30.1.21", "1E0A"), ("virbr0", "192.168.122.1", "A8C0"))
    host.put("etc/hosts", "127.0.0.1 localhost\n10.30.1.21 node1\n")
    host.put("sys/class/net/virbr0/bridge/bridge_id", "8000.525400000001\n")
    nccl(host, "2.10.3", "+cuda11.3")


def shm_of_actors(host):  # verl-project/verl#707, as pengpeng0719 tells of it: --shm-size cured it
    a100(host)
    small_shm(host, 64)
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = ("ray.exceptions.ActorUnavailableError: The actor d933de7c29241f8d70bf189301000000 is unavailable: The actor is "
                "temporarily unavailable: RpcError: RPC Error message: Socket closed; RPC Error details: . The task may or "
                "maynot have been executed on the actor.\n")


def cards_behind_an_iommu(host):  # NVIDIA/nccl#743: the IOMMU's parameter of the kernel cured it
    host.several_hosts()
    a100(host)
    epyc(host, "AMD EPYC 7742 64-Core Processor")
    host.rdma([f"mlx5_{i}" for i in range(4)])
    for group in range(80):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet\n")
    nccl(host, "2.12.12", "+cuda11.7")


def interface_of_a_trainer(host):  # NVIDIA/nccl#1092, as mudassirkhan19 tells of it: NCCL_SOCKET_IFNAME cured it
    host.several_hosts()
    a100(host)
    interfaces(host, ("eno1", "10.30.1.11", "1E0A"), ("br-3f2a91c07d11", "172.18.0.1", "12AC"))
    host.put("etc/hosts", "127.0.0.1 localhost\n10.30.1.11 node1\n")
    host.put("sys/class/net/br-3f2a91c07d11/bridge/bridge_id", "8000.0242ac120001\n")
    nccl(host, "2.18.1", "+cuda12.1")
    host.log = ("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, "
                "internal error - please report this issue to the NCCL developers, NCCL version 2.18.1\n")


def sixteen_that_wait(host):  # microsoft/CNTK#1462: at most eight peers of a GPU, one of NVIDIA
    consumer(host, 16, "Tesla K80", "3 7")
    host.nvml.append("cuda 8000\ndriver 375.20")
    host.env.update(OMPI_COMM_WORLD_SIZE="16", OMPI_COMM_WORLD_LOCAL_SIZE="16", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0")
    nccl(host, "1.3.4", " compiled with CUDA 8.0", "libnccl.so.1")


def name_of_the_first_host(host):  # hpcaitech/ColossalAI#2958, as JingxinLee tells of it: its name in /etc/hosts cured it
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GeForce RTX 3090", "8 6")
    interfaces(host, ("enp0s31f6", "10.1.0.1", "010A"))
    host.put("etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tnode1\n")
    nccl(host, "2.10.3", "+cuda10.2")


def torch_after_the_driver(host):  # zjysteven/lmms-finetune#79: an older PyTorch cured it, 2.8.0 is newer than the driver
    host.gpus = 2
    a100(host)
    host.nvml.append("cuda 12020\ndriver 535.183.01")
    host.env.update(LOCAL_WORLD_SIZE="2", WORLD_SIZE="2", OMP_NUM_THREADS="1")
    nccl(host, "2.27.3", "+cuda12.8")
    host.log = ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3314, OpType=_ALLGATHER_BASE, "
                "NumelIn=6424320, NumelOut=12848640, Timeout(ms)=1800000) ran for 1800027 milliseconds before timing out.\n")


def nccl_for_two_new_boards(host):  # Nerogar/OneTrainer#1020: the NCCL of PyTorch 2.8 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 5090", "12 0")
    host.nvml.append("cuda 12080\ndriver 570.133.07")
    host.env.update(LOCAL_WORLD_SIZE="2", WORLD_SIZE="2", OMP_NUM_THREADS="1")
    nccl(host, "2.26.2", "+cuda12.8")


def shm_of_two_containers(host):  # NVIDIA/nccl#983: /dev/shm of the container, a maintainer
    host.several_hosts(local=1)
    host.gpus = 1
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    small_shm(host, 64)
    host.rdma([f"mlx5_{i}" for i in range(4)])
    nccl(host, "2.18.3", "+cuda12.2")
    host.log = ("4c217144f0b1:113168:113184 [0] NCCL INFO New proxy send connection 3 from local rank 0, transport 2\n"
                "[4c217144f0b1:113168] Signal: Bus error (7)\n"
                "--------------------------------------------------------------------------\n"
                "Primary job  terminated normally, but 1 process returned\n"
                "a non-zero exit code. Per user-direction, the job has been aborted.\n")


def peers_of_a_smoke_test(host):  # local-inference-lab/rtx6kpro#15: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 2, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12 0")
    host.nvml.append("cuda 13000\ndriver 595.45.04")
    host.put(".dockerenv")
    host.env.update(LOCAL_WORLD_SIZE="2", WORLD_SIZE="2", OMP_NUM_THREADS="1")
    nccl(host, "2.30.4", "+cuda13.0")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("insightface#1905", bridge_of_virtual_machines, "hang_absent", (), r"virbr0|NCCL_SOCKET_IFNAME",
     "NCCL takes virbr0, which leads to no other host; NCCL_SOCKET_IFNAME"),
    ("verl#707", shm_of_actors, "hang_dead", ("limit.shm",), "",
     "/dev/shm of the container is too small; --shm-size"),
    ("nccl#743", cards_behind_an_iommu, "hang_stuck", ("gpu.iommu",), "",
     "the IOMMU is in the way of RDMA; iommu=pt"),
    ("nccl#1092", interface_of_a_trainer, "init_error", (), r"NCCL_SOCKET_IFNAME",
     "NCCL takes an interface that leads to no other host; NCCL_SOCKET_IFNAME"),
    ("CNTK#1462", sixteen_that_wait, "hang_absent", ("gpu.peers",), "",
     "a GPU maps eight others at most; fewer GPUs"),
    ("ColossalAI#2958", name_of_the_first_host, "init_error", ("net.names",), "",
     "the host's name leads to 127.0.1.1; its address in /etc/hosts"),
    ("lmms-finetune#79", torch_after_the_driver, "hang_stuck", ("version.cuda", "version.driver"), "",
     "PyTorch is for a newer CUDA than the driver's; an older one, or a newer driver"),
    ("OneTrainer#1020", nccl_for_two_new_boards, "init_error", (), r"2\.26\.2|upgrade",
     "NCCL 2.26.2 fails between RTX 5090; a newer one"),
    ("nccl#983", shm_of_two_containers, "init_error", ("limit.shm",), "",
     "/dev/shm of the container is too small; --shm-size"),
    ("rtx6kpro#15", peers_of_a_smoke_test, "hang_stuck", (), r"P2P",
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
)


if __name__ == "__main__":
    main_said(SAID)
