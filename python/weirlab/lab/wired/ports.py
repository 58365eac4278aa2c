"""Ports of this machine: what each is, what it is used for, and so whether a lab may borrow it."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from weirlab.base.errors import InputError, LabError
from weirlab.lab import clean
from weirlab.lab.linux import inventory, syscalls
from weirlab.lab.linux.inventory import InterfaceFacts

_DEV_GET: Final = 1
_BASIC: Final = 1 << 0
_REDIRECT: Final = 1 << 1
_SEND: Final = 1 << 2
_TIMESTAMP: Final = 1 << 0


@dataclass(frozen=True)
class XdpFeatures:
    """Of one interface."""

    may_redirect: bool = False
    """Programs run in the driver and may redirect. Whether frames can be redirected *to* it often only shows
    once a program is attached there."""
    sends: bool = False
    """Frames can be redirected to it as it is now."""
    stamps: bool = False
    """Programs can read the time at which the hardware received a frame."""


NOTHING: Final = XdpFeatures()


class _DeviceMessage(genlmsg):  # type: ignore[misc]
    """``NETDEV_CMD_DEV_GET`` of linux/netdev.h."""

    nla_map = (
        ("NETDEV_A_DEV_UNSPEC", "none"),
        ("NETDEV_A_DEV_IFINDEX", "uint32"),
        ("NETDEV_A_DEV_PAD", "none"),
        ("NETDEV_A_DEV_XDP_FEATURES", "uint64"),
        ("NETDEV_A_DEV_XDP_ZC_MAX_SEGS", "uint32"),
        ("NETDEV_A_DEV_XDP_RX_METADATA_FEATURES", "uint64"),
        ("NETDEV_A_DEV_XSK_FEATURES", "uint64"),
    )


def xdp_features() -> dict[int, XdpFeatures] | None:
    """By index of each interface of this namespace; None if the kernel does not tell (before Linux 6.3)."""
    message = _DeviceMessage()
    message["cmd"], message["version"] = _DEV_GET, 1
    netlink = GenericNetlinkSocket()
    try:
        netlink.bind("netdev", _DeviceMessage)
        answers = netlink.nlm_request(message, netlink.prid, NLM_F_REQUEST | NLM_F_DUMP)
        return {answer.get_attr("NETDEV_A_DEV_IFINDEX"): _features(answer) for answer in answers}
    except (NetlinkError, OSError, KeyError):
        return None
    finally:
        netlink.close()


def _features(answer: Any) -> XdpFeatures:
    bits = answer.get_attr("NETDEV_A_DEV_XDP_FEATURES") or 0
    metadata = answer.get_attr("NETDEV_A_DEV_XDP_RX_METADATA_FEATURES") or 0
    return XdpFeatures(
        bits & (_BASIC | _REDIRECT) == _BASIC | _REDIRECT, bool(bits & _SEND), bool(metadata & _TIMESTAMP)
    )


_SSH: Final = 22
_ESTABLISHED: Final = "01"
_KERNEL: Final = 2
_MAIN_TABLES: Final = (0, 253, 254)
_STACKED: Final = frozenset(
    {"bridge", "bond", "team", "vlan", "macvlan", "macvtap", "ipvlan", "vxlan", "ifb", "dummy"}
)
"""Kinds of interfaces that have no cable of their own."""


@dataclass(frozen=True)
class PortFacts:
    """A port, and everything that speaks against sending test traffic through it."""

    name: str
    driver: str
    """Of the hardware, or the kind of a virtual interface."""
    speed_mbps: int | None
    """None while there is no link, and for virtual interfaces, which have no wire."""
    up: bool
    carrier: bool
    mtu_bytes: int
    mac: str
    addresses: tuple[str, ...]
    backend: str
    """How frames would be sent and received: ``xdp``, ``af_packet``, or ``auto`` if only a trial can tell."""
    hardware_stamps: bool
    """Whether the driver gives XDP programs the hardware's receive time (Linux 6.3)."""
    objections: tuple[str, ...] = ()
    """Why the port cannot be used."""
    occupied: tuple[str, ...] = ()
    """What of this host would be interrupted, and no more (``--take`` allows it)."""

    @property
    def summary(self) -> str:
        """For sentences: ``enp3s0 (igc, 1000 Mbit/s)``."""
        speed = "" if self.speed_mbps is None else f", {self.speed_mbps} Mbit/s"
        return f"{self.name} ({self.driver}{speed})"

    @property
    def usable(self) -> bool:
        """Whether a lab may borrow it."""
        return not self.objections and not self.occupied


