"""Comparisons of recorded runs: three packet filters, each profiled twice on one host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from weirlab.model.comparing.matching import Compared, digest
from weirlab.model.comparing.scatter import LATER, LATER_FREEDOM, PUBLISHED, published
from weirlab.model.comparing.verdicts import ComparisonTerms, Verdict, compare, overall
from weirlab.model.regimes import CLEAR_LOSS
from weirlab.records import Observation

RUNS = Path(__file__).resolve().parents[4] / "bench" / "runs" / "model-20261121-1"
DEVICES = ("iptables-legacy", "nftables", "nftables-set")
EACH = 16
"""Comparisons per device and direction: 96 in all."""


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, int], list[Observation]]:
    """The valid trials of every profile."""
    found = {}
    for device, number in product(DEVICES, (1, 2)):
        found[device, number] = recorded(RUNS / f"{device}-{number}.parquet")
    return found


def resampled(seen: list[Observation], draw: np.random.Generator) -> list[Observation]:
    """As many of the same trials, with replacement: what another run in the same minutes might have been."""
    return [seen[i] for i in draw.integers(0, len(seen), len(seen))]


def slowed(seen: list[Observation], slower: float) -> list[Observation]:
    """As if overload had been forwarded more slowly; delays stay, so that they do not help."""
    return [
        replace(one, forwarding_pps=one.forwarding_pps / slower, loss_ratio=1 - (1 - one.loss_ratio) / slower)
        if one.loss_ratio > CLEAR_LOSS
        else one
        for one in seen
    ]


def verdicts(runs: dict[tuple[str, int], list[Observation]], slower: float) -> Iterator[Verdict]:
    """Each run of a device against the other one, both ways round."""
    for number, (device, (one, other)) in enumerate(product(DEVICES, ((1, 2), (2, 1)))):
        for i in range(EACH):
            draw = np.random.default_rng([number, i])
            before, after = (resampled(runs[device, each], draw) for each in (one, other))
            digests = [digest(seen, same_load=False) for seen in (before, slowed(after, slower))]
            yield overall(compare(digests[:1], digests[1:], ComparisonTerms(), same_load=False))


@pytest.mark.parametrize("quantity", PUBLISHED)
def test_the_published_scatter_is_what_the_recorded_pairs_show(
    runs: dict[tuple[str, int], list[Observation]], quantity: Compared
) -> None:
    sides = [[digest(runs[name, number], same_load=False) for number in (1, 2)] for name in DEVICES]
    found, _ = published(sides, quantity)
    assert found.run == pytest.approx(PUBLISHED[quantity].run, abs=6e-4)
    assert found.place == pytest.approx(PUBLISHED[quantity].place, abs=6e-4)


def recorded(path: Path) -> list[Observation]:
    frame = pl.read_parquet(path).filter(pl.col("role") == "profile").drop("role")
    return [Observation(**row) for row in frame.iter_rows(named=True)]


@pytest.mark.parametrize("quantity", LATER)
def test_the_scatter_from_hour_to_hour_is_what_the_recorded_runs_of_each_day_show(quantity: Compared) -> None:
    days = (RUNS, RUNS.parent / "model-20261128-1")
    sides = [
        [digest(recorded(path), same_load=False) for path in sorted(day.glob(f"{name}-[0-9].parquet"))]
        for day, name in product(days, DEVICES)
    ]
    place = published(sides, quantity)[0].place
    quick = sorted((RUNS.parent / "hours-20261130-1").glob("nftables-*.parquet"))
    sides.append([digest(recorded(path), same_load=False) for path in quick])
    found, freedom = published(sides, quantity)
    assert found.run == pytest.approx(LATER[quantity].run, abs=6e-4)
    assert place == pytest.approx(LATER[quantity].place, abs=6e-4)
    assert freedom == LATER_FREEDOM


def test_recorded_runs_of_one_device_raise_no_false_alarm(
    runs: dict[tuple[str, int], list[Observation]],
) -> None:
    found = list(verdicts(runs, slower=1.0))
    assert found.count("worse") <= 0.02 * len(found)


@pytest.mark.parametrize(("slower", "share"), [(1 / 0.9, 0.95), (1.1, 0.9)])
def test_a_slowdown_of_10_percent_of_recorded_runs_is_found(
    runs: dict[tuple[str, int], list[Observation]], slower: float, share: float
) -> None:
    """A tenth less is forwarded, or every packet takes a tenth longer.

    There are only three pairs. In one the second run happened to be 3 % faster, which hides a part of the
    lesser slowdown in one direction of that pair.
    """
    found = list(verdicts(runs, slower))
    assert found.count("worse") >= share * len(found)
