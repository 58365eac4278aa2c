"""Two devices compared: by runs of each, or by trials that alternate between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weirlab.studies.contract import Study

if TYPE_CHECKING:
    from weirlab.report.story import Story
    from weirlab.store import Run


class ComparisonStudy(Study[Any, Any, Any]):
    """Comparisons; a run is one whose trials alternated between two devices."""

    key = "comparison"
    title = "two devices compared, or two runs"

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.devices.comparison.study import compare_turns
        from weirlab.devices.comparison.wording import sentence

        return (sentence(compare_turns(run)),)

    def page(self, run: Run) -> Story:
        from weirlab.devices.comparison import page

        return page.page(run)
