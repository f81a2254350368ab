"""The other half of the threads of doctor_threads_eleventh.py: those that doctor was mended by.

usage: doctor_threads_eleventh_tuned.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text is given as
host.log where the thread shows it; --without-log leaves it out. The words only sort the answers; what counts is
the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, interfaces, pod
from doctor_threads_fourth import (
    efa, epyc, main_said, nccl, p5, without_peermem)
from doctor_threads_more import (
    consumer, redirecting, small_shm)


def mesh_of_four(host):
    """Four H100 without switches: six links from each to each other."""
    host.gpus = 4
    p5(host)
    for gpu in range(4):
        others = [other for other in range(4) if other != gpu]
        host.nvml += [f"gpu {gpu} link {link} to {others[link // 6]}" for link in range(18)]


def spark(host, kernel, cma_total, cma_free):
    """One GB10 of several: RoCE and a kernel that sets memory apart."""
    consumer(host, 1, "NVIDIA GB10", "12 1")
    host.rdma(["rocep1s0f0", "rocep1s0f1"], "Ethernet", "200 Gb/sec (4X HDR)")
    host.put(".dockerenv")
    host.put("proc/version", f"Linux version {kernel} (aarch64)\n")
    host.put("proc/sys/kernel/osrelease", f"{kernel}\n")
    host.put("proc/meminfo", "MemTotal: 125000000 kB\nMemAvailable: 110000000 kB\n"
             f"CmaTotal: {cma_total} kB\nCmaFree: {cma_free} kB\nHugePages_Free: 0\nHugepagesize: 2048 kB\n")
    host.log = "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n"


def acs_of_two_nodes(host):  # NVIDIA/nccl-tests#252: ACS off cured it
    host.several_hosts(local=4)
    mesh_of_four(host)
    host.nvml.append("cuda 12060\ndriver 560.35.03")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="400 Gb/sec (4X NDR)")
    for i, (root, gpu, nic) in enumerate((("40", "42", "45"), ("53", "55", "58"), ("d2", "d4", "d7"), ("e4", "e6", "e9"))):
        host.nvml.append(f"gpu {i} pci 00000000:{gpu.upper()}:00.0")
        for device, (bus, code, vendor) in enumerate(((gpu, "0x030200", "0x10de"), (nic, "0x020700", "0x15b3"))):
            port = f"pci0000:{root}/0000:{root}:0{device + 1}.0"
            host.pci(port, "0x060400", "0x8086")
            (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
            host.pci(f"{port}/0000:{bus}:00.0", code, vendor)
        (host.root / f"sys/class/infiniband/mlx5_{i}/device").symlink_to(
            f"../../../devices/pci0000:{root}/0000:{root}:02.0/0000:{nic}:00.0")
    nccl(host, "2.21.5", "+cuda12.4")
    host.log = ("kolyoz2: Test NCCL failure common.cu:303 'remote process exited or there was a network error / '\n"
                " .. kolyoz2 pid 25146: Test failure common.cu:401\n")


def shm_of_the_second_pod(host):  # NVIDIA/nccl-tests#125: -x NCCL_SHM_DISABLE=1 for all ranks cured it
    pod(host)
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla T4", "7 5")
    small_shm(host, 64)
    nccl(host, "2.15.5", "+cuda11.8")


def driver_of_11_7(host):  # InternLM/lmdeploy#1108: the driver is too old for the CUDA of the wheel
    consumer(host, 2, "NVIDIA A100 80GB PCIe", "8 0")
    host.nvml.append("cuda 11070\ndriver 515.86.01")
    nccl(host, "2.18.1", "+cuda12.1")
    host.log = ("NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object "
                "file: No such file or directory\nNCCL INFO NET/Plugin : No plugin found, using internal implementation\n"
                "NCCL INFO cudaDriverVersion 11070\n\ninit.cc:1582 NCCL WARN Cuda failure 'CUDA driver version is "
                "insufficient for CUDA runtime version'\nFailed, NCCL error /lmdeploy/src/turbomind/utils/nccl_utils.cc:296 "
                "'unhandled cuda error (run with NCCL_DEBUG=INFO for details)'\n")


def nvls_tree_of_2_18(host):  # NVIDIA/nccl-tests#167: NCCL_NVLS_ENABLE=0 cured it; mended in 2.19.3
    pod(host)
    host.several_hosts()
    p5(host)
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    host.rdma([f"mlx5_{i}" for i in range(8)], "Ethernet", "400 Gb/sec (4X NDR)")
    without_peermem(host)
    host.env.update(NCCL_IB_GID_INDEX="3", NCCL_IB_ADAPTIVE_ROUTING="1", NCCL_NET_GDR_LEVEL="1", NCCL_IB_TC="98")
    nccl(host, "2.18.5", "+cuda12.2")


def allocator_of_2_10(host):  # NVIDIA/nccl#844: 2.17.1 cured it
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.put(".dockerenv")
    host.put("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")
    host.put("sys/class/dmi/id/product_name", "Virtual Machine\n")
    interfaces(host, ("eth0", "10.0.0.5", "000A"))
    host.env.update(NCCL_SOCKET_IFNAME="eth0", NCCL_IB_DISABLE="1", NCCL_IB_PCI_RELAXED_ORDERING="1")
    nccl(host, "2.10.3", "+cuda11.3")
    rank = "696b7901f9044f23b786795c0ef7257b000000:39:298 [0] "
    host.log = (f"{rank}include/socket.h:423 NCCL WARN Net : Connection closed by remote peer 10.0.0.4<52638>\n"
                f"{rank}NCCL INFO include/socket.h:445 -> 2\n{rank}NCCL INFO bootstrap.cc:229 -> 2\n\n"
                f"{rank}bootstrap.cc:279 NCCL WARN [Rem Allocator] Allocation failed (segment 0, fd 130)\n\n"
                f"{rank}include/alloc.h:48 NCCL WARN Cuda failure 'out of memory'\n{rank}NCCL INFO bootstrap.cc:231 -> 1\n")


def code_of_sm_80(host):  # NVIDIA/nccl#1372: NCCL built for sm_90 cured it
    mesh_of_four(host)
    nccl(host, "2.18.3", "+cuda12.1")
    host.env.update(OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_LOCAL_SIZE="4")
    host.log = "gcn75:2336636:2336906 [0] enqueue.cc:58 NCCL WARN Cuda failure 'named symbol not found'\n"


def mlx5_beside_efa(host):  # aws-samples/aws-do-eks#63: no hostPath of /dev/infiniband cured it
    pod(host)
    host.several_hosts()
    host.nvml.append("gpu * name NVIDIA B200\ngpu * capability 10 0\ncuda 12080\ndriver 570.133.20")
    efa(host, 8)
    for i, name in enumerate(("ibp115s0f0", "ibp116s0f0")):
        for file, text in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "400 Gb/sec (4X NDR)"),
                           ("link_layer", "InfiniBand")):
            host.put(f"sys/class/infiniband/{name}/ports/1/{file}", f"{text}\n")
        host.put(f"sys/class/infiniband/{name}/device/vendor", "0x15b3\n")
        for file in (f"uverbs{i + 8}", f"umad{i}", f"issm{i}"):
            host.put(f"dev/infiniband/{file}")
    nccl(host, "2.27.7", "+cuda12.8")


def sockets_beside_ib(host):  # NVIDIA/nccl-tests#188: InfiniBand works on one of two nodes
    host.several_hosts()
    a100(host)
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    interfaces(host, ("ibs85f0", "192.168.1.14", "A8C0"))
    host.put("sys/class/net/ibs85f0/type", "32\n")
    host.put("proc/sys/kernel/hostname", "user\n")
    host.put("etc/hosts", "127.0.0.1 localhost\n192.168.1.14 user\n")
    host.rdma(["mlx5_0"])
    host.libraries = []
    nccl(host, "2.18.1", "+cuda12.1")
    host.log = ("user:852750:852750 [0] NCCL INFO Bootstrap : Using ibs85f0:192.168.1.14<0>\nNCCL version 2.18.1+cuda12.1\n"
                "misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3\n")


def barrier_of_2_12(host):  # pytorch/pytorch#130414: 2.13 cured it
    consumer(host, 2, "NVIDIA A10", "8 6")
    host.put("sys/class/dmi/id/sys_vendor", "Alibaba Cloud\n")
    host.put("sys/class/dmi/id/product_name", "Alibaba Cloud ECS\n")
    host.put("usr/local/lib/python3.10/dist-packages/torch/version.py",
             "__version__ = '2.3.0'\ncuda = '11.6'\n")
    nccl(host, "2.12.10", "+cuda11.6")
    host.env["VIRTUAL_ENV"] = str(host.root / "usr/local")
    host.log = ("iZmj7cfy2ysqwfo0nrci4pZ:2532579:2532579 [0] enqueue.cc:336 NCCL WARN Cuda failure 'invalid resource handle'\n"
                "iZmj7cfy2ysqwfo0nrci4pZ:2532579:2532579 [0] NCCL INFO enqueue.cc:1382 -> 1\n")


def nvls_of_2_26(host):  # pytorch/pytorch#150852: no NVLS or a newer driver cured it; mended in 2.26.5
    p5(host)
    host.nvml.append("cuda 12020\ndriver 535.154.05")
    nccl(host, "2.26.2", "+cuda12.2")
    host.log = ("[2025-04-08 08:39:46] devgpu263:589012:591652 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid "
                "argument'\ndevgpu263:589012:591652 [0] NCCL INFO transport/nvls.cc:409 -> 1\n"
                "devgpu263:589012:591652 [0] NCCL INFO init.cc:1141 -> 1\n"
                "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
                "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2\n")


def shm_of_a_large_llama(host):  # vllm-project/vllm#6689, as nani1149 tells of it: a larger /dev/shm cured it
    p5(host)
    small_shm(host, 64)
    nccl(host, "2.20.5", "+cuda12.4")
    host.log = ("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, "
                "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5\n"
                "[rank0]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device "
                "error.\n[rank0]: Last error:\n"
                "[rank0]: Error while creating shared memory segment /dev/shm/nccl-eQz2sT (size 5767520)\n")


def no_service_of_the_fabric(host):  # NVIDIA/nccl-tests#264: the fabric manager's service cured it
    p5(host)
    host.nvml.append("cuda 12060\ndriver 560.35.03\ngpu * fabric 2 0")
    nccl(host, "2.23.4", "+cuda12.6")
    host.log = ("test: Test CUDA failure common.cu:941 'system not yet initialized'\n .. test pid 54340: Test failure "
                "common.cu:891\n")


def iommu_of_epyc(host):  # huggingface/transformers#8628: no IOMMU in the BIOS cured it
    consumer(host, 4, "Quadro RTX 6000", "7 5")
    host.nvml.append("cuda 11000\ndriver 450.80.02")
    epyc(host, "AMD EPYC 7402 24-Core Processor")
    for i, root in enumerate(("00", "40", "80", "c0")):
        port = f"pci0000:{root}/0000:{root}:01.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{i * 64 + 1:02x}:00.0", "0x030000")
        host.nvml.append(f"gpu {i} pci 00000000:{i * 64 + 1:02X}:00.0")
    for group in range(60):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz-5.4.0-52-generic ro quiet splash\n")
    nccl(host, "2.7.8", "+cuda11.0")


def kernel_of_three_sparks(host):  # MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#14: 6.17.0-1032-nvidia cured it
    host.several_hosts(nodes=3, local=1)
    spark(host, "7.0.0-1019-nvidia", 0, 10171187)
    host.nvml.append("cuda 13000\ndriver 580.173.02")
    host.env.update(NCCL_IB_MERGE_NICS="1", NCCL_CUMEM_ENABLE="1")
    nccl(host, "2.30.7", "+cuda13.0")


def handover_of_kexec(host):  # MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259: kho=off cured it
    host.several_hosts(local=1)
    spark(host, "7.0.0-31-generic", 32768, 9751757)
    host.nvml.append("cuda 13000\ndriver 580.173.02")
    host.put("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-7.0.0-31-generic ro quiet splash\n")
    nccl(host, "2.30.4", "+cuda13.0")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("nccl-tests#252", acs_of_two_nodes, "init_error", ("gpu.acs",), "",
     "ACS redirects the PCIe traffic between GPUs and NICs; disable ACS"),
    ("nccl-tests#125", shm_of_the_second_pod, "init_error", ("limit.shm",), "",
     "/dev/shm of this pod is too small; enlarge it, or NCCL_SHM_DISABLE=1 on every node"),
    ("lmdeploy#1108", driver_of_11_7, "init_error", ("version.cuda", "version.driver"), "",
     "the driver serves CUDA 11.7, NCCL wants 12.x; a newer driver or a build for CUDA 11"),
    ("nccl-tests#167", nvls_tree_of_2_18, "wrong_result", (), r"NVLS|2\.18\.5",
     "NVLS(Tree) of NCCL 2.18.5 sums wrongly; NCCL_NVLS_ENABLE=0 or 2.19.3"),
    ("nccl#844", allocator_of_2_10, "init_error", (), r"2\.10\.3",
     "NCCL 2.10.3 is old and its bootstrap fails at this; 2.17.1 or newer"),
    ("nccl#1372", code_of_sm_80, "init_error", (), r"sm_|capability|built|compiled",
     "this NCCL holds no code for H100; build it for sm_90"),
    ("aws-do-eks#63", mlx5_beside_efa, "slow_transfer", (), r"EFA|mlx5|libfabric|/dev/infiniband",
     "mlx5 devices lie beside EFA's in /dev/infiniband; EFA's alone from the device plugin, no hostPath"),
    ("nccl-tests#188", sockets_beside_ib, "init_error", (), r"RDMA|InfiniBand|libibverbs|NCCL_IB_DISABLE",
     "this host uses sockets, its peer InfiniBand; make it work on both or NCCL_IB_DISABLE=1"),
    ("pytorch#130414", barrier_of_2_12, "init_error", (), r"2\.12\.10",
     "NCCL 2.12.10 is too old for this PyTorch; 2.13 or newer"),
    ("pytorch#150852", nvls_of_2_26, "init_error", (), r"NVLS|NVLink SHARP",
     "NVLS of NCCL 2.26.2 fails with the driver of CUDA 12.2; NCCL_NVLS_ENABLE=0, 2.26.5 or a newer driver"),
    ("vllm#6689", shm_of_a_large_llama, "init_error", ("limit.shm",), "",
     "docker's /dev/shm is too small; --ipc=host or --shm-size"),
    ("nccl-tests#264", no_service_of_the_fabric, "init_error", ("gpu.fabric",), "",
     "the fabric manager is not running; start nvidia-fabricmanager"),
    ("transformers#8628", iommu_of_epyc, "init_error", ("gpu.iommu",), "",
     "the IOMMU translates the GPUs' P2P; disable it in the BIOS or iommu=pt"),
    ("DeepSeek-v4.1-Flash-DGX-Sparks#14", kernel_of_three_sparks, "init_error", (), r"[Kk]ernel|7\.0\.0|CMA|Cma|kho",
     "kernel 7.0.0-1019-nvidia cannot pin memory (CMA); boot 6.17.0-1032-nvidia"),
    ("DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259", handover_of_kexec, "init_error", (), r"kho|CMA|Cma|[Kk]ernel",
     "memory that the kernel sets apart for Kexec HandOver (CMA) cannot be pinned; kho=off"),
)


if __name__ == "__main__":
    main_said(SAID)
