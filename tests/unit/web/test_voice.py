"""Zone management without a browser: who may ask for what, and what the answers say."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from weirlab.base.errors import InputError
from weirlab.numbering.managing import database
from weirlab.numbering.managing.accounts import Accounts
from weirlab.numbering.managing.database import opened
from weirlab.numbering.managing.register import Register
from weirlab.numbering.plan import load, ready
from weirlab.web.command import VoiceOptions
from weirlab.web.settings import VoiceSettings
from weirlab.web.voice import attempts

from .conftest import ORIGIN, Serve

PASSWORD = "a weir holds water"
CHEAP = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1),))
PROXY = "192.0.2.8"
ENTRY = {
    "tree": "public",
    "number": "+420220000009",
    "naptr": [{"service": "E2U+sip", "uri": "sip:\\1@cesnet.cz"}],
}

Client = Callable[..., TestClient]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("voice") / "plan.db")


def make_database(path: Path) -> Path:
    """A database with an administrator and a user of each of two organisations."""
    database = opened(str(path), new=True)
    register = Register(database)
    register.begin("test", load(ready.FOLDER / "federation.yaml").plan, "federation.yaml")
    accounts = Accounts(register, CHEAP)
    accounts.add("test", "root", PASSWORD, None)
    accounts.add("test", "nora", PASSWORD, "north")
    accounts.add("test", "susan", PASSWORD, "south", publishes=True)
    accounts.add("test", "carol", None, "north")
    database.close()
    return path


@pytest.fixture
def settings(made: Path, tmp_path: Path) -> VoiceSettings:
    """Of a database of the test's own."""
    path = str(shutil.copy(made, tmp_path))
    return VoiceSettings(path, zones=str(tmp_path / "zones"), user_header="X-Remote-User")


@pytest.fixture
def client(serve: Serve, settings: VoiceSettings) -> TestClient:
    return serve(voice=settings)[0]


def sign_in(client: TestClient, name: str, password: str = PASSWORD) -> dict[str, str]:
    """Begin a session; returns the headers that changes need."""
    answer = client.post("/api/voice/session", json={"name": name, "password": password})
    assert answer.status_code == 200, answer.text
    user = client.get("/api/voice/session").json()["user"]
    assert user["name"] == name
    return {"X-Weir-Form": user["form_key"]}


def test_without_the_option_there_is_no_zone_management(serve: Serve) -> None:
    client, _ = serve()
    assert client.get("/api/session").json()["voice"] is False
    assert client.get("/api/voice/session").status_code == 404


def test_a_database_that_is_in_use_is_no_missing_page(
    serve: Serve, settings: VoiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_WAIT_S", 0)
    client, _ = serve(voice=settings)
    form = sign_in(client, "nora")
    with closing(sqlite3.connect(settings.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = client.post("/api/voice/items/enum", json={"content": ENTRY}, headers=form)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["message"].endswith("database is locked; try again")
    assert client.post("/api/voice/items/enum", json={"content": ENTRY}, headers=form).status_code == 201


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"no database" * 1000), "file is not a database"),
        (lambda path: sqlite3.connect(path).execute("DROP TABLE weir_events"), "no such table: weir_events"),
    ],
)
def test_a_damaged_database_is_an_error_of_the_service(
    client: TestClient, settings: VoiceSettings, damage: Callable[[Path], object], message: str
) -> None:
    sign_in(client, "nora")
    client.app.state.voice._database.close()  # type: ignore[attr-defined]
    damage(Path(settings.database))
    answer = client.get("/api/voice/history")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "DatabaseError")
    assert message in answer.json()["error"]["message"]
    assert str(Path(settings.database).parent) not in answer.text


