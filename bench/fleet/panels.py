"""What each panel and each rule costs a real Prometheus of a large job: the page of an agent, taken as it is, stands
for that of every host, with other ranks and with counters that grow; promtool makes blocks of it and of what the
shipped rules record; then every expression of config/ is executed, most of three times.

usage: panels.py SOURCE_ROOT PAGE [RANKS [PORT]]    PAGE: what `muster agent --once` printed; 8 ranks a host
Exits with 1 where a panel takes more than half a second."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(ROOT, "tests", "fleet"))
from shipped import Shipped  # noqa: E402

HOST_RANKS, EVERY_S, SAMPLES, MOST_S, TIMES, FINDINGS = 8, 15, 12, 0.5, 3, 64
SERIES = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")


def read_page(path):
    """Families in order: (type, name, [(labels, value)]); of ranks the first one's alone."""
    families, kinds, seen = {}, {}, set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("# TYPE"):
                kinds[line.split()[2]] = line.split()[3]
            match = None if line.startswith("#") else SERIES.fullmatch(line.strip())
            if not match:
                continue
            name, labels, value = match[1], match[2] or "", float(match[3])
            of_rank = 'rank="' in labels
            if of_rank and name in seen:
                continue
            seen.add(name)
            families.setdefault(name, []).append((labels, value, of_rank))
    return families, kinds


def write_series(file, families, kinds, ranks, now):
    hosts = ranks // HOST_RANKS
    for name, series in families.items():
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        kind = kinds.get(name) or kinds.get(base, "gauge")
        bare = name[:-6] if kind == "counter" and name.endswith("_total") else base
        file.write(f"# TYPE {bare} {'unknown' if kind == 'histogram' else kind}\n".replace(
            f"{bare} unknown", f"{name} unknown"))
        grows = kind in ("counter", "histogram")
        for host in range(hosts):
            for labels, value, of_rank in series:
                for rank in range(host * HOST_RANKS, (host + 1) * HOST_RANKS) if of_rank else (None,):
                    said = re.sub(r'rank="\d+"', f'rank="{rank}"', labels, count=1) if of_rank else labels
                    said = re.sub(r'host="[^"]*"', f'host="node{host}"', said)
                    said = f'{said + "," if said else ""}instance="node{host}:9417",job="muster"'
                    for k in range(SAMPLES):
                        at = now - (SAMPLES - 1 - k) * EVERY_S
                        is_now = at if name.endswith("timestamp_seconds") else value
                        file.write(f"{name}{{{said}}} {is_now * (1 + 0.05 * k) if grows else is_now:.9g} {at}\n")
    file.write("# TYPE muster_finding_active gauge\n")
    run = re.search(r'run="[^"]*",uid="\d+"', families["muster_rank_info"][0][0])[0]
    for rank in range(FINDINGS):
        for k in range(SAMPLES):
            file.write(f'muster_finding_active{{{run},finding="late_rank",severity="warning",rank="{rank}",'
                       f'instance="node{rank // HOST_RANKS}:9417",job="muster"}} 1 {now - (SAMPLES - 1 - k) * EVERY_S}\n')
    file.write("# TYPE up gauge\n")
    for host in range(hosts):
        for k in range(SAMPLES):
            file.write(f'up{{instance="node{host}:9417",job="muster"}} 1 {now - (SAMPLES - 1 - k) * EVERY_S}\n')
    file.write("# EOF\n")


class Prometheus:
    def __init__(self, folder, port):
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as file:
            file.write("global: {}\n")
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address={self.url[7:]}", "--log.level=error", "--storage.tsdb.retention.time=100y"])
        while True:
            try:
                urllib.request.urlopen(self.url + "/-/ready", timeout=5).close()
                return
            except OSError:
                time.sleep(0.3)

    def end(self):
        self.process.terminate()
        self.process.wait()

    def ask(self, what, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{what}?" + urllib.parse.urlencode(query), timeout=300) as said:
            data = json.load(said)["data"]
        return data["result"] if isinstance(data, dict) else data

    def seconds(self, what, **query):
        """Of a clock, the median, and how many series."""
        took, n = [], 0
        for _ in range(TIMES):
            begin = time.monotonic()
            n = len(self.ask(what, **query))
            took.append(time.monotonic() - begin)
        return sorted(took)[TIMES // 2], n


def record(prometheus, shipped, now):
    """What the shipped rules record, at the two newest minutes; twice, as rules rest on what others record."""
    for _ in range(2):
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "rules", f"--start={now - 8 * EVERY_S}", f"--end={now}",
                        f"--eval-interval={EVERY_S}s", f"--output-dir={prometheus.folder}/data",
                        f"--url={prometheus.url}", shipped.rules_path], check=True, stdout=subprocess.DEVNULL)
        prometheus.end()
        prometheus.start()


def tell_list(prometheus, where, expression, now, from_s):
    """What a dashboard offers for choice: Grafana asks the index alone."""
    took, n = prometheus.seconds("label/" + where.rpartition("$")[2] + "/values", **{"match[]": expression},
                                 start=now - from_s, end=now)
    print(f"{took:6.3f} s once, {n:31} values  {where}: {expression[:110]}", flush=True)
    return took


def tell(prometheus, shipped, run, now, from_s):
    known = {"$run": run, "$uid": "0", "$rank": "7", "$host": "node0", "$__rate_interval": "1m"}
    worst = 0.0
    for where, expression in [*shipped.dashboard_expressions(), *(("rule", e) for e in shipped.rule_expressions())]:
        for word, value in known.items():
            expression = expression.replace(word, value)
        if "$" in where:
            worst = max(worst, tell_list(prometheus, where, expression, now, from_s))
            continue
        once, n = prometheus.seconds("query", query=expression, time=now)
        drawn, _ = prometheus.seconds("query_range", query=expression, start=now - from_s, end=now, step=EVERY_S)
        if where != "rule":
            worst = max(worst, once, drawn)
        print(f"{once:6.3f} s once, {drawn:6.3f} s drawn, {n:6} series  {where}: {expression[:110]}", flush=True)
    print(f"the slowest panel: {worst:.3f} s")
    return worst


def main():
    ranks, port = int(sys.argv[3]) if len(sys.argv) > 3 else 16384, int(sys.argv[4]) if len(sys.argv) > 4 else 19090
    folder, shipped = tempfile.mkdtemp(prefix="muster-bench-panels-"), Shipped(ROOT)
    families, kinds = read_page(sys.argv[2])
    run = re.search(r'run="([^"]*)"', families["muster_rank_info"][0][0])[1]
    now = int(time.time()) // 7200 * 7200 - EVERY_S
    prometheus = None
    try:
        with open(f"{folder}/series.txt", "w", encoding="utf-8") as file:
            write_series(file, families, kinds, ranks, now)
        print(f"{os.path.getsize(f'{folder}/series.txt') / 1e6:.0f} MB of samples", flush=True)
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", f"{folder}/series.txt", f"{folder}/data"],
                       check=True, stdout=subprocess.DEVNULL)
        os.remove(f"{folder}/series.txt")
        prometheus = Prometheus(folder, port)
        record(prometheus, shipped, now)
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        return tell(prometheus, shipped, run, now, 8 * EVERY_S) > MOST_S
    finally:
        if prometheus:
            prometheus.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
