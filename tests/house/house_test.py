"""How the sources are laid out: walls between rooms, names, sizes.
Usage: house_test.py SOURCE_ROOT ROOMS"""
import collections
import os
import re
import sys
import unittest

ROOT, ROOMS = sys.argv.pop(1), sys.argv.pop(1)
FOLDERS = ("plugin", "tests", "bench", "config", "docs")
SOURCE = (".c", ".h", ".py", ".sh", ".cmake")
MOST_FILES, MOST_LINES, MOST_FUNCTION_LINES, MOST_COLUMNS = 40, 599, 60, 110
# What names may not say, and what they say instead (docs/glossary.md).
RETIRED = {r"(un)?judg\w*": "evaluate", r"tell\w*|told": "emit, publish, report", r"say\w*|said": "describe, log, put",
           r"guilt\w*": "culprit", r"blam\w*": "name, attribute"}
# Rooms whose comments still have such words.
WORDY = {"diagnose/straggler"}

# Pages with tables wider than MOST_COLUMNS: no page comes to them, and one that has none any more goes.
WIDE_TABLES = {"README.md", *(f"docs/{page}.md" for page in (
    "accuracy", "accuracy-hangs", "constants", "cost", "diagnosis", "doctor", "doctor-lines", "evidence",
    "finding-kinds", "launchers", "limits", "policy", "reading-the-report", "security",
    "stories/README", "stories/broken-p2p", "stories/metadata-gather", "stories/network-swap",
    "stories/wrong-interface", "troubleshooting", "versions"))}


def files(*folders):
    """Paths below the source root, in order."""
    for folder in folders:
        for where, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(names):
                yield os.path.relpath(os.path.join(where, name), ROOT)


