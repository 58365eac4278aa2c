"""What the kernel reports about a TCP connection: names and units, from the one table in ``crates/tcp``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

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
