"""Mistakes that no plan shows: each is found by calls, or by the lab, with the right sentence."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from weirlab.base.errors import LabError
from weirlab.numbering import lab as lab_module
from weirlab.numbering.configs import sipp
from weirlab.numbering.lab import VoiceLab
from weirlab.numbering.plan import loads
from weirlab.numbering.plan.model import Test
from weirlab.numbering.proof.calling import made
from weirlab.numbering.proof.ways import ProofCall, planned
from weirlab.numbering.routing import PlanNetwork

from .test_voice import SMALL, _needs_engines, small

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures(_needs_engines.__name__)]

ENUM = '  - {number: "+420111000001", via: public, ends_at: desk}\n'
ROUTE = '  - {number: "+420222000001", via: static, ends_at: desk}\n'
NET: Final = small(ENUM, ROUTE)

SPOILED: Final = (
    ("named/0.2.4.e164.arpa.zone", "@small.example", "@voicemail.small.example"),
    ("named/small.example.zone", "desk IN A", "voicemail IN A 198.51.100.30\ndesk IN A"),
    ("core/db/mtree_plan", "192.0.2.30", "198.51.100.30"),
)
"""Files that engines read, and what is wrong in them: a record and a route that lead to another callee."""


@contextmanager
def spoiling(*spoiled: tuple[str, str, str]) -> Iterator[None]:
    """Meanwhile labs get files in which something is wrong."""
    made_right = lab_module.configs

    def wrong(net: PlanNetwork, root: str) -> dict[str, str]:
        found = made_right(net, root)
        for file, old, new in spoiled:
            assert old in found[file], (file, old)
            found[file] = found[file].replace(old, new)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab_module, "configs", wrong)
        yield


@pytest.fixture(scope="module")
def spoiled(_needs_engines: None) -> Iterator[VoiceLab]:
    with spoiling(*SPOILED), VoiceLab(NET, 0.2) as opened:
        yield opened


def first(number: str) -> ProofCall:
    return next(call for call in planned(NET, fall_back=False) if call.test.number == number)


def test_a_name_server_that_lies_is_told_with_what_it_says_and_what_the_plan_says(spoiled: VoiceLab) -> None:
    row, _ = made(spoiled, first("+420111000001"))
    assert row.why == (
        "way phone > core > voicemail instead of phone > core > desk; the test requires that desk answers; "
        "named answers E2U+sip !^\\+(.*)$!sip:\\1@voicemail.small.example! for "
        "1.0.0.0.0.0.1.1.1.0.2.4.e164.arpa, but the plan says E2U+sip !^\\+(.*)$!sip:\\1@small.example!"
    )


def test_a_proxy_that_routes_otherwise_is_told_with_both_ways(spoiled: VoiceLab) -> None:
    row, _ = made(spoiled, first("+420222000001"))
    assert row.why == (
        "way phone > core > voicemail instead of phone > core > desk; the test requires that desk answers"
    )


def test_a_name_server_that_does_not_answer_is_told(spoiled: VoiceLab) -> None:
    assert spoiled._machine is not None
    spoiled._machine.signal("named", signal.SIGSTOP)
    try:
        row, _ = made(spoiled, first("+420111000001"))
    finally:
        spoiled._machine.signal("named", signal.SIGCONT)
    assert row.why.startswith("answer 404 instead of 200; way phone > core instead of phone > core > desk; ")
    assert re.search(r"; named did not answer (\d+) of \1 quer(y|ies)$", row.why), row.why


def test_a_test_that_demands_another_callee_is_not_proved(spoiled: VoiceLab) -> None:
    wanted = first("+420222000001")
    demands = Test(number="+420222000001", ends_at="phone")
    row, _ = made(spoiled, ProofCall(0, demands, wanted.caller, wanted.way))
    # A late query of the call before this one may add a phrase about the name server.
    assert "the test requires that phone answers" in row.why.split("; ")


def changed(old: str, new: str) -> Callable[..., str]:
    right = sipp.callee

    def wrong(net: PlanNetwork, name: str, status: int | None = None) -> str:
        text = right(net, name, status)
        assert old in text or name != "voicemail"
        return text.replace(old, new)

    return wrong


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("RTP/AVP 8 0 101", "RTP/AVP 18 101", "codec g729, which was not offered, instead of alaw"),
        ("SIP/2.0 200 OK\n[last_Via:]", "SIP/2.0 603 Decline\n[last_Via:]", "answer 603 instead of 200"),
    ],
    ids=["codec", "declines"],
)
def test_a_callee_that_answers_otherwise_is_told(
    spoiled: VoiceLab, monkeypatch: pytest.MonkeyPatch, old: str, new: str, why: str
) -> None:
    net = small('  - {number: "+420222000001", ends_at: voicemail}\n')
    # The spoiled proxy calls voicemail first; here that is as planned.
    swapped = net.plan.routes[0].model_copy(update={"to": ("voicemail", "desk")})
    book = type(net.book)(net.plan.model_copy(update={"routes": (swapped,)}), net.book.document)
    wanted, _of_no_call = planned(PlanNetwork(book, net.day), fall_back=False)
    monkeypatch.setattr(sipp, "callee", changed(old, new))
    row, _ = made(spoiled, wanted)
    assert row.why.split("; ")[0] == why


def test_an_engine_that_dies_while_calls_are_made_is_named_with_its_end() -> None:
    with VoiceLab(NET, 0.2) as lab:
        assert lab._machine is not None
        lab._machine.signal("kamailio of core", signal.SIGKILL)
        with pytest.raises(LabError, match=r"kamailio of core ended by itself \(signal 9\); its last"):
            made(lab, first("+420222000001"))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "named/small.example.zone",
            "small.example",
            "!nonsense!",
            r"named does not load the zone small\.example: .*small\.example\.zone:\d+: near",
        ),
        (
            "core/kamailio.cfg",
            "loadmodule",
            "loadnodule",
            r"kamailio of core ended by itself \(exit code \d+\); its last output: .*",
        ),
        (
            "named/named.conf",
            "recursion",
            "recurion",
            r"named ended by itself \(exit code \d+\); its last output: .*unknown option 'recurion'",
        ),
    ],
    ids=["zone", "proxy", "name server"],
)
def test_an_engine_that_does_not_start_is_named_with_its_last_words(
    file: str, old: str, new: str, said: str
) -> None:
    with spoiling((file, old, new)), pytest.raises(LabError, match=said):
        VoiceLab(NET, 0.2)


def test_a_secondary_that_gets_no_zones_is_named_with_the_reason() -> None:
    secondary = ("primary: ns.small.example,", "primary: ns.small.example, secondaries: [ns2.small.example],")
    host = ("ns.small.example: 192.0.2.53", "ns.small.example: 192.0.2.53, ns2.small.example: 192.0.2.54")
    text = SMALL.replace(*secondary).replace(*host)
    net = PlanNetwork(loads(text, "small.yaml"), NET.day)
    refusing = ("named/named.conf", "allow-transfer { 192.0.2.54; }", "allow-transfer { none; }")
    with (
        spoiling(refusing),
        pytest.raises(
            LabError, match=r"named of named-2 does not get its zones from the primary: .* \(REFUSED\)"
        ),
    ):
        VoiceLab(net, 0.2)
