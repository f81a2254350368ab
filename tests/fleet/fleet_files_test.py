"""The shipped rules, samples and dashboards hold together, and promtool and amtool agree.
usage: fleet_files_test.py MUSTER SOURCE_ROOT"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from shipped import FOREIGN, Shipped, names

MUSTER, ROOT = sys.argv.pop(1), sys.argv.pop(1)


def served():
    """Names of all families that the agent has, with what histograms add."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as empty:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        done = subprocess.run([MUSTER, "agent", "--once"], text=True, capture_output=True, check=True,
                              env={**environment, "MUSTER_SEGMENT_DIR": empty})
    found = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", done.stdout, re.M):
        found |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return found | fleet_served()


def fleet_served():
    """Those of a worker, which knows them without a job and without NATS. A build without libnats serves none:
    then what the page of metrics says."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    worker = subprocess.Popen([MUSTER, "fleet", "--nats", "nats://127.0.0.1:1", "--listen", "127.0.0.1:0"],
                              stderr=subprocess.PIPE, text=True, env=environment)
    try:
        where = re.search(r"http://\S+/metrics", worker.stderr.readline())
        if not where:
            with open(os.path.join(ROOT, "docs", "reference", "metrics.md"), encoding="utf-8") as file:
                return set(re.findall(r"`(muster_fleet_\w+)`", file.read()))
        with urllib.request.urlopen(where[0], timeout=30) as answer:
            page = answer.read().decode()
    finally:
        worker.terminate()
        worker.communicate()
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return {name for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M)}


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shipped = Shipped(ROOT)
        cls.known = served() | cls.shipped.recorded() | FOREIGN

    def tool(self, name, *arguments):
        path = shutil.which(name)
        if not path:
            self.skipTest(f"no {name}")
        done = subprocess.run([path, *arguments], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_names_are_served_or_recorded(self):
        expressions = [("rules", one) for one in self.shipped.rule_expressions()]
        expressions += self.shipped.dashboard_expressions()
        self.assertGreater(len(expressions), 60)
        for where, expression in expressions:
            self.assertLessEqual(names(expression), self.known, f"{where}: {expression}")

    def test_the_page_of_metrics_names_what_is_served(self):
        with open(os.path.join(ROOT, "docs", "reference", "metrics.md"), encoding="utf-8") as file:
            page = set(re.findall(r"`((?:muster|process)_\w+)`", file.read()))
        plain = {re.sub(r"_(bucket|sum|count)$", "", name) if "duration_seconds_" in name else name
                 for name in served()}
        self.assertEqual(plain - page, set())
        self.assertEqual({name for name in page - plain if not name.endswith("duration_seconds")
                          and not name.startswith("muster_agent_nats_")}, set())

    def test_every_alert_says_what_to_do_and_is_tested(self):
        blocks = re.split(r"^\s*- alert: ", self.shipped.rules, flags=re.M)[1:]
        path = os.path.join(self.shipped.config, "prometheus", "muster.test.yml")
        with open(path, encoding="utf-8") as file:
            tested = set(re.findall(r"alertname: (\S+)", file.read()))
        for block in blocks:
            for key in ("summary:", "description:", "action:", "severity:", "for:"):
                self.assertIn(key, block)
        self.assertEqual(self.shipped.alerts(), tested)

    def test_dashboards_are_whole(self):
        self.assertEqual(len(self.shipped.boards), 3)
        uids = {board["uid"] for board in self.shipped.boards.values()}
        self.assertEqual(len(uids), 3)
        for name, board in self.shipped.boards.items():
            variables = {one["name"] for one in board["templating"]["list"]}
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)), name)
            taken = set()
            for panel in board["panels"]:
                at = panel["gridPos"]
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                         for y in range(at["y"], at["y"] + at["h"])}
                self.assertLessEqual(at["x"] + at["w"], 24)
                self.assertFalse(cells & taken, f"{name}: {panel['title']} lies on another panel")
                taken |= cells
                refs = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(refs), len(set(refs)), f"{name}: {panel['title']}")
                for target in panel["targets"]:
                    used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
                    self.assertLessEqual(used, variables, f"{name}: {panel['title']}")
        links = set(re.findall(r"/d/([\w-]+)", str(self.shipped.boards)))
        self.assertLessEqual(links, uids)

    def test_the_fleet_asks_recorded_series(self):
        """One board is open all day: none of its panels may ask every rank for a rate."""
        for target in [t for p in self.shipped.boards["muster-fleet.json"]["panels"] for t in p["targets"]]:
            asked = names(target["expr"])
            self.assertFalse([name for name in asked if re.match(r"muster_(?!finding_active)", name)],
                             target["expr"])

    def test_promtool_and_amtool(self):
        folder = os.path.join(self.shipped.config, "prometheus")
        self.tool("promtool", "check", "rules", self.shipped.rules_path)
        self.tool("promtool", "check", "config", os.path.join(folder, "prometheus.yml"))
        self.tool("promtool", "test", "rules", os.path.join(folder, "muster.test.yml"))
        self.tool("amtool", "check-config", os.path.join(folder, "alertmanager.yml"))

    def test_victoria_metrics_takes_them_as_documented(self):
        folder = os.path.join(self.shipped.config, "prometheus")
        self.tool("vmagent", f"-promscrape.config={folder}/prometheus.yml", "-promscrape.config.strictParse=false",
                  "-promscrape.config.dryRun")
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as rules:
            rules.write(re.sub(r"(?m)^.*keep_firing_for.*\n", "", self.shipped.rules))
            rules.flush()
            self.tool("vmalert", f"-rule={rules.name}", "-dryRun")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_units_are_some_for_systemd(self):
        for name in ("muster-agent", "muster-fleet"):
            unit = os.path.join(self.shipped.config, "systemd", f"{name}.service")
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], text=True,
                                  capture_output=True)
            said = [line for line in (done.stdout + done.stderr).splitlines()
                    if name in line and "not executable" not in line]
            self.assertEqual(said, [])

    def test_units_have_the_capabilities_that_they_need(self):
        """The agent may read other users' segments, the worker nothing that its user may not."""
        for unit, wanted in (("muster-agent", ["AmbientCapabilities=CAP_DAC_READ_SEARCH",
                                               "CapabilityBoundingSet=CAP_DAC_READ_SEARCH"]),
                             ("muster-fleet", ["CapabilityBoundingSet="])):
            with open(os.path.join(self.shipped.config, "systemd", unit + ".service"), encoding="utf-8") as file:
                said = sorted(line.strip() for line in file if "Capabilit" in line.partition("=")[0])
            self.assertEqual(said, wanted, unit)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names what it skips
