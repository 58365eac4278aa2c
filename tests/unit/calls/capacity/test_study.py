"""A scenario about capacity, from its file to what is found, in the simulated lab."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from weirlab.base.documents import plain
from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.calls.capacity import findings as words
from weirlab.calls.capacity.findings import CapacityFindings
from weirlab.calls.capacity.section import CapacityScenario
from weirlab.calls.capacity.trials.rows import CAPACITY
from weirlab.jobs import testbeds
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.model import QueueingModel, save
from weirlab.records import EngineResult
from weirlab.scenario import from_plain
from weirlab.store import Store
from weirlab.studies.runner import Outcome, resume_scenario, run_scenario
from weirlab.testing import queue
from weirlab.traffic.spec import Traffic

from ..conftest import Told

# So slow that few calls fill it: 20 and 30 us per packet carry 500 and 333 calls.
DEVICE = {"service_fixed_ns": 20_000.0, "service_per_rule_ns": 100.0, "service_per_byte_ns": 0.0}
TRUTH = {0: 500, 100: 333}


def scenario(**capacity: Any) -> CapacityScenario:
    wanted = {
        "positions": [0, 100],
        "sweep": {"first": 300, "last": 600, "step": 100, "repetitions": 2, "trial_s": 0.3, "warmup_s": 0.05},
        "search": {"trial_s": 0.3, "warmup_s": 0.05, "trials": 3, "min_calls": 20, "width": 0.03},
        "predict": {
            "profile": {
                "positions": [0, 50, 100, 150],
                "sizes": ["218"],
                "load_shares": [0.1, 0.4, 0.7, 0.9, 1.2, 1.5],
                "repetitions": 1,
                "trial_s": 0.2,
            }
        },
        **capacity,
    }
    return from_plain(
        {
            "name": "small",
            "lab": {"kind": "sim", "device": DEVICE},
            "calls": {"rtcp": False},
            "capacity": wanted,
            "report": None,
        },
        "the test",
        CapacityScenario,
    )


Finished = tuple[Outcome[CapacityFindings], Told]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    told = Told()
    outcome = run_scenario(Store(tmp_path_factory.mktemp("store")), scenario(), told)
    assert isinstance(outcome.found, CapacityFindings)
    return outcome, told


def test_the_search_finds_what_the_device_carries(finished: Finished) -> None:
    outcome, _ = finished
    lossless = {one.position: one for one in outcome.found.results.search if one.goal.mos is None}
    for position, truth in TRUTH.items():
        found = lossless[position]
        assert found.calls is not None
        assert found.calls == pytest.approx(truth, rel=0.06)
        assert found.pps == pytest.approx(100 * found.calls, rel=0.01)


def test_the_sweep_shows_where_it_begins_to_drop(finished: Finished) -> None:
    outcome, _ = finished
    found = {one.position: (one.carried, one.dropped) for one in outcome.found.results.sweep}
    assert found[0] in {(400, 500), (500, 600)}
    assert found[100] == (300, 400)


def test_the_model_of_the_profile_predicts_it_within_ten_percent(
    finished: Finished,
) -> None:
    outcome, _ = finished
    assert outcome.found.results.model == outcome.run.run_id
    for one in outcome.found.results.predicted:
        if one.goal.mos is None:
            ratio = one.ratio(outcome.found.results.measured(one.position, one.goal))
            assert ratio is not None
            assert abs(ratio) < 0.1
            assert one.threshold_pps == pytest.approx(100 * TRUTH[one.position], rel=0.03)


def deep(queue_packets: int, **search: Any) -> CapacityScenario:
    """The same device with a deeper queue, asked for calls without loss alone."""
    usual = {"trial_s": 0.3, "warmup_s": 0.05, "trials": 3, "min_calls": 20, "width": 0.03, "mos": None}
    found = scenario(positions=[0], sweep=None, search={**usual, **search})
    device = found.lab.device.model_copy(update={"queue_packets": queue_packets})
    return found.model_copy(update={"lab": found.lab.model_copy(update={"device": device})})


def test_a_deep_queue_carries_more_calls_through_a_short_trial_than_for_long(store: Store) -> None:
    outcome = run_scenario(store, deep(4000), SilentProgress())
    assert isinstance(outcome.found, CapacityFindings)
    found = outcome.found.results
    [one] = found.predicted
    # 50,000 packets/s, and within 0.35 s another 4000 of them that wait: 614 calls.
    assert found.measured(0, one.goal) == pytest.approx(614, rel=0.05)
    assert one.calls == pytest.approx(614, rel=0.06)
    assert one.lasting_calls == pytest.approx(TRUTH[0], rel=0.03)
    assert not one.at_least
    said = "\n".join(words.headlines(outcome.run, found))
    assert "\nWithout loss with no rules: the prediction is for a trial of 350 ms, warm-up included" in said
    assert f"In the long run the device carries {one.lasting_calls} calls" in said
    same = replace(found, predicted=(replace(one, calls=one.lasting_calls),))
    assert "In the long run" not in "\n".join(words.headlines(outcome.run, same))


def test_of_a_queue_without_end_only_the_least_is_predicted(store: Store) -> None:
    outcome = run_scenario(store, deep(1_000_000), SilentProgress())
    assert isinstance(outcome.found, CapacityFindings)
    found = outcome.found.results
    [one] = found.predicted
    measured = found.measured(0, one.goal)
    assert one.at_least
    assert one.least_calls is None
    assert one.lasting_calls == pytest.approx(TRUTH[0], rel=0.03)
    assert one.calls is not None
    assert measured is not None
    assert one.lasting_calls < one.calls < measured
    assert "predicts at least" in "\n".join(words.headlines(outcome.run, found))


def test_calls_on_a_queue_that_fills_are_good_until_delays_outgrow_jitter_buffers(store: Store) -> None:
    outcome = run_scenario(store, deep(20_000, mos=4.0), SilentProgress())
    assert isinstance(outcome.found, CapacityFindings)
    found = outcome.found.results
    without_loss, good = found.predicted
    measured = found.measured(0, good.goal)
    assert good.calls == pytest.approx(measured, rel=0.06)
    # A fixed buffer of 60 ms bears so much more than the device forwards, in a trial of that length.
    assert good.calls == pytest.approx(TRUTH[0] * (1 + 0.06 / 0.3), rel=0.06)
    assert good.lasting_calls == pytest.approx(TRUTH[0], rel=0.03)
    assert not good.at_least
    assert without_loss.at_least
    assert good.least_calls is not None


def test_every_trial_has_its_line(finished: Finished) -> None:
    outcome, _ = finished
    table = outcome.run.table(CAPACITY)
    trials = outcome.run.trials()
    called = trials.filter(trials["role"] == "calls")
    assert set(table["trial_id"]) == set(called["trial_id"])
    swept = table.filter(table["phase"] == "sweep")
    assert swept.height == 4 * 2 * 2
    assert sorted(swept["run"].unique()) == [1, 2]
    assert swept["mos_p50"].is_between(1, 4.5).all()
    carried = swept.filter(swept["loss_ratio"] == 0)
    assert (carried["good_share"] == 1).all()
    assert table["counters_agree"].all()
    counters = outcome.found.results.counters
    assert counters.compared == counters.agreed == table["valid"].sum()
    assert table["samples_due"].is_null().all(), "a simulated device has no inside"


def test_flows_are_kept_by_direction(finished: Finished) -> None:
    outcome, _ = finished
    flows = outcome.run.flows()
    called = set(outcome.run.table(CAPACITY)["trial_id"])
    per_trial = flows.filter(flows["trial_id"].is_in(list(called))).group_by("trial_id").len()
    assert (per_trial["len"] == 2).all()


def test_the_time_is_told_before(finished: Finished) -> None:
    _, told = finished
    (trials,) = [note for note in told.notes if note.startswith("trials: ")]
    assert "16 of the sweep" in trials
    assert [stage.split()[0] for stage in told.stages] == ["profiling", "fitting", "sweep", "search"]


def test_it_can_be_read_by_people_and_programs(finished: Finished) -> None:
    outcome, _ = finished
    document = json.loads(json.dumps(plain(outcome.document()), allow_nan=False))
    assert document["kind"] == "capacity"
    assert len(document["search"]) == len(document["predicted"]) == 4
    assert outcome.run.get_json("capacity")["search"] == document["search"]
    sentence = words.conclusion(outcome)
    assert "The simulated device, no rules: " in sentence
    assert "calls without loss" in sentence.replace("(", "").replace(")", "")
    assert "The model of the profile" in sentence
    tables = outcome.summary().tables
    assert tables[0].caption == "Most calls, measured and predicted"
    for table in tables:
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_how_much_of_a_loss_was_the_hosts_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device has room for 500 calls, and loses packets because the host takes its CPU for 20 ms."""
    disturbed = SimDevice(**DEVICE, disturb_ns=2e7, disturb_every_ns=1e8)
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: SimLab(disturbed))
    swept = {"first": 300, "last": 350, "step": 50, "repetitions": 2, "trial_s": 0.4, "warmup_s": 0.05}
    outcome = run_scenario(
        store, scenario(positions=[0], sweep=swept, search=None, predict=None), SilentProgress()
    )
    assert isinstance(outcome.found, CapacityFindings)
    results = outcome.found.results
    assert [(one.carried, one.dropped) for one in results.sweep] == [(350, None)]
    (first,) = results.first_losses
    assert (first.calls, first.disturbed_share) == (350, 1)
    (_, told) = json.loads(json.dumps(plain(outcome.document())))["losses"]
    assert told["disturbed_lost"] == told["lost"] == first.lost > 0
    lost = f"Of the {first.lost:,} packets lost at 350 calls (no rules), 100 % were sent while the host"
    assert lost in words.conclusion(outcome)
    caption = "Lost packets, by what the host did when they were sent"
    (table,) = [table for table in outcome.summary().tables if table.caption == caption]
    assert [cell.replace("\u00a0", " ") for cell in table.rows[0][-2:]] == ["100 %", "0 %"]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Model files of rules without a tunnel, and of a tunnel without rules, that together are the device."""
    folder = tmp_path_factory.mktemp("models")
    made = {
        "model": (
            queue.QueueDevice(fixed_ns=1500.0, per_rule_ns=DEVICE["service_per_rule_ns"]),
            (0, 50, 100, 150),
        ),
        "tunnel": (queue.QueueDevice(fixed_ns=DEVICE["service_fixed_ns"]), (0,)),
    }
    for name, (device, positions) in made.items():
        rows = queue.profile(device, positions, frames=(218.0,), packets=1000)
        save({QueueingModel.name: QueueingModel.fit(rows)}, folder / f"{name}.json")
    return {name: str(folder / f"{name}.json") for name in made}


def test_a_tunnel_behind_rules_is_predicted_from_a_profile_of_each(
    store: Store, profiled: dict[str, str]
) -> None:
    outcome = run_scenario(store, scenario(sweep=None, predict=profiled), SilentProgress(), inputs=HOST_FILES)
    assert isinstance(outcome.found, CapacityFindings)
    results = outcome.found.results
    lossless = [one for one in results.predicted if one.goal.mos is None]
    assert [one.position for one in lossless] == [*TRUTH]
    for one in lossless:
        ratio = one.ratio(results.measured(one.position, one.goal))
        assert ratio is not None
        assert abs(ratio) < 0.1
        assert one.calls is not None
        assert one.least_calls is not None
        assert one.most_calls is not None
        assert 0.8 * one.calls < one.least_calls <= one.calls <= one.most_calls < 1.25 * one.calls
    assert results.model == "{model} with {tunnel} behind it".format(**profiled)
    told = f"90 % interval {lossless[0].least_calls} to {lossless[0].most_calls}"
    assert told in words.conclusion(outcome).replace("\u00a0", " ")
    table = outcome.summary().tables[0]
    cell = next(row for row in table.rows)[table.columns.index("Predicted")].replace("\u00a0", " ")
    first = lossless[0]
    assert cell == f"{first.calls} ({first.least_calls} to {first.most_calls})"


def test_a_tunnel_needs_rules_in_front(profiled: dict[str, str]) -> None:
    with pytest.raises(InputError, match="stands behind rules: name their profile as 'model'"):
        scenario(predict={"tunnel": profiled["tunnel"]})


class Stopping(SimLab):
    """Interrupted by the user after some trials."""

    def __init__(self, trials: int) -> None:
        super().__init__(SimDevice(**DEVICE))
        self.left = trials

    def run(self, traffic: Traffic) -> EngineResult:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().run(traffic)


@pytest.mark.parametrize("trials_before", [3, 9, 20])
def test_an_interrupted_run_goes_on_where_it_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch, trials_before: int
) -> None:
    """In the sweep (of 8 trials) or in the search behind it."""
    short = {"first": 300, "last": 600, "step": 300, "repetitions": 2, "trial_s": 0.3, "warmup_s": 0.05}
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: Stopping(trials_before))
    with pytest.raises(RunInterrupt) as caught:
        run_scenario(store, scenario(predict=None, sweep=short), SilentProgress())
    assert caught.value.resume == f"weir run --resume {caught.value.run_id}"
    kept = store.open("last").table(CAPACITY)["trial_id"].to_list()
    assert len(kept) == trials_before
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: SimLab(SimDevice(**DEVICE)))
    outcome = resume_scenario(store, "last", SilentProgress())
    assert isinstance(outcome.found, CapacityFindings)
    table = outcome.run.table(CAPACITY)
    assert table["trial_id"].to_list()[:trials_before] == kept
    assert table["trial_id"].n_unique() == table.height
    assert table.filter(table["phase"] == "sweep").height == 8
    assert all(one.calls is not None for one in outcome.found.results.search)
    assert outcome.run.manifest.status == "complete"


def test_a_model_that_is_named_is_used(store: Store, finished: Finished) -> None:
    file = finished[0].run.path / "model.json"
    sweep = {"first": 300, "last": 300, "repetitions": 1, "trial_s": 0.1, "warmup_s": 0.0}
    wanted = scenario(predict={"model": str(file)}, sweep=sweep, search=None)
    outcome = run_scenario(store, wanted, SilentProgress(), inputs=HOST_FILES)
    assert isinstance(outcome.found, CapacityFindings)
    assert outcome.found.results.model == str(file)
    assert [one.position for one in outcome.found.results.predicted] == [0, 100]
    assert set(outcome.run.trials()["role"]) == {"calls"}


def test_a_model_that_is_missing_is_noticed_before_anything_is_built(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: pytest.fail("the lab was built"))
    with pytest.raises(InputError, match=r"nowhere\.json"):
        run_scenario(store, scenario(predict={"model": "nowhere.json"}), SilentProgress(), inputs=HOST_FILES)


def test_more_calls_than_there_can_be_are_refused_before_anything_is_built(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: pytest.fail("the lab was built"))
    sweep = {"first": 1_000_000, "last": 1_000_000, "step": 1}
    with pytest.raises(InputError):
        run_scenario(store, scenario(sweep=sweep, predict=None), SilentProgress())


def test_the_sweep_lies_around_what_the_search_finds_however_many_that_are(store: Store) -> None:
    found = run_scenario(
        store,
        scenario(
            positions=[0],
            sweep={"around": [0.5, 1.3], "repetitions": 1, "trial_s": 0.3, "warmup_s": 0.05},
            predict=None,
        ),
        told := Told(),
    )
    assert isinstance(found.found, CapacityFindings)
    (swept,) = found.found.results.sweep
    carried = [one.calls for one in found.found.results.search if one.calls is not None]
    assert swept.carried is not None
    assert swept.dropped is not None
    assert swept.carried <= max(carried)
    assert swept.most == round(1.3 * max(carried))
    assert min(carried) * 0.9 < swept.dropped <= swept.most
    assert [stage.split()[0] for stage in told.stages] == ["search", "sweep"]


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"search": None, "sweep": {}}, "nothing to sweep around"),
        ({"sweep": {"first": 100}}, "'last' is missing"),
        ({"sweep": {"first": 100, "last": 50}}, "must not be below 'first'"),
    ],
)
def test_a_sweep_without_numbers_is_refused(wanted: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        scenario(**wanted)
