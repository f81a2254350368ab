"""`muster report --perfetto`: decoded by protoc, and read as Perfetto reads it.

Usage: perfetto_test.py MUSTER RECORDINGS PROTOC
"""
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

import perfetto_packets

MUSTER, RECORDINGS, PROTOC = sys.argv[1:4]
PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "perfetto.proto")
LATE = 1  # labels.yaml of late-tpdp

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]|[^\s{}"]+')


def parse(text):
    """protoc's text format to nested dicts of lists."""
    tokens = iter(TOKEN.findall(text))

    def message():
        fields = collections.defaultdict(list)
        for token in tokens:
            if token == "}":
                break
            if token.endswith(":"):
                value = next(tokens)
                fields[token[:-1]].append(value.strip('"') if value[0] == '"' else value)
            else:
                assert next(tokens) == "{", token
                fields[token].append(message())
        return fields

    return message()


def one(fields, name, default=None):
    return fields[name][0] if fields[name] else default


Slice = collections.namedtuple("Slice", "rank comm name begin end notes depth")


class Reader:
    """Sequences with clocks of their own, incremental stamps and interned names."""

    def __init__(self, packets):
        self.tracks, self.slices, self.instants, self.counters = {}, [], [], []
        self.flows = collections.Counter()
        self.sequences = collections.defaultdict(
            lambda: {"clock": 0, "offset": 0, "names": {}, "notes": {}, "track": None, "open": []})
        for packet in packets:
            self.packet(packet)

    def rank_of(self, track):
        while track is not None:
            entry = self.tracks[track]
            if entry["thread"]:
                return int(one(entry["thread"][0], "tid")) - 1
            track = one(entry, "parent")
        raise AssertionError("a track without a rank")

    def packet(self, packet):
        state = self.sequences[one(packet, "sequence")]
        for track in packet["track"]:
            self.tracks[one(track, "uuid")] = track
        for defaults in packet["defaults"]:
            state["track"] = one(one(defaults, "event", collections.defaultdict(list)), "track")
        for interned in packet["interned"]:
            for name in interned["event_name"]:
                state["names"][one(name, "iid")] = one(name, "text")
            for name in interned["annotation_name"]:
                state["notes"][one(name, "iid")] = one(name, "text")
        for snapshot in packet["clock_snapshot"]:
            clocks = {one(c, "id"): int(one(c, "timestamp")) for c in snapshot["clock"]}
            if "64" in clocks:
                state["clock"], state["offset"] = clocks["64"], clocks["6"] - clocks["64"]
        for event in packet["event"]:
            self.event(packet, event, state)

    def event(self, packet, event, state):
        if one(packet, "clock") == "6":
            at = int(one(packet, "timestamp"))
        else:
            state["clock"] += int(one(packet, "timestamp"))
            at = state["clock"] + state["offset"]
        notes = {one(note, "name") or state["notes"][one(note, "name_iid")]:
                 one(note, "uint") or one(note, "text") for note in event["annotation"]}
        track = one(event, "track", state["track"])
        name = one(event, "name") or state["names"].get(one(event, "name_iid"))
        self.flows.update(event["flow"])
        kind = one(event, "type")
        if kind == "COUNTER":
            self.counters.append((self.rank_of(track), one(self.tracks[track], "name"), at,
                                  float(one(event, "counter_value"))))
        elif kind == "BEGIN":
            state["open"].append((name, at, notes))
        elif kind == "END":
            name, begin, notes = state["open"].pop()
            self.slices.append(Slice(self.rank_of(track), one(self.tracks[track], "name"), name, begin,
                                     at, notes, len(state["open"])))
        else:
            self.instants.append((self.rank_of(track), name, at, notes))


def decode(trace):
    with open(trace, "rb") as file:
        return protoc(perfetto_packets.flat(file.read()))


def protoc(data):
    done = subprocess.run([PROTOC, "--decode=Trace", "-I", os.path.dirname(PROTO), PROTO], input=data,
                          stdout=subprocess.PIPE, check=True, timeout=60)
    return done.stdout.decode()


class Perfetto(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_folder = os.path.join(cls.folder.name, "run")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_"))}
        cls.env = {**env, "MUSTER_TIMING": "full"}
        subprocess.run([MUSTER, "replay", os.path.join(RECORDINGS, "late-tpdp"), "--out",
                        cls.run_folder, "--speed", "max"], env=cls.env, check=True, timeout=120,
                       stderr=subprocess.DEVNULL)
        cls.trace = os.path.join(cls.folder.name, "t.pftrace")
        cls.said = cls.report("--perfetto", cls.trace, "--whole").stderr
        cls.text = decode(cls.trace)
        cls.reader = Reader(parse(cls.text)["packet"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def report(cls, *options, run=None):
        return subprocess.run([MUSTER, "report", run or cls.run_folder, *options], env=cls.env,
                              timeout=60, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def operations(self):
        return [s for s in self.reader.slices if s.depth == 0]

    def test_every_byte_is_of_the_format(self):
        self.assertIsNone(re.search(r"^\s*\d+:", self.text, re.M), "a field that is not known")

    def test_the_file_is_of_the_format_and_small(self):
        with open(self.trace, "rb") as file:
            data = file.read()
        self.assertIsNone(re.search(r"^\s*\d+:", protoc(data), re.M), "a field that is not known")
        if perfetto_packets.COMPRESSED in data[:8]:  # built with zlib
            self.assertLess(len(data), len(perfetto_packets.flat(data)) / 2)

    def test_every_timed_operation_is_a_slice_of_its_rank(self):
        self.assertIn(f"{len(self.operations())} operations drawn", self.said)
        ranks = collections.Counter(s.rank for s in self.operations())
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        self.assertEqual(len(self.operations()), 748)
        for state in self.reader.sequences.values():
            self.assertEqual(state["open"], [], "a slice without an end")
        for s in self.reader.slices:
            self.assertGreaterEqual(s.end, s.begin)

    def test_waiting_is_for_the_late_rank(self):
        waited = collections.Counter()
        for s in self.reader.slices:
            if s.name == "waiting":
                self.assertNotEqual(int(s.notes["for rank"]), s.rank)
                waited[int(s.notes["for rank"])] += s.end - s.begin
        self.assertEqual(waited.most_common(1)[0][0], LATE)
        self.assertGreater(waited[LATE], sum(waited.values()) / 2)

    def test_arrows_join_two(self):
        self.assertTrue(self.reader.flows)
        self.assertEqual(set(self.reader.flows.values()), {2})

    def test_ranks_leave_an_operation_together(self):
        ends = collections.defaultdict(list)
        for s in self.operations():
            if s.name.startswith("AllReduce"):
                ends[s.comm.split(",")[0], s.notes["operation"]].append(s.end)
        apart = [max(at) - min(at) for at in ends.values() if len(at) > 1]
        self.assertGreater(len(apart), 100)
        self.assertLess(statistics.median(apart), 20000)

    def test_a_finding_stands_on_its_rank(self):
        found = [(rank, at, notes) for rank, name, at, notes in self.reader.instants
                 if name == "late_rank"]
        self.assertEqual([rank for rank, _, _ in found], [LATE])
        self.assertIn("late_rank: rank 1 ", found[0][2]["finding"])
        begin, end = min(s.begin for s in self.operations()), max(s.end for s in self.operations())
        self.assertTrue(begin <= found[0][1] <= end, "outside of what is drawn")

    def test_how_clocks_were_laid_is_said(self):
        said = [notes["laid on the axis"] for _, name, _, notes in self.reader.instants
                if name == "clock"]
        self.assertEqual(len(said), len([t for t in self.reader.tracks.values() if t["parent"] and not t["counter"]]))
        self.assertTrue(any("by common ends" in text for text in said))

    def area(self, rank, name):
        """Of a counter, over time: each value holds until the next."""
        points = [(at, value) for r, n, at, value in self.reader.counters if (r, n) == (rank, name)]
        self.assertEqual(points, sorted(points, key=lambda point: point[0]))
        return sum(value * (later - at) for (at, value), (later, _) in zip(points, points[1:]))

    def test_counters_are_what_the_slices_are(self):
        units = {one(t, "name"): one(t["counter"][0], "unit_name") for t in self.reader.tracks.values() if t["counter"]}
        self.assertEqual(units, {"waiting": "%", "bus bandwidth": "GB/s", "operations timed": "%"})
        for rank in range(4):
            waited = sum(s.end - s.begin for s in self.reader.slices if (s.rank, s.name) == (rank, "waiting"))
            without = sum(s.rank == rank for s in self.operations()) * 5000  # a shorter wait has no slice
            self.assertTrue(waited * 0.999 <= self.area(rank, "waiting") / 100 <= waited + without, (rank, waited))
            self.assertEqual({v for r, n, _, v in self.reader.counters if (r, n) == (rank, "operations timed")}, {100})
        late = [self.area(rank, "waiting") for rank in range(4)]
        self.assertEqual(late.index(min(late)), LATE)

    def test_the_bandwidths_area_is_the_bytes_that_moved(self):
        for rank in range(4):
            moved = 0
            for s in self.operations():
                ranks = int(re.search(r", (\d+) ranks", s.comm)[1])
                factor = {"AllReduce": 2 * (ranks - 1) / ranks, "AllGather": (ranks - 1) / ranks,
                          "ReduceScatter": (ranks - 1) / ranks}.get(s.name.split()[0], 1)
                moved += int(s.notes["bytes"]) * factor if s.rank == rank else 0
            self.assertAlmostEqual(self.area(rank, "bus bandwidth") / moved, 1, delta=0.01)

    def test_what_is_not_timed_is_told_by_a_counter(self):
        sampled = os.path.join(self.folder.name, "sampled")
        subprocess.run([MUSTER, "replay", os.path.join(RECORDINGS, "late-tpdp"), "--out", sampled, "--speed", "max"],
                       env={**self.env, "MUSTER_TIMING": "auto"}, check=True, timeout=120, stderr=subprocess.DEVNULL)
        trace = os.path.join(self.folder.name, "sampled.pftrace")
        said = json.loads(self.report("--perfetto", trace, "--whole", "--format", "json", run=sampled).stdout)
        reader = Reader(parse(decode(trace))["packet"])
        for rank in said["ranks"]:
            shares = [v for r, n, _, v in reader.counters if (r, n) == (rank["rank"], "operations timed")]
            whole = rank["timing"]["timed_ops"] == rank["ops"]
            self.assertEqual(min(shares, default=0) == 100, whole, (rank["timing"], shares))

    def test_a_slice_is_small(self):
        self.assertLessEqual(os.path.getsize(self.trace), 60 * len(self.reader.slices))

    def test_a_finding_without_a_moment_still_has_a_picture(self):
        trace = os.path.join(self.folder.name, "window.pftrace")
        said = self.report("--perfetto", trace).stderr  # at full speed host times mean nothing
        self.assertIn(f"{len(self.operations())} operations drawn", said)

    def test_wrong_calls_and_places(self):
        done = self.report("--whole")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--whole goes with --perfetto FILE", done.stderr)
        place = os.path.join(self.folder.name, "none", "t.pftrace")
        done = self.report("--perfetto", place)
        self.assertEqual(done.returncode, 2)
        self.assertIn(place, done.stderr)
        done = self.report("--perfetto", self.folder.name)
        self.assertEqual(done.returncode, 2)
        self.assertFalse([name for name in os.listdir(self.folder.name + "/..")
                          if name == os.path.basename(self.folder.name) + ".part"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
