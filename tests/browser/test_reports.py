"""Reports of stored runs of every kind, as a reader sees them before anything is opened."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.store import Store
from weirlab.studies import reports

from . import devtools

RECORDED = Path(__file__).parent.parent / "unit" / "recorded"
MOST_WORDS = 900
LISTENING = "window.warned = []; console.warn = (...said) => warned.push(said.join(' '))"
WAITING = """[...document.querySelectorAll('.plot')].every(
  (plot) => plot.closest('details:not([open])') || plot.querySelector('svg'))"""


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
            found[run] = reports.report(store, run, out=folder / f"{run}.html").path
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
