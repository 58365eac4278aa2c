"""The tables: all groups, the published values, rates without loss, stalls, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from weirlab.base.tables import Table
from weirlab.links.monitor.campaign import MonitorLimit
from weirlab.links.monitor.compare import Cost, MonitorGroup, StallEffect, compare, conclusions, costs
from weirlab.links.monitor.compare import stalls as stalls_of
from weirlab.links.monitor.rows import MonitorRow
from weirlab.publications import PublishedExperiment, publication
from weirlab.report.numbers import NOTHING, count, percent, rate, significant

METHODS: Final = {
    "tap-ring": "tap, ring",
    "tap-mirror": "tap, mirror",
    "tcpdump-bridge": "tcpdump on the bridge",
    "tcpdump-receiver": "tcpdump at the receiver",
    "tap-bare": "tap, no recorder",
    "plain-bridge": "kernel's bridge, no recorder",
}
"""Short, for axes and tables; those that record first."""

PLACES: Final = {
    "before": "bridge's receive ring full",
    "bridge": "not forwarded by the bridge",
    "behind": "behind the bridge (not counted)",
    "ring": "tap's ring full",
    "mirror": "not sent by the mirror",
    "logger": "between mirror and logger (not counted)",
    "socket": "recorder's socket full",
    "disk": "not written to disk",
}
"""What is not counted is the difference between two counters."""


def cost_name(cost: Cost) -> str:
    """Method and payload, and whether copies are never cut."""
    whole = ", whole copies" if cost.whole else ""
    return f"{METHODS[cost.method]}{whole}, {cost.payload_bytes:,} B"


@dataclass(frozen=True)
class ReferenceLoss:
    """Published, in packets per minute."""

    payload_bytes: int
    sent_per_min: float
    logged_per_min: float

    @property
    def loss_ratio(self) -> float:
        """Share of the frames sent that are not in the record."""
        return 1 - self.logged_per_min / self.sent_per_min


def reference() -> PublishedExperiment:
    """The flood of small and large packets, as the design that Weir's monitor follows was validated."""
    return publication("chertov-link-monitor").experiments["udp-flood"]


def published_losses() -> Sequence[ReferenceLoss]:
    """Losses of the two payloads of which numbers were published."""
    about = reference()
    recorded = about.series("recorded")
    return [
        ReferenceLoss(round(payload), sent, recorded[payload])
        for payload, sent in about.series("sent").items()
    ]


@dataclass(frozen=True)
class MonitorEvidence:
    """All trials of a run, and what they show."""

    rows: Sequence[MonitorRow]
    """Every attempt."""
    groups: Sequence[MonitorGroup]
    found: Sequence[MonitorLimit]
    costs: Sequence[Cost]
    stalls: Sequence[StallEffect]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """The run's."""

    @classmethod
    def of(cls, rows: Sequence[MonitorRow], found: Sequence[MonitorLimit], **more: Any) -> Self:
        """What ``rows`` show; ``found`` is what searches found."""
        return cls(rows, compare(rows), found, costs(rows), stalls_of(rows), **more)

    @property
    def valid(self) -> list[MonitorRow]:
        """The attempts that count."""
        return [row for row in self.rows if row.valid]

    @property
    def headlines(self) -> list[str]:
        """What was found, a sentence each."""
        return conclusions(self.groups, self.found, self.costs, self.stalls)

    @property
    def loads(self) -> list[str]:
        """Of the validation: as fast as possible first, then as in the scenario."""
        found = dict.fromkeys(group.load for group in self.groups)
        return sorted(found, key=lambda load: load != "max")

    def groups_at(self, load: str) -> list[MonitorGroup]:
        """The groups of one load, by method as in :data:`METHODS`."""
        order = list(METHODS)
        mine = [group for group in self.groups if group.load == load]
        return sorted(mine, key=lambda group: (order.index(group.method), group.payload_bytes))


def load_words(load: str) -> str:
    """``as fast as possible``, ``at 400kpps``."""
    return "as fast as possible" if load == "max" else f"at {load.replace('k', ' k').replace('M', ' M')}"


def when(load: str) -> str:
    """The same at the end of a sentence."""
    return f"when frames are sent {load_words(load)}"


def groups(evidence: MonitorEvidence) -> list[Table]:
    """A table per load, with a row per method and payload."""
    return [_groups(evidence.groups_at(load), load) for load in evidence.loads]


