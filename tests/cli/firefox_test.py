"""The pages of `muster report --html` and `compare --html` in Firefox, from file://, light, dark and printed.

Usage: firefox_test.py MUSTER RECORDINGS FIREFOX [FOLDER]; into FOLDER go the pictures, to be looked at
"""
import base64
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

MUSTER, RECORDINGS, FIREFOX = map(os.path.abspath, sys.argv[1:4])
PICTURES = sys.argv[4] if len(sys.argv) > 4 else None
DEADLINE_S = 200
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "NCCL_", "DISPLAY"))},
       "MUSTER_TIMING": "full"}
# Its own errors come from its own files; a page's from the page.
ERRORS = """return Services.console.getMessageArray().filter(said => said instanceof Ci.nsIScriptError
    && !(said.flags & Ci.nsIScriptError.warningFlag) && said.sourceName.startsWith("file:"))
    .map(said => said.errorMessage + " at " + said.sourceName + ":" + said.lineNumber)"""
LOADED = """return performance.getEntriesByType("resource").map(entry => entry.name)"""
COLOURS = {"light": 1, "dark": 0}  # of layout.css.prefers-color-scheme.content-override


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Firefox:
    """A headless one, led by its Marionette: lengths and JSON over a socket."""

    def __init__(self, home):
        port = free_port()
        with open(os.path.join(home, "user.js"), "w", encoding="utf-8") as file:
            file.write(f'user_pref("marionette.port", {port});\n'
                       'user_pref("browser.shell.checkDefaultBrowser", false);\n'
                       'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n')
        self.process = subprocess.Popen([FIREFOX, "--headless", "--no-remote", "--marionette",
                                         "--remote-allow-system-access", "--profile", home], env={**ENV, "HOME": home},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.number, self.waiting = 0, b""
        try:
            self.socket = self.connect(port)
            self.message()  # who it is
            self.ask("WebDriver:NewSession", {})
        except BaseException:
            self.end()
            raise

    def connect(self, port):
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
            except OSError:
                assert time.monotonic() < end and self.process.poll() is None, "Firefox does not listen"
                time.sleep(0.1)

    def message(self):
        while b":" not in self.waiting:
            self.receive()
        length, self.waiting = self.waiting.split(b":", 1)
        while len(self.waiting) < int(length):
            self.receive()
        text, self.waiting = self.waiting[:int(length)], self.waiting[int(length):]
        return json.loads(text)

    def receive(self):
        more = self.socket.recv(1 << 20)
        assert more, "Firefox hung up"
        self.waiting += more

    def ask(self, command, parameters):
        self.number += 1
        text = json.dumps([0, self.number, command, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(text), text))
        _, number, wrong, result = self.message()
        assert number == self.number and wrong is None, (command, wrong)
        return result["value"] if isinstance(result, dict) and "value" in result else result

    def run(self, script, context="content"):
        self.ask("Marionette:SetContext", {"value": context})
        value = self.ask("WebDriver:ExecuteScript", {"script": script, "args": []})
        self.ask("Marionette:SetContext", {"value": "content"})
        return value

    def end(self):
        self.process.terminate()
        self.process.wait()


def make(folder, recording):
    where = os.path.join(folder, recording)
    for command in (["replay", os.path.join(RECORDINGS, recording), "--dir", where, "--speed", "max"],
                    ["report", where, "--html", where + ".html"]):
        subprocess.run([MUSTER, *command], env=ENV, check=True, timeout=DEADLINE_S, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return where + ".html"


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        home = os.path.join(cls.folder.name, "home")
        os.mkdir(home)
        cls.firefox = Firefox(home)

    @classmethod
    def tearDownClass(cls):
        cls.firefox.end()
        cls.folder.cleanup()

    def go(self, page):
        self.firefox.run("Services.console.reset()", "chrome")
        self.firefox.ask("WebDriver:Navigate", {"url": "file://" + page})
        return self.firefox.run(ERRORS, "chrome")

    def is_drawn(self, page):
        self.assertEqual(self.go(page), [])
        self.assertEqual(self.firefox.run("return document.documentElement.dataset.ready || document.body.dataset.ready"),
                         "yes")
        self.assertEqual([name for name in self.firefox.run(LOADED) if not name.startswith("data:")], [])

    def look(self, name):
        """The screen as a picture, and how light its ground is."""
        picture = base64.b64decode(self.firefox.ask("WebDriver:TakeScreenshot", {"full": True, "hash": False}))
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        self.keep(name + ".png", picture)
        ground = self.firefox.run("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", ground)[:3])) / 765

    def keep(self, name, content):
        if PICTURES:
            os.makedirs(PICTURES, exist_ok=True)
            with open(os.path.join(PICTURES, name), "wb") as file:
                file.write(content)

    def test_an_error_in_a_page_would_be_noticed(self):
        page = os.path.join(self.folder.name, "wrong.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write("<!DOCTYPE html><script>nothing.here()</script>")
        self.assertIn("nothing is not defined", " ".join(self.go(page)))

    def test_the_pages_of_recorded_runs(self):
        for recording in ("late-tpdp", "net-throttled", "hang-absent", "clean"):
            page = make(self.folder.name, recording)
            for colours, value in COLOURS.items():
                self.firefox.run("Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', "
                                 f"{value})", "chrome")
                self.is_drawn(page)
                light = self.look(f"{recording}-{colours}")
                self.assertEqual(light > 0.5, colours == "light", (recording, colours, light))
            verdict = self.firefox.run("return document.getElementById('verdict').textContent")
            self.assertGreater(len(verdict), 20, recording)
            printed = base64.b64decode(self.firefox.ask("WebDriver:Print", {"background": True}))
            self.assertEqual(printed[:5], b"%PDF-")
            self.keep(recording + ".pdf", printed)

    def test_the_page_of_two_runs(self):
        folder = os.path.join(self.folder.name, "two")
        make(folder, "clean"), make(folder, "late-gpu")
        page = os.path.join(folder, "compare.html")
        subprocess.run([MUSTER, "compare", "clean", "late-gpu", "--html", page], env=ENV, check=True,
                       cwd=folder, timeout=DEADLINE_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.is_drawn(page)
        self.assertEqual(self.firefox.run("return document.querySelectorAll('svg').length"), 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
