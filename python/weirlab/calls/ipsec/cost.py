"""What a packet of speech costs with ESP: processing time by suite, mode, direction and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, Field

from weirlab.base.errors import InputError, WeirError
from weirlab.base.quantities import NOTHING, duration, percent
from weirlab.base.tables import Table
from weirlab.measure.spread import Spread
from weirlab.scenario.calls import CodecText
from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.model import Root, Section
from weirlab.scenario.values import NotEmpty, no_repeats, readable
from weirlab.store import Run
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.encapsulation import suites
from weirlab.traffic.encapsulation.packets import VoicePacket

if TYPE_CHECKING:
    pass

EspMode = Literal["transport", "tunnel"]
CostWay = Literal[
    "out", "out-each", "out-udp", "out-rtp", "in", "in-udp", "in-rtp", "in-layers", "in-system"
]  # fmt: skip
WAYS: Final[tuple[CostWay, ...]] = get_args(CostWay)
LONGEST_BYTES: Final = 1500

SuiteText = Annotated[str, Field(max_length=40), readable(suites.suite)]


class EspCostSection(Section):
    """Packets to process, and what is timed."""

    codec: CodecText = "g711"
    """Codec of the speech."""
    packet_times_ms: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1000)], ...], NotEmpty, AfterValidator(no_repeats)
    ] = (10, 20, 30, 40, 50, 60)
    """Packet times, in ms."""
    suites: Annotated[tuple[SuiteText, ...], NotEmpty, AfterValidator(no_repeats)] = (
        "aes-cbc",
        "aes-cbc-hmac-md5-96",
        "aes-cbc-hmac-sha1-96",
        "aes-cbc-hmac-sha256-128",
        "aes-gcm-16",
        "chacha20-poly1305",
    )
    """Cipher suites of ESP."""
    modes: Annotated[tuple[EspMode, ...], NotEmpty, AfterValidator(no_repeats)] = ("transport", "tunnel")
    """Modes of ESP."""
    ways: Annotated[tuple[CostWay, ...], NotEmpty, AfterValidator(no_repeats)] = WAYS
    """``out``: encapsulated; ``out-each``: eight at a time; ``out-udp``, ``out-rtp``: headers written before,
    with UDP or without; ``in``: decapsulated; ``in-udp``, ``in-rtp``: and handed to its call, with UDP or
    without; ``in-layers``: through a queue between IPsec and UDP; ``in-system``: through a socket."""
    rounds: Annotated[int, Field(strict=True, ge=2, le=10_000)] = 40
    """Rounds; in each, every case has its turn."""
    packets: Annotated[int, Field(strict=True, ge=8, le=100_000)] = 64
    """Packets that a case handles in a round. Few stay in the CPU's caches."""
    associations: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 1
    """Security associations, used in turn."""

    def sizes(self) -> tuple[tuple[float, int], ...]:
        """Packet times with the lengths of their IP packets in the clear."""
        name = self.codec.partition(":")[0]
        streams = [(packet_ms, parse_codec(f"{name}:{packet_ms:g}ms")) for packet_ms in self.packet_times_ms]
        return tuple((ms, VoicePacket(stream.payload_bytes).packet_bytes) for ms, stream in streams)


class EspCostScenario(Root, title="Weir scenario: cost of ESP"):
    """A scenario about the processing time of packets with ESP."""

    KEY = "esp"

    esp: EspCostSection

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        what = self.esp
        cases = len(what.suites) * len(what.modes) * len(what.ways) * len(what.packet_times_ms)
        yield ("esp",), what.rounds * cases

    def conflicts(self) -> Iterator[Conflict]:
        what = self.esp
        if ":" in what.codec:
            yield ("esp", "codec"), "the packet time is in 'packet_times_ms': leave it out here"
            return
        try:
            longest = max(length for _, length in what.sizes())
        except InputError as error:
            yield ("esp", "packet_times_ms"), str(error)
            return
        if longest > LONGEST_BYTES:
            yield (
                ("esp", "packet_times_ms"),
                f"packets of {longest:,} B; at most {LONGEST_BYTES:,} are possible: use shorter packet times",
            )


COSTS: Final = "esp_costs"


@dataclass(frozen=True)
class EspCostRow:
    """The processing time of packets in one round."""

    round: int
    """Number of the round, from 0."""
    suite: str
    """Cipher suite of ESP."""
    mode: str
    """`transport` or `tunnel`."""
    way: str
    """What was timed, as in the scenario."""
    packet_ms: float
    """Speech in a packet."""
    packet_bytes: int
    """Length of the IP packet in the clear, with UDP."""
    cost_ns: float
    """Mean processing time of a packet."""


