"""Searches for the loads that a device carries (RFC 9971), and the tests of RFC 2544."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weirlab.studies.contract import Study

if TYPE_CHECKING:
    from weirlab.report.story import Story
    from weirlab.store import Run


class SearchStudy(Study[Any, Any, Any]):
    """Throughput without loss, or with some."""

    key = "search"
    title = "the greatest load without loss, or with some (RFC 9971)"

    def page(self, run: Run) -> Story:
        from weirlab.devices.search.stored import search_page

        return search_page(run)

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.devices.search import findings, stored

        points = stored.points(run)
        return (f"{findings.search_finding(points, stored.device(run))}.",) if points else ()


class Rfc2544Study(Study[Any, Any, Any]):
    """Throughput, latency, frame loss rate and back-to-back frames."""

    key = "rfc2544"
    title = "throughput, latency, frame loss rate and back-to-back frames (RFC 2544)"

    def page(self, run: Run) -> Story:
        from weirlab.devices.search.stored import rfc2544_page

        return rfc2544_page(run)

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.devices.search import findings, stored

        results = stored.results(run)
        return (f"{findings.rfc2544_finding(results[0], stored.device(run))}.",) if results else ()
