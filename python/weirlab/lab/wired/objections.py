"""What speaks against a device between two ports, found by listening to it and by its first frames."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, Literal

from weirlab.base.errors import LabError
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.wired import ends
from weirlab.lab.wired.ends import WiredSetting, endpoints
from weirlab.lab.wired.ports import PortFacts
from weirlab.records import EngineResult

_CHANGED: Final = 3
"""Frames that were all changed on the way; fewer may be the device's own."""
_BRIDGE_MACS: Final = 3
"""A bridge may speak for itself and for each of its two ports."""
_ALLOWED_STRAYS: Final = 20
_STRAYS: Final = 0.1
"""Foreign frames, as a share of those sent, that the ramp accepts."""


def refuse_strangers(spaces: Sequence[Namespace], ports: Sequence[PortFacts], setting: WiredSetting) -> None:
    """Raise ``LabError`` if somebody else than the device is at one of ``ports``, each in its namespace."""
    with ExitStack() as opened:
        sockets = {
            port.name: opened.enter_context(space.call(partial(ends.open_socket, port.name)))
            for space, port in zip(spaces, ports, strict=True)
        }
        found = ends.listen(sockets, setting.listen_s)
    own = [port.mac for port in ports]
    of_device = _BRIDGE_MACS if setting.mode == "bridge" else 1
    for name, heard in found.items():
        if objection := heard.objection(own, of_device):
            raise LabError(
                f"{name}: {objection}. Test traffic belongs on cables that lead to the device alone (RFC "
                "6815); if this network is yours and carries nothing else: --shared"
            )


def refuse_copies(result: EngineResult, setting: WiredSetting, *, is_cable: bool) -> None:
    """Raise ``LabError`` if frames arrived more than once."""
    first, second = (end.port for end in setting.ends)
    if result.duplicated:
        raise LabError(
            f"{result.sent} frames sent at {first} arrived at {second} "
            f"{result.received + result.duplicated} times: there is a loop behind the ports, or the "
            f"{'cable' if is_cable else 'device'} copies frames; nothing more is sent"
        )


def refuse_strays(result: EngineResult, setting: WiredSetting, pps: float) -> None:
    """Raise ``LabError`` if others sent, too, while we sent at ``pps``, unless the network is shared."""
    if result.stray > _STRAYS * result.sent + _ALLOWED_STRAYS and not setting.shared:
        raise LabError(
            f"{result.stray} foreign frames arrived beside {result.sent} of ours at {pps:,.0f} pps: "
            "something else uses these cables, or the device mangles frames; disconnect it, or --shared"
        )


def why_no_gateway(setting: WiredSetting, side: int, version: int, *, is_swapped: bool) -> str:
    """What to check if no gateway answers at a side; ``is_swapped``: the other side's does."""
    end, other = setting.ends[side], setting.ends[1 - side]
    gateway = end.gateways[version]
    if is_swapped:
        swapped = " ".join(each.port for each in reversed(setting.ends))
        return (
            f"{other.gateways[version]} answers at {end.port}, where {gateway} should be: are the cables "
            f"swapped? Then name the ports in the other order: --between {swapped}"
        )
    return (
        f"the device does not answer at {end.port}: nobody there has the address {gateway}. Give its port "
        "that address, or name its own with --gateways; a bridge needs --mode bridge"
    )


def where_lost(setting: WiredSetting, version: Literal[4, 6], stray: int, *, is_cable: bool) -> str:
    """What to check if no frame arrives, but ``stray`` others do."""
    if stray >= _CHANGED:
        return (
            f"{stray} other frames did, so the device changes those of the test: switch off what rewrites "
            "UDP payloads, such as a proxy or a tunnel"
        )
    if is_cable:
        return "is it the same cable that is plugged into both?"
    if setting.mode == "bridge":
        return "check that the device bridges its two ports and that no filter drops the test traffic"
    to = "198.19.0.0/16" if version == 4 else "2001:2:0:2::/64"
    if (beyond := endpoints(setting.ends, version)) is not None:
        to = beyond.destination[0]
    return (
        f"the device answers on both sides, so check that it forwards, that its route to {to} leads to "
        f"{setting.ends[1].addresses[version].partition('/')[0]}, and that no filter drops UDP to port 7"
    )
