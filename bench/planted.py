"""Diagnoses of slow transfers with planted causes: from the sender's kernel, each capture, and both.

    make bench-planted
    .venv/bin/python bench/planted.py --seeds 1 2 3
    .venv/bin/python bench/planted.py --only random_loss --keep build/planted
    .venv/bin/python bench/planted.py --again build/planted
    .venv/bin/python bench/planted.py --examples examples/captures

Two namespaces are joined by an emulated link (`weir link`), and two applications talk over it
(`talkers.py`). In each case one thing is wrong (`causes.py`, `between.py`). The truth is what the application
or the emulator itself counted, or computed if neither can count it. It is compared with the cause that was
named first, the share of the time of the planted cause, and the kernel's own counters.

Without `--seeds` each case has its usual parameters. A seed draws rates, delays, buffers, pauses and lengths.
`--again` diagnoses kept captures again and needs no root. Otherwise it needs root, and about three minutes
per seed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import confusion
from cases import Case, Truth
from causes import MAKERS, planted
from examples import write_examples
from machine import versions
from planting import LONG, PLACES, Bench, Planted, Watched
from weirlab import trace
from weirlab._engine import emulate_path
from weirlab.diagnosis import kernel, tracing
from weirlab.diagnosis.both import reading
from weirlab.diagnosis.both.reading import EndTrace
from weirlab.diagnosis.causes import Cause
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis
from weirlab.emulation.account import complaints
from weirlab.emulation.reading import read_path
from weirlab.trace.facts import Connection

HERE = Path(__file__).resolve().parent
FRAME = 1514
NEAR = 0.05
COVERED = 0.9
SOURCES = ("kernel", *PLACES, "both")


@dataclass(frozen=True)
class Row:
    """The diagnosis of a case from one place."""

    case: str
    seed: int | None
    source: str
    planted: str
    truth: float
    drawn: Mapping[str, float]
    complaints: Sequence[str]
    also: Sequence[str] = ()
    """Causes that are right as well."""
    named: str = ""
    confidence: str = ""
    said: float | None = None
    untold: bool = False
    """The cause cannot be told from there, and the diagnosis says so; `said` is the share of the cause that
    it names instead. Does not count as right."""
    void: str = ""
    """Why there is nothing to diagnose."""
    noted: Sequence[str] = ()
    """The notes on settings."""
    missing: Sequence[str] = ()
    """The expected notes that are missing."""
    overlap: float | None = None
    """Share of the time in which the cause was planted that its drawn intervals cover; None if that
    time is not known.
    """
    sentence: str = ""
    findings: Mapping[str, float] = field(default_factory=dict)
    blind: Sequence[str] = ()
    counters: Mapping[str, float] | None = None

    @property
    def names_it(self) -> bool:
        return self.named in (self.planted, *self.also) and not self.void

    @property
    def right(self) -> bool:
        return self.names_it and self.said is not None and abs(self.said - self.truth) <= NEAR


@dataclass(frozen=True)
class Kept:
    """The truth about a case, with which diagnoses are compared."""

    name: str
    seed: int | None
    truth: float
    complaints: Sequence[str]
    drawn: Mapping[str, float]
    void: str = ""
    whole: bool = True
    """Both captures have all packets."""
    when: Sequence[tuple[float, float]] = ()
    """From when to when the cause was planted, s since the transfer began; empty if that is not known."""


def keep(case: Case, seed: int | None, made: Planted, folder: Path) -> Kept:
    """Compute the truth, and write it next to the captures."""
    found = from_capture(made.files["sender"])
    seconds = found.summary.seconds if found is not None else case.seconds
    truth = Truth(
        seconds, made.talk["sender"], made.talk["receiver"], made.account, _first_hit_s(case, made.files)
    )
    told = tuple(complaints(made.account))
    kept = Kept(
        case.name, seed, case.truth(truth), told, case.drawn, case.void(truth), made.whole, case.when(truth)
    )
    (folder / "case.json").write_text(json.dumps(asdict(kept), indent=1))
    return kept


def rows(kept: Kept, folder: Path) -> list[Row]:
    """Diagnose the case in `folder` from every place."""
    found = {"kernel": from_samples(folder)}
    found |= {name: from_capture(folder / f"{name}.pcapng") for name in PLACES}
    found["both"] = from_both(folder, kept.whole)
    return [_row(kept, source, found[source]) for source in SOURCES]


def from_samples(folder: Path) -> Diagnosis | None:
    tables = []
    for name in ("samples", "receiver"):
        with (folder / f"{name}.parquet").open("rb") as file:
            tables.append(pl.read_parquet(file))
    watched = Watched(tables[0], kernel.Receiver(*(column.to_numpy() for column in tables[1].get_columns())))
    frame = watched.sender
    columns = {name: frame[name].to_numpy() for name in frame.columns if name != "time_ns"}
    samples = kernel.read(frame["time_ns"].to_numpy(), columns, watched.receiver)
    return None if samples is None else diagnose(*samples)


def from_capture(path: Path) -> Diagnosis | None:
    with trace.read(path, series=True) as read:
        return tracing.read(read, _talk(read), "a")


def from_both(folder: Path, whole: bool) -> Diagnosis | None:
    """Diagnose from both captures; the namespaces of a host share a clock."""
    with contextlib.ExitStack() as stack:
        traces = (stack.enter_context(trace.read(folder / f"{name}.pcapng", series=True)) for name in PLACES)
        sender, receiver = (EndTrace(each, _talk(each), "a", whole=whole) for each in traces)
        return reading.read(sender, receiver)


def _talk(read: trace.Trace) -> Connection:
    return max(read.facts["connections"], key=lambda each: each["a"]["data_bytes"])


def _first_hit_s(case: Case, files: Mapping[str, Path]) -> float:
    """When the first frame was lost, held back or dropped, in s since the first frame."""
    if case.drops:
        with trace.read(files["receiver"], series=True) as read:
            data = read.segments.filter(pl.col("from_side") == "a", pl.col("payload_bytes") > 0)
            long = data.filter(pl.col("payload_bytes") > LONG)["time_ns"]
            return float(long[min(case.drops, len(long)) - 1] - data["time_ns"][0]) / 1e9
    hit = _first_hit(case.path[0])
    if hit is None:
        return 0.0
    with trace.read(files["sender"], series=True) as read:
        times = read.segments.filter(pl.col("from_side") == "a")["time_ns"]
    return float(times[min(hit, len(times) - 1)] - times[0]) / 1e9


def _first_hit(words: Mapping[str, str]) -> int | None:
    """The first frame, from 0, that is lost or held back, which depends only on the frame's number."""
    many = 10_000
    apart = np.arange(many, dtype=np.uint64) * 100_000_000
    left = emulate_path(read_path(dict(words)).plain(), apart, np.full(many, FRAME, dtype=np.uint32))
    held = np.flatnonzero(left["due_ns"] - apart[left["frame"]] > left["due_ns"][0] - apart[left["frame"][0]])
    lost = np.setdiff1d(np.arange(many), left["frame"])
    hit = np.concatenate([left["frame"][held], lost])
    return int(hit.min()) if len(hit) else None


