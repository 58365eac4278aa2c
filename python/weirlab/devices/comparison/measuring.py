"""Profiles of two devices in turns, so that a drift of the host meets both alike."""

from __future__ import annotations

from dataclasses import dataclass

from weirlab.base.errors import InputError
from weirlab.cli.quantities import duration, percent, plural, words
from weirlab.jobs.progress import Progress
from weirlab.jobs.quick import QuickProfile, profile_in_turn
from weirlab.model.comparing import ComparisonTerms
from weirlab.model.comparing.power import power
from weirlab.store import Store


@dataclass(frozen=True)
class TurnsPlan:
    """Two devices to compare, and how many profiles of each."""

    before: QuickProfile
    after: QuickProfile
    pairs: int

    @property
    def order(self) -> tuple[bool, ...]:
        """Which is measured when, True for the one after the change: ABBA, ABBA, ..."""
        return ((False, True, True, False) * self.pairs)[: 2 * self.pairs]

    def forecast(self, terms: ComparisonTerms) -> str:
        """What these profiles can find, and how long they take."""
        settings = min(self.before.settings, self.after.settings)
        foreseen = power(settings, self.pairs, terms)
        found = words([f"{percent(each.detectable)} in {each.title}" for each in foreseen])
        proved = words([percent(each.provable) for each in foreseen])
        seconds = self.pairs * (self.before.expected_s + self.after.expected_s)
        return (
            f"{plural(self.pairs, 'profile')} of each in turns, about {duration(seconds * 1e9, 2)}. If runs "
            f"scatter as assumed, 4 of 5 such comparisons find a change of {found}, and prove no change "
            f"within {proved}. --pairs for more"
        )


def measure_in_turns(
    store: Store, plan: TurnsPlan, progress: Progress
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Measure, and return the IDs of the runs before and after the change.

    Raises
    ------
    InputError
        Both are the same, or one cannot be profiled.
    """
    if plan.before == plan.after:
        raise InputError(f"{plan.before.device} would be compared with itself: name another one after it")
    order = plan.order
    runs: tuple[list[str], list[str]] = ([], [])
    wanted = [plan.after if turn else plan.before for turn in order]
    for turn, outcome in zip(order, profile_in_turn(store, wanted, progress), strict=True):
        runs[turn].append(outcome.run.run_id)
        if (problem := outcome.problem()) is not None:
            raise problem
    return tuple(runs[False]), tuple(runs[True])
