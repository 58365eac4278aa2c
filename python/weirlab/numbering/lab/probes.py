"""Waits until the engines of a plan are ready, by a datagram or a test for each kind of engine."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from weirlab.base.errors import LabError
from weirlab.base.quoting import printable
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines.machine import Machine
from weirlab.numbering.configs.parts import gatekeeper
from weirlab.numbering.lab import engines, switch
from weirlab.numbering.lab.engines import Daemon
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.zones import origins

ANSWER_S: Final = 0.5
"""Time limit for the answer of an engine that is up."""


def asked(where: str, port: int, datagram: bytes, patience_s: float = ANSWER_S) -> bytes | None:
    """The answer to a datagram; None on timeout. Call inside a host."""
    family = socket.AF_INET6 if ":" in where else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(patience_s)
        with suppress(OSError):
            # Connected, so that the kernel drops datagrams from others.
            asking.connect((where, port))
            asking.send(datagram)
            return asking.recv(1 << 16)
    return None


def options(where: str, port: int) -> bytes:
    """An OPTIONS request (RFC 3261, 11), answered to its source port (RFC 3581)."""
    host = bracketed(where)
    lines = (
        f"OPTIONS sip:{host}:{port} SIP/2.0", f"Via: SIP/2.0/UDP {host};branch=z9hG4bKweir;rport",
        f"From: <sip:weir@{host}>;tag=weir", f"To: <sip:{host}:{port}>", "Call-ID: weir", "CSeq: 1 OPTIONS",
        "Max-Forwards: 1", "Content-Length: 0",
    )  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def send(where: str, port: int, datagrams: Sequence[bytes]) -> None:
    """Send datagrams that get no answer. Call inside a host."""
    family = socket.AF_INET6 if ":" in where else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as telling:
        for datagram in datagrams:
            telling.sendto(datagram, (where, port))


def info(where: str, port: int, call: str) -> bytes:
    """An INFO request within the call with that Call-ID (RFC 6086)."""
    host = bracketed(where)
    lines = (
        f"INFO sip:{host}:{port} SIP/2.0", f"Via: SIP/2.0/UDP {host};branch=z9hG4bK{call}",
        f"From: <sip:weir@{host}>;tag=weir", f"To: <sip:{host}:{port}>;tag=weir", f"Call-ID: {call}",
        "CSeq: 1 INFO", "Max-Forwards: 1", "Content-Length: 0",
    )  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def bracketed(where: str) -> str:
    """An address as written in a URI."""
    return f"[{where}]" if ":" in where else where


HEADER: Final = struct.Struct(">HHHHHH")
RECORD: Final = struct.Struct(">HHIH")
"""Before the questions of a message, and before the data of a record, behind its name (RFC 1035, 4.1)."""
_SOA: Final = 6
_IN: Final = 1
_ANSWER: Final = 0x8000
_AUTHORITATIVE: Final = 0x0400
_CODE: Final = 0x000F
_POINTER: Final = 0xC0


def question(zone: str, number: int) -> bytes:
    """A query for the SOA record of ``zone`` (RFC 1035, 4.1); ``number`` is its ID."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in zone.strip(".").split("."))
    return HEADER.pack(number, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", _SOA, _IN)


def answers(datagram: bytes, number: int) -> bool:
    """Is ``datagram`` an authoritative answer to the query with that ID?"""
    if len(datagram) < HEADER.size:
        return False
    found, flags, _, count, _, _ = HEADER.unpack_from(datagram)
    wanted = _ANSWER | _AUTHORITATIVE
    return bool(found == number and flags & wanted == wanted and flags & _CODE == 0 and count > 0)


def serial(datagram: bytes, number: int) -> int | None:
    """The zone's serial in an answer to the query with that ID; None if there is none."""
    if not answers(datagram, number):
        return None
    try:
        # The question: a name, type and class.
        _, at = name_at(datagram, HEADER.size)
        _, at = name_at(datagram, at + 4)
        kind, _, _, length = RECORD.unpack_from(datagram, at)
        if kind != _SOA or at + RECORD.size + length > len(datagram):
            return None
        _, at = name_at(datagram, at + RECORD.size)
        _, at = name_at(datagram, at)
        return int(struct.unpack_from(">I", datagram, at)[0])
    except (struct.error, IndexError, ValueError):
        return None


def name_at(content: bytes, at: int) -> tuple[str, int]:
    """A name, and where it ends (RFC 1035, 4.1.4); ``IndexError`` or ``ValueError`` if there is none."""
    labels: list[str] = []
    end = None
    while (size := content[at]) != 0:
        if size & _POINTER == _POINTER:
            end = at + 2 if end is None else end
            target = int.from_bytes(content[at : at + 2]) & 0x3FFF
            if target >= at:
                raise ValueError("a pointer that does not lead back")
            at = target
            continue
        labels.append(content[at + 1 : at + 1 + size].decode("ascii", "replace").lower())
        at += 1 + size
    return ".".join(labels), at + 1 if end is None else end


_SHOWN_LINES: Final = 6


@dataclass(frozen=True)
class Readiness:
    """The engines of ``network`` in a lab that are to become ready.

    Attributes
    ----------
    folder:
        The folder in which each engine has its own folder.
    hosts:
        The namespace at each address.
    output:
        The log of an engine so far.
    until:
        Waits until something is done; on timeout it raises with this message and the engine's last output.
    """

    network: PlanNetwork
    daemons: Sequence[Daemon]
    folder: Path
    machine: Machine
    hosts: Mapping[str, Namespace]
    output: Callable[[str], str]
    until: Callable[[Callable[[], bool], str, str], None]

    def wait(self, daemon: Daemon) -> None:
        """Wait until ``daemon`` works; raises ``LabError`` with its last output if it does not."""
        match daemon.program:
            case "named":
                for number, zone in enumerate(origins(self.network.plan), 1):
                    self._await_zone(daemon, zone, number)
            case "kamailio":
                self._await_sip(daemon)
            case "gatekeeper":
                self._await_socket(daemon, "udp", daemon.port)
            case "asterisk":
                self._await_gateway(daemon)
            case "telephone":
                self._await_socket(daemon, "tcp", daemon.port)
                self._await_registration(daemon)

    def _await_zone(self, daemon: Daemon, zone: str, number: int) -> None:
        def answered() -> bool:
            if wrong := engines.refused(self.output(daemon.name)):
                about = [
                    line for line in self.output(daemon.name).splitlines() if any(map(line.count, wrong))
                ]
                raise LabError(f"{daemon.title} does not load the zone {', '.join(wrong)}: {quoted(about)}")
            if kept := engines.untransferred(self.output(daemon.name)):
                reasons = ", ".join(f"{zone} ({why})" for zone, why in kept.items())
                raise LabError(f"{daemon.title} does not get its zones from the primary: {reasons}")
            found = host.call(partial(asked, daemon.address, daemon.port, question(zone, number)))
            return found is not None and answers(found, number)

        host = self.hosts[daemon.address]
        self.until(answered, f"{daemon.title} does not answer for the zone {zone}", daemon.name)

    def _await_socket(self, daemon: Daemon, transport: str, port: int) -> None:
        waits = partial(self.hosts[daemon.address].call, partial(switch.bound, port, transport))
        what = f"{daemon.title} does not listen at {daemon.address}, {transport.upper()} port {port}"
        self.until(waits, what, daemon.name)

    def _await_gateway(self, daemon: Daemon) -> None:
        """Wait until the gateway runs and has registered with its gatekeeper."""
        booted = engines.in_chroot("-C", daemon.file, "-rx", "core waitfullybooted")
        runs, control = self.machine.succeeds, self.folder / daemon.name / "run/asterisk.ctl"
        self.until(lambda: control.exists() and runs(booted), f"{daemon.title} does not start", daemon.name)
        engine = self.network.plan.engines[daemon.name]
        for transport, port in engines.sockets(engine):
            self._await_socket(daemon, transport, port)
        if "h323" in engine.speaks:
            self._put_first(daemon)
            self._await_registration(daemon)

    def _put_first(self, daemon: Daemon) -> None:
        """Give the threads that accept H.323 calls at a gateway priority over the threads of the calls."""
        run, cpus = self.machine.run, sorted(os.sched_getaffinity(0))
        gateways = [each.name for each in self.daemons if each.program == "asterisk"]
        cpu = cpus[gateways.index(daemon.name) % len(cpus)]
        for thread in engines.takers(run(engines.listing(daemon.file))[1]):
            if not all(run(command)[0] == 0 for command in engines.undisturbed(thread, cpu)):
                run(engines.yielding(thread))

    def registered(self, daemon: Daemon) -> bool:
        """Does a gateway know that it is registered with its gatekeeper?"""
        told = self.machine.run(engines.in_chroot("-C", daemon.file, "-rx", "ooh323 show gk"))[1]
        return any(line.split()[:1] == ["GK"] and line.endswith(" Registered") for line in told)

    def _await_registration(self, daemon: Daemon) -> None:
        """Wait until the engine has registered with its gatekeeper, if it has one here."""
        engine = self.network.plan.engines[daemon.name]
        keeper = gatekeeper(self.network, daemon.name)
        if keeper is not None and not engines.impossible(self.network.plan.engines[keeper]):
            place = f"REGISTERED {daemon.address}:{engine.port('h323')} "
            what = f"{daemon.title} does not register with {keeper}"
            self.until(lambda: place in self.output(keeper), what, daemon.name)

    def _await_sip(self, daemon: Daemon) -> None:
        host = self.hosts[daemon.address]
        ask = options(daemon.address, daemon.port)

        def answered() -> bool:
            found = host.call(partial(asked, daemon.address, daemon.port, ask))
            return found is not None and found.startswith(b"SIP/2.0 ")

        what = f"{daemon.title} does not answer at {daemon.address}:{daemon.port}"
        self.until(answered, what, daemon.name)


def quoted(lines: Sequence[str]) -> str:
    """The last non-empty ``lines``, joined into one."""
    kept = [printable(line.strip()) for line in lines if line.strip()][-_SHOWN_LINES:]
    return " | ".join(kept) or "nothing"
