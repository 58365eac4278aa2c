from __future__ import annotations

import json
import math
from dataclasses import replace

import polars as pl
import pytest

from weirlab.base.errors import LabError
from weirlab.calls.failover.fakes import SwitchBehaviour, SwitchFault, instant
from weirlab.calls.failover.switches.compare import compare, conclusions
from weirlab.calls.failover.switches.plan import FailoverPlan, PairSpec, plan
from weirlab.calls.failover.switches.rows import CALLS as CALLS_TABLE
from weirlab.calls.failover.switches.rows import SERIES, SWITCHES, SwitchRow
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.measure.progress import TrialProgress
from weirlab.store import RunWriter
from weirlab.store.frames import rows_of

from .conftest import CALLS, CONDITIONS, QUICK, TIMING, Pairs, Run

HALF_SECOND = SwitchBehaviour({"soft": 0.0, "hard": 0.5, "return": 0.25})
STREAMS = 2 * CALLS.count


def test_a_sudden_death_is_measured_from_its_instant(run: Run) -> None:
    (row,) = run(Pairs(HALF_SECOND))
    assert row.valid, row.invalid
    # One packet of some call per half a millisecond.
    assert row.outage_ns == pytest.approx(0.5e9, abs=1e6)
    assert row.resumed_ns == pytest.approx(0.5e9, abs=1e6)
    assert row.gap_p50_ns == pytest.approx(0.5e9, abs=20e6)
    assert row.gap_max_ns <= 0.52e9
    assert row.excess_p50_ns == row.gap_p50_ns - 20e6
    assert row.lost == row.lost_forward + row.lost_back == STREAMS * 25
    assert row.glitch_ms == pytest.approx(500, rel=0.01)
    assert row.moved_lan_ns == row.moved_wan_ns == pytest.approx(0.5e9)
    assert (row.old_master, row.new_master, row.firewall) == ("a", "b", "a")
    assert row.streams == row.alive == STREAMS
    assert row.dead == 0
    assert row.states_known == row.states_surviving == CALLS.count
    assert row.event_at_ns == pytest.approx(TIMING.event_s * 1e9, abs=1e3)
    assert row.expected_from_s < row.expected_to_s == pytest.approx(0.36, abs=0.01)


def test_what_callers_heard_is_told_before_in_and_after_the_affected_seconds(run: Run) -> None:
    (row,) = run(Pairs(HALF_SECOND))
    assert row.mos_before > 4.3
    assert row.mos_affected < row.mos_before - 0.2
    assert row.mos_after == pytest.approx(row.mos_before, abs=0.01)
    assert row.affected_to_ns == 5e9
    assert row.during_to_ns == pytest.approx(1.5e9, abs=25e6)
    assert row.jitter_before_ns == row.jitter_after_ns == 0


def test_a_soft_switch_without_a_gap_loses_nothing(run: Run) -> None:
    (row,) = run(Pairs(HALF_SECOND), ("soft",))
    assert row.valid, row.invalid
    assert row.lost == 0
    assert row.gap_max_ns == 20e6
    assert row.excess_max_ns == 0
    assert (row.expected_from_s, row.expected_to_s) == (0, 0)


def test_a_state_of_nobodys_call_is_not_waited_for_or_counted(run: Run) -> None:
    (row,) = run(Pairs(HALF_SECOND))
    assert (row.states_known, row.states_surviving, row.states_new_master) == (CALLS.count,) * 3


def test_directions_are_told_apart(run: Run) -> None:
    (row,) = run(Pairs(replace(HALF_SECOND, back_extra_s=0.2)))
    assert row.outage_forward_ns == pytest.approx(0.5e9, abs=1e6)
    assert row.outage_back_ns == pytest.approx(0.7e9, abs=1e6)
    assert row.outage_ns == row.outage_back_ns
    assert row.lost_back - row.lost_forward == CALLS.count * 10


def test_copies_and_disorder_behind_the_switch_are_counted(run: Run) -> None:
    (row,) = run(Pairs(replace(HALF_SECOND, copies_after=7)))
    assert row.duplicated == 7
    assert row.lost == STREAMS * 25


def test_without_shared_states_streams_die_where_admission_is_closed(run: Run) -> None:
    alone = replace(HALF_SECOND, shares_states=False)
    pair = PairSpec(Keepalived(advert_s=0.1), Conntrackd(mode="off"))
    (row,) = run(Pairs(alone), pair=pair)
    assert row.valid, row.invalid
    assert (row.alive, row.dead) == (0, STREAMS)
    assert row.states_surviving == 0
    assert math.isnan(row.resumed_ns)
    assert row.mos_affected == 1
    (group,) = compare([row])
    assert f"every one of {STREAMS} streams died in the one run" in next(iter(conclusions([group])))