def _row(kept: Kept, source: str, found: Diagnosis | None) -> Row:
    case = planted(kept.name)
    about: dict[str, Any] = {
        "case": kept.name,
        "seed": kept.seed,
        "source": source,
        "planted": case.cause.key,
        "also": [each.key for each in case.also],
    }
    about |= {"truth": kept.truth, "drawn": kept.drawn, "complaints": tuple(kept.complaints)}
    about["void"] = kept.void
    if found is None:
        return Row(**about)
    blind = tuple(each.what for each in found.blind)
    # Its share is that of the cause that is named instead.
    untold = found.main in case.untold.get(source, ()) and case.cause.held in blind
    return Row(
        **about,
        named=found.main.key,
        confidence=found.findings[0].confidence,
        said=found.share(found.main.key if untold else case.cause.key),
        untold=untold,
        noted=found.notes,
        missing=[each for each in case.notes if not any(note.startswith(each) for note in found.notes)],
        overlap=_overlap(kept.when, found, (case.cause, *case.also)),
        sentence=found.sentence,
        findings={each.cause.key: each.share for each in found.findings},
        blind=blind,
        counters=found.counters,
    )


def _overlap(
    planted_s: Sequence[tuple[float, float]], found: Diagnosis, right: Sequence[Cause]
) -> float | None:
    drawn = [each for each in found.intervals if each.cause in right]
    whole = sum(last - first for first, last in planted_s)
    shared = sum(
        max(min(last, each.end_s) - max(first, each.start_s), 0.0)
        for first, last in planted_s
        for each in drawn
    )
    return shared / whole if whole > 0 else None


def _carried_out(
    names: Sequence[str], seeds: Sequence[int | None], given: Mapping[str, float], folder: Path
) -> Iterator[list[Row]]:
    with Bench() as bench:
        for seed in seeds:
            for name in names:
                case = planted(name, seed, given)
                where = folder / _file_name(name, seed)
                where.mkdir(parents=True, exist_ok=True)
                made = bench.run(case, where)
                yield rows(keep(case, seed, made, where), where)


def _kept(names: Sequence[str], folder: Path) -> Iterator[list[Row]]:
    for path in sorted(folder.glob("*/case.json")):
        kept = Kept(**json.loads(path.read_text()))
        if kept.name in names:
            yield rows(kept, path.parent)


