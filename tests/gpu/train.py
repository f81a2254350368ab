"""One rank of a small job on real GPUs that knows what it did.

usage: train.py timed|model    with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set
timed   all-reduces of several sizes
model   a few optimizer steps of a data-parallel model on fixed data: prints a digest of the weights
Rank 0 prints one JSON line. The first argument after the mode, if any, is the number of rounds.
"""
import collections
import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist

mode = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 100
rank, world, local = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
torch.cuda.set_device(local)
device = torch.device("cuda", local)
dist.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
issued = collections.Counter()
SIZES = (4 << 20, 32 << 20, 128 << 20)


def all_reduce(tensor):
    issued["AllReduce %d B" % (tensor.numel() * tensor.element_size())] += 1
    dist.all_reduce(tensor)


def timed():
    """Sizes that nothing else uses, so that a report's row holds just these operations."""
    tensors = [torch.full((size // 4,), 1e-30, device=device) for size in SIZES]
    for tensor in tensors:
        for _ in range(rounds):
            all_reduce(tensor)
        assert tensor[0].item() == tensor[-1].item() != 0
    return {}


def model():
    torch.manual_seed(7)
    layers = [torch.nn.Linear(1024, 1024) for _ in range(8)]
    net = torch.nn.Sequential(*layers).to(device)
    ddp = torch.nn.parallel.DistributedDataParallel(net, device_ids=[local])
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(rounds):
        x = torch.randn(64, 1024, generator=generator).to(device)
        optimizer.zero_grad()
        ddp(x).square().mean().backward()
        optimizer.step()
    digest = hashlib.sha256()
    for p in net.parameters():
        digest.update(p.detach().cpu().numpy().tobytes())
    return {"digest": digest.hexdigest()}


result = {"timed": timed, "model": model}[mode]()
torch.cuda.synchronize()
dist.destroy_process_group()
if rank == 0:
    print(json.dumps({"mode": mode, "nccl": torch.cuda.nccl.version(), "ranks": world,
                      "issued": issued, **result}), flush=True)
