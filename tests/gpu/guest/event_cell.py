"""One process, two GPUs or one twice: all-reduces between CUDA events of its own, for event_accuracy.py.

usage: event_cell.py sizes|mixed|bursts LIBNCCL OUT.jsonl
sizes: batches of each size from 8 B to 64 MiB, now and then one GPU busy before an operation, all
queued behind work so that no host is waited for. mixed: the same with 64 KiB, every fifth of 8 B
(fewer channels), and a group that sends to itself after every tenth. bursts: 1,000 of 8 B at once,
ten times, as fast as the host goes. OUT: a line an all-reduce and rank: its number, words, begin
and duration in us by the program's events.
"""
import ctypes as C
import json
import random
import sys
import threading

import harm_cell
from harm_cell import F32, PTR, SIZE, SUM

BATCH, BATCHES, BURSTS, BURST = 32, 4, 10, 1000
SIZES = (8, 1 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20)
LARGEST = SIZES[-1]
SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 ns)
{
  .reg .u64 %t<4>;
  .reg .pred %p;
  ld.param.u64 %t0, [ns];
  mov.u64 %t1, %globaltimer;
again:
  mov.u64 %t2, %globaltimer;
  sub.u64 %t3, %t2, %t1;
  setp.lt.u64 %p, %t3, %t0;
  @%p bra again;
  ret;
}
"""


class Rank:
    def __init__(self, cuda, nccl, index):
        self.cuda, self.nccl, self.index = cuda, nccl, index
        self.driver = harm_cell.Library(C.CDLL("libcuda.so.1"), "the driver")
        self.gpu = index % harm_cell.gpus(cuda)
        cuda.cudaSetDevice(self.gpu)
        self.stream, self.a, self.b = PTR(), PTR(), PTR()
        cuda.cudaStreamCreate(C.byref(self.stream))
        cuda.cudaMalloc(C.byref(self.a), SIZE(LARGEST))
        cuda.cudaMalloc(C.byref(self.b), SIZE(LARGEST))
        module, self.function = PTR(), PTR()
        self.driver.cuModuleLoadData(C.byref(module), SPIN)
        self.driver.cuModuleGetFunction(C.byref(self.function), module, b"spin")
        self.dice = random.Random(index)
        self.marks, self.words, self.rows, self.begin_us, self.last = [], [], [], 0.0, None

    def spin(self, us):
        ns = C.c_uint64(int(us * 1000))
        arguments = (PTR * 1)(C.cast(C.byref(ns), PTR))
        self.driver.cuLaunchKernel(self.function, 1, 1, 1, 1, 1, 1, 0, self.stream, arguments, None)

    def event(self):
        event = PTR()
        self.cuda.cudaEventCreate(C.byref(event))
        return event

    def all_reduce(self, size, comm):
        pair = self.event(), self.event()
        self.cuda.cudaEventRecord(pair[0], self.stream)
        self.nccl.ncclAllReduce(self.a, self.b, SIZE(size // 4), F32, SUM, comm, self.stream)
        self.cuda.cudaEventRecord(pair[1], self.stream)
        self.marks.append(pair)
        self.words.append(size // 4)

    def to_itself(self, comm):
        self.nccl.ncclGroupStart()
        self.nccl.ncclRecv(self.b, SIZE(256), F32, self.index, comm, self.stream)
        self.nccl.ncclSend(self.a, SIZE(256), F32, self.index, comm, self.stream)
        self.nccl.ncclGroupEnd()

    def between(self, a, b):
        ms = C.c_float()
        self.cuda.cudaEventElapsedTime(C.byref(ms), a, b)
        return ms.value * 1e3

    def settle(self):
        """Takes the times of what was queued, begin after begin: a float bears no long spans."""
        self.cuda.cudaStreamSynchronize(self.stream)
        for (begin, end), words in zip(self.marks, self.words):
            if self.last:
                self.begin_us += self.between(self.last, begin)
                self.cuda.cudaEventDestroy(self.last)
            self.rows.append({"rank": self.index, "number": len(self.rows), "words": words,
                              "begin_us": self.begin_us, "us": self.between(begin, end)})
            self.cuda.cudaEventDestroy(end)
            self.last = begin
        self.marks, self.words = [], []

    def batch(self, sizes, comm, to_itself=False):
        self.spin(2000)
        for i, size in enumerate(sizes):
            if self.dice.random() < 0.3:
                self.spin(self.dice.uniform(5, 100))
            self.all_reduce(size, comm)
            if to_itself and i % 10 == 9:
                self.to_itself(comm)
        self.settle()

    def work(self, kind, comm):
        self.cuda.cudaSetDevice(self.gpu)
        for _ in range(5):
            self.all_reduce(8, comm)
        self.settle()
        if kind == "sizes":
            for size in SIZES:
                for _ in range(BATCHES):
                    self.batch([size] * BATCH, comm)
        elif kind == "mixed":
            for _ in range(BATCHES * 8):
                self.batch([8 if i % 5 == 4 else 64 << 10 for i in range(BATCH)], comm, True)
        else:
            for _ in range(BURSTS):
                for _ in range(BURST):
                    self.all_reduce(8, comm)
                self.settle()


def main(kind, library, out):
    nccl, cuda = harm_cell.Library(C.CDLL(library), "NCCL"), harm_cell.open_cuda()
    comms = (PTR * 2)()
    ranks = [Rank(cuda, nccl, index) for index in range(2)]
    nccl.ncclCommInitAll(comms, 2, (C.c_int * 2)(*(rank.gpu for rank in ranks)))
    comms = [PTR(comm) for comm in comms]
    threads = [threading.Thread(target=ranks[i].work, args=(kind, comms[i])) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threads = [threading.Thread(target=nccl.ncclCommDestroy, args=(comm,)) for comm in comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(out, "w") as file:
        for rank in ranks:
            for row in rank.rows:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("sizes", "mixed", "bursts"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
