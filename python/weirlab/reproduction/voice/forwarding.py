"""What one firewall forwards: capacity, CPU, the measuring process, both directions at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median, stdev
from typing import TYPE_CHECKING, Any, ClassVar, Final

from weirlab.base.units import FCS_BYTES, pps_from_bps
from weirlab.calls.capacity import study as capacity
from weirlab.calls.capacity.trials.rows import CAPACITY, CapacityRow
from weirlab.publications import PublishedExperiment, publication
from weirlab.reproduction.claims import all_of, decided, monotone, ratio
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.reproduction.voice.failover import CARP, LOADED, glitch_ms, loaded
from weirlab.reproduction.voice.generator import CABLE, FASTEST, cable, fastest
from weirlab.store import Run

if TYPE_CHECKING:
    from weirlab.report.figure import Figure

FIREWALL: Final = "One Linux firewall in a network namespace stands for OpenBSD's pf on a server."
GIGABIT_BPS: Final = 1e9
SMALL, LARGE = "small packets", "large packets"
LARGE_BACK: Final = "large packets back"
UNWATCHED: Final = "without monitoring"
CALLS: Final[Mapping[str, Mapping[str, str]]] = {
    SMALL: {"codec": "gsm-fast", "transport": "iax2"},
    LARGE: {"codec": "g711", "transport": "rtp"},
}
"""The smallest and the largest packets of the publication."""


def published_sizes() -> Mapping[str, int]:
    """Bytes with FCS."""
    small, large = publication("woernhard-2006").experiments["forwarding-capacity"].settings["sizes_with_fcs"]
    return {SMALL: small, LARGE: large}


def forwarding(calls: str, *, directions: str = "forward", **capacity: Any) -> Mapping[str, Any]:
    """Calls through a firewall that tracks connections."""
    return {
        "lab": {"kind": "netns"},
        "dut": {"name": "iptables", "stateful": True},
        "calls": {**CALLS[calls], "directions": directions, "rtcp": False},
        "capacity": {"positions": [0], "predict": None, **capacity},
    }


def limit(quick: bool, around: Sequence[float] = ()) -> Mapping[str, Any]:
    """The search for the most calls without loss, and shares ``around`` them; left out: a whole course."""
    search = {"trial_s": 0.3, "trials": 3, "width": 0.05} if quick else {"trial_s": 1.0}
    course = [0.25, 0.5, 0.75, 0.9, 1.05, 1.2, _OVERLOAD] if quick else _AROUND
    return {
        "search": {"mos": None, **search},
        "sweep": {
            "around": list(around or course),
            "repetitions": 3 if quick else 7,
            "trial_s": 0.3 if quick else 1.0,
        },
    }


_OVERLOAD: Final = 1.4
_AROUND: Final = [0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, _OVERLOAD]


def counts(quick: bool) -> Mapping[str, Any]:
    """The published numbers of calls."""
    settings = publication("woernhard-2006").experiments["forwarding-capacity"].settings
    first, last, step = settings["calls"]
    sweep = {
        "first": first,
        "last": last,
        "step": 10 * step if quick else step,
        "trial_s": 0.3 if quick else 1.0,
    }
    return {"search": None, "sweep": {**sweep, "repetitions": 2 if quick else settings["repetitions"]}}


def swept(run: Run) -> Mapping[int, Sequence[CapacityRow]]:
    """The valid trials of the sweep by their number of calls, ascending."""
    rows = [row for row in run.rows(CapacityRow, CAPACITY) if row.valid and row.phase == "sweep"]
    rows.sort(key=lambda row: row.calls)
    return {calls: tuple(group) for calls, group in groupby(rows, lambda row: row.calls)}


def overload(run: Run) -> Sequence[float]:
    """Packets/s forwarded at the most calls, trial by trial."""
    trials = list(swept(run).values())
    return [row.forwarded_pps for row in trials[-1]] if trials else ()


def carried(run: Run) -> tuple[int | None, float]:
    """Calls and packets/s without loss, by the search."""
    for one in capacity.found(run).search:
        if one.calls is not None and one.pps is not None:
            return one.calls, one.pps
    return None, math.nan


class _Forwarding(ReproducedExperiment):
    deviations: ClassVar[Sequence[str]] = (FIREWALL,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return {name: forwarding(name, **limit(quick)) for name in CALLS}


class ForwardingCapacity(_Forwarding):
    """The most packets without loss, and what happens beyond."""

    key = "forwarding-capacity"
    deviations = (FIREWALL, CABLE)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return {
            **super().scenarios(quick),
            LARGE_BACK: forwarding(LARGE, directions="back", **limit(quick, [_OVERLOAD])),
            "published calls": forwarding(LARGE, **counts(quick)),
            "generator": cable(sorted(published_sizes().values()), FASTEST, quick),
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        sizes = published_sizes()
        if LARGE in runs:
            calls, pps = carried(runs[LARGE])
            if calls is not None:
                yield Answer("capacity", pps)
                yield Answer("capacity-bit-rate", pps * sizes[LARGE] * 8 / 1e6)
                yield Answer("capacity-calls", calls)
            if len(rates := overload(runs[LARGE])) > 1:
                yield Answer("capacity-deviation", 100 * stdev(rates) / median(rates))
        beyond = {name: overload(run) for name, run in runs.items() if name in (SMALL, LARGE, LARGE_BACK)}
        yield Answer(
            "limit-in-packets",
            decision=ratio(
                beyond.get(SMALL, ()), beyond.get(LARGE, ()), 0.9, 1.1, ("small packets/s", "large packets/s")
            ),
        )
        yield Answer(
            "limit-independent-of-host",
            decision=ratio(
                beyond.get(LARGE_BACK, ()), beyond.get(LARGE, ()), 0.9, 1.1, ("packets/s back", "forward")
            ),
        )
        yield Answer(
            "two-collapse-trends",
            decision=all_of({name: collapse(runs[name]) for name in CALLS if name in runs}),
        )
        yield Answer("far-below-gigabit", decision=self._below(runs))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.calls.capacity import charts
        from weirlab.reproduction.charts import CourseText, courses

        text = CourseText(
            "forwarded",
            self.key,
            "one firewall",
            "Packets forwarded per second, over those offered.",
            "packets/s offered",
            "packets/s forwarded",
            f"Published: losses begin at {published.values['capacity'].text} packets/s.",
        )
        found = [*courses(text, {name: forwarded(runs[name]) for name in CALLS if name in runs})]
        if LARGE in runs:
            found += charts.figures(capacity.findings(runs[LARGE], capacity.found(runs[LARGE])))
        return found

    @staticmethod
    def _below(runs: Runs) -> Decision:
        rule = "with small packets below half of Gigabit Ethernet's and half of the generator's packets/s"
        size = published_sizes()[SMALL]
        generated = fastest(runs["generator"]).get(size - FCS_BYTES, ()) if "generator" in runs else ()
        pps = carried(runs[SMALL])[1] if SMALL in runs else math.nan
        if not generated or math.isnan(pps):
            return Decision("cannot tell", rule, "no valid measurement")
        line, sender = pps_from_bps(GIGABIT_BPS, size), median(generated)
        found = f"{pps:,.0f} packets/s; link {line:,.0f}, generator {sender:,.0f}"
        return decided(pps < min(line, sender) / 2, rule, found)


def forwarded(run: Run) -> Sequence[tuple[float, float]]:
    """Medians of packets/s offered and forwarded, by the number of calls."""
    return [
        (median(row.achieved_pps for row in rows), median(row.forwarded_pps for row in rows))
        for rows in swept(run).values()
    ]


def collapse(run: Run) -> Decision:
    """Whether a device forwards clearly less in deep overload than at its best."""
    rule = "at the highest load, less than 95 % of the most that is forwarded"
    rates = [pps for _, pps in forwarded(run)]
    lost = [median(row.loss_ratio for row in rows) for rows in swept(run).values()]
    if not lost or lost[-1] < 0.01:
        return Decision("cannot tell", rule, "no load was too much")
    share = rates[-1] / max(rates)
    return decided(share < 0.95, rule, f"{share:.1%}")


class CpuStates(_Forwarding):
    """Interrupts over load, and what the monitoring itself costs."""

    key = "cpu-states"

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        unwatched = forwarding(LARGE, inside=False, **limit(quick, [_OVERLOAD]))
        return {**super().scenarios(quick), UNWATCHED: unwatched}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        courses = {}
        for name in CALLS:
            if name in runs:
                trials = swept(runs[name]).values()
                offered = [median(row.offered_pps for row in rows) for rows in trials]
                shares = [median(interrupts(row) for row in rows) for rows in trials]
                courses[name] = monotone(offered, shares)
        yield Answer("interrupts-eat-cpu", decision=all_of(courses))
        with_agent, without = (overload(runs[name]) if name in runs else () for name in (LARGE, UNWATCHED))
        yield Answer(
            "measuring-harmless",
            decision=ratio(
                with_agent, without, 0.95, 1.05, ("packets/s forwarded with monitoring", "those without")
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        title = "The share of the firewall's CPU that interrupts take."
        text = CourseText("interrupts", self.key, "", title, "packets/s offered", "CPU in interrupts, %")
        return courses(text, {name: _over_load(runs[name], interrupts) for name in CALLS if name in runs})


def _over_load(run: Run, percent_of: Callable[[CapacityRow], float]) -> Sequence[tuple[float, float]]:
    """Medians of a share in percent over packets/s offered."""
    return [
        (median(row.offered_pps for row in rows), 100 * median(percent_of(row) for row in rows))
        for rows in swept(run).values()
    ]


def interrupts(row: CapacityRow) -> float:
    """The share of the device's CPU in interrupts and softirqs; NaN if it is not known."""
    if not math.isnan(row.cpu_softirq):
        return row.cpu_irq + row.cpu_softirq
    known = (row.host_user, row.host_system, row.host_idle, row.host_irq, row.host_softirq)
    return (row.host_irq + row.host_softirq) / sum(known) if sum(known) else math.nan


