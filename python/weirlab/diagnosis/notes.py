"""Notes on settings that cost throughput, whether they were the limit or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weirlab.diagnosis.rules.allowance import at_rtt, seconds
from weirlab.diagnosis.rules.ends import UNSCALED
from weirlab.diagnosis.view import TimelineView
from weirlab.trace.quantities import count, octets, percent, plural

SMALL_MSS: Final = 1_200
"""Bytes. Tunnels leave more; less is a setting, or a path with a very small MTU."""
SMALL_SEGMENT: Final = 0.5
MANY: Final = 100
"""Least number of segments whose mean size is meaningful."""
HEADERS: Final = 40
"""Bytes of IPv4 and TCP headers without options."""

Check = Callable[[TimelineView], str | None]


def _by(view: TimelineView, option: str) -> str:
    who = view.facts.refused.get(option)
    return "" if who is None else f" ({who} does not offer it)"


def _scaling(view: TimelineView) -> str | None:
    if view.facts.window_scaling is not False:
        return None
    least = view.facts.min_rtt_s
    allows = f", which allows {at_rtt(UNSCALED * 8 / least, least)}" if least > 0 else ""
    return f"window scaling is off{_by(view, 'window_scale')}: no window exceeds 65.5 kB{allows} (RFC 7323)"


def _sack(view: TimelineView) -> str | None:
    if view.facts.sack is not False:
        return None
    return f"SACK is off{_by(view, 'sack')}: only one loss is repaired per round trip (RFC 2018)"


def _misplaced_sacks(view: TimelineView) -> str | None:
    number = view.facts.misplaced_sacks
    if not number:
        return None
    return (
        f"{plural(number, 'SACK block')} of the receiver covered what was never sent: a device on the path "
        "changes sequence numbers but not these blocks, so that losses are repaired late"
    )


def _timestamps(view: TimelineView) -> str | None:
    if view.facts.timestamps is not False:
        return None
    off = f"time stamps are off{_by(view, 'timestamps')}"
    return f"{off}: spurious retransmissions are detected late (RFC 7323, RFC 3522)"


def _mss(view: TimelineView) -> str | None:
    mss = view.facts.offered_mss_bytes or view.facts.mss_bytes
    if not 0 < mss < SMALL_MSS:
        return None
    return f"the MSS is {octets(mss)}: at least {percent(HEADERS / (mss + HEADERS))} of all bytes are headers"


def _small(view: TimelineView) -> str | None:
    facts = view.facts
    if facts.segments < MANY:
        return None
    mean = facts.segment_bytes
    if mean >= SMALL_SEGMENT * facts.mss_bytes:
        return None
    return (
        f"segments carry {octets(mean)} on average, of {octets(facts.mss_bytes)} that fit: "
        "the application writes little at a time"
    )


def _opening(view: TimelineView) -> str | None:
    facts = view.facts
    if facts.opening_s is None:
        return None
    return (
        f"the connection took {seconds(facts.opening_s)} to open: {count(facts.syns)} SYNs were sent, as the "
        "first ones or their answers were lost, or the listener's queue was full"
    )


_CHECKS: Final[tuple[Check, ...]] = (_opening, _scaling, _sack, _misplaced_sacks, _timestamps, _mss, _small)


def notes(view: TimelineView) -> list[str]:
    """Settings that should be changed."""
    return [said for check in _CHECKS if (said := check(view)) is not None]
