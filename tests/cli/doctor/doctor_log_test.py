"""What muster doctor makes of what a job printed."""

import subprocess
import unittest

from doctor_case import FAKES, MUSTER, GpuCase

SHM = "n:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes, " \
      "error: No space left on device (28)\n"
HEALTHY = "n:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.1<0>\nNCCL version 2.21.5+cuda12.4\n" \
          "n:1:2 [0] NCCL INFO NET/IB : No device found.\nn:1:2 [0] NCCL INFO comm 0x5 - Init COMPLETE\n"


class JobLog(GpuCase):
    def log(self, text, *args, **given):
        self.put("job.log", text)
        return self.report("--passive", "--log", str(self.root / "job.log"), *args, **given)

    def leads(self, text, *args, **given):
        report = self.log(text, *args, **given)
        return report["causes"][0]["id"] if report["causes"] else None

    def test_the_line_and_the_host(self):
        self.put("dev/shm.df", "Filesystem 1B-blocks Used Available\nshm 67108864 0 67108864\n")
        small = {"MUSTER_DEVFS": str(self.root / "dev")}
        self.assertEqual(self.leads(SHM, **small), "limit.shm")
        self.put("dev/shm.df", "Filesystem 1B-blocks Used Available\nshm 68719476736 0 68719476736\n")
        self.assertEqual(self.leads(SHM, **small), "log.shm_full")  # the log may be another host's

    def test_an_unknown_error_and_a_file_that_cuda_needs(self):
        """Which a bug of that NCCL would not bring about."""
        text = "NCCL version 2.12.10+cuda11.6\nn1: Test CUDA failure common.cu:1045 'unknown error'\n"
        dev = {"MUSTER_DEVFS": str(self.root / "dev")}
        self.put("dev/nvidia0")
        self.assertEqual(self.leads(text, **dev), "gpu.driver")
        self.put("dev/nvidia-uvm")
        self.assertNotEqual(self.leads(text, **dev), "gpu.driver")

    def test_a_log_without_errors(self):
        report = self.log(HEALTHY)
        self.assertEqual([check["id"] for check in report["checks"]
                          if check["id"].startswith("log.") and check["status"] in ("warning", "problem")], [])
        self.assertEqual(report["causes"], [])
        self.assertEqual({check["id"]: check for check in report["checks"]}["log.job"]["status"], "ok")
        self.assertEqual(self.leads(HEALTHY, "--symptom", "slow_transfer"), "log.no_rdma")
        self.assertNotIn("log.job", self.doctor("--passive"))

    def test_what_only_follows(self):
        report = self.log("ncclRemoteError: A call failed possibly due to a network error\n")
        check = {check["id"]: check for check in report["checks"]}["log.job"]
        self.assertIn("not why", check["found"])
        self.assertTrue(all(cause["suspect"] for cause in report["causes"]))
        self.assertTrue(report["summary"]["text"].startswith("No cause of hang_dead was seen"))

    def test_a_line_of_two_kinds(self):
        """The weightier one is nearer to the cause; of further lines the other stands beside it."""
        text = "[c10d] The IPv6 network addresses of ({}, 45458) cannot be retrieved (gai error: -3).\n"
        for addresses, ids in ((["/etc/job.env"], ["log.endpoint"]), (["node7"], ["log.name"]),
                               (["/etc/job.env", "node7"], ["log.name", "log.endpoint"])):
            report = self.log("".join(text.format(address) for address in addresses))
            self.assertEqual(sorted(cause["id"] for cause in report["causes"]), sorted(ids), addresses)

    def test_a_usage_that_is_invalid(self):
        line = "RuntimeError: NCCL error: {} (run with NCCL_DEBUG=WARN for details)\n".format
        self.assertEqual(self.leads(line("invalid usage"), "--only", "log"), "log.usage")
        self.assertIsNone(self.leads(line("invalid argument"), "--only", "log"))
        named = line("invalid usage") + "n:1:2 [0] init.cc:5 NCCL WARN Duplicate GPU detected : rank 1 and rank 0\n"
        self.assertEqual(self.leads(named, "--only", "log"), "log.duplicate_gpu")

    def test_the_nccl_that_vllm_names(self):
        line = "INFO 07-08 10:09:09 [pynccl.py:70] vLLM is using nccl=={}\n".format
        for version, status in (("2.29.2", "warning"), ("2.29.3", "ok")):
            report = self.log(line(version), "--symptom", "hang_stuck", "--only", "version.nccl_bad")
            checks = {check["id"]: check for check in report["checks"]}
            self.assertEqual("a regression that hangs" in str(checks["version.nccl_bad"]), status == "warning")

    def test_the_nccl_of_the_job(self):
        bug = "version.nccl_bad"
        self.assertEqual(self.doctor("--passive")[bug]["status"], "ok")
        self.put("job.log", "NCCL version 2.4.2+cuda10.0\nWatchdog caught collective operation timeout\n")
        check = self.doctor("--passive", "--log", str(self.root / "job.log"))[bug]
        self.assertEqual(check["status"], "problem")
        self.assertIn("2.4.2", check["found"])

    def test_lines_of_the_kernel(self):
        xid = "[ 12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        self.assertEqual(self.leads(xid), "host.kernel_log")

    def test_a_suspect_is_called_one(self):
        report = self.log("Watchdog caught collective operation timeout\n", "--only", "gpu.p2p_status",
                          gpus=2, nvml="gpu * name NVIDIA GeForce RTX 4090\ngpu * links 0\ngpu * capability 8 9")
        self.assertEqual([(cause["id"], cause.get("suspect")) for cause in report["causes"]],
                         [("gpu.p2p_status", True)])
        self.assertIn("only a suspect", report["summary"]["text"])
        done = self.muster("doctor", "--passive", "--log", str(self.root / "job.log"),
                           FAKE_NVML=str(self.root / "nvml"), FAKE_GPUS="2",
                           LD_LIBRARY_PATH=FAKES)
        self.assertIn("suspect   gpu.p2p_status", done.stdout)

    def test_standard_input_and_what_is_no_log(self):
        done = subprocess.run([MUSTER, "doctor", "--passive", "--log", "-"], input="Too many open files\n",
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertIn("the limit of open files was reached", done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith("The job failed most likely because of this: the limit of open files"),
                        done.stdout)
        self.put("job.log", "hello\n")
        done = self.muster("doctor", "--passive", "--log", str(self.root / "job.log"))
        self.assertRegex(done.stdout, r"^Why the job failed is not known: no line of \S+job.log is known: is it of a run "
                         "with NCCL_DEBUG=INFO")
        done = self.muster("doctor", "--log", str(self.root / "absent"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("No such file", done.stderr)
        done = self.muster("doctor", "--log", str(self.root / "nvml"), "compare", "a", "b")
        self.assertEqual(done.returncode, 2)
        self.assertIn("not for compare", done.stderr)

    def test_settings_of_the_job(self):
        said = "n:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n" \
               "n:1:2 [0] NCCL INFO NCCL_DEBUG set by environment to TRACE.\n"
        report = self.log(said, "--symptom", "slow_transfer", gpus=2, nvml="gpu * links 18")
        checks = {check["id"]: check for check in report["checks"]}
        self.assertEqual(report["causes"][0]["id"], "env.costly")
        self.assertIn("NCCL_P2P_DISABLE=1", checks["env.set"]["evidence"])
        self.assertNotIn("NCCL_DEBUG", str(checks["env.set"]["evidence"]) + checks["env.costly"]["found"])
        report = self.log(said, gpus=2, NCCL_P2P_DISABLE="0")  # this environment's own counts
        self.assertEqual({check["id"]: check for check in report["checks"]}["env.costly"]["status"], "ok")

    def test_nothing_is_loaded_that_a_log_names(self):
        report = self.log("n:1:2 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to /absent/libnccl-net.so.\n")
        self.assertEqual({check["id"]: check for check in report["checks"]}["net.plugin"]["status"], "ok")

    def test_ways_between_ranks(self):
        way = "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/"
        slow = ("--symptom", "slow_transfer")
        self.assertEqual(self.leads(way + "Socket/0\n", *slow), "log.way_socket")
        self.assertEqual(self.leads(way + "IB/0(1)\n", *slow), "log.way_host")
        report = self.log(way + "IB/0(1)/GDRDMA\n", *slow)
        self.assertNotIn("log.way_host", [check["id"] for check in report["checks"]])
        job = {check["id"]: check for check in report["checks"]}["log.job"]
        self.assertIn("1 lines of channels say via RDMA from the GPU (GDRDMA)", job["evidence"])
        self.assertEqual(self.leads(way + "Socket/0\n", *slow, NCCL_IB_DISABLE="1"), "env.costly")
        self.assertEqual(self.leads(way + "Socket/0\n", "--symptom", "init_error", nvml="gpu * capability 8 0"), "job.ranks")

    def test_ways_that_this_host_could_better(self):
        way = "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n" \
              "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n"

        def ways(**given):
            report = self.log(way, "--symptom", "slow_transfer", **given)
            checks = {check["id"]: check for check in report["checks"]}
            return checks["log.way_shm"], checks["log.way_socket"]

        shm, sockets = ways(nvml="gpu * capability 8 6\ngpu * links 0")
        self.assertNotIn("NVLink joins", shm["found"])
        self.assertNotIn("RDMA port", sockets["found"])
        shm, sockets = ways(nvml="gpu * capability 9 0\ngpu * name NVIDIA H100")
        self.assertEqual(shm["status"], "warning")
        self.assertIn("NVLink joins all of them here", shm["found"])
        for port in (1, 2):
            self.put(f"sys/class/infiniband/mlx5_0/ports/{port}/state", "4: ACTIVE\n")
            self.put(f"sys/class/infiniband/mlx5_0/ports/{port}/link_layer", "InfiniBand\n")
        _, sockets = ways(nvml="gpu * capability 9 0")
        self.assertEqual(sockets["status"], "warning")
        self.assertIn("2 RDMA ports are active here", sockets["found"])

    def test_nvlink_sharp_that_is_not_used(self):
        hopper = "gpu * capability 9 0\ngpu * name NVIDIA H100"
        dev = {"MUSTER_DEVFS": str(self.root / "dev")}
        hang = "Watchdog caught collective operation timeout\n"
        only = ("--only", "gpu.multicast")
        self.assertEqual(self.leads(hang, *only, nvml=hopper, **dev), "gpu.multicast")
        for said in ("NVLS multicast support is not available on dev 0", "NCCL_NVLS_ENABLE set by environment to 0."):
            self.assertIsNone(self.leads(f"{hang}n:1:2 [0] NCCL INFO {said}\n", *only, nvml=hopper, **dev), said)

    def test_a_log_that_is_cut(self):
        line = "n:1:2 [0] NCCL INFO " + "x" * 1003 + "\n"
        with open(self.root / "job.log", "w", encoding="ascii") as log:
            for _ in range(64):
                log.write(line * 1024)
        done = self.muster("doctor", "--passive", "--log", str(self.root / "job.log"))
        self.assertNotIn("64 MiB", done.stdout)
        with open(self.root / "job.log", "a", encoding="ascii") as log:
            log.write("Too many open files\n")
        done = self.muster("doctor", "--passive", "--log", str(self.root / "job.log"))
        self.assertRegex(done.stdout, r"only\s+the\s+first\s+64\s+MiB\s+were\s+read")

    def test_a_log_of_several_hosts(self):
        self.put("job.log", "NCCL WARN NET/IB : Got completion from peer 10.0.0.2 with error 12, opcode 0\n")
        done = self.muster("doctor", "--hosts", "--quick", "--log", str(self.root / "job.log"), "--with", "env HOST={}",
                           "a", "b")
        self.assertIn("a network card got no answer", done.stdout)
        self.assertIn("hosts.", done.stdout)
        self.assertEqual(done.returncode, 1, done.stderr)
        done = self.muster("doctor", "--hosts", "--log", str(self.root / "absent"), "--with", "env HOST={}", "a", "b")
        self.assertEqual(done.returncode, 2)
        self.assertIn("No such file", done.stderr)


if __name__ == "__main__":
    unittest.main()
