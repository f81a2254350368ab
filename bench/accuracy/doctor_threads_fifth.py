"""Thirty further threads with a confirmed cause, in the order in which neutral searches returned them, drawn and
rebuilt without reading doctor, its pages or its tests, and frozen before doctor was run on any of them.

usage: doctor_threads_fifth.py [--dry | --report THREAD] MUSTER FOLDER:FOLDER

What a thread does not tell is sound, or, where a host needs a value, usual for its day. The words only sort
the answers; what counts was written down for each thread in a sentence and evaluated by reading (docs/accuracy.md).
"""

import shutil

from doctor_threads_fourth import efa, epyc, main, nccl, p5, without_peermem
from doctor_threads_more import consumer, small_shm


def a100(host, memory="80GB"):
    host.nvml.append(f"gpu * name NVIDIA A100-SXM4-{memory}\ngpu * links 12\ngpu * capability 8 0")


def pod(host):
    host.put(".dockerenv")
    host.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1", KUBERNETES_PORT="tcp://10.0.0.1:443")


def interfaces(host, *each):
    """Name, address and the two bytes of its network, as the kernel lists them; eth0 is only where named."""
    host.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n" +
             "".join(f"{name:>6}: 1 2 3\n" for name, _, _ in each))
    host.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n" +
             "".join(f"           |-- {address}\n              /32 host LOCAL\n" for _, address, _ in each if address))
    host.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n" + "".join(
        f"{name}\t0000{network}\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n" for name, _, network in each if network))
    if "eth0" not in [name for name, _, _ in each]:
        host.remove("sys/class/net/eth0")
    for name, address, _ in each:
        host.put(f"sys/class/net/{name}/mtu", "1500\n")
        host.put(f"sys/class/net/{name}/operstate", "up\n")
    host.put("etc/hosts", f"127.0.0.1 localhost\n{[a for _, a, _ in each if a][-1]} node1\n")


def buffers(host):  # vllm-project/vllm#19613: registering them ran out of memory; the default cured it
    host.several_hosts()
    host.put(".dockerenv")
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    without_peermem(host)
    host.env.update(NCCL_BUFFSIZE="1073741824")
    nccl(host, "2.26.2", "+cuda12.2")