def test_nobody_sees_anything_before_signing_in(client: TestClient) -> None:
    assert client.get("/api/session").json()["voice"] is True
    assert client.get("/api/voice/session").json() == {"plan": "federation", "user": None, "refused": ""}
    for path in (
        "parts",
        "items/ranges",
        "item/1",
        "way?number=1",
        "plan.yaml",
        "history",
        "log",
        "pending",
        "servers",
    ):
        answer = client.get(f"/api/voice/{path}")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "NotSignedIn"), path
    for path in ("items/enum", "item/1", "item/1/remove", "history/1/undo", "publish", "session/end"):
        assert client.post(f"/api/voice/{path}", json={}).status_code == 403, path


def test_the_cookie_of_a_session_is_for_this_page_alone(client: TestClient) -> None:
    answer = client.post("/api/voice/session", json={"name": "nora", "password": PASSWORD})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/api/voice" in cookie
    # This host itself has no TLS.
    assert "secure" not in cookie


def test_elsewhere_the_cookie_needs_tls(serve: Serve, settings: VoiceSettings) -> None:
    client, _ = serve(voice=settings, token="correct horse battery")
    answer = client.post(
        "http://voice.example.net/api/voice/session",
        json={"name": "nora", "password": PASSWORD},
        headers={"Authorization": "Bearer correct horse battery"},
    )
    assert "secure" in answer.headers["set-cookie"].lower()


def test_a_change_needs_the_key_of_this_session_s_forms(client: TestClient) -> None:
    headers = sign_in(client, "nora")
    for wrong in ({}, {"X-Weir-Form": "guess"}):
        answer = client.post("/api/voice/items/enum", json={"content": ENTRY}, headers=wrong)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "NotSignedIn")
    foreign = {**headers, "Sec-Fetch-Site": "cross-site"}
    assert client.post("/api/voice/items/enum", json={"content": ENTRY}, headers=foreign).status_code == 403
    assert client.post("/api/voice/items/enum", json={"content": ENTRY}, headers=headers).status_code == 201


def test_guessing_delays_the_guesser_and_nobody_else_behind_the_proxy(
    serve: Serve, settings: VoiceSettings
) -> None:
    delays = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    _, made = serve(voice=settings, proxies=(ip_network(PROXY),))
    made.app.state.voice.attempts.sleep = sleep
    client = TestClient(made.app, base_url=ORIGIN, client=(PROXY, 50_000))

    def sign_in_from(address: str, password: str) -> int:
        asked = {"name": "nora", "password": password}
        headers = {"X-Forwarded-For": address}
        return client.post("/api/voice/session", json=asked, headers=headers).status_code

    assert [sign_in_from("198.51.100.1", "guess") for _ in range(20)] == [403] * 20
    assert delays[:6] == [1, 2, 4, 8, 16, 30]
    delays.clear()
    assert sign_in_from("198.51.100.2", PASSWORD) == 200
    assert delays == []


