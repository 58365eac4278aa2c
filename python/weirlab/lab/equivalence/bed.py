"""A packet filter in a namespace of its own, into which single packets are sent and traced."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, TypeVar

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError
from weirlab.base.interrupts import shielded
from weirlab.lab.equivalence.tracing import open_trace, read_trace
from weirlab.lab.linux import syscalls
from weirlab.lab.linux.namespace import in_thread, write_sysctls
from weirlab.rules import matching
from weirlab.rules.chains import ChainKey
from weirlab.rules.probing.probe import DEVICE_MAC, ICMP, TCP, UDP, Probe
from weirlab.rules.probing.trace import TraceStep

_NETLINK_NETFILTER: Final = 12
_NEW: Final = 1 << 8
_DELETE: Final = 1 << 8 | 2
"""IPCTNL_MSG_CT_NEW and _DELETE of NFNL_SUBSYS_CTNETLINK."""
_REQUEST_ACK: Final = 0x05
_CREATE: Final = 0x600
_NESTED: Final = 0x8000
_TIMEOUT_S: Final = 600
_SEEN_REPLY_ASSURED: Final = 0x06
_CONFIRMED: Final = 0x08
_TCP_ESTABLISHED: Final = 3
_ECHO_REPLY: Final = {8: 0, 13: 14, 15: 16, 17: 18, 128: 129}
"""ICMP requests of which the kernel tracks the answer."""


class ConntrackTable:
    """The table of connections of the namespace in which this object was made."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER
        )
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def prepare(self, probe: Probe) -> None:
        """Make the next packet like ``probe`` one of a connection in the state that it names."""
        if not _is_tracked(probe):
            return
        self._delete(probe)
        if probe.state == "ESTABLISHED":
            self._create(probe, b"")
        elif probe.state == "RELATED":
            self._create(probe, self._master(probe))

    def _create(self, probe: Probe, master: bytes) -> None:
        status = _CONFIRMED if master else _CONFIRMED | _SEEN_REPLY_ASSURED
        first, second = (_tuple(probe, answer=answer) for answer in (bool(probe.reply), not probe.reply))
        body = _attribute(1 | _NESTED, first) + _attribute(2 | _NESTED, second)
        body += _attribute(3, struct.pack("!I", status)) + _attribute(7, struct.pack("!I", _TIMEOUT_S))
        if probe.protocol == TCP:
            state = _attribute(1, bytes([_TCP_ESTABLISHED]))
            body += _attribute(4 | _NESTED, _attribute(1 | _NESTED, state))
        self._ask(_NEW, _REQUEST_ACK | _CREATE, probe, body + master)

    def _delete(self, probe: Probe) -> None:
        # ENOENT: there is none.
        self._ask(_DELETE, _REQUEST_ACK, probe, _attribute(1 | _NESTED, _tuple(probe)))

    def _master(self, probe: Probe) -> bytes:
        """A connection to which ``probe`` is related: between the same hosts, with other ports."""
        other = Probe(
            probe.family, probe.source, probe.destination, UDP, 9, 9, 0, 0, 0, "", "", "ESTABLISHED"
        )
        self._delete(other)
        self._create(other, b"")
        return _attribute(14 | _NESTED, _tuple(other))

    def _ask(self, kind: int, flags: int, probe: Probe, body: bytes) -> None:
        family = socket.AF_INET if probe.family == 4 else socket.AF_INET6
        data = struct.pack("!BBH", family, 0, 0) + body
        self._socket.send(struct.pack("=IHHII", 16 + len(data), kind, flags, 0, 0) + data)
        self._socket.recv(1 << 16)


def _is_tracked(probe: Probe) -> bool:
    if probe.protocol == ICMP[probe.family]:
        return probe.icmp_type in _ECHO_REPLY
    return probe.protocol in (TCP, UDP)


def _tuple(probe: Probe, *, answer: bool = False) -> bytes:
    addresses = [matching.address(each).packed for each in (probe.source, probe.destination)]
    ports = [probe.source_port, probe.destination_port]
    first = 1 if probe.family == 4 else 3
    if answer:
        addresses.reverse()
        ports.reverse()
    ip = _attribute(first, addresses[0]) + _attribute(first + 1, addresses[1])
    protocol = _attribute(1, bytes([probe.protocol]))
    if probe.protocol == ICMP[probe.family]:
        kind = _ECHO_REPLY[probe.icmp_type] if answer else probe.icmp_type
        base = 4 if probe.family == 4 else 7
        protocol += _attribute(base, struct.pack("!H", probe.source_port))
        protocol += _attribute(base + 1, bytes([kind])) + _attribute(base + 2, bytes([probe.icmp_code]))
    else:
        protocol += _attribute(2, struct.pack("!H", ports[0])) + _attribute(3, struct.pack("!H", ports[1]))
    return _attribute(1 | _NESTED, ip) + _attribute(2 | _NESTED, protocol)


