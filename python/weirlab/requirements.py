"""Requirements on a result, such as ``p99<1ms``: parsed, and judged by what was measured.

Pure. A requirement that the measurements do not decide is undecided: neither met nor not met.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from weirlab.base.errors import InputError
from weirlab.base.quantities import NOTHING, duration, rate, significant
from weirlab.base.quoting import quoted
from weirlab.base.units import bps_from_pps
from weirlab.traffic.load import parse_rate

Comparison = Literal["<", "<=", "=", ">=", ">"]
Verdict = Literal["met", "not met", "undecided"]
Kind = Literal["time", "share", "rate", "score", "count"]
Unit = Literal["ns", "ratio", "pps", "bit/s", "MOS", ""]


@dataclass(frozen=True)
class Quantity:
    """Something that is measured, and what users call it."""

    name: str
    title: str
    """``p99 delay``, as in sentences."""
    kind: Kind
    others: tuple[str, ...] = ()
    """Other names that users give it."""


MEAN: Final = Quantity("mean", "mean delay", "time", ("delay", "latency"))
MIN: Final = Quantity("min", "least delay", "time")
P50: Final = Quantity("p50", "p50 delay", "time", ("median",))
P90: Final = Quantity("p90", "p90 delay", "time")
P99: Final = Quantity("p99", "p99 delay", "time")
P999: Final = Quantity("p99.9", "p99.9 delay", "time", ("p999",))
MAX: Final = Quantity("max", "longest delay", "time")
JITTER: Final = Quantity("jitter", "jitter", "time")
GAP: Final = Quantity("gap", "longest gap", "time")
LOSS: Final = Quantity("loss", "loss", "share")
RATE: Final = Quantity("rate", "forwarding rate", "rate", ("forwarding",))
MOS: Final = Quantity("mos", "MOS", "score")

_UNITS_NS: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
_BASE: Final[dict[Kind, Unit]] = {"time": "ns", "share": "ratio", "rate": "pps", "score": "MOS", "count": ""}
_TEXT: Final = re.compile(r"([a-z][a-z0-9.%@-]*)(<=|>=|<|=|>)([^<>=]+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)([a-zµμ%]*)")
_WHOLE: Final = re.compile(r"\d{1,15}")
_MOS: Final = (1.0, 5.0)
_MOST_DIGITS: Final = 8
_EXAMPLES: Final[dict[Kind, str]] = {
    "time": "p99<1ms",
    "share": "loss<0.1%",
    "rate": "rate>=300kpps",
    "score": "mos>=4",
    "count": "calls>=300",
}
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Demand:
    """A requirement: how ``quantity`` must compare with ``value``, which is in ``unit``."""

    text: str
    quantity: Quantity
    comparison: Comparison
    value: float
    unit: Unit

    def show(self, value: float, digits: int = 3) -> str:
        """``value`` with its unit, as in sentences."""
        match self.unit:
            case "ns":
                return duration(value, digits)
            case "ratio":
                return f"{significant(value * 100, digits)} %"
            case "pps":
                return rate(value, digits)
            case "bit/s":
                return f"{significant(value / 1e6, digits)} Mbit/s"
            case "MOS":
                return f"{value:.{digits - 1}f}" if math.isfinite(value) else NOTHING
        return f"{value:,.0f}" if value.is_integer() else significant(value, digits)


@dataclass(frozen=True)
class DemandCase:
    """One measurement that a demand must hold for.

    ``value``, ``low`` and ``high`` are in ns, a ratio, packets/s, MOS or a count. The last two bound the true
    value, and are infinite if a bound is not known; by default both are the value itself.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    where: str = ""
    """Which of several settings, streams or callers; empty if there is only one."""
    note: str = ""
    """What the value was counted from: ``of 20,000 packets``."""
    why: str = ""
    """Why it is undecided, and what would decide it."""
    frame_bytes: float = math.nan
    """Mean frame size, for rates in bit/s."""

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest possible value."""
        low, high = (self.value if math.isnan(end) else end for end in (self.low, self.high))
        return low, high

    @classmethod
    def unknown(cls, why: str, where: str = "") -> DemandCase:
        """A case without a valid measurement."""
        return cls(math.nan, -math.inf, math.inf, where=where, why=why)


@dataclass(frozen=True)
class DemandJudgement:
    """The verdict on a demand: met if every case meets it, not met if one case does not."""

    demand: Demand
    verdict: Verdict
    case: DemandCase
    """The case that decides: the worst, values in the demand's unit."""
    cases: int
    """How many cases there are."""
    failing: int
    """In how many of them it is not met."""

    @property
    def measured(self) -> str:
        """``1.30 ms [1.10 ms, 1.50 ms]``, ``at least 1.80 Mpps``."""
        show, (low, high) = self.demand.show, self.case.ends
        if math.isnan(self.case.value):
            return NOTHING
        if low == high or (math.isinf(low) and math.isinf(high)):
            return show(self.case.value, self._digits(self.case.value))
        if math.isinf(high):
            return f"at least {show(low)}"
        if math.isinf(low):
            return f"at most {show(high)}"
        digits = self._digits(low, high)
        return f"{show(self.case.value, digits)} [{show(low, digits)}, {show(high, digits)}]"

    def _digits(self, *values: float) -> int:
        """The fewest digits that distinguish the values from each other and from the limit."""
        apart = {*values, self.demand.value}
        texts = ({self.demand.show(value, digits) for value in apart} for digits in range(3, _MOST_DIGITS))
        return next((digits for digits, shown in enumerate(texts, 3) if len(shown) == len(apart)), 3)

    @property
    def because(self) -> str:
        """The context of the verdict: where, how much was counted, what would decide it."""
        why = self.case.why if self.verdict == "undecided" else ""
        where = self.case.where
        if where and self.cases > 1:
            where = f"{where}, the worst of {self.cases:,}"
            where += f" ({self.failing:,} not met)" if self.failing > 1 else ""
        return "; ".join(part for part in (where, self.case.note, why) if part)

    def document(self) -> dict[str, Any]:
        """For ``--json``; unknown and unbounded values are null."""
        demand, (low, high) = self.demand, self.case.ends
        return {
            "requirement": demand.text,
            "quantity": demand.quantity.name,
            "comparison": demand.comparison,
            "limit": demand.value,
            "unit": demand.unit,
            "verdict": self.verdict,
            "value": self.case.value,
            "low": low,
            "high": high,
            "where": self.case.where,
            "note": self.case.note,
            "why": self.case.why if self.verdict == "undecided" else "",
            "cases": self.cases,
            "failing": self.failing,
        }


