"""One process that uses two GPUs, or one twice, by NCCL in one way, checks its results, and says what it issued.

usage: harm_cell.py CASE LIBNCCL [--other LIBNCCL] [--rounds N] [--seconds S]
Run by harm.py, with or without muster. A round makes communicators, uses them and destroys them.
Ends after N rounds or S seconds. Prints one line of JSON: rounds, issued {function: [operations,
bytes] of both ranks}, cpu {"nccl", "muster", "idle"} in seconds. What does not end is for harm.py
to kill; a traceback of where it stood then is on standard error. Exit status 3: a result is wrong;
4: a call failed; 5: threads did not come back; 77: this NCCL has no such call.
"""
import argparse
import ctypes as C
import faulthandler
import glob
import json
import os
import sys
import threading
import time

PTR, SIZE = C.c_void_p, C.c_size_t
F32, SUM = 7, 0
WORDS = 4096  # of a buffer's part
TICK = 1 / os.sysconf("SC_CLK_TCK")
IDLE_S = 0.2  # how long nothing is asked for while threads are watched
JOIN_S = 60
DESTROY_S = 6

# Device code that fails an assertion, for a GPU of any generation since Volta.
ASSERTION = b"""
.version 7.0
.target sm_70
.address_size 64
.global .align 1 .b8 text[6] = {116, 101, 115, 116, 33, 0};
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.visible .entry fail()
{
  .reg .b64 %r<3>;
  mov.u64 %r1, text;
  cvta.global.u64 %r2, %r1;
  {
    .param .b64 a; st.param.b64 [a], %r2;
    .param .b64 b; st.param.b64 [b], %r2;
    .param .b32 c; st.param.b32 [c], 1;
    .param .b64 d; st.param.b64 [d], %r2;
    .param .b64 e; st.param.b64 [e], 1;
    call.uni __assertfail, (a, b, c, d, e);
  }
  ret;
}
"""


def leave(status, why):
    print(why, file=sys.stderr, flush=True)
    os._exit(status)


def library_of(names, patterns):
    for name in names:
        try:
            return C.CDLL(name)
        except OSError:
            pass
    for path in (p for folder in sys.path for pattern in patterns
                 for p in sorted(glob.glob(os.path.join(folder, pattern)))):
        return C.CDLL(path)
    leave(4, "no %s here" % names[0])


class Library:
    """Calls by name; any answer but 0 (or `also`) ends the cell."""

    def __init__(self, library, what):
        self.library, self.what = library, what

    def __getattr__(self, name):
        call = getattr(self.library, name)

        def checked(*arguments, also=()):
            code = call(*arguments)
            if code and code not in also:
                leave(4, "%s: %s gave %d" % (self.what, name, code))
            return code
        return checked

    def has(self, name):
        return hasattr(self.library, name)


def open_cuda():
    return Library(library_of(["libcudart.so.13", "libcudart.so.12", "libcudart.so"],
                              ["nvidia/cu1*/lib/libcudart.so.1*",
                               "nvidia/cuda_runtime/lib/libcudart.so.1*"]), "CUDA")


def gpus(cuda):
    count = C.c_int()
    cuda.cudaGetDeviceCount(C.byref(count))
    return count.value


class Ledger:
    """What was issued, by all threads."""

    def __init__(self):
        self.lock, self.of = threading.Lock(), {}

    def add(self, function, words, n=1):
        with self.lock:
            entry = self.of.setdefault(function, [0, 0])
            entry[0] += n
            entry[1] += n * 4 * words


