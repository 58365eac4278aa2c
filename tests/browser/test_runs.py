"""Runs in a real browser: followed while they run, stopped, and found again."""

from __future__ import annotations

import json
import re
from pathlib import Path

from weirlab.base import programs
from weirlab.store import Store
from weirlab.testing import SMALL_PROFILE

from ..unit.trace.slow import one_of
from .devtools import Browser, Page
from .pages import EXPLAINED, WAITING, Serve, cut_on_paper, nameless, photograph, trials

SHAPED = f"document.querySelectorAll('.story .plot svg').length >= 4 && {WAITING}"
LONG = SMALL_PROFILE.replace("repetitions: 1", "repetitions: 2000")
POINTS = "Number(document.querySelector('.trials')?.closest('figure').dataset.points)"


def start(page: Page, url: str, text: str) -> str:
    """Start a scenario as a user does, and open the page of its run; its ID."""
    page.open(f"{url}#/scenario")
    page.wait_for("document.querySelector('textarea')?.value.includes('profile:')")
    page.evaluate("document.querySelector('textarea').select()")
    page.call("Input.insertText", text=text)
    page.evaluate("document.querySelector('form.form').requestSubmit()")
    page.click("main a[href^='#/runs/']")
    page.wait_for("location.hash.startsWith('#/runs/')")
    run_id = str(page.evaluate("location.hash.slice('#/runs/'.length)"))
    page.wait_for(f"document.querySelector('.about code')?.innerText === '{run_id}'")
    return run_id


KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " ")}


def type_key(page: Page, key: str) -> None:
    """As :meth:`Page.press`, with what makes Chromium act on it."""
    code, text = KEYS[key]
    about = {"key": key, "windowsVirtualKeyCode": code}
    page.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
    page.call("Input.dispatchKeyEvent", type="keyUp", **about)


def tab_to(page: Page, selector: str, most: int = 60) -> None:
    """Press the tabulator until what ``selector`` finds has the focus."""
    page.wait_for(f"document.querySelector({json.dumps(selector)})")
    for _ in range(most):
        if page.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
            return
        type_key(page, "Tab")
    raise AssertionError(f"{selector} cannot be reached by the tabulator")


def press_button(page: Page, name: str) -> None:
    button = f"[...document.querySelectorAll('main button')].find((one) => one.innerText === '{name}')"
    page.wait_for(f"{button} && !{button}.disabled")
    page.evaluate(f"{button}.click()")


def offline(page: Page, away: bool) -> None:
    """Whether the page cannot reach the service."""
    page.call("Network.enable")
    page.call(
        "Network.emulateNetworkConditions",
        offline=away,
        latency=0,
        downloadThroughput=-1,
        uploadThroughput=-1,
    )


def test_a_run_is_drawn_while_it_runs_stopped_and_gone_on_with(
    serve: Serve, browser: Browser, shots: Path | None
) -> None:
    served = serve("--allow-run")
    page = browser.session()
    run_id = start(page, served.url, LONG)
    first = page.wait_for(f"{POINTS} > 3 && {POINTS}")
    page.wait_for(f"{POINTS} > {first}")
    page.wait_for("/, .* left/.test(document.querySelector('.live')?.innerText)")
    assert nameless(page) == []
    assert browser.problems() == []
    # It goes on by itself when the service can be reached again.
    offline(page, True)
    page.wait_for("document.querySelector('main .error')")
    seen = page.evaluate(POINTS)
    offline(page, False)
    page.wait_for(f"!document.querySelector('main .error') && {POINTS} > {seen}")
    assert all("ERR_INTERNET_DISCONNECTED" in each for each in browser.problems())
    photograph(page, shots, "run-live")
    press_button(page, "Stop")
    page.wait_for("document.querySelector('.tag.interrupted')")
    run = Store(served.store).open(run_id)
    assert run.manifest.status == "interrupted"
    kept = run.trials().height
    assert kept > 3
    press_button(page, "Go on with this run")
    page.wait_for(f"{POINTS} > {kept}")
    press_button(page, "Stop")
    page.wait_for("document.querySelector('.tag.interrupted')")
    # Nothing is measured twice.
    trials = Store(served.store).open(run_id).trials()
    assert trials.height > kept
    assert trials.select("index", "attempt").is_unique().all()
    assert re.search(r"interrupted", page.text())
    assert browser.problems() == []


