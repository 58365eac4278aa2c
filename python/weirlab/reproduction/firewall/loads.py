"""Experiments about load, frame size and protocol, without rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base.quantities import significant
from weirlab.devices.profile.page.settings import sizes
from weirlab.devices.profile.page.source import gather
from weirlab.publications import PublishedExperiment
from weirlab.report.figure import Figure
from weirlab.report.rows import RowText
from weirlab.reproduction import claims
from weirlab.reproduction.charts import LETTERS, CourseText, courses, of_trials
from weirlab.reproduction.contract import Answer, Runs
from weirlab.reproduction.firewall import measured
from weirlab.reproduction.firewall.measured import LOST, US, MeasuredProfile, loss_percent, middle, us
from weirlab.reproduction.firewall.scenarios import DEVIATIONS, LARGE, SMALL, FirewallExperiment, series
from weirlab.traffic.load import rate_pps
from weirlab.traffic.sizes import SIMPLE_IMIX, Constant, parse_sizes
from weirlab.traffic.spec import Rate

JUMP: Final = 4.0
"""By what latency grows where overload begins."""


_GIGABIT: Final = Rate(1e9, "bps")
_MIX_PPS: Final = (50_000, 100_000, 200_000, 300_000)
_HARDLY: Final = 0.25
"""Spread over the median, up to which a latency hardly changes."""


class SentTraffic(FirewallExperiment):
    """Frame sizes and packet rates, computed; Simple IMIX beside random sizes, measured."""

    key = "traffic"
    deviations = DEVIATIONS

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """Simple IMIX and random sizes at the same packet rates."""
        listed = [
            {"name": f"{sizes} {pps}", "rate": f"{pps}pps", "sizes": sizes}
            for pps in _MIX_PPS
            for sizes in ("imix", SMALL, LARGE)
        ]
        return {"mixes": series(listed, 4, quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        values = published.values
        sizes, counts = published.settings["imix_bytes"], published.settings["imix_counts"]
        weights = [weight for _, weight in SIMPLE_IMIX.parts]
        octets = sum(size * weight for size, weight in zip(sizes, weights, strict=True))
        for size, weight in zip(sizes, weights, strict=True):
            yield claims.near(values[f"imix-packets@{size}"], 100 * weight / sum(weights), 0.001)
            yield claims.near(values[f"imix-bytes@{size}"], 100 * size * weight / octets, 0.03)
        assert len(counts) == len(weights)
        yield claims.near(values["imix-pps"], rate_pps(_GIGABIT, SIMPLE_IMIX), 0.001)
        yield claims.near(values["pps-64"], rate_pps(_GIGABIT, Constant(64)), 0.001)
        yield claims.near(values["pps-highest"], rate_pps(_GIGABIT, parse_sizes(SMALL)), 0.001)
        if "mixes" not in runs:
            return
        trials = measured.settings(runs["mixes"])
        spreads, lows, highs = {}, {}, {}
        for name, sizes_text in (("Poisson lengths", (SMALL, LARGE)), ("Simple IMIX", ("imix",))):
            found = [middle(us(trials.get(f"{sizes} {pps}"))) for sizes in sizes_text for pps in _MIX_PPS]
            lows[name], highs[name] = min(found), max(found)
            spreads[name] = (max(found) - min(found)) / middle(found)
        rule = (
            f"the spread of the means over the rates is at most {_HARDLY:.0%} of their median with Simple "
            "IMIX, and smaller than with Poisson lengths"
        )
        parts = {
            "over the rates": claims.within({"Simple IMIX": spreads["Simple IMIX"]}, 0.0, _HARDLY, ""),
            "of both": claims.ordered(spreads, ""),
        }
        yield Answer("imix-varies-little", decision=claims.every(parts, rule))
        known = not any(np.isnan(value) for value in (*lows.values(), *highs.values()))
        inside = (
            lows["Poisson lengths"] <= lows["Simple IMIX"]
            and highs["Simple IMIX"] <= highs["Poisson lengths"]
        )
        rule = "at the same rates, the means of Simple IMIX lie within those of the Poisson lengths"
        means = "; ".join(
            f"{name} {significant(lows[name])} to {significant(highs[name])} µs" for name in lows
        )
        yield Answer("poisson-covers-imix", decision=claims.settled(inside if known else None, rule, means))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency over the packet rate, by mix."""
        if "mixes" not in runs:
            return ()
        trials = measured.settings(runs["mixes"])
        lines = {
            name: [(pps / 1e3, middle(us(trials.get(f"{mix} {pps}")))) for pps in _MIX_PPS]
            for name, mix in (("Simple IMIX", "imix"), ("small frames", SMALL), ("large frames", LARGE))
        }
        title = "Mean latency of Simple IMIX beside frames of bounded Poisson lengths."
        return courses(CourseText("mixes", self.key, "", title, "Load, kpps", "Mean latency, µs"), lines)


