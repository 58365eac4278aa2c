"""Comparisons of made-up runs: how often they are wrong, on a host as noisy as one that was recorded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from weirlab.model.comparing.matching import LOAD, Compared, ComparisonSetting, SettingMeasurement, digest
from weirlab.model.comparing.scatter import PUBLISHED, published, trimmed_mean
from weirlab.model.comparing.verdicts import (
    GOOD,
    ComparisonFinding,
    ComparisonTerms,
    Verdict,
    compare,
    overall,
)
from weirlab.records import Observation

from .made import NOISY, QUIET, Host, profile

Digest = Mapping[ComparisonSetting, SettingMeasurement]

COMPARISONS = 100
SLOWER = 1.1
"""Every packet takes a tenth longer."""


def run(seed: int, slower: float = 1.0, host: Host = NOISY, **settings: object) -> Digest:
    draw = np.random.default_rng([seed, 2544])
    return digest(profile(draw, slower=slower, host=host, **settings), same_load=False)  # type: ignore[arg-type]


def verdict(before: Digest, after: Digest, terms: ComparisonTerms | None = None) -> Verdict:
    return overall(compare([before], [after], terms or ComparisonTerms(), same_load=False))


def by_quantity(findings: list[ComparisonFinding]) -> dict[Compared, ComparisonFinding]:
    return {found.quantity: found for found in findings}


@pytest.fixture(scope="module")
def usual() -> list[Digest]:
    """Twice as many runs of one device as there are comparisons."""
    return [run(seed) for seed in range(2 * COMPARISONS)]


@pytest.fixture(scope="module")
def slowed() -> list[Digest]:
    """Runs of the same device after a slowdown."""
    return [run(seed, SLOWER) for seed in range(1000, 1000 + COMPARISONS)]


def test_the_made_up_host_scatters_as_the_recorded_one(usual: list[Digest]) -> None:
    pairs = list(zip(usual[::2], usual[1::2], strict=True))
    for quantity, real in PUBLISHED.items():
        made, _ = published(pairs, quantity)
        assert made.run == pytest.approx(real.run, rel=0.3)
        assert made.place == pytest.approx(real.place, rel=0.3)


def test_at_most_2_of_100_comparisons_of_a_device_with_itself_raise_a_false_alarm(
    usual: list[Digest],
) -> None:
    found = Counter(verdict(*pair) for pair in zip(usual[::2], usual[1::2], strict=True))
    assert found["worse"] <= 2
    assert found["worse"] + found["better"] <= 3
    assert sum(found[each] for each in GOOD) >= 90


def test_at_least_95_of_100_slowdowns_of_10_percent_are_found(
    usual: list[Digest], slowed: list[Digest]
) -> None:
    found = Counter(verdict(*pair) for pair in zip(usual[:COMPARISONS], slowed, strict=True))
    assert found["worse"] >= 95
    back = Counter(verdict(*pair) for pair in zip(slowed, usual[:COMPARISONS], strict=True))
    assert back["worse"] == 0
    assert back["better"] >= 90


def test_several_runs_of_each_prove_a_narrower_margin(usual: list[Digest]) -> None:
    terms = ComparisonTerms(margins={**ComparisonTerms().margins, "rate": 0.04, "mean": 0.04})
    alone = Counter(verdict(*pair, terms) for pair in zip(usual[:20], usual[20:40], strict=True))
    many = Counter(
        overall(compare(usual[i : i + 3], usual[i + 3 : i + 6], terms, same_load=False))
        for i in range(0, 120, 6)
    )
    assert sum(many[each] for each in GOOD) > sum(alone[each] for each in GOOD)
    assert many["worse"] == 0


def test_the_scatter_comes_from_the_runs_themselves_where_there_are_enough(
    usual: list[Digest], slowed: list[Digest]
) -> None:
    found = by_quantity(compare(usual[:6], slowed[:6], ComparisonTerms(), same_load=False))
    assert found["rate"].source == "these runs"
    assert 0.3 * PUBLISHED["rate"].run < found["rate"].scatter < 4 * PUBLISHED["rate"].run
    assert found["rate"].verdict == "worse"
    single = by_quantity(compare(usual[:1], slowed[:1], ComparisonTerms(), same_load=False))
    assert single["rate"].source == "published runs"
    given = by_quantity(
        compare(usual[:6], slowed[:6], ComparisonTerms(given={"rate": 0.05}), same_load=False)
    )
    assert given["rate"].source == "given"
    assert given["rate"].high - given["rate"].low > single["rate"].high - single["rate"].low


def test_runs_that_scatter_more_than_published_ones_widen_the_interval() -> None:
    """Two runs of each are too few to stand for themselves, but not to be ignored."""
    restless = Host(run=0.08)
    before, after = ([run(seed, host=restless) for seed in seeds] for seeds in ((1, 2), (3, 4)))
    (rate, *_) = compare(before, after, ComparisonTerms(), same_load=False)
    (usual_rate, *_) = compare(before[:1], after[:1], ComparisonTerms(), same_load=False)
    assert rate.source == "these runs"
    assert rate.scatter > 2 * PUBLISHED["rate"].run
    assert rate.high - rate.low > usual_rate.high - usual_rate.low


def test_more_runs_never_tell_less(usual: list[Digest], slowed: list[Digest]) -> None:
    """Student's quantiles for the scatter of a few runs would tell less than one run of each."""
    for runs in (2, 3, 6):
        groups = range(0, 60, runs)
        found = [
            overall(compare(usual[i : i + runs], slowed[i : i + runs], ComparisonTerms(), same_load=False))
            for i in groups
        ]
        assert found.count("worse") >= 0.95 * len(found)


