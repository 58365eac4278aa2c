"""What every test of a page uses: what it enters, what it looks at, what it keeps as a picture."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from weirlab.store import Store
from weirlab.testing import make_record, make_result, make_spec

from .conftest import Served
from .devtools import Page

AXE = os.environ.get("WEIR_AXE", "")
LOOKS = [(width, dark) for width in (1280, 768, 390) for dark in (False, True)]
PAPER_PX = (718, 1046)
"""A4 with margins of 10 mm at 96 pixels an inch: what Chromium prints on."""
EXPLAINED = "document.querySelector('#why')?.innerText.length && !document.querySelector('#why .soft')"

WAITING = """[...document.querySelectorAll('.plot')].every(
  (plot) => plot.closest('details:not([open])') || plot.querySelector('svg'))"""
"""Whether every chart that is not folded away is drawn."""

Serve = Callable[..., Served]


def photograph(page: Page, folder: Path | None, name: str) -> None:
    """At three widths, light and dark; nothing may reach beyond the screen."""
    for width, dark in LOOKS:
        page.look(width=width, height=900, dark=dark)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.wait_for("document.querySelector('.graphs')?.dataset.busy !== 'true'")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} px wide on a screen of {width}"
        page.screenshot(folder, f"{name}-{width}-{'dark' if dark else 'light'}")
    page.look(width=1280, height=900, dark=False)


def fill(page: Page, label: str, text: str) -> None:
    """As a user enters ``text`` into the field that is called ``label``."""
    field = (
        "[...document.querySelectorAll('form.form label')]"
        f".find((each) => each.innerText.trim() === {json.dumps(label)})?.querySelector('input')"
    )
    page.wait_for(field)
    page.evaluate(f"{field}.select()")
    page.evaluate(f"{field}.focus()")
    page.call("Input.insertText", text=text)


def nameless(page: Page) -> list[str]:
    """Controls that a screen reader has no name for."""
    return list(
        page.evaluate(
            """[...document.querySelectorAll('button, a[href], input, select, [role=img], iframe')]
            .filter((each) => !(each.getAttribute('aria-label') || each.title || each.textContent.trim()
                || each.labels?.length)).map((each) => each.outerHTML.slice(0, 120))"""
        )
    )


def trials(store: Store, name: str, mean_ns: float, dut: str = "iptables") -> str:
    with store.create("trial", {"name": name}, {"lab": "netns", "dut": dut, "backend": "xdp"}) as writer:
        for index in range(6):
            result = make_result(1e5, delay_mean_ns=mean_ns + index)
            spec = make_spec(1e5, position=400)
            writer.add(make_record(result, spec, run_id=writer.run_id, index=index, role="single"))
        return writer.run_id


def cut_on_paper(page: Page, selector: str) -> list[str]:
    """The figures among what ``selector`` finds that A4 would cut, in words; some must be there."""
    width, height = PAPER_PX
    page.call("Emulation.setEmulatedMedia", media="print")
    page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
    )
    figures = page.evaluate(
        f"""[...document.querySelectorAll({json.dumps(selector)})]
        .filter((figure) => figure.checkVisibility() && !figure.closest('details:not([open])'))
        .map((figure) => {{
            const {{ width, height }} = figure.getBoundingClientRect();
            const right = figure.querySelector('svg')?.getBoundingClientRect().right ?? 0;
            const kept = getComputedStyle(figure).breakInside;
            return [figure.innerText.slice(0, 60), width, height, right, kept];
        }})"""
    )
    assert figures
    return [
        f"{name}: {wide} x {high} px, to {right}, {kept}"
        for name, wide, high, right, kept in figures
        if not (0 < wide <= width and 0 < high <= height and right <= width and kept == "avoid")
    ]


def axe_faults(page: Page) -> list[str]:
    """What axe finds in the page, whatever its weight."""
    page.evaluate(f"{Path(AXE).read_text()}; 0")
    return list(
        page.evaluate(
            "axe.run(document).then((result) => result.violations"
            ".map(({ id, nodes }) => `${id}: ${nodes[0].html}`))"
        )
    )
