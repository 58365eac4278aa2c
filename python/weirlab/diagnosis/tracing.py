"""The rows of a trace as timelines, connection by connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from weirlab.diagnosis import capture
from weirlab.diagnosis.capture import ConnectionPackets, RttSeries, SackBlocks
from weirlab.diagnosis.connection import (
    agreed,
    has_offered,
    is_scaled,
    least_ns,
    offered_mss,
    refused,
    worth_it,
)
from weirlab.diagnosis.connection import source as where
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import BlindSpot, Diagnosis
from weirlab.diagnosis.timeline import Timeline, TransferFacts
from weirlab.trace.facts import (
    MEANINGS,
    METHODS,
    RETRANSMISSIONS,
    Connection,
    SideName,
    busier,
    data_again,
    side,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.causes import Source

    Columns = dict[str, NDArray[Any]]


class ConnectionRows(Protocol):
    """The rows of connections, as NumPy columns named as in ``docs/trace.md``, with codes for words: from a
    ``Trace`` with series, or from the engine's memory (``weirlab._engine.ConnectionRows``).
    """

    def segments_of(self, connection: int, columns: Sequence[str], /) -> Columns:
        """``tsval`` is NaN without the option."""
        ...

    def take_segments_of(self, connection: int, columns: Sequence[str], /) -> Columns:
        """The same for the last time: the rows of the connection may be forgotten."""
        ...

    def rtt_of(self, connection: int, /) -> Columns: ...

    def sack_of(self, connection: int, /) -> Columns: ...


def read(
    rows: ConnectionRows,
    connection: Connection,
    sender: SideName | None = None,
    *,
    place: Source | None = None,
    target_bps: float | None = None,
    siblings: int = 0,
) -> Diagnosis | None:
    """Why ``connection`` was not faster; without a ``sender``, the busier side is it.

    ``place``: where it was captured, if that is known; None: find out from the packets. ``siblings`` as in
    :class:`~weirlab.diagnosis.timeline.TransferFacts`.

    Returns None if there is too little data.
    """
    seen = timeline(rows, connection, sender or busier(connection), place)
    if seen is None:
        return None
    facts = replace(seen.facts, siblings=siblings)
    diagnosis = diagnose(seen.timeline, facts, target_bps=target_bps)
    return None if diagnosis is None else replace(diagnosis, blind=(*diagnosis.blind, *seen.blind))


@dataclass(frozen=True)
class SenderView:
    """What a capture shows of a sender, and what it cannot show."""

    timeline: Timeline
    facts: TransferFacts
    blind: tuple[BlindSpot, ...]


def timeline(
    rows: ConnectionRows, connection: Connection, name: SideName, place: Source | None = None
) -> SenderView | None:
    """The input of the rules; the arguments are those of :func:`read`."""
    if not worth_it(connection, name):
        return None
    stripped = _has_lost_scale(rows, connection, name)
    scaled = is_scaled(connection) and not stripped
    source, sure, ways = _ways(rows, connection, name, place)
    facts = _facts(connection, name, ways.trips)
    facts = replace(
        facts,
        window_scaling=None if stripped else facts.window_scaling,
        misplaced_sacks=_misplaced_sacks(rows, connection, name),
        opening_s=_opening_s(rows, connection),
        place_known=sure,
        rtt_origin=ways.origin,
    )
    sent = side(connection, name)
    if sent["unseen_bytes"] > MISSING * (sent["unique_bytes"] + sent["unseen_bytes"]):
        facts = replace(facts, flaw="much of the data was acknowledged, but is not in the capture")
    # Nothing else refers to the packets, so they are freed as soon as they are no longer needed.
    found = capture.read(
        _packets(rows, connection, name, stamped=source != "sender"),
        source,
        facts,
        ways.trips,
        ways.behind,
        ways.echoes,
        scaled=scaled,
    )
    if found is None:
        return None
    made, facts = found
    blind = [] if sure else [_UNSURE]
    if not scaled and np.isnan(made.window_bytes).any():
        blind.append(_STRIPPED if stripped else _UNSCALED)
    if facts.min_rtt_s <= 0:
        blind.append(_UNTIMED)
    return SenderView(made, facts, tuple(blind))


@dataclass(frozen=True)
class _PathRtts:
    """Round trips of the whole path, and between the point of capture and the sender: corrected ones
    (``behind``), and as measured (``echoes``).
    """

    trips: RttSeries
    behind: RttSeries
    echoes: RttSeries
    origin: str
    """What shows the round trips."""


def _ways(
    rows: ConnectionRows, connection: Connection, name: SideName, place: Source | None
) -> tuple[Source, bool, _PathRtts]:
    """The place of the capture, whether it is certain, and the round trips that follow from it."""
    rtts = _of_the_path(rows.rtt_of(connection["id"]), connection, name)
    source, sure = where(connection, name) if place is None else (place, True)
    if not sure and (shown := _shown(rtts, name)) is not None:
        source, sure = shown, True
    if source == "sender":
        ours = _series(rtts, name, "ack").least(least_ns(connection, name))
        return source, sure, _PathRtts(ours, _NOWHERE, _NOWHERE, _ACKS if len(ours.time_ns) else "")
    trips, behind = _trips(rtts, connection, name, source, _data_ns(rows, connection["id"], name))
    echoes = _series(rtts, "b" if name == "a" else "a", "echo")
    there = _ECHOES if len(echoes.time_ns) else _HANDSHAKE if len(behind.time_ns) else ""
    if source == "between" and there and len(trips.time_ns) > len(behind.time_ns):
        there = f"{_ACKS} from there to the receiver, {there} to the sender"
    return source, sure, _PathRtts(trips, behind, echoes, there)


def _of_the_path(rtts: Columns, connection: Connection, name: SideName) -> Columns:
    """Round trips without those of a device on the path that acknowledged something by itself.

    These are few, and far shorter than that of the handshake. Hosts that answer late only at first show many.
    """
    whole = [each for each in connection["handshake_ns"] if each is not None]
    acks = (rtts["from_side"] == _CODES[name]) & (rtts["method"] == METHODS.index("ack"))
    short = acks & (rtts["rtt_ns"] < STRANGE * sum(whole))
    if len(whole) < len(connection["handshake_ns"]) or short.sum() > STRANGERS * acks.sum():
        return rtts
    return {column: values[~short] for column, values in rtts.items()}


def _packets(
    rows: ConnectionRows, connection: Connection, name: SideName, *, stamped: bool
) -> ConnectionPackets:
    """All packets of a connection; time stamps only if ``stamped``."""
    number = connection["id"]
    blocks = rows.sack_of(number)
    columns = rows.take_segments_of(
        number, (*_COPIED, "from_side", "meaning", *(("tsval",) if stamped else ()))
    )
    meaning = columns.pop("meaning")
    again = np.isin(meaning, [MEANINGS.index(word) for word in RETRANSMISSIONS])
    probe = meaning == MEANINGS.index("tail_probe")
    if probe.any():
        needless = _needless(columns["seq"], columns["payload_bytes"], blocks, name)
        again &= ~(needless & probe)
    return ConnectionPackets(
        from_sender=columns.pop("from_side") == _CODES[name],
        again=again,
        probe=probe,
        timeout=meaning == MEANINGS.index("timeout"),
        tsval=columns.pop("tsval", np.broadcast_to(np.nan, len(meaning))),
        blocks=_reports(blocks, name),
        **columns,
    )


def _reports(blocks: Columns, sender: SideName) -> SackBlocks:
    """The receiver's SACK blocks without those that report duplicates."""
    new = (blocks["from_side"] != _CODES[sender]) & (blocks["duplicate"] == 0)
    return SackBlocks(*(blocks[column][new] for column in ("time_ns", "left", "right")))


