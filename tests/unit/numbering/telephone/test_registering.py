"""A telephone at its gatekeeper, which answers, rejects, is silent, or talks nonsense."""

from __future__ import annotations

import pytest

from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.gatekeeper.ras import Address, RasMessage
from weirlab.numbering.telephone.call import Call, TelephoneIdentity
from weirlab.numbering.telephone.registering import AGAIN_S, MOST_SENT, Registration

HERE, KEEPER = Address("192.0.2.1", 1720), Address("192.0.2.4", 1719)
OWN = Address("192.0.2.1", 40000)


def said(registration: Registration) -> list[RasMessage]:
    found = [datagrams.read(each) for each in registration.out]
    registration.out.clear()
    return found


def registered() -> Registration:
    made = Registration(KEEPER, "hall", HERE, OWN)
    made.due(1.0)
    (asked,) = said(made)
    assert asked == ras.RegistrationRequest(asked.number, HERE, ("hall",), "", False, OWN)
    made.received(datagrams.written(ras.RegistrationConfirm(asked.number, "gk", "192.0.2.1:1720", 60)), 1.0)
    return made


def test_a_registration_is_renewed_at_half_its_time() -> None:
    made = registered()
    assert made.news == ["registered with gk as 192.0.2.1:1720"]
    made.due(30.9)
    assert said(made) == []
    made.due(31.0)
    (again,) = said(made)
    assert isinstance(again, ras.RegistrationRequest)
    assert (again.keeps_alive, again.endpoint) == (True, "192.0.2.1:1720")


def test_a_gatekeeper_s_words_are_one_line_of_the_log() -> None:
    made = Registration(KEEPER, "hall", HERE, OWN)
    made.due(1.0)
    (asked,) = said(made)
    made.received(
        datagrams.written(ras.RegistrationConfirm(asked.number, "gk\nhall: answered", "e\x1b[2J", 60)), 1.0
    )
    assert made.news == [r"registered with gk\nhall: answered as e\x1b[2J"]


def test_a_gatekeeper_that_has_forgotten_the_telephone_is_told_all_of_it_again() -> None:
    made = registered()
    made.due(31.0)
    (again,) = said(made)
    made.received(datagrams.written(ras.RegistrationReject(again.number, "fullRegistrationRequired")), 31.0)
    assert made.endpoint == ""
    made.due(31.0 + AGAIN_S)
    (whole,) = said(made)
    assert isinstance(whole, ras.RegistrationRequest)
    assert not whole.keeps_alive


def test_a_silent_gatekeeper_is_asked_a_few_times_and_told_of_once() -> None:
    made = Registration(KEEPER, "hall", HERE, OWN)
    sent = 0
    for second in range(20):
        made.due(float(second))
        sent += len(said(made))
    assert made.news == ["gatekeeper 192.0.2.4 does not answer"]
    assert MOST_SENT < sent <= 20


def admission(made: Registration, *, answers: bool = False) -> tuple[list[RasMessage | None], Call]:
    call = Call(
        TelephoneIdentity("hall", HERE, ("alaw",)), Address("192.0.2.1", 6200), HERE, "0f" * 16, 7, "420308"
    )
    found: list[RasMessage | None] = []
    made.admission(call, answers=answers, done=found.append)
    return found, call


def test_a_caller_asks_for_a_number_and_says_when_the_call_is_over() -> None:
    made = registered()
    found, call = admission(made)
    (asked,) = said(made)
    assert isinstance(asked, ras.AdmissionRequest)
    assert (asked.digits, asked.answers, asked.call, asked.callers) == ("420308", False, "0f" * 16, ("hall",))
    confirm = ras.AdmissionConfirm(asked.number, 1280, Address("192.0.2.6", 1720))
    made.received(datagrams.written(confirm), 2.0)
    assert found == [confirm]
    made.over(call)
    (over,) = said(made)
    assert over == ras.DisengageRequest(over.number, "192.0.2.1:1720", "0f" * 16, 7)


def test_a_callee_asks_to_take_the_call_where_it_is() -> None:
    made = registered()
    admission(made, answers=True)
    (asked,) = said(made)
    assert isinstance(asked, ras.AdmissionRequest)
    assert (asked.digits, asked.answers, asked.destination) == ("", True, HERE)


def test_an_admission_without_an_answer_is_one_after_a_while() -> None:
    made = registered()
    found, _ = admission(made)
    for second in range(1, MOST_SENT + 1):
        made.due(1.0 + second * AGAIN_S)
    assert found == [None]
    assert len(said(made)) == MOST_SENT


def test_who_is_not_registered_is_not_admitted() -> None:
    found, _ = admission(Registration(KEEPER, "hall", HERE, OWN))
    assert found == [None]


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"GET / HTTP/1.1\r\n\r\n"])
def test_nonsense_of_a_gatekeeper_is_told_of_and_changes_nothing(content: bytes) -> None:
    made = registered()
    made.received(content, 2.0)
    assert made.news[-1].startswith("gatekeeper 192.0.2.4: ")
    assert made.endpoint == "192.0.2.1:1720"


def test_a_telephone_that_leaves_unregisters() -> None:
    made = registered()
    made.leave()
    (left,) = said(made)
    assert left == ras.UnregistrationRequest(left.number, "192.0.2.1:1720", HERE)