def parse(text: str, known: Sequence[Quantity]) -> Demand:
    """Read ``p99<1ms``, ``loss = 0``, ``rate>=300kpps``, ``mos>=4``; spaces do not matter.

    Raises
    ------
    InputError
        The text is not a requirement, names none of the ``known`` quantities, or no result could meet it.
    """
    match = _TEXT.fullmatch(text.replace(" ", ""))
    names = ", ".join(quantity.name for quantity in known)
    if match is None:
        raise InputError(
            f"requirement {quoted(text)} not understood; accepted are a quantity ({names}), one of "
            f"<, <=, =, >=, > and a value, e.g. {_EXAMPLES[known[0].kind]}"
        )
    name = match[1].lower()
    name = name.removesuffix("delay") or name
    quantity = next((each for each in known if name in (each.name, *each.others)), None)
    if quantity is None:
        raise InputError(
            f"requirement {quoted(text)}: {quoted(match[1])} is not known here; accepted are {names}"
        )
    comparison: Comparison = match[2]  # type: ignore[assignment]
    value, unit = _value(text, quantity, match[3])
    _refuse_pointless(text, quantity, comparison, value)
    return Demand(text.strip(), quantity, comparison, value, unit)


def judge(
    demand: Demand, cases: Sequence[DemandCase], decided: Sequence[Verdict] | None = None
) -> DemandJudgement:
    """Whether ``demand`` is met in all of ``cases``; ``decided`` if more than their ends tells."""
    seen = [_in_unit(demand, case) for case in cases] or [DemandCase.unknown("nothing was measured")]
    verdicts = [decide(demand, *case.ends) for case in seen] if decided is None else list(decided)
    order: tuple[Verdict, ...] = ("not met", "undecided", "met")
    overall = next(verdict for verdict in order if verdict in verdicts)
    deciding = [case for case, verdict in zip(seen, verdicts, strict=True) if verdict == overall]
    worst = max(deciding, key=lambda case: _excess(demand, case))
    return DemandJudgement(demand, overall, worst, len(seen), verdicts.count("not met"))


