"""Zones of a managed plan: when they may be published, with which serial, and what has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.zone
import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.numbering.lab import probes as wire
from weirlab.numbering.managing import publishing
from weirlab.numbering.managing.publishing import (
    PublicationPlanner,
    PublicationServer,
    PublicationTarget,
    latest,
    next_serial,
    publish,
)
from weirlab.numbering.managing.register import Register
from weirlab.numbering.plan import loads

from .conftest import ADMINISTRATOR, ONE, find, refused
from .test_register import ENTRY

ZONE = "0.2.4.e164.arpa.zone"


def head(register: Register) -> int:
    return PublicationPlanner(register).pending().head


def test_zones_have_a_new_serial_and_the_list_names_them(register: Register, tmp_path: Path) -> None:
    made = publish(
        PublicationPlanner(register), ADMINISTRATOR, head(register), PublicationTarget(tmp_path / "zones")
    )
    assert made.serial == 2026112201
    assert made.zones == ("0.2.4.e164.arpa", "example.net")
    assert "2026112201 ; serial" in (tmp_path / "zones" / ZONE).read_text()
    listed = (tmp_path / "zones" / publishing.LIST).read_text()
    assert f'zone "example.net" {{ type master; file "{tmp_path}/zones/example.net.zone"; }};' in listed
    assert register.state().plan.serial == 2026112201


CATALOG = "catalog.invalid"


def test_a_catalog_lists_the_zones_for_secondaries(register: Register, tmp_path: Path) -> None:
    target = PublicationTarget(tmp_path / "zones", catalog=CATALOG)
    first = publish(PublicationPlanner(register), ADMINISTRATOR, head(register), target)
    assert first.zones == ("0.2.4.e164.arpa", "example.net")
    members, version = listed(tmp_path)
    assert {*members.values()} == {"0.2.4.e164.arpa.", "example.net."}
    assert version == '"2"'
    assert (
        f'zone "{CATALOG}" {{ type master; file "{tmp_path}/zones/{CATALOG}.zone"; }};'
        in (tmp_path / "zones" / publishing.LIST).read_text()
    )
    register.add(ADMINISTRATOR, "domains", {"name": "example.org"})
    publish(PublicationPlanner(register), ADMINISTRATOR, head(register), target)
    after, _ = listed(tmp_path)
    # The labels of the others stay: a secondary would start them anew.
    assert {label: after[label] for label in members} == members
    assert {*after.values()} - {*members.values()} == {"example.org."}
    assert target.origins(register.state())[-1] == CATALOG


def listed(folder: Path) -> tuple[dict[str, str], str]:
    """What the catalog lists: zones by their labels; and its version (RFC 9432)."""
    found = dns.zone.from_text((folder / "zones" / f"{CATALOG}.zone").read_text(), relativize=False)
    below = dns.name.from_text(f"zones.{CATALOG}")
    members = {
        str(name): str(each.target)
        for name, node in found.nodes.items()
        if name.parent() == below
        for each in node.get_rdataset(dns.rdataclass.IN, dns.rdatatype.PTR)
    }
    (version,) = found[f"version.{CATALOG}."].get_rdataset(dns.rdataclass.IN, dns.rdatatype.TXT)
    return members, str(version)


def test_a_catalog_needs_a_name_of_its_own(register: Register, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"example\.net is a zone of the plan"):
        publish(
            PublicationPlanner(register),
            ADMINISTRATOR,
            head(register),
            PublicationTarget(tmp_path, catalog="example.net"),
        )


def test_the_plan_that_was_published_is_the_one_of_the_other_commands(
    register: Register, tmp_path: Path
) -> None:
    publish(
        PublicationPlanner(register), ADMINISTRATOR, head(register), PublicationTarget(tmp_path / "zones")
    )
    with register.database.reading() as on:
        kept = on.publication()
    assert kept is not None
    assert loads(kept.text).plan == register.state().plan


def test_what_changes_is_told_before_it_is_published(register: Register, tmp_path: Path) -> None:
    assert PublicationPlanner(register).pending().before is None
    publish(
        PublicationPlanner(register), ADMINISTRATOR, head(register), PublicationTarget(tmp_path / "zones")
    )
    assert PublicationPlanner(register).pending().changes == ()
    register.add(ONE, "enum", ENTRY)
    (change,) = PublicationPlanner(register).pending().changes
    assert change.numbers == "+420111000009 itself"
    assert "no route" in str(change.before)
    assert "desk" in str(change.after)
    made = publish(
        PublicationPlanner(register), ADMINISTRATOR, head(register), PublicationTarget(tmp_path / "zones")
    )
    assert made.serial == 2026112202
    assert "9.0.0.0.0.0.1.1.1" in (tmp_path / "zones" / ZONE).read_text()


def test_a_plan_with_errors_is_not_published(register: Register, tmp_path: Path) -> None:
    register.add(ONE, "enum", {**ENTRY, "number": "+4201110000091234567"}, accept=True)
    assert refused(
        lambda: publish(
            PublicationPlanner(register), ADMINISTRATOR, head(register), PublicationTarget(tmp_path)
        )
    )
    assert [*tmp_path.glob("*.zone")] == []


def test_a_plan_that_has_changed_since_it_was_looked_at_is_not_published(
    register: Register, tmp_path: Path
) -> None:
    seen = head(register)
    register.add(ONE, "enum", ENTRY)
    (problem,) = refused(
        lambda: publish(PublicationPlanner(register), ADMINISTRATOR, seen, PublicationTarget(tmp_path))
    )
    assert problem.reason == "the plan has changed meanwhile"


def test_who_may_not_publish_does_not(register: Register, tmp_path: Path) -> None:
    (problem,) = refused(
        lambda: publish(PublicationPlanner(register), ONE, head(register), PublicationTarget(tmp_path))
    )
    assert problem.reason == "ann may not publish"


def test_what_bind_says_is_told_and_the_next_serial_is_another_one(
    register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "rndc.conf"
    configuration.write_text("no configuration")
    if publishing.programs.find("rndc") is None:
        pytest.skip("needs rndc, of Debian's bind9")
    target = PublicationTarget(tmp_path / "zones", configuration)
    with pytest.raises(LabError, match="BIND did not load them"):
        publish(PublicationPlanner(register), ADMINISTRATOR, head(register), target)
    with register.database.reading() as on:
        assert on.events(most=1)[0].action == "publishing failed"
    made = publish(
        PublicationPlanner(register), ADMINISTRATOR, head(register), PublicationTarget(tmp_path / "zones")
    )
    assert made.serial == 2026112202


@pytest.mark.parametrize(
    ("last", "following"),
    [(7, 2026112201), (2026112201, 2026112202), (2026112299, 2026112300), (2099010101, 2099010102),
     (4294967295, 1)],
)  # fmt: skip
def test_a_serial_follows_the_last_one(last: int, following: int) -> None:
    assert next_serial(last, date(2026, 11, 22)) == following


def test_the_latest_serial_counts_beyond_the_end_of_their_range() -> None:
    assert latest([7, 2026112201, 0]) == 2026112201
    assert latest([4294967295, 3]) == 3


@pytest.mark.parametrize(
    ("signed", "plain", "following"),
    # Signing a zone, BIND may count up before it loads what is published.
    [(None, 2026112207, 2026112208), (2026112207, None, 2026112218), (2026112207, 2026112230, 2026112231)],
)
def test_the_serial_is_higher_than_what_the_servers_have(
    register: Register,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    signed: int | None,
    plain: int | None,
    following: int,
) -> None:
    server = PublicationServer("192.0.2.53", 53)

    def served(
        servers: Sequence[PublicationServer], origins: Sequence[str]
    ) -> Iterator[tuple[PublicationServer, str, int | None]]:
        return iter([(server, origins[0], signed), (server, origins[1], plain)])

    monkeypatch.setattr(publishing, "serials", served)
    made = publish(
        PublicationPlanner(register),
        ADMINISTRATOR,
        head(register),
        PublicationTarget(tmp_path, servers=(server,)),
    )
    assert made.serial == following


def test_undoing_does_not_bring_an_old_serial_back(register: Register, tmp_path: Path) -> None:
    general = find(register, "general")
    content = {**general.content, "external": ["example.org"]}
    event = register.change(ADMINISTRATOR, general.id, general.revision, content).event
    publish(
        PublicationPlanner(register), ADMINISTRATOR, head(register), PublicationTarget(tmp_path / "zones")
    )
    register.undo(ADMINISTRATOR, event.id)
    assert register.state().plan.serial == 2026112201
    assert register.state().plan.external == ()


def test_the_serial_is_read_from_an_answer() -> None:
    question = wire.question("example.net", 9)
    owner = b"\xc0\x0c"
    data = b"\x02ns\xc0\x0c" + b"\x0ahostmaster\xc0\x0c" + (2026112201).to_bytes(4, "big") + bytes(16)
    record = owner + b"\0\x06\0\x01\0\0\x0e\x10" + len(data).to_bytes(2, "big") + data
    answer = b"\0\x09\x84\0\0\x01\0\x01\0\0\0\0" + question[12:] + record
    assert wire.serial(answer, 9) == 2026112201
    assert wire.serial(answer, 8) is None
    for length in range(len(answer) - 16):
        assert wire.serial(answer[:length], 9) is None
