"""A scenario that several experiments have is measured once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
