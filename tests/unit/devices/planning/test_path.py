"""``weir plan path.yaml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.model import DeviceModels, fit_all, save_devices
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
