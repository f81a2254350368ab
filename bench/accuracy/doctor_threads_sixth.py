"""Twenty-two further threads with a confirmed cause, found by neutral searches (the first seven) or beside look-ups of
single threads, drawn and rebuilt without reading doctor, and frozen before doctor was run on any of them.

usage: doctor_threads_sixth.py [--dry | --report THREAD] [--without-log] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. Error text and lines of
NCCL's log are given as host.log where the thread shows them; --without-log leaves them out. The words only
sort the answers; what counts is the sentence beside each, evaluated by reading (docs/accuracy.md).
"""

from doctor_threads_fifth import a100, interfaces
from doctor_threads_fourth import main_said, nccl, p5
from doctor_threads_more import consumer, redirecting, small_shm


def hopper(host, name):
    host.nvml.append(f"gpu * name {name}\ngpu * capability 9 0")


def fallback_net(host):  # NVIDIA-NeMo/Speech#13996: NCCL 2.27.3 cured it
    host.several_hosts(nodes=8, local=4)
    host.gpus = 4
    host.put(".dockerenv")
    host.nvml.append("gpu * name NVIDIA A100-SXM-64GB\ngpu * links 12\ngpu * capability 8 0")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="100 Gb/sec (2X HDR)")
    nccl(host, "2.25.1", "+cuda12.8")
    host.log = "node1:71:90 [0] graph/topo.h:230 NCCL WARN Could not find NET with id 0\n"


def nvls_of_h20(host):  # NVIDIA/nccl#1497: NCCL_NVLS_ENABLE=0 cured it
    host.put(".dockerenv")
    hopper(host, "NVIDIA H20")
    nccl(host, "2.22.3", "+cuda12.6")


def memory_of_xla(host):  # jax-ml/jax#4950: XLA_PYTHON_CLIENT_MEM_FRACTION=0.85 cured it
    host.put(".dockerenv")
    consumer(host, 2, "GeForce RTX 2080 Ti", "7 5")
    host.nvml.append("gpu * memory 11554717696 6291456\ncuda 11010\ndriver 455.32.00")
    interfaces(host, ("eth0", "172.17.0.2", "11AC"))
    nccl(host, "2.7.3", "+cuda11.0")
    host.log = ("1de1c28a7548:559:653 [1] NCCL INFO Bootstrap : Using [0]eth0:172.17.0.2<0>\n"
                "1de1c28a7548:559:653 [1] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal "
                "implementation\n"
                "1de1c28a7548:559:660 [1] NCCL WARN Cuda failure 'out of memory'\n"
                "RuntimeError: Internal: NCCL operation ncclCommInitRank failed: unhandled system error\n")


def peers_of_five_4090s(host):  # rickyang1114/DDP-practice#1: NCCL_P2P_LEVEL=NVL cured it
    consumer(host, 5, "NVIDIA GeForce RTX 4090", "8 9")
    host.nvml.append("cuda 12000\ndriver 525.105.17")
    nccl(host, "2.14.3", "+cuda11.7")


def plugin_of_sixteen(host):  # NVIDIA/nccl#1091: one device fewer cured it
    a100(host)
    host.rdma([f"mlx5_{i}" for i in range(17)])
    host.libraries += ["libnccl-net.so"]
    nccl(host, "2.19.3", "+cuda12.2")
    host.log = ("#0  0x0000000000000000 in ?? ()\n"
                "#1  0x00007fefc64b890f in nccl_p2p_ib_init (num_devs=0x7fefc64cca38 <ncclNIbDevs>, "
                "ncclIbDevs=<optimized out>, ncclIbIfName=0x7fefc64ef090 <ncclIbIfName> \"ibs22\") at p2p_plugin.c:315\n"
                "#2  0x00007ff2369daf80 in ncclNet_v6_as_v7_init (logfn=<optimized out>) at net.cc:54\n"
                "#3  0x00007ff2369db85a in netGetState (state=<synthetic pointer>, i=0) at net.cc:322\n")


