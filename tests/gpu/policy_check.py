"""Whether a policy changed what it was to change, and nothing else.

usage: policy_check.py BEFORE.json AFTER.json WANT [COLLECTIVE,...]
       policy_check.py --same BEFORE.json AFTER.json
BEFORE, AFTER: `muster report --format json` of policy_job.py's sweep without and with a policy for
64 KiB to 8 MiB. WANT: what the policy forces there: proto=ll, algo=tree, channels=8.
Prints a line per row that is not as wanted; exit status 1 if there is one.
"""
import json
import sys

LOW, HIGH = 64 << 10, 8 << 20
KINDS = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter",
         "Broadcast": "broadcast"}


def rows(path):
    """Per collective and size the choices that were made, and how often, all ranks together."""
    found = {}
    for op in json.load(open(path))["ops"]:
        if op["func"] in KINDS:
            choices = found.setdefault((KINDS[op["func"]], op["size"]), {})
            choices[op["algo"], op["proto"], op["channels"]] = op["count"]
    return found


def show(choices):
    return ", ".join("%s/%s on %s (%d)" % (*choice, n) for choice, n in sorted(choices.items()))


def is_wanted(choices, before, want):
    """All operations of the row, of all ranks: the report has a row for each choice."""
    key, value = want.split("=")
    if key != "channels":
        at = ("algo", "proto").index(key)
        return all(choice[at] == value for choice in choices)
    most = max(choice[2] for choice in before)
    # NCCL gives a small operation fewer channels than it may have.
    return all(choice[2] <= int(value) and (choice[2] == int(value) or most < int(value) or
                                            choice[2] <= most) for choice in choices) and \
        {choice[:2] for choice in choices} == {choice[:2] for choice in before}


def main(args):
    same = args[0] == "--same"
    args = args[1:] if same else args
    before, after = rows(args[0]), rows(args[1])
    want = None if same else args[2]
    kinds = args[3].split(",") if len(args) > 3 else list(KINDS.values())
    failed = changed = kept = 0
    for key in sorted(set(before) | set(after)):
        a, b = before.get(key, {}), after.get(key, {})
        inside = not same and key[0] in kinds and LOW <= key[1] <= HIGH
        count = sum(a.values()) == sum(b.values())
        good = count and (is_wanted(b, a, want) if inside else a == b)
        changed += inside and a != b
        kept += not inside
        if not good:
            failed = 1
            print("FAIL %s of %d B: %s, then %s" % (*key, show(a), show(b)))
    print("%s %s: %d rows of the range are other than before, %d rows outside it are as before" %
          ("FAIL" if failed else "ok  ", want or "no policy", changed, kept))
    if not before or not after:
        print("FAIL nothing was recorded")
        failed = 1
    return failed


sys.exit(main(sys.argv[1:]))
