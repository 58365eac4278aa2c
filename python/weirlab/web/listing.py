"""The list of runs: which a page of it shows, and what it says about each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from weirlab.cli.quantities import count, plural
from weirlab.store import RunSummary
from weirlab.store.summary import SKETCH

SortKey = Literal["newest", "oldest", "name", "kind", "device"]


@dataclass(frozen=True)
class RunFilter:
    """The runs that a page of the list shows."""

    words: tuple[str, ...] = ()
    """Each occurs in the ID, the name, the kind, the state or the sentence; in lower case."""
    kind: str = ""
    status: str = ""
    device: str = ""
    tag: str = ""
    star: bool = False
    """Only those with a star."""
    since: str = ""
    """Days in ISO 8601, both included."""
    until: str = ""
    first: int = 0
    """How many come before the page."""
    most: int = 100
    sort: SortKey = "newest"

    def includes(self, run: RunSummary, answer: str) -> bool:
        """Whether ``run``, which found ``answer``, is one of these, on this page or another."""
        day = run.created[:10]
        wanted = (self.kind, run.kind), (self.status, state(run)), (self.device, run.device)
        if any(one and one != other for one, other in wanted):
            return False
        label = run.label
        if (self.tag and self.tag not in label.tags) or (self.star and not label.star):
            return False
        if (self.since and day < self.since) or (self.until and day > self.until):
            return False
        if not self.words:
            return True
        told = (run.run_id, run.name, run.kind, state(run), run.device, _conclusion(run, answer))
        text = " ".join((*told, label.name, label.note, *label.tags)).lower()
        return all(word in text for word in self.words)

    def ordered(self, runs: list[RunSummary]) -> list[RunSummary]:
        """``runs``, which come with the newest first, in the order of ``sort``."""
        match self.sort:
            case "newest":
                return runs
            case "oldest":
                return runs[::-1]
            case key:
                # Among equal ones, the newest first.
                attribute = "title" if key == "name" else key
                return sorted(runs, key=lambda run: str(getattr(run, attribute)).lower())


def state(run: RunSummary) -> str:
    """The state of a run, as far as it can be relied on: nothing valid is not complete."""
    if run.status == "complete" and run.unusable:
        return "does not count"
    if run.status == "complete" and run.trials and run.invalid == run.trials:
        return "nothing valid"
    return run.status


def line(run: RunSummary, answer: str) -> dict[str, Any]:
    """What the list says about ``run``, which found ``answer`` as far as is known."""
    return {
        "run_id": run.run_id,
        "kind": run.kind,
        "status": state(run),
        "created": run.created,
        "host": run.host,
        "name": run.title,
        "star": run.label.star,
        "tags": run.label.tags,
        "device": run.device,
        "trials": run.trials,
        "invalid": run.invalid,
        "simulated": run.simulated,
        "problem": run.problem,
        "conclusion": _conclusion(run, answer),
        # Who may not look into the folder sees none.
        "sketch": os.path.isfile(run.path / SKETCH),
    }


def _conclusion(run: RunSummary, answer: str) -> str:
    unusable = f"Does not count: {run.unusable}. " if run.unusable else ""
    return run.problem or unusable + (run.answer or answer or _in_short(run))


def _in_short(run: RunSummary) -> str:
    """What is known of a run before it is read."""
    if not run.trials:
        return f"This {run.kind} is {run.status}."
    valid = run.trials - (run.invalid or 0)
    return f"{count(valid)} of {plural(run.trials, 'attempt')} valid."
