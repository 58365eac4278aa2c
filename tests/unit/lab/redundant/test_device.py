"""A redundant pair as a device: what its name says, and what it refuses."""

from __future__ import annotations

import time

import pytest

from weirlab.base.errors import InputError
from weirlab.lab import dut
from weirlab.lab.base import Site
from weirlab.lab.dut.pair import PairSwitch, RedundantPair
from weirlab.lab.namespaces import check_fit
from weirlab.lab.redundant.base import PairEvent, Transition
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.lab.wiring import IN0, OUT0, RX0, TX0
from weirlab.records import RuleSetup


def pair(name: str) -> RedundantPair:
    found = dut.make(name)
    assert isinstance(found, RedundantPair)
    return found


def test_a_name_alone_is_the_usual_pair_and_nothing_happens() -> None:
    found = pair("keepalived")
    assert (found.name, found._protocol, found._states, found.switch) == (
        "keepalived", Keepalived(), Conntrackd(), None,
    )  # fmt: skip
    assert pair("ucarp")._protocol == Ucarp()
    assert found.counters() == {}


def test_words_behind_the_name_set_the_pair_up_and_say_what_happens() -> None:
    found = pair("keepalived:advert=100ms:states=cached:hard=2s")
    assert found.name == "keepalived:advert=100ms:states=cached:hard=2s"
    assert found._protocol == Keepalived(advert_s=0.1)
    assert found._states == Conntrackd(external_cache=True)
    assert found.switch == PairSwitch("hard", 2.0)
    assert found.facts()["switch"] == "hard 2 s"
    assert (found.counters(), found.events()) == ({"pair_switches": 0, "pair_takeover_us": 0}, 0)
    soft = pair("ucarp:soft=500ms:advert=2s")
    assert (soft._protocol, soft.switch) == (Ucarp(advbase_s=2), PairSwitch("soft", 0.5))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("keepalived:", "'' of keepalived not understood"),
        ("keepalived:dies=1s", "use e.g. 'advert=1s', 'states=off'"),
        ("keepalived:states=some", "'states=some' of keepalived not understood"),
        ("keepalived:hard=soon", "hard 'soon' is no time"),
        ("keepalived:hard=1s:soft=2s", "'soft=2s' of keepalived repeats an earlier setting"),
        ("keepalived:advert=1s:advert=2s", "repeats an earlier setting"),
        ("keepalived:advert=5ms", "an advertisement interval of 0.005 s"),
        ("ucarp:advert=100ms", "ucarp only takes whole seconds"),
    ],
)
def test_what_is_not_understood_is_told(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        pair(name)


class FakePair:
    """Its master is cut, and the other firewall has the addresses at once."""

    def __init__(self) -> None:
        self.cuts = 0

    def cut(self) -> PairEvent:
        self.cuts += 1
        return PairEvent("hard", "a", 0, 1, {})

    def master(self) -> str:
        return "b" if self.cuts else "a"

    transitions = (Transition(1_000_000, "b", "lan", True), Transition(2_000_000, "b", "wan", True))


def test_the_master_stays_if_traffic_is_over_before() -> None:
    device = pair("keepalived:hard=1h")
    device._pair = found = FakePair()  # type: ignore[assignment]
    with device.beside_traffic():
        pass
    assert (found.cuts, device.events()) == (0, 0)


def test_a_switch_beside_traffic_is_counted_with_its_length() -> None:
    device = pair("keepalived:hard=1ms")
    device._pair = found = FakePair()  # type: ignore[assignment]
    with device.beside_traffic():
        while not device.events():
            time.sleep(0.001)
    assert (found.cuts, device.events()) == (1, 1)
    assert device.counters() == {"pair_switches": 1, "pair_takeover_us": 2000}


def test_traffic_that_is_given_up_ends_the_wait_for_the_other_firewall() -> None:
    device = pair("keepalived:hard=1ms")

    class Stuck(FakePair):
        def master(self) -> str:
            return "a"

    device._pair = found = Stuck()  # type: ignore[assignment]

    def interrupted() -> None:
        with device.beside_traffic():
            while not found.cuts:
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert device.events() == 0


def test_ipv6_does_not_pass() -> None:
    with pytest.raises(InputError, match="the device 'keepalived' does not carry IPv6"):
        check_fit(pair("keepalived"), 64, 6)
    check_fit(pair("keepalived"), 1518, 4)


def test_rules_are_the_pair_s_own() -> None:
    site = Site("weir-1234-dut", IN0, OUT0, TX0, RX0, 0)
    pair("ucarp").apply(site, RuleSetup())
    pair("ucarp").apply(site, RuleSetup(both_ways=True))
    for rules in (RuleSetup(5), RuleSetup(stateful=True)):
        with pytest.raises(InputError, match="has its own rules"):
            pair("ucarp").apply(site, rules)


def test_a_driver_s_further_namespaces_are_named_like_the_lab_s() -> None:
    assert Site("weir-1234-dut", IN0, OUT0, TX0, RX0, 0).further("fwa") == "weir-1234-fwa"
