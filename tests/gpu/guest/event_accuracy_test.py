"""event_accuracy.py's evaluation of made operations. No GPU."""
import os
import random
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import event_accuracy  # noqa: E402


def operations(shift):
    """400 of two ranks; the times of three are those of the operation `shift` further on."""
    dice, at, own = random.Random(1), 0.0, []
    for _ in range(401):
        at += dice.choice([10.0, 11.0, 12.0, 60.0])
        own.append((at, dice.choice([8.0, 9.0])))
    pairs = []
    for n, (begin, us) in enumerate(own[:400]):
        of = own[n + shift] if 200 <= n < 203 else (begin, us)
        pairs.append({rank: {"begin_us": begin, "us": us, "muster_begin": 1e6 + of[0] + 3.0,
                             "muster_us": of[1] - 5.8} for rank in range(2)})
    return pairs


class Outside(unittest.TestCase):
    def outside(self, pairs):
        event_accuracy.mark_outside(pairs)
        return sum(row.get("outside", False) for pair in pairs for row in pair.values())

    def test_own_times_lie_inside(self):
        self.assertEqual(self.outside(operations(0)), 0)

    def test_times_of_another_operation_are_found(self):
        for shift in (-2, -1, 1, 2):
            with self.subTest(shift=shift):
                # One that is too early moves its neighbours' clock: they are marked, too.
                self.assertGreaterEqual(self.outside(operations(shift)), 6)

    def test_a_pause_of_the_host_is_no_other_operation(self):
        pairs = operations(0)
        for row in pairs[50].values():  # between the program's event and muster's
            row["us"] += 40
            row["muster_begin"] += 40
        for row in pairs[60].values():  # between muster's two
            row["us"] += 40
            row["muster_us"] += 40
        self.assertEqual(self.outside(pairs), 0)

    def test_what_was_not_timed_is_left_out(self):
        pairs = operations(1)
        for row in pairs[201].values():
            row["muster_begin"] = row["muster_us"] = None
        self.assertEqual(self.outside(pairs), 4)


if __name__ == "__main__":
    unittest.main()
