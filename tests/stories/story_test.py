"""The stories: commands on made-up hosts and recordings, what they print, and the documents that tell of them.

usage: story_test.py BIN FAKES RECORDINGS DOCS STORY... [--print]
BIN: the folder of muster. FAKES: folders of a driver, an NCCL and an NVML that are none. STORY/transcript holds lines
"# comment", "% hidden command", "$ command" and, below a command, what it prints: "..." in a line stands for any
text, a line "..." for any lines. All commands run in one shell, in a copy of the story's folder, with its host as
MUSTER_SYSFS and MUSTER_PROCFS. The blocks ```console of DOCS/NAME.md, one after the other, are the same transcript.
`replay RECORDING RUN` plays a recording, and holds it longer than MUSTER_HANG_SECONDS. --print shows what is printed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DROPPED = ("NCCL", "TORCH_", "CUDA_", "MASTER_", "MUSTER_", "SLURM_", "OMPI_", "WORLD_", "LOCAL_", "LD_", "RANK")
SHELL = """replay() { local from=$1; [ -d "$from" ] || from=$RECORDINGS/$1
MUSTER_TIMING=full muster replay "$from" --speed 20 --hold $((MUSTER_HANG_SECONDS + 3)) --out "$2" 2>/dev/null; }
"""


def parse(text):
    """[(command, hidden, [line])]"""
    steps = []
    for line in text.splitlines():
        if line.startswith(("$ ", "% ")):
            steps.append((line[2:], line[0] == "%", []))
        elif steps and not steps[-1][1] and not line.startswith("# "):
            steps[-1][2].append(line)
        elif not line.startswith("#"):
            raise SystemExit(f"a line that belongs to no command: {line}")
    return steps


def run(story, steps, folders, fakes, recordings):
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch) / "work"
        shutil.copytree(story, work, symlinks=True)
        (work / "home").mkdir()
        os.mkdir(work / "segments")
        for host in list(work.glob("*/proc")):
            (host.parent / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(DROPPED)}
        env |= {"PATH": f"{folders}:{env['PATH']}", "HOME": str(work / "home"), "LC_ALL": "C",
                "LD_LIBRARY_PATH": fakes, "MUSTER_LOAD_ANY": "1", "RECORDINGS": recordings,
                "MUSTER_SYSFS": str(work / "host/sys"), "MUSTER_PROCFS": str(work / "host/proc")}
        script = SHELL
        for command, hidden, _ in steps:
            script += f"{command} >&2\n" if hidden else f"echo '\x01'\n{command} 2>&1\n"
        done = subprocess.run(["bash", "-c", script], cwd=work, env=env, stdout=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, timeout=280, check=False)
        return [part.splitlines() for part in done.stdout.split("\x01\n")[1:]]


def pattern(lines):
    text = ""
    for line in lines:
        if line == "...":
            text += r"(?:.*\n)*?"
        else:
            text += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.compile(text)


def blocks(document):
    """What stands in the document's console blocks."""
    return "".join(re.findall(r"^```console\n(.*?)^```$", document.read_text(), re.M | re.S))


def check(story, docs, outputs, steps):
    wrong = []
    for (command, _, expected), printed in zip([s for s in steps if not s[1]], outputs):
        if not pattern(expected).fullmatch("".join(line + "\n" for line in printed)):
            wrong.append(f"$ {command}\nprinted:\n" + "\n".join(printed) + "\nexpected:\n" + "\n".join(expected))
    told = parse(blocks(docs / f"{story.name}.md"))
    shown = [step for step in steps if not step[1]]
    if [step[0] for step in told] != [step[0] for step in shown]:
        wrong.append(f"{story.name}.md tells of other commands: {[step[0] for step in told]}")
    for (command, _, expected), (_, _, lines) in zip(shown, told):
        if not pattern(expected).fullmatch("".join(line + "\n" for line in lines)):
            wrong.append(f"{story.name}.md is not what `{command}` prints:\n" + "\n".join(lines))
    return wrong


def main(folders, fakes, recordings, docs, *stories):
    wrong = []
    for story in map(pathlib.Path, (name for name in stories if name != "--print")):
        steps = parse((story / "transcript").read_text())
        outputs = run(story, steps, folders, fakes, recordings)
        if "--print" in stories:
            for (command, _, _), printed in zip([s for s in steps if not s[1]], outputs):
                print("\n".join([f"$ {command}"] + printed))
            continue
        found = check(story, pathlib.Path(docs), outputs, steps)
        wrong += found
        print(f"{story.name}: {'as told' if not found else 'not as told'}")
    print("\n\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
