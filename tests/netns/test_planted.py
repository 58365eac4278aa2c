"""Causes of slow transfers, planted between namespaces: named from the kernel and from captures at both ends.

``make bench-planted`` has all of them, and holds percentages against the truth; none here depends on speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from causes import CASES
from planted import SOURCES, Bench

pytestmark = pytest.mark.netns

BY_NAME = {case.name: case for case in CASES}
SECONDS = 1.5


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as built:
        yield built


@pytest.mark.parametrize("name", ["window scaling off", "small receive window"])
def test_a_cause_that_every_place_shows_is_named_from_all_of_them(
    bench: Bench, name: str, tmp_path: Path
) -> None:
    rows = bench.run(replace(BY_NAME[name], seconds=SECONDS), tmp_path)
    assert [row.source for row in rows] == list(SOURCES)
    for row in rows:
        assert row.said is not None, f"nothing was found from {row.source}"
        assert row.said > 0.25, row.sentence


def test_nagle_against_delayed_acks_is_seen_by_the_kernel(bench: Bench, tmp_path: Path) -> None:
    kernel, *_ = bench.run(replace(BY_NAME["Nagle, delayed ACK"], seconds=SECONDS), tmp_path)
    assert kernel.said is not None
    assert kernel.said > 0.1, kernel.sentence
