"""Thirty further threads with a confirmed cause, taken in the order in which neutral searches returned them
and rebuilt before muster doctor had been run on any of them. What a thread does not tell is sound.

usage: doctor_threads_fourth.py [--dry | --report THREAD] MUSTER FOLDER:FOLDER

The first fourteen came from queries that name no cause, the others stood beside them in the answers. What
counts as an answer was written down with the host: an id that earlier threads know, words that the answer
must have, or both. --dry only builds the hosts; --report prints one report, to be read.
"""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

WITHOUT_LOG = "--without-log" in sys.argv  # later sets know it
if WITHOUT_LOG:
    sys.argv.remove("--without-log")
OPTIONS = [sys.argv.pop(1)] if sys.argv[1:2] == ["--dry"] else []
if sys.argv[1:2] == ["--report"]:
    OPTIONS = [sys.argv.pop(1), sys.argv.pop(1)]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from doctor_threads import FAKES, MUSTER, Host, named  # noqa: E402 pylint: disable=wrong-import-position
from doctor_threads_more import consumer, redirecting, small_shm  # noqa: E402 pylint: disable=wrong-import-position


def nccl(host, version, cuda, name="libnccl.so.2"):
    """The job's NCCL, and the only one: the stand-in that says another version, also in its bytes."""
    folder = host.root / "fakes"
    folder.mkdir()
    for each in filter(os.path.isdir, host.fakes.split(":")):
        for file in pathlib.Path(each).iterdir():
            if file.is_file() and not file.name.startswith("libnccl.so"):
                shutil.copy(file, folder)
            elif file.name == "libnccl.so.2":
                data = file.read_bytes().replace(b"NCCL version 2.", b"NCCX version 2.")
                (folder / name).write_bytes(data + f"\0NCCL version {version}{cuda}\0".encode())
    host.fakes = str(folder)
    host.extra["args"] = ["--nccl", str(folder / name)]
    major, minor, patch = (int(part) for part in version.split("."))
    scale = 10000 if (major, minor) >= (2, 9) else 1000
    host.env["FAKE_NCCL"] = str(major * scale + minor * 100 + patch)


def without_peermem(host):
    for name in ("sys/module/nvidia_peermem", "sys/kernel/mm"):
        shutil.rmtree(host.root / name)


def efa(host, devices):
    host.rdma([f"rdmap{i}s0" for i in range(devices)], "Unspecified", "100 Gb/sec (4X EDR)")
    without_peermem(host)
    host.put("sys/module/efa/version", "2.10.0\n")
    host.put("sys/module/efa_nv_peermem/version", "1.1.0\n")
    for i in range(devices):
        host.put(f"sys/class/infiniband/rdmap{i}s0/device/vendor", "0x1d0f\n")
    host.libraries = ["libibverbs.so.1", "libfabric.so.1", "libnccl-net.so"]


def p5(host):
    host.nvml.append("gpu * name NVIDIA H100 80GB HBM3\ngpu * capability 9 0")


def epyc(host, model, nodes=2):
    """Two sockets that show one NUMA node each."""
    host.put("proc/cpuinfo", "".join(
        f"processor\t: {i}\nvendor_id\t: AuthenticAMD\nmodel name\t: {model}\n"
        f"physical id\t: {i // 64}\n\n" for i in range(128)))
    for node in range(nodes):
        host.put(f"sys/devices/system/node/node{node}/cpulist", f"{node * 64}-{node * 64 + 63}\n")
    host.put("sys/devices/system/node/online", f"0-{nodes - 1}\n")


def nccl_of_another_cuda(host):  # InternLM/lmdeploy#1803: CUDA 12.2 here
    host.nvml.append("cuda 12020\ndriver 535.104.05")
    nccl(host, "2.20.5", "+cuda12.4")


def topology_file_of_efa(host):  # NVIDIA/nccl#1726: no arch and no vendor in it
    p5(host)
    efa(host, 32)
    host.put("usr/local/share/aws-ofi-nccl/xml/p5.48xl-topo.xml",
             '<system version="1">\n  <cpu numaid="0">\n    <pci busid="0000:45:00.0">\n'
             '      <pci busid="0000:4f:00.0" link_speed="32 GT/s PCIe/s" link_width="16"/>\n'
             "    </pci>\n  </cpu>\n</system>\n")


