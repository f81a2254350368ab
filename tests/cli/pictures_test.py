"""The pictures of docs/pictures: pages of `muster report --html` and `compare --html`, a screen of `muster top`, and
what `muster demo` prints on a terminal beside what it printed at first (demo-first.txt, kept as it was). Made in a
real browser from recorded jobs. Fails where one would be empty.

Usage: pictures_test.py MUSTER RECORDINGS CHROMIUM FOLDER; into docs/pictures to renew those of the documents
"""
import html
import json
import lzma
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import zlib

MUSTER, RECORDINGS, CHROMIUM, FOLDER = sys.argv[1:5]
RECORDING, LATE = "late-tpdp", "Rank 1"
COLUMNS, LINES, TIMES = 100, 22, 24
DEMO_LINES = 58
FIRST_DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo-first.txt")
COLOURS = {"31": "#f66", "32": "#6c6"}
DEADLINE_S = 120


def shoot(page, picture, width, height):
    with tempfile.TemporaryDirectory() as home:
        subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={home}",
                        f"--window-size={width},{height}", f"--screenshot={picture}", "file://" + page],
                       env={**os.environ, "HOME": home}, timeout=280, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pixels(picture):
    """Width, height and how many different rows of pixels a PNG has."""
    with open(picture, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", picture
    width, height, at, packed = *struct.unpack(">II", data[16:24]), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    raw = zlib.decompress(packed)
    row = len(raw) // height
    return width, height, len({raw[i:i + row] for i in range(0, len(raw), row)})


def marked_up(screen):
    """What tmux captured with its colours, as a page."""
    out, bold, reverse, colour = [], False, False, "#ddd"
    for part in re.split(r"(\x1b\[[0-9;]*m)", screen):
        codes = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not codes:
            ground = f"background:{colour};color:#111" if reverse else f"color:{colour}"
            out.append(f'<span style="{ground};font-weight:{700 if bold else 400}">{html.escape(part)}</span>')
            continue
        for code in codes[1].split(";"):
            if code in ("", "0"):
                bold, reverse, colour = False, False, "#ddd"
            bold = bold or code == "1"
            reverse = (reverse or code == "7") and code != "27"
            colour = COLOURS.get(code, "#ddd" if code == "39" else colour)
    return ('<!DOCTYPE html><meta charset="utf-8"><body style="margin:0;background:#111"><pre style="margin:14px;'
            f'font:15px/19px DejaVu Sans Mono,monospace">{"".join(out)}</pre>')


def play_again(call, by_ns, by_handle):
    """A call of a recording, once more after its end."""
    later = dict(call)
    for name in ("t", "ptimer"):
        if call.get(name):
            later[name] += by_ns
    for name in ("h", "parent", "pgroup"):
        if call.get(name):
            later[name] += by_handle
    return later


def make_longer(folder, times):
    """The recording `times` times after another, so that a screen has something to show."""
    os.mkdir(folder)
    for name in os.listdir(os.path.join(RECORDINGS, RECORDING)):
        with lzma.open(os.path.join(RECORDINGS, RECORDING, name), "rt") as file:
            calls = [json.loads(line) for line in file]
        once = [call for call in calls if call["op"] in ("meta", "init")]
        again = [call for call in calls if call["op"] not in ("meta", "init", "fini")]
        length = again[-1]["t"] - again[0]["t"] + 1000000
        handles = max(call.get("h", 0) for call in again) + 1
        with open(os.path.join(folder, name.removesuffix(".xz")), "w") as file:
            for call in once + [play_again(call, i * length, i * handles) for i in range(times) for call in again]:
                file.write(json.dumps(call) + "\n")


def tmux(environment, *arguments):
    return subprocess.run(["tmux", "-f", "/dev/null", *arguments], env=environment, text=True, check=True, timeout=60,
                          stdout=subprocess.PIPE).stdout


def screen_of(environment, lines, command, is_there):
    """A terminal in which the command ran, with its colours, once that is there."""
    tmux(environment, "new-session", "-d", "-x", str(COLUMNS), "-y", str(lines), command)
    try:
        end = time.monotonic() + DEADLINE_S
        while not is_there(shown := tmux(environment, "capture-pane", "-p")):
            assert time.monotonic() < end, shown
            time.sleep(0.2)
        return tmux(environment, "capture-pane", "-p", "-e")
    finally:
        subprocess.run(["tmux", "kill-server"], env=environment, stderr=subprocess.DEVNULL)


def demo_at_first():
    """As a terminal of that width shows it."""
    with open(FIRST_DEMO, encoding="utf-8") as file:
        lines = [line[at:at + COLUMNS] for line in file.read().splitlines()
                 for at in range(0, max(len(line), 1), COLUMNS)]
    assert len(lines) <= DEMO_LINES
    return "\n".join(lines)


def demo_now(environment):
    shown = screen_of(environment, DEMO_LINES, f"sh -c '{MUSTER} demo --recording; cat'",
                      lambda screen: "confidence" in screen)
    assert "holds this job back" in shown
    return shown


def screen_of_top(folder, environment):
    make_longer(os.path.join(folder, "longer"), TIMES)
    job = subprocess.Popen([MUSTER, "replay", "longer", "--dir", "muster-4711"], env=environment, cwd=folder,
                           stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + DEADLINE_S
        while len([name for name in os.listdir(environment["MUSTER_SEGMENT_DIR"]) if name.endswith(".seg")]) < 4:
            assert time.monotonic() < end, "no job"
            time.sleep(0.05)
        shown = screen_of(environment, LINES, MUSTER + " top",
                          lambda screen: LATE + " " in screen and re.search("[\u2581-\u2588]{4}", screen))
        job.wait(timeout=DEADLINE_S)
        return shown
    finally:
        job.terminate()
        job.wait()


def compare_page(folder, environment, page):
    for recording in ("clean", "late-gpu"):
        subprocess.run([MUSTER, "replay", os.path.join(RECORDINGS, recording), "--dir", recording, "--speed", "max"],
                       env={**environment, "MUSTER_TIMING": "full"}, check=True, cwd=folder, timeout=DEADLINE_S,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([MUSTER, "compare", "clean", "late-gpu", "--html", page], env=environment, check=True, cwd=folder,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_", "TMUX", "NO_COLOR"))}
    with tempfile.TemporaryDirectory() as folder, \
            tempfile.TemporaryDirectory(dir="/dev/shm", prefix="muster-pictures-") as shm:
        environment = {**clean, "MUSTER_SEGMENT_DIR": shm, "TMUX_TMPDIR": folder, "LC_ALL": "C.UTF-8"}
        page = os.path.join(folder, "report.html")
        compare_page(folder, environment, page)
        shoot(page, os.path.join(FOLDER, "compare.png"), 1280, 1640)
        text = screen_of_top(folder, environment)
        subprocess.run([MUSTER, "report", "muster-4711", "--html", page], env=environment, check=True, cwd=folder,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shoot(page, os.path.join(FOLDER, "report.png"), 1280, 1500)
        for name, shown, lines in (("top", text, LINES), ("demo-before", demo_at_first(), DEMO_LINES),
                                   ("demo-after", demo_now(environment), DEMO_LINES)):
            screen = os.path.join(folder, name + ".html")
            with open(screen, "w", encoding="utf-8") as file:
                file.write(marked_up(shown))
            shoot(screen, os.path.join(FOLDER, name + ".png"), 930, 19 * lines + 28)
    for name, rows in (("report.png", 300), ("compare.png", 300), ("top.png", 60), ("demo-before.png", 200),
                       ("demo-after.png", 200)):
        width, height, different = pixels(os.path.join(FOLDER, name))
        print(f"{name}: {width} x {height}, {different} different rows")
        assert different > rows, f"{name} is nearly empty"


if __name__ == "__main__":
    main()
