"""Attempts between two hosts in network namespaces, over emulated paths.

For multipath TCP the server announces an address for each further path (ADD_ADDR, RFC 8684); the client joins
a subflow to it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import LabError
from weirlab.base.interrupts import owned, shielded
from weirlab.base.quoting import quoted
from weirlab.emulation.spec import PathSpec, RandomPattern
from weirlab.lab.finding import Finding
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.links.emulator import running
from weirlab.links.emulator.running import EmulatedLink, EmulatorSettings, Hosts, emulated_link
from weirlab.transfers.parallel import carriers
from weirlab.transfers.parallel.carriers import TransferCarrier
from weirlab.transfers.parallel.plan import (
    F64,
    FAIR,
    INDEPENDENT,
    MPTCP,
    TCP,
    AttemptObservation,
    ParallelAttempt,
    ParallelBed,
    PathObservation,
    PathSpan,
)
from weirlab.transfers.parallel.section import ParallelSection

_AGAIN: Final = "total_retrans"
_RECEIVED: Final = "bytes_received"


@dataclass(frozen=True)
class Counter:
    """A counter of one connection over time."""

    times_ns: npt.NDArray[np.int64]
    """Since 1970."""
    values: npt.NDArray[np.int64]

    @property
    def last(self) -> int:
        return int(self.values[-1])


@dataclass(frozen=True)
class PathCounters:
    """The counters of a method's connections, by the address of this end."""

    retransmitted: Mapping[str, list[Counter]]
    """Segments, at the client."""
    arrived: Mapping[str, list[Counter]]
    """Bytes in order, at the server."""

    def received(self, path: int, edges_ns: F64) -> F64:
        """Bytes that had arrived over ``path`` at times since 1970."""
        total = np.zeros(len(edges_ns))
        for each in self._at_server(path):
            total += np.interp(edges_ns, each.times_ns, each.values, left=0.0)
        return total

    def connections(self, path: int) -> int:
        """How many connections carried data over ``path``."""
        return sum(each.last > 0 for each in self._at_server(path))

    def retransmissions(self, path: int) -> int | None:
        """Segments that the sender sent again over ``path``; None where no connection was seen."""
        found = self.retransmitted.get(running.client_port(path - 1).address, [])
        return sum(each.last for each in found) if found else None

    def _at_server(self, path: int) -> list[Counter]:
        return self.arrived.get(running.server_port(path - 1).address, [])


@dataclass(frozen=True)
class Watch:
    """Samplers in the namespaces of client and server."""

    client: Any
    server: Any
    """``weirlab._engine.TcpWatcher``."""

    def finish(self, port: int) -> PathCounters:
        """End it; the connections of a method are those to ``port``."""
        return PathCounters(
            _taken(self.client, _AGAIN, "remote", port), _taken(self.server, _RECEIVED, "local", port)
        )


def _taken(watcher: Any, field: str, served: str, port: int) -> dict[str, list[Counter]]:
    watcher.stop()
    samples = watcher.take()
    values, there = samples["fields"][field]
    found: dict[str, list[Counter]] = {}
    for number, each in enumerate(watcher.progress()["connections"]):
        rows = np.flatnonzero((samples["connection"] == number) & there)
        if each[served][1] == port and len(rows):
            counter = Counter(samples["time_ns"][rows], values[rows].astype(np.int64))
            found.setdefault(each["local"][0], []).append(counter)
    return found


@contextmanager
def watched(made: Hosts, every_s: float) -> Iterator[Watch]:
    """Sample the connections of both hosts for as long as the block lasts."""
    client = made.client.call(lambda: _watcher([_AGAIN], every_s))
    try:
        server = made.server.call(lambda: _watcher([_RECEIVED], every_s))
        try:
            yield Watch(client, server)
        finally:
            server.stop()
    finally:
        client.stop()


def _watcher(fields: Sequence[str], every_s: float) -> Any:
    from weirlab._engine import TcpWatcher

    return TcpWatcher(
        ends=[(None, 0), (None, 0)],
        pid=None,
        program=None,
        period_ns=round(every_s * 1e9),
        wait=True,
        fields=list(fields),
    )


PORT: Final = 29101
_COMPETING: Final = 29102
_SYSCTLS: Final = {
    # What the kernel remembers of one attempt must not help the next.
    "net/ipv4/tcp_no_metrics_save": 1
}
_AVAILABLE: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_TASKS: Final = Path("/proc/self/task")
_ALL_LOST: Final = RandomPattern(1.0)


