"""Two emulated hosts with a real GPU each, or one that they share, agents on both, a real nats-server and a fleet worker: who is named
over both hosts while the job lives, and how soon.

usage: fleet_hosts.py --build BUILD [--out FOLDER] [--cases CASE,...] [--late S] [--limit SECONDS]
A host is a network and UTS namespace; what goes between them, NCCL's sockets too, goes by a pair of links each
through the namespace of the server. The job is late_rank.py's data parallel one, rank 1 on the second host:
clean: nothing; host, gpu: rank 1 is late by --ms at each step; link: from then on the second host sends with
--rate only; absent: rank 1 stops calling; killed: it dies. A row: what the worker told, after how many seconds,
and whether that is right. Needs root, ip, tc, unshare, nsenter, nats-server, PyTorch. Exit status 0 if all is
right, 1 if not, 77: something of it is not here.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(HERE, "..", "..", "fleet")]
import emulated_hosts  # noqa: E402
import harm  # noqa: E402
import nats_site  # noqa: E402
import ranks  # noqa: E402

WANTED = {"clean": None, "host": ("late_rank", "1"), "gpu": ("late_rank", "1"),
          "link": ("slow_transfer", None), "absent": ("hang_absent", "1"), "killed": ("hang_dead", "1")}
ROW = "%-7s %-46s %8s  %s"
CLEAN_S, SETTLE_S, START_S = 5, 12, 60
ENDED_S = {"killed": 10}  # after all ranks are gone; of others 2: who went first is named some seconds later


class TwoHosts(nats_site.Site):
    """Host k has 198.18.k.2 and goes by 198.18.k.1, which is here."""

    def __init__(self, options):
        self.holder = {}
        super().__init__(options.muster, "", listen="0.0.0.0")
        self.environment.update(MUSTER_HANG_SECONDS="4", NCCL_NVLS_ENABLE="0")
        emulated_hosts.forward()
        for k, host in enumerate(nats_site.HOSTS):
            self.make_host(k, host)
        for k, host in enumerate(nats_site.HOSTS):
            self.agent(host, url="nats://198.18.%d.1:%d" % (k, self.port))
        self.worker("worker")
        self.until_log("worker", "connected")

    def make_host(self, k, host):
        holder = self.start("unshare", "-n", "-u", "sleep", "infinity", log="namespace-" + host)
        self.holder[host] = holder
        self.until(lambda: os.readlink("/proc/%d/ns/net" % holder.pid) != os.readlink("/proc/self/ns/net"),
                   "a namespace")
        emulated_hosts.disconnect(k)  # of a host that is gone
        emulated_hosts.connect(k, host, holder)

    def __exit__(self, *why):
        """Ranks that wait in NCCL outlive what started them, and would keep the links."""
        hosts = {self.network_of(str(holder.pid)) for holder in self.holder.values()}
        for process in filter(str.isdigit, os.listdir("/proc")):
            if self.network_of(process) in hosts - {None}:
                os.kill(int(process), signal.SIGKILL)
        super().__exit__(*why)

    @staticmethod
    def network_of(process):
        try:
            return os.readlink("/proc/%s/ns/net" % process)
        except OSError:
            return None

    def page(self, name, holder=None):
        """Of a host that is a namespace of its own, too."""
        if not holder:
            return super().page(name)
        where = self.until_log(name, r"(http://\S+/metrics)")[1]
        return subprocess.run(["nsenter", "-t", str(holder.pid), "-n", sys.executable, "-c",
                               "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())", where],
                              capture_output=True, text=True, timeout=20).stdout

    def enter(self, host):
        return emulated_hosts.enter(self.holder[host]) if host in self.holder else []

    def job(self, options, case):
        """A rank on each host."""
        side, ms = (case, options.ms) if case in ("host", "gpu", "absent", "killed") else ("host", 0)
        held, port = ranks.hold_port()
        held.close()  # the ranks are in namespaces of their own, where nobody else takes one
        for rank, host in enumerate(nats_site.HOSTS):
            self.start(self.muster, "run", "--no-report", "--quiet", "--timing", "auto", "--dir",
                       os.path.join(self.folder, "job-" + case), "--", sys.executable, "-B",
                       os.path.join(HERE, "late_rank.py"), "ddp", "--rank", "1", "--ms", str(ms), "--side", side,
                       "--width", "1024",
                       "--clean", str(CLEAN_S), "--late", str(options.late), "--out", os.path.join(self.folder, case),
                       log="rank-%d" % rank, host=host, RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE="2",
                       CUDA_VISIBLE_DEVICES=str(rank % ranks.gpus()), MASTER_ADDR="198.18.0.2", MASTER_PORT=str(port),
                       NCCL_HOSTID=host, NCCL_NET="Socket", NCCL_SOCKET_IFNAME="=mh%d" % rank,
                       GLOO_SOCKET_IFNAME="mh%d" % rank, TORCH_NCCL_ENABLE_MONITORING="0")
        return self.started[-2:]

    def began(self, case, job):
        path = os.path.join(self.folder, case + ".since")
        self.until(lambda: os.path.exists(path) or any(p.poll() for p in job), "the job is under way", START_S)
        if not os.path.exists(path):
            raise AssertionError("the job ended: %s" % (self.log("rank-0") + self.log("rank-1"))[-600:])
        with open(path) as file:
            return float(file.read())


def told(site):
    """[(kind, rank)] of what the worker said and did not take back."""
    return re.findall(r": (\w+): (?:rank (\d+))?", "\n".join(
        line for line in site.log("worker").splitlines() if "no longer" not in line))


def keep(site, folder, case):
    """What everybody said and counted, and the job's recordings."""
    os.makedirs(folder, exist_ok=True)
    for name in ("worker", "rank-0", "rank-1", "agent-nodeA", "agent-nodeB"):
        with open(os.path.join(folder, name + ".txt"), "w") as file:
            file.write(site.log(name)[-6000:])
            if "metrics" in site.log(name):
                file.write(site.page(name, site.holder.get(name[len("agent-"):])))
    job = re.search(r"job (\S+): taken", site.log("worker"))
    with open(os.path.join(folder, "diagnose.txt"), "w") as file:
        file.write(site.diagnose(job[1]).stdout if job else "no job\n")
    subprocess.run(["tar", "-C", site.folder, "-cJf", os.path.join(folder, "run.tar.xz"), "--ignore-failed-read",
                    case, "job-" + case], check=False, stderr=subprocess.DEVNULL)


