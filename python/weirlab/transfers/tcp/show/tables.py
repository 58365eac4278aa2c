"""The output of ``weir tcp``: tables, sentences, and the documents of its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weirlab.base.quantities import NOTHING, duration
from weirlab.base.tables import Table
from weirlab.cli.options.sockets import shown
from weirlab.diagnosis.finding import CAUTION, TimeShares
from weirlab.trace.quantities import bit_rate, count, octets, percent, plural, size, words
from weirlab.transfers.tcp.connections import TcpInfoField, TcpSocket, owner
from weirlab.transfers.tcp.ends import ServerTotals, TransferOutcome
from weirlab.transfers.tcp.results import DirectionSummary, Interval
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.transfers.tcp.watching import BPF, INET_DIAG, RetransmissionLog, WatchOutcome, WatchSettings

if TYPE_CHECKING:
    from weirlab.transfers.tcp.causes import ConnectionCause

WAYS_IN_WORDS = {BPF: " by BPF", INET_DIAG: " by INET_DIAG"}
"""How connections are sampled, as text after the number of samples; events have none."""

_WAYS = {"up": "up (to the server)", "down": "down (from the server)"}


def connections(found: Sequence[TcpSocket]) -> Table:
    """``weir tcp list``."""
    columns = ("Local", "Remote", "State", "Process", "RTT", "cwnd", "Send queue", "Recv queue", "Control")
    rows = [
        [
            shown(each.local),
            shown(each.remote),
            each.state,
            owner(each.pid, each.process),
            _us(each.fields.get("rtt_us")),
            count(each.fields["snd_cwnd"]) if each.fields.get("snd_cwnd") else NOTHING,
            size(each.fields.get("wqueue_bytes", 0)),
            size(each.fields.get("rqueue_bytes", 0)),
            each.congestion or NOTHING,
        ]
        for each in found
    ]
    spare = ("Control", "Recv queue", "Send queue", "cwnd", "Process")
    return Table("TCP connections", columns, rows, spare)


def counted(found: Sequence[TcpSocket], everything: int) -> str:
    rest = everything - len(found)
    others = f"; {plural(rest, 'other socket')} not shown" if rest else ""
    return f"{plural(len(found), 'connection')}{others}."


def fields(known: Sequence[TcpInfoField]) -> Table:
    """``weir tcp watch --list-fields``."""
    rows = [[each.name, each.unit or NOTHING, each.since, each.about] for each in known]
    return Table("Fields of the kernel", ("Field", "Unit", "Since Linux", "What it is"), rows)


def send_begun(event: Mapping[str, Any]) -> str:
    """The first line of ``weir tcp send``."""
    made = event["connections"]
    remote = shown(made[0]["remote"])
    clock = "" if event["same_clock"] else "; no block latency, as the clocks of the two hosts differ"
    control = made[0]["congestion"] or "not known"
    return f"{plural(len(made), 'connection')} with {remote}, congestion control {control}{clock}"


def interval_line(interval: Interval) -> str:
    """A line of ``weir tcp send``."""
    window = size(interval.cwnd_bytes)
    again = count(interval.retransmissions)
    parts = [
        f"{interval.from_s:7.2f} - {interval.to_s:7.2f} s",
        f"{interval.direction:4}",
        f"{bit_rate(interval.throughput_bps):>12}",
        f"retransmitted {again:>5}",
        f"RTT {_us(interval.rtt_us):>8}",
        f"cwnd {window:>8}",
    ]
    if interval.latency is not None:
        parts.append(f"latency {duration(interval.latency.mean_ns):>8}")
    return "  ".join(parts)


def sent(outcome: TransferOutcome) -> list[Table]:
    """The result of ``weir tcp send``."""
    columns = [
        "", "Received", "Throughput", "Retransmitted", "RTT min / mean / max", "Mean cwnd",
        "Latency p50 / p99",
    ]  # fmt: skip
    rows = [_sent_row(_WAYS[direction.direction], direction) for direction in outcome.directions]
    if len(outcome.connections) > len(outcome.directions):
        made = outcome.started["connections"]
        rows += [
            _sent_row(f"{each.direction} {shown(one['local'])}", each)
            for each, one in zip(outcome.connections, made, strict=True)
        ]
    spare = ("Latency p50 / p99", "Mean cwnd", "RTT min / mean / max")
    tables = [Table("Transfer", columns, rows, spare)]
    told = [(direction.direction, direction.shares) for direction in outcome.directions if direction.shares]
    if told:
        tables.append(shares_table(told))
    return tables


def shares_table(rows: Sequence[tuple[str, TimeShares]]) -> Table:
    """Where the time went."""
    columns = ("", "Nothing to send", "Receiver", "Send buffer", "Network")
    cells = [
        [name, *map(percent, (each.application, each.receiver, each.send_buffer, each.network))]
        for name, each in rows
    ]
    return Table("Where the time went", columns, cells)


def _sent_row(name: str, each: DirectionSummary) -> list[str]:
    again = count(each.retransmissions)
    if each.retransmissions and each.retransmitted_bytes and each.sent_bytes:
        again += f" ({percent(each.retransmitted_bytes / (each.sent_bytes + each.retransmitted_bytes))})"
    latency = each.latency
    return [
        name,
        size(each.received_bytes),
        bit_rate(each.throughput_bps),
        again,
        NOTHING if each.rtt_us is None else " / ".join(map(_us, each.rtt_us)),
        NOTHING if each.cwnd_bytes is None else size(each.cwnd_bytes[1]),
        NOTHING if latency is None else f"{duration(latency.p50_ns)} / {duration(latency.p99_ns)}",
    ]


def send_conclusion(outcome: TransferOutcome) -> str:
    """The result of ``weir tcp send`` in sentences."""
    numbers = Counter(connection.direction for connection in outcome.connections)
    sentences = [
        direction_sentence(direction, numbers[direction.direction]) for direction in outcome.directions
    ]
    if any(direction.shares for direction in outcome.directions):
        sentences.append(CAUTION)
    if outcome.interrupted:
        sentences.append("The transfer was interrupted: the numbers cover the time until then.")
    return " ".join(sentences)


def direction_sentence(each: DirectionSummary, connections: int) -> str:
    """How fast one direction was, over this number of connections."""
    again = (
        "" if each.retransmissions is None else f"; retransmitted: {plural(each.retransmissions, 'segment')}"
    )
    way = "To the server" if each.direction == "up" else "From the server"
    return (
        f"{way}: {bit_rate(each.throughput_bps)}, {size(each.received_bytes)} in "
        f"{duration(each.seconds * 1e9)} over {plural(connections, 'connection')}{again}."
    )


def send_document(outcome: TransferOutcome, settings: TransferSettings) -> dict[str, Any]:
    """The result of ``weir tcp send`` for JSON."""
    made = outcome.started["connections"]
    return {
        "kind": "tcp send",
        "host": settings.host,
        "port": settings.port,
        "same_clock": outcome.started["same_clock"],
        "since_1970_ns": outcome.started["since_1970_ns"],
        "block_bytes": settings.block_bytes,
        "interrupted": outcome.interrupted,
        "absent_fields": outcome.absent,
        "directions": [summary_document(direction) for direction in outcome.directions],
        "connections": [
            {**one, **summary_document(each)} for one, each in zip(made, outcome.connections, strict=True)
        ],
    }


def summary_document(each: DirectionSummary) -> dict[str, Any]:
    return {**vars(each), "throughput_bps": each.throughput_bps}


def server_event(event: Mapping[str, Any]) -> str:
    """A line about an event of ``weir tcp serve``."""
    address, port = event["peer"]
    peer = address if port is None else shown((address, port))
    match event["event"]:
        case "began":
            # If there is another server, this one is the client.
            far = event["with"]
            named = ("from here", "to here") if far else ("to here", "from here")
            ways = [
                f"{event[way]} {word}" for way, word in zip(("up", "down"), named, strict=True) if event[way]
            ]
            between = f" with {far}" if far else ""
            return f"{peer}: transfer {event['number']}{between} begins, connections: {words(ways)}"
        case "ended":
            moved = [
                f"{octets(event[key])} {word}"
                for key, word in (("received_bytes", "received"), ("sent_bytes", "sent"))
                if event[key]
            ]
            how = f"broke off ({event['failure']})" if event["failure"] else "ended"
            lasted = duration(event["lasted_ns"])
            return f"{peer}: transfer {event['number']} {how} after {lasted}, {words(moved) or 'no bytes'}"
        case "recorded" if event["why_not"] is not None:
            return f"{peer}: transfer {event['number']} was not recorded: {event['why_not']}"
        case "recorded":
            packets = plural(event["packets"], "packet")
            return f"{peer}: transfer {event['number']} recorded on {event['interface']}: {packets}"
        case "refused":
            return f"{peer}: refused: {event['why']}"
        case _:
            return f"{peer}: not a Weir client: {event['why']}; reported once for this address"


def server_conclusion(account: ServerTotals) -> str:
    """The account of ``weir tcp serve`` in a sentence."""
    broken = f", {account.broken_off:,} of them broke off" if account.broken_off else ""
    refused = f"; {plural(account.refused, 'client')} refused" if account.refused else ""
    strangers = (
        f"; garbage from {plural(account.strangers, 'address', 'addresses')}" if account.strangers else ""
    )
    return (
        f"{plural(account.transfers, 'transfer')}{broken}: {size(account.received_bytes)} received, "
        f"{size(account.sent_bytes)} sent{refused}{strangers}."
    )


def watched(outcome: WatchOutcome, *, events: bool = False) -> list[Table]:
    """The result of ``weir tcp watch``."""
    counted = "Events" if events else "Samples"
    columns = [
        "Local", "Remote", "Process", counted, "Idle", "Missed", "Acknowledged", "Received", "Retransmitted",
        "RTT min / mean / max",
    ]  # fmt: skip
    both = list(zip(outcome.progress["connections"], outcome.tallies, strict=True))
    rows = [
        [
            shown(one["local"]),
            shown(one["remote"]),
            owner(one["pid"], one["process"]),
            count(one["samples"]),
            count(one["idle"]) if outcome.by == BPF else NOTHING,
            # The connection of a lost event is not known.
            NOTHING if events else count(one["missed"]),
            size(tally.grown("bytes_acked")),
            size(tally.grown("bytes_received")),
            count(tally.grown("total_retrans")),
            NOTHING
            if not tally.rtt_count
            else " / ".join(
                map(_us, (tally.rtt_least_us, tally.rtt_sum_us / tally.rtt_count, tally.rtt_most_us))
            ),
        ]
        for one, tally in both
    ]
    spare = ("RTT min / mean / max", "Idle", "Missed", counted, "Process")
    tables = [Table("Connections", columns, rows, spare)]
    # An end that sends nothing is not held up by anything.
    told = [
        (f"{shown(one['local'])} to {shown(one['remote'])}", parts)
        for one, tally in both
        if (tally.grown("bytes_acked") or 0) > 0 and (parts := tally.shares)
    ]
    if told:
        tables.append(shares_table(told))
    return tables


def watch_conclusion(
    outcome: WatchOutcome, settings: WatchSettings, causes: Sequence[ConnectionCause] = ()
) -> str:
    """The result of ``weir tcp watch`` in sentences: the causes first, how it was sampled last."""
    made, late = outcome.progress["connections"], outcome.progress["lateness"]
    if not made:
        return "No connection appeared."
    begun = sum(tally.from_the_beginning for tally in outcome.tallies)
    ended = sum(each["ended_ns"] is not None for each in made)
    left_out = outcome.progress["left_out"]
    sentences = [
        *(cause.line for cause in causes),
        f"{plural(len(made), 'connection')}; {count(begun)} watched from before the first data, "
        f"{count(ended)} until they ended.",
    ]
    if settings.period_ns is None:
        sentences.append(
            f"{plural(outcome.samples, 'event')}, {count(outcome.missed)} lost for lack of room."
        )
    else:
        idle = f", {count(outcome.idle)} due while nothing happened" if outcome.by == BPF else ""
        sentences.append(
            f"{plural(outcome.samples, 'sample')} every {duration(settings.period_ns)}"
            f"{WAYS_IN_WORDS[outcome.by]}, "
            f"{count(outcome.missed)} missed{idle}; late by {duration(late['mean_ns'])} on average, "
            f"{duration(late['p99_ns'])} at p99, {duration(late['max_ns'])} at most."
        )
    if outcome.why_not:
        sentences.append(f"INET_DIAG, which takes the connections' locks, was used: {outcome.why_not}.")
    if left_out:
        sentences.append(f"{plural(left_out, 'more connection')} left out.")
    if any(tally.shares for tally in outcome.tallies):
        sentences.append(CAUTION)
    return " ".join(sentences)


def retransmissions(again: RetransmissionLog) -> Table:
    """The retransmitted segments of ``weir tcp watch --events``."""
    columns = ("Time (s)", "Connection", "Sequence number", "Bytes", "Congestion state", "cwnd", "RTT")
    rows = [
        [
            f"{each.at_s:.6f}", each.connection, str(each.seq), count(each.length), each.congestion,
            count(each.cwnd), _us(each.rtt_us),
        ]
        for each in again.kept
    ]  # fmt: skip
    more = again.count - len(again.kept)
    others = f"; {plural(more, 'more')} not shown" if more else ""
    return Table(f"Retransmitted{others}", columns, rows, ("RTT", "cwnd", "Congestion state"))


def watch_document(
    outcome: WatchOutcome,
    settings: WatchSettings,
    asked: str,
    out: Path | None,
    causes: Sequence[ConnectionCause] = (),
) -> dict[str, Any]:
    """The result of ``weir tcp watch`` for JSON; with events there is no period, and nothing is late."""
    return {
        "kind": "tcp watch",
        "connection": asked,
        "causes": [cause.document() for cause in causes],
        "by": "events" if settings.by_events else "samples",
        "sampled_by": None if settings.by_events else outcome.by,
        "why_not_bpf": outcome.why_not or None,
        "period_ns": settings.period_ns,
        "samples": outcome.samples,
        "missed": outcome.missed,
        "idle": None if settings.by_events else outcome.idle,
        "left_out": outcome.progress["left_out"],
        "lateness": None if settings.by_events else outcome.progress["lateness"],
        "absent_fields": outcome.absent,
        "out": out,
        "connections": [
            {**one, **({"missed": None, "idle": None} if settings.by_events else {}), **tally.document()}
            for one, tally in zip(outcome.progress["connections"], outcome.tallies, strict=True)
        ],
    }


def _us(value: float | None) -> str:
    return NOTHING if not value else duration(value * 1e3)