@dataclass(frozen=True)
class EmulatedPaths:
    """Two hosts with as many paths as any case has."""

    hosts: Hosts
    lacking: Mapping[str, str]
    lab: str = "netns"

    def carry(self, course: ParallelAttempt) -> AttemptObservation:
        """See :meth:`Bed.carry`."""
        with ExitStack() as stack:
            how = EmulatorSettings(slack_s=course.slack_s)
            links = {
                number: stack.enter_context(
                    emulated_link(*self.hosts.ends(number - 1), path.up, path.down, how=how)
                )
                for number, path in course.paths.items()
            }
            watch = stack.enter_context(watched(self.hosts, course.every_s))
            carrier = self._carrier(course)
            stack.callback(carrier.stop)
            rivals: list[_CompetitorStream] = []
            for number, span in enumerate(course.competitors):
                sockets = carriers.Sockets(course.congestion, buffer_bytes=course.buffer_bytes)
                rivals.append(_CompetitorStream(self.hosts, span, sockets, _COMPETING + number))
                stack.callback(rivals[-1].stop)
            cpu_s, waited_ns, begun_ns = time.process_time(), _waited_ns(), time.monotonic_ns()
            carrier.start()
            zero_ns = begun_ns + round(course.warmup_s * 1e9)
            _happen(course, links, rivals, zero_ns)
            reports = carrier.reports()
            failure = carrier.failure
            # A thread that has ended tells no more how long it waited.
            waited_ns = _waited_ns() - waited_ns
            carrier.stop()
            for rival in rivals:
                rival.stop()
            cpu_s = time.process_time() - cpu_s
            by_path = watch.finish(PORT)
            accounts = {number: link.stop() for number, link in links.items()}
        edges_ns = zero_ns + course.edges_s() * 1e9
        since_1970_ns = time.time_ns() - time.monotonic_ns()
        reads_s = np.sort(np.concatenate([intake.times_ns for intake in carrier.intakes]))
        return AttemptObservation(
            read=_sum(carrier, edges_ns),
            reads_s=(reads_s - zero_ns) / 1e9,
            paths={
                number: PathObservation(
                    account,
                    by_path.received(number, edges_ns + since_1970_ns),
                    by_path.connections(number),
                    by_path.retransmissions(number),
                )
                for number, account in accounts.items()
            },
            competitors=tuple(rival.read(edges_ns) for rival in rivals),
            since_1970_ns=zero_ns + since_1970_ns,
            cpu_s=max(cpu_s - sum(account.cpu_s for account in accounts.values()), 0.0),
            waited_s=max(waited_ns, 0) / 1e9,
            total_bytes=sum(intake.total for intake in carrier.intakes),
            reorder_peak_bytes=None if reports is None else reports.server["reorder_peak_bytes"],
            resent_bytes=None if reports is None else reports.client["resent_bytes"],
            failure=failure,
        )

    def _carrier(self, course: ParallelAttempt) -> TransferCarrier:
        paths = [*course.paths]
        plain = carriers.Sockets(course.congestion, buffer_bytes=course.buffer_bytes)
        if course.method in (TCP, INDEPENDENT):
            streams = 1 if course.method == TCP else course.streams
            return carriers.connections(self.hosts, paths, PORT, replace(plain, streams=streams))
        if course.method == MPTCP:
            further = [running.server_port(path - 1).address for path in paths[1:]]
            self.hosts.server.call(partial(announce, further))
            return carriers.connections(self.hosts, paths[:1], PORT, replace(plain, protocol=PROTOCOL))
        is_fair = course.method == FAIR
        buffers = ((name, str(course.buffer_bytes)) for name in carriers.BUFFERS)
        how = replace(
            course.how,
            scheduler="earliest" if is_fair else course.method,
            fair=is_fair,
            options=(*course.how.options, *(buffers if course.buffer_bytes is not None else ())),
        )
        return carriers.session(self.hosts, paths, PORT, streams=course.streams, how=how)


class _CompetitorStream:
    """A competing TCP stream, connected before anything is sent; it begins to send when it is told to."""

    def __init__(self, made: Hosts, span: PathSpan, sockets: carriers.Sockets, port: int) -> None:
        self.span = span
        self._carrier = carriers.connections(made, [span.path], port, sockets)

    def start(self) -> None:
        self._carrier.start()

    def stop(self) -> None:
        self._carrier.stop()

    def read(self, edges_ns: F64) -> F64:
        return _sum(self._carrier, edges_ns)


