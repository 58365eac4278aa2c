"""Interfaces of the calling thread's network namespace: veth pairs, addresses, routes, offloads.

Call these inside :meth:`weirlab.lab.linux.namespace.Namespace.call`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import IoctlEthtool
from pyroute2.netlink.exceptions import NetlinkError

_REACHABLE_FOR_EVER: Final = 0x80
"""NUD_PERMANENT of linux/neighbour.h."""
_STATIC: Final = 0x40
"""NUD_NOARP: a station's entry that never ages; a permanent one would be an address of the bridge itself."""
_NTF_MASTER: Final = 0x04
"""Of linux/neighbour.h: an entry of the bridge, not of its port."""
_NO_DETECTION: Final = 0x02
"""IFA_F_NODAD of linux/if_addr.h. Even with detection off, an address would wait for a kernel thread."""


PROBE: Final = "probe0"
"""An interface for experiments, see :func:`create_probe_pair`."""


@dataclass(frozen=True)
class Port:
    """One end of a veth pair, with the addresses that the lab gives it."""

    name: str
    mac: str
    ipv4: str
    """Address and prefix length, e.g. ``198.18.0.1/24``."""
    ipv6: str

    @property
    def address(self) -> str:
        """The IPv4 address without its prefix length."""
        return self.ipv4.partition("/")[0]


@dataclass(frozen=True)
class IpRoute:
    """``network`` lies behind ``gateway`` (MAC address ``gateway_mac``), out of the interface ``name``."""

    network: str
    gateway: str
    gateway_mac: str
    name: str


def create_pair(here: Port, there: Port, there_netns_fd: int, mtu_bytes: int) -> None:
    """Make a veth pair with the other end in the namespace behind ``there_netns_fd``."""
    with IPRoute() as netlink:
        netlink.link(
            "add",
            ifname=here.name,
            kind="veth",
            address=here.mac,
            mtu=mtu_bytes,
            peer={"ifname": there.name, "address": there.mac, "mtu": mtu_bytes, "net_ns_fd": there_netns_fd},
        )


def create_bridge(netlink: Any, name: str, mtu_bytes: int, mac: str) -> int:
    """Make a bridge, which is still down; returns its index.

    Neither spanning tree nor multicast snooping: ports forward at once, everything that is multicast, and the
    bridge sends no frames of its own.
    """
    netlink.link(
        "add", ifname=name, kind="bridge", address=mac, mtu=mtu_bytes, br_stp_state=0, br_mcast_snooping=0
    )
    return index_of(netlink, name)


def bridge_ports(name: str, mac: str, mtu_bytes: int, stations: Mapping[str, str]) -> None:
    """Make a bridge of existing interfaces, each with the MAC address of the one station behind it."""
    with IPRoute() as netlink:
        bridge = create_bridge(netlink, name, mtu_bytes, mac)
        for port, station in stations.items():
            index = index_of(netlink, port)
            netlink.link("set", index=index, master=bridge)
            netlink.fdb("append", ifindex=index, lladdr=station, state=_STATIC, flags=_NTF_MASTER)
        netlink.link("set", index=bridge, state="up")


def index_of(netlink: Any, name: str) -> int:
    """Index of the existing interface with that name."""
    return int(netlink.link_lookup(ifname=name)[0])


def create_probe_pair() -> int:
    """Make a veth pair without addresses, up and with GRO, for experiments; returns the index of one end."""
    with IPRoute() as netlink:
        netlink.link("add", ifname=PROBE, kind="veth", peer="probe1")
        for name in (PROBE, "probe1"):
            set_offloads(name, gro=True)
            netlink.link("set", index=index_of(netlink, name), state="up")
        return index_of(netlink, PROBE)


def bring_up(ports: Iterable[Port], routes: Iterable[IpRoute]) -> None:
    """Give the ports their addresses, if any, set them up, and add routes with permanent neighbours."""
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        index: dict[str, int] = {}
        for port in ports:
            index[port.name] = index_of(netlink, port.name)
            for address in filter(None, (port.ipv4, port.ipv6)):
                ip, _, length = address.partition("/")
                add_address(netlink, index[port.name], ip, int(length))
            netlink.link("set", index=index[port.name], state="up")
        for route in routes:
            out = index[route.name]
            add_neighbour(netlink, route.gateway, route.gateway_mac, out)
            # onlink: the gateway need not lie in a network of the port's own address.
            netlink.route("add", dst=route.network, gateway=route.gateway, oif=out, flags=["onlink"])


