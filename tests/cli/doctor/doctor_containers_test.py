"""What muster doctor says in containers: what they lack, in the words of what started them."""

import unittest

from doctor_case import DOCUMENT, LIMITS, TWO_HOSTS, Case, GpuCase


class Containers(Case):
    def test_flags_of_a_container(self):
        self.put("proc/self/limits", LIMITS.format(1024, "65536"))
        self.put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
        self.expect("host.container", "ok")  # none
        self.put(".dockerenv")
        check = self.expect("host.container", "warning", MUSTER_DEVFS=str(self.root / "dev"),
                            LOCAL_WORLD_SIZE="8")
        for flag in ("docker run ", "--ipc=host", "--device=/dev/infiniband", "nofile=65536"):
            self.assertIn(flag, check["advice"])
        self.assertNotIn("--network", check["advice"])

    def test_each_runtime_has_words_of_its_own(self):
        """What a container lacks, as what started it calls that: the page has the same words."""
        page = " ".join(DOCUMENT.read_text().split())
        self.put("proc/self/limits", LIMITS.format(1024, "65536"))
        self.put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
        self.put("sys/fs/cgroup/pids.max", "1500\n")
        self.put("dev/nvidia0")
        for mark, env, begins, words in (
                ("run/.containerenv", {}, "podman run ", "--device=nvidia.com/gpu=all"),
                (".dockerenv", {}, "docker run ", "--gpus=all"),
                (".lock", {}, "enroot, pyxis: ", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
                ("none", {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer exec: ", "--nv"),
                ("none", {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "the pod: ", "nvidia.com/gpu in the limits")):
            self.put(mark)
            check = self.expect("host.container", "warning", MUSTER_DEVFS=str(self.root / "dev"),
                                LOCAL_WORLD_SIZE="8", **env)
            (self.root / mark).unlink()
            self.assertTrue(check["advice"].startswith(begins), check)
            self.assertIn(words, check["advice"])
            self.assertEqual({line.split(":")[0] for line in check["evidence"]} - {"limit.stack", "host.cumem"},
                             {"limit.shm", "ib.devices", "limit.memlock", "limit.nofile", "limit.processes", "gpu.driver"})
            for part in check["advice"][len(begins):].split("; " if begins[-2] == ":" else " "):
                self.assertIn(part, page)


class Gpus(GpuCase):
    def expect(self, id_, status, **given):
        check = self.doctor("--passive", **given)[id_]
        self.assertEqual(check["status"], status, check)
        return check

    def test_what_a_container_lacks_only_where_the_job_needs_it(self):
        self.put(".dockerenv")
        self.put("dev/nvidia-uvm")
        self.put("proc/self/status", "Cpus_allowed_list:\t0-63\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n")
        self.put("proc/self/limits", LIMITS.format(65536, "unlimited"))
        self.put("dev/shm.df", f"Filesystem 1B-blocks Used Available\nshm {64 << 30} 0 {64 << 30}\n")
        env = {"MUSTER_DEVFS": str(self.root / "dev"), "FAKE_NCCL": "22809"}

        def flags(*args, **given):
            check = self.doctor("--passive", *args, **{**env, **given})["host.container"]
            return check["advice"].removeprefix("docker run ")
        self.assertEqual(flags(), "")
        self.assertEqual(flags(FAKE_NCCL="22501"), "--cap-add=SYS_NICE")
        self.put("sys/fs/cgroup/pids.max", "100\n")
        self.assertEqual(flags(), "--pids-limit=-1")
        (self.root / "sys/fs/cgroup/pids.max").unlink()
        imex = "--device=/dev/nvidia-caps-imex-channels/channel0"
        self.assertEqual(flags(nvml="gpu * fabric 3 0 7"), "")  # one host
        self.assertEqual(flags(nvml="gpu * fabric 3 0 7", **TWO_HOSTS), imex)
        self.assertEqual(flags("--symptom", "init_error", nvml="gpu * fabric 3 0 7", **TWO_HOSTS),
                         f"{imex} --device=/dev/nvidia-caps")
        self.assertEqual(flags(**TWO_HOSTS), "")  # NVLink ends at this host
        self.put("dev/nvidia-caps-imex-channels/channel0")
        self.assertEqual(flags(nvml="gpu * fabric 3 0 7", **TWO_HOSTS), "")
        self.assertEqual(flags("--symptom", "init_error"), "--device=/dev/nvidia-caps")
        self.put("dev/nvidia-caps/nvidia-cap1")
        self.assertEqual(flags("--symptom", "init_error"), "")

    def test_host_memory_that_a_container_may_not_bind(self):
        """As docker's default seccomp refuses mbind() without CAP_SYS_NICE."""
        def caps(text, seccomp="2"):
            self.put("proc/self/status", f"Cpus_allowed_list:\t0-7\nCapEff:\t{text}\nSeccomp:\t{seccomp}\n")
        caps("00000000a80425fb")
        affected = {"FAKE_NCCL": "22501"}
        self.expect("host.cumem", "ok", **affected)  # no container
        self.expect("host.cumem", "warning", KUBERNETES_SERVICE_HOST="10.96.0.1", **affected)
        for mark, text in (("proc/self/cgroup", "0::/system.slice/containerd.service/job\n"),
                           ("run/.containerenv", ""), (".dockerenv", "")):
            self.put(mark, text)
            check = self.expect("host.cumem", "warning", **affected)
            self.assertIn("SYS_NICE", check["advice"])
            self.expect("host.cumem", "ok", FAKE_NCCL="22605")
            self.expect("host.cumem", "ok", NCCL_CUMEM_HOST_ENABLE="0", **affected)
            (self.root / mark).unlink()
        self.put(".dockerenv")
        caps("00000000a80425fb", seccomp="0")  # as in pods without a profile
        self.expect("host.cumem", "ok", **affected)
        caps("00000000a88425fb")
        self.expect("host.cumem", "ok", **affected)


if __name__ == "__main__":
    unittest.main()