def _groups(found: Sequence[MonitorGroup], load: str) -> Table:
    rows = [
        (
            METHODS[group.method],
            count(group.payload_bytes),
            count(group.runs),
            count(group.sent_per_min),
            count(group.received_per_min),
            count(group.logged_per_min),
            share(group.link_loss_ratio),
            share(group.logged_loss_ratio),
            share(group.record_loss_ratio),
            _worst_places(group),
        )
        for group in found
    ]
    what = "Sent as fast as possible" if load == "max" else f"Sent at {load}"
    return Table(
        f"{what}: medians of the runs, frames per minute",
        (
            "Method", "Payload, B", "Runs", "Sent", "Arrived", "Logged", "Lost on the link", "Not logged",
            "Missed by the record", "Lost where",
        ),
        rows,
        spare=("Lost where", "Runs", "Arrived", "Missed by the record"),
    )  # fmt: skip


def published() -> Table:
    """What the original measurement found, on other hardware."""
    settings = reference().settings
    return Table(
        f"Published: {settings['link_mbit_s']} Mbit/s, other hardware; packets per minute, averages of "
        f"{settings['runs']} runs",
        ("Payload, B", "Sent", "Logged", "Not logged"),
        tuple(
            (
                count(one.payload_bytes),
                f"{one.sent_per_min:,.1f}",
                f"{one.logged_per_min:,.1f}",
                share(one.loss_ratio),
            )
            for one in published_losses()
        ),
    )


def found(evidence: MonitorEvidence) -> Table:
    """Greatest rates at which nothing was lost."""
    rows = [
        (
            METHODS[one.method],
            count(one.frame_bytes),
            rate(one.greatest_pps),
            NOTHING
            if one.greatest_pps is None
            else f"{significant(one.greatest_pps * one.frame_bytes * 8 / 1e9)} Gbit/s",
            _loss_at(one.greatest_pps, one.least_lossy_pps),
            count(one.lost_link),
            count(one.lost_record),
            count(one.trials),
        )
        for one in evidence.found
    ]
    return Table(
        "Greatest rate at which most trials forwarded and logged every frame",
        (
            "Method", "Frame, B", "Without loss up to", "Bit rate", "Loss at", "Lost by the link there",
            "By the record there", "Trials",
        ),
        tuple(rows),
    )  # fmt: skip


def _loss_at(greatest_pps: float | None, lossy_pps: float | None) -> str:
    if lossy_pps is None:
        return NOTHING
    # A sender at its limit is no faster when more is requested.
    return rate(lossy_pps) if lossy_pps > (greatest_pps or 0) else "the sender's limit"


def stalls(evidence: MonitorEvidence) -> Table:
    """What a stalled recorder does to link and record."""
    rows = [
        (
            METHODS[one.method],
            count(one.runs),
            rate(one.rate_pps),
            f"{one.stalled_s:.2f} s",
            count(one.sent),
            count(one.link_lost),
            count(one.link_lost_bare),
            count(one.missing),
            count(one.named),
            NOTHING if not _known(one.gap_s) else f"{one.gap_s:.2f} s",
        )
        for one in evidence.stalls
    ]
    return Table(
        "The recorder stalls: medians of the runs, in frames",
        (
            "Method", "Runs", "Rate", "Stalled for", "Sent", "Lost on the link", "Without a recorder",
            "Missing in the record", "Reported as missing", "From first to last gap",
        ),
        tuple(rows),
    )  # fmt: skip


def left_out(evidence: MonitorEvidence) -> Table | None:
    """Attempts that the host spoiled, and those whose counters do not agree; None if there are none."""
    rows = [
        (
            row.method,
            row.part,
            count(row.payload_bytes),
            row.load,
            str(row.run),
            row.invalid or NOTHING,
            row.balance or "agree",
        )
        for row in evidence.rows
        if not row.valid or row.balance
    ]
    if not rows:
        return None
    return Table(
        "Attempts that were left out, or whose counters do not agree",
        ("Method", "Part", "Payload, B", "Load", "Run", "Left out because", "Counters"),
        rows,
        details=True,
    )


def share(ratio: float | None) -> str:
    """A loss; ``0`` only for none at all."""
    if not _known(ratio):
        return NOTHING
    assert ratio is not None
    return "0" if ratio == 0 else percent(ratio)


def _worst_places(group: MonitorGroup) -> str:
    lost = {place: value for place, value in group.lost_at.items() if value}
    worst = sorted(lost, key=lambda place: -lost[place])[:2]
    return ", ".join(f"{PLACES[place]} {percent(lost[place])}" for place in worst) or "nowhere"


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
