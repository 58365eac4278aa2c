"""What traffic requires of a device: limits on delay, jitter and loss, given or derived.

Two kinds of traffic have limits of their own: traffic classes of industrial networks and
telephone calls. Their standards give limits between end stations; the share that one
device may use up is a parameter of the planner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.model import wording
from weirlab.model.base import DELAYS
from weirlab.requirements import JITTER, LOSS, MEAN, P50, P90, P99, P999, Demand, parse

TrafficClass = Literal["isochronous", "cyclic", "acyclic"]

NO_LOSS: Final = 1e-6
"""A predicted loss ratio below one packet in a million counts as none: trials cannot resolve less."""

CYCLE_SHARE: Final = 0.5
"""Share of the cycle that a class gives this device by default.

The deadline, end to end, is "usually within one data transmission period" (traffic types of
IEC/IEEE 60802, contribution by Ademaj, 2019-03); half of it is kept for stations and switches.
"""

_CYCLES_MS: Final[dict[TrafficClass, tuple[float, float]]] = {
    "isochronous": (0.0, 2.0),
    "cyclic": (2.0, 20.0),
}
"""Above the first and up to the second; an isochronous cycle stays below 2 ms."""

VOICE_ONE_WAY_MS: Final = 150.0
"""Mouth to ear: what most users do not notice (ITU-T G.114, 05/2003, section 4)."""

VOICE_LOSS: Final = 1e-3
"""Packet loss in the network (ITU-T Y.1541, class 0)."""

VOICE_SHARE: Final = 0.1
"""Share of the network's delay that this device gets by default: a path of ten such devices
(the example of G.114, appendix II.2, has up to 12 routers)."""

LIMITED: Final = {
    MEAN: "delay_mean_ns",
    P50: "delay_p50_ns",
    P90: "delay_p90_ns",
    P99: "delay_p99_ns",
    P999: "delay_p999_ns",
    JITTER: "jitter_ns",
    LOSS: "loss_ratio",
}
"""What a plan can limit, each as a field of ``Prediction``."""

_LABELS: Final = {field: quantity.title for quantity, field in LIMITED.items()}


@dataclass(frozen=True)
class QuantityLimit:
    """``quantity`` (a field of ``Prediction``) must be at most ``at_most``, in the field's unit."""

    quantity: str
    at_most: float
    source: str = "given"

    @property
    def label(self) -> str:
        """``p99 delay``."""
        return _LABELS[self.quantity]

    @property
    def text(self) -> str:
        """``p99 delay at most 1 ms``."""
        if self.quantity != "loss_ratio":
            return f"{self.label} at most {wording.ns(self.at_most)}"
        return "no loss" if self.at_most <= NO_LOSS else f"loss at most {self.at_most * 100:.3g} %"


@dataclass(frozen=True)
class Requirement:
    """All limits hold together; ``derivation`` says where they come from, empty for those given."""

    name: str
    limits: tuple[QuantityLimit, ...]
    derivation: str = ""


NOTHING_LOST: Final = Requirement("no loss", (QuantityLimit("loss_ratio", NO_LOSS, "default"),))
"""The requirement if nothing is said about loss."""


def label(quantity: str) -> str:
    """What a field of ``Prediction`` is called in sentences."""
    return _LABELS[quantity]


def parse_limit(text: str) -> QuantityLimit:
    """Read a limit such as ``p99<1ms``; raises ``InputError`` naming the accepted forms.

    ``<`` and ``<=`` mean the same: at most.
    """
    return limit_of(parse(text, tuple(LIMITED)))


def limit_of(demand: Demand) -> QuantityLimit:
    """``demand`` as a limit; raises ``InputError`` for one from below."""
    name, of_loss = demand.quantity.name, demand.quantity is LOSS
    if demand.comparison in (">", ">=") or (demand.comparison == "=" and demand.value > 0):
        raise InputError(
            f"requirement {quoted(demand.text)}: a plan can only limit {name}; accepted are {name}<... and "
            f"{name}<=...{', and loss=0' if of_loss else ''}"
        )
    return QuantityLimit(LIMITED[demand.quantity], max(demand.value, NO_LOSS) if of_loss else demand.value)


