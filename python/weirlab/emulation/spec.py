"""What one direction of an emulated link does to frames, as ``crates/link`` does it, and how text says it."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any, Final, Literal

from weirlab.base import limits
from weirlab.base.amounts import SHORT_TIME, parse_size, parse_time_ns
from weirlab.base.errors import InputError
from weirlab.base.limits import HIGHEST_SEED
from weirlab.base.quoting import quoted

Plain = dict[str, Any]
"""A value in the form that ``weirlab._engine`` takes."""


@dataclass(frozen=True)
class NoPattern:
    """No frame."""


@dataclass(frozen=True)
class RandomPattern:
    """Each frame with probability ``ratio``, independently."""

    ratio: float


@dataclass(frozen=True)
class RunPattern:
    """``ratio`` of the frames, in runs of ``mean_run`` on average (Gilbert model)."""

    ratio: float
    mean_run: float


@dataclass(frozen=True)
class GilbertElliott:
    """Two states that may change after each frame, with the parameters of tc-netem's ``gemodel``."""

    to_bad: float
    """``p``: transition probability from the good state to the bad one."""
    to_good: float
    """``r``: transition probability from the bad state to the good one."""
    in_bad: float = 1.0
    """``1-h``: probability that a frame is selected in the bad state."""
    in_good: float = 0.0
    """``1-k``: probability that a frame is selected in the good state."""


@dataclass(frozen=True)
class FrameListPattern:
    """Frames by their numbers, from 1 in the order of arrival: ``5,17,30-39,/100``."""

    numbers: str


Selection = NoPattern | RandomPattern | RunPattern | GilbertElliott | FrameListPattern
"""Which frames something happens to."""


def _plain_selection(selection: Selection) -> tuple[str, Any]:
    match selection:
        case NoPattern():
            return "never", None
        case RandomPattern(ratio):
            return "random", ratio
        case RunPattern():
            return "runs", astuple(selection)
        case GilbertElliott():
            return "gilbert-elliott", astuple(selection)
        case FrameListPattern(numbers):
            return "frames", numbers


@dataclass(frozen=True)
class Amount:
    """A number of packets or bytes, or a time in ns."""

    amount: int
    unit: Literal["packets", "bytes", "ns"]

    def plain(self) -> tuple[str, int]:
        """For the engine."""
        return self.unit, self.amount


@dataclass(frozen=True)
class DropTail:
    """Only frames for which the queue has no room are dropped."""


@dataclass(frozen=True)
class CoDel:
    """RFC 8289, without ECN."""

    target_ns: int = 5_000_000
    interval_ns: int = 100_000_000


@dataclass(frozen=True)
class Red:
    """Floyd and Jacobson 1993, without ECN; both thresholds in one unit."""

    min: Amount
    max: Amount
    max_ratio: float = 0.1
    weight: float = 0.002
    gentle: bool = True


def _plain_discipline(discipline: DropTail | CoDel | Red) -> Plain:
    kind = {DropTail: "drop-tail", CoDel: "codel", Red: "red"}[type(discipline)]
    values = {each.name: getattr(discipline, each.name) for each in fields(discipline)}
    return {"kind": kind, **{k: v.plain() if isinstance(v, Amount) else v for k, v in values.items()}}


@dataclass(frozen=True)
class Jitter:
    """Variation of the delay: uniform up to +/- ``ns``, or normal with that standard deviation."""

    ns: int
    distribution: Literal["uniform", "normal"] = "uniform"
    keeps_order: bool = True


@dataclass(frozen=True)
class Reorder:
    """Frames that leave ``by_ns`` later than they should, so that others pass them."""

    selection: Selection
    by_ns: int


@dataclass(frozen=True)
class MahimahiTrace:
    """Delivery opportunities in Mahimahi's format: the name of a file, and its content once it was read."""

    name: str
    content: bytes | None = field(default=None, repr=False)

    def plain(self) -> bytes:
        """For the engine; raises ``ValueError`` before the file was read."""
        if self.content is None:
            raise ValueError(f"the trace {self.name} has not been read")
        return self.content


MOST_SLACK_S: Final = 0.01
"""The most by which an emulator may delay frames to spare the CPU; more would change the link."""

DEFAULT_QUEUE: Final = Amount(1000, "packets")


