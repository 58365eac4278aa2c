"""``weir choose`` where a run does not count, was spoiled by its host, or is of an emulated device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import TrialError
from weirlab.devices.prediction import modelling
from weirlab.jobs import testbeds
from weirlab.jobs.progress import Progress
from weirlab.lab.machines import qemu
from weirlab.store import Run
from weirlab.testing import FakeBed, FakeDevice

from ...conftest import Weir
from .conftest import rows

REAL = ("choose", "--calls", "300", "--repetitions", "1", "--rules", "400", "--factors", "1")


class Restless(FakeDevice):
    """Faster behind more rules, as only a machine that changes makes it: such a run does not count."""

    def service_ns(self, position: float, frame_bytes: float) -> float:
        return super().service_ns(1000 - position, frame_bytes)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, fitted_once: None) -> list[str]:
    """The devices that are profiled, as if by trials in namespaces: one restless, one emulated."""
    names: list[str] = []
    beds = {
        "iptables": FakeBed(FakeDevice(), lab="netns"),
        "nftables": FakeBed(Restless(), lab="netns"),
        "forward": FakeBed(FakeDevice(), lab="netns"),
    }
    monkeypatch.setattr(
        type(beds["forward"]), "facts", property(lambda bed: {"dut_emulated": bed is beds["forward"]})
    )

    def open_bed(_: object, dut: Any, *__: object, **___: object) -> FakeBed:
        names.append(dut.name)
        return beds[dut.name]

    monkeypatch.setattr(testbeds, "open_bed", open_bed)
    monkeypatch.setattr(qemu, "accelerators", lambda: ("tcg",))
    return names


def test_a_run_that_does_not_count_is_left_alone_unless_the_machine_is_noisy(
    weir: Weir, measured: list[str], tmp_path: Path
) -> None:
    first = weir(*REAL, "iptables", "nftables", "--json")
    assert first.code == 5
    assert measured == ["iptables", "nftables"]
    found = rows(first.json)
    assert found["nftables", 400, 1.0]["verdict"] == "not measured"
    assert "not usable to compare rule counts" in found["nftables", 400, 1.0]["why"]
    assert found["iptables", 400, 1.0]["verdict"] == "meets"
    again = weir(*REAL, "iptables", "nftables")
    assert measured == ["iptables", "nftables", "nftables"]
    assert "--machine noisy" in " ".join(again.out.split())
    noisy = weir(*REAL, "iptables", "nftables", "--machine", "noisy", "--json")
    assert measured == ["iptables", "nftables", "nftables"]
    assert noisy.code == 0
    assert {device for device, _, _ in rows(noisy.json)} == {"iptables", "nftables (does not count)"}
    assert [bool(one["unusable"]) for one in noisy.json["profiles"]] == [False, True]
    told = weir(*REAL, "nftables", "--machine", "noisy", "--out", tmp_path / "choice.html")
    doubt = "known from a run that does not count: the machine was not usable to compare rule counts"
    assert doubt in " ".join(told.out.split())
    assert doubt in (tmp_path / "choice.html").read_text()


def test_without_a_profile_of_any_tunnel_the_devices_are_still_told_about(
    weir: Weir, measured: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "choice.html"
    asked = (*REAL, "iptables", "--tunnel", "forward")
    answer = weir(*asked, "--out", page)
    assert answer.code == 5
    words = " ".join(answer.out.split())
    assert "No tunnel was measured; without one: iptables carries 300 two-way calls" in words
    assert "iptables, no tunnel" in words
    assert "iptables + forward" in words
    assert "Not measured: forward. " in words
    assert "not measured: forward: " in " ".join(answer.err.split())
    assert "No tunnel was measured." in page.read_text()
    document = weir(*asked, "--json").json
    assert document["best"] is document["verdict"] is None
    found = rows(document)
    assert found["iptables, no tunnel", 400, 1.0]["verdict"] == "meets"
    assert found["iptables + forward", 400, 1.0]["verdict"] == "not measured"


@pytest.mark.parametrize(
    ("device", "options"),
    [("nftables", ("--machine", "noisy")), ("iptables", ()), ("iptables", ("--machine", "noisy"))],
)
def test_a_stored_run_whose_trials_the_host_spoiled_is_measured_again(
    weir: Weir, measured: list[str], monkeypatch: pytest.MonkeyPatch, device: str, options: tuple[str, ...]
) -> None:
    """Whether the run counts (iptables) or not (nftables)."""
    fit, spoiled = modelling.fit_run, [TrialError("the host spoiled its trials")] * 2

    def fit_run(run: Run, progress: Progress) -> Any:
        if spoiled:
            raise spoiled.pop()
        return fit(run, progress)

    monkeypatch.setattr(modelling, "fit_run", fit_run)
    if device == "nftables":
        spoiled.pop()
    assert weir(*REAL, device).code == 5
    answer = weir(*REAL, device, *options)
    assert measured == [device] * 2
    assert answer.code == 0
    told = f"{device} is profiled again, the stored run does not serve: the host spoiled its trials"
    assert told in " ".join(answer.err.split())


@pytest.mark.parametrize("device", ["vm-wireguard", "vm-esp", "vm:nftables"])
def test_an_emulated_device_is_refused_before_it_is_measured(
    weir: Weir, measured: list[str], device: str
) -> None:
    answer = weir(*REAL, device, "iptables", "--json")
    assert answer.code == 5
    assert measured == ["iptables"]
    assert "QEMU without KVM" in rows(answer.json)[device, 400, 1.0]["why"]


def test_a_device_that_turns_out_emulated_has_no_trial(weir: Weir, measured: list[str]) -> None:
    answer = weir(*REAL, "forward", "iptables", "--json")
    assert measured == ["forward", "iptables"]
    assert answer.code == 5
    assert rows(answer.json)["forward", 400, 1.0]["verdict"] == "not measured"
    assert len(weir("runs", "--json").json["runs"]) == 1
    assert weir(*REAL, "forward").code == 5


def test_every_command_says_that_a_run_does_not_count(weir: Weir, measured: list[str]) -> None:
    weir(*REAL, "iptables", "nftables")
    unusable, counting = (one["run_id"] for one in weir("runs", "--json").json["runs"])
    why = "the machine was not usable to compare rule counts"
    assert [one["unusable"] for one in weir("runs", "--json").json["runs"]] == [why, ""]
    assert "(does not count)" in weir("runs", "--wide").out
    assert "1 of them does not count" in weir("runs").out
    assert weir("show", unusable, "--json").json["unusable"] == why
    assert f"but does not count: {why}" in " ".join(weir("show", unusable).out.split())
    assert weir("fit", counting, "--json").json["unusable"] is None
    load = ("--rate", "50kpps", "--frame", "218", "--rules", "100", "--extrapolate")
    for command in (("fit", unusable), ("predict", unusable, *load), ("plan", unusable, *load)):
        assert "does not count" in " ".join(weir(*command).out.split()).split(":")[0]
        assert why in json.dumps(weir(*command, "--json").json)
    compared = weir("compare", counting, unusable, "--json")
    assert (compared.code, compared.json["verdict"]) == (7, "cannot tell")


@pytest.mark.parametrize(
    "command",
    [("fit",), ("predict", "--rate", "50kpps"), ("plan", "--rate", "50kpps", "--rules", "1"), ("verify",),
     ("choose", "--calls", "1", "--profiles")],
)  # fmt: skip
def test_numbers_of_an_emulated_device_are_refused_wherever_they_are_stored(
    weir: Weir, models: Path, measured: list[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert weir("profile", "--quick", "--dut", "forward", "--rules", "0,100").code == 5
    run = weir("runs", "--json").json["runs"][0]
    assert "emulated" in run["unusable"]
    document = json.loads((models / "tunnel.json").read_text())
    document["devices"][0]["facts"] = {"dut_emulated": True}
    (tmp_path / "emulated.json").write_text(json.dumps(document))
    for source in (run["run_id"], tmp_path / "emulated.json"):
        if (command != ("fit",) and command != ("verify",)) or source == run["run_id"]:
            answer = weir(*command, source)
            assert (answer.code, answer.out) == (5, "")
            assert "QEMU without KVM" in " ".join(answer.err.split())


def test_without_a_profile_of_any_device_the_table_says_why(
    weir: Weir, measured: list[str], tmp_path: Path
) -> None:
    """Reported: an error alone, although the rest was known."""
    page = tmp_path / "choice.html"
    answer = weir(*REAL, "forward", "nftables", "--tunnel", "forward", "--out", page)
    assert answer.code == 5
    assert {"forward + forward", "nftables + forward"} <= {
        line.split("  ")[0].strip() for line in answer.out.splitlines()
    }
    assert "not measured" in answer.out
    document = weir(*REAL, "forward", "--json").json
    assert (document["best"], document["verdict"]) == (None, None)
    assert rows(document)["forward", 400, 1.0]["verdict"] == "not measured"
    assert "No device was measured." in page.read_text()
