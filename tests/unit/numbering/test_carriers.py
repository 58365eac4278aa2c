"""Calls that would reach a carrier, who is paid for them, although they should not."""

from __future__ import annotations

import pytest

from weirlab.numbering.checking.carriers import MOST_NUMBERS, sample
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork

from .plans import DAY
from .test_advice import found

BORDER = """\
plan: border
caller: phone
organisations:
  uni: {title: University, admits: []}
  peer: {title: A network with engines of its own}
  carrier: {title: Carrier}
ranges:
  - {prefix: "+420111", owner: uni, digits: 12}
engines:
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.1, organisation: uni, home: core}
  operator: {kind: endpoint, protocols: [sip], address: 192.0.2.7, organisation: uni}
  core: {kind: proxy, address: 192.0.2.2, organisation: uni, trees: [own]}
  border: {kind: proxy, address: 192.0.2.3, organisation: uni, admits: [peer]}
  sbc: {kind: proxy, address: 192.0.2.4, organisation: peer}
  far: {kind: endpoint, protocols: [sip], address: 192.0.2.5, organisation: peer, home: sbc}
  trunk: {kind: endpoint, protocols: [sip], address: 192.0.2.6, organisation: carrier}
trees:
  own: {suffix: enum.example, visibility: private}
enum:
  - {tree: own, prefix: "+420111", naptr: [{service: E2U+sip, uri: 'sip:+\\1@192.0.2.1'}]}
routes:
  - {at: core, prefix: "+", to: trunk, after_trees: true}
  - {at: core, prefix: "+420111", to: operator, after_trees: true}
  - {at: border, prefix: "+", to: core}
  - {at: sbc, prefix: "+420111", to: border}
tests:
  - {number: "+420111000001", caller: far, ends_at: phone}
  - {number: "+44123456789", ends_at: trunk}
"""


def test_a_peer_that_reaches_a_carrier_by_the_border_is_in_transit_unless_a_test_expects_its_calls() -> None:
    (finding,) = found(BORDER, "transit")
    assert (finding.severity, finding.place.rpartition(":")[2]) == ("warning", "13")
    assert finding.reason == (
        "border takes calls of peer, and sends those to +44123456789 on to trunk: uni pays for them"
    )
    assert found(BORDER.replace('border, prefix: "+",', 'border, prefix: "+420111",'), "transit") == []
    closed = BORDER.replace("admits: [peer]", "admits: []")
    assert found(closed, "transit") == []
    assert "border does not admit calls of peer" in found(closed, "not admitted")[0].reason
    meant = BORDER + '  - {number: "+44123456789", caller: far, ends_at: trunk}\n'
    assert found(meant, "transit") == []


def test_numbers_of_its_own_that_leave_by_a_route_after_the_trees_are_reported() -> None:
    assert found(BORDER, "own numbers leave") == []
    without = BORDER.replace('  - {at: core, prefix: "+420111", to: operator, after_trees: true}\n', "")
    (finding,) = found(without, "own numbers leave")
    assert (finding.severity, finding.place.rpartition(":")[2]) == ("warning", "22")
    assert "core sends +420111000000 to trunk" in finding.reason
    # All but the last number.
    but_one = without.replace('"+420111", naptr', '"+4201110", naptr')
    assert [each.place for each in found(but_one, "own numbers leave")] == [finding.place]


@pytest.mark.parametrize("many", [3, 3000])
def test_many_numbers_are_tried_by_prefixes_and_edges_of_ranges(many: int) -> None:
    ranges = "".join(f'  - {{prefix: "+49{i:05}", owner: uni, digits: 12}}\n' for i in range(many))
    net = PlanNetwork(loads(BORDER.replace("ranges:\n", "ranges:\n" + ranges)), DAY)
    tried = sample(net)
    assert {"+420111000001", "+44123456789", "+500000000000"} <= {*tried.numbers}
    edges = {"+490000000000", "+490000099999", "+489999999999", "+490000100000"}
    assert edges <= {*tried.numbers} if many == 3 else "+490000000000" in tried.numbers
    assert "+420112000000" in tried.numbers, "the last edge"
    assert (len(tried.numbers) <= MOST_NUMBERS, tried.of > MOST_NUMBERS) == (True, many > 3)
    assert tried == sample(net)


def test_a_range_of_its_own_inside_the_prefix_of_a_peer_must_not_go_to_the_peer() -> None:
    ranges = (
        "digits: 12}\nengines",
        'digits: 12}\nPEERS  - {prefix: "+42025", owner: uni, delegated_by: peer}\nengines',
    )
    routes = 'routes:\n  - {at: core, prefix: "+4202", to: sbc}\n  - {at: sbc, prefix: "+4202", to: far}\n'
    inside = BORDER.replace(*ranges).replace("PEERS", '  - {prefix: "+4202", owner: peer}\n')
    inside = inside.replace("routes:\n", routes)
    (finding,) = [each for each in found(inside, "own numbers leave") if "+42025..." in each.reason]
    assert finding.reason == "+42025... belongs to uni (line 10), but core sends +420250000000 to far"
    assert finding.proposal == "add a route for +42025 at core"
    mended = inside.replace("routes:\n", 'routes:\n  - {at: core, prefix: "+42025", to: operator}\n')
    assert not [each for each in found(mended, "own numbers leave") if "+42025..." in each.reason]
