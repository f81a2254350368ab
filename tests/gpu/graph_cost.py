"""What CUDA graphs cost with and without NCCL's stamps: a captured graph of small all-reduces, replayed.

usage: graph_cost.py drive --build DIR [--ranks N] [--rounds 2] [--replays 300] [--budget SECONDS]
       graph_cost.py rank REPLAYS  (one rank; RANK, LOCAL_RANK, ... are set)
DIR is where muster was built. Cases: none, null (a plugin that does nothing and asks for the events
of light), auto, channels; in every round each has one life, in random order. A life's figure is the
median over 5 batches of replays, by CUDA events. Fails if `auto` shows any replayed operation, as it
puts nothing into a graph, or `channels` not all of them. Exit status 77: no two GPUs or no PyTorch.
"""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

IN_GRAPH, FLOATS, BATCHES, WARM_UP = 10, 2048, 5, 50
RANKS_TIMEOUT_S = 60
BEFORE = 4  # operations before the capture: auto still times everything
CASES = ("none", "null", "auto", "channels")
TIMED = ("auto", "channels")
LIGHT_MASK = 2 + 4 + 8 + 2048 + 4096  # Coll, P2p, ProxyOp, KernelLaunch, CeColl
PLUGINS = {"null": "libnull-plugin.so", **dict.fromkeys(TIMED, "libnccl-profiler-muster.so")}


def rank_main(replays):
    import torch
    import torch.distributed as dist
    rank, world, local = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
    tensor = torch.full((FLOATS,), 1e-30, device=device)
    for _ in range(BEFORE):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(IN_GRAPH):
            dist.all_reduce(tensor)
    for _ in range(WARM_UP):
        graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(BATCHES):
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / replays)
    dist.barrier()
    torch.cuda.synchronize()
    del graph
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"us": statistics.median(times), "batches": times}), flush=True)


def find(build, name):
    for folder, _, files in os.walk(build):
        if name in files:
            return os.path.join(folder, name)
    sys.exit("graph_cost: no %s below %s" % (name, build))


def graph_ops(muster, run_dir):
    """(captured calls, operations of replayed graphs), of all ranks."""
    report = json.loads(subprocess.run([muster, "report", "--format", "json", run_dir],
                                       capture_output=True, check=True).stdout)
    return (sum(r["captured"] for r in report["ranks"]),
            sum(r["graph_ops"] for r in report["ranks"]))


def life(case, options, ranks):
    with tempfile.TemporaryDirectory() as work:
        environment = {"NCCL_PROFILER_PLUGIN": PLUGINS.get(case), "MUSTER_DIR": work,
                       "LD_LIBRARY_PATH": options.path}
        if case == "null":
            environment["NULL_PLUGIN_MASK"] = str(LIGHT_MASK)
        elif case != "none":
            environment["MUSTER_TIMING"] = case
        output = ranks.run([os.path.abspath(__file__), "rank", str(options.replays)],
                           options.ranks, environment, RANKS_TIMEOUT_S)
        figures = json.loads(output.strip().splitlines()[-1])
        if case in TIMED:
            figures["captured"], figures["graph"] = graph_ops(options.muster, work)
        return figures


def check(case, figures, options):
    captured = IN_GRAPH * options.ranks
    shown = captured * (WARM_UP + BATCHES * options.replays) if case == "channels" else 0
    good = figures["captured"] == captured and figures["graph"] == shown
    print("%-4s %s: %d calls captured (%d made), %d operations of replays shown, of %d" % (
        "ok" if good else "FAIL", case, figures["captured"], captured, figures["graph"], shown),
        flush=True)
    return good


def drive(arguments):
    import ranks
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", type=int, default=ranks.gpus())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--replays", type=int, default=300)
    parser.add_argument("--budget", type=float, default=math.inf)
    options = parser.parse_args(arguments)
    if options.ranks < 2 or not ranks.have_torch():
        print("skipped: needs two GPUs and PyTorch")
        sys.exit(77)
    options.muster = find(options.build, "muster")
    options.path = ":".join(filter(None, [
        os.path.dirname(find(options.build, "libnccl-profiler-muster.so")),
        os.path.dirname(find(options.build, "libnull-plugin.so")),
        os.environ.get("LD_LIBRARY_PATH")]))
    begin, us, good, checked = time.monotonic(), {case: [] for case in CASES}, True, set()
    for n in range(options.rounds):
        if n and (time.monotonic() - begin) * (n + 1) / n > options.budget:
            break
        for case in random.sample(CASES, len(CASES)):
            figures = life(case, options, ranks)
            us[case].append(figures["us"])
            if case in TIMED and case not in checked:
                checked.add(case)
                good &= check(case, figures, options)
    print("%d ranks, a graph of %d all-reduces of %d bytes, us per replay" % (
        options.ranks, IN_GRAPH, 4 * FLOATS))
    base = statistics.median(us["none"])
    for case in CASES:
        median = statistics.median(us[case])
        print("%-10s %8.2f  ratio to none %.4f  (%s)" % (
            case, median, median / base, " ".join("%.2f" % t for t in us[case])))
    sys.exit(not good)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "drive":
        drive(sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "rank":
        rank_main(int(sys.argv[2]))
    else:
        sys.exit(__doc__)
