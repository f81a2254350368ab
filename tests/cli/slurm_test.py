"""Steps of Slurm that are recorded because their user asks for it: `srun --muster`, TaskProlog; and the agents that
nodes have while they have jobs. The controller and the nodes are real, NCCL is the stand-in.
usage: slurm_test.py MUSTER STEERED [unittest options]; STEERED: tests/host/steered.c"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.dont_write_bytecode = True
from started import SLURM, Cluster, answers, free_port, reason_not_to_start, wait_for  # noqa: E402

MUSTER = STEERED = SPANK = None
PROLOG = pathlib.Path(__file__).parents[2] / "config" / "slurm" / "muster-taskprolog.sh"
AGENT_PROLOG = PROLOG.with_name("muster-agent.sh")


class Step(Cluster):
    """One of two tasks, each a rank on a node of its own."""

    def srun(self, *options, job, **env):
        done = subprocess.run(["srun", "-N2", "--ntasks-per-node=1", *options, *job], env={**self.env, **env},
                              cwd=self.root, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines(), done.stderr

    def run_ranks(self, *options, **env):
        """As NCCL, which loads no profiler where none is named."""
        self.srun(*options, job=["sh", "-c", "[ -z \"$NCCL_PROFILER_PLUGIN\" ] || "
                                 "STEERED_RANK=$SLURM_PROCID exec \"$0\" 2 5", STEERED], **env)

    def expect_recorded(self, pattern, job):
        run, = self.root.glob(pattern)
        done = subprocess.run([MUSTER, "report", run, "--format", "json"], env=self.env, capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = json.loads(done.stdout)["ranks"]
        self.assertEqual([(rank["rank"], rank["ops"], rank["exit"]) for rank in ranks],
                         [(0, 20, "finalized"), (1, 20, "finalized")])
        for rank in ranks:
            self.assertEqual(rank["slurm"], {"job": job, "step": "0"})

    def variables(self, *options):
        return self.srun(*options, job=["sh", "-c", "env | grep -E '^(NCCL_PROFILER_PLUGIN|MUSTER_TIMING|"
                                        "LD_LIBRARY_PATH)=' || true"])


class Spank(Step):
    """The option of srun, in slurmstepd's own process."""

    def more(self):
        return f"PlugStackConfig={self.stack}\n"

    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.stack = folder / "plugstack.conf"
        self.stack.write_text(f"optional {SPANK} script={PROLOG} command={MUSTER}\n")
        super().setUp()

    def test_tasks_get_what_the_option_says(self):
        lines, _ = self.variables()
        self.assertFalse([line for line in lines if "muster" in line.lower()], lines)
        lines, _ = self.variables("--muster")
        plugin = [line for line in lines if line.startswith("NCCL_PROFILER_PLUGIN=")]
        self.assertEqual(len(plugin), 2, lines)
        self.assertTrue(all(line.endswith("libnccl-profiler-muster.so") for line in plugin))
        lines, _ = self.variables("--muster=--timing light")
        self.assertEqual(lines.count("MUSTER_TIMING=light"), 2, lines)

    def test_what_goes_wrong_is_said_and_the_task_runs(self):
        self.stack.write_text(f"optional {SPANK} script=/nowhere/prolog.sh\n")
        lines, err = self.variables("--muster")
        self.assertFalse([line for line in lines if "muster" in line.lower()])
        self.assertIn("muster: not recorded: /nowhere/prolog.sh: No such file", err)

    def test_a_step_with_the_option_is_recorded(self):
        self.run_ranks("--muster")
        self.expect_recorded("muster-1.0", job="1")


class TaskProlog(Step):
    """In a process of its own before each task."""

    def more(self):
        return f"TaskProlog={PROLOG}\n"

    def test_a_step_is_recorded_where_its_user_asks_for_it(self):
        self.run_ranks(WITH_MUSTER_COMMAND=MUSTER)
        self.assertEqual(list(self.root.glob("muster-*")), [])
        self.run_ranks(WITH_MUSTER="--timing light --dir runs/42", WITH_MUSTER_COMMAND=MUSTER)
        self.expect_recorded("runs/42", job="2")

    def test_a_step_runs_without_a_muster_on_its_node(self):
        self.run_ranks(WITH_MUSTER="1", WITH_MUSTER_COMMAND="/nowhere/muster")
        self.assertEqual(list(self.root.glob("muster-*")), [])


class AgentProlog(Step):
    """An agent on each node that has a job."""

    def more(self):
        # both nodes are this machine: what is one's on a node is one's of a node here
        wrapper = self.root / "prolog.sh"
        self.port = {node: free_port() for node in ("n1", "n2")}
        ports = "\n".join(f"{node}) port={port} ;;" for node, port in self.port.items())
        wrapper.write_text(f"#!/bin/sh\ncase $SLURMD_NODENAME in\n{ports}\nesac\n"
                           f"export MUSTER_AGENT_COMMAND={MUSTER} MUSTER_AGENT_STATE={self.root}/agent.$SLURMD_NODENAME\n"
                           "export MUSTER_AGENT_OPTIONS=\"--all --listen 127.0.0.1:$port\"\n"
                           f"exec {AGENT_PROLOG}\n")
        wrapper.chmod(0o755)
        return f"Prolog={wrapper}\nEpilog={wrapper}\nPrologFlags=Alloc\n"

    def end_agents(self):
        """Of a job that never ended, whose epilog never ran."""
        for pid in self.root.glob("agent.*/pid"):
            try:
                os.kill(int(pid.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def page(self, node):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port[node]}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def test_nodes_have_an_agent_as_long_as_they_have_a_job(self):
        job = subprocess.Popen(["srun", "-N2", "--ntasks-per-node=1", "sh", "-c",
                                "n=0; until [ -e enough ] || [ $n = 1200 ]; do sleep 0.1; n=$((n + 1)); done"],
                               env=self.env, cwd=self.root)
        self.addCleanup(self.end_agents)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        for node in self.port:
            wait_for(f"the agent of {node}", lambda node=node: "muster_rank_info" in self.page(node))
        (self.root / "enough").touch()
        self.assertEqual(job.wait(timeout=120), 0)
        for node in self.port:
            wait_for(f"the end of {node}'s agent", lambda node=node: not answers(self.port[node]))
        wait_for("two idle nodes, none of them drained", self.idle)


if __name__ == "__main__":
    MUSTER, STEERED = (os.path.realpath(path) for path in sys.argv[1:3])
    SPANK = os.path.realpath(os.path.join(os.path.dirname(MUSTER), "..", "slurm", "spank_muster.so"))
    WHY_NOT = reason_not_to_start(SLURM)
    if not WHY_NOT and not os.path.exists(SPANK):
        WHY_NOT = "srun --muster is not built: no slurm/spank.h"
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
