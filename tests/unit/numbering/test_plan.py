from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.numbering.checking import check
from weirlab.numbering.plan import load, loads
from weirlab.numbering.plan.values import digits_below, owner_name
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls

from .plans import BASE, DAY, changed


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            'number: "+420111000001"\n',
            "number: +420111000001\n",
            'plan.yaml:22:13: enum[0].number: YAML read it as a number and lost its "+" or its zeros; write '
            "it in quotes",
        ),
        (
            "to: [desk, gw]",
            "to: [dsk, gw]",
            "plan.yaml:30:40: routes[0].to[0]: there is no engine 'dsk'; did you mean",
        ),
        (
            "kind: proxy,",
            "kind: router,",
            "engines.core.kind: must be 'proxy', 'gateway', 'gatekeeper' or 'endpoint'",
        ),
        ("kind: proxy,", "kind: proxy, protocols: [h323],", "a proxy speaks sip only; a gateway translates"),
        ("kind: proxy,", "kind: proxy, home: gw,", "home is for endpoints; other engines have routes"),
        ("protocols: [h323], ", "", "list under protocols what the endpoint speaks"),
        ("address: 192.0.2.2", "address: 192.0.2.300", "must be an IPv4 or IPv6 address, such as 192.0.2.10"),
        ("address: 192.0.2.2", 'address: "fe80::1%x\\nwww A 192.0.2.9"', "must be an IPv4 or IPv6 address"),
        ("host: gk.example.net", "host: 192.0.2.4", "must be a host or domain name, such as gw.example.net"),
        ("contact: hostmaster@example.net", "contact: hostmaster", "must be an e-mail address"),
        ("codecs: [ulaw]}", "codecs: [ulaw], line: 'a)&b'}", "must be a local endpoint name of MGCP"),
        ("serial: 7", "serial: 0", "serial: must be greater than or equal to 1"),
        ('    prefix: "+4201112"\n', "", "enum[1]: give either number or prefix"),
        ("to: [desk, gw]", "to: [desk, gw], valid_from: soon", "routes[0].valid_from"),
        ("to: [desk, gw]", "too: [desk, gw]", "routes[0].too: unknown key; did you mean 'to'?"),
        ("trees: [public]", "trees: [publik]", "engines.core.trees[0]: there is no tree 'publik'"),
        ("owner: two", "owner: three", "ranges[1].owner: there is no organisation 'three'"),
    ],
)
def test_what_a_plan_cannot_say_is_refused_with_its_place(old: str, new: str, reason: str) -> None:
    with pytest.raises(InputError, match=re.escape(reason)):
        loads(changed((old, new)), "plan.yaml")


def test_a_text_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(InputError, match=r"plan\.yaml:1: a numbering plan consists of keys"):
        loads("- 1\n", "plan.yaml")


CSV = """\
prefix,owner,digits,at,to,tree,number,service,uri,order,preference,valid_until
+420555,two,12,core,desk gw,,,,,,,
+4205551,,,core,gw,,,,,,,2030-12-31
,,,,,public,+420111000009,E2U+sip,sip:\\1@example.net,100,10,
,,,,,public,+420111000009,E2U+h323,h323:\\1@gk.example.net,100,20,
"""


@pytest.fixture
def with_table(tmp_path: Path) -> Path:
    (tmp_path / "plan.yaml").write_text(BASE + "tables: [more.csv]\n")
    (tmp_path / "more.csv").write_text(CSV)
    return tmp_path


def test_a_table_adds_ranges_routes_and_entries_with_their_lines(with_table: Path) -> None:
    book = load(with_table / "plan.yaml")
    network = PlanNetwork(book, DAY)
    assert check(network) == []
    assert [way.engines[-1] for way in calls(network, "+420555000000")] == ["desk", "pbx"]
    assert [way.engines[-1] for way in calls(network, "+420111000009")] == ["desk", "pbx"]
    table = with_table / "more.csv"
    assert book.at("ranges", 2) == book.at("routes", 3) == f"{table}:2"
    assert book.at("routes", 4, "valid_until") == f"{table}:3"
    assert [book.at("enum", 2, "naptr", j) for j in (0, 1)] == [f"{table}:4", f"{table}:5"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prefix,too\n+420,desk\n", "more.csv:1: cell 2 is not the name of a column"),
        ("prefix,prefix\n", "more.csv:1: a column appears twice"),
        ("prefix,owner\n+420\n", "more.csv:2: 1 cells for 2 columns"),
        ("prefix,digits\n+420,12\n", "more.csv:2: the line gives neither owner, nor at and to, nor tree"),
        ("prefix,owner\n420,one\n", "more.csv:2:1: prefix: must be the beginning of international numbers"),
        ("prefix,at,to\n+420,core,\n", "more.csv:2:1: to: must not be empty"),
        ('prefix,owner\n"+420,one\n', "more.csv:2: not CSV"),
        ("prefix,at,to\n+421,core,desc\n", "more.csv:2: routes[3].to[0]: there is no engine 'desc'"),
    ],
)
def test_a_wrong_line_of_a_table_is_refused_with_its_place(with_table: Path, text: str, reason: str) -> None:
    (with_table / "more.csv").write_text(text)
    with pytest.raises(InputError, match=re.escape(reason)):
        load(with_table / "plan.yaml")


@pytest.mark.parametrize("name", ["/etc/passwd", "../other.csv"])
def test_a_table_lies_beside_the_plan(with_table: Path, name: str) -> None:
    (with_table / "plan.yaml").write_text(BASE + f"tables: [{name}]\n")
    with pytest.raises(InputError, match="must lie beside the plan or below it"):
        load(with_table / "plan.yaml")


@given(st.text("0123456789", min_size=1, max_size=15))
def test_the_name_of_a_number_leads_back_to_it(digits: str) -> None:
    assert digits_below(owner_name(digits, "e164.arpa"), "e164.arpa") == digits
