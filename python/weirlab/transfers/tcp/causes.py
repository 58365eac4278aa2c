"""Why watched connections are not faster: diagnosed while they are watched."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from weirlab.cli.options.sockets import shown
from weirlab.trace.quantities import bit_rate, duration, size
from weirlab.transfers.tcp.connections import ConnectionFilter, owner
from weirlab.transfers.tcp.watching import INET_DIAG, ConnectionTally, Samples, WatchSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from weirlab.diagnosis.finding import DiagnosisFinding

    Floats = NDArray[np.float64]

LIVE_S: Final = 10.0
"""The time that a live sentence is about."""
SAID_AGAIN_S: Final = 10
"""Seconds after which lines that stay say the same cause again."""
MOST_ROWS: Final = 60_000
"""Samples of a connection that are kept; the oldest are dropped."""
MOST_ROWS_OF_ALL: Final = 1_000_000
"""Samples of all connections that are kept, some 250 MB: those with most lose their oldest."""
MOST_SHOWN: Final = 3
"""Connections that have a sentence, the busiest first."""


def fields() -> tuple[str, ...]:
    """The kernel's fields that a diagnosis needs."""
    from weirlab.diagnosis import kernel, receiving

    return tuple(dict.fromkeys((*kernel.NEEDED, *kernel.USEFUL, *receiving.FIELDS)))


def watch_settings(target: ConnectionFilter, period_ns: int, duration_s: float | None) -> WatchSettings:
    """A watch of what a diagnosis needs, of connections that there are and of later ones."""
    return WatchSettings(
        target,
        period_ns,
        names=(),
        wait=True,
        duration_s=duration_s,
        # Only this way reports what BBR does.
        by=INET_DIAG,
        others=fields(),
    )


@dataclass(frozen=True)
class ConnectionCause:
    """Why one connection was not faster, in a sentence; ``sends``: this end was the sender."""

    number: int
    connection: Mapping[str, Any]
    sends: bool
    bps: float
    sentence: str
    findings: tuple[DiagnosisFinding, ...]

    @property
    def line(self) -> str:
        process, remote = self.connection["process"], shown(self.connection["remote"])
        who = f"{owner(self.connection['pid'], process)} " if process else ""
        return f"{who}{'to' if self.sends else 'from'} {remote}, {bit_rate(self.bps)}: {self.sentence}"

    def document(self) -> dict[str, Any]:
        return {
            "connection": self.number,
            **{name: self.connection[name] for name in ("local", "remote", "pid", "process", "congestion")},
            "direction": "sent" if self.sends else "received",
            "throughput_bps": self.bps,
            "sentence": self.sentence,
            "findings": [finding.document() for finding in self.findings],
        }


class CauseNews:
    """What of each second's causes is news where lines stay: another cause, or the same for long."""

    def __init__(self) -> None:
        self._said: list[tuple[int, str]] = []
        self._seconds = 0

    def lines(self, found: Sequence[ConnectionCause]) -> list[str]:
        """A line for each connection; none if they say what the lines of the last seconds said."""
        now = [(one.number, one.findings[0].cause.key if one.findings else one.sentence[:8]) for one in found]
        self._seconds = self._seconds + 1 if now == self._said else 0
        self._said = now
        return [one.line for one in found] if self._seconds % SAID_AGAIN_S == 0 else []


@dataclass
class _Kept:
    """Samples of one connection, in the order in which they came."""

    parts: deque[tuple[NDArray[np.int64], dict[str, Floats], float]] = field(default_factory=deque)
    """Times, columns, and the largest receive window of the other end before these."""
    rows: int = 0
    window_bytes: float = 0.0
    """The largest receive window of the other end so far."""

    def take(self, time_ns: NDArray[np.int64], columns: dict[str, Floats]) -> None:
        import numpy as np

        self.parts.append((time_ns, columns, self.window_bytes))
        self.rows += len(time_ns)
        self.window_bytes = float(np.fmax(self.window_bytes, np.fmax.reduce(columns["snd_wnd_bytes"])))
        while self.rows > MOST_ROWS and len(self.parts) > 1:
            self.drop()

    def drop(self) -> None:
        """Forget the oldest part."""
        self.rows -= len(self.parts.popleft()[0])

    def since(self, start_ns: float) -> tuple[Floats, dict[str, Floats], float]:
        """The samples from then on, as one part."""
        import numpy as np

        parts = [part for part in self.parts if part[0][-1] >= start_ns]
        times = np.concatenate([part[0] for part in parts]).astype(np.float64)
        columns = {name: np.concatenate([part[1][name] for part in parts]) for name in parts[0][1]}
        return times, columns, parts[0][2]


