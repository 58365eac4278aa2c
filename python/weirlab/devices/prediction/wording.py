"""What models say, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from weirlab.cli.quantities import duration, percent, plural, rate, rules, words
from weirlab.cli.results.tables import of_device, of_run
from weirlab.devices.prediction.outcome import below_profiled
from weirlab.jobs.spoiled import PROFILE_AGAIN
from weirlab.model.base import TOLD_LEVEL
from weirlab.model.planning.requirements import NO_LOSS

if TYPE_CHECKING:
    from weirlab.devices.prediction.modelling import DevicesOutcome, FitOutcome
    from weirlab.devices.prediction.outcome import PredictionOutcome
    from weirlab.devices.prediction.verification import VerificationOutcome
    from weirlab.model.drift import Drift, Shift
    from weirlab.model.score import ErrorRow


def fit(outcome: FitOutcome) -> str:
    """The model in words and where it is."""
    model = outcome.queueing
    said = (
        " ".join(model.in_words(outcome.run.new_flow_rules))
        if model
        else f"Fitted {words(list(outcome.models))}."
    )
    if outcome.run.new_flow_rules:
        shares = words([percent(share) for share in outcome.run.manifest.section("profile")["new"]])
        said += (
            f" weir predict --new answers for the profiled shares, {shares}; for those between them only "
            f"after weir verify {outcome.run.run_id}."
        )
    said += "".join(f" Too little evidence: {reason}." for reason in outcome.evidence.too_little)
    said += "".join(f" {drift(each)}" for each in outcome.drifts)
    said = of_run(outcome.unusable, f"{said} The models are in {outcome.path}.")
    return of_device(outcome.run.simulated, said)


def drift(found: Drift) -> str:
    """How the host changed during a profile."""
    return (
        f"The host changed during the profile: the {found.quantity} at unchanged settings moved by "
        f"{percent(math.expm1(found.span))}."
    )


_SHIFTED: Final = {"threshold": "threshold", "delay_mean_below": "mean delay below it"}


def shifts(found: Sequence[Shift]) -> Iterator[str]:
    """How the host has changed since the profile, and what that makes of the first model's error."""
    yield from (_shift(each) for each in found if each.proven)
    if same := [
        f"the {_SHIFTED[each.quantity]} ({percent(each.low)} to {percent(each.high)})"
        for each in found
        if not each.proven
    ]:
        yield (
            f"Profiled settings measured again do not tell whether {' or '.join(same)} has changed since the "
            "profile; the ranges contain the change in 95 % of cases."
        )


def _shift(found: Shift) -> str:
    what = _SHIFTED[found.quantity]
    model, error = next(iter(found.error_percent.items()))
    return (
        f"The host has changed since the profile: profiled settings have a {what} "
        f"{percent(abs(found.change))} {'higher' if found.change > 0 else 'lower'} "
        f"({percent(found.low)} to {percent(found.high)}); without that, {model} would be off by "
        f"{percent(found.without_percent[model] / 100)} instead of {percent(error / 100)}."
    )


_ONE_SIDED: Final = 0.9
"""Share of the mean absolute error from which on errors are mostly of one sign."""


def _leaning(row: ErrorRow) -> str:
    """Whether predictions are mostly too high or too low, and how many trials their intervals contain."""
    assert row.relative is not None
    lean = row.relative.mean / row.relative.mean_absolute if row.relative.mean_absolute else 0.0
    said = [f"too {'high' if lean > 0 else 'low'}"] if abs(lean) >= _ONE_SIDED else []
    if TOLD_LEVEL in row.coverage_percent:
        inside = round(row.n * row.coverage_percent[TOLD_LEVEL] / 100)
        said.append(f"{inside} of {row.n} in the {TOLD_LEVEL} % intervals")
    return f" ({', '.join(said)})" if said else ""


def devices(outcome: DevicesOutcome) -> str:
    """Which devices are in the file, and the command to run next."""
    names = words([f"'{name}'" for name in outcome.names])
    return f"{outcome.path} holds the models of {names}; next: weir plan {outcome.path} --rules 100"


_UNSURE: Final = {
    "delay_mean_ns": "the mean delay",
    "delay_p50_ns": "p50",
    "delay_p90_ns": "p90",
    "delay_p99_ns": "p99",
    "delay_p999_ns": "p99.9",
    "loss_ratio": "loss",
}


