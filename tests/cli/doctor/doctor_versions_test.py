"""What muster doctor says of versions: of NCCL, and of CUDA against the driver's."""

import pathlib
import struct
import unittest

from doctor_case import FAKES, GpuCase


class Versions(GpuCase):
    def first_nccl(self, hidden):
        """The stand-in, without one of its functions."""
        fake = next(path for folder in FAKES.split(":") for path in sorted(pathlib.Path(folder).glob("libnccl.so*")))
        self.put("lib/libnccl.so.1")
        (self.root / "lib/libnccl.so.1").write_bytes(fake.read_bytes().replace(hidden, b"X" + hidden[1:]))
        return ("--passive", "--nccl", str(self.root / "lib/libnccl.so.1"))

    def test_the_first_nccl(self):
        check = self.doctor("--passive", FAKE_NCCL="1304")["version.nccl"]
        self.assertEqual((check["status"], check["found"]), ("problem", "NCCL 1.3.4"))
        self.assertIn("upgrade", check["advice"])
        check = self.doctor(*self.first_nccl(b"ncclGetVersion"))["version.nccl"]
        self.assertEqual((check["status"], check["found"]), ("problem", "NCCL 1"))
        check = self.doctor(*self.first_nccl(b"ncclCommInitRank"))["version.nccl"]
        self.assertEqual(check["status"], "unchecked")  # not an NCCL at all

    def test_versions_before_2_9(self):
        for said, version in (("2408", "2.4.8"), ("2804", "2.8.4"), ("20902", "2.9.2")):
            check = self.doctor("--passive", FAKE_NCCL=said)["version.nccl"]
            self.assertEqual((check["status"], check["found"]), ("ok", f"NCCL {version}"))
        volta = "gpu * capability 7 0"
        check = self.doctor("--passive", FAKE_NCCL="2402", nvml=volta)["version.nccl_bad"]
        self.assertIn("hangs at random with the LL protocol", check["found"])
        check = self.doctor("--passive", FAKE_NCCL="2408", nvml=volta)["version.nccl_bad"]
        self.assertNotIn("hangs at random", check["found"])

    def test_a_bug_explains_what_it_brings_about(self):
        a100 = "gpu * capability 8 0"
        slow = ("--passive", "--symptom", "slow_transfer")
        hang = ("--passive", "--symptom", "hang_stuck")
        several = {"SLURM_JOB_NUM_NODES": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
        check = self.doctor(*hang, FAKE_NCCL="20802", nvml=a100, **several)["version.nccl_bad"]
        self.assertIn("NCCL 2.8.2 ranks choose different protocols", check["found"])
        self.assertIn("version.nccl_bad", self.causes(*hang, FAKE_NCCL="20802", nvml=a100, **several))
        self.assertNotIn("version.nccl_bad", self.causes(*slow, FAKE_NCCL="20802", nvml=a100, **several))

    def test_a_network_interface_on_usb(self):
        nvml = "gpu * capability 8 6"
        below = "devices/pci0000:00/0000:00:14.0/usb1/1-11/1-11:2.0/net/enx0"
        self.put(f"sys/{below}/mtu", "1500\n")
        self.put("sys/class/net/.keep")
        (self.root / "sys/class/net/enx0").symlink_to(f"../../{below}")
        check = self.doctor("--passive", FAKE_NCCL="21904", nvml=nvml)["version.nccl_bad"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("on USB", check["found"])
        (self.root / "sys/class/net/enx0").unlink()
        check = self.doctor("--passive", FAKE_NCCL="21904", nvml=nvml)["version.nccl_bad"]
        self.assertNotIn("on USB", check["found"])

    def test_numa_nodes_without_memory(self):
        symptom = ("--passive", "--symptom", "init_error", "--only", "version.nccl_bad")
        for memory, found in ((0, True), (64000000, False)):
            self.put("sys/devices/system/node/node0/cpulist", "0-63\n")
            self.put("sys/devices/system/node/node0/meminfo", f"Node 0 MemTotal:  {memory} kB\n")
            check = self.doctor(*symptom, FAKE_NCCL="22809", nvml="gpu * capability 8 6")["version.nccl_bad"]
            self.assertEqual("NUMA nodes that have no CPUs or no memory" in check["found"], found, check)

    def ports(self, devices, ports):
        for device in range(devices):
            for port in range(1, ports + 1):
                below = f"sys/class/infiniband/mlx5_{device}/ports/{port}"
                self.put(f"{below}/state", "4: ACTIVE\n")
                self.put(f"{below}/link_layer", "InfiniBand\n")

    def test_more_ports_than_nccl_has_room_for(self):
        nvml = "gpu * capability 9 0"
        self.ports(16, 2)
        check = self.doctor("--passive", FAKE_NCCL="23007", nvml=nvml)["version.nccl_bad"]
        self.assertNotIn("RDMA ports", check["found"])
        self.ports(17, 2)
        check = self.doctor("--passive", FAKE_NCCL="23007", nvml=nvml)["version.nccl_bad"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("beyond its list of RDMA ports", check["found"])
        self.assertIn("NCCL_IB_HCA", check["advice"])
        check = self.doctor("--passive", FAKE_NCCL="23007", nvml=nvml, NCCL_IB_HCA="mlx5_0,mlx5_1")["version.nccl_bad"]
        self.assertNotIn("RDMA ports", check["found"])

    def test_a_bug_that_the_log_names(self):
        self.put("job.log", "n:1:2 [0] misc/socket.cc:447 NCCL WARN socketTryAccept: Accept failed: Interrupted "
                 "system call\n")
        several = {"SLURM_JOB_NUM_NODES": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
        log = ("--passive", "--log", str(self.root / "job.log"))
        report = self.report(*log, FAKE_NCCL="22501", nvml="gpu * capability 8 0", **several)
        self.assertEqual(report["causes"][0]["id"], "version.nccl_bad")
        check = {check["id"]: check for check in report["checks"]}["version.nccl_bad"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("a signal interrupts accept()", check["found"])
        self.assertEqual(check["advice"], "upgrade to 2.27.3")  # no other bug's cure beside it
        report = self.report(*log, FAKE_NCCL="22809", nvml="gpu * capability 8 0", **several)  # not this one's
        self.assertEqual(report["causes"][0]["id"], "log.interrupted")

    def test_an_nccl_that_was_built_for_other_gpus(self):
        def entry(architecture):
            return struct.pack("<HHIQIIHHI", 2, 0x101, 64, 0, 0, 0, 1, 8, architecture) + bytes(32)
        fake = next(path for folder in FAKES.split(":") for path in sorted(pathlib.Path(folder).glob("libnccl.so*")))
        body = entry(70) + entry(80)
        self.put("lib/libnccl.so.2")
        (self.root / "lib/libnccl.so.2").write_bytes(
            fake.read_bytes() + struct.pack("<IHHQ", 0xba55ed50, 1, 16, len(body)) + body)
        given = ("--passive", "--nccl", str(self.root / "lib/libnccl.so.2"), "--symptom", "init_error")
        ampere = "gpu * capability 8 6\ngpu * name NVIDIA RTX A6000"
        self.assertEqual(self.doctor(*given, nvml=ampere)["version.gpu_code"]["status"], "ok")
        hopper = "gpu * capability 9 0\ngpu * name NVIDIA H100"
        check = self.doctor(*given, nvml=hopper)["version.gpu_code"]
        self.assertEqual((check["status"], check["found"]),
                         ("problem", "NCCL has no code for NVIDIA H100 (9.0): it was built for 70 and 80"))
        self.assertEqual(self.causes(*given, nvml=hopper)[0], "version.gpu_code")
        check = self.doctor("--passive", nvml=hopper)["version.gpu_code"]
        self.assertEqual((check["status"], check["found"]),
                         ("ok", "the library does not say for which GPUs it was built"))

    def test_libfabric_older_than_nccl(self):
        self.put("sys/class/infiniband/rdmap0s0/ports/1/state", "4: ACTIVE\n")
        packages = "opt/amazon/efa_installed_packages"
        for installer, nccl, given, status in (("1.28.0", "22005", {}, "problem"), ("1.29.0", "22005", {}, "ok"),
                                               ("1.28.0", "21805", {}, "ok"),
                                               ("1.28.0", "22005", {"FI_EFA_SET_CUDA_SYNC_MEMOPS": "0"}, "ok")):
            self.put(packages, f"# EFA installer version: {installer}\n# Packages installed:\n")
            check = self.doctor("--passive", FAKE_NCCL=nccl, **given)["version.pairs"]
            self.assertEqual(check["status"], status, check)

    def test_a_script_of_variables(self):
        given = ("--passive", "--only", "net.plugin", "--symptom", "init_error")
        names = ("NCCL_NET=gIB", "NCCL_CROSS_NIC=0", "NCCL_IB_TC=52", "NCCL_IB_FIFO_TC=84")
        job = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
        self.put("usr/local/gib/scripts/set_nccl_env.sh", "".join(f"export {name}\n" for name in names))
        check = self.doctor(*given, **job)["net.plugin"]
        self.assertIn("has none of the variables", check["found"])
        self.assertIn("source /usr/local/gib/scripts/set_nccl_env.sh", check["advice"])
        self.assertEqual(self.doctor(*given, NCCL_IB_TC="52", **job)["net.plugin"]["status"], "ok")
        self.assertEqual(self.doctor(*given)["net.plugin"]["status"], "ok")

    def test_a_second_libfabric(self):
        given = ("--passive", "--only", "version.pairs", "--symptom", "init_error")
        self.put("usr/lib/x86_64-linux-gnu/libfabric.so.1")
        self.put("sys/class/infiniband/rdmap0s0/ports/1/state", "4: ACTIVE\n")
        self.assertEqual(self.doctor(*given)["version.pairs"]["status"], "ok")
        self.put("opt/amazon/efa/lib/libfabric.so.1")
        self.assertEqual(self.doctor(*given[:3])["version.pairs"]["status"], "ok")
        check = self.doctor(*given)["version.pairs"]
        self.assertIn("second libfabric in /usr/lib/x86_64-linux-gnu", check["found"])
        self.assertIn("/opt/amazon/efa/lib first in LD_LIBRARY_PATH", check["advice"])
        (self.root / "usr/lib/x86_64-linux-gnu/libfabric.so.1").unlink()
        self.assertEqual(self.doctor(*given)["version.pairs"]["status"], "ok")

    def test_a_plugin_for_efa_with_a_known_bug(self):
        folder = "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu"
        check = self.doctor("--passive", nvml="gpu * capability 9 0")["version.plugin"]
        self.assertIn("no aws-ofi-nccl is seen", check["found"])
        self.put(f"{folder}/libnccl-net.so", "ELF\0NET/OFI Initializing aws-ofi-nccl 1.12.0-aws\0")
        check = self.doctor("--passive", nvml="gpu * capability 9 0")["version.plugin"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("aws-ofi-nccl 1.12.0", check["found"])
        self.assertIn("1.12.1", check["advice"])
        self.put(f"{folder}/libnccl-net.so", "ELF\0NET/OFI Initializing aws-ofi-nccl 1.21.1\0")
        check = self.doctor("--passive", nvml="gpu * capability 9 0")["version.plugin"]
        self.assertEqual(check["status"], "ok")
        # the log is of the plugin that the job loaded
        self.put("job.log", "n:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.9.1-aws\n")
        log = ("--passive", "--log", str(self.root / "job.log"))
        check = self.doctor(*log, FAKE_NCCL="22005", nvml="gpu * capability 9 0")["version.plugin"]
        self.assertIn("1.9.1", check["found"])
        self.assertIn("tuner", str(check["evidence"]))

    def test_hpcx_newer_than_ofed(self):
        for hpcx, ofed, status in (("2.17.1", "5.8-1.1.2", "warning"), ("2.14", "5.8-1.1.2", "ok"),
                                   ("2.17.1", "23.10-0.5.5", "ok")):
            self.put("sys/module/mlx5_core/version", f"{ofed}\n")
            check = self.doctor("--passive", HPCX_HOME=f"/opt/hpcx-v{hpcx}-gcc-mlnx_ofed")["version.pairs"]
            self.assertEqual(check["status"], status, check)

    def test_the_plugin_of_gib_needs_a_newer_nccl(self):
        folders = {"LD_LIBRARY_PATH": f"{FAKES}:/usr/local/gib/lib64"}
        check = self.doctor("--passive", FAKE_NCCL="22203", **folders)["version.pairs"]
        self.assertEqual(check["status"], "problem")
        self.assertIn("2.22.3", check["found"])
        self.assertEqual(self.doctor("--passive", FAKE_NCCL="22304", **folders)["version.pairs"]["status"], "ok")
        self.assertEqual(self.doctor("--passive", FAKE_NCCL="22203")["version.pairs"]["status"], "ok")

    def test_two_packages_of_one_library(self):
        site = "venv/lib/python3.12/site-packages"
        self.put(f"{site}/nvidia/nccl/lib/libnccl.so.2", "\0NCCL version 2.28.9+cuda12.9\0")
        given = ("--passive", "--nccl", str(self.root / site / "nvidia/nccl/lib/libnccl.so.2"))
        fake = next(path for folder in FAKES.split(":") for path in sorted(pathlib.Path(folder).glob("libnccl.so*")))
        (self.root / site / "nvidia/nccl/lib/libnccl.so.2").write_bytes(fake.read_bytes())
        self.put(f"{site}/nvidia_nccl_cu12-2.28.9.dist-info/METADATA")
        self.assertNotIn("packages of NCCL", self.doctor(*given)["version.nccl"]["found"])
        self.put(f"{site}/nvidia_nccl_cu13-2.28.9.dist-info/METADATA")
        check = self.doctor(*given)["version.nccl"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("2 packages of NCCL", check["found"])

    def test_packages_of_a_user(self):
        site = ".local/lib/python3.12/site-packages"
        self.put(f"{site}/nvidia/nccl/lib/libnccl.so.2", "\0NCCL version 2.14.3+cuda11.7\0")
        for name in ("cu11-2.14.3", "cu12-2.27.3"):
            self.assertNotIn("packages of NCCL", self.doctor("--passive")["version.nccl"]["found"])
            self.put(f"{site}/nvidia_nccl_{name}.dist-info/METADATA")
        self.assertIn("2 packages of NCCL", self.doctor("--passive")["version.nccl"]["found"])

    def test_an_nccl_of_vllms_own(self):
        self.put("old/libnccl.so.2", "\0NCCL version 2.18.1+cuda12.1\0")
        old = str(self.root / "old/libnccl.so.2")
        check = self.doctor("--passive", VLLM_NCCL_SO_PATH=old)["version.nccl"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("vLLM opens NCCL 2.18.1", check["found"])
        check = self.doctor("--passive", VLLM_NCCL_SO_PATH=old + ".gone")["version.nccl"]
        self.assertIn("No such file", check["found"])
        self.assertNotIn("vLLM", self.doctor("--passive")["version.nccl"]["found"])

    def test_an_nccl_that_vllm_left(self):
        symptom = ("--passive", "--only", "version.nccl", "--symptom", "init_error")
        self.assertEqual(self.causes(*symptom), [])
        self.put(".config/vllm/nccl/cu12/libnccl.so.2.18.1", "\0NCCL version 2.18.1+cuda12.1\0")
        check = self.doctor(*symptom)["version.nccl"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("vLLM until May 2024 opens an NCCL of its own, 2.18.1", check["found"])
        self.assertEqual(self.doctor("--passive")["version.nccl"]["status"], "ok")  # no job fails
        self.put("own/libnccl.so.2")
        check = self.doctor(*symptom, VLLM_NCCL_SO_PATH=str(self.root / "own/libnccl.so.2"))["version.nccl"]
        self.assertNotIn("until May 2024", check["found"])

    def test_what_lends_parts_of_gpus(self):
        symptom = ("--passive", "--only", "version.nccl", "--symptom", "hang_absent")
        lent = {"LD_PRELOAD": "/usr/local/vgpu/libvgpu.so"}
        check = self.doctor(*symptom, **lent)["version.nccl"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("LD_PRELOAD puts /usr/local/vgpu/libvgpu.so (HAMi", check["found"])
        self.assertIn("CUDA_DISABLE_CONTROL=true", check["advice"])
        for name in ("libtcmalloc.so.4", "/opt/libvgpu_unlock_rs.so"):
            self.assertEqual(self.causes(*symptom, LD_PRELOAD=name), [], name)
        for name, what in (("/kubeshare/library/libgemhook.so.1", "Gemini"), ("libnvshare.so", "nvshare")):
            self.assertIn(f"({what}, which", self.doctor(*symptom, LD_PRELOAD=name)["version.nccl"]["found"])
        self.put("etc/ld.so.preload", "/usr/lib/libsnoopy.so\n")
        self.assertEqual(self.causes(*symptom), [])
        self.put("etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so\n")
        self.assertEqual(self.causes(*symptom), ["version.nccl"])
        self.assertEqual(self.doctor("--passive", **lent)["version.nccl"]["status"], "ok")  # no job fails

    def test_a_pytorch_before_the_gpus(self):
        site = ".local/lib/python3.12/site-packages"
        self.put(f"{site}/nvidia/nccl/lib/libnccl.so.2", "\0NCCL version 2.28.9+cuda12.9\0")
        boards = "gpu * capability 12 0\ngpu * name NVIDIA X"
        for cuda, status in (("12.8", "ok"), ("13.0", "ok"), ("12.4", "warning")):
            self.put(f"{site}/torch/version.py", f"__version__ = '2.6.0'\ncuda: Optional[str] = '{cuda}'\nhip = None\n")
            check = self.doctor("--passive", nvml=boards)["version.gpu_code"]
            self.assertEqual(check["status"], status, (cuda, check))
            self.assertEqual("PyTorch is built for CUDA 12.4" in check["found"], status == "warning")
        other = site.replace("3.12", "3.11")  # which one runs is not known
        self.put(f"{other}/nvidia/nccl/lib/libnccl.so.2", "\0NCCL version 2.28.9+cuda12.9\0")
        self.put(f"{other}/torch/version.py", "cuda: Optional[str] = '12.8'\n")
        self.assertEqual(self.doctor("--passive", nvml=boards)["version.gpu_code"]["status"], "ok")
        self.put(f"{other}/torch/version.py", "cuda: Optional[str] = None\n")
        self.put(f"{site}/torch/version.py", "cuda: Optional[str] = None\n")
        self.assertEqual(self.doctor("--passive", nvml=boards)["version.gpu_code"]["status"], "ok")

    def built_for(self, cuda, *args, nvml, check="version.cuda", **env):
        self.put("lib/libnccl.so.2")
        fake = next(path for folder in FAKES.split(":") for path in sorted(pathlib.Path(folder).glob("libnccl.so*")))
        built = fake.read_bytes().replace(b"NCCL version 2.", b"NCCX version 2.")
        (self.root / "lib/libnccl.so.2").write_bytes(built + f"\0NCCL version 2.28.9+cuda{cuda}\0".encode())
        given = ("--passive", "--nccl", str(self.root / "lib/libnccl.so.2"))
        return self.doctor(*given, *args, nvml=nvml, **env)[check]

    def test_a_driver_older_than_what_nccl_was_built_for(self):
        self.assertEqual(self.built_for("12.9", nvml="cuda 12080")["status"], "ok")
        check = self.built_for("12.9", nvml="cuda 11080\ndriver 520.61.05")
        self.assertEqual(check["status"], "problem", check)

    def test_a_cuda_before_the_gpus(self):
        symptom = ("--symptom", "init_error", "--only", "version.gpu_code")
        for cuda, gpu, status in (("10.2", "8 6", "warning"), ("11.0", "8 6", "ok"), ("11.0", "9 0", "ok"),
                                  ("10.2", "7 5", "ok"), ("12.2", "12 0", "ok"), ("11.8", "12 0", "warning")):
            nvml = f"gpu * capability {gpu}\ngpu * name NVIDIA X"
            check = self.built_for(cuda, *symptom, nvml=nvml, check="version.gpu_code")
            self.assertEqual(check["status"], status, (cuda, gpu))
        self.assertIn("is built for CUDA 11.8, which has no code for NVIDIA X (12.0)", check["found"])

    def test_an_nccl_before_the_gpus(self):
        for cuda, named in (("12.4", True), ("12.8", False)):
            check = self.built_for(cuda, nvml="gpu * capability 12 0", check="version.nccl_bad", FAKE_NCCL="22105")
            self.assertEqual(check["status"], "problem", cuda)
            self.assertEqual("PyTorch, or the program, built for CUDA 12.8" in check["advice"], named, check)

    def test_minor_versions_of_cuda(self):
        check = self.built_for("9.1", nvml="cuda 9000\ndriver 384.111")
        self.assertEqual((check["status"], check["advice"]), ("problem", "a newer driver, or NCCL for CUDA 9.0"))
        self.assertEqual(self.built_for("9.0", nvml="cuda 9010\ndriver 390.30")["status"], "ok")
        symptom = ("--symptom", "init_error", "--only", "version.cuda")
        check = self.built_for("12.4", *symptom, nvml="cuda 12020\ndriver 535.104.05")
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "NCCL was built for CUDA 12.4, the driver gives 12.2"))
        self.assertEqual(self.built_for("12.2", *symptom, nvml="cuda 12040\ndriver 550.54.15")["status"], "ok")
        hangs = ("--symptom", "hang_stuck", "--only", "version.cuda")
        self.assertEqual(self.built_for("12.8", *hangs, nvml="cuda 12020\ndriver 535.183.01")["status"], "warning")
        self.assertEqual(self.built_for("12.2", *hangs, nvml="cuda 12020\ndriver 535.183.01")["status"], "ok")
        # what hangs more often comes first
        both = ("--symptom", "hang_stuck", "--only", "version.cuda,gpu.p2p_status")
        check = self.built_for("12.8", *both, nvml="cuda 12020\ndriver 535.183.01\ngpu * links 0")
        self.assertEqual(check["status"], "ok")

    def torch(self, version, *args, **env):
        self.put("env/lib/python3.12/site-packages/torch/version.py", f"__version__ = '{version}'\ncuda = '13.0'\n")
        return self.doctor("--passive", *args, VIRTUAL_ENV=str(self.root / "env"), **env)["version.torch"]

    def test_bugs_of_pytorch(self):
        several = {"SLURM_JOB_NUM_NODES": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
        self.assertEqual(self.torch("2.10.0+cu130", **several)["status"], "ok")
        self.put("proc/version", "Linux version 6.14.0-1015-nvidia (aarch64)\n")
        check = self.torch("2.10.0+cu130", **several)
        self.assertEqual(check["status"], "warning")
        self.assertIn("PyTorch 2.10.0 hangs between hosts with ARM CPUs", check["found"])
        self.assertIn("PyTorch 2.9.1", check["advice"])
        self.assertEqual(self.torch("2.10.0+cu130")["status"], "ok")  # one host
        self.assertEqual(self.torch("2.9.1+cu130", **several)["status"], "ok")
        hangs = ("--symptom", "hang_stuck", "--only", "version.torch")
        self.assertIn("init_process_group() gets a device_id", self.torch("2.7.0+cu126", *hangs)["found"])
        for fine in ("2.7.0+cu126",), ("2.7.1+cu126", *hangs), ("2.7.0a0+git1", *hangs):
            self.assertEqual(self.torch(*fine)["status"], "ok", fine)


if __name__ == "__main__":
    unittest.main()
