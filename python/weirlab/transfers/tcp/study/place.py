"""Client and server in network namespaces of this host, with an emulated path between them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

from weirlab.base.interrupts import shielded
from weirlab.links.emulator import hosts
from weirlab.links.emulator.running import EmulatedLink, emulated_link
from weirlab.transfers.tcp import serving
from weirlab.transfers.tcp.measure.capturing import MOST_BYTES

if TYPE_CHECKING:
    from weirlab.base.files import Inputs
    from weirlab.lab.linux.namespace import Namespace
    from weirlab.transfers.tcp.study.section import TcpSection

CLIENT: Final = hosts.client_port()
SERVER: Final = hosts.server_port()

T = TypeVar("T")


@dataclass(frozen=True)
class TransferSite:
    """The client's namespace, and where its server listens."""

    client: Namespace
    host: str
    token: str
    link: EmulatedLink
    server: Any
    """``weirlab._engine.TcpServer``."""

    def inside(self, make: Callable[[], T]) -> T:
        """The result of ``make``, called in the client's namespace."""
        return self.client.call(make)


@contextmanager
@shielded
def built(asked: TcpSection, inputs: Inputs) -> Iterator[TransferSite]:
    """The namespaces, the path and a server, while the block lasts; ``inputs`` opens the traces of the path.

    Raises
    ------
    InputError
        A trace cannot be read, or may not be.
    MissingCapability, LabError
        They cannot be set up.
    """
    assert asked.path is not None
    path = asked.path.with_traces(inputs)
    with ExitStack() as stack:
        made = stack.enter_context(hosts.connected())
        # Everything between the namespaces is known in advance; changed interface settings need no mention.
        emulated = stack.enter_context(emulated_link(*made.ends(), path["up"], path["down"]))
        token = secrets.token_hex(16)
        host = SERVER.address
        folder = stack.enter_context(TemporaryDirectory(prefix="weir-serve-"))
        service = made.server.call(partial(_serve, host, asked, token, folder))
        stack.callback(service.stop)
        yield TransferSite(made.client, host, token, emulated, service)


_CAPTURES: Final = serving.Captures(most_bytes=MOST_BYTES, most_s=serving.MOST_S, interface=SERVER.name)


def _serve(address: str, asked: TcpSection, token: str, folder: str) -> Any:
    from weirlab._engine import TcpServer

    return TcpServer(
        address=address,
        port=asked.port,
        token=token,
        most_ns=None,
        most_bytes=None,
        most_clients=1,
        options=[*asked.buffers(not asked.reverse), *asked.server_options.items()],
        capture=_CAPTURES.allowed(folder),
    )
