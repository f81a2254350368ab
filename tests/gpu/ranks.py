"""One process per GPU of a script, for the tests beside this file."""
import functools
import os
import signal
import socket
import subprocess
import sys
import time


def hold_port():
    """(socket, port): nobody else is given that port, or binds it, while the socket is open, but who lets others use
    its address (SO_REUSEADDR) may listen there, as torch's store does. Ranks come to it seconds later."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held, held.getsockname()[1]


@functools.lru_cache
def gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    except OSError:
        return 0
    return len(listed.stdout.splitlines()) if listed.returncode == 0 else 0


ONE_FOR_ALL = "NCCL_MULTI_RANK_GPU_ENABLE"  # NCCL from 2.30 on: several ranks on one GPU


def can_share(library):
    """Whether this libnccl lets ranks use one GPU."""
    with open(library, "rb") as file:
        return ONE_FOR_ALL[len("NCCL_"):].encode() in file.read()


def have_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0


def on_host_of_its_own(rank):
    """What lets any NCCL's ranks share a GPU, a process each: hosts that are emulated, and sockets between."""
    return {"LOCAL_RANK": "0", "NODE_RANK": str(rank), "NCCL_HOSTID": "host%d" % rank, "NCCL_NET": "Socket",
            "NCCL_SOCKET_IFNAME": "lo"}


def environment_of(rank, n, port, changes):
    """What one of n ranks sees: this process's environment less muster, then the changes. With one GPU each is on an
    emulated host, but where the changes let ranks share it otherwise."""
    env = {k: v for k, v in os.environ.items()
           if k != "NCCL_PROFILER_PLUGIN" and not k.startswith("MUSTER_")}
    env.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n),
               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if n > 1 and gpus() == 1 and ONE_FOR_ALL not in changes:
        env.update(on_host_of_its_own(rank))
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return env


def run(arguments, n, environment, timeout_s):
    """Runs `python3 ARGUMENTS` n times with RANK and so on; NAME=None in environment unsets. Returns
    rank 0's standard output; raises RuntimeError with the last words of those that failed."""
    held, port = hold_port()
    with held:
        return _run(arguments, [environment_of(rank, n, port, environment) for rank in range(n)], timeout_s)


def _run(arguments, environments, timeout_s):
    ranks = [subprocess.Popen([sys.executable, *arguments], text=True, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
             for environment in environments]
    end, out, bad = time.monotonic() + timeout_s, [], []
    for rank, process in enumerate(ranks):
        try:
            output, errors = process.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            errors += "\nkilled after %d s" % timeout_s
        out.append(output)
        if process.returncode != 0:
            end = min(end, time.monotonic() + 5)  # the others wait for this one
            bad.append("rank %d (status %d): %s" % (
                rank, process.returncode, " | ".join(errors.strip().splitlines()[-6:])))
    if bad:
        raise RuntimeError("\n".join(bad))
    return out[0]
