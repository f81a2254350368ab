"""One rank of a small training job that is made late on purpose, and times itself.

usage: late_rank.py FAMILY --rank BAD --ms MS --side host|gpu|slow|absent|killed --clean S --late S --out FILE
                    [--after FILE] [--width N] [--plain]
FAMILY: ddp, fsdp, tensor (all-reduces in each layer), pipeline (a stage a rank, 1F1B), experts
(all-to-alls there and back), grid (of four ranks and more: tensor in pairs, whose gradients all
pairs reduce). Steps for S seconds as they are, then, with BAD made late by MS at the
begin of each step: its host sleeps, or its GPU is busy; or (slow) its GPU is busy for MS in all of its
layers together, backward for twice as long as forward, as a slow GPU is; or it makes no step any more
(absent: for S seconds, then all leave) or dies (killed). A step ends when its loss is read, as jobs that log do.
FILE, by rank 0: what a step took in either part, by this program's clock; FILE.since: when BAD became
late. With --after nothing touches a GPU before that file is there, so that one job can load its
libraries while another is measured. --plain: all in float32, nothing reduced but by sums, for an NCCL
that was built with these alone. Ranks share a GPU where there are fewer.
"""
import argparse
import json
import os
import signal
import time

import torch
import torch.distributed as dist

LAYERS, BATCH, MICRO = 8, 2048, 4


