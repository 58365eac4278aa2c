"""Experiments about the errors of the published model on trials that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from weirlab.base.quantities import NOTHING, significant
from weirlab.base.tables import Table
from weirlab.devices.prediction import modelling
from weirlab.model import LohmillerModel, Model, PiecewiseModel, QueueingModel
from weirlab.model import regimes as regime
from weirlab.model.base import F64, Bool, ObservationTable
from weirlab.model.lohmiller import VerificationFigures, size_groups, verification_figures
from weirlab.model.trials import TrialTable, members
from weirlab.publications import PublishedExperiment, publication
from weirlab.report.figure import Figure
from weirlab.report.letters import boxes, letter_values
from weirlab.report.rows import RowText
from weirlab.reproduction import claims
from weirlab.reproduction.contract import Answer, Decision, Runs
from weirlab.reproduction.firewall.loads import JUMP
from weirlab.reproduction.firewall.measured import US, MeasuredProfile, means
from weirlab.reproduction.firewall.scenarios import FirewallExperiment
from weirlab.store import Run

GROUPED: Final = "lohmiller, by size"
PRINTED: Final = "lohmiller, as printed"


@dataclass(frozen=True)
class Verification:
    """Held-out settings, repetitions joined, beside what models predict for them. Delays in µs."""

    profile: MeasuredProfile
    models: Mapping[str, Model]

    @classmethod
    def of(cls, run: Run) -> Verification:
        """With the models kept in ``run``, and the published one with groups of sizes, and as printed."""
        profile = MeasuredProfile.of(run)
        kept = modelling.models_of(run)
        wanted = (LohmillerModel.name, PiecewiseModel.name, QueueingModel.name)
        models: dict[str, Model] = {name: kept[name] for name in wanted if name in kept}
        if models:
            models[GROUPED] = LohmillerModel.fit(profile.observations, grouped=True)
            models[PRINTED] = LohmillerModel.fit(profile.observations, printed=True)
        return cls(profile, models)

    @cached_property
    def points(self) -> ObservationTable:
        """A row for each held-out setting and load: the medians of its repetitions."""
        trials = TrialTable.of(self.profile.held_out)
        names = ObservationTable.__dataclass_fields__
        rows = members(trials.cell)
        return ObservationTable(
            *(
                np.array([float(np.median(getattr(trials.table, name)[own])) for own in rows])
                for name in names
            )
        )

    @cached_property
    def overload(self) -> Bool:
        """Which points are in overload."""
        return regime.sort(self.points).overload

    def predicted(self, model: str) -> F64:
        """Mean delays at the points."""
        at = self.points
        found = self.models[model].predict(at.rate_pps, at.frame_bytes, at.position, at.gap_scv)
        return found.delay_mean_ns / US

    def figures(self, model: str, rows: Bool) -> VerificationFigures | None:
        """The publication's figures for the points ``rows``; None without any."""
        if not rows.any() or model not in self.models:
            return None
        return verification_figures(self.predicted(model)[rows], self.points.delay_mean_ns[rows] / US)

    def at(self, rules: float) -> Bool:
        """The points at ``rules``."""
        return np.asarray(self.points.position == rules)

    def table(self, title: str) -> Table:
        """Every model's figures, by rule count."""
        columns = (
            "Held out", "Model", "Mean", "Mean %", "95 % interval", "Standard deviation", "Largest", "Points",
        )  # fmt: skip
        rows = []
        for rules in np.unique(self.points.position):
            for where, mask in (("all", self.at(rules)), ("below overload", self.at(rules) & ~self.overload)):
                for name in self.models:
                    if (found := self.figures(name, mask)) is not None:
                        rows.append(
                            (
                                f"{rules:g} rules, {where}",
                                name,
                                f"{found.mean:+.2f} µs",
                                f"{found.mean_percent:+.1f} %",
                                f"{found.low:+.2f} to {found.high:+.2f} µs" if found.n > 1 else NOTHING,
                                f"{found.std:.2f} µs",
                                f"{found.max:+.2f} µs",
                                str(found.n),
                            )
                        )
        return Table(title, columns, rows, spare=("95 % interval", "Points"))


def _range_decision(found: VerificationFigures | None, most_percent: float, rule: str) -> Decision:
    if found is None or found.n < 2:
        return claims.settled(None, rule, "too few points")
    return claims.settled(
        abs(found.mean_percent) <= most_percent and found.low <= 0 <= found.high,
        rule,
        f"{found.mean_percent:+.1f} %, interval {found.low:+.3g} to {found.high:+.3g} µs",
    )