def test_where_admission_stays_open_udp_makes_its_states_anew(run: Run) -> None:
    alone = Pairs(replace(HALF_SECOND, shares_states=False))
    (row,) = run(alone, conditions=replace(CONDITIONS, close_admission=False))
    assert (row.alive, row.dead) == (STREAMS, 0)
    assert not row.admission_closed


def test_the_return_begins_with_the_other_firewall_as_master(run: Run) -> None:
    pairs = Pairs(HALF_SECOND)
    (row,) = run(pairs, ("return",))
    assert (row.old_master, row.new_master) == ("b", "a")
    assert [event.kind for event in pairs.opened[0].events] == ["hard", "return"]
    assert row.outage_ns == pytest.approx(0.25e9, abs=1e6)


@pytest.mark.parametrize(
    ("mishap", "reason"),
    [
        (SwitchFault(took_ns=60_000_000), "cutting the master off took 60.0 ms"),
        (SwitchFault(away_ns=40_000_000), "sender late: a stream fell 40.0 ms behind its pace"),
        (SwitchFault(steal_s=1.0), "1000 ms stolen from the sender's CPU"),
        (SwitchFault(steal_s=0.04), "40 ms stolen from the sender's CPU (at most 30 ms)"),
        (SwitchFault(steal_s=0.04, steal_after_s=0.1), "40 ms stolen from a CPU while the pair switched"),
        (SwitchFault(lost_before=20), "20 of "),
        (SwitchFault(stays=True), "nothing was switched: the other firewall did not get the addresses"),
    ],
)
def test_a_disturbed_switch_is_kept_with_its_reason_and_repeated(
    run: Run, writer: RunWriter, mishap: SwitchFault, reason: str
) -> None:
    pairs = Pairs(HALF_SECOND, [mishap])
    spoiled, repeated = run(pairs)
    assert not spoiled.valid
    assert reason in spoiled.invalid
    assert repeated.valid
    assert (spoiled.attempt, repeated.attempt) == (1, 2)
    assert len(pairs.opened) == 2
    assert all(pair.closed == 1 for pair in pairs.opened)
    assert writer.run.trials()["valid"].to_list() == [False, True]


@pytest.mark.parametrize("steal_after_s", [-1.0, 2.0])
def test_time_that_is_seen_to_be_stolen_elsewhere_does_not_spoil_a_switch(
    run: Run, steal_after_s: float
) -> None:
    (row,) = run(Pairs(HALF_SECOND, [SwitchFault(steal_s=0.04, steal_after_s=steal_after_s)]))
    assert row.valid


def test_a_switch_that_stays_spoiled_does_not_stop_the_others(run: Run, writer: RunWriter) -> None:
    always = [SwitchFault(away_ns=10**9)] * CONDITIONS.max_attempts
    rows = run(Pairs(HALF_SECOND, always), ("hard",), repetitions=2)
    assert [row.repetition for row in rows if row.valid] == [2]
    assert writer.done == {1}


def test_a_pair_that_never_works_is_an_error_after_the_last_attempt(run: Run, writer: RunWriter) -> None:
    broken = SwitchFault(fails=LabError("keepalived of a ended by itself"))
    with pytest.raises(LabError, match="ended by itself"):
        run(Pairs(HALF_SECOND, [None, *[broken] * CONDITIONS.max_attempts]), repetitions=2)
    assert writer.run.table(SWITCHES)["valid"].to_list() == [True]


def test_finished_switches_are_not_repeated(run: Run, writer: RunWriter) -> None:
    switches = plan([QUICK], ("soft", "hard"), 2, seed=1)
    run(Pairs(HALF_SECOND, []), switches=switches[:3])
    pairs = Pairs(HALF_SECOND)
    found = run(pairs, switches=switches)
    assert len(pairs.opened) == 1
    assert [row.index for row in found] == [0, 1, 2, 3]
    assert writer.run.table(SWITCHES)["trial_id"].n_unique() == 4


def test_ctrl_c_keeps_what_is_done(run: Run, writer: RunWriter) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Pairs(HALF_SECOND, [None, SwitchFault(fails=KeyboardInterrupt())]), repetitions=3)
    assert writer.run.table(SWITCHES).height == 1
    assert writer.done == {0}


