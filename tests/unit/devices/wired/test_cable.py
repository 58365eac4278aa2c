"""What is said about two ports and the cable between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.conftest import Weir

from weirlab.base.errors import TrialError
from weirlab.devices.wired import tables
from weirlab.devices.wired.cable import CableResult, cable_results
from weirlab.jobs.progress import SilentProgress
from weirlab.lab.wired import ports
from weirlab.lab.wired.ports import PortFacts
from weirlab.measure.validity import sift
from weirlab.records import REFUSED
from weirlab.testing import FakeBed

PORT = PortFacts("a1", "igc", 1000, True, True, 1500, "02:00:00:00:00:01", (), "xdp", False)
RESULT = CableResult(64, 0.5, 1e6, 100, 100, 100, 100, 0, 300.0, 20.0)


@pytest.mark.parametrize("lost", ["left", "entered", "received"])
def test_a_cable_is_exact_if_all_four_counts_agree(lost: str) -> None:
    assert RESULT.exact
    assert not replace(RESULT, **{lost: 99}).exact
    assert not replace(RESULT, duplicated=1).exact


def test_ports_are_usable_with_take_if_only_addresses_are_there(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = replace(PORT, name="a2", occupied=("it has the address 10.0.0.1/8",))
    used = replace(PORT, name="a3", objections=("this host's default route leads through it",))
    monkeypatch.setattr(ports, "survey", lambda: [PORT, replace(PORT, name="a4"), taken, used])
    answer = weir("ports", "--json").json
    assert [port["name"] for port in answer["ports"]] == ["a1", "a4", "a2", "a3"]
    assert "weir check --between a1 a4" in weir("ports").out
    (listed, reasons) = tables.ports([PORT, taken, used])
    assert [row[-1] for row in listed.rows] == ["yes", "with --take", "no"]
    assert [row[0] for row in reasons.rows] == ["a2", "a3"]


def test_traffic_leaves_by_real_ports_only_if_that_was_confirmed(weir: Weir) -> None:
    answer = weir("trial", "--between", "a1", "a2", "--rate", "1kpps")
    assert answer.code == 2
    assert "--yes" in answer.err
    assert weir("cable", "--between", "a1", "a2").code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lab", "wired"), "two ports"),
        (("--between", "a1", "a1", "--yes"), "listed twice"),
        (("--between", "a1", "a2", "--yes", "--dut", "iptables"), "cannot build"),
        (("--between", "a1", "a2", "--yes", "--rules", "5"), "has its own rules"),
        (("--between", "a1", "a2", "--yes", "--stateful"), "has its own rules"),
        (("--lab", "sim", "--dut", "blackbox"), "--lab wired"),
        (("--between", "a1", "a2", "--yes", "--senders", "2"), "2 senders need as many flows: --flows 2"),
        (("--between", "a1", "a2", "--yes", "--senders", "2", "--answered"), "leave --senders out"),
        (("--lab", "sim", "--senders", "2"), "senders goes with the lab 'wired'"),
        (("--lab", "netns", "--between", "a1", "a2"), "goes with the lab 'wired'"),
    ],
)
def test_options_that_do_not_fit_the_wired_lab_are_refused(
    weir: Weir, options: tuple[str, ...], message: str
) -> None:
    answer = weir("trial", "--rate", "1kpps", *options)
    assert answer.code == 2
    assert message in answer.err


def test_frames_that_the_port_refused_make_a_trial_invalid() -> None:
    with FakeBed() as bed:
        from weirlab.traffic.spec import Rate, Traffic

        result, host = bed.run(Traffic(Rate(1_000.0))), bed.host()
    assert sift(result, host, 1_000.0, counters={REFUSED: 0}).invalid == ()
    (reason,) = sift(result, host, 1_000.0, counters={REFUSED: 7}).invalid
    assert "refused 7 frames" in reason


def test_a_cable_that_carries_nothing_is_no_cable(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeBed() as bed:
        run = bed.run
        monkeypatch.setattr(bed, "run", lambda traffic: replace(run(traffic), lost=1))
        with pytest.raises(TrialError, match="plugged into both"):
            cable_results(bed, 90, SilentProgress())
