"""Kubernetes manifests against what the published schemas say, and against each other.

usage: fleet_kubernetes_test.py MUSTER SOURCE [unittest options]; 77: Python has no yaml module
"""

import copy
import json
import os
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "cli"))
from schema_fits import fits  # noqa: E402

try:
    import yaml
except ImportError:
    print("skipped: Python has no yaml module (Debian: python3-yaml)")
    sys.exit(77)

MUSTER, SOURCE = sys.argv[1:3]


def misfits(schema, value, where):
    """Sentences about what does not fit, to the field."""
    if isinstance(value, dict) and schema["type"] == "object":
        known, free = schema.get("properties", {}), schema["additionalProperties"]
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{where}: {name} is missing"
        for name, one in value.items():
            if name in known or free:
                yield from misfits(known.get(name, free), one, f"{where}.{name}")
            else:
                yield f"{where}: {name} is not among kubernetes_facts.json's fields"
    elif isinstance(value, list) and schema["type"] == "array":
        for number, one in enumerate(value):
            yield from misfits(schema["items"], one, f"{where}[{number}]")
    elif not fits(schema, value):
        yield f"{where}: {value!r} is no {schema}"


class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(HERE, "kubernetes_facts.json"), encoding="ascii") as file:
            cls.schemas = json.load(file)["schemas"]
        cls.shipped = {}
        for name in ("muster-agent", "podmonitor"):
            with open(os.path.join(SOURCE, "config", "kubernetes", f"{name}.yaml"), encoding="ascii") as file:
                cls.shipped.update((one["kind"], one) for one in yaml.safe_load_all(file))
        with open(os.path.join(SOURCE, "docs", "launchers.md"), encoding="utf-8") as file:
            text = re.search(r"\n## Kubernetes\n.*?```yaml\n(.*?)```", file.read(), re.S)[1]
        cls.shipped["PodSpec"] = yaml.safe_load(text)
        cls.pod = cls.shipped["DaemonSet"]["spec"]["template"]

    def test_every_field_is_one_that_the_published_schema_has(self):
        self.assertEqual(set(self.shipped), set(self.schemas))
        for kind, one in self.shipped.items():
            self.assertEqual(list(misfits(self.schemas[kind], one, kind)), [])

    def test_slips_of_the_pen_are_seen(self):
        def wrong(change):
            one = copy.deepcopy(self.shipped["DaemonSet"])
            change(one["spec"]["template"]["spec"])
            return list(misfits(self.schemas["DaemonSet"], one, "DaemonSet"))
        container = "DaemonSet.spec.template.spec.containers[0]"
        self.assertEqual(wrong(lambda pod: pod["containers"][0].pop("name")), [f"{container}: name is missing"])
        self.assertIn("volumeMount ", wrong(lambda pod: pod["containers"][0].update(volumeMount=[]))[0])
        self.assertIn("'9417'", wrong(lambda pod: pod["containers"][0]["ports"][0].update(containerPort="9417"))[0])
        self.assertIn("Sometimes", wrong(lambda pod: pod["tolerations"][0].update(operator="Sometimes"))[0])

    def test_what_names_each_other_agrees(self):
        labels = self.pod["metadata"]["labels"]
        self.assertEqual(self.shipped["DaemonSet"]["spec"]["selector"]["matchLabels"], labels)
        monitor = self.shipped["PodMonitor"]
        self.assertEqual(monitor["spec"]["selector"]["matchLabels"], labels)
        namespace = self.shipped["Namespace"]["metadata"]["name"]
        for one in (monitor, self.shipped["DaemonSet"]):
            self.assertEqual(one["metadata"]["namespace"], namespace)
        container = self.pod["spec"]["containers"][0]
        ports = {port["name"] for port in container["ports"]}
        self.assertLessEqual({end["port"] for end in monitor["spec"]["podMetricsEndpoints"]}, ports)
        for probe in ("readinessProbe", "livenessProbe"):
            self.assertIn(container[probe]["httpGet"]["port"], ports)
        for pod in (self.pod["spec"], self.shipped["PodSpec"]):
            volumes = {volume["name"] for volume in pod["volumes"]}
            self.assertEqual({mount["name"] for one in pod["containers"] for mount in one["volumeMounts"]}, volumes)
            for volume in pod["volumes"]:
                self.assertEqual(len(volume), 2, volume)  # its name and one source

    def test_the_command_is_one_that_muster_has(self):
        container = self.pod["spec"]["containers"][0]
        text = subprocess.run([MUSTER, *container["command"][1:2], "--help"], check=True, text=True, timeout=30,
                              stdout=subprocess.PIPE).stdout
        for option in (word for word in container["command"] if word.startswith("--")):
            self.assertRegex(text, rf"\s{option}\s")
        port = container["command"][container["command"].index("--listen") + 1].lstrip(":")
        self.assertEqual([one["containerPort"] for one in container["ports"]], [int(port)])

    def test_the_image_is_of_this_version(self):
        version = subprocess.run([MUSTER, "version"], check=True, text=True, timeout=30,
                                 stdout=subprocess.PIPE).stdout.split()[1].rstrip(",")
        self.assertTrue(self.pod["spec"]["containers"][0]["image"].endswith(f":{version}"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
