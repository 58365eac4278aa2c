"""Runs of the store: listed, shown, compared, and their reports."""

from __future__ import annotations

import gzip
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any, BinaryIO, Final

from weirlab.base import files
from weirlab.base.errors import InputError, StoreError, WeirError
from weirlab.base.limits import MOST_BYTES
from weirlab.base.quoting import quoted
from weirlab.base.storage import RUN_ID
from weirlab.devices.comparison import wording as comparing
from weirlab.devices.comparison.command import TermsOptions
from weirlab.devices.comparison.study import KINDS, compare_runs
from weirlab.jobs.inventory import RunOutcome, scenario_of, show
from weirlab.jobs.status import WorkStatus, status_of
from weirlab.model.comparing.verdicts import ComparisonFinding
from weirlab.report.story import PageOrigin, scenario_text
from weirlab.store import Run, RunSummary, Store
from weirlab.store.labels import RunLabel
from weirlab.store.manifest import MANIFEST_FILE, host
from weirlab.store.summary import REPORT, RUNNING, answer_of
from weirlab.studies.commands import tables, wording
from weirlab.studies.registry import study_of
from weirlab.web import listing, live
from weirlab.web.children import Children
from weirlab.web.launching.jobs import InterruptionJob, ProcessJob, RemovalJob, ReportJob
from weirlab.web.listing import RunFilter
from weirlab.web.measurements.measurement import ReadOnlyStore
from weirlab.web.tables import for_page

_MOST_TABLE_BYTES: Final = 250_000_000
"""Memory that a table may take in the service: 100,000 trials take some 150 MB."""
_MOST_READERS: Final = 2
"""Most requests that read tables at once."""
_MOST_REPORT_S: Final = 300.0


