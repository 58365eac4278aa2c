"""Shell scripts that set a guest up as a namespace of the lab: addresses, routes, neighbours. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.lab import wiring
from weirlab.lab.linux.interface import Port

PRELUDE: Final = 'ip() { /usr/bin/ip "$@"; }\ntc() { /usr/bin/tc "$@"; }\n'
"""Goes in front of every script: BusyBox's shell prefers its own programs to others of the same name."""

_END: Final = "end of what weir writes"


@dataclass(frozen=True)
class GuestPort:
    """A port of the guest, its neighbour, and the networks reached through that neighbour."""

    port: Port
    neighbour: Port
    networks: Sequence[str]
    mtu_bytes: int = wiring.MTU_BYTES


def network(sides: Sequence[GuestPort]) -> str:
    """Make the guest forward between its ports; all neighbour entries are permanent."""
    return "\n".join(_network(sides)) + "\n"


def written(path: str, text: str) -> str:
    """Write ``text`` to a file of the guest."""
    return piped(["cat", f">{path}"], text)


def piped(command: Sequence[str], text: str) -> str:
    """Run ``command`` with ``text`` as its standard input."""
    return f"{' '.join(command)} <<'{_END}'\n{text.rstrip()}\n{_END}\n"


def counters(names: Mapping[str, str]) -> str:
    """Print the files of ``names`` in order, one number per line."""
    return f"cat {' '.join(names.values())}\n"


def port_counters(ports: Mapping[str, str]) -> dict[str, str]:
    """Counter files of the guest's kernel, by role and counter, for the interfaces in ``ports``."""
    kinds = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
    return {
        f"{role}_{kind}": f"/sys/class/net/{name}/statistics/{kind}"
        for role, name in ports.items()
        for kind in kinds
    }


def _network(sides: Sequence[GuestPort]) -> Iterator[str]:
    yield "set -e"
    for key, value in wiring.ROUTER.items():
        yield f"[ ! -e /proc/sys/{key} ] || echo {value} >/proc/sys/{key}"
    yield "ip link set lo up"
    for side in sides:
        port = side.port
        yield "for each in /sys/class/net/*; do"
        yield f'  [ "$(cat "$each/address")" != {port.mac} ] || ip link set "${{each##*/}}" name {port.name}'
        yield "done"
        yield f"ip link set {port.name} addrgenmode none mtu {side.mtu_bytes}"
        yield f"ip address add {port.ipv4} dev {port.name}"
        yield f"ip address add {port.ipv6} dev {port.name} nodad"
        yield f"ip link set {port.name} up"
        for address in (side.neighbour.ipv4, side.neighbour.ipv6):
            yield _known(address.partition("/")[0], side.neighbour.mac, port.name)
    for side in sides:
        for route in wiring.behind(side.neighbour, side.port, side.networks):
            yield f"ip route add {route.network} via {route.gateway} dev {route.name} onlink"


def _known(address: str, mac: str, name: str) -> str:
    return f"ip neighbour replace {address} lladdr {mac} dev {name} nud permanent"
