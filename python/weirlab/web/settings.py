"""Settings of the service."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

PORT: Final = 29180
DNS_PORT: Final = 53
LOOPBACK: Final = "127.0.0.1"
Network = IPv4Network | IPv6Network
LEAST_TOKEN: Final = 16
"""Characters: a shorter one can be found by trying."""


@dataclass(frozen=True)
class VoiceSettings:
    """Zone management: which plan, where its zones go, and whether a proxy authenticates users."""

    database: str
    """Path or URL."""
    zones: str = ""
    """Folder for zone files; empty: nothing is published."""
    rndc: str = ""
    """Configuration of rndc; empty: no name server is notified of new zones."""
    servers: tuple[tuple[str, int], ...] = ()
    """Addresses and ports of name servers whose serials are queried."""
    catalog: str = ""
    """Name of the catalog zone; empty: there is none."""
    user_header: str = ""
    """Header in which a trusted proxy names the user; empty: no header is accepted."""


@dataclass(frozen=True)
class TestLimits:
    """What tests by ndt7 may use within an hour, of one client (an address) and of all; each lasts 13 s."""

    bytes_per_s: int | None = 125_000_000
    """Of one test; there is one at a time."""
    bytes: int = 100_000_000_000
    most: int = 120
    most_of_client: int = 20

    @property
    def bytes_of_client(self) -> int:
        return self.bytes // 4


@dataclass(frozen=True)
class WebSettings:
    """Sizes in bytes, times in s. Without a ``token`` only a loopback address is allowed."""

    address: str = LOOPBACK
    port: int = PORT
    token: str = ""
    most_upload_bytes: int = 4_000_000_000
    memory_bytes: int = 4_000_000_000
    """Limit for a child process that reads a capture."""
    most_s: float = 600.0
    """Time limit for the same."""
    children: int = 1
    """Most child processes at once; captures wait for their turn."""
    most_transfer_s: float = 300.0
    most_days: int = 0
    """How long data is kept, in days; 0: forever."""
    most_kept_bytes: int = 0
    """How much data is kept in all; 0: no limit."""
    allow_run: bool = False
    """Users may start scenarios, which run with the rights of the service."""
    allow_watch: bool = False
    """Users may see connections of this host, and why they are not faster."""
    tests: TestLimits | None = None
    """None: no tests by ndt7."""
    voice: VoiceSettings | None = None
    """None: no zone management."""
    proxies: tuple[Network, ...] = ()
    """Trusted proxies, which report the addresses of their clients."""

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/"


def name_server(text: str) -> tuple[str, int]:
    """Read ``192.0.2.53``, ``192.0.2.53:5353``, ``[2001:db8::53]:5353``; raises ``InputError`` for others."""
    address, port = bind(text, "--voice-server", DNS_PORT)
    if not port:
        raise InputError(f"--voice-server {quoted(text)}: the port of a server cannot be 0")
    return address, port


def bind(text: str, option: str = "--bind", usual: int = PORT) -> tuple[str, int]:
    """Read ``127.0.0.1:29180``, ``127.0.0.1``, ``:29180``, ``[::1]:29180``, ``localhost``.

    Raises
    ------
    InputError
        It is none of these.
    """
    wrong = InputError(
        f"{option} {quoted(text)} not understood; accepted are ADDRESS, :PORT and ADDRESS:PORT, such as "
        f"127.0.0.1:{usual} or [::1]:{usual}"
    )
    text = text.strip()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise wrong
        port = rest[1:]
        if not port and rest:
            raise wrong
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, colon, port = text.partition(":")
        if colon and not port:
            raise wrong
    host = LOOPBACK if host in ("", "localhost") else host
    try:
        address = str(ip_address(host))
        number = int(port) if port.isascii() and port.isdecimal() else -1 if port else usual
    except ValueError:
        raise wrong from None
    if not 0 <= number <= 65535:
        raise wrong
    return address, number


def network(text: str, option: str) -> Network:
    """Read an IP address or a network; raises ``InputError`` naming ``option`` for anything else."""
    try:
        return ip_network(text.strip())
    except ValueError:
        raise InputError(
            f"{option} {quoted(text)}: give an IP address or a network, such as {LOOPBACK} or 192.0.2.0/24"
        ) from None


def domain_name(text: str, option: str) -> str:
    """Read a domain name; raises ``InputError`` naming ``option`` for anything else."""
    from pydantic import TypeAdapter, ValidationError

    from weirlab.numbering.plan.values import Host

    try:
        found: str = TypeAdapter(Host).validate_python(text.strip())
    except ValidationError:
        raise InputError(
            f"{option} {quoted(text)}: give a domain name, such as catalog.example.net"
        ) from None
    return found


def check(settings: WebSettings) -> None:
    """Raise ``InputError`` for a service that anyone could use."""
    if settings.token and len(settings.token) < LEAST_TOKEN:
        raise InputError(
            f"--token: {len(settings.token)} characters can be guessed; give at least {LEAST_TOKEN}, for "
            "example the output of: openssl rand -hex 16"
        )
    if settings.proxies and not settings.token:
        raise InputError(
            "--proxy lets other hosts in, so a token is needed: give --token TEXT or set WEIR_WEB_TOKEN. The "
            "proxy can add it for users whom it knows: Authorization: Bearer TOKEN"
        )
    if not settings.token and not ip_address(settings.address).is_loopback:
        raise InputError(
            f"--bind {settings.address} lets other hosts in, so a token is needed: give --token TEXT or set "
            "WEIR_WEB_TOKEN, for example to the output of: openssl rand -hex 16"
        )
