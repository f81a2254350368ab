"""One rank of a tensor-parallel decode loop as inference servers make it, by turns.

usage: decode_rank.py eager|graphs|graphs-at-once    with RANK, LOCAL_RANK, ... set
eager: a step is the layers' products and small all-reduces, one by one. graphs: it is three
captured graphs of the same, replayed one after the other, captured after two passes of warm-up;
at-once: after one.
"""
import os
import sys

import turn_rank

LAYERS, TOKENS, WIDTH, GRAPHS = 32, 16, 4096, 3


def main(kind):
    turns = turn_rank.TurnRank()
    import torch
    import torch.distributed as dist
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    x = torch.randn(TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    weights = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) * 0.01

    def forward():
        y = x
        for _ in range(2 * LAYERS):
            y = y @ weights
            dist.all_reduce(y)
            y = y * 0.1
        return y

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(1 if kind == "graphs-at-once" else 2):
            forward()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graphs = []
    for _ in range(0 if kind == "eager" else GRAPHS):
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            forward()
    torch.cuda.synchronize()
    dist.barrier(device_ids=[rank])
    while turns.begin_step():
        if not graphs:
            forward()
        for graph in graphs:
            graph.replay()
    torch.cuda.synchronize()
    for graph in graphs:
        graph.reset()
    graphs.clear()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("eager", "graphs", "graphs-at-once"):
        sys.exit(__doc__)
    main(sys.argv[1])
