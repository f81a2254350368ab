"""A replayed job with a late rank, the agent, a real Prometheus with the shipped rules and a real
Alertmanager: series appear, the alert names the rank, arrives once, also if the agent misses a scrape, and is
resolved when the job ends; every expression of every dashboard is executed. Skipped where Prometheus is not installed.
usage: fleet_prometheus_test.py MUSTER SOURCE_ROOT RECORDINGS"""

import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from shipped import Shipped

MUSTER, ROOT, RECORDINGS = map(os.path.abspath, sys.argv[1:4])
DEADLINE_S = 180
RUN = "muster-4711.0"
# Without a network in the recording, and without a worker of a fleet, there is nothing to show; rates may have
# passed between two scrapes.
MAY_BE_EMPTY = re.compile(r"muster_fleet_|muster_network|topk16|mean1m|:ratio|_comm_calls|up\{job=\"muster\"\} == 0")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(true, what):
    """The first result of `true` that is not empty. It may fail on the way."""
    end, last = time.monotonic() + DEADLINE_S, None
    while time.monotonic() < end:
        try:
            found = true()
            if found:
                return found
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            last = error
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {DEADLINE_S} s ({last})")


class Receiver(http.server.BaseHTTPRequestHandler):
    told = []  # (status, alert name, rank) in the order of arrival

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in body["alerts"]:
            self.told.append((alert["status"], alert["labels"]["alertname"], alert["labels"].get("rank")))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Site:
    """The processes of one small site, and where they listen."""

    def __init__(self, folder):
        self.folder, self.started = folder, []
        self.shipped = Shipped(ROOT)
        self.shm = tempfile.mkdtemp(dir="/dev/shm", prefix="muster-fleet-")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "SLURM_"))}
        self.environment = {**environment, "MUSTER_SEGMENT_DIR": self.shm}
        self.receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()

    def start(self, *command, **options):
        process = subprocess.Popen(command, env=self.environment, cwd=self.folder, text=True, **options)
        self.started.append(process)
        return process

    def path(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, *name):
        with open(os.path.join(self.shipped.config, *name), encoding="utf-8") as file:
            return file.read()

    def start_agent(self):
        self.agent = self.start(MUSTER, "agent", "--listen", "127.0.0.1:0", stderr=subprocess.PIPE)
        line = self.agent.stderr.readline()
        match = re.search(r"http://127.0.0.1:(\d+)/metrics", line)
        if not match:
            skip(f"the agent cannot serve: {line.strip()}")
        return int(match[1])

    def targets(self, port):
        """By the shipped script, with a Slurm of one node."""
        scontrol = self.path("bin/scontrol", "#!/bin/sh\necho 'NodeName=127.0.0.1 Arch=x86_64 State=IDLE'\n")
        os.chmod(scontrol, 0o755)
        script = os.path.join(self.shipped.config, "slurm", "muster-targets.sh")
        done = subprocess.run([script], text=True, capture_output=True, check=True, env={
            "PATH": os.path.dirname(scontrol) + ":" + os.environ["PATH"], "MUSTER_AGENT_PORT": str(port)})
        self.path("targets/muster.json", done.stdout)

    def start_prometheus(self, alerts):
        """As shipped, but for its pace. A scrape that is missed takes a few seconds on a busy machine, so that
        alerts hold out for longer, and that of an agent that is down comes later."""
        quick = re.sub(r"(interval|(?<!_)for): \d+[sm]", r"\1: 1s", self.shipped.rules)
        quick = re.sub(r"keep_firing_for: 1m", "keep_firing_for: 20s", quick)
        quick, n = re.subn(r"(alert: MusterAgentDown\n.*\n +for): 1s", r"\1: 1m", quick)
        assert n == 1
        self.path("muster.rules.yml", quick)
        config = re.sub(r"_interval: 15s", "_interval: 500ms", self.read("prometheus", "prometheus.yml"))
        path = self.path("prometheus.yml", config.replace("127.0.0.1:9093", f"127.0.0.1:{alerts}"))
        port = free_port()
        self.start("prometheus", f"--config.file={path}", f"--storage.tsdb.path={self.folder}/data",
                   f"--web.listen-address=127.0.0.1:{port}", "--log.level=error")
        self.prometheus = f"http://127.0.0.1:{port}"

    def start_alertmanager(self):
        config = self.read("prometheus", "alertmanager.yml").replace(
            "http://127.0.0.1:9494", f"http://127.0.0.1:{self.receiver.server_port}")
        config = re.sub(r"group_(wait|interval): \d+[sm]", r"group_\1: 1s", config)
        port = free_port()
        self.start("prometheus-alertmanager", f"--config.file={self.path('alertmanager.yml', config)}",
                   f"--storage.path={self.folder}/alerts", f"--web.listen-address=127.0.0.1:{port}",
                   "--cluster.listen-address=", "--log.level=error")
        return port

    def replay(self):
        return self.start(MUSTER, "replay", os.path.join(RECORDINGS, "late-gpu"), "--hold", "900",
                          "--out", os.path.join(self.folder, RUN), stdout=subprocess.DEVNULL)

    def query(self, expression):
        """The result; an expression that Prometheus refuses is an error."""
        url = f"{self.prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.receiver.shutdown()
        shutil.rmtree(self.shm, ignore_errors=True)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def labels(result, *names):
    return sorted(tuple(one["metric"].get(name) for name in names) for one in result)