class Gpu:
    """A rank's GPU, buffers and stream: a[i] is `rank + 1` at first."""

    def __init__(self, cuda, rank):
        self.cuda, self.rank, self.index = cuda, rank, rank % gpus(cuda)
        self.open()

    def open(self):
        self.cuda.cudaSetDevice(self.index)
        self.stream, self.a, self.b = PTR(), PTR(), PTR()
        self.cuda.cudaStreamCreate(C.byref(self.stream))
        self.cuda.cudaMalloc(C.byref(self.a), SIZE(4 * WORDS * 32))
        self.cuda.cudaMalloc(C.byref(self.b), SIZE(4 * WORDS * 32))
        self.fill(self.rank + 1)

    def fill(self, value):
        host = (C.c_float * WORDS)(*([float(value)] * WORDS))
        self.cuda.cudaMemcpy(self.a, host, SIZE(4 * WORDS), 1)
        self.cuda.cudaMemset(self.b, 0, SIZE(4 * WORDS * 32))

    def sync(self, also=()):
        return self.cuda.cudaStreamSynchronize(self.stream, also=also)

    def expect(self, value, words, at=0):
        self.sync()
        host = (C.c_float * words)()
        self.cuda.cudaMemcpy(host, PTR(self.b.value + 4 * at), SIZE(4 * words), 2)
        for i in (0, words // 2, words - 1):
            if host[i] != value:
                leave(3, "rank %d: element %d is %r, not %r" % (self.rank, i, host[i], value))


class Cell:
    def __init__(self, nccl, cuda, ledger):
        self.nccl, self.cuda, self.ledger = nccl, cuda, ledger
        self.gpus = [Gpu(cuda, rank) for rank in range(2)]
        self.cpu = {"nccl": 0.0, "muster": 0.0, "idle": 0.0}

    # --- communicators ---------------------------------------------------------------------------

    def make(self):
        comms = (PTR * 2)()
        self.nccl.ncclCommInitAll(comms, 2, (C.c_int * 2)(*(gpu.index for gpu in self.gpus)))
        return [PTR(comms[0]), PTR(comms[1])]

    def both(self, work):
        """work(rank) on a thread each."""
        def on(rank):
            self.cuda.cudaSetDevice(self.gpus[rank].index)
            work(rank)
        threads = [threading.Thread(target=on, args=(rank,), daemon=True) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_S)
        if any(thread.is_alive() for thread in threads):
            leave(5, "threads did not come back")

    def end(self, comms, watch=True):
        """Destroys; before it, what NCCL's threads burn with nothing to do."""
        if watch:
            before = cpu_of_threads()
            time.sleep(IDLE_S)
            after = cpu_of_threads()
            self.cpu["idle"] = max(self.cpu["idle"], after["nccl"] - before["nccl"])
        self.cpu["nccl"] += cpu_of_threads()["nccl"]
        self.both(lambda rank: self.nccl.ncclCommDestroy(comms[rank]))

    # --- operations ------------------------------------------------------------------------------

    def all_reduce(self, comms, rank, words=256, nccl=None):
        gpu = self.gpus[rank]
        (nccl or self.nccl).ncclAllReduce(gpu.a, gpu.b, SIZE(words), F32, SUM, comms[rank],
                                          gpu.stream)
        self.ledger.add("AllReduce", words)

    def pair(self, comms, rank, words, width, between=None):
        """A group of `width` receives and sends."""
        gpu, peer = self.gpus[rank], 1 - rank
        self.nccl.ncclGroupStart()
        for i in range(width):
            self.nccl.ncclRecv(PTR(gpu.b.value + 4 * WORDS * (i + 1)), SIZE(words), F32, peer,
                               comms[rank], gpu.stream)
        if between:
            between()
        for _ in range(width):
            self.nccl.ncclSend(gpu.a, SIZE(words), F32, peer, comms[rank], gpu.stream)
        self.nccl.ncclGroupEnd()
        self.ledger.add("Recv", words, width)
        self.ledger.add("Send", words, width)

    def check_pairs(self, rank, words, width):
        for i in (0, width - 1):
            self.gpus[rank].expect(2 - rank, words, WORDS * (i + 1))

    # --- the cases -------------------------------------------------------------------------------

    def threads(self):
        comms = self.make()
        for width in (1, 8):
            def work(rank, width=width):
                for _ in range(400 // width):
                    self.pair(comms, rank, 64, width)
                self.check_pairs(rank, 64, width)
            self.both(work)
        self.end(comms)

    def groups(self):
        comms = self.make()

        def work(rank):
            for _ in range(200):
                self.pair(comms, rank, 64, 1, lambda: self.all_reduce(comms, rank))
            self.check_pairs(rank, 64, 1)
            self.gpus[rank].expect(3, 256)
        self.both(work)
        self.end(comms)

    def plain(self, comms, n=50):
        def work(rank):
            for _ in range(n):
                self.all_reduce(comms, rank)
            self.gpus[rank].expect(3, 256)
        self.both(work)

    def abort(self):
        """Rank 0 is in an operation that rank 1 never enters."""
        comms = self.make()
        self.plain(comms)
        self.cuda.cudaSetDevice(0)
        for _ in range(5):
            self.all_reduce(comms, 0)
        time.sleep(0.05)
        self.cpu["nccl"] += cpu_of_threads()["nccl"]
        self.both(lambda rank: self.nccl.ncclCommAbort(comms[rank]))
        self.gpus[0].sync()

    def split(self):
        comms = self.make()
        for name in ("ncclCommSplit", "ncclCommShrink"):
            if not self.nccl.has(name):
                leave(77, "no %s" % name)
        children, alone, shrunk = [PTR(), PTR()], [PTR(), PTR()], PTR()
        self.plain(comms, 10)
        self.both(lambda rank: self.nccl.ncclCommSplit(comms[rank], 0, 1 - rank,
                                                       C.byref(children[rank]), None))
        self.both(lambda rank: self.nccl.ncclCommSplit(comms[rank], rank, 0,
                                                       C.byref(alone[rank]), None))
        self.plain(children)
        self.cuda.cudaSetDevice(0)
        self.nccl.ncclCommShrink(comms[0], (C.c_int * 1)(1), 1, C.byref(shrunk), None, 0)
        self.plain(comms)
        self.nccl.ncclCommDestroy(shrunk)
        self.end(alone, watch=False)
        self.end(children, watch=False)
        self.end(comms)

    def two_nccl(self):
        comms = self.make()
        mine, self.nccl = self.nccl, self.other
        theirs = self.make()
        self.nccl = mine

        def work(rank):
            for i in range(100):
                self.all_reduce(comms, rank)
                self.all_reduce(theirs, rank, 128 + i % 2, nccl=self.other)
            self.gpus[rank].expect(3, 128)
        self.both(work)
        mine, self.nccl = self.nccl, self.other
        self.end(theirs)
        self.nccl = mine
        self.end(comms)

    def reset(self):
        comms = self.make()
        self.plain(comms, 300)
        self.end(comms)
        for index in sorted({gpu.index for gpu in self.gpus}):
            self.cuda.cudaSetDevice(index)
            self.cuda.cudaDeviceReset()
        for gpu in self.gpus:
            gpu.open()

    def many(self):
        every = [self.make() for _ in range(32)]
        for comms in every:
            self.plain(comms, 4)
        for comms in every[1:]:
            self.end(comms, watch=False)
        self.end(every[0])

    def exit(self):
        self.plain(self.make(), 300)

    def assertion(self):
        """After it every CUDA call fails; destroying may fail, too, or hang, as without a plugin."""
        comms = self.make()
        self.plain(comms)
        driver = C.CDLL("libcuda.so.1")
        module, function = PTR(), PTR()
        self.cuda.cudaSetDevice(0)
        if driver.cuModuleLoadData(C.byref(module), ASSERTION) or \
                driver.cuModuleGetFunction(C.byref(function), module, b"fail"):
            leave(77, "the assertion does not load")
        driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, self.gpus[0].stream, None, None)
        self.assertion_code = self.gpus[0].sync(also=range(1, 1000))
        # More launches, as a program that has not looked yet makes them: they fail or not, alike
        # with and without a plugin.
        gpu, nccl = self.gpus[0], self.nccl.library
        for _ in range(5):
            nccl.ncclAllReduce(gpu.a, gpu.b, SIZE(256), F32, SUM, comms[0], gpu.stream)
        threads = [threading.Thread(target=nccl.ncclCommDestroy, args=(comm,), daemon=True)
                   for comm in comms]
        for thread in threads:
            thread.start()
        end = time.monotonic() + DESTROY_S
        for thread in threads:
            thread.join(max(0, end - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            leave(5, "destroying after the assertion does not come back")

    def broadcasts(self):
        comms = self.make()

        def work(rank):
            gpu = self.gpus[rank]
            for i in range(40):
                self.nccl.ncclBroadcast(gpu.a, gpu.b, SIZE(512), F32, i % 2, comms[rank],
                                        gpu.stream)
                self.ledger.add("Broadcast", 512)
                if i % 4 == 0:
                    gpu.expect(i % 2 + 1, 512)
            for _ in range(10):  # several roots in one kernel
                self.nccl.ncclGroupStart()
                for root in range(2):
                    self.nccl.ncclBroadcast(gpu.a, PTR(gpu.b.value + 4 * WORDS * (root + 1)),
                                            SIZE(64), F32, root, comms[rank], gpu.stream)
                    self.ledger.add("Broadcast", 64)
                self.nccl.ncclGroupEnd()
            for root in range(2):
                gpu.expect(root + 1, 64, WORDS * (root + 1))
            self.all_reduce(comms, rank)
            gpu.expect(3, 256)
        self.both(work)
        self.end(comms)

    def late(self):
        """Rank 0 waits 10 s for rank 1."""
        comms = self.make()
        self.plain(comms)

        def work(rank):
            if rank == 1:
                time.sleep(10)
            self.all_reduce(comms, rank)
            self.gpus[rank].expect(3, 256)
        before = cpu_of_threads()
        self.both(work)
        after = cpu_of_threads()
        self.cpu["waiting"] = after["nccl"] + after["muster"] - before["nccl"] - before["muster"]
        self.end(comms)


    def sizes(self):
        """What versions.py looks at: a tuner decides each size by itself."""
        comms = self.make()

        def work(rank):
            for words in SIZES:
                for _ in range(20):
                    self.all_reduce(comms, rank, words)
                self.gpus[rank].expect(3, WORDS)
        self.both(work)
        self.end(comms)


SIZES = (WORDS, 4 * WORDS, 16 * WORDS, 32 * WORDS)
CASES = ("threads", "groups", "abort", "split", "two_nccl", "reset", "many", "exit", "assertion",
         "broadcasts", "late")
OTHERS = ("sizes",)  # cases of other tables than harm's
ONCE = ("exit", "assertion", "late")  # one round: what follows would be another process


def cpu_of_threads():
    """Seconds of this process's threads by whose they are; of those that are alive."""
    seconds = {"nccl": 0.0, "muster": 0.0}
    for path in glob.glob("/proc/self/task/*/stat"):
        try:
            with open(path) as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        whose = "muster" if name.startswith("muster") else \
            "nccl" if name.lower().startswith("nccl") else None
        if whose:
            seconds[whose] += (int(fields[11]) + int(fields[12])) * TICK
    return seconds


def parse(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES + OTHERS)
    parser.add_argument("nccl")
    parser.add_argument("--other")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    faulthandler.dump_traceback_later(options.seconds + 5, exit=False)
    ledger = Ledger()
    nccl = Library(C.CDLL(options.nccl), "NCCL")
    nccl.library.ncclCommAbort.argtypes = nccl.library.ncclCommDestroy.argtypes = [PTR]
    version = C.c_int()
    nccl.ncclGetVersion(C.byref(version))
    cell = Cell(nccl, open_cuda(), ledger)
    if options.case == "two_nccl":
        cell.other = Library(C.CDLL(options.other), "the other NCCL")
    rounds, end = 0, time.monotonic() + options.seconds
    while rounds < (1 if options.case in ONCE else options.rounds) and time.monotonic() < end:
        getattr(cell, options.case)()
        rounds += 1
    cell.cpu["muster"] = cpu_of_threads()["muster"]
    print(json.dumps({"nccl": version.value, "rounds": rounds, "issued": ledger.of,
                      "cpu": {k: round(v, 2) for k, v in cell.cpu.items()}}), flush=True)
    if options.case == "assertion":
        print("assertion: cudaStreamSynchronize gave %d" % cell.assertion_code, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
