"""Synchronisation of connection states between the firewalls, by conntrackd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError
from weirlab.lab.dut import tool
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.base import ROLES, Firewall, FirewallMachine, Role

_DAEMON: Final = "conntrackd"
_CONFIG: Final = "/run/conntrackd.conf"
_LOG: Final = "/run/conntrackd.log"
PORT: Final = 3780
"""UDP port of the messages on the sync link."""

_OTHER: Final[dict[Firewall, Firewall]] = {"a": "b", "b": "a"}
_SOCKET_BYTES: Final = 8 << 20
_ENTRIES: Final = 1 << 18


@dataclass(frozen=True)
class Conntrackd:
    """How states are synchronised. Raises ``InputError`` for an unknown mode.

    Attributes
    ----------
    mode:
        ``ftfw``: the reliable protocol of conntrackd; ``off``: states are not synchronised.
    external_cache:
        False: states go into the other firewall's kernel at once (``DisableExternalCache yes``).
        True: they wait in its daemon until it becomes master, when a script commits them: packets
        that arrive meanwhile belong to no known call.
    """

    mode: Literal["ftfw", "off"] = "ftfw"
    external_cache: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("ftfw", "off"):
            raise InputError(f"synchronisation of states by {self.mode!r}: must be 'ftfw' or 'off'")

    @property
    def on(self) -> bool:
        return self.mode != "off"

    def check(self) -> list[str]:
        if self.on and programs.find(_DAEMON) is None:
            return ["conntrackd is not installed: apt install conntrackd (or choose states off)"]
        return []

    def facts(self) -> Mapping[str, object]:
        return {**({"tool": tool.version(_DAEMON, "-v")} if self.on else {}), **asdict(self)}

    def start(self, machine: FirewallMachine) -> Mapping[Role, str]:
        """Start the daemon; returns the scripts to run when the firewall becomes master or backup."""
        if not self.on:
            return {}
        machine.write(_CONFIG, config(self, machine.firewall))
        machine.start(_DAEMON, [_DAEMON, "-C", _CONFIG])
        scripts: dict[Role, str] = {}
        for role in ROLES:
            if (text := script(self, role)) is not None:
                scripts[role] = f"/run/states-{role}"
                machine.write(scripts[role], text, executable=True)
        return scripts

    def answers(self, machine: FirewallMachine) -> bool:
        """Whether the daemon accepts commands."""
        return not self.on or machine.succeeds([_DAEMON, "-C", _CONFIG, "-s"])

    def prepare_return(self, machine: FirewallMachine) -> None:
        """Have all states ready before the other firewall boots and requests them.

        Without an external cache the daemon does not keep the states that the other one sent, which went
        straight into the kernel; it reads them from there now.
        """
        if self.on and not machine.succeeds([_DAEMON, "-C", _CONFIG, "-R"]):
            raise LabError(
                f"firewall {machine.firewall}: conntrackd -R cannot read the kernel's table: "
                f"{' | '.join(self.words(machine)) or 'no reason given'}"
            )

    def words(self, machine: FirewallMachine) -> list[str]:
        """What the daemon logged last."""
        return machine.read(_LOG) if self.on else []


def config(settings: Conntrackd, firewall: Firewall) -> str:
    """The configuration file of one firewall (conntrackd.conf(5))."""
    cache = "no" if settings.external_cache else "yes"
    lines = [
        "Sync {",
        "  Mode FTFW {",
        f"    DisableExternalCache {cache}",
        # After a boot, request the other one's states.
        "    StartupResync yes",
        "  }",
        "  UDP Default {",
        f"    IPv4_address {wiring.sync_address(firewall)}",
        f"    IPv4_Destination_Address {wiring.sync_address(_OTHER[firewall])}",
        f"    Port {PORT}",
        f"    Interface {wiring.SYNC_LINK}",
        f"    SndSocketBuffer {_SOCKET_BYTES}",
        f"    RcvSocketBuffer {_SOCKET_BYTES}",
        "    Checksum on",
        "  }",
        "}",
        "General {",
        "  Systemd no",
        f"  HashSize {_ENTRIES // 4}",
        f"  HashLimit {_ENTRIES}",
        f"  LogFile {_LOG}",
        "  LockFile /run/lock/conntrackd.lock",
        "  UNIX {",
        "    Path /run/conntrackd.ctl",
        "  }",
        f"  NetlinkBufferSize {_SOCKET_BYTES}",
        f"  NetlinkBufferSizeMaxGrowth {4 * _SOCKET_BYTES}",
        "  Filter From Kernelspace {",
        "    Protocol Accept {",
        "      UDP",
        "      TCP",
        "    }",
        "    Address Ignore {",
        *(f"      IPv4_address {address}" for address in sorted(wiring.ADDRESSES)),
        "    }",
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def script(settings: Conntrackd, role: Role) -> str | None:
    """The script for a change of role; None for nothing to do.

    With an external cache it follows primary-backup.sh of conntrack-tools: a new master commits what it
    learnt (``-c``), forgets both caches (``-f``), reads the kernel's table (``-R``) and sends all of
    it (``-B``); a new backup lets its entries from its time as master expire (``-t``) and requests the
    master's states (``-n``).

    Without one, the kernel's table is the replica itself: there is nothing to commit. Nothing is sent
    either: incoming states replace entries, which are missing for a moment, while packets may still
    take the old path.
    """
    if not settings.external_cache:
        return None
    daemon = f"{programs.find(_DAEMON) or _DAEMON} -C {_CONFIG}"
    options = ("-c", "-f", "-R", "-B") if role == "master" else ("-t", "-n")
    return "\n".join(["#!/bin/sh", *(f"{daemon} {option}" for option in options)]) + "\n"
