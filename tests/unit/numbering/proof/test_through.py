"""Calls through a device under test: which devices can carry them, and how passing it is proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.base.files import HOST_FILES
from weirlab.lab.dut import iptables, nftables
from weirlab.numbering.fakes import FakeLab, FakeLoadLab, FakePassage
from weirlab.numbering.lab.device import BACK, THERE, Total, bypassing, covering, device, passed, total
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.load.study import _passed
from weirlab.numbering.proof.calling import carried
from weirlab.numbering.proof.chart import Chart, charted
from weirlab.numbering.proof.drawing import drawn
from weirlab.numbering.proof.findings import AS_PLANNED, NOT_AS_PLANNED
from weirlab.numbering.proof.study import VoiceStudy
from weirlab.numbering.proof.ways import planned
from weirlab.numbering.proof.wire import packets
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import PassageSection
from weirlab.records import RuleSetup
from weirlab.store import Store
from weirlab.studies.registry import studies

from ..conftest import Voice
from ..plans import network, ready_network


def test_the_rule_that_accepts_calls_covers_all_hosts_and_no_more_than_it_must() -> None:
    assert covering(["10.93.0.20", "10.93.0.53", "10.93.0.10"]) == ["10.93.0.0/26"]
    assert covering(["192.0.2.1", "2001:db8::1", "2001:db8::2"]) == ["192.0.2.1/32", "2001:db8::/126"]
    assert covering(["0.0.0.1", "255.0.0.1"]) == ["0.0.0.0/0"]


def test_calls_meet_the_rule_at_the_position_wanted() -> None:
    found = device(PassageSection(name="nftables", rules=3), ready_network("campus"), HOST_FILES)
    assert found is not None
    assert found.title == "nftables with 3 rules"
    lines = [
        line.strip() for line in nftables.ruleset(found.rules, "linear").splitlines() if "accept" in line
    ]
    assert lines[2] == "ip saddr 10.93.0.0/26 ip daddr 10.93.0.0/26 accept"
    own = [line for line in iptables.ruleset(4, found.rules).splitlines() if line.startswith("-A")]
    assert own[2:] == ["-A FORWARD -s 10.93.0.0/26 -d 10.93.0.0/26 -j ACCEPT"]


def test_without_rules_all_calls_pass() -> None:
    found = device(PassageSection(name="nftables", stateful=True), ready_network("carriers"), HOST_FILES)
    assert found is not None
    assert found.rules == RuleSetup(0, stateful=True, both_ways=True)
    assert found.title == "nftables, stateful, with no rules"
    assert device(None, ready_network("campus"), HOST_FILES) is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"name": "none"}, "is not a device: for calls without one, leave out --dut"),
        ({"name": "vm"}, "'vm:nftables' cannot carry calls: it forwards by itself"),
        ({"name": "vm-esp"}, "cannot carry calls"),
        ({"name": "forward", "rules": 5}, "the device 'forward' has no rules"),
        ({"name": "nftables", "match": "5"}, "cannot be aimed at a rule"),
        ({"name": "nftables", "ruleset": "x"}, "a ruleset goes with the device 'ruleset', not with"),
        ({"name": "ruleset"}, "needs a file with rules"),
    ],
)
def test_a_device_that_cannot_carry_calls_is_refused(asked: Mapping[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        device(PassageSection.model_validate(asked), ready_network("campus"), HOST_FILES)


def test_rules_for_one_ip_version_do_not_go_with_calls_of_the_other(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n")
    asked = PassageSection(name="ruleset", ruleset=rules)
    found = device(asked, ready_network("campus"), HOST_FILES)
    assert found is not None
    assert found.title == "ruleset"
    with pytest.raises(
        InputError, match=r"are for IPv4, but packets of 2001:db8:94::\d+ would pass unfiltered"
    ):
        device(asked, ready_network("carriers"), HOST_FILES)
    with pytest.raises(InputError, match="your ruleset has its own rules"):
        device(PassageSection(name="ruleset", ruleset=rules, rules=5), ready_network("campus"), HOST_FILES)


def test_hosts_that_an_earlier_rule_is_about_are_refused() -> None:
    net = network(
        ("address: 192.0.2.1,", "address: 10.0.0.17,"), ("address: 192.0.2.5,", "address: 172.16.0.1,")
    )
    assert device(PassageSection(name="nftables", rules=2), net, HOST_FILES) is not None
    with pytest.raises(
        InputError, match=r"packets from 10\.0\.0\.17 to 172\.16\.0\.1, both hosts of the plan"
    ):
        device(PassageSection(name="nftables", rules=3), net, HOST_FILES)


def test_an_address_of_the_device_s_own_is_refused() -> None:
    with pytest.raises(InputError, match=r"198\.18\.0\.1 is an address of the device itself"):
        device(
            PassageSection(name="forward"),
            network(("address: 192.0.2.5,", "address: 198.18.0.1,")),
            HOST_FILES,
        )


def test_a_redundant_pair_carries_plans_without_ipv6_and_has_rules_of_its_own() -> None:
    found = device(
        PassageSection(name="keepalived:advert=100ms:hard=1s"), ready_network("campus"), HOST_FILES
    )
    assert found is not None
    assert found.title == "keepalived:advert=100ms:hard=1s"
    with pytest.raises(InputError, match=r"2001:db8:94::\d+ is IPv6, which the device 'keepalived' does not"):
        device(PassageSection(name="keepalived"), ready_network("carriers"), HOST_FILES)
    with pytest.raises(InputError, match="the device 'ucarp' has rules of its own: give none"):
        device(PassageSection(name="ucarp", rules=5), ready_network("campus"), HOST_FILES)
    mine = network(("address: 192.0.2.5,", "address: 100.64.1.254,"))
    with pytest.raises(InputError, match=r"100\.64\.1\.254 is an address of the device itself"):
        device(PassageSection(name="ucarp"), mine, HOST_FILES)
    assert device(PassageSection(name="nftables"), mine, HOST_FILES) is not None


@pytest.mark.parametrize(
    ("lost", "silence_ms", "why"),
    [(range(20, 30), 200, ""), (range(15, 50), 680, "speech to the caller stopped 0.7 s before its end")],
    ids=["comes back", "stops"],
)
def test_speech_that_stops_before_its_end_is_not_as_planned(
    tmp_path: Path, lost: range, silence_ms: float, why: str
) -> None:
    net = ready_network("campus")
    planned_call = planned(net, fall_back=False)[0]
    phone = ip_address(str(net.plan.engines["phone"].address)).packed

    class Interrupted(FakeLab):
        """Packets ``lost`` of the speech to the caller do not get through."""

        def call(
            self, name: str, number: str, answer: int, codecs: Mapping[str, str], meanwhile: int = 0
        ) -> list[Frame]:
            frames = super().call(name, number, answer, codecs, meanwhile)
            spoken = [
                each for each in frames
                if each.delivered and each.content[30:34] == phone and each.content[42:43] == b"\x80"
            ]  # fmt: skip
            gone = [spoken[index] for index in lost]
            return [each for each in frames if each not in gone]

    row, _, (there, back) = carried(Interrupted(net, tmp_path).through(FakePassage()), planned_call)
    assert (row.verdict, row.why) == (NOT_AS_PLANNED if why else AS_PLANNED, why)
    assert back.silence_ms == pytest.approx(silence_ms)
    assert there.silence_ms == 0
    assert back.ends_silent is bool(why)


def test_packets_that_do_not_pass_the_device_are_counted_once() -> None:
    first = total(
        {"caller_rx_packets": 10, "caller_tx_packets": 20, "near_tx_dropped": 0},
        {"in_rx_packets": 7, "out_tx_packets": 6, "out_rx_packets": 21, "in_tx_packets": 19},
        Total(),
    )
    there, back = passed(4, Total(), first)
    assert (there.index, there.direction, there.caller_packets, there.entered, there.left) == (
        4,
        THERE,
        10,
        7,
        6,
    )
    assert (back.direction, back.caller_packets, back.entered, back.left) == (BACK, 20, 21, 19)
    assert (there.bypassed, back.bypassed) == (3, 1)
    assert bypassing([there, back], "esp") == [
        "3 of 10 packets from the caller bypassed esp", "1 of 20 packets to the caller bypassed esp",
    ]  # fmt: skip
    # What was missed before is no fault of the next call, and a packet counted a little later is none at all.
    later = replace(first, sent=20, there_in=17, got=30, back_out=29)
    assert bypassing(passed(5, first, later), "esp") == []
    assert (
        bypassing(passed(6, replace(first, there_in=11), replace(first, sent=11, there_in=11)), "esp") == []
    )


def test_what_is_for_the_caller_counts_where_it_arrives(tmp_path: Path) -> None:
    net = ready_network("campus")
    call = planned(net, fall_back=False)[0]
    lab = FakeLab(net, tmp_path).through(FakePassage())
    frames = lab.call(call.caller, call.test.number, 200, {})
    seen = packets.as_it_reached(frames, str(net.plan.engines["phone"].address))
    answers = [
        each.source.address for each in packets.payloads(seen) if each.content.startswith(b"SIP/2.0 200")
    ]
    assert answers == ["10.93.0.30", "10.93.0.10"]
    # Dropped on its last leg, the answer never reached the caller.
    lost = [each for each in frames if not (each.delivered and b"SIP/2.0 200" in each.content)]
    seen = packets.as_it_reached(lost, str(net.plan.engines["phone"].address))
    answers = [
        each.source.address for each in packets.payloads(seen) if each.content.startswith(b"SIP/2.0 200")
    ]
    assert answers == ["10.93.0.30"]


@pytest.mark.parametrize(("missed", "verdict"), [(0, AS_PLANNED), (3, NOT_AS_PLANNED)])
def test_a_call_that_bypasses_the_device_is_not_as_planned(tmp_path: Path, missed: int, verdict: str) -> None:
    net = ready_network("campus")
    call = planned(net, fall_back=False)[0]
    row, _, through = carried(FakeLab(net, tmp_path).through(FakePassage(missed)), call)
    assert row.verdict == verdict
    told = "3 of 100 packets from the caller bypassed nftables with 50 rules"
    assert row.why == (told if missed else "")
    assert [each.index for each in through] == [call.index, call.index]


def test_a_call_that_the_device_spoils_is_not_as_planned_and_the_others_are_made(
    voice: Voice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unheld, unsent = "+420111222001", "+420111444001"

    def opened(net: PlanNetwork, talk_s: float) -> FakeLab:
        lab = FakeLab(net, tmp_path).through(FakePassage(dropping=10))
        return lab.spoiling({unheld: "the call to be up meanwhile was not answered", unsent: ""})

    monkeypatch.setitem(studies(), "voice", VoiceStudy(opened))
    monkeypatch.setenv("WEIR_STORE", str(tmp_path / "store"))
    answer = voice("prove", "campus", "--no-fall-back", "--dut", "nftables", "--rules", "50", "--json")
    assert answer.code == 9
    spoilt = {row["number"]: row for row in answer.json["calls"] if row["verdict"] != AS_PLANNED}
    dropped = "nftables with 50 rules let through 90 of 100 packets from the caller"
    assert {number: row["why"] for number, row in spoilt.items()} == {
        unheld: f"{dropped}; the call to be up meanwhile was not answered",
        unsent: f"{dropped}; phone sent no call to {unsent}",
    }
    assert {(row["verdict"], row["way"], row["answer"]) for row in spoilt.values()} == {
        (NOT_AS_PLANNED, "", 0)
    }
    assert len(answer.json["calls"]) > len(spoilt)
    page = VoiceStudy().page(Store(tmp_path / "store").open("last")).html()
    assert f"phone sent no call to {unsent}" in page


def test_a_caller_that_sends_nothing_although_there_is_no_device_is_an_error(tmp_path: Path) -> None:
    net = ready_network("campus")
    call = planned(net, fall_back=False)[0]
    with pytest.raises(LabError, match=r"sipp of phone sent no call to .*; its last output: nothing"):
        carried(FakeLab(net, tmp_path).spoiling({call.test.number: ""}), call)


def test_a_trial_that_bypasses_the_device_is_an_error(tmp_path: Path) -> None:
    net = ready_network("campus")
    assert len(_passed(FakeLoadLab(net, tmp_path).through(FakePassage()), 0, [], "phone")) == 2
    assert _passed(FakeLoadLab(net, tmp_path), 0, [], "phone") == []
    with pytest.raises(LabError, match="says nothing about nftables with 50 rules: 3 of 100 packets"):
        _passed(FakeLoadLab(net, tmp_path).through(FakePassage(3)), 0, [], "phone")


def test_a_run_tells_and_draws_its_device(
    voice: Voice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def opened(net: PlanNetwork, talk_s: float) -> FakeLab:
        return FakeLab(net, tmp_path).through(FakePassage())

    monkeypatch.setitem(studies(), "voice", VoiceStudy(opened))
    monkeypatch.setenv("WEIR_STORE", str(tmp_path / "store"))
    answer = voice("prove", "campus", "--dut", "nftables", "--rules", "50", "--json")
    assert answer.code == 0, answer.err
    document = answer.json
    assert document["device"]["name"] == "nftables with 50 rules"
    assert len(document["device"]["packets"]) == 2 * len(document["calls"])
    assert {row["setup_ms"] for row in document["calls"] if row["way"] == "phone > core > cyrus"} == {3.0}
    run = Store(tmp_path / "store").open("last")
    story = VoiceStudy().page(run)
    assert "went as the plan campus says, through nftables with 50 rules" in story.answer
    page = story.html()
    assert "<title>nftables with 50 rules</title>" in page
    assert "Packets through nftables with 50 rules" in page


def test_the_map_has_the_device_at_each_caller() -> None:
    net = ready_network("campus")
    chart = charted(net, planned(net, fall_back=True), "esp")
    assert chart.behind == ("phone", "guest")
    assert str(drawn(chart, []).markup).count("<title>esp</title>") == 2
    assert Chart.of(chart.document()) == chart
    plain = charted(net, planned(net, fall_back=True))
    assert plain.behind == ()
    assert 'class="device' not in str(drawn(plain, []).markup)


@pytest.mark.parametrize("command", ["prove", "load"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dut", "nftabels"), "no device under test is called 'nftabels' (did you mean nftables?)"),
        (("--rules", "5"), "--rules and --stateful need a device: name one with --dut"),
        (("--dut", "vm:flowtable"), "cannot carry calls"),
        (("--dut", "esp:nonsense"), "no suite 'nonsense'"),
        (("--ruleset", "/nowhere/at/all"), "/nowhere/at/all"),
    ],
)
def test_wrong_devices_are_refused_before_anything_runs(
    voice: Voice, command: str, options: tuple[str, ...], message: str
) -> None:
    answer = voice(command, "--plan", "campus", *options)
    assert answer.code == 2
    assert message in answer.err.replace("\n", " ")