class VerificationMain(FirewallExperiment):
    """Held-out trials of iptables."""

    key = "verification-eagle40"
    shared = ("iptables",)
    deviations = (
        "Models are verified at three to six loads below the threshold of each unseen rule count and size, "
        "and at one above.",
    )

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" not in runs:
            return
        found = Verification.of(runs["iptables"])
        if not found.models or not len(found.points):
            return
        name = LohmillerModel.name
        yield from _figures(found, (0, 200), published)
        plain = found.figures(name, found.at(0))
        yield Answer(
            "within-ten-percent",
            decision=_range_decision(plain, 10.0, "mean deviation within 10 %, its 95 % interval includes 0"),
        )
        yield from self._groups(found, plain)
        below = found.figures(name, found.at(200) & ~found.overload)
        limit = published.values["below-percent@200"].number
        yield Answer(
            "accurate-below",
            decision=claims.settled(
                None if below is None else abs(below.mean_percent) <= limit,
                "mean deviation below overload, in percent, no larger than the published one",
                "no points" if below is None else f"{below.mean_percent:+.1f} %",
            ),
        )
        yield Answer("worst-near-threshold", decision=self._worst(found))
        yield Answer("cyclic", decision=self._cyclic(found))

    def _groups(self, found: Verification, plain: VerificationFigures | None) -> Iterator[Answer]:
        limit, _, _ = size_groups(found.profile.table.frame_bytes)
        sizes = found.points.frame_bytes
        groups = {
            "small": found.figures(GROUPED, found.at(0) & ~found.overload & (sizes <= limit)),
            "large": found.figures(GROUPED, found.at(0) & ~found.overload & (sizes > limit)),
        }
        for group, own in groups.items():
            if own is not None:
                yield Answer(f"{group}-mean", own.mean)
                yield Answer(f"{group}-percent", own.mean_percent)
                yield Answer(f"{group}-sd", own.std)
                yield Answer(f"{group}-max", own.max)
        without = found.figures(LohmillerModel.name, found.at(0) & ~found.overload) or plain
        known = [own for own in groups.values() if own is not None]
        better = without is not None and all(
            abs(own.mean) < abs(without.mean) and own.std < without.std and abs(own.max) < abs(without.max)
            for own in known
        )
        shown = "; ".join(
            f"{group} {own.mean:+.2f}, {own.std:.2f}, {own.max:+.2f} µs"
            for group, own in (("one curve", without), *groups.items())
            if own is not None
        )
        yield Answer(
            "groups-help",
            decision=claims.settled(
                better if len(known) == 2 else None,
                "below overload mean, deviation and maximum of both groups smaller than with one curve",
                shown,
            ),
        )

    def _worst(self, found: Verification) -> Decision:
        rule = (
            "the largest deviation at 200 rules is from the measured to the predicted threshold, 10 % around"
        )
        rows = found.at(200)
        limit = found.profile.thresholds().get(200.0)
        if limit is None or not rows.any():
            return claims.settled(None, rule, "no points")
        model = found.models[LohmillerModel.name]
        expected = float(model.threshold_pps(200, 160))
        deviation = np.abs(found.points.delay_mean_ns / US - found.predicted(LohmillerModel.name))
        worst = float(found.points.rate_pps[rows][np.argmax(deviation[rows])])
        low, high = 0.9 * min(limit, expected), 1.1 * max(limit, expected)
        return claims.settled(
            low <= worst <= high,
            rule,
            f"at {worst / 1e3:.0f} kpps; thresholds {limit / 1e3:.0f} and {expected / 1e3:.0f} kpps",
        )

    def _cyclic(self, found: Verification) -> Decision:
        limit_us = 1e3 * publication("lohmiller-2022").number("use", "cyclic-ms")
        rows = ~found.overload
        own = found.figures(LohmillerModel.name, rows)
        rule = "prediction plus largest deviation within the limit of cyclic traffic, wherever below overload"
        if own is None:
            return claims.settled(None, rule, "no points")
        most = float(found.predicted(LohmillerModel.name)[rows].max()) + abs(own.max)
        return claims.settled(most < limit_us, rule, f"at most {significant(most)} µs")

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Letter values of every model's deviations."""
        return _letters(runs, "iptables")

    def tables(self, runs: Runs, published: PublishedExperiment) -> Sequence[Table]:
        """All models beside each other."""
        return _verified(runs, "iptables", "iptables: measured minus predicted, mean delay")


def _verified(runs: Runs, name: str, title: str) -> Sequence[Table]:
    if name not in runs:
        return ()
    found = Verification.of(runs[name])
    return (found.table(title),) if found.models and len(found.points) else ()


def _letters(runs: Runs, name: str) -> Sequence[Figure]:
    """Deviations of all models below overload, in µs and in percent of the prediction."""
    if name not in runs:
        return ()
    found = Verification.of(runs[name])
    if not found.models or found.overload.all():
        return ()
    rows = ~found.overload
    measured = found.points.delay_mean_ns[rows] / US
    predicted = {model: found.predicted(model)[rows] for model in found.models}
    units: dict[str, dict[str, list[float]]] = {
        "µs": {model: list(measured - own) for model, own in predicted.items()},
        "%": {model: list(100 * (measured[own > 0] / own[own > 0] - 1)) for model, own in predicted.items()},
    }
    found_figures: list[Figure] = []
    for unit, series in units.items():
        text = RowText(
            f"{name}-{'us' if unit == 'µs' else 'percent'}",
            name,
            f"Below overload half of the deviations of lohmiller are within "
            f"{np.quantile(np.abs(series[LohmillerModel.name]), 0.5):.3g} {unit}.",
            f"Measured minus predicted, {unit}",
            f"Held-out trials of {name}; the thickest box holds half of them.",
        )
        letters = {model: letter_values(np.asarray(values)) for model, values in series.items() if values}
        found_figures += boxes(text, letters)
    return found_figures


