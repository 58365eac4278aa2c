"""What one direction of an emulated link does to frames. The semantics are those of ``crates/link``."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any, Final, Literal

from weirlab.base.limits import HIGHEST_SEED

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
