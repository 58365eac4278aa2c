"""A run goes on with the plan that it was begun with."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.plan import load, ready
from weirlab.numbering.proof.study import PLAN, keep_plan
from weirlab.numbering.routing import PlanNetwork
from weirlab.store import RunWriter, Store

DAY = date(2026, 1, 31)


def network(name: str, day: date = DAY) -> PlanNetwork:
    return PlanNetwork(load(ready.FOLDER / f"{name}.yaml"), day)


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return Store(tmp_path).create("voice", {}, {})


def test_the_same_plan_goes_on_and_another_one_or_another_day_does_not(writer: RunWriter) -> None:
    keep_plan(writer, network("campus"))
    keep_plan(writer, network("campus"))
    with pytest.raises(InputError, match=r"carriers\.yaml has changed since run .*: start a new run"):
        keep_plan(writer, network("carriers"))
    with pytest.raises(InputError, match=r"as of 2026-01-31, not as of 2026-02-01"):
        keep_plan(writer, network("campus", date(2026, 2, 1)))
    assert writer.run.get_json(PLAN)["plan"] == "campus"


def test_a_run_of_an_earlier_version_goes_on(writer: RunWriter) -> None:
    writer.put_json(PLAN, {"plan": "campus", "name": "campus.yaml"})
    keep_plan(writer, network("campus"))
