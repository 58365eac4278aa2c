"""How a monitored link is wired up.

::

    sender           bridge (tap, or bridge of the kernel)        receiver
    tx0  ─────────── in0                        out0 ─────────── rx0    (spare0)
                       mir0
                        │
                       log0   logger (mirror only)

The bridge's receive work is done by kernel threads bound to a CPU of their own. Nothing has an
address: all frames on the link are the sender's. Where tcpdump listens at the receiver, the engine's
own receiver, which takes frames before any packet socket sees them, waits at
``spare0``, where nothing comes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Final

from pyroute2 import IPRoute

from weirlab.lab import clean
from weirlab.lab import wiring as single
from weirlab.lab.linux import interface, scheduling
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.links.monitor.plan import Method

TX: Final = single.TX0.name
IN: Final = single.IN0.name
OUT: Final = single.OUT0.name
RX: Final = single.RX0.name
MIRROR: Final = "mir0"
LOGGER: Final = "log0"
SPARE: Final = "spare0"

TX_MAC: Final = single.TX0.mac
RX_MAC: Final = single.RX0.mac
LOGGER_MAC: Final = "02:77:65:69:72:31"
_MIRROR_MAC: Final = "02:77:65:69:72:30"
_BRIDGE_MAC: Final = "02:77:65:69:72:32"
_SPARE_MACS: Final = ("02:77:65:69:72:33", "02:77:65:69:72:34")
_BRIDGE: Final = "br0"

_STATIC: Final = 0x40
"""NUD_NOARP of linux/neighbour.h: known without learning, and not the bridge's own (NUD_PERMANENT)."""
_OF_BRIDGE: Final = 0x04
"""NTF_MASTER."""

_SILENT: Final = {**single.QUIET, **single.WITHOUT_IPV6, **single.SWITCH}


def parts(method: Method) -> tuple[str, ...]:
    """Namespaces that a lab of this method has."""
    return ("tx", "tap", "rx", *(("log",) if method == "tap-mirror" else ()))


def build(netns: Mapping[str, Namespace], method: Method, cpu: int) -> list[int]:
    """Make the namespaces and wire them up; ``cpu`` does the bridge's receive work.

    The tap itself is not opened; a bridge of the kernel is. Returns the process numbers of the
    kernel threads that do the work.
    """
    for namespace in netns.values():
        namespace.create()
        namespace.call(partial(write_sysctls, _SILENT))
    tap = netns["tap"]
    with tap.descriptor() as fd:
        netns["tx"].call(partial(_cable, TX, TX_MAC, IN, single.IN0.mac, fd))
        netns["rx"].call(partial(_cable, RX, RX_MAC, OUT, single.OUT0.mac, fd))
        if "log" in netns:
            netns["log"].call(partial(_cable, LOGGER, LOGGER_MAC, MIRROR, _MIRROR_MAC, fd))
    bridged = not method.startswith("tap-")
    with clean.alone():
        before = {name: scheduling.threads(name) for name in (IN, OUT)}
        tap.call(partial(_bring_up_middle, bridged, "log" in netns))
        threads = [scheduling.pin(name, before[name], cpu) for name in (IN, OUT)]
        for thread in threads:
            # As an interrupt would: a fair scheduler lets a recorder on this CPU finish its turn of some ms
            # first, while the queue in front of the bridge holds 256 frames.
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    if "log" in netns:
        netns["log"].call(partial(_up, (LOGGER,), gro=True))
    if method == "tcpdump-receiver":
        with netns["tx"].descriptor() as fd:
            netns["rx"].call(partial(_cable, SPARE, _SPARE_MACS[0], "spare1", _SPARE_MACS[1], fd))
        netns["rx"].call(partial(_up, (SPARE,), gro=True))
        netns["tx"].call(partial(_up, ("spare1",), gro=False))
    netns["rx"].call(partial(_up, (RX,), gro=True))
    # Whoever redirects to the sender finds it ready to take XDP frames, or the tap would run in generic mode.
    netns["tx"].call(partial(_up, (TX,), gro=True))
    return threads


def _cable(here: str, here_mac: str, there: str, there_mac: str, there_fd: int) -> None:
    ends = Port(here, here_mac, "", ""), Port(there, there_mac, "", "")
    interface.create_pair(*ends, there_fd, single.MTU_BYTES)


def _bring_up_middle(bridged: bool, mirrored: bool) -> None:
    for name in (IN, OUT, *((MIRROR,) if mirrored else ())):
        interface.set_offloads(name, gro=True)
    with IPRoute() as netlink:
        if bridged:
            bridge = interface.create_bridge(netlink, _BRIDGE, single.MTU_BYTES, _BRIDGE_MAC)
            for name in (IN, OUT):
                netlink.link("set", index=interface.index_of(netlink, name), master=bridge)
            netlink.link("set", index=bridge, state="up")
        for name in (IN, OUT, *((MIRROR,) if mirrored else ())):
            netlink.link("set", index=interface.index_of(netlink, name), state="up")
        if bridged:
            # Known from the start: flooding would cost the first frames more than the others.
            for name, mac in ((IN, TX_MAC), (OUT, RX_MAC)):
                index = interface.index_of(netlink, name)
                netlink.fdb("replace", ifindex=index, lladdr=mac, state=_STATIC, flags=_OF_BRIDGE)
    single.thread_receiving((single.IN0, single.OUT0))


def _up(names: tuple[str, ...], *, gro: bool) -> None:
    with IPRoute() as netlink:
        for name in names:
            # In this order: a veth tells its peer that it takes XDP frames when GRO is switched on while
            # it is up.
            netlink.link("set", index=interface.index_of(netlink, name), state="up")
            interface.set_offloads(name, gro=gro)