def add_address(netlink: Any, index: int, address: str, prefix_length: int) -> None:
    """Give the interface ``address``, which can be used at once, without duplicate address detection."""
    netlink.addr("add", index=index, address=address, prefixlen=prefix_length, flags=_NO_DETECTION)


def add_neighbour(netlink: Any, address: str, mac: str, index: int) -> None:
    """Add a permanent neighbour entry for ``address`` with ``mac`` at the interface with that index."""
    netlink.neigh("replace", dst=address, lladdr=mac, ifindex=index, state=_REACHABLE_FOR_EVER)


def know(neighbour: Port, name: str) -> None:
    """Add permanent entries for ``neighbour``, which is behind the interface ``name``."""
    with IPRoute() as netlink:
        for address in (neighbour.ipv4, neighbour.ipv6):
            add_neighbour(netlink, address.partition("/")[0], neighbour.mac, index_of(netlink, name))


def send_through(name: str, networks: Iterable[str], mtu_bytes: int) -> bool:
    """Set a tunnel's interface up and route ``networks`` through it; False if there is none yet."""
    with IPRoute() as netlink:
        found = netlink.link_lookup(ifname=name)
        if not found:
            return False
        netlink.link("set", index=found[0], mtu=mtu_bytes, state="up")
        for network in networks:
            netlink.route("replace", dst=network, oif=found[0])
    return True


def make(name: str, kind: str) -> None:
    """Make an interface of this kind; ``NetlinkError`` if the kernel does not know it."""
    with IPRoute() as netlink:
        netlink.link("add", ifname=name, kind=kind)


def can_make(kind: str) -> bool:
    """Whether this kernel has interfaces of that kind; makes one, so call it in a temporary namespace."""
    try:
        make("probe2", kind)
    except NetlinkError:
        return False
    return True


def delete_veths() -> None:
    """Delete every veth interface; the other ends go with them."""
    with IPRoute() as netlink:
        for link in netlink.get_links():
            info = link.get_attr("IFLA_LINKINFO")
            if info is None or info.get_attr("IFLA_INFO_KIND") != "veth":
                continue
            try:
                netlink.link("del", index=link["index"])
            except NetlinkError as error:
                # Both ends were here, and this one was deleted with the other.
                if error.code != errno.ENODEV:
                    raise


def set_offloads(name: str, *, gro: bool) -> None:
    """Switch every segmentation and checksum offload of ``name`` off, and GRO on or off.

    Counted packets must be the packets sent. For a veth there is a second reason: while
    its sender offers TCP segmentation, the kernel bypasses the receiving end's NAPI
    (``veth_skb_is_eligible_for_gro``), and the sender's core would do the DUT's work.
    GRO makes a NAPI exist at all, which XDP redirect into a veth needs.
    """
    ethtool = IoctlEthtool(name)
    try:
        features = ethtool.get_features()
        for feature in features.keys():  # noqa: SIM118 - iterating itself yields tuples
            if not features.is_available(feature):
                continue
            if feature == "rx-gro":
                features.set_value(feature, gro)
            elif "segmentation" in feature or feature.startswith(("tx-checksum", "tx-gso", "rx-gro")):
                features.set_value(feature, False)
        ethtool.set_features(features)
    finally:
        ethtool.close()


def thread_napi(name: str, sysfs: int) -> None:
    """Let a kernel thread ``napi/<name>-<number>`` do the receive work of ``name``. Linux 5.12.

    ``sysfs`` is a descriptor of the namespace's own /sys. The interface must be up and have GRO on.
    """
    _write(sysfs, f"class/net/{name}/threaded", "1")


def leave_to_pollers(name: str, sysfs: int) -> None:
    """Let sockets that poll ``name`` serve it, without interrupts (Linux 5.11, preferred busy polling).

    If none has polled for 200 µs, interrupts serve it as usual.
    """
    _write(sysfs, f"class/net/{name}/napi_defer_hard_irqs", "2")
    _write(sysfs, f"class/net/{name}/gro_flush_timeout", "200000")


def spread_off(name: str, sysfs: int) -> None:
    """Keep receive packet steering off, whatever the host's default is."""
    _write(sysfs, f"class/net/{name}/queues/rx-0/rps_cpus", "0")


def _write(sysfs: int, path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=sysfs)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
