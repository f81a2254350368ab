"""Threads with a confirmed cause, each rebuilt as a made-up host, and what muster doctor names first.

usage: doctor_threads.py MUSTER FOLDER:FOLDER

The folders hold a CUDA driver, an NCCL and an NVML that are none. A host has what its thread tells
and is sound otherwise. Printed is, for each thread, the place of the confirmed cause among the
causes and problems: 1 is first, - is not at all. docs/accuracy.md tells the score.
"""

import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/cli/doctor"))
from made_up_host import Host  # noqa: E402 pylint: disable=wrong-import-position

MUSTER, FAKES = sys.argv[1], sys.argv[2]


def loopback_name(host):  # aws-samples/aws-do-eks#50
    host.several_hosts()
    host.put("etc/hosts", "127.0.0.1 localhost node1\n")


def firewall(host):  # NVIDIA/nccl#352: one DGX-2 as a worker of Kubernetes
    host.gpus = 16
    host.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1")
    host.put("etc/ufw/ufw.conf", "# /etc/ufw/ufw.conf\nENABLED=yes\n")


def no_verbs(host):  # NVIDIA/nvidia-container-toolkit#1877
    host.several_hosts(local=1)
    host.gpus = 1
    host.nvml.append("gpu * name NVIDIA A2\ngpu * links 0\ngpu * capability 8 6")
    host.rdma(["mlx5_0", "mlx5_1"], "Ethernet", "25 Gb/sec (1X EDR)")
    host.libraries = []
    host.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1", NCCL_IB_DISABLE="0",
                    NCCL_IB_HCA="mlx5_0:1,mlx5_1:1", NCCL_IB_GID_INDEX="3")
    host.put("proc/version", "Linux version 5.15.0-181-generic (aarch64)\n")


def no_device_files(host):  # NVIDIA/nccl#451
    host.several_hosts()
    host.rdma(["mlx5_bond_0"], "Ethernet", "25 Gb/sec (1X EDR)", net="bond0")
    shutil.rmtree(host.root / "dev/infiniband")
    host.put(".dockerenv")
    host.env.update(NCCL_IB_DISABLE="0", NCCL_DEBUG="info")


def no_mlx5(host):  # horovod/horovod#1117
    host.several_hosts()
    host.rdma(["mlx5_0"], "Ethernet", "100 Gb/sec (4X EDR)")
    host.libraries = ["libibverbs.so.1"]
    host.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1")


def memlock(host):  # NVIDIA/nccl-tests#206: IB forced on one node
    host.rdma([f"mlx5_{i}" for i in range(4)])
    host.limits["memlock"] = 8192 * 1024
    host.env.update(NCCL_SHM_DISABLE="1", NCCL_P2P_DISABLE="1")


def nofile(host):  # goodfire-ai/spd#957
    host.several_hosts(nodes=4)
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    host.nvml.append("gpu * name NVIDIA B200\ngpu * capability 10 0")
    host.limits["nofile"] = 1024


def four_ranks_on_one_gpu(host):  # facebookresearch/ViewDiff#24
    host.gpus = 1
    host.nvml.append("gpu * name NVIDIA RTX A6000\ngpu * links 0\ngpu * capability 8 6")
    host.env.update(LOCAL_WORLD_SIZE="4", WORLD_SIZE="4", OMP_NUM_THREADS="1")


def openmp(host):  # pytorch/pytorch#22260: DGX-2, torch.distributed.launch
    host.gpus = 16
    host.env.update(LOCAL_WORLD_SIZE="16", WORLD_SIZE="16")
    host.put("proc/self/status", "Cpus_allowed_list:\t0-95\nCapEff:\t000001ffffffffff\n")
    host.put("sys/devices/system/cpu/online", "0-95\n")


