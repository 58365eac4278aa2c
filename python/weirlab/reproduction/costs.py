"""What ESP costs a packet, measured beside a publication's times."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from weirlab.base.quantities import duration, significant
from weirlab.base.tables import Table
from weirlab.calls.ipsec import cost_study
from weirlab.calls.ipsec.cost import EspCostFindings
from weirlab.publications import PublishedExperiment, publication
from weirlab.reproduction.charts import CourseText, courses
from weirlab.reproduction.claims import UNKNOWN, all_of, decided, fitted, near, ratio
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.traffic.calls.codecs import UDP_BYTES

if TYPE_CHECKING:
    from weirlab.report.figure import Figure

KEY: Final = "kazemi-ipsec-voip"
AES, SHA1, MD5 = "aes-cbc", "aes-cbc-hmac-sha1-96", "aes-cbc-hmac-md5-96"
COSTS: Final = "processing times"
LIBRARY: Final = (
    "Weir's ESP library, timed in memory with the CPU's AES instructions, stands for the handlers of the "
    "bare PC. The codec, which is not named, is G.711."
)
NANOSECONDS: Final = {"ms": 1e6, "µs": 1e3}


class _Costs(ReproducedExperiment):
    """Experiments that share a run of processing times."""

    deviations: ClassVar[Sequence[str]] = (LIBRARY,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        settings = publication(KEY).experiments["processing-incoming"].settings
        return {
            COSTS: {
                "esp": {
                    "packet_times_ms": list(settings["voice_ms"]),
                    "suites": list(settings["suites"]),
                    "modes": list(settings["modes"]),
                    "rounds": 60 if quick else 300,
                }
            }
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if COSTS in runs:
            yield from self.answered(EspCosts(cost_study.stored(runs[COSTS])), published)

    @abstractmethod
    def answered(self, costs: EspCosts, published: PublishedExperiment) -> Iterator[Answer]:
        """The answers by the rounds of a run."""


class EspCosts:
    """The rounds of a run, and what follows from them."""

    def __init__(self, found: EspCostFindings) -> None:
        self._found = found
        self.suites, self.modes = found.asked.suites, found.asked.modes
        self.times_ms = sorted(found.asked.packet_times_ms)

    def rounds(self, suite: str, mode: str, way: str, packet_ms: float) -> Sequence[float]:
        """ns per packet, round by round."""
        return self._found.rounds.get((suite, mode, way, packet_ms), ())

    def median(self, suite: str, mode: str, way: str, packet_ms: float) -> float:
        """ns per packet; NaN if it was not measured."""
        rounds = self.rounds(suite, mode, way, packet_ms)
        return median(rounds) if rounds else math.nan

    def course(self, suite: str, mode: str, way: str) -> Sequence[float]:
        """Medians over the packet times."""
        return [self.median(suite, mode, way, packet_ms) for packet_ms in self.times_ms]

    def sums(self, suite: str, mode: str, way: str) -> Sequence[float]:
        """ns for a packet of every length, round by round."""
        each = [self.rounds(suite, mode, way, packet_ms) for packet_ms in self.times_ms]
        return [sum(rounds) for rounds in zip(*each, strict=True)]

    def gains(self, suite: str, mode: str, slow: str, fast: str) -> Sequence[float]:
        """By how many percent more packets pass the fast way, over the packet times."""
        courses = zip(self.course(suite, mode, slow), self.course(suite, mode, fast), strict=True)
        return [100 * (longer / shorter - 1) for longer, shorter in courses]

    def gain(self, suite: str, mode: str, slow: str, fast: str) -> float:
        """By how many percent more packets pass the fast way, over all lengths: medians of the rounds."""
        longer, shorter = (np.median(self.sums(suite, mode, way)) for way in (slow, fast))
        return float(100 * (longer / shorter - 1))


class IncomingCosts(_Costs):
    """Processing time of incoming packets over mode, suite and size."""

    key = "processing-incoming"

    def answered(self, costs: EspCosts, published: PublishedExperiment) -> Iterator[Answer]:
        apart = {
            suite: [
                longer - shorter
                for longer, shorter in zip(
                    costs.course(suite, "tunnel", "in"), costs.course(suite, "transport", "in"), strict=True
                )
            ]
            for suite in costs.suites
        }
        typical = float(np.median(list(apart.values())))
        yield Answer("tunnel-minus-transport", typical / NANOSECONDS["µs"])
        yield Answer(
            "constant-mode-difference",
            decision=all_of({suite: self._constant(costs, suite, ns) for suite, ns in apart.items()}),
        )
        yield Answer(
            "linear-in-size",
            decision=all_of(
                {
                    f"{suite}, {mode}": fitted(costs.times_ms, costs.course(suite, mode, "in"))
                    for suite, mode in product(costs.suites, costs.modes)
                }
            ),
        )
        yield Answer(
            "md5-slightly-more-than-sha1",
            decision=all_of(
                {
                    f"{mode}, {packet_ms:g} ms": ratio(
                        costs.rounds(MD5, mode, "in", packet_ms),
                        costs.rounds(SHA1, mode, "in", packet_ms),
                        1,
                        1.25,
                        ("MD5", "SHA-1"),
                    )
                    for mode, packet_ms in product(costs.modes, costs.times_ms)
                }
            ),
        )
        yield Answer(
            "tunnel-only-slightly-more",
            decision=all_of(
                {
                    suite: ratio(
                        costs.sums(suite, "tunnel", "in"),
                        costs.sums(suite, "transport", "in"),
                        1,
                        1.25,
                        ("tunnel", "transport"),
                    )
                    for suite in costs.suites
                }
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        text = CourseText(
            "incoming-costs", self.key, "incoming packets",
            "Processing time of an incoming packet, over the speech in it.", "ms of speech", "ns",
        )  # fmt: skip
        return _courses(
            runs, text, lambda costs: {
                f"{suite}, {mode}": costs.course(suite, mode, "in")
                for suite, mode in product(costs.suites, costs.modes)
            },
        )  # fmt: skip

    @staticmethod
    def _constant(costs: EspCosts, suite: str, apart_ns: Sequence[float]) -> Decision:
        rule = (
            "tunnel mode costs more at every length, and from the shortest to the longest packet a line "
            "through the differences changes by at most 5 % of the longest packet's cost"
        )
        slope = float(np.polyfit(costs.times_ms, apart_ns, 1)[0])
        change_ns = slope * (costs.times_ms[-1] - costs.times_ms[0])
        longest_ns = costs.course(suite, "transport", "in")[-1]
        typical = float(np.median(apart_ns))
        found = f"{change_ns:+.0f} ns ({change_ns / longest_ns:+.1%}), {typical:+.0f} ns at the median"
        return decided(min(apart_ns) > 0 and abs(change_ns) <= 0.05 * longest_ns, rule, found)


class CostDirections(_Costs):
    """Incoming packets against outgoing ones."""

    key = "incoming-versus-outgoing"

    def answered(self, costs: EspCosts, published: PublishedExperiment) -> Iterator[Answer]:
        cases = [(suite, mode) for suite in costs.suites for mode in costs.modes]
        yield Answer(
            "in-more-than-out",
            decision=all_of(
                {
                    f"{suite}, {mode}": ratio(
                        costs.sums(suite, mode, "in"),
                        costs.sums(suite, mode, "out"),
                        1,
                        math.inf,
                        ("in", "out"),
                    )
                    for suite, mode in cases
                }
            ),
        )
        increases = {case: fmean(self._increases(costs, *case)) for case in cases}
        most = max(increases, key=lambda case: increases[case])
        least = min(increases, key=lambda case: increases[case])
        rule = (
            "of the six mean increases, the largest is that of AES alone in tunnel mode, the smallest that "
            "of AES with authentication in transport mode"
        )
        found = ", ".join(
            f"{suite} {mode} {100 * increase:+.0f} %" for (suite, mode), increase in increases.items()
        )
        holds = most == (AES, "tunnel") and least[1] == "transport" and least[0] != AES
        # Both claims are about an increase.
        increased = all(increase > 0 for increase in increases.values())
        none = "; incoming packets do not all cost more here"
        yield Answer(
            "largest-without-auth-tunnel",
            decision=decided(holds, rule, found) if increased else Decision(UNKNOWN, rule, found + none),
        )
        steps = [
            later < earlier
            for suite, mode in cases
            if suite != AES
            for earlier, later in pairwise(self._increases(costs, suite, mode))
        ]
        rule = "more than half of the steps from one packet time to the next fall"
        ends = [self._increases(costs, SHA1, "transport")[place] for place in (0, -1)]
        course = f"with SHA-1 in transport mode from {ends[0]:+.0%} to {ends[1]:+.0%}"
        found = f"{sum(steps)} of {len(steps)} steps; {course}"
        falls = decided(sum(steps) > len(steps) / 2, rule, found)
        yield Answer(
            "decreases-with-size-mostly",
            decision=falls if increased else Decision(UNKNOWN, rule, found + none),
        )
        yield Answer(
            "auth-cost-symmetric",
            decision=all_of(
                {
                    f"{suite}, {mode}": ratio(
                        self._authentication(costs, suite, mode, "in"),
                        self._authentication(costs, suite, mode, "out"),
                        0.9,
                        1.1,
                        ("authentication in", "out"),
                    )
                    for suite, mode in cases
                    if suite != AES
                }
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        text = CourseText(
            "in-over-out", self.key, "", "How much more an incoming packet costs than an outgoing one.",
            "ms of speech", "in beyond out, %",
        )  # fmt: skip
        return _courses(
            runs, text, lambda costs: {
                f"{suite}, {mode}": [100 * each for each in self._increases(costs, suite, mode)]
                for suite, mode in product(costs.suites, costs.modes)
            },
        )  # fmt: skip

    @staticmethod
    def _increases(costs: EspCosts, suite: str, mode: str) -> Sequence[float]:
        courses = zip(costs.course(suite, mode, "in"), costs.course(suite, mode, "out"), strict=True)
        return [inward / outward - 1 for inward, outward in courses]

    @staticmethod
    def _authentication(costs: EspCosts, suite: str, mode: str, way: str) -> Sequence[float]:
        """What a suite costs more than AES alone, over all lengths, round by round."""
        both = zip(costs.sums(suite, mode, way), costs.sums(AES, mode, way), strict=True)
        return [longer - shorter for longer, shorter in both]


class WithoutUdp(_Costs):
    """RTP straight over ESP."""

    key = "without-udp"

    def answered(self, costs: EspCosts, published: PublishedExperiment) -> Iterator[Answer]:
        yield near(published.values["udp-header"], UDP_BYTES, 0)
        gains = [costs.gain(SHA1, mode, "in-udp", "in-rtp") for mode in costs.modes]
        yield Answer("udp-gain", fmean(gains))
        gain = published.values["udp-gain"]
        yield Answer(
            "udp-removal-gains",
            decision=all_of(
                {
                    mode: ratio(
                        costs.sums(SHA1, mode, "in-udp"),
                        costs.sums(SHA1, mode, "in-rtp"),
                        1 + gain.low / 100,
                        1 + gain.high / 100,
                        ("time with UDP", "time without"),
                    )
                    for mode in costs.modes
                }
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        text = CourseText(
            "gain-without-udp", self.key, "", "Throughput gained without UDP, by mode and direction.",
            "ms of speech", "gain, %",
            f"Published for incoming packets: {published.values['udp-gain'].text} %.",
        )  # fmt: skip
        return _courses(
            runs, text, lambda costs: {
                f"{mode}, {way}": costs.gains(SHA1, mode, f"{way}-udp", f"{way}-rtp")
                for mode, way in product(costs.modes, ("in", "out"))
            },
        )  # fmt: skip


def _courses(
    runs: Runs, text: CourseText, series: Callable[[EspCosts], Mapping[str, Sequence[float]]]
) -> Sequence[Figure]:
    """A line for each series over the packet times."""

    if COSTS not in runs:
        return ()
    costs = EspCosts(cost_study.stored(runs[COSTS]))
    lines = {name: list(zip(costs.times_ms, one, strict=True)) for name, one in series(costs).items()}
    return courses(text, lines)


class DirectHandOver(_Costs):
    """From ESP straight to UDP, instead of through a queue between the layers."""

    key = "inter-layer"
    deviations: ClassVar[Sequence[str]] = (
        LIBRARY,
        "A queue between IPsec and UDP, with the IP header checked again, stands for the layers of a system; "
        "a socket of this system costs more, and stands beside it.",
    )
    _ODD_MS: Final = 40
    _SLOW: Final = {"through a queue": "in-layers", "through a socket": "in-system"}

    def answered(self, costs: EspCosts, published: PublishedExperiment) -> Iterator[Answer]:
        gains = dict(zip(costs.times_ms, costs.gains(SHA1, "transport", "in-layers", "in-udp"), strict=True))
        others = [gain for packet_ms, gain in gains.items() if packet_ms != self._ODD_MS]
        spread = max(others) - min(others)
        yield Answer("os-gain", costs.gain(SHA1, "transport", "in-layers", "in-udp"))
        yield Answer("os-gain-spread", spread)
        gain = published.values["os-gain"]
        yield Answer(
            "bare-gains",
            decision=ratio(
                costs.sums(SHA1, "transport", "in-layers"),
                costs.sums(SHA1, "transport", "in-udp"),
                1 + gain.low / 100,
                1 + gain.high / 100,
                ("time through a queue between layers", "time of direct hand-over"),
            ),
        )
        most = published.values["os-gain-spread"].high
        odd = gains.get(self._ODD_MS, math.nan)
        whole = max(gains.values()) - min(gains.values())
        rule = f"without 40 ms the gain spreads over at most {most:g} points, with it over more"
        between = f"{min(others):.3g} to {max(others):.3g} %"
        found = f"{spread:.2g} and {whole:.2g} points ({between}, at 40 ms {odd:.3g} %)"
        yield Answer("flat-except-40", decision=decided(spread <= most < whole, rule, found))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        text = CourseText(
            "gain-direct", self.key, "", "Throughput gained by handing packets straight to UDP.",
            "ms of speech", "gain, %", f"Published: {published.values['os-gain'].text} %.",
        )  # fmt: skip
        queue = "through a queue"
        return _courses(runs, text, lambda costs: {queue: self._gains(costs)[queue]})

    def tables(self, runs: Runs, published: PublishedExperiment) -> Sequence[Table]:
        if COSTS not in runs:
            return ()
        costs = EspCosts(cost_study.stored(runs[COSTS]))
        straight = costs.course(SHA1, "transport", "in-udp")
        columns = {
            "Packet time": [f"{packet_ms:g} ms" for packet_ms in costs.times_ms],
            "Straight to UDP": list(map(duration, straight)),
        }
        for name, gains in self._gains(costs).items():
            slow = costs.course(SHA1, "transport", self._SLOW[name])
            columns[name.capitalize()] = [
                f"{duration(ns)} ({significant(gain)} %)" for ns, gain in zip(slow, gains, strict=True)
            ]
        title = "Time of an incoming packet, and throughput gained by handing it straight to UDP"
        return (Table(title, tuple(columns), list(zip(*columns.values(), strict=True))),)

    def _gains(self, costs: EspCosts) -> Mapping[str, Sequence[float]]:
        """Throughput gained over each slow way, in percent, over the packet times."""
        return {name: costs.gains(SHA1, "transport", way, "in-udp") for name, way in self._SLOW.items()}
