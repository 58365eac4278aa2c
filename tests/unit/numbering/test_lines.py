"""What a gateway does for lines of MGCP and telephones of H.323 when a call is refused, or is for help."""

from __future__ import annotations

import pytest

from weirlab.numbering.configs import configs
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls

from .plans import DAY

LINES = """\
plan: lines
caller: fax
emergency: ["112"]
engines:
  gw:
    kind: gateway
    protocols: [sip, h323, mgcp]
    address: 192.0.2.1
    rewrite:
      - {match: "^(112)$", replace: '+420\\1'}
      - {match: "^(150)$", replace: '+420\\1'}
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.2, home: gw}
  fax: {kind: endpoint, protocols: [mgcp], address: 192.0.2.3, home: gw}
  hall: {kind: endpoint, protocols: [h323], address: 192.0.2.4, home: gw}
routes:
  - {at: gw, prefix: "+", to: phone}
"""
NETWORK = PlanNetwork(loads(LINES), DAY)


def context(name: str) -> list[str]:
    """The lines of a context of the dial plan."""
    text = configs(NETWORK, "/etc/voice")["gw/extensions.conf"]
    return text.partition(f"[{name}]\n")[2].partition("\n[")[0].splitlines()


def test_a_line_waits_for_no_digit_after_an_emergency_number() -> None:
    """At a pattern with "!", chan_mgcp takes the number as complete."""
    numbers = [each.partition(",")[0] for each in context("from-mgcp") if each.startswith("exten")]
    assert numbers == ["exten => _112!", "exten => 150"]
    assert "exten => 112,1,Goto(routes-sip,+420112,1)" in context("dialled-sip")
    for dialled, number in (("112", "+420112"), ("1125", "+420112"), ("1505", "+1505")):
        assert next(calls(NETWORK, dialled)).legs[-1].facts["number"] == number
    assert next(calls(NETWORK, "1125", "hall")).legs[-1].facts["number"] == "+1125"


@pytest.mark.parametrize(
    ("arriving", "lines"),
    [
        ("sip", [" same => n(done),Hangup()"]),
        # Before Call Proceeding, chan_ooh323 sends cause 111 instead of any other.
        ("h323", [' same => n(done),GotoIf($["${DIALSTATUS}" = "ANSWER"]?end)', " same => n,Wait(2)"]),
        ("mgcp", [' same => n(done),GotoIf($["${DIALSTATUS}" != "BUSY"]?end)', " same => n,Busy(60)"]),
    ],
)
def test_the_end_of_a_refused_call_is_what_its_caller_can_hear(arriving: str, lines: list[str]) -> None:
    routes = context(f"routes-{arriving}")
    assert [each for each in routes if each in lines] == lines * sum("via=static" in each for each in routes)


def test_a_line_carries_one_call_and_is_busy_for_a_second_one() -> None:
    net = PlanNetwork(loads(LINES.replace("to: phone", "to: [fax, phone]")), DAY)
    assert next(calls(net, "+420150", "phone")).end.kind == "answered"
    # A busy line has answered: the gateway does not try the next target.
    assert [way.answer for way in calls(net, "+420150", "phone", 1)] == [486]