def interrupted_accept(host):  # NVIDIA/nccl#1757: 2.27.3 cured it
    host.several_hosts(nodes=16)
    p5(host)
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    nccl(host, "2.25.1", "+cuda12.8")


def peers_of_a_desktop(host):  # vllm-project/vllm#5484, as freckletonj tells of it: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    host.nvml.append("cuda 12060\ndriver 560.35.03")
    interfaces(host, ("wlp38s0", "192.168.1.19", "A8C0"))
    nccl(host, "2.20.5", "+cuda12.4")
    host.log = ("omega:53277:53277 [0] NCCL INFO Bootstrap : Using wlp38s0:192.168.1.19<0>\n"
                "omega:53277:53277 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: "
                "No such file or directory No plugin found (libnccl-net.so), using internal implementation\n"
                "omega:53277:53277 [0] NCCL INFO cudaDriverVersion 12060\nNCCL version 2.20.5+cuda12.4\n"
                "omega:53278:53278 [1] NCCL INFO cudaDriverVersion 12060\n"
                "omega:53278:53278 [1] NCCL INFO Bootstrap : Using wlp38s0:192.168.1.19<0>\n")


def nvls_of_h800(host):  # NVIDIA/nccl#1706: NCCL_NVLS_ENABLE=0 cured it, NCCL_P2P_DISABLE=1 did not
    hopper(host, "NVIDIA H800")
    host.nvml.append("cuda 12040\ndriver 550.90.07")
    interfaces(host, ("ens14f0np0", "192.168.1.252", "A8C0"))
    host.rdma(["mlx5_1"], "Ethernet", "200 Gb/sec (4X HDR)")
    host.env.update(CUDA_VISIBLE_DEVICES="0,1,2,3")
    nccl(host, "2.26.5", "+cuda12.4")
    host.log = ("deepseek:2081556:2081556 [0] NCCL INFO Bootstrap: Using ens14f0np0:192.168.1.252<0>\n"
                "deepseek:2081556:2081556 [0] NCCL INFO cudaDriverVersion 12040\n"
                "deepseek:2081556:2081556 [0] NCCL INFO NCCL version 2.26.5+cuda12.4\n"
                "deepseek:2081556:2081564 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net "
                "plugin.\n"
                "deepseek:2081556:2081564 [0] NCCL INFO NET/IB : Using [0]mlx5_1:1/RoCE [RO]; OOB "
                "ens14f0np0:192.168.1.252<0>\n"
                "deepseek:2081556:2081564 [0] NCCL INFO PROFILER/Plugin: Could not find: libnccl-profiler.so. \n")


def average_of_one(host):  # NVIDIA/nccl#1950: 2.29.7 cured it
    p5(host)
    nccl(host, "2.27.5", "+cuda12.9")
    host.log = ("AssertionError: Last entries are: tensor([-1.1953,  0.2295,  0.0000,  0.0000,  0.0000,  0.0000,  0.0000,"
                "  0.0000, 0.0000,  0.0000], device='cuda:0', dtype=torch.bfloat16) vs tensor([-1.1953,  0.2295,  "
                "1.6016,  0.2891,  1.9844, -0.5703, -0.1904,  0.6172, 1.4141,  1.2578], device='cuda:0', "
                "dtype=torch.bfloat16)\n")


def alltoall_of_2_8_3(host):  # horovod/horovod#2601: 2.8.4 cured it
    host.several_hosts(local=4)
    consumer(host, 4, "GeForce RTX 2080 Ti", "7 5")
    host.nvml.append("cuda 11020\ndriver 460.32.03")
    nccl(host, "2.8.3", "+cuda10.2")


