"""Runs of the store: listed, shown, compared, and their reports."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from weirlab.base import files
from weirlab.base.errors import InputError, StoreError
from weirlab.cli.quantities import count, plural
from weirlab.devices.comparison import command as comparing
from weirlab.devices.comparison.study import compare_runs
from weirlab.jobs.inventory import show
from weirlab.store import Run, RunSummary, Store
from weirlab.store.manifest import MANIFEST_FILE
from weirlab.store.summary import REPORT, answer_of
from weirlab.studies.commands import tables, wording
from weirlab.studies.registry import study_of
from weirlab.web.children import Children
from weirlab.web.launching.jobs import ReportJob
from weirlab.web.measurements.measurement import ReadOnlyStore
from weirlab.web.tables import for_page

_MOST_TABLE_BYTES: Final = 250_000_000
"""Memory that a table may take in the service: 100,000 trials take some 150 MB."""
_MOST_READERS: Final = 2
"""Most requests that read tables at once."""
_MOST_REPORT_S: Final = 300.0


@dataclass(frozen=True)
class RunFilter:
    """The runs that a page of the list shows."""

    words: tuple[str, ...] = ()
    """Each occurs in the ID, the name, the kind, the state or the sentence; in lower case."""
    kind: str = ""
    status: str = ""
    since: str = ""
    """Days in ISO 8601, both included."""
    until: str = ""
    first: int = 0
    """How many come before the page."""
    most: int = 100

    def includes(self, run: RunSummary) -> bool:
        """Whether ``run`` is one of these, on this page or another."""
        day = run.created[:10]
        if (self.kind and run.kind != self.kind) or (self.status and run.status != self.status):
            return False
        if (self.since and day < self.since) or (self.until and day > self.until):
            return False
        if not self.words:
            return True
        text = f"{run.run_id} {run.name} {run.kind} {run.status} {_conclusion(run)}".lower()
        return all(word in text for word in self.words)


class RunService:
    """The runs of one store. A child process that draws a report may take ``memory_bytes``."""

    def __init__(
        self, store: Store, children: Children, memory_bytes: int, *, read_only: bool = False
    ) -> None:
        self._store = Store(store.root, most_table_bytes=_MOST_TABLE_BYTES)
        self._reading = threading.BoundedSemaphore(_MOST_READERS)
        self._children = children
        self._memory_bytes = memory_bytes
        self._read_only = read_only

    def page(self, wanted: RunFilter) -> dict[str, Any]:
        """Lines about the ``wanted`` runs, newest first; how many there are of these, and in all."""
        runs = self._store.runs()
        found = [run for run in runs if wanted.includes(run)]
        return {
            "runs": [_line(run) for run in found[wanted.first : wanted.first + wanted.most]],
            "found": len(found),
            "total": len(runs),
            "kinds": sorted({run.kind for run in runs} - {""}),
            "statuses": sorted({run.status for run in runs}),
        }

    def one(self, run_id: str) -> dict[str, Any]:
        """A run at a glance."""
        with self._reading:
            outcome = show(self._store, run_id)
            run, manifest = outcome.run, outcome.manifest
            return {
                "run_id": run.run_id,
                "kind": manifest.kind,
                "name": str(manifest.scenario.get("name") or ""),
                "simulated": run.simulated,
                "conclusion": answer_of(run.path) or wording.run(outcome),
                "tables": [for_page(each) for each in tables.run(outcome)],
                "report": self._report_state(run),
            }

    def compare(self, before: str, after: str) -> dict[str, Any]:
        """``weir compare`` of two runs, in the same words."""
        with self._reading:
            outcome = compare_runs(self._store, [before], [after], comparing.TermsOptions().terms())
        return {
            "before": outcome.before[0].run_id,
            "after": outcome.after[0].run_id,
            "verdict": outcome.verdict,
            "conclusion": comparing.sentence(outcome),
            "notes": [*outcome.notes, *comparing.assumptions(outcome)],
            "tables": [for_page(table) for table in comparing.tables(outcome)],
        }

    def report(self, run_id: str) -> BinaryIO:
        """An existing report, open for reading; raises ``InputError`` if there is none."""
        run = self._store.open(run_id)
        try:
            return files.open_regular(run.path / REPORT)
        except (OSError, StoreError):
            raise InputError(f"Run {run.run_id} has no report yet.") from None

    def prepare(self, run_id: str) -> Future[None]:
        """Have a child process draw the report, unless there is one that is newer than the run."""
        run = self._store.open(run_id)
        done: Future[None] = Future()
        match self._report_state(run):
            case "ready":
                done.set_result(None)
                return done
            case "none":
                raise InputError(f"There is no report about runs of the kind {run.manifest.kind}.")
            case _ if self._read_only:
                raise ReadOnlyStore(
                    "The service may not write to its store, so it cannot keep a report there. Draw it with: "
                    f"weir report {run.run_id} --out FILE"
                )
        return self._children.submit(lambda: self._draw(run), urgent=True)

    def counts(self) -> dict[tuple[str, str], int]:
        """How many runs there are of each kind and status."""
        found: dict[tuple[str, str], int] = {}
        for run in self._store.runs():
            found[run.kind, run.status] = found.get((run.kind, run.status), 0) + 1
        return found

    def _draw(self, run: Run) -> None:
        request = {
            "do": "draw",
            "name": run.run_id,
            "memory_bytes": self._memory_bytes,
            "most_s": round(_MOST_REPORT_S),
        }
        self._children.ask(ReportJob(run.run_id), request, most_s=_MOST_REPORT_S)

    def _report_state(self, run: Run) -> str:
        """``ready``, ``possible`` or ``none``."""
        path = run.path / REPORT
        try:
            if not path.is_symlink() and path.stat().st_mtime >= (run.path / MANIFEST_FILE).stat().st_mtime:
                return "ready"
        except OSError:
            pass
        try:
            return "possible" if study_of(run).has("page") else "none"
        except (InputError, StoreError):
            return "none"


def _line(run: RunSummary) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "kind": run.kind,
        "status": run.status,
        "created": run.created,
        "host": run.host,
        "name": run.name,
        "trials": run.trials,
        "invalid": run.invalid,
        "simulated": run.simulated,
        "problem": run.problem,
        "conclusion": _conclusion(run),
    }


def _conclusion(run: RunSummary) -> str:
    unusable = f"Does not count: {run.unusable}. " if run.unusable else ""
    return run.problem or unusable + (run.answer or _in_short(run))


def _in_short(run: RunSummary) -> str:
    """What is known of a run without a report."""
    if run.trials is None:
        return f"This {run.kind} is {run.status}."
    valid = run.trials - (run.invalid or 0)
    return f"{run.kind.capitalize()}, {run.status}: {count(valid)} of {plural(run.trials, 'attempt')} valid."
