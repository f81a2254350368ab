"""What is around a job: the files that NCCL reads, the proxy of a mesh, RoCE that loses packets, devices of others."""

import unittest

from doctor_case import FAKES, Case, GpuCase

SEVERAL = {"SLURM_JOB_NUM_NODES": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}


class Files(Case):
    def setUp(self):
        super().setUp()
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
                 "           |-- 10.1.0.7\n              /32 host LOCAL\n")

    def test_a_file_that_lets_lo_in(self):
        self.expect("net.interface", "ok", **SEVERAL)
        for name, env in (("etc/nccl.conf", {}), (".nccl.conf", {}),
                          ("own.conf", {"NCCL_CONF_FILE": str(self.root / "own.conf")})):
            self.put(name, "NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=^docker0\n")
            check = self.expect("net.interface", "problem", **SEVERAL, **env)
            self.assertEqual(check["found"], "lo, which NCCL_SOCKET_IFNAME=^docker0 does not leave out")
            self.assertIn(f"/{name}:2 write NCCL_SOCKET_IFNAME=^docker,lo", check["advice"])
            # the environment comes first
            self.expect("net.interface", "ok", NCCL_SOCKET_IFNAME="^docker0,lo", **SEVERAL, **env)
            self.put(name, "NCCL_SOCKET_IFNAME=^docker0,lo\n")
            self.expect("net.interface", "ok", **SEVERAL, **env)
            (self.root / name).unlink()
        check = self.expect("net.interface", "problem", NCCL_SOCKET_IFNAME="^docker0", **SEVERAL)
        self.assertIn("NCCL leaves both out by itself", check["advice"])

    def test_a_file_that_names_devices(self):
        for name, text in (("state", "4: ACTIVE"), ("link_layer", "InfiniBand")):
            self.put(f"sys/class/infiniband/mlx5_0/ports/1/{name}", text + "\n")
        self.expect("ib.hca", "ok")
        self.put("etc/nccl.conf", "NCCL_IB_HCA=bnxt\n")
        self.expect("ib.hca", "problem")


