"""CUDA graphs are captured while completion marks of other operations are outstanding.

usage: capture_mark.py drive --with DIR --marks-of PROGRAM [--ranks N] [--captures 12]
       capture_mark.py rank CAPTURES PROGRAM RUN_DIR    (one rank; RANK, LOCAL_RANK, ... are set)
DIR holds libnccl-profiler-muster.so; PROGRAM is tests/gpu/marks_of of the build. Every rank makes
its GPU busy for some 100 ms, queues all-reduces behind that on one stream and communicator, so that
their marks cannot be over, and meanwhile captures all-reduces of another communicator into a graph,
in CUDA's modes thread_local and global by turns; in thread_local another thread queues more
all-reduces during the capture. muster's thread looks at the marks every 10 ms; a capture takes 40.
Fails if a capture is invalidated, a result is wrong, or no mark was outstanding at the end of a
capture. Exit status 77: skipped, no two GPUs or no PyTorch.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

BUSY_CYCLES = 200_000_000  # some 100 ms
WARM_UP, QUEUED, IN_GRAPH, FLOATS = 80, 60, 10, 2048
RANKS_TIMEOUT_S = 100


def outstanding(program, run_dir):
    """Launches between the newest mark that is over and the newest made, over this process."""
    lines = subprocess.run([program, run_dir], capture_output=True, text=True, check=True).stdout
    found = 0
    for line in lines.splitlines():
        pid, _, _, marked, ended = line.split()
        if int(pid) == os.getpid():
            found += max(0, int(marked) - int(ended))
    return found


def rank_main(captures, program, run_dir):
    import torch
    import torch.distributed as dist
    rank, world, local = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
    other = dist.new_group(list(range(world)))
    busy, traffic = torch.full((FLOATS,), 1e-30, device=device), torch.cuda.Stream()
    capturing = torch.cuda.Stream()
    kept = torch.ones(FLOATS, device=device)

    def queue_traffic(n):
        with torch.cuda.stream(traffic):
            for _ in range(n):
                dist.all_reduce(busy, group=other)

    for group in (None, other):  # connects; and no marks are made in auto's first blocks
        for _ in range(WARM_UP):
            dist.all_reduce(busy, group=group)
    torch.cuda.synchronize()
    marks = []
    for i in range(captures):
        mode = ("thread_local", "global")[i % 2]
        kept.fill_(1)
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        with torch.cuda.stream(traffic):
            torch.cuda._sleep(BUSY_CYCLES)
        queue_traffic(QUEUED)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(capturing):  # torch.cuda.graph would wait for the GPU first
            graph.capture_begin(capture_error_mode=mode)
            more = threading.Thread(target=lambda: (torch.cuda.set_device(local), queue_traffic(QUEUED)))
            if mode == "thread_local":
                more.start()
            for _ in range(IN_GRAPH):
                dist.all_reduce(kept)
            time.sleep(0.04)
            if mode == "thread_local":
                more.join()
            marks.append(outstanding(program, run_dir))
            graph.capture_end()
        graph.replay()
        torch.cuda.synchronize()
        if kept[0].item() != float(world) ** IN_GRAPH:
            raise RuntimeError("capture %d (%s): the graph's result is %g" % (i, mode, kept[0].item()))
        del graph
    if min(marks) == 0:
        raise RuntimeError("no mark was outstanding in some captures: %s" % marks)
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"captures": captures, "outstanding": marks,
                          "nccl": ".".join(map(str, torch.cuda.nccl.version()))}), flush=True)


def drive(arguments):
    import ranks
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--with", dest="dir", required=True)
    parser.add_argument("--marks-of", required=True)
    parser.add_argument("--ranks", type=int, default=ranks.gpus())
    parser.add_argument("--captures", type=int, default=12)
    options = parser.parse_args(arguments)
    if options.ranks < 2 or not ranks.have_torch():
        print("skipped: needs two GPUs and PyTorch")
        sys.exit(77)
    failed = False
    for timing in ("auto", "light"):
        with tempfile.TemporaryDirectory() as work:
            environment = {
                "NCCL_PROFILER_PLUGIN": "libnccl-profiler-muster.so", "MUSTER_TIMING": timing,
                "MUSTER_DIR": work, "LD_LIBRARY_PATH": ":".join(filter(None, [
                    os.path.abspath(options.dir), os.environ.get("LD_LIBRARY_PATH")]))}
            try:
                output = ranks.run(
                    [os.path.abspath(__file__), "rank", str(options.captures),
                     os.path.abspath(options.marks_of), work],
                    options.ranks, environment, RANKS_TIMEOUT_S)
                print("ok   %s: %s" % (timing, output.strip().splitlines()[-1]), flush=True)
            except RuntimeError as error:
                failed = True
                print("FAIL %s: %s" % (timing, error), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "drive":
        drive(sys.argv[2:])
    elif len(sys.argv) == 5 and sys.argv[1] == "rank":
        rank_main(int(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        sys.exit(__doc__)
