"""Devices between two pre-made ends of veth pairs, which play the ports of this machine."""

from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weirlab.lab.linux.inventory import look
from weirlab.lab.linux.namespace import Namespace, write_sysctls

DeviceKind = Literal["router", "bridge"]


def ip(arguments: str) -> str:
    return subprocess.run(["ip", *arguments.split()], check=True, text=True, capture_output=True).stdout


@dataclass(frozen=True)
class WiredHost:
    """Two ports of this process's namespace, and the device that their cables lead to."""

    ports: tuple[str, str]
    device: Namespace

    def state(self) -> dict[str, Any]:
        """Everything about the ports that a test must leave as it was."""
        found: dict[str, Any] = {}
        for port in self.ports:
            (link,) = json.loads(ip(f"-j link show dev {port}"))
            (held,) = json.loads(ip(f"-j addr show dev {port}"))
            sysctls = Path("/proc/sys/net/ipv4/conf", port)
            found[port] = {
                "link": {key: link[key] for key in ("ifname", "mtu", "address", "flags", "operstate")},
                "addresses": sorted(
                    (each["local"], each["prefixlen"])
                    for each in held["addr_info"]
                    if each["scope"] == "global"
                ),
                "routes": sorted(
                    (route["dst"], route.get("gateway", ""))
                    for route in json.loads(ip(f"-j route show dev {port}"))
                ),
                "sysctls": {path.name: path.read_text() for path in sysctls.iterdir()},
                "xdp": look()[port].xdp,
            }
        return found

    def inside(self, arguments: str) -> None:
        """``ip`` in the device's namespace."""
        ip(f"-n {self.device.name} {arguments}")


@contextmanager
def external_pair(host: WiredHost, folder: Path, *, same_macs: bool = True) -> Iterator[Path]:
    """Two routers behind switches in place of the device; a program that makes the second one work, or the
    first one again (``back``)."""
    first, second = (Namespace(f"{host.device.name}-{which}") for which in "ab")
    try:
        for number, router in enumerate((first, second)):
            router.create()
            router.call(lambda: write_sysctls({"net/ipv4/ip_forward": 1}))
            for inner, net in (("in0", 18), ("out0", 19)):
                if number == 0:
                    host.inside(f"addr flush dev {inner}")
                    host.inside(f"link add br-{inner} type bridge forward_delay 0")
                    host.inside(f"link set {inner} master br-{inner}")
                    host.inside(f"link set br-{inner} up")
                mac = f"02:00:5e:00:{net}:{1 if same_macs else 1 + number:02}"
                host.inside(f"link add {inner}-{number} type veth peer name {inner} netns {router.name}")
                host.inside(f"link set {inner}-{number} master br-{inner} up")
                ip(f"-n {router.name} link set {inner} address {mac}")
                ip(f"-n {router.name} addr add 198.{net}.0.1/16 dev {inner}")
                ip(f"-n {router.name} link set {inner} {'down' if number else 'up'}")
        switch = folder / "switch"
        switch.write_text(
            f"""#!/bin/sh
set -e
old={first.name} new={second.name}
[ "$1" = back ] && old={second.name} new={first.name}
for port in in0 out0; do ip -n $old link set $port down; done
sleep {EXTERNAL_OUTAGE_S}
for port in in0 out0; do ip -n $new link set $port up; done
"""
        )
        switch.chmod(0o755)
        yield switch
    finally:
        second.remove()
        first.remove()


EXTERNAL_OUTAGE_S = 0.3


@contextmanager
def wired_host(kind: DeviceKind = "router") -> Iterator[WiredHost]:
    """Ports that are up and without addresses; the device forwards test traffic."""
    number = os.getpid() % 10_000
    ports = f"wta{number}", f"wtb{number}"
    device = Namespace(f"weir-test-wired-{os.getpid()}")
    try:
        device.create()
        host = WiredHost(ports, device)
        for port, inner in zip(ports, ("in0", "out0"), strict=True):
            ip(f"link add {port} type veth peer name {inner} netns {device.name}")
            Path("/proc/sys/net/ipv6/conf", port, "disable_ipv6").write_text("1")
            ip(f"link set {port} up")
            # Frames that XDP redirects to the port need a receiver with NAPI at the other end.
            device.call(lambda inner=inner: subprocess.run(["ethtool", "-K", inner, "gro", "on"], check=True))
            host.inside(f"link set {inner} up")
        if kind == "bridge":
            host.inside("link add br0 type bridge forward_delay 0")
            for inner in ("in0", "out0"):
                host.inside(f"link set {inner} master br0")
            host.inside("link set br0 up")
        else:
            device.call(lambda: write_sysctls({"net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1}))
            for inner, net in (("in0", 18), ("out0", 19)):
                side = net - 17
                host.inside(f"addr add 198.{net}.0.1/16 dev {inner}")
                host.inside(f"addr add 2001:2:0:{side}::1/120 dev {inner} nodad")
                host.inside(f"route add 2001:2:0:{side}::/64 via 2001:2:0:{side}::2 dev {inner}")
        yield host
    finally:
        device.remove()
        for port in ports:
            subprocess.run(["ip", "link", "delete", port], check=False, capture_output=True)


_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000


@contextmanager
def tap_ports(flowing: threading.Event | None = None) -> Iterator[tuple[str, str]]:
    """Two TAP interfaces; a thread writes each frame that leaves by one into the other, while ``flowing``."""
    if flowing is None:
        flowing = threading.Event()
        flowing.set()
    number = os.getpid() % 10_000
    names = f"wtt{number}", f"wtu{number}"
    taps = [os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC) for _ in names]
    over, wake = os.pipe()
    try:
        for tap, name in zip(taps, names, strict=True):
            fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
            Path("/proc/sys/net/ipv6/conf", name, "disable_ipv6").write_text("1")
            ip(f"link set {name} up")
        bridge = threading.Thread(target=_carry, args=(taps, over, flowing))
        bridge.start()
        try:
            yield names
        finally:
            os.write(wake, b"x")
            flowing.set()
            bridge.join()
    finally:
        for fd in (*taps, over, wake):
            os.close(fd)


def _carry(taps: list[int], over: int, flowing: threading.Event) -> None:
    while True:
        flowing.wait()
        ready, _, _ = select.select([*taps, over], [], [])
        if over in ready:
            return
        for tap in ready:
            # An interface that is down at the moment takes no frames.
            with suppress(OSError):
                os.write(taps[1 - taps.index(tap)], os.read(tap, 4096))
