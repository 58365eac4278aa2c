"""Watches connections of this host: sampled by BPF or ``INET_DIAG``, or event by event."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from weirlab.base.errors import InputError, LabError
from weirlab.cli.options.sockets import shown
from weirlab.diagnosis.finding import COUNTERS, TimeShares, time_shares
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp.connections import ConnectionFilter, event_fields, only_by_inet_diag

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from weirlab._engine import TcpEvents, TcpWatcher

    Column = tuple[NDArray[np.uint64], NDArray[np.bool_]]
    """Values, and where there are any."""

SHORTEST_NS: Final = 10_000
"""Shortest period: the kernel does not answer faster for one connection."""
TAKE_S: Final = 0.25
"""How often samples are fetched from the engine: each fetch takes time from the watched connections."""
TAKE_EVENTS_S: Final = 0.1
"""The same for events, whose number is not known in advance."""
TAKE_ROWS: Final = 20_000
"""Most samples that are left with the engine, which keeps 65,536."""
BPF: Final = "bpf"
INET_DIAG: Final = "inet-diag"
AUTO: Final = "auto"
"""By BPF if that works."""
WAYS: Final = (AUTO, BPF, INET_DIAG)
"""How connections are sampled."""
MOST_WATCHED: Final = 1024
"""``weir_tcp::watch::MOST_CONNECTIONS``."""

_COUNTED: Final = (
    "bytes_acked", "bytes_received", "bytes_sent", "total_retrans", "data_segs_in", "data_segs_out",
    *COUNTERS,
)  # fmt: skip
_BEGUN: Final = "data_segs_in"
"""Reported as soon as the kernel reports any of a connection's numbers."""
NEEDED: Final = ("state", "rtt_us", "min_rtt_us", "snd_cwnd", "snd_mss_bytes", *_COUNTED)
"""Fields that the result is computed from, whether they are shown or not."""
EVENTS_NEEDED: Final = ("seq", "end_seq", "ca_state")
"""The same for a watch by events, which finds retransmissions."""


@dataclass(frozen=True)
class WatchSettings:
    """What is watched: these fields of each connection, every ``period_ns``; None: at every event.

    ``by`` is one of :data:`WAYS`. ``insists``: the fields were named one by one, so a way that lacks any of
    them is not chosen automatically.
    """

    target: ConnectionFilter
    period_ns: int | None
    names: tuple[str, ...]
    wait: bool = False
    duration_s: float | None = None
    by: str = AUTO
    insists: bool = False
    others: tuple[str, ...] = ()
    """Fields that observers need, and nobody wants to see."""

    @property
    def only_by_inet_diag(self) -> tuple[str, ...]:
        """Fields because of which connections are not sampled by BPF."""
        return only_by_inet_diag(self.names) if self.by == AUTO and self.insists else ()

    @property
    def by_events(self) -> bool:
        return self.period_ns is None


@dataclass(frozen=True)
class Samples:
    """What arrived since the last fetch: columns of one length."""

    connection: NDArray[np.uint32]
    time_ns: NDArray[np.int64]
    """Since 1970."""
    fields: Mapping[str, Column]
    kind: NDArray[np.uint8] | None = None
    """The kind of each event, as its index in ``tcp_event_kinds()``; None for samples."""

    def __len__(self) -> int:
        return len(self.time_ns)

    def events(self) -> list[str]:
        """What happened in each row; empty for samples."""
        from weirlab._engine import tcp_event_kinds

        kinds = tcp_event_kinds()
        return [] if self.kind is None else [kinds[number] for number in self.kind]


