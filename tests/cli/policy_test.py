"""muster policy and muster report --by rule as a shell sees them: texts, errors, exit statuses.

usage: policy_test.py MUSTER SOURCE_FOLDER STEERED [unittest options]; STEERED: tests/host/steered.c
"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from schema_fits import fits

MUSTER, SOURCE, STEERED = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)

POLICY = """\
muster: 1
policy:
  - name: wan-simple
    match: {collective: [all_reduce, reduce_scatter], bytes: 64KiB..1GiB, nodes: ">=2"}
    prefer: {proto: simple, algo: [ring, tree], channels: 8}
  - name: small-ll
    match: {collective: all_gather, bytes: "<=32KiB"}
    avoid: {proto: ll128}
  - name: big
    match: {bytes: ">=1MiB"}
    channels: 4
"""

SUMS = """\
# Made up.
tree ll 40
tree simple 95.5
ring ll 12/1
ring simple 28.5
nvls simple -1
"""


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.write("policy.yaml", POLICY)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    def muster(self, *args):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_"))}
        return subprocess.run([MUSTER, *args], cwd=self.folder, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", timeout=60,
                              check=False)

    def good(self, *args):
        done = self.muster("policy", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return done.stdout

    def wrong(self, *args):
        """A wrong call, or something that cannot be read."""
        done = self.muster("policy", *args)
        self.assertEqual((done.returncode, done.stdout), (2, ""), args)
        return done.stderr


class Dispatch(Case):
    def test_wrong_words_are_named(self):
        self.assertIn("policy: check, explain, simulate, show or schema?", self.wrong())
        self.assertIn('"chek" is not check, explain, simulate, show or schema, did you mean check?',
                      self.wrong("chek", "policy.yaml"))
        self.assertNotIn("did you mean", self.wrong("zzzzzz"))

    def test_each_explains_itself(self):
        overview = self.good("--help")
        for word in ("check", "explain", "simulate", "show", "schema"):
            self.assertRegex(overview, rf"(?m)^  {word} ")
            text = self.good(word, "--help")
            self.assertIn(f"usage: muster policy {word}", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_wrong_calls(self):
        self.assertIn("muster policy check: which file?", self.wrong("check"))
        self.assertIn("one file at a time", self.wrong("check", "policy.yaml", "policy.yaml"))
        self.assertIn("unknown option --format", self.wrong("check", "--format", "json", "x"))
        self.assertIn("takes no argument", self.wrong("schema", "x"))
        self.assertIn("which run?", self.wrong("simulate", "policy.yaml"))
        self.assertIn("--ranks is missing", self.wrong("show", "policy.yaml", "--nodes", "2"))


class Check(Case):
    def check(self, content):
        self.write("p.yaml", content)
        done = self.muster("policy", "check", "p.yaml")
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_fine(self):
        digest = hashlib.sha256(POLICY.encode()).hexdigest()
        self.assertEqual(self.check(POLICY),
                         (0, f"p.yaml: 3 rules are fine\nMUSTER_POLICY_SHA256={digest}\n"))
        status, text = self.check("muster: 1\npolicy:\n  - {name: a, leave: true}\n")
        self.assertEqual((status, text.splitlines()[0]), (0, "p.yaml: 1 rule is fine"))

    def test_documents_without_rules_are_fine(self):
        for content in ("muster: 1\n", "muster: 1\npolicy:\n", "muster: 1\npolicy: []\n",
                        "muster: 1\r\npolicy:\r\n"):
            status, text = self.check(content)
            self.assertEqual((status, text.splitlines()[0]), (0, "p.yaml: 0 rules are fine"), content)

    def test_an_empty_file_lacks_its_version(self):
        self.assertEqual(self.check(""), (1, "p.yaml:1:1: error: expected 'muster: 1', the version "
                                             "of this format\n"
                                             "p.yaml: 1 error: the policy would be off as a whole\n"))

    def test_crlf_is_fine(self):
        status, text = self.check(POLICY.replace("\n", "\r\n"))
        self.assertEqual((status, text.splitlines()[0]), (0, "p.yaml: 3 rules are fine"))

    def test_a_warning_is_no_error(self):
        status, text = self.check(POLICY + "  - {name: more, match: {bytes: 2MiB}, leave: true}\n")
        lines = text.splitlines()
        self.assertEqual(status, 0)
        self.assertRegex(lines[0], r"^p\.yaml:12:5: warning: .*big")
        self.assertEqual(lines[1], "p.yaml: 4 rules are fine, 1 warning")

    def test_errors_are_all_said_with_their_place(self):
        status, text = self.check("muster: 1\npolicy:\n"
                                  "  - name: x\n"
                                  "    match: {byte: 3}\n"
                                  "    prefer: {proto: lll}\n")
        self.assertEqual(status, 1)
        self.assertEqual(text, "p.yaml:4:13: error: unknown key 'byte' in match, did you mean "
                               "'bytes'?\n"
                               "p.yaml:5:21: error: proto: expected ll, ll128 or simple, found "
                               "'lll', did you mean 'll'?\n"
                               "p.yaml: 2 errors: the policy would be off as a whole\n")

    def test_the_rest_of_the_document_counts(self):
        status, text = self.check(POLICY + "capture: {timeing: full}\n")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"^p\.yaml:12:11: error: .*timeing")

    def test_what_is_no_yaml_is_refused_at_its_place(self):
        deep = "muster: 1\npolicy: " + "[" * 2000
        for content in (POLICY + "\t- name: tab\n", POLICY.encode() + b"  - {name: \xff}\n", deep,
                        POLICY + "  - {name: cut", "muster: 1\npolicy: &a []\n",
                        POLICY.encode() + b"\0\n"):
            status, text = self.check(content)
            self.assertEqual(status, 1, content[-40:])
            self.assertRegex(text, r"^p\.yaml:(\d+:\d+:)? error: ")

    def test_a_policy_that_does_not_fit_the_environment_is_told(self):
        status, text = self.check(POLICY + "#" * (96 << 10) + "\n")
        self.assertEqual(status, 0)
        self.assertIn("warning: larger than 96 KiB", text)
        status, text = self.check(POLICY + "#" * (1 << 20) + "\n")
        self.assertEqual(status, 1)
        self.assertIn("p.yaml: error: larger than 1 MiB", text)

    def test_what_cannot_be_read(self):
        self.assertIn("muster policy check: nowhere: No such file", self.wrong("check", "nowhere"))
        self.assertIn("not a regular file", self.wrong("check", self.folder))
        os.mkfifo(self.path("fifo"))
        self.assertIn("not a regular file", self.wrong("check", "fifo"))
        if os.geteuid():
            os.chmod(self.path("policy.yaml"), 0)
            self.assertIn("Permission denied", self.wrong("check", "policy.yaml"))


class Explain(Case):
    WHAT = ("explain", "policy.yaml", "--collective", "all_reduce", "--bytes", "64MiB", "--ranks",
            "16", "--nodes", "2")

    def test_what_nccl_has(self):
        self.assertEqual(self.good(*self.WHAT), """\
