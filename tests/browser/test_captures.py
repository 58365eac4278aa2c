"""Captures in a real browser: uploaded, drawn, zoomed, and what they say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from weirlab.diagnosis import causes
from weirlab.store import Store

from ..unit.trace.slow import one_of, sixty
from .devtools import Browser, Page
from .pages import EXPLAINED, Serve, nameless, photograph, trials

REFERENCE = os.environ.get("WEIR_REFERENCE_CAPTURE", "")
DRAWN = """document.querySelector('.graphs')?.dataset.busy === 'false'
    && document.querySelectorAll('#graph-sequence canvas').length"""
RANGE = "['from', 'to'].map((each) => Number(document.querySelector('.graphs').dataset[each]))"
SETTLED = "document.querySelector('.graphs')?.dataset.busy === 'false'"

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "captures"
PLANTED = {
    "backup": causes.APPLICATION_WRITE,
    "restore": causes.APPLICATION_READ,
    "overseas": causes.RECEIVE_WINDOW,
    "old-server": causes.WINDOW_SCALING,
    "radio-link": causes.LOSS,
    "evening": causes.BOTTLENECK,
    "requests": causes.NAGLE,
}
"""By example, what is wrong."""


@pytest.mark.parametrize("kind", ["made", "reference"])
def test_a_capture_is_uploaded_drawn_and_opened_elsewhere_by_its_data_id(
    kind: str, serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    if kind == "reference" and not REFERENCE:
        pytest.skip("needs the reference capture, named by WEIR_REFERENCE_CAPTURE")
    file = Path(REFERENCE) if kind == "reference" else sixty(tmp_path / "sixty.pcap")
    served = serve()
    page = browser.session()
    page.open(f"{served.url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.choose_file("input[type=file]", file)
    page.wait_for(DRAWN)
    assert re.search(r"\b60 of [\d,]+ segments were retransmitted", page.text())
    assert re.search(r"Retransmitted\s+60 packets", page.text())
    page.wait_for(EXPLAINED)
    if kind == "made":
        assert re.search(r"of the time ", page.evaluate("document.querySelector('#why').innerText"))
    assert nameless(page) == []
    photograph(page, shots, f"capture-{kind}")
    # Zoom in by the keyboard: what is shown is fetched again.
    page.evaluate("document.querySelector('.graphs').focus()")
    for _ in range(3):
        page.press("+")
    page.wait_for("document.querySelector('.graphs').dataset.busy === 'false'")
    page.screenshot(shots, f"capture-{kind}-closer")
    links = page.evaluate("[...document.querySelectorAll('a[download]')].map((each) => each.href)")
    for end in ("part.pcapng", "points.csv", "points.parquet"):
        (first, *_) = [each for each in links if f"/{end}?" in each]
        code = page.evaluate(f"fetch({json.dumps(first)}).then((answer) => answer.status)")
        assert code == 200, first
    data_id = page.evaluate("location.hash").split("/")[-1].partition("?")[0]
    other = browser.session()
    other.open(f"{served.url}#/captures")
    other.wait_for("document.querySelector('.find input')")
    assert data_id not in other.text()
    other.evaluate("document.querySelector('.find input').focus()")
    other.call("Input.insertText", text=data_id)
    other.evaluate("document.querySelector('.find button').click()")
    other.wait_for(DRAWN)
    assert re.search(r"\b60 of [\d,]+ segments were retransmitted", other.text())
    assert browser.problems() == []


def test_a_newcomer_finds_the_cause_of_every_example_within_two_clicks(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    served = serve()
    assert {path.name.partition(".")[0] for path in EXAMPLES.glob("*.zst")} == set(PLANTED)
    start = browser.session()
    start.open(served.url)
    start.wait_for("document.querySelector('h1')?.innerText === 'Runs'")
    photograph(start, shots, "start")
    # A store with runs has the same beginning.
    trials(Store(tmp_path / "store"), "before the update", 20_000.0)
    for name, cause in PLANTED.items():
        page = browser.session()
        page.open(served.url)
        # The first click opens the dialog, the second one is on a file in it.
        page.choose_in_dialog("main label.button", EXAMPLES / f"{name}.pcapng.zst")
        page.wait_for(EXPLAINED)
        page.wait_for(DRAWN)
        assert f"% of the time {cause.held}:" in page.evaluate("document.querySelector('#why').innerText")
        # It is there without scrolling, on a desktop and on a phone.
        for width, height in ((1280, 720), (390, 844)):
            page.look(width=width, height=height, dark=False)
            page.evaluate("scrollTo(0, 0)")
            place = page.evaluate("document.querySelector('#why').getBoundingClientRect().bottom")
            assert place <= height, f"{name}: the reason ends at {place} of {height} px"
        photograph(page, shots, f"example-{name}")
    assert browser.problems() == []


def middle_of(page: Page, selector: str) -> tuple[float, float, float]:
    """Left edge, width and vertical middle, on the screen."""
    left, width, y = page.evaluate(
        f"""((found) => {{ found.scrollIntoView({{ block: "center" }});
        const {{ x, y, width, height }} = found.getBoundingClientRect();
        return [x, width, y + height / 2]; }})(document.querySelector({json.dumps(selector)}))"""
    )
    return float(left), float(width), float(y)


def test_the_strip_shows_when_which_cause_was_the_limit_and_the_address_keeps_the_view(
    serve: Serve, browser: Browser
) -> None:
    page = browser.session(height=800)
    page.open(f"{serve().url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.choose_file("input[type=file]", EXAMPLES / "restore.pcapng.zst")
    page.wait_for(EXPLAINED)
    page.wait_for(f"{DRAWN} && {SETTLED} && document.querySelectorAll('#graph-cause button').length > 1")
    for width, height, most in ((1280, 800, 450), (390, 844, 700)):
        page.look(width=width, height=height, dark=False)
        page.evaluate("scrollTo(0, 0)")
        for graph in ("cause", "sequence"):
            top = page.evaluate(f"document.querySelector('#graph-{graph}').getBoundingClientRect().top")
            assert top <= most, (graph, width)
    page.look(width=1280, height=800, dark=False)
    whole = page.wait_for(RANGE)
    # A cause names its longest interval; the strip itself has the same.
    page.click("#graph-cause button")
    page.wait_for(f"{SETTLED} && {RANGE}[1] - {RANGE}[0] < {(whole[1] - whole[0]) / 2}")
    page.wait_for("location.hash.includes('from=')")
    address = page.evaluate("location.href")
    closer = page.evaluate(RANGE)
    again = browser.session()
    # Its own session has no cookie, and needs none here.
    again.open(address)
    again.wait_for(f"{DRAWN} && {SETTLED}")
    assert again.evaluate(RANGE) == pytest.approx(closer, rel=1e-4)
    page.press("0")
    page.evaluate("document.querySelector('.graphs').focus()")
    page.press("0")
    page.wait_for(f"{SETTLED} && !location.hash.includes('from=')")
    left, width, y = middle_of(page, "#graph-cause .u-over")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=left + width / 2, y=y, button="left", clickCount=1)
    page.wait_for(f"{SETTLED} && {RANGE}[1] - {RANGE}[0] < {(whole[1] - whole[0]) / 2}")
    assert page.evaluate(RANGE)[0] < sum(whole) / 2 < page.evaluate(RANGE)[1]
    # What is at the pointer is told beside it.
    left, width, y = middle_of(page, "#graph-sequence .u-over")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + width / 2, y=y)
    x, told = page.wait_for(
        "((box) => box && !box.hidden && box.innerText && [box.getBoundingClientRect().x, box.innerText])"
        "(document.querySelector('.readout'))"
    )
    assert abs(x - left - width / 2) < 40
    assert "acknowledged" in told
    assert browser.problems() == []


def test_connections_are_listed_by_the_time_that_they_lost(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    # Sections of pcapng, and frames of zstd, may follow each other in one file.
    several = tmp_path / "several.pcapng.zst"
    several.write_bytes(b"".join(path.read_bytes() for path in sorted(EXAMPLES.glob("*.zst"))))
    page = browser.session()
    page.open(f"{serve().url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.choose_file("input[type=file]", several)
    rows = "[...document.querySelectorAll('.connections tbody tr')].map((row) => row.innerText)"
    page.wait_for(f"{rows}.length && !{rows}.some((row) => row.includes('…'))")
    listed = page.evaluate(rows)
    assert len(listed) == len(PLANTED)
    assert "loss" in listed[0]
    assert "nothing to send" in listed[-1]
    page.click(".connections tbody tr:last-child button")
    page.wait_for("document.querySelector('#why')?.innerText.includes('had nothing to send')")
    assert re.search(r"connection=\d", page.evaluate("location.hash"))
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    # On a phone, the list is a drawer above the graphs, which a choice closes.
    page.look(width=390, height=844, dark=False)
    page.wait_for("document.querySelector('details.connections:not([open])')")
    page.click(".connections summary")
    page.click(".connections tbody tr:first-child button")
    page.wait_for("document.querySelector('details.connections:not([open])')")
    page.wait_for("document.querySelector('#why')?.innerText.includes('loss')")
    photograph(page, shots, "capture-list")
    assert browser.problems() == []


def test_causes_that_cannot_be_listed_are_no_empty_cells_only(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    page = browser.session()
    page.open(f"{serve().url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.call("Network.enable")
    page.call("Network.setBlockedURLs", urls=["*/causes"])
    page.choose_file("input[type=file]", one_of(3, tmp_path / "some.pcap"))
    told = "document.querySelector('.caution[role=status]')?.innerText"
    assert "cannot be listed" in page.wait_for(told)
    assert page.evaluate("document.querySelectorAll('.connections tbody tr').length") == 3


def test_a_finger_that_moves_sideways_zooms(serve: Serve, browser: Browser) -> None:
    page = browser.session(width=390, height=844)
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    page.open(f"{serve().url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.choose_file("input[type=file]", EXAMPLES / "radio-link.pcapng.zst")
    page.wait_for(f"{DRAWN} && {SETTLED}")
    page.wait_for(EXPLAINED)
    before = page.wait_for(RANGE)
    left, width, y = middle_of(page, "#graph-sequence .u-over")
    for kind, share in (("touchStart", 0.3), ("touchMove", 0.4), ("touchMove", 0.6), ("touchEnd", None)):
        points = [] if share is None else [{"x": left + share * width, "y": y}]
        page.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    page.wait_for(f"{SETTLED} && {RANGE}[1] - {RANGE}[0] < {(before[1] - before[0]) / 2}")
    after = page.evaluate(RANGE)
    assert (after[1] - after[0]) / (before[1] - before[0]) == pytest.approx(0.3, abs=0.02)
    assert browser.problems() == []


def test_what_is_no_capture_is_told_in_the_page(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"<script>document.title = 'harmed'</script>" * 20)
    page = browser.session()
    page.open(f"{serve().url}#/captures")
    page.wait_for("document.querySelector('input[type=file]')")
    page.choose_file("input[type=file]", tmp_path / "photo.jpg")
    said = page.wait_for("document.querySelector('.error')?.innerText")
    assert "photo.jpg" in said
    assert page.evaluate("document.title") == "photo.jpg – Weir"
    assert browser.problems() == []
