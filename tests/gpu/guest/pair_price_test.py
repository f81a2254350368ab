"""pair_price.py without GPUs: its arithmetic, and the file that it shares with the plugin."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import pair_price  # noqa: E402

ROUNDS = [{"none": 28.0, "again": 28.01, "pairs": 28.04}, {"none": 28.1, "again": 28.09, "pairs": 28.12}]


class Price(unittest.TestCase):
    def test_what_a_step_pays_is_shared_by_its_launches(self):
        self.assertEqual([round(us, 6) for us in pair_price.price_us(ROUNDS, "pairs", 10)], [4.0, 2.0])
        self.assertEqual([round(us, 6) for us in pair_price.price_us(ROUNDS, "again", 10)], [1.0, -1.0])

    def test_an_interval_lies_around_the_mean(self):
        mean, low, high = pair_price.interval([2.0, 4.0] * 20)
        self.assertEqual(mean, 3.0)
        self.assertLess(low, 3.0)
        self.assertGreater(high, 3.0)


class Shared(unittest.TestCase):
    def test_asking_leaves_the_count_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            switch = pair_price.Switch(folder)
            with open(switch.path, "r+b") as file:
                file.seek(8)
                file.write((7).to_bytes(8, sys.byteorder))
            switch.ask(True)
            self.assertEqual(switch.pairs(), 7)


if __name__ == "__main__":
    unittest.main()