_RATES: Final = (50, 150, 250, 350, 450, 550, 650, 750, 850, 1000, 1200, 1500, 1800, 2200)


class LatencyOverRate(FirewallExperiment):
    """One frame size, without rules, from low loads to overload."""

    key = "latency-over-rate"
    shared = ("iptables",)
    deviations = (
        "Rates go beyond 1000 Mbit/s, up to as fast as possible, because this device is not overloaded by "
        "the published rates.",
    )

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """Absolute rates, and as fast as possible."""
        listed = [{"name": f"{rate}", "rate": f"{rate}Mbit/s", "sizes": "160"} for rate in _RATES]
        return {"rates": series([*listed, {"name": "max", "rate": "max", "sizes": "160"}], 3, quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "rates" in runs:
            yield from self._over_rate(measured.settings(runs["rates"]))
        if "iptables" in runs:
            found = MeasuredProfile.of(runs["iptables"]).thresholds()
            decision = claims.monotone(list(found), list(found.values()), falling=True)
            yield Answer("threshold-of-rules", decision=decision)

    def _over_rate(self, trials: Mapping[str, pl.DataFrame]) -> Iterator[Answer]:
        points = []
        for name, rows in trials.items():
            pps = middle(rows["achieved_pps"].to_list())
            mbit = pps * (160 + 20) * 8 / 1e6 if name == "max" else float(name)
            relative = middle(
                [sd / mean for sd, mean in zip(us(rows, "delay_sd_ns"), us(rows), strict=False)]
            )
            points.append((mbit, middle(us(rows)), loss_percent(rows), relative))
        points.sort()
        lost = [loss > 100 * LOST for _, _, loss, _ in points]
        first = lost.index(True) if True in lost else len(points)
        below, over = points[:first], points[first:]
        base = middle(delay for _, delay, _, _ in below)
        yield Answer("latency-below", base)
        yield Answer("loss-below", middle(loss for _, _, loss, _ in below))
        yield Answer("rises", decision=claims.monotone([p[0] for p in below], [p[1] for p in below]))
        rule = f"where loss first exceeds {LOST:.1%}, or at the next rate, {JUMP:g} times the latency below"
        if not over:
            yield Answer("jumps", decision=claims.settled(None, rule, "no overload"))
            return
        yield Answer("threshold", over[0][0])
        yield Answer("latency-above", middle(delay for _, delay, _, _ in over))
        yield Answer("loss-highest", loss_percent(trials.get("1000")))
        highest = max(delay for _, delay, _, _ in over[:2])
        yield Answer(
            "jumps",
            decision=claims.settled(
                highest >= JUMP * base if below else None,
                rule,
                f"loss from {significant(over[0][0])} Mbit/s, {significant(highest)} µs after "
                f"{significant(base)} µs",
            ),
        )
        yield Answer("loss-rises", decision=claims.monotone([p[0] for p in over], [p[2] for p in over]))
        yield Answer(
            "spread",
            decision=claims.ordered(
                {
                    "below": middle(relative for *_, relative in below),
                    "in overload": middle(relative for *_, relative in over),
                },
                "standard deviation over mean, smaller in overload",
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency and loss over the data rate."""
        if "rates" not in runs:
            return ()
        trials = measured.settings(runs["rates"])
        rates = {rate: trials[f"{rate}"] for rate in _RATES if f"{rate}" in trials}
        delays = {"here": [(rate, middle(us(rows))) for rate, rows in rates.items()]}
        losses = {"here": [(rate, loss_percent(rows)) for rate, rows in rates.items()]}
        x, delay = "Data rate, Mbit/s", "Mean latency, µs"
        title = "Mean latency of 160-byte frames over the data rate."
        lost = "Packets lost over the data rate."
        return (
            *courses(CourseText("latency-over-rate", self.key, "latency", title, x, delay, log=True), delays),
            *courses(CourseText("loss-over-rate", self.key, "loss", lost, x, "Loss, %"), losses),
        )


_SIZES: Final = (64, 256, 512, 768, 1024, 1280, 1518)


class LatencyOverSize(FirewallExperiment):
    """One data rate, without rules, all frame sizes."""

    key = "latency-over-size"

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """The published data rate."""
        return {
            "sizes": series(
                [{"name": f"{size}", "rate": "200Mbit/s", "sizes": f"{size}"} for size in _SIZES], 5, quick
            )
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "sizes" not in runs:
            return
        trials = measured.settings(runs["sizes"])
        delays = [middle(us(trials.get(f"{size}"))) for size in _SIZES]
        losses = [loss_percent(trials.get(f"{size}")) for size in _SIZES]
        yield Answer("shortest", delays[0])
        yield Answer("longest", delays[-1])
        yield Answer("loss", max(losses))
        yield Answer("rises", decision=claims.monotone(_SIZES, delays))
        yield Answer(
            "no-loss",
            decision=claims.settled(
                None if any(np.isnan(losses)) else max(losses) == 0,
                "no loss in the median trial at any size",
                f"at most {max(losses):.3g} %",
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency over the frame size."""
        if "sizes" not in runs:
            return ()
        trials = measured.settings(runs["sizes"])
        lines = {"here": [(size, middle(us(trials.get(f"{size}")))) for size in _SIZES]}
        title = f"Mean latency over the frame size, at {published.settings['rate_mbit_s']} Mbit/s."
        text = CourseText("latency-over-size", self.key, "", title, "Frame size, bytes", "Mean latency, µs")
        return courses(text, lines)


_FEW_SIZES: Final = (160, 288, 544, 928)


class BaseMeasurement(FirewallExperiment):
    """Rate and frame size together, without rules."""

    key = "base"
    shared = ("iptables",)
    deviations = (
        "The highest data rate of the base measurement is 2000 instead of 1000 Mbit/s, so that the smallest "
        "frames overload this device.",
    )

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """Few sizes at a low and at a very high data rate."""
        listed = [
            {"name": f"{size} {rate}", "rate": f"{rate}Mbit/s", "sizes": f"{size}"}
            for rate in (300, 1000, 2000)
            for size in _FEW_SIZES
        ]
        return {"data-rates": series(listed, 3, quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "data-rates" in runs:
            yield from self._data_rates(measured.settings(runs["data-rates"]))
        if "iptables" in runs:
            yield from self._profile(MeasuredProfile.of(runs["iptables"]))

    def _data_rates(self, trials: Mapping[str, pl.DataFrame]) -> Iterator[Answer]:
        def delay(size: int, rate: int) -> float:
            return middle(us(trials.get(f"{size} {rate}")))

        yield Answer("large-fast", delay(928, 1000))
        high = [delay(size, 2000) for size in _FEW_SIZES]
        losses = [loss_percent(trials.get(f"{size} 2000")) for size in _FEW_SIZES]
        low = delay(160, 300), delay(928, 300)
        known = not any(np.isnan((*high, *losses, *low)))
        overloads = known and losses[0] > 100 * LOST
        yield Answer(
            "inversion",
            decision=claims.settled(
                high[0] > high[-1] and low[0] < low[1] if overloads else None,
                "160-byte frames slower than 928-byte ones at 2000 Mbit/s, and faster at 300",
                f"{significant(high[0])} and {significant(high[-1])} µs; "
                f"{significant(low[0])} and {significant(low[1])} µs",
            ),
        )
        lossless = [i for i, loss in enumerate(losses) if loss <= 100 * LOST]
        least = int(np.argmin(high)) if known else 0
        inside = bool(lossless) and 0 < least < len(_FEW_SIZES) - 1 and least == lossless[0]
        yield Answer(
            "u-shape",
            decision=claims.settled(
                inside if overloads and lossless else None,
                "the lowest latency at 2000 Mbit/s is that of the first size without loss, not the largest",
                ", ".join(
                    f"{size} B {significant(value)} µs" for size, value in zip(_FEW_SIZES, high, strict=True)
                ),
            ),
        )

    def _profile(self, found: MeasuredProfile) -> Iterator[Answer]:
        below = found.below.where(found.below.position == 0)
        over = found.over.where(found.over.position == 0)
        if not len(below) or not len(over):
            return
        delays, busy = below.delay_mean_ns / US, over.delay_mean_ns / US
        yield Answer("most", float(np.quantile(np.concatenate([delays, busy]), 0.5)))
        yield Answer("lowest", float(delays.min()))
        yield Answer("highest", float(busy.max()))
        smallest = below.frame_bytes < 200
        yield Answer("small-slow", float(delays[smallest][np.argmin(below.rate_pps[smallest])]))
        yield Answer("overload", float(np.median(busy)))
        yield Answer("spread", float(delays.max() - delays.min()))
        limits = {
            f"{size:.0f} B": float(np.median(over.forwarding_pps[np.round(over.frame_bytes) == size]))
            for size in np.unique(np.round(over.frame_bytes))
        }
        yield Answer("threshold", float(np.mean(list(limits.values()))))
        apart = (max(limits.values()) - min(limits.values())) / float(np.mean(list(limits.values())))
        yield Answer(
            "pps-collapse",
            decision=claims.settled(
                apart <= 0.1 if len(limits) > 1 else None,
                "thresholds of all sizes within 10 % of their mean",
                ", ".join(f"{name} {pps / 1e3:.0f} kpps" for name, pps in limits.items()),
            ),
        )
        common = np.polyfit(below.rate_pps / 1e6, delays, 2)
        rest = delays - np.polyval(common, below.rate_pps / 1e6)
        groups = [
            rest[np.round(below.frame_bytes) == size] for size in np.unique(np.round(below.frame_bytes))
        ]
        between = float(np.var([group.mean() for group in groups]))
        within = float(np.mean([group.var() for group in groups]))
        yield Answer(
            "size-spread",
            decision=claims.settled(
                between > within if len(groups) > 1 else None,
                "what a quadratic in the rate leaves varies more between sizes than within one",
                f"standard deviations {significant(between**0.5)} and {significant(within**0.5)} µs",
            ),
        )
        jump = float(np.median(busy) - np.median(delays))
        line = np.polyfit(over.rate_pps, busy, 1)
        slope = abs(float(line[0]) * float(np.ptp(over.rate_pps)))
        yield Answer(
            "constant-in-overload",
            decision=claims.settled(
                slope <= 0.1 * jump,
                "a line through the latencies in overload changes by at most a tenth of the jump before it",
                f"{significant(slope)} of {significant(jump)} µs",
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency over the frame size, and over load and size, as the profile's own page has them."""
        return tuple(sizes.figures(gather(runs["iptables"], {}))) if "iptables" in runs else ()


class TcpBesideUdp(FirewallExperiment):
    """One generator sends both."""

    key = "tcp-beside-udp"
    deviations = ("One generator sends TCP and UDP frames; the publication used two.",)

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """Both protocols in turn."""
        listed = [{"name": l4, "rate": "200kpps", "sizes": "160", "l4": l4} for l4 in ("udp", "tcp")]
        return {"protocols": series(listed, 15, quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "protocols" not in runs:
            return
        trials = measured.settings(runs["protocols"])
        for l4 in ("tcp", "udp"):
            yield Answer(l4, middle(us(trials.get(l4))))
            yield Answer(f"{l4}-sd", middle(us(trials.get(l4), "delay_sd_ns")))
        yield Answer(
            "no-difference",
            decision=claims.ratio(us(trials.get("tcp")), us(trials.get("udp")), 0.9, 1.1, ("TCP", "UDP")),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """The mean of every trial, by protocol."""
        if "protocols" not in runs:
            return ()
        trials = measured.settings(runs["protocols"])
        title = "Mean latency of each trial with TCP frames, and with UDP frames."
        return of_trials(
            RowText("protocols", self.key, title, "Mean latency, µs", LETTERS),
            {l4.upper(): us(trials.get(l4)) for l4 in ("tcp", "udp")},
        )


LOADS: Final = (SentTraffic(), LatencyOverRate(), LatencyOverSize(), BaseMeasurement(), TcpBesideUdp())
