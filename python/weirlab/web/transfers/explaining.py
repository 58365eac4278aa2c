"""Why a transfer was not faster, from what both kernels reported, and from captures if there are any.

A child process reads the captures, as one of them is foreign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from weirlab.base import files
from weirlab.base.documents import plain
from weirlab.cli.options.sockets import shown
from weirlab.cli.results import diagnosis
from weirlab.diagnosis import finding
from weirlab.diagnosis.causes import PLACES, UNKNOWN
from weirlab.transfers.tcp.measure import measuring, samples
from weirlab.transfers.tcp.measure.measuring import TransferMeasurement
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.transfers.tcp.show import facts
from weirlab.transfers.tcp.study.kept import most_telling
from weirlab.web.children import Children
from weirlab.web.launching.jobs import TestReadingJob
from weirlab.web.settings import WebSettings
from weirlab.web.tables import for_page
from weirlab.web.transfers.child import SAMPLES

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis, DiagnosisFinding
    from weirlab.transfers.tcp.measure.capturing import End, TransferCapture
    from weirlab.transfers.tcp.measure.measuring import TransferMeasurement


@dataclass(frozen=True)
class ConnectionAnalysis:
    """What captures show of a connection: ``diagnoses`` by source, and ``tables`` for the page."""

    diagnoses: Mapping[str, Diagnosis]
    tables: list[dict[str, Any]]


@dataclass(frozen=True)
class TransferAnalysis:
    """What captures show, by connection, and all sources on one axis as :func:`axis.drawn` returns them."""

    connections: list[ConnectionAnalysis]
    axis: dict[str, Any] | None


@dataclass(frozen=True)
class Reader:
    """Reads the captures of one test at a time, within the limits of ``settings``."""

    settings: WebSettings
    children: Children

    def read(
        self,
        measured: TransferMeasurement,
        captures: Mapping[End, TransferCapture],
        folder: Path,
        period_s: float,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> TransferAnalysis:
        """Everything, drawn every ``period_s``; ``folder``, in that of the test, has the captures.

        Raises
        ------
        ChildFailure
            A capture cannot be read within the limits, becomes ``unwanted``, or the service ends.
        """

        def put(file: BinaryIO) -> None:
            measured.samples.write_parquet(file)

        files.write(folder / SAMPLES, put)
        request = {
            "do": "compare",
            "name": "the capture",
            "connections": plain(measured.outcome.started["connections"]),
            "start_ns": measured.start.client_since_1970_ns,
            "period_s": period_s,
            "captures": {
                end: {**vars(each), "path": each.path.name}
                for end, each in captures.items()
                if each.path is not None
            },
            "memory_bytes": self.settings.memory_bytes,
            "most_s": round(self.settings.most_s),
            "file_bytes": self.settings.most_kept_bytes,
        }
        answer = self.children.ask(
            TestReadingJob(folder.parent.name, folder.name),
            request,
            most_s=self.settings.most_s,
            unwanted=unwanted,
        )
        seen = [
            ConnectionAnalysis(
                {found["source"]: finding.read(found) for found in each["diagnoses"]}, each["tables"]
            )
            for each in answer["connections"]
        ]
        return TransferAnalysis(seen, answer["axis"])


_EVERY_S: Final = 0.01
"""Between two reports of a kernel, if that is not too much."""
MOST_REPORTS: Final = 20_000
"""Most reports of all connections and both ends that are kept until the end: about 8 kB each."""


def period_s(settings: TransferSettings, most_s: float) -> float | None:
    """How often both kernels report; None if that would be too much to keep, so that there is no diagnosis.

    How long a transfer lasts that ends by bytes is not known in advance: it may turn out to be too much.
    """
    lasts_s = most_s if settings.lasts_s is None else settings.lasts_s
    least_s = 2 * (settings.up + settings.down) * lasts_s / MOST_REPORTS
    if least_s > settings.interval_s and settings.lasts_s is not None:
        return None
    return min(max(_EVERY_S, least_s), settings.interval_s)


def why(measured: TransferMeasurement, seen: Sequence[ConnectionAnalysis] = ()) -> list[dict[str, Any]]:
    """By connection: its ends, a ``sentence``, ``tables`` and ``remarks``; left out without enough data.

    With what captures have ``seen``, the sentence is from the place that shows most, and all places are
    added: ``compared`` in tables, and each of the ``places`` by itself.
    """
    kernels = measuring.diagnoses(measured)
    told = []
    for number, one in enumerate(measured.outcome.started["connections"]):
        captured = seen[number] if seen else None
        found = {"kernel": kernels[number]} if number in kernels else {}
        if captured is not None:
            found |= captured.diagnoses
        more = {} if captured is None or not captured.diagnoses else _beside(found, captured)
        ends = " > ".join(shown(one[end]) for end in ("local", "remote"))
        if number not in kernels and (findings := _arrived(measured, number)):
            told.append({"ends": ends, **_as_received(findings, found), **more})
        elif found:
            told.append({"ends": ends, **_said(most_telling(found)), **more})
    return told


def _arrived(measured: TransferMeasurement, number: int) -> Sequence[DiagnosisFinding]:
    """What the receiver's kernel shows: of an ndt7 client that sends, no kernel knows more here."""
    from weirlab.diagnosis import receiving

    rows = samples.of(measured.samples, number, "receiver")
    columns = samples.columns(rows)
    if any(name not in columns for name in receiving.FIELDS):
        return ()
    return receiving.findings(rows["time_ns"].to_numpy().astype(float), columns)


def _as_received(findings: Sequence[DiagnosisFinding], found: Mapping[str, Diagnosis]) -> dict[str, Any]:
    """What the receiver's kernel shows, unless that is somebody else and a capture tells who."""
    table = for_page(diagnosis.where(findings))
    captured = next(iter(found.values()), None)
    if findings[0].cause != UNKNOWN or captured is None or captured.main == UNKNOWN:
        return {"sentence": findings[0].sentence, "tables": [table], "remarks": []}
    told = _said(captured)
    return {**told, "tables": [*told["tables"], table]}


def _beside(found: dict[str, Diagnosis], captured: ConnectionAnalysis) -> dict[str, Any]:
    tables = [table for table in (facts.places(found), facts.untold(found)) if table is not None]
    return {
        "compared": [*map(for_page, tables), *captured.tables],
        "places": [
            {"from": f"{PLACES[source][:1].upper()}{PLACES[source][1:]}", **_said(each)}
            for source, each in found.items()
        ],
    }


def _said(found: Diagnosis) -> dict[str, Any]:
    return {
        "sentence": found.sentence,
        "tables": [for_page(table) for table in diagnosis.tables(found)],
        "remarks": diagnosis.remarks(found),
    }
