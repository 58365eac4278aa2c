"""What every test bed and every driver of a device under test (DUT) can do."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from weirlab.base.errors import LabError
from weirlab.base.interrupts import interruptible, shielded
from weirlab.lab.monitoring.view import InsideView
from weirlab.records import EngineResult, HostSample, RuleEncounters, RuleSetup
from weirlab.traffic.spec import Traffic

if TYPE_CHECKING:
    from pathlib import Path

    from weirlab.base.files import Inputs
    from weirlab.lab.linux.interface import Port


class TestBed(Protocol):
    """Sender, device under test and receiver, wired up and ready.

    Use as a context manager; ``close`` leaves nothing behind and may be called twice.
    """

    @property
    def lab(self) -> str:
        """``netns`` or ``sim``."""

    @property
    def dut(self) -> str:
        """Name of the driver, e.g. ``iptables-legacy``."""

    @property
    def backend(self) -> str:
        """How packets are actually sent and received: ``xdp``, ``af_packet`` or ``sim``."""

    @property
    def facts(self) -> Mapping[str, object]:
        """Facts for the manifest: cores, tool versions, threaded NAPI, link MTU, ..."""

    def set_rules(self, rules: RuleSetup) -> None:
        """Configure the device. Raises ``LabError`` with the tool's message if it refuses."""

    def set_cross_traffic(self, on: bool) -> None:
        """Switch a management session with the device on or off.

        Raises ``InputError`` if there is no device to manage, ``LabError`` if the session cannot
        be opened.
        """

    def run(self, traffic: Traffic) -> EngineResult:
        """Send ``traffic``, spread over the places of the rules set last, and count.

        Blocks; Ctrl-C raises ``KeyboardInterrupt`` promptly.
        """

    def counters(self) -> dict[str, int]:
        """Cumulative counters of the device's interfaces (``in_rx_packets``, ``out_tx_packets``,
        ``in_rx_dropped``, ``out_tx_dropped``, ...): a trial takes the difference."""

    def host(self) -> HostSample:
        """Cumulative host readings by role; a trial takes the difference."""

    def close(self) -> None: ...

    def __enter__(self) -> TestBed: ...

    def __exit__(self, *exc: object) -> None: ...


@runtime_checkable
class WatchableBed(Protocol):
    """A test bed whose device can be observed from inside, unlike a simulated one."""

    def watch_inside(self) -> AbstractContextManager[None]:
        """Run the device's own monitoring during traffic, for as long as the context lasts.

        Raises ``LabError`` if it cannot run.
        """

    def seen_inside(self) -> InsideView | None:
        """What the monitoring saw during the last traffic."""


@runtime_checkable
class SettlingBed(Protocol):
    """A test bed whose device may still be working on a trial after its end."""

    def settle(self) -> None:
        """Wait until the device has finished with everything it was sent.

        Raises ``LabError`` if it does not finish.
        """


@runtime_checkable
class AimingBed(Protocol):
    """A test bed whose traffic is made to match the user's own rules, if its device has such."""

    @property
    def position(self) -> int | None:
        """How many of the user's own rules each packet meets; None if that is not known, or without such."""

    def as_sent(self, traffic: Traffic) -> Traffic:
        """``traffic`` with the protocol and the IP version that the rules take."""

    @property
    def drops(self) -> bool:
        """Whether test traffic is made to match a rule that drops it."""

    def dropped(self, counters: Mapping[str, int]) -> int | None:
        """Packets that this rule dropped in a trial that changed the device's counters by ``counters``; None
        without such a rule."""

    def rules_met(self, counters: Mapping[str, int], sent: int) -> RuleEncounters | None:
        """Of a trial that sent so many packets and changed the device's counters by ``counters``; None
        without such rules."""


