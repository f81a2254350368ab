"""Ten further threads with a confirmed cause, found by queries that name none or beside them, rebuilt before doctor ran
on any.

usage: doctor_threads_fifteenth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

These are the half that a coin (an even first byte of the name's SHA-1) kept apart while doctor was mended by the other,
doctor_threads_fifteenth_tuned.py. What a thread does not tell is sound, or, where a host needs a value, usual for its
day. Error text is given as host.log where the thread shows it; --without-log leaves it out. The words only sort the
answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import interfaces
from doctor_threads_fourth import epyc, main_said, nccl
from doctor_threads_more import consumer


def translated(host, groups):
    """An IOMMU that translates, as a BIOS leaves it."""
    for group in range(groups):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet\n")


def peers_of_four(host):  # NVIDIA/nccl#631: NCCL_P2P_DISABLE=1 cured it, a maintainer names ACS and VT-d
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 11040\ndriver 470.86")
    nccl(host, "2.10.3", "+cuda11.3")


def containers_of_two_machines(host):  # tensorflow/tensorflow#56812: the same without containers works
    host.several_hosts(local=1)
    consumer(host, 1, "Tesla T4", "7 5")
    host.put(".dockerenv")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    interfaces(host, ("eth0", "172.17.0.2", "11AC"))
    host.env.update(TF_CONFIG='{"cluster": {"worker": ["10.0.0.4:2222", "10.0.0.5:2222"]}, '
                              '"task": {"type": "worker", "index": 0}}')
    nccl(host, "2.8.3", "+cuda11.2")


def wire_of_two_servers(host):  # speechbrain/speechbrain#1426: iperf shows 625 Mbit/s, its author names the network
    host.several_hosts(local=2)
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.put(".dockerenv")
    interfaces(host, ("eth0", "10.1.0.5", "010A"))
    host.put("sys/class/net/eth0/speed", "1000\n")
    nccl(host, "2.10.3", "+cuda11.3")


def torch_of_two_sparks(host):  # eugr/spark-vllm-docker#24: PyTorch 2.9.1 cured it, the maintainer
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA GB10", "12 1")
    host.nvml.append("cuda 13000\ndriver 580.126.09")
    host.rdma(["rocep1s0f0", "rocep1s0f1"], "Ethernet", "200 Gb/sec (4X HDR)")
    host.put(".dockerenv")
    host.put("proc/version", "Linux version 6.14.0-1015-nvidia (aarch64)\n")
    host.put("proc/sys/kernel/osrelease", "6.14.0-1015-nvidia\n")
    host.put("usr/local/lib/python3.12/dist-packages/torch/version.py",
             "__version__ = '2.10.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n")
    nccl(host, "2.28.9", "+cuda13.0")


def two_of_a_notebook(host):  # jax-ml/jax#39167: TensorFlow brings a second NCCL; what google/flax#4942 tells cured it
    consumer(host, 2, "Tesla T4", "7 5")
    host.nvml.append("cuda 13000\ndriver 580.105.08")
    host.put(".dockerenv")
    for name in ("tensorflow/__init__.py", "jax/__init__.py", "jax_plugins/xla_cuda12/__init__.py"):
        host.put(f"usr/local/lib/python3.12/dist-packages/{name}")
    host.put("usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2", "\0NCCL version 2.28.9+cuda12.9\0")
    nccl(host, "2.28.9", "+cuda12.9")
    host.log = "NCCL WARN Error: corrupted comm object detected\n"


def copies_between_boards(host):  # pytorch/pytorch#84803, as alisadeghian tells of it: IOMMU off in the BIOS cured it
    consumer(host, 4, "NVIDIA RTX A6000", "8 6")
    host.nvml.append("cuda 11060\ndriver 510.73.05")
    epyc(host, "AMD EPYC 7742 64-Core Processor")
    translated(host, 60)
    nccl(host, "2.10.3", "+cuda11.3")


def each_its_own_first(host):  # pytorch/pytorch#76069: localhost and a port of its own on each of four, a maintainer
    host.several_hosts(nodes=4, local=1)
    consumer(host, 1, "Tesla V100-SXM2-32GB", "7 0")
    host.env.update(SLURM_JOB_ID="4711", SLURM_NNODES="4", SLURM_NTASKS="4", SLURM_PROCID="1", SLURM_LOCALID="0",
                    SLURM_NODEID="1", SLURM_JOB_NODELIST="node[1-4]", SLURMD_NODENAME="node2", RANK="1", LOCAL_RANK="0",
                    MASTER_ADDR="localhost", MASTER_PORT="41273")
    nccl(host, "2.10.3", "+cuda11.3")


def peers_that_a_patch_grants(host):  # noonghunna/club-3090#873: RMForceStaticBar1=1 cured it; P2P off gets past it
    consumer(host, 2, "NVIDIA GeForce RTX 5090", "12 0")
    host.nvml.append("cuda 13030\ndriver 610.43.03")
    host.put("proc/cpuinfo", "".join(
        f"processor\t: {i}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen 9 9950X3D 16-Core Processor\n"
        "physical id\t: 0\n\n" for i in range(32)))
    host.put("proc/sys/kernel/osrelease", "7.0.0-28-generic\n")
    host.put(".dockerenv")
    host.env.update(NCCL_P2P_LEVEL="PHB", NCCL_CUMEM_ENABLE="0")
    nccl(host, "2.28.9", "+cuda13.0")
    host.log = "(Worker pid=960) INFO 08-04 02:31:09 [pynccl.py:113] vLLM is using nccl==2.28.9\n"


def each_node_the_first(host):  # Lightning-AI/pytorch-lightning#13639: NODE_RANK from mpirun's rank cured it
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.put(".dockerenv")
    host.env.update(OMPI_COMM_WORLD_SIZE="3", OMPI_COMM_WORLD_LOCAL_SIZE="1", OMPI_COMM_WORLD_RANK="1",
                    OMPI_COMM_WORLD_LOCAL_RANK="0", AZ_BATCH_MASTER_NODE="10.0.0.4:6000", MASTER_PORT="6105",
                    MASTER_ADDR="10.0.0.4")
    nccl(host, "2.10.3", "+cuda11.3")


def tables_of_two_libraries(host):  # jax-ml/jax#3802, by its author: hiding the GPUs from TensorFlow cured it
    consumer(host, 4, "Tesla V100-SXM2-16GB", "7 0")
    host.nvml.append("cuda 10020\ndriver 440.33.01")
    for name in ("tensorflow/__init__.py", "jax/__init__.py", "jaxlib/__init__.py"):
        host.put(f"usr/local/lib/python3.6/dist-packages/{name}")
    nccl(host, "2.5.7", "+cuda10.1")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("nccl#631", peers_of_four, "hang_stuck", (), r"P2P",
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
    ("tensorflow#56812", containers_of_two_machines, "init_error", (), r"host network|--net|172\.17|docker",
     "the container's own network is none that the other host reaches; the host's network"),
    ("speechbrain#1426", wire_of_two_servers, "slow_transfer", (), r"1 Gb|1000 Mb|1\.0 Gb|[Ee]thernet",
     "the hosts' only network has 1 Gbit/s; a faster one"),
    ("spark-vllm-docker#24", torch_of_two_sparks, "hang_stuck", (), r"PyTorch 2\.10|2\.9\.1",
     "PyTorch 2.10 hangs between two of these hosts; 2.9.1"),
    ("jax#39167", two_of_a_notebook, "init_error", (), r"TensorFlow|two NCCL|second",
     "TensorFlow and JAX in one process have two NCCLs; one of them without GPUs, or another order"),
    ("pytorch#84803", copies_between_boards, "wrong_result", (), r"IOMMU",
     "an IOMMU redirects what GPUs copy to each other; off, or in pass-through"),
    ("pytorch#76069", each_its_own_first, "hang_absent", (), r"MASTER_ADDR",
     "MASTER_ADDR is localhost on each host; the first host's name and one port on all"),
    ("club-3090#873", peers_that_a_patch_grants, "hang_stuck", (), r"P2P",
     "P2P that a patched driver grants hangs; NCCL_P2P_DISABLE=1, or its static mapping of BAR1"),
    ("pytorch-lightning#13639", each_node_the_first, "wrong_result", (), r"NODE_RANK",
     "mpirun tells ranks, Lightning reads NODE_RANK, which is not set: each host is the first"),
    ("jax#3802", tables_of_two_libraries, "wrong_result", (), r"TensorFlow|two NCCL|second",
     "TensorFlow and JAX in one process share the GPUs; hide them from TensorFlow"),
)


if __name__ == "__main__":
    main_said(SAID)