all_reduce of 64 MiB, 16 ranks on 2 nodes
  wan-simple (line 3): decides: prefer tree/simple, ring/simple; 8 channels
  (2 later rules are not looked at)

what NCCL has, and what is added to its costs
                                  ll               ll128              simple
  tree                       +1000 s             +1000 s                kept
  ring                       +1000 s             +1000 s                kept
  collnet_direct                   -                   -             +1000 s
  collnet_chain                    -                   -             +1000 s
  nvls                             -                   -             +1000 s
  nvls_tree                        -                   -             +1000 s
channels: at most 8
""")

    def test_a_table(self):
        self.write("costs", SUMS)
        self.assertEqual(self.good(*self.WHAT, "--table", "costs"), """\
all_reduce of 64 MiB, 16 ranks on 2 nodes
  wan-simple (line 3): decides: prefer tree/simple, ring/simple; 8 channels
  (2 later rules are not looked at)

costs in microseconds, and what is added to them
                                  ll               ll128              simple
  tree                  40.0 +1000 s                   -                95.5
  ring               67120.9 +1000 s                   -                28.5
NCCL's own choice: ring/simple, 28.5 us
with the rule: ring/simple, 28.5 us
channels: at most 8
""")

    def test_why_earlier_rules_do_not_match(self):
        text = self.good("explain", "policy.yaml", "-c", "AllGather", "-b", "1MiB", "-r", "4")
        self.assertTrue(text.startswith("""\
all_gather of 1 MiB, 4 ranks on 1 node
  wan-simple (line 3): no, all_gather is not all_reduce or reduce_scatter
  small-ll (line 6): no, bytes 1 MiB is not <= 32 KiB
  big (line 9): decides: 4 channels