CostCase = tuple[str, str, str, float]
"""Suite, mode, way, packet time in ms."""


@dataclass(frozen=True)
class EspCostFindings:
    """Every round of a run."""

    asked: EspCostSection
    rows: tuple[EspCostRow, ...]

    @cached_property
    def rounds(self) -> Mapping[CostCase, Sequence[float]]:
        """ns per packet, round by round."""
        found: dict[CostCase, list[float]] = {}
        for row in self.rows:
            found.setdefault((row.suite, row.mode, row.way, row.packet_ms), []).append(row.cost_ns)
        return found

    def spread(self, suite: str, mode: str, way: str, packet_ms: float) -> Spread:
        """Median, least and greatest of the rounds."""
        return Spread.of(self.rounds.get((suite, mode, way, packet_ms), ()))

    @property
    def usual_ms(self) -> float:
        """The packet time in the sentence: 20 ms if it was measured, else the shortest."""
        times = self.asked.packet_times_ms
        return 20.0 if 20.0 in times else min(times)

    @property
    def sentence(self) -> str:
        """The suites' cost out and in at the usual packet time."""
        parts = []
        mode = self.asked.modes[0]
        for suite in self.asked.suites:
            out, inward = (self.spread(suite, mode, way, self.usual_ms) for way in ("out", "in"))
            if out.known and inward.known:
                change = inward.median / out.median - 1
                parts.append(
                    f"{suite} {duration(out.median)} out and {duration(inward.median)} in ({percent(change)})"
                )
        if not parts:
            return f"{len(self.rows):,} processing times were measured."
        return f"A packet of {self.usual_ms:g} ms costs in {mode} mode: {'; '.join(parts)}."

    def document(self) -> dict[str, Any]:
        costs = [
            {
                **dict(zip(("suite", "mode", "way", "packet_ms"), case, strict=True)),
                **{f"{name}_ns": value for name, value in vars(Spread.of(rounds)).items()},
            }
            for case, rounds in self.rounds.items()
        ]
        return {"conclusion": self.sentence, "rounds": self.asked.rounds, "costs": costs}

    def problem(self, run: Run) -> WeirError | None:
        """Nothing can spoil it."""
        return None


def of(found: EspCostFindings) -> list[Table]:
    """The comparison at the usual packet time, then every size as details."""
    return [compared(found), *(over_size(found, mode) for mode in found.asked.modes)] if found.rows else []


def compared(found: EspCostFindings) -> Table:
    """A row per suite and mode."""
    rows = []
    for suite in found.asked.suites:
        for mode in found.asked.modes:
            by_way = {way: found.spread(suite, mode, way, found.usual_ms) for way in found.asked.ways}
            rows.append(
                (
                    suite,
                    mode,
                    _time(by_way.get("out")),
                    _time(by_way.get("in")),
                    _more(by_way.get("in"), by_way.get("out")),
                    _more(by_way.get("in-udp"), by_way.get("in-rtp")),
                    _more(by_way.get("in-layers"), by_way.get("in-udp")),
                    _more(by_way.get("in-system"), by_way.get("in-udp")),
                )
            )
    columns = ("Suite", "Mode", "Out", "In", "In over out", "UDP", "Layers", "System's socket")
    title = f"Processing time of a packet of {found.usual_ms:g} ms, and what is added to it"
    return Table(title, columns, rows)


def over_size(found: EspCostFindings, mode: str) -> Table:
    """A row per suite and way, a column per packet time."""
    times = found.asked.packet_times_ms
    rows = [
        (suite, way, *(_time(found.spread(suite, mode, way, packet_ms)) for packet_ms in times))
        for suite in found.asked.suites
        for way in found.asked.ways
    ]
    columns = ("Suite", "Way", *(f"{packet_ms:g} ms" for packet_ms in times))
    return Table(f"Processing time by packet time, {mode} mode", columns, rows, details=True)


def _time(spread: Spread | None) -> str:
    return NOTHING if spread is None or not spread.known else duration(spread.median)


def _more(longer: Spread | None, shorter: Spread | None) -> str:
    known: Sequence[Spread] = [each for each in (longer, shorter) if each is not None and each.known]
    return NOTHING if len(known) < 2 else percent(known[0].median / known[1].median - 1)
