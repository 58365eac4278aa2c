"""Two applications that talk over TCP; one misbehaves on purpose, and they report for how long.

    python talkers.py receive '{"port": 5001, "mode": "fast"}'
    python talkers.py send '{"host": "198.18.0.2", "port": 5001, "mode": "bulk", "seconds": 5}'

Each prints a line of JSON when it is ready, and one at the end: `began_ns` and `ended_ns` (since 1970), and
`held_s`, the time for which it was itself the limit. Receivers that held up data report the periods instead:
`held_ns`, pairs of times (since 1970).
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import Any

CHUNK = 65_536
STEP_S = 0.001
WORK_BYTES = 1 << 19
"""Hashed before each write, some 2 ms on an idle CPU."""
FULL = 0.95
"""Share of a buffer's final fill from which it counts as full: only probes add bytes after that."""
GAP_S = 0.05
"""Longest gap between foreign datagrams that counts; longer ones are pauses of their sender."""
NUMBERS = {"SO_MAX_PACING_RATE": 47, "SO_RCVBUFFORCE": 33}
"""Options that Python does not name (asm-generic/socket.h)."""
STAMPS = 35
"""``SO_TIMESTAMPNS`` (asm-generic/socket.h)."""

Told = dict[str, Any]


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def prepared(order: dict[str, Any]) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for name, value in order.get("options", {}).items():
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        number = NUMBERS.get(name) or getattr(socket, name)
        made.setsockopt(level, number, value.encode() if isinstance(value, str) else value)
    return made


def unread(talk: socket.socket) -> int:
    """Bytes that are waiting to be read."""
    waiting = array.array("i", [0])
    fcntl.ioctl(talk.fileno(), termios.FIONREAD, waiting)
    return waiting[0]


# -- receivers: each reports for how long it held up data ----------------------------------------------------


def fast(talk: socket.socket, order: dict[str, Any]) -> Told:
    with contextlib.suppress(ConnectionResetError):
        while talk.recv(4 * CHUNK):
            pass
    return {"held_s": 0.0}