class SamplerStarvation(_Forwarding):
    """How many samples a process on the firewall takes."""

    key = "measuring-starvation"

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        courses = {}
        for name in CALLS:
            if name not in runs:
                continue
            samples = {}
            for rows in swept(runs[name]).values():
                shares = [taken(row) for row in rows if row.samples_due]
                samples[median(row.offered_pps for row in rows)] = median(shares) if shares else math.nan
            courses[name] = monotone(list(samples), list(samples.values()), falling=True)
            starved = [pps for pps, share in samples.items() if share < 0.5]
            if name == LARGE:
                rule = "the lowest rate at which fewer than half of the samples are taken"
                none = Decision("cannot tell", rule, "no load starves the sampler")
                yield Answer("starved-pps", min(starved)) if starved else Answer("starved-pps", decision=none)
        yield Answer("fewer-samples-under-load", decision=all_of(courses))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        title = "The samples that a process on the firewall takes, of those that are due."
        text = CourseText("samples", self.key, "", title, "packets/s offered", "samples taken, %")
        return courses(text, {name: _over_load(runs[name], taken) for name in CALLS if name in runs})


def taken(row: CapacityRow) -> float:
    """The share of samples that were taken; NaN without any due."""
    return (row.samples_taken or 0) / row.samples_due if row.samples_due else math.nan


