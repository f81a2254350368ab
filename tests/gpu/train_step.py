"""One rank that trains a transformer of about 28 ms a step on random data, when told to.

usage: train_step.py ddp|fsdp    with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set
Speaks as turns.py says. "run UNSCORED SCORED" makes so many steps; the answer, {"ms": [...]}, holds
the time of each scored one by CUDA events, and comes when the GPU has nothing left to do.
"""
import datetime
import json
import math
import os
import sys

WIDTH, HEADS, LAYERS, WORDS, LENGTH, BATCH = 1024, 16, 12, 8192, 512, 16


def make_model(torch):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
            self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2)
                       for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
            seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(WORDS, WIDTH)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm = torch.nn.LayerNorm(WIDTH)
            self.head = torch.nn.Linear(WIDTH, WORDS)

        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()


def distribute(torch, model, kind, local):
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[local], gradient_as_bucket_view=True)
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def step(torch, model, optimizer, tokens):
    """Mixed precision: DDP by autocast, FSDP by its own policy, to which autocast adds nothing."""
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


class Training:
    def __init__(self, torch, kind, rank, local):
        self.torch = torch
        device = torch.device("cuda", local)
        torch.manual_seed(7)
        self.model = distribute(torch, make_model(torch).to(device), kind, local)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        torch.manual_seed(rank)
        self.data = [torch.randint(WORDS, (BATCH, LENGTH + 1), device=device) for _ in range(8)]
        self.steps = 0

    def step(self):
        self.steps += 1
        return step(self.torch, self.model, self.optimizer, self.data[self.steps % len(self.data)])

    def run(self, unscored, scored):
        cuda = self.torch.cuda
        marks = [cuda.Event(enable_timing=True) for _ in range(scored + 1)]
        for _ in range(unscored):
            loss = self.step()
        marks[0].record()
        for mark in marks[1:]:
            loss = self.step()
            mark.record()
        cuda.synchronize()
        assert math.isfinite(loss.item())
        return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def main(kind):
    # The answers' own pipe: what libraries print goes to the log, and no child inherits the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(what):
        print(json.dumps(what), file=answers, flush=True)

    import torch
    import torch.distributed as dist
    rank, world, local = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    # Nothing is outstanding between turns; still, no watchdog should end a job that waits for one.
    dist.init_process_group("nccl", rank=rank, world_size=world,
                            device_id=torch.device("cuda", local),
                            timeout=datetime.timedelta(hours=2))
    training = Training(torch, kind, rank, local)
    torch.cuda.synchronize()
    answer({"nccl": ".".join(map(str, torch.cuda.nccl.version())), "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name()})
    for line in iter(sys.stdin.readline, ""):
        if line.split() == ["end"]:
            dist.barrier()
            torch.cuda.synchronize()
            dist.destroy_process_group()
            return
        word, unscored, scored = line.split()
        assert word == "run"
        answer({"ms": training.run(int(unscored), int(scored))})
    os._exit(1)  # the driver is gone; destroying could wait for ranks that are


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("ddp", "fsdp"):
        sys.exit(__doc__)
    main(sys.argv[1])
