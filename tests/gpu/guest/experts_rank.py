"""One rank of a mixture of experts, by turns: uneven all-to-alls there and back in each of four
layers, and an all-reduce of gradients beside the computing.

usage: experts_rank.py alltoall    with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set
"""
import os
import random
import sys

import turn_rank

# So much that the GPU is what a step waits for, as in real jobs, and not the host.
LAYERS, WIDTH, GRADIENTS = 4, 8192, 4 << 20


def main():
    turns = turn_rank.TurnRank()
    import torch
    import torch.distributed as dist
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=torch.device("cuda", device))
    experts = dist.new_group(list(range(world)))
    weights = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    gradients = torch.randn(GRADIENTS, device="cuda")
    dist.all_reduce(gradients)
    step = 0
    while turns.begin_step():
        step += 1
        for layer in range(LAYERS):
            dice = random.Random(step * LAYERS + layer)  # the same on every rank
            words = [[dice.randint(200, 800) * 1024 for _ in range(world)] for _ in range(world)]
            mine, theirs = words[rank], [row[rank] for row in words]
            there = torch.ones(sum(mine), device="cuda")
            back = torch.empty(sum(theirs), device="cuda")
            dist.all_to_all_single(back, there, theirs, mine, group=experts)
            for _ in range(3):
                weights @ weights
            dist.all_to_all_single(there, back, mine, theirs, group=experts)
        work = dist.all_reduce(gradients, op=dist.ReduceOp.AVG, async_op=True)
        weights @ weights
        work.wait()
        assert there[0] == 1 and there[-1] == 1
    torch.cuda.synchronize()
    dist.barrier(device_ids=[device])
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:] != ["alltoall"]:
        sys.exit(__doc__)
    main()
