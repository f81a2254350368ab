"""muster doctor --hosts between three hosts, each a network namespace: what is closed, narrow or lossy is
named, and what is not is not.
Usage: hosts_test.py MUSTER DOCTOR.md"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import hosts_net

MUSTER, DOCUMENT = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
ADDRESSES = {"a": "10.77.0.1/24", "b": "10.77.0.2/24", "c": "10.77.0.3/24"}


class Hosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def network(self, addresses=None, **how):
        network = hosts_net.Network(addresses or ADDRESSES, **how)
        self.addCleanup(network.close)
        return network

    def doctor(self, network, *names, env=None, text=False, quick=True):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("NCCL", "MASTER_", "SLURM_", "OMPI_", "WORLD_", "RANK"))}
        done = subprocess.run(
            [MUSTER, "doctor", "--hosts", *([] if text else ["--format", "json"]),
             *(["--quick"] if quick else []), "--with",
             f"ip netns exec {network.prefix}{{}} env NCCL_HOSTID={{}}", *(names or network.names)],
            env={**kept, **(env or {})}, capture_output=True, text=True, timeout=300, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        if text:
            return done.stdout
        self.report = json.loads(done.stdout)
        return {check["id"]: check for check in self.report["checks"]}

    def only(self, checks, id_):
        """That check is a problem, and of the others none is, but for the speed of a busy machine."""
        self.assertEqual(checks[id_]["status"], "problem", checks[id_])
        for other, check in checks.items():
            if other not in (id_, "hosts.bandwidth"):
                self.assertIn(check["status"], ("ok", "unchecked"), check)
        return checks[id_]

    def test_a_sound_network(self):
        network = self.network()
        checks = self.doctor(network, quick=False)
        for id_, check in checks.items():
            if id_ not in ("hosts.bandwidth", "hosts.rdma"):
                self.assertEqual(check["status"], "ok", check)
        self.assertIn(checks["hosts.rdma"]["status"], ("ok", "unchecked"))  # of this machine's ports
        self.assertEqual(checks["hosts.reach"]["found"], "6 pairs")
        self.assertIn("6 measurements", checks["hosts.bandwidth"]["evidence"][0])
        told = set(re.findall(r"^\| `(hosts\.[a-z]+)` ", DOCUMENT.read_text(encoding="utf-8"), re.M))
        self.assertEqual(set(checks), told)
        self.assertEqual([host["host"] for host in self.report["hosts"]], ["a", "b", "c"])
        self.assertNotIn("net.interface", [row["id"] for row in self.report["differences"]
                                           if row["rank"] == "problem"])

    def test_a_file_that_names_the_interface(self):
        """nccl.conf, which the environment outdoes."""
        network, conf = self.network(), pathlib.Path(self.folder.name, "nccl.conf")
        conf.write_text("NCCL_SOCKET_IFNAME=nosuch0\n", encoding="utf-8")
        named = {"NCCL_CONF_FILE": str(conf)}
        self.assertNotEqual(self.doctor(network, env=named)["hosts.reach"]["found"], "6 pairs")
        checks = self.doctor(network, env={**named, "NCCL_SOCKET_IFNAME": "eth0"})
        self.assertEqual((checks["hosts.reach"]["status"], checks["hosts.reach"]["found"]), ("ok", "6 pairs"))

    def test_ports_that_a_firewall_drops(self):
        network = self.network()
        network.close_ports("b", 46884, 60999)
        checks = self.doctor(network)
        self.assertEqual(checks["hosts.loss"]["found"], "--quick")
        check = self.only(checks, "hosts.ports")
        self.assertEqual(check["found"], "ports 46884 to 60999, from all others to host b")
        self.assertEqual(len(check["evidence"]), 1)

    def test_a_host_that_nobody_reaches(self):
        network = self.network()
        network.close_pair("c", "a")
        network.close_pair("c", "b")
        checks = self.doctor(network)
        self.assertEqual(checks["hosts.reach"]["status"], "problem")
        self.assertEqual(checks["hosts.reach"]["found"], "host c, both ways")
        self.assertEqual(len(checks["hosts.reach"]["evidence"]), 1)

    def test_two_subnets_without_a_way(self):
        network = self.network({"a": "10.77.0.1/24", "b": "10.77.0.2/24", "c": "10.77.9.1/24",
                                "d": "10.77.9.2/24"}, routes=["10.77.0.0/16"])
        for one in "ab":
            for other in "cd":
                network.close_pair(one, other)
        check = self.doctor(network)["hosts.reach"]
        self.assertEqual(check["found"],
                         "subnet 10.77.0.0/24, both ways")

    def test_frames_that_a_switch_does_not_take(self):
        network = self.network(mtu=9000)
        network.narrow("a", "b", 4200)
        check = self.only(self.doctor(network), "hosts.frames")
        self.assertEqual(check["found"], "between host a and host b, both ways")
        self.assertIn("frames of 9000 bytes are lost, 4200 pass", check["evidence"][0])

    def test_an_mtu_that_differs(self):
        network = self.network()
        network.set_mtu("a", 9000)
        checks = self.doctor(network)
        self.assertEqual(checks["hosts.frames"]["status"], "warning")
        self.assertIn("MTUs from 1500 to 9000: see net.mtu", checks["hosts.frames"]["evidence"])

    def test_a_lossy_link(self):
        network = self.network()
        network.lose("a", "c", 0.03)
        check = self.doctor(network, quick=False)["hosts.loss"]
        self.assertEqual(check["status"], "problem")
        self.assertEqual(check["found"], "between host a and host c, both ways")
        self.assertRegex(check["evidence"][0], r"[1-5]\.\d % of \d+ datagrams lost")

    def test_an_address_that_every_host_has(self):
        """docker's bridge: each host reaches itself and takes it for the others."""
        network = self.network({"a": "10.77.0.1/24", "b": "10.77.0.2/24"})
        for name in network.names:
            space = network.space(name)
            network.ip("-n", space, "link", "add", "name", "br0", "type", "bridge")
            network.ip("-n", space, "addr", "add", "172.17.0.1/16", "dev", "br0")
            network.ip("-n", space, "link", "set", "br0", "up")
        checks = self.doctor(network, env={"NCCL_SOCKET_IFNAME": "br0"})
        self.assertEqual(checks["hosts.reach"]["status"], "problem")
        self.assertIn("somebody else answers", checks["hosts.reach"]["evidence"][0])

    def test_a_host_that_cannot_be_started_on(self):
        network = self.network()
        checks = self.doctor(network, "a", "b", "nowhere")
        check = checks["hosts.reports"]
        self.assertEqual((check["status"], check["found"]), ("problem", "1 of 3 hosts did not report"))
        self.assertIn("nowhere: ", check["evidence"][0])
        self.assertEqual(checks["hosts.reach"]["found"], "2 pairs")

    def test_text_leads_with_the_problem(self):
        network = self.network()
        network.close_ports("b", 46884, 60999)
        text = self.doctor(network, text=True, quick=False)
        self.assertRegex(text, r"^What is between these hosts would spoil a job: 1 problem; [^\n]*\n"
                         r"problem   hosts\.ports: ports 46884 to "
                         "60999, from all others to host b\n")

    def test_under_a_launcher_they_meet_in_a_folder(self):
        """As under srun, mpirun or torchrun: one process a host, each knows its rank."""
        network = self.network()
        processes = []
        for rank, name in enumerate(network.names):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": "0",
                   "NCCL_HOSTID": name, "NCCL_DEBUG": "INFO" if rank == 2 else "WARN"}
            processes.append(subprocess.Popen(
                ["ip", "netns", "exec", network.space(name), MUSTER, "doctor", "--hosts", "--quick",
                 "--share",
                 self.folder.name], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True))
        done = [process.communicate(timeout=300) for process in processes]
        self.assertEqual([process.returncode for process in processes][1:], [0, 0], done)
        self.assertEqual([out for out, _ in done[1:]], ["", ""])
        self.assertIn("should be equal: env.set\n    ranks 0-1: ", done[0][0])
        self.assertEqual(os.listdir(self.folder.name), [])


class Names(unittest.TestCase):
    def wrong(self, *words):
        done = subprocess.run([MUSTER, "doctor", "--hosts", *words], capture_output=True, text=True,
                              timeout=60, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
        self.assertEqual(done.returncode, 2, done.stdout)
        return done.stderr

    def test_names_that_are_none(self):
        self.assertIn("node[3-1]: expected numbers and ranges as in node[01-04,7]",
                      self.wrong("node[3-1]"))
        self.assertIn("no ] behind the [", self.wrong("node[1"))
        self.assertIn("needs two hosts and more", self.wrong("node1"))
        self.assertIn("name the hosts, or start it once a host", self.wrong())


if __name__ == "__main__":
    WHY_NOT = hosts_net.reason_not_to_run()
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main()
