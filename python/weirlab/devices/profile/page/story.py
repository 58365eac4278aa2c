"""The page in words and chapters: what a device does to packets, and how well models predict it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from weirlab.cli.results.tables import rates
from weirlab.devices.prediction import tables as error_tables
from weirlab.devices.profile.page import accuracy, conditions, distributions, summary
from weirlab.devices.profile.page.drawing import draw, voice_panel
from weirlab.devices.profile.page.settings import beside, machine, sizes
from weirlab.devices.profile.page.source import ProfileEvidence
from weirlab.model.regimes import OVERLOAD_LOSS
from weirlab.report import courses
from weirlab.report.figure import Figure
from weirlab.report.rows import RowMark, RowText, intervals
from weirlab.report.story import Chapter, Story, place, with_more

_TERMS: Final = (
    (
        "Frame size",
        "The Ethernet frame from destination address to frame check sequence, FCS included (RFC 2544). "
        "Preamble and gap are not part of it.",
    ),
    ("Offered load", "Packets per second that really left the sender, not what it was told to send."),
    (
        "Delay",
        "One way, from departure at the sender to arrival at the receiver, on one clock. Lost packets have "
        "none.",
    ),
    ("Loss ratio", "Packets that never arrived over packets sent, after waiting for stragglers."),
    (
        "Loss-free load",
        "The highest load below overload at which at least half of the repetitions lost no packet at all.",
    ),
    (
        "Threshold",
        "The device's forwarding rate in overload, that is in trials that lost more than "
        f"{OVERLOAD_LOSS * 100:g} % (without trials that lost packets at a load below it): the median of "
        "these trials.",
    ),
    (
        "Matching position",
        "The place of the rule that accepts the test traffic; 0 means that there are no rules.",
    ),
    ("Jitter", "Mean difference in delay between successive packets (RFC 3550)."),
    (
        "Models",
        "queueing: a server with a finite queue, whose service time grows with rules and size. piecewise: "
        "separate curves fitted below and beyond the threshold. lohmiller: such curves as published.",
    ),
)
_ERRORS: Final = (
    "Errors are predicted minus {observed}, relative to the {observed} value (loss: in percentage points). "
    "Below: without overload, up to 90 % of the {observed} threshold; near: without overload beyond that. "
    "repeatability: each trial is predicted by the median of the other repetitions of its setting. 95 % CI: "
    "confidence interval of the mean error, taking repetitions of one setting to be off together. In "
    "50/90/99 %: the percentage of trials inside the model's prediction intervals of that level."
)


def tell(evidence: ProfileEvidence) -> Story:
    """The page about ``evidence``."""
    answer, *rest = summary.headline(evidence)
    return Story(
        subject=evidence.device,
        manifest=evidence.manifest,
        simulated=evidence.simulated,
        answer=answer,
        lede=tuple(rest),
        caution=summary.caution(evidence),
        place=place(evidence.manifest, "sim" if evidence.simulated else evidence.lab, evidence.device),
        tiles=tuple(summary.tiles(evidence)),
        chapters=tuple(_chapters(evidence, draw(evidence))),
        terms=_TERMS,
        where_note=summary.calls_note(evidence),
        assurance=evidence.judgement.machine if evidence.judgement.good else "",
    )


def _chapters(evidence: ProfileEvidence, figures: Sequence[Figure]) -> Iterator[Chapter]:
    def drawn(section: str) -> tuple[Figure, ...]:
        return tuple(figure for figure in figures if figure.section == section)

    panel = voice_panel(evidence.telling)
    course = Chapter(
        courses.SECTION,
        "Load and delay over time",
        "Course",
        figures=courses.figures(evidence.steps),
        note=courses.left_out(evidence.steps),
    )
    # What has no steps is drawn over the load.
    if course.figures and not evidence.telling.height:
        yield course
    yield _by_size(
        Chapter("delay", "Delay", missing="Not measured: this run has no valid trial with a delay."),
        drawn("delay"),
        panel,
    )
    yield _by_size(
        Chapter("loss", "Loss", missing="Not measured: this run has no valid trial."), drawn("loss"), panel
    )
    yield _by_size(
        Chapter(
            "threshold",
            "Threshold and rules",
            "Threshold",
            missing="Not measured: no trial of this run drove the device into overload.",
        ),
        drawn("threshold"),
        panel,
    )
    if evidence.irregular:
        unlike = tuple(rates({"irregular": evidence.irregular}))
        yield Chapter("irregular", "Trials unlike the others", "Unlike", tables=unlike)
    undecided = evidence.judgement.undecided
    yield _by_size(
        Chapter(
            "verification-curves",
            "Were the predictions right?",
            "Predictions",
            missing=f"No verdict on the models: {undecided}."
            if undecided
            else "Not measured: this run has no held-out trials, or no model was fitted. “weir fit” and "
            "“weir verify” add both.",
            parts=tuple(_verified(evidence, drawn("verification"), drawn("accuracy"))),
        ),
        drawn("verification-curves"),
        panel,
    )
    shares = drawn("distribution")
    yield with_more(
        Chapter(
            "distribution",
            "Delay distribution",
            "Distribution",
            missing="Not measured: this run has no delay histograms of its profile.",
        ),
        shares[:1],
        shares[1:],
        "The other end of the rule counts",
    )
    if drawn(sizes.SECTION):
        yield Chapter(
            sizes.SECTION, "Delay and frame size", "Sizes", figures=drawn(sizes.SECTION), folded=True
        )
    if drawn(distributions.SECTION):
        yield Chapter(
            distributions.SECTION,
            "Delay of single packets",
            "Packets",
            figures=drawn(distributions.SECTION),
            folded=True,
        )
    if evidence.effects:
        yield beside.chapter(evidence.effects)
    if course.figures and evidence.telling.height:
        yield replace(course, folded=True)
    if steps := drawn("transient"):
        yield Chapter("transient", "When the load changes", "Steps", figures=steps)
    own = drawn(machine.SECTION)
    yield Chapter(
        "cpu",
        "What the device's CPU does",
        "CPU",
        figures=drawn("cpu"),
        missing="Not measured: there are no CPU states of the device's core (a simulated device has none).",
        parts=(Chapter(machine.SECTION, "The machine meanwhile", figures=own, folded=True),) if own else (),
    )
    yield _models(evidence)
    if evidence.manifest.get("kind") == "calibrate":
        yield Chapter("lateness", "What the test bed adds", figures=_lateness(evidence), missing="")
        yield _exactness(evidence)
        yield _setting(evidence)
    else:
        yield _setting(evidence, _exactness(evidence))
    told, tables = conditions.invalid(evidence)
    yield Chapter(
        "trials",
        "Invalid trials",
        intro=told,
        tables=tuple(tables[:1]),
        details=tuple(tables[1:]),
        missing="",
    )


def _by_size(chapter: Chapter, figures: tuple[Figure, ...], panel: str) -> Chapter:
    """``chapter`` with the figures of ``panel``; those of other frame sizes are folded away."""
    first = tuple(figure for figure in figures if figure.panel == panel) or figures
    return with_more(chapter, first, [f for f in figures if f not in first], "Other frame sizes")


def _verified(
    evidence: ProfileEvidence, compared: tuple[Figure, ...], off: tuple[Figure, ...]
) -> Iterator[Chapter]:
    """Predictions and trials, and how far the predictions are off."""
    if not compared:
        return
    tables = error_tables.errors(evidence.errors)
    said = (error_tables.alarms(evidence.errors), accuracy.coverage(evidence.deviations))
    yield Chapter(
        "accuracy",
        "How far off, trial by trial",
        said=tuple(filter(None, said)) if tables else (),
        figures=off[:1],
        missing="The table of errors was not computed for this run.",
    )
    yield Chapter(
        "verification",
        f"Predicted against {evidence.observed}",
        figures=(*compared, *off[1:]),
        details=tuple(tables),
        note=_ERRORS.format(observed=evidence.observed) if tables else "",
        folded=True,
    )


def _setting(evidence: ProfileEvidence, *parts: Chapter) -> Chapter:
    facts = conditions.setting(evidence)
    return Chapter("setting", "What was tested, and where", "Setting", facts=facts, folded=True, parts=parts)


def _exactness(evidence: ProfileEvidence) -> Chapter:
    exactness, points = conditions.calibration(evidence)
    return Chapter(
        "calibration",
        "How exact the test bed is",
        "Exactness",
        facts=exactness,
        tables=(points,) if points else (),
        missing="Not measured: a simulation has no test bed to calibrate."
        if evidence.simulated
        else "Not measured: no calibration was in force. “weir calibrate” measures pacing error, "
        "time-stamp error and false loss.",
    )


def _lateness(evidence: ProfileEvidence) -> tuple[Figure, ...]:
    """The error of the time stamps at each load."""
    marks = [
        RowMark(
            one["rate_text"], one["delay_p50_ns"] / 1e3, one["delay_p50_ns"] / 1e3, one["delay_p99_ns"] / 1e3
        )
        for one in evidence.calibration.get("points") or ()
        if one.get("delay_p50_ns") is not None and one.get("delay_p99_ns") is not None
    ]
    text = RowText(
        "added-delay",
        "lateness",
        "What the test bed itself adds to a delay, at each load.",
        "Added delay, µs",
        "Point: median; the line leads to the 99th percentile.",
    )
    return intervals(text, marks)


def _models(evidence: ProfileEvidence) -> Chapter:
    parameters = conditions.parameters(evidence)
    return Chapter(
        "models",
        "What the models learned",
        "Models",
        details=(parameters,) if parameters else (),
        missing="Not measured: no model was fitted to this run. “weir fit” does.",
        parts=tuple(
            Chapter(f"model-{name}", name.capitalize(), said=tuple(sentences))
            for name, sentences in conditions.in_words(evidence)
        ),
        folded=True,
    )
