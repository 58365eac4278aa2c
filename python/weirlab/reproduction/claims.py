"""Tests of the shape of measurements, which decide claims. Pure.

None of them compares with an absolute number of other hardware.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from weirlab.base.quantities import significant
from weirlab.publications import PublishedValue
from weirlab.reproduction.contract import Answer, Decision, Verdict

UNKNOWN: Final = "cannot tell"

SLACK: Final = 0.05
"""Steps back of a course, as a share of its range, that are taken for scatter."""


def decided(holds: bool, rule: str, found: str) -> Decision:
    """A decision without doubt."""
    return Decision("holds" if holds else "differs", rule, found)


def near(value: PublishedValue, here: float, tolerance: float) -> Answer:
    """The answer for a value that does not depend on the hardware: ``here`` within ``tolerance`` of it."""
    rule = f"within {tolerance:.1%} of it" if tolerance else "equal"
    if math.isnan(here):
        return Answer(value.key, here, Decision(UNKNOWN, rule, "no valid measurement"))
    low, high = value.low, value.high
    holds = low - tolerance * abs(low) <= here <= high + tolerance * abs(high)
    return Answer(value.key, here, decided(holds, rule, significant(here, 4)))


def beside(key: str, here: float) -> Answer:
    """The answer for a value of the authors' hardware: not judged, unless there is no measurement."""
    if math.isnan(here):
        return Answer(key, here, Decision(UNKNOWN, "", "no valid measurement"))
    return Answer(key, here)


def ordered(values: Mapping[str, float], rule: str, slack: float = 0.0) -> Decision:
    """Whether ``values`` fall in their order; ``slack``: how much more the next may be, as a share."""
    numbers = list(values.values())
    found = ", ".join(f"{name} {significant(value)}" for name, value in values.items())
    if len(numbers) < 2 or any(math.isnan(number) for number in numbers):
        return Decision(UNKNOWN, rule, f"too few values: {found}" if found else "no values")
    holds = all(later <= earlier * (1 + slack) for earlier, later in itertools.pairwise(numbers))
    return decided(holds, rule, found)


def within(values: Mapping[str, float], low: float, high: float, rule: str) -> Decision:
    """Whether each of ``values`` lies from ``low`` to ``high``."""
    if not values or any(math.isnan(value) for value in values.values()):
        return Decision(UNKNOWN, rule, "no valid measurement")
    least, most = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    found = f"from {significant(values[least], 4)} ({least}) to {significant(values[most], 4)} ({most})"
    return decided(low <= values[least] and values[most] <= high, rule, found)


def every(parts: Mapping[str, Decision], rule: str) -> Decision:
    """Whether all of ``parts`` hold; one that differs decides."""
    verdicts = {part.verdict for part in parts.values()}
    verdict: Verdict = "differs" if "differs" in verdicts else UNKNOWN if verdicts != {"holds"} else "holds"
    shown = {name: part for name, part in parts.items() if verdict == "holds" or part.verdict != "holds"}
    held = sum(part.verdict == "holds" for part in parts.values())
    found = "; ".join(f"{name}: {part.found}" for name, part in shown.items())
    return Decision(verdict, rule, f"{held} of {len(parts)}. {found}" if parts else "no measurements")


def monotone(
    x: Sequence[float], y: Sequence[float], *, falling: bool = False, slack: float = SLACK
) -> Decision:
    """Whether ``y`` rises with ``x`` (or falls), but for steps back of a share ``slack`` of its range."""
    word = "falls" if falling else "rises"
    rule = f"{word} from point to point" + (
        f", steps back of up to {slack:.0%} of the range" if slack else ""
    )
    points = sorted((a, b) for a, b in zip(x, y, strict=True) if not math.isnan(b))
    if len(points) < 3:
        return Decision(UNKNOWN, rule, f"{len(points)} points")
    steps = np.diff([b for _, b in points]) * (-1 if falling else 1)
    span = max(b for _, b in points) - min(b for _, b in points)
    back = int((steps < -slack * span).sum())
    net = points[-1][1] - points[0][1]
    holds = back == 0 and (net < 0 if falling else net > 0)
    return decided(
        holds,
        rule,
        f"{back} of {len(steps)} steps against it, from {significant(points[0][1])} to "
        f"{significant(points[-1][1])}",
    )


