"""Extreme values in every parameter, header and field of every route are answered, none with a failure."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from anyio.from_thread import start_blocking_portal
from fastapi.testclient import TestClient

from weirlab.base.errors import InputError
from weirlab.numbering.managing.accounts import Accounts
from weirlab.store import Store
from weirlab.web.access import bodies
from weirlab.web.scenarios import asking
from weirlab.web.service import service
from weirlab.web.settings import VoiceSettings, WebSettings

from .conftest import ORIGIN, send, settled
from .test_access import trial
from .test_voice import CHEAP, ENTRY, make_database, sign_in

LONE = "\ud800"
NUMBERS = ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", str(2**63), str(-(2**63) - 1), str(10**400)]
"""JSON that no number type holds."""
BODIES = [
    *(f'{{"content": {{"number": {number}}}}}'.encode() for number in NUMBERS),
    b'{"name": "\\ud800"}', b'{"\\udfff": 1}', b'{"name": "\\u0000"}', b"[" * 20_000,
    b'{"a":' * 500 + b"1" + b"}" * 500,    b"\xff\xfe{\x00}\x00", b"\xed\xa0\x80", b"{", b"'", b"\x00",
]  # fmt: skip
TEXTS = [
    "", "-1", "nan", "inf", "1e400", str(2**63 - 1), str(2**63), "9" * 5000, "٣", "..", "a/b", "\\", "%", "*",
    "𝔘\ufffe\u202e", "a\nb",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 2**31, 2**63 - 1, -(2**63), 1e308, 5e-324, "", "\u202e", "é" * 2000, "0" * 400, [], {},
    [[None]], {"": {"a": 1}},
]  # fmt: skip
HEADERS = [
    ("Cookie", b"weir-29180=\\377; a; =; ;;=\xff"),
    ("Cookie", b"weir-voice-29180=\xe9"),
    ("Authorization", b"Bearer \xff"),
    ("Authorization", b"\xff"),
    ("X-Weir-Form", b"\xff"),
    ("X-Remote-User", b"\xff"),
    ("X-Forwarded-For", b"\xff,\xff"),
    ("X-Forwarded-Proto", b"\xff"),
    ("Forwarded", b'for="\xff;;=;"'),
    ("Origin", b"\xff"),
    ("Sec-Fetch-Site", b"\xff"),
    ("Content-Type", b"\xff/; =\xff"),
    ("Content-Type", b"multipart/form-data"),
    ("Content-Encoding", b"gzip"),
    ("Content-Length", b"9" * 5000),
    ("Content-Length", b"\xb2"),
    ("Range", b"bytes=9999999999999999999-,-0,5-1,-,\xb2-"),
    ("Range", b"bytes=" + b"0-0," * 2000),
    ("Range", b"\xff"),
    ("If-Range", b"\xff"),
    ("If-None-Match", b"\xff"),
    ("If-Modified-Since", b"Mon, 99 Jan 99999999999 00:00:00 GMT"),
    ("Accept-Encoding", b"\xff"),
    ("Accept", b"\xff"),
]


class Everything:
    """A service with every part, something in each, and a user who may use all."""

    def __init__(self, client: TestClient, store: Store, capture: bytes) -> None:
        self.client = client
        self.api = client.app.openapi()  # type: ignore[attr-defined]
        headers = sign_in(client, "root")
        client.headers.update(headers)
        capture_id = send(client, capture)
        assert settled(client, capture_id)["stage"] == "ready"
        piece = client.post("/api/voice/items/enum", json={"content": ENTRY}).json()["event"]
        run_id = trial(store)
        self.known = {
            "run_id": run_id, "before": run_id, "after": run_id, "number": "1", "part": "enum", "side": "a",
            "from": "0", "to": "1", "format": "csv", "table": "connections", "name": "made", "columns": "100",
            "data_id": capture_id,
        }  # fmt: skip
        self.bodies: dict[str, Any] = {
            "/api/session": {"token": "x"},
            "/api/transfers": {"host": "localhost"},
            "/api/scenarios": {"text": "{}", "name": "made", "lab": "sim"},
            "/api/voice/session": {"name": "root", "password": "x" * 12},
            "/api/voice/session/password": {"before": "x" * 12, "after": "y" * 12},
            "/api/voice/items/{part}": {"content": ENTRY},
            "/api/voice/item/{number}": {"content": ENTRY, "revision": piece["id"]},
            "/api/voice/item/{number}/remove": {"revision": piece["id"]},
            "/api/voice/publish": {"head": 1},
        }

    def operations(self) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
        """Path, method and parameters; not those that end the session of the test."""
        for path, methods in self.api["paths"].items():
            for method, operation in methods.items():
                if path not in ("/api/session/end", "/api/voice/session/end"):
                    yield path, method, operation.get("parameters", [])

    def address(self, path: str, parameters: list[dict[str, Any]], changed: str = "", value: str = "") -> str:
        """The address of an operation, with known parameters but for one."""
        query = []
        for each in parameters:
            name = each["name"]
            text = value if name == changed else self.known.get(name, "")
            if each["in"] == "path":
                path = path.replace(f"{{{name}}}", quote(text, safe=""))
            elif name == changed or each.get("required"):
                query.append(f"{name}={quote(text, safe='')}")
        return f"{path}?{'&'.join(query)}"

    def ask(self, method: str, address: str, **request: Any) -> int:
        # A failure of the service is raised here.
        status = self.client.request(method.upper(), address, **request).status_code
        assert status < 500, (method, address, request)
        return status


async def no_time(seconds: float) -> None:
    """Wait for nothing."""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, capture: bytes) -> Iterator[Everything]:
    folder = tmp_path_factory.mktemp("everything")
    voice = VoiceSettings(
        str(make_database(folder / "plan.db")), str(folder / "zones"), user_header="X-Remote-User"
    )
    store = Store(folder / "store")
    settings = WebSettings(allow_run=True, voice=voice, proxies=(ip_network("192.0.2.1"),))
    with service(settings, store) as made, start_blocking_portal() as portal:
        desk = made.app.state.voice
        desk.accounts = Accounts(desk.register, CHEAP)
        desk.attempts.sleep = no_time
        client = TestClient(made.app, base_url=ORIGIN)
        # One event loop instead of one for each request, which is slow.
        client.portal = portal
        yield Everything(client, store, capture)


def test_parameters(everything: Everything) -> None:
    asked = 0
    for path, method, parameters in everything.operations():
        body = {"json": everything.bodies.get(path, {})} if method == "post" else {}
        for parameter in parameters:
            for text in TEXTS:
                address = everything.address(path, parameters, parameter["name"], text)
                everything.ask(method, address, **body)
                asked += 1
    assert asked > 700


def test_nul_characters_are_refused_in_every_address(everything: Everything) -> None:
    for path, method, parameters in everything.operations():
        for parameter in parameters:
            address = everything.address(path, parameters, parameter["name"], "a\0b")
            assert everything.ask(method, address) == 400, address


def test_bodies_that_no_form_sends_are_refused_everywhere(everything: Everything) -> None:
    for path, method, parameters in everything.operations():
        if method == "post" and path != "/api/captures":
            for body in BODIES:
                for kind in ("application/json", "text/plain"):
                    address = everything.address(path, parameters)
                    status = everything.ask(method, address, content=body, headers={"Content-Type": kind})
                    assert status == 400, (path, body[:40])


def fields(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values inside ``value``."""
    yield place
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from fields(inner, (*place, key))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """A copy of ``value`` with ``new`` in one place."""
    if not place:
        return new
    found = copy.deepcopy(value)
    at = found
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = new
    return found