def eight_on_four(host):  # XPixelGroup/HAT#118: nproc_per_node 4 for 8 cured it
    consumer(host, 4, "Tesla V100-PCIE-32GB", "7 0")
    host.nvml.append("cuda 11040\ndriver 470.57.02")
    host.env.update(WORLD_SIZE="8", LOCAL_WORLD_SIZE="8", RANK="0", LOCAL_RANK="0", OMP_NUM_THREADS="1",
                    MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    nccl(host, "2.7.8", "+cuda11.1")


def virtual_bridge(host):  # PaddlePaddle/PaddleFleetX#1054: NCCL_SOCKET_IFNAME cured it
    host.several_hosts(local=2)
    consumer(host, 2, "Tesla V100-PCIE-32GB", "7 0")
    host.nvml.append("cuda 11060\ndriver 510.47.03")
    interfaces(host, ("virbr0", "192.168.122.1", "A8C0"), ("eth0", "10.1.0.1", "010A"))
    host.put("sys/class/net/virbr0/bridge/bridge_id", "8000.525400a1b2c3\n")
    nccl(host, "2.11.4", "+cuda11.6")


def bridged_interface(host):  # NVIDIA/nccl#1141: the bridge's name for the interface's cured it
    host.several_hosts(local=2)
    consumer(host, 2, "NVIDIA GeForce RTX 3090", "8 6")
    interfaces(host, ("eno1", "", ""), ("br0", "192.168.3.100", "A8C0"))
    host.put("sys/class/net/br0/bridge/bridge_id", "8000.3cecef112233\n")
    (host.root / "sys/class/net/eno1/master").symlink_to("../br0")
    (host.root / "sys/class/net/br0/brif").mkdir()
    host.env.update(NCCL_SOCKET_IFNAME="eno1")
    nccl(host, "2.18.6", "+cuda12.1")


def agent_interface(host):  # awslabs/awsome-distributed-ai#154: leaving veth_def_agent out cured it
    host.several_hosts(nodes=8)
    p5(host)
    efa(host, 32)
    interfaces(host, ("eth0", "10.1.0.1", "010A"), ("veth_def_agent", "169.254.0.1", "FEA9"))
    host.env.update(NCCL_SOCKET_IFNAME="^docker,lo", FI_PROVIDER="efa", FI_EFA_USE_DEVICE_RDMA="1")


def topology_of_h100(host):  # Azure/azurehpc-health-checks#142: no NCCL_TOPO_FILE cured it, 480 GB/s
    host.put(".dockerenv")
    host.put("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")
    host.put("sys/class/dmi/id/product_name", "Virtual Machine\n")
    host.rdma([f"mlx5_ib{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    for i in range(8):
        host.nvml.append(f"gpu {i} pci 0000000{i + 1}:00:00.0")
    host.env.update(NCCL_TOPO_FILE="/opt/microsoft/ndv5-topo.xml")
    host.put("opt/microsoft/ndv5-topo.xml", '<system version="1">\n' + "".join(
        f'  <cpu numaid="{cpu}" affinity="{"ffff,ffffffff,00000000,00000000" if cpu else "0000ffff,ffffffff"}" '
        'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">\n' + "".join(
            f'    <pci busid="ffff:ff:0{i}.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">\n'
            f'      <pci busid="000{i + 1}:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>\n'
            f'      <pci busid="010{i + 1}:00:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>\n'
            "    </pci>\n" for i in range(cpu * 4, cpu * 4 + 4)) + "  </cpu>\n" for cpu in range(2)) + "</system>\n")


def stranger_at_bootstrap(host):  # NVIDIA/nccl#1612: 2.27.3 cured it
    host.several_hosts()
    p5(host)
    nccl(host, "2.25.1", "+cuda12.8")


def private_interface(host):  # pytorch/pytorch#17349, as bearcatt tells of it: NCCL_SOCKET_IFNAME cured it
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.nvml.append("cuda 10000\ndriver 410.104")
    interfaces(host, ("eno2", "192.168.0.10", "A8C0"), ("eth0", "10.1.0.1", "010A"))
    nccl(host, "2.4.2", "+cuda10.0")


def driver_560(host):  # dmlc/xgboost#11242: driver 570 cured it, NCCL_P2P_DISABLE=1 works around it
    host.gpus = 2
    host.nvml.append("cuda 12060\ndriver 560.35.03")


def shm_of_a_pod(host):  # xorbitsai/inference#1622, as nakroy tells of it: a volume of memory cured it
    pod(host)
    consumer(host, 2, "NVIDIA A100-PCIE-40GB", "8 0")
    small_shm(host, 64)


def no_nvls(host):  # NVIDIA-NeMo/Megatron-Bridge#3350: the image's NCCL_NVLS_ENABLE=0, overridden
    host.several_hosts()
    p5(host)
    host.put(".dockerenv")
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.env.update(NCCL_NVLS_ENABLE="0")


def restarted_fabric_manager(host):  # NVIDIA/nccl#1488: a reboot cured it
    p5(host)
    host.put("proc/uptime", "612345.67 9876543.21\n")
    host.put("proc/12098/comm", "nv-fabricmanager\n")
    host.put("proc/12098/stat", "12098 (nv-fabricmanager) S 1 12098 12098 0 -1 4194560 1 0 0 0 5 3 0 0 20 0 9 0 "
             "61200000 1234567 1024 18446744073709551615\n")
    host.put("var/log/fabricmanager.log",
             "[Oct 14 2024 02:11:09] [INFO] [tid 2311] Fabric Manager version 550.90.07 is running with the "
             "following configuration options\n"
             "[Oct 14 2024 02:11:31] [INFO] [tid 2311] Successfully configured all the available NVSwitches to route "
             "GPU NVLink traffic.\n"
             "[Oct 21 2024 04:02:45] [INFO] [tid 2311] Received an exit signal, Fabric Manager is stopping\n"
             "[Oct 21 2024 04:03:10] [INFO] [tid 12098] Fabric Manager version 550.90.07 is running with the "
             "following configuration options\n"
             "[Oct 21 2024 04:03:32] [INFO] [tid 12098] Successfully configured all the available NVSwitches to "
             "route GPU NVLink traffic.\n")
    host.nvml.append("cuda 12040\ndriver 550.90.07")
    nccl(host, "2.23.4", "+cuda12.6")


def no_fabric_manager(host):  # pytorch/ci-infra#541: its service, and the module of IMEX channels
    pod(host)
    p5(host)
    efa(host, 32)
    host.nvml.append("gpu * fabric 2 0")
    nccl(host, "2.29.7", "+cuda13.0")


def page_faults(host):  # stas00/ml-engineering#1: no IOMMU cured it
    consumer(host, 2, "NVIDIA RTX A6000", "8 6")
    host.put("proc/cpuinfo", "".join(
        f"processor\t: {i}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen Threadripper PRO 3975WX 32-Cores\n"
        "physical id\t: 0\n\n" for i in range(128)))
    for i, root in enumerate(("00", "40")):
        port = f"pci0000:{root}/0000:{root}:01.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{i * 64 + 1:02x}:00.0", "0x030000")
        host.nvml.append(f"gpu {i} pci 00000000:{i * 64 + 1:02X}:00.0")
    for group in range(40):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA-FQ\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz-5.13.0-37-generic ro quiet splash\n")
    host.put("proc/kmsg", "[    1.103412] AMD-Vi: Interrupt remapping enabled\n" + "".join(
        f"[ 8237.1145{i:02d}] nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0017 "
        f"address=0xe000{i:02x}00 flags=0x0020]\n" for i in range(10)))


def nccl_of_pytorch_1_1(host):  # pytorch/examples#611: PyTorch 1.2 cured it
    host.several_hosts(local=4)
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.nvml.append("cuda 10010\ndriver 418.87.00")
    host.env.update(NCCL_P2P_DISABLE="1", OMP_NUM_THREADS="1")
    nccl(host, "2.4.2", "+cuda10.0")


def shm_of_more_than_two(host):  # sony/nnabla-ext-cuda#273: no space left on it
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    small_shm(host, 64)


def nccl_2_2(host):  # PaddlePaddle/models#2908: 2.3.7 cured it
    consumer(host, 4, "Tesla P40", "6 1")
    host.nvml.append("cuda 9020\ndriver 396.44")
    nccl(host, "2.2.13", "+cuda9.2")


def nccl_of_a_later_cuda(host):  # modelscope/ms-swift#1519: NCCL and CUDA did not match
    host.several_hosts()
    a100(host)
    host.nvml.append("cuda 11080\ndriver 520.61.05")
    nccl(host, "2.20.5", "+cuda12.4")


def gid_of_a_link(host):  # pytorch/pytorch#81628, as yangjian41727 tells of it: NCCL_IB_GID_INDEX=3 cured it
    host.several_hosts()
    a100(host, "40GB")
    devices = [f"mlx5_{i}" for i in range(4)]
    host.rdma(devices, "Ethernet", "100 Gb/sec (4X EDR)")
    for i, device in enumerate(devices):
        below = f"sys/class/infiniband/{device}/ports/1"
        for index, gid in enumerate((f"fe80:0000:0000:0000:0e42:a1ff:fe3a:00{i:02x}",) * 2 +
                                    (f"0000:0000:0000:0000:0000:ffff:c0a8:{i + 17:02x}92",) * 2):
            host.put(f"{below}/gids/{index}", gid + "\n")
            host.put(f"{below}/gid_attrs/types/{index}", ("RoCE v2" if index % 2 else "IB/RoCE v1") + "\n")
            host.put(f"{below}/gid_attrs/ndevs/{index}", f"eth{i + 1}\n")
    nccl(host, "2.10.3", "+cuda11.3")


def driver_before_cuda_12_5(host):  # dmlc/xgboost#10312: a driver of CUDA 12.5 cured it
    consumer(host, 4, "Tesla T4", "7 5")
    host.nvml.append("cuda 12040\ndriver 550.90.07")
    nccl(host, "2.21.5", "+cuda12.4")


def ras_of_2_27_7(host):  # NVIDIA/nccl#1996: NCCL_RAS_ENABLE=0 works around it
    host.several_hosts(nodes=16)
    p5(host)
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.libraries += ["libnccl-net.so"]
    nccl(host, "2.27.7", "+cuda12.4")


def fused_nics(host):  # NVIDIA/nccl#1748: 2.27 cured it, NCCL_NET_MERGE_LEVEL=LOC did not
    host.several_hosts(local=4)
    pod(host)
    host.gpus = 4
    p5(host)
    for gpu in range(4):
        others = [other for other in range(4) if other != gpu]
        host.nvml += [f"gpu {gpu} link {link} to {others[link // 6]}" for link in range(18)]
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="400 Gb/sec (4X NDR)")
    nccl(host, "2.26.2", "+cuda12.2")


def nccl_2_7_on_a100(host):  # coreweave/ml-containers#10: PyTorch 1.13.1 of CUDA 11.7 cured it
    host.several_hosts()
    pod(host)
    a100(host)
    host.nvml.append("cuda 11070\ndriver 515.65.01")
    nccl(host, "2.7.8", "+cuda11.1")


def shm_of_p40s(host):  # xorbitsai/inference#2836: --shm-size=128g cured it
    consumer(host, 4, "Tesla P40", "6 1")
    host.nvml.append("cuda 12040\ndriver 550.54.15")
    small_shm(host, 64)


def peers_of_4090s(host):  # NVIDIA/nccl-tests#117, as heya5 tells of it: NCCL_P2P_DISABLE=1 cured it
    consumer(host, 4, "NVIDIA GeForce RTX 4090", "8 9")
    epyc(host, "AMD EPYC 7543 32-Core Processor")
    host.nvml.append("cuda 12000\ndriver 525.85.12")
    for gpu, bus in enumerate(("21", "22", "41", "43")):
        root = "20" if gpu < 2 else "40"
        port = f"pci0000:{root}/0000:{root}:0{gpu % 2 + 1}.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
        host.nvml.append(f"gpu {gpu} pci 00000000:{bus}:00.0")


def nccl_on_rtx_pro(host):  # NVIDIA/nccl#2418: 2.31.2 cured it
    consumer(host, 2, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12 0")
    host.nvml.append("cuda 13000\ndriver 580.173.02")
    host.put("proc/sys/kernel/osrelease", "6.8.0-139-generic\n")
    nccl(host, "2.26.2", "+cuda12.2")


def nvls_of_two_ports(host):  # NVIDIA/nccl#1043: NCCL's patch for NVLS and two ports cured it
    host.several_hosts()
    p5(host)
    host.rdma([f"mlx5_{i}" for i in range(16)], rate="200 Gb/sec (2X NDR)")
    for i in range(16):
        port = f"pci0000:{i // 2 * 16 + 16:02x}/0000:{i // 2 * 16 + 16:02x}:01.0"
        if i % 2 == 0:
            host.pci(port, "0x060400", "0x8086")
        host.pci(f"{port}/0000:{i // 2 * 16 + 17:02x}:00.{i % 2}", "0x020700", "0x15b3")
        (host.root / f"sys/class/infiniband/mlx5_{i}/device").symlink_to(
            f"../../../devices/{port}/0000:{i // 2 * 16 + 17:02x}:00.{i % 2}")
    nccl(host, "2.19.3", "+cuda12.2")


def unlimited_stack(host):  # NVIDIA/nccl#2186, as AddyLaddy tells of it: 8 MiB of stack cured it
    host.several_hosts(nodes=11, local=4)
    host.gpus = 4
    host.put(".dockerenv")
    host.put("proc/version", "Linux version 6.8.0-1028-nvidia-64k (aarch64)\n")
    host.put("dev/nvidia-caps-imex-channels/channel0")
    host.nvml.append("gpu * name NVIDIA GB200\ngpu * capability 10 0\ncuda 13000\ndriver 580.126.09")
    host.limits["stack"] = "unlimited"
    nccl(host, "2.27.5", "+cuda12.9")


def link_down(host):  # NVIDIA/nccl#596: NCCL's patch for links that are down cured it; LL128
    host.several_hosts()
    host.nvml.append("gpu * name Tesla V100-SXM3-32GB\ngpu * links 6\ngpu * capability 7 0\ngpu 3 link 2 down")
    host.rdma([f"mlx5_{i}" for i in range(4)], rate="100 Gb/sec (4X EDR)")
    shutil.rmtree(host.root / "sys/module/nvidia_peermem")
    host.put("sys/module/nv_peer_mem/version", "1.1-0\n")
    nccl(host, "2.10.3", "+cuda11.4")


def permuted_gpus(host):  # NVIDIA/nccl#1906: 2.21.5 has it right
    p5(host)
    host.env.update(NCCL_ALGO="NVLS", CUDA_VISIBLE_DEVICES="1,2,3,4,5,6,7,0")
    nccl(host, "2.26.2", "+cuda12.2")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have
THREADS = (
    ("vllm#19613", buffers, "init_error", (), r"NCCL_BUFFSIZE"),
    ("HAT#118", eight_on_four, "init_error", (), r"LOCAL_WORLD_SIZE|(8|eight) (ranks|processes)"),
    ("PaddleFleetX#1054", virtual_bridge, "hang_stuck", (), r"virbr0|NCCL_SOCKET_IFNAME"),
    ("nccl#1141", bridged_interface, "init_error", (), r"eno1"),
    ("awsome-distributed-ai#154", agent_interface, "init_error", (), r"veth_def_agent"),
    ("azurehpc-health-checks#142", topology_of_h100, "slow_transfer", (), r"TOPO_FILE|ndv5"),
    ("nccl#1612", stranger_at_bootstrap, "init_error", (), r"2\.25\.1|2\.27\.3"),
    ("pytorch#17349", private_interface, "init_error", (), r"eno2|NCCL_SOCKET_IFNAME"),
    ("xgboost#11242", driver_560, "hang_stuck", (), r"560|570"),
    ("xinference#1622", shm_of_a_pod, "init_error", ("limit.shm",), ""),
    ("Megatron-Bridge#3350", no_nvls, "slow_transfer", (), r"NCCL_NVLS_ENABLE"),
    ("nccl#1488", restarted_fabric_manager, "init_error", (), r"[Ff]abric ?[Mm]anager"),
    ("ci-infra#541", no_fabric_manager, "init_error", (), r"[Ff]abric ?[Mm]anager|IMEX"),
    ("ml-engineering#1", page_faults, "hang_stuck", (), r"IOMMU|IO_PAGE_FAULT"),
    ("examples#611", nccl_of_pytorch_1_1, "init_error", (), r"2\.4\.2"),
    ("nnabla-ext-cuda#273", shm_of_more_than_two, "init_error", ("limit.shm",), ""),
    ("models#2908", nccl_2_2, "init_error", (), r"2\.2\.13"),
    ("ms-swift#1519", nccl_of_a_later_cuda, "init_error", ("version.cuda",), ""),
    ("pytorch#81628", gid_of_a_link, "init_error", (), r"GID"),
    ("xgboost#10312", driver_before_cuda_12_5, "hang_stuck", (), r"12\.5|555"),
    ("nccl#1996", ras_of_2_27_7, "hang_dead", (), r"2\.27\.7|RAS"),
    ("nccl#1748", fused_nics, "init_error", (), r"2\.26\.2|NET_MERGE|fus"),
    ("ml-containers#10", nccl_2_7_on_a100, "init_error", (), r"2\.7\.8"),
    ("xinference#2836", shm_of_p40s, "init_error", ("limit.shm",), ""),
    ("nccl-tests#117", peers_of_4090s, "hang_stuck", (), r"P2P|peer"),
    ("nccl#2418", nccl_on_rtx_pro, "hang_dead", (), r"2\.26\.2"),
    ("nccl#1043", nvls_of_two_ports, "hang_stuck", (), r"2\.19\.3|NVLS"),
    ("nccl#2186", unlimited_stack, "init_error", (), r"[Ss]tack"),
    ("nccl#596", link_down, "wrong_result", (), r"down|LL128|2\.10\.3"),
    ("nccl#1906", permuted_gpus, "wrong_result", (), r"2\.26\.2|NVLS|CUDA_VISIBLE_DEVICES"),
)

if __name__ == "__main__":
    main(THREADS)
