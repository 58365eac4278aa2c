from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import dns.rdatatype
import dns.zone
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.base import extras
from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.files import HOST_FILES
from weirlab.numbering.ere import Substitution
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import in_order
from weirlab.numbering.zones import imported, put, written, zones

from .plans import BASE, DAY, changed, network, ready_network
from .resolver import Resolver

HEAD = """\
plan: random
caller: a
dns: {primary: ns.example.org, contact: hostmaster@example.org}
engines:
  a: {kind: endpoint, protocols: [sip], home: p}
  p: {kind: proxy, trees: [t]}
trees:
  t: {suffix: e164.arpa, zone: 0.2.4.e164.arpa, fill_holes: FILL}
enum:
"""
DIGITS = st.text("012", max_size=5).map(lambda rest: f"420{rest}")


def plan(prefixes: set[str], numbers: set[str], fill: bool) -> PlanNetwork:
    entries = [
        f"  - "
        f"{{tree: t, {key}: '+{digits}', naptr: [{{service: E2U+sip, uri: 'sip:+\\1@{key}-{digits}.net'}}]}}"
        for key, listed in (("prefix", prefixes), ("number", numbers - {"420"}))
        for digits in sorted(listed)
    ]
    text = HEAD.replace("FILL", str(fill).lower()) + ("\n".join(entries) if entries else "  []")
    return PlanNetwork(loads(text), DAY)


def planned_answer(net: PlanNetwork, tree: str, number: str) -> list[tuple[int, int, str, str]]:
    """What the plan says a tree answers."""
    index = net.trees[tree].lookup(number[1:])
    if index is None:
        return []
    records = [record for _, record in in_order(net.plan.enum[index])]
    uris = [str(Substitution.parse(record.expression).apply(number)) for record in records]
    return [(r.order, r.preference, r.service, uri) for r, uri in zip(records, uris, strict=True)]


@settings(max_examples=50)
@given(st.sets(DIGITS, max_size=6), st.sets(DIGITS, max_size=6), st.lists(DIGITS, min_size=20), st.booleans())
def test_the_zone_answers_what_the_plan_says(
    prefixes: set[str], numbers: set[str], asked: list[str], fill: bool
) -> None:
    net = plan(prefixes, numbers, fill)
    resolver = Resolver(written(zones(net)[0]))
    listed = [*prefixes, *numbers]
    for digits in {
        *asked,
        *listed,
        *(f"{each}{d}" for each in listed for d in "0123"),
        *(e[:-1] for e in listed),
    }:
        if len(digits) > 3:
            number = f"+{digits}"
            assert resolver.naptr(number, "e164.arpa") == planned_answer(net, "t", number)


def test_the_zones_of_the_federation_answer_what_the_plan_says() -> None:
    net = ready_network("federation")
    served = {zone.origin: Resolver(written(zone)) for zone in zones(net)}
    known = sorted({entry.digits for entry in net.plan.enum})
    draw = random.Random(1)
    answered = 0
    for _ in range(2000):
        start = draw.choice(known)
        rest = "".join(draw.choices("0123456789", k=draw.randint(0, 9)))
        number = f"+{start[: draw.randint(4, len(start))]}{rest}"[:16]
        for name, tree in net.plan.trees.items():
            answer = served[tree.origin].naptr(number, tree.suffix)
            assert answer == planned_answer(net, name, number)
            answered += bool(answer)
    assert answered > 400


def test_the_example_of_the_report_gives_its_records_letter_by_letter() -> None:
    text = written(zones(ready_network("cesnet"))[0])
    assert r'9.8.2.5.5.3.4.2.2 IN NAPTR 100 50 "u" "E2U+sip" "!^\\+(.*)$!sip:\\1@cesnet.cz!" .' in text
    assert (
        r'9.8.2.5.5.3.4.2.2 IN NAPTR 200 50 "u" "E2U+h323" "!^\\+(.*)$!h323:\\1@gk1ext.cesnet.cz!" .' in text
    )