def test_a_device_is_compared_at_the_same_load_though_profiles_place_loads_by_its_speed() -> None:
    before, after = run(1, host=QUIET), run(1, SLOWER, QUIET)
    found = by_quantity(compare([before], [after], ComparisonTerms(simulated=True), same_load=False))
    assert found["rate"].change == pytest.approx(1 / SLOWER - 1, abs=1e-6)
    assert 0.01 < found["mean"].change < SLOWER - 1
    same = by_quantity(compare([before], [before], ComparisonTerms(simulated=True), same_load=False))
    assert [each.change for each in same.values()] == [0.0] * 4
    assert overall(list(same.values())) == "unchanged"


def test_new_loss_below_the_threshold_is_found_though_nothing_became_slower() -> None:
    found = by_quantity(compare([run(5)], [run(6, new_loss=0.005)], ComparisonTerms(), same_load=False))
    assert found["loss"].verdict == "worse"
    assert found["loss"].change == pytest.approx(0.005, abs=0.001)
    assert found["rate"].verdict != "worse"


def test_a_profile_of_one_setting_has_no_certainty_of_many(usual: list[Digest]) -> None:
    one = {"positions": (400,), "frames": (64,), "repetitions": 5}
    found = [
        compare([run(i, **one)], [run(i + 50, **one)], ComparisonTerms(), same_load=False) for i in range(50)
    ]
    assert sum(overall(each) == "worse" for each in found) <= 1
    wide, narrow = (
        by_quantity(found[0])["rate"],
        compare(usual[:1], usual[1:2], ComparisonTerms(), same_load=False)[0],
    )
    assert wide.high - wide.low > narrow.high - narrow.low


def trials(delays_ns: tuple[float, ...], load: str = "200kpps", loss: float = 0.0) -> Digest:
    """A run of single trials: the same load again and again."""
    seen = [
        Observation(2e5, 64.0, 400.0, 2e5 * (1 - loss), loss, ns, ns, ns, 2 * ns, ns / 10, extra={LOAD: load})
        for ns in delays_ns
    ]
    return digest(seen, same_load=True)


def test_repetitions_tell_how_far_single_trials_are_to_be_trusted() -> None:
    tight, apart = (20e3, 20.1e3, 19.9e3, 20.05e3), (20e3, 60e3, 12e3, 31e3)
    terms = ComparisonTerms(given={"rate": 0.01, "mean": 0.01, "p99": 0.01})
    found = by_quantity(compare([trials(tight)], [trials(apart)], terms, same_load=True))
    assert found["mean"].verdict == "cannot tell"
    assert found["loss"].verdict == "unchanged"
    assert "rate" not in found  # Without loss it is the load.
    slower = tuple(1.2 * ns for ns in tight)
    assert (
        by_quantity(compare([trials(tight)], [trials(slower)], terms, same_load=True))["mean"].verdict
        == "worse"
    )
    assert (
        by_quantity(compare([trials(slower)], [trials(tight)], terms, same_load=True))["mean"].verdict
        == "better"
    )