class Roce(GpuCase):
    def setUp(self):
        super().setUp()
        self.put("dev/infiniband/uverbs0")
        self.put("sys/module/nvidia_peermem/version", "535.104.05\n")
        self.several = {**SEVERAL, "MUSTER_DEVFS": str(self.root / "dev")}

    def port(self, device, net=None, layer="Ethernet", state="4: ACTIVE"):
        below = f"sys/class/infiniband/{device}/ports/1"
        for name, text in (("link_layer", layer), ("state", state)):
            self.put(f"{below}/{name}", text + "\n")
        if net:
            self.put(f"sys/class/infiniband/{device}/device/net/{net}/mtu", "9000\n")
            self.put(f"sys/class/net/{net}/mtu", "9000\n")
            self.put(f"{below}/gids/3", "0000:0000:0000:0000:0000:ffff:0a19:0001\n")
            self.put(f"{below}/gid_attrs/types/3", "RoCE v2\n")
        return below

    def count(self, below, **counters):
        for name, value in counters.items():
            folder = "counters" if name in ("link_downed", "port_xmit_packets") else "hw_counters"
            self.put(f"{below}/{folder}/{name}", f"{value}\n")

    def loss(self, *args):
        return self.doctor("--passive", "--only", "ib.loss", *args, **SEVERAL)["ib.loss"]

    def test_packets_that_roce_loses(self):
        self.assertEqual(self.loss()["status"], "unchecked")
        below = self.port("mlx5_0", "eth1")
        self.count(below, packet_seq_err=999, out_of_sequence=50000, rnr_nak_retry_err=70000, np_cnp_sent=10**6)
        self.assertEqual(self.loss()["status"], "ok")
        self.count(below, packet_seq_err=120000, local_ack_timeout_err=40)
        check = self.loss()
        self.assertEqual((check["status"], check["found"]), ("warning", "packets are lost on RoCE"))
        self.assertIn("mlx5_0 port 1: packet_seq_err 120000", check["evidence"])
        self.assertIn("mlx5_0 port 1: np_cnp_sent 1000000", check["evidence"])
        self.assertIn("ib.ecn: no RoCE port whose driver shows ECN", check["evidence"])
        self.assertIn("PFC and ECN", check["advice"])
        for symptom in ("slow_transfer", "hang_stuck", "hang_dead"):
            self.assertEqual(self.causes("--passive", "--only", "ib", "--symptom", symptom, **self.several)[0], "ib.loss")
        self.put("sys/class/net/eth1/statistics/rx_crc_errors", "5000\n")
        self.assertIn("cable", self.loss()["advice"])
        self.count(below, port_xmit_packets=10**13)  # one in eighty million
        self.assertEqual(self.loss()["status"], "ok")

    def test_what_is_no_loss_of_packets(self):
        below = self.port("mlx5_0", "eth1")
        self.count(below, local_ack_timeout_err=9000)  # no packet arrives: a route, an MTU
        self.assertEqual(self.loss()["status"], "ok")
        self.assertIn("frames of that size", self.loss("--symptom", "hang_stuck")["found"])
        self.count(below, packet_seq_err=90000, link_downed=5)
        check = self.loss("--symptom", "slow_transfer")
        self.assertEqual(check["status"], "ok", check)
        self.assertIn("its link went down", "".join(check["evidence"]))
        below = self.port("bnxt_re0", "eth2")  # of another maker
        self.count(below, seq_err_naks_rcvd=90000)
        self.assertEqual(self.loss()["status"], "warning")

    def netns(self, *args, **env):
        return self.doctor("--passive", "--only", "ib.netns", *args, **{**SEVERAL, **env})["ib.netns"]

    def test_devices_of_another_network_namespace(self):
        self.assertEqual(self.netns()["status"], "unchecked")
        self.port("mlx5_0", "eth1")
        self.port("mlx5_9", layer="InfiniBand")  # needs none
        self.assertEqual(self.netns()["status"], "ok")
        below = self.port("mlx5_1")
        check = self.netns()
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "NCCL takes RDMA devices whose network interface is not here"))
        self.assertEqual(check["evidence"], ["mlx5_1 port 1: it has no interface here"])
        self.assertIn('NCCL_IB_HCA="=mlx5_0"', check["advice"])
        self.assertEqual(self.causes("--passive", "--only", "ib", "--symptom", "init_error", **self.several)[0], "ib.netns")
        for env in ({"NCCL_IB_HCA": "=mlx5_0"}, {"NCCL_IB_DISABLE": "1"}):
            self.assertEqual(self.netns(**env)["status"], "ok")
        self.put(f"{below}/gid_attrs/ndevs/4", "net9\n")
        self.assertIn("its interface net9 is not here", "".join(self.netns()["evidence"]))
        self.put(f"{below}/gid_attrs/ndevs/5", "net1\n")  # a macvlan on a card that is elsewhere
        self.put("sys/class/net/net1/mtu", "9000\n")
        self.assertEqual(self.netns()["status"], "ok")

    def test_a_container_without_any_interface_of_its_devices(self):
        self.port("mlx5_0")
        self.assertEqual(self.netns()["status"], "ok")  # a host: its driver may hang it elsewhere
        self.assertEqual(self.netns("--symptom", "init_error")["status"], "warning")
        self.put(".dockerenv")
        check = self.netns()
        self.assertEqual(check["status"], "warning")
        self.assertIn("hostNetwork: true", check["advice"])
        self.port("mlx5_0", state="1: DOWN")
        self.assertEqual(self.netns()["status"], "ok")


