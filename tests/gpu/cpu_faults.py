"""Faults of the processor and its surroundings for one process, of this machine's kernel. Needs
root and, for quotas and memory limits, cgroups that may be made: the unified hierarchy, or the
older ones under /sys/fs/cgroup/cpu and memory. Every class undoes what it did in undo()."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
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
        self.pid = pid
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
        try:
            put(self.home + "/cgroup.procs", self.pid)
        except OSError:
            pass  # it is over
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


class Quota(Group):
    """So many ms of processor in each 10 ms; busy: with a neighbour in its cgroup that uses them
    up, for a process that sleeps."""

    def __init__(self, pid, ms=2, busy=False):
        us, period = int(ms * 1000), 10000
        super().__init__("cpu", pid, [("cpu.max", f"{us} {period}")] if UNIFIED else
                         [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", us)])
        self.loop = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
        if busy:
            put(self.path + "/cgroup.procs", self.loop.pid)

    def undo(self):
        if self.loop:
            self.loop.kill()
            self.loop.wait()
        super().undo()


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
        try:
            self.hog.wait(30)
        except subprocess.TimeoutExpired:
            self.hog.kill()
            self.hog.wait()
            self.undo()
            raise


class Swapping(Group):
    """Neighbours in its cgroup go over and over more memory than may stay in it."""

    LOOP = "import sys; b = bytearray(96 << 20)\nwhile True: b[::4096] = bytes(len(b) // 4096)"

    def __init__(self, pid):
        self.file = tempfile.NamedTemporaryFile(prefix="muster-swap-", dir="/var/tmp")
        for _ in range(400):
            self.file.write(bytes(1 << 20))
        self.file.flush()
        for command in ("mkswap", "swapon"):
            subprocess.run([command, self.file.name], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        super().__init__("memory", pid, [("memory.max" if UNIFIED else "memory.limit_in_bytes",
                                          64 << 20)])
        self.loops = [subprocess.Popen(["bash", "-c", 'read -r; exec "$@"', "-", sys.executable,
                                        "-c", self.LOOP], stdin=subprocess.PIPE)
                      for _ in range(3)]
        for loop in self.loops:
            put(self.path + "/cgroup.procs", loop.pid)
            loop.stdin.write(b"\n")
            loop.stdin.close()

    def undo(self):
        for loop in self.loops:
            loop.kill()
            loop.wait()
        super().undo()
        subprocess.run(["swapoff", self.file.name], check=True)
        self.file.close()


class Writing:
    """Loops of the host that wait for its disk."""

    LOOP = "import os, sys; f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DSYNC)\n" \
           "while True: os.pwrite(f, bytes(4096), 0)"

    def __init__(self, pid):
        del pid
        self.folder = tempfile.TemporaryDirectory(prefix="muster-writing-", dir="/var/tmp")
        self.loops = [subprocess.Popen([sys.executable, "-c", self.LOOP,
                                        f"{self.folder.name}/{n}"]) for n in range(4)]

    def undo(self):
        for loop in self.loops:
            loop.kill()
            loop.wait()
        self.folder.cleanup()


class Frozen:
    """By the older freezer, which leaves it in state D."""

    def __init__(self, pid):
        self.path = f"{ROOT}/freezer/muster-fault-{pid}"
        os.makedirs(self.path)
        put(self.path + "/cgroup.procs", pid)
        put(self.path + "/freezer.state", "FROZEN")
        self.pid = pid

    def undo(self):
        put(self.path + "/freezer.state", "THAWED")
        put(ROOT + "/freezer/cgroup.procs", self.pid)
        os.rmdir(self.path)


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


class Drops:
    """Packets that go nowhere, on an interface of this host."""

    def __init__(self, pid):
        del pid
        self.name = f"muster{os.getpid() % 10000}"
        ip("link", "add", self.name, "type", "veth", "peer", "name", self.name + "p")
        ip("addr", "add", "10.99.77.1/24", "dev", self.name)
        ip("link", "set", self.name, "up")
        ip("link", "set", self.name + "p", "up")
        # What comes without a receiver's protocol is dropped where it arrives.
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind((self.name, 0))
            for _ in range(100):
                sender.send(b"\xff" * 12 + b"\x77\x77" + bytes(50))

    def undo(self):
        ip("link", "del", self.name)


def ip(*words):
    subprocess.run([os.environ.get("IP", "ip"), *words], check=True)


class Stopped:
    def __init__(self, pid):
        self.pid = pid
        os.kill(pid, signal.SIGSTOP)

    def undo(self):
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
