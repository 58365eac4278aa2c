"""The packets of a transfer, recorded at both ends where that is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from weirlab.link.bindings import Recorder
    from weirlab.link.settings import RecorderSettings

    Opened = Callable[[RecorderSettings, str], Recorder]
    """Opens a recorder at an interface."""

End = Literal["client", "server", "between"]

SNAP_BYTES: Final = 128
"""Most bytes kept of the headers of a packet."""
FILES: Final[Mapping[End, str]] = {
    "client": "capture.pcapng",
    "server": "server-capture.pcapng",
    "between": "between-capture.pcapng",
}
"""Names of the files in a run."""
MOST_BYTES: Final = 1 << 30
"""The largest capture that is accepted from a server."""
AUTO: Final = "auto"
NONE: Final = "none"
MUST: Final = "must"
WISHES: Final = (AUTO, NONE, MUST)
BETWEEN: Final = "between:"
"""Begins the name of an interface that forwards the connection."""


@dataclass(frozen=True)
class CapturePoints:
    """What is captured. At the client: ``auto`` (if it is allowed), ``none``, ``must`` or an interface.
    At the server: one of the first three. In between: ``none`` or an interface of this host.
    """

    client: str = AUTO
    server: str = AUTO
    between: str = NONE


@dataclass
class TransferCapture:
    """A capture, or why there is none."""

    path: Path | None
    interface: str = ""
    why_not: str = ""
    packets: int | None = None
    lost_packets: int = 0
    """Packets that came too fast to be recorded, or that the disk did not take."""
    left_out_packets: int = 0
    """Packets beyond a limit of bytes."""
    ended_early: bool = False
    """A limit of time was reached before the end."""
    shift_ns: int = 0
    """What to add to its times to get those of the client's clock."""
    unclocked: bool = False
    """The offset of its clock from the client's is not known yet."""

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return not (self.lost_packets or self.left_out_packets or self.ended_early)


@dataclass(frozen=True)
class LiveCapture:
    """A capture in progress on this host. It has no packets of connections that nobody names."""

    capture: TransferCapture
    _recorder: Recorder | None = None

    def name_connections(self, started: Mapping[str, Any]) -> None:
        """Name the connections of the transfer, from the event ``started`` of the engine."""
        if self._recorder is not None:
            self._recorder.name_connections(
                [(tuple(each["local"]), tuple(each["remote"])) for each in started["connections"]]
            )


def ends(text: str, *, reverse: bool) -> CapturePoints:
    """The captures that ``--capture`` requests; with ``reverse`` the server sends, otherwise the client.

    Raises
    ------
    InputError
        It names a place twice, or mixes ``auto`` or ``none`` with ends.
    """
    names = [each.strip() for each in text.split(",")]
    both = [name for name in names if not name.startswith(BETWEEN)]
    found: dict[End, str] = {}
    if both == [AUTO] or names == [NONE]:
        found |= {"client": both[0], "server": both[0]}
        both = []
    for name in both:
        if name in ("", AUTO, NONE):
            raise InputError(
                f"--capture {quoted(text)}: expected auto, none, or one or more of sender, receiver, an "
                "interface of this host, and between:INTERFACE"
            )
        server = name == ("sender" if reverse else "receiver")
        end: End = "server" if server else "client"
        if end in found:
            raise InputError(f"--capture {quoted(text)} names the {end} twice")
        found[end] = MUST if name in ("sender", "receiver") else name
    between = [name.removeprefix(BETWEEN).strip() for name in names if name.startswith(BETWEEN)]
    if len(between) > 1 or "" in between:
        raise InputError(f"--capture {quoted(text)}: expected one interface after between:")
    return CapturePoints(found.get("client", NONE), found.get("server", NONE), *between)


@contextmanager
def capturing(
    host: str,
    port: int,
    folder: Path,
    wanted: str,
    end: End = "client",
    most_bytes: int | None = None,
    opened: Opened | None = None,
) -> Iterator[LiveCapture]:
    """Record the headers of connections to ``port`` of ``host`` that begin while the block lasts.

    :meth:`Recording.name_connections` says which; other people's connections are never written to disk.
    ``wanted`` as in :class:`CapturePoints`. Packets beyond ``most_bytes`` are left out. ``opened`` opens the
    recorder; None: :func:`opened_here`.

    Raises
    ------
    InputError, LabError, MissingCapability
        Packets must be recorded, but cannot be.
    """
    if wanted == NONE:
        yield LiveCapture(TransferCapture(None, why_not="it was not requested"))
        return
    from weirlab.link.settings import RecorderSettings

    path = folder / FILES[end]
    recorder = None
    try:
        interface = _towards(host, port) if wanted in (AUTO, MUST) else wanted
        settings = RecorderSettings(path, tcp_port=port, snap_bytes=SNAP_BYTES, most_bytes=most_bytes)
        recorder = (opened or opened_here)(settings, interface)
        recorder.start()
        found = TransferCapture(path, interface)
    except (InputError, LabError, MissingCapability) as error:
        if wanted != AUTO:
            raise
        recorder, found = None, TransferCapture(None, why_not=str(error).split(";")[0].rstrip("."))
    try:
        yield LiveCapture(found, recorder)
    finally:
        if recorder is not None:
            recorded = recorder.stop()
            counts = recorded["interfaces"]
            found.packets = sum(count["written"] for count in counts)
            found.lost_packets = sum(count["lost"] for count in counts)
            not_written = sum(count["not_written"] for count in counts)
            # A full disk is not a limit that was set.
            if most_bytes is None or recorded["failure"]:
                found.lost_packets += not_written
            else:
                found.left_out_packets = not_written


def opened_here(settings: RecorderSettings, interface: str, netns: str | None = None) -> Recorder:
    """A recorder in this process, at an interface in ``netns``; raises the errors of :func:`capturing`."""
    from weirlab.link import bindings

    return bindings.open_recorder(
        settings, path=str(settings.path), interface=interface, netns=netns, comment="weir tcp measure"
    )


def fetched(told: Mapping[str, Any] | None, path: Path | None, wanted: str) -> TransferCapture:
    """The capture of another host, from the event ``recorded`` of the engine; by that host's clock."""
    if told is None or path is None:
        return TransferCapture(
            None, why_not="it was not requested" if wanted == NONE else "it was not delivered"
        )
    if told["why_not"] is not None:
        return TransferCapture(None, why_not=told["why_not"])
    return TransferCapture(
        path,
        interface=told["interface"],
        packets=told["packets"],
        lost_packets=told["lost"],
        left_out_packets=told["left_out"],
        ended_early=told["ended_early"],
    )


def _towards(host: str, port: int) -> str:
    """The interface through which packets to ``host`` leave."""
    import socket

    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with IPRoute() as routes:
            route = routes.route("get", dst=address[4][0], family=address[0])[0]
            index = route.get_attr("RTA_OIF")
        return socket.if_indextoname(index)
    except (OSError, UnicodeError, NetlinkError, IndexError, TypeError) as error:
        raise LabError(f"the interface towards {host} cannot be determined ({error})") from error
