"""Causes of slow transfers, planted between namespaces: named from the kernel and from captures at both ends.

``make bench-planted`` has all of them, and holds percentages against the truth; none here depends on speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from causes import planted
from planted import SOURCES, Row, from_both, keep, rows
from planting import Bench

pytestmark = pytest.mark.netns

SECONDS = 1.5


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as built:
        yield built


def looks(bench: Bench, name: str, folder: Path) -> list[Row]:
    case = planted(name, given={"seconds": SECONDS})
    return rows(keep(case, None, bench.run(case, folder), folder), folder)


@pytest.mark.parametrize("name", ["window scaling off", "small receive window"])
def test_a_cause_that_every_place_shows_is_named_from_all_of_them(
    bench: Bench, name: str, tmp_path: Path
) -> None:
    found = looks(bench, name, tmp_path)
    assert [row.source for row in found] == list(SOURCES)
    for row in found:
        assert row.said is not None, f"nothing was found from {row.source}"
        assert row.said > 0.25, row.sentence


def test_nagle_against_delayed_acks_is_seen_by_the_kernel(bench: Bench, tmp_path: Path) -> None:
    kernel, *_ = looks(bench, "Nagle, delayed ACK", tmp_path)
    assert kernel.said is not None
    assert kernel.said > 0.1, kernel.sentence


@pytest.mark.parametrize(
    ("name", "fate"), [("receiver's host drops", "dropped"), ("reordering without SACK", "late")]
)
def test_both_captures_tell_what_one_end_takes_for_loss_on_the_path(
    bench: Bench, name: str, fate: str, tmp_path: Path
) -> None:
    *_, both = looks(bench, name, tmp_path)
    found = from_both(tmp_path, whole=True)
    assert found is not None
    assert found.between is not None
    assert found.between.fates is not None
    fates = found.between.fates
    # The path loses nothing, whatever the sender takes it for.
    assert (fates.again > 0, getattr(fates, fate) > 0, fates.lost) == (True, True, 0), fates
    if not both.void:
        assert both.named == both.planted, both.sentence


@pytest.mark.parametrize("name", ["ECN marks", "MTU black hole"])
def test_what_the_path_does_to_packets_is_seen_at_the_sender(bench: Bench, name: str, tmp_path: Path) -> None:
    _, sender, _, both = looks(bench, name, tmp_path)
    for row in (sender, both):
        assert row.said is not None
        assert row.said > 0.25, row.sentence


def test_a_lost_syn_is_noted_at_both_ends(bench: Bench, tmp_path: Path) -> None:
    found = looks(bench, "lost SYN", tmp_path)
    assert [row.missing for row in found if row.source in ("sender", "receiver")] == [[], []]
