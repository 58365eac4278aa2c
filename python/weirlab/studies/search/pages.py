"""The pages about searches and about the tests of RFC 2544, from what a run holds."""

from __future__ import annotations

from typing import Any

from weirlab.errors import InputError
from weirlab.report.story import Story
from weirlab.store import Run
from weirlab.studies.search.page import Searched, tell, tell_rfc2544
from weirlab.studies.search.study import RESULT


def search_page(run: Run) -> Story:
    """The page about a search."""
    return tell(Searched(vars(run.manifest), run.trials(), _found(run)))


def rfc2544_page(run: Run) -> Story:
    """The page about the tests of RFC 2544."""
    return tell_rfc2544(Searched(vars(run.manifest), run.trials(), _found(run)))


def _found(run: Run) -> list[dict[str, Any]]:
    """What was found in each setting so far."""
    found = run.get_json(RESULT, _points) if run.has(RESULT) else []
    if not found and run.manifest.status == "interrupted":
        raise InputError(f"run {run.run_id} was interrupted before anything was found: search again")
    return found


def _points(content: list[Any]) -> list[dict[str, Any]]:
    return [dict(point) for point in content]
