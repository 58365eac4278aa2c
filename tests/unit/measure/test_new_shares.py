"""Shares of new flows as an axis of a profile: measured on a simulated device, predicted between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.base.errors import InputError, Undecided
from weirlab.cli.results.tables import rates as rate_tables
from weirlab.devices.prediction import modelling, verification, wording
from weirlab.devices.prediction.outcome import PredictionLoad, position_of, predict
from weirlab.devices.profile.page.drawing import draw
from weirlab.devices.profile.page.source import gather
from weirlab.devices.profile.page.summary import tiles
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure.plan.grid import Profile
from weirlab.measure.profile import measure, plan, scout
from weirlab.measure.thresholds import rates, thresholds, usable
from weirlab.measure.verify import VerificationPlan, drawn_shares
from weirlab.measure.verify import plan as held_out_plan
from weirlab.model import DeviceModels, ErrorRow, QueueingModel
from weirlab.model.score import Statistics
from weirlab.store import Run, Store
from weirlab.traffic.load import parse_rate
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows

SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
RULES = 200
DEVICE = SimDevice(new_flow_ns=2_000.0)
PROFILE = Profile(
    positions=(RULES,),
    sizes=(Constant(64),),
    load_shares=(0.1, 0.4, 0.65, 0.85, 1.2, 1.4),
    repetitions=1,
    flows=Flows(20, answered=True),
    trial_s=0.02,
    warmup_s=0.01,
    scout_s=0.02,
    scout_warmup_s=0.01,
    new_shares=SHARES,
)


def service_ns(share: float) -> float:
    known_ns = DEVICE.service_fixed_ns + 64 * DEVICE.service_per_byte_ns
    return known_ns + share * (DEVICE.new_flow_ns + RULES * DEVICE.service_per_rule_ns)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    store = Store(tmp_path_factory.mktemp("runs") / "store")
    scenario = {"name": "shares", "profile": {"positions": [RULES], "new": [*SHARES]}}
    writer = store.create("profile", scenario, {"dut": "nftables"})
    with SimLab(DEVICE) as bed:
        measure(bed, PROFILE, writer)
    writer.finish()
    return store.open(writer.run_id)


def test_each_share_is_measured_at_its_own_loads() -> None:
    with SimLab(DEVICE) as bed:
        found = scout(bed, PROFILE)
    assert [point.new_share for point in found.points] == list(SHARES)
    specs = plan(PROFILE, found)
    assert {spec.traffic.flows.new_share for spec in specs} == set(SHARES)
    assert {spec.rules.position for spec in specs} == {RULES}
    assert sorted({spec.mean_position for spec in specs}) == [0.0, 2.0, 20.0, 100.0, 200.0]


def test_thresholds_are_those_of_the_shares(run: Run) -> None:
    found = thresholds(usable(run.trials()))
    assert found["position"].to_list() == [share * RULES for share in SHARES]
    for share, measured in zip(SHARES, found["threshold_pps"], strict=True):
        assert measured == pytest.approx(1e9 / service_ns(share), rel=0.03)


@pytest.mark.parametrize("share", [0.05, 0.25, 0.75])
def test_a_share_that_was_not_profiled_is_predicted(run: Run, share: float) -> None:
    model = QueueingModel.fit(run.observations("profile"))
    threshold_pps = float(model.threshold_pps(share * RULES, 64))
    assert threshold_pps == pytest.approx(1e9 / service_ns(share), rel=0.05)


def test_held_out_shares_lie_in_the_widest_gaps_between_profiled_ones() -> None:
    drawn = drawn_shares(SHARES, seed=7)
    assert all(
        low < share < high
        for (low, high), share in zip(((0.01, 0.1), (0.1, 0.5), (0.5, 1)), drawn, strict=True)
    )
    assert drawn == drawn_shares(SHARES, seed=7) != drawn_shares(SHARES, seed=8)


def test_loads_of_held_out_shares_are_those_of_the_mean_position() -> None:
    wanted = VerificationPlan(
        positions=(RULES,), load_shares=(0.5,), overload_shares=(), repetitions=1,
        flows=PROFILE.flows, new_shares=(0.25, 0.5),
    )  # fmt: skip
    specs = held_out_plan(wanted, lambda position, frame_bytes: 1e6 / position)
    assert {(spec.traffic.flows.new_share, spec.traffic.rate.value) for spec in specs} == {
        (0.25, 10_000.0), (0.5, 5_000.0),
    }  # fmt: skip


@pytest.mark.parametrize("positions", [(0,), (100, 200)])
def test_several_shares_need_one_rule_count(positions: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="need one rule count"):
        Profile(positions=positions, new_shares=SHARES)


def test_the_table_of_thresholds_has_a_column_for_shares_only_where_they_vary(run: Run) -> None:
    table, delays = rate_tables(rates(run.trials()))
    assert delays.columns[:2] == table.columns[:2] == ("New flows", "Rules")
    assert [row[:2] for row in table.rows] == [
        (share, "200") for share in ("0 %", "1.0 %", "10 %", "50 %", "100 %")
    ]
    table, _ = rate_tables(rates(run.trials().filter(new_share=0.1)))
    assert table.columns[0] == "Rules"
    assert [row[0] for row in table.rows] == ["200"]


def test_the_page_of_shares_says_that_they_varied(run: Run) -> None:
    evidence = gather(run, {"queueing": QueueingModel.fit(run.observations("profile"))})
    assert (evidence.varied.name, evidence.varied.positions) == ("new flows", RULES)
    setups = evidence.profile.sort("position")["setup"].unique(maintain_order=True)
    assert [setup.replace("\xa0", " ") for setup in setups] == ["0 %", "1.0 %", "10 %", "50 %", "100 %"]
    (figure,) = (figure for figure in draw(evidence) if figure.section == "threshold")
    assert "Packets that open a flow, %" in str(figure.spec)
    (tile,) = (tile for tile in tiles(evidence) if tile.label == "Cost of a new flow")
    assert tile.value.replace("\xa0", " ") == "2.5 µs"


def test_a_share_between_profiled_ones_is_predicted_once_such_shares_were_verified(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(run.path.parent)
    modelling.fit(store, run.run_id)
    assert verification.share_error(store, run.run_id) is None
    statistics = Statistics(3.0, 1.0, 0.0, 2.0, 1.0, -4.2)
    row = ErrorRow("queueing", "threshold", "pps", "setting", False, 3, 3, statistics, statistics)
    others = [
        replace(row, model="piecewise"),
        replace(row, per="trial", relative=replace(statistics, max=50)),
    ]
    outcome = verification.VerificationOutcome(run, (*others, row), 30)
    monkeypatch.setattr(verification, "stored", lambda _: outcome)
    assert verification.share_error(store, run.run_id) is None
    monkeypatch.setattr(verification, "held_out_shares", lambda _: [0.1, 0.5])
    assert verification.share_error(store, run.run_id) is None, "these were profiled"
    monkeypatch.setattr(verification, "held_out_shares", lambda _: [0.1, 0.25])
    error = verification.share_error(store, run.run_id)
    assert error == pytest.approx(0.042)
    device = modelling.devices(store, run.run_id)[0]
    load = PredictionLoad(parse_rate("100kpps"), Constant(64))
    found = predict(store, run.run_id, load, position_of(device, None, 0.25, error), share_error=error)
    assert found.predictions["queueing"]["threshold_pps"] == pytest.approx(1e9 / service_ns(0.25), rel=0.05)
    assert (found.new_share, found.document()["share_error"]) == (0.25, error)
    assert (
        "This share was not profiled; at others like it, the threshold was at most 4.2 %"
        in wording.prediction(found)
    )
    profiled = predict(store, run.run_id, load, position_of(device, None, 0.5, error), share_error=error)
    assert profiled.share_error is None
    monkeypatch.setattr(verification, "stored", lambda _: replace(outcome, undecided="too few trials"))
    assert verification.share_error(store, run.run_id) is None


def test_a_fit_says_which_shares_can_be_predicted(run: Run) -> None:
    said = wording.fit(modelling.fit(Store(run.path.parent), run.run_id))
    assert "for the profiled shares, 0 %, 1.0 %, 10 %, 50 % and 100 %; for those between them only" in said


def test_a_prediction_of_such_a_profile_needs_a_share() -> None:
    device = DeviceModels("firewall", {}, {"new_flow_rules": 200.0, "new_shares": [0.0, 0.3, 1.0]})
    assert position_of(device, None, 0.3) == position_of(device, 200, 0.3) == 60
    with pytest.raises(Undecided, match=r"0 %, 30 % and 100 %.*has not been shown.*profile 20 % as well"):
        position_of(device, None, 0.2)
    # As far as held-out shares agreed.
    assert position_of(device, None, 0.2, 0.04) == 40
    with pytest.raises(
        Undecided, match="thresholds at shares between them were up to 41 % off; profile 20 %"
    ):
        position_of(device, None, 0.2, 0.41)
    beyond = DeviceModels("firewall", {}, {"new_flow_rules": 200.0, "new_shares": [0.1, 0.3]})
    with pytest.raises(Undecided, match="50 % is not between them"):
        position_of(beyond, None, 0.5, 0.04)
    with pytest.raises(InputError, match="give one"):
        position_of(device, None, None)
    with pytest.raises(InputError, match="leave --rules out"):
        position_of(device, 20, 0.3)
    with pytest.raises(InputError, match="leave --new out"):
        position_of(DeviceModels("firewall", {}), 20, 0.3)
