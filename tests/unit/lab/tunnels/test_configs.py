"""What the gateways of a tunnel are told, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from weirlab.lab import wiring
from weirlab.lab.dut.tunnels import strongswan, vpn
from weirlab.lab.dut.tunnels.events import Rekey
from weirlab.lab.dut.tunnels.tunnel import Gateway

UNUSED: Any = None
NEAR = Gateway(UNUSED, UNUSED, "203.0.113.1", "203.0.113.2", wiring.SENDERS, wiring.RECEIVERS)
FAR = Gateway(UNUSED, UNUSED, "203.0.113.2", "203.0.113.1", wiring.RECEIVERS, wiring.SENDERS)

IDENTITY = vpn.Identity(
    "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----",
    "-----BEGIN PRIVATE KEY-----\nREVG\n-----END PRIVATE KEY-----",
)


def test_wireguard_has_one_peer_who_may_send_anything() -> None:
    assert (
        vpn.wireguard_config("PRIVATE=", "PUBLIC=", NEAR.peer)
        == """\
[Interface]
PrivateKey = PRIVATE=
ListenPort = 51820
[Peer]
PublicKey = PUBLIC=
Endpoint = 203.0.113.2:51820
AllowedIPs = 0.0.0.0/0, ::/0
"""
    )


def test_openvpn_stays_in_user_space_and_takes_one_certificate() -> None:
    assert (
        vpn.openvpn_config(NEAR, "server", "aes-128-gcm", 1448, IDENTITY, "AA:BB")
        == """\
dev tun0
dev-type tun
proto udp4
local 203.0.113.1
remote 203.0.113.2
tls-server
dh none
data-ciphers AES-128-GCM
data-ciphers-fallback AES-128-GCM
auth SHA1
tun-mtu 1448
mssfix 0
disable-dco
verb 3
peer-fingerprint AA:BB
<cert>
-----BEGIN CERTIFICATE-----
QUJD
-----END CERTIFICATE-----
</cert>
<key>
-----BEGIN PRIVATE KEY-----
REVG
-----END PRIVATE KEY-----
</key>
"""
    )


@pytest.mark.parametrize(("role", "others"), [("server", "tls-client"), ("client", "dh none")])
def test_openvpns_ends_differ_in_their_roles(role: Literal["server", "client"], others: str) -> None:
    lines = vpn.openvpn_config(FAR, role, "aes-256-cbc", 1419, IDENTITY, "AA:BB").splitlines()
    assert f"tls-{role}" in lines
    assert others not in lines
    assert "data-ciphers AES-256-CBC" in lines


def test_a_fingerprint_is_that_of_the_certificate_alone() -> None:
    # SHA-256 of ABC.
    assert IDENTITY.fingerprint == (
        "B5:D4:04:5C:3F:46:6F:A9:1F:E2:CC:6A:BE:79:23:2A:1A:57:CD:F1:04:F7:A2:6E:71:6E:0A:1E:27:89:DF:78"
    )


def test_strongswan_has_both_versions_of_ip_in_one_tunnel() -> None:
    assert (
        strongswan.config(NEAR, "aes128-sha1", "s3cret", in_udp=True)
        == """\
connections {
  gateways {
    version = 2
    local_addrs = 203.0.113.1
    remote_addrs = 203.0.113.2
    proposals = aes128-sha256-ecp256
    mobike = no
    encap = yes
    local {
      auth = psk
      id = 203.0.113.1
    }
    remote {
      auth = psk
      id = 203.0.113.2
    }
    children {
      tunnel {
        local_ts = 198.18.0.0/16,2001:2:0:1::/64
        remote_ts = 198.19.0.0/16,2001:2:0:2::/64
        esp_proposals = aes128-sha1
        mode = tunnel
      }
    }
  }
}
secrets {
  ike-gateways {
    id-1 = 203.0.113.1
    id-2 = 203.0.113.2
    secret = s3cret
  }
}
"""
    )


@pytest.mark.parametrize(
    ("rekey", "lines"),
    [
        (Rekey("2min", time_s=120.0), ["rekey_time = 120", "rand_time = 0", "life_time = 3720"]),
        (
            Rekey("9packets", packets=9),
            ["rekey_packets = 9", "rand_packets = 0", "life_packets = 1000000009"],
        ),
        (None, []),
    ],
)
def test_strongswan_rekeys_when_it_is_told_to(rekey: Rekey | None, lines: list[str]) -> None:
    text = strongswan.config(NEAR, "aes128gcm16", "s3cret", in_udp=False, rekey=rekey)
    words = [line.strip() for line in text.splitlines()]
    assert [line for line in words if line.startswith(("rekey_", "rand_", "life_"))] == lines


def test_strongswans_associations_are_counted_by_their_numbers() -> None:
    listed = """\
gateways: #1, ESTABLISHED, IKEv2, 5a_i* 7b_r
  tunnel: #4, reqid 1, REKEYED, TUNNEL-in-UDP, ESP:AES_GCM_16-128
    installed 3s ago
  tunnel: #5, reqid 1, INSTALLED, TUNNEL-in-UDP, ESP:AES_GCM_16-128
"""
    said: list[list[str]] = []

    class Machine:
        name = "the near gateway"

        def run(self, command: list[str]) -> tuple[int, list[str]]:
            said.append(command)
            return 0, listed.splitlines()

    driver = strongswan.StrongSwanLibipsec("rekey=2s")
    assert driver.counters() == {}
    machines: Any = [Machine()]
    driver._machines = machines
    assert driver.counters() == {"near_rekeys": 4}
    driver.rekey_now()
    assert [command[1] for command in said] == ["--list-sas", "--rekey"]


def test_strongswans_daemon_is_told_who_carries_the_packets() -> None:
    text = strongswan.settings(strongswan.StrongSwanLibipsec.backends)
    assert "kernel-libipsec kernel-netlink socket-default" in text
    assert text.count("{") == text.count("}")
    assert "kernel-libipsec" not in strongswan.settings(strongswan.StrongSwanKernel.backends)


def test_the_esp_of_the_kernel_is_not_in_udp() -> None:
    assert "    encap = no" in strongswan.config(FAR, "aes128gcm16", "s3cret", in_udp=False).splitlines()


def test_bootstrap_installs_what_drivers_ask_for() -> None:
    text = Path(__file__).parents[4].joinpath("scripts", "bootstrap").read_text()
    for probe, package in [
        ("wg", "wireguard-tools"),
        ("wireguard-go", "wireguard-go"),
        ("openvpn", "openvpn"),
        ("openssl", "openssl"),
        (strongswan.CHARON, "strongswan-charon"),
        ("swanctl", "strongswan-swanctl"),
        (strongswan.plugin("openssl"), "libstrongswan-standard-plugins"),
        (strongswan.plugin("kernel-libipsec"), "libcharon-extra-plugins"),
    ]:
        assert f"\n{probe} {package} lab\n" in text
