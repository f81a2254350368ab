"""versions.py without GPUs: what is right of a row, and how other profilers' outputs are read."""
import collections
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import versions  # noqa: E402


def row(size, proto, count=40):
    return {"size": size, "proto": proto, "count": count, "bytes": count * size}


def good():
    return [row(size, proto) for size, proto in versions.WANTED.items()]


ISSUED = {"AllReduce": [40 * len(versions.WANTED), 40 * sum(versions.WANTED)]}


class Tuned(unittest.TestCase):
    def test_each_size_by_its_rule_is_right(self):
        self.assertEqual(versions.compare_tuned(ISSUED, {"ops": good()}), [])

    def test_a_size_with_another_protocol_is_named(self):
        rows = good()
        rows[1]["proto"] = "simple"
        self.assertEqual(versions.compare_tuned(ISSUED, {"ops": rows}), ["65536 bytes: simple, not ll128"])

    def test_operations_that_are_missing_are_named(self):
        wrong = versions.compare_tuned(ISSUED, {"ops": good()[1:]})
        self.assertEqual(len(wrong), 1)
        self.assertIn("of [160, ", wrong[0])


class Counted(unittest.TestCase):
    def test_operations_that_are_counted_twice_are_named(self):
        self.assertEqual(versions.counted(ISSUED, {"ops": good()}), [])
        self.assertEqual(len(versions.counted(ISSUED, {"ops": good() + good()})), 1)


class Children(unittest.TestCase):
    def test_what_another_profiler_lists_is_what_it_lists_alone(self):
        both = collections.Counter({("AllReduce", 16384): 40})
        fewer = collections.Counter({("AllReduce", 16384): 39})
        self.assertEqual(versions.compare_child("inspector", both, both, ISSUED), [])
        self.assertEqual(len(versions.compare_child("inspector", both, fewer, ISSUED)), 1)
        self.assertEqual(len(versions.compare_child("inspector", fewer, both, ISSUED)), 1)

    def test_the_example_may_lose_some_alone_and_lists_all_that_was_issued(self):
        whole = collections.Counter({("COLL", "AllReduce"): ISSUED["AllReduce"][0]})
        half = collections.Counter({("COLL", "AllReduce"): ISSUED["AllReduce"][0] // 2})
        self.assertEqual(versions.compare_child("example", half, whole, ISSUED), [])
        self.assertEqual(versions.compare_child("example", whole, whole, ISSUED), [])
        self.assertEqual(len(versions.compare_child("example", whole, half, ISSUED)), 1)
        self.assertEqual(len(versions.compare_child("example", half, half, ISSUED)), 1)


class Outputs(unittest.TestCase):
    def read(self, child, text):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "out.txt"), "w") as file:
                file.write(text)
            return dict(versions.CHILDREN[child](folder))

    def test_inspector_lists_a_collective_a_line(self):
        line = '{"header": {}, "coll_perf": {"coll": "AllReduce", "coll_sn": %d, "coll_msg_size_bytes": 16384}}\n'
        self.assertEqual(self.read("inspector", line % 1 + line % 2), {("AllReduce", 16384): 2})

    def test_the_example_lists_begins_and_may_be_cut(self):
        text = '[\n{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 1},\n' \
               '{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 1},\n{"name": "AllRe'
        self.assertEqual(self.read("example", text), {("COLL", "AllReduce"): 1})


if __name__ == "__main__":
    unittest.main()
