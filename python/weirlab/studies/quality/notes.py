"""What a reader of a quality assessment has to know, a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab.quality.captures import CaptureTable
from weirlab.studies.quality.streams import VoiceStream
from weirlab.trace import passed
from weirlab.trace.quantities import duration, plural

_MOST_SKEWED: Final = 4
"""Streams whose clock skew has a note of its own."""


def nothing_in(path: Path, capture: Mapping[str, Any]) -> str:
    """Why there is no stream to assess."""
    names = {
        "other_udp": "other UDP", "not_udp": "not UDP", "not_ip": "not IP", "fragments": "fragments",
        "rtcp": "RTCP", "sip": "SIP", "iax2": "IAX2 signalling", "malformed": "malformed",
        "unknown_link": "of a link type that Weir does not know",
    }  # fmt: skip
    seen = [f"{capture[name]:,} {what}" for name, what in names.items() if capture[name]]
    if capture["unknown_link"]:
        seen[-1] += f" ({', '.join(map(str, capture['unknown_links']))})"
    many = plural(capture["packets"], "packet") + (f": {', '.join(seen)}" if seen else "")
    hidden = "".join(f"; {text[0].lower()}{text[1:-1]}" for text in passed.opaque(capture["opaque"]))
    return (
        f"no voice stream in {path} ({many}){hidden}; a stream takes five RTP packets in order, two if SIP "
        "announced it, or name its ports with --decode-as"
    )


def about_capture(capture: Mapping[str, Any]) -> Iterable[str]:
    """What was passed over."""
    if capture["cut_short"]:
        yield "The file ends inside a packet: the capture was killed, or is still being written."
    if capture["fragments"]:
        many = plural(capture["fragments"], "fragment")
        yield f"{many} of datagrams {_be(capture['fragments'])} passed over: a SIP message may be missing."
    if unread := passed.unread(capture):
        yield unread
    yield from passed.opaque(capture["opaque"])


def _be(number: int) -> str:
    return "was" if number == 1 else "were"


def about_streams(
    streams: Sequence[VoiceStream], table: CaptureTable, mos: npt.NDArray[np.float64]
) -> Iterable[str]:
    """The delay that MOS assumes first, then what makes numbers doubtful or missing."""
    yield f"{table.assumption[0].upper()}{table.assumption[1:]}."
    if any(stream.loss_estimated for stream in streams):
        yield (
            "IAX2 has no sequence numbers: loss is estimated from gaps in the time stamps, and speech that "
            "was suppressed as silence counts as lost."
        )
    duplicated = table.streams.duplicated >= 0.3 * table.streams.received
    if duplicated.any():
        yield (
            f"{plural(int(duplicated.sum()), 'stream')} came with copies of many packets: the capture saw "
            "them in two places; keep one with a capture filter, as the network did not duplicate them."
        )
    if strays := sum(stream.strays for stream in streams):
        belong = "belongs" if strays == 1 else "belong"
        yield (
            f"{plural(strays, 'packet')} {belong} nowhere in the sequence of a stream and "
            f"{_be(strays)} left out."
        )
    yield from _about_skew(streams, table)
    reasons: dict[str, list[str]] = {}
    for i, stream in enumerate(streams):
        if np.isnan(mos[i]):
            note = table.kinds[i].note
            if not stream.loss_known:
                note = "over IAX2 only time stamps show loss and delay, and these do not follow the speech"
            elif not stream.clock_hz:
                note = "the rate of its time stamps is not known"
            reasons.setdefault(note or "too little arrived", []).append(str(stream.number))
    for why, numbers in reasons.items():
        yield f"No MOS for {_listed(numbers)}: {why}."


def _about_skew(streams: Sequence[VoiceStream], table: CaptureTable) -> Iterable[str]:
    rate = np.nan_to_num(table.skew)
    most_first = [int(i) for i in np.argsort(-np.abs(rate), kind="stable") if rate[i]]
    for i in most_first[:_MOST_SKEWED]:
        every = duration(float(table.packet_ns[i] / abs(rate[i])))
        yield (
            f"Stream {streams[i].number}: the sender's clock is {abs(rate[i]) * 1e6:.0f} ppm "
            f"{'slow' if rate[i] > 0 else 'fast'} against the capture's. Delays are without this skew; "
            f"a fixed jitter buffer slips by a packet every {every}."
        )
    if more := most_first[_MOST_SKEWED:]:
        numbers = [str(streams[i].number) for i in sorted(more)]
        yield f"A clock skew shows in {_listed(numbers)}, too."


def _listed(numbers: Sequence[str]) -> str:
    """``stream 3``, ``streams 1, 2``."""
    shown = ", ".join(numbers[:8]) + (", ..." if len(numbers) > 8 else "")
    return f"stream{'s' * (len(numbers) > 1)} {shown}"
