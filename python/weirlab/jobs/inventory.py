"""The content of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from weirlab.base.errors import InputError, StoreError
from weirlab.base.storage import SEARCH, searches
from weirlab.jobs import machine, trials
from weirlab.measure.thresholds import rates
from weirlab.model.effects import Effect, effects
from weirlab.scenario.load import from_plain
from weirlab.scenario.model import Root
from weirlab.store import Manifest, Run, Store
from weirlab.store.reasons import reason_counts

R = TypeVar("R", bound=Root)


@dataclass(frozen=True)
class RunOutcome:
    """A summary of a run."""

    run: Run
    manifest: Manifest
    trials: pl.DataFrame

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """By role: attempts, and how many of them were valid."""
        by_role = self.trials.group_by("role", maintain_order=True)
        counted = by_role.agg(attempts=pl.len(), valid=pl.col("valid").sum())
        return {row.pop("role"): row for row in counted.to_dicts()}

    @property
    def reasons(self) -> dict[str, int]:
        """Why attempts are invalid, most frequent first; see :func:`weirlab.store.reasons.reason_counts`."""
        return reason_counts(self.trials.filter(~pl.col("valid"))["invalid"])

    @property
    def repetitions(self) -> list[dict[str, Any]]:
        """What each repetition of a trial showed; empty for other runs."""
        return trials.repetitions(self.trials) if self.manifest.kind == "trial" else []

    @cached_property
    def rates(self) -> dict[str, list[dict[str, Any]]]:
        """Thresholds and what belongs to them; not of a search for a load."""
        mine = searches(self.run.run_id) | (pl.col("role") != SEARCH)
        return rates(self.trials.filter(mine))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What connection tracking, cross traffic and mixed positions cost, as measured."""
        return effects(self.run.observations("profile"))

    @property
    def refusal(self) -> str:
        """Why the run does not count; empty if it does."""
        return machine.refusal(self.run)

    @property
    def own_tables(self) -> list[str]:
        """The names of the study's own tables."""
        return self.run.own_tables

    @property
    def files(self) -> list[Path]:
        """The files in the run's folder."""
        found = (path for path in self.run.path.iterdir() if path.is_file())
        return sorted(path for path in found if not path.name.startswith("."))

    def document(self) -> dict[str, Any]:
        return {
            "kind": "run",
            "path": self.run.path,
            "manifest": self.manifest,
            "unusable": self.refusal or None,
            "counts": self.counts,
            "invalid_reasons": self.reasons,
            **self.rates,
            **({"repetitions": self.repetitions} if len(self.repetitions) > 1 else {}),
            "effects": self.effects,
            "files": [path.name for path in self.files],
        }


def scenario_of(run: Run, kind: type[R]) -> R:
    """The scenario of ``run``; raises ``StoreError`` if it is not one of ``kind``."""
    try:
        return from_plain(run.manifest.scenario, "its manifest", kind)
    except InputError as error:
        raise StoreError(
            f"the scenario of run {run.run_id} cannot be used: {error}; start a new run"
        ) from error


def show(store: Store, run_id: str) -> RunOutcome:
    """The summary of the run ``run_id``; raises ``StoreError`` if it is damaged."""
    run = store.open(run_id)
    return RunOutcome(run, run.manifest, run.trials())
