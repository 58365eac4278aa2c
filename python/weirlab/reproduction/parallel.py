"""Psock: both published drivers over paths of unequal rates, and beside other TCP streams."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.publications import PublishedExperiment, publication
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.store import Run
from weirlab.transfers.parallel import charts, page, study
from weirlab.transfers.parallel.findings import APPLICATION, SERIES, ParallelFindings, ThroughputRow
from weirlab.transfers.parallel.plan import TCP
from weirlab.transfers.parallel.section import ParallelCase, ParallelSection

KEY: Final = "ubik-psock-2007"
ROUND_ROBIN: Final = "round-robin"
POLL_ALL: Final = "poll-all"
RUN: Final = "transfers"

SLOWER: Final = 10
"""By how much the rates of the channels are divided, and their round trip multiplied."""
_BUFFERS: Final = 1.1
"""Of rate times round trip: "slightly above" it."""
_QUEUE_MS: Final = 20.0
_MBIT: Final = 1e6

SCALED: Final = (
    f"The real channels have 1/{SLOWER} of their rate and {SLOWER} times their round trip here, so that as "
    f"many bytes are on their way. Tables show rates times {SLOWER}, charts as measured. SONET's overhead is "
    "not emulated.",
    f"Socket buffers of the channels are {_BUFFERS:g} times rate times round trip; their queues hold "
    f"{_QUEUE_MS:g} ms at full rate.",
)
COMMON: Final = (
    "Paths are emulated between network namespaces of one machine (weir link); congestion control is cubic.",
)


def _settings(experiment: str) -> Mapping[str, Any]:
    return publication(KEY).experiments[experiment].settings


def _section(quick: bool, **own: Any) -> Mapping[str, Mapping[str, Any]]:
    # Published without a limit on unsent bytes.
    common = {"unsent": "1GiB", "warmup_s": 1, "max_attempts": 2 if quick else 4}
    return {RUN: {"parallel": {**common, **own}}}


def channel(rate_mbit_s: float, rtt_ms: float) -> Mapping[str, Any]:
    """A path like a channel of the report, slower."""
    words = {
        "rate": f"{rate_mbit_s / SLOWER:g}Mbps",
        "delay": f"{rtt_ms * SLOWER / 2:g}ms",
        "queue": f"{_QUEUE_MS * SLOWER:g}ms",
    }
    return {"both": words}


def _asked(run: Run) -> ParallelSection:
    from weirlab.jobs.inventory import scenario_of
    from weirlab.transfers.parallel.section import ParallelScenario

    return scenario_of(run, ParallelScenario).parallel


def goodputs(
    found: ParallelFindings, case: str, method: str, path: int = 0, factor: float = 1.0
) -> Sequence[float]:
    """Goodput of the valid attempts in Mbit/s, times ``factor``, by repetition."""
    rows = [
        row for row in found.rows if row.valid and (row.case, row.method, row.path) == (case, method, path)
    ]
    return [row.goodput_bps / _MBIT * factor for row in sorted(rows, key=lambda row: row.repetition)]


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else math.nan


class TwoEmulatedPaths(ReproducedExperiment):
    """Nine ratios of the rates of two paths."""

    key = "two-emulated-paths"
    deviations = (
        *COMMON,
        "The report names neither delay nor queue of its two emulated paths: here they have a round trip of "
        "10 ms and 30 ms of queue.",
    )

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        asked = _settings(self.key)
        split = {
            "rate": f"{asked['sum_mbit_s']}Mbps",
            "ratios": asked["ratios"],
            "both": {"delay": "5ms", "queue": "30ms"},
        }
        return _section(
            quick,
            methods=[TCP, ROUND_ROBIN, POLL_ALL],
            split=split,
            lasts_s=2 if quick else 8,
            repetitions=2 if quick else 5,
        )

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if RUN not in runs:
            return
        found, total = study.stored(runs[RUN]), float(published.settings["sum_mbit_s"])
        by_ratio = self._cases(runs[RUN])
        alone = {ratio: goodputs(found, case, TCP, 1) for ratio, case in by_ratio.items()}
        shared = {ratio: goodputs(found, case, ROUND_ROBIN) for ratio, case in by_ratio.items()}
        taken = {ratio: _median(goodputs(found, case, POLL_ALL)) for ratio, case in by_ratio.items()}
        multiples = [_median(shared[ratio]) / _median(alone[ratio]) for ratio in by_ratio]
        yield claims.near(published.values["poll-all"], _median([*taken.values()]), 0.05)
        yield claims.near(published.values["round-robin"], _median(multiples), 0.05)
        ratios = {
            f"{ratio:g}": claims.ratio(shared[ratio], alone[ratio], 1.9, 2.1, (ROUND_ROBIN, "single TCP"))
            for ratio in by_ratio
        }
        rule = "at every ratio of the rates, 1.9 to 2.1 times single TCP over the slower path"
        yield Answer("twice-the-slower", decision=claims.every(ratios, rule))
        rule = "90 to 100 % of the rate of both paths at every ratio"
        totals = {f"ratio {ratio:g}": value for ratio, value in taken.items()}
        yield Answer("nearly-the-sum", decision=claims.within(totals, 0.9 * total, total, rule))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        if RUN not in runs:
            return ()
        found = study.stored(runs[RUN])
        rows: list[dict[str, Any]] = []
        for ratio, case in self._cases(runs[RUN]).items():
            lines = {
                POLL_ALL: _median(goodputs(found, case, POLL_ALL)),
                ROUND_ROBIN: _median(goodputs(found, case, ROUND_ROBIN)),
                "twice single TCP, slower path": 2 * _median(goodputs(found, case, TCP, 1)),
            }
            rows += [{"series": name, "at_s": ratio, "value": value} for name, value in lines.items()]
        frame = pl.DataFrame([row for row in rows if not math.isnan(row["value"])])
        if not frame.height:
            return ()
        extent = (min(published.settings["ratios"]), max(published.settings["ratios"]))
        mean = float(np.mean(frame.filter(pl.col("series") == POLL_ALL)["value"].to_numpy()))
        return [
            Figure(
                key=f"{self.key}-totals",
                section=self.key,
                panel="",
                title=f"On average over the ratios, poll-all carries {mean:.1f} Mbit/s.",
                caption="Medians; the ratio is that of the rates of both paths, which have "
                f"{published.settings['sum_mbit_s']} Mbit/s together.",
                alt="Goodput in Mbit/s over the ratio of the rates, a line per driver.",
                chart=charts.over_time(
                    frame, extent, "Goodput, Mbit/s", along="Ratio of the rates", stepped=False
                ),
                data=frame,
            )
        ]

    @staticmethod
    def _cases(run: Run) -> Mapping[float, str]:
        """Names of the cases by ratio, in the order of the scenario."""
        asked = _asked(run)
        ratios = asked.split.ratios if asked.split is not None else ()
        return {ratio: case.name for ratio, case in zip(ratios, asked.every_case(), strict=False)}


class UnequalChannels(ReproducedExperiment):
    """A slow channel and a fast one."""

    key = "unequal-channels"
    deviations = (*COMMON, *SCALED)
    CASE: Final = "a slow channel and a fast one"

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        asked = _settings(self.key)
        paths = [channel(rate, asked["rtt_ms"]) for rate in asked["channels_mbit_s"]]
        return _section(
            quick,
            methods=[TCP, ROUND_ROBIN, POLL_ALL],
            cases=[{"name": self.CASE, "paths": paths}],
            buffers=_BUFFERS,
            lasts_s=5 if quick else 15,
            repetitions=2 if quick else 7,
        )

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if RUN not in runs:
            return
        found = study.stored(runs[RUN])
        slow = goodputs(found, self.CASE, TCP, 1, SLOWER)
        fast = goodputs(found, self.CASE, TCP, 2, SLOWER)
        shared = goodputs(found, self.CASE, ROUND_ROBIN, factor=SLOWER)
        taken = goodputs(found, self.CASE, POLL_ALL, factor=SLOWER)
        both = [one + other for one, other in zip(slow, fast, strict=False)]
        here = {
            "single-slow": _median(slow),
            "single-fast": _median(fast),
            "round-robin": _median(shared),
            "twice-slow": 2 * _median(slow),
            "poll-all": _median(taken),
            "sum": _median(slow) + _median(fast),
        }
        yield from (claims.near(published.values[key], value, 0.1) for key, value in here.items())
        twice = [2 * value for value in slow]
        names = (ROUND_ROBIN, "twice single TCP over the slower channel")
        yield Answer("twice-the-slower", decision=claims.ratio(shared, twice, 0.98, 1.02, names))
        names = (POLL_ALL, "the sum of single TCP")
        yield Answer("the-sum", decision=claims.ratio(taken, both, 0.98, 1.02, names))
        names = (POLL_ALL, ROUND_ROBIN)
        yield Answer("poll-all-ahead", decision=claims.ratio(taken, shared, 2.375, 2.625, names))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        return _figures(self.key, runs)


class CompetingStreams(ReproducedExperiment):
    """TCP streams that come and go on two equal channels."""

    key = "cross-traffic"
    deviations = (*COMMON, *SCALED)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        asked = _settings(self.key)
        paths = [channel(rate, asked["rtt_ms"]) for rate in asked["channels_mbit_s"]]
        cases = [
            {
                "name": name,
                "paths": paths,
                "competitors": [
                    {"path": path, "from_s": start, "lasts_s": end - start} for path, start, end in streams
                ],
            }
            for name, streams in asked["streams"].items()
        ]
        return _section(
            quick,
            methods=[ROUND_ROBIN, POLL_ALL] if quick else [TCP, ROUND_ROBIN, POLL_ALL],
            cases=cases,
            buffers=_BUFFERS,
            lasts_s=asked["lasts_s"],
            repetitions=1 if quick else 7,
        )

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if RUN not in runs:
            return
        run = runs[RUN]
        found, series = study.stored(run), run.table(SERIES, ThroughputRow)
        more: dict[str, Decision] = {}
        steadier: dict[str, Decision] = {}
        unharmed: dict[str, Decision] = {}
        for case in _asked(run).cases:
            courses = {
                method: [_seconds(series, trial) for trial in _trials(found, case.name, method)]
                for method in (POLL_ALL, ROUND_ROBIN)
            }
            during = {
                method: [float(course[_busy(case, len(course))].mean()) for course in of_method]
                for method, of_method in courses.items()
            }
            names = (POLL_ALL, ROUND_ROBIN)
            more[case.name] = claims.ratio(during[POLL_ALL], during[ROUND_ROBIN], 1.02, math.inf, names)
            spread = {
                method: [float(np.std(course)) for course in of_method]
                for method, of_method in courses.items()
            }
            steadier[case.name] = claims.ratio(
                spread[POLL_ALL], spread[ROUND_ROBIN], 0.0, 0.98, ("poll-all's deviation", "round-robin's")
            )
            rival = {
                method: [
                    row.competitor_bps
                    for row in found.rows
                    if row.valid and (row.case, row.method) == (case.name, method)
                ]
                for method in names
            }
            unharmed[case.name] = claims.ratio(
                rival[POLL_ALL],
                rival[ROUND_ROBIN],
                0.8,
                math.inf,
                ("other streams beside poll-all", "beside round-robin"),
            )
        rule = "in all three cases, goodput at least 1.02 of round-robin's while other streams are there"
        yield Answer("keeps-more", decision=claims.every(more, rule))
        rule = (
            "in all three cases, the goodput's standard deviation from second to second at most 0.98 as large"
        )
        yield Answer("steadier", decision=claims.every(steadier, rule))
        rule = "in all three cases, the other streams carry at least 0.8 of what they do beside round-robin"
        yield Answer("unharmed", decision=claims.every(unharmed, rule))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        return _figures(self.key, runs)


def _figures(key: str, runs: Runs) -> Sequence[Figure]:
    """The figures of every case that has valid attempts."""
    if RUN not in runs:
        return ()
    found, series = study.stored(runs[RUN]), runs[RUN].table(SERIES, ThroughputRow)
    return [
        figure
        for number, case in enumerate(_asked(runs[RUN]).cases)
        if found.of(case.name)
        for figure in page.figures_of_case(found, case, f"{key}-{number}", series)
    ]


def _trials(found: ParallelFindings, case: str, method: str) -> Sequence[str]:
    return [row.trial_id for row in found.rows if row.valid and (row.case, row.method) == (case, method)]


def _seconds(series: pl.DataFrame, trial_id: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Goodput in each second of the recorded part, in bit/s."""
    mine = series.filter(
        (pl.col("trial_id") == trial_id) & (pl.col("what") == APPLICATION) & (pl.col("start_s") >= -1e-9)
    )
    # Bins of one second are whole numbers of bins.
    second = (pl.col("start_s") + 1e-6).floor().cast(pl.Int64)
    by_second = mine.group_by(second.alias("second")).agg(pl.col("throughput_bps").mean()).sort("second")
    return by_second["throughput_bps"].to_numpy()


def _busy(case: ParallelCase, seconds: int) -> Sequence[int]:
    """The seconds in which another stream is there."""
    spans = [
        (competitor.from_s, competitor.from_s + (competitor.lasts_s or seconds))
        for competitor in case.competitors
    ]
    return [second for second in range(seconds) if any(a <= second < b for a, b in spans)]


EXPERIMENTS: Final = (TwoEmulatedPaths(), UnequalChannels(), CompetingStreams())
