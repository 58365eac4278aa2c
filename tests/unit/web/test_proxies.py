"""Trusted proxies: whose address and scheme a request has."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import Headers

from weirlab.base.errors import InputError
from weirlab.web.access.proxies import Proxies
from weirlab.web.command import WebListenOptions
from weirlab.web.settings import WebSettings, check

from .conftest import ORIGIN, Serve

TOKEN = "correct horse battery"
PEER = "192.0.2.1"
PROXIES = Proxies((ip_network("192.0.2.0/30"), ip_network("2001:db8::/64")))


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ([("X-Forwarded-For", "198.51.100.7")], "198.51.100.7"),
        ([("X-Forwarded-For", "198.51.100.7:4711")], "198.51.100.7"),
        ([("X-Forwarded-For", "::ffff:198.51.100.7")], "198.51.100.7"),
        ([("X-Forwarded-For", "2001:db8:1::7")], "2001:db8:1::7"),
        ([("X-Forwarded-For", "[2001:db8:1::7]:4711")], "2001:db8:1::7"),
        # What the client itself wrote stands first.
        ([("X-Forwarded-For", "127.0.0.1, 198.51.100.7")], "198.51.100.7"),
        ([("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", "198.51.100.7")], "198.51.100.7"),
        ([("X-Forwarded-For", "127.0.0.1, 198.51.100.7, 192.0.2.2, 2001:db8::9")], "198.51.100.7"),
        ([("X-Forwarded-For", "192.0.2.2, 192.0.2.3")], "192.0.2.2"),
        ([("Forwarded", "for=198.51.100.7;proto=https")], "198.51.100.7"),
        ([("Forwarded", 'For="[2001:db8:1::7]:4711" ; by=x')], "2001:db8:1::7"),
        ([("Forwarded", 'for="x, for="[2001:db8:1::7]"')], "2001:db8:1::7"),
        ([("Forwarded", "for=127.0.0.1, for=198.51.100.7, for=192.0.2.2")], "198.51.100.7"),
        ([("Forwarded", "for=198.51.100.7"), ("X-Forwarded-For", "198.51.100.7")], "198.51.100.7"),
        # Nobody can tell which of them the proxy set.
        ([("Forwarded", "for=127.0.0.1"), ("X-Forwarded-For", "198.51.100.7")], PEER),
        ([("Forwarded", "for=unknown")], PEER),
        ([("Forwarded", "for=_hidden, for=192.0.2.2")], "192.0.2.2"),
        ([("X-Forwarded-For", "localhost")], PEER),
        ([("X-Forwarded-For", "")], PEER),
        ([("X-Forwarded-For", "198.51.100.7,")], PEER),
        ([], PEER),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy_s(
    headers: list[tuple[str, str]], client: str
) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    assert PROXIES.client(PEER, Headers(raw=raw)) == client


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({"x-forwarded-proto": "https"}, "https"),
        ({"x-forwarded-proto": "http, HTTPS"}, "https"),
        ({"forwarded": 'for=x;proto="https"'}, "https"),
        ({"x-forwarded-proto": "gopher"}, None),
        ({}, None),
    ],
)
def test_the_scheme_is_the_one_that_the_last_proxy_reports(headers: dict[str, str], scheme: str) -> None:
    assert PROXIES.scheme(Headers(headers)) == scheme


def browser(serve: Serve, peer: str) -> TestClient:
    """A browser whose requests arrive from the address ``peer``."""
    _, made = serve(token=TOKEN, proxies=(ip_network("192.0.2.1"),))
    return TestClient(made.app, base_url=ORIGIN, client=(peer, 50_000))


def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone(serve: Serve) -> None:
    for peer, secure in (("192.0.2.1", True), ("192.0.2.2", False)):
        answer = browser(serve, peer).post(
            "/api/session", json={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"}
        )
        assert ("Secure" in answer.headers["set-cookie"]) is secure, peer


def test_nobody_but_a_trusted_proxy_is_believed_about_addresses(serve: Serve) -> None:
    headers = {"X-Forwarded-For": "198.51.100.7"}
    for peer, address in (("192.0.2.1", "198.51.100.7"), ("192.0.2.2", "192.0.2.2")):
        assert browser(serve, peer).get("/api/session", headers=headers).json()["browser"] == address


def test_a_proxy_is_an_address_or_a_network_and_needs_a_token() -> None:
    proxies = WebListenOptions(proxy=["127.0.0.1", "2001:db8::/64"]).proxies()
    assert [str(each) for each in proxies] == ["127.0.0.1/32", "2001:db8::/64"]
    for wrong in ("proxy", "192.0.2.1/24", "192.0.2.0/33", ""):
        with pytest.raises(InputError, match=r"--proxy .*give an IP address or a network"):
            WebListenOptions(proxy=[wrong]).proxies()
    with pytest.raises(InputError, match="--proxy lets other hosts in, so a token is needed"):
        check(WebSettings(proxies=proxies))
    check(WebSettings(proxies=proxies, token=TOKEN))
