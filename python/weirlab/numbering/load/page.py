"""The report page of a load test: set-up times over call rates, the engines' work, every trial."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from weirlab.base.quantities import count, decimals, plural
from weirlab.numbering.load import findings
from weirlab.numbering.load.findings import LoadFindings, LoadLimitRow
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.report.vega import alt

_GOOD: Final = "few calls bad"
_BAD: Final = "too many calls bad"
_UNSENT: Final = "caller too slow"
_VERDICTS: Final = (_GOOD, _BAD, _UNSENT)
_HEIGHT: Final = 220

_TERMS: Final = (
    ("Set-up", "From the caller's INVITE to the answer 200, as SIPp counts: the upper end of its class."),
    ("Slow", "Calls whose set-up took longer than the limit of the scenario; they count as bad."),
    ("Unsent", "Calls that SIPp was too slow to begin. The trial then says nothing about the engines."),
    ("Cores", "CPU time of an engine's processes over the time of the trial; 100 % is a whole core."),
    ("Jitter", "Highest mean jitter (RFC 3550) of the calls with speech, measured where packets arrive."),
    (
        "MOS",
        "Lowest MOS of the calls with speech, by the E-model, without network delay. SIPp "
        "sends and echoes the speech on the same machine.",
    ),
)
_LATE: Final = (
    "Late calls by H.323",
    "Asterisk's chan_ooh323 overlooks a call for 3 s if the call's thread is faster than the thread that "
    "starts it. The lab gives the latter priority, so few calls are late; they count as slow.",
)
"""Explained if gateways translate to H.323."""
_CAUTION: Final = (
    "Callers, callees and engines share the CPUs of one machine; engines on their own machine carry more."
)


def tell(found: LoadFindings, manifest: Mapping[str, Any]) -> Story:
    """The report page of a run."""
    share = float(manifest.get("scenario", {}).get("voice_load", {}).get("bad_share", 0.01))
    return Story(
        subject=f"Calls per second of numbering plan {found.plan}",
        manifest=manifest,
        answer=found.sentence,
        caution=_CAUTION,
        place=place(
            manifest,
            "netns",
            "the engines of the plan" + (f", through {found.device}" if found.device else ""),
        ),
        tiles=tuple(_tiles(found)),
        chapters=(
            Chapter(
                "rates",
                "Set-up times",
                figures=tuple(_figure(found, limit, share) for limit in found.limits if found.of(limit)),
                tables=tuple(filter(None, (findings.limits(found), findings.not_loaded(found)))),
                details=tuple(filter(None, (findings.trials(found), findings.through(found)))),
                missing="No trial was made.",
            ),
        ),
        terms=(*_TERMS, *([_LATE] if any("H.323" in each.translation for each in found.limits) else [])),
    )


def _tiles(found: LoadFindings) -> Iterator[Tile]:
    for limit in found.limits:
        if limit.no_load:
            continue
        carried = f"{findings.carried(limit)}/s" if limit.carried_per_s >= 0 else "no rate met the goal"
        yield Tile(f"Calls to {limit.number}", carried, limit.translation or limit.decided or limit.way)
    opinions = [row.media_mos for row in found.trials if not math.isnan(row.media_mos)]
    if opinions:
        yield Tile("Lowest MOS", decimals(min(opinions)), f"in {plural(len(opinions), 'trial')}")


def _figure(found: LoadFindings, limit: LoadLimitRow, bad_share: float) -> Figure:
    data = trial_rows(found, limit, bad_share)
    said = f"{count(limit.carried_per_s)} calls/s are set up"
    if limit.at_least:
        said = f"At least {said}"
    if math.isnan(limit.carried_per_s):
        said = "No rate met the goal"
    return Figure(
        key=f"rate-{limit.number.removeprefix('+')}",
        section="rates",
        panel=limit.number,
        title=f"{said}, by way of {limit.way}.",
        caption="Upper ends of the classes in which median and 99th percentile of the set-up times lie.",
        alt=f"A point per trial with {limit.number}: set-up time over calls per second.",
        chart=drawn(data),
        data=data,
    )


def trial_rows(found: LoadFindings, limit: LoadLimitRow, bad_share: float) -> pl.DataFrame:
    """A row per trial and known quantity."""
    rows = [
        {
            "rate_per_s": row.rate_per_s,
            "setup_ms": value,
            "quantity": quantity,
            "verdict": _UNSENT if row.unsent else _BAD if row.bad > bad_share * row.calls else _GOOD,
            "bad": f"{count(row.bad)} of {count(row.calls)}",
        }
        for row in found.of(limit)
        for quantity, value in (("median", row.setup_p50_ms), ("99th percentile", row.setup_p99_ms))
        if not math.isnan(value)
    ]
    schema = {
        "rate_per_s": pl.Int64, "setup_ms": pl.Float64, "quantity": pl.String, "verdict": pl.String,
        "bad": pl.String,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def drawn(data: pl.DataFrame) -> alt.Chart:
    """Set-up times over rates, both on log axes."""
    quantities = ["median", "99th percentile"]
    rates = axes.log_domain(*axes.extent(data, "rate_per_s")) if data.height else (1.0, 10.0)
    times = axes.log_domain(*axes.extent(data, "setup_ms")) if data.height else (1.0, 10.0)
    legend = alt.Legend(columns=axes.columns(_VERDICTS))
    chart: alt.Chart = (
        alt.Chart(axes.data(data))
        .mark_point(filled=True, size=70)
        .encode(
            x=alt.X("rate_per_s:Q", title="Calls/s", **axes.decades(rates)),
            y=alt.Y("setup_ms:Q", title="Set-up time, ms", **axes.decades(times)),
            color=axes.colour("verdict", _VERDICTS, palette.models(len(_VERDICTS)), legend=legend),
            shape=axes.shape("quantity", quantities, ["circle", "triangle-up"]),
            tooltip=[
                alt.Tooltip("rate_per_s:Q", title="calls/s"),
                alt.Tooltip("setup_ms:Q", title="ms", format=",.4~g"),
                alt.Tooltip("quantity:N", title="of"),
                alt.Tooltip("verdict:N", title="verdict"),
                alt.Tooltip("bad:N", title="bad calls"),
            ],
        )
        .properties(**axes.framed(_HEIGHT))
    )
    return chart
