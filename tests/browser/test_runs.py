"""Runs in a real browser: followed while they run, stopped, and found again."""

from __future__ import annotations

import re
from pathlib import Path

from weirlab.store import Store

from .devtools import Browser, Page
from .test_web import SCENARIO, Serve, nameless, photograph, trials

LONG = SCENARIO.replace("repetitions: 1", "repetitions: 200")
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


def press_button(page: Page, name: str) -> None:
    button = f"[...document.querySelectorAll('main button')].find((one) => one.innerText === '{name}')"
    page.wait_for(f"{button} && !{button}.disabled")
    page.evaluate(f"{button}.click()")


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
    assert browser.problems() == []
