"""What a constant of the detector does: builds bench/verdicts with it changed, and prints what is then
right and wrong beside what is with the constant as it is.

usage: sensitivity.py BUILD CONSTANT... [-- ARGUMENT...]

BUILD     a build folder made by Ninja; its bench/verdicts is what changes are compared with
CONSTANT  FILE:NAME (half and double of what it is) or FILE:NAME=VALUE, FILE below plugin/, where
          NAME is a macro or one of an enum
ARGUMENT  of bench/verdicts (default: --from 1 --to 6). Seeds from 1000 on choose no constant

differ: findings and missed faults (lines of its --csv) that are not the same as without the change."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NUMBER = r"-?[\d.]+(?:ull|u)?"


class Refused(Exception):
    """What was asked for cannot be done; says why."""


def changed_text(text, name, value):
    """(text with the constant changed, what it was); value: a word, or a factor of what it is."""
    pattern = rf"((?:#define\s+{name}\s+(?:\\\n\s*)?|[{{,\s]{name} = ))({NUMBER})"
    found = re.findall(pattern, text)
    if len(found) != 1:
        raise Refused(f"{name} is a number {len(found)} times there, not once")
    was = found[0][1]
    if isinstance(value, float):
        number = float(was.rstrip("ul")) * value
        value = f"{number:g}" if "." in was else str(round(number)) + was.lstrip("-0123456789")
    return re.sub(pattern, lambda match: match[1] + value, text), was, value


def includers(path):
    """Sources of plugin/diagnose and bench/verdicts that read the file, through headers too."""
    reached, sources = {path}, set()
    texts = {}
    for folder in ("plugin", os.path.join("bench", "verdicts")):
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".c", ".h")):
                    full = os.path.relpath(os.path.join(place, name), ROOT)
                    with open(os.path.join(ROOT, full), encoding="utf-8") as file:
                        texts[full] = file.read()
    grown = True
    while grown:
        grown = False
        for name, text in texts.items():
            if name not in reached and any(
                    f'#include "{os.path.relpath(one, "plugin")}"' in text for one in reached):
                reached.add(name)
                grown = True
    sources = {name for name in reached if name.endswith(".c")}
    return sources


def build(folder, path, text, scratch):
    """The program with the file's text in its place."""
    shadow = os.path.join(scratch, "plugin")
    shutil.copytree(os.path.join(ROOT, "plugin"), shadow)
    with open(os.path.join(scratch, path), "w", encoding="utf-8") as file:
        file.write(text)
    commands = subprocess.run(["ninja", "-C", folder, "-t", "commands", "bench/verdicts/verdicts"],
                              check=True, capture_output=True, text=True).stdout.splitlines()
    link = commands[-1].replace(": && ", "").replace(" && :", "")
    objects = []
    for source in includers(path):
        line = next((one for one in commands if one.endswith(f"-c {ROOT}/{source}")), None)
        if not line:
            continue
        made = re.search(r" -o (\S+) ", line)[1]
        here = os.path.join(scratch, os.path.basename(made))
        line = line.replace(f"{ROOT}/plugin", shadow)
        line = re.sub(r" -MD -MT \S+ -MF \S+", "", line).replace(f" -o {made} ", f" -o {here} ")
        subprocess.run(shlex.split(line), check=True, cwd=folder)
        if made in link:
            link = link.replace(made, here)
        else:
            objects.append(here)
    if not objects and "bench" not in path:
        raise Refused(f"nothing of bench/verdicts reads {path}")
    program = os.path.join(scratch, "verdicts")
    link = link.replace(" -o bench/verdicts/verdicts ", f" {' '.join(objects)} -o {program} ")
    subprocess.run(shlex.split(link), check=True, cwd=folder)
    return program


def evaluate(program, arguments, scratch):
    """(the columns of a row, the lines of its findings)."""
    csv = os.path.join(scratch, "findings.csv")
    out = subprocess.run([program, *arguments, "--csv", csv], capture_output=True, text=True).stdout
    whole = re.search(r"\| all +\|[^|]*\|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|", out)
    near = re.search(r"within 30 %: ([\d.]+)", out)
    cause = re.search(r"of ranks, right ([\d.]+)", out)
    live = re.search(r"clean runs with a word.*", out)
    columns = [word.strip() for word in whole.groups()]
    columns += [near[1] if near else "–", cause[1] if cause else "–"]
    with open(csv, encoding="utf-8") as file:
        return columns + ([live[0]] if live else []), file.read().splitlines()


def row(constant, value, columns, differ):
    print("| " + " | ".join([constant, value, *columns, str(differ)]) + " |", flush=True)


def differing(lines, others):
    return len(set(lines) ^ set(others))


def changes(word):
    """(file, name, value) of each change asked for."""
    match = re.fullmatch(r"([\w/]+\.[ch]):(\w+)(?:=(\S+))?", word)
    if not match:
        raise Refused("not FILE:NAME or FILE:NAME=VALUE")
    if not os.path.isfile(os.path.join(ROOT, "plugin", match[1])):
        raise Refused("no such file below plugin/")
    path = os.path.join("plugin", match[1])
    return [(path, match[2], match[3])] if match[3] else [(path, match[2], 0.5), (path, match[2], 2.0)]


def main():
    words = sys.argv[1:]
    arguments = ["--from", "1", "--to", "6"]
    if "--" in words:
        arguments = words[words.index("--") + 1:]
        words = words[:words.index("--")]
    if len(words) < 2:
        sys.exit(__doc__)
    folder, words = os.path.abspath(words[0]), words[1:]
    print("| constant | value | precision | recall | innocents | all wait | cost within 30 % | "
          "cause right | differ |\n|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        columns, usual = evaluate(os.path.join(folder, "bench/verdicts/verdicts"), arguments, scratch)
    row("as it is", "", columns, 0)
    refusals = 0
    for word in words:
        try:
            for path, name, value in changes(word):
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    text, was, value = changed_text(file.read(), name, value)
                with tempfile.TemporaryDirectory() as scratch:
                    program = build(folder, path, text, scratch)
                    columns, lines = evaluate(program, arguments, scratch)
                row(f"{os.path.basename(path)} {name}", f"{was} to {value}", columns,
                    differing(lines, usual))
        except Refused as refused:
            print(f"{word}: {refused}", file=sys.stderr)
            refusals += 1
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main())
