"""Reports of stored runs of every kind, as a reader sees them before anything is opened."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.store import Store
from weirlab.studies import reports

from . import devtools
from .pages import AXE, WAITING, Serve, axe_faults, cut_on_paper

RECORDED = Path(__file__).parent.parent / "unit" / "recorded"
MOST_WORDS = 900
SCREENS = ((1280, 800, 450), (390, 844, 700))
"""Width, height, and how far down the first chart may begin, px."""
FIRST_CHART = """(() => {
  const shown = [...document.querySelectorAll('main :is(.plot, .trials, svg)')].filter((each) => {
    const { width, height } = each.getBoundingClientRect();
    const open = each.checkVisibility() && !each.closest('details:not([open]), .away');
    return open && width > 150 && height > 60;
  });
  const tops = shown.map((each) => (each.closest('figure') ?? each).getBoundingClientRect().top + scrollY);
  return tops.length ? Math.min(...tops) : null;
})()"""
CUT = """[...document.querySelectorAll('.plot svg text')].filter((text) => {
  const [inner, outer] = [text, text.ownerSVGElement].map((each) => each.getBoundingClientRect());
  const beyond = Math.max(
    outer.left - inner.left, inner.right - outer.right, outer.top - inner.top, inner.bottom - outer.bottom
  );
  return inner.width && text.checkVisibility() && beyond > 2;
}).map((text) => `${text.closest('.plot').id}: ${text.textContent}`)"""
MOST_SHIFT = 0.05
SHIFTS = """window.shift = 0;
new PerformanceObserver((list) => list.getEntries().forEach((each) => (shift += each.value)))
  .observe({ type: 'layout-shift', buffered: true });"""
CHARTLESS = ("-trial-0004",)
"""A single value."""
LISTENING = "window.warned = []; console.warn = (...said) => warned.push(said.join(' '))"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The report of each run, by the run's ID."""
    folder = tmp_path_factory.mktemp("reports")
    for path in RECORDED.glob("inputs*.tar.xz"):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    store = Store(folder / "store")
    found = {}
    for run in sorted(path.name for path in store.root.iterdir() if (path / "manifest.json").exists()):
        try:
            found[run] = reports.report(store, run).path
        except InputError:
            continue
    assert len(found) > 20
    return found


@pytest.fixture
def opened(drawn: dict[str, Path], browser: devtools.Browser) -> devtools.Page:
    return browser.session(height=800)


def show(page: devtools.Page, report: Path) -> None:
    page.open(report.as_uri())
    page.wait_for(f"document.readyState === 'complete' && {WAITING}")


def test_a_report_has_few_words_until_more_is_opened(drawn: dict[str, Path], opened: devtools.Page) -> None:
    """Labels of charts are among them. Vega warns of nothing."""
    opened.call("Page.addScriptToEvaluateOnNewDocument", source=LISTENING)
    counts, warned = {}, {}
    for run, report in drawn.items():
        show(opened, report)
        counts[run] = len(opened.text().split())
        warned[run] = opened.evaluate("warned")
    assert {run: count for run, count in counts.items() if count > MOST_WORDS} == {}
    assert {run: said for run, said in warned.items() if said} == {}


def test_a_chart_is_drawn_when_its_chapter_is_opened(drawn: dict[str, Path], opened: devtools.Page) -> None:
    show(opened, next(report for run, report in drawn.items() if "-profile-" in run))
    folded = "document.querySelector('.folded .plot')"
    assert not opened.evaluate(f"Boolean({folded}.querySelector('svg'))")
    opened.evaluate(f"{folded}.closest('.folded').open = true")
    assert opened.wait_for(f"{folded}.querySelector('svg')?.getBoundingClientRect().width > 200")


def test_no_text_of_a_chart_is_cut_on_a_phone(drawn: dict[str, Path], opened: devtools.Page) -> None:
    cut = {}
    opened.look(width=390, height=844, dark=False)
    for run, report in drawn.items():
        show(opened, report)
        opened.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        opened.wait_for(WAITING)
        cut[run] = opened.evaluate(CUT)
    assert {run: texts for run, texts in cut.items() if texts} == {}


def low(page: devtools.Page, about: str) -> list[str]:
    """What is wrong with the place of the first chart of a page that is drawn."""
    found = []
    for width, height, most in SCREENS:
        page.look(width=width, height=height, dark=False)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        top = page.evaluate(FIRST_CHART)
        if (top is None or top > most) and not (top is None and any(kind in about for kind in CHARTLESS)):
            found.append(f"{about} at {width} px: {top}")
    return found


def test_the_first_chart_of_a_report_is_on_the_first_screen(
    drawn: dict[str, Path], opened: devtools.Page
) -> None:
    found = []
    for run, report in drawn.items():
        opened.look(width=1280, height=800, dark=False)
        show(opened, report)
        found += low(opened, run)
    assert found == []


def test_paper_cuts_no_chart_of_a_report(drawn: dict[str, Path], opened: devtools.Page) -> None:
    found = {}
    for run, report in drawn.items():
        if not any(kind in run for kind in CHARTLESS):
            show(opened, report)
            found[run] = cut_on_paper(opened, "figure.card")
            opened.call("Emulation.setEmulatedMedia", media="")
    assert {run: cut for run, cut in found.items() if cut} == {}
    assert opened.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)["data"]


@pytest.mark.skipif(not AXE, reason="needs axe-core, whose axe.min.js is named by WEIR_AXE")
def test_axe_finds_no_fault_in_any_report(drawn: dict[str, Path], opened: devtools.Page) -> None:
    for run, report in drawn.items():
        for width, dark in ((1280, False), (390, True)):
            opened.look(width=width, height=800, dark=dark)
            show(opened, report)
            assert axe_faults(opened) == [], (run, width, dark)


def test_the_first_chart_of_a_run_is_on_the_first_screen_of_its_page_and_nothing_moves(
    drawn: dict[str, Path], serve: Serve, browser: devtools.Browser, tmp_path: Path
) -> None:
    store = next(iter(drawn.values())).parent.parent
    shutil.copytree(store, tmp_path / "store")
    served = serve()
    page = browser.session(height=800)
    page.call("Page.addScriptToEvaluateOnNewDocument", source=SHIFTS)
    found = []
    for run in drawn:
        page.open("about:blank")
        page.look(width=1280, height=800, dark=False)
        page.open(f"{served.url}#/runs/{run}")
        page.wait_for(f"document.querySelector('.about code')?.innerText === '{run}'")
        page.wait_for(f"document.querySelector('.story a[target]') && {WAITING}")
        tagged = page.evaluate("Boolean(document.querySelector('.about .tag.warn'))")
        if tagged != Store(served.store).open(run).simulated:
            found.append(f"{run} is {'' if tagged else 'not '}called simulated")
        if (shift := page.evaluate("shift")) > MOST_SHIFT:
            found.append(f"{run} moves by {shift}")
        found += low(page, run)
    assert found == []
    assert browser.problems() == []
