"""Calls: what they take on the wire, and what callers hear through a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weirlab.studies.contract import Study

if TYPE_CHECKING:
    from weirlab.report.story import Story
    from weirlab.store import Run


class CallsStudy(Study[Any, Any, Any]):
    """One set of calls through a device."""

    key = "calls"
    title = "calls through a device, and what callers hear"

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.calls.calls import tables

        return tables.headlines(run)

    def page(self, run: Run) -> Story:
        from weirlab.calls.calls.page import page

        return page(run)
