"""What ranks cost each other, by VictoriaMetrics: the number of an operation is its time, a second each, so that the
join is a query. Whole numbers of nanoseconds up to 2^53 are exact in it."""

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

BEGIN_S = 86400  # before now: it keeps a month
TOOK, MEMBERS = "last_over_time(took[1s])", "last_over_time(members[1s])"  # at that number, and at no other
WHOLE = f"(count by (comm) ({TOOK}) == on (comm) {MEMBERS})"
MADE = f"(max by (comm) ({TOOK}) - on (comm) group_right () {TOOK})"
WAITED = f"({TOOK} - on (comm) group_left () min by (comm) ({TOOK}))"


def ask(url, data=None):
    with urllib.request.urlopen(url, data, timeout=300) as answer:
        return answer.read()


def start(folder):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{one.getsockname()[1]}"
    process = subprocess.Popen(["victoria-metrics", f"-storageDataPath={folder}", f"-httpListenAddr={where}",
                                "-search.maxQueryDuration=5m", "-search.latencyOffset=0s", "-loggerLevel=ERROR"])
    for _ in range(200):
        try:
            ask(f"http://{where}/health")
            return process, f"http://{where}"
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit("victoria-metrics does not listen")


def lines(job, begin_s):
    """Of its import: a series for each communicator and rank, and how many members a communicator has."""
    series, members, numbers = {}, {}, {}
    for comm, graph, number, rank, took in job.scored():
        name = f"{comm:x}-{int(graph)}"
        series.setdefault((name, rank), {})[number] = took
        members.setdefault(comm, set()).add(rank)
        numbers.setdefault((comm, name), set()).add(number)
    for (name, rank), at in series.items():
        yield {"metric": {"__name__": "took", "comm": name, "rank": str(rank)}, "values": list(at.values()),
               "timestamps": [1000 * (begin_s + number) for number in at]}
    for (comm, name), at in numbers.items():
        if len(members[comm]) > 1:
            yield {"metric": {"__name__": "members", "comm": name}, "values": [len(members[comm])] * len(at),
                   "timestamps": [1000 * (begin_s + number) for number in at]}


def costs(job):
    """As wire_oracle's costs_of_all."""
    begin_s = int(time.time()) - BEGIN_S
    last = max(number for _, _, number, _, _ in job.scored())
    with tempfile.TemporaryDirectory(prefix="muster-bench-victoria-") as folder:
        process, url = start(os.path.join(folder, "data"))
        try:
            text = "\n".join(json.dumps(line) for line in lines(job, begin_s)).encode()
            ask(f"{url}/api/v1/import", text)
            ask(f"{url}/internal/force_flush")
            found = [query(url, f"sum by (rank) ({over}(({what} and on (comm) {WHOLE})[{last + 2}s:1s]))", begin_s + last)
                     for over, what in (("count_over_time", MADE), ("sum_over_time", MADE), ("sum_over_time", WAITED))]
        finally:
            process.kill()
            process.wait()
    return {rank: tuple(one.get(rank, 0) for one in found) for rank in found[0]}


def query(url, expression, at_s):
    asked = urllib.parse.urlencode({"query": expression, "time": at_s, "nocache": 1})
    result = json.loads(ask(f"{url}/api/v1/query", asked.encode()))["data"]["result"]
    return {int(one["metric"]["rank"]): int(float(one["value"][1])) for one in result}
