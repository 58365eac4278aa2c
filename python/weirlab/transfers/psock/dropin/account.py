"""What became of connections that were carried, and what is shown of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab.base.quantities import NOTHING
from weirlab.base.tables import Table
from weirlab.cli.options.sockets import shown
from weirlab.trace.quantities import count, duration, percent, plural, size, words
from weirlab.transfers.psock.tables import plain_session

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


def sentence(account: RelayTotals, what: str) -> str:
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


def tables(account: RelayTotals) -> list[Table]:
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


def document(account: RelayTotals) -> dict[str, Any]:
    """For JSON."""
    paths = [
        {"local": local, "remote": remote, **vars(path)} for (local, remote), path in account.paths.items()
    ]
    return {**vars(account), "paths": paths, "last": [_plain(each) for each in account.last]}


def _plain(each: Mapping[str, Any]) -> dict[str, Any]:
    session = plain_session(each["session"]) if each["session"] else None
    to = shown(each["to"]) if each["to"] else None
    return {**each, "peer": shown(each["peer"]), "to": to, "session": session}
