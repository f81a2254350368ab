"""Faults of the processor and its surroundings for one process, of this machine's kernel. Needs
root and, for quotas and memory limits, cgroups that may be made: the unified hierarchy, or the
older ones under /sys/fs/cgroup/cpu and memory. Every class undoes what it did in undo()."""

import os
import signal
import subprocess
import sys
import time

ROOT = "/sys/fs/cgroup"
UNIFIED = os.path.exists(ROOT + "/cgroup.controllers")


def put(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


def threads(pid):
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


class Group:
    """A cgroup of its own for one process."""

    def __init__(self, controller, pid, settings):
        """settings: (file, text) to be written before the process comes in."""
        self.pid, self.others = pid, []
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
            lines = [line.strip().split(":", 2) for line in file]
        if UNIFIED:
            self.home = ROOT + next(path for _, names, path in lines if names == "")
            put(ROOT + "/cgroup.subtree_control", f"+{controller}")
            self.path = f"{ROOT}/muster-fault-{pid}"
        else:
            top = f"{ROOT}/{controller}"
            self.home = top + next(path for _, names, path in lines
                                   if controller in names.split(","))
            self.path = f"{top}/muster-fault-{pid}"
        os.makedirs(self.path, exist_ok=True)
        for name, text in settings:
            put(f"{self.path}/{name}", text)
        put(self.path + "/cgroup.procs", pid)

    def undo(self):
        for pid in [self.pid, *self.others]:
            try:
                put(self.home + "/cgroup.procs", pid)
            except OSError:
                pass  # it is over
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


class Quota(Group):
    """So many ms of processor in each 10 ms."""

    def __init__(self, pid, ms=2):
        us, period = int(ms * 1000), 10000
        super().__init__("cpu", pid, [("cpu.max", f"{us} {period}")] if UNIFIED else
                         [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", us)])


class Hog(Group):
    """A neighbour in its cgroup that takes more memory than there may be, and is killed."""

    TAKE = "import sys; open('/proc/self/oom_score_adj','w').write('1000'); sys.stdin.read(1); " \
           "b = bytearray(1 << 30); print(b[::4096].count(0))"

    def __init__(self, pid, limit=256 << 20):
        super().__init__("memory", pid, [("memory.max" if UNIFIED else "memory.limit_in_bytes",
                                          limit)])
        self.hog = subprocess.Popen([sys.executable, "-c", self.TAKE], stdin=subprocess.PIPE,
                                    stdout=subprocess.DEVNULL)
        put(self.path + "/cgroup.procs", self.hog.pid)
        self.hog.stdin.write(b"x")
        self.hog.stdin.close()
        self.killed = self.hog.wait(30) == -signal.SIGKILL


class Affinity:
    """All its threads on these processors alone."""

    def __init__(self, pid, cpus):
        self.pid, self.before = pid, os.sched_getaffinity(pid)
        for thread in threads(pid):
            try:
                os.sched_setaffinity(thread, cpus)
            except ProcessLookupError:
                pass

    def undo(self):
        for thread in threads(self.pid) if os.path.exists(f"/proc/{self.pid}") else []:
            try:
                os.sched_setaffinity(thread, self.before)
            except ProcessLookupError:
                pass


class Crowd(Affinity):
    """Busy loops on the processors that it has left."""

    def __init__(self, pid, cpus, loops):
        super().__init__(pid, cpus)
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                      for _ in range(loops)]
        for loop in self.loops:
            os.sched_setaffinity(loop.pid, cpus)

    def undo(self):
        for loop in self.loops:
            loop.kill()
            loop.wait()
        super().undo()


class Stopped:
    def __init__(self, pid):
        self.pid = pid
        os.kill(pid, signal.SIGSTOP)

    def undo(self):
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
