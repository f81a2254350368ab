"""What muster adds to a training step: runs with and without it, in turns.

usage: step_overhead.py drive --with DIR [--kind ddp|fsdp|both] [--pairs 5] [--steps 200]
                              [--ranks N] [--timing auto] [--budget SECONDS]
       step_overhead.py rank ddp|fsdp STEPS    (one rank; RANK, LOCAL_RANK, ... are set)
DIR holds libnccl-profiler-muster.so. A pair is one run without and one with the plugin, the first
of them by turns; a run is N processes that train a transformer of about 28 ms a step on random
data. A run's figure is the mean of rank 0's step times, from the 31st step on. Printed: the mean of
either kind of run, the ratio (geometric mean over pairs) and its 95 % interval by Student's t. Ends
with a line of JSON. Exit status 1 if a run failed twice or the plugin recorded nothing.
"""
import argparse
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UP = 30  # steps: allocator, autotuning, and muster's first arming
RUN_TIMEOUT_S = 150
PLUGIN = "libnccl-profiler-muster.so"
# Two-sided 95 %, by degrees of freedom.
STUDENT_T = (None, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


# ---- One rank ----

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


def train(kind, steps):
    import torch
    import torch.distributed as dist
    rank, world, local = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
    torch.manual_seed(7)
    model = distribute(torch, make_model(torch).to(device), kind, local)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    torch.manual_seed(rank)
    data = [torch.randint(WORDS, (BATCH, LENGTH + 1), device=device) for _ in range(8)]
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    for i in range(WARM_UP):
        loss = step(torch, model, optimizer, data[i % len(data)])
    dist.barrier()
    torch.cuda.synchronize()
    marks[0].record()
    for i in range(steps):
        loss = step(torch, model, optimizer, data[i % len(data)])
        marks[i + 1].record()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    assert math.isfinite(loss.item())
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"mean_ms": statistics.fmean(times), "median_ms": statistics.median(times),
                          "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                          "torch": torch.__version__, "gpu": torch.cuda.get_device_name()}),
              flush=True)


# ---- The driver ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_ranks(kind, options, plugin, run_dir, logs):
    ranks, port = [], free_port()
    for rank in range(options.ranks):
        env = {k: v for k, v in os.environ.items()
               if k != "NCCL_PROFILER_PLUGIN" and not k.startswith("MUSTER_")}
        env.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.ranks),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        # The same search path in both kinds of run.
        env["LD_LIBRARY_PATH"] = ":".join(
            filter(None, [options.dir, os.environ.get("LD_LIBRARY_PATH")]))
        if plugin:
            env.update(NCCL_PROFILER_PLUGIN=PLUGIN, MUSTER_TIMING=options.timing,
                       MUSTER_DIR=run_dir)
        ranks.append(subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "rank", kind, str(options.steps)],
            env=env, stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=logs[rank],
            start_new_session=True))
    return ranks


def kill(ranks):
    for rank in ranks:
        if rank.poll() is None:
            os.killpg(rank.pid, signal.SIGKILL)
        rank.wait()


def wait_for(ranks):
    """Rank 0's output, once all ranks left well; None if one did not, or in time."""
    end = time.monotonic() + RUN_TIMEOUT_S
    try:
        while any(rank.poll() is None for rank in ranks):
            if time.monotonic() > end or any(rank.poll() for rank in ranks):
                return None
            time.sleep(0.05)
        if any(rank.returncode for rank in ranks):
            return None
        return ranks[0].stdout.read()
    finally:
        kill(ranks)


def run_once(kind, options, plugin):
    """A run's figures; None, and its last words on stderr, if it failed."""
    with tempfile.TemporaryDirectory() as work:
        run_dir = os.path.join(work, "run")
        logs = [open(os.path.join(work, "err%d" % r), "w+b") for r in range(options.ranks)]
        try:
            output = wait_for(start_ranks(kind, options, plugin, run_dir, logs))
            if output is None:
                for rank, log in enumerate(logs):
                    log.seek(0)
                    last = log.read().decode(errors="replace").strip().splitlines()[-3:]
                    print("rank %d: %s" % (rank, " | ".join(last)), file=sys.stderr)
                return None
        finally:
            for log in logs:
                log.close()
        if plugin and not (os.path.isdir(run_dir) and os.listdir(run_dir)):
            print("%s was not loaded, or recorded nothing" % PLUGIN, file=sys.stderr)
            return None
        return json.loads(output.decode().strip().splitlines()[-1])