def _attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


_TUNSETIFF: Final = 0x400454CA
_TUNSETPERSIST: Final = 0x400454CB
_TAP_WITHOUT_HEADER: Final = 0x1002
_SYSCTLS: Final = {
    "net/ipv4/ip_forward": 1,
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
    "net/ipv4/conf/all/send_redirects": 0,
    "net/ipv4/conf/default/send_redirects": 0,
    "net/ipv4/conf/all/accept_local": 1,
    "net/ipv4/conf/default/route_localnet": 1,
    "net/ipv6/conf/all/disable_ipv6": 0,
    "net/ipv6/conf/all/forwarding": 1,
    "net/ipv6/conf/default/disable_ipv6": 0,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/default/addr_gen_mode": 1,
    "net/ipv4/icmp_ratelimit": 0,
    "net/ipv6/icmp/ratelimit": 0,
}
"""Forwards whatever comes, and sends nothing on its own."""
_TRACKED_SYSCTLS: Final = {"net/netfilter/nf_conntrack_tcp_be_liberal": 1}
OWN_TABLE: Final = "inet weir-probe"
_FIRST: Final = -(2**31)
_OWN_HOOKS: Final = ("output", "postrouting")
_STATES: Final = ("new", "established", "related", "invalid", "untracked")

T = TypeVar("T")


