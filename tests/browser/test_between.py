"""A test between two other hosts, begun and watched from the page of a third one, which forwards it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from weirlab.lab.linux.namespace import Namespace

from ..netns.router import CLIENT, SERVER, Router, routed
from . import devtools
from .conftest import Served
from .pages import fill, nameless, photograph

pytestmark = pytest.mark.netns

TOKENS = {CLIENT: "the client's own", SERVER: "the server's own"}


@contextmanager
def serving(at: Namespace, address: str, *options: str) -> Iterator[int]:
    """``weir tcp serve``, and its port."""
    command = [sys.executable, "-m", "weirlab", "tcp", "serve", "--json", "--bind", address, "--port", "0"]
    given = ("--token", TOKENS[address], "--allow-capture")
    process = at.call(
        lambda: subprocess.Popen([*command, *given, *options], stdout=subprocess.PIPE, text=True)
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["port"]
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
def router() -> Iterator[Router]:
    with routed("page") as found:
        yield found


def test_a_third_host_has_two_others_test_and_watches(
    router: Router, serve: Callable[..., Served], shots: Path | None, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(serving(router.client, CLIENT, "--allow-client"))
        server = stack.enter_context(serving(router.server, SERVER))
        served = serve(inside=router.here.call)
        browser = stack.enter_context(devtools.browser(tmp_path / "profile", router.here.call))
        page = browser.session()
        page.open(f"{served.url}#/test")
        page.click("form.form input[value=others]")
        page.wait_for("document.querySelectorAll('form.form input[type=password]').length === 2")
        assert nameless(page) == []
        photograph(page, shots, "between-form")
        fill(page, "Client: runs weir tcp serve --allow-client", CLIENT)
        fill(page, "Port of the client", str(client))
        fill(page, "Token of the client", TOKENS[CLIENT])
        fill(page, "Server: runs weir tcp serve", SERVER)
        fill(page, "Port of the server", str(server))
        fill(page, "Token of the server", TOKENS[SERVER])
        fill(page, "Seconds (at most 300)", "300")
        page.click("form.form summary")
        fill(page, "At most (50Mbit/s)", "20Mbit/s")
        page.click("form.form input[type=checkbox]")
        page.click("form.form button[type=submit]")
        page.wait_for("Number(document.querySelector('.graphs')?.dataset.points) > 5")
        assert page.evaluate("document.querySelector('.graphs').dataset.done") == "false"
        assert "to the server" in page.evaluate("document.querySelector('h1').innerText")
        photograph(page, shots, "between-live")
        page.click("main p > button[type=button]:not(.quiet)")
        page.wait_for("document.querySelector('.graphs').dataset.done === 'true'")
        shown = page.text()
        assert f"TCP test from {CLIENT} to {SERVER}" in shown
        assert "The captures at both ends" in page.evaluate(
            "document.querySelector('#why').parentNode.innerText"
        )
        # Kernels and captures side by side, in whatever graphs are chosen.
        graphs = "[...document.querySelectorAll('.sources figure')].map((each) => each.innerText)"
        page.wait_for("document.querySelectorAll('.sources canvas').length === 2")
        delay = "[...document.querySelectorAll('#sources ~ fieldset label')]"
        page.evaluate(
            f"{delay}.find((each) => each.innerText === 'One-way delay').querySelector('input').click()"
        )
        page.wait_for("document.querySelectorAll('.sources canvas').length === 3")
        throughput, round_trip, one_way = page.evaluate(graphs)
        for source in (
            "sender's kernel",
            "receiver's kernel",
            "capture at the client",
            "capture at the server",
        ):
            assert source in throughput
        assert "capture at the client" in round_trip
        assert "capture at the server" in one_way
        for host in (CLIENT, SERVER):
            assert f"Capture at {host}, " in shown
        assert nameless(page) == []
        photograph(page, shots, "between-done")
        assert browser.problems() == []
        data_id = page.evaluate("location.hash").split("/")[-1]
        kept = served.store / "web" / data_id
        (made,) = result(kept)["connections"]
        assert (made["local"][0], made["remote"]) == (CLIENT, [SERVER, server])
        contents = b"".join(path.read_bytes() for path in kept.iterdir())
        assert not [token for token in TOKENS.values() if token.encode() in contents]
        served.end()


def result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text())["result"]