def test_tables_have_a_row_per_call_and_direction_and_per_bin(run: Run, writer: RunWriter) -> None:
    (row,) = run(Pairs(HALF_SECOND))
    calls = writer.run.table(CALLS_TABLE)
    assert calls.height == STREAMS
    assert calls.filter("back").height == CALLS.count
    assert calls["gap_ns"].median() == row.gap_p50_ns
    assert calls["lost"].sum() == row.lost
    assert calls["mos"].null_count() == 0
    series = writer.run.table(SERIES)
    assert series["lost"].sum() == row.lost
    assert series.filter(pl.col("start_ns") == -1_000_000_000).height == 2
    again = rows_of(SwitchRow, writer.run.table(SWITCHES))
    assert json.dumps([vars(r) for r in again]) == json.dumps([vars(row)])


def test_progress_counts_switches_and_tells_the_time_left(run: Run) -> None:
    told: list[TrialProgress] = []
    run(Pairs(HALF_SECOND), repetitions=3, told=told.append)
    assert told[-1].done == told[-1].total == 3
    assert told[-1].left_s == 0
    middle = next(each for each in told if each.done == 1)
    assert middle.left_s == pytest.approx(2 * middle.elapsed_s, rel=0.05)


def test_a_pair_within_its_timers_and_one_beyond(run: Run) -> None:
    prompt = run(Pairs(instant(Keepalived(advert_s=0.1))), repetitions=3)
    (group,) = compare(prompt)
    assert group.within_timers
    assert "as the timers say" in next(iter(conclusions([group])))
    latest = group.expected_s[1]
    late = [replace(row, resumed_ns=latest * 1.5e9, outage_ns=latest * 1.5e9) for row in prompt]
    (slow,) = compare(late)
    assert slow.within_timers is False
    assert slow.timers_off == pytest.approx(0.5)
    assert "50 % later than the timers say" in next(iter(conclusions([slow])))


def test_every_stream_died_is_told_only_where_every_stream_of_every_run_did(run: Run) -> None:
    (row,) = run(Pairs(HALF_SECOND))
    most = replace(row, alive=0, dead=STREAMS)
    (group,) = compare([most, most, replace(row, alive=1, dead=STREAMS - 1)])
    assert f"{STREAMS - 1} to {STREAMS} of {STREAMS} streams died" in next(iter(conclusions([group])))


def test_a_firewall_that_comes_back_and_does_not_preempt_need_not_take_over(run: Run) -> None:
    pair = PairSpec(Keepalived(advert_s=0.1, preempt=False))
    (row,) = run(Pairs(HALF_SECOND, [SwitchFault(stays=True)]), ("return",), pair=pair)
    assert "nothing was switched" not in row.invalid


def test_every_kind_with_every_pair_in_each_round_and_not_always_in_one_order() -> None:
    pairs = [QUICK, PairSpec(Ucarp())]
    switches = plan(pairs, ("soft", "hard"), 7, seed=3)
    assert [planned.index for planned in switches] == list(range(28))
    rounds = [[(p.pair, p.kind) for p in switches if p.repetition == n] for n in range(1, 8)]
    assert all(len(set(each)) == 4 for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1


def test_pairs_are_compared_where_one_setting_differs(run: Run) -> None:
    slow, alone = PairSpec(Keepalived()), PairSpec(Keepalived(advert_s=0.1), Conntrackd(mode="off"))
    run(Pairs(HALF_SECOND))
    run(Pairs(SwitchBehaviour({"soft": 0, "hard": 3.0, "return": 0})), switches=only(slow, 1))
    forgetful = Pairs(replace(HALF_SECOND, shares_states=False))
    rows = run(forgetful, switches=only(alone, 2))
    told = list(conclusions(compare(rows)))
    assert any(
        "every 0.1 s instead of every 1 s" in text and "from 3.00 s to 500 ms" in text for text in told
    )
    assert any("100 % of the streams go on with conntrackd, 0 % without it" in text for text in told)


def only(pair: PairSpec, index: int) -> tuple[FailoverPlan, ...]:
    return (FailoverPlan(index, pair, "hard", 1),)


def test_events_fall_anywhere_between_two_advertisements() -> None:
    pairs = [PairSpec(Keepalived(advert_s=0.1), name="fast"), PairSpec(Keepalived(advert_s=1.0), name="slow")]
    early = {
        name: [planned.early_s for planned in plan(pairs, ("hard",), 50, 1) if planned.pair.name == name]
        for name in ("fast", "slow")
    }
    for name, advert_s in (("fast", 0.1), ("slow", 1.0)):
        assert 0 <= min(early[name]) < 0.1 * advert_s
        assert 0.9 * advert_s < max(early[name]) < advert_s
