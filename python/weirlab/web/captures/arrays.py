"""The points of a direction as arrays on disk, from which any part is drawn at once.

A folder per connection and side: ``index.json`` names the layers, and each has its arrays. They are mapped
into memory, not read: drawing a part touches little of them.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base import files
from weirlab.base.errors import StoreError
from weirlab.store.files import load_json, write_json
from weirlab.trace import Trace, facts, sheet, wording
from weirlab.trace.facts import SideName
from weirlab.transfers.trace.page.series import SCALES, Chart, Layer, mean_line, sources, trip_ns
from weirlab.web.captures import columns

MOST_COLUMNS: Final = 4000
MOST_EVENTS: Final = 5000
_INDEX: Final = "index.json"
_LAYER: Final = {"chart", "kind", "name", "colour", "single"}
"""What the index says of each layer."""
_KEPT_OPEN: Final = 8
"""Folders whose arrays stay mapped."""
_opened: Final[OrderedDict[tuple[Path, int], dict[str, Any]]] = OrderedDict()
"""Mapped arrays, by folder and the time at which it was made, which distinguishes it from an earlier folder
of that name; the most recently used last.
"""
_opening: Final = threading.Lock()
_RATES: Final = (
    ("payload_bytes", "with retransmissions", "again"),
    ("new_bytes", "each byte once", "data"),
)
_UNITS: Final[dict[Chart, str]] = {"sequence": "bytes", "throughput": "bit/s", "rtt": "ms", "flight": "bytes"}
_POINTS: Final = {
    "time_ns": pl.Int64,
    "chart": pl.String,
    "series": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "unit": pl.String,
}
_BARS: Final = 250
"""Most bars of throughput, approximately."""
_LEAST_BAR_NS: Final = 100_000
"""A shorter bar would contain one packet or none, and show a rate that never occurred. No bar is shorter
than a round trip, in which TCP sends a window at once and then waits.
"""


def name(connection: int, side: SideName) -> str:
    """The name of the folder."""
    return f"{connection}-{side}"


def write(trace: Trace, connection: int, side: SideName, parent: Path, scratch: str) -> Path:
    """Make the folder of one direction below ``parent``, whole or not at all.

    It is made as ``scratch`` there, which stays if this process is killed.
    """
    (one,) = [each for each in trace.facts["connections"] if each["id"] == connection]
    target, fresh = parent / name(connection, side), parent / scratch
    files.make_folder(fresh)
    try:
        index: list[dict[str, Any]] = []
        for source in sources(trace, connection, side, windows=sheet.scaled(one)):
            points = source.rows.sort("time_ns", maintain_order=True).collect()
            if not points.is_empty():
                about = {key: getattr(source, key) for key in ("chart", "kind", "name", "colour", "single")}
                _write_points(fresh, len(index), points)
                index.append({**about, "timed": True})
        data = (
            trace.scan_segments()
            .filter(
                pl.col("connection") == connection, pl.col("from_side") == side, pl.col("payload_bytes") > 0
            )
            .select("time_ns", "payload_bytes", "new_bytes")
            .sort("time_ns", maintain_order=True)
            .collect()
        )
        _save(fresh, "rates-time", data["time_ns"])
        for column, *_ in _RATES:
            _save(fresh, f"rates-{column}", data[column].cast(pl.Int64).cum_sum())
        whole_bps = wording.throughput_bps(facts.side(one, side))
        mean = [] if isnan(whole_bps) else [int(data["time_ns"][0]), int(data["time_ns"][-1]), whole_bps]
        bar_ns = max(_LEAST_BAR_NS, trip_ns(one, side))
        write_json(fresh / _INDEX, {"layers": index, "bar_ns": bar_ns, "mean": mean})
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return target


def layers(
    folder: Path, from_ns: int, to_ns: int, origin_ns: int, width: int = MOST_COLUMNS
) -> list[dict[str, Any]]:
    """The layers from ``from_ns`` to ``to_ns`` in ``width`` columns, as the page takes them.

    ``origin_ns`` is the time of the capture's first packet.
    """
    found = []
    for number, about in enumerate(_index(folder)):
        single, timed = about.pop("single"), about.pop("timed", False)
        draw = _events if single else _spans
        frame, left_out = draw(folder, number, {**about, "timed": timed}, from_ns, to_ns, width)
        if len(frame):
            found.append(
                Layer(**about, points=frame, left_out=left_out).to_json(origin_ns, SCALES[about["chart"]])
            )
    return [*found, *_throughput(folder, from_ns, to_ns, origin_ns)]


def points(
    folder: Path, from_ns: int, to_ns: int, origin_ns: int, chosen: Collection[str] | None = None
) -> pl.DataFrame:
    """Every point from ``from_ns`` to ``to_ns`` of the layers in ``chosen``; None: of all layers.

    ``chosen`` has texts such as ``rtt/by ACKs``. Throughput is in bars, as it is drawn.

    Returns
    -------
    polars.DataFrame
        ``time_ns`` (since 1970), ``chart``, ``series``, ``low`` and ``high`` in ``unit``.
    """
    parts = [pl.DataFrame(schema=_POINTS)]
    for number, about in enumerate(_index(folder)):
        if chosen is not None and f"{about['chart']}/{about['name']}" not in chosen:
            continue
        time_ns = _load(folder, f"{number}-time")
        first, end = np.searchsorted(time_ns, (from_ns, to_ns + 1), "left")
        scale = SCALES[about["chart"]]
        low, high = (_load(folder, f"{number}-{part}")[first:end] for part in (_low(folder, number), "high"))
        parts.append(_told(time_ns[first:end], about["chart"], about["name"], low * scale, high * scale))
    for name, begin, rate, _ in _rates(folder, from_ns, to_ns, origin_ns):
        if chosen is None or f"throughput/{name}" in chosen:
            parts.append(_told(begin, "throughput", name, rate, rate))
    return pl.concat(parts).sort("time_ns", maintain_order=True)


def _told(time_ns: Any, chart: Chart, name: str, low: Any, high: Any) -> pl.DataFrame:
    unit = pl.lit(_UNITS[chart])
    frame = pl.DataFrame({"time_ns": np.asarray(time_ns), "low": low, "high": high})
    told = frame.with_columns(pl.lit(chart).alias("chart"), pl.lit(name).alias("series"), unit.alias("unit"))
    return told.select(pl.col(column).cast(kind) for column, kind in _POINTS.items())


def _index(folder: Path) -> list[dict[str, Any]]:
    return list(_whole_index(folder)["layers"])


def _whole_index(folder: Path) -> dict[str, Any]:
    path, remedy = folder / _INDEX, f"delete {folder.parent}"
    index = load_json(path, remedy)
    try:
        if all(layer.keys() >= _LAYER and layer["chart"] in SCALES for layer in index["layers"]):
            return {"bar_ns": _LEAST_BAR_NS, "mean": [], **index}
    except (LookupError, TypeError, AttributeError):
        pass
    raise StoreError(f"{path} is damaged; {remedy}")


def _events(
    folder: Path, number: int, about: dict[str, Any], from_ns: int, to_ns: int, width: int
) -> tuple[pl.DataFrame, int]:
    time_ns, low, high = (
        _load(folder, f"{number}-{part}") for part in ("time", _low(folder, number), "high")
    )
    chosen, left_out = columns.thinned(time_ns, from_ns, to_ns, MOST_EVENTS)
    return pl.DataFrame({"time_ns": time_ns[chosen], "low": low[chosen], "high": high[chosen]}), left_out


def _spans(
    folder: Path, number: int, about: dict[str, Any], from_ns: int, to_ns: int, width: int
) -> tuple[pl.DataFrame, int]:
    parts = ("time", _low(folder, number), "high", "block-low", "block-high", "block-sum")
    block_ns = _load(folder, f"{number}-block-time") if about.get("timed") else None
    kept = (_load(folder, f"{number}-{part}") for part in parts)
    points = replace(columns.Points(*kept), block_ns=block_ns)
    drawn = columns.spans(points, from_ns, to_ns, width)
    frame = pl.DataFrame({"time_ns": drawn.time_ns, "low": drawn.low, "high": drawn.high})
    return frame.with_columns(mean=pl.Series(drawn.mean)) if about["kind"] == "band" else frame, 0


def _throughput(folder: Path, from_ns: int, to_ns: int, origin_ns: int) -> list[dict[str, Any]]:
    found = []
    colours = {label: colour for _, label, colour in _RATES}
    for label, begin, rate, width_ns in _rates(folder, from_ns, to_ns, origin_ns):
        points = pl.DataFrame({"time_ns": begin, "high": rate}).with_columns(low=pl.lit(width_ns / 1e9))
        found.append(Layer("throughput", "blocks", label, colours[label], points).to_json(origin_ns))
    if found and (mean := _whole_index(folder)["mean"]):
        found.append(mean_line(*mean).to_json(origin_ns))
    return found


def _rates(folder: Path, from_ns: int, to_ns: int, origin_ns: int) -> Iterator[tuple[str, Any, Any, int]]:
    """Bars of throughput: their name, when each begins, bit/s, and how long each lasts, ns."""
    time_ns = _load(folder, "rates-time")
    if len(time_ns) == 0:
        return
    width_ns = columns.round_width(max((to_ns - from_ns) / _BARS, _whole_index(folder)["bar_ns"]))
    for column, label, _ in _RATES:
        total = _load(folder, f"rates-{column}")
        begin, rate = columns.rates(time_ns, total, from_ns, to_ns, width_ns, origin_ns)
        yield label, begin, rate * 8, width_ns


def _write_points(folder: Path, number: int, points: pl.DataFrame) -> None:
    low, high = (points[column].cast(pl.Int64).to_numpy() for column in ("low", "high"))
    # In most layers both are the same, and stored once.
    ends = {"high": high} if np.array_equal(low, high) else {"low": low, "high": high}
    made = dict(zip(("block-low", "block-high", "block-sum"), columns.blocks(low, high), strict=True))
    time_ns = points["time_ns"]
    times = {"time": time_ns, "block-time": time_ns.gather_every(columns.BLOCK)}
    for part, values in {**times, **ends, **made}.items():
        _save(folder, f"{number}-{part}", values)


def _low(folder: Path, number: int) -> str:
    """The part that has the lower ends of points."""
    return "low" if (folder / f"{number}-low.npy").exists() else "high"


def _save(folder: Path, part: str, values: Any) -> None:
    with files.telling(folder, "write"), (folder / f"{part}.npy").open("wb") as file:
        np.save(file, np.asarray(values), allow_pickle=False)


def _load(folder: Path, part: str) -> Any:
    """An array, mapped; the same object as long as the folder is the same, so that it is opened once."""
    with files.telling(folder, "read"):
        key = folder, (folder / _INDEX).stat().st_mtime_ns
    with _opening:
        known = _opened.setdefault(key, {})
        _opened.move_to_end(key)
        while len(_opened) > _KEPT_OPEN:
            _opened.popitem(last=False)
    if part not in known:
        known[part] = _mapped(folder, part)
    return known[part]


def release(parent: Path) -> None:
    """Unmap all arrays below ``parent``: a removed file uses disk space as long as it is mapped."""
    with _opening:
        for key in [each for each in _opened if each[0].parent == parent]:
            del _opened[key]


def _mapped(folder: Path, part: str) -> Any:
    path = folder / f"{part}.npy"
    try:
        with files.open_regular(path) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise ValueError("another version of the format")
            shape, _, kind = np.lib.format.read_array_header_1_0(file)
            if len(shape) != 1 or kind.kind not in "biuf":
                raise ValueError("not a row of numbers")
            # An empty array cannot be mapped.
            if shape == (0,):
                return np.empty(0, kind)
            return np.memmap(file, kind, "r", file.tell(), shape).view(np.ndarray)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({error}); delete {folder}") from error
