"""``weir web`` in a real browser: what a user does, and what the page then shows."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from weirlab._engine import TcpServer
from weirlab.store import Store
from weirlab.testing import SMALL_PROFILE

from .devtools import Browser
from .pages import AXE, EXPLAINED, LOOKS, Serve, axe_faults, fill, nameless, photograph, trials

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "captures"


def test_runs_are_found_opened_and_compared(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    clock = itertools.count()
    # Two runs within one second, which their IDs do not tell apart.
    store = Store(
        tmp_path / "store", now=lambda: datetime(2026, 1, 31, 12, 0, 0, next(clock) * 1000, tzinfo=UTC)
    )
    before, after = trials(store, "before the update", 20_000.0), trials(store, "after the update", 30_000.0)
    report = '<h1 id="answer-title">Foreign</h1><script>document.title = parent.location.href</script>'
    (store.open(before).path / "report.html").write_text(report)
    served = serve()
    page = browser.session()
    page.open(served.url)
    page.wait_for("document.querySelectorAll('.run').length === 2")
    assert nameless(page) == []
    photograph(page, shots, "runs")
    page.evaluate("document.querySelector('input[type=search]').focus()")
    page.call("Input.insertText", text="after complete")
    page.wait_for("document.querySelectorAll('.run').length === 1")
    assert page.evaluate("location.hash") == "#/runs?text=after+complete"
    page.wait_for("document.querySelector('.said').innerText.includes('forwarded')")
    page.evaluate("document.querySelector('input[type=search]').select()")
    page.press("Backspace")
    page.call("Input.dispatchKeyEvent", type="rawKeyDown", key="Delete", windowsVirtualKeyCode=46)
    page.wait_for("document.querySelectorAll('.run').length === 2")
    page.evaluate("document.querySelectorAll('.run input').forEach((each) => each.click())")
    page.wait_for("document.querySelector('a[href^=\"#/compare/\"]')")
    page.evaluate("document.querySelector('a[href^=\"#/compare/\"]').click()")
    page.wait_for("document.querySelector('h1')?.innerText.startsWith('Changed for the worse')")
    assert page.evaluate("document.querySelectorAll('.differences li.worse svg').length") > 0
    # What is said of each run comes later.
    page.wait_for("document.querySelectorAll('.of-comparison').length === 2")
    photograph(page, shots, "compare")
    # Of a report from elsewhere nothing acts in this page.
    page.evaluate(f"location.hash = '#/runs/{before}'")
    page.wait_for("document.querySelector('.story a[target]')")
    assert page.evaluate("document.title") == "before the update – Weir"
    assert page.evaluate("document.querySelectorAll('iframe, .story script').length") == 0
    page.evaluate(f"location.hash = '#/runs/{after}'")
    page.wait_for(f"document.querySelector('.about code')?.innerText === '{after}'")
    assert "forwarded" in page.evaluate("document.querySelector('h1').innerText")
    assert browser.problems() == []


@pytest.mark.skipif(not AXE, reason="needs axe-core, whose axe.min.js is named by WEIR_AXE")
def test_axe_finds_no_fault_on_any_page(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    before, after = trials(store, "before", 20_000.0), trials(store, "after", 30_000.0)
    served = serve("--allow-run")
    page = browser.session()
    page.open(f"{served.url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.choose_file("input[type=file]", EXAMPLES / "restore.pcapng.zst")
    page.wait_for(EXPLAINED)
    data = page.evaluate("location.hash").partition("?")[0]
    for address in (
        "#/runs",
        "#/captures",
        "#/scenario",
        data,
        f"#/runs/{before}",
        f"#/compare/{before}/{after}",
    ):
        for width, dark in LOOKS:
            page.look(width=width, height=900, dark=dark)
            page.open("about:blank")
            page.open(f"{served.url}{address}")
            page.wait_for("document.querySelector('h1')")
            page.wait_for(
                "!document.querySelector('.waiting') && !document.querySelector('.story [role=status]')"
            )
            page.wait_for("document.querySelector('.graphs')?.dataset.busy !== 'true'")
            assert axe_faults(page) == [], (address, width, dark)


def test_a_tcp_test_is_drawn_while_it_runs(serve: Serve, browser: Browser, shots: Path | None) -> None:
    server = TcpServer(
        address="127.0.0.1", port=0, token="", most_ns=None, most_bytes=None, most_clients=2, options=[]
    )
    page = browser.session()
    page.open(f"{serve().url}#/test")
    page.wait_for("document.querySelector('form.form')")
    assert nameless(page) == []
    photograph(page, shots, "test")
    fill(page, "Host that runs weir tcp serve", "127.0.0.1")
    fill(page, "Port", str(server.address[1]))
    page.evaluate("document.querySelector('form.form').requestSubmit()")
    page.wait_for("Number(document.querySelector('.graphs')?.dataset.points) > 3")
    # Another characteristic, on the same axis, while it goes on.
    page.evaluate("document.querySelectorAll('.graphs-of input')[4].click()")
    page.wait_for("document.querySelectorAll('.graphs figure').length === 5")
    page.wait_for("document.querySelector('.graphs figure:last-child canvas')")
    assert "In flight" in page.evaluate("document.querySelector('.graphs figure:last-child').innerText")
    assert page.evaluate("document.querySelector('.graphs').dataset.done") == "false"
    page.evaluate(
        "[...document.querySelectorAll('main button')].find((each) => each.innerText === 'Stop').click()"
    )
    page.wait_for("document.querySelector('.graphs').dataset.done === 'true'")
    assert "To the server" in page.evaluate("document.querySelector('h1').innerText")
    assert "Why not faster" in page.text()
    assert nameless(page) == []
    photograph(page, shots, "transfer")
    server.stop()
    assert browser.problems() == []


def test_a_scenario_is_started_followed_and_its_report_shown(
    serve: Serve, browser: Browser, shots: Path | None
) -> None:
    served = serve("--allow-run")
    page = browser.session()
    page.open(f"{served.url}#/scenario")
    page.wait_for("document.querySelector('textarea')?.value.includes('profile:')")
    assert nameless(page) == []
    photograph(page, shots, "scenario-form")
    text = "document.querySelector('textarea')"
    page.evaluate(f"{text}.select()")
    page.call("Input.insertText", text=SMALL_PROFILE.replace("positions: [0, 100]", "positions: [-1]"))
    page.evaluate("document.querySelector('form.form').requestSubmit()")
    said = page.wait_for("document.querySelector('.problems')?.innerText")
    assert ":5:" in said
    page.evaluate("document.querySelector('.problems button').click()")
    chosen = page.evaluate(f"{text}.value.slice({text}.selectionStart, {text}.selectionEnd)")
    assert chosen.strip() == "positions: [-1]"
    photograph(page, shots, "scenario-refused")
    page.evaluate(f"{text}.select()")
    page.call("Input.insertText", text=SMALL_PROFILE)
    page.evaluate("document.querySelector('form.form').requestSubmit()")
    page.wait_for("document.querySelector('h1')?.dataset.stage === 'working'")
    photograph(page, shots, "scenario-working")
    page.wait_for("document.querySelector('h1')?.dataset.stage === 'ready'")
    page.wait_for("document.querySelectorAll('.story .plot svg').length > 2")
    assert "without loss" in page.evaluate("document.querySelector('h1').innerText")
    assert "simulating a device" in page.text()
    assert nameless(page) == []
    photograph(page, shots, "scenario-done")
    refused = ("400 (Bad Request)",)
    assert [each for each in browser.problems() if not any(text in each for text in refused)] == []


def test_the_token_is_asked_for_once_and_appears_nowhere(serve: Serve, browser: Browser) -> None:
    token = "correct horse battery"
    served = serve(WEIR_WEB_TOKEN=token)
    page = browser.session()
    page.open(served.url)
    page.wait_for("document.querySelector('input[type=password]')")
    page.evaluate("document.querySelector('input[type=password]').focus()")
    page.call("Input.insertText", text=token)
    page.evaluate("document.querySelector('main form').requestSubmit()")
    page.wait_for("document.querySelector('h1')?.innerText === 'Runs'")
    page.call("Page.reload")
    page.wait_for("document.querySelector('h1')?.innerText === 'Runs'")
    assert token not in page.evaluate("document.cookie + location.href + JSON.stringify(localStorage)")
    assert token not in page.evaluate("document.documentElement.outerHTML")
    page.click("header > button")
    page.wait_for("document.querySelector('h1')?.innerText === 'Token'")
    page.call("Page.reload")
    page.wait_for("document.querySelector('h1')?.innerText === 'Token'")


def test_ctrl_c_ends_the_service_cleanly_and_tells_what_it_did(serve: Serve, browser: Browser) -> None:
    served = serve()
    page = browser.session()
    page.open(served.url)
    page.wait_for("document.querySelector('h1')?.innerText === 'Runs'")
    code, out = served.end()
    assert code == 0
    assert json.loads(out.splitlines()[-1])["kind"] == "web"
