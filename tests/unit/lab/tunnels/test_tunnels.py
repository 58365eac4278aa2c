"""Tunnels by name, what fits through them, and what is said when they fail."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError
from weirlab.lab import dut
from weirlab.lab.dut.tunnels import strongswan, tunnel, vpn
from weirlab.lab.dut.tunnels.esp import Esp
from weirlab.lab.dut.tunnels.tunnel import Gateway, Tunnel
from weirlab.lab.namespaces import check_fit
from weirlab.records import RuleSetup
from weirlab.testing.bed import SITE


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("wireguard-go", "wireguard-go"),
        ("wireguard-kernel", "wireguard-kernel"),
        ("openvpn", "openvpn:aes-128-gcm"),
        ("openvpn:aes-256-cbc", "openvpn:aes-256-cbc"),
        ("strongswan-libipsec", "strongswan-libipsec:aes128gcm16"),
        ("strongswan-libipsec:aes128-sha1", "strongswan-libipsec:aes128-sha1"),
        ("strongswan-kernel:null-md5", "strongswan-kernel:null-md5"),
        ("esp", "esp:aes128gcm16"),
        ("esp-udp:aes256-sha1", "esp-udp:aes256-sha1"),
        ("esp:rekey=5min", "esp:aes128gcm16:rekey=5min"),
        ("esp:aes256gcm16:rekey=1000packets", "esp:aes256gcm16:rekey=1000packets"),
        ("strongswan-libipsec:rekey=2s", "strongswan-libipsec:aes128gcm16:rekey=2s"),
        ("wireguard-go:outage=3s+500ms", "wireguard-go:outage=3s+500ms"),
        ("esp:rekey=2s:outage=3s+1s", "esp:aes128gcm16:rekey=2s:outage=3s+1s"),
    ],
)
def test_a_tunnel_is_called_by_its_suite(asked: str, name: str) -> None:
    made = dut.make(asked)
    assert made.name == name
    assert made.gateways == 2
    # Calling it by that name makes the same.
    assert dut.make(name).name == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openvpn:aes-128", r"OpenVPN has no suite 'aes-128'; suites are aes-128-gcm, .*aes-256-cbc"),
        ("openvpn:", "OpenVPN has no suite ''"),
        ("strongswan-libipsec:aes-128-gcm", "strongSwan has no suite 'aes-128-gcm'; suites are aes128gcm16"),
        ("wireguard-go:aes-128-gcm", "WireGuard has no suite 'aes-128-gcm'; it only has one"),
        ("iptables-legacy:aes", "the device 'iptables-legacy' has no cipher suites"),
        ("wiregard", r"did you mean wireguard\?"),
        ("esp:rekey=soon", r"'rekey=soon' not understood; use e\.g\. 'rekey=90s' and 'rekey=10000"),
        ("esp:rekey=0packets", "'rekey=0packets' not understood"),
        ("esp:rekey=5s:aes128gcm16", "ESP has no suite 'rekey=5s:aes128gcm16'"),
        ("wireguard-go:rekey=5s", "wireguard-go does not support 'rekey=5s': leave it out"),
        ("strongswan-libipsec:rekey=9packets", "does not support 'rekey=9packets': give e.g. 'rekey=90s'"),
        (
            "strongswan-kernel:rekey=500ms",
            "strongSwan only takes whole seconds: 'rekey=500ms' has a fraction",
        ),
        ("esp:outage=3s", r"'outage=3s' not understood; use e\.g\. 'outage=3s\+1s'"),
        ("esp:outage=3s+1s:rekey=5s", "ESP has no suite 'outage=3s\\+1s'"),
        ("openvpn:outage=3s+1s", "Weir cannot restart a gateway of openvpn during a trial: leave out"),
    ],
)
def test_a_suite_that_is_not_there_is_refused_with_those_that_are(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        dut.make(name)


def test_openvpn_is_not_rekeyed_on_demand() -> None:
    with pytest.raises(InputError, match="OpenVPN cannot rekey on demand"):
        vpn.OpenVpn().rekey_now()


class Dying(Esp):
    """Gateways that are not there; what would be done to them is noted."""

    def __init__(self, comes_back: bool = True, outage: str = "1ms+1ms") -> None:
        super().__init__(f"outage={outage}")
        self.done: list[str] = []
        self.died = Event()
        self.comes_back = comes_back
        gateway: Any = SimpleNamespace(machine=SimpleNamespace(processes=[]))
        self._ends = gateway, gateway

    def fail(self, near: Gateway) -> None:
        self.done.append("died")
        self.died.set()

    def revive(self, near: Gateway, far: Gateway) -> None:
        self.done.append("returned")

    def _passes(self) -> bool:
        return self.comes_back


def test_the_near_gateway_dies_and_returns_in_every_trial() -> None:
    driver = Dying()
    for trial in (1, 2):
        with driver.beside_traffic():
            driver.done.append("traffic")
            driver.died.wait()
        driver.died.clear()
        assert driver.counters()["near_outages"] == trial
    assert sorted(driver.done) == ["died", "died", "returned", "returned", "traffic", "traffic"]
    assert driver.counters()["near_outage_us"] >= 2000
    assert Esp().counters() == {}


def test_no_gateway_dies_after_the_traffic_is_over() -> None:
    driver = Dying(outage="1h+1s")
    with driver.beside_traffic():
        driver.done.append("traffic")
    assert driver.done == ["traffic"]
    assert driver.counters()["near_outages"] == driver.events() == 0


def test_a_gateway_that_never_returns_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Dying(comes_back=False)
    until = driver._until
    monkeypatch.setattr(driver, "_until", lambda met, what: until(met, what, patience_s=0.0))
    said = "nothing passed the tunnel after the near gateway had returned"
    with pytest.raises(LabError, match=said), driver.beside_traffic():
        driver.died.wait()
    assert driver.counters()["near_outages"] == 0


def test_a_tunnel_takes_no_ruleset_file() -> None:
    with pytest.raises(InputError, match="choose the device 'ruleset'"):
        dut.make("openvpn:aes-128-gcm", Path("rules"))


@pytest.mark.parametrize(("kernel", "program"), [(True, "kernel"), (False, "other")])
def test_the_kernels_own_is_used_where_it_has_one(
    kernel: bool, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (vpn, strongswan):
        monkeypatch.setattr(module, "_missing_in_kernel", lambda: [] if kernel else ["none"])
    found = [dut.make("wireguard").name, dut.make("strongswan:aes128-sha1").name]
    assert (
        found
        == {
            "kernel": ["wireguard-kernel", "strongswan-kernel:aes128-sha1"],
            "other": ["wireguard-go", "strongswan-libipsec:aes128-sha1"],
        }[program]
    )


# By hand: 1,500 less what is around the packet, down to what padding allows.
LONGEST = {
    "wireguard-go": 1500 - 20 - 8 - 16 - 16,
    "openvpn:aes-128-gcm": 1500 - 20 - 8 - 4 - 4 - 16,
    # 1,432 B for IV-aligned text, of which 1,424 are whole blocks: packet ID 4, and padding of 1 at least.
    "openvpn:aes-128-cbc": 1424 - 4 - 1,
    "strongswan-kernel:aes128gcm16": 1500 - 20 - 8 - 8 - 16 - 2,
    # 1,444 B, of which 1,440 are whole blocks.
    "strongswan-kernel:aes128-sha1": 1440 - 2,
    "esp:aes128gcm16": 1500 - 20 - 8 - 8 - 16 - 2,
    "esp:chacha20poly1305iiv": 1500 - 20 - 8 - 16 - 2,
    "esp:aes128-sha1": 1440 - 2,
    # UDP takes 8 of 1,444 B, so that one block less is left.
    "esp-udp:aes128-sha1": 1424 - 2,
    # Its own interface takes no more.
    "strongswan-libipsec:aes128-sha1": 1400,
}


@pytest.mark.parametrize("name", LONGEST)
def test_what_fits_comes_from_the_formula_of_the_suite(name: str) -> None:
    made = dut.make(name)
    assert [made.longest_packet_bytes(ip) for ip in (4, 6)] == [LONGEST[name]] * 2


def test_frames_that_do_not_fit_are_refused_with_those_that_do() -> None:
    made = dut.make("wireguard-go")
    check_fit(made, 1440 + 18, 4)
    with pytest.raises(
        InputError,
        match=r"frames of 1,518 B do not fit into the tunnel wireguard-go: .*1,500 B, .*1,440 B.*1,458 B at",
    ):
        check_fit(made, 1518, 4)
    check_fit(dut.make("forward"), 2048, 4)


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    monkeypatch.setattr(tunnel, "_is_there", lambda name: False)
    assert vpn.WireGuardGo().check() == [
        "wireguard-go not installed: apt install wireguard-go",
        "wg not installed: apt install wireguard-tools",
    ]
    assert vpn.OpenVpn().check() == [
        "openvpn not installed: apt install openvpn",
        "openssl not installed: apt install openssl",
    ]
    packages = [sentence.rpartition(" ")[2] for sentence in strongswan.StrongSwanLibipsec().check()]
    assert packages == [
        "strongswan-charon",
        "strongswan-swanctl",
        "libstrongswan-standard-plugins",
        "libcharon-extra-plugins",
    ]


@pytest.mark.parametrize(("version", "ok"), [("2.5.9", False), ("2.6.3", True), ("3.0", True)])
def test_an_old_openvpn_is_refused(version: str, ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "_is_there", lambda name: True)
    monkeypatch.setattr(vpn.tool, "version", lambda name: f"OpenVPN {version} x86_64-pc-linux-gnu")
    found = vpn.OpenVpn().check()
    assert bool(found) is not ok
    assert ok or "OpenVPN 2.5 is too old" in found[0]


class Silent(Tunnel):
    """Whose daemons run and do nothing."""

    product = kind = "silent"

    def __init__(self, *machines: Any) -> None:
        super().__init__((tunnel.TunnelSuite("", "wireguard"),), None)
        self._machines = [*machines]

    def check(self) -> list[str]:
        return []

    def begin(self, near: object, far: object) -> None:
        raise AssertionError("it is not begun")

    def version(self) -> str:
        return "0"


def machine(name: str, **running: list[str]) -> Any:
    return SimpleNamespace(
        name=name,
        running=frozenset(running),
        output=lambda daemon: running.get(daemon, []),
        check=lambda: None,
        run=lambda command: (1, ["no such peer"]),
    )


def test_what_does_not_come_up_is_told_with_the_last_words_of_the_daemons() -> None:
    silent = Silent(
        machine("the near gateway", charon=["AUTH failed"]), machine("the far gateway", charon=[])
    )
    with pytest.raises(
        LabError,
        match="silent: it did not come up; charon on the near gateway says: AUTH failed; "
        "charon on the far gateway says: nothing",
    ):
        silent._until(lambda: False, "it did not come up", patience_s=0.0)


def test_a_command_that_fails_is_told_with_its_own_words() -> None:
    near: Any = SimpleNamespace(machine=machine("the near gateway"))
    with pytest.raises(LabError, match="wg setconf failed on the near gateway; it says: no such peer"):
        Silent().command(near, ["wg", "setconf"], patience_s=0.0)


def test_without_rules_no_filter_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[RuleSetup] = []
    usual = SimpleNamespace(
        check=list, apply=lambda site, rules: applied.append(rules), listing=lambda: ["x"]
    )
    monkeypatch.setattr(tunnel.iptables, "usual", lambda: usual)
    silent = Silent()
    silent.apply(SITE, RuleSetup(both_ways=True))
    assert (applied, silent.listing()) == ([], [])
    silent.apply(SITE, RuleSetup(position=5))
    # Those that are there have to be taken away again.
    silent.apply(SITE, RuleSetup())
    assert applied == [RuleSetup(position=5), RuleSetup()]
    assert silent.listing() == ["x"]
