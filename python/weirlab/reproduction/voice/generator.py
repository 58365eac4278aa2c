"""What the engine sends over a plain cable, by the size of packets, the number of flows and the rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import median, stdev
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from weirlab.base.units import FCS_BYTES, MIN_FRAME_BYTES, NS_PER_S
from weirlab.calls.calls.wire import PublishedLine, published_line
from weirlab.publications import PublishedExperiment, publication
from weirlab.reproduction.claims import all_of, decided, fitted, monotone, near, ratio
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.store import Run
from weirlab.traffic.calls.codecs import VoiceStream, parse_codec
from weirlab.traffic.calls.spec import CallClass, Transport

if TYPE_CHECKING:
    from weirlab.report.figure import Figure


CODECS: Final = ("g711", "g726", "gsm-slow", "gsm-fast")
TRANSPORTS: Final[tuple[Transport, ...]] = ("rtp", "iax2")


@cache
def lines() -> Mapping[tuple[VoiceStream, Transport], PublishedLine]:
    """By stream and transport, what the published definition makes of a gigabit."""
    return {
        (stream, transport): published_line(CallClass(stream, transport))
        for stream in map(parse_codec, CODECS)
        for transport in TRANSPORTS
    }


class CodecTable(ReproducedExperiment):
    """Sizes, rates and theoretical maxima."""

    key = "codec-table"

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        here: dict[str, float] = {}
        for (stream, transport), line in lines().items():
            here[f"rate@{stream.payload_bytes}"] = stream.rate_pps
            here[f"size-{transport}@{stream.payload_bytes}"] = line.frame_bytes
            here[f"most-pps@{line.frame_bytes}"] = line.max_pps
            here[f"most-calls@{line.frame_bytes}"] = line.calls
        yield from (near(published.values[key], number, 0) for key, number in here.items())
        sizes = [key for key in here if key.startswith("size-")]
        equal = sum(published.values[key].number == here[key] for key in sizes)
        rule = "headers and payload add up to the published size"
        yield Answer(
            "size-formula", decision=decided(equal == len(sizes), rule, f"{equal} of {len(sizes)} sizes")
        )
        filled = [(size + FCS_BYTES) * pps for size, pps in published.series("most-pps").items()]
        apart = max(filled) / min(filled) - 1
        rule = "published rate times bytes with FCS is the same within 0.01 %"
        yield Answer("pps-inverse-size", decision=decided(apart <= 1e-4, rule, f"{100 * apart:.2g} % apart"))


CABLE: Final = "A veth pair and the engine's XDP sender stand for Gigabit Ethernet and the kernel's pktgen."
VOICE_CALL_PPS: Final = 50


FASTEST: Final = ("max",)


def cable(sizes: Sequence[int], rates: Sequence[str], quick: bool, *, flows: int = 1) -> Mapping[str, Any]:
    """Packets of ``sizes`` (with FCS) over a cable at every one of ``rates``."""
    return {
        "lab": {"kind": "netns"},
        "dut": {"name": "none"},
        "traffic": {"flows": flows, "order": "random" if flows > 1 else "advance"},
        "series": {
            "settings": [
                {"name": f"{size} B at {rate}", "rate": rate, "sizes": str(size)}
                for size in sizes
                for rate in rates
            ],
            "repetitions": 5 if quick else 14,
            "trial_s": 0.1 if quick else 0.5,
        },
    }


def fastest(run: Run) -> Mapping[float, Sequence[float]]:
    """Packets/s of every valid trial as fast as possible, by bytes without FCS, ascending."""
    trials = run.trials().filter(pl.col("valid") & pl.col("offered_pps").is_infinite())
    sent = trials.sort("frame_bytes").group_by("frame_bytes", maintain_order=True).agg("achieved_pps")
    return {frame - FCS_BYTES: tuple(rates) for frame, rates in sent.iter_rows()}


def voice_sizes() -> Sequence[int]:
    """The sizes of the codecs' packets with FCS."""
    return sorted({line.frame_bytes + FCS_BYTES for line in lines().values()})


