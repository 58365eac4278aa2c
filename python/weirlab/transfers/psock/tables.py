"""What ``weir psock`` shows: sentences, a table, and the documents of its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weirlab.base.quantities import NOTHING
from weirlab.base.tables import Table
from weirlab.cli.options.sockets import shown
from weirlab.trace.quantities import bit_rate, count, duration, percent, plural, size, words
from weirlab.transfers.psock.copying import CopyResult, ReceiverTotals


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


def plain_session(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a session for JSON."""
    return {
        **report,
        "streams": [
            {**stream, "local": shown(stream["local"]), "remote": shown(stream["remote"])}
            for stream in report["streams"]
        ],
    }
