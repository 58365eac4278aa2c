"""The findings of 2009 about the cost of IPsec per voice packet, each checked by today's measurement.

Kazemi, Wijesinha and Karne, "Evaluation of IPsec Overhead for VoIP using a Bare PC": a PC of 2.4 GHz without
AES instructions. Compared values are always from the same rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from costs import VOICE_BYTES, Estimate, Samples, fit, ratio, slope

SUITES = ("aes-cbc", "aes-cbc-hmac-md5-96", "aes-cbc-hmac-sha1-96")
"""The suites of the publication."""
TODAY = (*SUITES, "aes-cbc-hmac-sha256-128", "aes-gcm-16", "chacha20-poly1305")
MODES = ("transport", "tunnel")
WAYS = ("out", "in")
SPEECH_BYTES = (120, 200, 280, 360, 440, 520)
"""Packets of 10 to 60 ms of G.711."""
LINEAR = 0.1
"""The cost counts as linear if no size is further from the line than this share."""
SLIGHT = 0.05
"""Share of the longest packet's cost that a constant may change by."""

Verdict = Literal[
    "holds", "holds in part", "does not hold", "more than published", "less than published", "not measured"
]


@dataclass(frozen=True)
class Answer:
    """One finding of the publication, and today's result."""

    key: str
    published: str
    verdict: Verdict
    found: tuple[str, ...]


def answers(found: Samples) -> list[Answer]:
    """The answers in the order of the publication."""
    return [
        linear(found),
        constant(found),
        hashes(found),
        directions(found),
        without_udp(found),
        bypassed(found),
    ]


def linear(found: Samples) -> Answer:
    fits = [fit((suite, mode, way), found[suite, mode, way]) for suite, mode, way in _all(found, TODAY)]
    if not fits:
        return _missing("linear", LINEAR_CLAIM)
    worst = max(fits, key=lambda one: one.worst_residual)
    straight = [one for one in fits if one.worst_residual <= LINEAR]
    said = [
        f"{len(straight)} of {len(fits)} combinations of suite, mode and direction lie within {LINEAR:.0%} "
        "of a line at every size.",
        f"Furthest off is {worst.suite} in {worst.mode} mode, {worst.way}: {worst.worst_residual:.0%} at one "
        "size. Ciphers and hashes work in blocks, so the cost rises in steps.",
    ]
    return Answer("linear", LINEAR_CLAIM, _verdict(len(straight), len(fits)), tuple(said))


def constant(found: Samples) -> Answer:
    said, held, asked = [], 0, 0
    for suite in TODAY:
        for way in WAYS:
            tunnel, transport = (found.get((suite, mode, way)) for mode in ("tunnel", "transport"))
            if not tunnel or not transport:
                continue
            x = np.array(sorted(tunnel), dtype=float)
            over, under = (np.array([side[int(size)] for size in x]) for side in (tunnel, transport))
            rising = slope(x, over, under)
            middle = np.median(over, axis=1) - np.median(under, axis=1)
            change_ns = rising.value * float(x[-1] - x[0])
            longest_ns = float(np.median(under[-1]))
            is_constant = rising.low <= 0 <= rising.high or abs(change_ns) <= SLIGHT * longest_ns
            held, asked = held + is_constant, asked + 1
            said.append(
                f"{suite}, {way}: {np.median(middle):+.0f} ns; from {x[0]:.0f} to {x[-1]:.0f} B it changes "
                f"by {change_ns:+.0f} ns, {change_ns / longest_ns:+.1%} of the longest packet's cost."
            )
    if not asked:
        return _missing("constant", CONSTANT_CLAIM)
    return Answer("constant", CONSTANT_CLAIM, _verdict(held, asked), tuple(said))


def hashes(found: Samples) -> Answer:
    said, held, asked = [], 0, 0
    for mode in MODES:
        for way in WAYS:
            md5, sha1 = (found.get((f"aes-cbc-hmac-{name}-96", mode, way)) for name in ("md5", "sha1"))
            if not md5 or not sha1:
                continue
            seen = ratio(md5[VOICE_BYTES], sha1[VOICE_BYTES])
            held, asked = held + (seen.low > 1), asked + 1
            said.append(f"{mode}, {way}: with MD5 a packet costs {_times(seen)} what it costs with SHA-1.")
    if not asked:
        return _missing("hashes", HASHES_CLAIM)
    return Answer("hashes", HASHES_CLAIM, _verdict(held, asked), tuple(said))


