"""Two hosts that are network namespaces, each with its link to a third, where NATS and a worker are: recorded jobs
whose ranks live on both, agents on each. A late rank, ranks that are absent or killed and a slow link are named over
both hosts, how soon is printed; a link that is cut or slow names nobody. Skipped without root, ip, tc or nats-server.
usage: fleet_netns_test.py MUSTER RECORDINGS"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from nats_site import HOSTS, Site, skip

INSIDE = "MUSTER_TEST_IN_NAMESPACE"
MUSTER, RECORDINGS = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))


def quietly(*command):
    return subprocess.run(command, capture_output=True, text=True)


class TwoHosts(Site):
    """Host k has 198.18.k.2, its link's other end 198.18.k.1 is here."""

    def __init__(self, hang_seconds="3"):
        self.holder = {}
        super().__init__(MUSTER, RECORDINGS, listen="0.0.0.0")
        self.environment["MUSTER_HANG_SECONDS"] = hang_seconds
        for k, host in enumerate(HOSTS):
            self.holder[host] = self.start("unshare", "-n", "sleep", "infinity", log=f"namespace-{host}")
            pid = str(self.holder[host].pid)
            self.until(lambda pid=pid: os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"),
                       "a namespace")
            for command in (f"ip link add mv{k} type veth peer name mh{k}", f"ip link set mh{k} netns {pid}",
                            f"ip addr add 198.18.{k}.1/24 dev mv{k}", f"ip link set mv{k} up"):
                subprocess.run(command.split(), check=True)
            for command in (f"ip addr add 198.18.{k}.2/24 dev mh{k}", f"ip link set mh{k} up", "ip link set lo up"):
                subprocess.run([*self.enter(host), *command.split()], check=True)
        for k, host in enumerate(HOSTS):
            self.agent(host, url=f"nats://198.18.{k}.1:{self.port}")
            self.until_log(f"agent-{host}", "connected")
        self.worker("worker")
        self.until_log("worker", "connected")

    def enter(self, host):
        return ["nsenter", "-t", str(self.holder[host].pid), "-n"] if host in self.holder else []

    def named(self, begin, what):
        found = self.until(lambda: self.told("worker"), "the worker names somebody", 90)
        print(f"{what}: {found[0][0]}, rank {found[0][1]}, {time.monotonic() - begin:.1f} s after it began")
        return found

    def heard(self, job):
        done = self.diagnose(job, "--format", "json")
        state = json.loads(done.stdout)["state"] if done.returncode < 2 else None
        return state["ranks"] if state else -1


class Hosts(unittest.TestCase):
    def test_a_late_rank_of_the_other_host(self):
        with TwoHosts() as at:
            begin = time.monotonic()
            at.play("late-gpu", "muster-1", 60)
            self.assertEqual(at.named(begin, "late rank"), [("late_rank", "2")])
            self.assertIn("nodeB", at.log("worker"))

    def test_an_absent_rank(self):
        with TwoHosts() as at:
            begin = time.monotonic()
            at.play("hang-absent", "muster-2", 600)
            self.assertEqual(at.named(begin, "absent"), [("hang_absent", "1")])

    def test_a_rank_that_is_killed(self):
        """Before the others have waited for as long as makes a hang."""
        with TwoHosts(hang_seconds="15") as at:
            played = at.play("hang-absent", "muster-5", 600)
            at.until(lambda: at.heard("muster-5") == 4, "all ranks are heard")
            ranks = quietly("pgrep", "-P", str(played[0].pid)).stdout.split()
            begin = time.monotonic()
            os.kill(int(ranks[1]), signal.SIGKILL)
            self.assertEqual(at.named(begin, "killed"), [("hang_dead", "1")])

    def test_a_slow_link_between_them(self):
        with TwoHosts() as at:
            begin = time.monotonic()
            at.play("net-throttled", "muster-3", 60)
            found = at.until(lambda: re.search(r"slow_transfer: .*", at.log("worker")), "the link is named", 90)
            print(f"slow link, {time.monotonic() - begin:.1f} s after the job began: {found[0][:120]}")

    def test_a_link_that_is_cut_and_one_that_is_slow(self):
        """Half of the job is not heard: nobody is named for it; when the link is back, all of it is told."""
        with TwoHosts() as at:
            slow = quietly(*"tc qdisc add dev mv1 root netem delay 200ms rate 256kbit".split()).returncode == 0
            print("the link was slow first" if slow else "this kernel knows no netem: the link was only cut")
            at.play("clean", "muster-4", 120)
            at.until(lambda: at.heard("muster-4") == 4, "all ranks are heard")
            subprocess.run("ip link set mv1 down".split(), check=True)
            at.until(lambda: at.heard("muster-4") == 2, "one host is not heard")
            time.sleep(5)
            self.assertEqual(at.told("worker"), [])
            subprocess.run("ip link set mv1 up".split(), check=True)
            at.until(lambda: at.heard("muster-4") == 4, "it is heard again", 90)
            self.assertEqual(at.told("worker"), [])


def main():
    for tool in ("nats-server", "ip", "tc", "unshare", "nsenter"):
        if not shutil.which(tool):
            skip(f"no {tool}")
    if INSIDE not in os.environ:
        if os.geteuid() != 0 or quietly("unshare", "-n", "true").returncode != 0:
            skip("network namespaces need root")
        os.execvpe("unshare", ["unshare", "-n", sys.executable, "-B", __file__, MUSTER, RECORDINGS, *sys.argv[1:]],
                   {**os.environ, INSIDE: "1"})
    subprocess.run("ip link set lo up".split(), check=True)
    if quietly(*"ip link add mvx type veth peer name mvy".split()).returncode != 0:
        skip("no veth here")
    quietly(*"ip link del mvx".split())
    unittest.main()


if __name__ == "__main__":
    main()