def lines(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read().split("\n")


def read_rooms():
    """The table: of each room those that it may include."""
    rooms = {}
    for line in lines(ROOMS):
        if line and not line.startswith("#"):
            name, _, others = line.partition(":")
            rooms[name] = others.split()
    return rooms


def functions(path):
    """Name, first line and length of each function, by clang-format's braces at a line's start."""
    text = lines(path)
    begin = None
    for number, line in enumerate(text):
        if line == "{":
            begin = number
            while begin > 0 and not re.match(r"[A-Za-z_].*\(", text[begin]):
                begin -= 1
        elif line == "}" and begin is not None:
            name = re.search(r"(\w+)\(", text[begin])
            yield name.group(1) if name else "?", begin + 1, number - begin + 1
            begin = None


class House(unittest.TestCase):
    def none(self, wrong):
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_a_room_includes_only_what_it_may(self):
        rooms = read_rooms()
        wrong = []
        for path in files("plugin"):
            if not path.endswith((".c", ".h")):
                continue
            room = os.path.dirname(path)[len("plugin/"):]
            allowed = {room, "base", "config", *rooms[room]}
            if room in ("base", "config"):
                allowed = {"base", room}
            for number, line in enumerate(lines(path), 1):
                included = re.match(r'#include "(.+)/[^/]+"', line)
                if included and included.group(1) not in allowed:
                    wrong.append(f"{path}:{number}: {room} may not include {included.group(1)}; "
                                 f"see {ROOMS}")
        self.none(wrong)

    def test_a_room_includes_all_that_it_may(self):
        unused = {room: set(others) for room, others in read_rooms().items()}
        for path in files("plugin"):
            if path.endswith((".c", ".h")):
                text = "\n".join(lines(path))
                unused[os.path.dirname(path)[len("plugin/"):]] -= set(re.findall(r'^#include "(.+)/[^/\n]+"', text, re.M))
        self.none([f"{room} does not include {other} any more; see {ROOMS}"
                   for room, others in unused.items() for other in sorted(others)])

    def test_the_table_names_the_rooms_there_are(self):
        here = {os.path.dirname(path)[len("plugin/"):] for path in files("plugin")
                if path.endswith((".c", ".h"))}
        rooms = read_rooms()
        self.assertEqual(set(rooms), here)
        self.assertLessEqual({other for others in rooms.values() for other in others}, here)

    def test_the_picture_shows_every_room(self):
        text = "\n".join(lines("docs/architecture.md"))
        picture = text[:text.index("## The life of an operation")]
        words = set(re.findall(r"\w+", picture))
        self.none([room for room in sorted(read_rooms()) if os.path.basename(room) not in words])

    def test_the_map_names_files_that_are_there(self):
        text = "\n".join(lines("docs/architecture.md") + lines("docs/how-to-add.md"))
        here = {os.path.basename(path) for path in files(*FOLDERS)} | set(os.listdir(ROOT))
        named = set(re.findall(r"`(?:[\w.-]+/)*([\w.-]+\.(?:c|h|py|sh|cmake|map|md|yml|yaml))`", text))
        self.assertGreater(len(named), 100)
        self.none(sorted(named - here))

    def test_the_pages_of_findings_have_every_kind(self):
        kinds = re.findall(r"^ +ROW\(\w+, +(\w+),", "\n".join(lines("plugin/base/finding_kinds.h")), re.M)
        self.assertGreater(len(kinds), 10)
        for page, begin in (("docs/finding-kinds.md", "## "), ("docs/reference/diagnose.md", "| ")):
            named = " ".join(line for line in lines(page) if line.startswith(begin))
            self.none([f"{page}: no {begin.strip()} {kind}" for kind in kinds if not re.search(rf"\b{kind}\b", named)])

    def test_every_fuzz_target_has_a_rate(self):
        targets = set(re.findall(r"muster_fuzz\((\w+) ", "\n".join(lines("tests/fuzz/CMakeLists.txt"))))
        rates = set(re.findall(r"^\| fuzz_(\w+) \| .+ \| [\d,]+( \*)? \|$", "\n".join(lines("docs/testing.md")), re.M))
        self.assertGreater(len(targets), 20)
        self.assertEqual(targets, {name for name, _ in rates})

    def test_no_two_sources_have_one_name(self):
        named = collections.defaultdict(list)
        for path in files(*FOLDERS):
            if path.endswith(SOURCE):
                named[os.path.basename(path)].append(path)
        self.none([" ".join(paths) for paths in named.values() if len(paths) > 1])

    def test_what_skips_names_what_it_skips(self):
        """.ci/run asks of each part whether it had to be skipped."""
        wrong = []
        for path in files(*FOLDERS):
            text = "\n".join(lines(path)) if path.endswith(".py") and not path.endswith("house_test.py") else ""
            if re.search(r"skip(Test|Unless|If)\b", text) and "unittest.main(" in text and \
               not re.search(r"unittest\.main\([^)]*verbosity=2", text):
                wrong.append(f"{path}: skips parts without their names: unittest.main(verbosity=2)")
        self.none(wrong)

    def test_no_folder_is_too_full(self):
        count = collections.Counter(os.path.dirname(path) for path in files(*FOLDERS)
                                    if not path.startswith("tests/fuzz/corpus/"))
        self.none([f"{folder}: {n} files" for folder, n in count.items() if n > MOST_FILES])

    def test_no_source_is_too_long(self):
        self.none([f"{path}: {len(lines(path)) - 1} lines" for path in files(*FOLDERS)
                   if path.endswith(SOURCE) and len(lines(path)) - 1 > MOST_LINES])

    def test_no_function_is_too_long(self):
        self.none([f"{path}:{at}: {name} has {length} lines" for path in files(*FOLDERS)
                   if path.endswith((".c", ".h"))
                   for name, at, length in functions(path) if length > MOST_FUNCTION_LINES])

    def test_an_include_guard_is_the_path(self):
        wrong = []
        for path in files(*FOLDERS):
            if path.endswith(".h"):
                guard = "MUSTER_" + re.sub(r"\W", "_", path.removeprefix("plugin/")).upper()
                if f"#ifndef {guard}" not in lines(path):
                    wrong.append(f"{path}: no guard {guard}")
        self.none(wrong)

    def test_no_name_has_a_retired_word(self):
        wrong = set()
        for path in files("plugin", "bench"):
            if not path.endswith((".c", ".h")):
                continue
            text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", "\n".join(lines(path)), flags=re.S)
            names = {*re.findall(r"\b[A-Za-z_]\w*\b", text), os.path.splitext(os.path.basename(path))[0],
                     *os.path.dirname(path).split("/")}
            wrong |= {f"{path}: {name}: rather {better}" for word, better in RETIRED.items() for name in names
                      if re.search(f"(^|_)({word})(_|$)", name, re.I)}
        self.none(sorted(wrong))

    def test_no_comment_has_a_retired_word(self):
        wrong, wordy = [], set()
        for path in files("plugin"):
            if not path.endswith((".c", ".h")):
                continue
            room = os.path.dirname(path).removeprefix("plugin/")
            for part in re.findall(r'"(?:\\.|[^"\\\n])*"|(/\*.*?\*/|//[^\n]*)', "\n".join(lines(path)), re.S):
                for word, better in RETIRED.items():
                    if re.search(rf"\b({word})\b", part, re.I):
                        wordy.add(room)
                        wrong += [] if room in WORDY else [f"{path}: rather {better}: {part}"]
        self.none(wrong)
        self.assertEqual(WORDY, wordy, "a room whose comments have none of them any more leaves WORDY")

    def test_no_path_of_somebodys_machine(self):
        wrong = []
        for path in files(*FOLDERS):
            if path.endswith(SOURCE + (".md", ".txt", ".yaml", ".json", ".csv")):
                wrong += [f"{path}:{number}: {line.strip()}"
                          for number, line in enumerate(lines(path), 1)
                          if re.search(r"(^|[^\w.}])/(home|Users|root|work|tmp/tmp)\w*/\w", line)]
        self.none(wrong)

    def test_links_of_documents_lead_somewhere(self):
        wrong = []
        for path in [*files("docs"), "README.md", "CONTRIBUTING.md"]:
            if not path.endswith(".md"):
                continue
            for number, line in enumerate(lines(path), 1):
                for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
                    there = os.path.join(ROOT, os.path.dirname(path), target)
                    if not os.path.exists(there):
                        wrong.append(f"{path}:{number}: no {target}")
        self.none(wrong)

    def test_the_pages_of_the_interface_can_be_read(self):
        pages = [path for path in files("docs/reference")]
        index = "\n".join(lines("docs/interface.md"))
        self.none([f"docs/interface.md: no link to {page}" for page in pages
                   if f"(reference/{os.path.basename(page)})" not in index])
        self.none([f"{page}:{number}: {len(line)} columns" for page in pages
                   for number, line in enumerate(lines(page), 1) if len(line) > MOST_COLUMNS])

    def test_prose_of_all_pages_can_be_read(self):
        """Not what commands print; tables but for those pages that have wide ones."""
        wrong = []
        for page in [path for path in files("docs") if path.endswith(".md")] + ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]:
            shown = False
            for number, line in enumerate(lines(page), 1):
                shown ^= line.lstrip().startswith("```")
                wide = line.startswith("|") and page in WIDE_TABLES
                if len(line) > MOST_COLUMNS and not shown and not wide:
                    wrong.append(f"{page}:{number}: {len(line)} columns")
        self.none(wrong)

    def test_pages_with_wide_tables_have_some(self):
        self.none([page for page in sorted(WIDE_TABLES) if not any(
            line.startswith("|") and len(line) > MOST_COLUMNS for line in lines(page))])


if __name__ == "__main__":
    unittest.main()
