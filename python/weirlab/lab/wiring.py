"""How namespaces are connected: addresses, routes, and which CPU does the receive work.

::

    sender        device under test        receiver
    tx0  ───────  in0          out0  ───────  rx0
    198.18.0.2    198.18.0.1   198.19.0.1     198.19.0.2

A device that consists of two gateways has a namespace for each, and a cable between them::

    sender        near gateway          far gateway          receiver
    tx0  ───────  in0      wan0 ─────── wan0      out0 ───── rx0
                      203.0.113.1       203.0.113.2

Test traffic goes from 198.18.0.0/16 to 198.19.0.0/16 (RFC 2544) or from 2001:2:0:1::/64
to 2001:2:0:2::/64 (RFC 5180); the interfaces' own addresses lie in the parts that the
flows leave free. All neighbour entries are permanent, so no address resolution disturbs a trial.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from weirlab.base.interrupts import shielded
from weirlab.lab import clean
from weirlab.lab.linux import interface, scheduling, syscalls
from weirlab.lab.linux.interface import IpRoute, Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls

MTU_BYTES: Final = 2048

TX0: Final = Port("tx0", "02:77:65:69:72:01", "198.18.0.2/24", "2001:2:0:1::2/120")
IN0: Final = Port("in0", "02:77:65:69:72:02", "198.18.0.1/24", "2001:2:0:1::1/120")
OUT0: Final = Port("out0", "02:77:65:69:72:03", "198.19.0.1/24", "2001:2:0:2::1/120")
RX0: Final = Port("rx0", "02:77:65:69:72:04", "198.19.0.2/24", "2001:2:0:2::2/120")

MANAGED: Final = Port("mgmt0", "02:77:65:69:72:05", "198.51.100.1/24", "2001:db8:ffff::1/64")
STATION: Final = Port("nms0", "02:77:65:69:72:06", "198.51.100.2/24", "2001:db8:ffff::2/64")
"""The device's management interface and the monitoring system's, in TEST-NET-2 (RFC 5737)."""

NEAR: Final = Port("wan0", "02:77:65:69:72:07", "203.0.113.1/24", "2001:db8:0:1::1/64")
FAR: Final = Port("wan0", "02:77:65:69:72:08", "203.0.113.2/24", "2001:db8:0:1::2/64")
"""The two gateways' interfaces to each other, in TEST-NET-3 (RFC 5737)."""

BETWEEN_MTU_BYTES: Final = 1500
"""MTU of the cable between two gateways: that of Ethernet, which tunnels usually run over."""

_MANAGEMENT_MTU_BYTES: Final = 1500

SENDERS: Final = ("198.18.0.0/16", "2001:2:0:1::/64")
RECEIVERS: Final = ("198.19.0.0/16", "2001:2:0:2::/64")
ANYWHERE: Final = ("0.0.0.0/0", "::/0")

