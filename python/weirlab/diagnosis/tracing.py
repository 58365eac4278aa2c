"""The tables of a trace (``weir trace --series``) as timelines, connection by connection."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import capture
from weirlab.diagnosis.capture import Packets, Trips
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Blind, Diagnosis
from weirlab.diagnosis.timeline import Facts
from weirlab.diagnosis.worth import least_ns, worth_it
from weirlab.diagnosis.worth import source as where
from weirlab.trace.facts import RETRANSMISSIONS, Connection, SideName, SynOptions, busier, side

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from weirlab.diagnosis.causes import Source
    from weirlab.trace.frames import Trace


def read(
    trace: Trace, connection: Connection, sender: SideName | None = None, *, target_bps: float | None = None
) -> Diagnosis | None:
    """Why ``connection`` was not faster; the busier side is the ``sender`` unless told otherwise.

    Needs the series of ``trace``. None where there is too little data.
    """
    name = sender or busier(connection)
    if not worth_it(connection, name):
        return None
    number = connection["id"]
    rows = _of(trace.scan_segments(), number)
    packets = Packets(
        time_ns=rows["time_ns"].to_numpy(),
        from_sender=(rows["from_side"].cast(str) == name).to_numpy(),
        seq=rows["seq"].to_numpy(),
        payload_bytes=rows["payload_bytes"].cast(int).to_numpy(),
        ack=rows["ack"].to_numpy(),
        window_bytes=rows["window_bytes"].cast(int).to_numpy(),
        flags=rows["flags"].cast(int).to_numpy(),
        again=_again(rows, _of(trace.scan_sack(), number), name),
        tsval=_tsval(rows),
    )
    scaled = _is_scaled(connection)
    if not scaled:
        packets = replace(packets, window_bytes=np.full_like(packets.window_bytes, _OPEN_BYTES))
    round_trips = _of(trace.scan_rtt(), number)
    source, sure = where(connection, name)
    if not sure and (shown := _shown(round_trips, name)) is not None:
        source, sure = shown, True
    data_ns = packets.time_ns[packets.from_sender & (packets.payload_bytes > 0)]
    trips, behind = _trips(round_trips, connection, name, source, data_ns)
    echoes = _series(round_trips, "b" if name == "a" else "a", "echo")
    found = capture.read(packets, source, _facts(connection, name, trips), trips, behind, echoes)
    if found is None:
        return None
    timeline, facts = found
    blind = [] if sure else [_UNSURE]
    if not scaled:
        # A flight that stays the same may be that of a full window, too.
        nothing = np.full_like(timeline.window_bytes, np.nan)
        timeline = replace(timeline, window_bytes=nothing, flat=np.zeros_like(timeline.flat))
        blind.append(_UNSCALED)
    if facts.min_rtt_s <= 0:
        blind.append(_UNTIMED)
    diagnosis = diagnose(timeline, facts, target_bps=target_bps)
    return None if diagnosis is None else replace(diagnosis, blind=(*diagnosis.blind, *blind))


HOST_NS: Final = 100_000
"""A host answers within this time."""
_OPEN_BYTES: Final = 1 << 40
"""A window that is not known is not taken for a full one."""
_UNSURE: Final = Blind(
    "where it was captured", "neither end is recognised; it is taken for a capture at the sender"
)
_UNTIMED: Final = Blind(
    "whether the application, a queue or the congestion window was the limit",
    "no round trip is known: neither the handshake, nor ACKs, nor time stamps show one",
)
_UNSCALED: Final = Blind(
    "whether the receiver's window was full",
    "the handshake is not in the capture, and with it the scale of the windows",
)


def _shown(rows: pl.DataFrame, sender: SideName) -> Source | None:
    """The place, by the least round trips to either end; None if they do not show it.

    For a connection whose beginning was not captured, by the rule of ``crates/trace/src/tcp/place.rs``.
    """
    there = _series(rows, sender, "ack").rtt_ns
    back = _series(rows, "b" if sender == "a" else "a", "echo").rtt_ns
    if len(there) == 0 or len(back) == 0:
        return None
    to_receiver, to_sender = int(there.min()), int(back.min())

    def is_here(here: int, other: int) -> bool:
        return (here <= HOST_NS and here <= other / 2) or here <= other / 20

    if is_here(to_sender, to_receiver):
        return "sender"
    if is_here(to_receiver, to_sender):
        return "receiver"
    return "between" if min(to_receiver, to_sender) > HOST_NS else None


def _again(rows: pl.DataFrame, blocks: pl.DataFrame, sender: SideName) -> NDArray[np.bool_]:
    """Retransmissions, but for probes of the tail that had not been needed, by DSACK (RFC 8985 section 7.4):
    such a probe does not make the congestion window smaller.
    """
    import polars as pl

    meaning = rows["meaning"].cast(str)
    needless = blocks.filter((pl.col("from_side").cast(str) != sender) & (pl.col("duplicate") != 0))
    needless = needless.sort("left")
    again = meaning.is_in(RETRANSMISSIONS).to_numpy()
    if len(needless) == 0:
        return again
    first = rows["seq"].to_numpy()
    behind = first + rows["payload_bytes"].cast(int).to_numpy()
    at = np.searchsorted(needless["left"].to_numpy(), first, side="right") - 1
    reaches = np.maximum.accumulate(needless["right"].to_numpy())
    told = (at >= 0) & (reaches[np.maximum(at, 0)] >= behind)
    return np.asarray(again & ~(told & (meaning == "tail_probe").to_numpy()))


def _tsval(rows: pl.DataFrame) -> NDArray[np.float64]:
    """NaN without the option; series of earlier versions have none."""
    if "tsval" not in rows.columns:
        return np.full(len(rows), np.nan)
    return rows["tsval"].cast(float).fill_null(np.nan).to_numpy()


def _of(frame: pl.LazyFrame, number: int) -> pl.DataFrame:
    import polars as pl

    return frame.filter(pl.col("connection") == number).collect()


def _is_scaled(connection: Connection) -> bool:
    """Whether windows are known as they are."""
    return connection["begin"] == "handshake"


def _to_sender_ns(connection: Connection, sender: SideName) -> int | None:
    """From the point of capture to the sender and back, by the handshake."""
    to_b, to_a = connection["handshake_ns"]
    return to_a if sender == "a" else to_b


def _trips(
    rows: pl.DataFrame, connection: Connection, sender: SideName, source: Source, data_ns: NDArray[np.int64]
) -> tuple[Trips, Trips]:
    """Of the whole path, and from the point of capture to the sender."""
    ours = _series(rows, sender, "ack").least(least_ns(connection, sender))
    nowhere = Trips(np.empty(0, np.int64), np.empty(0, np.int64))
    if source == "sender":
        return ours, nowhere
    at_first = _to_sender_ns(connection, sender)
    echoes = _series(rows, "b" if sender == "a" else "a", "echo")
    behind = echoes.without_pauses(data_ns, at_first)
    if len(behind.time_ns) == 0 and at_first is not None:
        behind = Trips(np.array([connection["first_ns"]]), np.array([at_first]))
    if source == "receiver" or len(ours.time_ns) == 0:
        return behind.least(least_ns(connection, sender)), behind
    late = np.nan_to_num(behind.at(ours.time_ns.astype(np.float64)) * 1e9).astype(np.int64)
    return Trips(ours.time_ns, ours.rtt_ns + late), behind


def _series(rows: pl.DataFrame, name: SideName, method: str) -> Trips:
    import polars as pl

    kept = rows.filter((pl.col("from_side") == name) & (pl.col("method") == method))
    return Trips(kept["time_ns"].to_numpy(), kept["rtt_ns"].to_numpy())


def _facts(connection: Connection, sender: SideName, trips: Trips) -> Facts:
    sent, peer = side(connection, sender), side(connection, "b" if sender == "a" else "a")
    ours, theirs = sent["options"], peer["options"]
    both = ours is not None and theirs is not None
    stamps = bool(ours and theirs and ours["timestamps"] and theirs["timestamps"])
    mss = min((o["mss"] for o in (ours, theirs) if o is not None and o["mss"] is not None), default=0)
    least = [each for each in (least_ns(connection, sender),) if each]
    if len(trips.rtt_ns):
        least.append(int(trips.rtt_ns.min()))
    again = sent["retransmissions"]
    return Facts(
        mss_bytes=max(mss - (capture.TIMESTAMP_BYTES if stamps else 0), 0) if both else 0,
        min_rtt_s=min(least, default=0) / 1e9,
        data_bytes=sent["unique_bytes"],
        segments=sent["data_packets"],
        retransmitted=again["total"] - again["handshake"],
        spurious=again["spurious"],
        reordered=sent["out_of_order"],
        duplicate_acks=peer["duplicate_acks"],
        sack_blocks=peer["sack_blocks"],
        window_scaling=_agreed(connection, "window_scale"),
        sack=_agreed(connection, "sack"),
        timestamps=_agreed(connection, "timestamps"),
        offered_mss_bytes=mss or None,
        refused=_refused(connection, sender),
    )


_OPTIONS: Final = ("window_scale", "sack", "timestamps")


def _refused(connection: Connection, sender: SideName) -> dict[str, str]:
    """By option, who did not offer it: an answer offers only what the first SYN (of ``a``) does."""
    ends = connection["a"]["options"], connection["b"]["options"]
    if ends[0] is None or ends[1] is None:
        return {}
    names = [f"the {'sender' if name == sender else 'receiver'}" for name in ("a", "b")]
    lacking = {option: [not _offers(end, option) for end in ends if end] for option in _OPTIONS}
    return {option: names[each.index(True)] for option, each in lacking.items() if True in each}


def _offers(end: SynOptions, option: str) -> bool:
    # A window scale of 0 is an offer, too.
    offer = dict(end)[option]
    return offer is not None and offer is not False


def _agreed(connection: Connection, option: str) -> bool | None:
    """Whether both ends offered an option; None where a SYN was not captured."""
    offers = [end["options"] for end in (connection["a"], connection["b"])]
    if any(each is None for each in offers):
        return None
    return all(_offers(each, option) for each in offers if each is not None)
