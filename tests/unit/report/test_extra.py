"""Without Altair and vl-convert (the extra ``report``): what is refused, when, and what still works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weirlab.base.errors import MissingCapability
from weirlab.lab import doctor
from weirlab.report import bundle
from weirlab.scenario.model import ReportSection
from weirlab.studies import reports


@pytest.fixture(autouse=True)
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    # What Python's import system takes for a package that is not installed.
    for module in ("altair", "vl_convert"):
        monkeypatch.setitem(sys.modules, module, None)


def test_a_chart_says_what_to_install() -> None:
    bundle.script.cache_clear()
    with pytest.raises(MissingCapability, match=r"need Altair and vl-convert.*pip install 'altair"):
        bundle.script()


@pytest.mark.parametrize(("section", "out"), [(ReportSection(), None), (None, Path("report.html"))])
def test_a_report_that_cannot_be_drawn_is_refused_before_the_first_trial(
    section: ReportSection | None, out: Path | None
) -> None:
    with pytest.raises(MissingCapability, match="pip install 'altair"):
        reports.foresee(out, None, section)


def test_a_run_without_a_report_needs_no_charts() -> None:
    reports.foresee(None, None)


def test_the_doctor_names_the_missing_packages_and_the_way_to_them() -> None:
    finding = doctor._charts()
    assert not finding.ok
    assert not finding.essential
    assert "Altair, vl-convert" in finding.detail
    assert finding.remedy.startswith("pip install 'altair>=")
    assert " 'vl-convert-python>=" in finding.remedy