class FilterBed:
    """Rules in a namespace with the interfaces ``names``, each a TAP device.

    A frame that is written to a TAP device is processed before the call returns, and so is its trace.

    Parameters
    ----------
    command, text:
        Loads the rules: a command and its standard input.
    marks:
        The marks that probes may have when they arrive.
    stateful:
        Whether connections are tracked, which defragments packets.
    orders:
        The chains whose rules are in another order than the one by which they are numbered, by table and
        chain: the number, from 0, of the rule that comes k-th.

    Raises
    ------
    InputError
        The rules cannot be loaded.
    OSError
        A privilege or a device is missing.
    """

    def __init__(
        self,
        command: Sequence[str],
        text: str,
        names: Sequence[str],
        marks: Sequence[int],
        stateful: bool,
        orders: Mapping[ChainKey, Sequence[int]],
    ) -> None:
        self._opened = ExitStack()
        self._taps: dict[str, int] = {}
        self._marks = {mark: i for i, mark in enumerate(marks)}
        self._stateful = stateful
        self._orders = orders
        self._route = ""
        self._numbers: dict[tuple[str, int], tuple[str, int]] = {}
        try:
            in_thread(lambda: self._build(command, text, names))
        except BaseException:
            self.close()
            raise

    @shielded
    def close(self) -> None:
        """Remove the namespace, which lives as long as these descriptors."""
        self._opened.close()

    def chains(self) -> dict[ChainKey, list[list[Any]]]:
        """The statements of every rule, by table and chain, from nft's JSON."""
        found: dict[ChainKey, list[list[Any]]] = {}
        for rule in self._listed("rule"):
            table = f"{rule['family']} {rule['table']}"
            if table != OWN_TABLE:
                found.setdefault((table, rule["chain"]), []).append(rule["expr"])
        return found

    def own_chains(self) -> set[ChainKey]:
        """Chains that the kernel's own packets may enter, such as rejections, whose number it limits."""
        targets: dict[ChainKey, set[str]] = {}
        maps = {(each["family"], each["table"]): set(_targets(each)) for each in self._listed("map")}
        for rule in self._listed("rule"):
            family, table = rule["family"], rule["table"]
            found = set(_targets(rule["expr"]))
            # A map with a name may lead to any chain that a map of the table names.
            found |= maps.get((family, table), set()) if "vmap" in str(rule["expr"]) else set()
            targets.setdefault((f"{family} {table}", rule["chain"]), set()).update(found)
        open_ = [
            (f"{each['family']} {each['table']}", each["name"])
            for each in self._listed("chain")
            if each.get("hook") in _OWN_HOOKS
        ]
        found_chains: set[ChainKey] = set()
        while open_:
            key = open_.pop()
            if key not in found_chains:
                found_chains.add(key)
                open_ += [(key[0], target) for target in targets.get(key, ())]
        return found_chains

    def named_counters(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Packets and bytes of counters and quotas with a name, by table and name."""
        found = {}
        for kind in ("counter", "quota"):
            for each in self._listed(kind):
                values = each.get("packets", 0), each.get("bytes", each.get("used", 0))
                found[f"{each['family']} {each['table']}", f"{kind} {each['name']}"] = values
        return found

    def send(self, probe: Probe) -> tuple[str | None, list[TraceStep]]:
        """Send ``probe``; returns the state of its connection (None if nobody tracks) and its trace."""
        if self._route != probe.outward:
            self._inside(lambda: self._set_route(probe.outward))
            self._route = probe.outward
        if self._connections is not None:
            self._connections.prepare(probe)
        read_trace(self._trace)
        # The kernel refuses what is no packet at all.
        with suppress(OSError):
            os.write(self._taps[probe.inward], probe.frame(self._marks[probe.mark]))
        state: str | None = None
        steps: list[TraceStep] = []
        found = read_trace(self._trace)
        for traced in (each for each in found if each.packet == found[0].packet):
            chain, number = self._numbers.get((traced.table, traced.handle or 0), (traced.chain, 0))
            if traced.table != OWN_TABLE:
                steps.append(TraceStep(traced.table, chain, number, traced.verdict, traced.mark))
            elif chain == "states" and number:
                state = _STATES[number - 1].upper()
        return state, steps

    def _build(self, command: Sequence[str], text: str, names: Sequence[str]) -> None:
        syscalls.unshare_net()
        self._netns = self._keep(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        write_sysctls(_SYSCTLS)
        for name in names:
            self._taps[name] = self._keep(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
            request = struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER)
            fcntl.ioctl(self._taps[name], _TUNSETIFF, request)
            # The device then ends with its namespace, for which nobody has to wait.
            fcntl.ioctl(self._taps[name], _TUNSETPERSIST, 1)
        mac = DEVICE_MAC.hex(":")
        links = "".join(f"link set dev {name} address {mac} arp off up\n" for name in names)
        _run(["ip", "-batch", "-"], links + "link set dev lo up\n")
        loaded = _run(command, text, check=False)
        if loaded.returncode != 0:
            raise InputError(" ".join(loaded.stderr.split()) or f"exit code {loaded.returncode}")
        _run(["nft", "-f", "-"], self._own_table())
        if self._stateful:
            write_sysctls(_TRACKED_SYSCTLS)
        self._trace = open_trace()
        self._opened.callback(self._trace.close)
        self._connections = ConntrackTable() if self._stateful else None
        if self._connections is not None:
            self._opened.callback(self._connections.close)
        self._number()

    def _own_table(self) -> str:
        """The chains that ask for traces, set marks, and show the state of each packet's connection."""
        marks = ", ".join(
            f"02:58:{kind}:00:{i >> 8:02x}:{i & 255:02x} : {mark}"
            for mark, i in self._marks.items()
            for kind in ("00", "01")
        )
        untracked = "ether saddr & ff:ff:ff:00:00:00 == 02:58:01:00:00:00 notrack"
        # A verdict ends the chain, so that each chain has one message.
        first = f"meta mark set ether saddr map {{ {marks} }} meta nftrace set 1 accept"
        lines = [
            f"table {OWN_TABLE} {{",
            f"chain first {{ type filter hook prerouting priority {_FIRST}; policy accept;",
            *([untracked] if self._stateful else []),
            first,
            f"}}; chain states {{ type filter hook forward priority {_FIRST}; policy accept;",
            *([f"ct state {state} accept" for state in _STATES] if self._stateful else []),
            "}; }",
        ]
        return "\n".join(lines) + "\n"

    def _number(self) -> None:
        """Note which rule each handle means."""
        counts: dict[tuple[str, str], int] = {}
        for rule in self._listed("rule", inside=True):
            table, chain = f"{rule['family']} {rule['table']}", rule["chain"]
            place = counts[table, chain] = counts.get((table, chain), 0) + 1
            order = self._orders.get((table, chain))
            number = place if order is None or place > len(order) else order[place - 1] + 1
            self._numbers[table, rule["handle"]] = chain, number

    def _listed(self, kind: str, *, inside: bool = False) -> list[Mapping[str, Any]]:
        def listing() -> list[Mapping[str, Any]]:
            done = _run(["nft", "-j", "-n", "list", "ruleset"], "")
            return [each[kind] for each in json.loads(done.stdout)["nftables"] if kind in each]

        return listing() if inside else self._inside(listing)

    def _set_route(self, name: str) -> None:
        _run(["ip", "-batch", "-"], f"route replace default dev {name}\nroute replace ::/0 dev {name}\n")

    def _inside(self, action: Callable[[], T]) -> T:
        def enter_and_act() -> T:
            syscalls.set_net(self._netns)
            return action()

        return in_thread(enter_and_act)

    def _keep(self, fd: int) -> int:
        self._opened.callback(os.close, fd)
        return fd


def _targets(value: Any) -> Iterator[str]:
    """The chains to which statements jump."""
    match value:
        case {"jump": {"target": str(name)}} | {"goto": {"target": str(name)}}:
            yield name
        case dict():
            yield from itertools.chain.from_iterable(map(_targets, value.values()))
        case list():
            yield from itertools.chain.from_iterable(map(_targets, value))


def _run(command: Sequence[str], text: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = programs.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        env=programs.environment(LC_ALL="C"),
    )
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(command)}: {' '.join(done.stderr.split())}")
    return done
