"""`muster report --perfetto --with`: a trace of torch.profiler beside ours, laid by common operations.

Usage: perfetto_with_test.py MUSTER RECORDINGS PROTOC
"""
import json
import os
import subprocess
import tarfile
import unittest

from perfetto_test import Perfetto as Traced  # reads the same arguments

AHEAD_NS = 5_000_000_000_123  # torch's clock beside the axis


def bare(traced):
    """One rank's operations as torch.profiler would show them, its clock elsewhere."""
    events = []
    for s in traced.reader.slices:
        if s.depth == 0 and s.rank == 2 and s.comm.endswith("4 ranks"):
            events.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "ts": (s.begin - AHEAD_NS) / 1000,
                           "dur": (s.end - s.begin) / 1000,
                           "args": {"Process Group Description": "default_pg", "Group size": 4,
                                    "Seq": int(s.notes["operation"]) + 1}})
    assert len(events) > 20
    return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 2}, "traceEvents":
            [{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 1, "args": {}}, *events]}


class With(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Traced.setUpClass()
        cls.folder = Traced.folder.name

    @classmethod
    def tearDownClass(cls):
        Traced.tearDownClass()

    def pack(self, *traces):
        paths = []
        for i, trace in enumerate(traces):
            paths.append(os.path.join(self.folder, f"torch {i}.json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(trace if isinstance(trace, str) else json.dumps(trace))
        where = os.path.join(self.folder, "job.tar")
        done = Traced.report("--perfetto", where, "--whole", "--with", ",".join(paths))
        return done, where

    def test_it_is_laid_where_our_operations_are(self):
        torch = bare(Traced)
        done, where = self.pack(torch)
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(where) as tar:
            names = tar.getnames()
            manifest = json.load(tar.extractfile("perfetto_manifest.json"))["perfetto_manifest"]
            self.assertEqual(json.load(tar.extractfile(names[1])), torch)
            with open(Traced.trace, "rb") as file:
                self.assertEqual(tar.extractfile("muster.pftrace").read(), file.read())
        self.assertEqual(names[0], "muster.pftrace")
        self.assertEqual(manifest["version"], 1)
        files = {entry["path"]: entry for entry in manifest["files"]}
        self.assertEqual(set(files), set(names) - {"perfetto_manifest.json"})
        clocks = files[names[1]]["clocks"]
        self.assertEqual(clocks["sync_to"], {"file": "muster.pftrace", "clock": "BOOTTIME"})
        self.assertLess(abs(clocks["offset_ns"] - AHEAD_NS), 3000)
        self.assertRegex(done.stderr, r"torch 0.json: rank 2, laid by \d+ operations, within [\d.]+ us")

    def test_what_has_nothing_in_common_is_said(self):
        torch = bare(Traced)
        for event in torch["traceEvents"]:
            event["args"]["Group size"] = 3
        done, where = self.pack(torch, {"traceEvents": []})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("not laid beside ours"), 2, done.stderr)
        with tarfile.open(where) as tar:
            manifest = json.load(tar.extractfile("perfetto_manifest.json"))["perfetto_manifest"]
        self.assertEqual([entry["path"] for entry in manifest["files"] if "clocks" in entry], [])

    def test_wrong_files_leave_nothing(self):
        for trace, word in (("{", "torch 0.json:1:"), ("[]", "traceEvents"), ("\x1f\x8b", "gunzip")):
            done, where = self.pack(trace)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
        done = Traced.report("--perfetto", where + "2", "--with", "/nonexistent.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent.json", done.stderr)
        os.mkfifo(where + ".fifo")
        done = Traced.report("--perfetto", where + "2", "--with", where + ".fifo")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected a file", done.stderr)
        self.assertFalse(os.path.exists(where + "2"))
        done = Traced.report("--with", "x.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--with goes with --perfetto FILE", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=["perfetto_with_test.py", "With"])
