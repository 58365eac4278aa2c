"""Zone management in a real browser, with a real BIND: two organisations change a plan and publish it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Served
from .devtools import Browser, Page
from .name_servers import ADDRESS, NameServers, missing, name_servers
from .pages import nameless, photograph

Serve = Callable[..., Served]

PASSWORD = "a weir holds water"
CATALOG = "catalog.invalid"
"""The secondary knows of no other zone: all reach it by this one."""
NUMBER = "+420220000009"
NAME = "9.0.0.0.0.0.0.2.2.0.2.4.e164.arpa"
REFUSED = ("403 (Forbidden)", "422 (Unprocessable")


def manage(*arguments: str | Path, given: str = "") -> None:
    command = [sys.executable, "-m", "weirlab", "voice", "manage", *map(str, arguments)]
    subprocess.run(command, input=given, text=True, check=True, stdout=subprocess.DEVNULL)


def fill(page: Page, field: str, text: str) -> None:
    """As a user enters ``text`` in place of what is there."""
    selector = json.dumps(field)
    page.wait_for(f"document.querySelector({selector})")
    page.evaluate(f"document.querySelector({selector}).focus()")
    page.evaluate(f"document.querySelector({selector}).select()")
    page.call("Input.insertText", text=text)
    # Lists and such are read when the user goes on.
    page.evaluate(f"document.querySelector({selector}).blur()")


def click(page: Page, text: str) -> None:
    """The button or link that says ``text``."""
    found = (
        "[...document.querySelectorAll('main button, main a:not(nav a)')]"
        f".find((each) => (each.getAttribute('aria-label') ?? each.innerText).trim() === {json.dumps(text)} "
        "&& !each.disabled)"
    )
    page.wait_for(found)
    page.evaluate(f"{found}.click()")


def heading(page: Page, text: str) -> None:
    page.wait_for(f"document.querySelector('h1')?.innerText === {json.dumps(text)}")


def signed_in(browser: Browser, url: str, name: str) -> Page:
    page = browser.session()
    page.open(f"{url}#/voice")
    heading(page, "Sign in")
    fill(page, "input[autocomplete=username]", name)
    fill(page, "input[type=password]", PASSWORD)
    click(page, "Sign in")
    heading(page, "federation")
    return page


def enter(page: Page) -> None:
    """A new entry for the number."""
    page.evaluate("location.hash = '#/voice/enum/new'")
    heading(page, "New entry")
    fill(page, "#field-number", NUMBER)
    fill(page, "#field-tree", "public")
    click(page, "Add to NAPTR records")
    fill(page, "#field-naptr-0-service", "E2U+sip")
    fill(page, "#field-naptr-0-uri", "sip:\\1@cesnet.cz")
    click(page, "Save")


def change_password(page: Page) -> None:
    page.evaluate("location.hash = '#/voice/password'")
    heading(page, "Change password")
    for field, text in (("current-password", PASSWORD), ("new-password", f"{PASSWORD} back")):
        fill(page, f"input[autocomplete={field}]", text)
    fill(page, "label:last-of-type input[autocomplete=new-password]", f"{PASSWORD} back")
    click(page, "Change password")
    said = page.wait_for("document.querySelector('main form [role]')?.innerText")
    assert said == "The password is changed. You are signed out everywhere else."


def publish(page: Page) -> None:
    page.evaluate("location.hash = '#/voice'")
    heading(page, "federation")
    page.evaluate("location.hash = '#/voice/publish'")
    heading(page, "Publish")
    click(page, "Publish")
    said = page.wait_for(
        "document.querySelector('#published')?.innerText || document.querySelector('.error')?.innerText"
    )
    assert said.startswith("Published: 4 zones with serial 20"), said
    # A row per server and zone; the secondary has each by transfer.
    page.wait_for(
        "document.querySelectorAll('#servers tbody tr').length === 10 "
        "&& !document.querySelector('#servers tr[data-current=false]')"
    )


def answer(servers: NameServers, server: int) -> tuple[str, list[str]]:
    return servers.ask(server, NAME, "NAPTR")


def test_two_organisations_change_a_plan_and_the_secondary_follows(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path
) -> None:
    if reason := missing():
        pytest.skip(reason)
    (tmp_path / "plan").mkdir()
    database = tmp_path / "plan" / "plan.db"
    on = ("--database", database)
    manage("import", "--plan", "federation", *on)
    manage("add-user", "nora", "--organisation", "north", *on, given=f"{PASSWORD}\n")
    manage("add-user", "susan", "--organisation", "south", "--publish", *on, given=f"{PASSWORD}\n")
    with name_servers(tmp_path, CATALOG) as servers:
        options = [f"--voice-server={ADDRESS}:{each}" for each in (servers.primary, servers.secondary)]
        served = serve(
            f"--voice={database}", f"--voice-zones={servers.zones}", f"--voice-rndc={servers.rndc}",
            f"--voice-catalog={CATALOG}", *options,
        )  # fmt: skip
        north, south = (signed_in(browser, served.url, name) for name in ("nora", "susan"))
        photograph(north, shots, "voice")
        assert nameless(north) == []

        # A foreign prefix is refused, beside its field.
        enter(south)
        said = south.wait_for("document.querySelector('#field-number-said p')?.innerText")
        assert f"{NUMBER} belongs to north, but you act for south" in said
        assert "enter numbers of south: +420950052" in said
        assert south.evaluate("document.activeElement.id") == "field-number"
        photograph(south, shots, "voice-refused")
        assert nameless(south) == []

        change_password(north)
        photograph(north, shots, "voice-password")
        assert nameless(north) == []

        enter(north)
        heading(north, f"Entry {NUMBER}")
        photograph(north, shots, "voice-entry")
        north.evaluate("location.hash = '#/voice/enum'")
        north.wait_for("document.querySelector('main table')")
        photograph(north, shots, "voice-entries")
        assert nameless(north) == []

        publish(south)
        photograph(south, shots, "voice-published")
        record = '100 10 "u" "E2U+sip" "!^\\\\+(.*)$!sip:\\\\1@cesnet.cz!" .'
        assert answer(servers, servers.secondary) == ("NOERROR", [record])
        assert "may not publish" in north_may_not(north)

        # Undone, and told before it is published.
        north.evaluate("location.hash = '#/voice/history'")
        heading(north, "History")
        photograph(north, shots, "voice-history")
        assert nameless(north) == []
        click(north, f"Undo: added entry {NUMBER}")
        north.wait_for("document.querySelector('main ol')?.innerText.includes('undone event')")
        south.evaluate("location.hash = '#/voice'")
        heading(south, "federation")
        south.evaluate("location.hash = '#/voice/publish'")
        ways = south.wait_for("document.querySelector('#ways')?.innerText")
        assert f"{NUMBER} itself" in ways
        photograph(south, shots, "voice-changes")
        assert nameless(south) == []
        publish(south)
        assert answer(servers, servers.secondary) == ("NXDOMAIN", [])
    problems = [each for each in browser.problems() if not any(text in each for text in REFUSED)]
    assert problems == []


def test_a_conflict_shows_what_somebody_else_changed(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "plan").mkdir()
    on = ("--database", tmp_path / "plan" / "plan.db")
    manage("import", "--plan", "federation", *on)
    manage("add-user", "root", *on, given=f"{PASSWORD}\n")
    served = serve(f"--voice={on[1]}", f"--voice-zones={tmp_path / 'zones'}")
    first, second = (signed_in(browser, served.url, "root") for _ in range(2))
    first.evaluate("location.hash = '#/voice/enum'")
    item = first.wait_for("document.querySelector('main table a')?.getAttribute('href')")
    assert "yours" in first.evaluate("document.querySelector('main tbody tr').innerText")
    for page in (first, second):
        page.evaluate(f"location.hash = '{item}'")
        page.wait_for("document.querySelector('#field-naptr-0-preference')")
    fill(first, "#field-naptr-0-preference", "77")
    click(first, "Save")
    first.wait_for("/Saved as event/.test(document.querySelector('main form [role=status]')?.innerText)")
    assert "77" not in second.text()
    fill(second, "#field-naptr-0-preference", "78")
    click(second, "Save")
    second.wait_for("document.querySelector('main form [role=alert]')?.innerText")
    assert "77" in second.wait_for("document.querySelector('main .event .changed ins')?.innerText")
    problems = [each for each in browser.problems() if not any(text in each for text in REFUSED)]
    assert problems == []


PAGES = {
    "": "federation",
    "organisations": "Organisations", "contacts": "Contacts", "ranges": "Number ranges",
    "engines": "Engines and gateways", "enum": "ENUM entries", "routes": "Routes", "tests": "Test numbers",
    "trees": "ENUM trees", "domains": "Domains",
    "general": "The plan", "publish": "Publish", "history": "History", "log": "Audit log",
    "password": "Change password",
    "organisations/new": "New organisation", "ranges/new": "New range", "engines/new": "New engine",
    "enum/new": "New entry", "routes/new": "New route", "tests/new": "New test number",
    "trees/new": "New tree", "domains/new": "New domain", "contacts/new": "New contact",
}  # fmt: skip


def test_every_page_fits_a_telephone_and_a_desk(
    serve: Serve, browser: Browser, shots: Path, tmp_path: Path
) -> None:
    (tmp_path / "plan").mkdir()
    on = ("--database", tmp_path / "plan" / "plan.db")
    manage("import", "--plan", "federation", *on)
    manage("add-user", "root", *on, given=f"{PASSWORD}\n")
    served = serve(f"--voice={on[1]}", f"--voice-zones={tmp_path / 'zones'}")
    page = signed_in(browser, served.url, "root")
    for path, title in PAGES.items():
        page.evaluate(f"location.hash = '#/voice/{path}'")
        heading(page, title)
        page.wait_for("!document.querySelector('main [role=status]')?.innerText.includes('…')")
        photograph(page, shots, f"voice-page-{path.replace('/', '-') or 'overview'}")
        assert nameless(page) == [], path
    assert browser.problems() == []


def north_may_not(page: Page) -> str:
    page.evaluate("location.hash = '#/voice/publish'")
    heading(page, "Publish")
    return str(page.wait_for("document.querySelector('.caution')?.innerText"))
