"""Frame sizes: constant, mixes, and Poisson between bounds. Sizes include the FCS."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.base.units import MAX_FRAME_BYTES, MIN_FRAME_BYTES


@dataclass(frozen=True)
class Constant:
    """Every frame has ``frame_bytes`` bytes."""

    kind: Literal["constant"] = field(default="constant", kw_only=True, repr=False)
    """Distinguishes the kinds of sizes in documents."""
    frame_bytes: int


@dataclass(frozen=True)
class WeightedSizes:
    """Frames of the given sizes in proportion to their weights."""

    kind: Literal["weighted"] = field(default="weighted", kw_only=True, repr=False)
    parts: tuple[tuple[int, float], ...]
    """Pairs of frame size in bytes and weight."""
    name: str = "mix"


@dataclass(frozen=True)
class PoissonSizes:
    """Poisson-distributed sizes between ``low_bytes`` and ``high_bytes`` (redrawn when outside)."""

    kind: Literal["poisson"] = field(default="poisson", kw_only=True, repr=False)
    low_bytes: int
    high_bytes: int
    mean_bytes: float


SizeMix = Constant | WeightedSizes | PoissonSizes

SIMPLE_IMIX: Final = WeightedSizes(((64, 7.0), (594, 4.0), (1518, 1.0)), name="imix")
"""Simple IMIX: IP packets of 40, 576 and 1500 bytes as 7:4:1, in Ethernet frames (40 B needs padding)."""

_MIX: Final = "64:7,594:4,1518:1"
ACCEPTED: Final = f"'64', 'imix', '{_MIX}' (size:weight), 'poisson:64-200' or 'poisson:64-200@120'"

_POISSON = re.compile(r"poisson:(\d{1,9})-(\d{1,9})(?:@(\d+(?:\.\d+)?))?")
_PART = re.compile(r"(\d{1,9}):(\d+(?:\.\d+)?)")


def parse_sizes(text: str) -> SizeMix:
    """Read frame sizes in one of the accepted forms; raises ``InputError`` for anything else."""
    plain = text.strip().lower().replace(" ", "")
    mix: SizeMix
    if plain == "imix":
        return SIMPLE_IMIX
    if re.fullmatch(r"\d{1,9}b?", plain):
        mix = Constant(int(plain.removesuffix("b")))
    elif match := _POISSON.fullmatch(plain):
        low, high = int(match[1]), int(match[2])
        mix = PoissonSizes(low, high, float(match[3]) if match[3] else (low + high) / 2)
    elif ":" in plain and all(_PART.fullmatch(part) for part in plain.split(",")):
        pairs = [part.split(":") for part in plain.split(",")]
        mix = WeightedSizes(tuple((int(size), float(weight)) for size, weight in pairs))
        if all(weight >= MIN_FRAME_BYTES > size for size, weight in mix.parts):
            raise InputError(f"frame sizes {quoted(text)}: the size comes before its weight: {_MIX}")
    else:
        raise InputError(f"frame sizes {quoted(text)} not understood; accepted are {ACCEPTED}")
    validate(mix)
    return mix


def describe(mix: SizeMix) -> str:
    """The text that :func:`parse_sizes` reads back as ``mix``."""
    match mix:
        case Constant(frame_bytes):
            return str(frame_bytes)
        case WeightedSizes() if mix == SIMPLE_IMIX:
            return "imix"
        case WeightedSizes(parts):
            return ",".join(f"{size}:{weight:.12g}" for size, weight in parts)
        case PoissonSizes(low, high, mean):
            return f"poisson:{low}-{high}" + ("" if mean == (low + high) / 2 else f"@{mean:.12g}")


def validate(mix: SizeMix, min_bytes: int = MIN_FRAME_BYTES, what: str = "an Ethernet frame") -> None:
    """Raise ``InputError`` unless every size lies in ``min_bytes`` to 2048 and weights make sense.

    ``what`` names the thing that needs ``min_bytes``, for the message.
    """
    for size in (smallest_bytes(mix), largest_bytes(mix)):
        if not min_bytes <= size <= MAX_FRAME_BYTES:
            raise InputError(
                f"frame size {size} B in '{describe(mix)}' is out of range: "
                f"{what} takes {min_bytes} to {MAX_FRAME_BYTES} B including the FCS"
            )
    match mix:
        case WeightedSizes(parts):
            weights = [weight for _, weight in parts]
            if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or sum(weights) <= 0:
                raise InputError(
                    f"weights in '{describe(mix)}' must not be negative, and at least one must be above 0"
                )
        case PoissonSizes(low, high, mean):
            if low > high:
                raise InputError(
                    f"'{describe(mix)}': the smallest size comes first, e.g. poisson:{high}-{low}"
                )
            if not low <= mean <= high:
                raise InputError(f"'{describe(mix)}': the mean must lie between {low} and {high} B")


def smallest_bytes(mix: SizeMix) -> int:
    """Smallest frame that ``mix`` can produce."""
    match mix:
        case Constant(frame_bytes):
            return frame_bytes
        case WeightedSizes(parts):
            return min((size for size, _ in parts), default=0)
        case PoissonSizes(low, _, _):
            return low


def largest_bytes(mix: SizeMix) -> int:
    """Largest frame that ``mix`` can produce."""
    match mix:
        case Constant(frame_bytes):
            return frame_bytes
        case WeightedSizes(parts):
            return max((size for size, _ in parts), default=0)
        case PoissonSizes(_, high, _):
            return high


def mean_bytes(mix: SizeMix) -> float:
    """Mean frame size in bytes; for ``PoissonSizes`` that of the truncated distribution."""
    match mix:
        case Constant(frame_bytes):
            return float(frame_bytes)
        case WeightedSizes(parts):
            return sum(size * weight for size, weight in parts) / sum(weight for _, weight in parts)
        case PoissonSizes():
            sizes, share = _poisson_shares(mix)
            return float(sizes @ share)


def draw(mix: SizeMix, n: int, rng: np.random.Generator) -> npt.NDArray[np.uint16]:
    """Draw ``n`` frame sizes.

    A ``WeightedSizes`` mix has exactly its proportions (largest remainder), shuffled,
    so that a short pattern has the load that follows from its mean size.
    """
    match mix:
        case Constant(frame_bytes):
            return np.full(n, frame_bytes, dtype=np.uint16)
        case WeightedSizes(parts):
            share = np.array([weight for _, weight in parts]) / sum(weight for _, weight in parts)
            count = np.floor(n * share).astype(np.int64)
            remainder = n * share - count
            count[np.argsort(-remainder, kind="stable")[: n - int(count.sum())]] += 1
            sizes = np.repeat(np.array([size for size, _ in parts], dtype=np.uint16), count)
            rng.shuffle(sizes)
            return sizes
        case PoissonSizes():
            values, share = _poisson_shares(mix)
            return rng.choice(values.astype(np.uint16), size=n, p=share)


@lru_cache(maxsize=8)
def _poisson_shares(mix: PoissonSizes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sizes and their probabilities once draws outside the bounds are repeated."""
    sizes = np.arange(mix.low_bytes, mix.high_bytes + 1, dtype=np.float64)
    log_p = sizes * math.log(mix.mean_bytes) - np.array([math.lgamma(k + 1) for k in sizes])
    p = np.exp(log_p - log_p.max())
    share = p / p.sum()
    sizes.flags.writeable = share.flags.writeable = False
    return sizes, share