def prediction(outcome: PredictionOutcome) -> str:
    """What to expect."""
    name, found = next(iter(outcome.predictions.items()))
    ends = {quantity: bands[TOLD_LEVEL] for quantity, bands in outcome.intervals.get(name, {}).items()}

    def span(quantity: str, show: Callable[[float], str]) -> str:
        between = f" ({' to '.join(map(show, ends[quantity]))})" if quantity in ends else ""
        return f"{show(found[quantity])}{between}"

    threshold = span("threshold_pps", rate)
    lead = "Extrapolated: " if outcome.outside else ""
    new = outcome.new_share
    behind = f"behind {rules(outcome.position)}" if new is None else f"with {percent(new)} new flows"
    if len(outcome.cpu_shares) > 1:
        most = percent(max(outcome.cpu_shares))
        behind += f" on {len(outcome.cpu_shares)} CPUs, the busiest of which gets {most},"
    setting = f"{rate(outcome.rate_pps)} of {outcome.frame_bytes:.4g}-byte frames {behind}"
    delay = f"mean delay {span('delay_mean_ns', duration)}, p99 {span('delay_p99_ns', duration)}"
    most_lost = ends.get("loss_ratio", (0.0, 0.0))[1]
    over = outcome.rate_pps > found["threshold_pps"]
    if found["loss_ratio"] > NO_LOSS:
        where = f"exceed the threshold of {threshold}" if over else f"lose packets below {threshold}"
        fate = f"{where}: {span('loss_ratio', percent)} lost, {delay}"
    elif most_lost > NO_LOSS:
        none = f"although none is predicted below the threshold of {threshold}"
        fate = f"may lose up to {percent(most_lost)}, {none}: {delay}"
    else:
        fate = f"pass without loss, below the threshold of {threshold}: {delay}"
    brackets = f"; in brackets {TOLD_LEVEL} % of trials" if ends else ""
    of = f" of {outcome.run_id}" if outcome.run_id else ""
    said = f"{lead}{setting} {fate} ({name} model{of}{brackets})."
    if outcome.least_pps is not None:
        said += f" {below_profiled(rate(outcome.least_pps))}"
    if outcome.unchecked and outcome.new_share is None:
        said += f" {outcome.unchecked[:1].upper()}{outcome.unchecked[1:]}."
    if outcome.share_error is not None:
        off = percent(outcome.share_error)
        said += f" This share was not profiled; at others like it, the threshold was at most {off} off."
    if outcome.unsure:
        way = outcome.more_trials or PROFILE_AGAIN
        unsure = [_UNSURE[name] for name in outcome.unsure]
        said += f" The trials of the profile scatter too much to say more about {words(unsure)}: {way}."
    if outcome.impossible:
        said += (
            f" Delays by {words(outcome.impossible)} are shorter than a packet takes here: do not use them."
        )
    return of_device(outcome.simulated, of_run(outcome.unusable, said))


def verification(outcome: VerificationOutcome) -> str:
    """How far the models are off and trials differ from each other, or why there is no verdict."""
    if outcome.problem() is not None:
        machine = f"the machine was {outcome.verdict.label}" if outcome.verdict is not None else ""
        why = outcome.undecided or machine
        return of_device(outcome.run.simulated, f"No verdict on the models: {why}.")
    rows = [row for row in outcome.errors if row.per == "trial" and not row.extrapolated]
    parts: list[str] = []
    for model, measured in dict.fromkeys((row.model, row.of_measurement) for row in rows):
        errors = {row.quantity: row for row in rows if row.model == model}
        told = [
            f"{percent(errors[quantity].mape_percent / 100)} {label}"
            + ("" if parts else _leaning(errors[quantity]))
            for quantity, label in (
                ("threshold", "in the threshold"),
                ("delay_mean_below", "in the mean delay below it"),
            )
            if quantity in errors
        ]
        if not measured:
            parts.append(f"{model} is off by {words(told) or 'nothing comparable'}")
        elif told:
            parts.append(f"trials of one setting differ from each other by {words(told)}")
    alarms = [
        f"{row.model} in {plural(row.false_alarms, 'trial')}"
        for row in rows
        if row.false_alarms and not row.of_measurement
    ]
    warned = f" Loss was predicted where none was measured: by {words(alarms)}." if alarms else ""
    said = f"On {plural(outcome.trials, 'held-out trial')}, {'; '.join(parts)}.{warned}"
    said += "".join(f" {each}" for each in shifts(outcome.shifts))
    return of_device(outcome.run.simulated, said)
