"""``weir plan path.yaml``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.devices.planning.path.outcome import judged
from weirlab.devices.prediction import modelling
from weirlab.model import DeviceModels, Model, fit_all, load_devices, save_devices
from weirlab.model.series import SeriesPrediction
from weirlab.requirements import P99, parse
from weirlab.store import Store
from weirlab.store.manifest import host
from weirlab.testing import queue

from ...conftest import Weir
from .conftest import NEW, OLD

PATH = """\
path: branch to head office
devices:
- {{name: firewall, model: devices.json, device: old, rules: 200}}
- {{name: router, model: devices.json, device: new, rules: 0}}
flows:
- {{name: calls, stations: 100, codec: g711}}
- {{name: control, stations: 20, frame: 128, cycle: 4ms, through: [firewall]}}
{more}
"""


def written(devices: Path, more: str = "arrivals: constant") -> Path:
    path = devices.parent / "path.yaml"
    path.write_text(PATH.format(more=more))
    return path


def test_every_flow_gets_an_answer_end_to_end_and_every_device_its_load(weir: Weir, devices: Path) -> None:
    document = weir("plan", written(devices), "--extrapolate", "--json").json
    calls, control = document["flows"]
    assert (calls["rate_pps"], calls["devices"]) == (5000.0, ["firewall", "router"])
    assert (control["rate_pps"], control["devices"]) == (5000.0, ["firewall"])
    firewall, router = document["devices"]
    assert (firewall["rate_pps"], router["rate_pps"]) == (10_000.0, 5000.0)
    assert firewall["frame_bytes"] == pytest.approx((218 + 128) / 2)
    assert firewall["threshold_pps"] == pytest.approx(1e9 / OLD.service_ns(200), rel=0.05)
    assert router["threshold_pps"] == pytest.approx(1e9 / NEW.service_ns(0), rel=0.05)
    assert document["binding"] == "firewall"
    assert document["headroom"] == pytest.approx(firewall["threshold_pps"] / 10_000, rel=0.01)
    assert calls["predicted"]["delay_p50_ns"] > control["predicted"]["delay_p50_ns"] > 0


def test_devices_of_one_cpu_are_as_busy_as_each_other(weir: Weir, devices: Path) -> None:
    path = written(devices)
    apart = weir("plan", path, "--extrapolate", "--json").json["devices"]
    path.write_text(
        path.read_text().replace("rules: 200", "rules: 200, cpu: a").replace("rules: 0", "cpu: a")
    )
    firewall, router = weir("plan", path, "--extrapolate", "--json").json["devices"]
    assert firewall["utilisation"] == router["utilisation"]
    assert firewall["utilisation"] == pytest.approx(sum(one["utilisation"] for one in apart), rel=0.02)


def test_bounds_reach_from_the_plan_with_a_bed_to_whole_profiles(weir: Weir, devices: Path) -> None:
    bed = {}
    for name, times in (("one", 1.0), ("two", 1.2)):
        device = queue.QueueDevice(fixed_ns=800.0 * times, per_rule_ns=0.0)
        bed[name] = devices.parent / f"{name}.json"
        fitted = fit_all(queue.profile(device, packets=1500), calibrate=False)
        save_devices([DeviceModels(name, fitted)], bed[name])
    path = written(devices)
    shared = path.read_text().replace("rules: 200", "rules: 200, cpu: a").replace("rules: 0", "cpu: a")
    path.write_text(shared)
    above = weir("plan", path, "--extrapolate", "--json").json
    path.write_text(shared + "bed: {one: one.json, two: two.json}\n")
    found = weir("plan", path, "--extrapolate", "--json").json
    assert found["least_headroom"] == above["headroom"] < found["headroom"]
    for flow, whole in zip(found["flows"], above["flows"], strict=True):
        for name, value in flow["predicted"].items():
            assert flow["low"][name] <= value <= flow["high"][name]
            assert flow["high"][name] >= whole["predicted"][name]
    # A load between the two: nobody can tell.
    stations = round(100 * (found["headroom"] + found["least_headroom"]) / 2)
    path.write_text(path.read_text().replace("stations: 100,", f"stations: {stations},"))
    path.write_text(path.read_text().replace("stations: 20,", f"stations: {stations // 5},"))
    assert (
        "cannot tell whether it carries" in weir("plan", path, "--extrapolate", "--json").json["conclusion"]
    )


ROW = """\
path: one host
devices:
- {name: firewall, model: singles.json, device: old, rules: 200, cpu: a}
- {name: router, model: singles.json, device: new, cpu: a}
flows:
- {name: load, frame: 64, rate: 50kpps}
arrivals: constant
"""
TOGETHER = queue.QueueDevice(fixed_ns=2200.0)
"""The two, which displace each other from the caches of their CPU."""

StoredRow = Callable[..., str]


@pytest.fixture(scope="module")
def row_models() -> dict[str, Model]:
    return fit_all(queue.profile(TOGETHER, positions=(0, 200, 400), packets=1500), calibrate=False)


@pytest.fixture
def row(devices: Path, tmp_path: Path) -> Path:
    """A path of two devices that were profiled here, each by itself."""
    facts = {"lab": "netns", "host": host()}
    models = [replace(one, facts={**facts, "dut": one.name}) for one in load_devices(devices)]
    save_devices(models, tmp_path / "singles.json")
    path = tmp_path / "row.yaml"
    path.write_text(ROW)
    return path


@pytest.fixture
def stored_row(store: Store, row_models: dict[str, Model]) -> StoredRow:
    """Keeps a profile of both in a row in the store; gives its ID."""

    def keep(dut: str = "old + new", *, fitted: bool = True, rules_hop: int = 1) -> str:
        facts = {"dut": dut, "lab": "netns", "dut_rules_hop": rules_hop}
        writer = store.create("profile", {}, facts)
        writer.finish()
        if fitted:
            modelling.keep(writer.run, row_models)
        return writer.run_id

    return keep


def test_a_profile_of_the_devices_in_a_row_takes_the_place_of_their_own(
    weir: Weir, row: Path, stored_row: StoredRow, row_models: dict[str, Model]
) -> None:
    alone = weir("plan", row, "--json").json
    assert alone["in_row"] == []
    run_id = stored_row()
    found = weir("plan", row, "--json").json
    assert [(one["run_id"], one["devices"]) for one in found["in_row"]] == [(run_id, ["firewall", "router"])]
    assert found["headroom"] == found["least_headroom"]
    assert found["headroom"] == pytest.approx(1e9 / TOGETHER.service_ns(200) / 50_000, rel=0.03)
    assert found["headroom"] < 0.95 * alone["headroom"]
    expected = row_models["queueing"].predict(50_000.0, 64.0, 200.0)
    (flow,) = found["flows"]
    assert flow["predicted"]["delay_p50_ns"] == pytest.approx(float(expected.delay_p50_ns), rel=0.01)
    assert found["binding"] == alone["binding"] == "firewall"
    assert (found["to_profile"], found["whole_profiles"]) == ([], False)
    assert run_id in weir("plan", row).err


def test_a_plan_without_such_a_profile_names_the_command_for_one(
    weir: Weir, row: Path, stored_row: StoredRow
) -> None:
    wanted = (
        "weir profile --quick --arrivals constant --repetitions 10 --dut old --dut new --rules 200 --frame 64"
        " && weir fit last"
    )
    assert weir("plan", row, "--json").json["to_profile"] == [wanted]
    run_id = stored_row(fitted=False)
    found = weir("plan", row, "--json").json
    assert (found["in_row"], found["to_profile"]) == ([], [f"weir fit {run_id}"])
    assert f"weir fit {run_id}" in weir("plan", row).err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("frame: 64", "frame: 65"),
        ("rules: 200", "rules: 401"),
        ("cpu: a}\nflows", "cpu: a, rules: 5}\nflows"),
        ("arrivals: constant", "arrivals: poisson"),
        ("rate: 50kpps}", "rate: 40kpps}\n- {name: less, frame: 64, rate: 1kpps, through: [router]}"),
        (", cpu: a}\nflows", "}\nflows"),
    ],
    ids=["frames", "more rules", "rules in both", "gaps", "part of the devices", "own CPUs"],
)
def test_a_profile_in_a_row_counts_only_for_packets_like_its_own(
    weir: Weir, row: Path, stored_row: StoredRow, old: str, new: str
) -> None:
    stored_row()
    row.write_text(row.read_text().replace(old, new))
    assert weir("plan", row, "--extrapolate", "--json").json["in_row"] == []


def test_a_profile_in_a_row_counts_only_for_the_same_devices_on_the_same_host(
    weir: Weir, row: Path, stored_row: StoredRow
) -> None:
    stored_row("new + old")
    stored_row(rules_hop=2)
    assert weir("plan", row, "--json").json["in_row"] == []
    stored_row()
    models = row.parent / "singles.json"
    models.write_text(models.read_text().replace(f'"host": "{host()}"', '"host": "another"'))
    assert weir("plan", row, "--json").json["in_row"] == []


def test_requirements_hold_for_every_flow(weir: Weir, devices: Path) -> None:
    path = written(devices, "arrivals: constant\nrequire: ['p99<1s', 'loss<1%']")
    assert weir("plan", path, "--extrapolate").code == 0
    strict = weir("plan", path, "--extrapolate", "--require", "mean<1us", "--json")
    assert strict.code == 9
    (*_, missed) = strict.json["requirements"]
    assert (missed["verdict"], missed["failing"]) == ("not met", 2)


def test_what_was_not_profiled_is_refused_with_the_device(weir: Weir, devices: Path) -> None:
    refused = weir("plan", written(devices))
    assert refused.code == 7
    assert "router: frame size" in refused.err or "firewall: frame size" in refused.err


def test_overload_names_what_binds(weir: Weir, devices: Path) -> None:
    path = written(devices)
    path.write_text(path.read_text().replace("stations: 100,", "stations: 100000,"))
    answer = weir("plan", path, "--json")
    assert "firewall binds, and carries" in answer.json["conclusion"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("codec: g711", "codec: g711, frame: 64", "give it alone"),
        ("cycle: 4ms", "cycle: 4ms, rate: 5pps", "with either 'cycle' or 'rate'"),
        ("frame: 128, cycle: 4ms", "frame: 128, rate: 5%", "in packets per second"),
        ("through: [firewall]", "through: [nothing]", "none of the devices"),
        ("through: [firewall]", "through: [router, firewall]", "another order"),
        ("name: router", "name: firewall", "two devices called 'firewall'"),
        ("device: new", "device: third", "has the devices old, new"),
        ("rules: 200", "rules: -1", "path.yaml:3"),
    ],
)
def test_a_file_that_is_no_path_is_refused(
    weir: Weir, devices: Path, old: str, new: str, reason: str
) -> None:
    path = written(devices)
    path.write_text(path.read_text().replace(old, new))
    refused = weir("plan", path)
    assert refused.code != 0
    assert reason in refused.err


@pytest.mark.parametrize(
    ("further", "reason"),
    [
        (("--rate", "5kpps"), "a load: for a path this is in its file"),
        (("--tunnel", "x.json"), "--tunnel: for a path"),
        (("other.json",), "planned by itself"),
    ],
)
def test_options_that_the_file_answers_are_refused(
    weir: Weir, devices: Path, further: tuple[str, ...], reason: str
) -> None:
    refused = weir("plan", written(devices), *further)
    assert refused.code == 2
    assert reason in refused.err


@pytest.mark.parametrize(
    ("predicted", "high", "verdict", "if_disturbed"),
    [((50.0, 60.0, 70.0), 90.0, "met", "met"), ((50.0, 60.0, 70.0), 130.0, "undecided", "undecided"),
     ((80.0, 95.0, 105.0), 130.0, "not met", "undecided"),
     ((110.0, 130.0, 150.0), 170.0, "undecided", "undecided")],
)  # fmt: skip
def test_a_flow_is_judged_with_a_tenth_of_room_as_a_device_is(
    predicted: tuple[float, ...], high: float, verdict: str, if_disturbed: str
) -> None:
    name = "delay_p99_ns"
    near = [SeriesPrediction({name: ns}, {name: 40.0}, {name: high}) for ns in predicted]
    found = judged(parse("p99<=100ns", (P99,)), [near], ["voice"], [""])
    assert (found.verdict, found.case.note != "") == (verdict, verdict == "not met")
    assert judged(parse("p99<=100ns", (P99,)), [near], ["voice"], ["disturbed"]).verdict == if_disturbed


def test_only_flows_through_a_disturbed_device_are_in_doubt(weir: Weir, devices: Path) -> None:
    path = written(devices, "arrivals: constant\nrequire: ['p99<1us']")
    path.write_text(path.read_text().replace("devices.json, device: new", "disturbed.json, device: new"))
    models = [replace(one, facts={"disturbed": "9 of 20"}) for one in load_devices(devices)]
    save_devices(models, devices.parent / "disturbed.json")
    found = weir("plan", path, "--extrapolate", "--json")
    assert found.json["disturbed"] == {"router": "9 of 20"}
    (missed,) = found.json["requirements"]
    assert (missed["cases"], missed["failing"]) == (2, 1)
    assert "9 of 20" in found.err