def _file_name(name: str, seed: int | None) -> str:
    plain = name.replace(" ", "_").replace(",", "").replace("'", "")
    return plain if seed is None else f"{plain}-{seed}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def _told(row: Row) -> str:
    mark = "*" if row.right else ""
    missing = f", not said: {', '.join(row.missing)}" if row.missing else ""
    drawn = "" if row.overlap is None else f", drawn {_percent(row.overlap)}"
    return f"{row.named or 'nothing'} {_percent(row.said)}{mark}{' †' if row.untold else ''}{drawn}{missing}"


def _shown(found: Sequence[Row]) -> Table:
    table = Table(
        title="Planted causes",
        caption="named: the largest share, followed by the share of the planted cause. * within 5 points. "
        "† the planted cause cannot be told from there, and the diagnosis says so: not counted as right. "
        "void: the planted cause did not limit the transfer. drawn: share of the time in which the cause was "
        "planted that its intervals in the graphs cover.",
    )
    for heading in ("planted", "seed", "truth", "from", *SOURCES, "counters: app/receiver/buffer/network"):
        table.add_column(heading)
    for name, seed in dict.fromkeys((row.case, row.seed) for row in found):
        mine = {row.source: row for row in found if (row.case, row.seed) == (name, seed)}
        kernels = mine["kernel"].counters or {}
        table.add_row(
            name,
            "-" if seed is None else str(seed),
            f"void: {mine['kernel'].void}" if mine["kernel"].void else _percent(mine["kernel"].truth),
            planted(name).says,
            *(_told(mine[source]) for source in SOURCES),
            " / ".join(
                _percent(kernels.get(k)) for k in ("application", "receiver", "send_buffer", "network")
            ),
        )
    return table


def _counted(source: str, found: Sequence[Row]) -> str:
    looks = [row for row in found if not row.void]
    named, right = (sum(test) for test in ((r.names_it for r in looks), (r.right for r in looks)))
    untold = sum(row.untold for row in looks)
    return (
        f"{source}: of {len(looks)} diagnoses {named} name the planted cause first, {right} of them within "
        f"{NEAR * 100:.0f} points of the truth; {untold} say that it cannot be told from there; "
        f"{len(looks) - named - untold} are wrong. {len(found) - len(looks)} are void."
    )


def _covered(found: Sequence[Row]) -> str:
    known = [row.overlap for row in found if row.overlap is not None and row.names_it]
    if not known:
        return "It is not known when these causes were planted."
    good = sum(each >= COVERED for each in known)
    least, mean = _percent(min(known)), _percent(sum(known) / len(known))
    return (
        f"{good} of {len(known)} diagnoses that name the cause draw it over at least {COVERED * 100:.0f} % "
        f"of the time in which it was planted; the least is {least}, the mean {mean}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of cases, spaces as _")
    parser.add_argument("--seeds", nargs="*", type=int, help="draw the parameters; one run per seed")
    parser.add_argument("--seconds", type=float, help="length of each transfer")
    parser.add_argument("--keep", type=Path, help="keep captures and samples here")
    parser.add_argument("--again", type=Path, help="diagnose the captures kept here")
    parser.add_argument("--examples", type=Path, help="write the captures of examples here")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    chosen = parser.parse_args()
    names = [name for name in MAKERS if not chosen.only or name.replace(" ", "_") in chosen.only]
    if chosen.examples is not None:
        write_examples(chosen.examples)
        return
    given = {} if chosen.seconds is None else {"seconds": chosen.seconds}
    found: list[Row] = []
    about = versions()
    console = Console(width=220)
    with contextlib.ExitStack() as stack:
        folder = chosen.keep or Path(stack.enter_context(TemporaryDirectory()))
        runs = _carried_out(names, chosen.seeds or [None], given, folder)
        for some in runs if chosen.again is None else _kept(names, chosen.again):
            found += some
            for row in some:
                told = ", ".join(f"{key} {_percent(share)}" for key, share in row.findings.items())
                print(
                    f"{row.case:20} {row.seed or '-'} {row.source:9} {_percent(row.truth):>5}  {told}",
                    flush=True,
                )
            for said in some[0].complaints:
                print(f"{some[0].case:20} emulator: {said}", flush=True)
    console.print(_shown(found))
    for source in SOURCES:
        console.print(_counted(source, [row for row in found if row.source == source]))
    console.print(_counted("all", found))
    console.print(_covered(found))
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / f"planted-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    about["load average after"] = " ".join(f"{load:.2f}" for load in os.getloadavg())
    path.write_text(json.dumps({"versions": about, "rows": [asdict(row) for row in found]}, indent=1))
    table = path.with_suffix(".md")
    table.write_text(confusion.markdown(found))
    console.print(f"raw: {path}; confusion: {table}")


if __name__ == "__main__":
    main()
