"""`muster report --html` and `compare --html`: a page that stands alone. In a browser where there is one.

Usage: page_test.py MUSTER RECORDINGS [CHROMIUM]: without CHROMIUM what needs no browser, with it what does
"""
import html.parser
import json
import lzma
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

MUSTER, RECORDINGS = sys.argv[1:3]
CHROMIUM = sys.argv[3] if len(sys.argv) > 3 else None
MOST_BYTES = 10_000_000
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_"))}, "MUSTER_TIMING": "full"}
BROWSERS_OWN = re.compile(r"\b(google|googleapis|gvt1|gvt2)\.com\b")  # it looks for news of itself
UNKIND = '</script><script>document.title="broken"</script>\u2028\u202e&amp;\x01\x7f<img src=x onerror=alert(1)>'


def run(*command, **more):
    return subprocess.run(command, env=ENV, timeout=240, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          **more)


def replay(folder, recording):
    where = os.path.join(folder, recording)
    subprocess.run([MUSTER, "replay", os.path.join(RECORDINGS, recording), "--out", where, "--speed", "max"], env=ENV,
                   check=True, timeout=240, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return where


def make(folder, recording):
    """The page of a recorded run, its own data, and the report's."""
    where = replay(folder, recording)
    page = where + ".html"
    done = run(MUSTER, "report", where, "--html", page)
    assert done.returncode == 0, done.stderr
    report = run(MUSTER, "report", where, "--format", "json")
    return page, json.loads(report.stdout)


def make_comparison(folder, before, after, *options):
    """The page of two recorded runs, what was said beside it, and the comparison's own JSON."""
    a, b = (replay(os.path.join(folder, side), recording) for side, recording in (("a", before), ("b", after)))
    page = os.path.join(folder, f"{before}-{after}.html")
    done = run(MUSTER, "compare", a, b, "--html", page, *options)
    assert done.returncode in (0, 1), done.stderr
    data = json.loads(run(MUSTER, "compare", a, b, "--format", "json", *options).stdout)
    return page, done, data


def replay_named(folder, recording, name):
    """A recorded run whose communicators have that name."""
    trace, where = (os.path.join(folder, part) for part in ("trace", "run"))
    os.makedirs(trace)
    for file in os.listdir(os.path.join(RECORDINGS, recording)):
        with lzma.open(os.path.join(RECORDINGS, recording, file), "rt") as calls, \
                open(os.path.join(trace, file.removesuffix(".xz")), "w", encoding="utf-8") as out:
            for call in map(json.loads, calls):
                if call["op"] == "init":
                    call["name"] = name
                out.write(json.dumps(call) + "\n")
    done = run(MUSTER, "replay", trace, "--out", where, "--speed", "max")
    assert done.returncode == 0, done.stderr
    return where


class Parts(html.parser.HTMLParser):
    """Elements as a browser finds them, and what lies in the script elements with an id."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.data, self.inside = [], [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.loads += [attributes[name] for name in ("src", "href", "action", "data") if name in attributes]
        self.inside = attributes.get("id") if tag == "script" else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.data[self.inside] = self.data.get(self.inside, "") + data


def read(page):
    with open(page, encoding="utf-8") as file:
        return file.read()


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.page, cls.report = make(cls.folder.name, "late-tpdp")
        cls.parts = Parts(read(cls.page))
        cls.own = json.loads(cls.parts.data["muster-page"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_data_inside_are_the_reports(self):
        inside = json.loads(self.parts.data["muster-report"])
        self.assertEqual(inside, self.report)
        back = run(MUSTER, "report", self.page, "--format", "json")
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertEqual(json.loads(back.stdout), inside)

    def test_all_sums_are_the_headlines(self):
        waited = sum(rank["waited_us"] for rank in self.report["ranks"])
        self.assertGreater(waited, 0)
        self.assertAlmostEqual(self.own["wait_us"] / waited, 1, 6)
        for name in ("wait_us", "cost_us"):
            self.assertAlmostEqual(sum(cost[name] for cost in self.own["costs"]) / waited, 1, 6)
        self.assertAlmostEqual(sum(map(sum, self.own["matrix"]["us"])) / waited, 1, 6)
        for cost, rank in zip(self.own["costs"], self.report["ranks"]):
            self.assertAlmostEqual(cost["wait_us"] / rank["waited_us"], 1, 4)
        cells = sum(sum(flat[1::8]) for flat in self.own["heat"]["cells"])
        self.assertAlmostEqual(cells / waited, 1, 1)

    def test_who_is_late_cost_most(self):
        costs = [cost["cost_us"] for cost in self.own["costs"]]
        self.assertEqual(costs.index(max(costs)), 1)  # labels.yaml of late-tpdp
        self.assertEqual(self.own["findings"][0]["finding"]["ranks"], [1])
        self.assertIn("Rank 1", self.own["verdict"][0])
        self.assertEqual(self.own["verdict"], self.report["verdict"]["lines"])
        self.assertEqual([strip["last"] for strip in self.own["strips"][:5]], [1] * 5)
        own = {i: cost["own_us"] / cost["own_ops"] for i, cost in enumerate(self.own["costs"]) if cost["own_ops"]}
        self.assertEqual(max(own, key=own.get), 1)

    def test_nothing_is_asked_for(self):
        self.assertEqual([load for load in self.parts.loads if load != "data:,"], [])
        text = read(self.page)
        self.assertIn("default-src 'none'", text)
        self.assertEqual(re.findall(r"\b(?:fetch|XMLHttpRequest|WebSocket|sendBeacon|import)\s*\(", text), [])
        self.assertEqual(set(re.findall(r"https?://[^\"'\s<>]+", text)), {"http://www.w3.org/2000/svg"})

    def test_a_file_that_is_no_page_is_refused_by_name(self):
        text = read(self.page)
        cut = text.index('id="muster-report">') + 400
        for content, word in [("", ":1:1: expected"), ("{}", ":1:1: expected"), ("<!DOCTYPE html>" * 2, "not a page"),
                              (text[:cut], "was cut"), (text[:cut] + "</script>", "changed or cut")]:
            where = os.path.join(self.folder.name, "bad.html")
            with open(where, "w", encoding="utf-8") as file:
                file.write(content)
            done = run(MUSTER, "report", where, "--format", "json")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("bad.html", done.stderr)
            self.assertIn(word, done.stderr)
        done = run(MUSTER, "report", self.page)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--format json", done.stderr)

    def test_a_place_that_cannot_be_written_is_told(self):
        where = os.path.join(self.folder.name, "late-tpdp")
        done = run(MUSTER, "report", where, "--html", "/nonexistent/x.html")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent/x.html", done.stderr)

    def test_a_name_that_is_markup_stays_a_name(self):
        name = '</script><b>\x1b[31m\u202ex&"'
        folder = os.path.join(self.folder.name, "named")
        where = replay_named(folder, "late-tpdp", name)
        out = {part: os.path.join(folder, part) for part in ("r.html", "c.html", "t.pftrace")}
        for command in (["report", where, "--html", out["r.html"], "--perfetto", out["t.pftrace"], "--whole"],
                        ["report", where, "--by", "comm"], ["report", where, "--by", "op", "--format", "csv"],
                        ["compare", where, where, "--html", out["c.html"]], ["diagnose", where]):
            done = run(MUSTER, *command)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertNotRegex(done.stdout + done.stderr, "[\x1b\u202e]")
        for part, kind in (("r.html", "muster-report"), ("c.html", "muster-compare")):
            text = read(out[part])
            parts = Parts(text)
            self.assertNotIn("b", parts.tags)
            self.assertNotRegex(text, "[\x1b\u202e]")
            self.assertIn("</script><b>", json.dumps(json.loads(parts.data[kind])))
        with open(out["t.pftrace"], "rb") as file:
            self.assertNotIn(b"\x1b[31m", file.read())

    def test_no_rank_is_an_error_that_says_so(self):
        empty = os.path.join(self.folder.name, "empty")
        os.mkdir(empty)
        plain = os.path.join(self.folder.name, "late-tpdp")
        page = os.path.join(self.folder.name, "empty.html")
        for command in (["report", empty, "--html", page], ["report", empty, "--perfetto", page],
                        ["compare", empty, plain, "--html", page], ["compare", plain, empty, "--html", page]):
            done = run(MUSTER, *command)
            self.assertEqual((done.returncode, done.stdout), (2, ""), command)
            self.assertIn(empty, done.stderr)
            self.assertFalse(os.path.exists(page))

    def test_one_rank_and_a_run_that_was_cut(self):
        where = os.path.join(self.folder.name, "late-tpdp")
        logs = sorted(name for name in os.listdir(where) if name.endswith(".log"))
        self.assertEqual(len(logs), 4, os.listdir(where))
        for keep, part in ((1, 1.0), (2, 0.5)):
            other = os.path.join(self.folder.name, f"part-{keep}")
            os.mkdir(other)
            for name in logs[:keep]:
                with open(os.path.join(where, name), "rb") as file:
                    content = file.read()
                with open(os.path.join(other, name), "wb") as file:
                    file.write(content[:int(len(content) * part)])
            page = other + ".html"
            done = run(MUSTER, "report", other, "--html", page)
            self.assertEqual(done.returncode, 0, done.stderr)
            own = json.loads(Parts(read(page)).data["muster-page"])
            self.assertEqual(own["wait_us"], 0)
            done = run(MUSTER, "report", other, "--perfetto", page + ".pftrace", "--whole")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("operations drawn", done.stderr)
            done = run(MUSTER, "compare", other, where, "--html", page + ".compare.html")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(other, done.stderr)


class Comparison(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.page, cls.done, cls.data = make_comparison(cls.folder.name, "clean", "late-gpu", "--limit", "5")
        cls.parts = Parts(read(cls.page))
        cls.own = json.loads(cls.parts.data["muster-page"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_data_inside_are_the_comparisons(self):
        self.assertEqual(self.done.returncode, 1, "--limit holds with --html, too")
        self.assertEqual(json.loads(self.parts.data["muster-compare"]), self.data)
        back = run(MUSTER, "compare", self.page, "--format", "json")
        self.assertEqual((back.returncode, json.loads(back.stdout)), (0, self.data))
        self.assertEqual([item["finding"] for item in self.own["came"]], self.data["findings_came"])
        self.assertEqual([item["finding"]["ranks"] for item in self.own["came"]], [[2]])  # labels.yaml of late-gpu
        self.assertEqual(self.own["went"], [])

    def test_the_verdict_is_the_texts(self):
        lines = self.data["verdict"]
        self.assertRegex(lines[0], r"^B is slower than A by \d")
        self.assertIn("AllReduce from 4 MiB", lines[1])
        self.assertIn("rank 2 (node0)", lines[2])
        joined = " ".join(self.done.stdout.split())
        self.assertTrue(joined.startswith(" ".join(lines)), joined[:400])

    def test_nothing_is_asked_for(self):
        self.assertEqual([load for load in self.parts.loads if load != "data:,"], [])
        self.assertIn("default-src 'none'", read(self.page))

    def test_pages_of_the_other_kind_are_told_apart(self):
        report = os.path.join(self.folder.name, "report.html")
        done = run(MUSTER, "report", os.path.join(self.folder.name, "a", "clean"), "--html", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        for command, page, other in (("report", self.page, "compare"), ("compare", report, "report")):
            done = run(MUSTER, command, page, "--format", "json")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"muster {other} {page} --format json", done.stderr)
        done = run(MUSTER, "compare", self.page)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--format json", done.stderr)

    def test_a_place_that_cannot_be_written_is_told(self):
        a = os.path.join(self.folder.name, "a", "clean")
        done = run(MUSTER, "compare", a, a, "--html", "/nonexistent/x.html")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent/x.html", done.stderr)

    def test_what_came_and_went_is_listed(self):
        _, done, data = make_comparison(os.path.join(self.folder.name, "other"), "late-tpdp", "clean")
        self.assertEqual(len(data["classes_went"]), data["classes_only_a"])
        self.assertGreater(data["classes_only_a"], 0)
        self.assertEqual(data["classes_came"], [])
        self.assertIn("operations that went", done.stdout)
        ranks = {row["nranks"] for row in data["classes_went"]}
        self.assertEqual(ranks, {2})  # tensor parallel pairs, which clean has not


class Proxy:
    """Whoever asks for something through it is written down, and gets nothing."""

    def __init__(self):
        self.asked = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                other, _ = self.socket.accept()
            except OSError:
                return
            with other:
                other.settimeout(5)
                try:
                    asked = other.recv(4096)  # nothing: a connection in advance, which asks for nothing
                    if asked:
                        self.asked.append(asked.split(b"\r\n")[0].decode(errors="replace"))
                except OSError:
                    pass

    def close(self):
        self.socket.close()


def browse(page, *options):
    """The page as a browser has it in the end, what its console said, what left."""
    proxy = Proxy()
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--disable-component-update", "--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr",
             f"--user-data-dir={home}", f"--proxy-server=127.0.0.1:{proxy.socket.getsockname()[1]}",
             "--proxy-bypass-list=<-loopback>", "--window-size=1280,3200", "--timeout=60000", *options,
             "file://" + page],
            env={**ENV, "HOME": home}, timeout=280, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    proxy.close()
    said = [line for line in done.stderr.split("\n") if "CONSOLE" in line]
    return done.stdout, said, proxy.asked


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, page):
        dom, said, asked = browse(page, "--dump-dom")
        self.assertEqual(said, [])
        self.assertEqual([line for line in asked if not BROWSERS_OWN.search(line)], [], "a request left")
        self.assertIn('data-ready="yes"', dom)
        return dom, Parts(dom)

    def test_a_page_that_asks_would_be_noticed(self):
        page = os.path.join(self.folder.name, "asks.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write("<!DOCTYPE html><img src='http://example.invalid/x'><script>console.error('told')</script>")
        _, said, asked = browse(page, "--dump-dom")
        self.assertTrue(any("told" in line for line in said), said)
        self.assertTrue(any("example.invalid" in line for line in asked), asked)

    def test_the_pages_of_recorded_runs(self):
        for recording in ("late-tpdp", "net-throttled", "hang-absent", "clean"):
            page, report = make(self.folder.name, recording)
            dom, parts = self.check(page)
            own = json.loads(parts.data["muster-page"])
            for name in ("findings", "heat", "matrix", "scatter", "strips", "bandwidth", "unseen", "run"):
                self.assertIn(f'id="{name}" aria-labelledby="{name}-title"', dom, recording)
            self.assertEqual(dom.count('class="quiet coverage"'), 8)
            pictures = parts.tags.count("svg") + parts.tags.count("canvas")
            self.assertEqual(len(re.findall(r'role="img" aria-label="[^"]{10,}', dom)), pictures, recording)
            waited = sum(rank["waited_us"] or 0 for rank in report["ranks"])
            if waited:
                shown = re.search(r"waited ([\d.]+) GPU-(\w+) for each other", dom)
                scale = {"hours": 3.6e9, "seconds": 1e6, "milliseconds": 1e3}[shown.group(2)]
                self.assertAlmostEqual(float(shown.group(1)) * scale / waited, 1, delta=0.01)
                self.assertIn("tabindex=\"0\"", dom)
            self.assertIn(">" + own["verdict"][0].replace("&", "&amp;") + "<", dom)
            for item in own["findings"]:
                for said in ("Cost: " + item["cost"] if item["cost"] else "", item["when"][0]):
                    self.assertIn(said, dom)
                self.assertEqual(item["cost"] != "", item["finding"]["cost_high_s"] is not None)
                self.assertIn("<h3>" + item["text"].replace("&", "&amp;") + "</h3>", dom)
                for line in item["finding"]["evidence"]:
                    self.assertEqual(re.sub("<script.*?</script>", "", dom, flags=re.S).count(line), 1, "said twice")
            self.assertNotIn("<li>ok: ", dom, "what is fine is not among what was not seen")
            if recording == "late-tpdp":
                self.assertIn(">ranks 0, 2, 3</text>", dom)  # three dots in one place
            if recording == "clean":
                self.assertEqual(own["findings"], [])
                self.assertEqual(own["state"], "nobody")

    def test_only_ranks_that_somebody_waited_for_have_a_column(self):
        made, _ = make(tempfile.mkdtemp(dir=self.folder.name), "late-gpu")
        page, text = made + ".alone.html", read(made)
        rows = json.loads(Parts(text).data["muster-page"])["matrix"]["us"]
        for row in rows:
            row[1:] = [0] * (len(row) - 1)
        with open(page, "w", encoding="utf-8") as file:
            file.write(re.sub(r'"us":\[\[.*?\]\]', '"us":' + json.dumps(rows), text))
        dom, _ = self.check(page)
        matrix = re.search(r'<section id="matrix".*?</section>', dom, re.S)[0]
        self.assertEqual(len(re.findall(r'<th scope="col"[^>]*>for ', matrix)), 1)

    def test_the_page_of_two_runs(self):
        page, _, data = make_comparison(self.folder.name, "clean", "late-gpu", "--limit", "5")
        dom, parts = self.check(page)
        for name in ("classes", "ranks", "findings", "only", "unseen", "run"):
            self.assertIn(f'id="{name}" aria-labelledby="{name}-title"', dom)
        labels = re.findall(r'role="img" aria-label="([^"]{10,})', dom)
        self.assertEqual(len(labels), parts.tags.count("svg"))
        self.assertEqual(len(labels), 3)
        for line in data["verdict"]:
            self.assertIn(">" + line.replace("&", "&amp;") + "<", dom)
        self.assertIn("Limit 5.00 %: exceeded.", dom)
        late = next(row for row in data["ranks"] if row["rank"] == 2)
        tip = html.unescape(re.search(r'data-tip="(rank 2 on node0: [^"]*in A[^"]*)"', dom).group(1))
        shown = re.match(r"rank 2 on node0: ([\d.]+) (µs|ms) in A, ([\d.]+) (µs|ms) in B: \+", tip)
        scale = {"µs": 1, "ms": 1e3}
        self.assertAlmostEqual(float(shown[1]) * scale[shown[2]] / late["cost"]["a_us"], 1, delta=0.01)
        self.assertAlmostEqual(float(shown[3]) * scale[shown[4]] / late["cost"]["b_us"], 1, delta=0.01)
        self.assertNotIn("not certain", tip)
        self.check_colours(dom, data, json.loads(parts.data["muster-page"])["least"]["share"])

    def check_colours(self, dom, data, least):
        """Colour is for what is certain and large enough to count; beside each line stands which it is."""
        seen = set()
        for kind in data["classes"]:
            change = kind[data["measure"]]["change"]
            size = {2 ** 20 * n: f"{n} MiB" for n in (4, 16, 32)}.get(kind["size"])
            if change is None or size is None:
                continue
            tone, word = re.search(rf'<g class="(\w+)" data-tip="AllReduce from {size}.*?class="size".*?>([^<]*)<', dom).groups()
            certain = change["low"] > 0 or change["high"] < 0
            counts = certain and abs(change["value"]) >= least
            seen.add((certain, counts))
            self.assertEqual(tone != "unsure", counts, size)
            self.assertEqual(word == "not certain", not certain, word)
            self.assertEqual("too little to count" in word, certain and not counts, word)
        self.assertIn((True, True), seen)
        self.assertIn((True, False), seen)  # AllReduce of 16 MiB: 1 % slower, certainly

    def test_no_text_of_two_runs_becomes_markup(self):
        page, _, _ = make_comparison(os.path.join(self.folder.name, "unkind"), "late-tpdp", "late-gpu")
        self.check_poisoned(page, "muster-compare")

    def test_no_text_of_a_run_becomes_markup(self):
        page, _ = make(self.folder.name, "late-gpu")
        self.check_poisoned(page, "muster-report")

    def check_poisoned(self, page, kind):
        text = read(page)
        parts = Parts(text)
        for name in (kind, "muster-page"):
            data = json.loads(parts.data[name])
            self.poison(data)
            escaped = json.dumps(data).replace("<", "\\u003c")
            text = text.replace(parts.data[name], escaped)
        with open(page, "w", encoding="utf-8") as file:
            file.write(text)
        dom, parts = self.check(page)
        self.assertNotIn("img", parts.tags)
        self.assertNotIn("<title>broken", dom)
        shown = re.sub(r"<script.*?</script>", "", dom, flags=re.S)
        self.assertNotRegex(shown, "[\u202e\x01\x7f]")
        self.assertIn("&lt;img src=x", shown)

    def poison(self, data):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in items:
            if isinstance(value, str) and key not in ("id", "comm", "measure"):
                data[key] = UNKIND
            elif isinstance(value, (dict, list)):
                self.poison(value)


if __name__ == "__main__":
    names = ["Browser"] if CHROMIUM else ["Page", "Comparison"]
    unittest.main(argv=[sys.argv[0], "-v"], defaultTest=names)