"""), text)
        self.assertIn("from NCCL 2.29.2 on not written for all_gather", text)
        self.assertIn("not where NCCL offers CollNet", text)

    def test_no_rule(self):
        self.assertEqual(self.good("explain", "policy.yaml", "-c", "reduce", "-b", "8", "-r", "4"), """\
reduce of 8 B, 4 ranks on 1 node
  wan-simple (line 3): no, reduce is not all_reduce or reduce_scatter
  small-ll (line 6): no, reduce is not all_gather
  big (line 9): no, bytes 8 B is not >= 1 MiB
  no rule matches: the choice stays NCCL's, nothing is written
""")

    def test_a_broadcast_may_be_asked_about_as_a_gather(self):
        self.assertIn("from NCCL 2.29 on it may be asked about as an all_gather of 4 MiB\n",
                      self.good("explain", "policy.yaml", "-c", "broadcast", "-b", "1MiB", "-r", "4"))

    def test_what_is_not_offered_is_not_forced(self):
        self.write("costs", "nvls simple 12\nring ll 13\n")
        text = self.good(*self.WHAT, "--table", "costs")
        self.assertIn("NCCL offers nothing of what the rule keeps: nothing is written", text)
        self.assertIn("with the rule: nvls/simple, 12.0 us\nchannels: not written\n", text)

    def test_json_says_the_same(self):
        self.write("costs", SUMS)
        found = json.loads(self.good(*self.WHAT, "--format", "json", "--table", "costs"))
        self.assertEqual(found["rule"], "wan-simple")
        self.assertEqual(found["written"], "applied")
        self.assertEqual(found["channels"], 8)
        self.assertEqual(found["operation"]["bytes"], 64 << 20)
        self.assertEqual(found["communicator"], {"ranks": 16, "nodes": 2, "nvlink_domains": None})
        self.assertEqual([(rule["name"], rule["matches"]) for rule in found["rules"]],
                         [("wan-simple", True), ("small-ll", False), ("big", True)])
        self.assertEqual({(e["algo"], e["proto"]): e["raised"] for e in found["table"]},
                         {("tree", "ll"): True, ("tree", "simple"): False, ("ring", "ll"): True,
                          ("ring", "simple"): False})
        self.assertEqual(found["choice_after"], "ring/simple")
        bare = json.loads(self.good(*self.WHAT, "--format", "json"))
        self.assertEqual((bare["choice_after"], bare["table"][0]["before_us"]), (None, None))

    def test_wrong_calls(self):
        self.assertIn("--bytes is missing",
                      self.wrong("explain", "policy.yaml", "-c", "reduce", "-r", "4"))
        self.assertIn("--ranks is missing",
                      self.wrong("explain", "policy.yaml", "-c", "reduce", "-b", "4"))
        self.assertIn('--collective: "all_reduc" is not all_reduce, all_gather, reduce_scatter, '
                      "broadcast or reduce, did you mean all_reduce?",
                      self.wrong("explain", "policy.yaml", "-c", "all_reduc", "-b", "4", "-r", "4"))
        self.assertIn("--nodes 5: more than --ranks 4",
                      self.wrong("explain", "policy.yaml", "-c", "reduce", "-b", "4", "-r", "4",
                                 "-n", "5"))
        self.assertIn("less than 1", self.wrong(*self.WHAT, "--pipe-ops", "0"))
        self.assertIn("costs: No such file", self.wrong(*self.WHAT, "--table", "costs"))
        self.write("costs", "ring fast 3\n")
        self.assertIn("muster policy explain: costs:1:6: unknown protocol",
                      self.wrong(*self.WHAT, "--table", "costs"))

    def test_a_wrong_policy(self):
        self.write("policy.yaml", "muster: 2\n")
        done = self.muster("policy", *self.WHAT)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("policy.yaml:1:9: error: ", done.stderr)


class Show(Case):
    def test_text(self):
        digest = hashlib.sha256(POLICY.encode()).hexdigest()
        rules = f"""\
policy.yaml: 3 rules, SHA-256 {digest}
  wan-simple (line 3)
      all_reduce, reduce_scatter; bytes 64 KiB..1 GiB; nodes >= 2
      prefer tree/simple, ring/simple; 8 channels
  small-ll (line 6)
      all_gather; bytes <= 32 KiB
      avoid any/ll128
  big (line 9)
      bytes >= 1 MiB
      4 channels
"""
        self.assertEqual(self.good("show", "policy.yaml"), rules)
        self.assertEqual(self.good("show", "policy.yaml", "--ranks", "16", "--nodes", "2"),
                         rules + """