def for_class(name: TrafficClass, cycle_ms: float | None = None, share: float = CYCLE_SHARE) -> Requirement:
    """The limits of a traffic class after IEC/IEEE 60802.

    No packet may be lost in any class. A cycle, isochronous (below 2 ms) or cyclic (2 to
    20 ms), limits the p99.9 delay to ``share`` of it; 99.9 % is the highest quantile that
    profiles measure. Acyclic traffic has no cycle, hence no such limit.

    Raises
    ------
    InputError
        The cycle is missing, superfluous or not possible in this class, or the share is invalid.
    """
    if not 0 < share <= 1:
        raise InputError(f"the device's share of the cycle is {share:g}; it must be above 0 and at most 1")
    lossless = QuantityLimit("loss_ratio", NO_LOSS, f"{name} traffic (IEC/IEEE 60802)")
    if name == "acyclic":
        if cycle_ms is not None:
            raise InputError("acyclic traffic has no cycle; bound its delay with --require p99<...")
        return Requirement("acyclic traffic", (lossless,), "no loss (IEC/IEEE 60802); no cycle, no bound")
    low, high = _CYCLES_MS[name]
    if cycle_ms is None:
        raise InputError(f"{name} traffic needs its cycle, e.g. --cycle {high / 2:g}ms")
    fits = low < cycle_ms < high if name == "isochronous" else low <= cycle_ms <= high
    if not (math.isfinite(cycle_ms) and fits):
        span = f"below {high:g} ms" if name == "isochronous" else f"{low:g} to {high:g} ms"
        raise InputError(f"a cycle of {cycle_ms:g} ms is not {name}: {span} (IEC/IEEE 60802)")
    return Requirement(
        f"{name} traffic, cycle {cycle_ms:g} ms",
        (QuantityLimit("delay_p999_ns", cycle_ms * share * 1e6, lossless.source), lossless),
        f"no loss, and p99.9 delay within {share * 100:.3g} % of the cycle of {cycle_ms:g} ms "
        "(IEC/IEEE 60802: delivered within one cycle end to end; the share is the planner's)",
    )


def for_calls(packet_ms: float, share: float = VOICE_SHARE) -> Requirement:
    """The limits of telephone calls in packets of ``packet_ms``.

    Of the 150 ms from mouth to ear (G.114) the terminals take 50 ms with packets of 10 ms
    and 80 ms with packets of 20 ms (G.114, appendix II.2), which is 20 ms and three packet
    times; the network has the rest and this device ``share`` of it, at the 99th percentile.

    Raises
    ------
    InputError
        The share is invalid, or the packets leave no time for the network.
    """
    if not 0 < share <= 1:
        raise InputError(f"the device's share of the delay is {share:g}; it must be above 0 and at most 1")
    terminals_ms = 20 + 3 * packet_ms
    network_ms = VOICE_ONE_WAY_MS - terminals_ms
    if network_ms <= 0:
        raise InputError(
            f"with packets of {packet_ms:g} ms the terminals alone take {terminals_ms:g} of the "
            f"{VOICE_ONE_WAY_MS:g} ms that G.114 allows; use shorter packets"
        )
    return Requirement(
        f"calls in packets of {packet_ms:g} ms",
        (
            QuantityLimit("delay_p99_ns", network_ms * share * 1e6, "calls (ITU-T G.114)"),
            QuantityLimit("loss_ratio", VOICE_LOSS, "calls (ITU-T Y.1541 class 0)"),
        ),
        f"p99 delay within {share * 100:.3g} % of the network's {network_ms:g} ms (ITU-T G.114: "
        f"{VOICE_ONE_WAY_MS:g} ms less {terminals_ms:g} ms for terminals; the share is the planner's), "
        f"loss at most {VOICE_LOSS * 100:g} % (ITU-T Y.1541, class 0)",
    )


def limits(requirements: tuple[Requirement, ...]) -> tuple[QuantityLimit, ...]:
    """The tightest limit per quantity, delays first."""
    tightest: dict[str, QuantityLimit] = {}
    for limit in (limit for requirement in requirements for limit in requirement.limits):
        held = tightest.get(limit.quantity)
        if held is None or limit.at_most < held.at_most:
            tightest[limit.quantity] = limit
    order = (*DELAYS, "jitter_ns", "loss_ratio")
    return tuple(sorted(tightest.values(), key=lambda limit: order.index(limit.quantity)))
