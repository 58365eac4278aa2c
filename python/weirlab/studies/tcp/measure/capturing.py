"""The same connections captured at this end, where that is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.errors import InputError, LabError, MissingCapability, WeirError

SNAP_BYTES: Final = 128
"""Headers."""
FILE: Final = "capture.pcapng"


@dataclass
class Capture:
    """A capture that goes on, or why there is none."""

    path: Path | None
    interface: str = ""
    why_not: str = ""


@contextmanager
def capturing(host: str, port: int, folder: Path, wanted: str, netns: str | None = None) -> Iterator[Capture]:
    """Record what goes to and from ``port`` of ``host`` while the block lasts.

    ``wanted``: ``auto`` (where it is allowed), ``none``, or an interface, which then must be possible and is
    in the namespace ``netns``.

    Raises
    ------
    InputError, LabError, MissingCapability
        An interface was named, and cannot be recorded.
    """
    if wanted == "none":
        yield Capture(None, why_not="it was not wanted")
        return
    from weirlab.link import bindings
    from weirlab.link.settings import Recording

    path = folder / FILE
    recorder = None
    try:
        interface = _towards(host, port) if wanted == "auto" else wanted
        recorder = bindings.open_recorder(
            Recording(path, filter=f"tcp port {port}", snap_bytes=SNAP_BYTES),
            path=str(path),
            interface=interface,
            netns=netns,
            comment="weir tcp measure",
        )
        recorder.start()
        found = Capture(path, interface)
    except (InputError, LabError, MissingCapability) as error:
        if wanted != "auto":
            raise
        recorder, found = None, Capture(None, why_not=_first_clause(error))
    try:
        yield found
    finally:
        if recorder is not None:
            recorder.stop()


def _first_clause(error: WeirError) -> str:
    return str(error).split(";")[0].rstrip(".")


def _towards(host: str, port: int) -> str:
    """The interface by which packets to ``host`` leave."""
    import socket

    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with IPRoute() as routes:
            route = routes.route("get", dst=address[4][0], family=address[0])[0]
            index = route.get_attr("RTA_OIF")
        return socket.if_indextoname(index)
    except (OSError, NetlinkError, IndexError, TypeError) as error:
        raise LabError(f"the interface towards {host} cannot be told ({error})") from error
