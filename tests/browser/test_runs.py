"""Runs in a real browser: followed while they run, stopped, and found again."""

from __future__ import annotations

import re
from pathlib import Path

from weirlab.store import Store

from .devtools import Browser, Page
from .test_web import SCENARIO, Serve, nameless, photograph

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
