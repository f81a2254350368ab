"""Jobs with a policy: started, compared between ranks, tuned.

usage: steer_test.py MUSTER STEERED [unittest options]; STEERED: tests/host/steered.c
"""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
from clean import CleanCase  # noqa: E402

MUSTER = STEERED = None

RING_LL = """muster: 1
policy:
- name: small
  match: {collective: all_reduce, bytes: "<=64KiB"}
  prefer: {algo: ring, proto: ll}
"""
TREE = """muster: 1
policy:
- name: tree
  match: {collective: all_reduce}
  prefer: {algo: tree}
"""
NO_EFFECT = """muster: 1
policy:
- name: nvls
  match: {collective: all_reduce}
  prefer: {algo: nvls}
"""


class Case(CleanCase):
    def muster(self, *args, env=None, **how):
        return subprocess.run([MUSTER, *args], env=self.env(**(env or {})), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              cwd=self.folder.name, timeout=120, check=False, **how)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def diagnose(self, run):
        done = self.muster("diagnose", run, "--format", "json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return [f for f in json.loads(done.stdout)["findings"] if f["kind"] == "policy_divergence"]

    def choices(self, run):
        report = self.muster("report", run, "--format", "json")
        self.assertEqual(report.returncode, 0, report.stderr)
        return {(op["func"], op["size"]): (op["algo"], op["proto"], op["channels"], op["count"])
                for op in json.loads(report.stdout)["ops"]}, json.loads(report.stdout)["gaps"]


class Run(Case):
    def test_a_policy_steers_every_rank_and_nothing_else(self):
        self.write("p.yaml", RING_LL)
        plain = self.muster("run", "-n", "--timing", "channels", "-d", "plain", "--", STEERED, "3", "20")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        done = self.muster("run", "-q", "-n", "--timing", "channels", "-d", "out", "--policy", "p.yaml", "--",
                           STEERED, "3", "20")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        before, _ = self.choices("plain")
        after, gaps = self.choices("out")
        self.assertEqual(set(before), set(after))
        for op, choice in after.items():
            small = op[0] == "AllReduce" and op[1] <= 4096
            self.assertEqual(choice[:2], ("ring", "ll" if small else "simple"), op)
            self.assertEqual(choice[3], 60)
            self.assertTrue(small or choice == before[op])
        self.assertEqual([g for g in gaps if "tuner" in g], [])
        self.assertEqual(self.diagnose("out"), [])
        kept = glob.glob(os.path.join(self.folder.name, "out", "policy-*.yaml"))
        self.assertEqual(len(kept), 1)
        self.assertRegex(os.path.basename(kept[0]), r"^policy-[0-9a-f]{8}\.yaml$")
        with open(kept[0], encoding="ascii") as file:
            self.assertEqual(file.read(), RING_LL)
        self.assertEqual(os.stat(kept[0]).st_mode & 0o777, 0o600)

    def test_a_policy_with_errors_starts_nothing(self):
        self.write("p.yaml", "muster: 1\npolicy:\n- {name: a, match: {byts: 1}, leave: true}\n"
                             "- {name: a, prefer: {algo: rig}}\n")
        done = self.muster("run", "--policy", "p.yaml", "--", "echo", "hello")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"p\.yaml:3:\d+: error: unknown key 'byts'")
        self.assertRegex(done.stderr, r"p\.yaml:4:\d+: error: .*'rig'")
        self.assertEqual(self.muster("run", "--policy", "no.yaml", "--", "true").returncode, 2)

    def test_a_policy_that_does_not_fit_the_environment_is_refused_with_advice(self):
        rules = "".join(f"- {{name: rule-number-{i}, match: {{bytes: {i}}}, channels: 2}}\n"
                        for i in range(2500))
        self.write("p.yaml", "muster: 1\npolicy:\n" + rules)
        done = self.muster("run", "--policy", "p.yaml", "--", "echo", "hello")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"96 KiB.*MUSTER_CONFIG.*MUSTER_POLICY_SHA256=[0-9a-f]{64}")

    def test_another_hash_than_expected_starts_nothing(self):
        self.write("p.yaml", RING_LL)
        done = self.muster("run", "--policy", "p.yaml", "--", "echo", "hello",
                           env={"MUSTER_POLICY_SHA256": "00"})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("MUSTER_POLICY_SHA256 is 00", done.stderr)

    def test_the_tuner_is_loaded_only_with_a_policy(self):
        self.write("p.yaml", RING_LL)
        self.write("none.yaml", "muster: 1\npolicy: []\n")
        self.write("config.yaml", "muster: 1\ncapture:\n  timing: light\n")
        for options, env, loaded in (
                ((), {}, False), (("--policy", "p.yaml"), {}, True),
                (("--policy", "none.yaml"), {}, False), (("--config", "p.yaml"), {}, True),
                (("--config", "config.yaml"), {}, False),
                ((), {"MUSTER_POLICY_INLINE": RING_LL}, True),
                ((), {"MUSTER_CONFIG": "p.yaml"}, True)):
            done = self.muster("run", "-n", *options, "--", "env", env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("NCCL_TUNER_PLUGIN=libnccl-profiler-muster.so" in done.stdout, loaded,
                             (options, env))
        done = self.muster("run", "-n", "--policy", "p.yaml", "--", "true",
                           env={"NCCL_TUNER_PLUGIN": "other.so"})
        self.assertIn("NCCL_TUNER_PLUGIN=other.so is replaced", done.stderr)

    def test_env_prints_the_policy_for_a_shell(self):
        self.write("p.yaml", "# it's one\n" + RING_LL)
        done = subprocess.run(["sh", "-c", f"eval \"$('{MUSTER}' env --policy p.yaml)\"; "
                               'printf "%s|%s" "$NCCL_TUNER_PLUGIN" "$MUSTER_POLICY_INLINE"'],
                              env=self.env(), cwd=self.folder.name, stdout=subprocess.PIPE,
                              text=True, check=True, timeout=60)
        tuner, text = done.stdout.split("|", 1)
        self.assertEqual(tuner, "libnccl-profiler-muster.so")
        self.assertEqual(text.rstrip("\n"), ("# it's one\n" + RING_LL).rstrip("\n"))

    def test_a_tuner_that_nccl_did_not_load_is_said(self):
        self.write("p.yaml", RING_LL)
        done = self.muster("run", "-d", "out", "--policy", "p.yaml", "--", "env",
                           "-u", "NCCL_TUNER_PLUGIN", STEERED, "2", "10")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("in 2 of 2 processes NCCL loaded no tuner", done.stderr)
        _, gaps = self.choices("out")
        self.assertEqual(len([g for g in gaps if "loaded no tuner" in g]), 1, gaps)


class Divergence(Case):
    def job(self, run, *, first, second, ranks="2", hold=False, host="here"):
        env = self.env(STEERED_POLICY_1=second, NCCL_HOSTID="here", STEERED_HOST_1=host,
                       **({"STEERED_HOLD": "1"} if hold else {}))
        self.write("p.yaml", first)
        return subprocess.Popen([MUSTER, "run", "-n", "-d", run, "--policy", "p.yaml", "--", STEERED,
                                 ranks, "20"], env=env, cwd=self.folder.name, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def test_operations_that_two_ranks_chose_differently_are_found(self):
        job = self.job("out", first=RING_LL, second=TREE)
        out, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, out + err)
        found = self.diagnose("out")
        self.assertEqual(len(found), 1)
        self.assertEqual(sorted(found[0]["ranks"]), [0, 1])
        self.assertLessEqual(found[0]["confidence"], 0.5)
        self.assertEqual(found[0]["op"]["func"], "AllReduce")
        self.assertRegex("\n".join(found[0]["evidence"]), "tree/ll on 8 channels on rank 1")
        self.assertIn("muster run --policy", found[0]["advice"])

    def test_the_minority_is_named_even_without_an_effect(self):
        job = self.job("out", first=RING_LL, second=RING_LL + "# another text\n", ranks="3")
        self.assertEqual(job.wait(60), 0)
        job.communicate()
        found = self.diagnose("out")
        self.assertEqual([f["ranks"] for f in found], [[1]])
        self.assertIsNone(found[0]["op"])

    def test_logs_alone_tell(self):
        job = self.job("out", first=NO_EFFECT, second=NO_EFFECT + "# another text\n", ranks="3")
        self.assertEqual(job.wait(60), 0)
        job.communicate()
        for path in glob.glob(os.path.join(self.folder.name, "out", "*.seg")):
            os.unlink(path)
        self.assertEqual([f["ranks"] for f in self.diagnose("out")], [[1]])

    def live(self, **policies):
        """Seconds from the last segment's appearance to the finding, and the finding."""
        job = self.job("out", hold=True, **policies)
        found, complete = [], None
        try:
            deadline = time.monotonic() + 60
            while not found and time.monotonic() < deadline and job.poll() is None:
                if complete is None and len(glob.glob(
                        os.path.join(self.folder.name, "out", "*.log"))) == 3:
                    complete = time.monotonic()
                for path in glob.glob(os.path.join(self.folder.name, "out", "*.findings.jsonl")):
                    with open(path, encoding="utf-8") as file:
                        found += [json.loads(line) for line in file if line.endswith("\n")]
                time.sleep(0.02)
            self.assertIsNotNone(complete, "three logs never were there")
            took = time.monotonic() - complete
        finally:
            _, err = job.communicate("")
        return took, found, err

    def test_a_job_tells_while_it_lives(self):
        took, found, err = self.live(first=NO_EFFECT, second=NO_EFFECT + "# another\n", ranks="3")
        # Twice if a higher rank looked before a lower one was there.
        self.assertEqual({(f["kind"], *f["ranks"]) for f in found}, {("policy_divergence", 1)})
        self.assertGreater(found[0]["since_unix_ns"], 0)
        self.assertIn("policy_divergence: rank 1", err)
        print(f"found {took:.1f} s after the last communicator", file=sys.stderr)

    def test_ranks_of_another_host_are_found_by_following(self):
        job = self.job("out", first=NO_EFFECT, second=NO_EFFECT + "# another\n", ranks="3",
                       hold=True, host="there")
        logs = os.path.join(self.folder.name, "out", "*.log")
        try:
            while len(glob.glob(logs)) < 3 and job.poll() is None:
                time.sleep(0.02)
            follow = subprocess.Popen([MUSTER, "diagnose", "out", "--follow", "--format", "json"],
                                      env=self.env(), cwd=self.folder.name, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            found = json.loads(follow.stdout.readline())  # while the job lives
        finally:
            _, err = job.communicate("", timeout=60)
        follow.communicate(timeout=60)
        self.assertEqual((found["kind"], found["ranks"]), ("policy_divergence", [1]))
        self.assertNotIn("policy_divergence", err)  # no process sees another host's


class Tune(Case):
    """NCCL's stand-in prefers ring/simple; from 64 KiB on tree/ll128 takes three quarters of it."""

    def tune(self, *options, command=None, env=None):
        # The stand-in has no CUDA driver: only NCCL's own kernel events time its operations.
        return self.muster("tune", *options, "-o", "out.yaml", "--", *(command or (STEERED, "2", "12")),
                           env={"MUSTER_TIMING": "channels", **(env or {})})

    def rules(self):
        with open(os.path.join(self.folder.name, "out.yaml"), encoding="ascii") as file:
            text = file.read()
        self.assertEqual(self.muster("policy", "check", "out.yaml").returncode, 0)
        return re.findall(r"^  - name: (\S+)", text, re.M), text

    @staticmethod
    def lines(path):
        if not os.path.exists(path):
            return []
        with open(path, encoding="ascii") as file:
            return file.readlines()

    def left_over(self):
        return [name for name in os.listdir(self.folder.name) if name != "out.yaml"]

    def test_it_finds_what_is_quicker_and_nothing_else(self):
        done = self.tune("--budget", "60s")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        rules, text = self.rules()
        self.assertEqual(rules, ["all_reduce-128KiB-2-ranks-1-nodes", "all_reduce-1MiB-2-ranks-1-nodes"])
        self.assertEqual(text.count("prefer: {algo: tree, proto: ll128}"), 2)
        for ratio, low, high in re.findall(
                r"ratio (\d\.\d+), 95 % interval (\d\.\d+) to (\d\.\d+)", text):
            self.assertLess(abs(float(ratio) - 0.75), 0.05)
            self.assertLessEqual(float(low), float(ratio))
            self.assertLess(float(high), 0.97)
        self.assertEqual(len(re.findall(r"# From the start of one to the start of the next: [\d.]+ us without, "
                                        r"[\d.]+ us with\.\n  # Without: ring/simple on 8 channels\. "
                                        r"With: tree/ll128", text)), 2, text)
        self.assertNotIn("clock", text)
        self.assertIn("run 1 ", done.stderr)
        self.assertEqual(len(re.findall("any algorithm but tree and ring: none is offered", done.stderr)), 1)
        self.assertNotRegex(done.stderr, "nvls|collnet|pat/")
        self.assertIn("2 rules in out.yaml", done.stderr)
        self.assertEqual(self.left_over(), [])
        together = r"All rules together: (0\.\d+) of the time, 95 % interval (0\.\d+) to (0\.\d+), over 5 pairs of runs\."
        for place in (text, done.stderr):
            ratio, low, high = (float(word) for word in re.search(together, place).groups())
            self.assertTrue(0.75 < ratio < 0.9 and low <= ratio <= high, place)
        # And it holds: the job under it runs as measured.
        run = self.muster("run", "-n", "--timing", "channels", "-d", "after", "--policy", "out.yaml", "--",
                          STEERED, "2", "12")
        self.assertEqual(run.returncode, 0, run.stderr)
        after, _ = self.choices("after")
        self.assertEqual(after["AllReduce", 1 << 17][:2], ("tree", "ll128"))
        self.assertEqual(after["AllReduce", 1 << 12][:2], ("ring", "simple"))

    def test_rules_that_move_time_to_other_operations_are_not_kept(self):
        done = self.tune("--budget", "60s", env={"STEERED_LATER_US": "100"})
        self.assertEqual(done.returncode, 0, done.stderr)
        rules, text = self.rules()
        self.assertEqual(rules, [])
        self.assertRegex(text, r"# All rules together: 1\.\d+ of the time, 95 % interval 1\.\d+ to 1\.\d+, over 5 pairs")
        self.assertIn("all_gather", re.search(r"With them (.*): the rule for (.*) is dropped", done.stderr).group(1))
        for place in (text, done.stderr):
            self.assertIn("The job as a whole was slower: 1 rule not kept.", place)
        self.assertIn("# Dropped because others paid for what they gained: 1 rule, the last for all_reduce 1 MiB", text)
        self.assertNotIn("not beaten", text)
        self.assertIn("0 rules in out.yaml", done.stderr)

    def test_only_the_rule_that_others_pay_for_is_dropped(self):
        """One class's gain makes what follows it slower; the job gains, the other class's rule stays."""
        done = self.tune("--budget", "90s", env={"STEERED_LATER_US": "20", "STEERED_LATER_FLOATS": str(1 << 18)})
        self.assertEqual(done.returncode, 0, done.stderr)
        rules, text = self.rules()
        self.assertEqual(rules, ["all_reduce-128KiB-2-ranks-1-nodes"])
        self.assertRegex(done.stderr, r"With them all_gather 32 KiB, .* took 1\.\d+ of its time: "
                                      r"the rule for all_reduce 1 MiB, 2 ranks, 1 node is dropped")
        self.assertIn("# Dropped because others paid for what they gained: 1 rule, the last for all_reduce 1 MiB", text)
        self.assertRegex(text, r"# All rules together: 0\.\d+ of the time")

    def test_a_class_that_runs_seldom_is_not_evaluated(self):
        done = self.tune("--budget", "60s", command=(STEERED, "2", "10"))
        self.assertEqual(done.returncode, 0, done.stderr)
        rules, text = self.rules()
        self.assertEqual(rules, [])
        self.assertIn("# Not judged: 3 classes with fewer than 10 operations a run", text)
        self.assertIn("not judged: 3 classes with fewer than 10 operations a run", done.stderr)

    def test_what_few_machines_offer_is_tried_one_by_one_only_where_it_is(self):
        done = self.tune("--budget", "60s", env={"STEERED_OFFER": "NVLS"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("any algorithm but tree and ring: offered, so each is tried", done.stderr)
        self.assertIn("nvls/simple: quicker in 0 of 3 classes", done.stderr)
        self.assertIn("nvls_tree/simple: not offered, or no change", done.stderr)
        self.assertEqual(len(self.rules()[0]), 2)

    def test_where_they_fail_together_each_is_tried(self):
        done = self.tune("--budget", "60s", env={"STEERED_OFFER": "NVLS", "STEERED_FAIL": "NVLS"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("any algorithm but tree and ring: dropped: exit status 3", done.stderr)
        self.assertIn("nvls/simple: dropped: exit status 3", done.stderr)
        self.assertIn("nvls_tree/simple: not offered, or no change", done.stderr)
        self.assertEqual(len(self.rules()[0]), 2)

    def test_a_candidate_under_which_the_command_fails_is_dropped(self):
        done = self.tune("--budget", "60s", env={"STEERED_FAIL": "TREE"})
        self.assertEqual(done.returncode, 0, done.stderr)
        rules, text = self.rules()
        self.assertEqual(rules, [])
        self.assertIn("NCCL's own choices were not beaten", text)
        self.assertRegex(done.stderr, "tree/ll128: dropped: exit status 3")

    def test_a_command_that_fails_leaves_no_file(self):
        done = self.tune(command=("sh", "-c", "echo last words >&2; exit 7"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("the command without a policy: exit status 7", done.stderr)
        self.assertIn("last words", done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])
        done = self.tune(command=("no-such-command",))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no-such-command", done.stderr)

    def test_a_command_without_collectives_is_said(self):
        done = self.tune(command=("true",))
        self.assertEqual(done.returncode, 2)
        self.assertIn("muster tune: ", done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_no_run_is_started_that_would_not_fit(self):
        done = self.tune("--budget", "3s", command=("sh", "-c", f"sleep 1; '{STEERED}' 2 12"))
        self.assertEqual(done.returncode, 0, done.stderr)
        rules, text = self.rules()
        self.assertEqual(rules, [])
        self.assertIn("the budget did not reach", text)
        self.assertLess(int(re.search(r": (\d+) runs in", text).group(1)), 4)  # of over a second each

    def test_a_command_that_hangs_ends_with_the_budget(self):
        done = self.tune("--budget", "1s", command=("sleep", "100"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("not over after 1 s", done.stderr)

    def test_interrupted_it_leaves_a_valid_file_and_no_process(self):
        marker = os.path.join(self.folder.name, "pids")
        script = f"echo $$ >>'{marker}'; '{STEERED}' 2 12 && sleep 0.2 && [ $(wc -l <'{marker}') -lt 4 ] || sleep 100"
        job = subprocess.Popen([MUSTER, "tune", "--budget", "300s", "-o", "out.yaml", "--", "sh", "-c", script],
                               env=self.env(MUSTER_TIMING="channels"), cwd=self.folder.name, stderr=subprocess.PIPE, text=True)
        while len(self.lines(marker)) < 4 and job.poll() is None:
            time.sleep(0.01)
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=30)
        self.assertEqual(job.returncode, 128 + signal.SIGINT, err)
        rules, text = self.rules()
        self.assertEqual(rules, [])
        self.assertIn("interrupted", text)
        for pid in self.lines(marker):
            self.assertRaises(ProcessLookupError, os.kill, int(pid), 0)
        self.assertEqual(self.left_over(), ["pids"])

    def test_wrong_calls(self):
        for options in ((), ("--budget", "soon", "true"), ("--budget", "-3s", "true"),
                        ("--budget", "0", "true"), ("--bugdet", "3s", "true")):
            done = self.muster("tune", *options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
        done = self.muster("tune", "-o", "/nowhere/out.yaml", "--", STEERED, "2", "12",
                           env={"MUSTER_TIMING": "channels"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/out.yaml", done.stderr)


if __name__ == "__main__":
    MUSTER, STEERED = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
