"""Calls by H.323 and MGCP as they were recorded, read from the wire."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.numbering.fakes import _datagram
from weirlab.numbering.gatekeeper import ras
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.proof import calling, ways
from weirlab.numbering.proof.ways import ProofCall, planned
from weirlab.numbering.proof.wire import h323, signalling
from weirlab.numbering.proof.wire.h323 import H225WireMessage, Ras
from weirlab.numbering.proof.wire.packets import TransportAddress
from weirlab.numbering.proof.wire.signalling import CallLeg
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.telephone import h245
from weirlab.numbering.telephone.h245 import Channel

from ..plans import ready_network

RECORDED = Path(__file__).parent / "recorded"
CONNECT, RELEASE, SETUP = 0x07, 0x5A, 0x05
WEST, EAST = TransportAddress("10.95.0.41", 30000), TransportAddress("10.95.0.42", 1720)
GK_WEST, GK_EAST = TransportAddress("10.95.0.51", 1719), TransportAddress("10.95.0.52", 1719)
LINE, AGENT = ("10.95.0.60", 2427), ("10.95.0.41", 2727)


def frames(name: str) -> list[Frame]:
    content = (RECORDED / f"{name}.pcap").read_bytes()
    found, at = [], 24
    while at < len(content):
        seconds, nanoseconds, size, _ = struct.unpack_from("<IIII", content, at)
        found.append(Frame(seconds * 10**9 + nanoseconds, content[at + 16 : at + 16 + size], delivered=False))
        at += 16 + size
    return found


@pytest.fixture(autouse=True)
def _all_engines(has_asterisk: None) -> None:
    """Calls through gateways can be planned."""


def call(plan: str, number: str) -> tuple[PlanNetwork, ProofCall]:
    net = ready_network(plan)
    return net, next(each for each in planned(net, fall_back=False) if each.test.number == number)


@pytest.mark.parametrize(
    ("name", "plan", "number", "logs"),
    [
        ("sip-h323-mgcp", "translations", "+420402000001", "gw-west gk-west gk-east gw-east"),
        ("mgcp-h323-sip", "translations", "+420401000002", "gw-west gk-west gk-east gw-east"),
        ("enum-h323", "federation", "+420950051123", "gw-a gw-b"),
    ],
)
def test_a_recorded_call_took_the_way_of_the_plan(name: str, plan: str, number: str, logs: str) -> None:
    net, wanted = call(plan, number)
    legs, _, _ = calling.seen(frames(name))
    said = dict.fromkeys(logs.split(), f"NOTICE: ROUTE num={number} via=static target=x\n")
    if plan == "federation":
        said |= dict.fromkeys(("core", "gk"), f"ROUTE num={number} via=public target=x\n")
    found = ways.taken(net, wanted, legs, said)
    assert ways.differences(wanted, found) == []
    assert found.engines == wanted.way.engines
    assert found.tried == ()
    assert found.setup_ns is not None


def test_the_messages_of_all_protocols_are_told_in_one_ladder() -> None:
    _, told, sip = calling.seen(frames("sip-h323-mgcp"))
    titles = [each.title for each in told]
    order = (
        "INVITE +420402000001", "ARQ 420402000001", "LRQ 420402000001", "LCF", "ACF", "Setup 420402000001",
        "CRCX", "NTFY L/hd", "Connect", "200 OK", "BYE", "Release Complete cause 16", "DLCX", "NTFY L/hu",
    )  # fmt: skip
    places = [titles.index(title) for title in order]
    assert places == sorted(places)
    assert [each.at_ns for each in told] == sorted(each.at_ns for each in told)
    assert {each.title for each in sip} < set(titles)
    assert not {"RSIP", "AUEP", "RRQ"} & set(titles)


def test_a_caller_on_a_line_has_dialled_all_digits_and_is_answered_when_its_call_is() -> None:
    legs, told, _ = calling.seen(frames("mgcp-h323-sip"))
    (begun,) = (leg for leg in legs if leg.source.address == "10.95.0.60")
    assert (begun.uri, begun.answer) == ("420401000002", 200)
    connect = next(each for each in told if each.title == "Connect")
    to_office = next(leg for leg in legs if leg.target.address == "10.95.0.32")
    # The first answer of all calls that its call agent made; the gatekeeper's leg has that of the call.
    assert begun.answered_ns == connect.at_ns
    assert to_office.answered_ns < connect.at_ns


@pytest.mark.parametrize(
    ("log", "answer", "same"),
    [
        ("NOTICE: REJECTED num=420900 barred for west\n", 403, True),
        ("NOTICE: REJECTED num=420900 not admitted\n", 403, True),
        ("", 503, True),
        ("NOTICE: ROUTE num=420900 via=static target=desk\n", 503, True),
    ],
)
def test_a_refused_line_hears_a_tone_and_the_log_says_whether_it_is_a_rule(
    log: str, answer: int, same: bool
) -> None:
    net, wanted = call("translations", "+420301000002")
    fax, gateway = TransportAddress("10.95.0.60", 2427), TransportAddress("10.95.0.41", 2727)
    leg = CallLeg(
        1, fax, gateway, f"{signalling.CALL}7", f"{signalling.CALL}7", "420900", (), signalling.NO_REASON, 2
    )
    found = ways.taken(net, replace(wanted, caller="fax"), [leg], {"gw-west": log})
    assert (found.answer, found.by_tone) == (answer, same)


def signal(at: int, kind: int, *, back: bool = False, cause: int = 0) -> H225WireMessage:
    ends = (EAST, WEST) if back else (WEST, EAST)
    return H225WireMessage(at, *ends, kind, 7, "420401" if kind == SETUP else "", cause)


def asked(at: int, here: TransportAddress, there: TransportAddress, message: ras.RasMessage) -> Ras:
    return Ras(at, here, there, message)


ARQ = asked(1, WEST, GK_WEST, ras.AdmissionRequest(5, "x", "420401", False, 640, None, False))
LRQ = asked(2, GK_WEST, GK_EAST, ras.LocationRequest(9, "420401", ras.Address(*GK_WEST)))
LCF = asked(3, GK_EAST, GK_WEST, ras.LocationConfirm(9, ras.Address(*EAST), ras.Address(*GK_EAST)))
ACF = asked(4, GK_WEST, WEST, ras.AdmissionConfirm(5, 640, ras.Address(*EAST)))


def ends(legs: list[h323.CallLeg]) -> list[tuple[str, str, int]]:
    last = {place.address: place.address[-2:] for place in (WEST, EAST, GK_WEST, GK_EAST)}
    return [(last[leg.source.address], last[leg.target.address], leg.answer) for leg in legs]


def test_gatekeepers_stand_on_the_way_that_they_told() -> None:
    found = h323.legs([signal(5, SETUP), signal(6, CONNECT, back=True)], [ARQ, LRQ, LCF, ACF])
    assert ends(found) == [("41", "51", 200), ("51", "52", 200), ("52", "42", 200)]


def codecs(legs: list[h323.CallLeg]) -> set[tuple[tuple[str, ...], str | None]]:
    return {(leg.offered, leg.codec) for leg in legs}


def test_the_codec_of_a_call_is_what_fast_connect_agreed_on() -> None:
    offered = tuple(Channel(number, codec) for number, codec in ((1, "g722"), (3, "alaw")))
    setup = replace(signal(5, SETUP), channels=(*offered, Channel(4, "ulaw", reverse=True)))
    answer = replace(signal(6, CONNECT, back=True), channels=(offered[1], Channel(2, "alaw", reverse=True)))
    assert codecs(h323.legs([setup, answer], [ARQ, ACF])) == {(("g722", "alaw"), "alaw")}


def test_else_it_is_that_of_the_channel_that_the_caller_opened_by_h245() -> None:
    heard = [signal(5, SETUP), signal(6, CONNECT, back=True)]
    said = [
        h323.Control(7, WEST, EAST, h245.OpenChannel(Channel(1, "ulaw"))),
        h323.Control(8, EAST, WEST, h245.OpenChannelReject(1)),
        h323.Control(9, WEST, EAST, h245.OpenChannel(Channel(2, "alaw"))),
        h323.Control(10, EAST, WEST, h245.OpenChannel(Channel(1, "g729"))),
        h323.Control(11, EAST, WEST, h245.OpenChannelAck(2, None)),
    ]
    assert codecs(h323.legs(heard, [], said)) == {(("ulaw", "alaw"), "alaw")}


@pytest.mark.parametrize(
    ("reason", "answer"), [("requestDenied", 403), ("resourceUnavailable", 503), ("incompleteAddress", 484)]
)
def test_why_a_gatekeeper_rejects_is_an_answer_of_sip(reason: str, answer: int) -> None:
    rejected = asked(4, GK_WEST, WEST, ras.AdmissionReject(5, reason))
    assert ends(h323.legs([], [ARQ, rejected])) == [("41", "51", answer)]


def test_without_a_gatekeeper_a_call_is_a_leg() -> None:
    assert ends(h323.legs([signal(5, SETUP)], [])) == [("41", "42", 0)]


@pytest.mark.parametrize(("cause", "answer"), [(17, 486), (1, 404), (34, 503), (99, 500)])
def test_a_cause_is_an_answer_of_sip(cause: int, answer: int) -> None:
    heard = [signal(5, SETUP), signal(6, RELEASE, back=True, cause=cause)]
    assert ends(h323.legs(heard, [])) == [("41", "42", answer)]


def test_who_is_rejected_has_asked_and_went_no_further() -> None:
    rejected = [
        asked(3, GK_EAST, GK_WEST, ras.LocationReject(9, "notRegistered")),
        asked(4, GK_WEST, WEST, ras.AdmissionReject(5, "calledPartyNotRegistered")),
    ]
    assert ends(h323.legs([], [ARQ, LRQ, *rejected])) == [("41", "51", 404), ("51", "52", 404)]


def test_a_gatekeeper_that_does_not_answer_was_asked_once_however_often_it_was() -> None:
    again = replace(ARQ, at_ns=17, message=replace(ARQ.message, number=6))
    assert ends(h323.legs([], [ARQ, replace(ARQ, at_ns=9), again])) == [("41", "51", 0)]


def datagram(at: int, text: str, *, to_line: bool = False) -> Frame:
    ends = (AGENT, LINE) if to_line else (LINE, AGENT)
    return Frame(at, _datagram(*ends, text.encode()), delivered=False)


CRCX = datagram(1, "CRCX 1 aaln/1@fax MGCP 1.0\r\nC: 7\r\nM: recvonly\r\n\r\nv=0\r\n", to_line=True)
RINGS = datagram(3, "RQNT 2 aaln/1@fax MGCP 1.0\r\nS: L/rg\r\n", to_line=True)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("NTFY 9 aaln/1@fax MGCP 1.0\r\nX: 1\r\nO: L/hd\r\n", 200),
        ("401 1 Off hook\r\n", 486),
        ("502 2 No resources\r\n", 503),
        ("200 1 OK\r\nI: 1\r\n", 0),
    ],
    ids=["answers", "busy", "refuses", "rings"],
)
def test_a_line_that_is_called_answers_by_going_off_the_hook(said: str, answer: int) -> None:
    commands = signalling.commands([CRCX, CRCX, RINGS, datagram(4, said)])
    (leg,) = signalling.mgcp_legs(commands, [])
    assert (leg.source, leg.target, leg.answer) == (AGENT, LINE, answer)


@pytest.mark.parametrize(("tone", "answer"), [("L/bz", 486), ("G/cg", 503), ("G/rt", 0)])
def test_a_tone_tells_a_calling_line_of_trouble(tone: str, answer: int) -> None:
    said = [
        datagram(1, "NTFY 1 aaln/1@fax MGCP 1.0\r\nX: 1\r\nO: L/hd\r\n"),
        datagram(2, "CRCX 1 aaln/1@fax MGCP 1.0\r\nM: sendrecv\r\n", to_line=True),
        datagram(3, "NTFY 2 aaln/1@fax MGCP 1.0\r\nX: 1\r\nO: D/4\r\n"),
        datagram(4, "NTFY 2 aaln/1@fax MGCP 1.0\r\nX: 1\r\nO: D/4\r\n"),
        datagram(5, "NTFY 3 aaln/1@fax MGCP 1.0\r\nX: 1\r\nO: D/2\r\n"),
        datagram(6, f"RQNT 3 aaln/1@fax MGCP 1.0\r\nS: {tone}\r\n", to_line=True),
    ]
    (leg,) = signalling.mgcp_legs(signalling.commands(said), [])
    assert (leg.source, leg.uri, leg.answer, leg.at_ns) == (LINE, "42", answer, 5)


@settings(max_examples=50)
@given(st.binary(max_size=60))
def test_foreign_bytes_are_no_call(content: bytes) -> None:
    foreign = [Frame(0, _datagram(LINE, (AGENT[0], port), content), delivered=False) for port in (1719, 2727)]
    assert calling.seen(foreign)[0] == []