class CauseLog:
    """Keeps what a diagnosis needs of each watched connection."""

    def __init__(self) -> None:
        from weirlab.diagnosis import diagnosing  # noqa: F401  Loaded before the samples come.

        self._names = fields()
        self._kept: dict[int, _Kept] = {}
        self._last_ns = 0.0

    def waiting(self) -> None:
        """Nothing to diagnose yet."""

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        import numpy as np

        for number in np.flatnonzero(np.bincount(samples.connection)):
            rows = np.flatnonzero(samples.connection == number)
            columns = {}
            for name in self._names:
                values, there = samples.fields[name]
                columns[name] = np.where(there[rows], values[rows].astype(np.float64), np.nan)
            self._kept.setdefault(int(number), _Kept()).take(samples.time_ns[rows], columns)
        while sum(kept.rows for kept in self._kept.values()) > MOST_ROWS_OF_ALL:
            most = max(self._kept, key=lambda number: self._kept[number].rows)
            self._kept[most].drop()
            if not self._kept[most].parts:
                del self._kept[most]
        if len(samples):
            self._last_ns = float(samples.time_ns.max())

    def causes(self, progress: Mapping[str, Any], last_s: float | None = None) -> list[ConnectionCause]:
        """The busiest connections of the last ``last_s`` (None: of all that is kept), the busiest first.

        Of two ends of one connection on this host, the sending one is diagnosed.
        """
        start_ns = 0.0 if last_s is None else self._last_ns - last_s * 1e9
        connections = progress["connections"]
        recent = {
            number: kept.since(start_ns)
            for number, kept in self._kept.items()
            if kept.parts[-1][0][-1] >= start_ns and (last_s is None or not connections[number]["ended_ns"])
        }
        ends = {(connections[number]["local"], connections[number]["remote"]): number for number in recent}
        found = []
        for number, (_, columns, _) in recent.items():
            one = connections[number]
            partner = ends.get((one["remote"], one["local"]))
            acked, received = (_grown(columns[name]) for name in ("bytes_acked", "bytes_received"))
            sends = acked > received or (acked == received and not columns["rqueue_bytes"][-1] > 0)
            if partner is None or sends:
                far = None if partner is None else recent[partner]
                found.append((max(acked, received), number, sends, far))
        found.sort(key=lambda candidate: -candidate[0])
        return [
            self._cause(number, connections[number], sends, recent[number], far)
            for _, number, sends, far in found[:MOST_SHOWN]
        ]

    def _cause(
        self,
        number: int,
        connection: Mapping[str, Any],
        sends: bool,
        near: tuple[Floats, Mapping[str, Floats], float],
        far: tuple[Floats, Mapping[str, Floats], float] | None,
    ) -> ConnectionCause:
        from weirlab.diagnosis import kernel, receiving
        from weirlab.diagnosis.diagnosing import diagnose
        from weirlab.diagnosis.finding import advice

        times, columns, window_bytes = near
        seconds = (times[-1] - times[0]) / 1e9
        moved = _grown(columns["bytes_acked" if sends else "bytes_received"])
        bps = moved * 8 / seconds if seconds > 0 else float("nan")
        findings: tuple[DiagnosisFinding, ...] = ()
        if not sends:
            findings = receiving.findings(times, columns)
        elif _grown(columns["bytes_sent"]) > 0 or columns["unacked"][-1] > 0:
            receiver = None if far is None else kernel.Receiver(far[0], far[1]["rqueue_bytes"])
            read = kernel.read(
                times,
                columns,
                receiver,
                congestion=connection["congestion"],
                window_bytes=window_bytes,
            )
            diagnosis = None if read is None else diagnose(*read)
            findings = () if diagnosis is None else diagnosis.findings
        first = findings[0] if findings else None
        sentence = f"{first.sentence} {advice(findings)}".rstrip() if first else _silence(columns, seconds)
        if not sends and _is_here(connection):
            sentence += (
                f" The other end is on this host: weir tcp why {shown(connection['remote'])} sees both."
            )
        return ConnectionCause(number, connection, sends, bps, sentence, findings)


def _silence(columns: Mapping[str, Floats], seconds: float) -> str:
    if not seconds > 0:
        return "it was seen only once, which does not say why it was not faster."
    if _grown(columns["bytes_acked"]) + _grown(columns["bytes_received"]) > 0:
        return "too little was transferred to say why it was not faster."
    unread = columns["rqueue_bytes"][-1]
    if unread > 0:
        return (
            f"nothing moved for {duration(seconds * 1e9)}: this end does not read, and {size(unread)} waits."
        )
    if columns["snd_wnd_bytes"][-1] == 0:
        return (
            f"nothing moved for {duration(seconds * 1e9)}: the other end does not read, its window is closed."
        )
    return f"neither end sent anything for {duration(seconds * 1e9)}."


def _is_here(connection: Mapping[str, Any]) -> bool:
    """Whether both ends are on this host."""
    local, remote = (ip_address(connection[end][0]) for end in ("local", "remote"))
    return local == remote or remote.is_loopback


def _grown(values: Floats) -> float:
    import numpy as np

    known = values[np.isfinite(values)]
    return float(known[-1] - known[0]) if len(known) else 0.0
