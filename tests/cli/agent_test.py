"""`muster agent`: what it prints of a replayed job, once and over HTTP, while the job lives and when
it has ended.
usage: agent_test.py MUSTER RECORDINGS"""

import base64
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import clean

MUSTER, RECORDINGS = sys.argv.pop(1), sys.argv.pop(1)
LIBRARY = "libnccl-profiler-muster.so"
DEADLINE_S = 120
HASH = "$2b$04$abcdefghijklmnopqrstuuZx7bwzEt2zO5rYiIG2MPCzROol.usxu"  # "let me read"
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def parse(text):
    """{(name, labels): value} of a whole exposition; every line has to be one."""
    series, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name}: two types"
            types[name] = kind
        elif not line.startswith("# HELP ") and line != "# EOF":
            match = SAMPLE.fullmatch(line)
            assert match, line
            key = match[1], tuple(sorted(LABEL.findall(match[2] or "")))
            assert key not in series, f"{line}: twice"
            series[key] = float(match[3])
    return series, types


class Agent(clean.CleanCase):
    def setUp(self):
        super().setUp()
        self.shm = tempfile.mkdtemp(dir="/dev/shm", prefix="muster-agent-")
        self.out = tempfile.mkdtemp()
        self.environment = self.env(MUSTER_SEGMENT_DIR=self.shm)
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.terminate()
            process.communicate()
        shutil.rmtree(self.shm)
        shutil.rmtree(self.out)

    def start(self, *arguments, muster=MUSTER, **options):
        process = subprocess.Popen([muster, *arguments], env=self.environment, text=True,
                                   stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.started.append(process)
        return process

    def replay(self, name="late-gpu", recordings=RECORDINGS, run="muster-4711.0", **options):
        """A job of four ranks that stays."""
        return self.start("replay", os.path.join(recordings, name), "--hold", "600", "--speed", "max",
                          "--out", os.path.join(self.out, run), **options)

    def replay_as_somebody_else(self, name="late-gpu"):
        """The build folder may be closed to others: they get copies."""
        muster = os.path.join(self.out, "bin", "muster")
        os.mkdir(os.path.dirname(muster))
        os.mkdir(os.path.join(self.out, "plugin"))
        shutil.copy(MUSTER, muster)
        shutil.copy(os.path.join(os.path.dirname(MUSTER), "..", "plugin", LIBRARY),
                    os.path.join(self.out, "plugin"))
        shutil.copytree(os.path.join(RECORDINGS, name), os.path.join(self.out, name))
        subprocess.run(["chmod", "-R", "a+rX", self.out], check=True)
        for shared in self.shm, self.out:
            os.chmod(shared, 0o1777)
        return self.replay(name, recordings=self.out, muster=muster, cwd=self.out, user=65534,
                           group=65534, extra_groups=[])

    def once(self, *arguments, status=0):
        done = subprocess.run([MUSTER, "agent", "--once", *arguments], env=self.environment, text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def serve(self, *more):
        agent = self.start("agent", "--listen", "127.0.0.1:0", *more)
        line = agent.stderr.readline()
        match = re.search(r"https?://([\d.]+):(\d+)/metrics", line)
        if not match and "without libmicrohttpd" in line:
            self.skipTest("built without libmicrohttpd")
        self.assertTrue(match, line)
        self.address = match[1], int(match[2])
        return agent

    def ask(self, path="/metrics", method="GET", tls=None, **headers):
        connection = (http.client.HTTPSConnection(*self.address, timeout=60, context=tls) if tls
                      else http.client.HTTPConnection(*self.address, timeout=60))
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def scrape(self):
        return parse(self.ask()[1])[0]

    def until(self, true, what):
        """What `true` returns of a scrape, once it is not empty."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            found = true(self.scrape())
            if found:
                return found
            time.sleep(0.2)
        self.fail(f"{what}: not within {DEADLINE_S} s")

    @staticmethod
    def of(series, name):
        return {labels: value for (one, labels), value in series.items() if one == name}

    def all_recorded(self, series):
        done = self.of(series, "muster_operations_total")
        return len(done) == 4 and sum(done.values()) == 908 and done

    def late(self, series):
        return [dict(labels) for labels in self.of(series, "muster_finding_active")]

    def test_a_late_rank_while_the_job_lives_and_nothing_afterwards(self):
        job, _ = self.replay(), self.serve()
        done = self.until(self.all_recorded, "908 operations")
        self.assertEqual({dict(labels)["rank"] for labels in done}, set("0123"))
        self.assertEqual({dict(labels)["run"] for labels in done}, {"muster-4711.0"})
        found = self.until(self.late, "a finding")
        self.assertEqual([(one["finding"], one["rank"], one["severity"]) for one in found],
                         [("late_rank", "2", "warning")])
        series = self.scrape()
        late = {dict(labels)["rank"]: value for labels, value
                in self.of(series, "muster_lateness_seconds_total").items()}
        self.assertEqual(max(late, key=late.get), "2")
        self.assertEqual(list(self.of(series, "muster_ranks_expected").values()), [4])
        counts = self.of(series, "muster_operation_duration_seconds_count")
        timed = self.of(series, "muster_timed_operations_total")
        self.assertEqual(sum(counts.values()), sum(timed.values()))
        ranks = [key for key in series if dict(key[1]).get("rank")]
        self.assertLessEqual(len(ranks), 20 * 4)
        job.terminate()
        job.wait()
        gone = self.scrape()  # the very next one
        self.assertFalse([key for key in gone if dict(key[1]).get("run")])
        self.assertEqual(self.of(gone, "muster_findings_total"), {(("finding", "late_rank"),): 1})

    def waiting_ranks(self, run):
        """Processes of four ranks, of which rank 1 has not called what the others wait in."""
        job = self.replay("hang-absent", run=run)
        self.until(lambda series: len(self.of(series, "muster_operations_total")) == 4, "the job is seen")
        self.until(lambda series: sum(self.of(series, "muster_inflight_operations").values()) >= 3, "they wait")
        return [int(rank) for rank in subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True,
                                                          text=True).stdout.split()]

    def test_who_was_killed_before_the_others_ended_for_it(self):
        """Counted; not in a job that is cancelled as a whole."""
        self.environment["MUSTER_HANG_SECONDS"] = "600"
        self.serve()
        for rank in self.waiting_ranks("muster-1.0"):
            os.kill(rank, signal.SIGTERM)
        self.until(lambda series: not self.of(series, "muster_ranks_observed"), "the job is over")
        ranks = self.waiting_ranks("muster-2.0")
        os.kill(ranks[1], signal.SIGKILL)
        time.sleep(1.5)
        for rank in (ranks[0], *ranks[2:]):
            os.kill(rank, signal.SIGABRT)
        found = self.until(lambda series: self.of(series, "muster_findings_total"), "it is counted")
        self.assertEqual(found, {(("finding", "hang_dead"),): 1})

    def judged_alone(self, seconds):
        """What the first scrape after a job of about so long shows that nobody scraped."""
        job, agent = self.replay(), self.serve()
        time.sleep(seconds)
        self.assertIsNone(job.poll())
        job.terminate()
        job.communicate()
        series = self.scrape()
        agent.terminate()
        agent.communicate()
        shutil.rmtree(os.path.join(self.out, "muster-4711.0"))
        return series

    def test_nobody_scrapes_while_a_job_lives(self):
        """It was judged and counted all the same, and nothing of its ranks is kept for who comes too late."""
        seconds = 4
        while True:
            series = self.judged_alone(seconds)
            self.assertFalse([key for key in series if dict(key[1]).get("run")])
            if self.of(series, "muster_findings_total"):
                break
            self.assertLess(seconds, DEADLINE_S, "judged by nobody")  # or this machine is busy
            seconds *= 2
        self.assertEqual(self.of(series, "muster_findings_total"), {(("finding", "late_rank"),): 1})

    def test_who_asks_and_does_not_read_keeps_nobody_waiting(self):
        self.replay()
        self.serve()
        self.until(self.all_recorded, "908 operations")
        silent = [socket.create_connection(self.address) for _ in range(8)]
        try:
            for one in silent:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n" * 64)
            self.assertTrue(self.all_recorded(self.scrape()))
        finally:
            for one in silent:
                one.close()

    def run_with_agent(self, *arguments, hold="0"):
        return self.start("run", "--dir", os.path.join(self.out, "job"), "--no-report", *arguments, "--", MUSTER,
                          "replay", os.path.join(RECORDINGS, "late-gpu"), "--speed", "max", "--hold", hold)

    def test_an_agent_for_as_long_as_a_job(self):
        """`muster run --agent`: there while the job runs, gone with it, and never in its way."""
        job = self.run_with_agent("--agent", "--listen", "127.0.0.1:0", hold="600")
        self.address = None
        for line in job.stderr:
            match = re.search(r"muster agent: http://([\d.]+):(\d+)/metrics", line)
            if "without libmicrohttpd" in line:
                self.skipTest("built without libmicrohttpd")
            if match:
                self.address = match[1], int(match[2])
                break
        self.assertTrue(self.address)
        self.until(self.late, "a finding")
        job.terminate()
        job.communicate()
        with self.assertRaises(OSError):
            self.ask()

    def test_an_agent_that_cannot_serve_leaves_the_job_alone(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            job = self.run_with_agent("--agent", "--listen", f"127.0.0.1:{port}")
            said = job.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(job.returncode, 0, said)
        self.assertIn("muster agent: ", said)
        self.assertIn(str(port), said)

    def test_what_is_of_the_agent_needs_one(self):
        job = self.run_with_agent("--nats", "nats://127.0.0.1")
        said = job.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(job.returncode, 2, said)
        self.assertIn("--nats is of the agent: with --agent", said)

    def test_once_prints_the_same(self):
        self.replay()
        end = time.monotonic() + DEADLINE_S
        while not self.all_recorded(parse(self.once())[0]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)
        classic, types = parse(self.once())
        self.assertEqual([(one["finding"], one["rank"]) for one in self.late(classic)],
                         [("late_rank", "2")])
        self.assertEqual(types["muster_bytes_total"], "counter")
        self.assertEqual(types["muster_rank_info"], "gauge")
        text = self.once("--format", "openmetrics")
        self.assertTrue(text.endswith("\n# EOF\n"))
        opened, types = parse(text)
        self.assertEqual(types["muster_bytes"], "counter")
        self.assertEqual(types["muster_rank"], "info")
        self.assertEqual(set(opened), set(classic))
        promtool = shutil.which("promtool")
        if promtool:
            done = subprocess.run([promtool, "check", "metrics"], input=self.once(), text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_jobs_of_another_plugin_are_said_once_and_left_alone(self):
        """Segments whose format is another one: a line, what to do, and the other ranks as ever."""
        self.replay()
        end = time.monotonic() + DEADLINE_S
        while not self.all_recorded(parse(self.once())[0]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)
        older, newer = [os.path.join(self.shm, name) for name in sorted(os.listdir(self.shm))
                        if not name.endswith(".lock")][:2]
        for path, step in (older, -1), (newer, 1):
            with open(path, "r+b") as file:
                file.seek(8)
                version = int.from_bytes(file.read(4), "little")
                file.seek(8)
                file.write((version + step).to_bytes(4, "little"))
        done = subprocess.run([MUSTER, "agent", "--once"], env=self.environment, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{older}: segment format {version - 1}, this muster reads {version}: that job runs the plugin of "
                      "an older muster. Nothing is shown of such jobs until they start with this one's", done.stderr)
        self.assertIn(f"{newer}: segment format {version + 1}, this muster reads {version}: that job runs the plugin of "
                      "a newer muster", done.stderr)
        series, _ = parse(done.stdout)
        self.assertEqual(self.of(series, "muster_agent_segments_unreadable"), {(): 2})
        self.assertEqual(len(self.of(series, "muster_rank_info")), 2)
        agent = self.start("agent", "--listen", "127.0.0.1:0")
        said = [agent.stderr.readline() for _ in range(3)]
        if "without libmicrohttpd" in said[0]:
            self.skipTest("built without libmicrohttpd")
        agent.terminate()
        said.append(agent.communicate(timeout=DEADLINE_S)[1])
        self.assertEqual("".join(said).count("segment format"), 2, said)
        self.assertEqual(agent.returncode, 0, said)

    def test_an_empty_host(self):
        series, _ = parse(self.once())
        self.assertFalse(self.of(series, "muster_rank_info"))
        self.assertEqual(self.of(series, "muster_agent_segments_unreadable"), {(): 0})

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be somebody else")
    def test_root_sees_jobs_of_others_and_others_do_not(self):
        self.replay_as_somebody_else()
        end = time.monotonic() + DEADLINE_S
        while not self.all_recorded(parse(self.once())[0]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)
        uids = {dict(labels)["uid"] for labels in
                self.of(parse(self.once())[0], "muster_operations_total")}
        self.assertEqual(uids, {"65534"})
        self.assertFalse(self.of(parse(self.once("--own"))[0], "muster_rank_info"))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_one_capability_is_enough(self):
        only = "-all,+dac_read_search"
        prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                  f"--inh-caps={only}", f"--ambient-caps={only}", f"--bounding-set={only}"]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode:
            self.skipTest("capabilities cannot be handed on here")
        self.replay()
        end = time.monotonic() + DEADLINE_S
        while not self.all_recorded(parse(self.once())[0]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)
        done = subprocess.run([*prefix, MUSTER, "agent", "--once", "--all"], env=self.environment,
                              text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.all_recorded(parse(done.stdout)[0]))

    def test_http(self):
        agent = self.serve()
        answer, text = self.ask()
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        answer, text = self.ask(Accept="application/openmetrics-text;version=1.0.0")
        self.assertIn("openmetrics-text; version=1.0.0", answer.headers["Content-Type"])
        self.assertTrue(text.endswith("# EOF\n"))
        self.assertEqual(self.ask("/other")[0].status, 404)
        self.assertEqual(self.ask("/-/healthy")[0].status, 200)
        answer, text = self.ask(method="HEAD")
        self.assertEqual((answer.status, text), (200, ""))
        answer, _ = self.ask(method="POST")
        self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"))
        with socket.create_connection(self.address) as odd:
            odd.sendall(b"\0\xff nonsense\r\n\r\n")
            odd.recv(100)
        self.assertEqual(self.ask()[0].status, 200)
        agent.terminate()
        self.assertEqual(agent.wait(), 0)

    def write(self, name, text):
        path = os.path.join(self.out, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_users_and_passwords(self):
        self.serve("--web-config", self.write("web.yml", f"basic_auth_users:\n  anna: {HASH}\n"))
        answer, _ = self.ask()
        self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]),
                         (401, 'Basic realm="muster agent"'))
        for password, status in (("let me read", 200), ("let me in", 401)):
            word = base64.b64encode(f"anna:{password}".encode()).decode()
            answer, text = self.ask(Authorization=f"Basic {word}")
            self.assertEqual(answer.status, status)
            self.assertEqual("muster_agent_info" in text, status == 200)

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_tls(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-subj", "/CN=node1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                        "-keyout", "server.key", "-out", "server.crt"], cwd=self.out, check=True,
                       capture_output=True)
        config = self.write("web.yml", "tls_server_config:\n  cert_file: server.crt\n"
                                       "  key_file: server.key\n")
        self.serve("--web-config", config)
        trusts = ssl.create_default_context(cafile=os.path.join(self.out, "server.crt"))
        answer, text = self.ask(tls=trusts)
        self.assertEqual(answer.status, 200)
        self.assertIn("muster_agent_info", text)
        with self.assertRaises((http.client.HTTPException, ConnectionError)):
            self.ask()

    def test_a_web_configuration_that_is_wrong(self):
        self.serve()  # or skipped
        for text, says in (("basic_auth_users: {a: b}", "1:23: expected a bcrypt hash"),
                           ("tls_server_config: {cert_file: /dev/null, key_file: /dev/null}", "not a file")):
            done = subprocess.run([MUSTER, "agent", "--listen", "127.0.0.1:0", "--web-config",
                                   self.write("web.yml", text)], env=self.environment, text=True,
                                  capture_output=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)

    def test_where_it_cannot_listen(self):
        self.serve()
        taken = "%s:%d" % self.address
        for where, says in ((taken, "in use; does another one serve there already? Else another port: --listen"), ("nowhere", "no place to listen"),
                            ("127.0.0.1:70000", "no place to listen"), ("a.name:1", "numbers")):
            done = subprocess.run([MUSTER, "agent", "--listen", where], env=self.environment, text=True,
                                  capture_output=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
