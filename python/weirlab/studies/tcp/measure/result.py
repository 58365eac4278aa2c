"""A measurement computed and kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import polars as pl

from weirlab import files
from weirlab.jobs.progress import kept
from weirlab.studies.tcp import sending
from weirlab.studies.tcp.measure import axis as axes
from weirlab.studies.tcp.measure import measuring, samples
from weirlab.studies.tcp.measure.capturing import FILE, Capture
from weirlab.studies.tcp.measure.measuring import Measured
from weirlab.trace.times import Window

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.store import Run, Store

KIND: Final = "tcp"


@dataclass(frozen=True)
class Asked:
    """What is computed and shown; ``names`` of the kernel's fields, the usual ones for None."""

    period_ns: int
    print_ns: int
    window: Window = field(default_factory=Window)
    names: Sequence[str] | None = None
    target_bps: float | None = None


@dataclass(frozen=True)
class Found:
    """All that is told. Diagnoses by connection and source: ``kernel``, and the place of the capture."""

    measured: Measured
    asked: Asked
    capture: Capture
    axis: pl.DataFrame
    """A row per period: ``time_ns``, then ``connection.end.characteristic``."""
    diagnoses: Mapping[int, Mapping[str, Diagnosis]]

    @property
    def start_ns(self) -> int:
        return self.measured.start.client_since_1970_ns

    @property
    def best(self) -> dict[int, Diagnosis]:
        """By connection the one that knows most: the kernel's."""
        return {number: next(iter(each.values())) for number, each in self.diagnoses.items() if each}


def found(measured: Measured, capture: Capture, asked: Asked) -> Found:
    """Compute everything.

    Raises
    ------
    InputError
        Nothing lies in the window that was asked for.
    """
    by_kernel = measuring.diagnoses(measured, asked.target_bps)
    by_capture: dict[int, Diagnosis] = {}
    shown: pl.DataFrame | None = None
    if capture.path is not None:
        by_capture, shown = measuring.captured(capture.path, measured, asked.target_bps)
    both: dict[int, dict[str, Diagnosis]] = {}
    for number, _ in enumerate(measured.outcome.started["connections"]):
        told = [each[number] for each in (by_kernel, by_capture) if number in each]
        both[number] = {each.source: each for each in told}
    return Found(measured, asked, capture, _axis(measured, shown, asked), both)


def _axis(measured: Measured, shown: pl.DataFrame | None, asked: Asked) -> pl.DataFrame:
    sources: dict[str, pl.DataFrame] = {}
    chosen: dict[str, Sequence[str]] = {}
    many = len(measured.ups) > 1
    for number in range(len(measured.ups)):
        prefix = f"{number}." if many else ""
        for role, usual in (("sender", axes.USUAL), ("receiver", axes.RECEIVING)):
            rows = samples.of(measured.samples, number, role)
            if rows.height:
                names = usual if asked.names is None else ("throughput_bps", *asked.names)
                sources[f"{prefix}{role}"], chosen[f"{prefix}{role}"] = rows, names
        if shown is not None:
            rows = shown.filter(pl.col("connection") == number)
            if rows.height:
                sources[f"{prefix}capture"], chosen[f"{prefix}capture"] = rows, axes.CAPTURED
    start_ns = measured.start.client_since_1970_ns
    return axes.axis(sources, chosen, asked.period_ns, start_ns, asked.window)


def keep(store: Store, found: Found, settings: sending.Settings, command: str) -> Run:
    """A run of its own: tables ``samples`` and ``axis``, the diagnosis, and the capture.

    Raises
    ------
    StoreError
        The disk refuses.
    """
    asked = {**asdict(settings), "token": bool(settings.token)}
    facts = {"command": command, "clocks": clocks(found.measured)}
    with kept(lambda: store.create(KIND, {"tcp": {"measure": asked}}, facts)) as writer:
        writer.put_table("samples", found.measured.samples)
        writer.put_table("axis", found.axis)
        documents = {
            str(number): {source: each.document() for source, each in by_source.items()}
            for number, by_source in found.diagnoses.items()
        }
        writer.put_json("diagnosis", documents)
        if found.capture.path is not None:
            _copy(found.capture.path, writer.path / FILE)
        return writer.run


def _copy(source: Path, target: Path) -> None:
    def fill(file: BinaryIO) -> None:
        with source.open("rb") as taken:
            shutil.copyfileobj(taken, file)

    files.write(target, fill)


def clocks(measured: Measured) -> dict[str, object]:
    """How the server's clock was put onto the client's."""
    found = measured.offset
    return {
        "same_clock": measured.same_clock,
        "offset_ns": None if found is None else found.ns,
        "bound_ns": None if found is None else found.bound_ns,
        "exchanges": 0 if found is None else found.exchanges,
        "drifted": False if found is None else found.drifted,
    }
