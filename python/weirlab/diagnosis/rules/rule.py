"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weirlab.diagnosis.causes import Cause, Confidence, Source
from weirlab.diagnosis.view import TimelineView

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

Holds = Callable[[TimelineView], "Bools | Floats"]
"""By piece of time: whether the cause applies, or to what degree (0 to 1)."""
Explains = Callable[[TimelineView, "Floats"], tuple[str, tuple[str, ...]]]
"""For the share of each piece that the rule got: why, as the end of a sentence; and the evidence."""


@dataclass(frozen=True)
class DiagnosisRule:
    """A cause: when it applies, how it is explained, how sure that is, and where it cannot be seen."""

    cause: Cause
    holds: Holds
    explains: Explains
    confidence: Mapping[Source, Confidence] = field(default_factory=dict)
    """By source; ``medium`` for one that is not listed."""
    blind: Mapping[Source, str] = field(default_factory=dict)
    """By source: why the cause cannot be told from there."""
    looks_like: tuple[str, ...] = ()
    """Causes that it would be mistaken for. If none of them is found, it is not listed as blind."""
    tells: Callable[[TimelineView], bool] = lambda view: False
    """Whether the cause can be told nevertheless."""

    def sure(self, source: Source) -> Confidence:
        """The confidence; with captures at both ends it defaults to that at the sender."""
        usual = self.confidence.get("sender", "medium") if source == "both" else "medium"
        return self.confidence.get(source, usual)

    def unseen(self, view: TimelineView) -> str | None:
        """Why the cause cannot be told, or None. Captures at both ends are as blind as one at the sender."""
        source = view.timeline.source
        why = self.blind.get("sender" if source == "both" else source)
        return None if self.tells(view) else why