def hpcx_newer_than_ofed(host):  # NVIDIA/nccl-tests#200: HPC-X 2.14 cured it
    host.several_hosts(local=1)
    p5(host)
    host.nvml.append("cuda 12020\ndriver 535.86.10")
    host.rdma(["mlx5_0"], rate="400 Gb/sec (4X NDR)")
    host.libraries += ["libnccl-net.so"]
    host.put("sys/module/mlx5_core/version", "5.8-1.1.2\n")
    host.put("sys/module/mlx_compat/version", "5.8-1.1.2\n")
    hpcx = "opt/hpcx-v2.17.1-gcc-mlnx_ofed-ubuntu22.04-cuda12-x86_64"
    host.put(f"{hpcx}/VERSION", "HPC-X v2.17.1\n")
    host.put(f"{hpcx}/nccl_rdma_sharp_plugin/lib/libnccl-net.so")
    host.env.update(HPCX_HOME=f"/{hpcx}", NCCL_CUMEM_ENABLE="1", NCCL_IB_HCA="mlx5",
                    LD_LIBRARY_PATH=f"{host.fakes}:{host.root}/lib:"
                                    f"{host.root}/{hpcx}/nccl_rdma_sharp_plugin/lib")
    nccl(host, "2.19.3", "+cuda12.2")


def one_node_a_socket(host):  # NVIDIA/nccl-tests#293: four NUMA nodes a socket gave 9 GB/s
    host.several_hosts(local=1)
    consumer(host, 1, "NVIDIA A100-PCIE-40GB", "8 0")
    host.nvml.append("gpu 0 pci 00000000:81:00.0\ncuda 12040\ndriver 550.54.15")
    epyc(host, "AMD EPYC")
    host.put("sys/class/dmi/id/sys_vendor", "Dell Inc.\n")
    host.rdma(["mlx5_0"], rate="100 Gb/sec (4X EDR)")
    for root, bus, code in (("80", "81", "0x030200"), ("a0", "a1", "0x020700")):
        port = f"pci0000:{root}/0000:{root}:01.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{bus}:00.0", code, "0x10de" if bus == "81" else "0x15b3")
    (host.root / "sys/class/infiniband/mlx5_0/device").symlink_to(
        "../../../devices/pci0000:a0/0000:a0:01.1/0000:a1:00.0")
    host.libraries += ["libnccl-net.so"]
    host.env.update(NCCL_NET_GDR_LEVEL="2", NCCL_SHM_DISABLE="1")
    nccl(host, "2.21.5", "+cuda12.4")


def three_sparks(host):  # luxingcom/aicad-nccl-optimization#1: beside wrong cables, which no host shows
    host.several_hosts(nodes=3, local=1)
    consumer(host, 1, "NVIDIA GB10", "12 1")
    host.rdma(["rocep1s0f0", "rocep1s0f1"], "Ethernet", "200 Gb/sec (4X HDR)")
    host.put(".dockerenv")
    host.put("proc/version", "Linux version 7.0.0-1019-nvidia (aarch64)\n")
    host.put("proc/sys/kernel/osrelease", "7.0.0-1019-nvidia\n")
    host.put("proc/meminfo", "MemTotal: 125000000 kB\nMemAvailable: 110000000 kB\n"
             "CmaTotal: 0 kB\nCmaFree: 0 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB\n")
    host.put("etc/nccl.conf", "NCCL_IB_USE_INLINE=1\nNCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1\n")
    nccl(host, "2.30.7", "+cuda13.0")


def nvls_tree(host):  # pytorch/pytorch#117748: 53 GB/s, with NVIDIA/nccl's change 1112 142 GB/s
    host.several_hosts(nodes=8)
    p5(host)
    efa(host, 32)
    nccl(host, "2.19.3", "+cuda12.3")


def nccl_for_cuda_9(host):  # NVIDIA/caffe#492: 2.1.15-1+cuda8.0 cured it
    consumer(host, 2, "NVIDIA GeForce GTX 1080 Ti", "6 1")
    host.nvml.append("cuda 9000\ndriver 384.111")
    nccl(host, "2.1.15", "+cuda9.1")


def nccl_1(host):  # NVIDIA/nccl-tests#5
    consumer(host, 8, "Tesla P100-PCIE-16GB", "6 0")
    host.nvml.append("cuda 9000\ndriver 384.66")
    nccl(host, "1.3.4", " compiled with CUDA 8.0", "libnccl.so.1")