def _data_ns(rows: ConnectionRows, number: int, name: SideName) -> NDArray[np.int64]:
    """When the sender's data was captured."""
    found = rows.segments_of(number, ("time_ns", "from_side", "payload_bytes"))
    mine = (found["from_side"] == _CODES[name]) & (found["payload_bytes"] > 0)
    return np.asarray(found["time_ns"][mine])


_CODES: Final[dict[SideName, int]] = {"a": 0, "b": 1}
_COPIED: Final = ("time_ns", "seq", "payload_bytes", "ack", "window_bytes", "flags")
_SYN: Final = 2
SHORT: Final = 0.5
"""Share of the MSS: where segments carry less on average, an application writes messages."""
MISSING: Final = 0.1
"""Share of the data whose absence from a capture leaves nothing to be told."""
UNANSWERED: Final = 3
"""Segments without any answer, from which on it is not only the last flight that has none."""
STRANGE: Final = 1 / 8
STRANGERS: Final = 1 / 16
"""Share of a path's round trips that another device may have had."""
HOST_NS: Final = 100_000
"""A host answers within this time."""
SLOW_HOST_NS: Final = 1_000_000
"""The same for a slow or virtual one. A queue that stands all the time makes any other round trip long."""
_NOWHERE: Final = RttSeries(np.empty(0, np.int64), np.empty(0, np.int64))
_UNSURE: Final = BlindSpot(
    "where it was captured", "neither end is recognised, so it is treated as a capture at the sender"
)
_ACKS, _ECHOES, _HANDSHAKE = "ACKs of data", "the sender's time stamps", "the handshake only"
_UNTIMED: Final = BlindSpot(
    "whether the application, a queue or the congestion window was the limit",
    "no round trip is known: neither the handshake, nor ACKs, nor time stamps show one",
)
_UNSCALED: Final = BlindSpot(
    "whether the receiver's window was full",
    "the handshake, which carries the window scale, is not in the capture, or not with all of its options",
)
_STRIPPED: Final = BlindSpot(
    _UNSCALED.what,
    "the answer to the SYN offers no window scale, but more was sent than its windows allow without one: a "
    "device on the path removed the option",
)
_BEYOND: Final = 4
"""Segments beyond the window that no lost ACK explains."""