def nccl_for_cuda_9(host):  # horovod/horovod#108: 2.1.2-1+cuda8.0 cured it
    consumer(host, 2, "Tesla P100-PCIE-16GB", "6 0")
    host.nvml.append("cuda 8000\ndriver 375.66")
    nccl(host, "2.1.2", "+cuda9.0")
    host.log = ("UnknownError (see above for traceback): ncclCommInitRank failed: unhandled cuda error\n"
                "\t [[Node: model/HorovodAllreduce_model_Mean_25_0 = HorovodAllreduce[T=DT_FLOAT, "
                "_device=\"/job:localhost/replica:0/task:0/device:GPU:0\"](model/Mean_25)]]\n")


def cumem_of_2_19(host):  # NVIDIA/nccl#1116: a deadlock of cuMem; NCCL_CUMEM_ENABLE=0 cured it
    host.several_hosts(nodes=14)
    host.put(".dockerenv")
    host.nvml.append("gpu * name NVIDIA A800-SXM4-80GB\ngpu * links 8\ngpu * capability 8 0")
    host.rdma([f"mlx5_{i}" for i in range(4)])
    nccl(host, "2.19.3", "+cuda12.3")


def device_of_four(host):  # NVIDIA/nccl#799: NCCL_IB_HCA=^mlx5_3 cured it
    consumer(host, 8, "Tesla V100-PCIE-32GB", "7 0")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="100 Gb/sec (4X EDR)")
    nccl(host, "2.7.8", "+cuda10.2")
    host.log = "node1:71:90 [0] NCCL WARN Call to ibv_modify_qp failed with error No such device\n"


def roce_of_intel(host):  # jax-ml/jax#22740: NCCL_IB_DISABLE=1 cured it
    host.several_hosts()
    a100(host)
    nccl(host, "2.21.5", "+cuda12.5")  # left out at first: a stand-in's version led then
    host.rdma(["irdma0"], "Ethernet", "25 Gb/sec (1X EDR)")
    host.put("sys/class/infiniband/irdma0/device/vendor", "0x8086\n")
    host.log = ("host1:20632:21039 [3] NCCL INFO NET/IB : Using [0]irdma0:1/RoCE [RO]; OOB eth0:10.1.0.1<0>\n"
                "host1:20632:21050 [3] misc/ibvwrap.cc:206 NCCL WARN Call to ibv_modify_qp failed with error Invalid "
                "argument errno 22\n")


def nccl_of_cuda_11_0(host):  # vllm-project/vllm#3069: 2.18.6+cuda11.8 cured it
    consumer(host, 2, "NVIDIA A100-PCIE-40GB", "8 0")
    host.nvml.append("cuda 11060\ndriver 510.108.03")
    nccl(host, "2.19.3", "+cuda11.0")
    host.log = ("NCCL WARN NCCL cannot be captured in a graph if either it wasn't built with CUDA runtime >= 11.3 or if "
                "the installed CUDA driver < R465.\n")


def ports_beyond_32(host):  # NVIDIA/nccl#2282: a patch, or a larger MAX_IB_DEVS, cured it
    p5(host)
    devices = [f"roce_r{i}" for i in range(14)] + [f"roce_vf_{i}" for i in range(8)]
    host.rdma(devices, "Ethernet", "200 Gb/sec (4X HDR)")
    for i in range(14):
        for port in range(2, 5 if i < 4 else 4):
            below = f"sys/class/infiniband/roce_r{i}/ports/{port}"
            for file, text in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "200 Gb/sec (4X HDR)"),
                               ("link_layer", "Ethernet")):
                host.put(f"{below}/{file}", text + "\n")
            host.put(f"{below}/gids/3", "0000:0000:0000:0000:0000:ffff:0a19:0001\n")
            host.put(f"{below}/gid_attrs/types/3", "RoCE v2\n")
    nccl(host, "2.30.7", "+cuda13.0")


def shm_of_5090s(host):  # NVIDIA/nccl#1683: shared memory of the container
    consumer(host, 4, "NVIDIA GeForce RTX 5090", "12 0")
    host.nvml.append("cuda 12080\ndriver 570.124.06")
    small_shm(host, 64)
    nccl(host, "2.26.2", "+cuda12.8")


