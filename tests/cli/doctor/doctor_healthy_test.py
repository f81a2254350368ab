"""muster doctor raises no alarm on sound hosts: 200 of them, of clouds and bare metal.

usage: doctor_healthy_test.py MUSTER FOLDER:FOLDER DOCTOR.md [unittest options]
"""

import concurrent.futures
import sys
import tempfile
import unittest

from made_up_host import Host

MUSTER, FAKES = sys.argv.pop(1), sys.argv.pop(1)
sys.argv.pop(1)
HOSTS = 200

# name, compute capability, NVLinks, numbers of GPUs
BOARDS = (("NVIDIA H100 80GB HBM3", "9 0", 18, (1, 2, 4, 8)), ("NVIDIA H200", "9 0", 18, (8, 4)),
          ("NVIDIA A100-SXM4-80GB", "8 0", 12, (1, 4, 8, 16)),
          ("Tesla V100-SXM3-32GB", "7 0", 6, (8, 16)), ("NVIDIA L40S", "8 9", 0, (1, 2, 4, 8)),
          ("NVIDIA GeForce RTX 4090", "8 9", 0, (1, 2, 4)), ("NVIDIA A10", "8 6", 0, (1, 4)),
          ("NVIDIA H100 PCIe", "9 0", 0, (2, 4)))
NCCLS = ("2.28.9+cuda12.9", "2.27.7+cuda12.8", "2.26.5+cuda12.4")  # for no newer CUDA than those drivers'
DRIVERS = ("535.154.05", "550.90.07", "570.124.06", "580.95.05")
PLACES = ("metal", "cloud", "docker", "kubernetes", "slurm", "torchrun")
NETWORKS = ("ethernet", "roce", "infiniband", "efa")


def gpus(host, i):
    name, capability, links, counts = BOARDS[i % len(BOARDS)]
    host.gpus = counts[i // len(BOARDS) % len(counts)]
    host.nvml += [f"gpu * name {name}", f"gpu * capability {capability}", f"gpu * links {links}",
                  f"driver {DRIVERS[i // 3 % len(DRIVERS)]}"]
    if not links:
        host.nvml += ["gpu * fabric 0 0"]


def network(host, i):
    kind = NETWORKS[i // 2 % len(NETWORKS)]
    nics = max(1, host.gpus // 2)
    if kind == "roce":
        host.rdma([f"mlx5_{n}" for n in range(nics)], "Ethernet", "200 Gb/sec (4X HDR)")
    elif kind == "infiniband":
        host.rdma([f"mlx5_{n}" for n in range(nics)], rate="400 Gb/sec (4X NDR)")
    elif kind == "efa":
        host.rdma([f"rdmap{n}s6" for n in range(nics)], "Unspecified", "100 Gb/sec (4X EDR)")
        host.remove("sys/module/nvidia_peermem")
        host.remove("sys/kernel/mm")
        host.libraries = ["libibverbs.so.1", "libfabric.so.1", "libnccl-net.so"]
        if i % 3:
            host.put("sys/module/efa_nv_peermem/version", "1.2.0\n")
        else:  # DMA-BUF in its place
            host.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module "
                     "for x86_64  570.124.06\n")


def place(host, i):
    kind = PLACES[i % len(PLACES)]
    nodes = (1, 2, 16)[i // 5 % 3]
    if kind == "cloud":
        host.remove("proc/kmsg")
        host.put("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n")
    elif kind == "docker":
        host.put(".dockerenv")
        host.put("proc/self/cgroup", "0::/\n")
        host.remove("proc/kmsg")
    elif kind == "kubernetes":
        host.env.update(KUBERNETES_SERVICE_HOST="10.96.0.1")
        host.put("proc/self/cgroup", "0::/kubepods.slice/pod1\n")
        host.put("sys/fs/cgroup/memory.max", f"{host.gpus * 96 << 30}\n")
        host.put("sys/fs/cgroup/memory.current", f"{host.gpus * 8 << 30}\n")
        host.put("sys/fs/cgroup/cpu.max", f"{host.gpus * 1200000} 100000\n")
        host.remove("proc/kmsg")
    elif kind == "slurm":
        host.env.update(SLURM_JOB_NUM_NODES=str(nodes), SLURM_NTASKS_PER_NODE=str(host.gpus),
                        SLURM_NTASKS=str(nodes * host.gpus), SLURM_LOCALID="0",
                        SLURM_PROCID="0")
        host.put("proc/self/status", "Cpus_allowed_list:\t0-7\nCapEff:\t0\n")
        host.put("proc/812/comm", "slurmd\n")
        host.put("proc/812/limits", "Limit  Soft Limit  Hard Limit  Units\n"
                 "Max open files            131072               131072               files\n"
                 "Max locked memory         unlimited            unlimited            bytes\n")
        if i % 2:
            host.env.update(CUDA_VISIBLE_DEVICES="0")
    elif kind == "torchrun":
        host.several_hosts(nodes, host.gpus)
        host.env.update(OMP_NUM_THREADS="1", GROUP_WORLD_SIZE=str(nodes),
                        TORCH_NCCL_ASYNC_ERROR_HANDLING="1")


def sound_host(folder, i):
    host = Host(folder, MUSTER, FAKES)
    gpus(host, i)
    network(host, i)
    place(host, i)
    host.nccl = NCCLS[i // 7 % len(NCCLS)]
    return host, f"{i}: {PLACES[i % len(PLACES)]}, {host.gpus} x {BOARDS[i % len(BOARDS)][0]}, " \
                 f"{NETWORKS[i // 2 % len(NETWORKS)]}"


def wrong_nccl(host, check):
    """It is the host's own that is looked at, and no copy that the machine of the test has."""
    version = host.nccl.split("+")[0]
    return check["id"] == "version.nccl" and (check["found"] != f"NCCL {version}" or len(check["evidence"]) != 1)


def alarms_of(i):
    with tempfile.TemporaryDirectory() as folder:
        host, name = sound_host(folder, i)
        return [f"{name}: {check['id']}: {check['found']}"
                for check in host.doctor(None)["checks"]
                if check["status"] in ("warning", "problem") or wrong_nccl(host, check)]


class Healthy(unittest.TestCase):
    def test_no_false_alarm(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            alarms = [alarm for found in pool.map(alarms_of, range(HOSTS)) for alarm in found]
        self.assertEqual(alarms, [])


if __name__ == "__main__":
    unittest.main()
