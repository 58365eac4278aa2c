"""One call, both of its ends, without a network: what either says is handed to the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.telephone import call as calls
from weirlab.numbering.telephone import h225, h245
from weirlab.numbering.telephone.call import Call, TelephoneIdentity
from weirlab.numbering.telephone.h225 import H225Message
from weirlab.numbering.telephone.h245 import Channel

CALL = "00" * 16
MEDIA, THEIRS = Address("192.0.2.1", 6200), Address("192.0.2.2", 6202)
CONTROL = Address("192.0.2.2", 30000)


def own(*codecs: str, host: str = "192.0.2.1") -> TelephoneIdentity:
    return TelephoneIdentity("hall", Address(host, 1720), codecs or ("alaw",))


def calling(*codecs: str) -> Call:
    call = Call(own(*codecs), MEDIA, Address("192.0.2.1", 30000), CALL, 7, "420308")
    call.begin(0.0)
    return call


class Pair:
    """A caller and a callee; what they say crosses in bytes."""

    def __init__(self, caller: Call, *codecs: str, fast: bool = True) -> None:
        self.caller = caller
        (setup,) = self._said(caller)
        setup = setup if fast else replace(setup, channels=())
        self.callee = Call.taken(own(*codecs, host="192.0.2.2"), THEIRS, CONTROL, setup)
        self.told: list[str] = []
        self.controlled: list[str] = []

    @staticmethod
    def _said(call: Call) -> list[H225Message]:
        said = [h225.read(h225.written(each)) for each in call.out]
        call.out.clear()
        return said

    def exchange(self, now_s: float) -> None:
        """Until neither has something to say."""
        while any((each.out, each.controls) != ([], []) for each in (self.caller, self.callee)):
            for here, there in ((self.caller, self.callee), (self.callee, self.caller)):
                for signal in self._said(here):
                    self.told.append(signal.title)
                    there.signalled(signal, now_s)
                for message in [h245.read(h245.written(each)) for each in here.controls]:
                    self.controlled.append(h245.title(message))
                    there.controlled(message, now_s)
                here.controls.clear()

    def answer(self) -> None:
        self.callee.admitted(0.0)
        self.exchange(0.0)
        self.callee.due(calls.ANSWER_S)
        self.exchange(calls.ANSWER_S)


def test_two_telephones_agree_on_channels_with_setup_and_connect_alone() -> None:
    pair = Pair(calling("alaw", "ulaw"), "alaw", "ulaw")
    pair.answer()
    assert pair.told == ["Call Proceeding", "Alerting", "Connect"]
    assert (pair.caller.codec, pair.caller.speaks_to) == ("alaw", THEIRS)
    assert (pair.callee.codec, pair.callee.speaks_to) == ("alaw", MEDIA)
    assert pair.caller.connected
    assert pair.controlled == []
    pair.caller.hang_up()
    pair.exchange(1.0)
    assert (pair.callee.over, pair.callee.cause, pair.callee.speaks_to) == (True, h225.NORMAL, None)


def test_the_caller_s_order_of_codecs_decides_among_those_that_the_callee_has() -> None:
    pair = Pair(calling("g722", "ulaw", "alaw"), "alaw", "ulaw")
    pair.answer()
    assert (pair.caller.codec, pair.callee.codec) == ("ulaw", "ulaw")


def control(pair: Pair) -> None:
    """The connection of H.245 is made."""
    assert pair.caller.connects_to == CONTROL
    pair.caller.opened()
    pair.callee.opened()
    pair.exchange(0.2)


def test_without_fast_connect_channels_are_opened_by_h245() -> None:
    pair = Pair(calling("ulaw", "alaw"), "alaw", fast=False)
    pair.answer()
    assert pair.caller.speaks_to is None
    control(pair)
    assert {"OLC alaw", "OLC Ack", "MSD Ack", "TCS Ack"} <= set(pair.controlled)
    assert (pair.caller.speaks_to, pair.callee.speaks_to) == (THEIRS, MEDIA)
    assert (pair.caller.codec, pair.callee.codec) == ("alaw", "alaw")
    assert pair.caller._master is not pair.callee._master
    pair.caller.due(60.0)
    pair.callee.due(60.0)
    assert (pair.caller.over, pair.callee.over) == (False, False)


def test_without_a_common_codec_the_call_is_released_and_says_why() -> None:
    pair = Pair(calling("g729"), "alaw")
    pair.answer()
    control(pair)
    ends = (pair.caller, pair.callee)
    assert all((each.over, each.cause) == (True, h225.NO_CODEC) for each in ends)
    assert any(each.why.startswith("no codec in common: ") for each in ends)


def test_a_callee_that_says_nothing_is_given_up() -> None:
    call = calling()
    call.due(calls.RESPONSE_S - 0.1)
    assert not call.over
    call.due(calls.RESPONSE_S)
    assert (call.cause, call.why) == (h225.EXPIRED, "no answer to Setup in time")
    assert call.out[-1].kind == h225.RELEASE


def test_a_callee_that_answers_and_opens_no_channel_is_given_up() -> None:
    call = calling()
    call.signalled(H225Message(h225.CONNECT, 7, True, CALL, control=CONTROL), 1.0)
    assert call.connects_to == CONTROL
    call.due(1.0 + calls.CHANNEL_S)
    assert call.why == "no channel for speech in time"


def test_a_callee_may_tell_where_it_waits_for_h245_after_its_answer() -> None:
    call = calling()
    call.signalled(H225Message(h225.CONNECT, 7, True, CALL), 1.0)
    assert (call.connected, call.connects_to) == (True, None)
    call.signalled(H225Message(h225.FACILITY, 7, True, CALL, control=CONTROL), 2.0)
    assert call.connects_to == CONTROL
    call.due(2.0 + calls.CHANNEL_S)
    assert call.why == "no channel for speech in time"


def test_a_refusal_tells_its_cause() -> None:
    call = calling()
    call.signalled(H225Message(h225.RELEASE, 7, True, CALL, cause=h225.BUSY), 1.0)
    assert (call.over, call.cause, call.why) == (True, h225.BUSY, "")


def test_a_connection_that_closes_mid_set_up_ends_the_call_with_the_reason() -> None:
    call = calling()
    call.closed("192.0.2.2 closed the connection before the call was answered")
    assert (call.over, call.cause) == (True, h225.FAILURE)
    call.due(60.0)
    assert call.why == "192.0.2.2 closed the connection before the call was answered"


def test_a_call_that_is_hung_up_while_it_rings_is_never_answered() -> None:
    pair = Pair(calling(), "alaw")
    pair.callee.admitted(0.0)
    pair.exchange(0.0)
    pair.caller.hang_up()
    pair.exchange(0.0)
    pair.callee.due(1.0)
    assert pair.callee.over
    assert not pair.callee.connected


@pytest.mark.parametrize(
    ("kind", "number", "ours"), [(60, 5, False), (40, 5, True), (50, 101, True), (50, 99, False)]
)
def test_the_master_is_the_larger_type_then_who_is_behind(kind: int, number: int, ours: bool) -> None:
    call = calling()
    call._rank = 100
    call.controlled(h245.Determination(kind, number), 0.0)
    assert call.controls == [h245.DeterminationAck(not ours)]


def test_a_channel_in_a_codec_that_nobody_here_knows_is_rejected() -> None:
    call = calling()
    call.controlled(h245.OpenChannel(Channel(9, "g729")), 0.0)
    assert call.controls == [h245.OpenChannelReject(9)]
