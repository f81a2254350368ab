"""What tests of the command share: a folder of each test's own, and an environment in which no
launcher, job or shell has set anything."""

import os
import tempfile
import unittest

# What a launcher or the caller's shell may have set, and what decides where muster writes.
FOREIGN = ("MUSTER_", "NCCL_", "SLURM_", "PBS_", "LSB_", "TORCHELASTIC_", "OMPI_", "PMI",
           "STEERED_")
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


class CleanCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def env(self, **more):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(FOREIGN) and k not in RANKS}
        return {**kept, "TMPDIR": self.folder.name, **more}
