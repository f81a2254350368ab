"""`muster top` in a real terminal (tmux) with real keys, beside jobs that are replayed; and what it
says where there is none.
usage: top_test.py MUSTER RECORDINGS Plain|Screen"""
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import clean

MUSTER, RECORDINGS = sys.argv.pop(1), sys.argv.pop(1)
DEADLINE_S = 60
NOT_BUILT = "this build has no screen"


class Top(clean.CleanCase):
    def setUp(self):
        super().setUp()
        self.shm = tempfile.mkdtemp(dir="/dev/shm", prefix="muster-top-")
        self.addCleanup(shutil.rmtree, self.shm)
        self.environment = self.env(MUSTER_SEGMENT_DIR=self.shm, LC_ALL="C.UTF-8",
                                    TMUX_TMPDIR=self.folder.name)
        self.environment.pop("NO_COLOR", None)
        self.environment.pop("TMUX", None)
        self.jobs = []
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        for job in self.jobs:
            if job.poll() is None:
                job.terminate()
            job.communicate()

    def end_job(self):
        self.jobs[-1].terminate()
        self.jobs[-1].wait()

    def replay(self, name, hold=300):
        """Starts a job; it is there when all of its ranks are."""
        out = os.path.join(self.folder.name, "run-of-" + os.path.basename(name))
        self.jobs.append(subprocess.Popen(
            [MUSTER, "replay", os.path.join(RECORDINGS, name), "--hold", str(hold), "--dir", out],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wanted = len(self.segments()) + 4
        self.until(lambda: len(self.segments()) >= wanted, "no segments")
        return out

    def without_its_last_collective(self, name):
        """A recording that ends before that is called: with sends, where it is a pipeline."""
        out = os.path.join(self.folder.name, name + "-cut")
        os.mkdir(out)
        for file in os.listdir(os.path.join(RECORDINGS, name)):
            with lzma.open(os.path.join(RECORDINGS, name, file), "rt") as lines:
                calls = [json.loads(line) for line in lines]
            last = max(i for i, call in enumerate(calls) if call.get("type") == 512)  # ncclProfileCollApi
            begins = max(i for i in range(last) if calls[i].get("type") == 256 and calls[i]["op"] == "start")
            with open(os.path.join(out, file.removesuffix(".xz")), "w") as cut:
                cut.writelines(json.dumps(call) + "\n" for call in calls[:begins])
        return out

    def segments(self):
        return [name for name in os.listdir(self.shm) if name.endswith(".seg")]

    def until(self, condition, why):
        end = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), end, why() if callable(why) else why)
            time.sleep(0.05)

    def top(self, *arguments, code):
        done = subprocess.run([MUSTER, "top", *arguments], env=self.environment, text=True,
                              capture_output=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr


class Plain(Top):
    def test_without_a_job_it_says_so(self):
        said = self.top(code=2)
        self.assertIn("no job recorded by muster is running here", said)
        self.assertIn("muster cannot attach to a job that was started without it", said)
        self.assertIn("nothing of 1 runs here", self.top("1", code=2))
        self.assertIn("nothing of /nowhere runs here", self.top("/nowhere", code=2))

    def test_one_screen_without_a_terminal(self):
        out = self.replay("late-gpu")
        for argument in ((), (out,)):
            said = ""
            while "Rank 2" not in said: # the ranks may still be at it
                said = self.top("--once", *argument, code=0)
            self.assertIn("4 of 4 ranks", said)
            self.assertRegex(said, r"(?m)^> +2 ")
        self.assertIn("nothing of", self.top("--once", self.folder.name, code=2))
        self.assertRegex(self.top(code=2), f"no terminal|{NOT_BUILT}")

    def test_a_hang_is_named_at_the_first_look(self):
        """It is older than the limit before anybody looks."""
        self.environment["MUSTER_HANG_SECONDS"] = "2"
        self.replay("hang-absent")
        self.until(lambda: "Hang: " in self.live(), self.live)
        said = self.top("--once", code=0)
        self.assertIn("Hang: rank 1 (node0) never entered AllReduce #76", said)
        self.assertIn("findings 1", said)

    def live(self):
        return subprocess.run([MUSTER, "diagnose", "--live"], env=self.environment, text=True, capture_output=True,
                              timeout=DEADLINE_S).stdout

    def test_who_sends_is_shown_with_it(self):
        self.replay(self.without_its_last_collective("late-pipeline"))
        ranks = r"(?m)^>? +\d .*(?:Send to|Recv from) [0-3] #\d+ \(16 MiB\), "
        self.until(lambda: len(re.findall(ranks, self.top("--once", code=0))) == 4, lambda: self.top("--once", code=0))
        live = self.live()
        self.assertEqual(len(re.findall(r"(?m)^ +[0-3] .*(?:Send to|Recv from) [0-3] #\d+ \(16 MiB\) ", live)), 4, live)

    def test_wrong_calls(self):
        self.assertIn("exclude each other", self.top("--all", "--own", code=2))
        self.assertIn("one RUN", self.top("a", "b", code=2))
        self.assertIn("--interval", self.top("--interval", "0", code=2))


class Screen(Top):
    def setUp(self):
        super().setUp()
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh")
        self.addCleanup(subprocess.run, ["tmux", "kill-server"], env=self.environment,
                        capture_output=True)
        self.type("PS1=ready:; clear", "Enter")
        self.sees("ready:", but=("PS1",))

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", *arguments], env=self.environment, text=True,
                              capture_output=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def sees(self, *texts, but=()):
        """Waits until all texts stand on the screen, and none of the others."""
        shown = ""

        def there():
            nonlocal shown
            shown = self.screen()
            return all(text in shown for text in texts) and not any(text in shown for text in but)
        self.until(there, lambda: f"not seen: {texts}, or still seen: {but}\n{shown}")
        return shown

    def start(self, more=""):
        self.type(f"{more} {MUSTER} top; echo status $?", "Enter")

    def pid(self):
        shell = self.tmux("list-panes", "-F", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True).stdout
        return int(found.split()[0])

    def ended(self, status=0, left=("q quit",)):
        """Back at the prompt, with a terminal that echoes, and nothing of the screen left."""
        self.sees(f"status {status}", "ready:", but=left)
        self.type("echo ali''ve", "Enter")
        self.sees("\nalive")

    def test_pages_have_keys(self):
        self.replay("late-gpu")
        self.start()
        shown = self.sees("Rank 2 (node0) holds this job back", "4 of 4 ranks", "[ranks 4]")
        self.assertRegex(shown, r"(?m)^> +2 ")
        for key, text in (("c", "c528ca3185a35cb3"), ("o", "ring/ll128"), ("f", "next: look at"),
                          ("?", "quit; nothing of the job is touched"), ("r", "[ranks 4]")):
            self.type(key)
            self.sees(text)
        self.type("Enter")
        self.sees("rank 2 on node0", "late_rank: rank 2")
        self.type("Escape")
        self.sees("[ranks 4]")
        self.type("Down", "Enter")
        self.sees("compared with other ranks", but=("rank 2 on node0",))
        self.type("BSpace", "s")
        self.sees("by rank")
        self.type("q")
        self.ended()

    def test_it_fits_a_small_terminal_and_follows_its_size(self):
        self.replay("late-gpu")
        self.start()
        self.sees("Rank 2", "waited ms")
        self.tmux("resize-window", "-x", "60", "-y", "20")
        shown = self.sees("Rank 2", "made wait ms", "q quit", but=("waited ms",))
        self.assertLessEqual(max(map(len, shown.splitlines())), 60)
        self.assertEqual(len(shown.splitlines()), 20)
        self.tmux("resize-window", "-x", "120", "-y", "40")
        self.sees("waited ms", "host")
        self.type("q")
        self.ended()

    def test_without_colour(self):
        self.replay("late-gpu")
        for environment in ("TERM=vt100", "NO_COLOR=1"):
            self.start(environment)
            self.sees("Rank 2")
            self.assertRegex(self.screen(), r"(?m)^> +2 ")
            self.assertNotRegex(self.screen("-e"), "\x1b\\[(3[1-6]|9[1-6])m")
            self.type("q")
            self.ended(left=()) # a vt100 has one screen alone
            self.type("clear", "Enter")
            self.sees("ready:", but=("status",))
        self.start()
        self.sees("Rank 2")
        self.assertRegex(self.screen("-e"), "\x1b\\[[0-9;]*3[1-6]m") # elsewhere it has some
        self.type("q")

    def test_signals_leave_the_terminal_as_it_was(self):
        self.replay("clean")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.start()
            self.sees("q quit")
            os.kill(self.pid(), number)
            self.ended()
            self.type("clear", "Enter")
            self.sees("ready:", but=("status",))
        self.start()
        self.sees("q quit")
        self.type("C-c")
        self.ended()

    def test_the_end_of_the_job_is_said(self):
        out = self.replay("late-gpu")
        self.start()
        self.sees("Rank 2")
        self.end_job()
        self.sees("The job has ended. How it went: muster report", "0 of 4 ranks")
        self.assertIn(os.path.basename(out), self.screen())
        self.type("q")
        self.ended()

    def test_a_hang_says_for_whom_everybody_waits(self):
        self.replay("hang-absent")
        self.start()
        self.sees("Hang: rank 1 (node0) never entered AllReduce #76", "s for 1, last")
        self.type("q")
        self.ended()

    def test_several_jobs(self):
        self.replay("late-gpu")
        self.replay("clean")
        self.start()
        shown = self.sees("job 1 of 2")
        self.type("n")
        other = self.sees("job 2 of 2")
        self.assertNotEqual(shown.split(",")[0], other.split(",")[0])
        self.type("q")

    def test_an_unknown_terminal(self):
        self.replay("clean")
        self.start("TERM=nonsense")
        self.sees("TERM=nonsense is a terminal that ncurses does not know", "status 2")

    def test_without_utf8_it_draws_in_ascii(self):
        self.replay("late-gpu")
        self.start("LC_ALL=C")
        shown = self.sees("Rank 2")
        self.assertTrue(shown.isascii(), shown)
        self.type("q")
        self.ended()


if __name__ == "__main__":
    unittest.main()