def test_too_many_attempts_are_refused_with_a_time_to_wait(
    serve: Serve, settings: VoiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MOST_OF_CLIENT", 0)
    client, _ = serve(voice=settings)
    answer = client.post("/api/voice/session", json={"name": "nora", "password": PASSWORD})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (429, "Throttled")
    assert answer.headers["retry-after"] == "1"


def test_a_piece_is_added_changed_and_undone(client: TestClient) -> None:
    headers = sign_in(client, "nora")
    made = client.post("/api/voice/items/enum", json={"content": ENTRY}, headers=headers).json()
    number, revision = made["event"]["item"], made["event"]["id"]
    found = client.get("/api/voice/items/enum", params={"find": "+420220000009"}).json()
    assert found["total"] == 1
    assert found["pieces"][0]["mine"] is True
    changed = {"content": {**ENTRY, "owner": "north"}, "revision": revision}
    answer = client.post(f"/api/voice/item/{number}", json=changed, headers=headers)
    assert answer.json()["event"]["after"]["owner"] == "north"
    late = client.post(f"/api/voice/item/{number}", json=changed, headers=headers)
    assert "changed meanwhile by nora" in late.json()["error"]["message"]
    history = client.get("/api/voice/history", params={"item": number}).json()["events"]
    assert [(each["action"], each["latest"]) for each in history] == [("changed", True), ("added", False)]
    undone = client.post(f"/api/voice/history/{history[0]['id']}/undo", json={}, headers=headers)
    assert undone.status_code == 200
    assert "owner" not in client.get(f"/api/voice/item/{number}").json()["content"]


def test_a_foreign_prefix_is_refused_at_its_field(client: TestClient) -> None:
    headers = sign_in(client, "susan")
    answer = client.post("/api/voice/items/enum", json={"content": ENTRY}, headers=headers)
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert (problem["field"], problem["code"]) == ("number", "rights")
    assert problem["reason"] == "+420220000009 belongs to north, but you act for south"
    assert answer.json()["acceptable"] is False


def test_a_list_says_what_is_one_s_own(client: TestClient) -> None:
    sign_in(client, "nora")
    pieces = client.get("/api/voice/items/contacts").json()["pieces"]
    assert [(each["content"]["organisation"], each["mine"]) for each in pieces] == [
        ("cesnet", False), ("north", True), ("south", False),
    ]  # fmt: skip


def test_zones_are_published_by_those_who_may(client: TestClient, settings: VoiceSettings) -> None:
    headers = sign_in(client, "nora")
    pending = client.get("/api/voice/pending").json()
    assert (pending["may"], pending["serial"]) == (False, None)
    refused = client.post("/api/voice/publish", json={"head": pending["head"]}, headers=headers)
    assert (refused.status_code, refused.json()["problems"][0]["reason"]) == (422, "nora may not publish")
    headers = sign_in(client, "susan")
    made = client.post("/api/voice/publish", json={"head": pending["head"]}, headers=headers)
    assert made.status_code == 200, made.text
    zone = (Path(settings.zones) / "0.2.4.e164.arpa.zone").read_text()
    assert f"{made.json()['serial']} ; serial" in zone
    pending = client.get("/api/voice/pending").json()
    assert (pending["serial"], pending["events"], pending["ways"]) == (made.json()["serial"], [], [])


def test_the_audit_log_is_for_administrators(client: TestClient) -> None:
    sign_in(client, "nora")
    assert client.get("/api/voice/log").status_code == 403
    sign_in(client, "root")
    events = client.get("/api/voice/log").json()["events"]
    assert [each["action"] for each in events[:2]] == ["signed in", "signed in"]


def test_a_user_changes_the_own_password(client: TestClient) -> None:
    headers = sign_in(client, "nora")
    asked = {"before": PASSWORD, "after": "a sluice lets it through"}
    assert client.post("/api/voice/session/password", json=asked).status_code == 403
    wrong = client.post("/api/voice/session/password", json={**asked, "before": "guess"}, headers=headers)
    assert "the current password is wrong" in wrong.json()["error"]["message"]
    assert client.get("/api/voice/parts").status_code == 200
    assert client.post("/api/voice/session/password", json=asked, headers=headers).status_code == 200
    assert client.get("/api/voice/parts").status_code == 200
    sign_in(client, "nora", asked["after"])


def test_signing_out_ends_the_session(client: TestClient) -> None:
    headers = sign_in(client, "nora")
    kept = dict(client.cookies)
    assert client.post("/api/voice/session/end", json={}, headers=headers).status_code == 200
    client.cookies.update(kept)
    assert client.get("/api/voice/parts").status_code == 403


def test_a_proxy_names_the_user_from_its_own_address_alone(serve: Serve, settings: VoiceSettings) -> None:
    _, made = serve(voice=settings, proxies=(ip_network(PROXY),))
    named = {"X-Remote-User": "carol"}
    elsewhere = TestClient(made.app, base_url=ORIGIN, client=("192.0.2.9", 50_000))
    assert elsewhere.get("/api/voice/session", headers=named).json()["user"] is None
    proxy = TestClient(made.app, base_url=ORIGIN, client=(PROXY, 50_000))
    user = proxy.get("/api/voice/session", headers=named).json()["user"]
    assert (user["name"], user["vouched"]) == ("carol", True)
    headers = {**named, "X-Weir-Form": user["form_key"]}
    assert proxy.post("/api/voice/items/enum", json={"content": ENTRY}, headers=named).status_code == 403
    assert proxy.post("/api/voice/items/enum", json={"content": ENTRY}, headers=headers).status_code == 201
    unknown = proxy.get("/api/voice/session", headers={"X-Remote-User": "dave"}).json()
    asked = {"before": PASSWORD, "after": "a sluice lets it through"}
    told = proxy.post("/api/voice/session/password", json=asked, headers=headers).json()
    assert "change your password there" in told["error"]["message"]
    assert unknown["user"] is None
    assert "'dave' has no account here" in unknown["refused"]


def test_forms_ask_for_all_fields_of_the_models(client: TestClient) -> None:
    sign_in(client, "root")
    parts = {each["key"]: each for each in client.get("/api/voice/parts").json()["parts"]}
    fields = {each["name"]: each for each in parts["enum"]["fields"]}
    assert (fields["tree"]["kind"], fields["tree"]["names"], fields["tree"]["required"]) == (
        "text", "trees", True,
    )  # fmt: skip
    assert fields["valid_from"]["kind"] == "date"
    assert [each["name"] for each in fields["naptr"]["fields"]] == [
        "order", "preference", "service", "regexp", "uri", "refer",
    ]  # fmt: skip
    engine = {each["name"]: each["kind"] for each in parts["engines"]["fields"]}
    assert engine["kind"] == "choice"
    assert engine["ports"] == "pairs"
    assert engine["transcodes"] == "flag"
    assert engine["rewrite"] == "rows"
    general = {each["name"]: each["kind"] for each in parts["general"]["fields"]}
    assert "serial" not in general
    assert general["dns"] == "group"
    assert all(each["help"] for part in parts.values() for each in part["fields"])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"voice_zones": "zones"}, "--voice-zones needs --voice DATABASE"),
        ({"voice": "a.db", "voice_user_header": "X-User"}, "--voice-user-header needs --proxy"),
        ({"voice": "a.db", "voice_rndc": "rndc.conf"}, "needs --voice-zones"),
        ({"voice": "a.db", "voice_catalog": "catalog.invalid"}, "--voice-catalog needs --voice-zones"),
        ({"voice": "a.db", "voice_zones": "z", "voice_catalog": "a b"}, "give a domain name"),
        ({"voice": "a.db", "voice_server": ["ns.example.net"]}, "--voice-server .* not understood"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        VoiceOptions(**given).settings(())


def test_options_are_understood() -> None:
    found = VoiceOptions(voice="a.db", voice_server=["192.0.2.53", "[2001:db8::53]:5353"]).settings(())
    assert found is not None
    assert found.servers == (("192.0.2.53", 53), ("2001:db8::53", 5353))
    assert VoiceOptions().settings(()) is None


def test_a_user_looks_up_where_a_number_goes(client: TestClient) -> None:
    sign_in(client, "nora")
    plan = yaml.safe_load(client.get("/api/voice/plan.yaml").text)
    number = next(each["number"] for each in plan["tests"])
    found = client.get("/api/voice/way", params={"number": number}).json()
    assert found["good"]
    assert found["conclusion"].startswith(f"{number}: ")
    (first, *_) = found["ways"]
    assert first["title"] == "The way"
    engines = {engine for engine, _ in first["steps"]}
    assert engines <= set(plan["engines"])
    assert all(what for _, what in first["steps"])
    assert client.get("/api/voice/way", params={"number": "12a"}).status_code == 400
    unknown = client.get("/api/voice/way", params={"number": number, "caller": "nobody"})
    assert (unknown.status_code, "nobody" in unknown.json()["error"]["message"]) == (400, True)
