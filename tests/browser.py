# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for the tests of kernel.html, driven by the system's chromedriver over W3C WebDriver (plain HTTP and JSON)."""

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--disable-dev-shm-usage",
)  # fmt: skip
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def missing():
    """What is not installed of it; "" where all is there."""
    if not any(map(shutil.which, PROGRAMS)):
        return "chromium"
    return "" if shutil.which("chromedriver") else "chromedriver"


class Browser:
    """One window, in a profile of its own below `directory`. Close it."""

    def __init__(self, directory, width=1500, height=1200):
        self._driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._session = ""
        try:
            port = self._port()
            self._root = f"http://127.0.0.1:{port}"
            chrome = {
                "binary": next(filter(None, map(shutil.which, PROGRAMS))),
                "args": [*OPTIONS, f"--user-data-dir={directory}/profile", f"--window-size={width},{height}"],
            }
            wanted = {"browserName": "chrome", "goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
            self._session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _port(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            line = self._driver.stdout.readline()
            if not line:
                break
            if match := re.search(r"started successfully on port ([0-9]+)", line):
                return int(match[1])
        raise RuntimeError("chromedriver does not say its port")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.loads(error.read())["value"]["message"]) from None

    def _in_session(self, method, path, body=None):
        return self._call(method, f"/session/{self._session}{path}", body)

    def open(self, path):
        self._in_session("POST", "/url", {"url": path.resolve().as_uri()})

    def run(self, script, *arguments):
        """The value that the body of a function returns, as JSON gives it."""
        return self._in_session("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def console(self):
        """What the console said since it was last asked: errors of scripts, refusals of the security policy, failed requests."""
        return [entry["message"] for entry in self._in_session("POST", "/se/log", {"type": "browser"})]

    def devtools(self, command, **parameters):
        return self._in_session("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def emulate(self, medium="", **features):
        """As on that medium ("print", ""), with such preferences: prefers_color_scheme="dark"."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", media=medium, features=named)

    def zone(self, name):
        self.devtools("Emulation.setTimezoneOverride", timezoneId=name)

    def point(self, x, y):
        """Move the mouse there."""
        move = {"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y)}
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}
        self._in_session("POST", "/actions", {"actions": [pointer]})
        self.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def screenshot(self, path, whole=False):
        """A PNG of the window, or of the whole page."""
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole, format="png")["data"]
        path.write_bytes(base64.b64decode(shot))

    def printed(self):
        """The page as PDF."""
        return base64.b64decode(self._in_session("POST", "/print", {"background": False}))

    def close(self):
        try:
            if self._session:
                self._in_session("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            self._driver.stdout.close()
