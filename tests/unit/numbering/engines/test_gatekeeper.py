"""The gatekeeper's answer to every request."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from weirlab.numbering.configs import configs
from weirlab.numbering.gatekeeper import ras
from weirlab.numbering.gatekeeper.answering import LIVE_S, MOST, MOST_OF_HOST, Gatekeeper
from weirlab.numbering.gatekeeper.ras import Address, RasMessage
from weirlab.numbering.gatekeeper.table import GatekeeperTable, NaptrRecord
from weirlab.numbering.routing import PlanNetwork

from ..plans import network, ready_network

GATEWAY = Address("192.0.2.3", 1720)
PBX = Address("192.0.2.6", 1720)


@dataclass
class Others:
    """What the gatekeeper learns from others."""

    records: dict[str, Sequence[NaptrRecord]] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    neighbours: dict[str, Address | str] = field(default_factory=dict)
    asked: list[tuple[Address, str, int, tuple[str, ...]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    async def naptr(self, digits: str, suffix: str) -> Sequence[NaptrRecord]:
        return self.records.get(f"{digits} {suffix}", ())

    async def places(self, name: str, port: int | None) -> Sequence[Address]:
        return [Address(self.hosts[name], port or 1720)] if name in self.hosts else []

    async def ask(
        self, place: Address, digits: str, hops: int, callers: tuple[str, ...]
    ) -> Address | str | None:
        self.asked.append((place, digits, hops, callers))
        return self.neighbours.get(digits)

    def gatekeeper(self, plan: PlanNetwork, name: str) -> Gatekeeper:
        """That of a plan, which asks them."""
        table = GatekeeperTable.of(json.loads(configs(plan, "/x")[f"{name}/gatekeeper.json"]))
        return Gatekeeper(table, self.naptr, self.places, self.ask, self.said.append)


def keeper(others: Others, *replacements: tuple[str, str]) -> Gatekeeper:
    """The gatekeeper of the small plan, at which a gateway is registered."""
    made = others.gatekeeper(network(*replacements), "gk")
    answer(made, ras.RegistrationRequest(1, GATEWAY, ("gw", "420"), "", False))
    return made


def answer(
    made: Gatekeeper, message: RasMessage, source: str | None = None, now_s: float = 0.0
) -> RasMessage | None:
    """The answer; without ``source``, to the endpoint that the message names."""
    named = getattr(message, "endpoint", "").rpartition(":")[0] or GATEWAY.host
    if isinstance(message, ras.RegistrationRequest) and message.signalling is not None:
        named = message.signalling.host
    return asyncio.run(made.answer(message, source or named, now_s))


def admission(
    digits: str, *, endpoint: str = "192.0.2.3:1720", answers: bool = False
) -> ras.AdmissionRequest:
    return ras.AdmissionRequest(7, endpoint, digits, answers, 1280, None, False)


def test_who_is_registered_is_told_where_a_number_leads_and_the_log_says_why() -> None:
    others = Others()
    made = keeper(others)
    assert answer(made, admission("420222000001")) == ras.AdmissionConfirm(7, 1280, PBX)
    assert others.said == ["REGISTERED 192.0.2.3:1720 gw 420", "ROUTE num=420222000001 via=static target=pbx"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (admission("420222000001", endpoint="unknown"), "invalidEndpointIdentifier"),
        (admission("421222000001"), "calledPartyNotRegistered"),
        (admission(""), "incompleteAddress"),
    ],
    ids=["stranger", "no route", "no number"],
)
def test_who_may_not_call_is_told_why(message: RasMessage, reason: str) -> None:
    assert answer(keeper(Others()), message) == ras.AdmissionReject(7, reason)


def test_a_callee_that_asks_may_take_the_call_where_it_is() -> None:
    assert answer(keeper(Others()), admission("", answers=True)) == ras.AdmissionConfirm(7, 1280, GATEWAY)


def test_a_registration_ends_unless_it_is_renewed() -> None:
    made = keeper(Others())
    again = ras.RegistrationRequest(2, None, (), "192.0.2.3:1720", True)
    assert isinstance(answer(made, again, now_s=LIVE_S - 1), ras.RegistrationConfirm)
    assert isinstance(answer(made, admission("420222"), now_s=2 * LIVE_S - 2), ras.AdmissionConfirm)
    assert answer(made, again, now_s=3 * LIVE_S) == ras.RegistrationReject(2, "fullRegistrationRequired")
    assert isinstance(answer(made, admission("420222"), now_s=3 * LIVE_S), ras.AdmissionReject)


def test_who_unregisters_may_not_call_any_more() -> None:
    made = keeper(Others())
    assert answer(made, ras.UnregistrationRequest(3, "", GATEWAY)) == ras.UnregistrationConfirm(3)
    assert isinstance(answer(made, admission("420222")), ras.AdmissionReject)


def test_a_report_of_a_call_is_answered_if_the_endpoint_waits_for_an_answer() -> None:
    others = Others()
    made = keeper(others)
    endpoint = f"{GATEWAY.host}:{GATEWAY.port}"
    assert answer(made, ras.InfoRequestResponse(4, endpoint, needs_response=False)) is None
    report = ras.InfoRequestResponse(5, endpoint, needs_response=True)
    assert answer(made, report) == ras.InfoRequestAck(5)
    assert answer(made, report, now_s=2 * LIVE_S) == ras.InfoRequestNak(5, "notRegistered")
    assert others.said == ["REGISTERED 192.0.2.3:1720 gw 420"]


def test_a_target_that_is_registered_goes_before_one_that_is_not() -> None:
    made = keeper(Others(), ('prefix: "+420", to: pbx}', 'prefix: "+420", to: [pbx, gw]}'))
    assert answer(made, admission("420222")) == ras.AdmissionConfirm(7, 1280, GATEWAY)


def test_another_number_is_told_to_who_can_call_it_and_refused_to_who_cannot() -> None:
    made = keeper(
        Others(), ('prefix: "+420", to: pbx}', 'prefix: "+420", to: pbx, strip: 3, prepend: "421"}')
    )
    asked = admission("420222")
    assert answer(made, asked) == ras.AdmissionReject(7, "undefinedReason")
    maps = ras.AdmissionRequest(7, asked.endpoint, "420222", False, 1280, None, True)
    assert answer(made, maps) == ras.AdmissionConfirm(7, 1280, PBX, "421222")


RECORDS = (
    NaptrRecord(200, 10, "E2U+h323", "!^.*$!h323:1@late.example!"),
    NaptrRecord(100, 20, "E2U+h323", r"!^\+(.*)$!h323:\1@gone.example!"),
    NaptrRecord(100, 10, "E2U+sip", r"!^\+(.*)$!sip:\1@other.example!"),
    NaptrRecord(100, 30, "E2U+h323", r"!^\+(.*)$!h323:\1@far.example:1799!"),
    NaptrRecord(1, 1, "", "", "1.2.4.e164.arpa"),
    NaptrRecord(2, 1, "E2U+h323", "no expression"),
)


def test_without_a_route_the_records_of_a_tree_decide_by_order_and_preference() -> None:
    others = Others({"421555 e164.arpa": RECORDS}, {"far.example": "198.51.100.7"})
    made = keeper(others, ("gk: {kind: gatekeeper,", "gk: {kind: gatekeeper, trees: [public],"))
    found = answer(made, admission("421555"))
    assert found == ras.AdmissionConfirm(7, 1280, Address("198.51.100.7", 1799))
    assert others.said[-1] == "ROUTE num=421555 via=public target=h323:421555@far.example:1799"


def test_a_record_for_another_protocol_is_followed_if_a_gateway_takes_it() -> None:
    others = Others({"421555 e164.arpa": RECORDS})
    given = "gk: {kind: gatekeeper, trees: [public], hand_over: {sip: gw},"
    made = keeper(others, ("gk: {kind: gatekeeper,", given))
    assert answer(made, admission("421555")) == ras.AdmissionConfirm(7, 1280, GATEWAY)


@pytest.mark.parametrize("uri", ["tel:+420222000001", "tel:+421555;npdi;rn=+420222000001"])
def test_a_record_of_another_number_is_decided_again(uri: str) -> None:
    others = Others({"421555 e164.arpa": (NaptrRecord(1, 1, "E2U+pstn:tel", f"!^.*$!{uri}!"),)})
    made = keeper(others, ("gk: {kind: gatekeeper,", "gk: {kind: gatekeeper, trees: [public],"))
    maps = ras.AdmissionRequest(7, "192.0.2.3:1720", "421555", False, 1280, None, True)
    assert answer(made, maps) == ras.AdmissionConfirm(7, 1280, PBX, "420222000001")


def test_records_that_refer_to_each_other_come_to_an_end() -> None:
    records = {
        "421555 e164.arpa": (NaptrRecord(1, 1, "E2U+voice:tel", "!^.*$!tel:+421666!"),),
        "421666 e164.arpa": (NaptrRecord(1, 1, "E2U+voice:tel", "!^.*$!tel:+421555!"),),
        "421777 e164.arpa": (NaptrRecord(1, 1, "E2U+pstn:tel", "!^.*$!tel:+421777;npdi!"),),
    }
    made = keeper(Others(records), ("gk: {kind: gatekeeper,", "gk: {kind: gatekeeper, trees: [public],"))
    for number in ("421555", "421777"):
        assert answer(made, admission(number)) == ras.AdmissionReject(7, "calledPartyNotRegistered")


def two_gatekeepers(others: Others) -> Gatekeeper:
    made = others.gatekeeper(ready_network("translations"), "gk-west")
    answer(made, ras.RegistrationRequest(1, Address("10.95.0.41", 1720), ("gw-west",), "", False))
    return made


def test_a_neighbour_is_asked_where_its_numbers_lead() -> None:
    east = Address("10.95.0.42", 1720)
    others = Others(neighbours={"420401000001": east})
    made = two_gatekeepers(others)
    asked = admission("420401000001", endpoint="10.95.0.41:1720")
    assert answer(made, asked) == ras.AdmissionConfirm(7, 1280, east)
    assert others.asked == [(Address("10.95.0.52", 1719), "420401000001", 8, ("gw-west",))]
    unknown = admission("420409", endpoint="10.95.0.41:1720")
    assert answer(made, unknown) == ras.AdmissionReject(7, "calledPartyNotRegistered")


def test_only_neighbours_may_ask_and_no_question_goes_round_for_ever() -> None:
    others = Others()
    made = two_gatekeepers(others)
    here = Address("10.95.0.52", 1719)
    known = ras.LocationRequest(9, "420301000001", here)
    assert answer(made, known, here.host) == ras.LocationConfirm(
        9, Address("10.95.0.41", 1720), Address("10.95.0.51", 1719)
    )
    assert answer(made, ras.LocationRequest(9, "", here), here.host) == ras.LocationReject(
        9, "incompleteAddress"
    )
    assert answer(made, known, "10.95.0.99") == ras.LocationReject(9, "requestDenied")
    last = ras.LocationRequest(9, "420401000001", here, 1)
    assert answer(made, last, here.host) == ras.LocationReject(9, "notRegistered")
    assert others.asked == []


HALL, GUEST = Address("10.95.0.70", 1720), Address("10.95.0.72", 1720)
CALLS = [f"{number:032x}" for number in range(4)]


def with_telephones(others: Others, keeper: str = "gk-west") -> Gatekeeper:
    """A gatekeeper of the plan of translations, at which two telephones are registered."""
    made = others.gatekeeper(ready_network("translations"), keeper)
    for place in (HALL, GUEST):
        answer(made, ras.RegistrationRequest(1, place, ("x",), "", False))
    return made


def telephone_calls(made: Gatekeeper, place: Address, digits: str, call: str = CALLS[0]) -> RasMessage | None:
    endpoint = f"{place.host}:{place.port}"
    return answer(made, ras.AdmissionRequest(7, endpoint, digits, False, 1280, None, False, call, 3))


def test_a_number_that_is_barred_is_rejected_and_the_log_names_the_line_of_the_plan() -> None:
    others = Others()
    made = with_telephones(others)
    assert telephone_calls(made, HALL, "420900000001") == ras.AdmissionReject(7, "requestDenied")
    assert re.fullmatch(
        r"REJECTED num=420900000001 west may not call it \(translations\.yaml:\d+\)", others.said[-1]
    )
    assert isinstance(telephone_calls(made, HALL, "420308000001"), ras.AdmissionConfirm)


def test_an_organisation_has_as_many_calls_as_it_may_until_one_is_over() -> None:
    others = Others()
    made = with_telephones(others)
    number = "420308000001"
    for call in CALLS[:2]:
        assert isinstance(telephone_calls(made, GUEST, number, call), ras.AdmissionConfirm)
    # Asked once more, it is the same call.
    assert isinstance(telephone_calls(made, GUEST, number, CALLS[1]), ras.AdmissionConfirm)
    assert telephone_calls(made, GUEST, number, CALLS[2]) == ras.AdmissionReject(7, "resourceUnavailable")
    assert others.said[-1].startswith("REJECTED guests has 2 calls (translations.yaml:")
    # Calls of others do not count.
    assert isinstance(telephone_calls(made, HALL, number, CALLS[2]), ras.AdmissionConfirm)
    answer(made, ras.DisengageRequest(8, f"{GUEST.host}:1720", CALLS[0], 3))
    assert isinstance(telephone_calls(made, GUEST, number, CALLS[2]), ras.AdmissionConfirm)


def test_emergency_calls_count_towards_no_limit() -> None:
    made = with_telephones(Others())
    caller = made.table.callers[GUEST.host]
    emergency = "420308000112"
    calling = replace(caller, emergency=(emergency,))
    made.table = replace(made.table, callers={**made.table.callers, GUEST.host: calling})
    for number, call in (("420308000001", 0), (emergency, 1), ("420308000001", 2), (emergency, 3)):
        assert isinstance(telephone_calls(made, GUEST, number, CALLS[call]), ras.AdmissionConfirm)


def test_a_call_that_leads_nowhere_counts_for_nothing() -> None:
    made = with_telephones(Others())
    for call in CALLS[:3]:
        assert telephone_calls(made, GUEST, "420555", call) == ras.AdmissionReject(
            7, "calledPartyNotRegistered"
        )
    assert isinstance(telephone_calls(made, GUEST, "420308", CALLS[3]), ras.AdmissionConfirm)


def test_the_calls_of_who_has_gone_without_a_word_are_over() -> None:
    made = with_telephones(Others())
    for call in CALLS[:2]:
        telephone_calls(made, GUEST, "420308", call)
    late_s = LIVE_S + 1.0
    known = ras.AdmissionRequest(7, f"{GUEST.host}:1720", "420308", False, 1280, None, False, CALLS[2], 3)
    assert isinstance(answer(made, known, now_s=late_s), ras.AdmissionReject)
    other = ras.RegistrationRequest(1, GUEST._replace(port=1721), ("x",), "", False)
    answer(made, other, now_s=late_s)
    elsewhere = ras.AdmissionRequest(7, f"{GUEST.host}:1721", "420308", False, 1280, None, False, CALLS[2], 3)
    assert isinstance(answer(made, elsewhere, now_s=late_s), ras.AdmissionConfirm)


def test_a_neighbour_is_told_who_calls_and_its_refusal_is_passed_on() -> None:
    others = Others(neighbours={"420407": "requestDenied"})
    made = with_telephones(others)
    assert telephone_calls(made, GUEST, "420407") == ras.AdmissionReject(7, "requestDenied")
    assert others.asked == [(Address("10.95.0.52", 1719), "420407", 8, ("guest",))]


def test_a_neighbour_refuses_callers_that_are_not_admitted() -> None:
    others = Others()
    made = with_telephones(others, "gk-east")
    west = Address("10.95.0.51", 1719)
    asked = ras.LocationRequest(9, "420407", west, 8, ("guest",))
    assert answer(made, asked, west.host) == ras.LocationReject(9, "requestDenied")
    assert others.said[-1].startswith("REJECTED num=420407 guests is not admitted (translations.yaml:")
    hall = ras.LocationRequest(9, "420407", west, 8, ("hall",))
    assert isinstance(answer(made, hall, west.host), ras.LocationConfirm)


def test_every_other_request_is_granted_and_answers_are_not_answered() -> None:
    made = keeper(Others())
    assert answer(made, ras.GatekeeperRequest(1)) == ras.GatekeeperConfirm(
        1, "gk", Address("192.0.2.4", 1719)
    )
    assert answer(made, ras.DisengageRequest(2)) == ras.DisengageConfirm(2)
    assert answer(made, ras.BandwidthRequest(3, 640)) == ras.BandwidthConfirm(3, 640)
    assert answer(made, ras.DisengageConfirm(4)) is None


STRANGER = "192.0.2.99"


def test_nobody_registers_calls_or_unregisters_for_another_host() -> None:
    made = keeper(Others())
    foreign = ras.RegistrationRequest(1, GATEWAY, ("gw",), "", False)
    assert answer(made, foreign, STRANGER) == ras.RegistrationReject(1, "invalidCallSignalAddress")
    renewal = ras.RegistrationRequest(2, None, (), "192.0.2.3:1720", True)
    assert answer(made, renewal, STRANGER) == ras.RegistrationReject(2, "fullRegistrationRequired")
    assert answer(made, admission("420222"), STRANGER) == ras.AdmissionReject(7, "invalidEndpointIdentifier")
    answer(made, ras.UnregistrationRequest(3, "192.0.2.3:1720", GATEWAY), STRANGER)
    assert isinstance(answer(made, admission("420222")), ras.AdmissionConfirm)


def test_registrations_are_bounded_and_those_that_have_expired_are_forgotten() -> None:
    made = keeper(Others())

    def register(host: str, port: int, now_s: float = 0.0) -> RasMessage | None:
        return answer(made, ras.RegistrationRequest(1, Address(host, port), (), "", False), now_s=now_s)

    answers = [register(STRANGER, port) for port in range(2000, 2000 + MOST_OF_HOST + 1)]
    assert [each for each in answers if not isinstance(each, ras.RegistrationConfirm)] == [
        ras.RegistrationReject(1, "resourceUnavailable")
    ]
    # One that is registered may register again.
    assert isinstance(register(STRANGER, 2000), ras.RegistrationConfirm)
    for number in range(MOST):
        register(f"198.51.{number // 200}.{number % 200}", 1720)
    assert register("203.0.113.1", 1720) == ras.RegistrationReject(1, "resourceUnavailable")
    assert len(made.registrations._known) == MOST
    assert isinstance(register("203.0.113.1", 1720, now_s=LIVE_S), ras.RegistrationConfirm)
    assert len(made.registrations._known) == 1


def test_the_call_of_another_host_is_not_ended() -> None:
    made = keeper(Others())
    made._calls["192.0.2.3:1720", "a", 1] = "one"
    disengage = ras.DisengageRequest(4, "192.0.2.3:1720", "a", 1)
    assert answer(made, disengage, STRANGER) == ras.DisengageConfirm(4)
    assert made._calls
    answer(made, disengage)
    assert not made._calls
