"""The process that records the packets of a test; see :mod:`recording`.

Its arguments are its folder, the interface, the port of the test, the largest size in bytes, and the user
whose connections it may record. It opens the interface, gives up all rights but to its folder, and starts. It
writes lines of JSON: ``{}`` when it records, or ``{"error": {"kind": ..., "message": ...}}``, and at the end
of its standard input what the recorder returns. A line of standard input has connections of the test.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final, TextIO

from weirlab.base import confinement
from weirlab.base.confinement import Confinement
from weirlab.base.errors import WeirError
from weirlab.link.settings import RecorderSettings
from weirlab.transfers.tcp.measure import capturing

Address = tuple[str, int]
Connection = tuple[Address, Address]

_TABLES: Final = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_LEAST_COLUMNS: Final = 8


def main(folder: str, interface: str, port: str, most_bytes: str, user: str) -> None:
    """Record until the end of standard input."""
    try:
        settings = RecorderSettings(
            Path(folder) / capturing.FILES["client"],
            tcp_port=int(port),
            snap_bytes=capturing.SNAP_BYTES,
            most_bytes=int(most_bytes),
        )
        recorder = capturing.opened_here(settings, interface)
        with ExitStack() as stack:
            # They show the connections of the network that this process leaves.
            tables = [stack.enter_context(open(name)) for name in _TABLES if os.path.exists(name)]
            confinement.enter(Confinement(write=(Path(folder),)))
            recorder.start()
            _tell({})
            for line in sys.stdin:
                own = set(connections(tables, int(user)))
                named = [(_address(local), _address(remote)) for local, remote in json.loads(line)]
                recorder.name_connections([each for each in named if each in own])
            _tell(recorder.stop())
    except WeirError as error:
        _tell({"error": {"kind": type(error).__name__, "message": str(error)}})


def connections(tables: Iterable[TextIO], user: int) -> Iterator[Connection]:
    """The TCP connections of ``user``, from tables as in /proc/net (proc_net_tcp(5))."""
    for table in tables:
        table.seek(0)
        for line in table.read().splitlines()[1:]:
            columns = line.split()
            if len(columns) >= _LEAST_COLUMNS and columns[7] == str(user):
                yield _from_table(columns[1]), _from_table(columns[2])


def _from_table(text: str) -> Address:
    """``0100007F:1F90``: words of 32 bits in the order of this host, and a port."""
    words, _, port = text.partition(":")
    parts = [int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8)]
    return _address((str(ip_address(b"".join(parts))), int(port, 16)))


def _address(address: Iterable[Any]) -> Address:
    """An address and a port; without the zone, and IPv4 as such."""
    host, port = address
    found = ip_address(str(host).partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(found), int(port)


def _tell(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
