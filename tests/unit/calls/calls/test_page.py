"""The page about calls through a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from weirlab.calls.calls import page as heard_page
from weirlab.records import TrialRecord
from weirlab.report.numbers import NOTHING
from weirlab.report.story import Story
from weirlab.store import Store
from weirlab.testing import make_call_table, make_record, make_spec
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

CALLS = Calls((CallClass(parse_codec("g711")),), count=3)


def page(tmp_path: Path, record: TrialRecord, **buffer: object) -> Story:
    scenario = {"name": "calls"} | ({"calls": {"jitter_buffer": buffer}} if buffer else {})
    spec = make_spec(300.0)
    spec = replace(spec, traffic=replace(spec.traffic, calls=CALLS))
    with Store(tmp_path / "store").create("calls", scenario, {"lab": "sim"}) as writer:
        writer.add(
            replace(record, spec=spec, run_id=writer.run_id, trial_id=f"{writer.run_id}-0000-1", role="calls")
        )
    return heard_page.page(writer.run)


def test_good_calls_are_told_in_one_sentence(tmp_path: Path) -> None:
    told = page(tmp_path, replace(make_record(), calls=make_call_table(3, mos=4.3)))
    assert told.answer == "All 6 callers hear well: MOS 4.30 on average, 4.30 at worst."
    assert told.lede[0].startswith("3 calls, G.711")


def test_bad_calls_are_counted(tmp_path: Path) -> None:
    told = page(tmp_path, replace(make_record(), calls=make_call_table(3, mos=2.5, lost=20)))
    assert told.answer == (
        "6\u00a0callers of 6 (100\u00a0%) hear badly (MOS below 3.6); the average is 2.50."
    )
    (worst,) = next(chapter for chapter in told.chapters if chapter.key == "worst").tables
    assert worst.rows[0][3] == "20 of 100"


def test_the_page_is_about_the_jitter_buffer_asked_for(tmp_path: Path) -> None:
    table = make_call_table(3, mos=4.3)
    table.late_fixed[:] = 7
    told = page(tmp_path, replace(make_record(), calls=table), heard="fixed", fixed_ms=40.0)
    assert "MOS 4.20 on average" in told.answer
    (worst,) = next(chapter for chapter in told.chapters if chapter.key == "worst").tables
    assert (worst.rows[0][2], worst.rows[0][6]) == ("4.20", "7")
    setting = next(chapter for chapter in told.chapters if chapter.key == "setting").facts
    assert ("Jitter buffer", "fixed, 40 ms") in (setting or [])


def test_callers_who_were_not_measured_are_not_said_to_hear_well(tmp_path: Path) -> None:
    table = make_call_table(2)
    table.mos[1:] = np.nan
    told = page(tmp_path, replace(make_record(), calls=table))
    assert told.answer.startswith("The caller hears well")
    assert told.answer.endswith("For 3\u00a0more callers it was not measured.")


def test_callers_who_do_not_differ_are_told_in_sentences(tmp_path: Path) -> None:
    told = page(tmp_path, replace(make_record(), calls=make_call_table(1, both=False, mos=4.3)))
    assert not {"calls-mos", "calls-delay"} & {figure.key for figure in told.figures}
    callers = next(chapter for chapter in told.chapters if chapter.key == "callers")
    assert callers.sentences[0] == "MOS is 4.30 for every caller."
    assert callers.sentences[1].endswith(" for every caller.")


def test_callers_who_differ_are_drawn_by_their_share(tmp_path: Path) -> None:
    table = make_call_table(2)
    table.mos[:] = (4.1, 4.2, 4.3, 4.4)
    told = page(tmp_path, replace(make_record(), calls=table))
    frame = next(figure for figure in told.figures if figure.key == "calls-mos").data
    assert frame["percent"].to_list() == [0.0, 50.0, 100.0] * 2


def test_a_spoiled_trial_is_a_caution_and_withholds_the_headline(tmp_path: Path) -> None:
    told = page(tmp_path, replace(make_record(invalid=("sender late",)), calls=make_call_table(1)))
    assert told.caution == "The host spoiled this trial: sender late."
    assert told.answer == "What callers hear was not measured: no attempt was valid."
    assert told.lede[-1].startswith("In the spoiled trial: All 2")
    text = told.html()
    assert text.index("The host spoiled this trial") < text.index("What callers hear was not measured: ")


def test_if_nothing_was_sent_it_is_not_said_that_nothing_was_lost(tmp_path: Path) -> None:
    record = make_record(invalid=("the sender sent nothing",))
    nothing = replace(record.result, sent=0, received=0)
    told = page(tmp_path, replace(record, result=nothing, calls=make_call_table(1)))
    (lost,) = [tile for tile in told.tiles if tile.label == "Packets lost"]
    assert (lost.value, lost.note) == (NOTHING, "of 0")


def test_without_loss_there_is_no_chart_of_it(tmp_path: Path) -> None:
    told = page(tmp_path, replace(make_record(), calls=make_call_table(3)))
    assert "calls-loss" not in {figure.key for figure in told.figures}
    assert "calls-over-time" in {figure.key for figure in told.figures}
    assert told.html()