def play(options, case):
    """(what was told, seconds after the fault began)"""
    with TwoHosts(options) as site:
        job = site.job(options, case)
        since = site.began(case, job)
        if case == "link":
            subprocess.run(["tc", "qdisc", "add", "dev", "mv0", "root", "tbf", "rate", options.rate, "burst", "4mb",
                            "latency", "50ms"], check=True)
        end, first = since + options.late + SETTLE_S, None
        while time.time() < end and not (case in ("absent", "killed") and first):
            if told(site) and first is None:
                first = time.time() - since
            if all(process.poll() is not None for process in job):
                end = min(end, time.time() + ENDED_S.get(case, 2))
            time.sleep(0.05)
        if options.out:
            keep(site, os.path.join(options.out, "fleet-" + case), case)
        return told(site), first


def wrong(case, found):
    """In words; nothing if all is well."""
    wanted = WANTED[case]
    if wanted is None:
        return "told of nobody's fault" if found else ""
    if not found:
        return "nothing told"
    kind, rank = found[0]
    return "" if kind == wanted[0] and wanted[1] in (None, rank) and len(set(found)) == 1 else \
        "not %s" % " ".join(filter(None, wanted))


def parse(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(WANTED))
    parser.add_argument("--ms", type=float, default=5)
    parser.add_argument("--late", type=float, default=20)
    parser.add_argument("--rate", default="2gbit")
    parser.add_argument("--limit", type=float, default=300)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    if os.geteuid() or ranks.gpus() < 1 or not ranks.have_torch():
        print("skipped: needs root, a GPU and PyTorch")
        return 77
    emulated_hosts.be_alone(__file__, arguments)
    options.muster = os.path.abspath(harm.find(options.build, "muster"))
    bad, end = 0, time.monotonic() + options.limit
    print(ROW % ("case", "told by the worker", "after s", ""), flush=True)
    for case in options.cases:
        if time.monotonic() + CLEAN_S + options.late + SETTLE_S + 15 > end:
            print("not run: " + case, flush=True)
            continue
        try:
            found, first = play(options, case)
            why = wrong(case, found)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            found, first, why = [], None, str(error)[-900:]
        bad += bool(why)
        print(ROW % (case, "; ".join(" ".join(filter(None, one)) for one in dict.fromkeys(found)) or "nothing",
                     "%.1f" % first if first else "-", why or "OK"), flush=True)
    print("== %s" % ("%d cases are not right" % bad if bad else "all right"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