for 16 ranks on 2 nodes
  collective        bytes                     rule
  all_reduce        <= 65535 B                -
                    64 KiB..1 GiB             wan-simple
                    >= 1073741825 B           big
  all_gather        <= 32 KiB                 small-ll
                    32769 B..1048575 B        -
                    >= 1 MiB                  big
  reduce_scatter    <= 65535 B                -
                    64 KiB..1 GiB             wan-simple
                    >= 1073741825 B           big
  broadcast         <= 1048575 B              -
                    >= 1 MiB                  big
  reduce            <= 1048575 B              -
                    >= 1 MiB                  big
""")

    def test_json_covers_every_size_once_and_agrees_with_explain(self):
        self.write("policy.yaml", POLICY +
                   "  - {name: piped, match: {pipe_ops: '2..4', bytes: 100..200}, leave: true}\n")
        found = json.loads(self.good("show", "policy.yaml", "-r", "4", "--format", "json"))
        self.assertEqual([rule["name"] for rule in found["rules"]],
                         ["wan-simple", "small-ll", "big", "piped"])
        rows = {}
        for row in found["table"]:
            rows.setdefault((row["collective"], row["pipe_ops_min"]), []).append(row)
        for of in rows.values():
            self.assertEqual(of[0]["bytes_min"], 0)
            self.assertEqual(of[-1]["bytes_max"], 2**64 - 1)
            for before, after in zip(of, of[1:]):
                self.assertEqual(before["bytes_max"] + 1, after["bytes_min"])
        for row in found["table"]:
            if row["pipe_ops_max"] == 0:
                continue
            why = json.loads(self.good(
                "explain", "policy.yaml", "-c", row["collective"], "-r", "4", "-f", "json",
                "-b", str(row["bytes_min"]), "--pipe-ops", str(max(row["pipe_ops_min"], 1))))
            self.assertEqual(why["rule"], row["rule"], row)

    def test_without_a_communicator_there_is_no_table(self):
        found = json.loads(self.good("show", "policy.yaml", "--format", "json"))
        self.assertEqual((found["communicator"], found["table"]), (None, []))


class Simulate(Case):
    def setUp(self):
        super().setUp()
        self.env = {**os.environ, "MUSTER_TIMING": "channels"}

    def replay(self, name):
        recording = os.path.join(SOURCE, "tests/traces/recordings", name)
        done = subprocess.run([MUSTER, "replay", recording, "--speed", "max", "--out", name],
                              cwd=self.folder, env=self.env, stderr=subprocess.PIPE, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_text(self):
        self.replay("clean")
        self.write("policy.yaml", """\
muster: 1
policy:
  - {name: simple, match: {bytes: 4MiB..16MiB}, prefer: {proto: simple}}
  - {name: few, match: {bytes: ">16MiB"}, channels: 8}
""".replace('">16MiB"', '">=16777217"'))
        self.assertEqual(self.good("simulate", "policy.yaml", "clean"), """\
policy.yaml on clean: 360 of 908 operations would change, 548 stay as they are

  collective            size >=  ranks  nodes      count  ran                       decided by
  all_reduce                4 B      4      1          8  ring/ll 1 ch              -
  all_reduce              1 KiB      4      1        180  ring/ll 1 ch              -
  all_reduce            256 KiB      4      1        180  ring/ll 16 ch             -
  all_reduce              4 MiB      4      1        180  ring/ll128 24 ch          simple
      would change: prefer any/simple; effect unknown, not measured
  all_reduce             16 MiB      4      1        180  ring/simple 24 ch         simple
  all_reduce             32 MiB      4      1        180  ring/simple 24 ch         few
      would change: 8 channels; effect unknown, not measured

  - what would change does so only where NCCL offers something that the rule keeps, which a run \
does not tell
  - operations are judged one by one: NCCL asks about several small ones of a group together, \