def wsl(host):  # vllm-project/vllm#3710
    consumer(host, 2, "NVIDIA GeForce RTX 4090", "8 9")
    host.put(".dockerenv")
    kernel = "5.15.146.1-microsoft-standard-WSL2"
    host.put("proc/version", f"Linux version {kernel} (root@65c757a075e2)\n")
    host.put("proc/sys/kernel/osrelease", f"{kernel}\n")
    host.put("dev/dxg")


def libfabric_before_nccl_2_19(host):  # aws/aws-ofi-nccl#584: FI_EFA_SET_CUDA_SYNC_MEMOPS=0 works around it
    host.several_hosts()
    host.nvml.append("gpu * name NVIDIA A100-SXM4-40GB\ngpu * links 12\ngpu * capability 8 0")
    efa(host, 1)
    host.put("opt/amazon/efa_installed_packages",
             "# EFA installer version: 1.28.0\n# Debug packages installed: no\n"
             "# Packages installed:\nefa-config_1.15_all libfabric-aws-bin_1.18.2amzn1.0_amd64\n")
    host.put("opt/amazon/efa/lib/libfabric.so.1.21.2")
    nccl(host, "2.20.5", "+cuda12.4")


def no_peers(host):  # PrimeIntellect-ai/verifiers#208: NCCL_P2P_DISABLE=1 and NCCL_CUMEM_ENABLE=0 cured it
    consumer(host, 4, "NVIDIA RTX A6000", "8 6")
    host.nvml.append("p2p * * 5")


def graph_file(host):  # NVIDIA/nccl#1240
    consumer(host, 2, "NVIDIA A100 80GB PCIe", "8 0")
    host.env.update(NCCL_GRAPH_FILE="/opt/microsoft/ncv4/graph.xml")


def nccl_before_hopper(host):  # mila-iqia/milabench#183: 2.18.5 cured it
    host.gpus = 4
    p5(host)
    for gpu in range(4):
        others = [other for other in range(4) if other != gpu]
        host.nvml += [f"gpu {gpu} link {link} to {others[link // 6]}" for link in range(18)]
    host.put(".dockerenv")
    nccl(host, "2.14.3", "+cuda11.8")


def misspelt_variable(host):  # NERSC/podman-hpc#136
    host.several_hosts(local=4)
    host.gpus = 4
    host.nvml.append("gpu * name NVIDIA A100-SXM4-40GB\ngpu * links 12\ngpu * capability 8 0")
    host.put("run/.containerenv")
    for i in range(4):
        host.put(f"sys/class/cxi/cxi{i}/device/uevent", "DRIVER=cxi_ss1\n")
        host.put(f"dev/cxi{i}")
    host.libraries = ["libfabric.so.1", "libnccl-net.so"]
    host.env.update(CCL_NET_GDR_LEVEL="PHB")


def unwritable_shm(host):  # NVIDIA/nccl#328: chmod 777 /dev/shm cured it
    consumer(host, 4, "NVIDIA GeForce RTX 2080 Ti", "7 5")
    (host.root / "dev/shm").mkdir()
    (host.root / "dev/shm").chmod(0o755)
    host.put("proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,mode=755 0 0\n")
    host.put("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,mode=755 0 0\n")
    nccl(host, "2.4.8", "+cuda10.0")


def epyc_of_4090s(host):  # NVIDIA/nccl#1285: NPS4 and no IOMMU cured it
    consumer(host, 8, "NVIDIA GeForce RTX 4090", "8 9")
    epyc(host, "AMD EPYC 7K62 48-Core Processor")
    for i, root in enumerate(("00", "20", "40", "60", "80", "a0", "c0", "e0")):
        port = f"pci0000:{root}/0000:{root}:01.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{i * 32 + 1:02x}:00.0", "0x030000")
    for group in range(60):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet\n")


def usb_interface(host):  # NVIDIA/nccl#1125, as AddyLaddy tells of it in #1051
    consumer(host, 4, "NVIDIA GeForce RTX 3090", "8 6")
    below = "devices/pci0000:00/0000:00:14.0/usb1/1-11/1-11:2.0"
    host.put(f"sys/{below}/net/enxb03af2b6059f/mtu", "1500\n")
    host.put(f"sys/{below}/net/enxb03af2b6059f/operstate", "up\n")
    (host.root / f"sys/{below}/net/enxb03af2b6059f/device").symlink_to("../..")
    (host.root / "sys/class/net/enxb03af2b6059f").symlink_to(
        f"../../{below}/net/enxb03af2b6059f")
    host.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n"
             "enxb03af2b6059f: 1 2 3\n")
    host.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
             "           |-- 10.1.0.1\n              /32 host LOCAL\n"
             "           |-- 169.254.3.1\n              /32 host LOCAL\n")
    nccl(host, "2.19.4", "+cuda12.2")