def fitted(
    x: Sequence[float], y: Sequence[float], *, exponential: bool = False, least: float = 0.95
) -> Decision:
    """Whether a line (or an exponential, as a line of the logarithms) describes ``y``, by its R²."""
    kind = "an exponential" if exponential else "a line"
    rule = f"R² of {kind} at least {least:g}"
    points = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(b) and not (exponential and b <= 0)]
    if len(points) < 3:
        return Decision(UNKNOWN, rule, f"{len(points)} points")
    at, of = np.array(points, dtype=float).T
    of = np.log(of) if exponential else of
    left = of - np.polyval(np.polyfit(at, of, 1), at)
    spread = float(((of - of.mean()) ** 2).sum())
    r2 = 1 - float((left**2).sum()) / spread if spread else math.nan
    if math.isnan(r2):
        return Decision(UNKNOWN, rule, "all values are equal")
    return decided(r2 >= least, rule, f"R² {r2:.3f}, {len(points)} points")


def ratio(
    first: Sequence[float], second: Sequence[float], low: float, high: float, names: tuple[str, str]
) -> Decision:
    """Whether the ratio of two medians lies from ``low`` to ``high``; its 95 % interval decides.

    ``first`` and ``second`` are repeated measurements. With one of each there is no interval, and the ratio
    itself decides.
    """
    ends = f"{low:g} to {high:g}" if not math.isinf(high) else f"at least {low:g}"
    rule = f"ratio of {names[0]} to {names[1]}: {ends if math.isinf(high) or low else f'at most {high:g}'}"
    a = np.array([value for value in first if value > 0])
    b = np.array([value for value in second if value > 0])
    if not a.size or not b.size:
        return Decision(UNKNOWN, rule, "no valid measurement")
    middle = float(np.median(a) / np.median(b))
    if min(a.size, b.size) < 2:
        return decided(low <= middle <= high, rule, f"{middle:.3g}, measured once")
    random = np.random.default_rng(0)
    drawn = np.median(random.choice(a, (2000, a.size)), axis=1) / np.median(
        random.choice(b, (2000, b.size)), axis=1
    )
    least, most = np.quantile(drawn, (0.025, 0.975))
    verdict: Verdict = UNKNOWN
    if low <= least and most <= high:
        verdict = "holds"
    elif most < low or least > high:
        verdict = "differs"
    return Decision(verdict, rule, f"{middle:.3g} (95 % interval {least:.3g} to {most:.3g})")


def settled(holds: bool | None, rule: str, found: str) -> Decision:
    """A decision, or none (``holds`` is None) because there is no valid measurement for it."""
    return Decision(UNKNOWN, rule, found) if holds is None else decided(holds, rule, found)


def all_of(decisions: Mapping[str, Decision]) -> Decision:
    """Whether all ``decisions`` hold; those that do not are named."""
    rules = list(dict.fromkeys(decision.rule for decision in decisions.values()))
    rule = "; ".join(rules) + (f"; in all of {len(decisions)} cases" if len(decisions) > len(rules) else "")
    verdicts = {name: decision.verdict for name, decision in decisions.items()}
    verdict: Verdict = "holds"
    if not decisions or UNKNOWN in verdicts.values():
        verdict = UNKNOWN
    if "differs" in verdicts.values():
        verdict = "differs"
    shown = (
        [name for name in decisions if verdicts[name] == verdict] if verdict != "holds" else list(decisions)
    )
    found = "; ".join(f"{name}: {decisions[name].found}" for name in shown[:_SHOWN])
    if len(shown) > _SHOWN:
        found += f"; and {len(shown) - _SHOWN} more"
    if verdict == "differs" and len(shown) < len(decisions):
        found = f"not in {len(shown)} of {len(decisions)}: {found}"
    return Decision(verdict, rule, found or "no valid measurement")


_SHOWN: Final = 4