def test_one_trial_of_each_cannot_tell_and_says_what_would() -> None:
    found = by_quantity(compare([trials((20e3,))], [trials((21e3,))], ComparisonTerms(), same_load=True))
    assert found["mean"].verdict == "cannot tell"
    assert math.isnan(found["mean"].low)
    assert "--repetitions" in found["mean"].why
    assert overall(list(found.values())) == "cannot tell"


def test_single_trials_of_several_runs_repeat_each_other() -> None:
    before = [trials((ns,)) for ns in (20e3, 20.2e3, 19.9e3, 20.1e3)]
    after = [trials((ns,)) for ns in (26e3, 26.3e3, 25.9e3, 26.2e3)]
    found = by_quantity(compare(before, after, ComparisonTerms(), same_load=True))
    assert (found["mean"].verdict, found["mean"].source) == ("worse", "these runs")
    assert found["mean"].change == pytest.approx(0.3, abs=0.02)


def test_trials_at_other_loads_have_nothing_in_common() -> None:
    assert (
        compare([trials((2e4,))], [trials((2e4,), load="300kpps")], ComparisonTerms(), same_load=True) == []
    )


def test_a_load_that_became_too_much_is_worse_by_loss_and_rate() -> None:
    terms = ComparisonTerms(given={"rate": 0.01, "mean": 0.01, "p99": 0.01})
    delays = (20e3, 20.1e3, 19.9e3)
    found = by_quantity(compare([trials(delays)], [trials(delays, loss=0.2)], terms, same_load=True))
    assert found["loss"].verdict == found["rate"].verdict == "worse"


def test_a_place_far_off_does_not_pull_the_trimmed_mean() -> None:
    value, stderr, freedom = trimmed_mean(
        np.array([0.0, 0.01, -0.01, 0.005, -0.005, 5.0, -0.002, 0.002, 0.0, 0.0])
    )
    assert abs(value) < 0.005
    assert stderr < 0.01
    assert freedom == 5


def test_a_setting_with_a_single_trial_does_not_hide_the_scatter_of_others() -> None:
    def side(shift: float, rng: np.random.Generator) -> Digest:
        def place(position: int, trials: int) -> SettingMeasurement:
            values = math.log(1e6) + shift + rng.normal(0, 0.001, trials)
            return SettingMeasurement(
                np.array(values), {"mean": values, "p99": values}, np.full(trials, 0.1), {}
            )

        return {ComparisonSetting(0, 64.0): place(0, 8), ComparisonSetting(9, 64.0): place(9, 1)}

    rng = np.random.default_rng(3)
    found = compare(
        [side(0.0, rng)], [side(-0.3, rng)], ComparisonTerms(given={"rate": 0.01}), same_load=True
    )
    (rate,) = [one for one in found if one.quantity == "rate"]
    assert rate.verdict == "worse"
    assert rate.why == ""


def test_the_interval_that_is_shown_decides_the_verdict(usual: list[Digest], slowed: list[Digest]) -> None:
    for after in (usual[1], slowed[0]):
        for found in compare([usual[0]], [after], ComparisonTerms(), same_load=False):
            low, high, level = found.rests_on
            if found.verdict in ("worse", "better"):
                assert (low, high) == (found.low, found.high)
                assert low > 0 or high < 0
            else:
                assert level == pytest.approx(0.9)
                assert (-found.margin <= low and high <= found.margin) == (found.verdict == "unchanged")
                assert found.provable == pytest.approx(max(abs(low), abs(high)))


def test_a_proved_change_within_the_margin_is_not_called_unchanged() -> None:
    def found(quantity: Compared, low: float, high: float) -> str:
        return ComparisonFinding(
            quantity,
            "unchanged",
            (low + high) / 2,
            low,
            high,
            0.25,
            1,
            0.0,
            "repetitions",
            within=(low, high),
        ).text

    assert found("p99", 0.08, 0.21) == "worse, within the margin"
    assert found("rate", 0.01, 0.02) == "better, within the margin"
    assert found("mean", -0.01, 0.02) == "unchanged"