def test_a_run_gets_a_name_tags_and_a_star_and_is_deleted(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    one, other = trials(store, "one", 20_000.0), trials(store, "other", 30_000.0)
    served = serve()
    page = browser.session()
    page.open(f"{served.url}#/runs/{one}")
    press_button(page, "Name, note, tags")
    page.wait_for("document.activeElement.maxLength === 200")
    page.call("Input.insertText", text="before the update")
    page.evaluate("document.querySelectorAll('form.label input')[1].focus()")
    page.call("Input.insertText", text="office x")
    page.evaluate("document.querySelector('form.label textarea').focus()")
    page.call("Input.insertText", text="On the old switch.")
    photograph(page, shots, "run-label")
    press_button(page, "Save")
    page.wait_for("document.querySelector('.about strong')?.innerText === 'before the update'")
    page.click(".about .star")
    page.wait_for("document.querySelector('.about .star').getAttribute('aria-pressed') === 'true'")
    said = Store(served.store).labels.one(one)
    assert (said.name, said.star, said.tags) == ("before the update", True, ("office", "x"))
    assert said.note == "On the old switch."
    page.click("a.tag[href='#/runs?tag=office']")
    page.wait_for("document.querySelectorAll('.run').length === 1")
    assert "#office" in page.evaluate("document.querySelector('.run').innerText")
    page.evaluate("location.hash = '#/runs'")
    page.wait_for("document.querySelectorAll('.run').length === 2")
    assert nameless(page) == []
    photograph(page, shots, "runs-labels")
    page.evaluate(f"location.hash = '#/runs/{other}'")
    press_button(page, "Delete this run…")
    page.wait_for("document.activeElement.innerText === 'Keep it'")
    photograph(page, shots, "run-delete")
    press_button(page, "Keep it")
    press_button(page, "Delete this run…")
    press_button(page, "Delete for good")
    page.wait_for("document.querySelectorAll('.run').length === 1")
    assert [run.run_id for run in Store(served.store).runs()] == [one]
    # Its page may have asked once more for a run that was gone by then; such an answer is no script, either.
    asked = re.compile(rf"(status of 404|its MIME type).*{other}|{other}.*its MIME type", re.S)
    assert [each for each in browser.problems() if not asked.search(each)] == []


def test_filters_take_one_line_of_a_phone_until_they_are_opened(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    one, _ = (trials(store, name, 2e4, dut) for name, dut in (("one", "iptables"), ("two", "bridge")))
    page = browser.session()
    page.open(serve().url)
    page.wait_for("document.querySelectorAll('.run').length === 2")
    high = "document.querySelector('.filters').getBoundingClientRect().height"
    selects = (
        "[...document.querySelectorAll('.filters select')].filter((each) => each.checkVisibility()).length"
    )
    button = "document.querySelector('.filters > button')"
    assert not page.evaluate(f"{button}.checkVisibility()")
    assert page.evaluate(selects) == 6
    photograph(page, shots, "runs")
    page.look(width=390, height=844, dark=False)
    assert page.evaluate(selects) == 0
    assert page.evaluate(high) < 80
    assert page.evaluate(f"{button}.ariaExpanded") == "false"
    page.click(".filters > button")
    page.wait_for(f"{selects} === 6 && {button}.ariaExpanded === 'true'")
    page.evaluate(
        "((field) => { field.value = 'iptables'; field.dispatchEvent(new Event('change')) })"
        "(document.querySelectorAll('.filters select')[1])"
    )
    page.wait_for("document.querySelectorAll('.run').length === 1")
    page.click(".filters > button")
    page.wait_for(f"{selects} === 0 && {button}.innerText === 'Filters (1)'")
    assert one in page.evaluate("document.querySelector('.run a').title")
    assert nameless(page) == []
    assert browser.problems() == []


def test_the_page_of_a_run_has_its_answer_charts_and_tabs_and_prints_whole(
    serve: Serve, browser: Browser, shots: Path | None
) -> None:
    served = serve("--allow-run")
    page = browser.session(height=800)
    run_id = start(page, served.url, SMALL_PROFILE.replace("sizes: [64]", "sizes: [64, 512]"))
    # Drawn by itself when the run ends.
    page.wait_for(SHAPED)
    assert "without loss" in page.evaluate("document.querySelector('h1').innerText")
    # A sentence has its terms, with what they mean.
    assert "lines are what the models say" in page.evaluate("document.querySelector('.story').textContent")
    assert page.evaluate("document.querySelector('.story dfn').title.length") > 10
    for width, height, most in ((1280, 800, 450), (390, 844, 700)):
        page.look(width=width, height=height, dark=False)
        page.evaluate("scrollTo(0, 0)")
        top = page.evaluate(
            "document.querySelector('.plot, .trials').closest('figure').getBoundingClientRect().top"
        )
        assert top <= most, width
        assert page.evaluate("document.querySelectorAll('.tile').length") > 0
    page.look(width=1280, height=800, dark=False)
    tabs = "[...document.querySelectorAll('[role=tab]')]"
    assert page.evaluate(f"{tabs}.map((tab) => tab.innerText)") == ["Details", "Predictions", "Setup", "Data"]
    shown = f"{tabs}.find((tab) => tab.ariaSelected === 'true').innerText"
    page.evaluate(f"{tabs}[0].focus()")
    for expected in ("Predictions", "Setup", "Data", "Details", "Predictions"):
        page.press("ArrowRight")
        page.wait_for(f"{shown} === '{expected}' && document.activeElement.innerText === '{expected}'")
        panel = "document.querySelector('[role=tabpanel]:not(.away)')"
        assert page.evaluate(f"{panel}.innerText.trim()"), expected
    # Nothing has a scroll bar of its own, and the address has the tab.
    assert page.evaluate("document.querySelectorAll('iframe').length") == 0
    again = browser.session()
    again.open(f"{served.url}#/runs/{run_id}?tab=Setup")
    again.wait_for(f"{SHAPED} && {shown} === 'Setup'")
    assert nameless(again) == []
    again.evaluate(f"{tabs}[0].click()")
    photograph(again, shots, "run-story")
    # In print all tabs are open; no chart is wider or higher than the paper, and none is divided.
    assert cut_on_paper(again, ".story figure") == []
    assert again.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)["data"]
    # The list has its first chart, small.
    page.open(f"{served.url}#/runs")
    page.wait_for("document.querySelector('.sketch img')?.naturalWidth === 192")
    assert nameless(page) == []
    photograph(page, shots, "runs-sketch")
    assert browser.problems() == []


def test_a_picture_becomes_a_chart_under_the_pointer_and_shows_the_chosen_quantity(
    serve: Serve, browser: Browser, shots: Path | None
) -> None:
    served = serve("--allow-run")
    page = browser.session(height=800)
    start(page, served.url, SMALL_PROFILE)
    page.wait_for(SHAPED)
    plot = "document.querySelector('.story .place .plot')"
    drawn = page.evaluate(f"{plot}.innerHTML")
    page.evaluate("document.querySelectorAll('.switch input')[2].click()")
    page.wait_for(f"{plot}.innerHTML !== {json.dumps(drawn)}")
    mean = page.evaluate(f"{plot}.querySelector('svg').textContent")
    assert page.evaluate("document.querySelector('script[src$=\"charts.js\"]')") is None
    box = page.evaluate(
        f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])({plot}.getBoundingClientRect())"
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    page.wait_for(f"{plot}.querySelector('.vega-embed:not(.fresh) svg')")
    assert page.evaluate(f"{plot}.querySelectorAll('svg').length") == 1
    assert page.evaluate(f"{plot}.querySelector('svg').textContent") == mean
    assert page.evaluate(f"{plot}.getAttribute('role')") == "img"
    assert nameless(page) == []
    photograph(page, shots, "run-chart")
    assert browser.problems() == []