def _figures(found: Verification, counts: Sequence[int], published: PublishedExperiment) -> Iterator[Answer]:
    """The published figures that are given for each rule count."""
    for rules in counts:
        for prefix, rows in (("", found.at(rules)), ("below-", found.at(rules) & ~found.overload)):
            own = found.figures(LohmillerModel.name, rows)
            if own is None:
                continue
            values = {"mean": own.mean, "percent": own.mean_percent, "sd": own.std, "max": own.max}
            for name, here in values.items():
                key = f"{prefix}{name}@{rules}"
                if key in published.values:
                    yield Answer(key, here)


class VerificationOther(FirewallExperiment):
    """Another device: nftables in place of the EAGLE30."""

    key = "verification-eagle30"
    shared = ("iptables", "nftables")
    deviations = ("nftables stands for the second device.",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "nftables" not in runs:
            return
        found = Verification.of(runs["nftables"])
        busy, below = means(found.profile.over), means(found.profile.below)
        limits = found.profile.thresholds()
        for name, own in (("overload", busy), ("below", below), ("threshold", limits)):
            for rules in published.series(name):
                yield Answer(f"{name}@{rules:g}", own.get(rules, math.nan))
        yield Answer("highest-pps", float(found.profile.table.rate_pps.max()))
        yield Answer("overload-linear", decision=claims.fitted(list(busy), list(busy.values()), least=0.99))
        if found.models and len(found.points):
            yield from _figures(found, (0, 200), published)
            rows = found.profile.table.position == 100
            table = found.profile.table.where(rows)
            model = found.models[LohmillerModel.name]
            expected = model.predict(table.rate_pps, table.frame_bytes, table.position, table.gap_scv)
            own100 = verification_figures(expected.delay_mean_ns / US, table.delay_mean_ns / US)
            yield Answer("profile-mean@100", own100.mean)
            yield Answer("profile-sd@100", own100.std)
            errors = {
                n: float(model.threshold_pps(n, 160)) / limits[n] - 1 for n in (200.0, 700.0) if n in limits
            }
            yield Answer(
                "loss-begins-predicted",
                decision=claims.settled(
                    all(abs(error) <= 0.1 for error in errors.values()) if errors else None,
                    "predicted thresholds of held-out rule counts within 10 %, one step of the loads",
                    ", ".join(f"{n:g} rules {error:+.1%}" for n, error in errors.items()),
                ),
            )
        if "iptables" in runs:
            yield Answer("alike", decision=_alike(MeasuredProfile.of(runs["iptables"]), found.profile))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Letter values of every model's deviations."""
        return _letters(runs, "nftables")

    def tables(self, runs: Runs, published: PublishedExperiment) -> Sequence[Table]:
        """All models beside each other."""
        return _verified(runs, "nftables", "nftables: measured minus predicted, mean delay")


def _alike(first: MeasuredProfile, second: MeasuredProfile) -> Decision:
    rule = f"on both devices latency in overload is at least {JUMP:g} times that below, at every rule count"
    shown, holds = [], True
    for name, found in (("iptables", first), ("nftables", second)):
        busy, below = means(found.over), means(found.below)
        jumps = [busy[n] / below[n] for n in busy if n in below]
        if not jumps:
            return claims.settled(None, rule, f"no overload of {name}")
        holds &= min(jumps) >= JUMP
        shown.append(f"{name} {min(jumps):.3g} times or more")
    return claims.settled(holds, rule, ", ".join(shown))


class UseOfModel(FirewallExperiment):
    """What the model decides, and what a profile costs."""

    key = "use"
    shared = ("iptables",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" not in runs:
            return
        run = runs["iptables"]
        yield Answer("hours", _hours(run))
        found = Verification.of(run)
        if not found.models or not len(found.points):
            return
        rows = np.ones(len(found.points), dtype=np.bool_)
        below = found.figures(LohmillerModel.name, ~found.overload)
        margin = 0.0 if below is None else abs(below.max)
        expected = found.predicted(LohmillerModel.name)[rows] + margin
        limit = 1e3 * published.values["limit-ms"].number
        true = found.points.delay_mean_ns[rows] / US <= limit
        right = int(((expected <= limit) == true).sum())
        yield Answer(
            "decides",
            decision=claims.settled(
                right == len(true),
                "prediction plus largest deviation below overload on the same side of the limit as the "
                "measurement, at every held-out point",
                f"at {right} of {len(true)}; {int(true.sum())} keep the limit",
            ),
        )


def _hours(run: Run) -> float:
    began = [
        datetime.fromisoformat(text)
        for text in run.trials().filter(pl.col("role") == "profile")["started_at"]
    ]
    return (max(began) - min(began)).total_seconds() / 3600 if began else math.nan


MODELS: Final = (VerificationMain(), VerificationOther(), UseOfModel())
