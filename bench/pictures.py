"""Pictures of what ESP costs per packet, one for each published finding."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from costs import VOICE_BYTES, Samples, ratio
from findings import MODES, SPEECH_BYTES, SUITES, TODAY, WAYS
from weirlab.report import bundle
from weirlab.report.palette import LIGHT, chart_config, ramp, shapes

WIDTH, HEIGHT = 300, 260
WORDS = {"out": "outgoing", "in": "incoming"}


def draw(found: Samples, folder: Path) -> dict[str, str]:
    """Write a PNG for every finding with measurements; returns the file names by the finding's key."""
    drawn = {}
    for key, rows, chart in (
        ("linear", list(costs_by_size(found)), lines("ns", "ns per packet, tunnel mode")),
        ("constant", list(differences(found)), lines("ns", "tunnel − transport, ns")),
        ("hashes", list(hash_ratios(found)), ratios("MD5 over SHA-1")),
        ("directions", list(direction_ratios(found)), ratios("incoming over outgoing")),
        ("udp", list(gains(found, "endpoint-udp", "endpoint-rtp")), lines("percent", "more packets, %")),
        (
            "bypass",
            list(gains(found, "endpoint-system", "endpoint-udp")),
            lines("percent", "more packets, %"),
        ),
    ):
        if rows:
            name = f"{key}.png"
            (folder / name).write_bytes(bundle.png(finished(chart(pl.DataFrame(rows)))))
            drawn[key] = name
    return drawn


def finished(chart: Any) -> dict[str, Any]:
    made: dict[str, Any] = chart.to_dict()
    made["config"] = chart_config() | {"background": LIGHT["paper"], "padding": 16}
    return made


def costs_by_size(found: Samples) -> Iterator[dict[str, Any]]:
    for suite in TODAY:
        for way in WAYS:
            for size, rounds in sorted(found.get((suite, "tunnel", way), {}).items()):
                yield {"suite": suite, "part": WORDS[way], "bytes": size, "ns": statistics.median(rounds)}


def differences(found: Samples) -> Iterator[dict[str, Any]]:
    for suite in TODAY:
        for way in WAYS:
            transport = found.get((suite, "transport", way), {})
            for size, rounds in sorted(found.get((suite, "tunnel", way), {}).items()):
                if size in transport:
                    ns = statistics.median(rounds) - statistics.median(transport[size])
                    yield {"suite": suite, "part": WORDS[way], "bytes": size, "ns": ns}


def hash_ratios(found: Samples) -> Iterator[dict[str, Any]]:
    for mode in MODES:
        for way in WAYS:
            md5, sha1 = (found.get((f"aes-cbc-hmac-{name}-96", mode, way)) for name in ("md5", "sha1"))
            if md5 and sha1:
                for size in (one for one in SPEECH_BYTES if one in md5 and one in sha1):
                    row = {"row": f"{mode}, {WORDS[way]}, {size} B", "published": "published suites"}
                    yield {**row, **_estimated(md5[size], sha1[size])}


def direction_ratios(found: Samples) -> Iterator[dict[str, Any]]:
    for suite in TODAY:
        for mode in MODES:
            incoming, outgoing = (found.get((suite, mode, way)) for way in ("in", "out"))
            if incoming and outgoing:
                age = "published suites" if suite in SUITES else "later suites"
                row = {"row": f"{suite}, {mode}", "published": age}
                yield {**row, **_estimated(incoming[VOICE_BYTES], outgoing[VOICE_BYTES])}


def gains(found: Samples, slow: str, fast: str) -> Iterator[dict[str, Any]]:
    for suite in TODAY:
        one, other = (found.get((suite, "transport", way)) for way in (slow, fast))
        for size in SPEECH_BYTES:
            if one and other and size in one and size in other:
                percent = 100 * (ratio(one[size], other[size]).value - 1)
                yield {"suite": suite, "part": "incoming, transport mode", "bytes": size, "percent": percent}


def lines(value: str, title: str) -> Callable[[pl.DataFrame], Any]:
    """A chart with a line per suite over the packet's size, and a panel per part."""

    def drawn(rows: pl.DataFrame) -> Any:
        colours = alt.Scale(domain=list(TODAY), range=ramp(len(TODAY)))
        marks = alt.Scale(domain=list(TODAY), range=shapes(len(TODAY)))
        base = alt.Chart(rows).encode(
            alt.X("bytes:Q", title="IP packet in the clear, B"),
            alt.Y(f"{value}:Q", title=title),
            alt.Color("suite:N", title=None, scale=colours, sort=list(TODAY)),
            alt.Shape("suite:N", title=None, scale=marks, sort=list(TODAY)),
        )
        both = (base.mark_line() + base.mark_point(filled=True, size=50)).properties(
            width=WIDTH, height=HEIGHT
        )
        header = alt.Header(labelAnchor="end")
        return both.facet(column=alt.Column("part:N", title=None, sort=None, header=header))

    return drawn


def ratios(title: str) -> Callable[[pl.DataFrame], Any]:
    """A chart with a row per comparison, its interval, and a line at 1."""

    def drawn(rows: pl.DataFrame) -> Any:
        base = alt.Chart(rows).encode(alt.Y("row:N", title=None, sort=None, axis=alt.Axis(labelLimit=320)))
        bars = base.mark_rule(strokeWidth=3, opacity=0.5).encode(
            alt.X("low:Q", title=title), alt.X2("high:Q")
        )
        points = base.mark_point(filled=True, size=60).encode(
            alt.X("value:Q", title=title, scale=alt.Scale(zero=False)),
            alt.Color(
                "published:N",
                title=None,
                scale=alt.Scale(domain=["published suites", "later suites"], range=ramp(2)),
            ),
        )
        one = alt.Chart(pl.DataFrame({"value": [1.0]}))
        same = one.mark_rule(color=LIGHT["soft"]).encode(alt.X("value:Q", title=title))
        return (same + bars + points).properties(width=2 * WIDTH, height=alt.Step(22))

    return drawn


def _estimated(over: list[float], under: list[float]) -> dict[str, float]:
    seen = ratio(over, under)
    return {"value": seen.value, "low": seen.low, "high": seen.high}
