"""What the captures at both ends show of a test; a child process reads them, as one of them is foreign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from weirlab.base import files
from weirlab.base.documents import plain
from weirlab.diagnosis import finding
from weirlab.web.children import Children
from weirlab.web.launching.jobs import TestReadingJob
from weirlab.web.settings import WebSettings
from weirlab.web.transfers.child import SAMPLES

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis
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