@dataclass
class ConnectionTally:
    """What the samples of one connection show so far; ``first`` and ``last`` hold values of counters."""

    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    first_ns: int = 0
    last_ns: int = 0
    rtt_count: int = 0
    rtt_sum_us: float = 0.0
    rtt_least_us: int = 0
    rtt_most_us: int = 0

    def take(self, samples: Samples, rows: NDArray[np.int64]) -> None:
        """Add the rows of this connection."""

        def values(row: int) -> dict[str, int]:
            return {
                name: int(numbers[row])
                for name, (numbers, there) in samples.fields.items()
                if name in NEEDED and there[row]
            }

        self.first_ns = self.first_ns or int(samples.time_ns[rows[0]])
        # Until the handshake is over, the kernel reports little.
        for row in () if _BEGUN in self.first else rows:
            self.first = {**values(row), **self.first}
            if _BEGUN in self.first:
                break
        self.last, self.last_ns = {**self.last, **values(rows[-1])}, int(samples.time_ns[rows[-1]])
        numbers, there = samples.fields["rtt_us"]
        rtts = numbers[rows][there[rows] & (numbers[rows] > 0)]
        if len(rtts):
            least = int(rtts.min())
            self.rtt_least_us = min(self.rtt_least_us, least) if self.rtt_count else least
            self.rtt_most_us = max(self.rtt_most_us, int(rtts.max()))
            self.rtt_count += len(rtts)
            self.rtt_sum_us += float(rtts.sum())

    def grown(self, name: str) -> int | None:
        """The growth of a counter from the first to the last sample; None if the kernel lacks it."""
        return self.last[name] - self.first[name] if name in self.first and name in self.last else None

    @property
    def from_the_beginning(self) -> bool:
        """The first sample was taken before the first segment with data came or went."""
        return self.first.get("data_segs_in") == 0 and self.first.get("data_segs_out") == 0

    @property
    def shares(self) -> TimeShares | None:
        grown = {name: value for name in COUNTERS if (value := self.grown(name)) is not None}
        return time_shares(grown, (self.last_ns - self.first_ns) / 1e3)

    def document(self) -> dict[str, Any]:
        """For the result."""
        return {
            "first_ns": self.first_ns or None,
            "last_ns": self.last_ns or None,
            "from_the_beginning": self.from_the_beginning,
            "first": self.first,
            "last": self.last,
            "grown": {name: self.grown(name) for name in _COUNTED},
            "rtt_us": {
                "min": self.rtt_least_us,
                "mean": self.rtt_sum_us / self.rtt_count,
                "max": self.rtt_most_us,
            }
            if self.rtt_count
            else None,
            "shares": self.shares,
        }


class WatchObserver(Protocol):
    """Receives samples during the watch."""

    def waiting(self) -> None: ...

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None: ...


@dataclass(frozen=True)
class WatchOutcome:
    """The result of a watch. ``progress`` is the engine's at the end: connections, lateness, losses."""

    progress: Mapping[str, Any]
    tallies: Sequence[ConnectionTally]
    absent: tuple[str, ...] = ()
    """Requested fields that this kernel, the congestion control or this way of sampling did not report."""
    why_not: str = ""
    """Why connections were not sampled by BPF; empty if they were, or if BPF was not requested."""

    @property
    def by(self) -> str:
        """``bpf``, ``inet-diag`` or ``events``."""
        return str(self.progress["by"])

    @property
    def samples(self) -> int:
        return sum(int(each["samples"]) for each in self.progress["connections"])

    @property
    def missed(self) -> int:
        """Samples that were not taken because the host was late, or not fetched because Weir was; and samples
        by BPF and events for which there was no room."""
        return sum(int(each["missed"]) for each in self.progress["connections"]) + int(self.progress["lost"])

    @property
    def idle(self) -> int:
        """Samples by BPF that were due but not taken, because nothing happened on the connection."""
        return sum(int(each["idle"]) for each in self.progress["connections"])


def watch(settings: WatchSettings, observers: Sequence[WatchObserver], stop: Stop) -> WatchOutcome:
    """Watch until the connections have ended, the time is over, or a request to stop.

    Raises
    ------
    InputError
        No connection matches, and ``settings.wait`` is not set.
    MissingCapability
        This kernel cannot be queried, or does not let this user watch by BPF.
    LabError
        A query failed during the watch.
    """
    # Loaded now and not with the first samples, when it would disturb the connections.
    import numpy as np  # noqa: F401

    watcher = _watcher(settings)
    tallies: list[ConnectionTally] = []
    told: set[str] = set()
    ends_s = None if settings.duration_s is None else time.monotonic() + settings.duration_s
    if settings.wait:
        for observer in observers:
            observer.waiting()
    try:
        while True:
            over = stop.requested or (ends_s is not None and time.monotonic() >= ends_s)
            if over:
                watcher.stop()
            # Read before the samples are fetched: once the watch has ended, none can follow. Read again
            # afterwards: samples may be of connections that were found in between.
            ended = watcher.progress()["ended"]
            samples = _taken(watcher.take())
            progress = watcher.progress()
            _count(tallies, samples, len(progress["connections"]))
            told.update(
                name for name, (_, there) in samples.fields.items() if name not in told and there.any()
            )
            for observer in observers:
                observer.samples(samples, progress, tallies)
            if over or ended:
                break
            left_s = _pause_s(settings, len(tallies))
            stop.wait((), left_s if ends_s is None else min(left_s, ends_s - time.monotonic()))
    finally:
        watcher.stop()
    if progress["failure"]:
        raise LabError(progress["failure"])
    if not progress["connections"] and not settings.wait:
        raise InputError("no connection matches; weir tcp list shows them all, --wait waits for one")
    absent = tuple(name for name in settings.names if name not in told)
    return WatchOutcome(progress, tallies, absent, _why_not(settings, progress))


