"""muster doctor on hosts that are made up of files."""

import json
import os
import re
import shutil
import socket
import unittest

from doctor_case import Case, DOCUMENT, TWO_HOSTS


class Doctor(Case):
    def test_every_id_is_documented_and_the_other_way_round(self):
        told = set(re.findall(r"^\| ([a-z0-9]+\.[a-z0-9_]+) ", DOCUMENT.read_text(), re.M))
        self.assertEqual(set(self.doctor()), told)  # kinds of lines: doctor_job_log_test

    def test_a_good_host_has_no_problem(self):
        for check in self.doctor().values():
            self.assertNotEqual(check["status"], "problem", check)

    def test_network_swap_is_a_problem(self):
        self.put("proc/swaps", "Filename Type Size Used Priority\n/mnt/a/swap file 1000 10 -2\n")
        self.put("proc/mounts", "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/a nfs4 rw 0 0\n")
        check = self.doctor()["host.swap"]
        self.assertEqual((check["status"], check["class"]), ("problem", "F12"))
        self.assertIn("/mnt/a/swap is on the network", check["evidence"][0])

    def test_local_swap_is_none(self):
        self.put("proc/swaps", "Filename Type Size Used Priority\n/swap file 1000 10 -2\n")
        self.put("proc/mounts", "/dev/sda / ext4 rw 0 0\n")
        self.assertEqual(self.doctor()["host.swap"]["status"], "ok")

    def test_pressure_little_memory_and_few_ports(self):
        self.put("proc/pressure/memory", "full avg10=0 avg60=40.00 avg300=0 total=1\n")
        self.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 9000 kB\n")
        self.put("proc/sys/net/ipv4/ip_local_port_range", "50000 50010\n")
        checks = self.doctor()
        for name in ("host.pressure", "host.memory", "net.ports"):
            self.assertEqual(checks[name]["status"], "warning", name)
        self.put("proc/pressure/memory", "full avg10=0 avg60=4.00 avg300=0 total=1\n")
        self.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
        self.put("proc/sys/net/ipv4/ip_local_port_range", "32768 60999\n")
        checks = self.doctor()
        for name in ("host.pressure", "host.memory", "net.ports"):
            self.assertEqual(checks[name]["status"], "ok", name)

    def test_quota_and_memory_limit(self):
        self.put("sys/fs/cgroup/cpu.max", "50000 100000\n")
        self.put("sys/fs/cgroup/memory.max", f"{20 << 30}\n")
        self.put("sys/fs/cgroup/memory.current", f"{19 << 30}\n")
        checks = self.doctor(LOCAL_WORLD_SIZE="2")
        self.assertEqual(checks["limit.cpu_quota"]["status"], "problem")
        self.assertIn("0.50 CPUs", checks["limit.cpu_quota"]["found"])
        self.assertEqual(checks["limit.memory"]["status"], "warning")
        self.put("sys/fs/cgroup/cpu.max", "800000 100000\n")
        self.expect("limit.cpu_quota", "ok", LOCAL_WORLD_SIZE="2")
        self.put("sys/fs/cgroup/cpu.max", "max 100000\n")
        self.assertEqual(self.expect("limit.cpu_quota", "ok", LOCAL_WORLD_SIZE="2")["found"], "no CPU quota")

    def test_ports_of_infiniband(self):
        for device, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
            self.put(f"sys/class/infiniband/{device}/ports/1/state", state)
            self.put(f"sys/class/infiniband/{device}/ports/1/rate", "400 Gb/sec (4X NDR)")
        checks = self.doctor(NCCL_IB_DISABLE="1")
        self.assertEqual(checks["ib.ports"]["status"], "warning")
        self.assertEqual(checks["ib.ports"]["found"], "2 RDMA ports")
        self.assertEqual(checks["env.costly"]["status"], "problem")
        self.put("sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE")
        self.expect("ib.ports", "ok")

    def test_errors_and_gids_of_roce(self):
        ports = "sys/class/infiniband/mlx5_0/ports/1"
        self.put(f"{ports}/state", "4: ACTIVE")
        self.put(f"{ports}/link_layer", "Ethernet")
        self.put(f"{ports}/hw_counters/packet_seq_err", "12")
        self.put(f"{ports}/gids/0", "fe80:0000:0000:0000:0a00:0000:0000:0001")
        self.put(f"{ports}/gid_attrs/types/0", "RoCE v2")
        self.put(f"{ports}/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000")
        checks = self.doctor()
        self.assertIn("mlx5_0 port 1: packet_seq_err 12 since it was reset",
                      checks["ib.ports"]["evidence"])
        self.assertEqual(checks["ib.gid"]["status"], "warning")
        self.put(f"{ports}/gids/3", "0000:0000:0000:0000:0000:ffff:0a01:0007")
        self.put(f"{ports}/gid_attrs/types/3", "RoCE v2")
        self.assertEqual(self.doctor()["ib.gid"]["status"], "ok")
        self.assertEqual(self.doctor(NCCL_IB_GID_INDEX="3")["ib.gid"]["status"], "ok")
        for index, word in (("0", "link-local"), ("1", "empty")):
            check = self.doctor(NCCL_IB_GID_INDEX=index)["ib.gid"]
            self.assertEqual(check["status"], "problem")
            self.assertIn(f"NCCL_IB_GID_INDEX={index} is {word}", check["evidence"][0])

    def test_xids_of_a_recorded_log(self):
        self.put("proc/kmsg", "[1.0] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off\n"
                 "[2.0] NVRM: Xid (PCI:0000:17:00): 45, pid=1, Ch 8\nother\n")
        check = self.doctor()["host.kernel_log"]
        self.assertEqual((check["status"], check["found"]), ("warning", "a GPU fell off the bus (Xid 79)"))
        self.assertIn("79", check["evidence"][0])
        self.put("proc/kmsg", "[1.0] quiet\n")
        self.assertEqual(self.doctor()["host.kernel_log"]["status"], "ok")

    def test_killed_for_memory(self):
        self.assertEqual(self.doctor()["host.oom"]["status"], "unchecked")
        self.put("proc/self/cgroup", "0::/job7\n")
        self.put("sys/fs/cgroup/job7/memory.events", "low 0\noom 0\noom_kill 0\n")
        self.assertEqual(self.doctor()["host.oom"]["status"], "ok")
        self.put("proc/kmsg", "Out of memory: Killed process 9 (python) total-vm:1kB\n")
        check = self.doctor()["host.oom"]
        self.assertEqual((check["status"], check["evidence"]),
                         ("warning", ["Killed process 9 (python) total-vm:1kB"]))
        self.put("sys/fs/cgroup/job7/memory.events", "low 0\noom 1\noom_kill 2\n")
        check = self.doctor()["host.oom"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("memory.events: oom_kill 2 in this cgroup", check["evidence"])
        text = self.muster("doctor", "--passive", "--symptom", "hang_dead").stdout
        self.assertTrue(text.split("\n", 1)[1].startswith(
            "problem   host.oom: the kernel killed processes for want of memory\n"), text)
        self.assertIn("          explains:\n            hang_dead\n", text)

    def test_ranks_that_disagree_lead_a_hang(self):
        done = self.muster("doctor", "--passive", "--only", "host.clock", "--symptom",
                           "hang_stuck,policy_divergence", "--format", "json")
        report = json.loads(done.stdout)
        self.assertEqual(report["causes"][0]["id"], "policy_divergence")
        self.assertEqual(report["causes"][0]["explains"], ["hang_stuck"])
        text = self.muster("doctor", "--passive", "--symptom", "hang_stuck,policy_divergence").stdout
        head = text.splitlines()[1]
        self.assertTrue(head.startswith("problem   policy_divergence: "), head)

    def test_versions_that_differ_lead_a_hang(self):
        reports = []
        for i, version in enumerate(("2.28.9", "2.27.7")):
            checks = [{"id": "limit.shm", "status": ("ok", "problem")[i], "found": "x"},
                      {"id": "version.nccl", "status": "ok", "found": f"NCCL {version}"}]
            self.put(f"{i}.json", json.dumps({"version": 1, "host": f"n{i}", "host_id": f"{i}",
                                              "checks": checks}))
            reports.append(str(self.root / f"{i}.json"))
        done = self.muster("doctor", "compare", *reports)
        self.assertTrue(done.stdout.startswith("problem: limit.shm"), done.stdout)
        done = self.muster("doctor", "--symptom", "hang_stuck", "compare", *reports)
        self.assertTrue(done.stdout.startswith("should be equal: version.nccl"), done.stdout)
        self.assertEqual(done.returncode, 1)
        done = self.muster("doctor", "--symptom", "hang", "compare", *reports)
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_a_symptom_that_is_none_is_refused(self):
        done = self.muster("doctor", "--passive", "--symptom", "hang_stuck,slow")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('no symptom "slow"', done.stderr)

    def test_the_first_line_is_the_verdict_the_last_ones_what_could_not_run(self):
        text = self.muster("doctor", "--passive").stdout
        verdict, behind = text.splitlines()[0], text[text.index("\nnot run   ") + 1:]
        self.assertRegex(verdict, r"^(This host would spoil a job: \d+ problems?|This host can run a job, perhaps not "
                         r"well: \d+ warnings?|Not known whether this host can run a job: no NVIDIA GPU seen "
                         r"here); "
                         r"\d+ of \d+ checks could not run( \(GPUs\))?\.$")
        self.assertEqual("(GPUs)" in verdict, "no NVIDIA GPU" not in verdict)  # once
        self.assertLessEqual(len(verdict), 100)
        self.assertRegex(behind, r"^not run   gpu, version \(\d+ checks\): no NVIDIA GPU seen here\n(          .*\n)*"
                         r"          ib \(14 checks\): no RDMA device\n(          .*\n)*"
                         r"          .*--passive.*\n(          .*\n)*\d+ problem")

    def test_the_first_line_says_which_kinds_of_checks_could_not_run(self):
        def kinds(**env):
            verdict = self.muster("doctor", "--passive", **env).stdout.splitlines()[0]
            self.assertLessEqual(len(verdict), 110)
            return verdict.partition("checks could not run")[2]
        wrong = {"NCCL_P2P_DISABLE": "true"}  # else the first words are why nothing of GPUs is known
        self.assertEqual(kinds(**wrong), " (GPUs).")  # one host needs no RDMA
        self.assertEqual(kinds(**wrong, **TWO_HOSTS), " (GPUs, RDMA).")
        self.put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
        self.assertEqual(kinds(**wrong, **TWO_HOSTS), " (GPUs).")
        done = self.muster("doctor", "--passive", "--only", "ib", "--format", "json", **TWO_HOSTS)
        self.assertNotIn("(", json.loads(done.stdout)["summary"]["text"])

    def test_a_driver_that_does_not_answer(self):
        self.assertEqual(self.doctor()["gpu.driver"]["status"], "unchecked")
        self.put("dev/nvidia0")
        check = self.doctor(MUSTER_DEVFS=str(self.root / "dev"))["gpu.driver"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("1 device files", check["evidence"][0])
        self.assertIn("NVIDIA_DRIVER_CAPABILITIES", check["advice"])

    def test_shm_that_others_may_not_write(self):
        """Also where root asks, who may."""
        self.put("dev/shm.df", f"Filesystem 1B-blocks Used Available\nshm {64 << 30} 0 {64 << 30}\n")
        (self.root / "dev/shm").mkdir()
        env = {"MUSTER_DEVFS": str(self.root / "dev")}
        for mode, status in ((0o755, "problem"), (0o1755, "problem"), (0o1777, "ok"), (0o777, "ok")):
            (self.root / "dev/shm").chmod(mode)
            check = self.expect("limit.shm", status, **env)
            self.assertEqual("chmod 1777 /dev/shm" in check["advice"], status == "problem")

    def test_shm_full_of_dead_jobs(self):
        env = {"MUSTER_DEVFS": str(self.root / "dev")}
        df = "Filesystem 1B-blocks Used Available Use% Mounted on\nshm {} {} {} 1% /dev/shm\n"
        self.put("dev/shm.df", df.format(64 << 30, 0, 64 << 30))
        self.put("dev/shm/nccl-dead", "x" * 8192)
        (self.root / "dev/shm").chmod(0o1777)
        self.put("dev/shm/nccl-live", "x" * 4096)
        self.put("dev/shm/torch_1", "x" * 4096)
        self.put("proc/77/maps", "7f00-7f01 rw-s 0 00:19 5   /dev/shm/nccl-live\n")
        checks = self.doctor(**env)
        self.assertEqual(checks["limit.shm"]["status"], "ok")
        self.assertEqual(checks["limit.shm_stale"]["status"], "ok")  # young: a job that starts
        for path in (self.root / "dev/shm").iterdir():
            os.utime(path, (1, 1))
        check = self.doctor(**env)["limit.shm_stale"]
        self.assertEqual((check["status"], len(check["evidence"])), ("warning", 1))
        self.assertIn("rm -- /dev/shm/nccl-dead", check["advice"])
        self.assertNotIn("live", check["advice"])
        self.put("dev/shm.df", df.format(64 << 30, 64 << 30, 0))
        checks = self.doctor(**env)
        self.assertEqual(checks["limit.shm"]["status"], "problem")
        self.assertEqual(checks["limit.shm_stale"]["status"], "problem")
        self.assertIn("/dev/shm/torch_1", checks["limit.shm_stale"]["advice"])
        report = json.loads(self.muster("doctor", "--passive", "--symptom", "init_error", "--format",
                                        "json", **env).stdout)
        self.assertEqual(report["causes"], [{"id": "limit.shm_stale", "explains": ["init_error"],
                                             "or": ["limit.shm"]}])

    def test_limits_of_a_recorded_process(self):
        text = ("Limit                     Soft Limit           Hard Limit           Units\n"
                "Max stack size            8388608              unlimited            bytes\n"
                "Max open files            {}                 1048576              files\n"
                "Max locked memory         65536                65536                bytes\n")
        self.put("proc/self/limits", text.format(1024))
        for env, status in (({"LOCAL_WORLD_SIZE": "1"}, "warning"),
                            ({"LOCAL_WORLD_SIZE": "8"}, "problem"),
                            ({"LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "64"}, "problem")):
            check = self.doctor(**env)["limit.nofile"]
            self.assertEqual((check["status"], check["found"]), (status, "1024 open files"), env)
        self.put("proc/self/limits", text.format(65536))
        checks = self.doctor(LOCAL_WORLD_SIZE="8")
        self.assertEqual(checks["limit.nofile"]["status"], "ok")
        self.assertIn("64 KiB", checks["limit.memlock"]["found"])
        self.put("proc/self/status", "Name: x\nCpus_allowed_list:\t0-3,8\n")
        self.assertEqual(self.doctor(LOCAL_WORLD_SIZE="2")["limit.cpus"]["found"],
                         "may run on 5 CPUs")
        check = self.doctor(LOCAL_WORLD_SIZE="8")["limit.cpus"]
        self.assertEqual(check["status"], "problem")
        check = self.doctor(LOCAL_WORLD_SIZE="8", SLURM_LOCALID="3")["limit.cpus"]
        self.assertEqual(check["status"], "ok")  # CPUs of this rank alone

    def test_iommu_and_acs(self):
        self.put("sys/kernel/iommu_groups/0/type", "DMA-FQ\n")
        self.put("proc/cmdline", "quiet\n")
        self.assertEqual(self.doctor()["gpu.iommu"]["found"], "IOMMU in use")
        self.put("proc/cmdline", "quiet iommu=pt\n")
        self.assertEqual(self.doctor()["gpu.iommu"]["found"], "IOMMU, passed through")
        port, gpu = "pci0000:10/0000:10:01.0", "pci0000:10/0000:10:01.0/0000:11:00.0"
        for chain, code, vendor in ((port, "0x060400", "0x8086"), (gpu, "0x030200", "0x10de")):
            name = chain.rsplit("/", 1)[1]
            self.put(f"sys/devices/{chain}/class", code)
            self.put(f"sys/devices/{chain}/vendor", vendor)
            self.put(f"sys/devices/{chain}/current_link_width", "16")
            (self.root / "sys/bus/pci/devices" / name).symlink_to(f"../../../devices/{chain}")
        config = bytearray(4096)
        config[0x100:0x104] = (0x000d | 0x200 << 20).to_bytes(4, "little")
        for bits, status in ((0x0c, "warning"), (0x00, "ok")):
            config[0x106] = bits
            (self.root / f"sys/devices/{port}/config").write_bytes(config)
            self.assertEqual(self.doctor()["gpu.acs"]["status"], status)
        (self.root / f"sys/devices/{port}/config").write_bytes(b"\0" * 64)
        self.assertIn("only root", self.doctor()["gpu.acs"]["found"])
        self.put("proc/kmsg", "DMAR: [DMA Write] Request device [81:00.0] fault addr 0\n")
        self.assertEqual(self.doctor()["host.dma_faults"]["status"], "warning")
        self.put("proc/kmsg", "DMAR: IOMMU enabled\n")
        self.assertEqual(self.doctor()["host.dma_faults"]["status"], "ok")

    def test_master_that_does_not_resolve_and_a_port_in_use(self):
        self.assertEqual(self.doctor(MASTER_ADDR="no.such.host.invalid")["net.master"]["status"],
                         "problem")
        with socket.create_server(("127.0.0.1", 0)) as server:
            check = self.doctor(MASTER_ADDR="127.0.0.1",
                                MASTER_PORT=str(server.getsockname()[1]))["net.master"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("is in use", check["evidence"][-1])
        self.expect("net.master", "ok", MASTER_ADDR="127.0.0.1")
        self.expect("net.master", "problem", MASTER_ADDR="127.0.0.1", SLURM_JOB_NUM_NODES="2")

    def test_interface_that_is_not_there(self):
        check = self.doctor(NCCL_SOCKET_IFNAME="nosuch9")["net.interface"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("nosuch9", check["found"])

    def test_loopback_for_several_hosts(self):
        check = self.doctor(NCCL_SOCKET_IFNAME="=lo", SLURM_JOB_NUM_NODES="2")["net.interface"]
        self.assertEqual(check["status"], "problem")

    def test_loopback_for_one_host(self):
        for one in ({"SLURM_JOB_NUM_NODES": "1"}, {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}):
            self.expect("net.interface", "ok", NCCL_SOCKET_IFNAME="lo", **one)
            self.expect("net.interface", "ok", NCCL_SOCKET_IFNAME="^docker0", **one)
        self.expect("net.interface", "ok", NCCL_SOCKET_IFNAME="lo")
        self.expect("net.interface", "warning", NCCL_SOCKET_IFNAME="^docker0")  # nobody named it
        for symptom, status in (("init_error", "warning"), ("hang_stuck", "ok")):
            check = self.doctor("--symptom", symptom, "--only", "net.interface", NCCL_SOCKET_IFNAME="lo")
            self.assertEqual(check["net.interface"]["status"], status, symptom)

    def test_conf_file_adds_to_the_environment(self):
        self.put(".nccl.conf", "NCCL_P2P_DISABLE=true\nNCCL_DEBUG=INFO\n")
        checks = self.doctor(NCCL_DEBUG="WARN")
        self.assertEqual(checks["env.number"]["status"], "problem")
        self.assertIn("without effect", checks["env.files"]["evidence"][1])
        self.assertIn("NCCL_DEBUG=WARN", checks["env.set"]["evidence"])

    def test_net_plugin_that_is_missing(self):
        self.assertEqual(self.doctor(NCCL_NET_PLUGIN="nosuch")["net.plugin"]["status"], "problem")

    def test_text_says_what_to_do(self):
        done = self.muster("doctor", "--passive", NCCL_TIMEOUT="3600")
        self.assertIn("NCCL_TIMEOUT=3600: neither NCCL nor PyTorch reads it", done.stdout)
        self.assertIn("fix: ", done.stdout)

    def test_wrong_calls(self):
        for call in (["x"], ["compare", "a"], ["--active", "--passive"], ["compare", "/a", "/b"]):
            done = self.muster("doctor", *call)
            self.assertEqual((done.returncode, done.stdout), (2, ""), call)

    def test_compare(self):
        reports = []
        for name, env in (("a", {}), ("b", {"NCCL_ALGO": "ring"})):
            done = self.muster("doctor", "--passive", "--format", "json", NCCL_HOSTID=name, **env)
            self.put(name, done.stdout)
            reports.append(str(self.root / name))
        done = self.muster("doctor", "compare", *reports)
        self.assertEqual(done.returncode, 1)
        self.assertIn("should be equal: env.set", done.stdout)
        self.assertIn("NCCL_ALGO=ring", done.stdout)
        found = json.loads(self.muster("doctor", "compare", "--format", "json", *reports).stdout)
        self.assertIn("env.set", [difference["id"] for difference in found["differences"]])


    def test_hosts_of_one_name_are_told_by_their_files(self):
        reports = []
        for name, env in (("a", {}), ("b", {"NCCL_ALGO": "ring"})):
            done = self.muster("doctor", "--passive", "--format", "json", NCCL_HOSTID=name, **env)
            self.put(name, done.stdout)
            reports.append(str(self.root / name))
        text = self.muster("doctor", "compare", *reports).stdout
        self.assertIn(f"({reports[0]}): ok, 0 variables", text)
        self.assertNotIn("NCCL_HOSTID", text)

    def test_only_some_checks(self):
        done = self.muster("doctor", "--all", "--only", "env.number,limit",
                           NCCL_P2P_DISABLE="true", NCCL_TIMEOUT="3600")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NCCL_P2P_DISABLE=true", done.stdout)
        self.assertIn("limit.stack", done.stdout)
        self.assertNotIn("NCCL_TIMEOUT", done.stdout)
        for wrong in ("nosuch", "env.", "env,", ""):
            done = self.muster("doctor", "--only", wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)


class Recorded(Case):
    """Interfaces of a host that is recorded below MUSTER_PROCFS."""

    def interface(self, name, address, mask, mtu="1500", state="up"):
        index = len(list((self.root / "sys/class/net").glob("*"))) + 1
        self.put(f"sys/class/net/{name}/mtu", mtu)
        self.put(f"sys/class/net/{name}/operstate", state)
        little = "".join(f"{int(part):02X}" for part in reversed(mask.split(".")))
        net = [int(a) & int(b) for a, b in zip(address.split("."), mask.split("."))]
        to = "".join(f"{part:02X}" for part in reversed(net))
        with (self.root / "proc/net/route").open("a") as route:
            route.write(f"{name}\t{to}\t00000000\t0001\t0\t0\t{index}\t{little}\t0\t0\t0\n")
        with (self.root / "proc/net/fib_trie").open("a") as trie:
            trie.write(f"           |-- {address}\n              /32 host LOCAL\n")
        with (self.root / "proc/net/dev").open("a") as dev:
            dev.write(f"{name:>8}: 1 2 3\n")

    def setUp(self):
        super().setUp()
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n"
                 "              /32 host LOCAL\n")

    def test_the_first_that_is_not_left_out(self):
        self.interface("docker0", "172.17.0.1", "255.255.0.0")
        self.interface("br-4f1a", "172.18.0.1", "255.255.0.0")
        self.interface("enp1s0", "10.1.0.7", "255.255.255.0", mtu="9000")
        (self.root / "sys/devices/virtual/net/br-4f1a").mkdir(parents=True)
        checks = self.doctor(SLURM_JOB_NUM_NODES="2")
        self.assertEqual(checks["net.interface"]["status"], "problem")
        self.assertIn("br-4f1a", checks["net.interface"]["found"])
        checks = self.doctor(NCCL_SOCKET_IFNAME="enp1s0", SLURM_JOB_NUM_NODES="2")
        self.assertEqual(checks["net.interface"]["status"], "ok")
        self.assertEqual(checks["net.interface"]["evidence"], ["bootstrap: enp1s0 10.1.0.7/24"])
        self.assertEqual(checks["net.mtu"]["found"], "MTU 9000")
        check = self.doctor(NCCL_SOCKET_IFNAME="eth0")["net.interface"]
        self.assertIn("this host has enp1s0 10.1.0.7/24", check["evidence"])

    def test_where_ranks_meet_if_somebody_chose_it(self):
        """NCCL_OOB_NET_IFNAME names devices of the network that NCCL uses, and counts with NCCL_OOB_NET_ENABLE."""
        self.interface("eth0", "10.1.0.7", "255.255.255.0")
        self.assertNotIn("net.oob", self.doctor(**TWO_HOSTS))
        on = {"NCCL_OOB_NET_ENABLE": "1", **TWO_HOSTS}
        self.expect("net.oob", "ok", NCCL_OOB_NET_IFNAME="eth7", **TWO_HOSTS)
        self.assertEqual(self.expect("net.oob", "ok", NCCL_OOB_NET_IFNAME="eth0", **on)["found"], "eth0")
        check = self.expect("net.oob", "problem", NCCL_OOB_NET_IFNAME="mlx5_1", **on)
        self.assertEqual(check["found"], "NCCL_OOB_NET_IFNAME=mlx5_1 names no interface that is up: NCCL fails at init")
        self.assertIn("this host has eth0", check["evidence"])
        self.expect("net.oob", "problem", NCCL_OOB_NET_IFNAME="=lo", **on)
        self.expect("net.oob", "ok", NCCL_OOB_NET_IFNAME="=lo", NCCL_OOB_NET_ENABLE="1")
        for device in ("mlx5_10", "mlx5_2", "mlx5_0", "mlx5_1"):
            self.put(f"sys/class/infiniband/{device}/ports/1/state", "4: ACTIVE\n")
        check = self.expect("net.oob", "ok", NCCL_OOB_NET_IFNAME="mlx5", **on)
        self.assertEqual(check["found"], "mlx5_0")
        self.assertEqual(check["evidence"], [f"this host has mlx5_{number}" for number in (0, 1, 2, 10)])
        self.assertEqual(self.expect("net.oob", "ok", NCCL_OOB_NET_IFNAME="=mlx5_1:1", **on)["found"], "mlx5_1")
        check = self.expect("net.oob", "problem", NCCL_OOB_NET_IFNAME="eth0", **on)
        self.assertIn("names no RDMA device", check["found"])
        self.expect("net.oob", "ok", NCCL_OOB_NET_IFNAME="eth0", NCCL_IB_DISABLE="1", **on)

    def test_what_is_down_is_left_out_and_a_subnet_is_shared(self):
        self.interface("eth0", "10.1.0.7", "255.255.255.0", state="down")
        self.interface("eth1", "10.1.0.8", "255.255.255.0")
        checks = self.doctor()
        self.assertIn("eth1", checks["net.interface"]["found"])
        self.put("sys/class/net/eth0/operstate", "up")
        self.expect("net.subnet", "warning")
        shutil.rmtree(self.root / "proc/net")
        shutil.rmtree(self.root / "sys/class/net")
        self.setUp()
        self.interface("eth0", "10.1.0.7", "255.255.255.0")
        self.interface("eth1", "10.2.0.7", "255.255.255.0")
        self.expect("net.subnet", "ok")

    def test_ipv6(self):
        self.put("proc/net/if_inet6", "fe800000000000000000000000000001 02 40 20 80     eth0\n"
                 "fd000000000000000000000000000001 02 40 00 80     eth0\n")
        self.put("sys/class/net/eth0/operstate", "up")
        check = self.doctor(NCCL_SOCKET_IFNAME="eth", NCCL_SOCKET_FAMILY="AF_INET6")["net.interface"]
        self.assertIn("bootstrap: eth0 fe80::1/64", check["evidence"])

    def test_files_that_make_no_sense(self):
        self.put("proc/net/route", "a b c d\n" * 1000 + "x" * 5000)
        self.put("proc/net/fib_trie", "|-- \n/32 host LOCAL\n|-- 999.1.1.1\n/32 host LOCAL\n" * 50)
        self.put("proc/net/if_inet6", "zz\n" + "f" * 32 + " 1 fff 1 1 eth0\n")
        self.assertEqual(self.doctor()["net.interface"]["status"], "problem")


if __name__ == "__main__":
    unittest.main()
