"""Many hosts' agents (fleet_agents), a real nats-server with the shipped accounts and real workers on this machine: how
soon a culprit is named, who else is, what is lost, and what a worker takes. While it runs: agents, a worker and the
server go and come back (rough).

usage: fleet.py BUILD RANKS SCENARIO...    scenarios: rank host moves none rough
Exits with 1 where somebody else was named, the culprit was not, or something was lost that nothing tells; with 2 where
it was asked for something else; with 77 without nats-server."""

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
import urllib.request

FROM_S = {"rank": 10, "host": 10, "moves": 10, "none": 0, "rough": 56}
SECONDS = {"rank": 30, "host": 30, "moves": 34, "none": 30, "rough": 76}
FAULT = {"rough": "rank"}
ACCOUNTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "config", "nats", "muster.conf")
KILL_WORKER_S, RESTART_SERVER_S, SERVER_AWAY_S = 36, 42, 2
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Worker:
    """A worker and what it says, with when it said it."""

    def __init__(self, muster, site):
        self.process = subprocess.Popen([muster, "fleet", "--nats", site.url, "--nats-credentials",
                                         site.credentials("worker"), "--listen", "127.0.0.1:0"], text=True,
                                        stderr=subprocess.PIPE, env=site.environment)
        self.said, self.where = [], None
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            self.said.append((time.time(), line.rstrip()))
            found = re.search(r"http://\S+/metrics", line)
            self.where = found[0] if found else self.where

    def use(self):
        """Seconds of a processor, MB at most."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            peak = re.search(r"VmHWM:\s+(\d+)", file.read())
        return (int(fields[11]) + int(fields[12])) / TICKS, int(peak[1]) / 1024 if peak else 0

    def series(self, name):
        try:
            with urllib.request.urlopen(self.where, timeout=10) as answer:
                return [float(value) for value in re.findall(rf"^{name}\{{.*?\}} (\S+)$", answer.read().decode(), re.M)]
        except OSError:
            return []

    def has_job(self):
        taken = [line for _, line in self.said if re.search(r"job .*: (taken|given up)", line)]
        return bool(taken) and taken[-1].endswith("taken")


class Site:
    def __init__(self, build):
        self.muster = os.path.join(build, "plugin", "cli", "muster")
        self.agents = os.path.join(build, "bench", "fleet", "fleet_agents")
        self.folder = tempfile.mkdtemp(prefix="muster-bench-fleet-")
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "SLURM_"))}
        with open(ACCOUNTS, encoding="utf-8") as shipped, \
                open(f"{self.folder}/nats.conf", "w", encoding="utf-8") as file:
            accounts = re.search(r"^accounts \{.*", shipped.read(), re.M | re.S)[0]
            file.write(f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}/store" }}\n{accounts}')
        self.start_server()
        self.workers = [Worker(self.muster, self) for _ in range(2)]

    def credentials(self, user):
        path = f"{self.folder}/{user}.credentials"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{user}:change-me\n")
        return path

    def start_server(self):
        with open(f"{self.folder}/server.txt", "a", encoding="utf-8") as log:
            self.server = subprocess.Popen(["nats-server", "-c", f"{self.folder}/nats.conf"], stdout=log, stderr=log)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("nats-server does not listen")

    def holder(self):
        return next((w for w in self.workers if w.process.poll() is None and w.has_job()), None)

    def end(self):
        for process in [w.process for w in self.workers] + [self.server]:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def disturb(site, began, killed):
    """A worker is killed, the server goes and comes back."""
    time.sleep(max(0, began + KILL_WORKER_S - time.time()))
    holder = site.holder()
    if holder:
        killed["at"] = time.time()
        holder.process.kill()
    time.sleep(max(0, began + RESTART_SERVER_S - time.time()))
    site.server.send_signal(signal.SIGKILL)
    site.server.wait()
    time.sleep(SERVER_AWAY_S)
    site.start_server()


def follow(site, agents, began, seconds):
    """The least ranks heard and the most expected, by the worker's page; what the holder used while it worked."""
    heard, first, last = [], None, None
    while agents.poll() is None and time.time() < began + seconds + 15:
        holder = site.holder()
        if holder:
            try:
                cpu, peak = holder.use()
            except OSError:
                continue
            if not last or last[0] is not holder:
                first = (time.time(), cpu)
            last = (holder, time.time(), cpu, peak)
            ranks, expected = holder.series("muster_fleet_ranks"), holder.series("muster_fleet_ranks_expected")
            if ranks and expected:
                heard.append((time.time() - began, int(ranks[0]), int(expected[0])))
        time.sleep(0.5)
    share = (last[2] - first[1]) / max(last[1] - first[0], 1e-3) if last else 0
    return heard, share, last[3] if last else 0