def _sum(carrier: TransferCarrier, edges_ns: F64) -> F64:
    return np.asarray(sum((intake.at(edges_ns) for intake in carrier.intakes), np.zeros(len(edges_ns))))


def _happen(
    course: ParallelAttempt, links: Mapping[int, EmulatedLink], rivals: list[_CompetitorStream], zero_ns: int
) -> None:
    """Let everything happen at its time, until the recorded part is over."""
    # The last sample of the connections has to be behind the recorded part.
    events: list[tuple[float, Callable[[], None]]] = [(course.lasts_s + 2 * course.every_s, lambda: None)]
    for rival in rivals:
        events += [(rival.span.from_s, rival.start), (rival.span.to_s, rival.stop)]
    for outage in course.outages:
        if (link := links.get(outage.path)) is not None:
            path = course.paths[outage.path]
            dead = replace(path.up, loss=_ALL_LOST), replace(path.down, loss=_ALL_LOST)
            events += [
                (outage.from_s, partial(_change, link, *dead)),
                (outage.to_s, partial(_change, link, path.up, path.down)),
            ]
    for at_s, act in sorted(events, key=lambda event: event[0]):
        time.sleep(max(zero_ns / 1e9 + at_s - time.monotonic(), 0.0))
        act()


def _change(link: EmulatedLink, up: PathSpec, down: PathSpec) -> None:
    link.change("up", up)
    link.change("down", down)


def _waited_ns() -> int:
    """How long threads of this process that live were ready to run and had no CPU (``schedstat``)."""
    total = 0
    for task in _TASKS.glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[1])
        except (OSError, IndexError):
            # The thread has ended, or the kernel does not tell.
            continue
    return total


@contextmanager
@shielded
def opened(asked: ParallelSection) -> Iterator[ParallelBed]:
    """The namespaces, for as long as the block lasts.

    Raises
    ------
    MissingCapability, LabError
        They cannot be made, or the congestion control is not there.
    """
    most = max(len(case.every_path()) for case in asked.every_case())
    lacking = {MPTCP: why} if (why := missing()) else {}
    with owned(lambda: running.connected(most)) as made:
        for namespace in (made.client, made.server):
            _prepare(namespace, asked.congestion)
        if not lacking:
            made.client.call(accept_announced)
        yield EmulatedPaths(made, lacking)


def _prepare(namespace: Namespace, congestion: str) -> None:
    def prepare() -> None:
        write_sysctls(_SYSCTLS)
        available = _AVAILABLE.read_text().split()
        # Setting another one would load a kernel module of that name.
        if congestion not in available:
            raise LabError(
                f"the congestion control {quoted(congestion)} is not available; this kernel has "
                f"{', '.join(available)}"
            )

    namespace.call(prepare)


PROTOCOL: Final = 262
"""``IPPROTO_MPTCP`` of linux/in.h; Python has no name for it."""
_ENABLED: Final = Path("/proc/sys/net/mptcp/enabled")
_SIGNAL: Final = 1
"""``MPTCP_PM_ADDR_FLAG_SIGNAL``."""
_MOST: Final = 8
"""``MPTCP_PM_ADDR_MAX``."""


def missing() -> str:
    """Why this kernel has no multipath TCP, with the way out; empty if it has."""
    try:
        if _ENABLED.read_text().strip() == "0":
            return "it is switched off: sysctl -w net.mptcp.enabled=1"
    except OSError:
        return "this kernel is built without it (CONFIG_MPTCP)"
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, PROTOCOL).close()
    except OSError as error:
        return f"the kernel refuses a socket ({error.strerror})"
    return ""


def finding() -> Finding:
    """What ``weir doctor`` says about it."""
    if why := missing():
        remedy = "the scenario parallel-sockets compares the other methods"
        return Finding("multipath TCP", False, why, remedy, essential=False)
    return Finding("multipath TCP", True, "of the kernel, for comparison with parallel sockets")


def announce(addresses: Sequence[str]) -> None:
    """Have servers in this namespace announce ``addresses``; those announced before are forgotten."""
    from pyroute2 import MPTCP

    with MPTCP() as netlink:
        netlink.endpoint("flush")
        netlink.limits("set", subflows=_MOST, rcv_add_addrs=_MOST)
        for address in addresses:
            netlink.endpoint("add", addr=address, flags=_SIGNAL)


def accept_announced() -> None:
    """Have clients in this namespace join a subflow to every address that a server announces."""
    announce(())
