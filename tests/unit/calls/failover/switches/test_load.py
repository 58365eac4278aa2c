from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError, TrialError
from weirlab.calls.failover.fakes import SwitchBehaviour, SwitchFault
from weirlab.calls.failover.study import load_text
from weirlab.calls.failover.switches.load import CallDemand, CommonLoad, find_load
from weirlab.calls.failover.switches.plan import Timing
from weirlab.store import RunWriter
from weirlab.traffic.spec import Traffic

from .conftest import CALLS, QUICK, Pairs, traffic

MANNER = SwitchBehaviour({"soft": 0.0, "hard": 0.5, "return": 0.0})


def of(calls: int) -> Traffic:
    return traffic(replace(CALLS, count=calls), 0.2)


def search(writer: RunWriter, pairs: Pairs, wanted: int, share: float | None = None) -> CommonLoad:
    return find_load(pairs, [QUICK, QUICK], CallDemand(wanted, of, share), writer, lambda _: None)


def test_what_every_pair_carries_is_taken_as_asked(writer: RunWriter) -> None:
    load = search(writer, Pairs(MANNER), 400)
    assert (load.calls, load.reduced, load.limited_by) == (400, False, "")
    assert load.carried is None
    assert load.offered_pps == 400 * 2 * 50
    assert writer.run.trials().height == 4  # two of three trials settle it, for each pair


def test_else_the_most_that_is_carried_is_found(writer: RunWriter) -> None:
    load = search(writer, Pairs(replace(MANNER, carries_calls=290)), 400)
    assert load.reduced
    assert load.carried is not None
    assert 0.97 * 290 <= load.carried <= 290
    # A pair at its limit would lose packets before the event.
    assert load.calls == int(0.9 * load.carried)
    assert load.offered_pps == load.calls * 2 * 50
    assert load.limited_by == QUICK.text
    assert not load.by_host
    assert load.why.endswith("packets lost")
    assert set(writer.run.trials()["role"]) == {"search"}


def test_a_load_that_only_the_host_limits_is_not_told_as_what_the_pair_carries(writer: RunWriter) -> None:
    # Two trials of 400 calls, spoiled in each of three attempts; everything smaller goes through.
    load = search(writer, Pairs(MANNER, [SwitchFault(steal_s=1.0)] * 6), 400)
    assert load.reduced
    assert load.by_host
    assert load.carried is not None
    assert load.calls < load.carried < 400
    assert "stolen" in load.why
    assert typed(CommonLoad, plain(load)) == load


def test_other_work_speaks_against_a_pair_only_if_it_loses_packets(writer: RunWriter) -> None:
    busy = [SwitchFault(wait_s=1.0)] * 4
    assert search(writer, Pairs(MANNER, busy), 400).calls == 400
    assert writer.run.trials()["valid"].all()
    less = search(writer, Pairs(replace(MANNER, carries_calls=290), busy), 400)
    assert less.calls < 290
    assert not writer.run.trials()["valid"].all()


def test_a_pair_that_carries_nothing_is_an_error(writer: RunWriter) -> None:
    with pytest.raises(TrialError, match="as few as 10 calls"):
        search(writer, Pairs(replace(MANNER, carries_calls=0)), 400)


def test_a_trial_that_ends_before_the_pair_can_have_switched_is_refused() -> None:
    with pytest.raises(Exception, match="give at least 18 s"):
        Timing(after_s=12).check(12.0, "a slow pair")
    Timing(after_s=12).check(4.0, "a quick pair")


def test_the_reason_for_a_trial_that_is_too_short_is_the_one_that_binds() -> None:
    with pytest.raises(InputError, match=r"its timers take up to 12 s"):
        Timing(after_s=12).check(12.0, "a slow pair")
    with pytest.raises(InputError, match=r"what is heard in 10 s from the event on .* give at least 12 s"):
        Timing(after_s=6).check(0.4, "a quick pair")


@pytest.mark.parametrize(("carries", "calls"), [(1000, 240), (290, 174)])
def test_without_a_number_a_share_of_what_all_pairs_carry_is_made(
    writer: RunWriter, carries: int, calls: int
) -> None:
    load = search(writer, Pairs(replace(MANNER, carries_calls=carries)), 400, share=0.6)
    assert load.calls == pytest.approx(calls, rel=0.03)
    assert not load.reduced
    assert load.carried is not None
    assert load.calls == int(0.6 * load.carried)
    assert "60 % of the " in load_text(load)
    assert typed(CommonLoad, plain(load)) == load
