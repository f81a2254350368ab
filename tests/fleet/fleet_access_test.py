"""Who comes to a fleet's NATS, and how: accounts, credentials, TLS and addresses, of agents, workers and questions, on a
real nats-server; what somebody with credentials of his own can do to others. Skipped where nats-server is not
installed.
usage: fleet_access_test.py MUSTER RECORDINGS"""

import base64
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

from nats_site import HOSTS, Site, free_port, talk

MUSTER, RECORDINGS = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))

ACCOUNTS = """
authorization {
  users = [
    { user: fleet, password: secret }
    { user: agent, password: hosts, permissions: {
        publish: ["muster.job.>"], subscribe: ["_INBOX.>"] } }
    { user: mallory, password: own, permissions: { publish: ["muster.job.4242.>"], subscribe: ["_INBOX.>"] } }
  ]
}
"""


def site(config=""):
    return Site(MUSTER, RECORDINGS, config)


class Access(unittest.TestCase):
    def test_no_server(self):
        """Who forgot to start one is asked whether it runs, and nothing of credentials."""
        with site() as at:
            for name, process in (("agent-nodeA", at.agent("nodeA", url=f"nats://127.0.0.1:{free_port()}")),
                                  ("worker", at.worker("worker", url=f"nats://127.0.0.1:{free_port()}"))):
                at.until_log(name, "does nats-server run there")
                self.assertEqual(at.end(process), 0)
                self.assertNotIn("credentials", at.log(name))
            at.url = f"nats://127.0.0.1:{free_port()}"
            for asked in (at.diagnose("muster-1"), at.top("muster-1")):
                self.assertEqual(asked.returncode, 2)
                self.assertIn(f"NATS {at.url} does not answer: does nats-server run there", asked.stderr)

    def test_credentials(self):
        """Agents with their own file, the worker with its; wrong ones are told, and nothing hangs."""
        with site(ACCOUNTS) as at:
            files = {}
            for name, text in (("agent", "agent:hosts"), ("fleet", "fleet:secret"), ("wrong", "agent:guess")):
                files[name] = os.path.join(at.folder, name + ".credentials")
                with open(files[name], "w", encoding="utf-8") as file:
                    file.write(text + "\n")
            wrong = at.agent("nodeA", "--nats-credentials", files["wrong"])
            at.until_log("agent-nodeA", "credentials")
            self.assertIn("muster_agent_nats_up 0", at.page("agent-nodeA"))
            self.assertEqual(at.end(wrong), 0)
            os.remove(at.log_path("agent-nodeA"))
            asked = at.diagnose("muster-11", "--nats-credentials", files["wrong"])
            self.assertEqual(asked.returncode, 2)
            self.assertIn("refuses this connection; wrong credentials, or a server with TLS", asked.stderr)
            at.worker("worker", "--nats-credentials", files["fleet"])
            for host in HOSTS:
                at.agent(host, "--nats-credentials", files["agent"])
            at.play("late-gpu", "muster-11", 60)
            at.until(lambda: at.told("worker"), "a worker names somebody")
            self.assertEqual(at.told("worker"), [("late_rank", "2")])
            self.hostile(at)
            for name in ("worker", "agent-nodeA", "agent-nodeB"):
                self.assertNotIn("secret", at.log(name))

    def test_accounts_as_shipped(self):
        """config/nats/muster.conf: its agent tells, its worker judges, its reader asks and watches."""
        with open(os.path.join(RECORDINGS, "..", "..", "..", "config", "nats", "muster.conf"), encoding="utf-8") as file:
            accounts = file.read()
        with site(accounts[accounts.index("accounts {"):]) as at:
            files = {}
            for user in ("agent", "worker", "reader"):
                files[user] = os.path.join(at.folder, user + ".credentials")
                with open(files[user], "w", encoding="utf-8") as file:
                    file.write(user + ":change-me\n")
            for host in HOSTS:
                at.agent(host, "--nats-credentials", files["agent"])
            self.nobody_takes_it(at, files)
            at.worker("worker", "--nats-credentials", files["worker"])
            at.play("late-gpu", "muster-12", 60)
            at.until(lambda: at.told("worker"), "a worker names somebody")
            said = at.until(lambda: (d := at.diagnose("muster-12", "--nats-credentials", files["reader"])).stdout and d,
                            "the reader is answered")
            self.assertIn("late_rank: rank 2", said.stdout)
            self.assertIn("rank", at.top("muster-12", "--nats-credentials", files["reader"]).stdout)
            self.shut_in(at, re.search(r"job (\S+):", said.stdout)[1])

    def nobody_takes_it(self, at, files):
        """Without a worker there is no stream; an agent is none."""
        at.play("clean", "muster-11", 60)
        at.until_log("agent-nodeA", "does not take messages .no answer.; .*Does muster fleet run")
        self.assertIn("muster_agent_nats_up 0", at.page("agent-nodeA"))
        wrong = at.worker("wrong", "--nats-credentials", files["agent"])
        at.until_log("wrong", "something is not permitted to these credentials")
        at.until_log("wrong", "or may these credentials not ask")
        self.assertEqual(at.end(wrong), 0)

    def shut_in(self, at, job):
        """One user's agent as shipped: the server's word that it stored his message goes nowhere but to him, and he
        reads nothing that others are answered. Else he could have another's lease overwritten."""
        replies = ("$KV.muster_findings.version", f"$KV.muster_fleet.lease.{job}", f"muster.job.{job}")
        asked = [(f"PUB muster.job.1000.his-00000000 {reply}", b"mflt") for reply in (*replies, "_INBOX.his")]
        said = talk(at.port, "alice:change-me", (f"PUB muster.job.{job}", b"mflt"), *asked)
        self.assertIn(b"Permissions Violation for Publish to", said)
        at.until_log("worker", "his-00000000: (byte|not a message|wire version)")
        time.sleep(2)  # a lease that another wrote is noticed within half a second
        self.assertNotIn("given up", at.log("worker"))
        version = talk(at.port, "worker:change-me", ("SUB mine 1", None),
                       ("PUB $JS.API.STREAM.MSG.GET.KV_muster_findings mine",
                        b'{"last_by_subj":"$KV.muster_findings.version"}'), until=b'"time":')
        self.assertIn(b'"data":"%s"' % base64.b64encode(b"4"), version)
        heard = talk(at.port, "alice:change-me", ("SUB _INBOX.> 1", None), *asked, until=b"MSG _INBOX.his ")
        self.assertEqual(re.findall(rb"MSG (\S+)", heard), [b"_INBOX.his"])
        self.many_jobs(at, job)

    def many_jobs(self, at, job):
        """He tells of more jobs than a worker takes: it says so, and keeps those that it has."""
        talk(at.port, "alice:change-me", *((f"PUB muster.job.1000.x{i}-{i:08x}", b"mflt") for i in range(1200)))
        at.until_log("worker", "it has 1,024 jobs and takes no more: start another worker")
        time.sleep(2)  # a lease that is not renewed is over after 1.5 s
        self.assertNotIn("given up", at.log("worker"))
        page = at.page("worker")
        self.assertIn("muster_fleet_jobs 1024", page)
        self.assertIn('finding="late_rank",severity="warning",rank="2"', page)
        self.assertIsNone(re.search(rf'messages_refused_total{{run="muster-12".*}} [1-9]', at.page("worker")))

    def hostile(self, at):
        """Another user's credentials: he reaches his own jobs' subjects, with nonsense, and no others."""
        job = f"muster.job.{os.getuid()}.muster-11"
        said = talk(at.port, "mallory:own", *((f"PUB {subject}", text)
                                              for subject in (job, "muster.job.4242.his-00000000", "muster.finding.0.x")
                                              for text in (b"mflt", b"mflt\x03" + b"\xff" * 400, b"mflt\x63", b"")))
        self.assertIn(b"Permissions Violation for Publish to \"" + job.encode(), said)
        at.until_log("worker", "his-00000000: (byte|not a message|wire version)")
        self.assertEqual(at.told("worker"), [("late_rank", "2")])

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_tls(self):
        """With the server's certificate agents, workers and questions go encrypted; without it nobody is believed."""
        tls = 'tls { cert_file: "FOLDER/cert.pem", key_file: "FOLDER/key.pem" }'
        with Site(MUSTER, RECORDINGS, tls, scheme="tls") as at:
            ca = ("--nats-ca", f"{at.folder}/cert.pem")
            doubts = at.agent("nodeA")
            at.until_log("agent-nodeA", "certificate")
            self.assertIn("muster_agent_nats_up 0", at.page("agent-nodeA"))
            self.assertEqual(at.end(doubts), 0)
            asked = at.diagnose("muster-12")
            self.assertEqual(asked.returncode, 2)
            self.assertIn("does --nats-ca vouch for its certificate", asked.stderr)
            plain = subprocess.run([MUSTER, "diagnose", "--fleet", "muster-12", "--nats", at.url.replace("tls", "nats")],
                                   capture_output=True, text=True, timeout=20, env=at.environment)
            self.assertEqual(plain.returncode, 2)
            self.assertIn("or a server with TLS, which is tls://", plain.stderr)
            os.remove(at.log_path("agent-nodeA"))
            for host in HOSTS:
                at.agent(host, *ca)
            at.worker("worker", *ca)
            at.play("late-gpu", "muster-12", 60)
            at.until(lambda: at.told("worker"), "a worker names somebody")
            self.assertEqual(at.told("worker"), [("late_rank", "2")])
            done = at.diagnose("muster-12", *ca)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(at.diagnose("muster-12").returncode, 2)

    def test_credentials_in_an_address_are_refused(self):
        with site() as at:
            process = at.start(MUSTER, "agent", "--nats", "nats://me:secret@127.0.0.1", "--listen", "127.0.0.1:0",
                               log="agent", host="nodeA")
            self.assertEqual(process.wait(20), 2)
            self.assertIn("--nats-credentials FILE", at.log("agent"))
            self.assertNotIn("secret", at.log("agent"))

    def test_what_can_never_work_is_refused(self):
        """With what was expected, by agents, workers and questions."""
        with site() as at:
            for given, says in ((("head:4222",), "expected nats://HOST:PORT"), (("http://head",), "expected nats://"),
                                (("nats://",), "expected nats://"), (("nats://:4222",), "expected nats://"),
                                (("nats://[::1]:99999",), "expected nats://"), ((",",), "expected nats://"),
                                (("nats://head:4222", "--nats-credentials", "none"), "a line USER:PASSWORD or TOKEN"),
                                (("tls://head:4222", "--nats-ca", "none"), "expected certificates in PEM")):
                for command in (("agent", "--listen", "127.0.0.1:0"), ("fleet",), ("diagnose", "--fleet", "a-job"),
                                ("top", "--once", "--fleet", "a-job")):
                    done = subprocess.run([MUSTER, *command, "--nats", *given], capture_output=True, text=True,
                                          timeout=20, env=at.environment)
                    self.assertEqual((done.returncode, says in done.stderr), (2, True), (command, given, done.stderr))
            done = subprocess.run([MUSTER, "agent", "--nats-credentials", "FILE"], capture_output=True, text=True,
                                  timeout=20, env=at.environment)
            self.assertEqual(done.returncode, 2)
            self.assertIn("are of --nats URL", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
