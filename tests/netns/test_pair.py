"""A redundant pair of firewalls as a device under test: for test traffic, and for calls of real engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.lab.dut import make
from weirlab.lab.dut.pair import RedundantPair, UcarpPair
from weirlab.lab.netns import NetnsLab
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.numbering.lab import VoiceLab, engines
from weirlab.numbering.lab.device import device, silent
from weirlab.numbering.plan import load, ready
from weirlab.numbering.proof.calling import carried
from weirlab.numbering.proof.findings import AS_PLANNED
from weirlab.numbering.proof.ways import planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import PassageSection
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

from .conftest import PlainTraffic

pytestmark = pytest.mark.netns


@pytest.fixture(scope="module", autouse=True)
def _needs_daemons() -> None:
    if missing := [*make("keepalived").check(), *make("ucarp").check()]:
        pytest.skip("; ".join(missing))


def traffic(duration_s: float) -> Traffic:
    return Traffic(Rate(1000), flows=Flows(count=20), warmup_s=0.0, duration_s=duration_s)


@pytest.fixture(scope="module")
def lab() -> Iterator[NetnsLab]:
    with NetnsLab(make("keepalived:advert=500ms:hard=500ms")) as opened:
        yield opened


def test_a_master_that_dies_interrupts_traffic_and_is_back_for_the_next_trial(lab: NetnsLab) -> None:
    driver = lab._driver
    assert isinstance(driver, RedundantPair)
    result = lab.run(traffic(2.0))
    counted = lab.counters()
    assert counted["pair_switches"] == driver.events() == 1
    assert counted["pair_takeover_us"] > 0
    assert 0 < result.received < result.sent
    pair = driver._pair
    assert pair is not None
    assert pair.is_reduced
    lab.settle()
    assert not pair.is_reduced
    assert pair.master() == "a"
    assert PlainTraffic(lab).arrives()


def test_ipv6_is_refused(lab: NetnsLab) -> None:
    with pytest.raises(InputError, match="does not carry IPv6"):
        lab.run(Traffic(Rate(1000), Constant(128), Flows(count=20, ip=6), warmup_s=0.0, duration_s=0.1))


def test_a_master_of_carp_steps_down(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Which of them is master is settled after 2 s, where the usual dead ratio takes 7.
    quick = Ucarp(advskews=(0, 10), deadratio=1)
    monkeypatch.setattr(UcarpPair, "_made", staticmethod(lambda _: quick))
    with NetnsLab(make("ucarp:soft=200ms")) as lab:
        result = lab.run(traffic(1.5))
        assert lab.counters()["pair_switches"] == 1
        assert result.received > 0
    assert made.left() == []


def test_a_call_goes_on_when_the_master_dies() -> None:
    if missing := engines.lacking(["named", "kamailio", "sipp"]):
        pytest.skip(missing)
    network = PlanNetwork(load(ready.FOLDER / "campus.yaml"), date(2026, 11, 22))
    wanted = next(each for each in planned(network, fall_back=False) if each.test.number == "+420111444901")
    through = PassageSection(name="keepalived:advert=500ms:hard=3s")
    with VoiceLab(network, 7.0, device(through, network, HOST_FILES)) as opened:
        row, _, passed = carried(opened, wanted)
    assert (row.verdict, row.why, row.answer) == (AS_PLANNED, "", 200)
    assert [each.events for each in passed] == [1, 1]
    for each in passed:
        assert each.bypassed == 0
        assert each.left < each.entered
        assert each.silence_ms > 100
        assert not each.ends_silent
    assert row.there_lost > 0
    assert row.back_lost > 0
    assert silent(passed, "call").startswith(" (failed in 1 call, speech silent for up to ")
