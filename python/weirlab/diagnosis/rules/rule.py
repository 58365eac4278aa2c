"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weirlab.diagnosis.causes import Cause, Confidence, Source
from weirlab.diagnosis.view import View

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

Holds = Callable[[View], "Bools | Floats"]
"""By piece of time: whether the cause holds, or to what part (0 to 1)."""
Explains = Callable[[View, "Floats"], tuple[str, tuple[str, ...]]]
"""From the part that the rule got: why, as the end of a sentence; and the evidence."""


@dataclass(frozen=True)
class Rule:
    """A cause: when it holds, how it is explained, how sure that is, and from where it cannot be told."""

    cause: Cause
    holds: Holds
    explains: Explains
    confidence: Mapping[Source, Confidence] = field(default_factory=dict)
    """``medium`` where nothing is said."""
    blind: Mapping[Source, str] = field(default_factory=dict)
    """Why it cannot be told."""
    looks_like: tuple[str, ...] = ()
    """Causes that it would be taken for: without any of them there is nothing to be blind for."""
    told: Callable[[View], bool] = lambda view: False
    """It can be told all the same."""

    def sure(self, source: Source) -> Confidence:
        """How sure it is; at both ends at least as sure as at the sender alone."""
        usual = self.confidence.get("sender", "medium") if source == "both" else "medium"
        return self.confidence.get(source, usual)

    def unseen(self, view: View) -> str | None:
        """Why it cannot be told, if so; what the sender's packets do not tell, those at both ends do not."""
        source = view.timeline.source
        why = self.blind.get("sender" if source == "both" else source)
        return None if self.told(view) else why
