from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.numbering.diff import RoutingChange, course, differences
from weirlab.numbering.routing import PlanNetwork

from .plans import network, ready_network

ROUTE = '  - {at: core, prefix: "+420222", to: [desk, gw]}\n'


def told(changes: list[RoutingChange]) -> list[tuple[str, str, str]]:
    return [(each.numbers, str(each.before), str(each.after)) for each in changes]


def test_equal_plans_differ_in_nothing() -> None:
    assert differences(ready_network("federation"), ready_network("federation")) == []


def test_a_longer_prefix_changes_its_numbers_and_no_others() -> None:
    after = network((ROUTE, ROUTE + '  - {at: core, prefix: "+4202227", to: gw}\n'))
    assert told(differences(network(), after)) == [
        (
            "+4202227...",
            "phone > SIP > core > SIP alaw > desk, then "
            "phone > SIP > core > SIP alaw > gw > H.323 > gk > H.323 ulaw > pbx",
            "phone > SIP > core > SIP alaw > gw > H.323 > gk > H.323 ulaw > pbx",
        )
    ]


def test_a_removed_route_leaves_out_what_a_longer_one_keeps() -> None:
    longer = ROUTE + '  - {at: core, prefix: "+4202227", to: gw}\n'
    before = network((ROUTE, longer))
    after = network((ROUTE, longer.splitlines(keepends=True)[1]))
    [change] = differences(before, after)
    assert (change.prefix, change.itself, change.longer, change.but) == ("+420222", True, True, "7")
    assert change.numbers == "+420222..., except +4202227"
    assert str(change.after) == "phone > SIP > core: no route"


def test_an_exact_number_changes_alone() -> None:
    after = network(('number: "+420111000001"\n', 'number: "+420111000002"\n'))
    changes = differences(network(), after)
    assert [each.numbers for each in changes] == ["+420111000001 itself", "+420111000002 itself"]
    assert "(tree public: sip:+N@example.net)" in str(changes[0].before)


def test_another_fall_back_is_a_change() -> None:
    after = network(("to: [desk, gw]", "to: [desk]"))
    [change] = differences(network(), after)
    assert change.numbers == "+420222..."


def test_stripped_digits_are_told_once_for_all_numbers() -> None:
    after = network(("to: [desk, gw]}", "to: [desk], strip: 3, prepend: '421'}"))
    changes = differences(network(), after)
    assert ("+420222...", "phone > SIP > core > SIP alaw > desk as +421(N without 3 digits)") in [
        (each.numbers, str(each.after)) for each in changes
    ]


def test_expressions_that_tell_too_much_apart_are_refused() -> None:
    rule = (
        "address: 192.0.2.2,",
        "address: 192.0.2.2, rewrite: [{match: '(1|2)[0-9]{3,6}$', replace: '+420\\1'}],",
    )
    with pytest.raises(InputError, match="distinguish more than 500 sets of numbers"):
        differences(network(), network(rule), most_cells=500)


PREFIXES = st.text("012", max_size=3).map(lambda rest: f"+42{rest}")
TARGETS = st.sampled_from(["desk", "gw", "[desk, gw]"])
ROUTES = st.lists(st.tuples(PREFIXES, TARGETS), max_size=4)
ENTRIES = st.lists(st.tuples(st.sampled_from(["number", "prefix"]), PREFIXES), max_size=4)


def random_network(routes: list[tuple[str, str]], entries: list[tuple[str, str]]) -> PlanNetwork:
    lines = "".join(f'  - {{at: core, prefix: "{prefix}", to: {to}}}\n' for prefix, to in routes)
    listed = "".join(
        f"  - "
        f"{{tree: public, {key}: '{digits}', naptr: [{{service: E2U+sip, uri: 'sip:+\\1@example.net'}}]}}\n"
        for key, digits in entries
    )
    return network((ROUTE, lines or ROUTE), ("enum:\n", "enum:\n" + listed), (", zone: 0.2.4.e164.arpa", ""))


@settings(max_examples=25)
@given(ROUTES, ENTRIES, ROUTES, ENTRIES)
def test_exactly_the_numbers_that_go_another_way_are_told(
    routes: list[tuple[str, str]],
    entries: list[tuple[str, str]],
    later_routes: list[tuple[str, str]],
    later_entries: list[tuple[str, str]],
) -> None:
    before, after = random_network(routes, entries), random_network(later_routes, later_entries)
    changes = differences(before, after)
    digits = ["", *"0123", *(a + b for a in "0123" for b in "0123")]
    for rest in digits:
        number = f"+42{rest}"
        holding = [change for change in changes if change.holds_for(number)]
        pair = course(before, number, None), course(after, number, None)
        assert len(holding) == (pair[0] != pair[1]), number
