"""Who may ask, and what browsers are told about the answers."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from weirlab.base.errors import InputError
from weirlab.store import Store
from weirlab.testing import make_record, make_result, make_spec
from weirlab.web.access.sessions import Sessions
from weirlab.web.settings import WebSettings, bind, check

from .conftest import ORIGIN, Serve

TOKEN = "correct horse battery"


def test_without_a_token_only_loopback_is_served() -> None:
    check(WebSettings(address="127.0.0.1"))
    check(WebSettings(address="::1"))
    check(WebSettings(address="0.0.0.0", token=TOKEN))
    with pytest.raises(InputError, match="a token is needed"):
        check(WebSettings(address="0.0.0.0"))
    with pytest.raises(InputError, match="can be guessed") as refused:
        check(WebSettings(address="0.0.0.0", token="secret"))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("localhost:0", "127.0.0.1", 0),
        (":8080", "127.0.0.1", 8080),
        ("192.0.2.1", "192.0.2.1", 29180),
        ("[::1]:8080", "::1", 8080),
        ("2001:db8::1", "2001:db8::1", 29180),
    ],
)
def test_an_address_is_read_with_and_without_its_port(text: str, address: str, port: int) -> None:
    assert bind(text) == (address, port)


@pytest.mark.parametrize(
    "text", ["example.org:80", "127.0.0.1:", "127.0.0.1:http", "[::1", "[::1]8", ":70000", "[::1]:"]
)
def test_what_is_no_address_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(InputError, match="ADDRESS:PORT"):
        bind(text)


def test_nothing_but_the_page_itself_comes_without_the_token(serve: Serve) -> None:
    client, _ = serve(token=TOKEN)
    assert client.get("/").status_code == 200
    assert client.get("/icon.svg").status_code == 200
    for path in ("/api/runs", "/metrics", "/api/captures/x", "/api/runs/last/report"):
        assert client.get(path).status_code == 401, path
    assert client.get("/api/session").json()["admitted"] is False


def test_the_token_is_shown_once_and_a_cookie_from_then_on(serve: Serve) -> None:
    client, _ = serve(token=TOKEN)
    refused = client.post("/api/session", json={"token": TOKEN[:-1] + "x"})
    assert refused.status_code == 401
    assert not client.cookies
    admitted = client.post("/api/session", json={"token": TOKEN})
    said = admitted.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=strict" in said
    assert TOKEN not in said
    assert client.get("/api/runs").status_code == 200
    other, _ = serve(token=TOKEN)
    other.cookies = client.cookies
    assert other.get("/api/runs").status_code == 401


def test_every_browser_has_a_session_of_its_own_which_logging_out_ends(serve: Serve) -> None:
    one, made = serve(token=TOKEN)
    other = TestClient(made.app, base_url=ORIGIN)
    for client in (one, other):
        client.post("/api/session", json={"token": TOKEN})
        assert client.get("/api/session").json()["logged_in"] is True
    (cookie,) = one.cookies.jar
    assert cookie.value not in dict(other.cookies).values()
    answer = one.post("/api/session/end", json={})
    assert "Max-Age=0" in answer.headers["set-cookie"]
    one.cookies.jar.set_cookie(cookie)
    assert one.get("/api/runs").status_code == 401
    assert one.get("/api/session").json()["logged_in"] is False
    assert other.get("/api/runs").status_code == 200


def test_the_sessions_of_a_service_are_limited_and_the_oldest_goes_first() -> None:
    sessions = Sessions(WebSettings(token=TOKEN))
    first, *_, last = (begun(sessions) for _ in range(1001))
    assert not sessions.holds(first)
    assert sessions.holds(last)


def begun(sessions: Sessions) -> Request:
    """A request with the cookie of a new session."""
    response = Response()
    sessions.begin(response, secure=False)
    cookie = response.headers["set-cookie"].partition(";")[0].encode()
    return Request({"type": "http", "headers": [(b"cookie", cookie)]})


def test_programs_give_the_token_in_a_header(serve: Serve) -> None:
    client, _ = serve(token=TOKEN)
    assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/metrics", headers={"Authorization": "Bearer nonsense"}).status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer t\u00f6ken".encode()}).status_code == 401
    other, _ = serve(token=(strange := "t\u00f6ken t\u00f6ken t\u00f6ken"))
    assert other.get("/metrics", headers={"Authorization": f"Bearer {strange}".encode()}).status_code == 200


def test_a_name_that_leads_here_by_a_trick_of_dns_is_refused(client: TestClient) -> None:
    assert client.get("/api/runs", headers={"Host": "evil.example:29180"}).status_code == 403
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/api/runs", headers={"Host": "[::1]:29180"}).status_code == 200
    assert client.get("/api/runs", headers={"Host": "localhost:29180"}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "x?",
        "x#",
        "x/",
        "x\\",
        "x//",
        "a?b=c",
        "x/static",
        "u@x",
        "x:y",
        "x:",
        "[::1",
        "::1",
        "x y",
        "x%2f",
        "\u00fc",
    ],
)
def test_a_malformed_host_is_refused_and_no_way_around_the_token(serve: Serve, host: str) -> None:
    for settings in ({"token": TOKEN}, {}):
        client, _ = serve(**settings)
        for path in ("/api/runs", "/metrics", "/"):
            answer = client.get(path, headers={"Host": host.encode()})  # type: ignore[dict-item]
            assert answer.status_code == 400, path
            assert "host" in answer.json()["error"]["message"]


def test_two_hosts_are_one_too_many(client: TestClient) -> None:
    assert client.get("/", headers=[("Host", "localhost"), ("Host", "localhost")]).status_code == 400


@pytest.mark.parametrize(
    "path", ["//api/runs", "/./api/runs", "/x/../api/runs", "/API/runs", "/metrics/", "/api"]
)
def test_the_token_is_needed_for_every_path_but_the_page_s_files(serve: Serve, path: str) -> None:
    client, _ = serve(token=TOKEN)
    assert status(client, path) == 401
    assert status(client, "/index.html") == 200


def status(client: TestClient, path: str) -> int:
    """The status of an answer to a path that no client may tidy up."""
    answers: list[int] = []

    async def receive() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 29180), "state": {},
    }  # fmt: skip
    anyio.run(client.app, scope, receive, send)
    return answers[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": ORIGIN},
        {"Sec-Fetch-Site": ""},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:29181"},
    ],
)
def test_other_web_sites_cannot_make_anything_happen(client: TestClient, headers: dict[str, str]) -> None:
    sent = client.post("/api/captures", content=b"x", headers=headers)
    assert sent.status_code == 403
    assert "another web site" in sent.json()["error"]["message"]
    for path in ("/api/runs", "/metrics", "/api/session", "/api/nothing"):
        assert client.get(path, headers=headers).status_code == 403, path
    # A link to the page.
    assert client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_page_and_its_user_are_no_other_web_site(client: TestClient, site: str) -> None:
    # A proxy that names another host to the service does not change what the browser says.
    headers = {"Sec-Fetch-Site": site, "Origin": "https://weir.example.net"}
    assert client.get("/api/runs", headers=headers).status_code == 200
    assert client.post("/api/session", json={}, headers=headers).status_code == 200


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 5000, "\u0663", ""])
def test_a_length_that_is_none_is_refused(client: TestClient, length: str) -> None:
    answer = client.post("/api/transfers", content=iter([b"{}"]), headers={"Content-Length": length.encode()})  # type: ignore[dict-item]
    assert answer.status_code == 413


def test_every_answer_forbids_what_the_page_does_not_need(client: TestClient) -> None:
    for path in ("/", "/api/runs", "/api/nothing", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert "frame-ancestors 'none'" in policy, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_has_no_script_and_no_style_of_its_own(client: TestClient) -> None:
    page = client.get("/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|style=|\bon\w+=", page)


def test_a_report_is_an_origin_of_its_own_without_network(client: TestClient, store: Store) -> None:
    run_id = trial(store)
    report = store.open(run_id).path / "report.html"
    report.write_text("<h1>Foreign</h1>")
    answer = client.get(f"/api/runs/{run_id}/report")
    policy = answer.headers["content-security-policy"]
    assert answer.text == "<h1>Foreign</h1>"
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize(
    "path", ["..%2f..%2fsecret", "%2e%2e", "../secret", "secret", "..%5csecret", "%00", "last%2f..%2fsecret"]
)
def test_no_path_leads_out_of_the_store(client: TestClient, store: Store, path: str) -> None:
    store.root.mkdir()
    for folder in (store.root.parent / "secret", store.root / "secret"):
        folder.mkdir()
        (folder / "report.html").write_text("secret")
        (folder / "measurement.json").write_text("{}")
    for place in (
        f"/api/runs/{path}/report",
        f"/api/measurements/{path}",
        f"/api/captures/{path}/file",
        f"/{path}/report.html",
    ):
        answer = client.get(place)
        assert answer.status_code in (400, 403, 404), place
        assert "secret" not in answer.text.replace("secret'", ""), place


def test_a_link_in_place_of_a_report_is_not_followed(
    client: TestClient, store: Store, tmp_path: Path
) -> None:
    run_id = trial(store)
    (tmp_path / "secret").write_text("secret")
    (store.open(run_id).path / "report.html").symlink_to(tmp_path / "secret")
    answer = client.get(f"/api/runs/{run_id}/report")
    assert answer.status_code == 400
    assert "has no report" in answer.json()["error"]["message"]


def test_a_form_of_megabytes_is_refused_before_it_is_read(client: TestClient) -> None:
    assert client.post("/api/transfers", content=b" " * 100_000).status_code == 413
    assert client.post("/api/transfers", content=iter([b"{}"])).status_code == 413


def trial(store: Store) -> str:
    with store.create("trial", {"name": "trial"}, {"lab": "netns", "dut": "iptables"}) as writer:
        spec = make_spec(1e5, position=400)
        writer.add(make_record(make_result(1e5), spec, run_id=writer.run_id, index=0, role="single"))
        return writer.run_id
