"""The TCP connections of this network namespace, how to select them, and what the kernel reports."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quantities import NOTHING
from weirlab.base.quoting import quoted
from weirlab.cli.options.sockets import parse_address
from weirlab.trace.analysis import FlowEnd, parse_flow

IDLE: Final = ("listen", "time-wait", "close")
"""States of sockets that are not a connection yet, or no longer; listed only on request."""
MOST_NAME: Final = 15
"""Characters of a program's name that the kernel keeps (``TASK_COMM_LEN``)."""
_HIGHEST_PID: Final = 1 << 22


@dataclass(frozen=True)
class TcpSocket:
    """One socket; ``pid`` and ``process`` are None if this user may not see the owner."""

    local: tuple[str, int]
    remote: tuple[str, int]
    state: str
    uid: int
    inode: int
    cookie: int
    pid: int | None
    process: str | None
    congestion: str
    fields: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ConnectionFilter:
    """What to match connections by: their ends, in any order, and their process."""

    ends: tuple[FlowEnd, FlowEnd] = (FlowEnd(), FlowEnd())
    also: tuple[str, ...] = ()
    """More addresses of the first end: the others of a host's name."""
    pid: int | None = None
    program: str | None = None

    def fits(self, connection: TcpSocket) -> bool:
        """Whether ``connection`` matches everything that is given."""
        return (
            self._ends_fit(connection)
            and self.pid in (None, connection.pid)
            and self.program in (None, connection.process)
        )

    def _ends_fit(self, connection: TcpSocket) -> bool:
        first, other = self.ends
        here, there = connection.local, connection.remote
        return any(
            (_fits(one, here) and _fits(other, there)) or (_fits(one, there) and _fits(other, here))
            for one in (first, *(replace(first, addr=address) for address in self.also))
        )


def parse(text: str, option: str = "CONNECTION") -> ConnectionFilter:
    """Read ``10.0.0.1:40000-192.0.2.1:443``, ``:443``, ``192.0.2.1``, ``HOST:443``, ``4711`` (PID) or
    ``firefox`` (program).

    Raises
    ------
    InputError
        ``text`` is none of these; the message names ``option``.
    """
    plain = text.strip()
    if re.fullmatch(r"[0-9]{1,9}", plain):
        return ConnectionFilter(pid=_pid(int(plain), option))
    if match := re.fullmatch(r"([A-Za-z][\w.-]*):(\d{1,5})", plain):
        first, *others = _resolved(match[1], int(match[2]), option)
        return ConnectionFilter((FlowEnd(first, int(match[2])), FlowEnd()), tuple(others))
    if plain and ":" not in plain and re.search(r"[^\W\d_]", plain):
        return ConnectionFilter(program=plain[:MOST_NAME])
    flow = parse_flow(plain, option)
    return ConnectionFilter(ends=(flow.one, flow.other))


def target(
    *, port: int | None = None, address: str | None = None, process: str | None = None
) -> ConnectionFilter:
    """The target that the filters of ``weir tcp list`` describe.

    Raises
    ------
    InputError
        ``address`` is not an IP address.
    """
    end = FlowEnd("" if address is None else parse_address(address, "--address"), port or 0)
    if process is None:
        return ConnectionFilter(ends=(end, FlowEnd()))
    if re.fullmatch(r"[0-9]{1,9}", process):
        return ConnectionFilter(ends=(end, FlowEnd()), pid=_pid(int(process), "--process"))
    return ConnectionFilter(ends=(end, FlowEnd()), program=process[:MOST_NAME])


def listed() -> list[TcpSocket]:
    """Every TCP socket of this network namespace, listeners included, in the order of their ends.

    Raises
    ------
    MissingCapability
        This kernel cannot be queried.
    """
    from weirlab._engine import tcp_connections

    found = [TcpSocket(**tcp_connection) for tcp_connection in tcp_connections()]
    return sorted(found, key=lambda each: (each.local, each.remote, each.cookie))


def select(
    connections: Sequence[TcpSocket], wanted: ConnectionFilter, states: Sequence[str] = ()
) -> list[TcpSocket]:
    """The connections that match ``wanted`` and are in one of ``states``; without any, all but :data:`IDLE`.

    Raises
    ------
    InputError
        There is no such state.
    """
    from weirlab._engine import tcp_states

    known = tcp_states()
    for state in states:
        if state not in known:
            raise InputError(f"--state {quoted(state)}: no such state; known are {', '.join(known)}")
    return [
        connection
        for connection in connections
        if wanted.fits(connection)
        and (connection.state in states if states else connection.state not in IDLE)
    ]