def _shown(rtts: Columns, sender: SideName) -> Source | None:
    """The place, from the minimum round trips to either end; None if they do not show it.

    For a connection whose beginning was not captured, by the rule of ``crates/trace/src/tcp/place.rs``; but
    these round trips may include a queue.
    """
    there = _series(rtts, sender, "ack").rtt_ns
    back = _series(rtts, "b" if sender == "a" else "a", "echo").rtt_ns
    if len(there) == 0 or len(back) == 0:
        return None
    to_receiver, to_sender = int(there.min()), int(back.min())

    def is_here(here: int, other: int) -> bool:
        return (here <= HOST_NS and here <= other / 2) or here <= min(other / 20, SLOW_HOST_NS)

    if is_here(to_sender, to_receiver):
        return "sender"
    if is_here(to_receiver, to_sender):
        return "receiver"
    return "between" if min(to_receiver, to_sender) > HOST_NS else None


def _needless(
    first: NDArray[np.int64], payload_bytes: NDArray[np.int32], blocks: Columns, sender: SideName
) -> NDArray[np.bool_]:
    """Whether the receiver reported a segment by DSACK: a tail loss probe that was not needed does not reduce
    the congestion window (RFC 8985 section 7.4).
    """
    needless = np.flatnonzero((blocks["from_side"] != _CODES[sender]) & (blocks["duplicate"] != 0))
    if len(needless) == 0:
        return np.zeros(len(first), dtype=bool)
    needless = needless[np.argsort(blocks["left"][needless], kind="stable")]
    at = np.searchsorted(blocks["left"][needless], first, side="right") - 1
    reaches = np.maximum.accumulate(blocks["right"][needless])
    return np.asarray((at >= 0) & (reaches[np.maximum(at, 0)] >= first + payload_bytes))


def _has_lost_scale(rows: ConnectionRows, connection: Connection, sender: SideName) -> bool:
    """Whether the answer to the SYN refused to scale windows, but more was sent than they then allow."""
    asked, answered = connection["a"]["options"], connection["b"]["options"]
    if asked is None or not has_offered(asked, "window_scale"):
        return False
    if answered is None or has_offered(answered, "window_scale"):
        return False
    if not (mss := offered_mss(connection)):
        return False
    found = rows.segments_of(connection["id"], ("from_side", *_COPIED[1:]))
    mine = found["from_side"] == _CODES[sender]
    edges = np.where(mine | (found["flags"] & _SYN != 0), -1, found["ack"] + found["window_bytes"])
    edge = np.maximum.accumulate(edges)
    ends = np.where(mine, found["seq"] + found["payload_bytes"], -1)
    return bool(((edge >= 0) & (ends > edge + _BEYOND * mss)).any())


def _to_sender_ns(connection: Connection, sender: SideName) -> int | None:
    """The round trip from the point of capture to the sender, from the handshake."""
    to_b, to_a = connection["handshake_ns"]
    return to_a if sender == "a" else to_b


