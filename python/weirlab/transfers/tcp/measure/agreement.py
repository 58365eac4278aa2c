"""The same quantities from the kernel and from captures, and why they differ, if they do; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from weirlab.trace.facts import Connection, SideName, side
from weirlab.trace.quantities import count

Unit = Literal["segments", "bytes", "us"]
Place = Literal["sender", "receiver"]

LEAST_RTT: Final = 0.1
"""Minimum RTTs may differ by this share, or by ``SCATTER_US``: the host's delay between the two places."""
MEAN_RTT: Final = 0.2
"""The same for mean RTTs, which are weighted differently."""
SCATTER_US: Final = 200.0
EACH_ONCE: Final = "Bytes, each counted once"


@dataclass(frozen=True)
class QuantityAgreement:
    """A quantity by the sender's kernel, and by the capture at ``place``."""

    quantity: str
    unit: Unit
    place: Place
    kernel: float
    capture: float
    agrees: bool
    why: str
    """Why they differ, or may differ; empty if there is nothing to say."""


@dataclass(frozen=True)
class ConnectionCapture:
    """A connection in a capture, its sender, and the number of packets that the capture reports missing."""

    connection: Connection
    sender: SideName
    missing: int
    whole: bool
    """The capture covers the connection from beginning to end."""


def pairs(rows: pl.DataFrame, places: Mapping[Place, ConnectionCapture]) -> Iterator[QuantityAgreement]:
    """Everything that both sources report about a connection; ``rows``: reports of the sender's kernel."""
    told = _told(rows)
    for place, seen in places.items():
        yield from _counted(told, place, seen)
    if (at_sender := places.get("sender")) is not None:
        yield from _timed(rows, told, at_sender)


def _told(rows: pl.DataFrame) -> dict[str, int]:
    """Counters at the end; a connection that is gone has none."""
    found = {}
    for name in ("total_retrans", "bytes_retrans", "bytes_sent", "min_rtt_us", "snd_mss_bytes"):
        known = rows[name].drop_nulls() if name in rows.columns else pl.Series([], dtype=pl.UInt64)
        if known.len():
            # What only grows is greatest in the last report; for the others, the last report counts, too.
            found[name] = int(known[-1])
    return found


def _counted(told: Mapping[str, int], place: Place, seen: ConnectionCapture) -> Iterator[QuantityAgreement]:
    sent = side(seen.connection, seen.sender)
    again = sent["retransmissions"]
    missing = _missing(seen)
    if "bytes_sent" in told and "bytes_retrans" in told:
        once = told["bytes_sent"] - told["bytes_retrans"]
        yield _exact(EACH_ONCE, "bytes", place, once, sent["unique_bytes"], missing)
    arrived = "some retransmissions were lost on their way here" if place == "receiver" else ""
    if "bytes_retrans" in told:
        why = missing or arrived
        yield _exact("Bytes retransmitted", "bytes", place, told["bytes_retrans"], again["bytes"], why)
    if "total_retrans" in told:
        why = missing or arrived or _joined(told, sent["payload_max"])
        yield _exact("Segments retransmitted", "segments", place, told["total_retrans"], again["total"], why)


def _timed(
    rows: pl.DataFrame, told: Mapping[str, int], seen: ConnectionCapture
) -> Iterator[QuantityAgreement]:
    rtt = side(seen.connection, seen.sender)["rtt"]
    least, mean = rtt["min_ns"], rtt["mean_ns"]
    if least is not None and told.get("min_rtt_us"):
        yield _near(
            "Minimum round trip", told["min_rtt_us"], least / 1e3, LEAST_RTT,
            "the kernel's begins before, and ends after, the one that the capture sees",
        )  # fmt: skip
    known = rows["rtt_us"].drop_nulls() if "rtt_us" in rows.columns else pl.Series([], dtype=pl.UInt64)
    known = known.filter(known > 0)
    if mean is not None and known.len():
        yield _near(
            "Mean round trip", float(known.mean()), mean / 1e3, MEAN_RTT,  # type: ignore[arg-type]
            "the kernel's is smoothed (RFC 6298) and averaged over time; the capture's is averaged over ACKs "
            "of data that was sent once, so busy times weigh more",
        )  # fmt: skip


def _exact(quantity: str, unit: Unit, place: Place, kernel: int, capture: int, why: str) -> QuantityAgreement:
    agrees = kernel == capture
    said = "" if agrees else why or _AFTERWARDS
    return QuantityAgreement(quantity, unit, place, float(kernel), float(capture), agrees, said)


_AFTERWARDS: Final = "the kernel's last report is older than the last packet"


def _near(quantity: str, kernel: float, capture: float, part: float, why: str) -> QuantityAgreement:
    agrees = abs(kernel - capture) <= max(part * max(kernel, capture), SCATTER_US)
    return QuantityAgreement(
        quantity, "us", "sender", kernel, capture, agrees, why if kernel != capture else ""
    )


def _missing(seen: ConnectionCapture) -> str:
    if not seen.whole:
        return "the capture does not cover the whole transfer"
    if seen.missing:
        return f"{count(seen.missing)} packets came too fast to be captured"
    return ""


def _joined(told: Mapping[str, int], payload_max: int) -> str:
    """The network card splits what the kernel sends at once."""
    mss = told.get("snd_mss_bytes", 0)
    if mss and payload_max > mss:
        return "one captured packet holds several segments: the network card splits it later"
    return ""
