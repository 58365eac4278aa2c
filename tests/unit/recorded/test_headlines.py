"""A share in the headline of a stored run is the one that a table has."""

from __future__ import annotations

import pytest

from weirlab.jobs.inventory import show
from weirlab.report.story import Story
from weirlab.store import Store
from weirlab.studies.commands import tables
from weirlab.studies.registry import study_of

from ..report.shares import cells, cells_of, said, shares
from .answers import ADDED_RUNS, RUNS, TCP, TCP_EARLIER, unpacked

ALL = (*RUNS, *ADDED_RUNS, TCP, TCP_EARLIER)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(unpacked(tmp_path_factory.mktemp("inputs")) / "store")


@pytest.mark.parametrize("run", ALL)
def test_a_share_in_a_headline_is_in_a_table(run: str, store: Store) -> None:
    opened = store.open(run)
    study = study_of(opened)
    below = list(cells_of(tables.run(show(store, run))))
    told = list(study.headlines(opened))
    if study.has("page"):
        page = study.page(opened)
        assert isinstance(page, Story)
        told += said(page)
        below += cells(page)
    assert shares(told) <= shares(below)


def test_some_headlines_have_shares(store: Store) -> None:
    heads = {run: study_of(opened).headlines(opened) for run in ALL if (opened := store.open(run))}
    assert sum(bool(shares(each)) for each in heads.values()) > 5
