"""Ports of this machine that a lab borrows: moved into its namespaces, and put back as they were.

A journal beside the lab's lock has one line of JSON for each port, written before the port is moved. Whoever
finds the journal of a dead owner puts the ports back. Moving an interface to another namespace makes the
kernel forget its addresses, routes and sysctls, so they are in the journal.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import InputError
from weirlab.base.interrupts import shielded
from weirlab.lab.linux import namespace, syscalls
from weirlab.lab.linux.namespace import Namespace, in_thread

JOURNAL: Final = ".ports"
"""Suffix of the journal, whose name is otherwise that of the lab's lock."""

_UP: Final = 0x1
_TEMPORARY: Final = 0x01
_KERNEL: Final = 2
"""RTPROT_KERNEL: routes that follow from addresses."""
_LOCAL_TABLE: Final = 255
_LINK_SCOPE: Final = 253
_KEPT_FLAGS: Final = 0x200 | 0x02
"""IFA_F_NOPREFIXROUTE and IFA_F_NODAD."""

T = TypeVar("T")
PortState = Mapping[str, Any]
"""What a port was like: ``name``, ``mac``, ``mtu``, ``up``, ``addresses``, ``routes``, ``sysctls``, its
namespace (``origin``, as device and inode) and that of the lab (``netns``)."""


@shielded
def borrow(journal: Path, name: str, into: Namespace) -> PortState:
    """Move the port ``name`` of the calling thread's namespace ``into`` a namespace of the lab.

    Raises ``InputError`` if there is no such port, ``NetlinkError`` if it cannot be moved.
    """
    with IPRoute() as netlink:
        found = netlink.link_lookup(ifname=name)
        if not found:
            raise InputError(f"there is no port {name} here; weir ports lists them")
        state = {**_state(netlink, found[0]), "netns": into.name}
        fd = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _note(fd, state)
        finally:
            os.close(fd)
        with into.descriptor() as there:
            netlink.link("set", index=found[0], net_ns_fd=there)
    return state