def decide(demand: Demand, low: float, high: float) -> Verdict:
    """The verdict on a value that is known to lie between ``low`` and ``high``."""
    limit = demand.value
    if math.isnan(low) or math.isnan(high):
        return "undecided"
    if demand.comparison == "=":
        if low == high == limit:
            return "met"
        return "undecided" if low <= limit <= high else "not met"
    holds = {_COMPARE[demand.comparison](end, limit) for end in (low, high)}
    return "undecided" if len(holds) > 1 else "met" if holds.pop() else "not met"


def _excess(demand: Demand, case: DemandCase) -> float:
    """How far the case is on the wrong side, negative on the right one; infinite if nothing is known."""
    if math.isnan(case.value):
        return math.inf
    off = case.value - demand.value
    return -off if demand.comparison in (">", ">=") else abs(off) if demand.comparison == "=" else off


def _in_unit(demand: Demand, case: DemandCase) -> DemandCase:
    if demand.unit != "bit/s":
        return case
    low, high = case.ends
    value, low, high = (bps_from_pps(each, case.frame_bytes) for each in (case.value, low, high))
    return DemandCase(value, low, high, case.where, case.note, case.why)


def _value(text: str, quantity: Quantity, value: str) -> tuple[float, Unit]:
    """The number in the quantity's base unit; rates may also be bits per second."""
    said = f"requirement {quoted(text)}"
    if quantity.kind == "rate":
        load = parse_rate(value)
        if load.unit == "max":
            raise InputError(f"{said} needs a rate in numbers, e.g. {quantity.name}>=300kpps")
        if load.unit == "percent":
            return load.value / 100 * load.line_bps, "bit/s"
        return load.value, "bit/s" if load.unit == "bps" else "pps"
    if quantity.kind == "count":
        if not _WHOLE.fullmatch(value):
            raise InputError(f"{said} needs a whole number, e.g. {quantity.name}>=300")
        return float(value), ""
    match = _NUMBER.fullmatch(value.lower())
    number, unit = (float(match[1]), match[2]) if match else (math.nan, "")
    if quantity.kind == "time" and (match is None or unit not in _UNITS_NS):
        raise InputError(f"{said} needs a unit of time: ns, us, ms or s, e.g. {quantity.name}<1ms")
    if quantity.kind == "share" and (match is None or unit not in ("", "%")):
        raise InputError(f"{said}: {quantity.name} is a ratio or a percentage, e.g. {quantity.name}<0.1%")
    if quantity.kind == "score" and (match is None or unit):
        raise InputError(f"{said}: MOS is a bare number from 1 to 5, e.g. {quantity.name}>=4")
    if not math.isfinite(number):
        raise InputError(f"{said}: the value must be finite")
    factor = _UNITS_NS[unit] if quantity.kind == "time" else 0.01 if unit == "%" else 1.0
    return number * factor, _BASE[quantity.kind]


def _refuse_pointless(text: str, quantity: Quantity, comparison: Comparison, value: float) -> None:
    """Raise ``InputError`` for a requirement that every result meets, or none."""
    said = f"requirement {quoted(text)}"
    below = comparison in ("<", "<=")
    if quantity.kind == "share":
        if value > 1 or (below and value == 1) or (comparison == ">" and value == 1):
            raise InputError(f"{said} demands nothing; give a {quantity.name} below 100%")
        if (comparison, value) in (("<", 0.0), (">=", 0.0)):
            raise InputError(f"{said} says nothing; for no {quantity.name} give {quantity.name}=0")
        return
    if comparison == "=" and quantity.kind != "count":
        raise InputError(f"{said}: no two results are equal in {quantity.title}; give <= or >=")
    if quantity.kind == "time" and below and value <= 0:
        raise InputError(f"{said} cannot be met by any device; give a time above 0")
    if quantity.kind == "score" and not _MOS[0] <= value <= _MOS[1]:
        raise InputError(f"{said}: MOS is a number from 1 to 5")
