"""Woernhard 2006: every row from the stored runs, by values that are put in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.units import FCS_BYTES
from weirlab.calls.failover.section import FailoverScenario
from weirlab.calls.failover.study import checked, connections
from weirlab.publications import publication
from weirlab.reproduction.contract import Answer, ReproducedExperiment, rows
from weirlab.reproduction.voice import EXPERIMENTS
from weirlab.reproduction.voice.failover import SoftFailover
from weirlab.reproduction.voice.generator import voice_sizes
from weirlab.scenario.document import Document
from weirlab.studies.scenarios import check
from weirlab.traffic.sizes import mean_bytes

from .answers import verdict
from .voice_runs import CableRun, capacity, fastest, loaded, switch, switches

ABOUT = publication("woernhard-2006")
BY_KEY = {experiment.key: experiment for experiment in EXPERIMENTS}


def answers(experiment: str, runs: Mapping[str, Any]) -> Mapping[str, Answer]:
    found = BY_KEY[experiment].answers(runs, ABOUT.experiments[experiment])
    return {answer.key: answer for answer in found}


SIZES = voice_sizes()
FLOWS = {"a single flow": 1, "at the published rate": 1632, "a flow for each host": 3000}


def all_runs(experiment: ReproducedExperiment, tmp_path: Path) -> Mapping[str, Any]:
    """A run for every scenario of an experiment."""
    sized = fastest({size: 1000.0 + 4 * size for size in (64, *SIZES, 254)})
    paced = CableRun(
        [
            {"frame_bytes": 218.0, "offered_pps": pps, "achieved_pps": pps}
            for pps in (1e4, 1e5, 1e6)
            for _ in range(3)
        ]
    )
    gaps = CableRun(
        [
            {
                "frame_bytes": 218.0,
                "offered_pps": 1e5,
                "achieved_pps": 1e5,
                "loss_ratio": loss,
                "spec": json.dumps({"traffic": {"arrivals": kind}}),
            }
            for kind, loss in (("constant", 0.001), ("poisson", 0.004))
        ]
    )
    slow = [switch(0, "soft", "firewall1", 0.0, lost=0), switch(1, "hard", "firewall1", 3000.0, lost=30)]
    made = {}
    for name in experiment.scenarios(quick=True):
        folder = tmp_path / name.replace(" ", "-")
        if name in ("cable", "one flow", "random flows", "generator"):
            made[name] = paced if experiment.key == "pktgen-delay-defect" else sized
        elif name == "equal and random gaps":
            made[name] = gaps
        elif name == "ten packets a second":
            made[name] = switches(folder, slow)
        elif name in FLOWS:
            made[name] = loaded(folder, states_known=FLOWS[name], states_surviving=FLOWS[name])
        else:
            made[name] = capacity(folder, 125_000)
    return made


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.key)
def test_every_value_and_claim_has_an_answer_or_a_reason(
    experiment: ReproducedExperiment, tmp_path: Path
) -> None:
    about = ABOUT.experiments[experiment.key]
    keys = set(answers(experiment.key, all_runs(experiment, tmp_path)))
    reasons = {value.key for value in about.values.values() if value.absent}
    reasons |= {claim.key for claim in about.claims.values() if claim.absent}
    assert keys | reasons == about.values.keys() | about.claims.keys()
    assert not keys & reasons


@pytest.mark.parametrize("key", ["pktgen-maximum", "forwarding-capacity"])
def test_charts_have_the_measured_courses(key: str, tmp_path: Path) -> None:
    (figure,) = BY_KEY[key].figures(all_runs(BY_KEY[key], tmp_path), ABOUT.experiments[key])
    assert figure.data.height >= 12
    assert len(figure.data["series"].unique()) == 2
    assert figure.spec["mark"]
    assert not BY_KEY[key].figures({}, ABOUT.experiments[key])


@pytest.mark.parametrize(
    ("key", "figure", "rows"),
    [
        ("pktgen-generation-time", "generation-time", 6),
        ("pktgen-randomisation", "random-addresses", 12),
        ("pktgen-delay-defect", "pacing", 3),
        ("cpu-states", "interrupts", 12),
        ("measuring-starvation", "samples", 12),
        ("bidirectional", "both-ways", 12),
        ("failover-slow", "slow-lost", 2),
        ("failover-soft", "soft-interruptions", 6),
        ("failover-hard", "hard-interruptions", 6),
        ("trace-analysis", "bursts", 2),
    ],
)
def test_every_experiment_that_is_measured_has_a_chart(
    key: str, figure: str, rows: int, tmp_path: Path
) -> None:
    [drawn] = BY_KEY[key].figures(all_runs(BY_KEY[key], tmp_path), ABOUT.experiments[key])
    assert drawn.key == figure
    assert drawn.data.height >= rows
    assert drawn.spec["data"] or drawn.spec["layer"]
    assert not BY_KEY[key].figures({}, ABOUT.experiments[key])


def test_interruptions_stand_beside_the_published_ones(tmp_path: Path) -> None:
    [figure] = BY_KEY["failover-hard"].figures(
        {"at the published rate": loaded(tmp_path)}, ABOUT.experiments["failover-hard"]
    )
    values = dict(figure.data.select("row", "value").iter_rows())
    assert values["here: firewall1"] == 2900.0
    published = ABOUT.number("failover-hard", "hard-glitch-dell1-firewall1")
    assert values["published: dell1, firewall1"] == published


def test_a_value_changed_in_the_file_changes_its_row_and_nothing_else(tmp_path: Path) -> None:
    runs = {"at the published rate": loaded(tmp_path)}
    about = ABOUT.experiments["failover-soft"]
    key = "soft-glitch-dell1-firewall1"
    other = replace(about, values={**about.values, key: replace(about.values[key], low=20.0, high=20.0)})
    before, after = (
        {row.key: row for row in rows(each, {a.key: a for a in SoftFailover().answers(runs, each)}, "")}
        for each in (about, other)
    )
    assert [name for name, row in after.items() if repr(row) != repr(before[name])] == [key]
    assert (after[key].published, after[key].ratio, after[key].here) == ("20", 0.5, 10.0)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.key)
def test_without_any_run_nothing_is_judged(experiment: ReproducedExperiment) -> None:
    if experiment.scenarios(quick=True):
        found = answers(experiment.key, {})
        assert {verdict(each) for each in found.values() if each.decision is not None} <= {"cannot tell"}


def test_every_experiment_of_the_file_is_made_here_in_its_order() -> None:
    assert [experiment.key for experiment in EXPERIMENTS] == list(ABOUT.experiments)


def test_the_codecs_table_is_exact() -> None:
    found = answers("codec-table", {})
    assert {verdict(each) for each in found.values()} == {"holds"}
    assert len(found) == 4 + 8 + 8 + 8 + 2


def test_the_generator_is_shown_beside_and_judged_by_its_course() -> None:
    found = answers("pktgen-maximum", {"cable": fastest({size: 1850 + 8.2 * size for size in SIZES})})
    assert found["most-sent@214"].here == pytest.approx(1e9 / (1850 + 8.2 * 218))
    most = ABOUT.number("codec-table", "most-pps@214")
    assert found["share@214"].here == pytest.approx(100 * found["most-sent@214"].here / most)
    assert found["calls-79"].here == pytest.approx(found["most-sent@79"].here / 50)
    assert verdict(found["cannot-fill-gigabit"]) == "holds"
    assert verdict(found["per-packet-cost-dominates"]) == "holds"
    fast = answers("pktgen-maximum", {"cable": fastest({size: 100 + 0.01 * size for size in SIZES})})
    assert verdict(fast["cannot-fill-gigabit"]) == "differs"


def test_a_generators_time_is_linear_or_not() -> None:
    line = {size: 1000 + 5.0 * size for size in (64, 83, 124, 218, 254)}
    assert verdict(answers("pktgen-generation-time", {"cable": fastest(line)})["linear-beyond"]) == "holds"
    flat = {size: 1000 + 0.001 * (size % 7) for size in line}
    assert verdict(answers("pktgen-generation-time", {"cable": fastest(flat)})["linear-beyond"]) == "differs"


def test_random_addresses_that_cost_too_much_differ() -> None:
    one = fastest({83: 1000.0, 218: 1500.0})
    cheap = answers(
        "pktgen-randomisation", {"one flow": one, "random flows": fastest({83: 1040.0, 218: 1510.0})}
    )
    assert verdict(cheap["randomisation-negligible"]) == "holds"
    assert verdict(cheap["effect-larger-for-small"]) == "holds"
    assert cheap["random-79"].here == pytest.approx(100 * (1 - 1000 / 1040))
    dear = answers(
        "pktgen-randomisation", {"one flow": one, "random flows": fastest({83: 2000.0, 218: 3500.0})}
    )
    assert verdict(dear["randomisation-negligible"]) == "differs"
    assert verdict(dear["effect-larger-for-small"]) == "differs"
    gain = answers(
        "pktgen-randomisation", {"one flow": one, "random flows": fastest({83: 990.0, 218: 1200.0})}
    )
    assert verdict(gain["effect-larger-for-small"]) == "differs"


def test_a_sender_that_keeps_its_rates_is_not_inaccurate() -> None:
    paced = [
        {"frame_bytes": 218.0, "offered_pps": pps, "achieved_pps": factor * pps}
        for pps in (1e4, 1e5, 1e6)
        for factor in (1.0, 2.0)
    ]
    exact, doubled = (CableRun(paced[start::2]) for start in (0, 1))
    assert verdict(answers("pktgen-delay-defect", {"cable": exact})["delay-inaccurate"]) == "differs"
    assert verdict(answers("pktgen-delay-defect", {"cable": doubled})["delay-inaccurate"]) == "holds"


def test_a_limit_in_packets_holds_and_one_in_bits_does_not(tmp_path: Path) -> None:
    same = {name: capacity(tmp_path / name, 125_000) for name in ("small packets", "large packets")}
    found = answers("forwarding-capacity", same)
    assert verdict(found["limit-in-packets"]) == "holds"
    assert found["capacity"].here == 125_000
    assert found["capacity-bit-rate"].here == pytest.approx(218.0)
    assert found["capacity-calls"].here == 2500
    bits = {
        "small packets": capacity(tmp_path / "a", 300_000),
        "large packets": capacity(tmp_path / "b", 125_000),
    }
    assert verdict(answers("forwarding-capacity", bits)["limit-in-packets"]) == "differs"


def test_forwarding_that_stays_flat_is_no_collapse(tmp_path: Path) -> None:
    flat = {name: capacity(tmp_path / name, 125_000) for name in ("small packets", "large packets")}
    assert verdict(answers("forwarding-capacity", flat)["two-collapse-trends"]) == "differs"
    worse = {name: capacity(tmp_path / f"w{name}", 125_000, loaded=0.4) for name in flat}
    assert verdict(answers("forwarding-capacity", worse)["two-collapse-trends"]) == "holds"


def test_interrupts_and_samples_follow_the_load(tmp_path: Path) -> None:
    runs = {name: capacity(tmp_path / name, 125_000) for name in ("small packets", "large packets")}
    assert verdict(answers("cpu-states", runs)["interrupts-eat-cpu"]) == "holds"
    assert verdict(answers("measuring-starvation", runs)["fewer-samples-under-load"]) == "holds"
    unknown = {name: capacity(tmp_path / f"u{name}", 125_000, softirq=False) for name in runs}
    assert verdict(answers("cpu-states", unknown)["interrupts-eat-cpu"]) == "cannot tell"


def test_interruptions_are_those_of_the_switches(tmp_path: Path) -> None:
    runs = {"at the published rate": loaded(tmp_path)}
    soft, hard = answers("failover-soft", runs), answers("failover-hard", runs)
    assert soft["soft-received-dell1-firewall2"].here == 1_000_000 - 16_320
    assert soft["soft-glitch-dell1-firewall1"].here == 10.0
    assert [verdict(soft[key]) for key in ABOUT.experiments["failover-soft"].claims] == ["holds"] * 3
    assert hard["hard-glitch-dell1-firewall1"].here == 2900.0
    assert [verdict(hard[key]) for key in ABOUT.experiments["failover-hard"].claims] == ["holds"] * 3


def test_the_flow_and_those_of_the_hosts_are_compared(tmp_path: Path) -> None:
    experiment = BY_KEY["failover-flows"]
    runs = all_runs(experiment, tmp_path)
    found = answers("failover-flows", runs)
    assert (found["states"].here, found["hosts"].here) == (1, 3000)
    assert {verdict(each) for each in found.values()} == {"holds"}
    soft, hard = experiment.figures(runs, ABOUT.experiments["failover-flows"])
    assert (soft.key, hard.key) == ("soft-flows", "hard-flows")
    values = dict(hard.data.select("row", "value").iter_rows())
    assert [name for name in values if name.endswith("flows, firewall1")] == [
        "here: 1,632 flows, firewall1",
        "here: 3,000 flows, firewall1",
    ]
    published = ABOUT.number("failover-hard", "hard-glitch-dell1-firewall1")
    assert values["published: dell1, firewall1"] == published
    [table] = experiment.tables(runs, ABOUT.experiments["failover-flows"])
    assert table.rows[0] == ("1 flow", "firewall1 steps down", "1", "10.0 ms", "0 of 1,632", "1 of 1")
    assert len(table.rows) == 12


def test_more_states_than_one_and_longer_interruptions_differ(tmp_path: Path) -> None:
    runs = {
        "a single flow": loaded(tmp_path / "one", states_known=2),
        "a flow for each host": switches(tmp_path / "hosts", [switch(0, "hard", "firewall1", 9000.0)]),
    }
    found = answers("failover-flows", runs)
    assert {verdict(found[key]) for key in ("states", "hosts", "one-flow", "hosts-alike")} == {"differs"}
    assert not BY_KEY["failover-flows"].tables({}, ABOUT.experiments["failover-flows"])
    unknown = answers("failover-flows", {})["hosts-alike"]
    assert unknown.decision is not None
    assert (unknown.decision.verdict, bool(unknown.decision.rule)) == ("cannot tell", True)


@pytest.mark.parametrize("quick", [True, False])
def test_every_way_to_send_the_published_load_has_its_rate_and_size(quick: bool) -> None:
    settings = ABOUT.experiments["failover-soft"].settings
    flows = {}
    for name, scenario in BY_KEY["failover-flows"].scenarios(quick).items():
        asked = check(Document(name, {"name": name, "report": None, **scenario}))
        assert isinstance(asked, FailoverScenario)
        _, traffic = checked(asked)
        sent = traffic(asked.calls.count or 0, 1.0)
        assert sent.rate.value == pytest.approx(settings["pps"], rel=1e-3)
        assert mean_bytes(sent.sizes) == settings["size"] + FCS_BYTES
        flows[name] = connections(sent)
    assert flows == FLOWS


def test_a_slow_take_over_and_losses_before_the_event_differ(tmp_path: Path) -> None:
    rows = [
        switch(i, kind, "firewall1", 4300.0, lost_before=1, dead=5) for i, kind in enumerate(("soft", "hard"))
    ]
    runs = {"at the published rate": switches(tmp_path, rows)}
    soft, hard = answers("failover-soft", runs), answers("failover-hard", runs)
    assert verdict(soft["soft-below-perceptible-mostly"]) == "differs"
    assert verdict(soft["backup-skew-matters"]) == "cannot tell"
    assert {verdict(hard[key]) for key in ABOUT.experiments["failover-hard"].claims} == {"differs"}


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.key)
def test_every_scenario_can_be_carried_out(experiment: ReproducedExperiment, quick: bool) -> None:
    for name, scenario in experiment.scenarios(quick).items():
        asked = check(Document(name, {"name": name, "report": None, **scenario}))
        if isinstance(asked, FailoverScenario):
            pairs, _ = checked(asked)
            assert pairs[0].text == "firewall1"
