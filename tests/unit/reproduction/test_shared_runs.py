"""A scenario that several experiments have is measured once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.reproduction import study
from weirlab.reproduction.findings import ReproductionSection
from weirlab.reproduction.study import ReproductionScenario
from weirlab.store import Run, Store
from weirlab.studies.contract import Ground


def test_experiments_with_the_same_scenario_share_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    measured: list[Mapping[str, Any]] = []

    def fake(scenario: Mapping[str, Any], place: str, within: Run, work: Work) -> Run:
        measured.append(scenario)
        with store.create("profile", {"name": place}, {}) as writer:
            pass
        return writer.run

    monkeypatch.setattr(study, "_run", fake)
    monkeypatch.setattr(study, "stored", lambda run: run.get_json(study.RUNS))
    only = ("pktgen-maximum", "pktgen-generation-time")
    asked = ReproductionScenario(
        name="shared", reproduction=ReproductionSection(publication="woernhard-2006", quick=True, only=only)
    )
    with store.create("reproduction", asked.model_dump(mode="json"), {}) as writer:
        ground = Ground(None)
        study.ReproductionStudy().measure(ground, asked, writer, Work(store, SilentProgress()))
        kept = writer.run.get_json(study.RUNS)
    assert len(measured) == 1
    assert {place: each["run"] for place, each in kept.items()} == dict.fromkeys(
        (f"{name}/cable" for name in only), next(iter(kept.values()))["run"]
    )


@pytest.mark.parametrize(
    ("status", "is_resumed"), [("interrupted", True), ("failed", True), ("complete", False)]
)
def test_a_run_that_did_not_end_is_gone_on_with(
    status: str, is_resumed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = SimpleNamespace(status=status, name="outer: e/s", run_id="inner")
    work: Any = SimpleNamespace(
        store=SimpleNamespace(runs=lambda: [entry]), progress=SilentProgress(), command=""
    )
    within: Any = SimpleNamespace(run_id="outer")
    monkeypatch.setattr(study, "resume_scenario", lambda store, run_id, *_, **__: SimpleNamespace(run=run_id))
    monkeypatch.setattr(study, "run_scenario", lambda *_, **__: SimpleNamespace(run="new"))
    run: Any = study._run({"esp": {}}, "e/s", within, work)
    assert (run == "inner") is is_resumed
