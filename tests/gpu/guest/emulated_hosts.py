"""Hosts that are network and UTS namespaces of this machine. Host k has 198.18.k.2 on mhk, and reaches the others
by 198.18.k.1 on mvk, which lies in the namespace of who made it.
"""
import os
import subprocess
import sys

INSIDE = "MUSTER_TEST_IN_NAMESPACE"


def be_alone(path, arguments):
    """Starts the program anew in a network namespace of its own, once."""
    if INSIDE not in os.environ:
        os.execvpe("unshare", ["unshare", "-n", sys.executable, "-B", os.path.abspath(path), *arguments],
                   {**os.environ, INSIDE: "1"})
    run("ip link set lo up")


def run(command, *before):
    subprocess.run([*before, *command.split()], check=True)


def forward():
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1")


def enter(holder):
    """What runs a command on the host whose namespaces the process holds."""
    return ["nsenter", "-t", str(holder.pid), "-n", "-u"]


def disconnect(k):
    """Also where there is no host k."""
    subprocess.run(["ip", "link", "del", "mv%d" % k], check=False, capture_output=True)


def connect(k, name, holder):
    for command in ("ip link add mv%d type veth peer name mh%d" % (k, k),
                    "ip link set mh%d netns %d" % (k, holder.pid),
                    "ip addr add 198.18.%d.1/24 dev mv%d" % (k, k), "ip link set mv%d up" % k):
        run(command)
    for command in ("hostname " + name, "ip addr add 198.18.%d.2/24 dev mh%d" % (k, k),
                    "ip link set mh%d up" % k, "ip link set lo up", "ip route add default via 198.18.%d.1" % k):
        run(command, *enter(holder))
