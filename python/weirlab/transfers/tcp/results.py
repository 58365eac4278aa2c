"""Merges the reports of both ends of a bulk transfer; pure.

Bytes are those that the receiver read, headers of blocks included. The kernel's state is the sender's.
Counters of connections are added up, round-trip times are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from weirlab.diagnosis.finding import TimeShares, mean_shares, time_shares

Direction = Literal["up", "down"]
View = Mapping[str, Any]
"""What an end knows about a connection: ``bytes``, ``blocks``, ``latency``, ``fields``."""


@dataclass(frozen=True)
class BlockLatency:
    """One-way block latency: from before the block was written until its last byte was read, in ns.

    ``p50_ns`` and ``p99_ns`` are the greatest of any connection and report.
    """

    blocks: int
    min_ns: int
    mean_ns: float
    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True)
class Interval:
    """One direction from ``from_s`` to ``to_s`` since the start, by the receiver's clock."""

    direction: Direction
    from_s: float
    to_s: float
    received_bytes: int
    sent_bytes: int
    retransmissions: int | None
    rtt_us: float | None
    cwnd_bytes: int | None
    latency: BlockLatency | None
    connections: tuple[dict[str, Any], ...] = ()
    """By connection: ``connection``, ``received_bytes``, and the requested fields of the sender."""

    @property
    def throughput_bps(self) -> float:
        lasted_s = self.to_s - self.from_s
        return self.received_bytes * 8 / lasted_s if lasted_s > 0 else 0.0


@dataclass(frozen=True)
class DirectionSummary:
    """One direction, or one connection of it, from start to end.

    ``seconds`` is from the start to the last byte, at the end where it is longer. ``rtt_us`` and
    ``cwnd_bytes`` are the least, mean and greatest of the samples at the ends of intervals; the minimum RTT
    is the kernel's own.
    """

    direction: Direction
    received_bytes: int
    sent_bytes: int
    seconds: float
    retransmissions: int | None
    retransmitted_bytes: int | None
    rtt_us: tuple[float, float, float] | None
    cwnd_bytes: tuple[float, float, float] | None
    latency: BlockLatency | None
    shares: TimeShares | None
    failure: str = ""

    @property
    def throughput_bps(self) -> float:
        return self.received_bytes * 8 / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class _EndReport:
    """A report of one end, or several merged."""

    at_ns: int
    flows: Sequence[View]
    latencies: Sequence[Sequence[Mapping[str, int] | None]]
    """By connection."""

    def after(self, before: _EndReport | None) -> _EndReport:
        """This report, merged with earlier ones that are not in an interval yet."""
        if before is None:
            return self
        both = zip(before.latencies, self.latencies, strict=True)
        return replace(self, latencies=[(*one, *other) for one, other in both])


@dataclass
class Merger:
    """Takes the reports of both ends, and yields an interval when both have reported something new.

    ``ups``: for each connection, whether the client sends. ``names`` are the fields to keep.
    """

    ups: Sequence[bool]
    names: Sequence[str] = ()
    _fresh: dict[bool, _EndReport] = field(default_factory=dict)
    _told: dict[bool, _EndReport] = field(default_factory=dict)
    _samples: list[list[Mapping[str, int]]] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> Iterator[Interval]:
        """Take an event ``interval`` of the client; yield the intervals that are complete now."""
        end, flows = bool(event["of_server"]), event["flows"]
        report = _EndReport(event["at_ns"], flows, [[flow["latency"]] for flow in flows])
        self._fresh[end] = report.after(self._fresh.get(end))
        if len(self._fresh) == 2:
            yield from self._tell(self._fresh[False], self._fresh[True])

    def rest(self) -> Iterator[Interval]:
        """Yield what only one end has reported, when no more reports will come."""
        ends = {**self._silent(), **self._fresh}
        if self._fresh and len(ends) == 2:
            yield from self._tell(ends[False], ends[True])

    def summary(self, done: Mapping[str, Any]) -> tuple[list[DirectionSummary], list[DirectionSummary]]:
        """The summaries of each direction and of each connection, from an event ``done``."""
        each = [self._connection(number, up, done) for number, up in enumerate(self.ups)]
        return [_together(d, [one for one in each if one.direction == d]) for d in directions(self.ups)], each

    def _silent(self) -> dict[bool, _EndReport]:
        """The last state of both ends, without anything new."""
        return {end: replace(half, latencies=[() for _ in self.ups]) for end, half in self._told.items()}

    def _tell(self, client: _EndReport, server: _EndReport) -> Iterator[Interval]:
        if not self._samples:
            self._samples = [[] for _ in self.ups]
        for number, up in enumerate(self.ups):
            ends = (client, server) if up else (server, client)
            self._samples[number].append(_of_sender(*ends, number))
        for direction in directions(self.ups):
            yield self._interval(direction, client, server)
        self._told, self._fresh = {False: client, True: server}, {}

    def _interval(self, direction: Direction, client: _EndReport, server: _EndReport) -> Interval:
        up = direction == "up"
        sender, receiver = (client, server) if up else (server, client)
        sent_before, received_before = self._told.get(not up), self._told.get(up)
        numbers = [number for number, each in enumerate(self.ups) if each == up]
        rows = []
        for number in numbers:
            now = sender.flows[number]["fields"]
            rows.append(
                {
                    "connection": number,
                    "received_bytes": _grown(receiver, received_before, number),
                    **{name: now[name] for name in self.names if name in now},
                }
            )
        fields = [_of_sender(sender, receiver, number) for number in numbers]
        retransmitted = [
            each["total_retrans"]
            - (sent_before.flows[number]["fields"].get("total_retrans", 0) if sent_before else 0)
            for number, each in zip(numbers, fields, strict=True)
            if "total_retrans" in each
        ]
        return Interval(
            direction=direction,
            from_s=received_before.at_ns / 1e9 if received_before else 0.0,
            to_s=receiver.at_ns / 1e9,
            received_bytes=sum(row["received_bytes"] for row in rows),
            sent_bytes=sum(_grown(sender, sent_before, number) for number in numbers),
            retransmissions=sum(retransmitted) if retransmitted else None,
            rtt_us=_mean([each["rtt_us"] for each in fields if each.get("rtt_us")]),
            cwnd_bytes=sum(filter(None, map(_cwnd_bytes, fields))) or None,
            latency=_latency([each for number in numbers for each in receiver.latencies[number]]),
            connections=tuple(rows),
        )

    def _connection(self, number: int, up: bool, done: Mapping[str, Any]) -> DirectionSummary:
        sender, receiver = ("client", "server") if up else ("server", "client")
        sent, received = done[sender][number], done[receiver][number]
        fields: Mapping[str, int] = sent["fields"]
        samples = [*(self._samples[number] if self._samples else []), fields]
        rtts = [sample["rtt_us"] for sample in samples if sample.get("rtt_us")]
        least = fields.get("min_rtt_us") or (min(rtts) if rtts else 0)
        windows = [cwnd for sample in samples if (cwnd := _cwnd_bytes(sample))]
        written_ns, read_ns = sent["last_ns"] or 0, received["last_ns"] or 0
        failures = [f"{end}: {view['failure']}" for end, view in ((sender, sent), (receiver, received))]
        return DirectionSummary(
            direction="up" if up else "down",
            received_bytes=received["bytes"],
            sent_bytes=sent["bytes"],
            seconds=max(written_ns, read_ns) / 1e9,
            retransmissions=fields.get("total_retrans"),
            retransmitted_bytes=fields.get("bytes_retrans"),
            rtt_us=(float(least), sum(rtts) / len(rtts), float(max(rtts))) if rtts else None,
            cwnd_bytes=(min(windows), sum(windows) / len(windows), max(windows)) if windows else None,
            latency=_latency([received["latency"]]),
            shares=time_shares(fields, written_ns / 1e3),
            failure="; ".join(failure for failure in failures if not failure.endswith(": ")),
        )


