"""Trees and their records."""

from __future__ import annotations

from .planted import H323, PUBLIC, Planted

RECORDS = (
    Planted(
        "unusable",
        "service: E2U+sip, uri: 'sip:+\\1@example.net'}]",
        "service: E2U+email, uri: 'sip:+\\1@example.net'}]",
        "tree: public\n    prefix",
        "no engine that asks tree public can use a record of prefix +4201112",
    ),
    Planted(
        "bad regexp",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!^\\+(\\d*)$!h323:\\1@gk.example.net!'}\n",
        "\\d*",
        "!^\\+(\\d*)$!h323:\\1@gk.example.net! is not a valid substitution expression: character 5: \\d is "
        "not POSIX; write [0-9]",
    ),
    Planted(
        "bad regexp",
        "  core: {kind: proxy,",
        "  core: {kind: proxy, rewrite: [{match: '^00(.*', replace: '+\\1'}],",
        "  core:",
        "^00(.* to +\\1 is not a valid rule: character 7: a ( without a )",
    ),
    Planted(
        "no match",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!^(420.*)$!h323:\\1@gk.example.net!'}\n",
        "^(420.*)$",
        "the pattern ^(420.*)$ does not match +420111000001: no engine can use the record",
    ),
    Planted(
        "bad rewrite",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, uri: 'sip:\\1@gk.example.net'}\n",
        "uri: 'sip:\\1@gk",
        "E2U+h323 promises a h323 URI, but +420111000001 becomes sip:420111000001@gk.example.net",
    ),
    Planted(
        "bad rewrite",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, uri: 'h323:\\\\1@gk.example.net'}\n",
        "\\\\1",
        "+420111000001 becomes h323:\\1@gk.example.net, which contains a backslash",
    ),
    Planted(
        "changes number",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!^\\+420(.*)$!h323:\\1@gk.example.net!'}\n",
        "^\\+420(.*)$",
        "+420111000001 becomes h323:111000001@gk.example.net: the URI does not contain the number that was "
        "looked up",
        "warning",
    ),
    Planted(
        "not anchored",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!([0-9]+)!h323:\\1@gk.example.net!'}\n",
        "([0-9]+)",
        "the pattern ([0-9]+) can match in the middle of a number; the other digits are then lost",
        "warning",
    ),
    Planted(
        "bad service",
        "service: E2U+h323",
        "service: h323+E2U",
        "h323+E2U",
        "h323+E2U is not an ENUM service (RFC 6116, 3.4.3)",
    ),
    Planted(
        "tie",
        H323,
        "      - {order: 100, preference: 10, service: E2U+sip, uri: 'sip:+\\1@desk.example.net'}\n",
        "@desk.example.net",
        "two records of number +420111000001 for E2U+sip have order 100 and preference 10: which "
        "comes first is left to chance",
    ),
    Planted(
        "order",
        H323,
        "      - {order: 200, preference: 10, service: E2U+sip, uri: 'sip:+\\1@desk.example.net'}\n",
        "order: 200",
        "E2U+sip of number +420111000001 has records of order 100 and 200: a client that follows RFC 3403 "
        "uses order 100 and never tries 200",
        "warning",
    ),
    Planted(
        "wildcard hole",
        'prefix: "+4201112"\n',
        'prefix: "+42011"\n',
        "tree: public\n    number",
        "number +420111000001 hides the wildcard of +42011 (line 26) in tree public: other numbers that "
        "begin with +420111, +4201110, +42011100 and 3 more get no answer (RFC 4592)",
    ),
    Planted(
        "never asked",
        PUBLIC,
        PUBLIC + "  inner: {suffix: enum.example.net, visibility: private}\n",
        "  inner:",
        "tree inner is private, and no engine asks it",
        "warning",
    ),
    Planted(
        "matches some",
        "uri: 'sip:+\\1@example.net'}]",
        "regexp: '!^\\+(42011123.*)$!sip:+\\1@example.net!'}]",
        "42011123.*",
        "the pattern ^\\+(42011123.*)$ treats the numbers that begin with +4201112 differently, "
        "depending on the next digit (3)",
        "warning",
    ),
    Planted(
        "unknown service",
        "service: E2U+h323",
        "service: E2U+email",
        "E2U+email",
        "no engine here understands E2U+email",
        "warning",
    ),
    Planted(
        "bad rewrite",
        "  core: {kind: proxy,",
        "  core: {kind: proxy, rewrite: [{match: '^00(.*)$', replace: '00\\1'}],",
        "  core:",
        "the result 00\\1 does not begin like an international number",
    ),
)