def owner(pid: int | None, name: str | None) -> str:
    """``sshd (4711)``; a dash if the process is not known."""
    return NOTHING if pid is None else f"{name} ({pid})"


def _resolved(host: str, port: int, option: str) -> list[str]:
    """The addresses of ``host``, those first that a connection exists with."""
    try:
        addresses = [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, OverflowError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{option} {host}:{port}: {host} has no address: {why}") from error
    ends = {end for connection in listed() for end in (connection.local, connection.remote)}
    return sorted(dict.fromkeys(addresses), key=lambda address: (address, port) not in ends)


def _fits(wanted: FlowEnd, end: tuple[str, int]) -> bool:
    return wanted.addr in ("", end[0]) and wanted.port in (0, end[1])


def _pid(number: int, option: str) -> int:
    if not 0 < number <= _HIGHEST_PID:
        raise InputError(f"{option} {number}: no process has this number; a port is written as :{number}")
    return number


USUAL: Final = (
    "rtt_us", "rttvar_us", "min_rtt_us", "snd_cwnd", "snd_ssthresh", "snd_mss_bytes", "unacked", "lost",
    "total_retrans", "bytes_acked", "bytes_received", "bytes_sent", "bytes_retrans", "notsent_bytes",
    "snd_wnd_bytes", "rcv_wnd_bytes", "delivery_rate_bytes_per_s", "pacing_rate_bytes_per_s", "busy_time_us",
    "rwnd_limited_us", "sndbuf_limited_us",
)  # fmt: skip
"""Shown unless others are requested: those by which transfers are usually judged."""

EVENT_USUAL: Final = (
    "state", "old_state", "seq", "end_seq", "ack_seq", "rtt_us", "rttvar_us", "snd_cwnd", "snd_ssthresh",
    "ca_state", "unacked", "lost", "retrans", "total_retrans", "bytes_acked", "bytes_received", "bytes_sent",
    "snd_wnd_bytes", "rcv_wnd_bytes",
)  # fmt: skip
"""The same for events."""

ALL: Final = "all"


@dataclass(frozen=True)
class TcpInfoField:
    """A quantity; ``since`` is the first kernel that has it, ``source`` the kernel's structure."""

    name: str
    kernel_name: str
    unit: str
    source: str
    since: str
    about: str
    by_bpf: bool
    """Whether samples by BPF have it; if not, only those by ``INET_DIAG`` do."""


@cache
def fields() -> tuple[TcpInfoField, ...]:
    """All fields, in the kernel's order."""
    from weirlab._engine import tcp_fields

    return tuple(TcpInfoField(**tcp_field) for tcp_field in tcp_fields())


@cache
def event_fields() -> tuple[TcpInfoField, ...]:
    """The fields of events: some exist only there, others are in :func:`fields`."""
    from weirlab._engine import tcp_event_fields

    return tuple(TcpInfoField(**tcp_event_field) for tcp_event_field in tcp_event_fields())


def chosen(text: str | None, option: str = "--fields", *, events: bool = False) -> tuple[str, ...]:
    """Names of the fields in ``rtt,snd_cwnd``; the usual ones for None, all for ``all``.

    Raises
    ------
    InputError
        There is no such field, or events do not have it (``events``); the message names ``option``.
    """
    if text is None:
        return EVENT_USUAL if events else USUAL
    every = event_fields() if events else fields()
    if text.strip() == ALL:
        return tuple(field.name for field in every)
    # A field's own name takes precedence over another field's kernel name.
    known = {field.kernel_name: field.name for field in every} | {f.name: f.name for f in every}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            which, how = ("field of events", "--events ") if events else ("field", "")
            raise InputError(
                f"{option}: there is no {which} {quoted(name)}; "
                f"weir tcp watch {how}--list-fields lists them all"
            )
    return tuple(dict.fromkeys(known[name] for name in names))


def only_by_inet_diag(names: Sequence[str]) -> tuple[str, ...]:
    """The ``names`` that cannot be sampled by BPF."""
    told = {field.name for field in fields() if field.by_bpf}
    return tuple(name for name in names if name not in told)


def absent_sentence(names: Sequence[str]) -> str:
    """A sentence: ``names`` were requested but not reported; empty without names."""
    if not names:
        return ""
    return f"not reported by this kernel, its congestion control or this way of sampling: {', '.join(names)}"


def markdown() -> str:
    """The table for documents."""
    lines = ["| field | unit | kernel's name | since | what it is |", "|---|---|---|---|---|"]
    lines += [
        f"| `{field.name}` | {field.unit} | {field.source}: `{field.kernel_name}` | {field.since} "
        f"| {field.about} |"
        for field in fields()
    ]
    return "\n".join(lines)