class Meshes(GpuCase):
    def listening(self, *ports):
        self.put("proc/net/tcp", "  sl  local_address rem_address   st\n" + "".join(
            f"   {i}: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 {i}\n"
            for i, port in enumerate(ports)))

    def mesh(self, **env):
        return self.doctor("--passive", "--only", "net.mesh", **SEVERAL, **env)["net.mesh"]

    def test_proxies_of_meshes(self):
        self.assertEqual(self.mesh()["status"], "ok")
        self.assertEqual(self.mesh(ISTIO_VERSION="1.20")["status"], "ok")
        self.listening(15001, 15006, 15021, 15008)
        check = self.mesh(MASTER_PORT="29500")
        self.assertEqual(check["status"], "warning")
        self.assertIn("includeInboundPorts", check["advice"])
        self.assertIn("through it pass MASTER_PORT=29500 and NCCL's ports 32768 to 60999", check["evidence"])
        self.listening(15001, 15006, 15008)  # no sidecar: a proxy of the node
        self.assertIn("istio.io/dataplane-mode: none", self.mesh()["advice"])
        self.listening(15000, 15001)  # before 1.3
        self.assertIn("sidecar.istio.io/inject", self.mesh()["advice"])
        self.listening(22)
        check = self.mesh(ISTIO_META_CLUSTER_ID="Kubernetes")
        self.assertEqual((check["status"], check["evidence"][0]),
                         ("warning", "this process has its variable ISTIO_META_CLUSTER_ID"))
        self.assertIn("skip-outbound-ports", self.mesh(LINKERD2_PROXY_LOG="warn")["advice"])


class Two(GpuCase):
    def two(self, *args, **env):
        return self.doctor("--passive", *args, **env)["version.nccl_two"]

    def test_two_nccls_in_one_process(self):
        first, second = "/opt/a/libnccl.so.2", "/env/nvidia/nccl/lib/libnccl.so.2"
        self.put("proc/77/comm", "python3\n")
        self.put("proc/77/maps", f"7f00-7f01 r-xp 00000000 08:01 1 {first}\n7f02-7f03 r-xp 0 08:01 1 {first}\n"
                 "7f03-7f04 r-xp 0 08:01 3 /opt/a/libnccl-net.so\n")
        self.assertEqual(self.two()["status"], "ok")
        with open(self.root / "proc/77/maps", "a", encoding="utf-8") as maps:
            maps.write(f"7f06-7f07 r-xp 00000000 08:01 2 {second} (deleted)\n")
        self.put(f"proc/77/root{first}", "NCCL version 2.28.3+cuda13.0\0")
        self.put(f"proc/77/root{second}", "NCCL version 2.28.3+cuda13.0\0")
        self.assertEqual(self.two()["status"], "ok")  # of one version
        self.put(f"proc/77/root{second}", "NCCL version 2.30.7+cuda13.0\0")
        check = self.two()
        self.assertEqual(check["status"], "warning")
        self.assertEqual(check["evidence"], [f"process 77 (python3) has NCCL 2.28.3: {first}",
                                             f"process 77 (python3) has NCCL 2.30.7: {second}"])
        self.assertEqual(self.causes("--passive", "--only", "version.nccl_two", "--symptom", "wrong_result"),
                         ["version.nccl_two"])

    def test_names_that_lead_to_two_nccls(self):
        """libnccl.so.2 is the fake's 2.28."""
        symptom = ("--only", "version.nccl_two", "--symptom", "init_error")
        self.put("other/libnccl.so", "NCCL version 2.21.5+cuda12.4\0")
        env = {"LD_LIBRARY_PATH": f"{FAKES}:{self.root}/other"}
        self.assertEqual(self.two(**env)["status"], "ok")
        check = self.two(*symptom, **env)
        self.assertEqual(check["status"], "warning")
        self.assertIn("and libnccl.so another one, 2.21.5", check["found"])
        self.assertEqual(self.two(*symptom)["status"], "ok")

    def test_pip_beside_conda(self):
        self.put("env/lib/libnccl.so.2", "NCCL version 2.21.5+cuda12.4\0")
        self.put("env/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", "NCCL version 2.27.3+cuda12.9\0")
        env = {"CONDA_PREFIX": str(self.root / "env")}
        symptom = ("--only", "version.nccl_two", "--symptom", "hang_stuck")
        self.assertIn("NCCL 2.27.3 of pip and 2.21.5 of conda", self.two(*symptom, **env)["found"])
        self.put("env/lib/libnccl.so.2", "NCCL version 2.27.3+cuda12.9\0")
        self.assertEqual(self.two(*symptom, **env)["status"], "ok")


