"""Two applications that talk over TCP, one of which behaves badly on purpose, and say how long it did.

    python talkers.py receive '{"port": 5001, "mode": "fast"}'
    python talkers.py send '{"host": "198.18.0.2", "port": 5001, "mode": "bulk", "seconds": 5}'

Each prints a line of JSON when it is ready, and one at the end: `began_ns` and `ended_ns` (since 1970), and
`held_s`, the time for which it was itself the reason that nothing moved.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import socket
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import Any

CHUNK = 65_536
STEP_S = 0.001


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def prepared(order: dict[str, Any]) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for name, value in order.get("options", {}).items():
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        made.setsockopt(level, getattr(socket, name), value.encode() if isinstance(value, str) else value)
    return made


# -- receivers: each returns the time for which it kept data from coming ------------------------------------


def fast(talk: socket.socket, order: dict[str, Any]) -> float:
    while talk.recv(4 * CHUNK):
        pass
    return 0.0


def sleepy(talk: socket.socket, order: dict[str, Any]) -> float:
    """Reads for `reads_s`, then for `sleeps_s` not at all; counts the time in which its buffer was full."""
    held = 0.0
    turn = time.monotonic() + order["reads_s"]
    while talk.recv(4 * CHUNK):
        if time.monotonic() < turn:
            continue
        seen: list[tuple[float, int]] = []
        ends = time.monotonic() + order["sleeps_s"]
        while time.monotonic() < ends:
            unread = array.array("i", [0])
            fcntl.ioctl(talk.fileno(), termios.FIONREAD, unread)
            seen.append((time.monotonic(), unread[0]))
            # It fills at once or never: then a reader that sleeps is not to want a CPU either.
            filling = time.monotonic() < ends - 0.8 * order["sleeps_s"]
            time.sleep(STEP_S if filling else max(ends - time.monotonic(), 0.0))
        unread = array.array("i", [0])
        fcntl.ioctl(talk.fileno(), termios.FIONREAD, unread)
        seen.append((time.monotonic(), unread[0]))
        # What still comes when it is full are the bytes of probes.
        full = next(at for at, unread in seen if unread >= 0.95 * seen[-1][1])
        held += ends - full
        turn = time.monotonic() + order["reads_s"]
    return held


def waited_s() -> float:
    """For which this process was ready to run, and did not (Documentation/scheduler/sched-stats.rst)."""
    with open("/proc/self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def starved(talk: socket.socket, order: dict[str, Any]) -> float:
    """Shares its CPU with a process that never sleeps, as one that may run only when nobody else wants to."""
    cpu = max(os.sched_getaffinity(0))
    hog = os.fork()
    if hog == 0:
        os.sched_setaffinity(0, {cpu})
        ends = time.monotonic() + order["seconds"]
        while time.monotonic() < ends:
            pass
        os._exit(0)
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    before = waited_s()
    while talk.recv(4 * CHUNK):
        pass
    os.waitpid(hog, 0)
    return waited_s() - before


def answering(talk: socket.socket, order: dict[str, Any]) -> float:
    """Answers each message of `message_bytes` by a byte."""
    got = 0
    while part := talk.recv(CHUNK):
        got += len(part)
        while got >= order["message_bytes"]:
            got -= order["message_bytes"]
            talk.send(b"x")
    return 0.0


# -- senders -----------------------------------------------------------------------------------------------


def bulk(talk: socket.socket, order: dict[str, Any]) -> float:
    """Writes as much as it may; counts the time in which it was not let."""
    data, ends, held = bytes(order.get("chunk", CHUNK)), time.monotonic() + order["seconds"], 0.0
    while (before := time.monotonic()) < ends:
        talk.sendall(data)
        held += time.monotonic() - before
    return held


def slow(talk: socket.socket, order: dict[str, Any]) -> float:
    """Writes `write_bytes` every `every_s` for a `share` of the time, then all it may; counts the pauses."""
    begun, held = time.monotonic(), 0.0
    while time.monotonic() < begun + order["seconds"] * order["share"]:
        talk.sendall(bytes(order["write_bytes"]))
        before = time.monotonic()
        time.sleep(order["every_s"])
        held += time.monotonic() - before
    bulk(talk, {"seconds": order["seconds"] * (1 - order["share"])})
    return held


def asking(talk: socket.socket, order: dict[str, Any]) -> float:
    """Writes a message in two parts and waits for the answer; counts what is beyond a round trip."""
    half, ends, held = bytes(order["message_bytes"] // 2), time.monotonic() + order["seconds"], 0.0
    while (before := time.monotonic()) < ends:
        talk.sendall(half)
        talk.sendall(half)
        talk.recv(1)
        held += time.monotonic() - before - order["rtt_s"]
    return held


@contextlib.contextmanager
def others(order: dict[str, Any]) -> Iterator[None]:
    """Datagrams of somebody else through the same bottleneck, for the last `share` of the time."""
    if not order.get("foreign_bps"):
        yield
        return

    def work() -> None:
        time.sleep(order["seconds"] * (1 - order["share"]))
        ends, gap = time.monotonic() + order["seconds"] * order["share"], 1_242 * 8 / order["foreign_bps"]
        due = time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            while due < ends:
                out.sendto(bytes(1_200), (order["host"], 9))
                due += gap
                time.sleep(max(due - time.monotonic(), 0.0))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


RECEIVERS = {"fast": fast, "sleepy": sleepy, "starved": starved, "answering": answering}
SENDERS = {"bulk": bulk, "slow": slow, "asking": asking}


def receive(order: dict[str, Any]) -> None:
    with prepared(order) as listener:
        listener.bind(("", order["port"]))
        listener.listen(1)
        say(ready=True, pid=os.getpid())
        talk, _ = listener.accept()
        with talk:
            began = time.time_ns()
            held_s = RECEIVERS[order["mode"]](talk, order)
            say(began_ns=began, ended_ns=time.time_ns(), held_s=held_s)


def send(order: dict[str, Any]) -> None:
    with prepared(order) as talk, others(order):
        talk.connect((order["host"], order["port"]))
        say(ready=True, pid=os.getpid())
        began = time.time_ns()
        held_s = SENDERS[order["mode"]](talk, order)
        ended = time.time_ns()
        talk.shutdown(socket.SHUT_WR)
        while talk.recv(CHUNK):
            pass
        say(began_ns=began, ended_ns=ended, held_s=held_s)


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](json.loads(sys.argv[2]))
