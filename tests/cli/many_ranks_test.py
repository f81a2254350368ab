"""A run of 4,096 ranks: the report, the page and the timeline, and how large they are.

Usage: many_ranks_test.py MUSTER BENCH_REPORT, which writes the run
"""
import html.parser
import json
import os
import subprocess
import sys
import tempfile
import unittest

import perfetto_packets

MUSTER, WRITER = map(os.path.abspath, sys.argv[1:3])
RANKS, OPS = 4096, 24
LATE, LATE_US = 1, 300  # the writer's
DEADLINE_S = 800
MOST_PAGE, MOST_PER_SLICE = 10_000_000, 60
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_"))}


class Script(html.parser.HTMLParser):
    """What lies in the script element with that id."""

    def __init__(self, name, text):
        super().__init__()
        self.name, self.inside, self.data = name, False, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.inside = tag == "script" and ("id", self.name) in attributes

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.data += data if self.inside else ""


def slices(trace):
    """Begins of slices, counted in the packets' own bytes; and the file's size."""
    with open(trace, "rb") as file:
        data = file.read()
    begin = b"\x48\x01"  # TrackEvent.type = TYPE_SLICE_BEGIN
    return sum(begin in packet[:24] for packet in perfetto_packets.packets(data)), len(data)


class Many(unittest.TestCase):
    def test_4096_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            wrote = subprocess.run([WRITER, "--ranks", str(RANKS), "--ops", str(OPS), "--late", str(LATE_US), "--keep",
                                    folder], env=ENV, text=True, check=True, timeout=DEADLINE_S, stdout=subprocess.PIPE)
            where = wrote.stdout.splitlines()[-1]
            page, trace = (os.path.join(folder, name) for name in ("page.html", "t.pftrace"))
            done = subprocess.run([MUSTER, "report", where, "--html", page, "--perfetto", trace, "--whole"], env=ENV,
                                  text=True, timeout=DEADLINE_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_text(done.stdout)
            self.check_page(page)
            n, size = slices(trace)
            print(f"{RANKS * OPS} operations, {n} slices, {size} bytes: {size / n:.1f} a slice")
            self.assertGreaterEqual(n, RANKS * OPS)
            self.assertLessEqual(size, MOST_PER_SLICE * n)

    def check_text(self, text):
        lines = text.splitlines()
        self.assertRegex(lines[0], rf"^Rank {LATE} .*holds this job back")
        self.assertIn(f"{RANKS} ranks on 1 host", text)
        self.assertIn(f"(20 of {RANKS} ranks; --top 0 shows all)", text)
        self.assertLess(len(lines), 80)
        self.assertLessEqual(max(map(len, lines)), 120)

    def check_page(self, page):
        self.assertLessEqual(os.path.getsize(page), MOST_PAGE)
        with open(page, encoding="utf-8") as file:
            own = json.loads(Script("muster-page", file.read()).data)
        self.assertEqual(own["findings"][0]["finding"]["ranks"], [LATE])
        costs = [cost["cost_us"] for cost in own["costs"]]
        self.assertEqual((len(costs), costs.index(max(costs))), (RANKS, LATE))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
