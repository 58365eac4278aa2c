"""What engines cannot do, and what Weir does not write for them."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.checking import check

from .plans import network
from .test_configs import made

SIP_URI = "service: E2U+sip, uri: 'sip:+\\1@example.net'}]"


def regexp(text: str) -> str:
    """The record of ``SIP_URI`` with a regexp."""
    return f"service: E2U+sip, regexp: '{text}'}}]"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "gw: {kind: gateway,",
            "gw: {kind: gateway, trees: [public],",
            "Weir writes no queries of trees into dial plans",
        ),
        (
            '{at: gw, arriving: sip, prefix: "+", to: gk}',
            '{at: gw, arriving: sip, prefix: "+", to: [gk, pbx]}',
            "gw registers with gk, so Asterisk asks gk about every H.323 call",
        ),
        (
            "codecs: [alaw], organisation",
            "codecs: [opus], organisation",
            "SIPp offers ulaw, gsm, alaw, g722, g729",
        ),
        (
            "core: {kind: proxy,",
            "core: {kind: proxy, rewrite: [{match: '(.*)', replace: '+\\1'}],",
            "Weir writes only rules that begin with ^",
        ),
        (
            "gw: {kind: gateway,",
            "gw: {kind: gateway, rewrite: [{match: '^(.*)1$', replace: '+\\1'}],",
            "Weir writes only rules for first digits",
        ),
        (
            "service: E2U+sip, uri: 'sip:+\\1@example.net'}]",
            "service: E2U+voice:tel, uri: 'tel:+\\1'}]",
            "Kamailio does not",
        ),
        (SIP_URI, "service: 'E2U+pstn:sip', uri: 'sip:+\\1@example.net'}]", "Kamailio does not follow"),
        (SIP_URI, "service: 'E2U+sip+h323', uri: 'sip:+\\1@example.net'}]", "Kamailio does not follow"),
        (SIP_URI, "service: E2U+sip, uri: 'sips:\\1@example.net'}]", "sips: needs TLS"),
        (SIP_URI, regexp(r"/^\+(.*)$/sip:\1@example.net/"), "Kamailio knows no delimiter but !"),
        (SIP_URI, regexp(r"!^\+(.*)$!sip:\1@example.net;a=\!!"), "Kamailio knows no escaped"),
        (
            SIP_URI,
            regexp(r"!^\+(.)(.)(.)(.)(.)(.)(.*)$!sip:\1@example.net!"),
            "Kamailio takes up to 6 groups",
        ),
        (SIP_URI, regexp(r"!^\+(.)(.)(.)(.)(.)(.*)$!sip:\6@example.net!"), "Kamailio takes the groups"),
        (SIP_URI, regexp(r"!^\+(49)?(.*)$!sip:\1\2@example.net!"), "Kamailio cannot insert"),
        (
            "gk: {kind: gatekeeper,",
            "gk: {kind: gatekeeper, rewrite: [{match: '^00(.*)$', replace: '+\\1'}],",
            "gatekeepers do not rewrite",
        ),
        (
            'prefix: "+420", to: pbx}',
            'prefix: "+420", strip: 4, to: pbx}',
            "GNU Gatekeeper rewrites prefixes",
        ),
    ],
)
def test_what_an_engine_cannot_do_is_refused_with_its_line(old: str, new: str, reason: str) -> None:
    wrong = network((old, new))
    with pytest.raises(InputError, match=r"^plan\.yaml:\d+: .*" + reason.replace("^", r"\^")) as refused:
        made(wrong)
    # The check says so, too, of the same line.
    place, _, _ = str(refused.value).partition(": ")
    found = [each for each in check(wrong) if each.severity == "error" and each.place == place]
    assert found, [*map(str, check(wrong))]
