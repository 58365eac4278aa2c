"""The report as one HTML file that needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from weirlab import files
from weirlab.model.regimes import OVERLOAD_LOSS
from weirlab.report.axes import QUANTITIES
from weirlab.report.figure import Figure
from weirlab.report.shell import assembled
from weirlab.studies.profile.page import conditions, summary
from weirlab.studies.profile.page.accuracy import tables as error_tables
from weirlab.studies.profile.page.accuracy import words as accuracy
from weirlab.studies.profile.page.drawing import draw
from weirlab.studies.profile.page.source import (
    BELIEVED,
    Evidence,
    Judgement,
    Predictor,
    RunData,
    Verification,
    gather,
)


@dataclass(frozen=True)
class Section:
    """Figures of one kind side by side; ``missing`` is what to say where there are none."""

    key: str
    title: str
    missing: str
    figures: tuple[Figure, ...] = ()

    @property
    def lead(self) -> str:
        """The figures' caption if they share one."""
        captions = {figure.caption for figure in self.figures}
        return captions.pop() if len(captions) == 1 else ""

    @property
    def switchable(self) -> bool:
        return any(figure.switchable for figure in self.figures)


_SECTIONS: Final = (
    Section("delay", "Delay", "Not measured: this run has no valid trial with a delay."),
    Section("loss", "Loss", "Not measured: this run has no valid trial."),
    Section(
        "threshold",
        "Threshold and rules",
        "Not measured: no trial of this run drove the device into overload.",
    ),
    Section(
        "verification-curves",
        "Were the predictions right?",
        "Not measured: this run has no held-out trials, or no model was fitted. "
        "“weir fit” and “weir verify” add both.",
    ),
    Section("verification", "Prediction and trial", ""),
    Section("accuracy", "How far off", ""),
    Section(
        "distribution", "Delay distribution", "Not measured: this run has no delay histograms of its profile."
    ),
    Section("transient", "When the load changes", ""),
    Section(
        "cpu",
        "What the device's CPU does",
        "Not measured: there are no CPU states of the device's core (a simulated device has none).",
    ),
)


@dataclass(frozen=True)
class ProfilePage:
    """The page, from what a run holds."""

    evidence: Evidence

    @cached_property
    def figures(self) -> Sequence[Figure]:
        return draw(self.evidence)

    def html(self) -> str:
        return render(self.evidence, self.figures)


def build(
    run: RunData,
    models: Mapping[str, Predictor],
    verification: Verification | None,
    out: Path,
    *,
    command: str | None = None,
    judgement: Judgement = BELIEVED,
) -> Path:
    """Write the report of ``run`` to ``out`` and return it.

    Parameters
    ----------
    models
        By name; none leaves the models' parts as "not measured".
    verification
        Held-out trials and errors; None takes the run's own trials of role ``verify`` and
        leaves the table of errors out.
    command
        What the user typed, to be shown as the way to repeat the run.
    judgement
        What can be believed; said first.

    Raises
    ------
    StoreError
        ``out`` cannot be written; nothing is left half-written.
    """
    evidence = gather(run, models, verification, judgement)
    files.write_bytes(out, render(evidence, draw(evidence), command=command).encode())
    return out


def render(evidence: Evidence, figures: Sequence[Figure], *, command: str | None = None) -> str:
    """The page's HTML."""
    text, tables = conditions.invalid(evidence)
    exactness, points = conditions.calibration(evidence)
    answer, *rest = summary.headline(evidence)
    facts = evidence.manifest.get("scenario") or {}
    return assembled(
        "report.html",
        figures,
        subject=evidence.device,
        run_id=evidence.manifest.get("run_id", ""),
        run_name=facts.get("name") or "Run",
        simulated=evidence.simulated,
        evidence=evidence,
        answer=answer,
        lede=rest,
        where_note=summary.calls_note(),
        caution=summary.caution(evidence),
        assurance=evidence.judgement.machine if evidence.judgement.good else "",
        place=conditions.place(evidence),
        tiles=summary.tiles(evidence),
        setting=conditions.setting(evidence),
        calibration=exactness,
        calibration_points=points,
        sections={
            section.key: _filled(section, figures, evidence.judgement.undecided) for section in _SECTIONS
        },
        quantities=QUANTITIES,
        errors=error_tables.errors(evidence.errors),
        alarms=error_tables.alarms(evidence.errors),
        coverage=accuracy.coverage(evidence.deviations),
        invalid_text=text,
        invalid_tables=tables,
        parameters=conditions.parameters(evidence),
        in_words=conditions.in_words(evidence),
        scenario=conditions.scenario(evidence),
        command=command or _command(evidence),
        overload_percent=OVERLOAD_LOSS * 100,
    )


def _filled(section: Section, figures: Sequence[Figure], undecided: str) -> Section:
    mine = tuple(figure for figure in figures if figure.section == section.key)
    no_verdict = undecided and section.key == "verification-curves"
    missing = f"No verdict on the models: {undecided}." if no_verdict else section.missing
    return Section(section.key, section.title, missing, mine)


def _command(evidence: Evidence) -> str:
    facts = evidence.manifest.get("facts") or {}
    given = evidence.manifest.get("command") or facts.get("command")
    return str(given) if given else "weir run scenario.yaml"
