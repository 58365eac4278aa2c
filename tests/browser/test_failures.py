"""What the page says when something fails: a test, a link, the service."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from weirlab._engine import TcpServer
from weirlab.store import Store
from weirlab.testing import SMALL_PROFILE

from .devtools import Browser, Page
from .pages import Serve, fill, nameless, photograph, trials

GONE = "The service cannot be reached"
ERROR = "document.querySelector('main .error')?.innerText"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this host at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def begin(page: Page, url: str, port: int) -> None:
    """Begin a TCP test against this host."""
    page.open(f"{url}#/test")
    fill(page, "Host that runs weir tcp serve", "127.0.0.1")
    fill(page, "Port", str(port))
    page.evaluate("document.querySelector('form.form').requestSubmit()")


def test_a_test_that_fails_shows_the_reason_and_no_graph(
    serve: Serve, browser: Browser, closed_port: int, shots: Path | None
) -> None:
    page = browser.session()
    begin(page, serve().url, closed_port)
    assert "is weir tcp serve running there" in page.wait_for(ERROR)
    assert page.evaluate("document.querySelectorAll('main figure, main .switch').length") == 0
    assert page.text().count("is weir tcp serve running there") == 1
    assert nameless(page) == []
    photograph(page, shots, "transfer-failed")
    assert browser.problems() == []


def test_a_page_says_when_the_service_is_gone_while_it_tests(serve: Serve, browser: Browser) -> None:
    server = TcpServer(
        address="127.0.0.1", port=0, token="", most_ns=None, most_bytes=None, most_clients=2, options=[]
    )
    served = serve()
    page = browser.session()
    begin(page, served.url, server.address[1])
    page.wait_for("Number(document.querySelector('.graphs')?.dataset.points) > 3")
    served.process.kill()
    served.process.wait()
    assert GONE in page.wait_for(ERROR)
    for part in ("runs", "captures", "test"):
        page.evaluate(f"location.hash = '#/{part}'")
        page.wait_for("document.querySelector('main h1')")
    fill(page, "Host that runs weir tcp serve", "127.0.0.1")
    page.evaluate("document.querySelector('form.form').requestSubmit()")
    assert GONE in page.wait_for(ERROR)
    # A part whose script was not needed until now.
    page.evaluate("location.hash = '#/compare/one/other'")
    page.wait_for("!document.querySelector('form.form')")
    assert GONE in page.wait_for(ERROR)
    server.stop()


@pytest.mark.parametrize(
    ("part", "title"),
    [("runs", "Runs"), ("captures", "Captures"), ("test", "TCP test"), ("x", "No such page")],
)
def test_every_page_has_a_title(part: str, title: str, serve: Serve, browser: Browser) -> None:
    page = browser.session()
    page.open(f"{serve().url}#/{part}")
    page.wait_for(f"document.title === '{title} – Weir'")


def test_an_address_with_a_percent_sign_is_told_as_any_other(serve: Serve, browser: Browser) -> None:
    page = browser.session()
    page.open(f"{serve().url}#/100%")
    page.wait_for("document.querySelector('h1')?.innerText === 'There is no such page'")
    assert browser.problems() == []


def test_a_run_that_is_named_twice_is_compared_once(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    before, after = trials(store, "before", 20_000.0), trials(store, "after", 30_000.0)
    url = serve().url
    page = browser.session()
    page.open(f"{url}#/compare/{before}/{after}/{before}/{after}")
    page.wait_for("document.querySelector('h1')?.innerText.startsWith('Changed for the worse')")
    assert page.evaluate("document.querySelectorAll('.bar option').length") == 2
    page.open(f"{url}#/compare/{before}/{before}")
    page.wait_for("document.querySelector('h1')?.innerText === 'There is no such page'")
    assert browser.problems() == []


def test_a_link_is_copied_or_shown(serve: Serve, browser: Browser, closed_port: int) -> None:
    page = browser.session()
    begin(page, serve().url, closed_port)
    page.wait_for(ERROR)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate("document.querySelector('.about button').click()")
    assert page.wait_for("document.querySelector('input.link')?.value") == page.evaluate("location.href")
    assert "Copied" not in page.text()


def test_a_scenario_that_is_done_begins_with_what_it_found(serve: Serve, browser: Browser) -> None:
    page = browser.session()
    page.open(f"{serve('--allow-run').url}#/scenario")
    page.wait_for("document.querySelector('textarea')?.value.includes('profile:')")
    page.evaluate("document.querySelector('textarea').select()")
    page.call("Input.insertText", text=SMALL_PROFILE)
    page.evaluate("document.querySelector('form.form').requestSubmit()")
    page.wait_for("/without loss/.test(document.querySelector('h1[data-stage=ready]')?.innerText)")
    page.wait_for("document.querySelector('.story .plot svg')")


def test_a_part_of_the_page_that_is_gone_is_told_with_the_way_out(serve: Serve, browser: Browser) -> None:
    """As after an upgrade, while the page was open."""
    served = serve()
    page = browser.session()
    page.open(f"{served.url}#/runs")
    page.wait_for("document.querySelector('h1')")
    page.call("Network.enable")
    page.call("Network.setBlockedURLs", urls=["*/Data-*.js"])
    page.evaluate("location.hash = '#/data/0123456789abcdef0123456789abcdef'")
    page.wait_for("document.querySelector('main .error')?.innerText.includes('part of this page is gone')")
    assert all("Data-" in each for each in browser.problems())
    page.call("Network.setBlockedURLs", urls=[])
    page.click("main .error button")
    page.wait_for("document.querySelector('h1')?.innerText === 'Data ID'")