def survey() -> list[PortFacts]:
    """Every Ethernet interface of this namespace except the loopback."""
    found = inventory.look()
    uses = _uses(found.values())
    known = xdp_features()
    sysfs = _sysfs()
    try:
        return [
            _port(facts, found, uses.get(facts.index, []), known, sysfs)
            for facts in sorted(found.values(), key=lambda facts: facts.index)
            if facts.ethernet and not facts.loopback
        ]
    finally:
        os.close(sysfs)


def choose(names: Sequence[str], *, take: bool = False) -> tuple[PortFacts, PortFacts]:
    """The two ports called ``names``.

    Raises
    ------
    InputError
        There is no such port, or both are the same.
    LabError
        One of them cannot be used; the message has every reason.
    """
    ports = {port.name: port for port in survey()}
    for name in names:
        if name not in ports:
            if why := clean.stranded().get(name):
                raise LabError(why)
            if owner := clean.borrower(name):
                raise LabError(f"{name} is in use by another run of weir (process {owner}); wait for its end")
            raise InputError(
                f"there is no Ethernet port {name} here; there are: {', '.join(sorted(ports)) or 'none'} "
                "(weir ports says more)"
            )
    first, second = (ports[name] for name in names)
    if first.name == second.name:
        raise InputError(f"{first.name} is named twice: a device is tested between two different ports")
    for port in (first, second):
        if port.objections:
            raise LabError(f"{port.name} cannot be used: {'; '.join(port.objections)}")
        if port.occupied and not take:
            raise LabError(
                f"{port.name} is in use: {'; '.join(port.occupied)}. --take interrupts that for the duration "
                "of the test and restores it afterwards"
            )
    return first, second


def _port(
    facts: InterfaceFacts,
    found: dict[str, InterfaceFacts],
    uses: Sequence[str],
    known: dict[int, XdpFeatures] | None,
    sysfs: int,
) -> PortFacts:
    xdp = (known or {}).get(facts.index, NOTHING)
    return PortFacts(
        name=facts.name,
        driver=_driver(facts, sysfs),
        speed_mbps=None if facts.kind else _speed(facts, sysfs),
        up=facts.up,
        carrier=facts.up and facts.carrier,
        mtu_bytes=facts.mtu_bytes,
        mac=facts.mac,
        addresses=facts.addresses,
        backend="auto" if known is None else "xdp" if xdp.may_redirect else "af_packet",
        hardware_stamps=xdp.stamps,
        objections=tuple(_objections(facts, found, uses)),
        occupied=(f"it has the address {', '.join(facts.addresses)}",) if facts.addresses else (),
    )


def _objections(
    facts: InterfaceFacts, found: dict[str, InterfaceFacts], uses: Sequence[str]
) -> Iterator[str]:
    name = facts.name
    if facts.wireless:
        yield "it is wireless, and a station may only send from its own address"
    if facts.kind in _STACKED:
        yield f"it has no cable (kind {facts.kind}); name the port below it"
    if facts.master:
        yield f"it belongs to {facts.master}; take it out first: ip link set dev {name} nomaster"
    above = [other.name for other in found.values() if other.lower_index == facts.index]
    if above:
        yield f"{', '.join(above)} is on top of it; remove that first: ip link delete {above[0]}"
    if facts.xdp:
        yield (
            f"it has an XDP program already (ID {facts.xdp}); end what uses it, or: "
            f"ip link set dev {name} xdp off"
        )
    yield from uses


