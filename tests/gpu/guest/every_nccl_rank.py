"""One rank of two, each a process on an emulated host of its own, on any libnccl: uses it in one way, checks
its results, says what it issued.

usage: every_nccl_rank.py CASE LIBNCCL --id FILE [--rounds N] [--loops N] [--seconds S] [--without reduce_scatter]
with RANK set
FILE.N is how rank 0 tells the other where to meet in round N. kinds: all collectives but broadcasts, sends
and receives, groups, a burst, a communicator that is split off; broadcasts: these alone; pace: --loops
all-reduces of each size in a row, timed by this program's own clock. Prints one line of JSON: nccl, rounds,
issued {function: [operations, bytes] of this rank}, pace {bytes: microseconds an all-reduce}. Exit status as
harm_cell.py's: 3 a wrong result, 4 a failed call.
"""
import argparse
import ctypes as C
import faulthandler
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harm_cell  # noqa: E402
from harm_cell import F32, PTR, SIZE, SIZES, SUM, WORDS  # noqa: E402

RANKS, MEET_S, BURST, SMALL = 2, 30, 300, 256
PACE = (SMALL, WORDS, 8 * WORDS, 32 * WORDS)


class Id(C.Structure):
    _fields_ = [("bytes", C.c_char * 128)]


class Gpu(harm_cell.Gpu):
    """All of a is rank + 1."""

    def fill(self, value):
        words = 32 * WORDS
        self.cuda.cudaMemcpy(self.a, (C.c_float * words)(*([float(value)] * words)), SIZE(4 * words), 1)
        self.cuda.cudaMemset(self.b, 0, SIZE(4 * words))


class Rank:
    def __init__(self, nccl, cuda, number, options):
        self.nccl, self.number, self.loops, self.without = nccl, number, options.loops, options.without
        self.gpu, self.ledger, self.pace_us = Gpu(cuda, number), harm_cell.Ledger(), {}

    def meet(self, path):
        """The communicator of both ranks."""
        token, end = Id(), time.monotonic() + MEET_S
        if self.number == 0:
            self.nccl.ncclGetUniqueId(C.byref(token))
            with open(path + ".new", "wb") as file:
                file.write(bytes(token))
            os.rename(path + ".new", path)
        while not os.path.exists(path):
            if time.monotonic() > end:
                harm_cell.leave(4, "rank 0 does not come")
            time.sleep(0.01)
        with open(path, "rb") as file:
            C.memmove(C.byref(token), file.read(), C.sizeof(token))
        comm = PTR()
        self.nccl.ncclCommInitRank(C.byref(comm), RANKS, token, self.number)
        return comm

    def end(self, comm):
        self.nccl.ncclCommFinalize(comm)
        self.nccl.ncclCommDestroy(comm)

    # --- operations ------------------------------------------------------------------------------

    def all_reduce(self, comm, words):
        gpu = self.gpu
        self.nccl.ncclAllReduce(gpu.a, gpu.b, SIZE(words), F32, SUM, comm, gpu.stream)
        self.ledger.add("AllReduce", words)

    def gather_and_scatter(self, comm, words):
        gpu = self.gpu
        self.nccl.ncclAllGather(gpu.a, gpu.b, SIZE(words), F32, comm, gpu.stream)
        self.ledger.add("AllGather", RANKS * words)
        for rank in range(RANKS):
            gpu.expect(rank + 1, words, rank * words)
        if "reduce_scatter" in self.without:
            return
        self.nccl.ncclReduceScatter(gpu.a, gpu.b, SIZE(words), F32, SUM, comm, gpu.stream)
        self.ledger.add("ReduceScatter", RANKS * words)
        gpu.expect(3, words)

    def exchange(self, comm, words):
        """A send and a receive in a group."""
        gpu, peer = self.gpu, 1 - self.number
        self.nccl.ncclGroupStart()
        self.nccl.ncclSend(gpu.a, SIZE(words), F32, peer, comm, gpu.stream)
        self.nccl.ncclRecv(gpu.b, SIZE(words), F32, peer, comm, gpu.stream)
        self.nccl.ncclGroupEnd()
        self.ledger.add("Send", words)
        self.ledger.add("Recv", words)
        gpu.expect(peer + 1, words)

    # --- the cases -------------------------------------------------------------------------------

    def kinds(self, comm):
        for words in SIZES:
            for _ in range(20):
                self.all_reduce(comm, words)
            self.gpu.expect(3, words)
        for words in (SMALL, WORDS):
            for _ in range(5):
                self.gather_and_scatter(comm, words)
                self.exchange(comm, words)
        self.nccl.ncclGroupStart()
        for _ in range(3):
            self.all_reduce(comm, SMALL)
        self.nccl.ncclGroupEnd()
        for _ in range(BURST):
            self.all_reduce(comm, 2)
        child = PTR()
        self.nccl.ncclCommSplit(comm, 0, self.number, C.byref(child), None)
        for _ in range(20):
            self.all_reduce(child, SMALL)
        self.gpu.expect(3, SMALL)
        self.end(child)

    def broadcasts(self, comm):
        gpu = self.gpu
        for i in range(40):
            self.nccl.ncclBroadcast(gpu.a, gpu.b, SIZE(SMALL), F32, i % RANKS, comm, gpu.stream)
            self.ledger.add("Broadcast", SMALL)
            gpu.expect(i % RANKS + 1, SMALL)

    def pace(self, comm):
        for words in PACE:
            for _ in range(20):
                self.all_reduce(comm, words)
            self.gpu.sync()
            begin = time.perf_counter()
            for _ in range(self.loops):
                self.all_reduce(comm, words)
            self.gpu.sync()
            self.pace_us[4 * words] = round((time.perf_counter() - begin) / self.loops * 1e6, 2)
            self.gpu.expect(3, words)


CASES = ("kinds", "broadcasts", "pace")


def parse(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("nccl")
    parser.add_argument("--id", required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--loops", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--without", default="")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    faulthandler.dump_traceback_later(options.seconds, exit=False)
    nccl = harm_cell.Library(C.CDLL(options.nccl), "NCCL")
    version = C.c_int()
    nccl.ncclGetVersion(C.byref(version))
    rank = Rank(nccl, harm_cell.open_cuda(), int(os.environ["RANK"]), options)
    for number in range(options.rounds):
        comm = rank.meet("%s.%d" % (options.id, number))
        getattr(rank, options.case)(comm)
        rank.end(comm)
    print(json.dumps({"nccl": version.value, "rounds": options.rounds, "issued": rank.ledger.of,
                      "pace": rank.pace_us}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