class _MaximumOverSize(ReproducedExperiment):
    """Experiments that share a run: as fast as possible with every size."""

    deviations = (CABLE,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        experiment = publication("woernhard-2006").experiments["pktgen-generation-time"]
        longest = int(experiment.settings["sizes"][1]) + FCS_BYTES
        further = range(MIN_FRAME_BYTES, longest + 1, (longest - MIN_FRAME_BYTES) // 5)
        return {"cable": cable(sorted({*voice_sizes(), *further}), FASTEST, quick)}


class GeneratorMaximum(_MaximumOverSize):
    """Packets per second as fast as possible with the packets of the codecs."""

    key = "pktgen-maximum"

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if "cable" not in runs:
            return
        rates = {
            size: pps for size, pps in fastest(runs["cable"]).items() if size + FCS_BYTES in voice_sizes()
        }
        most = {line.frame_bytes: line.max_pps for line in lines().values()}
        shares = {}
        for size, repeated in rates.items():
            pps = median(repeated)
            shares[size] = 100 * pps / most[int(size)]
            yield Answer(f"most-sent@{size:g}", pps)
            yield Answer(f"share@{size:g}", shares[size])
            if f"calls-{size:g}" in published.values:
                yield Answer(f"calls-{size:g}", pps / VOICE_CALL_PPS)
        sizes = list(rates)
        full = "share of a gigabit below 100 % with every size"
        most_share = max(shares.values(), default=math.nan)
        yield Answer(
            "cannot-fill-gigabit",
            decision=all_of(
                {
                    "filled": decided(most_share < 100, full, f"at most {most_share:.3g} %")
                    if shares
                    else Decision("cannot tell", full, "no valid trial"),
                    "share over size": monotone(sizes, list(shares.values())),
                    "rate over size": monotone(sizes, [median(pps) for pps in rates.values()], falling=True),
                }
            ),
        )
        if len(sizes) > 1:
            least, longest = [[NS_PER_S / pps for pps in rates[size]] for size in (sizes[0], sizes[-1])]
            # Half of what a cost that is proportional to the size would add.
            half = 1 + (sizes[-1] / sizes[0] - 1) / 2
            names = (f"time at {sizes[-1]:g} bytes", f"time at {sizes[0]:g} bytes")
            yield Answer(
                "per-packet-cost-dominates", decision=ratio(longest, least, 1, round(half, 2), names)
            )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        if "cable" not in runs:
            return ()
        here = [(size, median(pps)) for size, pps in fastest(runs["cable"]).items()]
        text = CourseText(
            "generator-rate",
            self.key,
            "as fast as possible",
            "Packets that one sender makes per second, over their size.",
            "bytes without FCS",
            "packets/s",
        )
        return courses(text, {"published": list(published.series("most-sent").items()), "here": here})


class GenerationTime(_MaximumOverSize):
    """Time per packet over its size."""

    key = "pktgen-generation-time"

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if "cable" not in runs:
            return
        times = {size: NS_PER_S / median(pps) for size, pps in fastest(runs["cable"]).items()}
        shortest = MIN_FRAME_BYTES - FCS_BYTES
        if shortest in times:
            yield Answer("time-at-60", times[shortest])
        sizes, ns = list(times), list(times.values())
        yield Answer(
            "linear-beyond", decision=all_of({"course": monotone(sizes, ns), "line": fitted(sizes, ns)})
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        if "cable" not in runs:
            return ()
        here = [(size, NS_PER_S / median(pps)) for size, pps in fastest(runs["cable"]).items()]
        title = "The time that a packet takes its sender, over its size."
        return courses(
            CourseText("generation-time", self.key, "", title, "bytes without FCS", "ns"), {"here": here}
        )


class AddressRandomisation(ReproducedExperiment):
    """One flow against as many as there were random addresses."""

    key = "pktgen-randomisation"
    deviations = (CABLE,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        settings = publication("woernhard-2006").experiments[self.key].settings
        sizes = sorted(size + FCS_BYTES for size in settings["sizes"])
        return {
            "one flow": cable(sizes, FASTEST, quick),
            "random flows": cable(sizes, FASTEST, quick, flows=int(settings["addresses"])),
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if len(runs) < 2:
            return
        one, random = fastest(runs["one flow"]), fastest(runs["random flows"])
        sizes = [size for size in one if size in random]
        lost = {size: 100 * (1 - median(random[size]) / median(one[size])) for size in sizes}
        yield from (
            Answer(f"random-{size}", lost[size]) for size in published.settings["sizes"] if size in lost
        )
        repeated = [rates for each in (one, random) for rates in each.values() if len(rates) > 1]
        if repeated:
            yield Answer("random-deviation", max(100 * stdev(rates) / median(rates) for rates in repeated))
        most = round(published.values["random-79"].high) / 100
        yield Answer(
            "randomisation-negligible",
            decision=all_of(
                {
                    f"{size:g} bytes": ratio(
                        random[size], one[size], 1 - most, 1 + most, ("random flows", "one flow")
                    )
                    for size in sizes
                }
            ),
        )
        rule = (
            "with the smaller packets some of the rate is lost, and a greater share than with the larger ones"
        )
        found = ", ".join(f"{lost[size]:.2g} % at {size:g} bytes" for size in sorted(lost))
        yield Answer(
            "effect-larger-for-small",
            decision=decided(lost[min(lost)] > max(0.0, lost[max(lost)]), rule, found)
            if len(lost) > 1
            else Decision("cannot tell", rule, "no valid trial"),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.report.rows import RowText
        from weirlab.reproduction.charts import LETTERS, of_trials

        title = "Packets/s as fast as possible, by the number of flows and the size."
        rates = {
            f"{name}, {size:g} bytes": pps for name, run in runs.items() for size, pps in fastest(run).items()
        }
        return of_trials(RowText("random-addresses", self.key, title, "packets/s", LETTERS), rates)


class GeneratorPacing(ReproducedExperiment):
    """The rate that is sent over the rate that is wanted."""

    key = "pktgen-delay-defect"
    deviations = (CABLE,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        rates = [f"{kilo}kpps" for kilo in (10, 25, 50, 100, 200, 300, 400, 600, 800, 1000)]
        return {"cable": cable(voice_sizes()[-1:], rates, quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if "cable" not in runs:
            return
        trials = runs["cable"].trials().filter(pl.col("valid") & pl.col("offered_pps").is_finite())
        if trials.is_empty():
            return
        wanted, sent = trials["offered_pps"].to_list(), trials["achieved_pps"].to_list()
        achieved = [real / calculated for real, calculated in zip(sent, wanted, strict=True)]
        yield Answer("real-over-calculated", median(achieved))
        by_delay = trials.group_by("offered_pps").agg(pl.col("achieved_pps").median()).sort("offered_pps")
        delays = [NS_PER_S / pps for pps in by_delay["offered_pps"]]
        yield Answer(
            "smooth-after-cure", decision=monotone(delays, by_delay["achieved_pps"].to_list(), falling=True)
        )
        real = published.values["real-over-calculated"].number
        yield Answer(
            "delay-inaccurate",
            decision=ratio(
                achieved,
                [1.0] * len(achieved),
                0.75 * real,
                1.25 * real,
                ("the rate sent", "the rate wanted"),
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        if "cable" not in runs:
            return ()
        trials = runs["cable"].trials().filter(pl.col("valid") & pl.col("offered_pps").is_finite())
        sent = trials.group_by("offered_pps").agg(pl.col("achieved_pps").median()).sort("offered_pps")
        here = [(wanted / 1e3, real / wanted) for wanted, real in sent.iter_rows()]
        title = "The rate that is sent, as a share of the rate that is wanted."
        return courses(
            CourseText("pacing", self.key, "", title, "kpps wanted", "sent over wanted"), {"here": here}
        )
