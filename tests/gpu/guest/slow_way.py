"""A pipeline over four emulated hosts, one of which sends slowly from the beginning: is it named afterwards, and
nobody where all hosts send alike?

usage: slow_way.py --build BUILD [--out FOLDER] [--rate RATE] [--steps N]
A host is a network and UTS namespace; NCCL's sockets go through this one. Ranks share the GPUs that there are.
Needs root, ip, tc, unshare, nsenter, PyTorch. Exit status 0 if all is right, 1 if not, 77: something of it is
not here.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import emulated_hosts  # noqa: E402
import harm  # noqa: E402
import ranks  # noqa: E402

HOSTS, SLOW, BATCHES, LIMIT_S = 4, 2, 4, 150
JOB = """
import os, sys, torch, torch.distributed as dist
rank, size, steps = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(sys.argv[1])
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
weight, data = torch.randn(1024, 1024, device="cuda"), torch.zeros(16 << 20, device="cuda")
def work():
    for _ in range(8):
        weight.matmul(weight)
for step in range(steps):
    for _ in range(int(sys.argv[2])):
        if rank > 0:
            dist.recv(data, rank - 1)
        work()
        if rank + 1 < size:
            dist.send(data, rank + 1)
    for _ in range(int(sys.argv[2])):
        if rank + 1 < size:
            dist.recv(data, rank + 1)
        work()
        if rank > 0:
            dist.send(data, rank - 1)
    torch.cuda.synchronize()
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


def play(options, slow, folder):
    """The findings of a run in which one host sends slowly, or none."""
    directory = os.path.join(folder, "slow" if slow else "clean")
    with Hosts() as hosts:
        if slow:
            emulated_hosts.run("tc qdisc add dev mh%d root tbf rate %s burst 1mb latency 50ms" % (SLOW, options.rate),
                               *hosts.enter(SLOW))
        held, port = ranks.hold_port()
        held.close()
        job = [subprocess.Popen([*hosts.enter(k), options.muster, "run", "--no-report", "--quiet", "--dir", directory,
                                 "--", sys.executable, "-c", JOB, str(options.steps), str(BATCHES)],
                                env=environment(k, port)) for k in range(HOSTS)]
        try:
            ended = [process.wait(LIMIT_S) for process in job]
        finally:
            for process in job:
                process.kill()
    if any(ended):
        raise AssertionError("the ranks ended with %s" % ended)
    text = subprocess.run([options.muster, "diagnose", directory], capture_output=True, text=True).stdout
    print(text, flush=True)
    answer = subprocess.run([options.muster, "diagnose", "--format", "json", directory], capture_output=True, text=True)
    return json.loads(answer.stdout)["findings"]


def wrong(found, slow):
    kinds = [finding["kind"] for finding in found]
    if not slow:
        return "slow_transfer" in kinds
    return kinds != ["slow_transfer"] or found[0]["host"] != "node%d" % SLOW


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--rate", default="4gbit")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args(arguments)
    if os.geteuid() or ranks.gpus() < 1 or not ranks.have_torch():
        print("skipped: needs root, a GPU and PyTorch")
        return 77
    emulated_hosts.be_alone(__file__, arguments)
    options.muster = os.path.abspath(harm.find(options.build, "muster"))
    with tempfile.TemporaryDirectory() as folder:
        bad = 0
        for slow in (False, True):
            found = play(options, slow, options.out or folder)
            bad += wrong(found, slow)
            print("%s: %s" % ("one host sends slowly" if slow else "all alike",
                              "WRONG" if wrong(found, slow) else "OK"), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