def _uses(links: Any) -> dict[int, list[str]]:
    """By index of the interface, what of this host depends on it."""
    found: dict[int, list[str]] = {}

    def note(index: int | None, text: str) -> None:
        if index is not None and text not in found.setdefault(index, []):
            found[index].append(text)

    with IPRoute() as netlink:
        for index, network in _routes(netlink):
            default = network in ("0.0.0.0/0", "::/0")
            what = "this host's default route" if default else f"a route to {network}"
            note(index, f"{what} leads through it")
        for local, remote, port in _connections():
            who = f"an SSH session with {remote}" if port == _SSH else f"a TCP connection with {remote}"
            # A link-local address says nothing of the port; ours is that of one of them.
            ways = _owners(netlink, local) if remote.startswith("fe80:") else [_way_to(netlink, remote)]
            for way in ways:
                note(way, f"{who} goes over it")
        for server in _name_servers():
            note(_way_to(netlink, server), f"this host asks the name server {server} over it")
    return found


def _routes(netlink: Any) -> Iterator[tuple[int, str]]:
    """Routes that do not follow from an address, by the index of their interface."""
    for route in netlink.get_routes():
        table = route.get_attr("RTA_TABLE") or route["table"]
        if route["proto"] == _KERNEL or table not in _MAIN_TABLES or route["type"] != 1:
            continue
        default = "::" if ":" in (route.get_attr("RTA_GATEWAY") or "") or route["family"] == 10 else "0.0.0.0"
        network = f"{route.get_attr('RTA_DST') or default}/{route['dst_len']}"
        hops = route.get_attr("RTA_MULTIPATH")
        for index in [hop["oif"] for hop in hops] if hops else [route.get_attr("RTA_OIF")]:
            if index is not None:
                yield index, network


def _connections() -> Iterator[tuple[str, str, int]]:
    """Local address, remote address and local port of established TCP connections with other hosts."""
    for path in (Path("/proc/thread-self/net/tcp"), Path("/proc/thread-self/net/tcp6")):
        with suppress(OSError):
            for line in path.read_text().splitlines()[1:]:
                _, local, remote, state, *_ = line.split()
                if state == _ESTABLISHED:
                    address = _address(remote.partition(":")[0])
                    if not address.is_loopback:
                        own, _, port = local.partition(":")
                        yield str(_address(own)), str(address), int(port, 16)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address as /proc/net/tcp writes it: 32-bit words in the host's byte order."""
    words = bytes.fromhex(text)
    raw = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    found = ipaddress.ip_address(raw)
    return getattr(found, "ipv4_mapped", None) or found


def _name_servers(path: Path = Path("/etc/resolv.conf")) -> list[str]:
    with suppress(OSError):
        return re.findall(r"^nameserver\s+([0-9a-fA-F.:]+)", path.read_text(errors="replace"), re.MULTILINE)
    return []


def _way_to(netlink: Any, address: str) -> int | None:
    """Index of the interface by which packets to ``address`` leave."""
    try:
        (route, *_) = netlink.route("get", dst=address)
    except (NetlinkError, ValueError):
        return None
    index = route.get_attr("RTA_OIF")
    return None if index is None else int(index)


def _owners(netlink: Any, address: str) -> list[int]:
    """Indices of the interfaces that have ``address``."""
    return [each["index"] for each in netlink.get_addr() if each.get_attr("IFA_ADDRESS") == address]


def _sysfs() -> int:
    """/sys of this namespace; without the right to mount it, what is there."""
    try:
        return syscalls.mount_sysfs()
    except OSError:
        return os.open("/sys", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _driver(facts: InterfaceFacts, sysfs: int) -> str:
    try:
        return os.path.basename(os.readlink(f"class/net/{facts.name}/device/driver", dir_fd=sysfs))
    except OSError:
        return facts.kind or "unknown"


def _speed(facts: InterfaceFacts, sysfs: int) -> int | None:
    try:
        fd = os.open(f"class/net/{facts.name}/speed", os.O_RDONLY | os.O_CLOEXEC, dir_fd=sysfs)
        try:
            speed = int(os.read(fd, 32))
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return None
    return speed if speed > 0 else None
