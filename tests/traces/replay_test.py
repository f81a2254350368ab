"""Replays recordings, light and channels, and compares the report with an independent count.

usage: replay_test.py MUSTER RECORDINGS [SCENARIO...]      (default: every one)"""

import json
import os
import subprocess
import sys
import tempfile

import recording

# Medians may come from histograms of eight buckets an octave; the sums are exact.
P50_SHARE = 1 / 8


def report(muster, folder, run, timing):
    environment = dict(os.environ, MUSTER_TIMING=timing, MUSTER_SEGMENT_DIR="/dev/shm")
    subprocess.run([muster, "replay", folder, "--speed", "max", "--out", run], check=True,
                   env=environment, timeout=120)
    text = subprocess.run([muster, "report", run, "--format", "json"], check=True, timeout=60,
                          stdout=subprocess.PIPE).stdout
    return {row["rank"]: row for row in json.loads(text)["ranks"]}


def compare(name, row, meta, operations, timing):
    """Sentences about what differs."""
    expected = {"ops": len(operations), "bytes": sum(o.bytes for o in operations),
                "host": meta["host"], "local_rank": meta["local_rank"]}
    for key, value in expected.items():
        if row[key] != value:
            yield f"{name}: {key} {row[key]}, counted {value}"
    if timing != "channels":
        return
    durations = sorted(d for d in (o.duration_ns() for o in operations) if d is not None)
    if row["timing"]["timed_ops"] != len(durations):
        yield f"{name}: {row['timing']['timed_ops']} timed, counted {len(durations)}"
    if abs(row["in_nccl_us"] - sum(durations) / 1e3) > 0.002:
        yield f"{name}: in_nccl_us {row['in_nccl_us']}, counted {sum(durations) / 1e3}"
    median = durations[(len(durations) - 1) // 2] / 1e3
    if not median * (1 - P50_SHARE) <= row["p50_us"] <= median * (1 + P50_SHARE):
        yield f"{name}: p50_us {row['p50_us']}, counted {median}"


def main(muster, recordings, *scenarios):
    wrong, ranks = [], 0
    for scenario in scenarios or sorted(os.listdir(recordings)):
        folder = os.path.join(recordings, scenario)
        if not os.path.isdir(folder):
            continue
        counted = {rank: recording.read(path) for rank, path in recording.files(folder).items()}
        for timing in ("light", "channels"):
            with tempfile.TemporaryDirectory() as run:
                rows = report(muster, folder, os.path.join(run, "out"), timing)
            if sorted(rows) != sorted(counted):
                wrong.append(f"{scenario} {timing}: ranks {sorted(rows)}")
                continue
            for rank, (meta, operations) in counted.items():
                ranks += 1
                name = f"{scenario} rank {rank} {timing}"
                wrong += compare(name, rows[rank], meta, operations, timing)
    print("\n".join(wrong) or f"{ranks} reports of ranks agree")
    return 1 if wrong or not ranks else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
