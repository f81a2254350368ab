"""Whole jobs, one process per rank, that share the GPUs and work one at a time, when told to.

A rank reads a line from its standard input, works, answers with one line of JSON on its standard
output, and waits for the next; its first answer, unasked, says that it is ready. "end" is the line
after which it leaves with status 0. End of file instead: nobody is there any more.
"""
import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time

import ranks

LOOK_S = 0.5  # between two looks for ranks that ended with their output held open by a child
LAST_LINES, LAST_BYTES = 3, 1 << 16
FATAL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Failed(Exception):
    """What went wrong, then the last words of the job's ranks, one line each."""


class Rank:
    def __init__(self, case, number, command, environment):
        self.number, self.name, self.unread = number, "rank %d of %s" % (number, case), b""
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, bufsize=0,
                                        start_new_session=True)

    def say(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            pass  # its output tells more

    def status(self, wait_s=0.0):
        """Exit status, -N by signal N; None while it runs. Reaps nothing: the group keeps its id."""
        end = time.monotonic() + wait_s
        while True:
            left = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if left:
                return left.si_status if left.si_code == os.CLD_EXITED else -left.si_status
            if time.monotonic() >= end:
                return None
            time.sleep(0.02)

    def last_words(self):
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - LAST_BYTES))
        lines = self.log.read().decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        return "%s: %s" % (self.name, " | ".join(lines) or "(silent)")


class Stage:
    """Holds the jobs. Leaving it as a context kills what still runs, with its children."""

    def __init__(self, limit_s, clock=time.monotonic):
        """limit_s: for any answer, and for the end."""
        self.limit_s, self.clock = limit_s, clock
        self.jobs, self.ports = {}, contextlib.ExitStack()
        self.outputs = selectors.DefaultSelector()

    def start(self, case, command, n, changes):
        """n ranks of a job called `case`; changes: to the environment, see ranks.py."""
        job, (held, port) = self.jobs.setdefault(case, []), ranks.hold_port()
        self.ports.enter_context(held)
        for number in range(n):
            rank = Rank(case, number, command, ranks.environment_of(number, n, port, changes))
            job.append(rank)
            self.outputs.register(rank.process.stdout, selectors.EVENT_READ, (case, rank))

    def ready(self, limit_s):
        """{case: its ranks' first answers}; limit_s instead of the limit of the others."""
        return self._answers(list(self.jobs), limit_s)

    def ask(self, case, line):
        """The answers of a job's ranks; while they work, no other job may say anything."""
        for rank in self.jobs[case]:
            rank.say(line)
        return self._answers([case], self.limit_s)[case]

    def finish(self):
        """Tells all ranks to leave, and waits until they did."""
        for job in self.jobs.values():
            for rank in job:
                self.outputs.unregister(rank.process.stdout)
                rank.say("end")
        end = self.clock() + self.limit_s
        for case, job in self.jobs.items():
            for rank in job:
                while rank.status(LOOK_S) is None:
                    if self.clock() > end:
                        self._fail(case, "%s did not end in %g s" % (rank.name, self.limit_s))
                if rank.status():
                    self._fail(case, "%s ended with status %d" % (rank.name, rank.status()))

    def _answers(self, cases, limit_s):
        awaited = {rank: case for case in cases for rank in self.jobs[case]}
        answers = {case: [None] * len(self.jobs[case]) for case in cases}
        end = self.clock() + limit_s
        while awaited:
            events = self.outputs.select(LOOK_S)
            for key, _ in events:
                case, rank = key.data
                line = self._read(case, rank)
                if line is not None:
                    if awaited.pop(rank, None) is None:
                        self._fail(case, "%s was not asked, but says %r" % (rank.name, line))
                    answers[case][rank.number] = self._parse(case, rank, line)
            if not events:
                self._look_for_dead()
            if awaited and self.clock() > end:
                self._fail(next(iter(awaited.values())), "no answer in %g s: %s" % (
                    limit_s, ", ".join(rank.name for rank in awaited)))
        return answers

    def _read(self, case, rank):
        """A whole line if one is there."""
        data = os.read(rank.process.stdout.fileno(), 1 << 16)
        if not data:
            self._died(case, rank)
        line, newline, rest = (rank.unread + data).partition(b"\n")
        rank.unread = b"" if newline else line
        if newline and rest:
            self._fail(case, "%s says more than it was asked for: %r" % (rank.name, rest[:80]))
        return line.decode(errors="replace") if newline else None

    def _parse(self, case, rank, line):
        try:
            return json.loads(line)
        except ValueError:
            self._fail(case, "%s says %r, not JSON" % (rank.name, line[:80]))

    def _look_for_dead(self):
        for case, job in self.jobs.items():
            for rank in job:
                if rank.status() is not None:
                    self._died(case, rank)

    def _died(self, case, rank):
        status = rank.status(wait_s=5)
        self._fail(case, rank.name + (" closed its output" if status is None
                                      else " died (status %d)" % status))

    def _fail(self, case, what):
        raise Failed("\n".join([what] + [rank.last_words() for rank in self.jobs[case]]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, FATAL)
        try:
            every = [rank for job in self.jobs.values() for rank in job]
            for rank in every:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(rank.process.pid, signal.SIGKILL)
            for rank in every:
                rank.process.wait()
                for file in (rank.process.stdin, rank.process.stdout, rank.log):
                    file.close()
            self.outputs.close()
            self.ports.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
