"""Compares a report with what a job says that it did.

usage: compare.py REPORT.json JOB.json
JOB.json holds "issued" ({"AllReduce 4096 B": n, "barrier": n, "AllGather": n}) and "ranks": so many
ranks must stand in the report, each with just these collectives, called or captured.
Prints a line per check; exit status 1 if one fails.
"""
import json
import sys

report, job = (json.load(open(path)) for path in sys.argv[1:3])
failed = False


def check(what, found, expected, good):
    global failed
    failed |= not good
    print("%-4s %-44s found %-14s expected %s" % ("ok" if good else "FAIL", what, found, expected))


def wanted(issued):
    """Function and exact total of bytes, where the job gives sizes."""
    counts, sizes = {}, {}
    for name, n in issued.items():
        words = name.split()
        func = "AllReduce" if words[0] == "barrier" else words[0]
        counts[func] = counts.get(func, 0) + n
        if len(words) == 3:
            sizes[func] = sizes.get(func, 0) + n * int(words[1])
        elif words[0] == "barrier":
            sizes[func] = sizes.get(func, 0) + 4 * n
    return counts, sizes


def per_func(rows, nranks):
    """Operations of all ranks together; the report's rows are per communicator."""
    counts, sizes = {}, {}
    for row in rows:
        if row.get("peer") is None:
            counts[row["func"]] = counts.get(row["func"], 0) + row["count"]
            sizes[row["func"]] = sizes.get(row["func"], 0) + row["bytes"]
    return counts, sizes


ranks = report["ranks"]
counts, sizes = wanted(job["issued"])
found_counts, found_sizes = per_func(report["ops"], len(ranks))
captured = sum(r["captured"] for r in ranks)
graph = sum(r["graph_ops"] for r in ranks)
check("ranks", len(ranks), job["ranks"], len(ranks) == job["ranks"])
for func, n in sorted(counts.items()):
    found = found_counts.get(func, 0)
    if captured and func == "AllReduce":
        found += captured - graph
    check("%s on %d ranks" % (func, len(ranks)), found, n * len(ranks), found == n * len(ranks))
    if func in sizes and not captured:
        found = found_sizes.get(func, 0)
        check("bytes of %s" % func, found, sizes[func] * len(ranks), found == sizes[func] * len(ranks))
for func in sorted(set(found_counts) - set(counts)):
    check("%s, which the job never called" % func, found_counts[func], 0, False)
sys.exit(failed)
