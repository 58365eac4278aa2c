from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.traffic.plan import NEXT_FLOW, DeparturePlan
from weirlab.traffic.schedule import PATTERN_ENTRIES, compile_plan
from weirlab.traffic.sizes import SIMPLE_IMIX, Constant, PoissonSizes
from weirlab.traffic.spec import Flows, LoadStep, Rate, Traffic


def gaps_ns(plan: DeparturePlan, phase: int = 0) -> npt.NDArray[np.float64]:
    _, first, n = plan.phases[phase]
    return (plan.gap_ns.astype(np.float64) + plan.gap_frac / 65536)[first : first + n]


def test_constant_load_and_size_is_one_entry() -> None:
    plan = compile_plan(Traffic(Rate(2e6), warmup_s=0.5, duration_s=2.0))
    assert (plan.gap_ns.tolist(), plan.gap_frac.tolist(), plan.frame_bytes.tolist()) == ([500], [0], [64])
    assert plan.flow.tolist() == [NEXT_FLOW]
    assert plan.phases == [(2_500_000_000, 0, 1)]
    assert plan.paced
    assert (plan.warmup_ns, plan.duration_ns, plan.bin_ns) == (500_000_000, 2_000_000_000, 2_000_000)
    assert plan.windowed
    assert plan.nominal_pps == 2e6


def test_arrays_have_the_widths_that_the_engine_reads() -> None:
    plan = compile_plan(Traffic(Rate(1e5), sizes=SIMPLE_IMIX, arrivals="poisson"))
    dtypes = [a.dtype for a in (plan.gap_ns, plan.gap_frac, plan.frame_bytes, plan.flow)]
    assert dtypes == [np.uint32, np.uint16, np.uint16, np.uint32]
    assert {len(a) for a in (plan.gap_ns, plan.gap_frac, plan.frame_bytes, plan.flow)} == {PATTERN_ENTRIES}


@given(st.floats(20.0, 2e7), st.sampled_from(["constant", "poisson"]))
def test_mean_gap_is_that_of_the_nominal_rate(pps: float, arrivals: str) -> None:
    traffic = Traffic(Rate(pps), arrivals="poisson" if arrivals == "poisson" else "constant", duration_s=10.0)
    assert 1e9 / gaps_ns(compile_plan(traffic)).mean() == pytest.approx(pps, rel=1e-6)


def test_poisson_gaps_are_exponential() -> None:
    gaps = gaps_ns(compile_plan(Traffic(Rate(1e5), arrivals="poisson")))
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)
    assert np.median(gaps) / gaps.mean() == pytest.approx(math.log(2), abs=0.03)


def test_mixed_sizes_keep_constant_gaps_and_fill_the_bit_rate() -> None:
    plan = compile_plan(Traffic(Rate(300e6, "bps"), sizes=SIMPLE_IMIX))
    gaps = gaps_ns(plan)
    assert np.ptp(gaps) <= 1 / 65536 + 1e-9
    bits = (plan.frame_bytes.astype(float) + 20) * 8
    assert bits.mean() / gaps.mean() * 1e9 == pytest.approx(300e6, rel=1e-3)


def test_unpaced_load_has_no_nominal_rate() -> None:
    plan = compile_plan(Traffic(Rate(0.0, "max"), sizes=SIMPLE_IMIX))
    assert not plan.paced
    assert math.isinf(plan.nominal_pps)
    assert len(plan.frame_bytes) == PATTERN_ENTRIES


def test_each_step_is_a_phase_and_the_warmup_belongs_to_the_first_load() -> None:
    traffic = Traffic(
        Rate(1e5), steps=(LoadStep(0.5, Rate(2e5)), LoadStep(1.5, Rate(4e5))), warmup_s=1.0, duration_s=2.0
    )
    plan = compile_plan(traffic)
    assert plan.phases == [(1_500_000_000, 0, 1), (2_500_000_000, 1, 1), (3_000_000_000, 2, 1)]
    assert plan.gap_ns.tolist() == [10_000, 5_000, 2_500]
    assert plan.nominal_pps == pytest.approx((0.5 * 1e5 + 1.0 * 2e5 + 0.5 * 4e5) / 2)


def test_a_step_at_the_start_of_recording_leaves_the_warmup_alone() -> None:
    plan = compile_plan(Traffic(Rate(1e5), steps=(LoadStep(0.0, Rate(2e5)),), warmup_s=0.5, duration_s=1.0))
    assert plan.phases == [(500_000_000, 0, 1), (1_500_000_000, 1, 1)]
    assert plan.nominal_pps == pytest.approx(2e5)


def test_without_warmup_a_step_at_zero_replaces_the_first_load() -> None:
    plan = compile_plan(Traffic(Rate(1e5), steps=(LoadStep(0.0, Rate(2e5)),), warmup_s=0.0, duration_s=1.0))
    assert plan.phases == [(1_000_000_000, 0, 1)]
    assert plan.gap_ns.tolist() == [5_000]


def test_the_seed_alone_decides_a_random_pattern() -> None:
    traffic = Traffic(Rate(1e5), sizes=PoissonSizes(64, 200, 132.0), arrivals="poisson")
    first, again = compile_plan(traffic), compile_plan(traffic)
    other = compile_plan(replace(traffic, seed=2))
    assert (first.gap_ns == again.gap_ns).all()
    assert (first.frame_bytes == again.frame_bytes).all()
    assert (first.gap_ns != other.gap_ns).any()


@pytest.mark.parametrize(
    ("flows", "named"),
    [(Flows(l4="tcp"), "TCP/IPv4 probe takes 76"), (Flows(ip=6), "UDP/IPv6 probe takes 84")],
)
def test_frames_too_small_for_the_probe_are_refused(flows: Flows, named: str) -> None:
    with pytest.raises(InputError, match=named):
        compile_plan(Traffic(Rate(1e3), sizes=Constant(64), flows=flows))


@pytest.mark.parametrize(
    ("traffic", "named"),
    [
        (Traffic(Rate(0.2), duration_s=30.0), "too slow"),
        (Traffic(Rate(1e15)), "use 'max'"),
        (Traffic(Rate(1.0), duration_s=0.1), "no packet would be sent"),
        (Traffic(Rate(1e3), duration_s=0.0), "duration"),
        (Traffic(Rate(1e3), duration_s=math.nan), "duration"),
        (Traffic(Rate(1e3), warmup_s=-1.0), "warm-up"),
        (Traffic(Rate(1e3), steps=(LoadStep(2.0, Rate(1e4)),)), "step at 2 s"),
        (Traffic(Rate(1e3), steps=(LoadStep(1.0, Rate(1e4)), LoadStep(0.5, Rate(1e4)))), "ascending order"),
        (Traffic(Rate(0.0, "max"), steps=(LoadStep(1.0, Rate(1e4)),)), "'max' cannot be paced"),
        (Traffic(Rate(1e3), steps=(LoadStep(1.0, Rate(-1.0)),)), "-1pps"),
    ],
)
def test_traffic_that_cannot_be_sent_is_refused(traffic: Traffic, named: str) -> None:
    with pytest.raises(InputError, match=named):
        compile_plan(traffic)
