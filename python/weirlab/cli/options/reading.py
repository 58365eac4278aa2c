"""Parsers for the text of options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

if TYPE_CHECKING:
    from weirlab.quality.jitterbuffer import BufferChoice, Buffers
    from weirlab.records import RuleSetup
    from weirlab.traffic.sizes import SizeMix
    from weirlab.traffic.spec import LoadStep


T = TypeVar("T")


def calls(text: str) -> int:
    """The number of calls of ``--calls``; raises ``InputError`` for what is none."""
    from weirlab.traffic.calls.offered import parse_count

    found = parse_count(text)
    if found < 1:
        raise InputError(f"--calls {text}: at least 1")
    return found


def listed(text: str, item: Callable[[str], T], option: str, example: str) -> tuple[T, ...]:
    """Read a comma-separated list such as ``0,50,100``.

    Raises
    ------
    InputError
        An item is empty or ``item`` refuses it; the message names the option and an example.
    """
    values: list[T] = []
    for part in text.split(","):
        try:
            values.append(item(part.strip()))
        except ValueError:
            where = "" if part == text else f" in {quoted(text)}"
            raise InputError(
                f"{option}: {quoted(part.strip())}{where} not understood; e.g. {option} {example}"
            ) from None
    return tuple(values)


def share(text: str) -> float:
    """A ratio: ``0.8`` or ``80%``."""
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def ratio(
    option: str,
    text: str,
    example: str,
    *,
    accepted: Callable[[float], bool] = math.isfinite,
    within: str | None = None,
) -> float:
    """A ratio, ``80%`` or ``0.8``, that is ``accepted``.

    Raises ``InputError``, which names ``option``, an example, and ``text``, or the longer text ``within``
    which it stands.
    """
    try:
        found = share(text.strip().replace(" ", ""))
    except ValueError:
        found = math.nan
    if not accepted(found):
        raise InputError(f"{option}: {quoted(within or text)} not understood; e.g. {option} {example}")
    return found


def step(text: str) -> LoadStep:
    """A load step ``AT:RATE`` such as ``1:200kpps``; AT in seconds after recording began."""
    from weirlab.traffic.load import parse_rate
    from weirlab.traffic.spec import LoadStep

    at, separator, rate = text.partition(":")
    try:
        at_s = float(at.removesuffix("s"))
    except ValueError:
        at_s = -1.0
    if not separator or not 0 < at_s < float("inf"):
        raise InputError(
            f"--step: {quoted(text)} not understood; give seconds and rate, e.g. --step 1:200kpps"
        )
    return LoadStep(at_s, parse_rate(rate))


def position_step(text: str) -> LoadStep:
    """A step ``AT:POSITION`` to another matching position, such as ``1:2000``."""
    from weirlab.traffic.spec import LoadStep

    at, separator, position = text.partition(":")
    try:
        at_s, n = float(at.removesuffix("s")), int(position)
    except ValueError:
        at_s, n = -1.0, 0
    if not separator or not 0 < at_s < float("inf") or not 1 <= n <= limits.MOST_RULES:
        raise InputError(
            f"--position-step: {quoted(text)} not understood; give seconds and a position from 1 up, "
            "e.g. --position-step 1:2000"
        )
    return LoadStep(at_s, None, n)


def steps(loads: list[str], positions: list[str]) -> tuple[LoadStep, ...]:
    """All ``--step`` and ``--position-step`` in order of time; those at the same time are merged."""
    found: dict[float, LoadStep] = {}
    for each in (*map(step, loads), *map(position_step, positions)):
        other = found.get(each.at_s, each)
        found[each.at_s] = replace(
            each, rate=each.rate or other.rate, position=each.position or other.position
        )
    return tuple(found[at_s] for at_s in sorted(found))


def rule_setup(rules: int | None, places: str | None, steps: Sequence[LoadStep], stateful: bool) -> RuleSetup:
    """The setup that ``--rules`` or ``--places`` gives, with a rule at each position of a step.

    Raises
    ------
    InputError
        Both are given, or a step changes the position although there are no rules at the start.
    """
    from weirlab.records import RuleSetup
    from weirlab.traffic.places import parse_places

    if rules is not None and places is not None:
        raise InputError("--rules and --places exclude each other: give one of them")
    shares = dict(parse_places(places)) if places is not None else {rules: 1.0} if rules else {}
    later = {step.position for step in steps if step.position is not None}
    if later and not shares:
        raise InputError("--position-step needs a matching position to begin with: --rules N or --places")
    if len(shares) + len(later - shares.keys()) < 2:
        return RuleSetup(rules or max(shares, default=0), stateful)
    return RuleSetup.mixed(tuple(sorted({**dict.fromkeys(later, 0.0), **shares}.items())), stateful)


def size_mix(frame: int | None, sizes: str | None, least_bytes: int = 0) -> SizeMix:
    """The frame sizes that ``--frame`` or ``--sizes`` gives; 64 bytes without either, or ``least_bytes``."""
    from weirlab.base.units import MIN_FRAME_BYTES
    from weirlab.traffic.sizes import parse_sizes

    if frame is not None and sizes is not None:
        raise InputError("--frame and --sizes exclude each other: give one of them")
    least = max(MIN_FRAME_BYTES, least_bytes)
    return parse_sizes(sizes if sizes is not None else str(least if frame is None else frame))


def positions(text: str | None) -> tuple[int, ...] | None:
    """``--rules`` as a list."""
    return None if text is None else listed(text, int, "--rules", "0,100,1000")


def loads(text: str | None) -> tuple[float, ...] | None:
    """``--loads`` as ratios."""
    return None if text is None else listed(text, share, "--loads", "50%,90%,120%")


def frames(text: str | None) -> tuple[int, ...] | None:
    """``--frame`` as a list."""
    return None if text is None else listed(text, int, "--frame", "64,1518")


def one_share(text: str, option: str, example: str) -> float:
    """A single ratio; raises ``InputError`` naming ``option``, also for a bare 1."""
    values = listed(text, share, option, example)
    if values == (1.0,) and "%" not in text:
        raise InputError(f"{option}: {quoted(text)} may be 1 % or all; write 1% or 100%")
    if len(values) != 1:
        raise InputError(
            f"{option}: one share is needed, but {quoted(text)} has {len(values)}; e.g. {option} {example}"
        )
    return values[0]


_BUFFER: Final = re.compile(r"(?P<kind>best|fixed|adaptive)(?::(?P<depth>\d+(?:\.\d+)?)(?:ms)?)?")


def jitter_buffer(text: str) -> tuple[BufferChoice, Buffers]:
    """Parse ``best``, ``fixed``, ``fixed:60ms`` or ``adaptive``.

    Raises
    ------
    InputError
        It is none of these.
    """
    from weirlab.quality.jitterbuffer import Buffers

    match = _BUFFER.fullmatch(text.strip().lower())
    if match is None or (match["depth"] and match["kind"] != "fixed"):
        raise InputError(
            f"--jitter-buffer {quoted(text)} not understood; accepted are fixed:60ms (any depth), "
            "adaptive, and best for the better one of each call"
        )
    depth = float(match["depth"]) if match["depth"] else Buffers.fixed_ms
    kinds: dict[str, BufferChoice] = {"best": "best", "fixed": "fixed", "adaptive": "adaptive"}
    return kinds[match["kind"]], Buffers(fixed_ms=depth)