def directions(found: Samples) -> Answer:
    seen = {
        (suite, mode): ratio(found[suite, mode, "in"][VOICE_BYTES], found[suite, mode, "out"][VOICE_BYTES])
        for suite in TODAY
        for mode in MODES
        if (suite, mode, "in") in found and (suite, mode, "out") in found
    }
    published = {key: value for key, value in seen.items() if key[0] in SUITES}
    if not published:
        return _missing("directions", DIRECTIONS_CLAIM)
    dearer = [key for key, value in published.items() if value.low > 1]
    by_ratio = sorted(published, key=lambda key: published[key].value)
    least, most = by_ratio[0], by_ratio[-1]
    said = [
        f"{suite}, {mode}: in costs {_times(value)} what out does." for (suite, mode), value in seen.items()
    ]
    said.append(
        f"Of the published suites the ratio is highest for {most[0]} in {most[1]} mode, lowest for "
        f"{least[0]} in {least[1]} mode."
    )
    is_as_published = most == ("aes-cbc", "tunnel") and least[0] != "aes-cbc" and least[1] == "transport"
    held = len(dearer) + is_as_published
    return Answer("directions", DIRECTIONS_CLAIM, _verdict(held, len(published) + 1), tuple(said))


def without_udp(found: Samples) -> Answer:
    gains = list(_gains(found, "endpoint-udp", "endpoint-rtp"))
    return _gained("udp", UDP_CLAIM, gains, (0.06, 0.14))


def bypassed(found: Samples) -> Answer:
    gains = list(_gains(found, "endpoint-system", "endpoint-udp"))
    return _gained("bypass", BYPASS_CLAIM, gains, (0.08, 0.15))


LINEAR_CLAIM = "Processing time grows linearly with the packet."
CONSTANT_CLAIM = "Tunnel mode costs a constant more than transport mode (0.02 ms), whatever the size."
HASHES_CLAIM = "With MD5 a packet costs slightly more than with SHA-1."
DIRECTIONS_CLAIM = (
    "Incoming packets cost more than outgoing ones: relatively most for AES alone in tunnel mode, least with "
    "authentication in transport mode."
)
UDP_CLAIM = "RTP directly over ESP, without UDP, raises the incoming throughput by 6 to 14 %."
BYPASS_CLAIM = (
    "Handing packets directly from ESP to UDP, not through the operating system, raises the incoming "
    "throughput by 8 to 15 %."
)


def _gains(found: Samples, slow: str, fast: str) -> Iterator[tuple[str, int, Estimate]]:
    """How many more packets pass the faster way, for speech packets of every length."""
    for suite in TODAY:
        one, other = (found.get((suite, "transport", way)) for way in (slow, fast))
        for size in SPEECH_BYTES:
            if one and other and size in one and size in other:
                seen = ratio(one[size], other[size])
                yield suite, size, Estimate(seen.value - 1, seen.low - 1, seen.high - 1)


def _gained(
    key: str, claim: str, gains: Sequence[tuple[str, int, Estimate]], published: tuple[float, float]
) -> Answer:
    if not gains:
        return _missing(key, claim)
    said, held, more, less = [], 0, 0, 0
    for suite in TODAY:
        own = [(size, gain) for name, size, gain in gains if name == suite]
        if not own:
            continue
        own.sort(key=lambda each: each[1].value)
        low, high = own[0], own[-1]
        held += published[0] <= high[1].value and low[1].value <= published[1]
        more += low[1].value > published[1]
        less += high[1].value < published[0]
        said.append(f"{suite}: {_percent(low[1])} at {low[0]} B to {_percent(high[1])} at {high[0]} B.")
    verdict = _verdict(held, len(said))
    if len(said) in (more, less):
        verdict = "more than published" if more else "less than published"
    return Answer(key, claim, verdict, tuple(said))


def _all(found: Samples, suites: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for suite in suites:
        for mode in MODES:
            for way in WAYS:
                if (suite, mode, way) in found:
                    yield suite, mode, way


def _verdict(held: int, asked: int) -> Verdict:
    if held == asked:
        return "holds"
    return "holds in part" if held else "does not hold"


def _missing(key: str, claim: str) -> Answer:
    return Answer(key, claim, "not measured", ())


def _times(seen: Estimate) -> str:
    return seen.text(lambda value: f"{value:.2f}") + " ×"


def _percent(seen: Estimate) -> str:
    return seen.text(lambda value: f"{value:+.1%}")