@dataclass(frozen=True)
class PathSpec:
    """One direction of a link; the default is a cable that takes no time.

    ``rate_bps`` counts a frame's bytes without FCS, plus ``overhead_bytes``. ``seed`` seeds everything random
    in this direction.
    """

    delay_ns: int = 0
    jitter: Jitter | None = None
    rate_bps: int | None = None
    trace: MahimahiTrace | None = None
    overhead_bytes: int = 0
    queue: Amount = DEFAULT_QUEUE
    discipline: DropTail | CoDel | Red = DropTail()
    loss: Selection = NoPattern()
    reorder: Reorder | None = None
    duplicate: Selection = NoPattern()
    seed: int = 1

    @property
    def is_random(self) -> bool:
        """Whether what becomes of frames depends on ``seed``."""
        selections = [self.loss, self.duplicate, *([self.reorder.selection] if self.reorder else [])]
        chosen = any(
            isinstance(selection, RandomPattern | RunPattern | GilbertElliott) for selection in selections
        )
        return chosen or self.jitter is not None or isinstance(self.discipline, Red)

    def plain(self) -> Plain:
        """For the engine."""
        jitter, reorder = self.jitter, self.reorder
        return {
            "delay_ns": self.delay_ns,
            "jitter": None if jitter is None else (jitter.distribution, jitter.ns, jitter.keeps_order),
            "rate_bps": self.rate_bps,
            "trace": None if self.trace is None else self.trace.plain(),
            "overhead_bytes": self.overhead_bytes,
            "queue": self.queue.plain(),
            "discipline": _plain_discipline(self.discipline),
            "loss": _plain_selection(self.loss),
            "reorder": None if reorder is None else (_plain_selection(reorder.selection), reorder.by_ns),
            "duplicate": _plain_selection(self.duplicate),
            "seed": self.seed,
        }

    def reseeded(self) -> PathSpec:
        """The same path with other random numbers, for the other direction."""
        return replace(self, seed=(self.seed + 1) % HIGHEST_SEED)


# As in weirlab.traffic.load: 'MBps' usually means bytes, and guessing would be wrong by a factor of 8.
_RATE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kKmMgG]?)(?:bit/s|bps|bit)")
_SCALE: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_PACKETS: Final = re.compile(r"(\d{1,12})\s*(?:pkts?|packets?|p)")
_SHARE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(%?)")

_AQM: Final = {"codel": {"target", "interval"}, "red": {"min", "max", "p", "weight"}, "none": set[str]()}

Fields = dict[str, list[str]]


