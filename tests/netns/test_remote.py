"""A firewall elsewhere, changed by SSH: what Weir does there, and what it leaves whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability, WeirError
from weirlab.lab import clean, wiring
from weirlab.lab.base import Site
from weirlab.lab.remote import session
from weirlab.lab.remote.changes import FilterChange
from weirlab.lab.remote.device import ExternalDevice
from weirlab.lab.remote.filters import make_filter
from weirlab.lab.remote.target import SshTarget, UnreachableTarget, parse_address
from weirlab.records import RuleSetup

from .conftest import wait_until
from .remote_firewall import ADDRESS, PORTS, RemoteFirewall, remote_firewall

pytestmark = pytest.mark.netns

SITE: Final = Site("", wiring.IN0, wiring.OUT0, wiring.TX0, wiring.RX0, 0)
FOLDER: Final = "/run/weir-device"
DEVICES: Final = ("nftables", "iptables-legacy", "iptables-nft")
OWN: Final = (
    ["nft", "add", "table", "inet", "own"],
    ["nft", "add", "chain", "inet", "own", "forward", "{ type filter hook forward priority 10 ; }"],
    ["nft", "add", "rule", "inet", "own", "forward", "ip", "saddr", "192.0.2.99", "counter", "drop"],
    ["iptables-legacy", "-A", "FORWARD", "-s", "192.0.2.99", "-j", "DROP"],
    ["iptables-nft", "-A", "FORWARD", "-s", "192.0.2.98", "-j", "DROP"],
    ["ip6tables-nft", "-A", "FORWARD", "-s", "2001:db8::98", "-j", "DROP"],
)
"""Rules that the firewall has before Weir comes."""


@pytest.fixture
def firewall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteFirewall]:
    with remote_firewall(tmp_path, monkeypatch) as made:
        for command in OWN:
            made.run(*command)
        yield made


@pytest.fixture
def devices(firewall: RemoteFirewall) -> Iterator[Callable[..., ExternalDevice]]:
    """Makes drivers, and stops them afterwards."""
    started: list[ExternalDevice] = []

    def make(
        name: str = "nftables", login: str = f"root@{ADDRESS}", restore_s: float = 60.0, ports: Any = PORTS
    ) -> ExternalDevice:
        target = SshTarget(parse_address(f"ssh://{login}"))
        device = ExternalDevice(name, target, FilterChange(target, make_filter(name), restore_s), ports)
        started.append(device)
        return device

    yield make
    for device in started:
        with suppress(WeirError):
            device.stop()


def begin(device: ExternalDevice, position: int = 3) -> ExternalDevice:
    assert device.check() == []
    device.start(SITE)
    device.apply(SITE, RuleSetup(position))
    return device


def all_rules(firewall: RemoteFirewall) -> str:
    listings = (["nft", "-s", "list", "ruleset"], ["iptables-legacy", "-S"], ["ip6tables-legacy", "-S"])
    return "\n".join(firewall.run(*command) for command in listings)


def has_weir(firewall: RemoteFirewall) -> bool:
    return "weir" in all_rules(firewall).lower()


def switch_of(firewall: RemoteFirewall) -> int:
    return int(firewall.path(f"{FOLDER}/pid").read_text())


def make_due(switch: int) -> None:
    """Have the switch act now, as if Weir had been away for as long as it waits."""
    Path(f"/proc/{switch}/cwd/due").write_text("0\n")
    os.kill(switch, signal.SIGUSR1)


@pytest.mark.parametrize("name", DEVICES)
def test_rules_are_set_beside_those_of_the_firewall_and_removed_without_a_trace(
    name: str, firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    device = devices(name)
    notes: list[str] = []
    device.note = notes.append
    assert device.check() == []
    before = all_rules(firewall)
    device.start(SITE)
    for rules in (RuleSetup(1), RuleSetup(7, stateful=True), RuleSetup(0), RuleSetup(4, both_ways=True)):
        device.apply(SITE, rules)
        during = all_rules(firewall)
        # Every rule of the firewall is still there, and the matching one as often as there are IP versions.
        assert set(before.splitlines()) <= set(during.splitlines())
        wide = "198.18.0.0/15" if rules.both_ways else "198.18.0.0/16"
        assert during.count(wide) >= (2 if rules.position else 1)
    counters = device.counters()
    assert counters["weir_entered_packets"] == 0
    assert {f"device_{port}_rx_packets" for port in PORTS} <= set(counters)
    assert counters["device_cpu_idle_ms"] > 0
    device.stop()
    assert all_rules(firewall) == before
    assert not firewall.path(FOLDER).exists()
    assert "for test traffic only" in notes[0]


def test_a_firewall_that_dies_restores_its_rules_by_itself_and_takes_weir_again(
    firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    device, switch = begin(devices()), switch_of(firewall)
    firewall.kill()
    with pytest.raises(UnreachableTarget, match="The device itself removes the rules that Weir set there"):
        device.counters()
    # A second error would hide the first.
    device.stop()
    make_due(switch)
    wait_until(lambda: not has_weir(firewall))
    assert "192.0.2.99" in all_rules(firewall)
    wait_until(lambda: not firewall.processes())
    firewall.start()
    again = begin(devices())
    assert has_weir(firewall)
    again.stop()
    assert not has_weir(firewall)


@pytest.mark.parametrize("name", DEVICES)
def test_a_switch_that_acts_during_a_run_is_noticed(
    name: str, firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    device = begin(devices(name))
    make_due(switch_of(firewall))
    wait_until(lambda: not has_weir(firewall))
    with pytest.raises(LabError, match="restored its own rules while Weir was away"):
        device.counters()
    device.stop()
    assert "192.0.2.99" in all_rules(firewall)
    assert not firewall.path(FOLDER).exists()


def test_a_switch_that_is_killed_is_noticed_and_the_rules_are_removed(
    firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    device = begin(devices())
    os.kill(switch_of(firewall), signal.SIGKILL)
    with pytest.raises(LabError, match="the process that would restore its rules was ended there"):
        device.counters()
    device.stop()
    assert not has_weir(firewall)


def changed_key(firewall: RemoteFirewall) -> None:
    firewall.know("other")


def unknown_host(firewall: RemoteFirewall) -> None:
    firewall.known.write_text("")


def strange_user(firewall: RemoteFirewall) -> None:
    config = firewall.config.read_text()
    firewall.config.write_text(config.replace("/user\n", "/other\n"))


def nothing_listens(firewall: RemoteFirewall) -> None:
    firewall.kill()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (changed_key, "its host key is not the one that your known_hosts has"),
        (unknown_host, "its host key is not known here: log in by hand once"),
        (strange_user, "it accepts no key of yours, and Weir types no password"),
        (nothing_listens, "nothing listens at its SSH port"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_login_that_fails_says_why_and_changes_nothing(
    spoil: Callable[[RemoteFirewall], None],
    message: str,
    firewall: RemoteFirewall,
    devices: Callable[..., ExternalDevice],
) -> None:
    spoil(firewall)
    device = devices()
    with pytest.raises(UnreachableTarget, match=message) as refused:
        device.check()
    assert refused.value.exit_code == 4
    assert not has_weir(firewall)


@pytest.mark.parametrize(
    "sudo", ["", "echo sudo: a password is required >&2; exit 1"], ids=["missing", "password"]
)
def test_a_login_without_the_rights_of_root_is_refused(
    sudo: str, firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    firewall.kill()
    with programs_there(sudo) as folder:
        firewall.start(SetEnv=f"PATH={folder}")
        with pytest.raises(MissingCapability, match="sudo -n does not work there"):
            devices(login=f"nobody@{ADDRESS}").check()


def test_another_user_works_with_sudo(firewall: RemoteFirewall) -> None:
    """A sudo of the test's own: whether it is asked for the rights, not whether it gives them."""
    firewall.kill()
    with programs_there('shift 2; SUDO=1 exec "$@"') as folder:
        firewall.start(SetEnv=f"PATH={folder}:/usr/bin:/bin")
        target = SshTarget(parse_address(f"ssh://nobody@{ADDRESS}"))
        try:
            assert target.run(["sh", "-c", "echo $SUDO"]).stdout == "1\n"
        finally:
            target.close()