def test_the_text_of_a_zone_is_readable_and_names_the_lines_of_the_plan() -> None:
    tree, domain = map(written, zones(network()))
    assert (
        tree
        == r"""; Zone 0.2.4.e164.arpa, made by weir voice zones: change the plan instead.
$ORIGIN 0.2.4.e164.arpa.
$TTL 300
@ IN SOA ns.example.net. hostmaster.example.net. (
    7          ; serial
    3600       ; refresh
    900        ; retry
    604800     ; expire
    300        ; negative
    )
@ IN NS ns.example.net.
; plan.yaml:22 number +420111000001
1.0.0.0.0.0.1.1.1 IN NAPTR 100 10 "u" "E2U+sip" "!^\\+(.*)$!sip:+\\1@example.net!" .
1.0.0.0.0.0.1.1.1 IN NAPTR 100 20 "u" "E2U+h323" "!^\\+(.*)$!h323:\\1@gk.example.net!" .
; plan.yaml:27 prefix +4201112
*.2.1.1.1 IN NAPTR 100 10 "u" "E2U+sip" "!^\\+(.*)$!sip:+\\1@example.net!" .
"""
    )
    assert (
        domain.split("@ IN NS ns.example.net.\n")[1]
        == """\
; plan.yaml:16 engine desk
desk IN A 192.0.2.5
; plan.yaml:15 engine gk
gk IN A 192.0.2.4
; plan.yaml:35 host
ns IN A 192.0.2.53
; plan.yaml:36 sip over udp
_sip._udp IN SRV 10 5 5060 desk.example.net.
"""
    )


def test_what_fills_a_hole_says_so() -> None:
    text = written(next(z for z in zones(ready_network("federation")) if z.origin == "0.2.4.e164.arpa"))
    lines = text.splitlines()
    filled = lines.index(
        '*.7.1.5.0.0.5.9 IN NAPTR 100 50 "u" "E2U+h323" "!^\\\\+(.*)$!h323:\\\\1@gwb.cesnet.cz!" .'
    )
    assert "prefix +420950051: a longer name hides the wildcard here (RFC 4592)" in lines[filled - 1]


def test_a_zone_within_a_zone_is_delegated() -> None:
    net = network(("domains:\n", "domains:\n  voip.example.net: {hosts: {a.voip.example.net: 192.0.2.77}}\n"))
    made = {zone.origin: written(zone) for zone in zones(net)}
    assert "voip IN NS ns.example.net." in made["example.net"]
    assert "\na IN A 192.0.2.77" in made["voip.example.net"]


def test_a_text_that_no_zone_can_hold_is_refused_with_its_line() -> None:
    net = network(("h323:\\1@gk.example.net", "h323:\\1@" + "a" * 250))
    with pytest.raises(InputError, match=r"plan\.yaml:25: a text of \d+ bytes, but a zone takes at most 255"):
        zones(net)


def test_zones_are_written_once_and_again_only_with_a_higher_serial(tmp_path: Path) -> None:
    place = "plan.yaml:2"
    paths = put(zones(network()), tmp_path, place)
    assert [path.name for path in paths] == ["0.2.4.e164.arpa.zone", "example.net.zone"]
    before = [path.read_text() for path in paths]
    put(zones(network()), tmp_path, place)
    assert [path.read_text() for path in paths] == before
    other = ("address: 192.0.2.5", "address: 192.0.2.8")
    with pytest.raises(
        InputError, match=r"plan\.yaml:2: zone example\.net has changed, and serial 7 is not higher"
    ):
        put(zones(network(other)), tmp_path, place)
    assert [path.read_text() for path in paths] == before
    put(zones(network(other, ("serial: 7", "serial: 8"))), tmp_path, place)
    assert "desk IN A 192.0.2.8" in paths[1].read_text()


def test_a_zone_that_somebody_else_wrote_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "example.net.zone").write_text("@ IN SOA a. b. 1 2 3 4 5\n")
    with pytest.raises(InputError, match="Weir did not write this zone"):
        put(zones(network()), tmp_path, "plan.yaml:2")