@dataclass(frozen=True)
class Site:
    """Where a driver finds its device."""

    netns: str
    """Name of the network namespace."""
    inward: Port
    """The device's port on the sender's side."""
    outward: Port
    """The device's port on the receiver's side."""
    sender: Port
    """The neighbour at the device's ``inward`` port."""
    receiver: Port
    cpu: int
    """The CPU for the device's work."""
    far: str | None = None
    """Name of the network namespace of the second gateway, which has the port ``outward``; the gateways are
    joined by the ports ``NEAR`` and ``FAR`` of :mod:`weirlab.lab.wiring`. None if there is only one."""
    hosts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Networks behind ``inward`` and ``outward``, beyond those of test traffic; a tunnel carries them."""
    prefix: str = ""
    """Letters that tell the further namespaces of devices in a row apart."""

    def further(self, part: str) -> str:
        """Name for a further namespace of the driver, removed with the lab; ``part`` has letters only."""
        return f"{self.netns.rpartition('-')[0]}-{self.prefix}{part}"


class Driver(ABC):
    """A device under test: what forwards packets between its two ports, and the rules they pass.

    The defaults are those of a filter in the kernel, which forwards by itself, and for which there is nothing
    to start. A driver defines at least a name and what is abstract here.
    """

    name: str
    forwards = False
    """Whether the driver itself forwards; otherwise the kernel does, in the device's namespace."""
    bridges = False
    """Whether frames pass it unchanged, addressed to whoever is behind it: it is no router."""
    gateways: Literal[1, 2] = 1
    """How many gateways the device consists of; two have a namespace each, see :class:`Site`."""
    joined = True
    """Whether the lab joins two gateways with a cable; otherwise the driver connects them."""
    inner = ("wan0", "wan0")
    """Of two gateways, the interfaces towards each other."""
    carries: Sequence[Literal[4, 6]] = (4, 6)
    """IP versions that the device forwards."""
    takes_turns = False
    """Whether its threads take turns on the device's CPU. They get no real-time priority, because a real-time
    thread does not yield to another of the same priority."""
    tracks = False
    """Whether it tracks connections whatever its rules; they must fit into the kernel's table."""
    translates = False
    """Whether it may translate addresses or ports; answers to calls then follow the translation."""
    files: Sequence[Path] = ()
    """The user's files that the device needs; making the driver opens none of them."""

    def open_files(self, inputs: Inputs) -> None:  # noqa: B027
        """Open them, before anything else is called; raises ``InputError`` if one cannot be used."""

    @abstractmethod
    def check(self) -> list[str]:
        """What this driver lacks here, one sentence each with the remedy; empty if usable."""

    @abstractmethod
    def apply(self, site: Site, rules: RuleSetup) -> None:
        """Install the ruleset, replacing what was there.

        Raises ``LabError`` with the command, its message and the file line if there is one;
        ``InputError`` for rules that the device cannot implement.
        """

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """Tool versions and how the rules are laid out."""

    def start(self, site: Site) -> Sequence[int]:
        """Prepare the device before its first rules; returns the IDs of the processes that do its work.

        All their threads are watched: a trial during which they waited for a CPU is disturbed. Raises
        ``LabError`` on failure; :meth:`stop` is called in that case as well.
        """
        return ()

    def stop(self) -> None:  # noqa: B027
        """Stop what :meth:`start` started; may be called twice. The namespace is removed afterwards."""

    def beside_traffic(self) -> AbstractContextManager[None]:
        """Context for what happens to the device during traffic; entered before it, left when all is over."""
        return nullcontext()

    def check_alive(self) -> None:  # noqa: B027
        """Raise ``LabError`` with its last output if what :meth:`start` started has ended by itself."""

    def holds(self) -> bool | None:
        """Whether packets are in the device; None if that is not known.

        Asked at the end of a trial when no more packets arrive: those that the device still holds are waited
        for. A device of unknown content that sends nothing for 100 ms counts as empty.
        """
        return None

    def settle(self) -> None:  # noqa: B027
        """Wait until nothing of an earlier trial is left in the device; ``LabError`` if it never drains."""

    def longest_packet_bytes(self, ip: Literal[4, 6]) -> int | None:
        """Longest IP packet that passes unfragmented; None if only the lab limits it."""
        return None

    def listing(self) -> list[str]:
        """The command with which an administrator lists rules and counters; empty if there is none."""
        return []

    def counters(self) -> Mapping[str, int]:
        """The device's own cumulative counters, by their own names; empty if it counts nothing."""
        return {}

    def events(self) -> int:
        """How many events its name asks for have happened to the device so far, such as outages."""
        return 0


class TrafficActionRunner:
    """Runs one action at a time during traffic, each to its end or until the traffic is aborted."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._over = threading.Event()
        self._begun_ns = self._over_ns = 0

    def comes(self, after_ns: int) -> bool:
        """Wait until ``after_ns`` after the start of :meth:`running`; False if the traffic ends first."""
        at_ns = self._begun_ns + after_ns
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if self._over.wait(left_ns / 1e9):
                # A busy host may wake this thread late, when the traffic is already over.
                return self._over_ns >= at_ns
        return True

    def at(self, event: Callable[[], object], at_ns: int) -> None:
        """Run ``event`` when CLOCK_MONOTONIC reaches ``at_ns``; for use by the function in :meth:`running`.

        Raises ``LabError`` if the traffic is aborted before that.
        """
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if self._cancelled.wait(left_ns / 1e9):
                raise LabError("the trial was aborted")
        event()

    @contextmanager
    @shielded
    def running(self, during: Callable[[], object] | None) -> Iterator[None]:
        """Run ``during`` in a thread, to its end or until the context raises.

        Whatever ``during`` raises is raised when the context ends.
        """
        if during is None:
            yield
            return
        errors: list[BaseException] = []

        def record() -> None:
            try:
                during()
            except BaseException as error:
                errors.append(error)

        self._cancelled.clear()
        self._over.clear()
        # A busy host may start the thread late.
        self._begun_ns = time.monotonic_ns()
        thread = threading.Thread(target=record, name="weir-events")
        thread.start()
        try:
            try:
                yield
            finally:
                self._over_ns = time.monotonic_ns()
                self._over.set()
            _wait_for(thread)
        except BaseException:
            self._cancelled.set()
            thread.join()
            raise
        if errors:
            raise errors[0]


@interruptible
def _wait_for(thread: threading.Thread) -> None:
    thread.join()
