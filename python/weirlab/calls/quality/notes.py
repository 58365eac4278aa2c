"""What a reader has to know of a capture beside what is found in its streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weirlab.calls.quality.finding import be, listed_streams
from weirlab.calls.quality.streams import CaptureStream
from weirlab.quality.captures import CaptureTable
from weirlab.trace import wording
from weirlab.trace.quantities import plural


def nothing_in(path: Path, capture: Mapping[str, Any]) -> str:
    """Why there is no stream to assess."""
    names = {
        "other_udp": "other UDP", "not_udp": "not UDP", "not_ip": "not IP", "fragments": "fragments",
        "rtcp": "RTCP", "sip": "SIP", "iax2": "IAX2 signalling",
    }  # fmt: skip
    seen = [f"{capture[name]:,} {what}" for name, what in names.items() if capture[name]]
    many = plural(capture["packets"], "packet") + (f": {', '.join(seen)}" if seen else "")
    hidden = "".join(f"; {text[0].lower()}{text[1:-1]}" for text in about_capture(capture))
    return (
        f"no voice stream in {path} ({many}){hidden}; a stream takes five RTP packets in order, two if SIP "
        "announced it, or name its ports with --decode-as"
    )


def about_capture(capture: Mapping[str, Any]) -> Iterable[str]:
    """What was passed over."""
    if capture["cut_short"]:
        yield "The file ends inside a packet: the capture was killed, or is still being written."
    if capture["incomplete"]:
        many = plural(capture["incomplete"], "fragmented datagram")
        yield f"{many} {be(capture['incomplete'])} not whole in the capture: a SIP message may be missing."
    if capture["rtcp_unreadable"]:
        many = plural(capture["rtcp_unreadable"], "packet")
        were = be(capture["rtcp_unreadable"])
        yield f"{many} of RTCP {were} encrypted or damaged: what receivers report is not known."
    if capture["interleaved"]:
        many, were = plural(capture["interleaved"], "stream"), be(capture["interleaved"])
        yield f"{many} {were} set up within the TCP connection of RTSP, and not assessed."
    if unread := wording.unread(capture):
        yield unread
    yield from wording.opaque(capture["opaque"])


def sentence(text: str) -> str:
    """With a capital letter, and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def without_mos(
    streams: Sequence[CaptureStream], table: CaptureTable, mos: npt.NDArray[np.float64]
) -> Iterable[str]:
    """Why streams of voice have no MOS."""
    reasons: dict[str, list[int]] = {}
    for i, stream in enumerate(streams):
        if stream.is_voice and np.isnan(mos[i]):
            note = table.kinds[i].note
            if stream.missed:
                note = "packets are missing from the capture itself"
            elif not stream.loss_known:
                note = "over IAX2 only time stamps show loss and delay, and these do not follow the speech"
            elif not stream.clock_hz:
                note = "the rate of its time stamps is not known"
            reasons.setdefault(note or "too little arrived", []).append(stream.number)
    for why, numbers in reasons.items():
        yield f"No MOS for {listed_streams(numbers)}: {why}."
