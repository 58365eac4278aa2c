"""The codecs' packets and how many a gigabit carries: computed, so that every value must be the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from weirlab.base.units import FCS_BYTES
from weirlab.calls.calls.wire import PublishedLine, published_line
from weirlab.publications import PublishedExperiment
from weirlab.reproduction.claims import decided, near
from weirlab.reproduction.contract import Answer, ReproducedExperiment, Runs
from weirlab.traffic.calls.codecs import VoiceStream, parse_codec
from weirlab.traffic.calls.spec import CallClass, Transport

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