class Job:
    """step() makes one and returns the loss's tensor."""

    def __init__(self, family, width, rank, world, plain):
        self.family, self.rank, self.world, self.plain = family, rank, world, plain
        self.dtype = torch.float32 if plain else torch.bfloat16
        self.x = torch.randn(BATCH, width, device="cuda", dtype=self.dtype)
        self.layers = [self.layer(width) for _ in range(LAYERS)]
        getattr(self, "_make_" + family)()
        self.step = getattr(self, "_" + family)

    def layer(self, width):
        return torch.nn.Linear(width, width, device="cuda", dtype=self.dtype)

    def _optimized(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), 1e-6)

    def _train(self):
        self.optimizer.zero_grad()
        loss = self.net(self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _make_ddp(self):
        self._optimized(torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*self.layers), device_ids=[torch.cuda.current_device()]))

    def _make_fsdp(self):
        from torch.distributed.fsdp import fully_shard
        for layer in self.layers:
            fully_shard(layer)
        net = torch.nn.Sequential(*self.layers)
        fully_shard(net)
        for module in net.modules():
            if self.plain and hasattr(module, "set_force_sum_reduction_for_comms"):
                module.set_force_sum_reduction_for_comms(True)
        self._optimized(net)

    def _ddp(self):
        return self._train()

    def _fsdp(self):
        return self._train()

    def _make_tensor(self):
        pass

    def _tensor(self):
        y = self.x
        with torch.no_grad():
            for layer in self.layers:
                y = layer(y)
                dist.all_reduce(y)
                y = y * 0.5
        return y.float().square().mean()

    def _make_grid(self):
        pairs = [dist.new_group([first, first + 1]) for first in range(0, self.world, 2)]
        sides = [dist.new_group(list(range(side, self.world, 2))) for side in range(2)]
        self.pair, self.side = pairs[self.rank // 2], sides[self.rank % 2]

    def _grid(self):
        y = self.x
        with torch.no_grad():
            for layer in self.layers:
                y = layer(y)
                dist.all_reduce(y, group=self.pair)
                y = y * 0.5
            for layer in self.layers:
                dist.all_reduce(layer.weight.data, group=self.side)
                layer.weight.data /= self.world // 2
        return y.float().square().mean()

    def _make_pipeline(self):
        self.stage = torch.nn.Sequential(*self.layers)
        self.parts = self.x.chunk(MICRO)
        self.last = self.rank == self.world - 1

    def _exchange(self, stage, out, received):
        """Sends out, if anything, to a neighboring stage and returns what comes from there, if anything is received;
        at once, as either would wait for the other. None without such a stage."""
        if not 0 <= stage < self.world:
            return None
        got = torch.empty_like(self.parts[0]) if received else None
        asked = [dist.P2POp(dist.isend, out, stage)] if out is not None else []
        asked += [dist.P2POp(dist.irecv, got, stage)] if received else []
        for work in dist.batch_isend_irecv(asked):
            work.wait()
        return got

    def _pipeline(self):
        """1F1B: a stage is as many micro-batches ahead as there are stages behind it."""
        total = torch.zeros((), device="cuda")
        before, behind = self.rank - 1, self.rank + 1
        ahead = min(MICRO, self.world - 1 - self.rank)
        waiting = []
        for i in range(ahead):
            waiting.append(self._forward(i, self._exchange(before, None, True)))
            self._exchange(behind, waiting[-1][1].detach(), False)
        x = self._exchange(before, None, True)
        for i in range(ahead, MICRO):
            waiting.append(self._forward(i, x))
            gradient = self._exchange(behind, waiting[-1][1].detach(), True)
            done = self._backward(*waiting.pop(0), gradient)
            total += done[1]
            x = self._exchange(before, done[0], i + 1 < MICRO)
        for _ in range(ahead):
            done = self._backward(*waiting.pop(0), self._exchange(behind, None, True))
            self._exchange(before, done[0], False)
        for parameter in self.stage.parameters():
            parameter.grad = None
        return total

    def _forward(self, i, x):
        x = self.parts[i] if x is None else x.requires_grad_()
        out = self.stage(x)
        return x, out.square().mean() if self.last else out

    def _backward(self, x, out, gradient):
        """What the stage before gets, and the micro-batch's loss, which the last stage knows."""
        out.backward(gradient)
        return x.grad, out.detach() if self.last else 0

    def _make_experts(self):
        self.group = dist.new_group(list(range(self.world)))

    def _experts(self):
        y = self.x
        there, back = torch.empty_like(y), torch.empty_like(y)
        with torch.no_grad():
            for layer in self.layers:
                dist.all_to_all_single(there, y, group=self.group)
                done = layer(there)
                dist.all_to_all_single(back, done, group=self.group)
                y = layer(back) * 0.5
        gradients = self.layers[0].weight.data
        dist.all_reduce(gradients, op=dist.ReduceOp.SUM if self.plain else dist.ReduceOp.AVG)
        if self.plain:
            gradients /= self.world
        return y.float().square().mean()


def cycles_of(ms):
    """What keeps this GPU busy for so long."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1000)
    begin.record()
    torch.cuda._sleep(20_000_000)
    end.record()
    torch.cuda.synchronize()
    return int(20_000_000 * ms / begin.elapsed_time(end))


def slow_down(job, cycles):
    """Of each step, in equal parts after each layer; twice that where it goes back through it."""
    back = job.family in ("ddp", "fsdp", "pipeline")
    passes = len(job.layers) * {"pipeline": MICRO, "experts": 2}.get(job.family, 1) * (3 if back else 1)
    for layer in job.layers:
        layer.register_forward_hook(lambda *_: torch.cuda._sleep(cycles // passes))
        if back:
            layer.register_full_backward_hook(lambda *_: torch.cuda._sleep(2 * cycles // passes))


def steps(job, n, delay):
    """Seconds that n steps take."""
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(n):
        delay()
        job.step().item()
    torch.cuda.synchronize()
    return time.monotonic() - begin


def count(seconds, step):
    """How many steps that is; rank 0's word."""
    n = torch.tensor([max(20, int(seconds / step))], device="cuda")
    dist.broadcast(n, 0)
    return int(n)


def wait_for(path):
    """Or until nobody will ever make it."""
    launcher = os.getppid()
    while path and not os.path.exists(path):
        if os.getppid() != launcher:
            os._exit(1)
        time.sleep(0.01)


def gone(options, rank):
    """BAD makes no step any more; the others make the next one, and wait in it."""
    if rank != options.rank:
        return
    if options.side == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(options.late)
    os._exit(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("family")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--ms", type=float)
    parser.add_argument("--side", choices=("host", "gpu", "slow", "absent", "killed"))
    parser.add_argument("--clean", type=float)
    parser.add_argument("--late", type=float)
    parser.add_argument("--out")
    parser.add_argument("--after")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    wait_for(options.after)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpu = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", device_id=torch.device("cuda", gpu))
    torch.backends.cuda.matmul.allow_tf32 = True
    job = Job(options.family, options.width, rank, world, options.plain)
    cycles = cycles_of(options.ms)

    def late():
        if rank != options.rank or not options.ms:
            return
        if options.side == "host":
            time.sleep(options.ms / 1e3)
        elif options.side == "gpu":
            torch.cuda._sleep(cycles)
        elif options.side != "slow":
            gone(options, rank)

    steps(job, 20, lambda: None)
    step = steps(job, 20, lambda: None) / 20
    before, after = count(options.clean, step), count(options.late, step + options.ms / 1e3)
    took = steps(job, before, lambda: None)
    since = time.time()
    if rank == 0:
        with open(options.out + ".since", "w") as out:
            out.write("%.6f" % since)
    if rank == options.rank and options.ms and options.side == "slow":
        slow_down(job, cycles)
    took_late = steps(job, after, late)
    if rank == 0:
        with open(options.out, "w") as out:
            json.dump({"step_ms": 1e3 * took / before, "late_ms": 1e3 * took_late / after,
                       "steps": after, "since": since, "until": time.time()}, out)
    dist.barrier(device_ids=[gpu])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
