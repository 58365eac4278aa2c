"""The answer and the figures' titles: computed from the data, true in odd cases too."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from weirlab.devices.profile.page import conditions, summary, takeaways, tell
from weirlab.devices.profile.page import drawing as figure
from weirlab.devices.profile.page.source import ProfileEvidence, gather


@pytest.fixture(scope="module")
def evidence(small_run, models) -> ProfileEvidence:
    return gather(small_run, models)


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_the_answer_names_device_loads_and_frames_and_calls_if_the_frames_are_theirs(
    evidence: ProfileEvidence,
) -> None:
    said = [_plain(sentence) for sentence in summary.headline(evidence)]
    assert len(said) == 1
    assert summary.calls_note(evidence) == ""
    assert not [tile for tile in summary.tiles(evidence) if "calls" in tile.note]
    assert said[0].startswith("iptables-legacy carried up to 8")
    assert "with no rules and 2" in said[0]
    assert said[0].endswith("with 1,000 rules without loss (64-byte frames).")
    of_voice = replace(
        evidence,
        profile=evidence.profile.with_columns(frame_bytes=pl.lit(218.0)),
        heldout=evidence.heldout.with_columns(frame_bytes=pl.lit(218.0)),
    )
    said = [_plain(sentence) for sentence in summary.headline(of_voice)]
    assert "simultaneous G.711 calls with no rules" in said[1]
    assert "each call" in _plain(summary.calls_note(of_voice))
    assert "100 packets/s per call (both directions)" in said[1]


@pytest.mark.parametrize(("pps", "calls"), [(829_600, 8290), (99, 0), (100, 1), (123_456, 1230)])
def test_calls_count_both_directions_and_are_rounded_down(pps: float, calls: int) -> None:
    assert summary.calls_both_ways(pps) == calls


def test_a_simulated_device_is_never_called_by_a_real_name(simulated_run, models) -> None:
    evidence = gather(simulated_run, models)
    assert summary.headline(evidence)[0].startswith("The simulated device carried")
    assert "simulated" in tell(evidence).place
    assert not [drawn for drawn in figure.draw(evidence) if drawn.section == "cpu"]


def test_without_trials_there_is_no_answer(evidence: ProfileEvidence) -> None:
    nothing = replace(evidence, profile=evidence.profile.head(0), heldout=evidence.heldout.head(0))
    assert summary.headline(nothing) == [
        "There is no valid trial, so there is nothing to say about the device yet."
    ]


def test_a_device_that_always_loses_is_said_to_do_so(evidence: ProfileEvidence) -> None:
    lossy = replace(evidence, profile=evidence.profile.filter("overload"))
    assert "lost packets even at the lowest load tested" in summary.headline(lossy)[0]


def test_a_device_that_was_never_overloaded_carried_at_least_so_much(evidence: ProfileEvidence) -> None:
    calm = replace(evidence, profile=evidence.profile.filter(pl.col("lost") == 0))
    assert "up to at least" in summary.headline(calm)[0]
    assert "did not overload the device" in takeaways.delay(calm.profile)
    assert "its threshold is unknown" in takeaways.threshold(calm.profile, calm.heldout.head(0))


def test_a_device_that_fails_only_with_rules_is_described_in_one_sentence(evidence: ProfileEvidence) -> None:
    keep = (pl.col("position") < 1000) | pl.col("overload")
    said = _plain(summary.headline(replace(evidence, profile=evidence.profile.filter(keep)))[0])
    assert "but lost packets at every load tested with 1,000 rules" in said


def test_the_users_own_ruleset_is_not_called_no_rules(small_run, models) -> None:
    own = small_run.frame.with_columns(dut=pl.lit("ruleset"), position=pl.lit(0))
    evidence = gather(replace(small_run, frame=own), models)
    text = " ".join(_plain(s) for s in summary.headline(evidence))
    assert "with the ruleset" in text
    assert "no rules" not in text + " ".join(drawn.title for drawn in figure.draw(evidence))


def test_stateful_settings_are_told_apart_where_both_were_tested(small_run, models) -> None:
    stateful = small_run.frame.with_columns(stateful=pl.lit(True), trial_id=pl.col("trial_id") + "s")
    evidence = gather(replace(small_run, frame=pl.concat([small_run.frame, stateful])), models)
    assert {"0", "0 stateful", "1,000 stateful"} <= set(evidence.profile["setup"].to_list())


def test_titles_are_sentences_with_numbers(evidence: ProfileEvidence) -> None:
    drawn = figure.draw(evidence)
    sections = {one.section for one in drawn}
    assert sections == {
        "delay", "loss", "threshold", "verification-curves", "verification", "accuracy", "distribution",
        "cpu", "positions",
    }  # fmt: skip
    for one in drawn:
        assert one.title.endswith("."), one.key
        assert any(character.isdigit() for character in one.title), one.key
        assert one.alt, one.key
        assert one.data.height, one.key
    assert len({one.key for one in drawn}) == len(drawn)


def test_the_cost_of_a_rule_is_that_of_the_law(evidence: ProfileEvidence) -> None:
    title = _plain(takeaways.threshold(evidence.profile, evidence.heldout))
    assert title.endswith("on average each rule costs 2.5 ns per packet.") or "2.4 ns" in title


def test_the_better_model_has_the_smaller_error_in_every_sentence(evidence: ProfileEvidence) -> None:
    tile = next(t for t in summary.tiles(evidence) if t.label.startswith("Prediction error"))
    assert tile.note.startswith("queueing model")


def test_many_trials_without_a_valid_attempt_are_warned_of_with_the_reason(evidence: ProfileEvidence) -> None:
    assert summary.caution(evidence) == ""
    kept = pl.col("index") % 4 != 0
    why = (
        pl.when(kept)
        .then(pl.lit(""))
        .otherwise(pl.lit("the host was in another state: 285 ns, 55 ns usually"))
    )
    said = summary.caution(
        replace(evidence, attempts=evidence.attempts.with_columns(valid=kept, invalid=why))
    )
    assert "never got a valid attempt; the most frequent reason: the host was in another state." in said


def test_a_load_step_has_no_place_on_a_load_axis(small_run, models) -> None:
    stepped = small_run.frame.with_columns(
        spec=pl.lit('{"traffic": {"steps": [{"at_s": 1.0, "rate": {"value": 1e5, "unit": "pps"}}]}}')
    )
    assert gather(replace(small_run, frame=stepped), models).profile.height == 0


def test_spoiled_attempts_are_counted_with_their_reasons(evidence: ProfileEvidence) -> None:
    text, tables = conditions.invalid(evidence)
    assert _plain(text).startswith(
        "2 attempts of 230 (0.87 %) were spoiled by the host. 2 attempts were made good"
    )
    assert {row[0] for row in tables[0].rows} == {"steal … % of the sender's core", "sender late"}
    assert len(tables[1].rows) == 2


def test_a_run_without_spoiled_attempts_says_so(evidence: ProfileEvidence) -> None:
    clean = replace(evidence, attempts=evidence.attempts.filter("valid"))
    assert conditions.invalid(clean) == ("None of 228\u00a0attempts was spoiled by the host.", [])


def test_facts_get_units_from_their_names(evidence: ProfileEvidence) -> None:
    told = {label: _plain(value) for label, value in conditions.setting(evidence)}
    assert told["MTU"] == "2,048 B"
    assert told["Threaded NAPI"] == "yes"
    assert told["Rule counts"] == "0, 50, 100, 200, 400 and 1,000"
    assert "Command" not in told


def test_the_calibration_in_force_is_told_in_units(evidence: ProfileEvidence) -> None:
    pairs, table = conditions.calibration(evidence)
    told = {label: _plain(value) for label, value in pairs}
    assert told["Time-stamp error, median"] == "780 ns"
    assert told["Largest pacing error"] == "0.21 %"
    assert table is not None
    assert table.rows[0][0] == "100kpps"
