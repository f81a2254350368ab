"""Recorded jobs whose ranks live on two hosts, their agents, a real nats-server and workers: the right rank
is named over both hosts, once; a worker that is killed and a server that comes back change nothing; who
has not the credentials is not heard. Skipped where nats-server is not installed.
usage: fleet_nats_test.py MUSTER RECORDINGS"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import two_hosts
import wire_oracle
from nats_site import HOSTS, OtherVersion, Site, SlowRelay, StandInRas, free_port, talk

MUSTER, RECORDINGS = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))


def site(config=""):
    return Site(MUSTER, RECORDINGS, config)


class Fleet(unittest.TestCase):
    def test_late_rank_over_two_hosts(self):
        with site() as at:
            hook = os.path.join(at.folder, "hook.sh")
            with open(hook, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\ncat >>{at.folder}/hooked\nexit 3\n")
            os.chmod(hook, 0o755)
            config = os.path.join(at.folder, "muster.yaml")
            with open(config, "w", encoding="utf-8") as file:
                file.write(f'muster: 1\non: {{late_rank: {{exec: ["{hook}"]}}}}\n')
            for host in HOSTS:
                at.agent(host)
            one = at.worker("one", MUSTER_CONFIG=config)
            two = at.worker("two", MUSTER_CONFIG=config)
            at.play("late-gpu", "muster-7.0", 60)
            at.until(lambda: at.told("one") + at.told("two"), "a worker names somebody")
            self.assertEqual(at.told("one") + at.told("two"), [("late_rank", "2")])
            self.assertIn("nodeB", at.log("one") + at.log("two"))
            done = at.diagnose("muster-7_0", "--format", "json")
            self.assertEqual(done.returncode, 1, done.stderr)
            answer = json.loads(done.stdout)
            self.assertEqual([f["ranks"] for f in answer["findings"]], [[2]])
            self.assertEqual((answer["state"]["ranks"], answer["state"]["expected"]), (4, 4))
            text = at.diagnose("muster-7")
            self.assertIn("late_rank: rank 2", text.stdout)
            self.assertIn("4 of 4 ranks on 2 hosts are heard", text.stdout)
            screen = at.top("muster-7")
            self.assertIn("Rank 2 (nodeB) holds this job back", screen.stdout)
            self.assertIn("4 of 4 ranks", screen.stdout)
            self.assertEqual(at.top("no-such-job").returncode, 2)
            page = at.until(lambda: next((p for p in (at.page("one"), at.page("two"))
                                          if "muster_finding_active{" in p), None), "the page shows it")
            self.assertIn('muster_finding_active{run="muster-7.0",', page)
            self.assertIn('finding="late_rank",severity="warning",rank="2"', page)
            self.described(page + at.page("agent-nodeA"))
            self.promtool(page)
            at.until(lambda: os.path.exists(f"{at.folder}/hooked"), "the hook runs")
            at.until(lambda: re.search(r"^muster fleet: hook \S+ failed \(status 3\)$", at.log("one") + at.log("two"),
                                       re.M), "the worker says how its hook went")
            claims = [name for name in os.listdir(f"{at.folder}/muster-7.0") if name.startswith(".hook-")]
            self.assertEqual(len(claims), 1)  # as `muster run` makes them: whoever comes later leaves it alone
            self.take_over(at, {"one": one, "two": two})
            with open(f"{at.folder}/hooked", encoding="utf-8") as file:
                self.assertEqual([json.loads(line)["ranks"] for line in file], [[2]])

    def promtool(self, page):
        """What Prometheus' own tool has to say of a worker's page; where it is not there, nothing."""
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def described(self, pages):
        """The page of metrics names what agent and worker serve of a fleet, and nothing else."""
        path = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "reference", "metrics.md")
        names = r"\b(muster_(?:fleet|agent_nats)_\w+)"
        with open(path, encoding="utf-8") as file:
            self.assertEqual(set(re.findall(names, pages)), set(re.findall(names, file.read())))

    def holder(self, at, workers):
        """On a busy machine a job may have moved: whose lease ran out has given it up."""
        def holds(name):
            log = at.log(name)
            return log.count(": taken") > log.count(": given up")
        return at.until(lambda: next((name for name in workers if holds(name)), None), "a worker holds the job")

    def take_over(self, at, workers):
        """Who holds the job is killed: the other one has it, knows it, and says nothing twice. How long that
        takes is printed; that nobody waits for half a minute is asserted."""
        holder = self.holder(at, workers)
        other = "two" if holder == "one" else "one"
        before = at.log(other).count(": taken")
        begin = time.monotonic()
        at.end(workers[holder], signal.SIGKILL)
        at.until(lambda: at.log(other).count(": taken") > before, "the job is taken over", 30)
        print(f"the job was taken over {time.monotonic() - begin:.2f} s after its worker was killed")
        pages = [""]
        try:
            at.until(lambda: pages.append(at.page(other)) or
                     'finding="late_rank",severity="warning",rank="2"' in pages[-1], "it is found again")
        except AssertionError as error:
            raise AssertionError("%s--- its page\n%s" % (error, pages[-1])) from None
        self.assertEqual(at.told("one") + at.told("two"), [("late_rank", "2")])
        done = at.diagnose("muster-7_0", "--format", "json")
        self.assertEqual([(f["ranks"], f["resolved"]) for f in json.loads(done.stdout)["findings"]],
                         [([2], False)])

    def test_three_jobs_on_two_workers(self):
        """Jobs spread, each is told of once and by who holds it; a killed worker's go to the other, which finds
        again what was told and does not tell it again."""
        jobs = {"muster-21", "muster-22", "muster-23"}
        with site() as at:
            for host in HOSTS:
                at.agent(host)
            workers = {name: at.worker(name) for name in ("one", "two")}
            for name in workers:
                at.until_log(name, "connected")
            for job in sorted(jobs):
                at.play("late-gpu", job, 240)
            told = at.until(lambda: (t := {name: self.told_of(at, name) for name in workers}) and
                            len(t["one"] + t["two"]) == len(jobs) and t, "all jobs' late ranks are named")
            self.assertEqual(sorted(told["one"] + told["two"]), [(job, "late_rank", "2") for job in sorted(jobs)])
            held = {name: self.held(at, name) for name in workers}
            self.assertEqual({name: {job for job, _, _ in told[name]} for name in workers}, held)
            self.assertTrue(held["one"] and held["two"], held)
            at.end(workers["one"], signal.SIGKILL)
            at.until(lambda: self.held(at, "two") == jobs, "the other has all jobs")
            at.until(lambda: set(re.findall(r'^muster_finding_active{run="([^"]*)",.*finding="late_rank",'
                                            r'severity="warning",rank="2".*} 1$', at.page("two"), re.M)) == jobs,
                     "all is found again")
            self.assertEqual(self.told_of(at, "two"), told["two"])

    @staticmethod
    def told_of(at, name):
        """Jobs, kinds and ranks that a worker named, in order."""
        return re.findall(r"(muster-\d+)-\w+: (\w+): rank (\d+)", at.log(name))

    @staticmethod
    def held(at, name):
        """Jobs that a worker has taken and not given up."""
        last = dict(re.findall(r"job \S*?(muster-\d+)-\w+: (taken|given up)", at.log(name)))
        return {job for job, what in last.items() if what == "taken"}

    def test_hang_is_named_over_two_hosts_and_over_when_the_job_ends(self):
        with site() as at:
            for host in HOSTS:
                at.agent(host)
            at.worker("worker")
            played = at.play("hang-absent", "muster-8", 600)
            at.until(lambda: at.told("worker"), "the hang is named")
            self.assertEqual(at.told("worker"), [("hang_absent", "1")])
            self.assertEqual(at.diagnose("muster-8").returncode, 1)
            self.second_witness(at)
            for one in played:
                at.end(one, signal.SIGKILL)

    def second_witness(self, at):
        """NCCL's RAS is heard beside a finding, never instead of one; without an answer the finding stands."""
        finding = json.loads(at.diagnose("muster-8", "--format", "json").stdout)["findings"][0]
        ranks = [{"rank": r, "host": HOSTS[r // 2], "pid": 70 + r, "status": {"async_error": 0},
                  "collective_counts": {"AllReduce": 11 if r == 1 else 12}} for r in range(4)]
        ras = StandInRas(json.dumps({"communicators": [{"hash": "0x" + finding["comm"].removeprefix("0x"),
                                                        "ranks": ranks, "missing_ranks": []}]}))
        heard = "NCCL's RAS counts 11 AllReduce on rank 1 (nodeA, pid 71) of this communicator, 12 on the other 3"
        text = at.diagnose("muster-8", "--ras", ras.where)
        self.assertEqual(text.returncode, 1, text.stderr)
        self.assertIn(heard, re.sub(r"\s+", " ", text.stdout))
        self.assertEqual(ras.heard, ["CLIENT PROTOCOL 2", "SET FORMAT json", "VERBOSE STATUS"])
        answer = json.loads(at.diagnose("muster-8", "--format", "json", "--ras", ras.where).stdout)
        self.assertEqual(answer["findings"][0]["ras"], [heard])
        ras.report = "{"
        broken = at.diagnose("muster-8", "--ras", ras.where)
        self.assertEqual(broken.returncode, 1)
        self.assertIn("no report of NCCL's RAS as JSON", broken.stderr)
        ras.close()
        nobody = at.diagnose("muster-8", "--ras", f"127.0.0.1:{free_port()}")
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("hang_absent: rank 1", nobody.stdout)
        self.assertIn("NCCL's RAS does not answer at", nobody.stderr)

    def test_costs_are_those_of_an_independent_computation(self):
        """What the worker says that ranks made each other wait, to the nanosecond, against another reading of the
        same messages."""
        with site() as at:
            job = wire_oracle.Job()
            listener = wire_oracle.Listener(at.port, job)
            for host in HOSTS:
                at.agent(host)
            at.worker("worker")
            at.play("late-gpu", "muster-14", 60)
            at.until(lambda: at.told("worker"), "a worker names somebody")
            state = at.until(lambda: (s := json.loads(at.diagnose("muster-14", "--format", "json").stdout)["state"]) and
                             s["compared"] and s, "operations are compared")
            at.until(lambda: job.costs(state["compared"])[0][0] == state["compared"], "all is heard")
            self.assertIsNone(listener.wrong)
            self.assertGreater(state["compared"], 30)
            self.assertEqual({one["rank"]: (one["compared"], one["made_wait_ns"], one["waited_ns"])
                              for one in state["ranks_shown"]}, job.costs(state["compared"]))
            listener.close()

    def test_what_an_agent_finds_is_told_to_the_fleet(self):
        """A job of one host: the agent sees all operations of its ranks, and who is late among them is in its
        messages."""
        with site() as at:
            job = wire_oracle.Job()
            listener = wire_oracle.Listener(at.port, job)
            at.agent("nodeA")
            at.worker("worker")
            played = at.play("late-gpu", "muster-15", 60, ("nodeA",))
            at.until(lambda: [2] in sum(job.late.values(), []), "the agent finds that")
            at.until(lambda: at.told("worker"), "a worker names somebody")
            self.assertEqual(sum(job.late.values(), []), [[2]])
            self.assertEqual(at.told("worker"), [("late_rank", "2")])
            for process in played:
                process.terminate()
            at.until(lambda: sum(job.late.values(), []) == [], "nothing holds of a job that is over")
            self.assertIsNone(listener.wrong)
            listener.close()

    def test_clean_job_names_nobody(self):
        with site() as at:
            for host in HOSTS:
                at.agent(host)
            worker = at.worker("worker")
            at.play("clean", "muster-9", 25)
            at.until_log("worker", "job .*muster-9.*: taken")
            done = at.until(lambda: (d := at.diagnose("muster-9")).returncode == 0 and
                            "4 of 4 ranks" in d.stdout and d, "the job is heard")
            self.assertIn("nobody is named", done.stdout)
            self.assertEqual(at.told("worker"), [])
            self.assertEqual(at.end(worker), 0)
            self.assertNotIn("lost", at.log("worker"))  # who goes has lost nothing

    def test_a_rank_that_is_killed_while_nothing_hangs(self):
        """Told by the worker, its host's agent and `diagnose --live` there; not that the others are ended then."""
        with site() as at:
            at.environment["MUSTER_HANG_SECONDS"] = "600"
            for host in HOSTS:
                at.agent(host)
            at.worker("worker")
            played = at.play("clean", "muster-18", 600)
            at.until(lambda: "4 of 4 ranks" in at.diagnose("muster-18").stdout, "the job is heard")
            # Who plays on without the killed one would have passed what only a real job waits in.
            whole = {rank: at.recorded("clean", rank) for rank in range(4)}
            at.until(lambda: {**at.operations("agent-nodeA"), **at.operations("agent-nodeB")} == whole, "all is played")
            ranks = subprocess.run(["pgrep", "-P", str(played[0].pid)], capture_output=True, text=True).stdout.split()
            begin = time.monotonic()
            os.kill(int(ranks[1]), signal.SIGKILL)
            at.until(lambda: at.told("worker"), "the worker names it")
            print(f"the worker named a killed rank after {time.monotonic() - begin:.1f} s")
            self.assertEqual(at.told("worker"), [("hang_dead", "1")])
            named = 'finding="hang_dead",severity="critical",rank="1"'
            at.until(lambda: named in at.page("agent-nodeA"), "the agent's page names it")
            self.assertNotIn("hang_dead", at.page("agent-nodeB"))
            done = subprocess.run([MUSTER, "diagnose", "--live"], capture_output=True, text=True, timeout=60,
                                  env={**at.environment, "MUSTER_SEGMENT_DIR": at.shm["nodeA"]})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("Rank 1 (nodeA", done.stdout)
            self.assertIn("is gone (killed or crashed) while the others live on", done.stdout)
            for one in played:
                at.end(one)
            at.until(lambda: at.diagnose("muster-18").returncode != 1, "it is over with the job")
            self.assertEqual(at.told("worker")[:1], [("hang_dead", "1")])
            self.assertEqual({rank for _, rank in at.told("worker")}, {"1"})

    def test_a_rank_that_is_killed_and_the_others_end_for_it(self):
        """The others abort 1.5 s later. Not named: a job that is cancelled as a whole, whose ranks waited in the same
        place; one whose ranks leave one after the other when all is done."""
        with site() as at:
            at.environment["MUSTER_HANG_SECONDS"] = "600"
            for host in HOSTS:
                at.agent(host)
            at.worker("worker")
            job = {}
            for run, recording in (("muster-30", "hang-absent"), ("muster-31", "clean"), ("muster-32", "hang-absent")):
                played = at.play(recording, run, 600)
                at.until(lambda: "4 of 4 ranks" in at.diagnose(run).stdout, "the job is heard")
                job[run] = [int(rank) for one in played for rank in subprocess.run(
                    ["pgrep", "-P", str(one.pid)], capture_output=True, text=True).stdout.split()]
            time.sleep(2)  # what was called last has been told
            for rank in job["muster-30"]:
                os.kill(rank, signal.SIGTERM)
            for rank in job["muster-31"]:
                os.kill(rank, signal.SIGKILL)
                time.sleep(1.2)
            begin = time.monotonic()
            os.kill(job["muster-32"][1], signal.SIGKILL)
            time.sleep(1.5)
            for rank in (0, 2, 3):
                os.kill(job["muster-32"][rank], signal.SIGABRT)
            at.until(lambda: at.told("worker"), "the worker names it")
            print(f"the worker named who was killed first after {time.monotonic() - begin:.1f} s")
            self.assertEqual(at.told("worker"), [("hang_dead", "1")])
            self.assertRegex(at.log("worker"), "muster-32.*hang_dead: rank 1 .* and never entered")

    def test_two_real_ranks(self):
        """Two jobs of two H200 ranks on two hosts, 150 to 210 operations a second: the one that is late by 6 ms of a
        step of 16 is named while it is recorded, the other job has nobody who is."""
        with site() as at:
            for host in HOSTS:
                at.agent(host)
            at.worker("worker")
            at.until_log("worker", "connected")
            played = []
            for name in ("late", "clean"):
                for rank, host in enumerate(HOSTS):
                    path = os.path.join(at.folder, f"{name}-{rank}.jsonl")
                    two_hosts.write(name, host, rank, path)
                    played.append(at.start(MUSTER, "replay", path, "--hold", "0", "--dir",
                                           os.path.join(at.folder, "muster-" + name), log=f"{name}-{rank}", host=host))
            for process in played:
                process.wait(60)
            self.assertEqual(re.findall(r"muster-(\w+)-\w+: (\w+): rank (\d+)", at.log("worker")),
                             [("late", "late_rank", "1")])

    def test_server_comes_back(self):
        """What agents have to say meanwhile is kept, and told afterwards."""
        with site() as at:
            for host in HOSTS:
                at.agent(host)
            at.worker("worker")
            at.until_log("worker", "connected")
            at.end(at.server, signal.SIGKILL)
            at.until_log("agent-nodeA", "lost; trying again")
            at.play("late-gpu", "muster-10", 120)
            at.until(lambda: "muster_agent_nats_up 0" in at.page("agent-nodeA") and
                     "muster_agent_nats_waiting 0" not in at.page("agent-nodeA"), "messages are kept")
            at.start_server()
            at.until(lambda: at.told("worker"), "a worker names somebody")
            self.assertEqual(at.told("worker"), [("late_rank", "2")])
            self.assertIn("muster_agent_nats_lost_total 0", at.page("agent-nodeA"))

    def test_answers_that_come_late(self):
        """A worker whose requests are not answered within a second gives its jobs up and takes them again once
        they are; what agents have to say meanwhile is told late, and not lost."""
        with site() as at:
            relay = SlowRelay(at.port)
            for host in HOSTS:
                at.agent(host, url=relay.url)
            at.worker("worker", url=relay.url)
            at.play("late-gpu", "muster-12", 120)
            at.until_log("worker", r"job .*muster-12.*: taken")
            relay.late_s = 2.5
            at.until_log("worker", r"job .*muster-12.*: given up: .* answered late")
            relay.late_s = 0
            at.until_log("worker", r"(?s)given up.*job .*muster-12.*: taken")
            at.until(lambda: at.told("worker"), "the worker names somebody")
            self.assertEqual(at.told("worker"), [("late_rank", "2")])
            at.until(lambda: "muster_agent_nats_waiting 0" in at.page("agent-nodeA"), "all is told")
            self.assertIn("muster_agent_nats_lost_total 0", at.page("agent-nodeA"))
            relay.close()

    def test_an_agent_of_another_version(self):
        """A host whose agent tells in another wire version is named once, with what to update; the others are heard,
        and nobody is named on what is missing. Once it is updated, it is heard."""
        with site() as at:
            relay = OtherVersion(at.port, 1)
            at.agent("nodeA")
            at.agent("nodeB", url=relay.url)
            at.worker("worker")
            at.play("late-gpu", "muster-16", 240)
            at.until_log("worker", "muster-16.*: host nodeB tells in wire version 1, this muster reads 4: update muster "
                                   "on that host")
            at.until(lambda: (n := re.search(r"messages_refused_total{.*} (\d+)", at.page("worker"))) and
                     int(n[1]) > 40, "it goes on telling")
            self.assertEqual(at.log("worker").count("wire version"), 1)
            said = at.diagnose("muster-16")
            self.assertIn("2 of 4 ranks on 1 hosts are heard", said.stdout)
            self.assertIn("Not heard, as muster there is of another version: nodeB.", said.stdout)
            self.assertEqual(at.told("worker"), [])
            relay.version = None
            said = at.until(lambda: (d := at.diagnose("muster-16").stdout) and "4 of 4 ranks" in d and d, "all are heard")
            self.assertNotIn("another version", said)
            relay.close()

    def test_where_all_agents_are_of_another_version(self):
        """The page has such a job, too: its alert needs what is refused."""
        with site() as at:
            relay = OtherVersion(at.port, 1)
            for host in HOSTS:
                at.agent(host, url=relay.url)
            at.worker("worker")
            at.play("late-gpu", "muster-16.0", 240)
            at.until(lambda: re.search(r'^muster_fleet_messages_refused_total{run="muster-16_0",uid="\d+"} [1-9]',
                                       at.page("worker"), re.M), "the page counts them")
            relay.close()

    def test_a_worker_of_another_version(self):
        """Two of them would judge one job by different rules: the later one ends and says what to do; the first
        keeps its jobs."""
        with site() as at:
            for host in HOSTS:
                at.agent(host)
            at.worker("one")
            at.play("late-gpu", "muster-17", 240)
            at.until(lambda: at.told("one"), "a worker names somebody")
            talk(at.port, "", ("PUB $KV.muster_findings.version", b"1"))
            later = at.worker("two")
            self.assertEqual(later.wait(60), 2)
            self.assertIn("the fleet there speaks version 1, this muster 4: update all workers and agents", at.log("two"))
            self.assertEqual(at.log("two").count("taken"), 0)
            self.assertIn("4 of 4 ranks", at.diagnose("muster-17").stdout)
            self.assertEqual(at.told("one"), [("late_rank", "2")])

    def test_full_disk(self):
        """A server that has no room for a minute of messages: said with what to look at; jobs and agents go on."""
        with Site(MUSTER, RECORDINGS, jetstream="max_file_store: 4096") as at:
            for host in HOSTS:
                at.agent(host)
            worker = at.worker("worker")
            at.until_log("worker", "muster fleet: NATS has no room")
            at.play("late-gpu", "muster-13", 60, HOSTS[1:])
            at.until_log("agent-nodeB", "does not take messages")
            at.until(lambda: "muster_agent_nats_waiting 0" not in at.page("agent-nodeB"), "messages are kept")
            at.until(lambda: 'finding="late_rank",severity="warning",rank="2"' in at.page("agent-nodeB"),
                     "the agent judges its own host")
            self.assertIsNone(worker.poll())
            self.assertEqual(at.end(worker), 0)

    @unittest.skipUnless(os.geteuid() == 0 and
                         subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0,
                         "a file system of one's own needs root")
    def test_a_disk_that_fills_up(self):
        """JetStream stops in the middle: agents keep what they have; a server with room, which knows nothing of
        before, is told what they kept, and nobody else is named."""
        with Site(MUSTER, RECORDINGS, jetstream="max_file_store: 4GB", disk="8m") as at:
            for host in HOSTS:
                at.agent(host)
            worker = at.worker("worker")
            at.play("late-gpu", "muster-15", 240)
            at.until(lambda: at.told("worker"), "a worker names somebody")
            at.fill_disk()
            at.until(lambda: "muster_agent_nats_waiting 0" not in at.page("agent-nodeA"), "messages are kept")
            self.assertIsNone(worker.poll())
            at.end(at.server, signal.SIGKILL)
            at.server = at.start_server()
            at.until(lambda: "muster_agent_nats_waiting 0" in at.page("agent-nodeA"), "messages are told")
            at.until(lambda: "4 of 4 ranks" in at.diagnose("muster-15").stdout, "the job is heard again")
            self.assertEqual(set(at.told("worker")), {("late_rank", "2")})
            self.assertIn("muster_agent_nats_lost_total 0", at.page("agent-nodeA"))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
