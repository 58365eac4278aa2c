"""Bytes copied from one end of a session to the other, or both ways."""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from weirlab.base.errors import InputError, LabError, TrialError
from weirlab.base.quoting import quoted
from weirlab.cli.options.sockets import shown
from weirlab.link.stopping import Stop

if TYPE_CHECKING:
    from weirlab._engine import ParallelListener, ParallelProxy, ParallelSocket

CHUNK_BYTES: Final = 256 << 10
_WAIT_S: Final = 0.1
_FAREWELL_S: Final = 30.0
"""For the last acknowledgements, when all data have arrived."""
_MOST_ACCOUNT_BYTES: Final = 64 << 10
_NS: Final = 1_000_000_000

Route = tuple[str | None, str, int]
"""This end's address or None, the other end's address, its port."""


@dataclass(frozen=True)
class SessionSettings:
    """How a session is carried. ``memory_bytes`` is for each direction.

    ``fair``: all streams together take no more of a shared bottleneck than one TCP connection.
    ``fallback``: plain TCP if the other end does not speak the protocol.
    ``wait_for_paths``: nothing is sent before each stream works or has failed, for 5 s at most.
    """

    token: str
    scheduler: str
    block_bytes: int
    memory_bytes: int
    unsent_bytes: int
    lost_s: float
    options: tuple[tuple[str, str], ...] = ()
    fair: bool = False
    fallback: bool = False
    wait_for_paths: bool = False

    def plain(self) -> dict[str, Any]:
        """For the engine."""
        return {
            "token": self.token,
            "scheduler": self.scheduler,
            "block_bytes": self.block_bytes,
            "memory_bytes": self.memory_bytes,
            "unsent_bytes": self.unsent_bytes,
            "lost_ns": round(self.lost_s * _NS),
            "options": list(self.options),
            "fair": self.fair,
            "fallback": self.fallback,
            "wait_for_paths": self.wait_for_paths,
        }


@dataclass(frozen=True)
class ReceiverReport:
    """The receiver's report on a session that has arrived completely."""

    received_bytes: int
    reorder_peak_bytes: int
    duplicate_bytes: int
    sha256: str


@dataclass(frozen=True)
class CopyResult:
    """A session at its end. ``account`` is None if the other end is not ``weir psock serve``."""

    peer: str
    data_bytes: int
    seconds: float
    report: Mapping[str, Any] = field(default_factory=dict)
    sha256: str = ""
    account: ReceiverReport | None = None
    failure: str = ""

    @property
    def throughput_bps(self) -> float:
        return self.data_bytes * 8 / self.seconds if self.seconds > 0 else 0.0