def _note(journal: int, state: PortState) -> None:
    """Append to the journal; raises ``OSError`` unless all of it is there, as on a full file system."""
    line = (json.dumps(state) + "\n").encode()
    if os.write(journal, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@shielded
def give_back(journal: Path) -> list[PortState]:
    """Put back what ``journal`` records; returns the ports that could not be. May be called again."""
    states = states_in(journal)
    kept = [state for state in reversed(states) if not _put_back(state)]
    if kept and len(kept) < len(states):
        # In one step: whoever is killed here leaves one journal or the other.
        shorter = journal.with_name(f"{journal.name}-new")
        shorter.write_text("".join(json.dumps(state) + "\n" for state in reversed(kept)))
        shorter.replace(journal)
    elif not kept:
        journal.unlink(missing_ok=True)
    return kept


def states_in(journal: Path) -> list[PortState]:
    """The ports that a journal records."""
    states = []
    with suppress(FileNotFoundError):
        for line in journal.read_text().splitlines():
            # The last line is incomplete if its writer was killed, and then nothing was moved.
            with suppress(ValueError):
                states.append(json.loads(line))
    return states


def _state(netlink: Any, index: int) -> dict[str, Any]:
    (link,) = netlink.get_links(index)
    name = link.get_attr("IFLA_IFNAME")
    return {
        "name": name,
        "mac": link.get_attr("IFLA_ADDRESS"),
        "mtu": link.get_attr("IFLA_MTU"),
        "up": bool(link["flags"] & _UP),
        "addresses": [
            address for each in netlink.get_addr(index=index) if (address := _address(each)) is not None
        ],
        "routes": [
            route
            for family in (socket.AF_INET, socket.AF_INET6)
            for each in netlink.get_routes(family=family, oif=index)
            if (route := _route(each)) is not None
        ],
        "sysctls": _sysctls(name),
        "origin": list(namespace.identity()),
    }


def _address(message: Any) -> dict[str, Any] | None:
    flags = message.get_attr("IFA_FLAGS") or message["flags"]
    # Link-local addresses come back when the port is set up; temporary ones are the kernel's own.
    if (message["family"] == socket.AF_INET6) and (message["scope"] == _LINK_SCOPE or flags & _TEMPORARY):
        return None
    local, peer = message.get_attr("IFA_LOCAL"), message.get_attr("IFA_ADDRESS")
    found = {
        "family": message["family"],
        "address": peer,
        "local": local,
        "prefixlen": message["prefixlen"],
        "scope": message["scope"],
        "broadcast": message.get_attr("IFA_BROADCAST"),
        "label": message.get_attr("IFA_LABEL"),
        "flags": flags & _KEPT_FLAGS,
    }
    return {key: value for key, value in found.items() if value is not None}


def _route(message: Any) -> dict[str, Any] | None:
    table = message.get_attr("RTA_TABLE") or message["table"]
    if message["proto"] == _KERNEL or table == _LOCAL_TABLE:
        return None
    dst = message.get_attr("RTA_DST")
    default = "0.0.0.0" if message["family"] == socket.AF_INET else "::"
    found = {
        "family": message["family"],
        "dst": f"{dst or default}/{message['dst_len']}",
        "gateway": message.get_attr("RTA_GATEWAY"),
        "prefsrc": message.get_attr("RTA_PREFSRC"),
        "priority": message.get_attr("RTA_PRIORITY"),
        "table": table,
        "proto": message["proto"],
        "scope": message["scope"],
        "type": message["type"],
        "tos": message["tos"],
    }
    return {key: value for key, value in found.items() if value is not None}


def _sysctls(name: str) -> dict[str, str]:
    """The settings of this interface alone, for IPv4 and IPv6."""
    found = {}
    for folder in (Path("/proc/sys/net", family, "conf", name) for family in ("ipv4", "ipv6")):
        with suppress(OSError):
            for path in folder.iterdir():
                # Some cannot be read, such as a secret that was not set.
                with suppress(OSError):
                    found[str(path)] = path.read_text().strip()
    return found


def _put_back(state: PortState) -> bool:
    """Whether the port is where it was, or gone."""
    origin = _origin(state)
    if origin is None:
        return not _is_inside(state)
    try:
        with suppress(FileNotFoundError):
            Namespace(state["netns"]).call(lambda: _move(state["name"], origin))
        _inside(origin, lambda: _restore(state))
    except (OSError, NetlinkError):
        return False
    finally:
        os.close(origin)
    return True


def _is_inside(state: PortState) -> bool:
    """Whether the port is in the lab's namespace."""
    try:
        return bool(Namespace(state["netns"]).call(lambda: _index(state["name"])))
    except OSError:
        return False


def _origin(state: PortState) -> int | None:
    """A descriptor of the namespace that the port came from; None if there is none like it."""
    wanted = tuple(state["origin"])
    candidates = [Path("/proc/thread-self/ns/net"), Path("/proc/1/ns/net")]
    with suppress(OSError):
        candidates += sorted(namespace.DIRECTORY.iterdir())
    for path in candidates:
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            found = os.fstat(fd)
            if (found.st_dev, found.st_ino) == wanted:
                return fd
            os.close(fd)
    return None


def _inside(fd: int, action: Callable[[], T]) -> T:
    def enter_and_act() -> T:
        found = os.fstat(fd)
        if namespace.identity() != (found.st_dev, found.st_ino):
            syscalls.set_net(fd)
        return action()

    return in_thread(enter_and_act)


def _index(name: str) -> int:
    with IPRoute() as netlink:
        found = netlink.link_lookup(ifname=name)
        return int(found[0]) if found else 0


def _move(name: str, there: int) -> None:
    if index := _index(name):
        with IPRoute() as netlink:
            netlink.link("set", index=index, net_ns_fd=there)


def _restore(state: PortState) -> None:
    """Make the port as it was; nothing if it is gone, or another one has its name."""
    with IPRoute() as netlink:
        found = netlink.link_lookup(ifname=state["name"])
        if not found:
            return
        index = found[0]
        (link,) = netlink.get_links(index)
        if link.get_attr("IFLA_ADDRESS") != state["mac"]:
            return
        if link.get_attr("IFLA_MTU") != state["mtu"]:
            netlink.link("set", index=index, mtu=state["mtu"])
        for path, value in state["sysctls"].items():
            with suppress(OSError):
                if Path(path).read_text().strip() != value:
                    Path(path).write_text(f"{value}\n")
        netlink.link("set", index=index, state="up" if state["up"] else "down")
        for address in state["addresses"]:
            with _already_there():
                netlink.addr("add", index=index, **address)
        for route in state["routes"]:
            with _already_there():
                netlink.route("add", oif=index, **route)


@contextmanager
def _already_there() -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
