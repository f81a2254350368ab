"""A site of two hosts on one machine: recorded jobs played in two segment directories, an agent for each,
a real nats-server, workers."""

import json
import lzma
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HOSTS = ("nodeA", "nodeB")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def talk(port, login, *commands, until=b"PONG"):
    """What a server says, until it says `until`, to commands of its protocol, (line, payload) each, of
    USER:PASSWORD."""
    user, _, password = login.partition(":")
    who = {"verbose": False, **({"user": user, "pass": password} if login else {})}
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(f"CONNECT {json.dumps(who)}\r\n".encode())
        for command, payload in commands:
            line.sendall(command.encode() + (b"" if payload is None else b" %d\r\n" % len(payload) + payload) + b"\r\n")
        line.sendall(b"PING\r\n")
        said = b""
        while until not in said:
            chunk = line.recv(4096)
            if not chunk:
                break
            said += chunk
    return said


class StandInRas:
    """NCCL's RAS as its documentation describes it, on a port of its own; `report` is its JSON."""

    def __init__(self, report):
        self.report, self.heard, self.line = report, [], socket.create_server(("127.0.0.1", 0))
        self.where = f"127.0.0.1:{self.line.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.line.accept()
            except OSError:
                return
            with peer, peer.makefile("rwb") as file:
                for line in file:
                    self.heard.append(line.decode().strip())
                    said = self.answer(self.heard[-1].upper())
                    file.write(said.encode())
                    file.flush()
                    if self.heard[-1].upper() == "VERBOSE STATUS":
                        break

    def answer(self, asked):
        if asked.startswith("CLIENT PROTOCOL"):
            return "SERVER PROTOCOL 2\n"
        return "OK\n" if asked == "SET FORMAT JSON" else self.report if asked == "VERBOSE STATUS" else "ERROR\n"

    def close(self):
        self.line.close()


class SlowRelay:
    """A way to a server on this machine, on which its answers come `late_s` later than it gave them."""

    def __init__(self, port):
        self.late_s, self.server, self.line = 0, port, socket.create_server(("127.0.0.1", 0))
        self.ends = []
        self.url = f"nats://127.0.0.1:{self.line.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.line.accept()
                server = socket.create_connection(("127.0.0.1", self.server))
            except OSError:
                return
            answers = queue.Queue()
            self.ends += [client, server]
            for target, which in ((self.ask, (client, server)), (self.hear, (server, answers)),
                                  (self.answer, (answers, client))):
                threading.Thread(target=target, args=which, daemon=True).start()

    def chunks(self, source):
        try:
            while chunk := source.recv(65536):
                yield chunk
        except OSError:
            pass

    def ask(self, client, server):
        try:
            for chunk in self.chunks(client):
                server.sendall(chunk)
            server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def hear(self, server, answers):
        for chunk in self.chunks(server):
            answers.put((time.monotonic() + self.late_s, chunk))
        answers.put((0, b""))

    def answer(self, answers, client):
        while True:
            due, chunk = answers.get()
            time.sleep(max(0, due - time.monotonic()))
            try:
                client.sendall(chunk)
                if not chunk:
                    client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if not chunk:
                return

    def close(self):
        for end in [self.line, *self.ends]:
            end.close()


class OtherVersion(SlowRelay):
    """A way to a server on which an agent's messages become those of another wire version, while there is one."""

    def __init__(self, port, version):
        self.version = version
        super().__init__(port)

    def chunks(self, source):
        held = b""
        for chunk in super().chunks(source):
            chunk = held + chunk
            # What may be the first half of a magic number waits for the rest.
            end = next((n for n in (4, 3, 2, 1) if chunk.endswith(b"mflt"[:n])), 0)
            held = chunk[len(chunk) - end:]
            chunk = chunk[:len(chunk) - end]
            if self.version:
                chunk = re.sub(rb"mflt.", b"mflt" + bytes([self.version]), chunk, flags=re.S)
            if chunk:
                yield chunk


