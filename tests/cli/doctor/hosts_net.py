"""Hosts of a network of the test's own: a namespace each, joined by a relay in this process that drops
what it is told to. Needs root and /dev/net/tun; needs neither netem nor iptables nor a bridge."""

import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import threading

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454ca, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
ETHERNET = 14


def reason_not_to_run():
    """Why there can be no such network here; None: there can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "no /dev/net/tun"
    done = subprocess.run(["unshare", "-n", "ip", "tuntap", "add", "t0", "mode", "tap"],
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no namespaces or taps: {done.stderr.strip()}"


def open_tap(namespace):
    """The far end of eth0 in a namespace. Made by a thread of its own, which stays there."""
    result = {}

    def work():
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{namespace}", encoding="ascii") as file:
            if libc.setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", b"eth0", IFF_TAP | IFF_NO_PI))
        result["tap"] = tap

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result["tap"]


class Network:
    """hosts: names and addresses, {"a": "10.77.0.1/24"}."""

    def __init__(self, hosts, mtu=1500, routes=()):
        self.prefix = f"mt{os.getpid()}"
        self.names = list(hosts)
        self.drops = []  # functions of (from, to, frame): True where it is lost
        self.random = random.Random(7)
        self.taps = {}
        for name, address in hosts.items():
            space = self.space(name)
            self.ip("netns", "add", space)
            self.taps[open_tap(space)] = name
            self.ip("-n", space, "addr", "add", address, "dev", "eth0")
            self.ip("-n", space, "link", "set", "eth0", "mtu", str(mtu), "txqueuelen", "10000", "up")
            self.ip("-n", space, "link", "set", "lo", "up")
            for route in routes:
                self.ip("-n", space, "route", "replace", route, "dev", "eth0")
        self.stop, self.stopped = os.pipe()
        self.thread = threading.Thread(target=self.relay)
        self.thread.start()

    def space(self, name):
        return f"{self.prefix}{name}"

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def set_mtu(self, name, mtu):
        self.ip("-n", self.space(name), "link", "set", "eth0", "mtu", str(mtu))

    def relay(self):
        """Every frame goes to all others, as over a hub: hosts drop what is not theirs."""
        while True:
            ready, _, _ = select.select([*self.taps, self.stop], [], [])
            if self.stop in ready:
                return
            for tap in ready:
                for _ in range(64):
                    try:
                        frame = os.read(tap, 65536)
                    except BlockingIOError:
                        break
                    self.pass_on(tap, frame)

    def pass_on(self, tap, frame):
        for other, name in self.taps.items():
            if other == tap or any(drop(self.taps[tap], name, frame) for drop in self.drops):
                continue
            try:
                os.write(other, frame)
            except OSError:
                pass  # too long for that host, or it is down

    # ---- what may be lost ----

    def close_ports(self, host, low, high):
        """A firewall before a host: new connections to these ports get no answer."""
        def drop(_, to, frame):
            ip_head = ETHERNET + (frame[ETHERNET] & 15) * 4
            if to != host or frame[12:14] != b"\x08\x00" or frame[23] != 6:
                return False
            port, flags = struct.unpack_from("!H", frame, ip_head + 2)[0], frame[ip_head + 13]
            return low <= port <= high and flags & 0x12 == 0x02
        self.drops.append(drop)

    def close_pair(self, one, other):
        """Nothing between two hosts."""
        self.drops.append(lambda a, b, frame: {a, b} == {one, other})

    def narrow(self, one, other, largest):
        """Frames between two hosts that are longer than a switch takes vanish."""
        self.drops.append(lambda a, b, frame: {a, b} == {one, other}
                          and len(frame) > largest + ETHERNET)

    def lose(self, one, other, part):
        """A bad cable: this part of all IP packets."""
        self.drops.append(lambda a, b, frame: {a, b} == {one, other}
                          and frame[12:14] == b"\x08\x00" and self.random.random() < part)

    def close(self):
        os.write(self.stopped, b".")
        self.thread.join()
        for tap in self.taps:
            os.close(tap)
        for name in self.names:
            self.ip("netns", "del", self.space(name))
        os.close(self.stop)
        os.close(self.stopped)
