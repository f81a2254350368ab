"""simulate.py without GPUs: what simulate said of a size, and what the turns measured."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import simulate  # noqa: E402


def one(size, change, *effects):
    return {"size": size, "change": change, "count": 10,
            "effects": [{"ratio": ratio, "by": by} for ratio, by in effects]}


class Predicted(unittest.TestCase):
    CLASSES = {"classes": [one(1024, "none", (9.0, "beat")), one(1024, "would", (None, None), (0.5, "beat")),
                           one(16384, "would", (2.0, "clock")), one(65536, "would", (None, None))]}

    def test_the_known_effect_of_the_class_that_holds_the_size(self):
        self.assertEqual(simulate.predicted(self.CLASSES, 1024), (0.5, "beat"))
        self.assertEqual(simulate.predicted(self.CLASSES, 20000), (2.0, "clock"))

    def test_what_is_not_known(self):
        for size in (65536, 1 << 20):
            self.assertEqual(simulate.predicted(self.CLASSES, size), (None, None))


class Measured(unittest.TestCase):
    def test_the_medians_and_the_range_of_turns(self):
        turns = [{"a": {8: 10.0}, "b": {8: 20.0}}, {"a": {8: 20.0}, "b": {8: 20.0}}, {"a": {8: 10.0}, "b": {8: 30.0}}]
        self.assertEqual(simulate.ratio_of(turns, "a", "b", 8), (2.0, 1.0, 3.0))


if __name__ == "__main__":
    unittest.main()
