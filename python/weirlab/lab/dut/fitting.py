"""Checks that frames pass a device unfragmented."""

from __future__ import annotations

from typing import Literal

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.base.units import FCS_BYTES
from weirlab.lab import wiring
from weirlab.lab.base import Driver
from weirlab.traffic.calls.codecs import ETHERNET_BYTES


def check_fit(driver: Driver, frame_bytes: int, ip: Literal[4, 6]) -> None:
    """Raise ``InputError`` for frames that the device would drop or fragment, whatever its rules.

    What happens to them says nothing about those that fit.
    """
    if ip not in driver.carries:
        raise InputError(f"the device {quoted(driver.name)} does not carry IPv{ip}")
    longest = driver.longest_packet_bytes(ip)
    packet_bytes = frame_bytes - ETHERNET_BYTES - FCS_BYTES
    if longest is not None and packet_bytes > longest:
        raise InputError(
            f"frames of {frame_bytes:,} B do not fit into the tunnel {driver.name}: their IP packets have "
            f"{packet_bytes:,} B, and with an MTU of {wiring.BETWEEN_MTU_BYTES:,} B between the gateways "
            f"at most {longest:,} B pass unfragmented; "
            f"use frames of {longest + ETHERNET_BYTES + FCS_BYTES:,} B at most"
        )
