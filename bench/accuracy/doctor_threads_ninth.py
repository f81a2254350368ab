"""Eight further threads with a confirmed cause, rebuilt without reading doctor's answers: three beside queries that
do not name their cause, five by look-ups.

usage: doctor_threads_ninth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text is given as
host.log where the thread shows it; --without-log leaves it out. The words only sort the answers; what counts is
the sentence beside each, evaluated by reading (docs/accuracy.md). What taming-transformers#12 taught was mended
before the first run, so that it counts as missed.
"""

from doctor_threads_fifth import interfaces, pod
from doctor_threads_fourth import main_said, nccl
from doctor_threads_mined import listening
from doctor_threads_more import consumer, small_shm


def node_rank_of_nobody(host):  # CompVis/taming-transformers#12: unset NODE_RANK cured it
    consumer(host, 2, "NVIDIA TITAN RTX", "7 5")
    host.env.update(NODE_RANK="0")
    nccl(host, "2.7.8", "+cuda11.0")


def few_cores_and_little_memory(host):  # zhanghang1989/PyTorch-Encoding#121: 8 cores and 20 GB for 5 and 10 cured it
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.put("sys/fs/cgroup/cpu.max", "500000 100000\n")
    host.put("sys/fs/cgroup/memory.max", f"{10 << 30}\n")
    nccl(host, "2.2.13", "+cuda9.0")


def peers_of_3090s(host):  # chenyilun95/DSGN2#20: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 12020\ndriver 535.183.01")
    nccl(host, "2.7.8", "+cuda11.1")


def device_set_too_late(host):  # ruizhecao96/CMGAN#40: torch.cuda.set_device before init_process_group cured it
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    nccl(host, "2.10.3", "+cuda11.3")
    host.log = ("File \"/anaconda3/envs/cmg/lib/python3.9/site-packages/torch/nn/parallel/distributed.py\", line 578, in "
                "__init__\n    dist._verify_model_across_ranks(self.process_group, parameters)\nRuntimeError: NCCL error\n")


def shm_of_docker_on_1080s(host):  # HRNet/DEKR#18: --ipc=host cured it
    consumer(host, 4, "NVIDIA GeForce GTX 1080 Ti", "6 1")
    small_shm(host, 64)
    nccl(host, "2.7.8", "+cuda10.2")
    host.log = ("RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:825, unhandled system error, NCCL "
                "version 2.7.8\nncclSystemError: System call (socket, malloc, munmap, etc) failed.\n")


def master_that_is_not_up(host):  # kubeflow/pytorch-operator#125: the master's pod has to be there first
    pod(host)
    consumer(host, 1, "Tesla V100-SXM2-16GB", "7 0")
    host.env.update(MASTER_ADDR="optimizer-master-0", MASTER_PORT="23456", RANK="1", WORLD_SIZE="2")
    nccl(host, "2.3.7", "+cuda10.0")
    host.log = ("  File \"/root/.local/lib/python3.7/site-packages/torch/distributed/rendezvous.py\", line 143, in "
                "_env_rendezvous_handler\n    store = TCPStore(master_addr, master_port, start_daemon)\n"
                "ValueError: host not found: Name or service not known\n")


def mesh_of_an_mpi_job(host):  # kubeflow/mpi-operator#407: a namespace without Istio cured it
    pod(host)
    consumer(host, 1, "NVIDIA A40", "8 6")
    listening(host, 15001, 15006, 15020, 15090)
    host.env.update(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="1")
    nccl(host, "2.8.4", "+cuda11.2")
    host.log = ("Failed to list *v1.Pod: Get https://10.43.0.1:443/api/v1/namespaces/adrian/pods?limit=500&resourceVersion=0: "
                "dial tcp 10.43.0.1:443: connect: connection refused\n")


def interface_of_gemini(host):  # determined-ai/determined#4297: NCCL_SOCKET_IFNAME=ipogif0 cured it
    host.several_hosts(local=1)
    consumer(host, 1, "Tesla K20X", "3 5")
    interfaces(host, ("rsip", "172.30.12.77", "1EAC"), ("ipogif0", "10.128.0.154", "800A"))
    nccl(host, "2.9.9", "+cuda10.2")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("taming-transformers#12", node_rank_of_nobody, "hang_absent", (), r"NODE_RANK",
     "NODE_RANK is set, which Lightning takes for a launcher's; unset it"),
    ("PyTorch-Encoding#121", few_cores_and_little_memory, "hang_stuck", ("limit.memory", "limit.threads"), "",
     "five cores and 10 GB for four GPUs; raise the limits of the cgroup"),
    ("DSGN2#20", peers_of_3090s, "hang_stuck", (), r"NCCL_P2P_DISABLE",
     "P2P between these GPUs hangs; NCCL_P2P_DISABLE=1"),
    ("CMGAN#40", device_set_too_late, "init_error", (), r"set_device|same GPU",
     "ranks take one GPU; torch.cuda.set_device before the process group"),
    ("DEKR#18", shm_of_docker_on_1080s, "init_error", ("limit.shm",), "",
     "docker's /dev/shm of 64 MiB is too small; --ipc=host"),
    ("pytorch-operator#125", master_that_is_not_up, "init_error", (), r"MASTER_ADDR|name",
     "the master's name has no address (yet)"),
    ("mpi-operator#407", mesh_of_an_mpi_job, "init_error", ("net.mesh",), "",
     "Istio's proxy takes the pod's connections; no sidecar for the job"),
    ("determined#4297", interface_of_gemini, "init_error", (), r"NCCL_SOCKET_IFNAME",
     "NCCL takes an interface that the other hosts do not reach; NCCL_SOCKET_IFNAME=ipogif0"),
)


if __name__ == "__main__":
    main_said(SAID)
