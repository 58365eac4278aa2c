"""The page about redundant pairs: what it concludes from switches, and what it leaves out."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from weirlab.calls.failover.page import tell
from weirlab.calls.failover.switches.load import CommonLoad
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.calls.failover.tables import SwitchRun
from weirlab.report.numbers import NOTHING

MANIFEST = {
    "run_id": "20261121-1200-failover-abcd",
    "host": "bench",
    "kernel": "6.18",
    "scenario": {"name": "Failover", "question": "What do callers hear?"},
    "facts": {"lab": "redundant"},
}


def switch(
    index: int, gap_ms: float, kind: str = "hard", sharing: str = "direct", lost: int = 100, **more: object
) -> SwitchRow:
    dead = sharing == "off"
    known = {
        "trial_id": f"t{index}",
        "index": index,
        "attempt": 1,
        "repetition": index,
        "pair": f"keepalived 0.1 s, {sharing}",
        "protocol": "keepalived",
        "advert_s": 0.1,
        "sharing": sharing,
        "nat": False,
        "preempt": True,
        "kind": kind,
        "valid": True,
        "invalid": "",
        "calls": 3000,
        "offered_pps": 81_600.0,
        "achieved_pps": 81_600.0,
        "expected_from_s": 0.3 if kind == "hard" else 0.0,
        "expected_to_s": 0.4 if kind == "hard" else 0.0,
        "outage_ns": gap_ms * 1e6,
        "resumed_ns": math.nan if dead else gap_ms * 1e6,
        **{f"gap_{q}_ns": gap_ms * 1e6 for q in ("min", "p50", "p90", "p99", "max")},
        "lost": lost,
        "glitch_ms": lost / 81.6,
        "streams": 6000,
        "alive": 0 if dead else 6000,
        "dead": 6000 if dead else 0,
        "mos_before": 4.4,
        "mos_affected": 1.0 if dead else 4.1,
        "mos_after": math.nan if dead else 4.4,
    }
    return SwitchRow(**(known | more))  # type: ignore[arg-type]


def campaign(*rows: SwitchRow, load: CommonLoad | None = None) -> SwitchRun:
    starts = np.arange(-2000, 3000, 5)
    series = [
        pl.DataFrame(
            {
                "trial_id": row.trial_id,
                "back": False,
                "start_ns": starts * 1_000_000,
                "sent": 408,
                "received": np.where((starts > 0) & (starts < row.gap_p50_ns / 1e6), 0, 408),
                "lost": 0,
                "delay_max_ns": 1e4,
            }
        )
        for row in rows
    ]
    calls = [pl.DataFrame({"trial_id": row.trial_id, "gap_ns": [row.gap_p50_ns] * 5}) for row in rows]
    return SwitchRun(MANIFEST, rows, pl.concat(calls), pl.concat(series), load)


def test_the_answer_names_the_gap_of_a_sudden_death() -> None:
    page = tell(campaign(switch(1, 350), switch(2, 360), switch(3, 370)))
    assert page.answer == (
        "When the active firewall dies, callers hear nothing for 360\u00a0ms (keepalived 0.1 s, direct)."
    )


def test_a_lossless_step_down_is_told() -> None:
    page = tell(campaign(switch(1, 350), switch(2, 20, "soft", lost=0)))
    assert "keepalived 0.1 s, direct loses nothing in 1\u00a0run" in page.lede[0]


def test_what_a_step_down_loses_is_told_with_its_worst_run() -> None:
    quiet = [switch(number, 20, "soft", lost=0) for number in (2, 3)]
    page = tell(campaign(switch(1, 350), *quiet, switch(4, 20, "soft", lost=606)))
    assert "the gentlest pair (keepalived 0.1 s, direct) loses 0 to 606 packets." in page.lede[0]


def test_dead_streams_are_told_and_have_no_gap_that_ends() -> None:
    page = tell(campaign(switch(1, 350), switch(2, 13_000, sharing="off")))
    assert "6,000 of 6,000 streams died" in page.lede[-1]
    tables = next(chapter for chapter in page.chapters if chapter.key == "numbers").tables
    assert len(tables) == 3
    assert {table.rows[-1][0] for table in tables} == {"keepalived 0.1 s, off, master dies"}


def test_a_lossless_switch_has_nothing_to_come_back() -> None:
    page = tell(campaign(switch(1, 20, "soft", lost=0)))
    numbers = next(chapter for chapter in page.chapters if chapter.key == "numbers")
    for table in (numbers.tables[0], *numbers.details):
        assert table.rows[0][table.columns.index("Back after")] == NOTHING


def test_a_pair_goes_by_the_name_that_its_user_gave_it() -> None:
    assert "(the quick one)" in tell(campaign(switch(1, 350, pair="the quick one"))).answer


def test_a_run_of_returns_alone_is_answered() -> None:
    page = tell(campaign(switch(1, 40, "return", lost=7)))
    assert page.answer == (
        "When a dead firewall comes back, 7 packets are lost at worst (keepalived 0.1 s, direct)."
    )


def test_a_load_that_the_host_limits_is_not_laid_to_the_pair() -> None:
    load = CommonLoad(200, 30, 816.0, limited_by="ucarp 1 s", by_host=True)
    caution = tell(campaign(switch(1, 350), load=load)).caution
    assert "the host, not the pair, sets the limit" in caution
    assert "ucarp" not in caution


def test_a_smaller_load_than_asked_for_is_a_caution() -> None:
    load = CommonLoad(3000, 900, 24_480.0, limited_by="ucarp 1 s")
    page = tell(campaign(switch(1, 350), load=load))
    assert page.caution == (
        "The pairs carry 900 of the 3,000 calls requested without loss (ucarp 1 s sets the limit)."
    )


def test_a_margin_below_what_the_pairs_carry_is_told() -> None:
    load = CommonLoad(3000, 810, 22_032.0, limited_by="ucarp 1 s", carried=900)
    page = tell(campaign(switch(1, 350), load=load))
    assert page.caution == (
        "The pairs carry 900 of the 3,000 calls requested without loss (ucarp 1 s sets the limit). "
        "They were switched with 810, a little below this limit."
    )


def test_spoiled_attempts_are_counted_and_take_no_part() -> None:
    spoiled = switch(2, 9000, valid=False, invalid="the cut took 2 s")
    page = tell(campaign(switch(1, 350), spoiled))
    assert page.caution == "Left out: 1\u00a0attempt spoiled by the host or by a slow cut."
    assert "350\u00a0ms" in page.answer
    (details,) = next(chapter for chapter in page.chapters if chapter.key == "numbers").details
    assert details.rows[1][-1] == "no: the cut took 2 s"


def test_arrivals_show_the_gap_where_it_was() -> None:
    page = tell(campaign(switch(1, 350)))
    (figure,) = next(chapter for chapter in page.chapters if chapter.key == "arrivals").figures
    silent = figure.data.filter(pl.col("arrived") == 0)["time_ms"]
    assert silent.min() == pytest.approx(5)
    assert silent.max() == pytest.approx(345)
    assert figure.data["time_ms"].min() < 0 < 350 < figure.data["time_ms"].max()  # type: ignore[operator]


def test_a_run_without_a_valid_switch_says_so() -> None:
    page = tell(campaign(switch(1, 350, valid=False, invalid="host")))
    assert page.answer == "No switch was measured."
    assert all(not chapter.figures for chapter in page.chapters)


def test_the_page_holds_all_its_charts(tmp_path: Path) -> None:
    rows = [switch(1, 350), switch(2, 20, "soft", lost=0), switch(3, 13_000, sharing="off")]
    page = tell(campaign(*rows))
    text = page.html()
    embedded = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.S)
    assert embedded is not None
    assert set(json.loads(embedded[1])["figures"]) == {figure.key for figure in page.figures}
    for figure in page.figures:
        assert f'id="{figure.key}"' in text
