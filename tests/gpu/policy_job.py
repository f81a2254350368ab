"""One rank of a job whose collectives a policy may steer; every result is verified.

usage: policy_job.py sweep|mixed|wait [N]   with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR,
       MASTER_PORT set
sweep   N (5) all-reduces, all-gathers, reduce-scatters and broadcasts of each of SIZES
mixed   N (100000) collectives of all kinds and of sizes up to 1 MiB; one in 500 verified, and the
        last of each kind and size
wait    a sweep of 1, then N (4) seconds of an all-reduce each 100 ms
POLICY_<rank> in the environment is that rank's MUSTER_POLICY_INLINE.
Rank 0 prints one JSON line: {"wrong": n, "calls": n, "seconds": x, "ready_unix": x}.
"""
import json
import os
import random
import sys
import time

mode = sys.argv[1]
n = int(sys.argv[2]) if len(sys.argv) > 2 else {"sweep": 5, "mixed": 100000, "wait": 4}[mode]
rank, world, local = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
if "POLICY_%d" % rank in os.environ:
    os.environ["MUSTER_POLICY_INLINE"] = os.environ["POLICY_%d" % rank]

import torch  # noqa: E402  after the environment is what it is to be
import torch.distributed as dist  # noqa: E402

# Bytes as NCCL counts them: of an all-gather and a reduce-scatter all ranks' together. Powers of
# two, so that each is alone in its row of the report.
SIZES = [16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 16 << 20, 32 << 20]
torch.cuda.set_device(local)
device = torch.device("cuda", local)
dist.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
wrong = calls = 0


class Collective:
    """One kind and size: what goes in, what has to come out."""

    def __init__(self, kind, size):
        self.kind = kind
        whole, part = size // 4, size // 4 // world
        ranks = torch.arange(world, dtype=torch.float32, device=device)
        self.sum = float(world * (world + 1) // 2)
        self.own = float(rank + 1)
        self.big = torch.empty(whole, device=device)
        self.small = torch.empty(part, device=device)
        self.gathered = (ranks + 1).repeat_interleave(part)

    def fill(self):
        self.big.fill_(self.own)
        self.small.fill_(self.own)

    def call(self):
        global calls
        calls += 1
        if self.kind == "all_reduce":
            dist.all_reduce(self.big)
        elif self.kind == "all_gather":
            dist.all_gather_into_tensor(self.big[:self.gathered.numel()], self.small)
        elif self.kind == "reduce_scatter":
            dist.reduce_scatter_tensor(self.small, self.big[:self.gathered.numel()])
        else:
            dist.broadcast(self.big, src=world - 1)

    def check(self):
        global wrong
        self.fill()
        self.call()
        if self.kind == "all_reduce":
            good = bool((self.big == self.sum).all())
        elif self.kind == "all_gather":
            good = bool((self.big[:self.gathered.numel()] == self.gathered).all())
        elif self.kind == "reduce_scatter":
            good = bool((self.small == self.sum).all())
        else:
            good = bool((self.big == float(world)).all())
        wrong += not good


KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")


def sweep(times):
    for kind in KINDS:
        for size in SIZES:
            one = Collective(kind, size)
            for _ in range(times):
                one.check()


def mixed():
    chosen = random.Random(5)
    every = [Collective(kind, 1 << power) for kind in KINDS for power in range(8, 21)]
    for i in range(n - len(every)):
        one = chosen.choice(every)
        if i % 500 == 0:
            one.check()
        else:
            one.call()
    for one in every:
        one.check()


def wait():
    sweep(1)
    tensor = torch.ones(4096, device=device)
    until = time.monotonic() + n
    go = torch.ones(1, device=device)
    while go.item():
        dist.all_reduce(tensor)
        time.sleep(0.1)
        go.fill_(time.monotonic() < until)
        dist.broadcast(go, src=0)


dist.barrier()
ready, begin = time.time(), time.monotonic()
{"sweep": lambda: sweep(n), "mixed": mixed, "wait": wait}[mode]()
torch.cuda.synchronize()
seconds = time.monotonic() - begin
total = torch.tensor([wrong], dtype=torch.float32, device=device)
dist.all_reduce(total)
bad = int(total.item())
dist.destroy_process_group()
if rank == 0:
    print(json.dumps({"mode": mode, "wrong": bad, "calls": calls, "seconds": round(seconds, 2),
                      "ready_unix": ready}), flush=True)
sys.exit(bad != 0)
