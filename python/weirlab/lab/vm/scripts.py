"""Shell scripts that set a guest up as a namespace of the lab: addresses, routes, neighbours. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.lab import wiring
from weirlab.lab.linux.interface import Port, Route

PRELUDE: Final = 'ip() { /usr/bin/ip "$@"; }\ntc() { /usr/bin/tc "$@"; }\n'
"""In front of every script: a shell of BusyBox prefers its own programs to others of the same name."""

_END: Final = "end of what weir writes"


@dataclass(frozen=True)
class Side:
    """A port of the guest, who is behind it, and the networks that are reached by way of that neighbour."""

    port: Port
    neighbour: Port
    networks: Sequence[str]
    mtu_bytes: int = wiring.MTU_BYTES


def network(sides: Sequence[Side]) -> str:
    """The guest forwards between its ports; all neighbours are known for ever."""
    return "\n".join(_network(sides)) + "\n"


def written(path: str, text: str) -> str:
    """Writes ``text`` into a file of the guest."""
    return piped(["cat", f">{path}"], text)


def piped(command: Sequence[str], text: str) -> str:
    """Runs ``command`` with ``text`` as its standard input."""
    return f"{' '.join(command)} <<'{_END}'\n{text.rstrip()}\n{_END}\n"


def counters(names: Mapping[str, str]) -> str:
    """Prints a number a line: the files of ``names``, in order."""
    return f"cat {' '.join(names.values())}\n"


def port_counters(ports: Mapping[str, str]) -> dict[str, str]:
    """Files of the guest's kernel by what they count, of the interfaces of ``ports`` by their roles."""
    kinds = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
    return {
        f"{role}_{kind}": f"/sys/class/net/{name}/statistics/{kind}"
        for role, name in ports.items()
        for kind in kinds
    }


def _network(sides: Sequence[Side]) -> Iterator[str]:
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
            yield _routed(route)


def _known(address: str, mac: str, name: str) -> str:
    return f"ip neighbour replace {address} lladdr {mac} dev {name} nud permanent"


def _routed(route: Route) -> str:
    return f"ip route add {route.network} via {route.gateway} dev {route.name} onlink"