def amd_iommu(host):  # NVIDIA/nccl#120: Ryzen 7 1700X
    host.gpus = 2
    host.nvml.append("gpu * name NVIDIA GeForce GTX 1080 Ti\ngpu * links 0\ngpu * capability 6 1\n"
                     "driver 384.81")
    for i, bus in enumerate(("10", "11")):
        port = f"pci0000:00/0000:00:0{i + 1}.1"
        host.pci(port, "0x060400", "0x1022")
        host.pci(f"{port}/0000:{bus}:00.0", "0x030000")
    for group in range(12):
        host.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
    host.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet splash\n")


def acs_on_plx(host):  # pytorch/pytorch#24081, second report: VT-d off, ACS on in the switches
    host.gpus = 4
    host.nvml.append("gpu * name NVIDIA GeForce GTX 1080 Ti\ngpu * links 0\ngpu * capability 6 1")
    config = bytearray(4096)
    config[0x100:0x104] = (0x000d | 0x200 << 20).to_bytes(4, "little")
    config[0x106] = 0x1d
    for i in range(4):
        port = f"pci0000:00/0000:00:02.0/0000:02:0{i + 8}.0"
        if i == 0:
            host.pci("pci0000:00/0000:00:02.0", "0x060400", "0x8086")
        host.pci(port, "0x060400", "0x10b5")
        (host.root / f"sys/devices/{port}/config").write_bytes(config)
        host.pci(f"{port}/0000:1{i}:00.0", "0x030000")
    host.put("proc/cmdline", "quiet\n")


def old_driver(host):  # facebookresearch/Detectron#219: V100, a driver before 396.26
    host.nvml.append("gpu * name Tesla V100-SXM2-16GB\ngpu * links 6\ngpu * capability 7 0\n"
                     "driver 390.30")


def mismatch(host):  # illinois-scicomp/machine-shop-maintenance#60
    host.gpus = 2
    host.nvml.append("fail nvmlInit_v2 18")
    host.put("sys/module/nvidia/version", "510.73.05\n")
    for i in range(2):
        host.put(f"dev/nvidia{i}")


def no_peermem_internode(host):  # deepseek-ai/DeepEP#223
    host.several_hosts()
    host.rdma([f"mlx5_{i}" for i in range(8)], rate="400 Gb/sec (4X NDR)")
    shutil.rmtree(host.root / "sys/module/nvidia_peermem")
    shutil.rmtree(host.root / "sys/kernel/mm")
    host.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54\n")


def no_fabric_manager(host):  # aws-samples/aws-deep-learning-ami-ubuntu-dcv-desktop#33
    host.nvml.append("gpu * name NVIDIA A100-SXM4-40GB\ngpu * links 12\ngpu * capability 8 0")
    host.nvml.append("gpu * fabric 0 0")  # NVML tells fabric states from Hopper on
    host.env.update(FAKE_INIT="802")
    host.extra["active"] = True


def half_a_bridge(host):  # NVIDIA/nccl#340: the NVLink bridge sits in one of two RTX 2080 Ti
    host.gpus = 2
    host.nvml.append("gpu * name NVIDIA GeForce RTX 2080 Ti\ngpu * links 2\ngpu * capability 7 5\n"
                     "gpu 0 link 0 down\ngpu 0 link 1 down\ngpu 1 link 0 down\ngpu 1 link 1 down")


def built_for(host, cuda):
    for folder in FAKES.split(":"):
        for name in sorted(os.listdir(folder)):
            if name.startswith("libnccl.so"):
                data = pathlib.Path(folder, name).read_bytes()
                mark = data.find(b"NCCL version 2.")
                if mark >= 0:
                    data = data[:mark] + b"NCCX" + data[mark + 4:]
                to = host.root / "lib/libnccl.so.2"
                to.parent.mkdir(exist_ok=True)
                to.write_bytes(data + f"\0NCCL version 2.9.8+cuda{cuda}\0".encode())
                host.extra["args"] = ["--nccl", str(to)]
                return


def nccl_for_cuda_11(host):  # NVIDIA/nccl-tests#6, third report
    host.nvml.append("cuda 10020\ndriver 440.33.01\ngpu * capability 7 0\n"
                     "gpu * name Tesla V100-SXM2-16GB\ngpu * links 6")
    built_for(host, "11.0")


