"""What two ports add by themselves, measured over a patch cable instead of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.base.errors import TrialError
from weirlab.jobs.progress import Progress
from weirlab.lab.base import TestBed
from weirlab.measure.scouting import MAX_RATE
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

SHARES: Final = (0.01, 0.5, 0.99)
SIZES: Final = (64, 512, 1518)
_ONE: Final = Flows()
_SCOUT_S: Final = 0.2
_SCOUTS: Final = 4
_LESS: Final = 0.8
"""Of what was sent, if the cable did not carry it."""
_WARMUP_S: Final = 0.05
_TAIL: Final = 0.025
"""Outside the 95 % of delays that the error spans, on each side."""


@dataclass(frozen=True)
class CableResult:
    """One load of one size over the cable. All frames are counted four times."""

    frame_bytes: int
    share: float
    """Of the highest load that the ports carry without loss."""
    rate_pps: float
    sent: int
    """Frames of the sender."""
    left: int
    """Frames that the first port counts as sent."""
    entered: int
    """Frames that the second port counts as received."""
    received: int
    """Frames that the receiver counts, once each."""
    duplicated: int
    delay_bias_ns: float
    """Median delay of the cable: by so much are delays of a device too long."""
    delay_error_ns: float
    """Half the width of the middle 95 % of delays."""

    @property
    def exact(self) -> bool:
        """Whether all four counts agree."""
        return self.sent == self.left == self.entered == self.received and not self.duplicated


def cable_results(
    bed: TestBed, frames: int, progress: Progress, sizes: Sequence[int] = SIZES, flows: Flows = _ONE
) -> list[CableResult]:
    """Every size at 1, 50 and 99 % of what the ports carry, with about ``frames`` frames in all.

    Raises ``TrialError`` if the ports carry no load without loss.
    """
    found = []
    each = max(frames // (len(sizes) * len(SHARES)), 1)
    for number, size in enumerate(sizes):
        most_pps = _carried(bed, size, flows)
        for place, share in enumerate(SHARES):
            progress.advance(number * len(SHARES) + place, len(sizes) * len(SHARES), f"{size} B, {share:.0%}")
            found.append(_measured(bed, size, share, share * most_pps, each, flows))
    return found


def _carried(bed: TestBed, size: int, flows: Flows) -> float:
    """The highest load of several that arrives without loss, in packets/s."""
    rate = MAX_RATE
    for _ in range(_SCOUTS):
        result = bed.run(Traffic(rate, Constant(size), flows, warmup_s=_WARMUP_S, duration_s=_SCOUT_S))
        if rate is MAX_RATE:
            # An unpaced sender is not to be compared with a paced one of the same rate.
            rate = Rate(_LESS * min(result.achieved_pps, result.forwarding_pps))
        elif result.lost == 0:
            return result.achieved_pps
        else:
            rate = Rate(_LESS * result.forwarding_pps)
    raise TrialError(
        f"the cable loses frames of {size} B at every load that was tried, down to {rate.value:,.0f} pps: is "
        "it plugged into both ports, and is the machine busy?"
    )


def _measured(bed: TestBed, size: int, share: float, pps: float, frames: int, flows: Flows) -> CableResult:
    traffic = Traffic(Rate(pps), Constant(size), flows, warmup_s=0.0, duration_s=max(frames / pps, 0.01))
    before = bed.counters()
    result = bed.run(traffic)
    after = bed.counters()
    low, middle, high = (result.histogram.quantile_ns(q) for q in (_TAIL, 0.5, 1 - _TAIL))
    return CableResult(
        size,
        share,
        result.achieved_pps,
        result.sent + result.sent_warmup,
        after["tx_tx_packets"] - before["tx_tx_packets"],
        after["rx_rx_packets"] - before["rx_rx_packets"],
        result.received,
        result.duplicated,
        middle,
        (high - low) / 2,
    )


def rows(results: Sequence[CableResult]) -> Iterator[dict[str, Any]]:
    """For ``--json``."""
    for result in results:
        yield {**vars(result), "exact": result.exact}
