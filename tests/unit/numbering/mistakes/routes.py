"""Routes, and where calls go by them."""

from __future__ import annotations

from .planted import ROUTE, TO_PBX, Planted

ROUTES = (
    Planted(
        "loop",
        TO_PBX,
        '  - {at: gk, prefix: "+420", to: gw}\n  - {at: gw, arriving: h323, prefix: "+", to: core}\n',
        'at: core, prefix: "+420222"',
        "a call to +420222500000 at core goes round in a loop: core, gw, gk, gw, core; line 33 closes it",
    ),
    Planted(
        "duplicate",
        ROUTE,
        ROUTE + '  - {at: core, prefix: "+420222", to: gw}\n',
        'prefix: "+420222", to: gw}',
        "+420222 at core already has a route in line 30: this one is never used",
    ),
    Planted(
        "duplicate",
        "to: [desk, gw]",
        "to: [desk, desk]",
        "to: [desk, desk]",
        "desk is listed twice under to: it would be tried again after it has failed",
    ),
    Planted(
        "shadowed",
        ROUTE,
        ROUTE + "".join(f'  - {{at: core, prefix: "+420222{d}", to: gw}}\n' for d in range(10)),
        "to: [desk, gw]",
        "+420222 at core is never used: longer prefixes cover every number that continues it",
    ),
    Planted(
        "overlapping",
        ROUTE,
        ROUTE + '  - {at: core, prefix: "+4202225", to: [desk, gw]}\n',
        "+4202225",
        "+4202225 at core has no effect: +420222 in line 30 also leads to desk and gw",
        "warning",
    ),
    Planted(
        "hides trees",
        'prefix: "+420222", to: [desk, gw]',
        'prefix: "+", to: [desk, gw]',
        'at: core, prefix: "+"',
        'the route for "+" takes every number, so core never asks public',
    ),
    Planted(
        "hides trees",
        'at: core, prefix: "+420222", to: [desk, gw]',
        'at: core, arriving: sip, prefix: "+", to: [desk, gw]',
        "at: core, arriving: sip",
        'the route for "+" takes every number, so core never asks public',
    ),
    Planted(
        "misplaced",
        ROUTE,
        ROUTE + '  - {at: desk, prefix: "+420222", to: gw}\n',
        "- {at: desk",
        "desk is an endpoint, and endpoints do not route",
    ),
    Planted(
        "engine cannot",
        TO_PBX,
        TO_PBX.replace("gk, ", "gk, after_trees: true, "),
        "at: gk, after_trees",
        "gatekeeper gk: gatekeepers name one target and do not learn whether it answers (direct mode)",
    ),
    Planted(
        "engine cannot",
        "at: gw, arriving: sip",
        "at: gw, after_trees: true, arriving: sip",
        "at: gw, after_trees",
        "gateway gw: gw queries no trees",
    ),
    Planted(
        "misplaced",
        "at: gw, arriving: sip",
        "at: gw, arriving: mgcp",
        "arriving: mgcp",
        "arriving: mgcp, but gw speaks SIP and H.323",
    ),
    Planted(
        "no protocol",
        "to: [desk, gw]",
        "to: [desk, pbx]",
        "to: [desk, pbx]",
        "a call to +420222500000 at core: core cannot send the call to pbx: it would leave as SIP, and pbx "
        "speaks H.323",
    ),
    Planted(
        "no codec",
        "codecs: [ulaw]}",
        "codecs: [g722]}",
        TO_PBX.strip(),
        "a call to +420222500000 at core: pbx has none of the codecs offered (alaw, ulaw): it has g722",
    ),
    Planted(
        "dead end",
        '{at: gk, prefix: "+420", to: pbx}',
        '{at: gk, prefix: "+421", to: pbx}',
        "to: [desk, gw]",
        "a call to +420222500000 at core: gk has no route for it",
    ),
    Planted(
        "unreachable",
        ROUTE,
        '  - {at: core, prefix: "+420222", to: gw}\n',
        "  spare:",
        "no route and no entry of a tree leads to spare",
        "warning",
    ),
    Planted(
        "duplicate",
        'prefix: "+4201112"',
        'number: "+420111000001"',
        "tree: public\n    number",
        "number +420111000001 of tree public has an entry in line 21 already: this one is never used",
    ),
    Planted(
        "test",
        "via: public, ends_at: desk",
        "via: static, ends_at: pbx, answer: 404",
        "via: static",
        "a call to +420111000001 gets 200 (desk answers), is decided by public and ends at desk; the test "
        "expects answer 404, a decision by static and an end at pbx",
    ),
    Planted(
        "past gatekeeper",
        'at: gw, arriving: sip, prefix: "+", to: gk',
        'at: gw, arriving: sip, prefix: "+", to: [gk, pbx]',
        "to: [gk, pbx]",
        "gw registers with gk, so Asterisk asks gk about every H.323 call",
    ),
    Planted(
        "cannot dial",
        "tests:\n",
        'emergency: ["112"]\ntests:\n',
        "  phone:",
        "112 cannot be dialled from phone: core gets 112 without a +, which is not international: it cannot "
        "route it",
        "warning",
    ),
    Planted(
        "no number",
        "uri: 'sip:+\\1@example.net'}]",
        "uri: 'sip:\\1@192.0.2.2'}]",
        "tree: public\n    prefix",
        "a call to +420111250000 at core: core gets 420111250000 without a +, which is not international: it "
        "cannot route it",
    ),
    Planted(
        "misplaced",
        'at: core, prefix: "+420222"',
        'at: core, by: h323, prefix: "+420222"',
        "by: h323",
        "by: h323, but core speaks SIP",
    ),
    Planted(
        "no digits",
        "to: [desk, gw]}",
        "to: [desk, gw], strip: 15}",
        "to: [desk, gw]",
        "a call to +420222500000 at core: core strips 15 digits: nothing is left of the number",
    ),
)
