"""What ``weir psock`` shows: sentences, tables, and the documents of its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab.base.quantities import NOTHING
from weirlab.base.tables import Table
from weirlab.cli.options.sockets import shown
from weirlab.trace.quantities import bit_rate, count, duration, percent, plural, size, words
from weirlab.transfers.psock.copying import CopyResult, ExchangeResult, ReceiverTotals


def sent(copied: CopyResult) -> str:
    """The result of ``weir psock send``."""
    streams = copied.report["streams"]
    if copied.report["plain"]:
        return (
            f"{size(copied.data_bytes)} in {duration(copied.seconds * 1e9)}: "
            f"{bit_rate(copied.throughput_bps)} over plain TCP, since the receiver does not speak psock. Its "
            "TCP has everything; what its program did with it is not known."
        )
    text = (
        f"{size(copied.data_bytes)} in {duration(copied.seconds * 1e9)} over "
        f"{plural(len(streams), 'stream')}: {bit_rate(copied.throughput_bps)} with the scheduler "
        f"{copied.report['scheduler']}."
    )
    if again := copied.report["resent_bytes"]:
        text += f" {size(again)} were sent again over another stream."
    if ended := sum(bool(stream["ended"]) for stream in streams):
        text += f" {plural(ended, 'stream')} ended early."
    if copied.account is None:
        return f"{text} The receiver has everything; it sent no account."
    peak = copied.account.reorder_peak_bytes
    return f"{text} Reorder memory at the receiver: {size(peak) if peak else 'none'}."


def streams(copied: CopyResult) -> Table:
    """The streams of a session."""
    total = sum(stream["sent_bytes"] for stream in copied.report["streams"])
    columns = ("Local", "Remote", "Sent", "Share", "Sent again", "Retransmitted", "RTT", "State")
    rows = [
        [
            shown(stream["local"]),
            shown(stream["remote"]),
            size(stream["sent_bytes"]),
            percent(stream["sent_bytes"] / total) if total else NOTHING,
            size(stream["resent_bytes"]),
            count(stream["retransmitted_segments"]),
            duration(stream["rtt_ns"] or None),
            stream["ended"] or "up",
        ]
        for stream in copied.report["streams"]
    ]
    return Table("Streams", columns, rows, ("Remote", "Sent again", "RTT", "Share", "State"))


def served(account: ReceiverTotals) -> str:
    """The result of ``weir psock serve``."""
    parts = [f"{plural(account.transfers, 'session')}, {size(account.received_bytes)} received"]
    if account.broken_off:
        parts.append(f"{account.broken_off} broken off")
    if account.strangers:
        parts.append(f"{plural(account.strangers, 'other connection')} rejected")
    return f"{words(parts)}."


def document(copied: CopyResult) -> dict[str, Any]:
    """A session for JSON."""
    account = copied.account
    return {
        "peer": copied.peer,
        "data_bytes": copied.data_bytes,
        "seconds": copied.seconds,
        "throughput_bps": copied.throughput_bps,
        "sha256": copied.sha256,
        **plain_session(copied.report),
        "receiver": None if account is None else vars(account),
        "failure": copied.failure,
    }


def served_document(account: ReceiverTotals) -> dict[str, Any]:
    """The result of ``weir psock serve`` for JSON."""
    return {"kind": "psock serve", **vars(account), "sessions": list(map(document, account.sessions))}


def exchanged(found: ExchangeResult) -> str:
    """The result of ``weir psock cat``."""
    return (
        f"{size(found.sent_bytes)} sent and {size(found.received_bytes)} received in "
        f"{duration(found.seconds * 1e9)}."
    )


def exchange_document(found: ExchangeResult) -> dict[str, Any]:
    """The result of ``weir psock cat`` for JSON."""
    return {"kind": "psock cat", **vars(found), "report": plain_session(found.report)}


def plain_session(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a session for JSON."""
    return {
        **report,
        "streams": [
            {**stream, "local": shown(stream["local"]), "remote": shown(stream["remote"])}
            for stream in report["streams"]
        ],
    }