def test_fields_of_bodies(everything: Everything) -> None:
    asked = 0
    for path, method, parameters in everything.operations():
        if method == "post" and path in everything.bodies:
            body = everything.bodies[path]
            for place in fields(body):
                for value in VALUES:
                    everything.ask(
                        method, everything.address(path, parameters), json=changed(body, place, value)
                    )
                    asked += 1
    assert asked > 300


def test_pieces_of_every_part(everything: Everything) -> None:
    parts = everything.client.get("/api/voice/parts").json()["parts"]
    for part in parts:
        pieces = everything.client.get(f"/api/voice/items/{part['key']}").json()["pieces"]
        content = pieces[0]["content"]
        for number, place in enumerate(fields(content)):
            for value in VALUES[number % 3 :: 3]:
                body = {"content": changed(content, place, value)}
                everything.ask("post", f"/api/voice/items/{part['key']}", json=body)


PATHS = [
    ("get", "/"), ("get", "/icon.svg"), ("get", "/nothing"), ("get", "/metrics"), ("get", "/api/session"),
    ("get", "/api/captures/{data_id}/file"), ("get", "/api/runs/{run_id}"), ("get", "/api/voice/session"),
    ("get", "/api/voice/parts"), ("post", "/api/session"), ("post", "/api/captures"),
    ("post", "/api/transfers"), ("post", "/api/voice/session/password"), ("post", "/api/voice/items/enum"),
]  # fmt: skip


def test_headers(everything: Everything) -> None:
    for method, path in PATHS:
        for name, value in HEADERS:
            request = {"content": b"{}"} if method == "post" else {}
            everything.ask(method, path.format(**everything.known), headers={name: value}, **request)


@pytest.mark.parametrize("number", ["0", "-0", str(2**63 - 1), str(-(2**63)), "1e308", "5e-324", "0.1"])
def test_numbers_of_64_bits_pass(number: str) -> None:
    bodies.check(f'{{"a": [{number}]}}'.encode())


SCENARIOS: list[Any] = [
    10**400,
    -(10**400),
    float("nan"),
    float("inf"),
    LONE,
    "a\0b",
    {LONE: 1},
    [LONE],
    "9" * 5000,
    [],
]


def test_extreme_values_in_every_place_of_the_scenarios_that_come_with_weir() -> None:
    refused = 0
    for number, offered in enumerate(asking.offered()):
        document = yaml.safe_load(offered["text"])
        for at, place in enumerate(fields(document)):
            if (number + at) % 4:
                continue
            value = SCENARIOS[(number + at) // 4 % len(SCENARIOS)]
            text = (
                json.dumps(changed(document, place, value)).replace("NaN", ".nan").replace("Infinity", ".inf")
            )
            try:
                asking.understood(asking.ScenarioRequest(text=text))
            except InputError as error:
                str(error).encode()
                refused += 1
    assert refused > 50