class Site:
    def __init__(self, muster, recordings, config="", scheme="nats", jetstream="", listen="127.0.0.1", disk=""):
        if not shutil.which("nats-server"):
            skip("no nats-server")
        self.muster, self.recordings, self.disk = muster, recordings, disk
        self.folder = tempfile.mkdtemp(prefix="muster-fleet-nats-")
        self.shm = {host: tempfile.mkdtemp(dir="/dev/shm", prefix="muster-fleet-") for host in HOSTS}
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "SLURM_"))}
        self.environment["MUSTER_HANG_SECONDS"] = "3"
        self.started, self.port = [], free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        with open(os.path.join(self.folder, "nats.conf"), "w", encoding="utf-8") as file:
            file.write(f'listen: "{listen}:{self.port}"\njetstream {{ store_dir: "{self.folder}/store"\n'
                       f'{jetstream} }}\n{config.replace("FOLDER", self.folder)}')
        if scheme == "tls":
            self.make_certificate()
        self.server = self.start_server()

    def make_certificate(self):
        """Of a server called 127.0.0.1, signed by itself."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        f"{self.folder}/key.pem", "-out", f"{self.folder}/cert.pem"], check=True, capture_output=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
            process.wait()
        for folder in [self.folder, *self.shm.values()]:
            shutil.rmtree(folder, ignore_errors=True)

    # ---- processes ----

    def enter(self, _host):
        """What stands before a command of a host."""
        return []

    def start(self, *command, log, host=None, **environment):
        added = {"MUSTER_SEGMENT_DIR": self.shm[host]} if host else {}
        command = [*self.enter(host), *command]
        with open(self.log_path(log), "a", encoding="utf-8") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out,
                                       env={**self.environment, **added, **environment})
        self.started.append(process)
        return process

    def start_server(self):
        command = ["nats-server", "-c", os.path.join(self.folder, "nats.conf")]
        if self.disk:  # a file system of its own, of so many bytes, that goes with the server
            os.makedirs(f"{self.folder}/store", exist_ok=True)
            mount = f"mount -t tmpfs -o size={self.disk} tmpfs {self.folder}/store && exec " + " ".join(command)
            command = ["unshare", "-m", "sh", "-c", mount]
        server = self.start(*command, log="server")
        self.until(lambda: self.answers(), "nats-server listens")
        return server

    def fill_disk(self):
        """Until nothing fits any more."""
        with open(f"/proc/{self.server.pid}/root{self.folder}/store/fill", "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                pass

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def agent(self, host, *more, url=None):
        process = self.start(self.muster, "agent", "--own", "--listen", "127.0.0.1:0", "--nats", url or self.url,
                             *more, log=f"agent-{host}", host=host)
        self.until(lambda: "metrics" in self.log(f"agent-{host}") or process.poll() is not None,
                   "the agent serves")
        if "knows no NATS" in self.log(f"agent-{host}"):
            skip("this build knows no NATS")
        return process

    def worker(self, name, *more, url=None, **environment):
        return self.start(self.muster, "fleet", "--nats", url or self.url, "--listen", "127.0.0.1:0", *more, log=name,
                          **environment)

    def play(self, recording, run, hold, hosts=HOSTS):
        """Ranks 0 and 1 on the first host, the others on the second; or all four on one. Each run reads files of its
        own: a run that starts must not rewrite what an earlier one still reads."""
        played, each = [], 4 // len(hosts)
        for side, host in enumerate(hosts):
            folder = os.path.join(self.folder, "played", run, host)
            os.makedirs(folder, exist_ok=True)
            for rank in range(each * side, each * (side + 1)):
                self.copy(recording, rank, host, folder)
            played.append(self.start(self.muster, "replay", folder, "--hold", str(hold), "--dir",
                                     os.path.join(self.folder, run), log=f"replay-{host}", host=host))
        return played

    def copy(self, recording, rank, host, folder):
        source = os.path.join(self.recordings, recording, f"rank-{rank}.jsonl.xz")
        with lzma.open(source, "rt") as lines, \
                open(os.path.join(folder, f"rank-{rank}.jsonl"), "w", encoding="utf-8") as out:
            meta = json.loads(next(lines))
            meta["host"] = host
            out.write(json.dumps(meta) + "\n")
            shutil.copyfileobj(lines, out)

    # ---- what they say ----

    def log_path(self, name):
        return os.path.join(self.folder, name + ".txt")

    def log(self, name):
        try:
            with open(self.log_path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def until(self, true, what, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = true()
            if found:
                return found
            time.sleep(0.05)
        logs = "".join(f"--- {name}\n{self.log(name[:-4])}" for name in sorted(os.listdir(self.folder))
                       if name.endswith(".txt"))
        raise AssertionError(f"{what}: not within {seconds} s\n{logs}")

    def until_log(self, name, pattern, seconds=60):
        return self.until(lambda: re.search(pattern, self.log(name)), f"{name} says {pattern}", seconds)

    def told(self, name):
        """Kinds and ranks that a worker named, in order."""
        return re.findall(r": (\w+): rank (\d+)", self.log(name))

    def diagnose(self, job, *more):
        return subprocess.run([self.muster, "diagnose", "--fleet", job, "--nats", self.url, *more],
                              capture_output=True, text=True, timeout=60, env=self.environment)

    def top(self, job, *more):
        return subprocess.run([self.muster, "top", "--fleet", job, "--nats", self.url, "--once", *more],
                              capture_output=True, text=True, timeout=60, env=self.environment)

    def page(self, name):
        import urllib.request
        where = self.until_log(name, r"(http://\S+/metrics)")[1]
        with urllib.request.urlopen(where, timeout=10) as answer:
            return answer.read().decode()

    def operations(self, name):
        """Of each rank that an agent sees: how many are over."""
        counts = re.findall(r'^muster_operations_total{[^}]*rank="(\d+)"[^}]*} (\d+)$', self.page(name), re.M)
        return {int(rank): int(count) for rank, count in counts}

    def recorded(self, recording, rank):
        """How many collectives a recording has of a rank."""
        with lzma.open(os.path.join(self.recordings, recording, f"rank-{rank}.jsonl.xz"), "rt") as lines:
            return sum('"type":2,' in line and '"op":"start"' in line for line in lines)

    @staticmethod
    def end(process, how=signal.SIGTERM):
        process.send_signal(how)
        return process.wait(20)
