"""Measurements as ndt7 exchanges them: JSON, times in µs; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from weirlab.cli.options.sockets import shown

Test = Literal["download", "upload"]
TESTS: Final[tuple[Test, ...]] = ("download", "upload")
PATH: Final = "/ndt/v7/"
PROTOCOL: Final = "net.measurementlab.ndt.v7"
LASTS_S: Final = 10.0
MOST_S: Final = 13.0
"""Either end may close the connection after this time."""
EVERY_S: Final = 0.1
"""At most ten measurements a second."""
LEAST_BYTES: Final = 1 << 13
"""The first binary message; later ones grow to ``frames.MOST_BINARY_BYTES``."""
_GROWS_BEHIND: Final = 16
"""A message may grow when so many of its size have been sent (the specification's appendix)."""
_LONGEST_S: Final = 0.05
"""But not if it takes longer: a measurement has to wait for its end."""
_MOST_NUMBER: Final = (1 << 53) - 1

_NAMES: Final = {
    "State": "state", "CAState": "ca_state", "Options": "options", "SndMSS": "snd_mss_bytes",
    "RcvMSS": "rcv_mss_bytes", "Unacked": "unacked", "Sacked": "sacked", "Lost": "lost", "Retrans": "retrans",
    "PMTU": "pmtu_bytes", "RTT": "rtt_us", "RTTVar": "rttvar_us", "SndSsThresh": "snd_ssthresh",
    "SndCwnd": "snd_cwnd", "AdvMSS": "advmss_bytes", "RcvRTT": "rcv_rtt_us", "TotalRetrans": "total_retrans",
    "PacingRate": "pacing_rate_bytes_per_s", "MaxPacingRate": "max_pacing_rate_bytes_per_s",
    "BytesAcked": "bytes_acked", "BytesReceived": "bytes_received", "SegsOut": "segs_out",
    "SegsIn": "segs_in", "NotsentBytes": "notsent_bytes", "MinRTT": "min_rtt_us",
    "DataSegsIn": "data_segs_in", "DataSegsOut": "data_segs_out",
    "DeliveryRate": "delivery_rate_bytes_per_s", "BusyTime": "busy_time_us",
    "RWndLimited": "rwnd_limited_us", "SndBufLimited": "sndbuf_limited_us", "Delivered": "delivered",
    "DeliveredCE": "delivered_ce", "BytesSent": "bytes_sent", "BytesRetrans": "bytes_retrans",
    "DSackDups": "dsack_dups", "ReordSeen": "reord_seen", "RcvOooPack": "rcv_ooopack",
    "SndWnd": "snd_wnd_bytes", "RcvWnd": "rcv_wnd_bytes",
    **{
        name: name for name in (
            "wqueue_bytes", "rqueue_bytes", "skmem_wmem_queued_bytes", "skmem_sndbuf_bytes",
            "bbr_bandwidth_bytes_per_s", "bbr_pacing_gain_256ths",
        )
    },
}  # fmt: skip
"""The fields of ``TCPInfo`` (m-lab/tcp-info, ``LinuxTCPInfo``), as ``weir tcp watch`` names them.

The last ones, which are not of ``TCP_INFO``, are Weir's own: without them a full buffer cannot be told.
"""


def next_size(size: int, sent_bytes: int, took_s: float, most: int) -> int:
    """The size of the binary message that follows one of ``size``, which took ``took_s``."""
    grows = sent_bytes >= _GROWS_BEHIND * size and took_s < _LONGEST_S / 2
    return min(size * 2, most) if grows else size


@dataclass(frozen=True)
class TransferReport:
    """What an end knows of itself ``elapsed_us`` after the handshake; None for what it did not say."""

    elapsed_us: int
    app_bytes: int | None = None
    fields: Mapping[str, int] = field(default_factory=dict)
    """As ``weir tcp watch`` names them."""
    uuid: str = ""
    """The server's name of the test."""


Address = tuple[str, int]


def text(report: TransferReport, test: Test, *, ends: tuple[Address, Address] | None) -> bytes:
    """The measurement of this end. Only a server names the ``ends``: the client's and its own."""
    told: dict[str, Any] = {
        "AppInfo": {"ElapsedTime": report.elapsed_us, "NumBytes": report.app_bytes or 0},
        "Origin": "client" if ends is None else "server",
        "Test": test,
    }
    if ends is not None:
        client, server = map(shown, ends)
        told["ConnectionInfo"] = {"Client": client, "Server": server, "UUID": report.uuid}
    if report.fields:
        # JSON has no larger number; a limit that is not set has all bits set.
        kernel = {
            name: value
            for name, own in _NAMES.items()
            if (value := report.fields.get(own)) is not None and value <= _MOST_NUMBER
        }
        told["TCPInfo"] = {**kernel, "ElapsedTime": report.elapsed_us}
    return json.dumps(told, allow_nan=False).encode()


def parsed(payload: bytes) -> TransferReport | None:
    """What the other end reported; None for anything that is not a measurement."""
    try:
        told = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    app, kernel, ends = (_part(told, name) for name in ("AppInfo", "TCPInfo", "ConnectionInfo"))
    elapsed_us = _number(app.get("ElapsedTime")) or _number(kernel.get("ElapsedTime"))
    if elapsed_us is None:
        return None
    fields = {own: value for name, own in _NAMES.items() if (value := _number(kernel.get(name))) is not None}
    uuid = ends.get("UUID")
    return TransferReport(
        elapsed_us, _number(app.get("NumBytes")), fields, uuid[:200] if isinstance(uuid, str) else ""
    )


def _part(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = told.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MOST_NUMBER else None
