"""Chromium driven over its DevTools protocol: as much of it as tests of a page need."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

DEADLINE_S = 120.0
"""How long something that is sure to happen may take on a busy machine."""
_LOOK_S = 0.05
_MOST_MESSAGE = 100_000_000


Inside = Callable[[Callable[[], Any]], Any]


def here(make: Callable[[], Any]) -> Any:
    """What ``make`` makes, in the namespaces of the caller."""
    return make()


def chromium() -> str | None:
    """Its path; None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Browser:
    """One process. Each :meth:`session` has cookies and storage of its own."""

    socket: ClientConnection
    _count: int = 0
    _events: list[dict[str, Any]] = field(default_factory=list)
    _contexts: dict[str, str] = field(default_factory=dict)
    """Of each session that is open."""

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call ``method``; events that come meanwhile are kept."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        self.socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        while True:
            answer = json.loads(self.socket.recv(DEADLINE_S))
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self._events.append(answer)

    def take(self, session: str, method: str) -> dict[str, Any] | None:
        """An event that came, and is then forgotten."""
        for event in self._events:
            if (event.get("sessionId"), event.get("method")) == (session, method):
                self._events.remove(event)
                return dict(event["params"])
        return None

    def problems(self) -> list[str]:
        """What pages complained of since the last time: exceptions, and what a policy refused."""
        found = []
        for event in self._events:
            if event.get("sessionId") not in self._contexts:
                continue
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    details = event["params"]["exceptionDetails"]
                    found.append(details.get("exception", {}).get("description") or details["text"])
                case "Log.entryAdded" if event["params"]["entry"]["level"] == "error":
                    entry = event["params"]["entry"]
                    if "ERR_NETWORK_CHANGED" in entry["text"]:
                        continue  # Another test made an interface on this machine: pages ask again.
                    found.append(f"{entry['text']} {entry.get('url', '')}")
        self._events.clear()
        return found

    def session(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """An empty page in a session of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._contexts[session] = context
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "DOM"):
            page.call(f"{domain}.enable")
        page.look(width=width, height=height, dark=dark)
        return page

    def end_sessions(self) -> None:
        """Close every page, and forget what it kept and complained of."""
        while self._contexts:
            _, context = self._contexts.popitem()
            self.call("Target.disposeBrowserContext", browserContextId=context)
        self._events.clear()


@dataclass(frozen=True)
class Page:
    """One page."""

    browser: Browser
    session: str

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def look(self, *, width: int, height: int, dark: bool) -> None:
        """As on a screen of this size and scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of an expression, as soon as it is one that counts."""
        until_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < until_s:
            # An element has no value of its own.
            if value := self.evaluate(f"((found) => found instanceof Element || found)({script})"):
                return value
            time.sleep(_LOOK_S)
        raise AssertionError(f"not within {DEADLINE_S} s: {script}; the page says: {self.text()}")

    def text(self) -> str:
        return str(self.evaluate("document.body?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """As a user clicks what ``selector`` finds, where it is on the screen."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        x, y = self.evaluate(
            f"""((found) => {{
                found.scrollIntoView({{ block: "center" }});
                const {{ x, y, width, height }} = found.getBoundingClientRect();
                return [x + width / 2, y + height / 2];
            }})(document.querySelector({json.dumps(selector)}))"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose_in_dialog(self, selector: str, path: Path) -> None:
        """As a user clicks what ``selector`` finds, and chooses a file in the dialog that opens."""
        self.call("Page.setInterceptFileChooserDialog", enabled=True)
        self.click(selector)
        until_s = time.monotonic() + DEADLINE_S
        while not (node := self.browser.take(self.session, "Page.fileChooserOpened")):
            assert time.monotonic() < until_s, "no dialog for files opens"
            self.evaluate("0")
        self.call("DOM.setFileInputFiles", files=[str(path)], backendNodeId=node["backendNodeId"])

    def choose_file(self, selector: str, path: Path) -> None:
        """As a user chooses a file for an input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def press(self, key: str) -> None:
        """As a user presses a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, folder: Path | None, name: str) -> None:
        """All of the page, also what is below the screen; none if there is no folder for it."""
        if folder is None:
            return
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        (folder / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(folder: Path, inside: Inside = here) -> Iterator[Browser]:
    """A browser without a window, with its profile in ``folder``; ``inside`` as for :func:`here`."""
    program = chromium()
    assert program is not None
    # Chromium's own sandbox does not work as root.
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [
        program, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}", *alone,
        "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--hide-scrollbars", "about:blank",
    ]  # fmt: skip
    silent = subprocess.DEVNULL
    process = inside(lambda: subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent))
    try:
        address = _address(folder, process)
        with inside(lambda: connect(address, max_size=_MOST_MESSAGE, open_timeout=DEADLINE_S)) as socket:
            made = Browser(socket)
            yield made
            made.call("Browser.close")
        # What it keeps outside of its profile, it removes when it ends by itself.
        process.wait(DEADLINE_S)
    finally:
        process.terminate()
        process.wait()


def _address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens, which it writes into its profile."""
    told = folder / "DevToolsActivePort"
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s and process.poll() is None:
        if told.exists() and len(lines := told.read_text().split()) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(_LOOK_S)
    raise AssertionError("chromium does not listen")
