"""A change of rules in a plan: what it does to the rules that packets meet, judged without measuring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from weirlab.base import files
from weirlab.base.errors import NotMet, Undecided, WeirError
from weirlab.base.quantities import NOTHING, count, percent, plural, rate, significant, words
from weirlab.base.tables import Table
from weirlab.base.units import NS_PER_S
from weirlab.devices.planning.requiring import rules_met
from weirlab.lab.dut.rulesets.source import RulesetFiles, RulesetSource
from weirlab.requirements import DemandCase
from weirlab.rules import RulesetChange, ruleset_change
from weirlab.rules.walking import spans

MARGIN: Final = 0.08
"""Growth of the mean matching position that is accepted unless the user sets another: as much as
``weir compare`` accepts of the forwarding rate."""


@dataclass(frozen=True)
class ChangeCost:
    """What a device carries before and after a change of rules, by its profile."""

    device: str
    before_pps: float
    after_pps: float
    extrapolated: bool
    """The mean position lies outside the profiled range."""

    @property
    def cells(self) -> list[str]:
        times = [f"{NS_PER_S / pps:,.0f} ns" for pps in (self.before_pps, self.after_pps)]
        name = self.device + (" (extrapolated)" if self.extrapolated else "")
        ratio = self.after_pps / self.before_pps - 1
        return [name, rate(self.before_pps), rate(self.after_pps), f"{ratio:+.1%}".replace("%", " %"), *times]


@dataclass(frozen=True)
class RulesetChangeOutcome:
    """Two files with rules, compared by the packets that the first one counted."""

    before: Path
    after: Path
    change: RulesetChange
    margin: float
    """Growth of the mean matching position that is accepted, as a ratio."""
    costs: tuple[ChangeCost, ...] = ()
    """By device with a profile."""

    @property
    def verdict(self) -> Literal["unchanged", "not worse", "worse", "cannot tell"]:
        """Whether the packets from before meet more rules than the margin allows."""
        if self.change.same_rules:
            return "unchanged"
        if self.change.growth_ratio <= self.margin:
            return "not worse"
        return "worse" if self.change.least_growth_ratio > self.margin else "cannot tell"

    @property
    def difference(self) -> str:
        """``55.8 → 356 rules per packet (+538 %)``; between bounds if the verdict depends on which it is."""
        positions = (self.change.before.mean_position, self.change.after.mean_position)
        before, after = map(significant, positions)
        if self.verdict == "cannot tell":
            least = significant(self.change.least)
            return f"{before} → {least} to {after} rules per packet (at most {self._growth})"
        return f"{before} → {after} rules per packet ({self._growth})"

    @property
    def _growth(self) -> str:
        ratio = self.change.growth_ratio
        shown = percent(ratio, 3)
        return f"+{shown}" if ratio > 0 and shown != NOTHING else shown

    @property
    def sentence(self) -> str:
        """The difference, what changed, and whose packets it is about."""
        change = self.change
        if change.same_rules and not change.after.packets:
            return "The rules for forwarded packets are the same; neither file counted a packet."
        if change.same_rules:
            return (
                "The rules for forwarded packets are the same: "
                f"{significant(change.after.mean_position)} rules per packet."
            )
        parts = [
            f"{plural(number, 'rule')} {done}"
            for number, done in ((change.added, "added"), (change.removed, "removed"))
            if number
        ]
        if change.reordered:
            parts.append("others in another order" if parts else "rules in another order")
        return (
            f"{self.difference}, {self._judgement}: {words(parts)}; {self._counters}. Comparisons are not "
            f"time, which weir compare --measure {self.before} {self.after} measures."
        )

    @property
    def _judgement(self) -> str:
        margin = f"{self.margin * 100:g} %"
        match self.verdict:
            case "worse":
                return f"more than the margin of {margin}"
            case "cannot tell":
                return f"but it cannot be told whether it is within the margin of {margin}"
            case _:
                within = self.change.growth_ratio >= -self.margin
                return f"within the margin of {margin}" if within else f"not worse; the margin is {margin}"

    @property
    def _counters(self) -> str:
        """Whose packets it is about, and what they are taken to do where nothing tells."""
        change = self.change
        exact = not (change.removed or change.unstopping or change.new_jumps)
        parts = [f"{'' if exact else 'at most, '}for the packets that {self.before} counted"]
        for rules, noun, stand_in in (
            (change.unstopping, "new rule", "stopping none of them"),
            (change.new_jumps, "new jump", "taken by all"),
        ):
            if rules:
                counts = "counts" if len(rules) == 1 else "count"
                parts.append(f"{plural(len(rules), noun)} ({spans(rules)}) {counts} as {stand_in}")
        if change.removed and change.least_position < change.after.mean_position:
            parts.append("packets whose rule is gone count as compared with all")
        if change.own is not None:
            own = significant(change.own.mean_position)
            parts.append(
                f"new rules counted other packets: by the counters of {self.after} it would be {own}"
            )
        if change.absent:
            versions = words([f"IPv{version}" for version in change.absent])
            parts.append(f"packets of {versions} are left out, for which {self.after} has no rules")
        if change.uncounted:
            rules = change.uncounted
            parts.append(
                f"packets of {plural(len(rules), 'rule')} without a counter in {self.before} are left out "
                f"({spans(rules)} of {self.after})"
            )
        return "; ".join(parts)

    @property
    def case(self) -> DemandCase:
        """Rules per packet, for requirements: by the own counters of the file if new rules have any, else
        between the bounds for the packets that the first file counted."""
        case = rules_met(self.change.known)
        if self.change.own is not None or self.change.same_rules:
            return case
        low = min(self.change.least_position, case.value)
        why = f"it depends on rules that {self.before} did not count"
        return replace(case, low=low, high=case.value, why=why)

    def tables(self) -> list[Table]:
        """Both rulesets, and what devices carry with them."""
        walks = ((self.before, self.change.before), (self.after, self.change.after))
        columns = ["Rules", "Packets counted", "Rules per packet"]
        rows = [
            [str(path), count(walk.packets), significant(walk.mean_position) if walk.packets else NOTHING]
            for path, walk in walks
        ]
        if any(walk.uncounted for _, walk in walks):
            columns.append("Without a counter")
            rows = [[*row, count(len(walk.uncounted))] for row, (_, walk) in zip(rows, walks, strict=True)]
        found = [Table("Change of rules", columns, rows)]
        if self.costs:
            columns = ["Device", "Threshold", "Threshold then", "Change", "Per packet", "Per packet then"]
            found.append(Table("Predicted cost of the change", columns, [one.cells for one in self.costs]))
        return found

    def problem(self) -> WeirError | None:
        """The error if packets meet more rules than the margin allows, or if that cannot be told."""
        if self.verdict == "worse":
            return NotMet(f"{self.after}: {self.difference}")
        if self.verdict == "cannot tell":
            return Undecided(f"{self.after}: {self.difference}; cannot tell whether it is worse")
        return None

    def document(self) -> dict[str, Any]:
        change = self.change
        return {
            "before": self.before,
            "after": self.after,
            "mean_position_before": _known(change.before.mean_position),
            "mean_position": _known(change.after.mean_position),
            "growth_ratio": change.growth_ratio,
            "margin": self.margin,
            "costs": [asdict(one) for one in self.costs],
            "least_mean_position": _known(change.least_position),
            "own_mean_position": None if change.own is None else _known(change.own.mean_position),
            "verdict": self.verdict,
            "added": change.added,
            "removed": change.removed,
            "reordered": change.reordered,
            "absent_ip_versions": change.absent,
            "uncounted": [f"{chain} rule {number}" for chain, number in change.after.uncounted],
            "notes": [*change.before.notes, *change.after.notes],
        }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def compare_rulesets(
    before: Path, after: Path, include: Sequence[Path], margin: float
) -> RulesetChangeOutcome:
    """Read both files and compare them; raises ``InputError`` as :func:`weirlab.rules.ruleset_change`."""
    old, new = (
        RulesetSource(each, files.HOST_FILES, RulesetFiles(tuple(include))).path_of_packets(elements=False)
        for each in (before, after)
    )
    change = ruleset_change(old, new, (str(before), str(after)))
    return RulesetChangeOutcome(before, after, change, margin)
