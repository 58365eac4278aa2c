"""Numbers, ranges and their owners."""

from __future__ import annotations

from .planted import PUBLIC, RANGE, ROUTE, Planted

NUMBERS = (
    Planted(
        "too long",
        'number: "+420111000001"\n',
        'number: "+4201110000012345"\n',
        "+4201110000012345",
        "+4201110000012345 has 16 digits, but an international number has at most 15 (E.164)",
    ),
    Planted(
        "wrong length",
        'number: "+420111000001"\n',
        'number: "+42011100000"\n',
        'number: "+42011100000"',
        "the number +42011100000 has 11 digits, but numbers of the range +420111 have 12",
    ),
    Planted(
        "owners",
        RANGE,
        RANGE + '  - {prefix: "+420222", owner: one}\n',
        "owner: one}",
        "range +420222 belongs to one here, and to two in line 10",
    ),
    Planted(
        "owners",
        RANGE,
        RANGE + '  - {prefix: "+4202225", owner: one}\n',
        "+4202225",
        "range +4202225 of one lies within +420222 of two (line 10), which did not delegate it",
    ),
    Planted(
        "owners",
        RANGE,
        RANGE + '  - {prefix: "+4202225", owner: one, delegated_by: one}\n',
        "+4202225",
        "range +4202225 is said to be delegated by one, but +420222 around it belongs to two",
    ),
    Planted(
        "owners",
        'prefix: "+4201112"\n',
        'prefix: "+4201112"\n    owner: two\n',
        "tree: public\n    prefix",
        "+4201112 is an entry of two, but the number belongs to one",
    ),
    Planted(
        "expired",
        "owner: two, digits: 12}",
        "owner: two, digits: 12, valid_until: 2026-01-31}",
        "valid_until",
        "the range expired on 2026-01-31: its numbers no longer have an owner",
    ),
    Planted(
        "validity",
        "to: [desk, gw]}",
        "to: [desk, gw], valid_from: 2027-01-01, valid_until: 2026-12-31}",
        "valid_until",
        "the route is valid from 2027-01-01 until 2026-12-31, which is never",
    ),
    Planted(
        "zone",
        PUBLIC,
        "  public: {suffix: e164.arpa}\n",
        "suffix",
        "zone e164.arpa of tree public is that of all telephone numbers: your name server would answer for "
        "those of others, too",
        "warning",
    ),
    Planted(
        "unowned",
        ROUTE,
        ROUTE + '  - {at: core, prefix: "+421", to: gw}\n',
        "+421",
        "+421 lies in no range of this plan, which does not tell whose it is",
        "warning",
    ),
    Planted(
        "too long",
        "owner: two, digits: 12}",
        "owner: two, digits: 16}",
        "digits: 16",
        "numbers of 16 digits, but an international number has at most 15 (E.164)",
    ),
)