def _why_not(settings: WatchSettings, progress: Mapping[str, Any]) -> str:
    if lacking := settings.only_by_inet_diag:
        return f"BPF does not report {', '.join(lacking)}"
    return progress["why_not"] or ""


def _pause_s(settings: WatchSettings, connections: int) -> float:
    """The time until the next fetch of samples."""
    if settings.period_ns is None:
        return TAKE_EVENTS_S
    return min(TAKE_S, settings.period_ns / 1e9 * TAKE_ROWS / max(1, connections))


def _watcher(settings: WatchSettings) -> TcpWatcher | TcpEvents:
    from weirlab._engine import TcpEvents, TcpWatcher

    one, other = settings.target.ends
    ends = [(one.addr or None, one.port), (other.addr or None, other.port)]
    target, wait = settings.target, settings.wait
    if settings.period_ns is None:
        told = {event_field.name for event_field in event_fields()}
        needed = (*settings.names, *NEEDED, *EVENTS_NEEDED)
        names = [name for name in dict.fromkeys(needed) if name in told]
        return TcpEvents(ends=ends, pid=target.pid, program=target.program, wait=wait, fields=names)
    return TcpWatcher(
        ends=ends,
        also=target.also,
        pid=target.pid,
        program=target.program,
        period_ns=settings.period_ns,
        wait=wait,
        fields=list(dict.fromkeys((*settings.names, *NEEDED, *settings.others))),
        by=INET_DIAG if settings.only_by_inet_diag else settings.by,
    )


def _taken(columns: Mapping[str, Any]) -> Samples:
    return Samples(columns["connection"], columns["time_ns"], columns["fields"], columns.get("kind"))


def _count(tallies: list[ConnectionTally], samples: Samples, connections: int) -> None:
    import numpy as np

    tallies.extend(ConnectionTally() for _ in range(connections - len(tallies)))
    # Not numpy.unique, which loads numpy.ma: that takes tenths of a second from what is watched.
    for number in np.flatnonzero(np.bincount(samples.connection)):
        tallies[number].take(samples, np.flatnonzero(samples.connection == number))


MOST_KEPT: Final = 20
RETRANSMITTED: Final = "retransmitted"
CONGESTION_STATES: Final = ("open", "disorder", "CWR", "recovery", "loss")
"""By number (``enum tcp_ca_state`` of the kernel)."""

_SPACE: Final = 1 << 32
"""Sequence numbers wrap around here."""


@dataclass(frozen=True)
class Retransmission:
    """A retransmitted segment; ``at_s`` counts from the first event of all."""

    at_s: float
    connection: str
    seq: int
    length: int
    """Sequence numbers that it takes: its bytes, and one each for SYN and FIN."""
    congestion: str
    cwnd: int
    rtt_us: int


@dataclass
class RetransmissionLog:
    """Counts the retransmitted segments, and keeps the first of them."""

    count: int = 0
    kept: list[Retransmission] = field(default_factory=list)
    _first_ns: int = 0

    def waiting(self) -> None:
        """Nothing has been sent yet."""

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        """Take the retransmissions among these events."""
        if not len(samples):
            return
        self._first_ns = self._first_ns or int(samples.time_ns[0])
        for row, event in enumerate(samples.events()):
            if event != RETRANSMITTED:
                continue
            self.count += 1
            if len(self.kept) < MOST_KEPT:
                self.kept.append(self._segment(samples, row, progress))

    def _segment(self, samples: Samples, row: int, progress: Mapping[str, Any]) -> Retransmission:
        seq, end_seq, state, cwnd, rtt_us = (
            int(samples.fields[name][0][row]) for name in (*EVENTS_NEEDED, "snd_cwnd", "rtt_us")
        )
        one = progress["connections"][samples.connection[row]]
        return Retransmission(
            at_s=(int(samples.time_ns[row]) - self._first_ns) / 1e9,
            connection=f"{shown(one['local'])} to {shown(one['remote'])}",
            seq=seq,
            length=(end_seq - seq) % _SPACE,
            congestion=CONGESTION_STATES[state] if state < len(CONGESTION_STATES) else str(state),
            cwnd=cwnd,
            rtt_us=rtt_us,
        )
