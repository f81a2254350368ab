"""A job over four emulated hosts, one of which sends slowly from the beginning: is it named afterwards, at what cost,
and nobody where all hosts send alike?

usage: slow_way.py --build BUILD [--out FOLDER] [--jobs JOB,...] [--rates RATE,...] [--steps N]
pipeline: stages that send to each other, in auto. data: gradients all-reduced while computing goes on, in
channels, which knows what NCCL's proxies wait for; data-alone: nothing is computed meanwhile. A row: what the
steps took longer by the job's own clock than where all send alike, and what was said. A host is a network and
UTS namespace; NCCL's sockets go through this one. Ranks share the GPUs that there are. Needs root, ip, tc,
unshare, nsenter, PyTorch. Exit status 0 if all is right, 1 if not, 77: something of it is not here.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import emulated_hosts  # noqa: E402
import harm  # noqa: E402
import ranks  # noqa: E402

HOSTS, SLOW, LIMIT_S = 4, 2, 150
TIMING = {"pipeline": "auto", "data": "channels", "data-alone": "channels"}
ROW = "%-10s %-6s %8s %8s %16s  %s"
JOB = """
import os, sys, time, torch, torch.distributed as dist
rank, size, job, steps = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1], int(sys.argv[2])
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
weight, data = torch.randn(1024, 1024, device="cuda"), torch.zeros(16 << 20, device="cuda")
bucket = [torch.zeros(4 << 20, device="cuda") for _ in range(4)]
def work():
    for _ in range(8):
        weight.matmul(weight)
def pipeline():
    for _ in range(4):
        if rank > 0:
            dist.recv(data, rank - 1)
        work()
        if rank + 1 < size:
            dist.send(data, rank + 1)
    for _ in range(4):
        if rank + 1 < size:
            dist.recv(data, rank + 1)
        work()
        if rank > 0:
            dist.send(data, rank - 1)
def data_parallel():
    handles = []
    for own in bucket:
        for _ in range(16):
            work()
        handles.append(dist.all_reduce(own, async_op=True))
    for handle in handles:
        handle.wait()
def data_alone():
    for own in bucket:
        work()
        dist.all_reduce(own)
step = {"pipeline": pipeline, "data": data_parallel, "data-alone": data_alone}[job]
for number in range(steps + 3):
    if number == 3:
        begin = time.monotonic()
    step()
    torch.cuda.synchronize()
if rank == 0:
    print("steps took", time.monotonic() - begin, flush=True)
dist.destroy_process_group()
"""


class Hosts:
    """node0, node1, ..."""

    def __enter__(self):
        self.holder = []
        emulated_hosts.forward()
        for k in range(HOSTS):
            holder = subprocess.Popen(["unshare", "-n", "-u", "sh", "-c", "echo; exec sleep infinity"],
                                      stdout=subprocess.PIPE)
            holder.stdout.readline()
            self.holder.append(holder)
            emulated_hosts.connect(k, "node%d" % k, holder)
        return self

    def enter(self, k):
        return emulated_hosts.enter(self.holder[k])

    def __exit__(self, *why):
        for k, holder in enumerate(self.holder):
            holder.kill()
            holder.wait()
            emulated_hosts.disconnect(k)


def environment(k, port):
    kept = {name: value for name, value in os.environ.items() if name != emulated_hosts.INSIDE}
    return {**kept, "RANK": str(k), "LOCAL_RANK": "0", "WORLD_SIZE": str(HOSTS),
            "CUDA_VISIBLE_DEVICES": str(k % ranks.gpus()), "MASTER_ADDR": "198.18.0.2", "MASTER_PORT": str(port),
            "NCCL_HOSTID": "node%d" % k, "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "=mh%d" % k,
            "GLOO_SOCKET_IFNAME": "mh%d" % k, "NCCL_NVLS_ENABLE": "0",
            "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING": "false"}


def play(options, job, rate, folder):
    """Seconds of the job's steps, and the findings; rate: of what one host sends, None: as the others."""
    directory = os.path.join(folder, "%s-%s" % (job, rate or "clean"))
    with Hosts() as hosts:
        if rate:
            emulated_hosts.run("tc qdisc add dev mh%d root tbf rate %s burst 1mb latency 50ms" % (SLOW, rate),
                               *hosts.enter(SLOW))
        held, port = ranks.hold_port()
        held.close()
        processes = [subprocess.Popen(
            [*hosts.enter(k), options.muster, "run", "--no-report", "--quiet", "--dir", directory, "--timing",
             TIMING[job], "--", sys.executable, "-c", JOB, job, str(options.steps)],
            env=environment(k, port), stdout=subprocess.PIPE, text=True) for k in range(HOSTS)]
        try:
            said = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
    if any(process.returncode for process in processes):
        raise AssertionError("the ranks ended with %s" % [process.returncode for process in processes])
    took = float(re.search(r"steps took (\S+)", said[0])[1])
    text = subprocess.run([options.muster, "diagnose", directory], capture_output=True, text=True).stdout
    print(text, flush=True)
    answer = subprocess.run([options.muster, "diagnose", "--format", "json", directory], capture_output=True, text=True)
    return took, json.loads(answer.stdout)["findings"]


def wrong(found, rate):
    kinds = [finding["kind"] for finding in found]
    if not rate:
        return "slow_transfer" in kinds
    return kinds != ["slow_transfer"] or found[0]["host"] != "node%d" % SLOW


def cost(finding):
    """(of the run, from, to); seconds."""
    run = finding.get("cost_run_s") or finding["cost_s"]
    ratio = run / finding["cost_s"]
    low, high = finding.get("cost_low_s") or 0, finding.get("cost_high_s") or 0
    return "%.2f" % run, "%.2f to %.2f" % (low * ratio, high * ratio)


def rows_of(options, job, folder):
    """How many are wrong."""
    bad, usual = 0, None
    for rate in [None, *options.rates.split(",")]:
        took, found = play(options, job, rate, folder)
        usual = usual or took
        said, between = cost(found[0]) if found else ("-", "-")
        bad += wrong(found, rate)
        print(ROW % (job, rate or "alike", "%.2f" % (took - usual if rate else took), said, between,
                     "WRONG" if wrong(found, rate) else "OK"), flush=True)
    return bad


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--jobs", default="pipeline,data,data-alone")
    parser.add_argument("--rates", default="4gbit")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args(arguments)
    if os.geteuid() or ranks.gpus() < 1 or not ranks.have_torch():
        print("skipped: needs root, a GPU and PyTorch")
        return 77
    emulated_hosts.be_alone(__file__, arguments)
    options.muster = os.path.abspath(harm.find(options.build, "muster"))
    with tempfile.TemporaryDirectory() as folder:
        print(ROW % ("job", "rate", "lost, s", "said, s", "between", ""), flush=True)
        bad = sum(rows_of(options, job, options.out or folder) for job in options.jobs.split(","))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