def read_rate_bps(text: str, option: str) -> int:
    """Parse a rate like ``100Mbps`` into bit/s."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{option} {quoted(text)} is no bit rate; accepted: 100Mbps, 100Mbit/s or 100Mbit (bits, not "
            "bytes), 1.5Gbps, 64kbps"
        )
    return round(float(match[1]) * _SCALE[match[2].lower()])


def read_amount(text: str, option: str) -> Amount:
    """Parse ``50pkts``, ``64kB`` or ``20ms``."""
    plain = text.strip()
    if match := _PACKETS.fullmatch(plain):
        return Amount(int(match[1]), "packets")
    if SHORT_TIME.fullmatch(plain):
        return Amount(parse_time_ns(plain, option), "ns")
    if plain[-1:] in ("B", "b"):
        return Amount(parse_size(plain, option), "bytes")
    raise InputError(
        f"{option} {quoted(text)}: give packets, bytes or time with the unit: 50pkts, 64kB or 20ms"
    )


def read_selection(text: str, option: str) -> Selection:
    """Parse ``1%``, ``1%,burst=3``, ``gemodel=1%,30%`` or ``frames=5,17,/100``."""
    return _selection(_fields(text, option, ("", "burst", "gemodel", "frames")), text, option)


def read_seed(text: str, option: str) -> int:
    """Parse a whole number."""
    if not re.fullmatch(r"\d{1,19}", text.strip()) or not int(text) <= limits.HIGHEST_SEED:
        raise InputError(f"{option} {quoted(text)}: expected a whole number from 0 to {limits.HIGHEST_SEED}")
    return int(text)


def read_jitter(text: str, option: str) -> Jitter:
    size, *more = _fields(text, option, ("",))[""]
    unknown = [word for word in more if word not in ("uniform", "normal", "reorder")]
    if unknown or {"uniform", "normal"} <= set(more) or len(set(more)) < len(more):
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted: 5ms, '5ms,normal', '5ms,reorder' and "
            "'5ms,normal,reorder'"
        )
    return Jitter(
        parse_time_ns(size, option), "normal" if "normal" in more else "uniform", "reorder" not in more
    )


def read_reorder(text: str, option: str) -> Reorder:
    found = _fields(text, option, ("", "burst", "gemodel", "frames", "by"))
    by = found.pop("by", None)
    if by is None:
        raise InputError(
            f"{option} {quoted(text)} needs by=TIME, how much later these frames leave: {option} 1%,by=3ms"
        )
    return Reorder(_selection(found, text, option), parse_time_ns(_only(by, option, "by"), option))


def read_aqm(text: str, option: str) -> DropTail | CoDel | Red:
    found = _fields(text, option, ("", "target", "interval", "min", "max", "p", "weight"))
    kind = _only(found.pop("", [""]), option, "the name")
    keys = _AQM.get(kind)
    if keys is None or found.keys() - keys:
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted: codel, codel,target=5ms,interval=100ms, "
            "red,min=20pkts,max=60pkts,p=10%,weight=0.002 and none"
        )
    values = {key: _only(value, option, key) for key, value in found.items()}
    if kind == "none":
        return DropTail()
    if kind == "codel":
        return CoDel(**{f"{key}_ns": parse_time_ns(value, option) for key, value in values.items()})
    if not {"min", "max"} <= values.keys():
        raise InputError(
            f"{option} {quoted(text)}: red needs both thresholds, e.g. red,min=20pkts,max=60pkts"
        )
    red = Red(read_amount(values["min"], option), read_amount(values["max"], option))
    if "p" in values:
        red = replace(red, max_ratio=_share(values["p"], option))
    if "weight" in values:
        red = replace(red, weight=_weight(values["weight"], option))
    return red


def read_overhead(text: str, option: str) -> int:
    if not re.fullmatch(r"-?\d{1,5}", text.strip()):
        raise InputError(f"{option} {quoted(text)}: expected a whole number of bytes, e.g. {option} 24")
    return int(text)


def _selection(found: Fields, text: str, option: str) -> Selection:
    match found:
        case {"": [share], **more} if not more:
            ratio = _share(share, option)
            return RandomPattern(ratio)
        case {"": [share], "burst": [burst], **more} if not more:
            return RunPattern(_share(share, option), _number(burst, option))
        case {"gemodel": values, **more} if not more and 1 <= len(values) <= 4:
            ratios = [_share(value, option) for value in values]
            # As tc-netem: without r the state stays bad with probability p.
            to_bad, to_good, *others = ratios if len(ratios) > 1 else [ratios[0], 1 - ratios[0]]
            return GilbertElliott(to_bad, to_good, *others)
        case {"frames": numbers, **more} if not more:
            return FrameListPattern(",".join(numbers))
    raise InputError(
        f"{option} {quoted(text)} not understood; accepted: 1%, '1%,burst=3' (mean length of a run), "
        "'gemodel=1%,30%' (p, r, 1-h, 1-k of tc-netem) and 'frames=5,17,30-39,/100' (numbers of frames)"
    )


def _fields(text: str, option: str, names: tuple[str, ...]) -> Fields:
    """``a,b,key=c,d`` as ``{"": [a, b], "key": [c, d]}``."""
    found: Fields = {}
    key = ""
    for item in text.strip().split(","):
        name, equals, value = item.partition("=")
        if equals:
            key = name.strip()
            if key not in names or key in found:
                known = ", ".join(f"{name}=" for name in names if name)
                raise InputError(
                    f"{option} {quoted(text)}: {quoted(key)} "
                    + ("is given twice" if key in found else f"is unknown here; known: {known}")
                )
        found.setdefault(key, []).append((value if equals else item).strip())
    return found


def _only(values: list[str], option: str, name: str) -> str:
    if len(values) != 1:
        raise InputError(f"{option}: {name} needs one value, not {len(values)}")
    return values[0]


def _share(text: str, option: str) -> float:
    match = _SHARE.fullmatch(text.strip())
    if match and not match[2] and float(match[1]) == 1:
        raise InputError(f"{option}: {quoted(text)} may be 1 % or all; write 1% or 100%")
    ratio = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= ratio <= 1:
        raise InputError(f"{option}: {quoted(text)} is no share; accepted: 1% or 0.01, up to 100%")
    return ratio


def _weight(text: str, option: str) -> float:
    """RED's; a weight of 1 is no mistake for one of 1 %."""
    return 1.0 if text.strip() == "1" else _share(text, option)


def _number(text: str, option: str) -> float:
    match = _SHARE.fullmatch(text.strip())
    if match is None or match[2]:
        raise InputError(f"{option}: {quoted(text)} is not a number of frames, e.g. burst=3")
    return float(match[1])
