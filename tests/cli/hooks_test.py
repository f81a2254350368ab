"""Hooks of findings: once for a job, beside each other, and not beyond its end. Usage: hooks_test.py
MUSTER RECORDING"""
import json
import os
import re
import subprocess
import sys
import unittest

from clean import CleanCase

MUSTER, RECORDING = sys.argv.pop(1), sys.argv.pop(1)


def finding(kind="hang_stuck", rank=3, resolved=False, comm="00000000000000a1"):
    return json.dumps({"kind": kind, "comm": comm, "ranks": [rank], "host": "n1", "gpu": None,
                       "resolved": resolved}, separators=(",", ":"))


class Hooks(CleanCase):
    def setUp(self):
        super().setUp()
        self.run_dir = self.path("run")
        os.mkdir(self.run_dir)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def start(self, script, hook, **more):
        """`muster run` of a shell script that writes findings as the plugin would."""
        config = self.path("config.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("muster: 1\non:\n" + "".join(
                f"  {kind}: [{{exec: [sh, -c, {json.dumps(hook)}]}}]\n"
                for kind in ("hang_stuck", "late_rank")))
        return subprocess.Popen(
            [MUSTER, "run", "--no-report", "--config", config, "--dir", self.run_dir, "--", "sh",
             "-c", script], env=self.env(AT=self.folder.name, **more), cwd=self.folder.name,
            stderr=subprocess.PIPE, text=True)

    def job(self, lines, hook, status=0, **more):
        written = " ".join(f"'{line}'" for line in lines)
        job = self.start(f"printf '%s\\n' {written} > $MUSTER_DIR/n1-7.findings.jsonl; "
                         f"exit {status}", hook, **more)
        stderr = job.communicate(timeout=60)[1]
        self.assertEqual(job.returncode, status, stderr)
        return stderr

    def test_a_hook_gets_its_finding_and_the_job_keeps_its_status(self):
        stderr = self.job([finding()], "cat >> $AT/got", status=7)
        self.assertEqual(self.text("got"), finding() + "\n")
        self.assertNotIn("hook", stderr)

    def test_hooks_run_beside_each_other(self):
        # Each waits for the other to have begun.
        self.job([finding(rank=1), finding(rank=2)],
                 "touch $AT/begun.$$; while [ $(ls $AT/begun.* | wc -l) -lt 2 ]; do sleep 0.01; "
                 "done; echo both >> $AT/got")
        self.assertEqual(self.text("got"), "both\nboth\n")

    def test_a_hook_does_not_keep_the_job(self):
        stderr = self.job([finding()], "echo $$ > $AT/pid; exec sleep 100000", status=3)
        self.assertIn("hook sh: ended, the job is over", stderr)
        self.assertFalse(os.path.exists(f"/proc/{self.text('pid').strip()}"))

    def test_more_than_can_run_by_the_end_are_counted(self):
        stderr = self.job([finding(rank=n) for n in range(12)], "exec sleep 100000")
        self.assertEqual(stderr.count("ended, the job is over"), 8)
        self.assertIn("the hooks of 4 findings were not run", stderr)

    def test_hosts_that_share_a_directory_run_a_hook_once(self):
        # Each host's leader tells of it, in a file of its own.
        jobs = [self.start(f"echo '{finding()}' > $MUSTER_DIR/n{n}-7.findings.jsonl",
                           "echo once >> $AT/got", RANK=str(n * 8), LOCAL_RANK="0",
                           WORLD_SIZE="32") for n in range(4)]
        for job in jobs:
            stderr = job.communicate(timeout=60)[1]
            self.assertEqual(job.returncode, 0, stderr)
        self.assertEqual(self.text("got"), "once\n")

    def test_what_comes_up_again_is_told_again(self):
        self.job([finding(), finding(resolved=True), finding()], "echo again >> $AT/got")
        self.assertEqual(self.text("got"), "again\nagain\n")

    def test_lines_that_are_none_of_ours_run_nothing(self):
        stderr = self.job(["", "[]", "{", "{\"kind\":\"hang_stuck\"}", "{\"kind\":\"hang_stuck\"," +
                           "\"resolved\":1}", "{\"kind\":\"none\",\"resolved\":false}"],
                          "echo no >> $AT/got")
        self.assertFalse(os.path.exists(self.path("got")))
        self.assertNotIn("hook", stderr)

    def test_one_report_for_a_job_on_several_hosts(self):
        # Four hosts' first ranks; each of them replays a job whose ranks include rank 0.
        subprocess.run([MUSTER, "replay", RECORDING, "--speed", "max", "--out", self.run_dir],
                       env=self.env(), stderr=subprocess.DEVNULL, check=True)
        told = []
        for rank in (0, 8):
            done = subprocess.run([MUSTER, "run", "--dir", self.run_dir, "--", "true"], text=True,
                                  env=self.env(RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE="16"),
                                  stderr=subprocess.PIPE, check=True)
            told.append(done.stderr)
        self.assertNotIn("rank 0 is in this run directory", told[0])
        self.assertIn("rank 0 is in this run directory", told[1])
        self.assertFalse(re.search("ranks on", told[1]), told[1])


if __name__ == "__main__":
    unittest.main()
