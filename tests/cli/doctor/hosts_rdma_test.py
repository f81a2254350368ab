"""muster doctor --hosts over RDMA ports that are none: hosts are processes of this machine, and their
libibverbs is tests/host/verbs.
Usage: hosts_rdma_test.py MUSTER FOLDER"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MUSTER, FAKE = sys.argv.pop(1), sys.argv.pop(1)


class Rdma(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.root.joinpath("net").mkdir()

    def devices(self, host, n, layer="Ethernet"):
        """/sys of a host."""
        for i in range(n):
            below = self.root / host / "class/infiniband" / f"fake_{i}" / "ports/1"
            for name, text in (("link_layer", layer), ("state", "4: ACTIVE"),
                               ("gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001"),
                               ("gid_attrs/types/0", "RoCE v2"),
                               ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:6100"),
                               ("gid_attrs/types/1", "RoCE v2")):
                (below / name).parent.mkdir(parents=True, exist_ok=True)
                (below / name).write_text(text + "\n")
        self.root.joinpath(host, "bus/pci/devices").mkdir(parents=True, exist_ok=True)

    def check(self, *network, hosts="abc", has=2, env=None):
        lines = [line for line in network if not line.startswith("host ")]
        told = {line.split()[1]: line for line in network if line.startswith("host ")}
        for host in hosts:
            self.devices(host, int(told[host].split()[2]) if host in told else has)
            lines.append(told.get(host, f"host {host} {has} 4096"))
        self.root.joinpath("net/network").write_text("\n".join(lines) + "\n")
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("NCCL", "MASTER_", "SLURM_", "OMPI_", "WORLD_", "RANK", "MUSTER_"))}
        done = subprocess.run(
            [MUSTER, "doctor", "--hosts", "--quick", "--format", "json", "--with",
             f"env NCCL_HOSTID={{}} FAKE_IB_HOST={{}} FAKE_IB={self.root}/net LD_LIBRARY_PATH={FAKE} "
             f"MUSTER_SYSFS={self.root}/{{}}", *hosts],
            env={**kept, **(env or {})}, capture_output=True, text=True, timeout=300, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["checks"][0]["found"], f"{len(hosts)} hosts", report["checks"][0])
        return next(check for check in report["checks"] if check["id"] == "hosts.rdma")

    def problem(self, *network, **how):
        check = self.check(*network, **how)
        self.assertEqual(check["status"], "problem", check)
        return check

    def test_all_pass(self):
        check = self.check()
        self.assertEqual((check["status"], check["found"]), ("ok", "12 pairs of ports"))

    def test_a_host_whose_packets_are_lost(self):
        check = self.problem("drop a b", "drop c b")
        self.assertEqual(check["found"], "all ports, host b, both ways")
        self.assertIn("no answer: packets are lost", check["evidence"][0])

    def test_a_port_that_nobody_reaches(self):
        """And whose answers are not lost: it reaches others by its other port alone."""
        check = self.problem("drop-to b 1")
        self.assertIn("fake_1, host b, both ways", check["found"])

    def test_packets_too_long_for_a_switch(self):
        check = self.problem("narrow a b 1024", "narrow b a 1024")
        self.assertIn("between host a and host b, both ways", check["found"])
        self.assertIn("small packets pass, full ones are lost", check["evidence"][0])

    def test_no_way_to_a_host(self):
        check = self.problem("no-way a c", "no-way b c")
        self.assertTrue(any("no way there" in line for line in check["evidence"]), check)

    def test_mtus_that_differ(self):
        check = self.check("host b 2 1024")
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "RDMA ports of different MTUs"))
        self.assertIn("RDMA MTUs from 1024 (host b) to 4096", check["evidence"])

    def test_a_host_without(self):
        check = self.problem("host c 0 4096")
        self.assertEqual(check["found"], "1 host without the RDMA that others have")
        self.assertEqual(check["evidence"], ["host c has no port: no RDMA device"])

    def test_memory_that_cannot_be_locked(self):
        check = self.problem("memlock a")
        self.assertIn("fake_0 port 1: cannot lock 640 KiB of memory (see limit.memlock)",
                      check["evidence"][0])

    def test_a_library_that_crashes(self):
        self.assertIn("host a has no port: libibverbs or its driver crashed",
                      self.problem("crash a")["evidence"])

    def test_a_library_that_hangs(self):
        check = self.problem("hang a", hosts="ab")
        self.assertIn("host a has no port: RDMA ports were not open after 8 s: the driver hangs",
                      check["evidence"])

    def test_what_nccl_does_not_take(self):
        check = self.check(env={"NCCL_IB_DISABLE": "1"})
        self.assertEqual((check["status"], check["found"]), ("unchecked", "NCCL_IB_DISABLE=1"))
        check = self.check("drop-to b 1", env={"NCCL_IB_HCA": "=fake_0"})
        self.assertEqual((check["status"], check["found"]), ("ok", "6 pairs of ports"))

    def test_more_ports_here_than_there(self):
        check = self.check("host b 1 4096")
        self.assertEqual((check["status"], check["found"]), ("ok", "10 pairs of ports"))


if __name__ == "__main__":
    unittest.main()
