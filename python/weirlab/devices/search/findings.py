"""What searches and the tests of RFC 2544 found, in one clause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weirlab.cli.quantities import count, duration, percent, rate, rules
from weirlab.records import device_in_words

if TYPE_CHECKING:
    from weirlab.devices.search.rfc2544.suite import Result
    from weirlab.measure.search.goal import GoalResult
    from weirlab.measure.search.throughput import Point, Setting


def search_finding(points: Sequence[Point], dut: str) -> str:
    """The first goal of each setting, for at most three settings; without a full stop."""
    parts = [f"{_told(point.setting, dut)}: {_carried(point.found[0])}" for point in points if point.found]
    told = "; ".join(parts[:3]) + (f"; {len(parts) - 3} more in the table" if len(parts) > 3 else "")
    return f"{device_in_words(dut, first=True)}, {told or 'nothing was found'}"


def rfc2544_finding(first: Result, dut: str) -> str:
    """The results of the ``first`` setting, without a full stop."""
    parts = []
    if first.found is not None:
        parts.append(_carried(first.found))
    if first.latency is not None:
        parts.append(f"latency there {duration(first.latency.mean_ns)}")
    if first.loss is not None:
        top = first.loss.points[0]
        parts.append(f"{percent(top.loss_ratio)} lost at {rate(top.offered_pps)}")
    if first.bursts is not None:
        more = "at least " if first.bursts.at_least else ""
        parts.append(f"bursts of up to {more}{count(first.bursts.mean_frames)} frames without loss")
    what = ", ".join(parts) or "nothing was found"
    return f"{device_in_words(dut, first=True)}, {_told(first.setting, dut)}: {what}"


def _told(setting: Setting, dut: str) -> str:
    sizes = setting.sizes_text
    frames = f"{sizes}-byte frames" if sizes.isdigit() else f"frames {sizes}"
    return frames if dut in ("ruleset", "none") else f"{rules(setting.rules.position)}, {frames}"


def _carried(found: GoalResult) -> str:
    throughput = found.conditional_throughput_pps
    if throughput is None:
        return f"more lost than {found.goal.name} allows even at the lowest load"
    limit = ", the highest load offered" if found.at_least else ""
    return f"{found.goal.name} {'at least ' if found.at_least else ''}{rate(throughput)}{limit}"
