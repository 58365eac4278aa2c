from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weirlab.measure import sequence
from weirlab.measure.attempts import Budget
from weirlab.measure.sequence import Part, RetryBudget
from weirlab.measure.terms import TrialClocks, TrialTerms
from weirlab.measure.validity import CAREFUL_LIMITS, ValidityLimits, judge
from weirlab.records import HostSample
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeClock, make_spec
from weirlab.testing.results import make_result

QUIET = HostSample(wall_s=0.3, cpu_s={}, dut_wait_s=0.0, handover_ns=66.0, handover_change=1.02)


class Moving(FakeBed):
    """A bed on a host that comes back to the first state after a while."""

    def __init__(self, clock: FakeClock, back_s: float) -> None:
        super().__init__()
        self.now, self.back_s = clock, back_s

    def host(self) -> HostSample:
        return replace(super().host(), handover_ns=66.0 if self.now() >= self.back_s else 245.0)


def patience(clock: FakeClock, seconds: float) -> RetryBudget:
    return RetryBudget(seconds, clock, clock.advance)


def test_waiting_ends_when_the_host_is_back() -> None:
    clock, told = FakeClock(), []
    begun = clock()
    assert patience(clock, 60).wait_for(Moving(clock, begun + 5), 66.0, told.append)
    assert 5 <= clock() - begun < 6
    assert told[0] == "waiting for the host: its CPUs are 245 ns apart, not 66 ns"


def test_waiting_ends_when_the_patience_is_used_up() -> None:
    clock = FakeClock()
    begun = clock()
    left = patience(clock, 3)
    assert not left.wait_for(Moving(clock, begun + 100), 66.0, lambda text: None)
    assert 3 <= clock() - begun < 4
    assert not left.wait_for(Moving(clock, begun), 66.0, lambda text: None)


def test_a_host_that_does_not_tell_is_never_waited_for() -> None:
    clock = FakeClock()
    begun = clock()
    assert patience(clock, 3).wait_for(FakeBed(), 66.0, lambda text: None)
    assert clock() == begun


def test_a_device_that_had_to_wait_for_its_cpu_spoils_a_trial() -> None:
    result = make_result()
    assert judge(result, QUIET, result.achieved_pps) == ()
    (reason,) = judge(result, replace(QUIET, dut_wait_s=0.005), result.achieved_pps)
    assert reason == "other work had the device's CPU for 5.00 ms (at most 3.00 ms)"


def test_trials_for_a_model_bear_less_waiting_than_single_ones() -> None:
    result, host = make_result(), replace(QUIET, dut_wait_s=0.0015)
    assert judge(result, host, result.achieved_pps) == ()
    (reason,) = judge(result, host, result.achieved_pps, CAREFUL_LIMITS)
    assert reason == "other work had the device's CPU for 1.50 ms (at most 0.30 ms)"


def test_in_overload_waiting_only_costs_throughput() -> None:
    result = make_result(loss_ratio=0.4)
    assert result.loss_ratio > ValidityLimits().overload_loss
    assert judge(result, replace(QUIET, dut_wait_s=0.0015), result.achieved_pps, CAREFUL_LIMITS) == ()


def test_a_host_that_moves_its_cpus_spoils_a_trial() -> None:
    result = make_result()
    (reason,) = judge(result, replace(QUIET, handover_change=3.7), result.achieved_pps)
    assert "moved the CPUs" in reason
    assert "3.7" in reason


def test_held_out_trials_of_another_state_are_made_again_within_the_budget(tmp_path: Path) -> None:
    clock = FakeClock()
    specs = [make_spec(rate_pps=rate, duration_s=0.1) for rate in (1e4, 2e4, 3e4)]
    clocks = TrialClocks(clock, clock.advance)
    bed = Moving(clock, back_s=0.0)
    bed._clock = clock
    with Store(tmp_path).create("profile", {}, {}) as writer:
        sequence.run(bed, specs, writer, Part("profile", "plan"), terms=TrialTerms(clocks=clocks))
        bed.back_s = clock() + 3
        terms = TrialTerms(max_attempts=None, budget=Budget(60, clock), clocks=clocks)
        outcome = sequence.run(bed, specs, writer, Part("verify", "verify-plan", 3), terms=terms)
    assert outcome.invalid == ()
    assert outcome.attempts > 3
    assert outcome.elapsed_s < 6
