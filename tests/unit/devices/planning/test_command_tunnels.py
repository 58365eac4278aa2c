"""``weir plan`` with a tunnel behind the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.testing import queue

from ...conftest import Weir
from .conftest import NEW, OLD

FAST, SLOW = queue.QueueDevice(fixed_ns=4000.0), queue.QueueDevice(fixed_ns=9000.0)


@pytest.fixture(scope="module")
def tunnels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two tunnels, which were profiled without rules."""
    path = tmp_path_factory.mktemp("models") / "tunnels.json"
    fitted = {
        name: fit_all(queue.profile(device, positions=(0,), packets=1500), calibrate=False)
        for name, device in (("fast", FAST), ("slow", SLOW))
    }
    save_devices([DeviceModels(name, models) for name, models in fitted.items()], path)
    return path


@pytest.mark.parametrize("cpus", [1, 2])
def test_every_device_with_every_tunnel_behind_it_answers(
    weir: Weir, devices: Path, tunnels: Path, cpus: int
) -> None:
    common = ("--rules", "400", "--certainty", "50%", "--json")
    answer = weir("plan", devices, "--tunnel", tunnels, "--cpus", str(cpus), *common)
    found = {one["device"]: one["reach"]["value"] for one in answer.json["answers"]}
    rules, behind = {"old": OLD, "new": NEW}, {"fast": FAST, "slow": SLOW}
    service_ns = {
        f"{name} + {tunnel}": rules[name].per_rule_ns * 400 + behind[tunnel].fixed_ns
        if cpus == 1
        else max(rules[name].service_ns(400), behind[tunnel].fixed_ns)
        for name in rules
        for tunnel in behind
    }
    assert set(found) == set(service_ns)
    for name, each_ns in service_ns.items():
        assert found[name] == pytest.approx(1e9 / each_ns, rel=0.03), name
    assert str(answer.json["best"]).endswith("+ fast")


def test_calls_through_a_tunnel_behind_rules_are_told_in_a_sentence(
    weir: Weir, devices: Path, tunnels: Path
) -> None:
    pair = ("plan", devices, "--device", "old", "--tunnel", tunnels, "--certainty", "50%")
    document = weir(*pair, "--codec", "g711", "--rules", "100", "--extrapolate", "--json").json
    assert "old + fast carries " in document["conclusion"]
    assert "two-way calls, G.711" in document["conclusion"]
    (fast, _) = document["answers"]
    # Of 218 B as of 64 B, and 100 packets/s each.
    assert fast["calls"] == pytest.approx(1e9 / (270 + FAST.fixed_ns) / 100, rel=0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cpus", "2", "--rules", "400"), "add --tunnel MODEL"),
        (("--tunnel", "TUNNELS", "--using", "piecewise", "--rules", "400"), "needs the model queueing"),
    ],
)
def test_a_tunnel_that_cannot_be_planned_with_is_refused(
    weir: Weir, devices: Path, tunnels: Path, options: tuple[str, ...], said: str
) -> None:
    told = [str(tunnels) if option == "TUNNELS" else option for option in options]
    answer = weir("plan", devices, *told)
    assert answer.code == 2
    assert said in answer.err


def test_a_tunnel_without_rules_in_front_is_refused(weir: Weir, tunnels: Path) -> None:
    answer = weir("plan", "--tunnel", tunnels, "--rules", "400")
    assert answer.code == 2
    assert "give their model as well" in answer.err
