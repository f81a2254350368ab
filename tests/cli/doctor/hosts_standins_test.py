"""muster doctor --hosts under launchers that are not here: stand-ins of torchrun and kubectl that give their
processes the variables, arguments, streams and endings that the real ones give.
Usage: hosts_standins_test.py MUSTER"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from free_ports import two_free_ports

MUSTER = os.path.abspath(sys.argv.pop(1))
KEPT = {k: v for k, v in os.environ.items()
        if not k.startswith(("NCCL", "MASTER_", "SLURM_", "OMPI_", "PMI", "WORLD_", "RANK", "LOCAL_", "TORCH"))}

# One agent a node. Node 0's holds the store's port; workers get these variables and no others of the job, share
# the agent's output, or with --tee write lines that the agent passes on behind "[default0]:". Where one fails the
# others are ended, and the agent says so and ends with 1.
TORCHRUN = '''#!{python}
import argparse, os, signal, socket, subprocess, sys, threading
args = argparse.ArgumentParser()
for name, kind in (("nnodes", int), ("node-rank", int), ("nproc-per-node", int), ("master-port", int), ("tee", int)):
    args.add_argument("--" + name, type=kind, default=0)
args.add_argument("--master-addr")
args.add_argument("--no-python", action="store_true")
args.add_argument("command", nargs=argparse.REMAINDER)
given = args.parse_args()
assert given.no_python, "a program that is not Python's needs --no-python"
store = socket.socket()
if given.node_rank == 0:
    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    store.bind(("", given.master_port))
    store.listen()
workers = []
lock = threading.Lock()
def pass_on(worker, number):
    for line in worker.stdout:
        with lock:
            sys.stdout.write("[default%d]:%s" % (number, line))
            sys.stdout.flush()
for local in range(given.nproc_per_node):
    rank = given.node_rank * given.nproc_per_node + local
    env = dict(os.environ, RANK=str(rank), GROUP_RANK=str(given.node_rank), ROLE_RANK=str(rank),
               ROLE_NAME="default", LOCAL_RANK=str(local), LOCAL_WORLD_SIZE=str(given.nproc_per_node),
               WORLD_SIZE=str(given.nnodes * given.nproc_per_node), GROUP_WORLD_SIZE=str(given.nnodes),
               ROLE_WORLD_SIZE=str(given.nnodes * given.nproc_per_node), MASTER_ADDR=given.master_addr,
               MASTER_PORT=str(given.master_port), TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0",
               TORCHELASTIC_RUN_ID="none", TORCHELASTIC_USE_AGENT_STORE="True", TORCH_NCCL_ASYNC_ERROR_HANDLING="1")
    env.setdefault("OMP_NUM_THREADS", "1")
    workers.append(subprocess.Popen(given.command, env=env, text=True,
                                    stdout=subprocess.PIPE if given.tee else None))
passing = [threading.Thread(target=pass_on, args=(worker, i)) for i, worker in enumerate(workers) if given.tee]
for thread in passing:
    thread.start()
failed = 0
for worker in workers:
    if worker.wait() and not failed:
        failed = worker.returncode
        for other in workers:
            other.send_signal(signal.SIGTERM) if other.poll() is None else None
for thread in passing:
    thread.join()
if failed:
    sys.stderr.write("torch.distributed.elastic.multiprocessing.errors.ChildFailedError\\n")
sys.exit(1 if failed else 0)
'''

# kubectl exec [-i] [-c NAME] POD -- COMMAND: the pod's own environment, bytes in pieces of any size, output and
# errors apart, a word about the container on its own errors, the command's exit status. An older server does not
# hear that the input has ended.
KUBECTL = '''#!{python}
import os, subprocess, sys, threading
words = sys.argv[1:]
assert words.pop(0) == "exec", "kubectl exec"
interactive = "-i" in words
at = words.index("--")
pod, command = [word for word in words[:at] if not word.startswith("-")][0], words[at + 1:]
if pod == "missing":
    sys.exit('Error from server (NotFound): pods "missing" not found')
sys.stderr.write('Defaulted container "main" out of: main, sidecar\\n')
process = subprocess.Popen(command, stdin=subprocess.PIPE if interactive else subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=dict(PATH=os.environ["PATH"], HOSTNAME=pod, NCCL_HOSTID=pod,
                                    KUBERNETES_SERVICE_HOST="10.96.0.1"))
def copy(source, to, most, ends):
    while True:
        piece = os.read(source, most)
        if not piece:
            break
        while piece:
            try:
                piece = piece[os.write(to, piece):]
            except OSError:
                return
    if ends:
        os.close(to)
threads = [threading.Thread(target=copy, daemon=True, args=(process.stdout.fileno(), 1, 1000, False)),
           threading.Thread(target=copy, daemon=True, args=(process.stderr.fileno(), 2, 7, False))]
for thread in threads:
    thread.start()
if interactive:
    hears = "STANDIN_OLD_SERVER" not in os.environ
    threading.Thread(target=copy, daemon=True, args=(0, process.stdin.fileno(), 333, hears)).start()
status = process.wait()
for thread in threads:
    thread.join(5)
if status:
    sys.stderr.write("command terminated with exit code %d\\n" % status)
sys.stderr.flush()
os._exit(status if status >= 0 else 128 - status)
'''


class Standins(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "bin").mkdir()
        (self.root / "work").mkdir()
        for name, text in (("torchrun", TORCHRUN), ("kubectl", KUBECTL)):
            path = self.root / "bin" / name
            path.write_text(text.replace("{python}", sys.executable))
            path.chmod(0o755)
        self.env = {**KEPT, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}

    def sound(self, text, hosts, each=1):
        report = json.loads(text)
        checks = {check["id"]: check for check in report["checks"]}
        self.assertEqual(checks["hosts.reports"]["found"],
                         f"{hosts} hosts" + (f", {hosts * each} processes" if each > 1 else ""))
        self.assertEqual(checks["hosts.reach"]["found"], f"{hosts * (hosts - 1)} pairs")
        self.assertEqual([host["missing"] for host in report["hosts"]], [None] * hosts * each)
        return report

    def torchrun(self, nodes, each, *options, args=(), port=None, **env):
        """What the agent of each node printed, and how it ended."""
        port = port or two_free_ports()
        agents = [subprocess.Popen(
            ["torchrun", "--nnodes", str(nodes), "--node-rank", str(node), "--nproc-per-node", str(each),
             "--master-addr", "127.0.0.1", "--master-port", str(port), *options, "--no-python", MUSTER, "doctor",
             "--hosts", "--quick", "--format", "json", *args], cwd=self.root / "work",
            env={**self.env, "NCCL_HOSTID": f"node{node}", **{k: v.format(node) for k, v in env.items()}},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for node in range(nodes)]
        return [(*agent.communicate(timeout=200), agent.returncode) for agent in agents]

    def test_a_worker_a_node(self):
        done = self.torchrun(2, 1)
        report = self.sound(done[0][0], 2)
        self.assertEqual([host["rank"] for host in report["hosts"]], [0, 1])
        self.assertEqual(done[1][0], "")
        self.assertEqual(os.listdir(self.root / "work"), [])

    def test_several_workers_a_node(self):
        """The first of each node speaks for it."""
        report = self.sound(self.torchrun(2, 3)[0][0], 2, 3)
        self.assertEqual([host["rank"] for host in report["hosts"]], list(range(6)))

    def test_in_a_task_of_slurms(self):
        """srun starts torchrun, whose workers all inherit the numbers of its one task."""
        slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "{}", "SLURM_LOCALID": "0",
                 "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2", "SLURM_JOB_NUM_NODES": "2"}
        report = self.sound(self.torchrun(2, 2, **slurm)[0][0], 2, 2)
        self.assertEqual([host["rank"] for host in report["hosts"]], list(range(4)))

    def test_in_a_folder_that_all_see(self):
        self.sound(self.torchrun(2, 2, args=("--share", str(self.root / "work")))[0][0], 2, 2)
        self.assertEqual(os.listdir(self.root / "work"), [])

    def test_lines_behind_a_prefix(self):
        """--tee 3: rank 0's alone, whole."""
        done = self.torchrun(2, 2, "--tee", "3")
        lines = done[0][0].splitlines()
        self.assertEqual({line[:11] for line in lines}, {"[default0]:"})
        self.sound("\n".join(line[11:] for line in lines), 2, 2)

    def kubectl(self, *pods, words="exec -i {} --", **env):
        return subprocess.run([MUSTER, "doctor", "--hosts", "--quick", "--format", "json", "--with",
                               "kubectl " + words, *pods], cwd=self.root / "work", env={**self.env, **env},
                              capture_output=True, text=True, timeout=200, check=False)

    def test_pods(self):
        done = self.kubectl("worker-0", "worker-1", "worker-2")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = self.sound(done.stdout, 3)
        self.assertEqual([host["host"] for host in report["hosts"]], ["worker-0", "worker-1", "worker-2"])

    def test_pods_of_an_older_server(self):
        """Members end although nobody tells them that nothing more comes."""
        self.sound(self.kubectl("worker-0", "worker-1", STANDIN_OLD_SERVER="1").stdout, 2)

    def test_another_container(self):
        self.sound(self.kubectl("worker-0", "worker-1", words="exec -i -c=main {} --").stdout, 2)

    def test_a_pod_that_is_not_there(self):
        done = self.kubectl("worker-0", "missing")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        reports = [check for check in report["checks"] if check["id"] == "hosts.reports"][0]
        self.assertIn('pods "missing" not found', reports["evidence"][0])

    def test_without_an_input(self):
        """kubectl exec without -i: the members hear nothing."""
        done = self.kubectl("worker-0", "worker-1", words="exec {} --")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not report", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