def sleepy(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Read for `reads_s`, then sleep for `sleeps_s`, and so on; count the time with a full buffer."""
    held: list[tuple[float, float]] = []
    turn = time.monotonic() + order["reads_s"]
    while talk.recv(4 * CHUNK):
        if time.monotonic() < turn:
            continue
        seen: list[tuple[float, int]] = []
        ends = time.monotonic() + order["sleeps_s"]
        # It fills soon or never. Another thread watches, so that the reader itself does not want a CPU.
        looking = threading.Thread(target=look, args=(talk, ends - 0.6 * order["sleeps_s"], seen))
        looking.start()
        time.sleep(ends - time.monotonic())
        # A busy host may wake it late: up to here it did not read.
        woken, last = time.monotonic(), unread(talk)
        looking.join()
        full = next((at for at, waiting in seen if waiting >= FULL * last), woken)
        held.append((full, woken))
        turn = woken + order["reads_s"]
    return {"held_ns": since_1970(held)}


def since_1970(held: list[tuple[float, float]]) -> list[tuple[int, int]]:
    """Times of the monotonic clock, in s, as ns since 1970."""
    apart = time.time_ns() - time.monotonic_ns()
    return [(round(since * 1e9) + apart, round(until * 1e9) + apart) for since, until in held]


def look(talk: socket.socket, until: float, seen: list[tuple[float, int]]) -> None:
    while (now := time.monotonic()) < until:
        seen.append((now, unread(talk)))
        time.sleep(STEP_S)


def waited_s() -> float:
    """Time for which this process was ready to run but waited (Documentation/scheduler/sched-stats.rst)."""
    with open("/proc/self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def starved(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Share a CPU with a process that never sleeps, under SCHED_IDLE.

    Every byte costs some work, because otherwise 0.3 % of a CPU would be enough to read at 50 Mbit/s. The
    other process watches how full the buffer is.
    """
    cpu = max(os.sched_getaffinity(0))
    ours, theirs = os.pipe()
    hog = os.fork()
    if hog == 0:
        os.sched_setaffinity(0, {cpu})
        os.write(theirs, json.dumps(crowd(talk, time.monotonic() + order["seconds"])).encode())
        os._exit(0)
    os.close(theirs)
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    before = waited_s()
    while data := talk.recv(4 * CHUNK):
        hashlib.sha3_512(data)
    waited = waited_s() - before
    with os.fdopen(ours) as file:
        told: Told = json.loads(file.read())
    os.waitpid(hog, 0)
    return {**told, "waited_s": waited}


def crowd(talk: socket.socket, ends: float) -> Told:
    """Keep a CPU busy until ``ends``; report when the buffer of `talk` was full meanwhile."""
    seen: list[tuple[float, int]] = []
    due = 0.0
    while (now := time.monotonic()) < ends:
        if now >= due:
            seen.append((now, unread(talk)))
            due = now + STEP_S
    enough = 0.8 * max(waiting for _, waiting in seen)
    full = [waiting >= enough for _, waiting in seen]
    until = [at for at, _ in seen[1:]] + [ends]
    held: list[tuple[float, float]] = []
    for (at, _), end, is_full, was_full in zip(seen, until, full, [False, *full[:-1]], strict=True):
        if is_full and was_full:
            held[-1] = (held[-1][0], end)
        elif is_full:
            held.append((at, end))
    return {"held_ns": since_1970(held)}


def answering(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Answer each message of `message_bytes` with a byte; count the time from its first to its last part.

    This uses the kernel's times of arrival, so that it does not matter when this process runs.
    """
    talk.setsockopt(socket.SOL_SOCKET, STAMPS, 1)
    got, held = 0, 0.0
    first: float | None = None
    while True:
        part, extra, *_ = talk.recvmsg(CHUNK, 64)
        if not part:
            return {"held_s": held}
        stamps = [struct.unpack("qq", data) for _, kind, data in extra if kind == STAMPS]
        at = stamps[0][0] + stamps[0][1] / 1e9 if stamps else time.time()
        first = at if first is None else first
        got += len(part)
        if got >= order["message_bytes"]:
            got -= order["message_bytes"]
            held += at - first
            first = None
            talk.send(b"x")


# -- senders -----------------------------------------------------------------------------------------------


def bulk(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Write as much as possible; count the time for which writing blocked."""
    data, ends, held = bytes(order.get("chunk", CHUNK)), time.monotonic() + order["seconds"], 0.0
    while (before := time.monotonic()) < ends:
        talk.sendall(data)
        held += time.monotonic() - before
    return {"held_s": held}


def slow(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Write `write_bytes` every `every_s` for a `share` of the time, then as much as possible.

    Count the time between writes, which a busy host makes longer, without the time in which a full buffer
    blocked them.
    """
    begun, blocked = time.monotonic(), 0.0
    while time.monotonic() < begun + order["seconds"] * order["share"]:
        data = bytes(order["write_bytes"])
        try:
            written = talk.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            written = 0
        if written < len(data):
            before = time.monotonic()
            talk.sendall(data[written:])
            blocked += time.monotonic() - before
        time.sleep(order["every_s"])
    held = time.monotonic() - begun - blocked
    bulk(talk, {"seconds": order["seconds"] * (1 - order["share"])})
    return {"held_s": held, "blocked_s": blocked}


def outstanding(talk: socket.socket) -> int:
    """Bytes that were written and not yet acknowledged (SIOCOUTQ)."""
    waiting = array.array("i", [0])
    fcntl.ioctl(talk.fileno(), termios.TIOCOUTQ, waiting)
    return waiting[0]


def idle(talk: socket.socket, seconds: float) -> float:
    """Sleep; return for how long everything was acknowledged meanwhile, in s."""
    ends, held = time.monotonic() + seconds, 0.0
    while (before := time.monotonic()) < ends:
        empty = not outstanding(talk)
        time.sleep(STEP_S)
        held += (time.monotonic() - before) * empty
    return held


def pausing(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Write `write_bytes` at a time, and pause for `pause_s`; count the time in which all is acknowledged."""
    ends, held = time.monotonic() + order["seconds"], 0.0
    while time.monotonic() < ends:
        talk.sendall(bytes(order["write_bytes"]))
        held += idle(talk, order["pause_s"])
    return {"held_s": held}


def serving(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Answer each request with `write_bytes` after `pause_s`; count the time from one to the other."""
    ends, held = time.monotonic() + order["seconds"], 0.0
    while time.monotonic() < ends and talk.recv(CHUNK):
        before = time.monotonic()
        time.sleep(order["pause_s"])
        held += time.monotonic() - before
        talk.sendall(bytes(order["write_bytes"]))
    return {"held_s": held}


def requesting(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Send requests; each is answered with `message_bytes`."""
    while True:
        talk.sendall(bytes(100))
        left = order["message_bytes"]
        while left:
            part = talk.recv(min(left, CHUNK))
            if not part:
                return {"held_s": 0.0}
            left -= len(part)


def once(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Write `bytes`, perhaps after some short messages; give up after a while, if they do not arrive."""
    for size in order.get("first_bytes", ()):
        talk.sendall(bytes(size))
        time.sleep(0.05)
    talk.settimeout(order["seconds"])
    ends = time.monotonic() + order["seconds"]
    with contextlib.suppress(TimeoutError):
        talk.sendall(bytes(order["bytes"]))
    talk.settimeout(None)
    while outstanding(talk) and time.monotonic() < ends:
        time.sleep(STEP_S)
    if outstanding(talk):
        # The kernel would go on trying for a quarter of an hour.
        talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return {"held_s": 0.0, "left_bytes": outstanding(talk)}


def hungry(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Compute every byte that is written, and share a CPU with a process that never sleeps, under SCHED_IDLE.

    Count the time in which everything was acknowledged and nothing was written.
    """
    cpu = max(os.sched_getaffinity(0))
    ends = time.monotonic() + order["seconds"]
    hog = os.fork()
    if hog == 0:
        os.sched_setaffinity(0, {cpu})
        while time.monotonic() < ends:
            pass
        os._exit(0)
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    held = 0.0
    while (before := time.monotonic()) < ends:
        data = hashlib.sha3_512(bytes(WORK_BYTES)).digest() * 1024
        held += (time.monotonic() - before) * (not outstanding(talk))
        talk.sendall(data)
    os.waitpid(hog, 0)
    return {"held_s": held}


def asking(talk: socket.socket, order: dict[str, Any]) -> Told:
    """Write messages in two parts and wait for each answer."""
    half, ends = bytes(order["message_bytes"] // 2), time.monotonic() + order["seconds"]
    while time.monotonic() < ends:
        talk.sendall(half)
        talk.sendall(half)
        talk.recv(1)
    return {"held_s": 0.0}


@contextlib.contextmanager
def others(order: dict[str, Any]) -> Iterator[None]:
    """Send foreign datagrams through the same bottleneck, for the last `share` of the time."""
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


@contextlib.contextmanager
def sink(order: dict[str, Any], told: Told) -> Iterator[None]:
    """Receive foreign datagrams and count for how long they arrive, after waiting in the bottleneck."""
    if not order.get("foreign"):
        yield
        return
    came: list[float] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                into.recv(CHUNK)
                came.append(time.monotonic())

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as into:
        into.bind(("", 9))
        into.settimeout(0.2)
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            gaps = [after - before for before, after in itertools.pairwise(came)]
            told["foreign_s"] = sum(gap for gap in gaps if gap < GAP_S)


RECEIVERS = {
    "fast": fast,
    "sleepy": sleepy,
    "starved": starved,
    "answering": answering,
    "requesting": requesting,
}
SENDERS = {
    "bulk": bulk,
    "slow": slow,
    "asking": asking,
    "pausing": pausing,
    "serving": serving,
    "once": once,
    "starved": hungry,
}


def receive(order: dict[str, Any]) -> None:
    with prepared(order) as listener:
        listener.bind(("", order["port"]))
        listener.listen(1)
        say(ready=True, pid=os.getpid())
        talk, _ = listener.accept()
        told: Told = {}
        with talk:
            began = time.time_ns()
            with sink(order, told):
                told |= RECEIVERS[order["mode"]](talk, order)
            say(began_ns=began, ended_ns=time.time_ns(), **told)


def send(order: dict[str, Any]) -> None:
    with prepared(order) as talk, others(order):
        talk.connect((order["host"], order["port"]))
        say(ready=True, pid=os.getpid())
        began = time.time_ns()
        told = SENDERS[order["mode"]](talk, order)
        ended = time.time_ns()
        if not told.get("left_bytes"):
            talk.shutdown(socket.SHUT_WR)
            while talk.recv(CHUNK):
                pass
        say(began_ns=began, ended_ns=ended, **told)


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](json.loads(sys.argv[2]))
