"""What config/ ships for many hosts: rules, dashboards and the names they use."""

import glob
import json
import os
import re

# Names of Prometheus itself, and words of its language that look like names.
FOREIGN = {"up"}
WORDS = {"sum", "max", "min", "avg", "count", "topk", "rate", "by", "on", "or", "and", "time", "vector",
         "group_left", "group_right", "histogram_quantile", "without", "unless"}


class Shipped:
    def __init__(self, root):
        self.config = os.path.join(root, "config")
        self.rules_path = os.path.join(self.config, "prometheus", "muster.rules.yml")
        with open(self.rules_path, encoding="utf-8") as file:
            self.rules = file.read()
        self.boards = {}
        for path in sorted(glob.glob(os.path.join(self.config, "grafana", "*.json"))):
            with open(path, encoding="utf-8") as file:
                self.boards[os.path.basename(path)] = json.load(file)

    def recorded(self):
        return set(re.findall(r"^\s*- record: (\S+)$", self.rules, re.M))

    def alerts(self):
        return set(re.findall(r"^\s*- alert: (\S+)$", self.rules, re.M))

    def rule_expressions(self):
        lines = self.rules.splitlines()
        for number, line in enumerate(lines):
            match = re.match(r"(\s*)expr: (.*)", line)
            if not match:
                continue
            if match[2] != "|":
                yield match[2]
                continue
            more = []
            for below in lines[number + 1:]:
                if not below.startswith(match[1] + "  "):
                    break
                more.append(below.strip())
            yield " ".join(more)

    def panels(self):
        for name, board in self.boards.items():
            for panel in board["panels"]:
                yield name, panel

    def dashboard_expressions(self):
        """(where, expression), those of the variables included."""
        for name, panel in self.panels():
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]
        for name, board in self.boards.items():
            for variable in board["templating"]["list"]:
                match = re.fullmatch(r"label_values\((.*), \w+\)", variable.get("definition", ""))
                if match:
                    yield f"{name}: ${variable['name']}", match[1]
                match = re.fullmatch(r"query_result\((.*)\)", variable.get("definition", ""))
                if match:  # asked as panels are
                    yield f"{name}: choice of a {variable['name']}", match[1]


def names(expression):
    """Metric names that an expression asks for."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|on|without|group_left|group_right)\s*\([^)]*\)", "", bare)
    return {name for name in re.findall(r"[a-zA-Z_:][\w:]*", bare)} - WORDS
