"""What checks and proofs leave out is named; emergency numbers count at every site."""

from __future__ import annotations

from pathlib import Path

from weirlab.numbering.checking.callers import emergency_coverage
from weirlab.numbering.configs import gaps
from weirlab.numbering.configs.abilities import ENGINES, ROWS
from weirlab.numbering.plan import loads
from weirlab.numbering.proof.coverage import not_called
from weirlab.numbering.proof.ways import planned
from weirlab.numbering.routing import PlanNetwork

from .plans import DAY, changed
from .test_advice import found

DOCS = Path(__file__).parents[3] / "docs"
SITES = """\
plan: sites
caller: phone
emergency: ["112", "158"]
organisations:
  north: {title: North}
  south: {title: South}
  carrier: {title: Carrier}
engines:
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.1, organisation: north, home: core}
  desk: {kind: endpoint, protocols: [sip], address: 192.0.2.2, organisation: north, home: core}
  core: {kind: proxy, address: 192.0.2.3, organisation: north, RULES}
  far: {kind: endpoint, protocols: [sip], address: 192.0.2.4, organisation: south, home: edge}
  edge: {kind: proxy, address: 192.0.2.5, organisation: south, RULES}
  trunk: {kind: endpoint, protocols: [sip], address: 192.0.2.6, organisation: carrier, home: core}
routes:
  - {at: core, prefix: "+1", to: trunk}
  - {at: core, prefix: "+2", to: desk}
  - {at: edge, prefix: "+", to: core}
tests:
  - {number: "112", ends_at: trunk}
""".replace("RULES", "rewrite: [{match: '^(112|158)$', replace: '+1\\1'}]")


def test_emergency_numbers_are_tried_from_every_site_but_not_from_trunks() -> None:
    covered = emergency_coverage(PlanNetwork(loads(SITES, "plan.yaml"), DAY))
    assert (covered.telephones, covered.left_out) == (("phone", "far"), ("trunk",))
    assert found(SITES, "cannot dial") == []
    rule = "organisation: south, rewrite: [{match: '^(112|158)$', replace: '+1\\1'}]}"
    (first, second) = found(SITES.replace(rule, "organisation: south}"), "cannot dial")
    assert [each.reason.partition(" from ")[0] for each in (first, second)] == [
        "112 cannot be dialled",
        "158 cannot be dialled",
    ]
    assert {each.proposal for each in (first, second)} == {"add a rewrite rule to edge"}


def test_an_emergency_number_that_stays_inside_is_a_warning_unless_a_test_expects_it() -> None:
    inside = SITES.replace("routes:\n", 'routes:\n  - {at: core, prefix: "+1158", to: desk}\n')
    (finding,) = found(inside, "emergency stays")
    assert "158 from phone, desk and far ends at desk" in finding.reason
    meant = inside + '  - {number: "158", ends_at: desk}\n'
    assert found(meant, "emergency stays") == []


def test_an_entry_of_a_public_tree_is_for_others_even_if_a_route_takes_its_numbers() -> None:
    route = 'at: core, prefix: "+420222", to: [desk, gw]}\n'
    hiding = (route, f'{route}  - {{at: core, prefix: "+4201112", to: desk}}\n')
    assert found(changed(hiding), "hidden") == []
    tree = "zone: 0.2.4.e164.arpa"
    (finding,) = found(changed(hiding, (tree, f"{tree}, visibility: private")), "hidden")
    assert finding.proposal == "remove the route, or the entry"


def test_a_proof_names_the_numbers_telephones_and_routes_that_it_leaves_out() -> None:
    network = PlanNetwork(loads(SITES, "plan.yaml"), DAY)
    assert [*not_called(network, planned(network, fall_back=True))] == [
        "112 from telephones at edge",
        "158 from any telephone",
        "calls by desk, far and trunk",
        "routes in lines 17 and 18",
    ]


def test_zones_of_others_are_named_with_the_files_that_have_them() -> None:
    text = changed(
        ("example.net:\n    hosts", "peer.example: {}\n  example.net:\n    hosts"),
        ("host: gk.example.net}", "host: gk.peer.example, organisation: two}"),
        (
            "host: desk.example.net, codecs: [alaw]}",
            "host: desk.example.net, codecs: [alaw], organisation: one}",
        ),
        ("h323:\\1@gk.example.net", "h323:\\1@gk.peer.example"),
    )
    (gap,) = gaps(PlanNetwork(loads(text, "plan.yaml"), DAY))
    assert gap.startswith("named/named.conf has zone peer.example of two")


def test_the_page_has_the_table_of_what_each_engine_does() -> None:
    page = (DOCS / "voice-routing.md").read_text()
    for row in (("plan", *(name for name, _ in ENGINES)), *ROWS):
        assert f"| {' | '.join(row)} |" in page