_READ_S: Final = 0.15
"""Time that a page spends on reading runs that are not in the index, the newest first."""
_ANSWERED_S: Final = 0.2
"""Time after which a page finds no more answers of runs that nobody looked at yet."""
READING: Final = "weir-runs"
"""Name of the thread that reads the store before the first request."""


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
        self._answers: dict[RunSummary, str] = {}
        self._charts = b""

    def read_ahead(self) -> None:
        """Make the first page of the list, which is then there at once; read other runs in a thread."""

        def read() -> None:
            with suppress(WeirError, OSError):
                before = math.inf
                while 0 < (left := self._store.known_runs(_READ_S)[1]) < before:
                    before = left

        # The first request tells what is wrong.
        with suppress(WeirError, OSError):
            if self._store.known_runs(_READ_S)[1]:
                threading.Thread(target=read, name=READING, daemon=True).start()
            self.page(RunFilter())

    def page(self, wanted: RunFilter) -> dict[str, Any]:
        """Lines about the ``wanted`` runs; how many there are of these, and in all.

        ``unanswered`` runs are not read yet, or lack what they found: a later call has them.
        """
        until_s = time.monotonic() + _ANSWERED_S
        runs, unread = self._store.known_runs(_READ_S)
        # Only words are looked for in answers, and to find the answers of all runs takes a while.
        told = self._answers if wanted.words else None
        chosen = [run for run in runs if wanted.includes(run, told.get(run, "") if told else "")]
        found = wanted.ordered(chosen)
        shown = found[wanted.first : wanted.first + wanted.most]
        unanswered = self._find_answers(shown, until_s)
        return {
            "runs": [listing.line(run, self._answers.get(run, "")) for run in shown],
            "unanswered": unread + unanswered,
            "found": len(found),
            "total": len(runs) + unread,
            "kinds": sorted({run.kind for run in runs} - {""}),
            "statuses": sorted({listing.state(run) for run in runs}),
            "devices": sorted({run.device for run in runs} - {""}),
            "tags": sorted({tag for run in runs for tag in run.label.tags}),
        }

    def _find_answers(self, runs: Sequence[RunSummary], until_s: float) -> int:
        """Find what ``runs`` without a report found, at least one and until then; how many are left."""
        left = [
            run
            for run in runs
            if not (run.answer or run.problem or run.status == RUNNING or run in self._answers)
        ]
        late = False
        while left and not late and self._reading.acquire(blocking=False):
            try:
                run = left.pop(0)
                # What cannot be read is told on the page of the run.
                with suppress(WeirError, OSError, LookupError, ValueError):
                    self._answers[run] = ""
                    opened = self._store.open(run.run_id)
                    self._answers[run] = _headline(opened)
            finally:
                self._reading.release()
            late = time.monotonic() > until_s
        return len(left)

    def one(self, run_id: str) -> dict[str, Any]:
        """A run at a glance."""
        with self._reading, self._told_if_deleted(run_id):
            outcome = show(self._store, run_id)
            run, manifest = outcome.run, outcome.manifest
            return {
                "run_id": run.run_id,
                "kind": manifest.kind,
                "name": str(manifest.scenario.get("name") or ""),
                "label": self._store.labels.one(run.run_id),
                "command": _command(run),
                "startable": _has_scenario(run),
                "size_bytes": sum(path.stat().st_size for path in outcome.files),
                "simulated": run.simulated,
                "status": manifest.status,
                "created": manifest.created,
                "device": str(manifest.facts.get("dut") or ""),
                "conclusion": answer_of(run.path) or _headline(run) or _state_of(outcome),
                "tables": [for_page(each) for each in tables.run(outcome)],
                "report": self._report_state(run),
                "comparable": manifest.kind in KINDS,
            }

    def live(self, run_id: str) -> dict[str, Any]:
        """The attempts of a run so far; see :func:`weirlab.web.live.attempts`."""
        with self._reading, self._told_if_deleted(run_id):
            run = self._store.open(run_id)
            manifest = run.manifest
            return {
                "status": manifest.status,
                "created": manifest.created,
                "expected_s": live.expected_s(run) if manifest.status == RUNNING else None,
                "stoppable": not self._read_only and manifest.host == host(),
                "work": live.work(run, time.time()) if manifest.status == RUNNING else None,
                **live.attempts(run),
            }

    def compare(self, before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
        """``weir compare`` of runs, in the same words."""
        with self._reading, self._told_if_deleted(*before, *after):
            outcome = compare_runs(self._store, before, after, TermsOptions().terms())
        return {
            "verdict": outcome.verdict,
            "simulated": outcome.simulated,
            "headline": comparing.headline(outcome),
            "conclusion": comparing.sentence(outcome),
            "differences": [_difference(one, outcome.terms.certainty) for one in outcome.findings],
            "notes": [*outcome.notes, *comparing.assumptions(outcome)],
            "tables": [for_page(table) for table in comparing.tables(outcome)],
        }

    def report(self, run_id: str, name: str = REPORT) -> BinaryIO:
        """A report, or what was drawn with it, open for reading; raises ``InputError`` if there is none."""
        run = self._store.open(run_id)
        try:
            return files.open_regular(run.path / name)
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

    def put_label(self, run_id: str, label: RunLabel) -> None:
        """Keep what people say about a run."""
        self._require_writable("no names, notes, tags or stars can be kept")
        self._store.labels.put(self._store.open(run_id).run_id, label)

    def remove(self, run_id: str) -> Future[None]:
        """Have a child process remove a run for good."""
        self._require_writable("no run can be deleted")
        return self._change(run_id, RemovalJob)

    def stop(self, run_id: str) -> Future[None]:
        """Have a child process interrupt whatever process of this machine carries out a run."""
        self._require_writable("no run can be stopped")
        return self._change(run_id, InterruptionJob)

    def _change(self, run_id: str, job: Callable[[str], ProcessJob]) -> Future[None]:
        if not RUN_ID.fullmatch(run_id):
            raise StoreError(f"There is no run {quoted(run_id)}.")
        request = partial(self._children.ask, job(run_id), {}, most_s=_MOST_REPORT_S)
        return self._children.submit(request, urgent=True)

    def scenario(self, run_id: str) -> str:
        """The scenario of a run, as YAML, to run it again; raises ``InputError`` for one that cannot be."""
        run = self._store.open(run_id)
        if not _has_scenario(run):
            raise InputError(f"Run {run.run_id} was not made from a scenario: {_command(run)} repeats it.")
        text = scenario_text({**run.manifest.scenario, "report": None})
        if len(text) > MOST_BYTES:
            raise InputError(
                f"The scenario of {run.run_id} is longer than a page may send. To repeat it: {_command(run)}"
            )
        return text

    def _require_writable(self, consequence: str) -> None:
        if self._read_only:
            raise ReadOnlyStore(f"The service may not write to its store, so {consequence}.")

    def charts(self, run_id: str) -> Future[bytes]:
        """The script that draws charts on the page, compressed by gzip; the first call makes it.

        It comes from this Weir: scripts in the folder of a run may be anybody's.
        """
        job, done = ReportJob(self._store.open(run_id).run_id), Future[bytes]()
        if self._charts:
            done.set_result(self._charts)
            return done
        return self._children.submit(lambda: self._make_charts(job), urgent=True)

    def _make_charts(self, job: ReportJob) -> bytes:
        if not self._charts:
            answer = self._children.ask(job, self._request("charts", job.run_id), most_s=_MOST_REPORT_S)
            self._charts = gzip.compress(str(answer["script"]).encode())
        return self._charts

    def counts(self) -> dict[tuple[str, str], int]:
        """How many runs there are of each kind and status."""
        found: dict[tuple[str, str], int] = {}
        for run in self._store.runs():
            found[run.kind, run.status] = found.get((run.kind, run.status), 0) + 1
        return found

    def campaigns(self) -> Iterator[tuple[str, WorkStatus]]:
        """The IDs of the runs in steps that go on, with how far each is."""
        for run in self._store.runs():
            if run.status == RUNNING and (status := status_of(Run(run.path))) is not None:
                yield run.run_id, status

    def _draw(self, run: Run) -> None:
        request = self._request("draw", run.run_id)
        self._children.ask(ReportJob(run.run_id), request, most_s=_MOST_REPORT_S)

    def _request(self, do: str, name: str) -> dict[str, Any]:
        return {"do": do, "name": name, "memory_bytes": self._memory_bytes, "most_s": round(_MOST_REPORT_S)}

    @contextmanager
    def _told_if_deleted(self, *run_ids: str) -> Iterator[None]:
        """Raises ``StoreError`` if files of a run are missing because it is deleted at this moment."""
        try:
            yield
        except FileNotFoundError:
            for run_id in run_ids:
                self._store.open(run_id)
            raise

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


def _has_scenario(run: Run) -> bool:
    """Whether the study of ``run`` can measure it again."""
    with suppress(InputError, StoreError):
        return (root := study_of(run).scenario()) is not None and bool(scenario_of(run, root).KEY)
    return False


def _command(run: Run) -> str:
    """The command that repeats ``run``, in the store of whoever enters it."""
    words = PageOrigin.of_run(asdict(run.manifest)).again[0][1].split()
    if "--store" in words:
        at = words.index("--store")
        del words[at : at + 2]
    return " ".join(words)


def _state_of(outcome: RunOutcome) -> str:
    """The state of a run without the command to run next: here, the page does that."""
    return f"{wording.run(outcome).partition('; next: ')[0].removesuffix('.')}."


def _headline(run: Run) -> str:
    """What the run found, in a sentence; empty if there is nothing yet, or if no study knows its kind."""
    with suppress(InputError, StoreError):
        return " ".join(study_of(run).headlines(run)[:1])
    return ""


def _difference(one: ComparisonFinding, certainty: float) -> dict[str, Any]:
    """A bar of the page: numbers are shares, or None where nothing is known."""
    low, high, _ = one.rests_on
    numbers = {"change": one.change, "low": low, "high": high, "margin": one.margin}
    return {
        "title": one.title,
        "verdict": one.verdict,
        "text": f"{comparing.change(one, one.change)} {comparing.interval(one, certainty)}",
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
    }
