"""ESP in tunnel mode with keys from strongSwan: the kernel's ESP, or that of ``kernel-libipsec``."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError
from weirlab.base.quoting import quoted
from weirlab.lab.dut import tool
from weirlab.lab.dut.tunnels.events import After, Rekey
from weirlab.lab.dut.tunnels.tunnel import Gateway, Tunnel, TunnelSuite, lacking
from weirlab.lab.linux.namespace import in_private
from weirlab.lab.machines.machine import quote

INTERFACE: Final = "ipsec0"

CHARON: Final = "/usr/lib/ipsec/charon"
SUITES: Final = (
    TunnelSuite("aes128gcm16", "esp-tunnel/aes-gcm-16"),
    TunnelSuite("aes256gcm16", "esp-tunnel/aes-gcm-16"),
    TunnelSuite("aes128-sha1", "esp-tunnel/aes-cbc-hmac-sha1-96"),
    TunnelSuite("aes256-sha1", "esp-tunnel/aes-cbc-hmac-sha1-96"),
    TunnelSuite("aes128-sha256", "esp-tunnel/aes-cbc-hmac-sha256-128"),
    TunnelSuite("aes256-sha256", "esp-tunnel/aes-cbc-hmac-sha256-128"),
    TunnelSuite("aes128-md5", "esp-tunnel/aes-cbc-hmac-md5-96"),
    TunnelSuite("chacha20poly1305", "esp-tunnel/chacha20-poly1305"),
    TunnelSuite("null-sha1", "esp-tunnel/null-hmac-sha1-96"),
    TunnelSuite("null-sha256", "esp-tunnel/null-hmac-sha256-128"),
    TunnelSuite("null-md5", "esp-tunnel/null-hmac-md5-96"),
)
"""The suites, by strongSwan's keywords for proposals."""

_SETTINGS: Final = "/run/strongswan.conf"
_CONFIG: Final = "/run/swanctl.conf"
_LIFE_S: Final = 3600
_LIFE_PACKETS: Final = 1_000_000_000
"""How much longer keys may be used after they are due for renewal."""
_SOCKET: Final = "unix:///run/vici"
_CHILD: Final = "tunnel"
_ASSOCIATION: Final = re.compile(rf"^ *{_CHILD}: #(\d+),", re.MULTILINE)
"""An entry in a list of associations; charon numbers them from 1."""
_NO_ESP: Final = "this kernel has no ESP: modprobe esp4 xfrm_user, or choose strongswan-libipsec"
_PLUGINS: Final = (
    "random nonce aes des sha1 sha2 md5 hmac kdf gcm chapoly openssl pem pkcs1 pubkey x509 constraints"
)


class StrongSwan(Tunnel):
    """Two charon daemons, each with the other's address and a shared key."""

    product = "strongSwan"
    backends: str
    """The plugins that carry the packets and route them, in order."""

    def __init__(self, suite: str | None = None) -> None:
        super().__init__(SUITES, suite)
        if self.rekey is not None and self.rekey.time_s is not None and not self.rekey.time_s.is_integer():
            raise InputError(
                f"strongSwan only takes whole seconds: {quoted('rekey=' + self.rekey.text)} has a fraction"
            )

    def check(self) -> list[str]:
        wanted = {"strongswan-charon": [CHARON], "strongswan-swanctl": ["swanctl"]}
        return lacking({**wanted, "libstrongswan-standard-plugins": [plugin("openssl")]})

    def version(self) -> str:
        return tool.version(CHARON)

    def begin(self, near: Gateway, far: Gateway) -> None:
        secret = secrets.token_hex(16)
        # If both rekeyed at the same moment, both would negotiate new keys (RFC 7296, 2.8.1).
        for gateway, rekey in ((near, self.rekey), (far, None)):
            gateway.machine.write(_SETTINGS, settings(self.backends))
            text = config(gateway, self.suite.name, secret, in_udp=self.natt, rekey=rekey)
            gateway.machine.write(_CONFIG, text)
            self.daemon(gateway, "charon", ["env", f"STRONGSWAN_CONF={_SETTINGS}", CHARON])
        for gateway in (near, far):
            self.command(gateway, swanctl("--load-all", "--noprompt", "--file", _CONFIG))
        self.command(near, swanctl("--initiate", "--child", _CHILD, "--timeout", "10"), patience_s=0.0)

    def rekey_now(self) -> None:
        self._near_says("--rekey", "--child", _CHILD)

    def counters(self) -> Mapping[str, int]:
        """How often the near gateway rekeyed, if it does."""
        if self.rekey is None or not self._machines:
            return super().counters()
        numbers = _ASSOCIATION.findall("\n".join(self._near_says("--list-sas")))
        return {"near_rekeys": max(map(int, numbers), default=1) - 1}

    def _near_says(self, *arguments: str) -> list[str]:
        near = self._machines[0]
        code, said = near.run(swanctl(*arguments))
        if code != 0:
            raise LabError(f"swanctl {arguments[0]} failed on {near.name}; it says: {quote(said)}")
        return said


