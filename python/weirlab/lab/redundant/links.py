"""Sets all links of a firewall down at once."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

from weirlab.lab.linux.namespace import Namespace

_RTM_NEWLINK: Final = 16
_NLMSG_ERROR: Final = 2
_NLM_F_REQUEST_ACK: Final = 5
_IFLA_GROUP: Final = 27
_IFF_UP: Final = 1
_REQUEST: Final = struct.Struct("=IHHIIBxHiIIHHI")
_ANSWER: Final = struct.Struct("=IHHIIi")
_BUFFER_BYTES: Final = 1 << 12


class InterfaceGroup:
    """Sets a group of interfaces down with one command, so under a single hold of the kernel's lock.

    A request for interface 0 that names a group applies to all of it (``rtnl_group_changelink`` in
    net/core/rtnetlink.c). The socket is opened beforehand: entering a namespace takes its time.
    """

    def __init__(self, namespace: Namespace, group: int) -> None:
        self._group = group
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._socket = namespace.call(lambda: socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE))

    def pull(self) -> None:
        """Set the group down; returns when all of it is down."""
        header = (_REQUEST.size, _RTM_NEWLINK, _NLM_F_REQUEST_ACK, 0, 0)
        # struct ifinfomsg: family, type, index, flags, and the mask of flags to change.
        link = (socket.AF_UNSPEC, 0, 0, 0, _IFF_UP)
        self._socket.send(_REQUEST.pack(*header, *link, 8, _IFLA_GROUP, self._group))
        _, kind, _, _, _, code = _ANSWER.unpack_from(self._socket.recv(_BUFFER_BYTES))
        if kind == _NLMSG_ERROR and code:
            raise OSError(-code, f"cannot set the firewall's links down: {os.strerror(-code)}")

    def close(self) -> None:
        self._socket.close()
