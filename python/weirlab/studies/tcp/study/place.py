"""Client and server in network namespaces of this host, with an emulated path between them.

::

    client            link                 server
    c0   ───────  near0 ═══ far0  ───────  s0
    198.18.0.1    (weir link)              198.18.0.2
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from weirlab.errors import LabError, MissingCapability
from weirlab.interrupts import shielded
from weirlab.lab import clean
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.linux.privilege import way_out
from weirlab.lab.wiring import QUIET, descriptor
from weirlab.studies.emulator.running import EmulatedLink, End, emulated_link

if TYPE_CHECKING:
    from weirlab.studies.tcp.study.section import TcpSection

MTU_BYTES: Final = 1500
CLIENT: Final = Port("c0", "02:77:65:69:72:51", "198.18.0.1/24", "2001:2:0:1::1/120")
SERVER: Final = Port("s0", "02:77:65:69:72:52", "198.18.0.2/24", "2001:2:0:1::2/120")
_NEAR: Final = Port("near0", "02:77:65:69:72:53", "", "")
_FAR: Final = Port("far0", "02:77:65:69:72:54", "", "")

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where the client is to be, and where its server listens."""

    client: Namespace
    host: str
    token: str
    link: EmulatedLink
    server: Any
    """``weirlab._engine.TcpServer``."""

    def inside(self, make: Callable[[], T]) -> T:
        """What ``make`` returns in the client's namespace."""
        return self.client.call(make)


@contextmanager
@shielded
def built(asked: TcpSection, note: Callable[[str], None]) -> Iterator[Place]:
    """The namespaces, the path and a server, for as long as the block lasts.

    Raises
    ------
    MissingCapability, LabError
        They cannot be made.
    """
    path = asked.path
    assert path is not None
    with ExitStack() as stack:
        with _explained():
            clean.clean()
            claim = clean.Claim()
            stack.callback(claim.release)
            client, link, server = (
                Namespace(claim.namespace_name(part)) for part in ("client", "link", "server")
            )
            _wire(client, link, server)
        ends = End(_NEAR.name, link.name), End(_FAR.name, link.name)
        emulated = stack.enter_context(emulated_link(*ends, path.read("up"), path.read("down")))
        token = secrets.token_hex(16)
        address = SERVER.ipv4.partition("/")[0]
        service = server.call(partial(_serve, address, asked, token))
        stack.callback(service.stop)
        # Between namespaces all is known beforehand; what was changed on interfaces is nobody's worry.
        yield Place(client, address, token, emulated, service)


def _wire(client: Namespace, link: Namespace, server: Namespace) -> None:
    for namespace in (client, link, server):
        namespace.create()
        namespace.call(partial(write_sysctls, QUIET))
    with descriptor(link) as fd:
        client.call(partial(interface.create_pair, CLIENT, _NEAR, fd, MTU_BYTES))
        server.call(partial(interface.create_pair, SERVER, _FAR, fd, MTU_BYTES))
    client.call(partial(_bring_up, CLIENT, SERVER))
    server.call(partial(_bring_up, SERVER, CLIENT))


def _bring_up(port: Port, other: Port) -> None:
    from pyroute2 import IPRoute

    interface.bring_up([port], [])
    with IPRoute() as netlink:
        index = int(netlink.link_lookup(ifname=port.name)[0])
        # A handshake that waits for address resolution says nothing of the path.
        for address in (other.ipv4, other.ipv6):
            interface.add_neighbour(netlink, address.partition("/")[0], other.mac, index)


def _serve(address: str, asked: TcpSection, token: str) -> Any:
    from weirlab._engine import TcpServer

    return TcpServer(
        address=address,
        port=asked.port,
        token=token,
        most_ns=None,
        most_bytes=None,
        most_clients=1,
        options=list(asked.server_options.items()),
    )


@contextmanager
def _explained() -> Iterator[None]:
    """Turns what the kernel answers into errors that say what to do."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except PermissionError as error:
        raise MissingCapability(
            f"an emulated path needs network namespaces ({error.strerror}); {way_out(error)}"
        ) from error
    except (OSError, NetlinkError) as error:
        raise LabError(f"the namespaces cannot be made: {error}; see weir doctor") from error
