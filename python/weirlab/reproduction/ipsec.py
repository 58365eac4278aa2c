"""Kazemi, Wijesinha and Karne: what IPsec costs packets of speech, and what callers notice of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from weirlab.calls.ipsec import published as bandwidth
from weirlab.calls.ipsec.endpoints import study as endpoints
from weirlab.calls.ipsec.endpoints.plan import NAMES
from weirlab.publications import PublishedExperiment, publication
from weirlab.reproduction.claims import all_of, decided, near, ratio
from weirlab.reproduction.contract import Answer, ReproducedExperiment, Runs
from weirlab.reproduction.costs import (
    AES,
    KEY,
    NANOSECONDS,
    SHA1,
    CostDirections,
    DirectHandOver,
    IncomingCosts,
    WithoutUdp,
)
from weirlab.store import Run

if TYPE_CHECKING:
    from weirlab.report.figure import Figure

CALLS: Final = (
    "Endpoints that poll AF_XDP sockets stand for bare PCs, and endpoints on UDP sockets for Linux PCs with "
    "a phone. ESP is in UDP."
)


class EspBandwidth(ReproducedExperiment):
    """Bandwidth of ESP: computed."""

    key = "theoretical-bandwidth"

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        voice_ms = published.settings["voice_ms"]
        yield near(published.values["rate"], 1e3 / voice_ms, 0)
        variants = {
            (cell.mode, bandwidth.SUITES[cell.suite].name): cell.ip_bps / 1e3
            for cell in bandwidth.cells()
            if cell.packet_ms == voice_ms and cell.suite
        }
        compared = {case: kbps for case, kbps in variants.items() if case[1] in published.settings["suites"]}
        most, least = (
            max(compared, key=lambda case: compared[case]),
            min(compared, key=lambda case: compared[case]),
        )
        rule = "the rate is highest in tunnel mode with SHA-1, lowest in transport mode with AES alone"
        found = ", ".join(f"{mode} {suite} {kbps:g} kbit/s" for (mode, suite), kbps in compared.items())
        holds = (most, least) == (("tunnel", SHA1), ("transport", AES))
        yield Answer("tunnel-auth-largest", decision=decided(holds, rule, found))


class CallQualityWithEsp(ReproducedExperiment):
    """Jitter and gaps of a call."""

    key = "call-quality"
    deviations = (CALLS,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        settings = publication(KEY).experiments[self.key].settings
        return {
            mode: {
                "endpoints": {
                    "codec": f"g711:{settings['voice_ms']}ms",
                    "suite": SHA1,
                    "mode": mode,
                    "arms": ["bypass", "sockets"],
                    "beside": ["idle"],
                    "calls": [1],
                    "lasts_s": 10 if quick else 60,
                    "repetitions": 3 if quick else 7,
                    "limit": None,
                }
            }
            for mode in settings["modes"]
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        for key, arm, column in (
            ("linux-max-jitter", "sockets", "jitter_max_ns"),
            ("linux-mean-jitter", "sockets", "jitter_mean_ns"),
            ("bare-jitter", "bypass", "jitter_mean_ns"),
            ("bare-max-delta", "bypass", "delta_max_ns"),
            ("linux-max-delta", "sockets", "delta_max_ns"),
        ):
            attempts = [ns for run in runs.values() for ns in attempted(run, arm, column)]
            if attempts:
                yield Answer(key, median(attempts) / NANOSECONDS[published.values[key].unit])
        jitter = {
            arm: {mode: attempted(run, arm, "jitter_mean_ns") for mode, run in runs.items()}
            for arm in ("sockets", "bypass")
        }
        together = {
            arm: [ns for attempts in by_mode.values() for ns in attempts] for arm, by_mode in jitter.items()
        }
        yield Answer(
            "bare-jitter-negligible",
            decision=ratio(
                together["sockets"],
                together["bypass"],
                30,
                300,
                ("mean jitter on sockets", "that of bypassing"),
            ),
        )
        packet_ns = published.settings["voice_ms"] * NANOSECONDS["ms"]
        gaps = [ns for run in runs.values() for ns in attempted(run, "sockets", "delta_max_ns")]
        yield Answer(
            "linux-delta-doubles",
            decision=ratio(
                gaps, [packet_ns] * len(gaps), 1.75, 2.25, ("longest gap on sockets", "the packet time")
            ),
        )
        yield Answer(
            "mode-irrelevant-for-quality",
            decision=all_of(
                {
                    arm: ratio(
                        by_mode.get("tunnel", ()),
                        by_mode.get("transport", ()),
                        0.75,
                        1.33,
                        ("mean jitter in tunnel mode", "that in transport mode"),
                    )
                    for arm, by_mode in jitter.items()
                }
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.report.rows import RowText
        from weirlab.reproduction.charts import beside_published

        found: list[Figure] = []
        for column, title, keys in (
            ("jitter_mean_ns", "Mean jitter of a call", ("linux-mean-jitter", "bare-jitter")),
            ("delta_max_ns", "Longest time between two arrivals", ("linux-max-delta", "bare-max-delta")),
        ):
            here = {
                f"{NAMES[arm]}, {mode}": [ns / NANOSECONDS["ms"] for ns in attempted(run, arm, column)]
                for arm in ("sockets", "bypass")
                for mode, run in runs.items()
            }
            text = RowText(column, self.key, f"{title}, by endpoint and mode.", f"{title}, ms")
            published_ms = {published.values[key].what: published.values[key].number for key in keys}
            found += beside_published(text, here, published_ms, log=True)
        return found


def attempted(run: Run, arm: str, column: str) -> Sequence[float]:
    """A figure of every valid attempt by one kind of endpoints."""
    return [getattr(row, column) for row in endpoints.stored(run).attempts if row.valid and row.arm == arm]


EXPERIMENTS: Final[tuple[ReproducedExperiment, ...]] = (
    EspBandwidth(),
    IncomingCosts(),
    CostDirections(),
    WithoutUdp(),
    DirectHandOver(),
    CallQualityWithEsp(),
)