def workstation(host):  # vllm-project/vllm#9920: ACS and IOMMU off cured it
    consumer(host, 2, "NVIDIA RTX 6000 Ada Generation", "8 9")
    for root, bus in (("46", "47"), ("c9", "ca")):
        port = f"pci0000:{root}/0000:{root}:01.0"
        host.pci(port, "0x060400", "0x8086")
        (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
        host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
    for group in range(30):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet splash\n")


def shm_of_a_finetune(host):  # LianjiaTech/BELLE#136: --ipc=host cured it
    consumer(host, 4, "NVIDIA A100-PCIE-40GB", "8 0")
    small_shm(host, 64)


def shm_of_two_hosts(host):  # xorbitsai/inference#2945: --shm-size=128g cured it
    host.several_hosts(local=4)
    consumer(host, 4, "NVIDIA A100-PCIE-40GB", "8 0")
    small_shm(host, 64)


def no_gdr_reads(host):  # NVIDIA/nccl#371: NCCL_NET_GDR_READ=1 gave 9.2 GB/s for 6.1
    host.several_hosts(local=1)
    consumer(host, 8, "Tesla V100-PCIE-32GB", "7 0")
    host.rdma(["mlx5_0"], rate="100 Gb/sec (4X EDR)")
    shutil.rmtree(host.root / "sys/module/nvidia_peermem")
    host.put("sys/module/nv_peer_mem/version", "1.0-9\n")
    for switch, first in (("02", 0), ("03", 4)):
        root = f"pci0000:00/0000:00:{switch}.0"
        host.pci(root, "0x060400", "0x8086")
        host.pci(f"{root}/0000:{switch}:00.0", "0x060400", "0x10b5")
        for i in range(4):
            port = f"{root}/0000:{switch}:00.0/0000:{switch}:0{i + 8}.0"
            host.pci(port, "0x060400", "0x10b5")
            host.pci(f"{port}/0000:{first + i + 16:02x}:00.0", "0x030200")
    port = "pci0000:00/0000:00:02.0/0000:02:00.0/0000:02:10.0"
    host.pci(port, "0x060400", "0x10b5")
    host.pci(f"{port}/0000:0f:00.0", "0x020700", "0x15b3")
    (host.root / "sys/class/infiniband/mlx5_0/device").symlink_to(
        f"../../../devices/{port}/0000:0f:00.0")
    nccl(host, "2.7.8", "+cuda10.2")


def containers_of_one_host(host):  # NVIDIA/nccl#326: a patch cured it
    host.several_hosts(local=1)
    consumer(host, 1, "Tesla V100-PCIE-32GB", "7 0")
    host.put(".dockerenv")
    nccl(host, "2.6.4", "+cuda10.2")


def nvls_search(host):  # NVIDIA/nccl#931
    host.several_hosts()
    p5(host)
    efa(host, 8)
    nccl(host, "2.18.3", "+cuda12.1")


def flat_machine(host):  # NVIDIA/nccl#811: machine type Q35 cured it
    host.nvml.append("gpu * name NVIDIA A100-SXM4-40GB\ngpu * links 12\ngpu * capability 8 0")
    for i in range(8):
        name = f"0000:00:{i + 10:02x}.0"
        host.nvml.append(f"gpu {i} pci 0000{name}")
        host.pci(f"pci0000:00/{name}", "0x030200")
        for file, text in (("numa_node", "-1"), ("current_link_width", "0"),
                           ("max_link_width", "0"), ("current_link_speed", "Unknown speed"),
                           ("max_link_speed", "Unknown speed")):
            host.put(f"sys/devices/pci0000:00/{name}/{file}", text + "\n")
    host.put("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n"
             "flags\t\t: fpu sse2 hypervisor\n")
    host.put("sys/class/dmi/id/sys_vendor", "QEMU\n")
    host.put("sys/class/dmi/id/product_name", "Standard PC (i440FX + PIIX, 1996)\n")
    host.rdma(["mlx5_1"], rate="200 Gb/sec (4X HDR)")
    host.env.update(NCCL_IB_HCA="mlx5_1")
    nccl(host, "2.17.1", "+cuda12.0")


def plugin_without_devices(host):  # ai-dynamo/dynamo#6944: the plugin out of the loader's way cured it
    host.rdma([f"mlx5_{i}" for i in range(4)])
    shutil.rmtree(host.root / "dev/infiniband")
    host.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1")
    host.put("etc/ld.so.conf.d/aws-ofi-nccl.conf", "/opt/amazon/aws-ofi-nccl/lib\n")
    host.put("opt/amazon/aws-ofi-nccl/lib/libnccl-net-ofi.so")
    host.put("opt/amazon/aws-ofi-nccl/lib/libnccl-net.so")
    host.libraries += ["libfabric.so.1", "libnccl-net.so"]


def compat_of_the_image(host):  # awslabs/awsome-distributed-ai#314: a newer cuda-compat cured it
    host.several_hosts()
    p5(host)
    host.nvml.append("cuda 12020\ndriver 535.161.08")
    host.put(".dockerenv")
    host.put("usr/local/cuda-12.2/compat/libcuda.so.535.54.03")
    host.env.update(LD_LIBRARY_PATH=f"{host.fakes}:{host.root}/lib:"
                                    f"{host.root}/usr/local/cuda-12.2/compat")


def l40s(host):  # NovaSky-AI/SkyRL#108: NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 cured it
    consumer(host, 4, "NVIDIA L40S", "8 9")
    host.nvml.append("p2p * * 5")
    nccl(host, "2.26.2", "+cuda12.8")


def acs_of_dell(host):  # NVIDIA/nccl#928: ACS off cured it, at full speed
    host.several_hosts()
    host.nvml.append("gpu * name NVIDIA A100-SXM4-80GB\ngpu * links 12\ngpu * capability 8 0")
    host.rdma([f"mlx5_{i}" for i in range(4)])
    host.put("sys/class/dmi/id/sys_vendor", "Dell Inc.\n")
    host.pci("pci0000:00/0000:00:02.0", "0x060400", "0x8086")
    for i in range(8):
        port = f"pci0000:00/0000:00:02.0/0000:02:{i + 8:02x}.0"
        host.pci(port, "0x060400", "0x1000")
        (host.root / f"sys/devices/{port}/config").write_bytes(redirecting())
        host.pci(f"{port}/0000:1{i}:00.0", "0x030200")


def loopback_only(host):  # NVIDIA/nccl#210: four processes on one machine
    consumer(host, 4, "Tesla V100-PCIE-16GB", "7 0")
    host.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n")
    host.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n")
    host.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n")
    host.remove("sys/class/net/eth0")


def nccl_before_5090(host):  # NVIDIA/nccl-tests#291: 2.26.2 cured it
    consumer(host, 2, "NVIDIA GeForce RTX 5090", "12 0")
    host.nvml.append("cuda 12080\ndriver 570.86.16")
    nccl(host, "2.25.1", "+cuda12.8")


# thread, host, symptom, ids of which one is the answer (none: any), words that the answer must have
THREADS = (
    ("lmdeploy#1803", nccl_of_another_cuda, "init_error", ("version.cuda",), ""),
    ("nccl#1726", topology_file_of_efa, "init_error", (), r"topo[a-z0-9.-]*\.xml|TOPO_FILE"),
    ("nccl-tests#200", hpcx_newer_than_ofed, "hang_stuck", (), r"HPC-?X|5\.8-1"),
    ("nccl-tests#293", one_node_a_socket, "slow_transfer", (), r"NPS|NUMA nodes? (per|a|each) socket"),
    ("aicad-nccl-optimization#1", three_sparks, "init_error", (), r"nccl\.conf|USE_INLINE|PREPOST|CMA|CmaTotal"),
    ("pytorch#117748", nvls_tree, "slow_transfer", (), r"2\.19\.3|NVLSTree"),
    ("caffe#492", nccl_for_cuda_9, "init_error", ("version.cuda",), ""),
    ("nccl-tests#5", nccl_1, "init_error", (), r"NCCL 1\.|1\.3\.4"),
    ("vllm#3710", wsl, "init_error", (), r"WSL"),
    ("aws-ofi-nccl#584", libfabric_before_nccl_2_19, "init_error", (), r"[Ll]ibfabric|EFA installer|SYNC_MEMOPS"),
    ("verifiers#208", no_peers, "init_error", (), r"P2P|peer"),
    ("nccl#1240", graph_file, "init_error", (), r"NCCL_GRAPH_FILE"),
    ("milabench#183", nccl_before_hopper, "init_error", (), r"2\.14\.3"),
    ("podman-hpc#136", misspelt_variable, "slow_transfer", (), r"\bCCL_NET_GDR_LEVEL"),
    ("nccl#328", unwritable_shm, "init_error", ("limit.shm",), r"writ|permission"),
    ("nccl#1285", epyc_of_4090s, "slow_transfer", (), r"IOMMU|NPS|NUMA nodes? (per|a|each) socket"),
    ("nccl#1125", usb_interface, "init_error", (), r"USB|enxb03af2b6059f"),
    ("vllm#9920", workstation, "hang_stuck", ("gpu.iommu", "gpu.acs"), ""),
    ("BELLE#136", shm_of_a_finetune, "init_error", ("limit.shm",), ""),
    ("xinference#2945", shm_of_two_hosts, "init_error", ("limit.shm",), ""),
    ("nccl#371", no_gdr_reads, "slow_transfer", (), r"GDR_READ"),
    ("nccl#326", containers_of_one_host, "init_error", (), r"2\.6\.4"),
    ("nccl#931", nvls_search, "init_error", (), r"2\.18\.3"),
    ("nccl#811", flat_machine, "init_error", (), r"i440FX|Q35|machine type|[Uu]nknown speed"),
    ("dynamo#6944", plugin_without_devices, "init_error", (), r"libnccl-net|aws-ofi"),
    ("awsome-distributed-ai#314", compat_of_the_image, "init_error", ("version.compat",), ""),
    ("SkyRL#108", l40s, "init_error", (), r"P2P|peer"),
    ("nccl#928", acs_of_dell, "init_error", ("gpu.acs",), ""),
    ("nccl-tests#291", nccl_before_5090, "init_error", (), r"2\.25\.1"),
    ("nccl#210", loopback_only, "init_error", ("net.interface",), ""),
)


def place_of(report, ids, words):
    """Where the answer stands among the causes and problems; 0 is not at all."""
    for place, name in enumerate(named(report), 1):
        text = json.dumps([each for each in report["causes"] + report["checks"] if each["id"] == name])
        if (not ids or name in ids) and re.search(words, text):
            return place
    return 0


def host_of(folder, build):
    host = Host(folder, MUSTER, FAKES)
    build(host)
    return host


def evaluate_all(threads):
    first = listed = 0
    for thread, build, symptom, ids, words in threads:
        with tempfile.TemporaryDirectory() as folder:
            report = host_of(folder, build).doctor(symptom)
        place = place_of(report, ids, words)
        first += place == 1
        listed += place > 1
        print(f"{thread:26} {symptom:14} {'/'.join(ids) or words:44.44} {place or '-'}  "
              f"{' '.join(named(report)[:4])}")
    print(f"first {first}, listed {listed}, missed {len(threads) - first - listed}, "
          f"of {len(threads)}")


def build_all(threads):
    for thread, build, symptom, ids, words in threads:
        re.compile(words)
        with tempfile.TemporaryDirectory() as folder:
            host = host_of(folder, build)
            files = sum(len(files) for _, _, files in os.walk(host.root))
        print(f"{thread:26} {symptom:14} {host.gpus} GPUs, {files} files, "
              f"{'/'.join(ids) or words}")
    print(f"{len(threads)} hosts built")


def report_one(threads, wanted):
    for thread, build, symptom, _, _ in threads:
        if thread == wanted:
            with tempfile.TemporaryDirectory() as folder:
                print(json.dumps(host_of(folder, build).doctor(symptom), indent=1))


def main(threads):
    if OPTIONS[:1] == ["--dry"]:
        build_all(threads)
    elif OPTIONS:
        report_one(threads, OPTIONS[1])
    else:
        evaluate_all(threads)


def without_log(build):
    def silent(host):
        build(host)
        host.log = ""
    return silent


def main_said(said):
    """The same of rows with a sentence at their end; with --without-log of hosts without their job's log."""
    main([(thread, without_log(build) if WITHOUT_LOG else build, *rest[:3]) for thread, build, *rest in said])


if __name__ == "__main__":
    main(THREADS)
