"""What is around a job: the files that NCCL reads, the proxy of a mesh, RoCE that loses packets, devices of others."""

import unittest

from doctor_case import Case, GpuCase

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


if __name__ == "__main__":
    unittest.main()
