"""Two hosts in network namespaces of this one, with emulated paths between them.

::

    client            link                 server
    c0   ───────  near0 ═══ far0  ───────  s0
    198.18.0.1    (weir link)              198.18.0.2
    c1   ───────  near1 ═══ far1  ───────  s1
    198.18.1.1                             198.18.1.2
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from weirlab.base.interrupts import shielded
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.linux.privilege import explained
from weirlab.lab.wiring import descriptor, quiet
from weirlab.links.emulator.running import LinkEnd

MTU_BYTES: Final = 1500


@dataclass(frozen=True)
class Hosts:
    """Two hosts and what is between them; a path carries nothing until a link is put on its ends."""

    client: Namespace
    link: Namespace
    server: Namespace

    def ends(self, path: int = 0) -> tuple[LinkEnd, LinkEnd]:
        """The ends of the link of a path: the client's, then the server's."""
        return LinkEnd(_near(path).name, self.link.name), LinkEnd(_far(path).name, self.link.name)


def client_port(path: int = 0) -> Port:
    """The client's interface on a path."""
    return Port(f"c{path}", _mac(path, 1), f"198.18.{path}.1/24", f"2001:2:0:{path + 1:x}::1/120")


def server_port(path: int = 0) -> Port:
    """The server's interface on a path."""
    return Port(f"s{path}", _mac(path, 2), f"198.18.{path}.2/24", f"2001:2:0:{path + 1:x}::2/120")


def _near(path: int) -> Port:
    return Port(f"near{path}", _mac(path, 3), "", "")


def _far(path: int) -> Port:
    return Port(f"far{path}", _mac(path, 4), "", "")


def _mac(path: int, number: int) -> str:
    return f"02:77:65:69:{path:02x}:5{number}"


@contextmanager
@shielded
def connected(paths: int = 1) -> Iterator[Hosts]:
    """Two hosts with ``paths`` paths between them, for the duration of the ``with`` block.

    Raises
    ------
    MissingCapability, LabError
        They cannot be made.
    """
    with ExitStack() as stack:
        with explained("an emulated path"):
            client, link, server = stack.enter_context(quiet("client", "link", "server"))
            for path in range(paths):
                _wire(client, link, server, path)
        yield Hosts(client, link, server)


def _wire(client: Namespace, link: Namespace, server: Namespace, path: int) -> None:
    here, there = client_port(path), server_port(path)
    with descriptor(link) as fd:
        client.call(partial(interface.create_pair, here, _near(path), fd, MTU_BYTES))
        server.call(partial(interface.create_pair, there, _far(path), fd, MTU_BYTES))
    client.call(partial(_bring_up, here, there))
    server.call(partial(_bring_up, there, here))


def _bring_up(port: Port, other: Port) -> None:
    interface.bring_up([port], [])
    # A handshake that waits for address resolution says nothing about the path.
    interface.know(other, port.name)
