"""``weir ipsec bytes``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from weirlab.cli.program.app import app


def ask(*arguments: str) -> dict[str, Any]:
    """The JSON answer of ``weir ipsec bytes``."""
    result = CliRunner().invoke(app, ["ipsec", "bytes", *arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def row(document: dict[str, Any], name: str, stream: int = 0) -> dict[str, Any]:
    """One encapsulation of a stream."""
    (found,) = (one for one in document["streams"][stream]["encapsulations"] if one["name"] == name)
    assert isinstance(found, dict)
    return found


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")


def test_calls_on_a_line_by_ethernet_and_by_ip() -> None:
    document = ask("--line", "2Mbps")
    assert document["line_bps"] == 2e6
    tunnel = row(document, "esp-tunnel/aes-gcm-16")
    assert tunnel["ip_bytes"] == 256
    assert tunnel["overhead_bytes"] == 56
    assert tunnel["frame_bytes"] == 274
    assert tunnel["ip_bps"] == 102_400
    # (274 + 20) * 8 * 50 = 117,600 bit/s.
    assert tunnel["wire_bps"] == 117_600
    assert tunnel["calls"] == 17
    assert tunnel["calls_by_ip"] == 19
    assert row(document, "clear")["calls"] == 21


def test_codecs_and_packet_times_multiply() -> None:
    document = ask("--codec", "g711,g729", "--packet-time", "10,20", "--over", "clear")
    assert [one["codec"] for one in document["streams"]] == ["g711:10ms", "g711", "g729:10ms", "g729"]
    assert [one["encapsulations"][0]["ip_bytes"] for one in document["streams"]] == [120, 200, 50, 60]


def test_what_exceeds_the_mtu_is_fragmented_counted_and_told() -> None:
    document = ask(
        "--codec", "opus@64k:120ms", "--mtu", "576", "--over", "esp-tunnel", "--suite", "aes-gcm-16"
    )
    found = row(document, "esp-tunnel/aes-gcm-16")
    # 960 B of speech, 1,000 B of IP, 1,056 B behind ESP: 1,036 B in pieces of 552.
    assert found["ip_bytes"] == 1056
    assert found["fragments"] == [572, 504]
    assert found["ip_bps"] == pytest.approx((572 + 504) * 8 / 0.12)
    assert found["frame_bytes"] == 572 + 504 + 2 * 18
    assert len(document["warnings"]) == 1
    assert "exceed the MTU of 576 B" in document["warnings"][0]


def test_a_tunnel_too_narrow_for_ipv6_is_told() -> None:
    told = ask("--ip", "6", "--outer-ip", "4", "--mtu", "1300", "--over", "esp-tunnel")["warnings"]
    assert any("1,280 B that IPv6 needs" in one for one in told)


def test_bandwidths_by_the_published_definition_come_when_asked_for() -> None:
    assert ask("--over", "clear")["published_definition"] is None
    cells = ask("--over", "clear", "--published")["published_definition"]
    assert len(cells) == 6 * 7
    (cell,) = (c for c in cells if (c["packet_ms"], c["mode"], c["suite"]) == (20, "tunnel", "AES-SHA1"))
    assert cell["ip_bps"] == 105_600


def test_people_get_tables_and_a_sentence() -> None:
    result = CliRunner().invoke(app, ["ipsec", "bytes", "--published", "--esn"])
    assert result.exit_code == 0, result.stderr
    assert "ESP tunnel, AES-GCM-16" in result.stdout
    assert "AES-CBC (historic)" in result.stdout
    assert "105.6" in result.stdout
    sentence = result.stdout.splitlines()[0]
    assert sentence.startswith("G.711 in packets of 20 ms: 200 B of IP in the clear, 80 kbit/s")
    assert "17 calls" in sentence
    assert "Extended sequence numbers add no byte" in sentence


def test_all_encapsulations_are_shown_but_ah_behind_nat() -> None:
    kinds = {one["kind"] for one in ask("--over", "all")["streams"][0]["encapsulations"]}
    behind = {one["kind"] for one in ask("--over", "all", "--natt")["streams"][0]["encapsulations"]}
    assert kinds - behind == {"ah-transport", "ah-tunnel"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--over", "pptp"), "there is no encapsulation 'pptp'"),
        (("--suite", "des"), "there is no cipher suite 'des'"),
        (("--over", "esp-tunnel,"), "expected names, divided by commas"),
        (("--codec", "g711:20ms", "--packet-time", "10"), "leave out that or --packet-time"),
        (("--packet-time", "15.5"), "packets of G.711"),
        (("--packet-time", "20,x"), "--packet-time: 'x' in '20,x' not understood"),
        (
            ("--suite", "aes-gcm-16", "--over", "wireguard"),
            "--suite is about ESP, but --over wireguard has none",
        ),
        (("--suite", "aes-gcm-16", "--over", "ah-tunnel"), "--suite is about ESP, but --over ah-tunnel has"),
        (("--natt", "--esn", "--over", "clear,gre"), "--natt and --esn are about ESP"),
        (("--ip", "5"), "Invalid value for '--ip': '5' is not one of '4', '6'. See: weir ipsec bytes --help"),
        (("--natt", "--over", "ah-tunnel"), "AH does not pass NAT"),
        (("--ip", "6", "--mtu", "1279"), "IPv6 needs at least 1,280"),
        (("--outer-ip", "6", "--mtu", "1000"), "IPv6 needs at least 1,280"),
        (("--line", "fast"), "line rate 'fast' not understood"),
    ],
)
def test_what_cannot_be_is_refused_clearly(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["ipsec", "bytes", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