KEPT: Final = 100
"""Connections of which an account keeps everything."""


@dataclass
class Path:
    """What went over the streams between two addresses; ``sent`` is away from this end."""

    sent_bytes: int = 0
    received_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.sent_bytes + self.received_bytes


@dataclass
class RelayTotals:
    """Connections that have ended. ``sent`` is what programs sent, ``received`` what they received."""

    connections: int = 0
    failed: int = 0
    direct: int = 0
    reset: int = 0
    strangers: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    paths: dict[tuple[str, str], Path] = field(default_factory=dict)
    last: list[Mapping[str, Any]] = field(default_factory=list)

    def take(self, ended: Iterable[Mapping[str, Any]]) -> list[str]:
        """Count connections; of those that failed, why."""
        problems = []
        for each in ended:
            self.connections += 1
            self.failed += bool(each["failure"])
            self.direct += each["direct"]
            self.reset += each["reset"]
            self.sent_bytes += each["sent_bytes"]
            self.received_bytes += each["received_bytes"]
            for stream in each["session"]["streams"] if each["session"] else ():
                path = self.paths.setdefault((stream["local"][0], stream["remote"][0]), Path())
                path.sent_bytes += stream["sent_bytes"]
                path.received_bytes += stream["received_bytes"]
            if each["failure"]:
                problems.append(f"{destination(each)}: {each['failure']}")
            self.last = [*self.last, each][-KEPT:]
        return problems


def destination(each: Mapping[str, Any]) -> str:
    """Where a connection was to go."""
    return shown(each["to"]) if each["to"] else f"session of {shown(each['peer'])}"


def relayed(account: RelayTotals, what: str) -> str:
    """The account in a line; ``what`` is ``connection`` or ``session``."""
    parts = [
        plural(account.connections, what),
        f"{size(account.sent_bytes)} sent",
        f"{size(account.received_bytes)} received",
    ]
    if account.direct:
        parts.append(f"{account.direct} by plain TCP")
    if account.reset:
        parts.append(f"{account.reset} reset by an end")
    if account.failed:
        parts.append(f"{account.failed} failed")
    if account.strangers:
        parts.append(f"{plural(account.strangers, 'stranger')} sent away")
    return f"{words(parts)}."


def relayed_tables(account: RelayTotals) -> list[Table]:
    """The paths, and the last connections."""
    total = sum(path.total_bytes for path in account.paths.values())
    paths = [
        [
            local,
            remote,
            size(path.sent_bytes),
            size(path.received_bytes),
            percent(path.total_bytes / total) if total else NOTHING,
        ]
        for (local, remote), path in account.paths.items()
    ]
    connections = [
        [
            destination(each),
            size(each["sent_bytes"]),
            size(each["received_bytes"]),
            duration(each["seconds"] * 1e9),
            count(len(each["session"]["streams"])) if each["session"] else NOTHING,
            each["failure"] or ("reset" if each["reset"] else "plain TCP" if each["direct"] else "done"),
        ]
        for each in account.last
    ]
    headings = ("Destination", "Sent", "Received", "Time", "Streams", "End")
    found = [Table("Connections", headings, connections)]
    if paths:
        found.insert(0, Table("Paths", ("Local", "Remote", "Sent", "Received", "Share"), paths))
    return found


def relayed_document(account: RelayTotals) -> dict[str, Any]:
    """For JSON."""
    paths = [
        {"local": local, "remote": remote, **vars(path)} for (local, remote), path in account.paths.items()
    ]
    return {**vars(account), "paths": paths, "last": [_plain_relay(each) for each in account.last]}


def _plain_relay(each: Mapping[str, Any]) -> dict[str, Any]:
    session = plain_session(each["session"]) if each["session"] else None
    to = shown(each["to"]) if each["to"] else None
    return {**each, "peer": shown(each["peer"]), "to": to, "session": session}
