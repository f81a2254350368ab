"""Six further threads with a confirmed cause, found by queries that name none, rebuilt before doctor ran on any.

usage: doctor_threads_seventeenth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

These are the half that a coin (an even first byte of the name's SHA-1) kept apart while doctor was mended by the other,
doctor_threads_seventeenth_tuned.py. What a thread does not tell is sound, or, where a host needs a value, usual for its
day. Error text is given as host.log where the thread shows it; --without-log leaves it out. The words only sort the
answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md). Whether who reads this host
and this log can tell the cause was marked beforehand, too: "seen", "suspected", "unseen".
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from doctor_threads_fifth import a100, interfaces, pod  # noqa: E402 pylint: disable=wrong-import-position
from doctor_threads_fourth import main_said, nccl, p5  # noqa: E402 pylint: disable=wrong-import-position
from doctor_threads_more import consumer  # noqa: E402 pylint: disable=wrong-import-position


def pairs_of_a6000(host):  # pytorch/pytorch#79299: NCCL_P2P_DISABLE=1 cured it, two GPUs of one bridge work
    host.nvml.append("gpu * name NVIDIA RTX A6000\ngpu * links 4\ngpu * capability 8 6\ncuda 11060\ndriver 510.47.03")
    for gpu in range(8):
        host.nvml.extend(f"gpu {gpu} link {link} to {gpu ^ 1}" for link in range(4))
    nccl(host, "2.10.3", "+cuda11.3")


def six_of_a_server(host):  # vllm-project/vllm#12292: NCCL_P2P_DISABLE=1 cured it, and for a while a reboot
    consumer(host, 6, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12060\ndriver 560.28.03")
    host.put("proc/sys/kernel/osrelease", "6.8.0-51-generic\n")
    host.rdma([f"mlx5_{i}" for i in range(4)])
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = "INFO 01-22 10:12:41 pynccl.py:69] vLLM is using nccl==2.21.5\n"


def weights_of_a_trainer(host):  # allenai/open-instruct#1311: no device for the group, as before DeepSpeed 0.17.3
    pod(host)
    p5(host)
    host.nvml.append("cuda 12080\ndriver 570.133.20")
    for name, version in (("deepspeed", "0.18.2"), ("vllm", "0.11.0"), ("torch", "2.8.0")):
        host.put(f"opt/venv/lib/python3.12/site-packages/{name}-{version}.dist-info/METADATA",
                 f"Name: {name}\nVersion: {version}\n")
    nccl(host, "2.27.3", "+cuda12.8")


def threads_of_one_process(host):  # NVIDIA/nccl#613: NCCL_LAUNCH_MODE=GROUP cured it, a maintainer says why
    a100(host)
    host.nvml.append("cuda 11040\ndriver 470.57.02")
    nccl(host, "2.11.4", "+cuda11.4")


def notebook_of_a_container(host):  # Lightning-AI/pytorch-lightning#4518: NCCL_SOCKET_IFNAME=lo cured it
    host.gpus = 4
    host.nvml.append("gpu * name Tesla V100-SXM2-16GB\ngpu * links 6\ngpu * capability 7 0")
    host.nvml.append("cuda 10020\ndriver 440.33.01")
    host.put(".dockerenv")
    host.put("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    host.put("sys/class/dmi/id/product_name", "p3.8xlarge\n")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    interfaces(host, ("eth0", "172.17.0.2", "11AC"))
    host.env.update(WORLD_SIZE="4", LOCAL_RANK="0", NODE_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="41217")
    nccl(host, "2.4.8", "+cuda10.2")


def eight_on_four_h100(host):  # KellerJordan/modded-nanogpt#61: nproc_per_node=4 cured it
    host.gpus = 4
    p5(host)
    host.nvml.append("cuda 12040\ndriver 550.127.05")
    host.env.update(WORLD_SIZE="8", LOCAL_WORLD_SIZE="8", RANK="5", LOCAL_RANK="5", MASTER_ADDR="127.0.0.1",
                    MASTER_PORT="29500", OMP_NUM_THREADS="1")
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = "[rank5]: RuntimeError: CUDA error: invalid device ordinal\n"


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("pytorch#79299", pairs_of_a6000, "hang_stuck", (), r"P2P",  # suspected
     "P2P between boards without a bridge, over PCIe, hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
    ("vllm#12292", six_of_a_server, "hang_stuck", (), r"P2P",  # suspected
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 gets past it"),
    ("open-instruct#1311", weights_of_a_trainer, "hang_stuck", (), r"[Dd]eep[Ss]peed",  # unseen
     "DeepSpeed binds its first group to a device since 0.17.3, and a second one hangs; an older one, or none"),
    ("nccl#613", threads_of_one_process, "hang_stuck", (), r"NCCL_LAUNCH_MODE|one process",  # unseen
     "threads of one process launch NCCL's kernels behind CUDA calls that wait for each other; NCCL_LAUNCH_MODE=GROUP"),
    ("pytorch-lightning#4518", notebook_of_a_container, "hang_stuck", (), r"NCCL_SOCKET_IFNAME|interface",  # unseen
     "NCCL's connections on the container's interface do not come about; NCCL_SOCKET_IFNAME=lo"),
    ("modded-nanogpt#61", eight_on_four_h100, "init_error", (), r"4 GPUs|more ranks|device ordinal|8 ranks",  # seen
     "eight ranks are started where four GPUs are; nproc_per_node=4"),
)


if __name__ == "__main__":
    main_said(SAID)