def directions(ups: Sequence[bool]) -> list[Direction]:
    """The directions that have connections."""
    found: list[Direction] = []
    if any(ups):
        found.append("up")
    if not all(ups):
        found.append("down")
    return found


def _together(direction: Direction, parts: Sequence[DirectionSummary]) -> DirectionSummary:
    """All connections of a direction."""
    rtts = [part.rtt_us for part in parts if part.rtt_us]
    windows = [part.cwnd_bytes for part in parts if part.cwnd_bytes]
    told = [part.latency for part in parts if part.latency]
    retransmissions = [part.retransmissions for part in parts if part.retransmissions is not None]
    repeated = [part.retransmitted_bytes for part in parts if part.retransmitted_bytes is not None]
    return replace(
        parts[0],
        direction=direction,
        received_bytes=sum(part.received_bytes for part in parts),
        sent_bytes=sum(part.sent_bytes for part in parts),
        seconds=max(part.seconds for part in parts),
        retransmissions=sum(retransmissions) if retransmissions else None,
        retransmitted_bytes=sum(repeated) if repeated else None,
        rtt_us=(
            min(least for least, _, _ in rtts),
            sum(mean for _, mean, _ in rtts) / len(rtts),
            max(most for _, _, most in rtts),
        )
        if rtts
        else None,
        cwnd_bytes=(
            min(least for least, _, _ in windows),
            sum(mean for _, mean, _ in windows) / len(windows),
            max(most for _, _, most in windows),
        )
        if windows
        else None,
        latency=joined_latency(told),
        shares=mean_shares([part.shares for part in parts if part.shares]),
        failure="; ".join(part.failure for part in parts if part.failure),
    )


def _of_sender(sender: _EndReport, receiver: _EndReport, number: int) -> Mapping[str, int]:
    """The fields of the sender; if its kernel reports nothing (ndt7), the round trips of the receiver."""
    if fields := sender.flows[number]["fields"]:
        return dict(fields)
    found = receiver.flows[number]["fields"]
    return {name: found[name] for name in ("rtt_us", "min_rtt_us") if name in found}


def _grown(now: _EndReport, before: _EndReport | None, number: int) -> int:
    return int(now.flows[number]["bytes"]) - (int(before.flows[number]["bytes"]) if before else 0)


def _cwnd_bytes(fields: Mapping[str, int]) -> int | None:
    if "snd_cwnd" not in fields or "snd_mss_bytes" not in fields:
        return None
    return fields["snd_cwnd"] * fields["snd_mss_bytes"]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _latency(told: Sequence[Mapping[str, int] | None]) -> BlockLatency | None:
    return joined_latency([BlockLatency(**each) for each in told if each is not None and each["blocks"]])


def joined_latency(parts: Sequence[BlockLatency]) -> BlockLatency | None:
    """The latency of all blocks; None if there are none."""
    if not parts:
        return None
    blocks = sum(part.blocks for part in parts)
    return BlockLatency(
        blocks=blocks,
        min_ns=min(part.min_ns for part in parts),
        mean_ns=sum(part.mean_ns * part.blocks for part in parts) / blocks,
        p50_ns=max(part.p50_ns for part in parts),
        p99_ns=max(part.p99_ns for part in parts),
        max_ns=max(part.max_ns for part in parts),
    )
