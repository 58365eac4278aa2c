"""What the page is made from, names of methods and places, and the published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.links.monitor.trials.compare import Cost, MonitorGroup, StallEffect, conclusions
from weirlab.links.monitor.trials.rows import MonitorRow
from weirlab.links.monitor.trials.search import MonitorLimit
from weirlab.publications import PublishedExperiment, publication

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


def published() -> Sequence[ReferenceLoss]:
    """Losses of the two payloads of which numbers were published."""
    about = reference()
    recorded = about.series("recorded")
    return [
        ReferenceLoss(round(payload), sent, recorded[payload])
        for payload, sent in about.series("sent").items()
    ]


@dataclass(frozen=True)
class MonitorEvidence:
    """All trials of a run.

    Parameters
    ----------
    manifest
        The run's, as a mapping.
    rows
        Every attempt.
    groups, found, costs, stalls
        What ``weirlab.links.monitor.trials`` makes of them.
    """

    manifest: Mapping[str, Any]
    rows: Sequence[MonitorRow]
    groups: Sequence[MonitorGroup]
    found: Sequence[MonitorLimit]
    costs: Sequence[Cost]
    stalls: Sequence[StallEffect]

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