@contextmanager
def programs_there(sudo: str) -> Iterator[Path]:
    """A folder that everybody can read, with a few programs and a ``sudo`` of this content."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for program in ("sh", "cat", "id"):
            (folder / program).symlink_to(programs.located([program])[0])
        if sudo:
            (folder / "sudo").write_text(f"#!/bin/sh\n{sudo}\n")
            (folder / "sudo").chmod(0o755)
        yield folder


def test_a_tool_that_the_firewall_lacks_is_named(devices: Callable[..., ExternalDevice]) -> None:
    assert devices("pf").check() == [
        f"pfctl is not installed on {ADDRESS}: install pf (FreeBSD, OpenBSD) there"
    ]


def test_a_full_disk_changes_nothing(
    firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    fill(firewall)
    device = devices()
    assert device.check() == []
    with pytest.raises(LabError, match=r"the disk of .* is full .*nothing was changed there"):
        device.start(SITE)
    assert not has_weir(firewall)
    assert not firewall.path(FOLDER).exists()


def test_a_disk_that_fills_up_stops_the_run_and_the_rules_are_removed(
    firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    device = begin(devices())
    fill(firewall)
    with pytest.raises(LabError, match=r"the disk of .* is full"):
        device.counters()
    device.stop()
    assert not has_weir(firewall)
    assert not firewall.path(FOLDER).exists()


def fill(firewall: RemoteFirewall) -> None:
    with firewall.path("/run/full").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def test_a_firewall_that_another_weir_tests_is_left_alone(
    firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    first, second = begin(devices()), devices()
    assert second.check() == []
    with pytest.raises(LabError, match=f"is being tested by another Weir \\(process {os.getpid()} on"):
        second.start(SITE)
    second.stop()
    assert has_weir(firewall)
    assert first.counters()


def test_what_a_killed_weir_left_is_removed_by_the_next_one(
    firewall: RemoteFirewall, devices: Callable[..., ExternalDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        # A process that has ended.
        gone = subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
        )
        patch.setattr(session, "_start", lambda process: "1")
        patch.setattr(os, "getpid", lambda: int(gone.stdout))
        begin(devices(), 5)
    device = begin(devices(), 2)
    assert "rules4" in all_rules(firewall)
    device.stop()
    assert not has_weir(firewall)


@pytest.mark.parametrize("name", DEVICES)
def test_objects_that_have_the_names_of_weirs_are_left_alone(
    name: str, firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    add = ["nft", "add", "table", "inet", "weir"] if name == "nftables" else [name, "-N", "WEIR"]
    firewall.run(*add)
    device = devices(name)
    assert device.check() == []
    before = all_rules(firewall)
    with pytest.raises(LabError, match="already, and nothing that says it is Weir's"):
        device.start(SITE)
    assert all_rules(firewall) == before
    assert not firewall.path(FOLDER).exists()


@pytest.mark.parametrize(
    ("ports", "message"),
    [(("eth1", "eth0"), "comes in through eth0, a test port"), (("eth1", "eth9"), "has no port eth9")],
)
def test_wrong_test_ports_are_refused(
    ports: tuple[str, str], message: str, firewall: RemoteFirewall, devices: Callable[..., ExternalDevice]
) -> None:
    device = devices(ports=ports)
    assert device.check() == []
    with pytest.raises(InputError, match=message):
        device.start(SITE)
    assert not has_weir(firewall)


def test_test_ports_that_are_not_named_are_those_with_routes_to_test_traffic(
    devices: Callable[..., ExternalDevice],
) -> None:
    device = begin(devices(ports=()))
    assert device.facts()["ports"] == ", ".join(PORTS)


OWNER: Final = f"""
import sys, time
from weirlab.lab.remote.target import parse_address
from weirlab.lab.remote.target import SshTarget
target = SshTarget(parse_address("ssh://root@{ADDRESS}"))
print(target.run(["echo", "in"]).stdout, flush=True)
time.sleep(600)
"""


def test_whatever_ends_the_owner_ends_the_connection(firewall: RemoteFirewall) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner:
        assert owner.stdout.readline() == b"in\n"
        (folder,) = clean.LOCKS.glob(f"{clean.CONNECTION}*")
        clean.clean()
        assert folder.exists()
        owner.kill()
    # The login shell and what it waited for are gone, and only sshd is left.
    wait_until(lambda: len(firewall.processes()) == 1)
    clean.clean()
    assert not folder.exists()
