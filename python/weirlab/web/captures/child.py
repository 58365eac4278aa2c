"""The child process that reads a capture, or the series made of it, within limits; see :mod:`children`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from weirlab.trace.facts import Analysis, Selection
from weirlab.web.child import serve

CAPTURE: Final = "capture"
"""The upload, unchanged."""
FACTS: Final = "facts.json"
SERIES: Final = "series"
GRAPHS: Final = "points"
"""Folder of the arrays that graphs are drawn from; those of earlier layouts have other names."""
WHY: Final = "reasons"
"""Folder with a file for each connection for which it was requested: why it was not faster, and when.
Those of earlier layouts have other names.
"""
CAUSES: Final = "causes.json"
"""By connection its main cause, in :data:`WHY`."""
SCRATCH: Final = ".*.tmp"
"""Pattern of the names of folders that are being made in :data:`GRAPHS`."""
PARTS: Final = "part-"
"""Prefix of the name of a file that is made to be sent, and then removed."""
KEEP: Final = 2000
"""Most connections that are listed: those with most bytes."""
PERIOD_NS: Final = 100_000_000
VOICE: Final = "voice"
"""Key of the facts with how voice was heard."""
MOST_VOICE_PACKETS: Final = 500_000
"""More packets of voice are not assessed, as that takes memory and time; ``weir quality`` does it."""
MOST_CAUSES: Final = 300
"""Connections whose cause is listed: the largest."""
MOST_STREAMS: Final = 100
"""Streams of voice with their MOS: the worst."""


def _analyse(request: dict[str, Any]) -> dict[str, Any]:
    # Nothing here imports Polars, which takes longer than most captures do.
    from weirlab.base import files
    from weirlab.trace.analysis import analyse

    folder = Path(request["folder"])
    facts = analyse(_capture(folder), series=folder / SERIES, period_ns=PERIOD_NS, keep=KEEP)
    for file in facts["capture"]["files"]:
        file["path"] = request["name"]
    kept = {**facts, "connections": [*facts["connections"]], VOICE: _voice(_capture(folder), facts)}
    files.write_bytes(folder / FACTS, json.dumps(kept).encode())
    return {"packets": facts["capture"]["packets"], "connections": len(facts["connections"])}


def _voice(capture: Path, facts: Analysis) -> dict[str, Any] | None:
    """How voice was heard: a sentence, tables, and the course of the worst streams (``axis``); None without
    voice, or with too much of it.
    """
    packets = sum(stream["packets"] for stream in facts["streams"])
    if not 0 < packets <= MOST_VOICE_PACKETS or facts["streams_left_out"]:
        return None
    from weirlab.base.errors import WeirError
    from weirlab.calls.quality import tables, wording
    from weirlab.calls.quality.study import capture_quality
    from weirlab.calls.quality.tables import courses
    from weirlab.web.tables import for_page

    with suppress(WeirError, MemoryError):
        heard = capture_quality(capture)
        shown = [for_page(table) for table in tables.of(heard, MOST_STREAMS) if not table.details]
        return {"sentence": wording.sentence(heard), "tables": shown, "axis": courses(heard)}
    return None


def _capture(folder: Path) -> Path:
    """The path of the upload, which is a regular file."""
    from weirlab.base import files

    path = folder / CAPTURE
    files.open_regular(path).close()
    return path


def _facts(folder: Path) -> Any:
    from weirlab.base import files

    return files.load_json(folder / FACTS, f"delete {folder}")


def _draw(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.trace import Trace
    from weirlab.web.captures import arrays

    folder = Path(request["folder"])
    facts = _facts(folder)
    trace = Trace(facts, folder / SERIES, period_ns=PERIOD_NS)
    arrays.write(trace, request["connection"], request["side"], folder / GRAPHS, request["scratch"])
    return {}


def _explain(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.cli.results import diagnosis
    from weirlab.diagnosis import tracing
    from weirlab.trace import Trace
    from weirlab.trace.facts import start_ns
    from weirlab.transfers.trace.page import series
    from weirlab.web.tables import for_page

    folder, number = Path(request["folder"]), request["connection"]
    facts = _facts(folder)
    one = next(each for each in facts["connections"] if each["id"] == number)
    found = tracing.read(Trace(facts, folder / SERIES, period_ns=PERIOD_NS), one)
    told = {
        "sentence": "" if found is None else found.sentence,
        "remedy": "" if found is None else found.advice,
        "tables": [] if found is None else [for_page(table) for table in diagnosis.tables(found)],
        "remarks": [] if found is None else diagnosis.remarks(found),
        "strip": [] if found is None else series.strip(found, start_ns(facts)),
    }
    _keep(folder, f"{number}.json", told)
    return {}


def _causes(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.trace.analysis import analyse
    from weirlab.trace.quantities import duration, percent
    from weirlab.transfers.trace import tables

    folder = Path(request["folder"])
    rows = tables.packet_rows(None)
    analyse(_capture(folder), keep=KEEP, rows=rows)
    found = tables.diagnosed(
        rows, tables.ordered(Selection(_facts(folder)["connections"]), "bytes"), most=MOST_CAUSES
    )
    told = {}
    for number, each in found.items():
        first = each.findings[0]
        cells = [f"{first.cause.name} {percent(first.share)}", duration(each.lost_s * 1e9)]
        told[number] = {"cells": cells, "sort": [first.cause.name, each.lost_s]}
    _keep(folder, CAUSES, told)
    return {}


def _keep(folder: Path, name: str, told: dict[Any, Any]) -> None:
    """Write ``told`` into :data:`WHY`."""
    from weirlab.base import files

    files.make_folder(folder / WHY)
    try:
        files.write_bytes(folder / WHY / name, json.dumps(told).encode())
    except BaseException:
        with suppress(OSError):
            (folder / WHY).rmdir()
        raise


def _excerpt(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.trace import cutting
    from weirlab.trace.quantities import Window

    folder, number = Path(request["folder"]), request["connection"]
    only = ""
    if number is not None:
        facts = _facts(folder)
        only = cutting.of(next(each for each in facts["connections"] if each["id"] == number))
    part = cutting.cut(
        _capture(folder),
        folder / request["target"],
        # Both ends of the part belong to it.
        window=Window(request["from_ns"], request["to_ns"] + 1),
        filter=only,
        option="part",
    )
    return {"packets": part.packets}


def _export(request: dict[str, Any]) -> dict[str, Any]:
    from weirlab.base import files
    from weirlab.web.captures import arrays

    folder = Path(request["folder"])
    drawn = folder / GRAPHS / arrays.name(request["connection"], request["side"])
    part = (request["from_ns"], request["to_ns"], request["origin_ns"])
    points = arrays.points(drawn, *part, chosen=request["chosen"])

    def fill(file: BinaryIO) -> None:
        if request["format"] == "csv":
            points.write_csv(file)
        else:
            points.write_parquet(file)

    files.write(folder / request["target"], fill, private=True)
    return {"points": points.height}


DEEDS: Final = {
    "analyse": _analyse,
    "draw": _draw,
    "explain": _explain,
    "causes": _causes,
    "excerpt": _excerpt,
    "export": _export,
}


if __name__ == "__main__":
    serve(DEEDS, CAPTURE)
