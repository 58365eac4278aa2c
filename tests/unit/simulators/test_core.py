"""The C++ core computes what Python computes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from weirlab.model import QueueingModel, save
from weirlab.model.base import QUANTITIES
from weirlab.model.process import Fate, ReferenceDevice
from weirlab.model.queueing.service import ServiceTime
from weirlab.records import Observation

from .conftest import RUNS, SOURCES

Compile = Callable[[Path], Path]


def lines(program: Path, words: Sequence[object], rows: np.ndarray) -> np.ndarray:
    text = "\n".join(" ".join(map(repr, row)) for row in rows.tolist())
    done = subprocess.run([program, *map(str, words)], input=text, capture_output=True, text=True, check=True)
    return np.array([[float(word) for word in line.split()] for line in done.stdout.splitlines()])


@pytest.fixture(scope="session")
def measured() -> QueueingModel:
    """Of a real device, from a published benchmark."""
    kept = RUNS / "model-20261128-1" / "iptables-legacy-1.parquet"
    names = [field.name for field in fields(Observation) if field.name != "extra"]
    rows = pl.read_parquet(kept).filter(pl.col("role") == "profile").select(names).iter_rows(named=True)
    return QueueingModel.fit([Observation(**row) for row in rows])


@pytest.mark.parametrize("which", ["measured", "lawful", "two stages"])
def test_predictions_are_those_of_python_at_10000_drawn_settings(
    which: str, measured: QueueingModel, device_model: QueueingModel, compiled: Compile, tmp_path: Path
) -> None:
    stages = ServiceTime(900.0, 2.0, 0.2, io_ns=1500.0, io_per_byte_ns=0.1, spread_ns=300.0)
    models = {"measured": measured, "lawful": device_model, "two stages": replace(measured, service=stages)}
    model = models[which]
    save({"queueing": model}, tmp_path / "model.json")
    rng = np.random.default_rng(1)
    n = 10_000
    frame, position = rng.uniform(64, 1518, n), rng.uniform(0, 1500, n)
    rho = np.concatenate([rng.uniform(0.95, 1.06, n // 5), np.exp(rng.uniform(-5, 2, n - n // 5))])
    scv = rng.choice([0.0, 0.0, 0.3, 1.0, 3.0, 20.0], n)
    rate = rho * model.threshold_pps(position, frame)
    program = compiled(Path(__file__).with_name("predictions.cpp"))
    found = lines(program, [tmp_path / "model.json"], np.stack([rate, frame, position, scv], axis=1))
    expected = model.predict(rate, frame, position, scv)
    for column, quantity in enumerate(QUANTITIES):
        np.testing.assert_allclose(
            found[:, column], getattr(expected, quantity), rtol=1e-9, atol=1e-12, err_msg=quantity
        )


def test_every_packet_fares_as_in_python(measured: QueueingModel, compiled: Compile, tmp_path: Path) -> None:
    save({"queueing": measured}, tmp_path / "model.json")
    rng = np.random.default_rng(3)
    n = 12_000
    # Steps of the load, one of them to so few packets that a block ends by its time.
    gaps = rng.exponential(np.repeat([6000.0, 1500.0, 60_000.0, 6000.0], n // 4))
    arrivals = np.stack([np.cumsum(gaps), rng.choice([64.0, 594.0, 1518.0], n), rng.choice([0.0, 300.0], n)])
    found = lines(compiled(SOURCES / "core" / "packets.cpp"), [tmp_path / "model.json", 7], arrivals.T)
    device = ReferenceDevice(measured, 7)
    passages = [device.arrive(*row) for row in arrivals.T.tolist()]
    fates = np.array([list(Fate).index(passage.fate) for passage in passages])
    assert np.array_equal(found[:, 0], fates)
    assert {0, 1} <= set(fates.tolist())
    times = np.array([[passage.served_ns, passage.leaves_ns] for passage in passages])
    np.testing.assert_allclose(found[:, 1:], times, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "missing field format"),
        ('{"format": "weir-model", "version": 3}', "versions 1 and 2"),
        ('{"format": "weir-model", "version": 2, "devices": []}', "name one of its devices"),
        ('{"format"', "expected :"),
        ("[1, 2", "expected ]"),
        ("1 2", "text after the document"),
        ("[" * 100, "nested too deeply"),
        ('"\\x"', "unknown escape"),
    ],
)
def test_what_is_no_model_file_is_refused(text: str, message: str, compiled: Compile, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    program = compiled(SOURCES / "core" / "packets.cpp")
    done = subprocess.run(
        [program, tmp_path / "bad.json", "1"], input="", capture_output=True, text=True, check=False
    )
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(("text", "number"), [("at 64 0\n", 1), ("5 64 0\n6 64\n", 2), ("5 64 -1\n", 1)])
def test_a_line_that_is_no_arrival_is_named(
    text: str, number: int, model_file: Path, compiled: Compile
) -> None:
    program = compiled(SOURCES / "core" / "packets.cpp")
    done = subprocess.run([program, model_file, "1"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"line {number}: ")
    assert done.stdout.count("\n") == number - 1