@pytest.mark.parametrize("name", ["cesnet", "federation"])
def test_the_zones_of_ready_plans_pass_named_checkzone(name: str, tmp_path: Path) -> None:
    program = shutil.which("named-checkzone", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        pytest.skip("needs named-checkzone (Debian: bind9-utils)")
    made = zones(ready_network(name))
    for zone, path in zip(made, put(made, tmp_path, "x"), strict=True):
        done = subprocess.run(
            [program, "-k", "fail", zone.origin, path], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        assert f"loaded serial {zone.serial}" in done.stdout


def test_an_imported_zone_gives_the_plan_it_came_from(tmp_path: Path) -> None:
    net = ready_network("federation")
    path = tmp_path / "enum.zone"
    path.write_text(written(next(z for z in zones(net) if z.origin == "0.2.4.e164.arpa")))
    table = imported.read(path, "public", "e164.arpa")
    assert (table.left_out, table.holes) == ((), 0)
    (tmp_path / "public.csv").write_text(table.table())
    start = changed(
        ('tree: public\n    number: "+420111000001"', 'tree: public\n    number: "+420999000001"')
    )
    again = PlanNetwork(loads(start + "tables: [public.csv]\n", "plan.yaml", tmp_path, HOST_FILES), DAY)
    for number in (
        "+420224355289",
        "+420950051777",
        "+420950051345",
        "+420950051",
        "+42095005178",
        "+420950050",
    ):
        assert planned_answer(again, "public", number) == planned_answer(net, "public", number)
    assert again.book.at("enum", len(loads(BASE).plan.enum)).endswith("public.csv:2")


def test_an_import_tells_holes_and_what_it_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "old.zone"
    path.write_text(
        "$ORIGIN 0.2.4.e164.arpa.\n$TTL 300\n@ IN SOA ns.x. h.x. 1 2 3 4 5\n@ IN NS ns.x.\n"
        '*.1 IN NAPTR 10 10 "u" "E2U+sip" "!^\\\\+(.*)$!sip:\\\\1@x.net!" .\n'
        '9.9.1 IN NAPTR 10 10 "u" "E2U+sip" "!^\\\\+(.*)$!sip:\\\\1@y.net!" .\n'
        '5 IN NAPTR 10 10 "" "E2U+sip" "" other.net.\n'
        'www IN NAPTR 10 10 "u" "E2U+sip" "!^.*$!sip:a@x.net!" .\n'
    )
    found = imported.read(path, "public", "e164.arpa")
    assert [entry.number or entry.prefix for entry in found.entries] == ["+4201", "+420199"]
    assert found.left_out == (
        "5.0.2.4.e164.arpa: a record that does not end with a URI (its flag is not u)",
        "www.0.2.4.e164.arpa: not a number below e164.arpa",
    )
    assert found.holes == 2


def test_an_import_says_what_else_a_zone_has(tmp_path: Path) -> None:
    path = tmp_path / "old.zone"
    path.write_text(
        "$ORIGIN 0.2.4.e164.arpa.\n$TTL 300\n@ IN SOA ns.x. h.x. 1 2 3 4 5\n@ IN NS ns.x.\n"
        '1.2 IN NAPTR 10 10 "u" "E2U+sip" "!^.*$!sip:a@x.net!" .\n'
        "3.2 IN CNAME 1.2\n4.2 IN NS ns.y.\n4.2 IN NS ns.z.\n5 IN DNAME 6.0.2.4.e164.arpa.\n"
        '7 IN TXT "free"\n'
    )
    found = imported.read(path, "public", "e164.arpa")
    assert len(found.entries) == 1
    assert found.left_out == (
        "3.2.0.2.4.e164.arpa: an alias (CNAME) for 1.2.0.2.4.e164.arpa; repeat the records of that name",
        "4.2.0.2.4.e164.arpa: delegated to ns.y, ns.z (NS); import the zone from there",
        "5.0.2.4.e164.arpa: numbers below it are in 6.0.2.4.e164.arpa (DNAME); import that zone, too",
        "7.0.2.4.e164.arpa: a record of type TXT, which a plan does not have",
    )


def test_a_zone_file_whose_backslashes_are_not_doubled_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.zone"
    head = "$ORIGIN 0.2.4.e164.arpa.\n$TTL 300\n@ IN SOA ns.x. h.x. 1 2 3 4 5\n"
    path.write_text(head + '1 IN NAPTR 10 10 "u" "E2U+sip" "!^\\\\+(.*)$!sip:\\1@x.net!" .\n')
    with pytest.raises(InputError, match=r"bad\.zone:4: a single backslash in front of a digit"):
        imported.read(path, "public", "e164.arpa")
    path.write_text(head + '1 IN NAPTR 10 10 "u" "E2U+sip" "!^\\+.*$!sip:a@x.net!" .\n')
    (left_out,) = imported.read(path, "public", "e164.arpa").left_out
    assert left_out.startswith("1.0.2.4.e164.arpa: its regexp '!^+.*$!sip:a@x.net!' is not valid")
    assert left_out.endswith("each backslash of a regexp is doubled")


def test_an_import_without_dnspython_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingCapability, match=r"imports of zones, need dnspython.*pip install 'dnspython"):
        imported.read(tmp_path / "any.zone", "public", "e164.arpa")


def test_what_is_no_zone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.zone"
    path.write_text("@ IN NAPTR 1 1\n")
    with pytest.raises(InputError, match="not a zone file"):
        imported.read(path, "public", "e164.arpa")


def test_dnspython_reads_every_record_that_was_written() -> None:
    for zone in zones(ready_network("federation")):
        parsed = dns.zone.from_text(written(zone), relativize=False)
        count = sum(len(rdataset) for _, rdataset in parsed.iterate_rdatasets())
        assert count == len(zone.records) + 1
        assert parsed.find_rdataset(parsed.origin, dns.rdatatype.SOA)[0].serial == zone.serial