def another_nccl(host):  # NVIDIA/nccl#554: 2.9.9 for CUDA 11.3 in the loader's way
    host.nvml.append("cuda 10010\ndriver 418.87.00\ngpu * capability 7 0\n"
                     "gpu * name Tesla V100-SXM2-32GB\ngpu * links 6")
    built_for(host, "11.3")


def no_peermem(host):  # NVIDIA/nccl#1343
    host.several_hosts()
    host.rdma(["mlx5_0", "mlx5_1"], "Ethernet", "200 Gb/sec (4X HDR)")
    shutil.rmtree(host.root / "sys/module/nvidia_peermem")
    shutil.rmtree(host.root / "sys/kernel/mm")
    host.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54\n")


def nofile_of_loaders(host):  # MhLiao/MaskTextSpotterV3#51
    host.gpus = 4
    host.env.update(LOCAL_WORLD_SIZE="4", WORLD_SIZE="4", OMP_NUM_THREADS="1")
    host.limits["nofile"] = 1024


THREADS = (
    ("aws-do-eks#50", loopback_name, "init_error", "net.names"),
    ("nccl#352", firewall, "init_error", "net.firewall"),
    ("nvidia-container-toolkit#1877", no_verbs, "slow_transfer", "ib.libraries"),
    ("nccl#451", no_device_files, "slow_transfer", "ib.devices"),
    ("horovod#1117", no_mlx5, "slow_transfer", "ib.libraries"),
    ("nccl-tests#206", memlock, "init_error", "limit.memlock"),
    ("spd#957", nofile, "init_error", "limit.nofile"),
    ("ViewDiff#24", four_ranks_on_one_gpu, "init_error", "gpu.shared"),
    ("pytorch#22260", openmp, "late_rank", "limit.threads"),
    ("nccl#120", amd_iommu, "hang_stuck", "gpu.iommu"),
    ("pytorch#24081", acs_on_plx, "hang_stuck", "gpu.acs"),
    ("Detectron#219", old_driver, "hang_stuck", "version.driver"),
    ("machine-shop-maintenance#60", mismatch, "init_error", "gpu.driver"),
    ("DeepEP#223", no_peermem_internode, "init_error", "ib.gdr"),
    ("aws-deep-learning-ami-ubuntu-dcv-desktop#33", no_fabric_manager, "init_error", "gpu.fabric"),
    ("nccl#340", half_a_bridge, "hang_stuck", "gpu.nvlink"),
    ("nccl-tests#6", nccl_for_cuda_11, "init_error", "version.cuda"),
    ("nccl#554", another_nccl, "init_error", "version.cuda"),
    ("nccl#1343", no_peermem, "slow_transfer", "ib.gdr"),
    ("MaskTextSpotterV3#51", nofile_of_loaders, "init_error", "limit.nofile"),
)


def named(report):
    """Ids in the order in which a reader meets them: causes, what would do as well, problems."""
    causes = [cause["id"] for cause in report["causes"]]
    others = [other for cause in report["causes"] for other in cause["or"]]
    problems = [check["id"] for check in report["checks"] if check["status"] == "problem"]
    return list(dict.fromkeys(causes + others + problems))


def evaluate(threads):
    first = listed = 0
    for thread, build, symptom, cause in threads:
        with tempfile.TemporaryDirectory() as folder:
            host = Host(folder, MUSTER, FAKES)
            build(host)
            ids = named(host.doctor(symptom))
        place = ids.index(cause) + 1 if cause in ids else 0
        first += place == 1
        listed += place > 1
        print(f"{thread:44} {symptom:14} {cause:15} {place or '-'}  {' '.join(ids[:4])}")
    print(f"first {first}, listed {listed}, missed {len(threads) - first - listed}, "
          f"of {len(threads)}")


if __name__ == "__main__":
    evaluate(THREADS)
