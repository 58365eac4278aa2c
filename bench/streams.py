"""One end of a transfer that bench/psock.py measures: ``streams.py send|receive METHOD SECONDS``.

``tcp`` sends over one connection on the first path, ``mptcp`` over a subflow on each of two paths, and any
psock scheduler over two streams. The data are not checked. Prints one JSON document: bytes, seconds, and the
CPU time of this end without the start of Python.
"""

from __future__ import annotations

import json
import resource
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

from weirlab._engine import ParallelListener, ParallelSocket
from weirlab.transfers.parallel import namespaces
from weirlab.transfers.psock.copying import SessionSettings

HERE: Final = ("198.18.1.1", "198.18.2.1")
THERE: Final = ("198.18.1.2", "198.18.2.2")
PORT: Final = 29101
READY: Final = "listening"
PLAIN: Final = ("tcp", "mptcp")
_PIECE: Final = 1 << 20
_WAIT_S: Final = 30.0


def how(scheduler: str) -> dict[str, object]:
    """The default settings of ``weir psock send``, with the given scheduler."""
    return SessionSettings(
        "a token of benchmarks", scheduler, 32 << 10, 4 << 20, 64 << 10, 15.0, wait_for_paths=True
    ).plain()


def main() -> int:
    role, method, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    print(json.dumps(_receive(method) if role == "receive" else _send(method, seconds)))
    return 0


def _socket(method: str) -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, namespaces.PROTOCOL if method == "mptcp" else 0)


def _receive(method: str) -> dict[str, float]:
    if method == "mptcp":
        namespaces.announce(THERE[1:])
    if method in PLAIN:
        with _socket(method) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((THERE[0], PORT))
            listener.listen()
            listener.settimeout(_WAIT_S)
            print(READY, flush=True)
            connection, _ = listener.accept()
        with connection:
            room = memoryview(bytearray(_PIECE))
            return _read(lambda: connection.recv_into(room))
    sessions = ParallelListener([(address, PORT) for address in THERE], how(method))
    print(READY, flush=True)
    latest_s = time.monotonic() + _WAIT_S
    while (accepted := sessions.accept(0.1)) is None:
        if time.monotonic() > latest_s:
            raise SystemExit("no session came")
    session = accepted[0]
    found = _read(lambda: len(session.read(_PIECE) or b""))
    session.finish()
    session.close(_WAIT_S)
    return {**found, "reorder_bytes": session.report()["reorder_peak_bytes"]}


def _read(read: Callable[[], int]) -> dict[str, float]:
    total = read()
    began_s, cpu_s = time.monotonic(), _cpu_s()
    while count := read():
        total += count
    return {"bytes": total, "seconds": time.monotonic() - began_s, "cpu_s": _cpu_s() - cpu_s}


def _send(method: str, seconds: float) -> dict[str, float]:
    piece = bytes(_PIECE)
    if method == "mptcp":
        namespaces.accept_announced()
    if method in PLAIN:
        with _socket(method) as connection:
            connection.connect((THERE[0], PORT))
            return _write(lambda: connection.sendall(piece), seconds)
    routes = [(here, there, PORT) for here, there in zip(HERE, THERE, strict=True)]
    session = ParallelSocket.connect(routes, how(method))
    found = _write(lambda: session.write_all(piece), seconds)
    session.finish()
    session.close(_WAIT_S)
    return found


def _write(write: Callable[[], None], seconds: float) -> dict[str, float]:
    total, began_s, cpu_s = 0, time.monotonic(), _cpu_s()
    while (took_s := time.monotonic() - began_s) < seconds:
        write()
        total += _PIECE
    return {"bytes": total, "seconds": took_s, "cpu_s": _cpu_s() - cpu_s}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
