"""Quality spread over callers, and bins of times."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from weirlab.quality.assess import call_table
from weirlab.quality.distribution import EDGES_NS, counted, describe, summarise
from weirlab.records import CallTable
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

from .made_log import make_flows, make_log

CALLS = Calls((CallClass(parse_codec("g711"), share=0.5), CallClass(parse_codec("g729"), share=0.5)), 2)


@pytest.fixture
def table() -> CallTable:
    """Two calls, both ways; the second loses 10 % on the way back."""
    log = make_log(
        [(flow, i, 1_000_000) for flow in range(4) for i in range(100) if not (flow == 3 and i % 10 == 5)],
        4, call=[0, 0, 1, 1], back=[False, True, False, True], call_class=[0, 0, 1, 1],
    )  # fmt: skip
    return call_table(log, make_flows([100] * 4), CALLS)


def test_the_worst_caller_is_named(table: CallTable) -> None:
    worst = summarise(table).everyone.worst
    assert worst is not None
    assert (worst.call, worst.back, worst.loss_ratio) == (1, True, 0.1)
    assert worst.mos == table.mos.min()


def test_percentiles_and_shares_are_those_of_the_callers(table: CallTable) -> None:
    everyone = summarise(replace(table, mos=np.array([4.3, 3.9, 3.5, np.nan]))).everyone
    assert everyone.mos.p50 == 3.9
    assert everyone.not_measured == 1
    assert everyone.below_satisfied == pytest.approx(2 / 3)
    assert everyone.below_dissatisfied == pytest.approx(1 / 3)
    assert everyone.loss_ratio.p99 == pytest.approx(np.quantile([0, 0, 0, 0.1], 0.99))


def test_directions_and_classes_are_told_apart(table: CallTable) -> None:
    summary = summarise(table, ["G.711", "G.729"])
    assert summary.forward is not None
    assert summary.back is not None
    assert summary.forward.worst is not None
    assert summary.forward.worst.loss_ratio == 0
    assert list(summary.classes) == ["G.711", "G.729"]
    assert summary.classes["G.711"].below_satisfied == 0


def test_classes_of_the_same_name_are_both_told(table: CallTable) -> None:
    classes = summarise(table, ["G.711", "G.711"]).classes
    assert [group.callers for group in classes.values()] == [2, 2]


def test_the_sentence_says_how_many_and_how_bad(table: CallTable) -> None:
    table = replace(table, mos=np.array([4.3, 4.2, 3.9, 3.25]))
    assert summarise(table).sentence() == (
        "2 of 4 callers hear MOS 4.0 or better; the worst, call 1 back, hears 3.25, and 1 is below 3.6."
    )


def test_where_nothing_was_measured_the_sentence_says_so(table: CallTable) -> None:
    summary = summarise(replace(table, mos=np.full(4, np.nan)))
    assert describe(summary.everyone) == "MOS was not measured for any of 4 callers."


def test_a_summary_can_be_written_down(table: CallTable) -> None:
    written = json.loads(json.dumps(summarise(table).to_dict()))
    assert written["everyone"]["callers"] == 4


def test_every_value_is_in_one_bin_that_contains_it() -> None:
    values = np.array([0.0, 99.9, 100.0, 1_000.0, 1_060.0, 5e9])
    found = list(counted(values))
    assert sum(count for *_, count in found) == len(values)
    assert found[0] == (0.0, 100.0, 2)
    for value in values:
        assert sum(low <= value < high for low, high, _ in found) == 1


def test_bins_are_an_eighth_wide_and_the_last_one_takes_what_is_longer() -> None:
    ratios = EDGES_NS[2:] / EDGES_NS[1:-1]
    assert ratios == pytest.approx(np.full(len(ratios), 10 ** (1 / 20)))
    [(low, high, count)] = counted([2e10, 3e12])
    assert (high, count) == (pytest.approx(1e10), 2)
    assert low < high
    assert not list(counted([]))