def _trips(
    rtts: Columns, connection: Connection, sender: SideName, source: Source, data_ns: NDArray[np.int64]
) -> tuple[RttSeries, RttSeries]:
    """Round trips of the whole path, and from the point of capture, not at the sender, to the sender."""
    ours = _series(rtts, sender, "ack").least(least_ns(connection, sender))
    at_first = _to_sender_ns(connection, sender)
    echoes = _series(rtts, "b" if sender == "a" else "a", "echo")
    sent = side(connection, sender)
    messages = sent["data_bytes"] < SHORT * sent["data_packets"] * (offered_mss(connection) or 0)
    behind = echoes.without_pauses(data_ns, at_first, messages=messages)
    if len(behind.time_ns) == 0 and at_first is not None:
        behind = RttSeries(np.array([connection["first_ns"]]), np.array([at_first]))
    if source == "receiver" or len(ours.time_ns) == 0:
        return behind.least(least_ns(connection, sender)), behind
    late = np.nan_to_num(behind.at(ours.time_ns.astype(np.float64)) * 1e9).astype(np.int64)
    return RttSeries(ours.time_ns, ours.rtt_ns + late), behind


def _series(rtts: Columns, name: SideName, method: str) -> RttSeries:
    kept = (rtts["from_side"] == _CODES[name]) & (rtts["method"] == METHODS.index(method))
    return RttSeries(rtts["time_ns"][kept], rtts["rtt_ns"][kept])


def _facts(connection: Connection, sender: SideName, trips: RttSeries) -> TransferFacts:
    sent, peer = side(connection, sender), side(connection, "b" if sender == "a" else "a")
    ours, theirs = sent["options"], peer["options"]
    both = ours is not None and theirs is not None
    stamps = bool(ours and theirs and ours["timestamps"] and theirs["timestamps"])
    mss = offered_mss(connection)
    least = [int(trips.rtt_ns.min())] if len(trips.rtt_ns) else []
    known = least_ns(connection, sender)
    if known and known >= STRANGE * min(least, default=0):
        least.append(known)
    again = sent["retransmissions"]
    return TransferFacts(
        mss_bytes=max(mss - (capture.TIMESTAMP_BYTES if stamps else 0), 0) if both else 0,
        min_rtt_s=min(least, default=0) / 1e9,
        data_bytes=sent["unique_bytes"],
        segments=sent["data_packets"],
        retransmitted=data_again(sent),
        spurious=again["spurious"],
        reordered=sent["out_of_order"],
        data_s=(sent["data_ns"][1] - sent["data_ns"][0]) / 1e9 if sent["data_ns"] else None,
        sent_bytes=sent["data_bytes"],
        header_bytes=(sent["link_bytes"] - sent["data_bytes"]) / sent["packets"],
        # The capture may have had more packets twice than those that it recognised.
        early=again["unexplained"] if sent["copies"] else 0,
        fast=again["fast"],
        duplicate_acks=peer["duplicate_acks"],
        sack_blocks=peer["sack_blocks"],
        window_scaling=agreed(connection, "window_scale"),
        sack=agreed(connection, "sack"),
        timestamps=agreed(connection, "timestamps"),
        offered_mss_bytes=mss or None,
        refused=refused(connection, sender),
        syns=connection["a"]["syns"],
        unanswered_s=sent["unanswered_ns"] / 1e9 if sent["unanswered"] >= UNANSWERED else 0.0,
    )


def _misplaced_sacks(rows: ConnectionRows, connection: Connection, sender: SideName) -> int:
    """SACK blocks that lie beyond all that the receiver's window ever allowed, or before the first data."""
    number = connection["id"]
    blocks = rows.sack_of(number)
    theirs = blocks["from_side"] != _CODES[sender]
    window = side(connection, "b" if sender == "a" else "a")["window"]
    if not theirs.any() or window is None or not is_scaled(connection):
        return 0
    found = rows.segments_of(number, ("from_side", "ack"))
    edge = int(found["ack"].max(initial=0, where=found["from_side"] != _CODES[sender]))
    far = (blocks["left"] < 0) | (blocks["right"] > edge + window[1])
    return int((theirs & far).sum())


def _opening_s(rows: ConnectionRows, connection: Connection) -> float | None:
    """From the first SYN to the packet that answered the SYN/ACK, if the SYN was sent again."""
    if connection["begin"] != "handshake" or not connection["a"]["retransmissions"]["handshake"]:
        return None
    found = rows.segments_of(connection["id"], ("from_side", "flags", "time_ns"))
    answers_ns = found["time_ns"][(found["from_side"] == _CODES["a"]) & (found["flags"] & _SYN == 0)]
    return (int(answers_ns.min()) - connection["first_ns"]) / 1e9 if len(answers_ns) else None
