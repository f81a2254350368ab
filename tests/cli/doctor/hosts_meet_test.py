"""muster doctor --hosts under a launcher without a shared folder: processes connect to the first one.
Usage: hosts_meet_test.py MUSTER"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

from free_ports import two_free_ports

MUSTER = sys.argv.pop(1)
KEPT = {k: v for k, v in os.environ.items()
        if not k.startswith(("NCCL", "MASTER_", "SLURM_", "OMPI_", "PMI", "WORLD_", "RANK", "LOCAL_"))}


class Meet(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, rank, world, *args, **env):
        return subprocess.Popen(
            [MUSTER, "doctor", "--hosts", "--quick", "--format", "json", *args], cwd=self.folder,
            env={**KEPT, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0",
                 "NCCL_HOSTID": f"host{rank}", **env},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def all_of(self, world, *args, **env):
        """The report of rank 0, which comes last."""
        processes = [self.start(rank, world, *args, **env) for rank in reversed(range(world))]
        done = [process.communicate(timeout=200) for process in processes]
        self.assertEqual([process.returncode for process in processes[:-1]], [0] * (world - 1), done)
        self.assertEqual([out for out, _ in done[:-1]], [""] * (world - 1))
        self.assertEqual(os.listdir(self.folder), [])
        return json.loads(done[-1][0])

    def sound(self, report, world):
        checks = {check["id"]: check for check in report["checks"]}
        self.assertEqual(checks["hosts.reports"]["found"], f"{world} hosts")
        self.assertEqual(checks["hosts.reach"]["found"], f"{world * (world - 1)} pairs")
        self.assertEqual([host["rank"] for host in report["hosts"]], list(range(world)))

    def test_at_a_place_that_is_given(self):
        self.sound(self.all_of(3, "--rendezvous", f"localhost:{two_free_ports()}"), 3)

    def test_at_the_port_behind_torchruns(self):
        """Which torchrun itself holds."""
        port = two_free_ports()
        with socket.socket() as torchrun:
            torchrun.bind(("", port))
            torchrun.listen()
            self.sound(self.all_of(2, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)), 2)

    def test_a_place_that_is_none(self):
        process = self.start(0, 2, "--rendezvous", "localhost")
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2)
        self.assertIn('--rendezvous "localhost": expected HOST:PORT', err)

    def test_a_port_that_is_taken(self):
        with socket.socket() as other:
            other.bind(("", 0))
            other.listen()
            process = self.start(0, 2, "--rendezvous", f"localhost:{other.getsockname()[1]}")
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2)
        self.assertIn("--rendezvous HOST:PORT names another one", err)


if __name__ == "__main__":
    unittest.main()