def named(site, since):
    """(when, kind, rank) of all that was told first, by whichever worker."""
    for worker in site.workers:
        for at, line in worker.said:
            match = re.search(r"muster fleet: \S+: (over: )?(\w+): (?:rank|ranks|host) ?(\S+)", line)
            if match and at >= since:
                yield at, bool(match[1]), match[2], line.split(": ", 2)[2]


def server_use(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def play(site, ranks, scenario):
    agents = subprocess.Popen([site.agents, "--nats", site.url, "--nats-credentials", site.credentials("agent"),
                               "--ranks", str(ranks), "--seconds", str(SECONDS[scenario]), "--from",
                               str(FROM_S[scenario]), "--fault", FAULT.get(scenario, scenario)] + (["--rough"] if scenario == "rough" else []),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    job = json.loads(agents.stdout.readline())
    load = os.getloadavg()[0]
    before = server_use(site.server)
    agents.stdin.write("go\n")
    agents.stdin.flush()
    began = json.loads(agents.stdout.readline())["began"]
    killed = {}
    if scenario == "rough":
        threading.Thread(target=disturb, args=(site, began, killed), daemon=True).start()
    heard, share, peak = follow(site, agents, began, SECONDS[scenario])
    sent = json.loads(agents.stdout.readline())
    agents.wait()
    holder = site.holder()
    lost = sum(holder.series("muster_fleet_messages_lost_total")) if holder else -1
    refused = sum(holder.series("muster_fleet_messages_refused_total")) if holder else -1
    told = list(named(site, began))
    right, wrong = [], []
    for at, over, kind, text in told:
        ranks_said = {int(n) for n in re.findall(r"\b\d+\b", text.split(" holds ")[0].split(" held ")[0].split(" is ")[0])}
        good = kind in ("late_rank", "late_host") and job["guilty"] in ranks_said
        good |= scenario == "moves" and kind == "late_rank" and 5 in ranks_said
        if not over:
            (right if good and at >= began + FROM_S[scenario] else wrong).append((at - began, kind, text))
    return {"job": job, "load": load, "began": began, "heard": heard, "share": share, "peak": peak, "sent": sent,
            "lost": lost, "refused": refused, "right": right, "wrong": wrong,
            "server": (server_use(site.server) - before) / SECONDS[scenario] if scenario != "rough" else None,
            "takes": sum(at >= began and line.endswith(": taken") for w in site.workers for at, line in w.said),
            "taken_over": next((at - killed["at"] for w in site.workers for at, line in w.said
                                if "at" in killed and at > killed["at"] and line.endswith("taken")), None)}


def tell(scenario, ranks, done):
    job = done["job"]
    late = [at - job["due_s"] for at, _, _ in done["right"]] if job["due_s"] >= 0 else []
    least = min((h for _, h, _ in done["heard"][4:]), default=0)
    print(f"{ranks:6} ranks, {scenario}: " +
          (f"named {late[0]:+.1f} s after it had cost 0.1 s" if late else
           "nobody to name" if job["due_s"] < 0 else "NOT NAMED") +
          f", {len(done['wrong'])} others; worker {done['share']:.2f} of a processor, {done['peak']:.0f} MB; server " +
          (f"{done['server']:.2f}" if done["server"] is not None else "-") +
          f"; {job['bytes_a_rank_and_second']:.0f} B a second and rank; told {done['sent']['told']}, agents lost "
          f"{done['sent']['lost']}, worker missed {done['lost']:.0f}, refused {done['refused']:.0f}; least ranks heard "
          f"{least}; load before {done['load']:.1f}" +
          (f"; taken over after {done['taken_over']:.2f} s" if done["taken_over"] is not None else "") +
          (f"; the job was taken {done['takes']} times" if done["takes"] > 1 else ""))
    for at, kind, text in done["right"] + done["wrong"]:
        print(f"         {at:6.1f} s {kind}: {text[:150]}")
    sys.stdout.flush()
    good = bool(late) == (job["due_s"] >= 0)
    return good and not done["wrong"] and done["sent"]["lost"] == done["sent"]["waiting"] == 0 and done["refused"] == 0


def main():
    known = len(sys.argv) > 3 and sys.argv[2].isdecimal() and set(sys.argv[3:]) <= FROM_S.keys()
    if not known:
        print(__doc__.partition("\n\n")[2])
        return 0 if sys.argv[1:2] in (["--help"], ["-h"]) else 2
    build, ranks, scenarios = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if not shutil.which("nats-server"):
        print("skipped: no nats-server")
        return 77
    good = True
    for scenario in scenarios:
        site = Site(build)
        try:
            good &= tell(scenario, ranks, play(site, ranks, scenario))
        finally:
            site.end()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
