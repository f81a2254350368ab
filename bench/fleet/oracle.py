"""Whether the join is exact on a large job: what `fleet_agents --offline --dump FILE` says that each rank cost the
others, against a second reading of the same messages in another language (tests/fleet/wire_oracle.py), which joins
every operation by its number, and where it is installed against VictoriaMetrics, with these numbers as times. To the
nanosecond.

usage: oracle.py BUILD RANKS [SECONDS]    at most 30 s of 1,024 ranks: then all of it is in the worker's windows"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "fleet"))
import victoria  # noqa: E402
from wire_oracle import Job  # noqa: E402


def messages(path):
    with open(path, "rb") as file:
        while length := file.read(4):
            yield file.read(struct.unpack("<I", length)[0])


def main():
    agents, ranks = os.path.join(sys.argv[1], "bench", "fleet", "fleet_agents"), sys.argv[2]
    seconds = sys.argv[3] if len(sys.argv) > 3 else "28"
    with tempfile.TemporaryDirectory(prefix="muster-bench-oracle-") as folder:
        path = os.path.join(folder, "told")
        done = subprocess.run([agents, "--offline", "--dump", path, "--ranks", ranks, "--seconds", seconds, "--fault",
                               "rank", "--from", "10"], check=True, capture_output=True, text=True)
        job, n = Job(), 0
        for message in messages(path):
            job.take(message)
            n += 1
    joined = {int(rank): (int(ops), int(made), int(waited))
              for rank, ops, made, waited in re.findall(r"^cost (\d+) (\d+) (\d+) (\d+)$", done.stdout, re.M)}
    print(f"{len(joined)} ranks, {n} messages, {sum(ops for ops, _, _ in joined.values())} operations of a rank compared")
    good = tell("the oracle", joined, job.costs_of_all())
    if shutil.which("victoria-metrics"):
        good &= tell("VictoriaMetrics", joined, victoria.costs(job))
    return not good


def tell(who, joined, wanted):
    wrong = [rank for rank in sorted(wanted.keys() | joined.keys()) if wanted.get(rank) != joined.get(rank)]
    print(f"  {len(wrong)} ranks differ; rank {wrong[0]}: joined {joined.get(wrong[0])}, {who} {wanted.get(wrong[0])}"
          if wrong else f"  the join and {who} agree on each rank, to the nanosecond")
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