def routes(host: str, port: int, paths: Sequence[tuple[str, str]], streams: int) -> list[list[Route]]:
    """The sets of routes to try, in order: one per address of ``host``, or the one of ``paths``.

    A path is this end's address and the other end's; either may be empty.

    Raises
    ------
    InputError
        The host is not known, or has no address for a path.
    """
    try:
        known = [entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise InputError(f"the host {quoted(host)} is not known: {error}") from None
    addresses = list(dict.fromkeys(str(address) for address in known))
    if not paths:
        return [[(None, address, port)] * streams for address in addresses]
    found: list[Route] = []
    for local, remote in paths:
        version = ip_address(local or remote).version
        fitting = [remote] if remote else [each for each in addresses if ip_address(each).version == version]
        if not fitting:
            raise InputError(f"--path {local}: the host {quoted(host)} has no IPv{version} address")
        found += [(local or None, fitting[0], port)] * streams
    # By turns, so that the first streams use different paths.
    return [[found[at] for start in range(streams) for at in range(start, len(found), streams)]]


def connect(tries: Sequence[Sequence[Route]], how: SessionSettings) -> ParallelSocket:
    """Open a session over the first set of routes of which one works.

    Raises
    ------
    InputError
        The token differs, or an option is impossible.
    LabError
        No host answers, or none that speaks the protocol.
    """
    from weirlab._engine import ParallelSocket

    problem: LabError | None = None
    for each in tries:
        try:
            return ParallelSocket.connect(list(each), how.plain())
        except LabError as error:
            problem = problem or error
    raise problem or LabError("there is no address to connect to")


def strangers(listener: ParallelListener | ParallelProxy, tell: Callable[[str], None]) -> int:
    """Report the peers rejected since the last call, and return their number."""
    count = 0
    while (stranger := listener.stranger()) is not None:
        count += 1
        tell(f"{shown(stranger[0])} was rejected: {stranger[1]}")
    return count


def send(made: ParallelSocket, source: Iterator[bytes], peer: str) -> CopyResult:
    """Send everything from ``source``, and wait until the receiver has it.

    Raises
    ------
    TrialError
        The session failed, or the receiver reports other data than what was sent.
    """
    digest = hashlib.sha256()
    begun, total = time.monotonic(), 0
    for data in source:
        digest.update(data)
        made.write_all(data)
        total += len(data)
    made.finish()
    made.delivered()
    seconds = time.monotonic() - begun
    report = made.report()
    if report["plain"]:
        # The answer of a plain TCP peer is not an account.
        return CopyResult(peer, total, seconds, report, digest.hexdigest())
    account = _account(made)
    report = made.report()
    made.close(_FAREWELL_S)
    sent = digest.hexdigest()
    if account is not None and (account.received_bytes, account.sha256) != (total, sent):
        raise TrialError(
            f"{peer} says that it received {account.received_bytes} bytes with the SHA-256 {account.sha256}, "
            f"but {total} with {sent} were sent"
        )
    return CopyResult(peer, total, seconds, report, sent, account)


def _account(made: ParallelSocket) -> ReceiverReport | None:
    """The receiver's account; None if its answer is not one."""
    answer = b""
    while data := made.read(_MOST_ACCOUNT_BYTES):
        answer += data
        if len(answer) > _MOST_ACCOUNT_BYTES:
            raise TrialError("the receiver sent something other than its account")
    try:
        document = json.loads(answer)
        found = ReceiverReport(
            received_bytes=document["received_bytes"],
            reorder_peak_bytes=document["reorder_peak_bytes"],
            duplicate_bytes=document["duplicate_bytes"],
            sha256=document["sha256"],
        )
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    *numbers, digest = vars(found).values()
    return found if all(type(number) is int for number in numbers) and isinstance(digest, str) else None


def receive(made: ParallelSocket, sink: Callable[[bytes], object], peer: str, stop: Stop) -> CopyResult:
    """Receive everything, and tell the sender what has arrived.

    Raises
    ------
    TrialError
        The session failed, or ``stop`` was requested before its end.
    """
    digest = hashlib.sha256()
    begun, total = time.monotonic(), 0
    while (data := made.read(CHUNK_BYTES, _WAIT_S)) != b"":
        if stop.requested:
            made.abort()
            raise TrialError(f"interrupted after {total} bytes")
        if data is None:
            continue
        digest.update(data)
        sink(data)
        total += len(data)
    seconds = time.monotonic() - begun
    report = made.report()
    account = ReceiverReport(
        total, report["reorder_peak_bytes"], report["duplicate_bytes"], digest.hexdigest()
    )
    made.write_all(json.dumps(vars(account)).encode())
    made.close(_FAREWELL_S)
    return CopyResult(peer, total, seconds, report, account.sha256, account)


def made_up(total: int) -> Iterator[bytes]:
    """``total`` bytes that no link can compress."""
    import random

    chunk = random.Random(1).randbytes(CHUNK_BYTES)
    for start in range(0, total, CHUNK_BYTES):
        yield chunk[: min(CHUNK_BYTES, total - start)]


def read_from(file: BinaryIO) -> Iterator[bytes]:
    """Everything in ``file``, as it comes."""
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    while data := read(CHUNK_BYTES):
        yield data


@dataclass
class ReceiverTotals:
    """What a receiver did; ``sessions`` are the last hundred."""

    transfers: int = 0
    broken_off: int = 0
    strangers: int = 0
    received_bytes: int = 0
    sessions: list[CopyResult] = field(default_factory=list)

    def take(self, copied: CopyResult) -> None:
        """Count a session that has ended."""
        self.transfers += 1
        self.broken_off += bool(copied.failure)
        self.received_bytes += copied.data_bytes
        self.sessions = [*self.sessions, copied][-100:]


def serve(
    listener: ParallelListener,
    stop: Stop,
    transfers: int | None,
    into: Callable[[Callable[[Callable[[bytes], object]], None]], None],
    tell: Callable[[str], None],
) -> ReceiverTotals:
    """Receive one session after the other until a request to stop, or until ``transfers`` have ended.

    ``into`` calls its argument with the function that takes the data.
    """
    served = ReceiverTotals()
    while not stop.requested and (transfers is None or served.transfers < transfers):
        served.strangers += strangers(listener, tell)
        accepted = listener.accept(_WAIT_S)
        if accepted is not None:
            copied = _received(*accepted, into, stop)
            served.take(copied)
            if copied.failure:
                tell(f"{copied.peer}: broken off: {copied.failure}")
            else:
                tell(f"{copied.peer}: received {copied.data_bytes} bytes")
    return served


def _received(
    made: ParallelSocket,
    address: tuple[str, int],
    into: Callable[[Callable[[Callable[[bytes], object]], None]], None],
    stop: Stop,
) -> CopyResult:
    peer = shown(address)
    done: list[CopyResult] = []
    try:
        into(lambda sink: done.append(receive(made, sink, peer, stop)))
    except TrialError as error:
        report = made.report()
        return CopyResult(peer, report["received_bytes"], 0.0, report, failure=str(error))
    return done[0]


@dataclass(frozen=True)
class ExchangeResult:
    """A session at its end: bytes of each direction, and their SHA-256."""

    peer: str
    sent_bytes: int
    sent_sha256: str
    received_bytes: int
    received_sha256: str
    seconds: float
    report: Mapping[str, Any]


def exchange(
    made: ParallelSocket, peer: str, source: int, put: Callable[[bytes], object], stop: Stop
) -> ExchangeResult:
    """Send what the descriptor ``source`` gives and pass on what arrives, until both directions have ended.

    Raises
    ------
    TrialError
        The session failed, or ``stop`` was requested before its end.
    """
    sent, received = hashlib.sha256(), hashlib.sha256()
    sent_bytes = received_bytes = 0
    pending, is_read, is_told, has_all = b"", False, False, False
    begun, poll = time.monotonic(), made.fileno()
    while not (is_told and has_all):
        if stop.requested:
            made.abort()
            raise TrialError(f"interrupted after {sent_bytes} bytes sent and {received_bytes} received")
        readers = [*([] if has_all else [poll]), *([] if pending or is_read else [source])]
        ready, _, _ = select.select(readers, [poll] if pending else [], [], _WAIT_S)
        if not has_all and (data := made.read(CHUNK_BYTES, 0.0)) is not None:
            has_all = not data
            put(data)
            received.update(data)
            received_bytes += len(data)
        if source in ready:
            pending = os.read(source, CHUNK_BYTES)
            is_read = not pending
            sent.update(pending)
        if pending and (taken := made.write(pending, 0.0)):
            pending = pending[taken:]
            sent_bytes += taken
        if is_read and not is_told:
            made.finish()
            is_told = True
    while not made.close(_WAIT_S):
        if stop.requested:
            raise TrialError("interrupted before the other end had everything")
    return ExchangeResult(
        peer,
        sent_bytes,
        sent.hexdigest(),
        received_bytes,
        received.hexdigest(),
        time.monotonic() - begun,
        made.report(),
    )


def accept(
    listener: ParallelListener, stop: Stop, tell: Callable[[str], None]
) -> tuple[ParallelSocket, tuple[str, int]]:
    """The first session and the address of its peer; ``tell`` is called for each peer rejected before.

    Raises ``TrialError`` if ``stop`` was requested before a session came.
    """
    while not stop.requested:
        strangers(listener, tell)
        if (accepted := listener.accept(_WAIT_S)) is not None:
            return accepted
    raise TrialError("interrupted before anybody connected")
