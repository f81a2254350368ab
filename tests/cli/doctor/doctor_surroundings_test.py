"""What is around a job: the files that NCCL reads, the proxy of a mesh, RoCE that loses packets, devices of others."""

import unittest

from doctor_case import Case

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


if __name__ == "__main__":
    unittest.main()
