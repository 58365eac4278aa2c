"""Letter values, the tables of errors and the sentences on them."""

from __future__ import annotations

import pytest

from weirlab.devices.prediction import tables
from weirlab.devices.profile.page import accuracy
from weirlab.devices.profile.page import drawing as figure
from weirlab.devices.profile.page.source import ProfileEvidence, gather
from weirlab.model.score import REPEATABILITY


@pytest.fixture(scope="module")
def evidence(small_run, models) -> ProfileEvidence:
    return gather(small_run, models)


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_every_model_and_the_repeatability_are_drawn_for_the_same_trials(evidence: ProfileEvidence) -> None:
    _, names = accuracy.PANELS["Delay below the threshold"]
    table = accuracy.table(evidence.deviations, names)
    assert set(table["source"]) == {"queueing", "piecewise", REPEATABILITY}
    of_mean = table.filter(quantity="Mean")
    assert of_mean["trials"].n_unique() == 1
    medians = dict(of_mean.filter(mark="median").select("source", "low_percent").iter_rows())
    assert abs(medians["queueing"]) < abs(medians["piecewise"])


def test_the_plots_stand_beside_the_repeatability_in_words(evidence: ProfileEvidence) -> None:
    drawn = [one for one in figure.draw(evidence) if one.section == "accuracy"]
    assert [one.panel for one in drawn] == list(accuracy.PANELS)
    for one in drawn:
        assert "(queueing)" in one.title
        assert "trials of one setting are within" in one.title


def test_intervals_are_drawn_as_a_band_around_the_model_that_has_them(evidence: ProfileEvidence) -> None:
    drawn = next(one for one in figure.draw(evidence) if one.section == "delay")
    assert "90 % of single trials lie according to the queueing model" in drawn.caption
    rows = drawn.data.filter(source="queueing")
    assert (rows["p99_us_low"] < rows["p99_us"]).all()
    assert (rows["p99_us_high"] > rows["p99_us"]).all()
    assert drawn.data.filter(source="piecewise")["p99_us_low"].is_null().all()


def test_the_coverage_is_told(evidence: ProfileEvidence) -> None:
    said = _plain(accuracy.coverage(evidence.deviations))
    assert said.startswith("The 90 % intervals held")
    assert "(queueing)" in said
    assert "piecewise" not in said
    assert accuracy.coverage(()) == ""


def test_errors_stand_side_by_side_per_quantity_in_readable_units(verification) -> None:
    (table,) = tables.errors(verification.errors)
    rows = [tuple(_plain(cell) for cell in row) for row in table.rows]
    assert [row[:2] for row in rows[:3]] == [
        ("Threshold", "queueing"), ("Threshold", "piecewise"), ("Threshold", REPEATABILITY)
    ]  # fmt: skip
    assert rows[0][3:] == (
        "3.1 %", "+3.1 % (−9.0 kpps)", "+2.1 to +4.1 %", "2.0 %", "+9.3 %", "48/92/100"
    )  # fmt: skip
    assert rows[2][4:6] == ("–", "–")
    assert rows[-1][3:5] == ("0.20 %-points", "+0.20 %-points")


def test_tables_of_single_trials_medians_and_extrapolation_are_apart(evidence: ProfileEvidence) -> None:
    captions = [table.caption for table in tables.errors(evidence.errors)]
    assert captions == ["Errors on single held-out trials", "Errors on the medians of the repetitions"]


def test_false_alarms_are_told_per_model(verification) -> None:
    told = tables.alarms(verification.errors)
    assert told == "Trials without loss for which loss was predicted: queueing 2 of 36."
    assert tables.alarms(()) == ""


def test_without_held_out_trials_there_is_nothing_to_draw(evidence: ProfileEvidence) -> None:
    _, names = accuracy.PANELS["Delay below the threshold"]
    assert accuracy.table((), names).height == 0
    assert tables.errors(()) == []


def test_the_axis_ends_where_a_wild_error_would_squeeze_the_rest(evidence: ProfileEvidence) -> None:
    _, names = accuracy.PANELS["Delay below the threshold"]
    table = accuracy.table(evidence.deviations, names)
    wild = table.with_columns(high_percent=table["high_percent"] * 1e4)
    boxes = accuracy.letter_value_plot(wild, "measured").to_dict()["layer"][1]
    low, high = boxes["encoding"]["x"]["scale"]["domain"]
    assert -100 <= low < 0
    assert high == 1000
