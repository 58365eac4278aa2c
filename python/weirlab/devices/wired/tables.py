"""Ports, checks and cables as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weirlab.base.tables import Table
from weirlab.cli.quantities import count, duration, percent, rate

if TYPE_CHECKING:
    from weirlab.devices.wired.cable import CableResult
    from weirlab.lab.wired.ports import PortFacts

_BACKENDS = {"xdp": "XDP", "af_packet": "packet sockets", "auto": "XDP if possible"}


def ports(found: Sequence[PortFacts]) -> list[Table]:
    """What each port is, and why it cannot be used."""
    rows = [
        (
            port.name,
            port.driver,
            "–" if port.speed_mbps is None else f"{port.speed_mbps} Mbit/s",
            "yes" if port.carrier else "no" if port.up else "down",
            _BACKENDS[port.backend],
            "yes" if port.usable else "with --take" if not port.objections else "no",
        )
        for port in found
    ]
    made = [Table("Ports", ("Port", "Driver", "Speed", "Link", "Frames by", "Usable"), rows)]
    reasons = [(port.name, why) for port in found for why in (*port.objections, *port.occupied)]
    if reasons:
        made.append(Table("Why not", ("Port", "Because"), reasons))
    return made


def cable(found: Sequence[CableResult]) -> list[Table]:
    """Counts and delays by size and load."""
    counts = [
        (
            f"{each.frame_bytes} B",
            percent(each.share),
            rate(each.rate_pps),
            *map(count, (each.sent, each.left, each.entered, each.received)),
            "yes" if each.exact else "NO",
        )
        for each in found
    ]
    delays = [
        (
            f"{each.frame_bytes} B",
            rate(each.rate_pps),
            duration(each.delay_bias_ns),
            f"±{duration(each.delay_error_ns)}",
        )
        for each in found
    ]
    return [
        Table(
            "Frames",
            ("Size", "Share", "Load", "Sent", "Left first port", "Entered second", "Received", "Equal"),
            counts,
        ),
        Table("Delay of the cable", ("Size", "Load", "Bias (median)", "Error (95 %)"), delays),
    ]