class Frameworks(GpuCase):
    PACKAGES = "env/lib/python3.12/site-packages"

    def frameworks(self, *args, **env):
        return self.doctor("--passive", *args, CONDA_PREFIX=str(self.root / "env"), **env)["job.frameworks"]

    def packages(self, *names):
        for name in names:
            self.put(f"{self.PACKAGES}/{name}/__init__.py")

    def test_tensorflow_beside_jax(self):
        only = ("--only", "job.frameworks", "--symptom", "init_error")
        self.packages("tensorflow", "jaxlib", "jaxlib-0.7.1.dist-info")  # JAX without CUDA
        self.assertEqual(self.frameworks(*only)["status"], "ok")
        self.packages("jax_plugins/xla_cuda12")
        check = self.frameworks(*only)
        self.assertEqual(check["status"], "warning")
        self.assertIn("TensorFlow and JAX are here for one process: there they have two NCCLs", check["found"])
        self.assertIn("tensorflow-cpu", check["advice"])
        self.assertEqual(check["evidence"], [f"both in {self.root}/{self.PACKAGES}"])
        self.assertEqual(self.frameworks()["status"], "ok")  # nothing fails
        self.packages("tensorflow_cpu-2.20.0.dist-info")
        self.assertEqual(self.frameworks(*only)["status"], "ok")

    def test_tensorflow_and_jax_beside_pytorch(self):
        """In images of notebooks: behind what is of the host."""
        self.packages("tensorflow", "jaxlib", "jax_plugins/xla_cuda12", "torch")
        env = {"CONDA_PREFIX": str(self.root / "env"), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        words = ("--passive", "--symptom", "hang_stuck", "--only")
        boards = "gpu * links 0\ngpu * capability 8 6\ngpu * name NVIDIA GeForce RTX 3090"
        self.assertEqual(self.causes(*words, "job.frameworks", **env), ["job.frameworks"])
        self.assertEqual(self.causes(*words, "job.frameworks,gpu.p2p_status", nvml=boards, **env), ["gpu.p2p_status"])

    def test_a_process_with_both(self):
        maps = "7f00-7f01 r-xp 00000000 08:01 1 /env/tensorflow/libtensorflow_cc.so.2\n"
        self.put("proc/77/maps", maps)
        only = ("--only", "job.frameworks", "--symptom", "wrong_result")
        self.assertEqual(self.frameworks(*only)["status"], "ok")
        self.put("proc/77/maps", maps + "7f02-7f03 r-xp 0 08:01 3 /env/jax_plugins/xla_cuda12/xla_cuda_plugin.so\n")
        check = self.frameworks(*only)
        self.assertIn("in one process", check["found"])
        self.assertEqual(check["evidence"], ["process 77 has both"])

    def test_a_communicator_of_another_nccl(self):
        self.packages("tensorflow", "jaxlib", "jax_plugins/xla_cuda12")
        log = self.root / "job.log"
        env = {"CONDA_PREFIX": str(self.root / "env")}
        for line in ("host:1:2 [0] NCCL WARN Error: corrupted comm object detected\n",
                     "INTERNAL: NCCL operation ncclAllReduce(send, recv, comm) failed: invalid argument (run with "
                     "NCCL_DEBUG=WARN for details).\n"):
            log.write_text(line)
            self.assertEqual(self.causes("--passive", "--only", "job.frameworks", "--log", str(log), **env)[0],
                             "job.frameworks", line)

    def test_memory_that_jax_takes(self):
        only = ("--only", "job.frameworks", "--symptom", "init_error")
        check = self.frameworks(*only, XLA_PYTHON_CLIENT_MEM_FRACTION=".95")
        self.assertIn("XLA_PYTHON_CLIENT_MEM_FRACTION=.95: JAX takes so much", check["found"])
        check = self.frameworks(*only, XLA_CLIENT_MEM_FRACTION="80")
        self.assertIn("no per cent", check["found"])
        for fine in ({"XLA_CLIENT_MEM_FRACTION": "0.75"}, {"XLA_CLIENT_MEM_FRACTION": "all"},
                     {"XLA_CLIENT_MEM_FRACTION": "4.0", "TF_FORCE_UNIFIED_MEMORY": "1"},
                     {"XLA_CLIENT_MEM_FRACTION": ".95", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}):
            self.assertEqual(self.frameworks(*only, **fine)["status"], "ok", fine)


if __name__ == "__main__":
    unittest.main()
