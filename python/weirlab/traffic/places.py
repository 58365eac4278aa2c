"""Traffic that matches at several positions at once: which share of the packets matches where.

A *place* is the position of one of several rules that accept test traffic. Each place has its
own group of flows, identified by the destination network (:func:`network`), so that every
accepting rule checks the same fields as a single one does: source and destination.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

Places = tuple[tuple[int, float], ...]
"""Pairs of matching position (1 or more, ascending) and share of the packets; the shares add up to 1.
A place with share 0 is used only after a step."""

MAX_PLACES: Final = 16

ACCEPTED: Final = "'1:50,99:50' (position:weight), with positions from 1 up"

_PART: Final = re.compile(r"(\d{1,9}):(\d+(?:\.\d+)?)%?")
_FINEST: Final = 10_000
_BLOCK: Final = 8


def parse_places(text: str) -> Places:
    """Read ``position:weight`` pairs; weights become shares. Raises ``InputError`` for anything else."""
    parts = text.replace(" ", "").split(",")
    matches = [_PART.fullmatch(part) for part in parts]
    if not all(matches):
        raise InputError(f"matching positions {quoted(text)} not understood; give {ACCEPTED}")
    pairs = sorted((int(match[1]), float(match[2])) for match in matches if match)
    total = sum(weight for _, weight in pairs)
    if total <= 0:
        raise InputError(f"matching positions {quoted(text)}: at least one weight must be above 0")
    places = tuple((position, weight / total) for position, weight in pairs)
    validate(places)
    return places


def describe_places(places: Places) -> str:
    """The text that :func:`parse_places` reads back: ``1:50%,99:50%``."""
    return ",".join(f"{position}:{share * 100:.10g}%" for position, share in places)


def validate(places: Places) -> None:
    """Raise ``InputError`` unless ``places`` can be set up; no places are fine."""
    if not places:
        return
    shown = f"matching positions {places}"
    positions = [position for position, _ in places]
    shares = [share for _, share in places]
    if len(places) > MAX_PLACES:
        raise InputError(f"{shown}: at most {MAX_PLACES} are possible")
    if positions[-1] > limits.MOST_RULES:
        raise InputError(f"{shown}: positions up to {limits.MOST_RULES:,} are possible")
    if positions[0] < 1 or any(b <= a for a, b in itertools.pairwise(positions)):
        raise InputError(f"{shown}: they must be 1 or more and each of them named once, in ascending order")
    if not all(math.isfinite(share) and share >= 0 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise InputError(f"{shown}: the shares must not be negative and must add up to 1")


def mean_position(places: Places) -> float:
    """Mean matching position of the packets."""
    return float(sum(position * share for position, share in places))


def network(ip: Literal[4, 6], place: int) -> str:
    """Destination network of the flows that match at place number ``place`` (from 0)."""
    if ip == 4:
        return f"198.19.{place * 16}.0/20"
    return f"2001:2:0:2::{place * 0x1000:x}/116" if place else "2001:2:0:2::/116"


def flow_groups(places: Places, flows: int) -> npt.NDArray[np.int64]:
    """The number of each flow's place, ascending: at least one flow per place, the others by share.

    The result is longer than ``flows`` if there are more places than flows.
    """
    share = np.array([share for _, share in places])
    count = 1 + _apportioned(share, max(flows - len(places), 0))
    return np.repeat(np.arange(len(places)), count)


def turns(
    share: Sequence[float], groups: npt.NDArray[np.int64], n_wanted: int, rng: np.random.Generator
) -> npt.NDArray[np.uint32]:
    """The flow of each packet in a pattern that repeats.

    The packets of each place are spread evenly, and their number matches its share exactly.
    Within blocks of eight their order is random: a strict alternation could fall into step with
    a device that drops every other packet, and only one of two places would lose any.

    Parameters
    ----------
    share:
        Share of the packets of each place.
    groups:
        The number of each flow's place, see :func:`flow_groups`. The flows of a place take turns.
    n_wanted:
        Length of the pattern; the result has about as many entries, and enough for every flow.
    """
    weights = _whole(np.asarray(share, dtype=np.float64), n_wanted)
    period = int(weights.sum())
    repeats = max(1, n_wanted // period, -(-len(groups) // period))
    due = np.concatenate([(np.arange(weight) + 0.5) / weight for weight in weights])
    once = np.repeat(np.arange(len(weights)), weights)[np.argsort(due, kind="stable")]
    place = np.tile(once, repeats)
    whole = len(place) // _BLOCK * _BLOCK
    place[:whole] = rng.permuted(place[:whole].reshape(-1, _BLOCK), axis=1).ravel()
    flow = np.zeros(len(place), dtype=np.uint32)
    for number in range(len(weights)):
        own = np.flatnonzero(groups == number)
        at = np.flatnonzero(place == number)
        flow[at] = own[np.arange(len(at)) % len(own)]
    return flow


def _whole(share: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.int64]:
    """The smallest whole numbers in the proportions of ``share``; up to ``n`` in all."""
    fractions = [Fraction(float(value)).limit_denominator(_FINEST) for value in share]
    period = math.lcm(*(fraction.denominator for fraction in fractions))
    if period <= n and sum(fractions) == 1:
        return np.array([int(fraction * period) for fraction in fractions], dtype=np.int64)
    return _apportioned(share, n)


def _apportioned(share: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.int64]:
    """``n`` split in the proportions of ``share`` (largest remainder)."""
    quota = n * share / share.sum()
    count: npt.NDArray[np.int64] = np.floor(quota).astype(np.int64)
    rest = n - int(count.sum())
    count[np.argsort(count - quota, kind="stable")[:rest]] += 1
    return count