with their bytes in sum
""")

    def test_json(self):
        self.replay("kinds-2rank")
        found = json.loads(self.good("simulate", "policy.yaml", "kinds-2rank", "-f", "json"))
        self.assertEqual((found["asked"], found["not_asked"], found["left_out"]), (272, 100, 0))
        self.assertEqual(found["run"], ["kinds-2rank"])
        self.assertEqual(sum(row["count"] for row in found["classes"]), found["asked"])
        for row in found["classes"]:
            self.assertEqual(row["rule"], "big" if row["size"] >= 1 << 20 else None)
            self.assertEqual(row["change"], "would" if row["rule"] else "none")
            self.assertEqual(row["asked_as"], row["collective"])
            self.assertEqual(row["effects"], [])

    def test_a_run_that_cannot_be_read(self):
        self.assertIn("nowhere: neither a run directory nor a pid",
                      self.wrong("simulate", "policy.yaml", "nowhere"))

    def test_report_without_a_policy(self):
        self.replay("clean")
        done = self.muster("report", "clean", "--by", "rule")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("\nno policy\n", done.stdout)
        self.assertEqual(self.muster("report", "clean", "--by", "rule", "--format", "csv").stdout,
                         "sha256,state,processes,rule,line,hits,not_offered,algo,proto,channels,"
                         "count\n")


STEER = """\
muster: 1
policy:
  - name: small
    match: {collective: all_reduce, bytes: "<=64KiB"}
    prefer: {algo: ring, proto: ll}
  - name: big
    match: {collective: all_reduce}
    prefer: {algo: tree}
    channels: 4
  - name: none-of-it
    match: {collective: all_gather}
    prefer: {algo: pat}
"""


class Steered(Case):
    """A job of 3 ranks and 20 rounds of 4 collectives, whose NCCL asks the tuner."""

    def setUp(self):
        super().setUp()
        self.write("steer.yaml", STEER)

    def job(self, run, *options):
        done = self.muster("run", "-q", "-n", "--timing", "channels", "-d", run, *options, "--", STEERED, "3",
                           "20")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def rules(self, run):
        done = self.muster("report", run, "--by", "rule")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout[done.stdout.index("rules of the policy"):]

    ROWS = """\
rules of the policy, all ranks together
  rule        line  hits  not offered  ran: algo  proto   ch  count
  small          3    60            0  ring       ll       8     60
  big            6   120            0  tree       ll       4    120
  none-of-it    10    60           60  ring       simple   8     60