def channels_of_a_peer(host):  # NVIDIA/nccl#1835: NCCL_NCHANNELS_PER_NET_PEER=4; no PXN works around it
    host.several_hosts(nodes=8)
    hopper(host, "NVIDIA H20")
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.env.update(NCCL_NCHANNELS_PER_NET_PEER="4")
    nccl(host, "2.27.7", "+cuda12.4")


def iommu_of_blackwell(host):  # vllm-project/vllm#33041: no IOMMU and no ACS cured it
    consumer(host, 2, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12 0")
    host.nvml.append("cuda 13000\ndriver 580.95.05")
    host.put("proc/cpuinfo", "".join(
        f"processor\t: {i}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen Threadripper PRO 7965WX 24-Cores\n"
        "physical id\t: 0\n\n" for i in range(128)))
    for gpu, (root, bus) in enumerate((("00", "01"), ("40", "41"))):
        port = f"pci0000:{root}/0000:{root}:01.1"
        host.pci(port, "0x060400", "0x1022")
        (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
        host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
        host.nvml.append(f"gpu {gpu} pci 00000000:{bus}:00.0")
    for group in range(40):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA-FQ\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.8.0-90-generic ro quiet splash\n")
    nccl(host, "2.27.5", "+cuda12.9")


def shm_of_an_image(host):  # fal-ai-community/video-diffusion-speedrun#2: --shm-size=1g cured it
    p5(host)
    small_shm(host, 64)
    host.log = "Error while creating shared memory segment /dev/shm/nccl-pZafXL (size 7340384)\n"


def gather_of_4_gib(host):  # NVIDIA/nccl-tests#37: NCCL's patch after 2.5.6 cured it
    host.nvml.append("gpu * name Tesla V100-SXM2-32GB\ngpu * links 6\ngpu * capability 7 0\n"
                     "cuda 10010\ndriver 418.87.01")
    nccl(host, "2.5.6", "+cuda10.0")
    host.log = ("  4294967296     134217728   float    29122  129.05  129.05  1e+00    29169  128.84  128.84  1e+00\n"
                " Out of bounds values : 2 FAILED\n Avg bus bandwidth    : 128.942\n")


def acs_of_m40s(host):  # NVIDIA/nccl#104: no ACS cured it
    consumer(host, 8, "Tesla M40 24GB", "5 2")
    host.nvml.append("cuda 8000\ndriver 375.66")
    for i, bus in enumerate(("05", "08", "0d", "13", "83", "89", "8e", "91")):
        root = "00" if i < 4 else "80"
        switch = f"pci0000:{root}/0000:{root}:02.0"
        if i % 4 == 0:
            host.pci(switch, "0x060400", "0x8086")
        port = f"{switch}/0000:{int(root, 16) + 2:02x}:{i % 4 + 8:02x}.0"
        host.pci(port, "0x060400", "0x10b5")
        (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
        host.pci(f"{port}/0000:{bus}:00.0", "0x030200")
        host.nvml.append(f"gpu {i} pci 00000000:{bus.upper()}:00.0")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have, what it must say
SAID = (
    ("Speech#13996", fallback_net, "init_error", (), r"2\.25\.1|2\.27",
     "NCCL 2.25.1 fails at 'Could not find NET with id 0' (its fallback after merging NICs); 2.27 cures it"),
    ("nccl#1497", nvls_of_h20, "wrong_result", (), r"NVLS",
     "NVLS does not add in the same order each time; NCCL_NVLS_ENABLE=0"),
    ("jax#4950", memory_of_xla, "init_error", (), r"memory",
     "no GPU memory is left for NCCL, since the framework takes it all; let it take less"),
    ("DDP-practice#1", peers_of_five_4090s, "hang_stuck", (), r"P2P|peer",
     "RTX 4090s have no P2P over PCIe, and this driver claims it; NCCL_P2P_DISABLE or NCCL_P2P_LEVEL"),
    ("nccl#1091", plugin_of_sixteen, "init_error", (), r"libnccl-net|plugin|16|MAX_IB_DEVS",
     "the network plugin crashes with more than 16 RDMA devices; fewer of them or no plugin"),
    ("nccl#1757", interrupted_accept, "init_error", (), r"2\.25\.1|EINTR|interrupt",
     "NCCL 2.19 to 2.25 fail at bootstrap when accept() is interrupted; 2.27.3 cures it"),
    ("vllm#5484", peers_of_a_desktop, "hang_stuck", (), r"P2P|peer",
     "P2P between these GPUs does not work (though it is claimed); NCCL_P2P_DISABLE=1"),
    ("nccl#1706", nvls_of_h800, "hang_stuck", (), r"NVLS",
     "NVLS hangs where more than two GPUs take part; NCCL_NVLS_ENABLE=0, or what makes NVLS fail"),
    ("nccl#1950", average_of_one, "wrong_result", (), r"2\.27\.5",
     "NCCL 2.27.5 leaves elements out when one rank averages; 2.29.7 cures it"),
    ("horovod#2601", alltoall_of_2_8_3, "hang_stuck", (), r"2\.8\.3",
     "NCCL 2.8.3 hangs in alltoall (send and receive); 2.8.4 cures it"),
    ("horovod#108", nccl_for_cuda_9, "init_error", ("version.cuda",), "",
     "NCCL is built for CUDA 9.0 and the driver gives CUDA 8"),
    ("nccl#1116", cumem_of_2_19, "hang_stuck", (), r"CUMEM|2\.19\.3",
     "NCCL 2.19's cuMem allocation deadlocks as connections of an alltoall are made; NCCL_CUMEM_ENABLE=0 or newer"),
    ("nccl#799", device_of_four, "init_error", (), r"NCCL_IB_HCA|mlx5_3|RDMA device",
     "an RDMA device that NCCL takes cannot be used; leave it out by NCCL_IB_HCA"),
    ("jax#22740", roce_of_intel, "init_error", (), r"irdma|RoCE|NCCL_IB_DISABLE",
     "RoCE of irdma0 is not set up for NCCL, as ibv_modify_qp says; set it up or NCCL_IB_DISABLE=1"),
    ("vllm#3069", nccl_of_cuda_11_0, "init_error", (), r"11\.0|11\.3|graph",
     "this NCCL is built with CUDA 11.0 and cannot be captured in a graph; one built with 11.3 or later"),
    ("nccl#2282", ports_beyond_32, "init_error", (), r"32|MAX_IB_DEVS|54",
     "NCCL 2.30.7 crashes with more than 32 active RDMA ports (these are 54); fewer of them, or a patched NCCL"),
    ("nccl#1683", shm_of_5090s, "init_error", ("limit.shm",), "",
     "the container's /dev/shm is too small"),
    ("nccl#1835", channels_of_a_peer, "hang_stuck", (), r"NCHANNELS_PER_NET_PEER|PXN",
     "NCCL_NCHANNELS_PER_NET_PEER=4 hangs alltoall; unset it (or NCCL_PXN_DISABLE=1)"),
    ("vllm#33041", iommu_of_blackwell, "hang_stuck", ("gpu.iommu", "gpu.acs"), "",
     "the IOMMU translates or ACS redirects what GPUs send each other"),
    ("video-diffusion-speedrun#2", shm_of_an_image, "init_error", ("limit.shm",), "",
     "the container's /dev/shm is too small"),
    ("nccl-tests#37", gather_of_4_gib, "wrong_result", (), r"2\.5\.6",
     "NCCL 2.5.6 gathers 4 GiB wrongly; a newer one"),
    ("nccl#104", acs_of_m40s, "hang_stuck", ("gpu.acs",), "",
     "ACS redirects what GPUs send each other"),
)


if __name__ == "__main__":
    main_said(SAID)
