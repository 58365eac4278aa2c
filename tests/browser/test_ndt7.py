"""Transfer tests by ndt7: the page's own, and the published client @m-lab/ndt7, which nobody changed."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Served
from .devtools import DEADLINE_S, Browser

Serve = Callable[..., Served]

PACKAGE = "@m-lab/ndt7@0.1.4"
FEW_MBPS = 1.0
"""Any machine is faster on loopback."""

NODE = """\
// Node has no workers of the web: each runs in a thread, with what a worker has in a browser.
const { Worker: Thread } = require("node:worker_threads");
const inside = `
  const { parentPort, workerData } = require("node:worker_threads");
  globalThis.self = globalThis;
  globalThis.postMessage = (data) => parentPort.postMessage(data);
  require(workerData);
  parentPort.on("message", (data) => self.onmessage({ data }));
`;
globalThis.Worker = class {
  constructor(file) {
    this.thread = new Thread(inside, { eval: true, workerData: file });
    this.thread.on("message", (data) => this.onmessage({ data }));
  }
  postMessage(data) { this.thread.postMessage(data); }
  terminate() { void this.thread.terminate(); }
};
const [folder, server] = process.argv.slice(2);
const told = { errors: [], measured: {} };
require(folder + "/ndt7.js").test(
  { server, protocol: "ws", mlabDataPolicyInapplicable: true,
    downloadworkerfile: folder + "/ndt7-download-worker.js",
    uploadworkerfile: folder + "/ndt7-upload-worker.js" },
  { error: (error) => told.errors.push(String(error)),
    downloadComplete: (last) => (told.measured.download = last),
    uploadComplete: (last) => (told.measured.upload = last) },
).then((code) => console.log(JSON.stringify({ ...told, code })));
"""

PAGE = """<!doctype html><script src="ndt7.js"></script><script>
const told = { errors: [], measured: {} };
ndt7.test(
  { server: location.hash.slice(1), protocol: "ws", mlabDataPolicyInapplicable: true },
  { error: (error) => told.errors.push(String(error)),
    downloadComplete: (last) => (told.measured.download = last),
    uploadComplete: (last) => (told.measured.upload = last) },
).then((code) => (window.told = JSON.stringify({ ...told, code })));
</script>"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the published client."""
    folder = tmp_path_factory.mktemp("npm")
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    try:
        packed = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not fetch {PACKAGE} within 60 s")
    if packed.returncode:
        pytest.skip(f"npm cannot fetch {PACKAGE}: {packed.stderr.strip()[-200:]}")
    shutil.unpack_archive(folder / packed.stdout.strip().splitlines()[-1], folder, filter="data")
    return folder / "package" / "src"


@pytest.fixture
def elsewhere(published: Path) -> Iterator[str]:
    """A page of another site that uses the published client."""
    (published / "test.html").write_text(PAGE)
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=str(published))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/test.html"
        server.shutdown()


def measured_both_ways(told: dict[str, Any]) -> None:
    assert (told["code"], told["errors"]) == (0, []), told
    for test in ("download", "upload"):
        client, server = (told["measured"][test][f"Last{end}Measurement"] for end in ("Client", "Server"))
        assert client["MeanClientMbps"] > FEW_MBPS
        assert server["AppInfo"]["NumBytes"] > 1_000_000
        assert server["TCPInfo"]["MinRTT"] > 0
        assert re.fullmatch(r"[0-9a-f]{32}", server["ConnectionInfo"]["UUID"])
        assert (server["Origin"], server["Test"]) == ("server", test)


def kept(one: Served) -> dict[str, str]:
    """The stage of each test, once it is over."""
    until_s = time.monotonic() + DEADLINE_S
    while True:
        states = [json.loads(path.read_text()) for path in (one.store / "web").glob("*/measurement.json")]
        if all(each["stage"] != "working" for each in states) or time.monotonic() > until_s:
            return {each["facts"]["ndt7"]: each["stage"] for each in states}
        time.sleep(0.1)


def test_the_published_client_in_node(serve: Serve, published: Path, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    one = serve("--tests")
    script = tmp_path / "test.cjs"
    script.write_text(NODE)
    host = one.url.removeprefix("http://").strip("/")
    sockets = subprocess.run(
        [node, "--print", "typeof WebSocket === 'function'"], capture_output=True, text=True
    )
    flags = [] if "true" in sockets.stdout else ["--experimental-websocket"]
    done = subprocess.run(
        [node, *flags, str(script), str(published), host], capture_output=True, text=True, timeout=DEADLINE_S
    )
    measured_both_ways(json.loads(done.stdout.strip().splitlines()[-1]))
    assert kept(one) == {"download": "ready", "upload": "ready"}
    assert one.end()[0] == 0


def test_the_published_client_in_chromium(serve: Serve, browser: Browser, elsewhere: str) -> None:
    one = serve("--tests")
    page = browser.session()
    page.open(f"{elsewhere}#{one.url.removeprefix('http://').strip('/')}")
    measured_both_ways(json.loads(page.wait_for("window.told")))
    assert kept(one) == {"download": "ready", "upload": "ready"}
    assert one.end()[0] == 0


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_page_tests_the_connection_and_says_why(
    serve: Serve, browser: Browser, shots: Path | None, width: int, dark: bool
) -> None:
    one = serve("--tests", "--tests-rate", "50Mbit/s")
    page = browser.session()
    page.look(width=width, height=844 if width < 600 else 800, dark=dark)
    page.open(f"{one.url}#/check")
    page.click("button.primary")
    page.wait_for("document.querySelector('[role=status]')?.innerText.includes('download')")
    page.wait_for("document.querySelector('.tile .value')?.innerText.includes('Mbit/s')")
    page.screenshot(shots, f"check-live-{width}-{'dark' if dark else 'light'}")
    page.wait_for("location.hash.split('/').length === 4")
    said = page.wait_for(
        "document.querySelector('details summary') && document.querySelector('h1').innerText"
    )
    assert re.match(r"(Download|Upload): .+ of the time ", said), said
    first = page.evaluate("document.querySelector('canvas').getBoundingClientRect().top + scrollY")
    assert first < (700 if width < 600 else 450)
    rates = page.evaluate("[...document.querySelectorAll('.tile .value')].map((each) => each.innerText)")
    assert all(rate != "–" for rate in rates), rates
    page.screenshot(shots, f"check-{width}-{'dark' if dark else 'light'}")
    link = page.evaluate("location.href")
    another = browser.session()
    another.open(link)
    assert (
        another.wait_for("document.querySelector('summary') && document.querySelector('h1').innerText")
        == said
    )
    assert not browser.problems()
    assert one.end()[0] == 0


def test_the_page_says_that_the_connection_was_lost(serve: Serve, browser: Browser) -> None:
    one = serve("--tests")
    page = browser.session()
    page.open(f"{one.url}#/check")
    page.click("button.primary")
    page.wait_for("document.querySelector('.tile .value')?.innerText.includes('bit/s')")
    one.process.kill()
    assert "Connection lost after" in page.wait_for("document.querySelector('[role=alert]')?.innerText")
