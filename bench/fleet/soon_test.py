"""Somebody who becomes late when the job was well for long is named as soon as in a young job, by who he is.

usage: soon_test.py FLEET_AGENTS"""

import json
import re
import subprocess
import sys

SOON_S = 5  # since it cost 1 % of 10 s


def name_late(agents, since_s):
    """(seconds from when it had cost that until somebody was named, who was, who is late). Time is the job's."""
    command = [agents, "--offline", "--ranks", "64", "--seconds", str(since_s + 18), "--fault", "rank", "--from",
               str(since_s)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    job = json.loads(lines[0])
    told = [re.match(r" *([\d.]+) s late_rank: rank (\d+) ", line) for line in lines]
    told = [(float(one[1]) - job["due_s"], int(one[2])) for one in told if one]
    return told, job["guilty"]


def main():
    good = True
    for since_s in (10, 100):
        told, guilty = name_late(sys.argv[1], since_s)
        print(f"late from {since_s} s on: named {[f'{after:.1f} s later: rank {rank}' for after, rank in told]}")
        good = good and len(told) == 1 and told[0][1] == guilty and 0 < told[0][0] <= SOON_S
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
