"""WireGuard in the kernel or in ``wireguard-go``."""

from __future__ import annotations

import signal
import subprocess
from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab.dut import tool
from weirlab.lab.dut.tunnels.tunnel import Gateway, Tunnel, TunnelSuite, lacking
from weirlab.lab.linux import interface, syscalls
from weirlab.lab.linux.namespace import in_thread

PORT: Final = 51820
INTERFACE: Final = "wg0"

_SUITES: Final = (TunnelSuite("", "wireguard"),)
_CONFIG: Final = "/run/wireguard.conf"
_DAEMON: Final = "wireguard-go"


class WireGuard(Tunnel):
    """Both ends configured by ``wg``; the subclass chooses the implementation."""

    product = "WireGuard"

    def __init__(self, suite: str | None = None) -> None:
        super().__init__(_SUITES, suite)

    def begin(self, near: Gateway, far: Gateway) -> None:
        keys = _pair_of_keys(), _pair_of_keys()
        for here, there, gateway in ((0, 1, near), (1, 0, far)):
            gateway.machine.write(_CONFIG, config(keys[here][0], keys[there][1], gateway.peer))
            self.boot(gateway)

    def boot(self, gateway: Gateway) -> None:
        """Make a gateway's interface with the written configuration, and route through it."""
        self.make_interface(gateway)
        self.command(gateway, ["wg", "setconf", INTERFACE, _CONFIG])
        self.route(gateway, INTERFACE)

    @abstractmethod
    def make_interface(self, gateway: Gateway) -> None:
        """Make the interface; it may appear a little later."""


class WireGuardGo(WireGuard):
    """The user-space daemon of Debian's ``wireguard-go``."""

    kind = "wireguard-go"
    returns = True

    def check(self) -> list[str]:
        return lacking({"wireguard-go": [_DAEMON], "wireguard-tools": ["wg"]})

    def make_interface(self, gateway: Gateway) -> None:
        self.daemon(gateway, _DAEMON, ["env", "LOG_LEVEL=error", _DAEMON, "--foreground", INTERFACE])

    def fail(self, near: Gateway) -> None:
        near.machine.stop(_DAEMON, by=signal.SIGKILL)

    def revive(self, near: Gateway, far: Gateway) -> None:
        self.boot(near)

    def version(self) -> str:
        return tool.version(_DAEMON)


class WireGuardKernel(WireGuard):
    """The kernel's WireGuard, which does not stay on the device's CPU: it encrypts on all CPUs."""

    kind = "wireguard-kernel"

    def check(self) -> list[str]:
        return [*lacking({"wireguard-tools": ["wg"]}), *_missing_in_kernel()]

    def make_interface(self, gateway: Gateway) -> None:
        gateway.namespace.call(lambda: interface.make(INTERFACE, "wireguard"))

    def version(self) -> str:
        return tool.version("wg")

    def facts(self) -> Mapping[str, object]:
        return {**super().facts(), "cpus": "the kernel encrypts on all CPUs, the sender's too"}


def usual(suite: str | None = None) -> WireGuard:
    """The kernel's WireGuard if it has one, else the daemon's."""
    kernel = WireGuardKernel(suite)
    return WireGuardGo(suite) if _missing_in_kernel() else kernel


def config(private_key: str, peers_key: str, peer: str) -> str:
    """Configuration for ``wg setconf`` (wg(8)): one peer, which may send anything."""
    return (
        "[Interface]\n"
        f"PrivateKey = {private_key}\n"
        f"ListenPort = {PORT}\n"
        "[Peer]\n"
        f"PublicKey = {peers_key}\n"
        f"Endpoint = {peer}:{PORT}\n"
        "AllowedIPs = 0.0.0.0/0, ::/0\n"
    )


def _missing_in_kernel() -> list[str]:
    def attempt() -> bool:
        syscalls.unshare_net()
        return interface.can_make("wireguard")

    try:
        if in_thread(attempt):
            return []
    except OSError:
        return ["whether this kernel has WireGuard could not be tried: run as root"]
    return ["this kernel has no WireGuard: modprobe wireguard, or choose wireguard-go"]


def _pair_of_keys() -> tuple[str, str]:
    """A private key and its public key."""
    private = _wg("genkey")
    return private, _wg("pubkey", private)


def _wg(command: str, text: str = "") -> str:
    done: subprocess.CompletedProcess[str] = programs.run(
        ["wg", command], input=text, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise LabError(f"wg {command} failed: {done.stderr.strip() or 'no reason given'}")
    return done.stdout.strip()
