"""ESP in tunnel mode by Weir's own gateways in user space, with fresh keys for each run.

There is no key exchange: both processes get their keys before they start, and a secret from which they derive
the next ones. On the cable between the gateways each process has its own Ethernet address; the kernel ignores
frames to it as meant for another host.
"""

from __future__ import annotations

import json
import secrets
import signal
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from weirlab import __version__
from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab import wiring
from weirlab.lab.dut import tool
from weirlab.lab.dut.tunnels import gateway, strongswan
from weirlab.lab.dut.tunnels.events import After
from weirlab.lab.dut.tunnels.tunnel import Gateway, Tunnel, TunnelSuite

INTERFACE: Final = "esp0"

OUTSIDE: Final = ("02:77:65:69:72:21", "02:77:65:69:72:22")
"""Ethernet addresses of the near and the far process on the cable between the gateways."""

FIRST_SPI: Final = 0x1000
"""SPI from the near gateway to the far one; the next SPI is for the way back."""
PORT: Final = 4500
"""UDP port of ESP in UDP (RFC 3948)."""
WINDOW: Final = 1024
"""Size of the anti-replay window: several flows on several CPUs overtake each other; RFC 4303 has 64."""

_TUNNEL: Final = "esp-tunnel/"
SUITES: Final[tuple[TunnelSuite, ...]] = (
    *strongswan.SUITES,
    TunnelSuite("aes128gcm16iiv", "esp-tunnel/aes-gcm-16-iiv"),
    TunnelSuite("aes256gcm16iiv", "esp-tunnel/aes-gcm-16-iiv"),
    TunnelSuite("chacha20poly1305iiv", "esp-tunnel/chacha20-poly1305-iiv"),
    TunnelSuite("aes128", "esp-tunnel/aes-cbc"),
    TunnelSuite("aes256", "esp-tunnel/aes-cbc"),
)
"""strongSwan's suites by its keywords, and some that it lacks."""
_SECRET_BYTES: Final = 32
_DAEMON: Final = "gateway"
_CONFIG: Final = "/run/esp.json"
_COUNTERS: Final = "/run/esp.counters"


@dataclass(frozen=True)
class Keys:
    """Keys of one direction."""

    spi: int
    encryption: bytes
    authentication: bytes
    secret: bytes
    """The secret from which the next keys are derived."""


class Esp(Tunnel):
    """Two processes, each with the keys of both directions. ESP runs directly over IP."""

    product = "ESP"
    kind = "esp"
    rekeys_after: frozenset[After] = frozenset({"time", "packets"})
    returns = True

    def __init__(self, suite: str | None = None) -> None:
        super().__init__(SUITES, suite)
        self._earlier: dict[str, int] = {}
        """Counters of processes that have ended."""

    @property
    def cipher(self) -> str:
        """The engine's name for the suite."""
        return self.suite.encapsulation.removeprefix(_TUNNEL)

    def check(self) -> list[str]:
        return tool.engine_missing()

    def version(self) -> str:
        return f"Weir {__version__}"

    def begin(self, near: Gateway, far: Gateway) -> None:
        there, back = (new_keys(self.cipher, self.suite.name, FIRST_SPI + number) for number in (0, 1))
        for here, number, sending, receiving in ((near, 0, there, back), (far, 1, back, there)):
            here.machine.write(_CONFIG, json.dumps(dict(self._config(here, number, sending, receiving))))
            self.daemon(here, _DAEMON, programs.own(gateway.__name__, _CONFIG))
        for here in (near, far):
            self.route(here, INTERFACE)

    def fail(self, near: Gateway) -> None:
        near.machine.stop(_DAEMON, by=signal.SIGKILL)

    def revive(self, near: Gateway, far: Gateway) -> None:
        # Without negotiation, restarting one gateway means new keys for both. The old keys cannot be used any
        # more, because the near gateway no longer knows which sequence numbers it has used.
        far.machine.stop(_DAEMON, by=signal.SIGKILL)
        self._earlier = dict(self._counted())
        for each in (near, far):
            each.machine.run(["rm", "-f", _COUNTERS])
        self.begin(near, far)

    def rekey_now(self) -> None:
        for machine in self._machines:
            machine.signal(_DAEMON, gateway.REKEY)

    def counters(self) -> Mapping[str, int]:
        """Packets by gateway: encapsulated, decapsulated, dropped by reason."""
        return {**super().counters(), **self._counted()}

    def _counted(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for side, machine in zip(("near", "far"), self._machines, strict=False):
            try:
                content = machine.path(_COUNTERS).read_bytes()
            except OSError as error:
                self.check_alive()
                raise LabError(f"the counters of {machine.name} cannot be read: {error}") from error
            names = gateway.counter_names()
            values = struct.unpack(f"={len(names)}Q", content)
            found |= {f"{side}_esp_{name}": value for name, value in zip(names, values, strict=True)}
        return {name: count + self._earlier.get(name, 0) for name, count in found.items()}

    def _config(
        self, here: Gateway, number: int, sending: Keys, receiving: Keys
    ) -> Iterator[tuple[str, object]]:
        """The arguments of :func:`weirlab._engine.run_esp_gateway`, bytes as hexadecimal digits."""
        own, others = (wiring.mac_bytes(OUTSIDE[each]).hex() for each in (number, 1 - number))
        yield "inside", INTERFACE
        yield "outside", [wiring.NEAR.name, own, others, wiring.BETWEEN_MTU_BYTES]
        yield "suite", self.cipher
        yield "ends", [here.address, here.peer]
        for name, keys in (("sending", sending), ("receiving", receiving)):
            yield (
                name,
                [keys.spi, *(each.hex() for each in (keys.encryption, keys.authentication, keys.secret))],
            )
        yield "iv_key", secrets.token_hex(16)
        yield "natt", [PORT, PORT] if self.natt else None
        yield "window", WINDOW
        yield "counters", _COUNTERS
        if self.rekey is not None:
            yield "rekey_packets", self.rekey.packets
            yield "rekey_s", self.rekey.time_s


class EspInUdp(Esp):
    """ESP in UDP, which passes network address translation (NAT-T, RFC 3948)."""

    kind = "esp-udp"
    natt = True


def new_keys(cipher: str, name: str, spi: int) -> Keys:
    """Random keys of the lengths that the suite called ``name`` needs."""
    from weirlab._engine import esp_key_bytes

    lengths, authentication_bytes = esp_key_bytes(cipher)
    encryption_bytes = lengths[-1] if name.startswith("aes256") else lengths[0]
    lengths_bytes = (encryption_bytes, authentication_bytes, _SECRET_BYTES)
    return Keys(spi, *(secrets.token_bytes(each) for each in lengths_bytes))
