"""What can be broken on purpose: a table of changes by hand, one for each rule of tests/abi/RULES, and
operators of C that are turned around. Nothing here runs anything."""
import collections
import random
import re

NO_MUTANT = "no mutant because "
FAILS_TO_BUILD = "does not build"


class Mutant:
    """`edits` of `path`: (old text, new text); each old text stands there once."""

    def __init__(self, key, path, edits, builds=True):
        self.key, self.path, self.edits, self.builds = key, path, edits, builds

    def apply(self, text):
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.path}: {text.count(old)} times, not once: {old!r}")
            text = text.replace(old, new)
        return text


def read_rules(path):
    """RULES: of each id the names of its tests; None where it says that none is possible."""
    rules = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            part = line.rstrip("\n").split(" | ")
            if len(part) == 3 and not line.startswith("#"):
                untestable = part[2].startswith("not testable")
                rules[part[0]] = None if untestable else part[2].split(", ")
    return rules


def read_edits(lines):
    """From "- " and "+ " lines: pairs of texts."""
    edits, old, new = [], [], []
    for line in lines + ["-"]:
        if line.startswith("-"):
            if new:
                edits.append(("\n".join(old), "\n".join(new)))
                old, new = [], []
            old.append(line[2:])
        else:
            new.append(line[2:])
    return edits


def read_table(path):
    """The mutants of the table by rule, and the rules that have none, with the reason."""
    mutants, reasons = {}, {}
    with open(path, encoding="utf-8") as file:
        blocks = re.split(r"^= ", file.read(), flags=re.M)[1:]
    for block in blocks:
        head, *lines = block.split("\n")
        lines = [line for line in lines if line.startswith(("-", "+"))]
        rule, rest = head.split(" ", 1)
        if rule in mutants or rule in reasons:
            raise ValueError(f"{path}: {rule} is there twice")
        if rest.startswith(NO_MUTANT):
            reasons[rule] = rest
        else:
            where, _, how = rest.partition(" ")
            if how not in ("", FAILS_TO_BUILD):
                raise ValueError(f"{path}: {rule}: what is {how!r}?")
            mutants[rule] = Mutant(f"rule {rule}", where, read_edits(lines), builds=not how)
    return mutants, reasons


def read_survivors(path):
    """Known survivors: key and reason."""
    known = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                key, _, reason = line.rstrip("\n").partition(" | ")
                known[key] = reason
    return known


TURNED = {" == ": " != ", " != ": " == ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ",
          " && ": " || ", " || ": " && ", " + ": " - ", " - ": " + ", " += ": " -= ",
          "return true;": "return false;", "return false;": "return true;", "if (!": "if (",
          "continue;": ";"}
OPERATOR = re.compile("|".join(re.escape(text) for text in TURNED))
CALL = re.compile(r"(?<=[;{})]\n) +[a-z_]+\([^;{}]*\);$", re.M)
NO_CODE = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^#.*?(?<!\\)$|^_Static_assert.*?;$|"
                     r"^enum \{.*?\};$|^static const [^;]*?\};$", re.M | re.S)


def operators(path, text):
    """Every operator of a file that can be turned, and every call that can be left out. The second and
    further ones of the same line are told apart by a number."""
    blank = NO_CODE.sub(lambda found: re.sub(r"[^\n]", "\0", found.group()), text)
    found = [(one.start(), one.group(), TURNED[one.group()]) for one in OPERATOR.finditer(blank)]
    found += [(one.start(), text[one.start():one.end()], ";") for one in CALL.finditer(blank)]
    seen = collections.Counter()
    for at, old, new in sorted(found):
        begin = text.rfind("\n", 0, at + len(old) - len(old.lstrip())) + 1
        line = text[begin:text.find("\n", at + 1)].strip()
        key = f"{path}: {line}: {old.strip()} -> {new.strip()}"
        seen[key] += 1
        yield at, old, new, key + (f" #{seen[key]}" if seen[key] > 1 else "")


class Turned(Mutant):
    """One operator at one place."""

    def __init__(self, key, path, at, old, new):
        super().__init__(key, path, [])
        self.at, self.old, self.new = at, old, new

    def apply(self, text):
        if text[self.at:self.at + len(self.old)] != self.old:
            raise ValueError(f"{self.path} has changed")
        return text[:self.at] + self.new + text[self.at + len(self.old):]


def draw(texts, n, seed):
    """`n` operators of these files (path: text), the same ones for the same seed."""
    every = [Turned(key, path, at, old, new) for path, text in sorted(texts.items())
             for at, old, new, key in operators(path, text)]
    return random.Random(seed).sample(every, min(n, len(every)))
