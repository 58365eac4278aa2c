"""Whether a failover depends on the number of flows, and what bursts cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from weirlab.base.quantities import duration
from weirlab.base.tables import Table
from weirlab.base.units import FCS_BYTES
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.publications import PublishedExperiment, publication
from weirlab.reproduction.claims import all_of, decided, near, ratio
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.reproduction.voice.failover import (
    CARP,
    HAPPENS,
    INTERRUPTION,
    LOADED,
    MASTERS,
    SPREAD,
    glitch_ms,
    interrupted,
    loaded,
    no_switch,
    pairs,
    switched,
    switches,
)
from weirlab.store import Run
from weirlab.traffic.calls.codecs import parse_codec

if TYPE_CHECKING:
    from weirlab.report.figure import Figure

SINGLE: Final = "a single flow"
HOSTS: Final = "a flow for each host"
BURSTS: Final = "equal and random gaps"
_SAME_SIZE: Final = ("g711", "g726-32:40ms")
"""Two streams whose packets have the published size; the second has half as many."""
_ALIKE: Final = (0.8, 1.25)
"""Ratios of interruptions that are alike."""


def of_hosts(hosts: int, pps: float) -> Mapping[str, Any]:
    """A call for each of ``hosts``, with packets of the published size, ``pps`` in all."""
    often, seldom = (parse_codec(text).rate_pps for text in _SAME_SIZE)
    first = round((pps - hosts * seldom) / (often - seldom))
    shares = zip(_SAME_SIZE, (first, hosts - first), strict=True)
    return {"count": hosts, "codec": ",".join(f"{text}:{calls}" for text, calls in shares)}


class FailoverFlows(ReproducedExperiment):
    """The published load in a single flow, in the flows of 50 packets a second, and in one for each host."""

    key = "failover-flows"
    deviations = (
        CARP,
        "All calls between the same addresses and ports make a single flow. With a flow for each host, some "
        "calls have half as many packets, of the same size.",
    )

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        about = publication("woernhard-2006").experiments
        every = loaded(quick)
        hosts = of_hosts(about[self.key].settings["hosts"], about["failover-soft"].settings["pps"])
        few = pairs()[: 1 if quick else None]
        return {
            SINGLE: switched({**every["calls"], "one_flow": True}, few, quick),
            LOADED: every,
            HOSTS: switched(hosts, few, quick),
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        one, hosts = (_of(runs, name) for name in (SINGLE, HOSTS))
        for key, known in (("states", one), ("hosts", hosts)):
            if known:
                yield near(published.values[key], median(row.states_known for row in known), 0)
        rule = "with the same addresses and ports in every packet, the firewalls have one connection state"
        most = max((row.states_known for row in one), default=0)
        yield Answer(
            "one-flow",
            decision=decided(most == 1, rule, f"at most {most:,} in {len(one)} switches")
            if one
            else no_switch(rule),
        )
        names = ("the interruption with a flow for each host", "that with a single flow")
        alike: dict[str, Decision] = {}
        for (kind, happens), master in product(HAPPENS.items(), MASTERS):
            of_hosts_ms, of_one_ms = (
                glitch_ms(runs[name], kind, master) if name in runs else () for name in (HOSTS, SINGLE)
            )
            if of_hosts_ms or of_one_ms:
                alike[f"{master} {happens}"] = ratio(of_hosts_ms, of_one_ms, *_ALIKE, names)
        yield Answer("hosts-alike", decision=all_of(alike) if alike else ratio((), (), *_ALIKE, names))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.report.rows import RowText

        found: list[Figure] = []
        for kind, happens in HAPPENS.items():
            title = f"Interruptions when the master {happens}, by the number of flows."
            text = RowText(f"{kind}-flows", self.key, title, INTERRUPTION, SPREAD)
            here = {
                f"{_flows(run)}, {master}": glitch_ms(run, kind, master)
                for run in runs.values()
                for master in MASTERS
            }
            of_kind = publication("woernhard-2006").experiments[f"failover-{kind}"]
            found += interrupted(kind, of_kind, text, here)
        return found

    def tables(self, runs: Runs, published: PublishedExperiment) -> Sequence[Table]:
        columns = ("Flows", "Event", "Switches", "Interruption", "Streams that died", "States kept")
        rows = [
            _row(_flows(run), f"{master} {happens}", found)
            for kind, happens in HAPPENS.items()
            for run in runs.values()
            for master in MASTERS
            if (found := switches(run, kind, master))
        ]
        return (Table("By the number of flows", columns, rows),) if rows else ()


def _of(runs: Runs, name: str) -> Sequence[SwitchRow]:
    """The valid switches of a scenario, of both kinds."""
    return [row for kind in HAPPENS for row in switches(runs[name], kind)] if name in runs else ()


def _flows(run: Run) -> str:
    """How many flows the firewalls saw in most switches of ``run``."""
    known = [row.states_known for kind in HAPPENS for row in switches(run, kind)]
    count = round(median(known)) if known else 0
    return f"{count:,} flow{'' if count == 1 else 's'}"


def _row(flows: str, event: str, found: Sequence[SwitchRow]) -> tuple[str, ...]:
    return (
        flows,
        event,
        str(len(found)),
        duration(1e6 * median(row.glitch_ms for row in found)),
        f"{sum(row.dead for row in found):,} of {sum(row.streams for row in found):,}",
        f"{sum(row.states_surviving for row in found):,} of {sum(row.states_known for row in found):,}",
    )


class BurstLoss(ReproducedExperiment):
    """What bursts do."""

    key = "trace-analysis"

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        size = publication("woernhard-2006").experiments["failover-soft"].settings["size"] + FCS_BYTES
        gaps = {
            "lab": {"kind": "netns"},
            "dut": {"name": "iptables", "stateful": True},
            "profile": {
                "positions": [0],
                "sizes": [str(size)],
                "load_shares": [0.8, 0.9, 0.95, 1.2],
                "load_stride": 1,
                "repetitions": 5 if quick else 20,
                "arrivals": ["constant", "poisson"],
                "extra_shares": [0.8, 0.9, 0.95],
            },
        }
        return {BURSTS: gaps}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        rule = "a greater share is lost with random gaps than with equal ones, at the same loads"
        lost = _loss(runs[BURSTS]) if BURSTS in runs else {}
        random, equal = lost.get("poisson"), lost.get("constant")
        if random is None or equal is None or not random + equal:
            decision = Decision("cannot tell", rule, "no valid trial lost anything")
        else:
            decision = decided(random > equal, rule, f"{random:.2%} and {equal:.2%}")
        yield Answer("bursts-lose-more", decision=decision)

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        if BURSTS not in runs:
            return ()
        means = _compared(runs[BURSTS]).group_by("gaps", "offered_pps").agg(pl.col("loss_ratio").mean())
        lines = {
            name: [
                (pps / 1e3, 100 * loss)
                for pps, loss in means.filter(gaps=gaps).select("offered_pps", "loss_ratio").iter_rows()
            ]
            for name, gaps in (("equal gaps", "constant"), ("random gaps", "poisson"))
        }
        title = "Packets lost over the load, with equal and with random gaps."
        return courses(CourseText("bursts", self.key, "", title, "Load, kpps", "Lost, %"), lines)


def _loss(run: Run) -> Mapping[str, float]:
    """Mean share lost, by the kind of gaps, over the loads that were sent with both."""
    means = _compared(run).group_by("gaps").agg(pl.col("loss_ratio").mean())
    return {str(gaps): float(loss) for gaps, loss in means.iter_rows()}


def _compared(run: Run) -> pl.DataFrame:
    """The valid trials at loads that were sent with both kinds of ``gaps``."""
    trials = run.trials().filter(pl.col("valid") & pl.col("offered_pps").is_finite())
    trials = trials.with_columns(gaps=pl.col("spec").str.json_path_match("$.traffic.arrivals"))
    shared = trials.group_by("offered_pps").agg(pl.col("gaps").n_unique()).filter(pl.col("gaps") > 1)
    return trials.filter(pl.col("offered_pps").is_in(shared["offered_pps"].to_list()))
