"""The command as a shell sees it: help, errors, exit statuses, run and env.

usage: cli_test.py MUSTER [unittest options]
"""

import fcntl
import glob
import json
import os
import re
import signal
import subprocess
import sys
import termios
import unittest

sys.dont_write_bytecode = True
from clean import CleanCase  # noqa: E402

MUSTER = None


class Case(CleanCase):
    def muster(self, *args, env=None, **how):
        how.setdefault("stdout", subprocess.PIPE)
        how.setdefault("stderr", subprocess.PIPE)
        return subprocess.run([MUSTER, *args], env=self.env(**(env or {})), text=True,
                              cwd=self.folder.name, timeout=60, check=False, **how)


class Help(Case):
    COMMANDS = ("run", "demo", "report", "replay", "policy", "topo", "doctor", "env", "version",
                "help")

    def test_lists_every_command_on_stdout(self):
        for call in (["help"], ["--help"], ["-h"]):
            done = self.muster(*call)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for name in self.COMMANDS:
                self.assertIn(f"\n  {name} ", done.stdout)

    def test_every_command_explains_itself(self):
        for name in self.COMMANDS:
            done = self.muster(name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn(f"usage: muster {name}", done.stdout)
            self.assertIn("--help", done.stdout)
            self.assertEqual(self.muster("help", name).stdout, done.stdout)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    def test_in_a_narrow_terminal_only_commands_are_wider(self):
        for call in (["help"], ["help", "config"], *([name, "--help"] for name in self.COMMANDS), ["doctor", "--passive"]):
            done = self.muster(*call, env={"COLUMNS": "60"})
            wide = [line for line in done.stdout.splitlines() if len(line) > 60 and " " in line.strip()]
            self.assertFalse([line for line in wide if not re.match("  (muster|srun|mpirun|sudo|[A-Z_]+=)", line)],
                             call)

    def test_config_topic_names_every_variable(self):
        done = self.muster("help", "config")
        self.assertEqual(done.returncode, 0)
        for name in ("MUSTER_DIR", "MUSTER_TIMING", "MUSTER_LOG_MAX", "MUSTER_OFF"):
            self.assertIn(name, done.stdout)

    def test_version_names_interfaces(self):
        done = self.muster("version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^muster \d+\.\d+\.\d+ \((commit [0-9a-f]+(-changed)?|built outside git)\)\n")
        self.assertIn("v1 to v7", done.stdout)
        self.assertEqual(self.muster("--version").stdout, done.stdout)


class WrongCalls(Case):
    def wrong(self, *args):
        done = self.muster(*args)
        self.assertEqual((done.returncode, done.stdout), (2, ""), args)
        return done.stderr

    def test_no_command(self):
        self.assertIn("which command?", self.wrong())

    def test_unknown_command(self):
        self.assertIn("unknown command reprot, did you mean report?", self.wrong("reprot"))
        self.assertNotIn("did you mean", self.wrong("zzzzzz"))
        self.assertIn("unknown command", self.wrong("help", "reprot"))

    def test_unknown_option(self):
        self.assertIn("muster report: unknown option --fromat, did you mean --format?",
                      self.wrong("report", "--fromat", "json"))
        self.assertIn("did you mean --format?", self.wrong("report", "--fromat=json"))
        self.assertIn("muster report: unknown option -Z", self.wrong("report", "-Z"))

    def test_a_run_is_no_option(self):
        for call in (("report", "--dir", "X"), ("report", "--dir=X"), ("report", "-d", "X"), ("diagnose", "--dir", "X"),
                     ("top", "--dir", "X")):
            self.assertRegex(self.wrong(*call), rf"^muster {call[0]}: unknown option -+d\w*: .*RUN, is named without")
        self.assertNotIn("RUN", self.wrong("env", "--bytes"))

    def test_help_shows_how_to_call(self):
        for call, example in ((("policy", "check"), "\n  muster policy check policy.yaml"),
                              (("policy", "explain"), "\n  muster policy explain policy.yaml --collective all_reduce"),
                              (("report",), "\n  muster report /shared/run-7\n")):
            done = self.muster(*call, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("\nexamples:\n", done.stdout)
            self.assertIn(example, done.stdout)

    def test_values(self):
        self.assertIn('--format: "jsno" is not text, json or csv, did you mean json?',
                      self.wrong("report", "--format", "jsno"))
        self.assertIn("--format needs a value", self.wrong("report", "--format"))
        self.assertIn("--format needs a value", self.wrong("report", "-f"))
        self.assertIn("--live takes no value", self.wrong("report", "--live=yes"))
        self.assertIn('"much" is not a size', self.wrong("env", "--log-max", "much"))

    def test_operands(self):
        self.assertIn("which command?", self.wrong("run"))
        self.assertIn("which command?", self.wrong("run", "--quiet", "--"))
        self.assertIn("`muster run`", self.wrong("env", "true"))
        self.assertIn("--live", self.wrong("report", "--live", "somewhere"))
        self.assertIn("one topic", self.wrong("help", "run", "report"))

    def test_help_follows_an_error_on_stderr(self):
        self.assertIn("usage: muster report", self.wrong("report", "--bogus"))


class Report(Case):
    def test_no_such_run(self):
        done = self.muster("report", "nowhere")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("nowhere", done.stderr)

    def test_no_run_at_all(self):
        done = self.muster("report")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("muster report: ", done.stderr)

    def test_garbage(self):
        for name, content in (("a.seg", b"no segment"), ("a.log", os.urandom(4096)),
                              ("b.seg", b"\0" * 2000000)):
            with open(os.path.join(self.folder.name, name), "wb") as file:
                file.write(content)
        done = self.muster("report", self.folder.name)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"[ab]\.(seg|log)|" + self.folder.name)


class Follow(Case):
    def test_what_is_not_there_yet_is_waited_for_and_said(self):
        job = subprocess.Popen([MUSTER, "diagnose", "nowhere", "--follow"], env=self.env(),
                               cwd=self.folder.name, stderr=subprocess.PIPE, text=True)
        said = job.stderr.readline()
        job.terminate()
        self.assertEqual(job.communicate(timeout=60)[1], "")
        self.assertEqual(said, "muster diagnose: nowhere: neither a run directory nor a pid; "
                               "waiting\n")


class Output(Case):
    def test_full_stdout_is_an_error(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for call in (["help"], ["version"], ["env"], ["report", "--help"]):
                done = self.muster(*call, stdout=full)
                self.assertEqual(done.returncode, 2, call)
                self.assertIn("standard output: No space left on device", done.stderr)

    def test_closed_stdout_is_an_error(self):
        done = subprocess.run(["sh", "-c", f"'{MUSTER}' version >&-"], env=self.env(),
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write to standard output", done.stderr)


class Run(Case):
    def test_passes_the_exit_status_on(self):
        for status in (0, 1, 2, 77, 255):
            done = self.muster("run", "-q", "-n", "--", "sh", "-c", f"exit {status}")
            self.assertEqual((done.returncode, done.stderr), (status, ""))

    def test_passes_death_by_signal_on(self):
        done = self.muster("run", "-n", "--", "sh", "-c", "kill -KILL $$")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)

    def test_options_behind_the_command_are_its_own(self):
        done = self.muster("run", "-n", "echo", "--help", "-n")
        self.assertEqual((done.returncode, done.stdout), (0, "--help -n\n"))

    def test_commands_that_cannot_run(self):
        done = self.muster("run", "--", "no-such-command")
        self.assertEqual(done.returncode, 127)
        self.assertIn("cannot run no-such-command: No such file or directory", done.stderr)
        done = self.muster("run", "--", "/")
        self.assertEqual(done.returncode, 126)
        self.assertIn("cannot run /: Permission denied", done.stderr)

    def test_the_run_directory_is_named_plainly(self):
        done = self.muster("run", "-n", "--", "sh", "-c", "echo $MUSTER_DIR")
        folder, name = os.path.split(done.stdout.rstrip("\n"))
        self.assertEqual(folder, os.path.realpath(self.folder.name))
        self.assertRegex(name, r"^muster-\d{8}T\d{6}Z-\d+$")

    def test_says_when_nothing_was_recorded(self):
        done = self.muster("run", "--", "echo", "hello")
        self.assertEqual((done.returncode, done.stdout), (0, "hello\n"))
        self.assertIn("nothing was recorded", done.stderr)

    def variables(self, *options, env=None):
        done = self.muster("run", "-n", *options, "--", "env", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line), done

    def test_sets_what_nccl_and_the_plugin_read(self):
        with open(os.path.join(self.folder.name, "c.yaml"), "w", encoding="ascii") as file:
            file.write("muster: 1\n")
        got, _ = self.variables("--timing", "full", "--dir", "here", "--log-max", "1MiB",
                                "--trace", "/t", "--config", "c.yaml", "--quiet",
                                env={"LD_LIBRARY_PATH": "/a:/b"})
        self.assertEqual(os.path.basename(got["NCCL_PROFILER_PLUGIN"]), "libnccl-profiler-muster.so")
        first = got["LD_LIBRARY_PATH"].split(":")
        self.assertTrue(os.path.exists(os.path.join(first[0], "libnccl-profiler-muster.so")))
        self.assertEqual(first[1:], ["/a", "/b"])
        self.assertEqual(got["MUSTER_TIMING"], "full")
        self.assertEqual(os.path.realpath(os.path.dirname(got["MUSTER_DIR"])),
                         os.path.realpath(self.folder.name))
        self.assertEqual(os.path.basename(got["MUSTER_DIR"]), "here")
        self.assertEqual(got["MUSTER_LOG_MAX"], str(1 << 20))
        self.assertEqual(got["MUSTER_TRACE"], "/t")
        self.assertTrue(os.path.isabs(got["MUSTER_CONFIG"]))
        self.assertEqual(got["MUSTER_LOG_LEVEL"], "error")

    def test_chooses_a_directory_unless_a_launcher_does(self):
        got, _ = self.variables()
        self.assertRegex(got["MUSTER_DIR"], r"/muster-\d{8}T\d{6}Z-\d+$")
        got, _ = self.variables(env={"PBS_JOBID": "7"})
        self.assertNotIn("MUSTER_DIR", got)
        got, _ = self.variables(env={"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"})
        self.assertNotIn("MUSTER_DIR", got)
        got, _ = self.variables(env={"RANK": "3"})
        self.assertNotIn("MUSTER_DIR", got)
        got, _ = self.variables(env={"MUSTER_DIR": "/given", "RANK": "3"})
        self.assertEqual(got["MUSTER_DIR"], "/given")

    def test_in_front_of_srun_the_directory_is_handed_on(self):
        # A batch script, to which Slurm gives a rank; the shells of two kinds of salloc.
        for more in ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}, {},
                     {"SLURM_STEP_ID": "4294967290", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}):
            got, _ = self.variables(env={"SLURM_JOB_ID": "7", **more})
            self.assertRegex(got["MUSTER_DIR"], r"/muster-\d{8}T\d{6}Z-\d+$")

    def test_of_ranks_that_mpirun_starts_in_a_batch_script_one_reports(self):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
        for rank, speaks in (("0", True), ("1", False)):
            done = self.muster("run", "--", "true",
                               env={**slurm, "OMPI_COMM_WORLD_RANK": rank,
                                    "OMPI_COMM_WORLD_LOCAL_RANK": rank})
            self.assertEqual("nothing was recorded" in done.stderr, speaks, rank)

    def test_a_wrong_configuration_does_not_stop_the_job(self):
        done = self.muster("run", "-n", "--config", "no.yaml", "--", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no.yaml", done.stderr)

    def test_another_profiler_is_called_beside_muster(self):
        got, done = self.variables(env={"NCCL_PROFILER_PLUGIN": "other.so"})
        self.assertEqual(os.path.basename(got["NCCL_PROFILER_PLUGIN"]), "libnccl-profiler-muster.so")
        self.assertEqual(got["MUSTER_CHAIN"], "other.so")
        self.assertIn("NCCL_PROFILER_PLUGIN=other.so is called beside muster", done.stderr)

    def test_the_plugin_is_named_as_the_nccl_that_is_there_takes_it(self):
        if glob.glob("/usr/lib/*/libnccl.so*") + glob.glob("/usr/local/*/lib64/libnccl.so*"):
            self.skipTest("an NCCL of the system decides, too")
        for version, by_path in (("2.28.9", True), ("2.27.3", False)):
            place = os.path.join(self.folder.name, version)
            os.mkdir(place)
            with open(os.path.join(place, "libnccl.so." + version), "w", encoding="ascii"):
                pass
            got, _ = self.variables(env={"LD_LIBRARY_PATH": place, "PATH": "/usr/bin:/bin"})
            folder = got["LD_LIBRARY_PATH"].split(":")[0]
            name = "libnccl-profiler-muster.so"
            self.assertEqual(got["NCCL_PROFILER_PLUGIN"], os.path.join(folder, name) if by_path else name)

    def test_a_chain_that_is_set_is_kept(self):
        got, done = self.variables(env={"NCCL_PROFILER_PLUGIN": "other.so", "MUSTER_CHAIN": "b.so"})
        self.assertEqual(got["MUSTER_CHAIN"], "b.so")
        self.assertIn("NCCL_PROFILER_PLUGIN=other.so is replaced", done.stderr)

    def test_muster_is_not_chained_to_itself(self):
        for held in ("muster", "/opt/lib/libnccl-profiler-muster.so", "none"):
            got, done = self.variables(env={"NCCL_PROFILER_PLUGIN": held})
            self.assertNotIn("MUSTER_CHAIN", got)
            self.assertNotIn("beside", done.stderr)

    def test_warns_of_launchers_that_drop_variables(self):
        for name, warns in (("ssh", True), ("mpirun", True), ("torchrun", False)):
            path = os.path.join(self.folder.name, name)
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n")
            os.chmod(path, 0o755)
            done = self.muster("run", "-n", "--", path)
            self.assertEqual(done.returncode, 0)
            self.assertEqual("may not pass variables on" in done.stderr, warns, name)
        done = self.muster("run", "-n", "--", os.path.join(self.folder.name, "mpirun"), "-x", "A")
        self.assertRegex(done.stderr, r"^muster run: recording to .*\n$")

    def test_only_local_rank_0_speaks_at_the_end(self):
        for rank, local, speaks in (("0", "0", True), ("4", "0", True), ("1", "1", False)):
            done = self.muster("run", "--", "true", env={"RANK": rank, "LOCAL_RANK": local})
            self.assertEqual("nothing was recorded" in done.stderr, speaks, rank)

    def job(self, script, **how):
        """A Python script as the command, its SIGINT, SIGTERM and SIGUSR1 blocked."""
        head = ("import signal, sys\n"
                "watched = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, watched)\n"
                "print('ready', flush=True)\n")
        job = subprocess.Popen([MUSTER, "run", "-n", "--", sys.executable, "-c", head + script],
                               env=self.env(), stdout=subprocess.PIPE, text=True,
                               cwd=self.folder.name, **how)
        self.assertEqual(job.stdout.readline(), "ready\n")
        return job

    def test_forwards_signals(self):
        wait = "print(signal.Signals(signal.sigwait(watched)).name, flush=True)\n"
        with self.job(2 * wait + "sys.exit(5)") as job:
            for number in (signal.SIGUSR1, signal.SIGTERM):
                job.send_signal(number)
                self.assertEqual(job.stdout.readline(), number.name + "\n")
            self.assertEqual(job.wait(30), 5)

    def test_the_terminal_interrupts_the_command_once(self):
        script = ("signal.sigwait({signal.SIGINT})\n"
                  "print('interrupt', flush=True)\n"
                  "sys.stdin.readline()\n"
                  "sys.exit(10 + len(signal.sigpending()))")
        master, slave = os.openpty()
        self.addCleanup(os.close, master)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        with self.job(script, stdin=slave, preexec_fn=own_terminal) as job:
            os.close(slave)
            os.write(master, b"\x03")
            self.assertEqual(job.stdout.readline(), "interrupt\n")
            os.write(master, b"\n")
            self.assertEqual(job.wait(30), 10)


class Env(Case):
    def test_is_for_a_shell(self):
        odd = "it's $HOME \"quoted\""
        script = (f"eval \"$('{MUSTER}' env --timing full --dir \"/$ODD\")\"; "
                  'printf "%s\\n" "$NCCL_PROFILER_PLUGIN" "$MUSTER_TIMING" "$MUSTER_DIR" '
                  '"$LD_LIBRARY_PATH"')
        for before in (None, "/before"):
            env = self.env(ODD=odd)
            env.pop("LD_LIBRARY_PATH", None)
            if before:
                env["LD_LIBRARY_PATH"] = before
            done = subprocess.run(["sh", "-c", script], env=env, stdout=subprocess.PIPE, text=True,
                                  timeout=60, check=True)
            plugin, timing, folder, path = done.stdout.splitlines()
            self.assertEqual(os.path.basename(plugin), "libnccl-profiler-muster.so")
            self.assertEqual((timing, folder), ("full", "/" + odd))
            self.assertEqual(path.split(":")[1:], [before] if before else [])


class Recorded(Case):
    """One replay, read in every format."""

    def test_finds_the_directory_that_ranks_choose_in_a_batch_script(self):
        recording = os.environ.get("MUSTER_TEST_RECORDING")
        # mpirun's rank 0; the plugin adds no step to the name.
        env = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
               "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
        done = self.muster("run", "--", MUSTER, "replay", recording, "--speed", "max", "--out",
                           "muster-7", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("collectives of all ranks together", done.stderr)

    def test_a_directory_that_cannot_be_written_is_told_before_the_job(self):
        with open(os.path.join(self.folder.name, "file"), "w", encoding="ascii"):
            pass
        spare = os.path.join(self.folder.name, "spare")
        os.mkdir(spare)
        for where, why in (("file", "Not a directory"), ("file/x", "Not a directory"), ("/proc/nope/x", "[A-Z]")):
            done = self.muster("run", "--dir", where, "-n", "--", "sh", "-c", "echo the job >&2", env={"TMPDIR": spare})
            self.assertEqual(done.returncode, 0)
            self.assertRegex(done.stderr, rf"^muster run: .*{where}: {why}.*: recording to /.* instead\nthe job\n$")
        done = self.muster("run", "--dir", "file", "-n", "--", "sh", "-c", "echo the job >&2", env={"TMPDIR": "/proc"})
        self.assertRegex(done.stderr, "^muster run: .*file: Not a directory, nor .* --dir\nthe job\n$")
        done = self.muster("run", "--dir", "a/b/c", "-n", "--", "true")
        self.assertRegex(done.stderr, "^muster run: recording to .*/a/b/c\n$")
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "a")), "asking leaves nothing behind")
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith(".muster")], [])

    def test_an_earlier_run_is_not_reported_again(self):
        recording = os.environ.get("MUSTER_TEST_RECORDING")
        done = self.muster("run", "--dir", "out", "--", MUSTER, "replay", recording, "--speed",
                           "max", "--out", "out")
        self.assertRegex(done.stderr, "recording to .*/out\n")
        self.assertIn("holds this job back", done.stderr)
        again = self.muster("run", "--dir", "out", "--", "true")
        self.assertEqual(again.returncode, 0)
        self.assertIn("nothing was recorded there since this job began", again.stderr)
        self.assertNotIn("holds this job back", again.stderr)
        self.assertEqual(self.muster("report", "out", "--sort", "nonsense").returncode, 2)
        csv = self.muster("report", "out", "--by", "rank-size", "--top", "2", "--sort", "p99",
                          "--format", "csv").stdout.splitlines()
        self.assertEqual(len(csv), 9)

    def replay_with(self, command, **environment):
        """All lines of a replay of four ranks, in a configuration that is wrong."""
        done = self.muster(*command, "replay", os.environ["MUSTER_TEST_RECORDING"], "--speed", "max",
                           env=environment)
        return done, [line for line in done.stderr.splitlines() if "MUSTER_" in line or "bad.yaml" in line]

    def test_what_is_wrong_is_said_once_for_all_ranks(self):
        with open(os.path.join(self.folder.name, "bad.yaml"), "w") as file:
            file.write("muster: 1\ncapture:\n  timing: [full\n")
        with open(os.path.join(self.folder.name, "tab.yaml"), "w") as file:
            file.write("muster: 1\ncapture: # \u00fc\n\ttiming: full\n")
        for command in ((), ("run", "-n", "--", MUSTER)):
            for environment, text in (({"MUSTER_TIMNG": "full"}, "did you mean MUSTER_TIMING?: the other settings hold"),
                                      ({"MUSTER_CONFIG": "bad.yaml"}, "bad.yaml:4:1: did not find expected"),
                                      ({"MUSTER_CONFIG": "tab.yaml"}, "tab.yaml:3:1: found a tab: YAML is indented with "
                                       "spaces: nothing in that file holds, MUSTER_ variables do")):
                done, said = self.replay_with(command, **environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(said), 1, done.stderr)
                self.assertIn(text, said[0])
            done = self.muster("env", env={"MUSTER_CONFIG": "bad.yaml"})
            self.assertEqual((done.returncode, done.stderr.count("bad.yaml:4:1")), (0, 1), done.stderr)

    def test_a_wrong_directory_or_policy_records_nothing(self):
        done, said = self.replay_with((), MUSTER_DRI="/nowhere")
        self.assertEqual((done.returncode, len(said)), (2, 1), done.stderr)
        self.assertIn("did you mean MUSTER_DIR?: nothing is recorded", said[0])
        done = self.muster("run", "--", "sh", "-c", "exit 3", env={"MUSTER_DRI": "/nowhere"})
        self.assertEqual(done.returncode, 3)  # the job's own
        self.assertIn("the job runs unrecorded", done.stderr)
        done, _ = self.replay_with((), MUSTER_OFF="1")
        self.assertIn("nothing was recorded: MUSTER_OFF is set", done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_a_replay_records_where_the_job_is_told_to(self):
        done, _ = self.replay_with(("run", "--", MUSTER), MUSTER_DIR=os.path.join(self.folder.name, "there"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^Rank 2 \(\S+\) holds this job back: ")
        self.assertEqual(os.listdir(self.folder.name), ["there"])

    def test_a_replay_ends_what_its_plugin_started(self):
        """Also what has a session of its own."""
        pids = os.path.join(self.folder.name, "pids")
        done = self.muster("replay", os.environ["MUSTER_TEST_RECORDING"], "--speed", "max", "--dir", "out", "--plugin",
                           os.environ["MUSTER_TEST_PROFILER"], env={"STARTING_PIDS": pids})
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(pids) as file:
            started = [int(line) for line in file]
        self.assertGreaterEqual(len(started), 4)
        for pid in started:
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_formats_agree(self):
        recording = os.environ.get("MUSTER_TEST_RECORDING")
        done = self.muster("run", "--dir", "out", "--timing", "full", "--", MUSTER, "replay",
                           recording, "--speed", "max", "--out", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("collectives of all ranks together", done.stderr)
        text = self.muster("report", "out")
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertRegex(text.stdout, r"^Rank 2 \(\S+\) holds this job back: ")
        self.assertLessEqual(max(map(len, text.stdout.splitlines())), 120)
        report = json.loads(self.muster("report", "out", "--format", "json").stdout)
        version = self.muster("version").stdout.splitlines()[0]
        self.assertEqual({"muster " + rank["recorded_by"] for rank in report["ranks"]}, {version})
        self.assertEqual(list(report), ["version", "muster", "run", "ranks", "ops", "net", "rules",
                                        "tags", "gaps", "verdict", "findings", "not_observable"])
        self.assertEqual(report["verdict"]["state"], "held_back")
        self.assertEqual([f["ranks"] for f in report["findings"]], [[2]])
        self.assertEqual(report["ranks"][2]["verdict"], "holds others back")
        self.assertEqual(report["ranks"][0]["verdict"], "waits for rank 2")
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2, 3])
        self.assertEqual(sum(rank["ops"] for rank in report["ranks"]),
                         sum(op["count"] for op in report["ops"]))
        late = [rank["made_wait_us"] for rank in report["ranks"]]
        self.assertEqual(late.index(max(late)), 2)
        for by, rows in (("rank", report["ranks"]), ("op", report["ops"])):
            table = self.muster("report", "out", "--format", "csv", "--by", by).stdout.splitlines()
            self.assertEqual(len(table), len(rows) + 1)
            self.assertEqual([name for name in table[0].split(",") if "." not in name],
                             [name for name in rows[0] if not isinstance(rows[0][name], dict)])
        self.assertEqual([line.split(",")[-1] for line in self.muster(
            "report", "out", "--format", "csv").stdout.splitlines()],
            ["verdict", *(rank["verdict"] for rank in report["ranks"])])
        done = self.muster("report", "out", "--html", "nowhere/page.html")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write nowhere/page.html: No such file or directory", done.stderr)
        for option in ("--html", "--perfetto", "--out"):
            done = self.muster("report", option, "out")
            self.assertEqual(done.returncode, 2)
            self.assertIn("out is a directory: name the FILE to write, then RUN", done.stderr)
        newest = self.muster("report", "--format", "json")
        self.assertEqual(newest.returncode, 2)  # "out" is not named muster-*
        os.rename(os.path.join(self.folder.name, "out"),
                  os.path.join(self.folder.name, "muster-1"))
        self.assertEqual(self.muster("report").returncode, 0)


if __name__ == "__main__":
    MUSTER = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)  # names what it skips