def equal(got, wanted, what):
    assert got == wanted, f"{what}: {got}, not {wanted}"


def check_series(site):
    until(lambda: len(site.query("muster_operations_total")) == 4, "four ranks")
    until(lambda: site.query("sum(muster_operations_total) == 908"), "all operations")
    equal(labels(site.query("muster_rank_info"), "run", "rank"), [(RUN, r) for r in "0123"], "ranks")
    equal(labels(site.query('up{job="muster"} == 1'), "job"), [("muster",)], "targets by the script")


def check_alert(site):
    until(lambda: ("firing", "MusterLateRank", "2") in Receiver.told, "the alert")
    late = site.query('ALERTS{alertname="MusterLateRank", alertstate="firing"}')
    equal(labels(late, "run", "rank"), [(RUN, "2")], "who is late")


def check_missed_scrape(site):
    """The finding is not known for a while, and its alert neither ends nor comes again."""
    site.agent.send_signal(signal.SIGSTOP)
    try:
        # Of the same rules' evaluation, in which the finding was not known.
        until(lambda: site.query('ALERTS{alertname="MusterAgentDown", alertstate="pending"}'), "a scrape that is missed")
        equal(site.query("muster_finding_active"), [], "findings meanwhile")
        equal(len(site.query('ALERTS{alertname="MusterLateRank", alertstate="firing"}')), 1, "alerts meanwhile")
    finally:
        site.agent.send_signal(signal.SIGCONT)
    until(lambda: site.query('muster_finding_active{finding="late_rank"}'), "the finding again")


def check_dashboards(site):
    who = site.query("muster_rank_info")[0]["metric"]
    given = {"$run": RUN, "$uid": who["uid"], "$host": who["host"], "$rank": "2", "$__rate_interval": "1m"}
    until(lambda: site.query("run:muster_coverage:ratio"), "recorded series")
    n, empty = 0, []
    for where, expression in site.shipped.dashboard_expressions():
        for name, value in given.items():
            expression = expression.replace(name, value)
        result = site.query(expression)
        n += 1
        if not result and not MAY_BE_EMPTY.search(expression):
            empty.append(f"{where}: {expression}")
    # A look that was too early: whatever is left has to come.
    for one in empty:
        until(lambda one=one: site.query(one.split(": ", 2)[2]), one)
    print(f"{n} expressions executed")


def check_end(site, job):
    job.terminate()
    job.wait()
    until(lambda: ("resolved", "MusterLateRank", "2") in Receiver.told, "the alert's end")
    until(lambda: not site.query("muster_rank_info"), "the ranks' end")
    equal(Receiver.told.count(("firing", "MusterLateRank", "2")), 1, "messages")
    wrong = {told for told in Receiver.told if told[1] != "MusterLateRank"}
    equal(wrong, set(), "other alerts")


def main():
    for tool in ("prometheus", "prometheus-alertmanager"):
        if not shutil.which(tool):
            skip(f"no {tool}")
    with tempfile.TemporaryDirectory() as folder:
        site = Site(folder)
        try:
            site.targets(site.start_agent())
            site.start_prometheus(site.start_alertmanager())
            until(lambda: site.query("up"), "Prometheus")
            job = site.replay()
            check_series(site)
            check_alert(site)
            check_missed_scrape(site)
            check_dashboards(site)
            check_end(site, job)
        finally:
            site.end()


if __name__ == "__main__":
    main()