"""

    def test_report_by_rule(self):
        self.job("out", "--policy", "steer.yaml")
        self.assertEqual(self.rules("out"), self.ROWS)
        digest = hashlib.sha256(STEER.encode()).hexdigest()
        csv = self.muster("report", "out", "--by", "rule", "--format", "csv").stdout
        self.assertEqual(csv.splitlines()[1], f"{digest},active,3,small,3,60,0,ring,ll,8,60")
        rows = json.loads(self.muster("report", "out", "--format", "json").stdout)["rules"]
        self.assertEqual([(row["rule"], row["hits"], row["not_offered"], row["count"])
                          for row in rows],
                         [("small", 60, 0, 60), ("big", 120, 0, 120), ("none-of-it", 60, 60, 60)])

    def test_report_by_rule_of_logs_alone(self):
        self.job("out", "--policy", "steer.yaml")
        for segment in glob.glob(self.path("out/*.seg")):
            os.remove(segment)
        self.assertTrue(self.rules("out").startswith(self.ROWS))

    def test_report_by_rule_without_the_text(self):
        self.job("out", "--policy", "steer.yaml")
        os.remove(glob.glob(self.path("out/policy-*.yaml"))[0])
        text = self.rules("out")
        self.assertIn("  big            6   120            0\n", text)
        self.assertIn("what ran under each rule: the run directory holds no policy-", text)

    def test_what_a_policy_did_is_what_it_would_change(self):
        self.job("plain")
        self.job("out", "--policy", "steer.yaml")
        alone = json.loads(self.good("simulate", "steer.yaml", "plain", "-f", "json"))
        both = json.loads(self.good("simulate", "steer.yaml", "plain", "out", "-f", "json"))
        after = json.loads(self.good("simulate", "steer.yaml", "out", "-f", "json"))
        self.assertEqual({row["change"] for row in alone["classes"]}, {"would"})
        self.assertEqual([row["effects"] for row in alone["classes"]], [[]] * 4)
        self.assertEqual((both["asked"], len(both["classes"])), (240, 4))
        for row in both["classes"]:
            effect = row["effects"][0] if row["effects"] else None
            self.assertEqual(effect is None, row["rule"] == "none-of-it")
            if effect:
                self.assertEqual(effect["covered"], 60)
                times = 1.5 if row["rule"] == "small" else 3.0
                self.assertAlmostEqual(effect["clock_ratio"], times, delta=0.01)
                # What passes between operations is in both.
                self.assertAlmostEqual(effect["ratio"], times, delta=0.1)
                self.assertEqual(effect["by"], "beat")
        self.assertEqual({row["rule"]: row["change"] for row in after["classes"]},
                         {"small": "none", "big": "none", "none-of-it": "would"})


class Files(Case):
    def test_the_schema_is_json_and_names_every_key(self):
        schema = json.loads(self.good("schema"))
        rule = schema["properties"]["policy"]["items"]["properties"]
        self.assertEqual(set(rule), {"name", "match", "prefer", "avoid", "channels", "leave"})
        self.assertIn("nvlink_domains", rule["match"]["properties"])

    def agree(self, schema, document, right):
        """JSON is YAML: both read the same text."""
        self.write("p.yaml", json.dumps(document))
        done = self.muster("policy", "check", "p.yaml")
        self.assertEqual((done.returncode == 0, fits(schema, document)), (right, right),
                         (document, done.stdout))

    def test_an_editor_and_the_parser_agree(self):
        schema = json.loads(self.good("schema"))
        def rule(**parts):
            return {"muster": 1, "policy": [{"name": "a", **parts}]}
        leave = {"leave": True}
        for document in (
                {"muster": 1}, {"muster": 1, "policy": None, "capture": {"timing": "full"}},
                {"muster": 1, "on": {"hang_absent": "log"}, "diagnose": None}, rule(**leave),
                rule(leave="true"), rule(channels=64), rule(channels="8"),
                {"muster": "1", "policy": [{"name": 3, "leave": True}]},
                *(rule(prefer={"algo": word}) for word in ("ring", "NVLS_TREE", "CollnetDirect",
                                                           ["Ring", "nvls-tree"])),
                *(rule(avoid={"proto": word}) for word in ("LL128", "ll_128", "Simple")),
                *(rule(match={"collective": word}, **leave)
                  for word in ("AllReduce", "all-reduce", ["all_gather", "ReduceScatter"])),
                *(rule(match={"bytes": word}, **leave)
                  for word in (0, "64KiB..1GiB", ">=5 MB", "<= 3", [1, "2..3"], "0B"))):
            self.agree(schema, document, True)
        for document in (
                {"policy": []}, {"muster": 2}, {"muster": 1, "polcy": []},
                {"muster": 1, "policy": {}}, {"muster": 1, "policy": [{"leave": True}]},
                rule(), rule(match={"bytes": 3}), rule(leave=False), rule(leave=True, channels=3),
                rule(channels=0), rule(channels=65), rule(channels="8x"), rule(prefer={}),
                rule(prefer={"chunk_size": 3}), rule(share=3), rule(match={}, **leave),
                rule(prefer={"algo": "rig"}), rule(prefer={"algo": []}),
                rule(prefer={"proto": ["ll", "ll"]}), rule(avoid={"proto": "ll", "channels": 3}),
                *(rule(match={"bytes": word}, **leave)
                  for word in (-1, "1.5MiB", "64KB", "<10", "1GiB..", [], [[3]], "1..2..3", "x")),
                rule(match={"ranks": "8KiB"}, **leave), rule(match={"collective": "send"}, **leave)):
            self.agree(schema, document, False)

    def test_samples_are_fine(self):
        samples = glob.glob(os.path.join(SOURCE, "config/*.yaml"))
        self.assertGreaterEqual(len(samples), 3)
        for sample in samples:
            self.assertRegex(self.good("check", sample), r": \d+ rules? (is|are) fine\nMUSTER")

    def test_what_default_shows_is_fine_once_it_is_no_comment(self):
        with open(os.path.join(SOURCE, "config/default.yaml"), encoding="utf-8") as file:
            text = file.read()
        rules = re.findall(r"(?m)^  #( {3}.*)$", text[text.index("policy:\n"):])
        self.write("rules.yaml", "muster: 1\npolicy:\n" + "\n".join(rules) + "\n")
        self.assertIn("rules.yaml: 3 rules are fine\n", self.good("check", "rules.yaml"))

    def test_default_has_no_rules(self):
        self.assertIn(": 0 rules are fine\n",
                      self.good("check", os.path.join(SOURCE, "config/default.yaml")))

    def test_the_examples_of_the_documentation_are_fine(self):
        with open(os.path.join(SOURCE, "docs/policy.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```yaml\n(.*?)```", file.read(), re.S)
        self.assertGreaterEqual(len(blocks), 1)
        for block in blocks:
            self.write("block.yaml", block)
            self.assertIn(" fine\n", self.good("check", "block.yaml"))


if __name__ == "__main__":
    unittest.main()