QUIET: Final = {
    # Hosts often filter by reverse path or forward; a new namespace may inherit that.
    "net/ipv4/ip_forward": 0,
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
    "net/ipv4/conf/all/send_redirects": 0,
    "net/ipv4/conf/default/send_redirects": 0,
    # No duplicate address detection, no link-local addresses, no solicitations: they would be stray frames.
    "net/ipv6/conf/all/disable_ipv6": 0,
    "net/ipv6/conf/default/disable_ipv6": 0,
    "net/ipv6/conf/all/accept_dad": 0,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/default/dad_transmits": 0,
    "net/ipv6/conf/default/accept_ra": 0,
    "net/ipv6/conf/default/router_solicitations": 0,
    "net/ipv6/conf/default/addr_gen_mode": 1,
    # Multicast listener reports cannot be switched off: finish them before the first trial.
    "net/ipv6/mld_qrv": 1,
    "net/ipv6/conf/default/mldv1_unsolicited_report_interval": 1,
    "net/ipv6/conf/default/mldv2_unsolicited_report_interval": 1,
    "net/ipv6/conf/all/forwarding": 0,
}
ROUTER: Final = {**QUIET, "net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1}
WITHOUT_IPV6: Final = {"net/ipv6/conf/all/disable_ipv6": 1, "net/ipv6/conf/default/disable_ipv6": 1}
SWITCH: Final = {
    # A switch's traffic must not pass the firewall, as some hosts configure it for containers.
    "net/bridge/bridge-nf-call-iptables": 0,
    "net/bridge/bridge-nf-call-ip6tables": 0,
    "net/bridge/bridge-nf-call-arptables": 0,
}


@contextmanager
@shielded
def quiet(*parts: str) -> Iterator[list[Namespace]]:
    """Namespaces of a separate lab, for as long as the context lasts; nothing in them sends by itself."""
    clean.clean()
    claim = clean.LabOwnership()
    try:
        made = [Namespace(claim.namespace_name(part)) for part in parts]
        for namespace in made:
            namespace.create()
            namespace.call(partial(write_sysctls, QUIET))
        yield made
    finally:
        claim.release()


@dataclass(frozen=True)
class KernelWork:
    """What the kernel of a device does."""

    cpu: int
    """Where it does all receive work."""
    forwards: bool = True
    """It forwards what is not addressed to it, and drops it otherwise."""
    answered: bool = False
    """Packets are answered where the device hands them over. Then the thread that takes in packets also takes
    in the answers, between them: a second one on its CPU gets no time in overload, and answers get lost."""
    bridges: bool = False
    """Sender and receiver address their frames to each other."""


def build_through_device(
    tx: Namespace,
    gateways: Sequence[Namespace],
    rx: Namespace,
    work: KernelWork,
    dut_ports: tuple[Port, Port] = (IN0, OUT0),
    networks: tuple[Sequence[str], Sequence[str]] = (SENDERS, RECEIVERS),
) -> list[int]:
    """Make the namespaces and connect sender, device and receiver in a row.

    The device consists of one gateway or two. ``networks`` lie behind its two ports. Of two gateways, neither
    has a route to what is behind the other. The connection between two gateways is made later (:func:`join`).

    The device's receive work is bound to its CPU. The receive work of the receiver's interface happens
    where the device hands frames over, so on the same CPU. Returns the process IDs of the kernel threads that
    do the device's work.
    """
    threaded = dut_ports[:1] if work.answered else dut_ports
    near, far = gateways[0], gateways[-1]
    for part in (tx, *gateways, rx):
        part.create()
    for gateway in gateways:
        gateway.call(lambda: write_sysctls(ROUTER if work.forwards else QUIET))
    for end in (tx, rx):
        end.call(lambda: write_sysctls(QUIET))

    inward = dut_ports[0], TX0, networks[0]
    outward = dut_ports[1], RX0, networks[1]
    with near.descriptor() as near_fd, far.descriptor() as far_fd:
        tx.call(lambda: make_end(TX0, dut_ports[0], near_fd))
        rx.call(lambda: make_end(RX0, dut_ports[1], far_fd))
    with clean.alone():
        before = {port.name: scheduling.threads(port.name) for port in threaded}
        if near is far:
            near.call(lambda: _bring_up_device(threaded, inward, outward))
        else:
            near.call(lambda: _bring_up_device(threaded, inward))
            far.call(lambda: _bring_up_device(threaded[1:], outward))
        threads = [scheduling.pin(port.name, before[port.name], work.cpu) for port in threaded]
    ahead, back = (RX0, TX0) if work.bridges else (IN0, OUT0)
    tx.call(lambda: interface.bring_up([TX0], behind(ahead, TX0, RECEIVERS)))
    rx.call(lambda: interface.bring_up([RX0], behind(back, RX0, SENDERS)))
    return threads


def build_management(dut: Namespace, station: Namespace) -> None:
    """Make the namespace of a monitoring system and its cable to the device."""
    station.create()
    station.call(lambda: write_sysctls(QUIET))
    with dut.descriptor() as dut_fd:
        station.call(lambda: interface.create_pair(STATION, MANAGED, dut_fd, _MANAGEMENT_MTU_BYTES))
    dut.call(lambda: interface.bring_up([MANAGED], []))
    station.call(lambda: interface.bring_up([STATION], []))


def build_plain(tx: Namespace, rx: Namespace, rx_cpu: int | None) -> list[int]:
    """Make two namespaces with nothing but a cable between them.

    ``rx_cpu`` does the receive work; None leaves it to the CPU that sends, as the kernel does. Returns the
    process IDs of the kernel threads that do it.
    """
    threads: list[int] = []
    for part in (tx, rx):
        part.create()
        part.call(lambda: write_sysctls(QUIET))
    with rx.descriptor() as rx_fd:
        tx.call(lambda: make_end(TX0, RX0, rx_fd))
    if rx_cpu is None:
        rx.call(_bring_up_receiver)
    else:
        with clean.alone():
            before = scheduling.threads(RX0.name)
            rx.call(lambda: _bring_up_receiver(threaded=True))
            threads.append(scheduling.pin(RX0.name, before, rx_cpu))
    tx.call(lambda: interface.bring_up([TX0], behind(RX0, TX0, RECEIVERS)))
    return threads


def make_end(here: Port, there: Port, there_fd: int) -> None:
    """Make a cable from here to the namespace behind ``there_fd``, without offloads that change frames."""
    interface.create_pair(here, there, there_fd, MTU_BYTES)
    interface.set_offloads(here.name, gro=False)


def join(near: Namespace, far: Namespace) -> None:
    """Make the cable between two gateways.

    It has no rings: the backlog receives frames where they are sent, on the CPU of the gateways.
    """
    with far.descriptor() as far_fd:
        near.call(lambda: interface.create_pair(NEAR, FAR, far_fd, BETWEEN_MTU_BYTES))
    for gateway, here, there in ((near, NEAR, FAR), (far, FAR, NEAR)):
        gateway.call(partial(_bring_up_link, here, there))


def _bring_up_link(here: Port, there: Port) -> None:
    interface.set_offloads(here.name, gro=False)
    interface.bring_up([here], [])
    interface.know(there, here.name)


def _bring_up_device(threaded: Sequence[Port], *sides: tuple[Port, Port, Sequence[str]]) -> None:
    """Bring up the device's ports; each side is a port, its neighbour, and the networks behind that.

    Kernel threads do the receive work of those that are ``threaded``.
    """
    ports = tuple(port for port, _, _ in sides)
    for port in ports:
        interface.set_offloads(port.name, gro=True)
    routes = [route for port, neighbour, networks in sides for route in behind(neighbour, port, networks)]
    interface.bring_up(ports, routes)
    thread_receiving(
        [port for port in ports if port in threaded], [port for port in ports if port not in threaded]
    )


def _bring_up_receiver(threaded: bool = False) -> None:
    interface.set_offloads(RX0.name, gro=True)
    interface.bring_up([RX0], behind(TX0, RX0, SENDERS))
    if threaded:
        thread_receiving((RX0,))


def thread_receiving(ports: Sequence[Port], others: Sequence[Port] = ()) -> None:
    """Have kernel threads do the receive work of the ports, which are up and have GRO.

    That of ``others`` is done on the CPU where their packets come from.
    """
    sysfs = syscalls.mount_sysfs()
    try:
        for port in ports:
            interface.thread_napi(port.name, sysfs)
        for port in (*ports, *others):
            interface.spread_off(port.name, sysfs)
    finally:
        os.close(sysfs)


def behind(neighbour: Port, port: Port, networks: Sequence[str]) -> list[IpRoute]:
    """Routes to ``networks`` out of ``port`` via ``neighbour``'s address of the same IP version."""
    gateways = {4: neighbour.ipv4, 6: neighbour.ipv6}
    return [
        IpRoute(network, gateways[6 if ":" in network else 4].partition("/")[0], neighbour.mac, port.name)
        for network in networks
    ]


def mac_bytes(text: str) -> bytes:
    """The six bytes of ``02:00:00:00:00:01``."""
    return bytes.fromhex(text.replace(":", ""))
