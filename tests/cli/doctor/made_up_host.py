"""A host of files that doctor looks at in place of /sys, /proc, /dev, /etc and NVML."""

import json
import os
import pathlib
import shutil
import subprocess

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max stack size            {stack}              unlimited            bytes
Max open files            {nofile}              1048576              files
Max locked memory         {memlock}            {memlock}            bytes
"""


class Host:
    """A sound host of eight GPUs behind PCIe switches, without RDMA."""

    def __init__(self, folder, muster, fakes):
        self.muster, self.fakes = muster, fakes
        self.root = pathlib.Path(folder)
        self.env = {}
        self.nvml = ["gpu * utilization 0"]
        self.gpus = 8
        self.libraries = []
        self.extra = {}
        self.log = ""  # what the job printed
        self.nccl = None  # version of a library of its own, "2.27.7+cuda12.8"; None: the stand-in's
        self.limits = {"nofile": 65536, "memlock": "unlimited", "stack": 8388608}
        self.put("sys/bus/pci/devices/.keep")
        self.put("proc/meminfo", "MemTotal: 1000000000 kB\nMemAvailable: 900000000 kB\n"
                 "HugePages_Free: 0\nHugepagesize: 2048 kB\n")
        self.put("proc/swaps", "Filename Type Size Used Priority\n")
        self.put("proc/sys/net/ipv4/ip_local_port_range", "32768 60999\n")
        self.put("proc/sys/kernel/hostname", "node1\n")
        self.put("proc/sys/kernel/osrelease", "5.15.0-100-generic\n")
        self.put("proc/cmdline", "quiet iommu=pt\n")
        self.put("proc/kmsg", "quiet\n")
        self.put("proc/self/status", "Cpus_allowed_list:\t0-127\nCapEff:\t000001ffffffffff\n")
        self.put("proc/self/cgroup", "0::/\n")
        self.put("sys/fs/cgroup/memory.events", "oom_kill 0\n")
        self.put("sys/devices/system/cpu/online", "0-127\n")
        self.put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        self.put("etc/hosts", "127.0.0.1 localhost\n10.1.0.1 node1\n")
        self.put("dev/shm.df", "Filesystem 1B-blocks Used Available\nshm 68719476736 0 68719476736\n")
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n"
                 "              /32 host LOCAL\n           |-- 10.1.0.1\n"
                 "              /32 host LOCAL\n")
        self.put("sys/class/net/eth0/mtu", "1500\n")
        self.put("sys/class/net/eth0/operstate", "up\n")

    def put(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def remove(self, name):
        path = self.root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    def several_hosts(self, nodes=2, local=8):
        self.env.update(SLURM_JOB_NUM_NODES=str(nodes), WORLD_SIZE=str(nodes * local),
                        LOCAL_WORLD_SIZE=str(local), OMP_NUM_THREADS="8")

    def rdma(self, devices, layer="InfiniBand", rate="200 Gb/sec (4X HDR)", net=None):
        for i, name in enumerate(devices):
            below = f"sys/class/infiniband/{name}/ports/1"
            for file, text in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"),
                               ("rate", rate), ("link_layer", layer)):
                self.put(f"{below}/{file}", text + "\n")
            if layer == "Ethernet":
                self.put(f"{below}/gids/3", "0000:0000:0000:0000:0000:ffff:0a19:0001\n")
                self.put(f"{below}/gid_attrs/types/3", "RoCE v2\n")
                self.put(f"sys/class/infiniband/{name}/device/net/{net or f'eth{i + 1}'}/mtu",
                         "9000\n")
                self.put(f"sys/class/net/{net or f'eth{i + 1}'}/mtu", "9000\n")
            self.put(f"dev/infiniband/uverbs{i}")
        self.put("sys/module/nvidia_peermem/version", "535.104.05\n")
        self.put("sys/kernel/mm/memory_peers/nv_mem/version", "1\n")
        self.libraries = ["libibverbs.so.1", "libmlx5.so.1"]

    def pci(self, chain, code, vendor="0x10de"):
        name = chain.rsplit("/", 1)[1]
        for file, text in (("class", code), ("vendor", vendor), ("numa_node", "0"),
                           ("current_link_width", "16"), ("max_link_width", "16")):
            self.put(f"sys/devices/{chain}/{file}", text + "\n")
        (self.root / "sys/bus/pci/devices" / name).symlink_to(f"../../../devices/{chain}")

    def library(self, folder):
        """A real library under a name that NCCL opens; what the host lacks is no library, whatever
        the machine of the test has."""
        os.makedirs(folder, exist_ok=True)
        for absent in ("libibverbs.so.1", "libmlx5.so.1", "libfabric.so.1", "libnccl-net.so"):
            pathlib.Path(folder, absent).write_text("none")
        for each in self.fakes.split(":"):
            for name in sorted(os.listdir(each)):
                if name.startswith("libcuda.so") and os.path.isfile(os.path.join(each, name)):
                    for wanted in self.libraries:
                        shutil.copy(os.path.join(each, name), os.path.join(folder, wanted))
                    return

    def own_nccl(self, folder):
        """The stand-in with that version in its text, and none beside it: of the stand-in's folders all else."""
        for each in self.fakes.split(":"):
            for name in os.listdir(each):
                if not name.startswith("libnccl"):
                    if not os.path.lexists(os.path.join(folder, name)):  # of two the first
                        os.symlink(os.path.join(each, name), os.path.join(folder, name))
                elif name == "libnccl.so.2":
                    bytes_ = pathlib.Path(each, name).read_bytes().replace(b"NCCL version 2.", b"NCCX version 2.")
                    pathlib.Path(folder, name).write_bytes(bytes_ + f"\0NCCL version {self.nccl}\0".encode())
        major, minor, patch = (int(part) for part in self.nccl.split("+")[0].split("."))
        self.env["FAKE_NCCL"] = str(major * 10000 + minor * 100 + patch)

    def doctor(self, symptom):
        self.put("proc/self/limits", LIMITS.format(**self.limits))
        self.put("nvml", f"gpus {self.gpus}\n" + "\n".join(self.nvml) + "\n")
        self.library(self.root / "lib")
        if self.log:
            self.put("job.log", self.log)
            self.extra["args"] = [*self.extra.get("args", []), "--log", str(self.root / "job.log")]
        if self.nccl:
            self.own_nccl(self.root / "lib")
        # a Python of the machine brings an NCCL that this host has not
        keep = {"PATH": str(self.root / "bin") if self.nccl else os.environ["PATH"], "HOME": str(self.root)}
        env = {**keep, "MUSTER_SYSFS": str(self.root / "sys"),
               "MUSTER_PROCFS": str(self.root / "proc"), "MUSTER_ROOT": str(self.root),
               "MUSTER_DEVFS": str(self.root / "dev"), "FAKE_NVML": str(self.root / "nvml"),
               "FAKE_GPUS": str(self.gpus), "FAKE_MS": "2.77", "MUSTER_LOAD_ANY": "1",
               "LD_LIBRARY_PATH": f"{self.root}/lib" if self.nccl else f"{self.fakes}:{self.root}/lib",
               **self.env}
        done = subprocess.run([self.muster, "doctor", "--active" if "active" in self.extra else "--passive",
                               *(["--symptom", symptom] if symptom else []), "--format", "json",
                               *self.extra.get("args", [])], env=env,
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout)
