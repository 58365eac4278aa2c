"""A change of rules in a plan: what it does to the rules that packets meet, judged without measuring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.base import files
from weirlab.base.errors import NotMet
from weirlab.base.quantities import NOTHING, count, percent, plural, significant, words
from weirlab.base.tables import Table
from weirlab.lab.dut.rulesets.source import RulesetFiles, RulesetSource
from weirlab.rules import RulesetChange, ruleset_change
from weirlab.rules.walking import spans

MARGIN: Final = 0.08
"""Growth of the mean matching position that is accepted unless the user sets another: as much as
``weir compare`` accepts of the forwarding rate."""


@dataclass(frozen=True)
class RulesetChangeOutcome:
    """Two files with rules, compared by their counters."""

    before: Path
    after: Path
    change: RulesetChange
    margin: float
    """Growth of the mean matching position that is accepted, as a ratio."""

    @property
    def is_worse(self) -> bool:
        """Whether packets meet more rules than the margin allows."""
        return self.change.growth_ratio > self.margin

    @property
    def difference(self) -> str:
        """``55.8 → 356 rules per packet (+538 %)``."""
        positions = (self.change.before.mean_position, self.change.after.mean_position)
        before, after = map(significant, positions)
        return f"{before} → {after} rules per packet ({self._growth})"

    @property
    def _growth(self) -> str:
        ratio = self.change.growth_ratio
        shown = percent(ratio, 3)
        return f"+{shown}" if ratio > 0 and shown != NOTHING else shown

    @property
    def sentence(self) -> str:
        """The difference, what changed, and whose counters it rests on."""
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
        said = (
            "more than the margin of"
            if self.is_worse
            else "within the margin of"
            if change.growth_ratio > 0
            else "not worse; the margin is"
        )
        return f"{self.difference}, {said} {self.margin * 100:g} %: {words(parts)}; {self._counters}."

    @property
    def _counters(self) -> str:
        """Whose counters it rests on, and what stands for those that are missing."""
        change, own = self.change, self.change.counters == "own"
        parts = []
        if not own:
            parts.append(f"at most, by the counters of {self.before}, because {self.after} counted no packet")
        for rules, noun, stand_in in (
            (change.unstopping, "new rule", "stopping no packet"),
            (change.new_jumps, "new jump", "taken by every packet"),
        ):
            if rules:
                one = len(rules) == 1
                how = f"{'has' if one else 'have'} no counter ({spans(rules)}): counted as {stand_in}"
                if not own:
                    how = f"({spans(rules)}) {'counts' if one else 'count'} as {stand_in}"
                parts.append(f"{plural(len(rules), noun)} {how}")
        if change.uncounted:
            rules = change.uncounted
            parts.append(
                f"packets of {plural(len(rules), 'rule')} without a counter are left out ({spans(rules)})"
            )
        return "; ".join(parts) or "each by its own counters"

    def table(self) -> Table:
        """Both rulesets."""
        walks = ((self.before, self.change.before), (self.after, self.change.after))
        columns = ["Rules", "Packets counted", "Rules per packet"]
        rows = [
            [str(path), count(walk.packets), significant(walk.mean_position) if walk.packets else NOTHING]
            for path, walk in walks
        ]
        if any(walk.uncounted for _, walk in walks):
            columns.append("Without a counter")
            rows = [[*row, count(len(walk.uncounted))] for row, (_, walk) in zip(rows, walks, strict=True)]
        return Table("Change of rules", columns, rows)

    def problem(self) -> NotMet | None:
        """The error if packets meet more rules than the margin allows."""
        return NotMet(f"{self.after}: {self.difference}") if self.is_worse else None

    def document(self) -> dict[str, Any]:
        change = self.change
        return {
            "before": self.before,
            "after": self.after,
            "mean_position_before": _known(change.before.mean_position),
            "mean_position": _known(change.after.mean_position),
            "growth_ratio": change.growth_ratio,
            "margin": self.margin,
            "verdict": "worse" if self.is_worse else "unchanged" if change.same_rules else "not worse",
            "counters": change.counters,
            "added": change.added,
            "removed": change.removed,
            "reordered": change.reordered,
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
