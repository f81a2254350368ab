"""Ten further threads with a confirmed cause, found by queries that name none, rebuilt before doctor ran on any.

usage: doctor_threads_fourteenth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

These are the half that a coin (an even first byte of the name's SHA-1) kept apart while doctor was mended by the other,
doctor_threads_fourteenth_tuned.py. What a thread does not tell is sound, or, where a host needs a value, usual for its
day. Error text is given as host.log where the thread shows it; --without-log leaves it out. The words only sort the
answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, pod
from doctor_threads_fourth import main_said, nccl
from doctor_threads_more import consumer


def peers_of_a_prepare(host):  # huggingface/accelerate#2062, as WanBenLe tells of it: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    host.env.update(LOCAL_WORLD_SIZE="2", WORLD_SIZE="2", OMP_NUM_THREADS="1")
    nccl(host, "2.18.1", "+cuda12.1")


def trainer_on_the_servers_gpu(host):  # huggingface/trl#3706: another GPU for the trainer; its pull request names it
    a100(host)
    host.nvml.append("cuda 12060\ndriver 560.35.03")
    nccl(host, "2.26.2", "+cuda12.2")
    host.log = ("INFO:     127.0.0.1:39744 - \"POST /init_communicator/ HTTP/1.1\" 200 OK\n"
                "(VllmWorker rank=0 pid=4887) INFO 07-08 10:09:09 [pynccl.py:70] vLLM is using nccl==2.26.2\n"
                "ERROR 07-08 10:09:09 [core.py:583] RuntimeError: Worker failed with error 'NCCL error: invalid usage "
                "(run with NCCL_DEBUG=WARN for details)', please check the stack trace above for the root cause\n")


def part_of_a_board(host):  # hiyouga/LlamaFactory#4192, as seanzhang-zhichen confirms: one vGPU alone works
    consumer(host, 2, "GRID V100DX-32Q", "7 0")
    host.nvml.append("cuda 12020\ndriver 535.129.03")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    host.put("proc/sys/kernel/osrelease", "4.18.0-348.el8.x86_64\n")
    nccl(host, "2.20.5", "+cuda12.4")


def sixteen_of_a_cloud(host):  # NVIDIA/nccl#51: at most eight peers of a device, for all libraries together, a maintainer
    consumer(host, 16, "Tesla K80", "3 7")
    host.nvml.append("cuda 8000\ndriver 367.57")
    host.put("sys/class/dmi/id/sys_vendor", "Xen\n")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    host.env.update(OMPI_COMM_WORLD_SIZE="16", OMPI_COMM_WORLD_LOCAL_SIZE="16", OMPI_COMM_WORLD_RANK="0",
                    OMPI_COMM_WORLD_LOCAL_RANK="0")
    nccl(host, "1.3.4", " compiled with CUDA 8.0", "libnccl.so.1")
    host.log = "peer mapping resources exhausted\n"


def nccl_of_an_engine(host):  # vllm-project/vllm#1726, as phoenix-zmh tells of it: VLLM_NCCL_SO_PATH cured it
    a100(host)
    host.nvml.append("cuda 12040\ndriver 550.54.15")
    nccl(host, "2.18.1", "+cuda12.1")
    host.put("root/.config/vllm/nccl/cu12/libnccl.so.2.18.1", "\0NCCL version 2.18.1+cuda12.1\0")
    host.put("root/miniconda3/envs/vllm/lib/python3.10/site-packages/nvidia/nccl/lib/libnccl.so.2",
             "\0NCCL version 2.21.5+cuda12.4\0")


def library_between(host):  # Project-HAMi/HAMi#2641: CUDA_DISABLE_CONTROL=true cured it
    pod(host)
    consumer(host, 4, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "12 0")
    host.nvml.append("cuda 13000\ndriver 580.95.05")
    host.env.update(LD_PRELOAD="/usr/local/vgpu/libvgpu.so")
    nccl(host, "2.28.9", "+cuda12.9")
    host.log = "(Worker pid=960) INFO 08-12 20:26:09 [pynccl.py:113] vLLM is using nccl==2.28.9\n"


def peers_of_a_clique(host):  # noonghunna/club-3090#897: P2P that the hypervisor granted hangs, a maintainer
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 13000\ndriver 580.95.05")
    host.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n\n")
    host.put(".dockerenv")
    nccl(host, "2.27.5", "+cuda12.9")


def peers_of_two_workstation_boards(host):  # NVIDIA/nccl#1999: P2P hangs, also with other versions of NCCL
    consumer(host, 2, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12 0")
    host.nvml.append("cuda 13000\ndriver 580.119.02")
    host.put("proc/sys/kernel/osrelease", "6.17.12-300.fc43.x86_64\n")
    host.env.update(NCCL_SOCKET_IFNAME="lo", NCCL_DEBUG="INFO")
    nccl(host, "2.29.2", "+cuda12.9")


def torch_of_an_image(host):  # vllm-project/vllm#16901, as voipmonitor tells of it: PyTorch for CUDA 12.8 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 5090", "12 0")
    host.nvml.append("cuda 12080\ndriver 570.133.07")
    host.put(".dockerenv")
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"


def nccl_of_one_of_three(host):  # horovod/horovod#639, as tsmolcic tells of it: one host had another NCCL
    host.several_hosts(nodes=3, local=1)
    host.gpus = 1
    consumer(host, 1, "Tesla V100-SXM2-16GB", "7 0")
    host.rdma(["mlx5_0"], rate="100 Gb/sec (4X EDR)")
    nccl(host, "2.3.5", "+cuda10.0")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("accelerate#2062", peers_of_a_prepare, "hang_stuck", (), r"P2P",
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
    ("trl#3706", trainer_on_the_servers_gpu, "init_error", (), r"(one|same) GPU",
     "the trainer takes a GPU that a rank of the server has; another one"),
    ("LlamaFactory#4192", part_of_a_board, "init_error", ("gpu.virtual",), "",
     "vGPUs do not reach each other; one alone, or whole GPUs"),
    ("nccl#51", sixteen_of_a_cloud, "init_error", (), r"8 peers|eight|peers",
     "a GPU maps eight others at most; fewer GPUs, or others' peers off"),
    ("vllm#1726", nccl_of_an_engine, "init_error", (), r"VLLM_NCCL_SO_PATH|2\.21\.5",
     "the engine loads an NCCL of its own beside PyTorch's; VLLM_NCCL_SO_PATH"),
    ("HAMi#2641", library_between, "hang_absent", (), r"libvgpu|CUDA_DISABLE_CONTROL",
     "libvgpu.so stands between NCCL and CUDA; CUDA_DISABLE_CONTROL=true"),
    ("club-3090#897", peers_of_a_clique, "hang_stuck", (), r"P2P",
     "P2P between GPUs that a hypervisor passes through hangs; NCCL_P2P_DISABLE=1"),
    ("nccl#1999", peers_of_two_workstation_boards, "hang_stuck", (), r"P2P",
     "P2P over PCIe hangs; NCCL_P2P_DISABLE=1 shows it, ACS and IOMMU are behind it"),
    ("vllm#16901", torch_of_an_image, "init_error", (), r"PyTorch|program|CUDA 12\.8",
     "PyTorch has no code for these boards; its build for CUDA 12.8"),
    ("horovod#639", nccl_of_one_of_three, "init_error", (), r"other hosts|--hosts|versions",
     "one host has another NCCL than the others; the same on all"),
)


if __name__ == "__main__":
    main_said(SAID)
