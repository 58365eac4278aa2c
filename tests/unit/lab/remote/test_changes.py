from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab import wiring
from weirlab.lab.base import Site
from weirlab.lab.remote.changes import CommandChange, OperatorChange, RuleChange, document
from weirlab.lab.remote.device import ExternalDevice
from weirlab.lab.remote.session import difference
from weirlab.records import RuleSetup

from .targets import RecordedTarget

SITE = Site("", wiring.IN0, wiring.OUT0, wiring.TX0, wiring.RX0, 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_device_that_is_not_changed_takes_position_0_only() -> None:
    device = ExternalDevice("blackbox")
    device.apply(SITE, RuleSetup(both_ways=True))
    for rules in (RuleSetup(1), RuleSetup(stateful=True)):
        with pytest.raises(InputError, match="the device is not changed"):
            device.apply(SITE, rules)
    assert device.counters() == {}


def test_an_operator_is_told_the_rules_and_confirms_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("\n"))
    monkeypatch.setattr(sys, "stderr", Terminal())
    device = ExternalDevice("blackbox", change=OperatorChange())
    notes: list[str] = []
    device.note = notes.append
    assert device.check() == []
    device.start(SITE)
    device.apply(SITE, RuleSetup(200, stateful=True))
    question = notes.pop()
    assert "200 rules, of which number 200 accepts 198.18.0.0/16 to 198.19.0.0/16" in question
    assert "connection tracking" in question
    with pytest.raises(LabError, match="nobody confirms the rules any more"):
        device.apply(SITE, RuleSetup())
    notes.clear()
    device.stop()
    assert notes == ["the device still has the rules that you set last: restore its own"]


def test_an_operator_is_not_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    (missing,) = ExternalDevice("blackbox", change=OperatorChange()).check()
    assert "there is no terminal" in missing


def program(folder: Path, text: str) -> str:
    path = folder / "set-rules"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_gets_the_rules_as_json_and_is_called_once_more_at_the_end(tmp_path: Path) -> None:
    device = ExternalDevice(
        "blackbox", change=CommandChange([program(tmp_path, f"cat >>{tmp_path}/log; echo >>{tmp_path}/log")])
    )
    assert device.check() == []
    device.apply(SITE, RuleSetup(2, stateful=True))
    device.stop()
    device.stop()
    applied, restored = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert applied == document("apply", RuleSetup(2, stateful=True))
    assert (restored["event"], restored["rules"], restored["position"]) == ("restore", [], 0)
    assert applied["accepting"] == [2]
    assert applied["rules"][1] == {
        "place": 2,
        "ip": 4,
        "source": "198.18.0.0/16",
        "destination": "198.19.0.0/16",
        "protocol": None,
        "port": None,
        "action": "accept",
    }
    assert applied["rules"][0]["protocol"] == "tcp"
    assert [rule["ip"] for rule in applied["rules"]] == [4, 4, 6, 6]


def test_a_program_that_fails_ends_the_run_with_its_last_line(tmp_path: Path) -> None:
    change = CommandChange([program(tmp_path, "echo one >&2; echo 'no such zone: test' >&2; exit 3")])
    with pytest.raises(LabError, match=r"set-rules \(exit code 3\): no such zone: test$"):
        change.apply(RuleSetup(1))


def test_a_program_that_is_not_there_is_named() -> None:
    (missing,) = CommandChange(["weir-no-such-program"]).missing()
    assert "weir-no-such-program is not installed" in missing


class CountingChange(RuleChange):
    def packets(self, printed: str) -> int | None:
        return 5

    def apply(self, rules: RuleSetup) -> None:
        pass


def test_traffic_that_passes_without_meeting_the_rules_is_noticed() -> None:
    target = RecordedTarget({})
    device = ExternalDevice("nftables", target, CountingChange(), ("eth1",))
    device.apply(SITE, RuleSetup(3))

    def forwarded(packets: int) -> None:
        target.answers["sh -s"] = f"port eth1 0 0 0 0 0 0 0 0 0 {packets} 0 0 0 0 0 0\nfilter\n"

    forwarded(10)
    assert device.counters()["weir_entered_packets"] == 5
    forwarded(50)
    assert device.counters()["device_eth1_tx_packets"] == 50
    forwarded(10_000)
    with pytest.raises(LabError, match="forwarded 9,950 packets, and none of them met Weir's rules"):
        device.counters()


class VanishingChange(CountingChange):
    there = True

    def packets(self, printed: str) -> int | None:
        return 5 if self.there else None


class RestoringChange(VanishingChange):
    """The device restores its own rules while its counters are read."""

    looks = 0

    def confirm(self, beyond_s: float = 0.0) -> None:
        self.looks += not self.there
        if self.looks == 2:
            raise LabError("it restored its own rules")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (VanishingChange(), "Weir's rules are no longer on the device"),
        (RestoringChange(), "it restored its own rules"),
    ],
)
def test_rules_that_something_removed_are_missed(change: VanishingChange, reason: str) -> None:
    device = ExternalDevice("nftables", RecordedTarget({"sh -s": "filter\n"}), change, ("eth1",))
    device.apply(SITE, RuleSetup(3))
    device.counters()
    change.there = False
    with pytest.raises(LabError, match=reason):
        device.counters()


def test_a_difference_shows_only_lines_that_changed() -> None:
    assert difference("a\nb\nc\n", "a\nc\nd\n") == "- b\n+ d".replace("- ", "-").replace("+ ", "+")
    assert difference("a\n", "a\n") == ""