def test_three_devices_are_compared_in_one_chart_which_the_address_keeps(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    for name, mean_ns in (("iptables", 20_000.0), ("nftables", 14_000.0), ("bridge", 30_000.0)):
        trials(store, "an office", mean_ns, name)
        trials(store, "an office", mean_ns * 1.001, name)
    served = serve()
    page = browser.session()
    page.open(served.url)
    page.wait_for("document.querySelectorAll('.run').length === 6")
    page.evaluate("document.querySelectorAll('.run > input').forEach((each) => each.click())")
    page.click("a[href^='#/compare/']")
    rows = "[...document.querySelectorAll('.differences section[aria-label=\"mean delay\"] li')]"
    page.wait_for(f"{rows}.length === 5")
    page.click(".bar input[type=checkbox]")
    page.wait_for(f"{rows}.length === 2")
    page.evaluate(
        "((field) => { field.value = 'iptables'; field.dispatchEvent(new Event('change')) })"
        "(document.querySelector('.bar select'))"
    )
    told = page.wait_for(
        "document.querySelector('h1').innerText.startsWith('2 compared with iptables')"
        f"&& {rows}.map((row) => [row.innerText, row.querySelector('svg').childElementCount])"
    )
    assert {(text.split("\n")[0], text.split("\n")[1]) for text, _ in told} == {
        ("nftables", "better"), ("bridge", "worse"),
    }  # fmt: skip
    # The band, the middle, a bar, and an interval with both its ends.
    assert {count for _, count in told} == {6}
    assert nameless(page) == []
    photograph(page, shots, "compare-devices")
    again = browser.session()
    again.open(page.evaluate("location.href"))
    again.wait_for("document.querySelector('h1')?.innerText.startsWith('2 compared with iptables')")
    assert again.evaluate(f"{rows}.length") == 2
    assert browser.problems() == []


def test_runs_without_verdicts_stand_side_by_side_by_their_common_numbers(
    serve: Serve, browser: Browser, shots: Path | None
) -> None:
    served = serve()
    for seed in ("1", "2"):
        words = ("simulate", "--over", "rate=100kpps..400kpps:4", "--duration", "0.05", "--seed", seed)
        programs.run(
            programs.own("weirlab", "--store", str(served.store), *words), check=True, capture_output=True
        )
    ids = "/".join(run.run_id for run in Store(served.store).runs())
    page = browser.session()
    page.open(f"{served.url}#/compare/{ids}")
    page.wait_for("document.querySelectorAll('.beside').length >= 1")
    assert "2 runs of the kind simulation side by side" in page.evaluate(
        "document.querySelector('h1').innerText"
    )
    told = page.evaluate("[...document.querySelectorAll('.beside')].map((one) => one.innerText).join()")
    assert "p99" in told
    assert "There are verdicts on profiles and trials only" in page.text()
    assert nameless(page) == []
    photograph(page, shots, "compare-beside")
    assert browser.problems() == []


def test_the_slow_one_of_293_connections_is_listed_first(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    page = browser.session()
    page.open(f"{serve().url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.choose_file("input[type=file]", one_of(293, tmp_path / "many.pcap"))
    rows = "document.querySelectorAll('.connections tbody tr')"
    page.wait_for(f"{rows}[0]?.innerText.includes('window')")
    assert "293" in page.evaluate("document.querySelector('.connections').innerText")
    # One click shows why.
    page.click(".connections tbody tr:first-child button")
    page.wait_for(EXPLAINED)
    assert "window" in page.evaluate("document.querySelector('#why').innerText")
    assert ":20000" in page.text()
    assert browser.problems() == []


def test_runs_are_found_starred_compared_and_deleted_by_keyboard_alone(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    ids = [trials(store, name, mean_ns) for name, mean_ns in (("one", 2e4), ("two", 3e4), ("three", 4e4))]
    served = serve()
    page = browser.session()
    page.open(served.url)
    page.wait_for("document.querySelectorAll('.run').length === 3")
    for run_id in reversed(ids):
        tab_to(page, f".run > input[aria-label*='{run_id}']")
        type_key(page, " ")
    # The link is before the list.
    page.evaluate("document.activeElement.blur()")
    page.evaluate("document.querySelector('main').focus()")
    tab_to(page, "a[href^='#/compare/']")
    type_key(page, "Enter")
    page.wait_for("document.querySelectorAll('.differences li').length >= 4")
    tab_to(page, f".of-comparison a[href='#/runs/{ids[0]}']")
    type_key(page, "Enter")
    page.wait_for(f"document.querySelector('.about code')?.innerText === '{ids[0]}'")
    tab_to(page, ".about .star")
    type_key(page, " ")
    page.wait_for("document.querySelector('.about .star').getAttribute('aria-pressed') === 'true'")
    assert Store(served.store).labels.one(ids[0]).star
    tab_to(page, "[role=tab][aria-selected=true]")
    page.press("ArrowRight")
    page.wait_for(
        "document.activeElement.id !== 'tab-Details' && document.activeElement.ariaSelected === 'true'"
    )
    tab_to(page, "button.danger")
    type_key(page, "Enter")
    page.wait_for("document.activeElement.innerText === 'Keep it'")
    type_key(page, "Enter")
    # Nothing was deleted, and the focus is where it was.
    page.wait_for("document.activeElement.matches('button.danger')")
    assert len(Store(served.store).runs()) == 3
    assert browser.problems() == []
