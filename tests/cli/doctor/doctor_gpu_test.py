"""muster doctor with GPUs that are none."""

import json
import os
import pathlib
import shutil
import unittest

from doctor_case import FAKES, GpuCase
from outcomes import watched


class Gpus(GpuCase):
    def test_good_gpus(self):
        checks = self.doctor("--only", "gpu,p2p,allreduce", gpus=2)
        for name in ("kernel", "copy"):
            self.assertEqual((checks[f"p2p.{name}"]["status"], checks[f"p2p.{name}"]["found"]),
                             ("ok", "2 of 2 pairs right"))
        self.assertEqual(checks["p2p.bandwidth"]["evidence"][0],
                         "387.6 to 387.6 GB/s, at least 81 % of what the path allows")
        for name in ("small", "large"):
            self.assertEqual((checks[f"allreduce.{name}"]["status"], checks[f"allreduce.{name}"]["found"]),
                             ("ok", "right on 2 GPUs"))
        self.assertEqual(checks["p2p.bandwidth"]["status"], "ok")

    def test_one_gpu_has_no_bandwidth_between_gpus(self):
        checks = self.doctor("--only", "p2p,allreduce", gpus=1)
        self.assertEqual(checks["p2p.kernel"]["found"], "1 GPU: no pairs")
        self.assertEqual(checks["allreduce.large"]["found"], "right on 1 GPU")
        self.assertNotIn("bandwidth", checks["allreduce.large"]["evidence"][0])

    def test_slow_links(self):
        check = self.doctor("--only", "p2p", gpus=2, FAKE_MS="10")["p2p.bandwidth"]
        self.assertEqual((check["status"], check["found"]), ("warning", "2 pairs are slow"))
        self.assertIn(": slow", check["evidence"][1])

    def test_a_mirror_the_owner_never_sees(self):
        checks = self.doctor("--only", "p2p", gpus=2, FAKE_PAIR="0-1", FAKE_P2P="mirror")
        self.assertEqual((checks["p2p.kernel"]["status"], checks["p2p.kernel"]["found"]),
                         ("problem", "1 of 2 pairs right, wrong data"))
        self.assertIn("GPU 0 to 1: the owner reads 16777", checks["p2p.kernel"]["evidence"][0])
        self.assertEqual(checks["p2p.copy"]["status"], "ok")

    def test_a_copy_that_never_returns(self):
        checks = self.doctor("--only", "p2p", gpus=2, FAKE_PAIR="1-0", FAKE_P2P="hang-copy")
        self.assertEqual(checks["p2p.kernel"]["status"], "ok")
        self.assertEqual((checks["p2p.copy"]["status"], checks["p2p.copy"]["evidence"]),
                         ("problem", ["GPU 1 to 0: hung or crashed"]))

    def test_no_peer_access(self):
        checks = self.doctor("--only", "p2p", gpus=2, FAKE_P2P="no-access")
        self.assertEqual((checks["p2p.kernel"]["status"], checks["p2p.kernel"]["found"]),
                         ("unchecked", "the driver grants no peer access between these GPUs"))
        self.assertEqual(checks["p2p.copy"]["found"], "2 of 2 pairs right")

    def test_wrong_sums(self):
        checks = self.doctor("--only", "allreduce", gpus=2, FAKE_LARGE="wrong")
        self.assertEqual(checks["allreduce.small"]["status"], "ok")
        self.assertEqual(checks["allreduce.large"]["status"], "problem")
        self.assertIn("wrong result", checks["allreduce.large"]["found"])
        checks = self.doctor("--only", "allreduce", gpus=2, FAKE_FAULT="wrong", FAKE_RANK="1")
        self.assertEqual(checks["allreduce.small"]["status"], "problem")
        self.assertEqual(checks["allreduce.large"]["found"], "the small one fails already")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_loads_no_driver_that_others_can_change(self):
        lib = self.others_folder()
        for folder in reversed(FAKES.split(":")):
            for path in pathlib.Path(folder).glob("lib*.so*"):
                shutil.copy(path, lib)
        only = ("--only", "gpu.driver,p2p,allreduce")
        checks = self.doctor(*only, gpus=2, LD_LIBRARY_PATH=str(lib), MUSTER_LOAD_ANY="0")
        for name, library in (("gpu.driver", "libnvidia-ml.so.1"), ("p2p.copy", "libcuda.so.1"),
                              ("allreduce.small", "libcuda.so.1")):
            self.assertEqual((checks[name]["status"], checks[name]["found"]),
                             ("unchecked", f"{lib}/{library}: not loaded by root, as others can change it"))
        checks = self.doctor(*only, gpus=2, LD_LIBRARY_PATH=str(lib), MUSTER_LOAD_ANY="1")
        for name in ("gpu.driver", "p2p.copy", "allreduce.small"):
            self.assertEqual(checks[name]["status"], "ok", checks[name])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_runs_no_nccl_that_others_can_change(self):
        lib = self.others_folder()
        (lib / "libnccl.so.2").write_text("whoever loads this fails\n")
        checks = self.doctor("--only", "p2p,allreduce", gpus=2, LD_LIBRARY_PATH=f"{lib}:{FAKES}",
                             MUSTER_LOAD_ANY="0")
        self.assertEqual(checks["p2p.copy"]["status"], "ok")
        for name in ("small", "large"):
            check = checks[f"allreduce.{name}"]
            self.assertEqual((check["status"], check["found"]), (
                "unchecked",
                f"{lib}/libnccl.so.2: not loaded by root, as others can change it; --nccl PATH does"))

    def test_cuda_that_does_not_start(self):
        checks = self.doctor("--only", "p2p,gpu.fabric", FAKE_INIT="802")
        self.assertEqual((checks["gpu.fabric"]["status"], checks["gpu.fabric"]["found"]),
                         ("problem", "no fabric manager: CUDA does not start (802)"))
        self.assertEqual(checks["p2p.kernel"]["status"], "problem")
        self.assertIn("CUDA error 802", checks["p2p.kernel"]["found"])
        self.assertEqual(checks["p2p.copy"]["status"], "unchecked")

    def test_gpus_in_use_are_left_alone(self):
        self.assertEqual(self.doctor("--passive")["gpu.in_use"]["status"], "ok")
        for use in ("processes 77:1000", "utilization 50", "memory 1000 500"):
            checks = self.doctor("--only", "p2p,gpu.in_use", nvml=f"gpu 1 {use}")
            self.assertEqual(checks["gpu.in_use"]["status"], "warning", use)
            self.assertEqual(checks["p2p.copy"]["found"],
                             "the GPUs are in use; --active tests them all the same")

    def test_mig_under_a_job_of_several_ranks(self):
        one = self.doctor("--passive", nvml="gpu 1 mig 1", WORLD_SIZE="1")["gpu.mig"]
        many = self.doctor("--passive", nvml="gpu 1 mig 1", WORLD_SIZE="4")["gpu.mig"]
        self.assertEqual((one["status"], many["status"]), ("warning", "problem"))

    def test_faults_of_gpus(self):
        sound = self.doctor("--passive")
        for id_, status, nvml in (
                ("gpu.fabric", "problem", "gpu 1 fabric 2 0"),
                ("gpu.nvlink", "problem", "gpu 1 links 12"),
                ("gpu.nvlink", "warning", "gpu 1 link 3 errors 1 7"),
                ("gpu.nvlink", "warning", "gpu 1 slow nvmlDeviceGetNvLinkState 70"),
                ("gpu.pcie", "warning", "gpu 1 width 8"),
                ("gpu.clocks", "warning", "gpu 1 limits 0x40"),
                ("gpu.ecc", "problem", "gpu 1 ecc_uncorrected 2"),
                ("gpu.ecc", "problem", "gpu 1 remap_pending 1"),
                ("gpu.mig", "warning", "gpu 1 mig 1"),
                ("gpu.virtual", "warning", "gpu 1 virtualization 2"),
                ("gpu.p2p_status", "warning", "p2p 0 1 4"),
                ("gpu.present", "problem", "fail nvmlDeviceGetHandleByIndex_v2 15"),
                ("version.driver", "problem", "driver 545.23.08\ngpu * name NVIDIA GeForce RTX 3090\n"
                 "gpu * links 0")):
            check = self.doctor("--passive", nvml=nvml)[id_]
            self.assertEqual(check["status"], status, f"{nvml}: {check}")
            if id_ != "gpu.pcie":  # needs a PCI tree: doctor_suspects_test
                self.assertEqual(sound[id_]["status"], "ok", sound[id_])
            self.assertTrue(check["advice"] or id_ == "gpu.pcie", check)

    def test_persistence_is_no_fault(self):
        check = self.doctor("--passive", nvml="gpu * persistence 0")["gpu.persistence"]
        self.assertEqual(check["status"], "ok")

    def test_an_iommu_that_is_not_passed_through(self):
        self.put("sys/kernel/iommu_groups/0/type", "DMA-FQ\n")
        self.put("proc/cmdline", "quiet\n")
        check = self.doctor("--passive")["gpu.iommu"]
        self.assertEqual((check["status"], check["found"]), ("warning", "IOMMU in use"))
        self.assertEqual(self.doctor("--passive", gpus=1)["gpu.iommu"]["status"], "ok")  # no peers
        self.put("proc/cmdline", "quiet iommu=pt\n")
        self.assertEqual(self.doctor("--passive")["gpu.iommu"]["status"], "ok")

    def test_boards_without_p2p(self):
        """A cause where a job fails, behind those that say more."""
        self.put("dev/shm.df", f"Filesystem 1B-blocks Used Available\nshm {1 << 36} 0 {1 << 36}\n")
        for symptom in ("init_error", "hang_stuck"):
            causes = self.causes(symptom, "p2p * * 5")
            self.assertEqual(causes[0]["id"], "gpu.p2p_status")
            self.assertEqual(self.causes(symptom), [])
        check = self.doctor("--passive", nvml="p2p * * 5", gpus=2)["gpu.p2p_status"]
        self.assertIn("NCCL_P2P_DISABLE=1", check["advice"])
        for group in range(30):  # explains the refusal, and not that there is no room
            self.put(f"sys/kernel/iommu_groups/{group}/type", "DMA\n")
        self.assertEqual([(cause["id"], cause.get("suspect")) for cause in self.causes("init_error")], [("gpu.iommu", True)])
        self.put("dev/shm.df", "Filesystem 1B-blocks Used Available\nshm 65536 0 65536\n")
        explained = {word: cause["id"] for cause in self.causes("init_error", "p2p * * 5")
                     for word in cause["explains"]}
        self.assertEqual(explained, {"init_error": "limit.shm", "gpu.p2p_status": "gpu.iommu"})

    def test_boards_without_p2p_that_nccl_does_not_know(self):
        """An NCCL that cannot work leads; one that may not work does not."""
        self.put("dev/shm.df", f"Filesystem 1B-blocks Used Available\nshm {1 << 36} 0 {1 << 36}\n")
        for version, first in (("22002", "version.nccl_bad"), ("22602", "gpu.p2p_status")):
            causes = self.causes("init_error", "gpu * capability 12 0\np2p * * 5", FAKE_NCCL=version)
            self.assertEqual(causes[0]["id"], first, causes)

    def causes(self, symptom, nvml="", **env):
        self.put("nvml", f"gpus 2\ngpu * utilization 0\n{nvml}\n")
        done = self.muster("doctor", "--passive", "--symptom", symptom, "--format", "json",
                           "--only", "gpu.p2p_status,gpu.iommu,limit.shm,version.nccl_bad",
                           FAKE_NVML=str(self.root / "nvml"), FAKE_GPUS="2", LD_LIBRARY_PATH=FAKES,
                           MUSTER_DEVFS=str(self.root / "dev"), **env)
        return watched(json.loads(done.stdout))["causes"]

    def test_links_that_are_all_down(self):
        """As of two boards without a bridge, unless the job hangs."""
        nvml = "gpu * name NVIDIA GeForce RTX 2080 Ti\ngpu * links 2\n" + "\n".join(
            f"gpu {i} link {j} down" for i in range(2) for j in range(2))
        self.assertEqual(self.doctor("--passive", nvml=nvml, gpus=2)["gpu.nvlink"]["status"], "ok")
        check = self.doctor("--passive", "--symptom", "hang_stuck", nvml=nvml, gpus=2)["gpu.nvlink"]
        self.assertEqual(check["status"], "warning")
        self.assertIn("all down", check["found"])
        self.assertIn("plug it in fully", check["advice"])

    def test_nvml_that_fails_or_never_returns(self):
        checks = self.doctor("--passive", nvml="fail nvmlInit_v2 9")
        self.assertEqual(checks["gpu.ecc"]["status"], "unchecked")
        checks = self.doctor("--passive", nvml="hang nvmlDeviceGetNvLinkState")
        self.assertEqual(checks["gpu.ecc"]["status"], "unchecked")
        self.assertIn("no answer", checks["gpu.ecc"]["found"])
        self.assertEqual(checks["gpu.driver"]["status"], "problem")
        self.assertEqual(self.doctor("--passive")["gpu.driver"]["status"], "ok")

    def test_a_driver_that_may_not_be_asked(self):
        self.put("dev/nvidia0")
        for code, helps in (("4", True), ("9", False)):
            check = self.doctor("--passive", nvml=f"fail nvmlInit_v2 {code}",
                                MUSTER_DEVFS=str(self.root / "dev"))["gpu.driver"]
            self.assertEqual(check["status"], "problem")
            self.assertEqual("label=disable" in check["advice"], helps, check)

    def test_64_gpus_in_wide_domains(self):
        nvml = "\n".join(f"gpu {i} pci {0x10000 + i:08x}:01:00.0" for i in range(64))
        checks = self.doctor("--passive", nvml=nvml, gpus=64)
        self.assertEqual(checks["gpu.present"]["found"], "64 x NVIDIA H200")
        self.assertEqual(checks["gpu.nvlink"]["status"], "ok")

    def test_what_cuda_shows(self):
        check = self.doctor("--passive", CUDA_VISIBLE_DEVICES="2")["gpu.present"]
        self.assertEqual(check["status"], "ok")
        self.assertIn("CUDA shows 1 of them", check["evidence"][0])
        check = self.doctor("--passive", CUDA_VISIBLE_DEVICES="0,9,1")["gpu.present"]
        self.assertEqual(check["status"], "warning")
        self.assertIn('"9" is no GPU of this host', check["evidence"][1])
        check = self.doctor("--passive", CUDA_VISIBLE_DEVICES="9")["gpu.present"]
        self.assertEqual(check["status"], "problem")
        mixed = self.doctor("--passive", nvml="gpu 1 name other", CUDA_VISIBLE_DEVICES="0")
        self.assertEqual(mixed["gpu.present"]["evidence"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
