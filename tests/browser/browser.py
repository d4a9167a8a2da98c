"""A headless Chromium, driven over its own pipe: no driver program and no Python package are needed. Nothing here goes by how long
something takes: it waits for what is to come, and how much work a page makes is told in processor time."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PATIENCE = 120  # seconds: machines may be busy, and a test that hangs is ended by ctest

KEYS = {  # name -> (key code, text)
    "Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""),
    "ArrowDown": (40, ""), "+": (187, "+"), "-": (189, "-"), "0": (48, "0"),
}


class Browser:
    """One tab. What the page logs as an error, throws, or asks of the network is kept in `errors` and `requests`."""

    def __init__(self, width=1280, height=900):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            raise RuntimeError("no Chromium: scripts/bootstrap test installs it")
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.downloads = Path(self._profile.name) / "downloads"
        self.downloads.mkdir()
        self._start(program)
        self._last, self._buffer = 0, b""
        self.errors, self.requests, self._events = [], [], []
        self._names, self._saved = {}, []  # of downloads: names by their id, names of those that are complete
        page = self._first_page()
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Performance.enable", timeDomain="threadTicks")
        self._call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads), eventsEnabled=True, session=False)
        self.resize(width, height)
        self.prefer("light")

    _session = None

    def _start(self, program):
        to_read, to_write = os.pipe(), os.pipe()  # Chromium reads commands from descriptor 3 and answers on 4
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--mute-audio",
                   "--disable-extensions", "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}/profile", "about:blank"]

        def pipes():
            a, b = os.dup(to_read[0]), os.dup(to_write[1])
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen([program, *options], close_fds=False, preexec_fn=pipes, start_new_session=True,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read[0])
        os.close(to_write[1])
        self._commands, self._answers = to_read[1], to_write[0]

    def _first_page(self):
        end = time.monotonic() + PATIENCE
        while True:
            for target in self._call("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    return target["targetId"]
            if time.monotonic() > end:
                raise RuntimeError("Chromium opens no page")
            time.sleep(0.05)

    def close(self):
        try:
            self._call("Browser.close", session=False)
            self._process.wait(PATIENCE)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def _receive(self, seconds):
        """The next message, or None when none comes in time."""
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            if not select.select([self._answers], [], [], max(0, end - time.monotonic()))[0]:
                return None
            piece = os.read(self._answers, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has gone")
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message):
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            detail = about["exceptionDetails"]
            self.errors.append(detail.get("exception", {}).get("description") or detail["text"])
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            words = " ".join(str(a.get("value", a.get("description"))) for a in about["args"])
            self._blame(words)
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self._blame(about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif method == "Browser.downloadWillBegin":
            self._names[about["guid"]] = about["suggestedFilename"]
        elif method == "Browser.downloadProgress" and about["state"] == "completed":
            self._saved.append(self._names.pop(about["guid"]))
        self._events.append(method)

    def _blame(self, words):
        if not words.startswith("Canvas2D: Multiple readback"):  # tests look at pixels, people do not
            self.errors.append(words)

    def _call(self, method, session=True, **parameters):
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session and self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(PATIENCE)
            if answer is None:
                raise RuntimeError(f"Chromium does not answer {method}")
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer.get("result", {})
            self._note(answer)

    def open(self, path):
        """Loads a file; gives the seconds of processor time until it says that it is ready."""
        self.run("window.left = true")  # what the page before has and the next one has not
        self.errors, self.requests = [], []
        self._call("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait("!window.left && document.readyState === 'complete' && document.documentElement.dataset.ready === 'yes'")
        return self.processor_seconds()

    def processor_seconds(self):
        """What the page's own thread has worked so far."""
        metrics = self._call("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def run(self, script):
        """The value of an expression in the page; of a promise, when it is there."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            detail = result["exceptionDetails"]
            raise RuntimeError(detail.get("exception", {}).get("description") or detail["text"])
        return result["result"].get("value")

    def wait(self, condition):
        end = time.monotonic() + PATIENCE
        while not self._is_true(condition):
            if time.monotonic() > end:
                raise RuntimeError(f"never came true: {condition}; errors of the page: {self.errors}")
            time.sleep(0.02)

    def _is_true(self, condition):
        try:
            return self.run(f"Boolean({condition})")
        except RuntimeError as error:  # asked while one page goes and the next one comes
            if "navigated" in str(error) or "context" in str(error):
                return False
            raise

    def resize(self, width, height, mobile=False):
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)

    def prefer(self, scheme):
        """A reader who likes pages light or dark, and nothing that moves by itself."""
        self._call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def key(self, name, shift=False):
        code, text = KEYS[name]
        event = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self._call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **event)

    def mouse(self, kind, x, y, **more):
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector, index=0):
        """A click of the mouse in the middle of an element."""
        x, y = self.run(f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{index}]; e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
                        "const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def screenshot(self, path, whole=False):
        more = {}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        Path(path).write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png", **more)["data"]))

    def download(self):
        """The file that the page has just saved; it is never empty. Chromium reserves names with empty files, writes elsewhere and
        renames at the end, sometimes after it has said that all is complete: only both signs together are one."""
        end = time.monotonic() + PATIENCE
        while not self._has_arrived():
            if time.monotonic() > end:
                raise RuntimeError(f"nothing was saved; begun: {list(self._names.values())}; said to be complete: {self._saved}")
            self._receive_waiting(0.05)
        file = self.downloads / self._saved.pop(0)
        content = file.name, file.read_bytes()
        file.unlink()
        return content

    def _has_arrived(self):
        file = self.downloads / self._saved[0] if self._saved else None
        return file is not None and file.exists() and file.stat().st_size > 0

    def _receive_waiting(self, seconds):
        message = self._receive(seconds)
        if message is not None:
            self._note(message)