def run(kind, options, plugin):
    for attempt in (1, 2):
        result = run_once(kind, options, plugin)
        if result:
            return result
        print("%s %s the plugin: a run failed%s" % (
            kind, "with" if plugin else "without", "; once more" if attempt == 1 else " again"),
            file=sys.stderr, flush=True)
    sys.exit(1)


def interval(logs):
    """Mean of log ratios and half the width of its 95 % interval."""
    mean, n = statistics.fmean(logs), len(logs)
    if n < 2:
        return mean, math.inf
    t = STUDENT_T[n - 1] if n - 1 < len(STUDENT_T) else STUDENT_T[-1]  # on the safe side
    return mean, t * statistics.stdev(logs) / math.sqrt(n)


def compare(kind, options, end):
    run(kind, options, False)  # fills caches; not counted
    without, with_it, about, longest = [], [], {}, 0.0
    for pair in range(options.pairs):
        begin = time.monotonic()
        if begin + longest > end:
            print("%s: the budget ends after %d pairs" % (kind, pair), file=sys.stderr)
            break
        for plugin in (False, True) if pair % 2 == 0 else (True, False):
            about = run(kind, options, plugin)
            (with_it if plugin else without).append(about["mean_ms"])
            print("%s %s: %.3f ms a step, median %.3f" % (
                kind, "with   " if plugin else "without", about["mean_ms"], about["median_ms"]),
                flush=True)
        longest = max(longest, time.monotonic() - begin)
    if not without:
        sys.exit("%s: no pair in the budget" % kind)
    middle, half = interval([math.log(b / a) for a, b in zip(without, with_it)])
    low, high = math.exp(middle - half), math.exp(middle + half) if half < 50 else math.inf
    print("%s: %.3f ms without, %.3f ms with (%s); ratio %.4f [%.4f %.4f] over %d pairs: %s" % (
        kind, statistics.fmean(without), statistics.fmean(with_it), options.timing,
        math.exp(middle), low, high, len(without),
        "no difference beyond the interval" if low <= 1 <= high else
        "faster" if high < 1 else "a difference"), flush=True)
    return {"kind": kind, "timing": options.timing, "ranks": options.ranks, "steps": options.steps,
            "without_ms": without, "with_ms": with_it, "ratio": math.exp(middle), "low": low,
            "high": high if math.isfinite(high) else None,
            "nccl": about["nccl"], "torch": about["torch"], "gpu": about["gpu"]}


def drive(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--with", dest="dir", required=True)
    parser.add_argument("--kind", choices=("ddp", "fsdp", "both"), default="both")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--timing", choices=("light", "auto", "full"), default="auto")
    parser.add_argument("--budget", type=float, default=math.inf)
    options = parser.parse_args(arguments)
    options.dir = os.path.abspath(options.dir)
    if not os.path.isfile(os.path.join(options.dir, PLUGIN)):
        parser.error("%s: no %s in it" % (options.dir, PLUGIN))
    if options.pairs < 1 or options.steps < 1:
        parser.error("--pairs and --steps: at least 1")
    if not options.ranks:
        import torch
        options.ranks = torch.cuda.device_count()
    if options.ranks < 2:
        parser.error("%d GPUs: at least 2 are needed" % options.ranks)
    kinds = ("ddp", "fsdp") if options.kind == "both" else (options.kind,)
    begin = time.monotonic()
    results = [compare(kind, options, begin + options.budget * (i + 1) / len(kinds))
               for i, kind in enumerate(kinds)]
    print(json.dumps({"step_overhead": results}))


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "drive":
        drive(sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "rank":
        train(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(__doc__)