class StrongSwanLibipsec(StrongSwan):
    """ESP in charon itself: in user space, in UDP, in tunnel mode."""

    kind = "strongswan-libipsec"
    # Its own ESP does not count packets.
    rekeys_after: frozenset[After] = frozenset({"time"})
    natt = True
    backends = "kernel-libipsec kernel-netlink"
    most_bytes = 1400
    """MTU of charon's interface (``TUN_DEFAULT_MTU`` in its kernel_libipsec_router.c), its read size."""

    def check(self) -> list[str]:
        return [*super().check(), *lacking({"libcharon-extra-plugins": [plugin("kernel-libipsec")]})]


class StrongSwanKernel(StrongSwan):
    """ESP in the kernel, directly over IP."""

    kind = "strongswan-kernel"
    rekeys_after: frozenset[After] = frozenset({"time", "packets"})
    backends = "kernel-netlink"

    def check(self) -> list[str]:
        return [*super().check(), *_missing_in_kernel()]


def usual(suite: str | None = None) -> StrongSwan:
    """strongSwan with the kernel's ESP if it has one, else with charon's."""
    kernel = StrongSwanKernel(suite)
    return StrongSwanLibipsec(suite) if _missing_in_kernel() else kernel


def plugin(name: str) -> str:
    """The file of a plugin that comes in a separate package."""
    return f"/usr/lib/ipsec/plugins/libstrongswan-{name}.so"


def swanctl(*arguments: str) -> list[str]:
    """The command that controls charon."""
    return ["swanctl", *arguments, "--uri", _SOCKET]


def settings(backends: str) -> str:
    """The file ``strongswan.conf`` of a gateway (strongswan.conf(5))."""
    return (
        "charon {\n"
        f"  load = {_PLUGINS} {backends} socket-default vici updown\n"
        "  install_virtual_ip = no\n"
        "  plugins {\n"
        "    vici {\n"
        f"      socket = {_SOCKET}\n"
        "    }\n"
        "  }\n"
        "  filelog {\n"
        "    stderr {\n"
        "      default = 1\n"
        "      flush_line = yes\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


def config(gateway: Gateway, suite: str, secret: str, *, in_udp: bool, rekey: Rekey | None = None) -> str:
    """The file ``swanctl.conf`` of a gateway (swanctl.conf(5))."""
    return "\n".join(_lines(gateway, suite, secret, in_udp, rekey)) + "\n"


def _lines(gateway: Gateway, suite: str, secret: str, in_udp: bool, rekey: Rekey | None) -> Iterator[str]:
    yield "connections {"
    yield "  gateways {"
    yield "    version = 2"
    yield f"    local_addrs = {gateway.address}"
    yield f"    remote_addrs = {gateway.peer}"
    yield "    proposals = aes128-sha256-ecp256"
    yield "    mobike = no"
    yield f"    encap = {'yes' if in_udp else 'no'}"
    for side, address in (("local", gateway.address), ("remote", gateway.peer)):
        yield f"    {side} {{"
        yield "      auth = psk"
        yield f"      id = {address}"
        yield "    }"
    yield "    children {"
    yield f"      {_CHILD} {{"
    yield f"        local_ts = {','.join(gateway.own_networks)}"
    yield f"        remote_ts = {','.join(gateway.networks)}"
    yield f"        esp_proposals = {suite}"
    yield "        mode = tunnel"
    if rekey is not None:
        packets = rekey.packets
        unit, amount, beyond = ("time", int(rekey.time_s or 0), _LIFE_S)
        if packets is not None:
            unit, amount, beyond = ("packets", packets, _LIFE_PACKETS)
        yield f"        rekey_{unit} = {amount}"
        # Otherwise charon would rekey earlier, by a random amount, and drop keys that are renewed late.
        yield f"        rand_{unit} = 0"
        yield f"        life_{unit} = {amount + beyond}"
    yield "      }"
    yield "    }"
    yield "  }"
    yield "}"
    yield "secrets {"
    yield "  ike-gateways {"
    yield f"    id-1 = {gateway.address}"
    yield f"    id-2 = {gateway.peer}"
    yield f"    secret = {secret}"
    yield "  }"
    yield "}"


def _missing_in_kernel() -> list[str]:
    """What the kernel lacks for ESP, tried with a security association in a temporary namespace."""
    if missing := lacking({"iproute2": ["ip"]}):
        return missing
    state = "ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x100 mode tunnel"
    command = [*state.split(), "aead", "rfc4106(gcm(aes))", f"0x{'00' * 20}", "128"]

    try:
        done = in_private(lambda: programs.run(command, capture_output=True))
        return [_NO_ESP] if done.returncode else []
    except OSError:
        return ["whether this kernel has ESP could not be tried: run as root"]