class BothDirections(ReproducedExperiment):
    """Load in both directions, which the authors could not measure."""

    key = "bidirectional"
    deviations = (FIREWALL,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return {name: forwarding(name, directions="both", **counts(quick)) for name in CALLS}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if runs:
            usable = sum(bool(swept(run)) for run in runs.values())
            yield Answer("usable", 100 * usable / len(CALLS))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        title = "Packets forwarded per second in both directions together, over those offered."
        text = CourseText("both-ways", self.key, "", title, "packets/s offered", "packets/s forwarded")
        return courses(text, {name: forwarded(runs[name]) for name in CALLS if name in runs})


class FirewallConclusions(_Forwarding):
    """What the author concludes from capacity and failover."""

    key = "conclusions"
    deviations = (FIREWALL, CARP)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return {**super().scenarios(quick), LOADED: loaded(quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        for kind, unit_ms in (("soft", 1), ("hard", 1000)):
            if LOADED in runs and (found := glitch_ms(runs[LOADED], kind)):
                yield Answer(f"{kind}-range", median(found) / unit_ms)
        sizes = published_sizes()
        rule = "with small packets, less than half of what Gigabit Ethernet carries of them"
        pps = carried(runs[SMALL])[1] if SMALL in runs else math.nan
        share = pps / pps_from_bps(GIGABIT_BPS, sizes[SMALL])
        yield Answer(
            "small-packets-limit",
            decision=Decision("cannot tell", rule, "no valid measurement")
            if math.isnan(share)
            else decided(share < 0.5, rule, f"{share:.0%}"),
        )
        most = {name: overload(runs[name]) if name in runs else () for name in CALLS}
        bits = {name: [pps * sizes[name] * 8 for pps in rates] for name, rates in most.items()}
        expected = sizes[LARGE] / sizes[SMALL]
        yield Answer(
            "larger-packets-help",
            decision=ratio(
                bits[LARGE],
                bits[SMALL],
                round(0.9 * expected, 2),
                round(1.1 * expected, 2),
                ("bits/s with large packets", "those with small ones"),
            ),
        )
