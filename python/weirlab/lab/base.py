"""What every test bed and every driver of a device under test (DUT) can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from weirlab.lab.inside.view import InsideView
from weirlab.records import EngineResult, HostSample, RuleSetup
from weirlab.traffic.spec import Traffic

if TYPE_CHECKING:
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
        """``xdp``, ``af_packet`` or ``sim``: how packets are really sent and received."""

    @property
    def facts(self) -> Mapping[str, object]:
        """What belongs in the manifest: cores, tool versions, threaded NAPI, link MTU, ..."""

    def set_rules(self, rules: RuleSetup) -> None:
        """Configure the device. Raises ``LabError`` with the tool's own words when it refuses."""

    def set_cross_traffic(self, on: bool) -> None:
        """From now on hold a management session with the device, or none.

        Raises ``InputError`` where there is no device to hold one with, ``LabError`` when the
        session cannot be opened.
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
class Watchable(Protocol):
    """A test bed whose device can be looked at from inside; a simulated one has no inside."""

    def watch_inside(self) -> AbstractContextManager[None]:
        """Meanwhile the device's own monitoring runs with the traffic.

        Raises ``LabError`` when it cannot.
        """

    def seen_inside(self) -> InsideView | None:
        """What it saw while the last traffic ran."""


@runtime_checkable
class Settling(Protocol):
    """A test bed whose device may be at work on a trial when that is over."""

    def settle(self) -> None:
        """Wait until the device has nothing left of what it was sent.

        Raises ``LabError`` if it does not get that far.
        """


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
    """The CPU that is to do the device's work."""
    far: str | None = None
    """Name of the network namespace of the second gateway, which has the port ``outward``; the ports towards
    one another are ``NEAR`` and ``FAR`` of :mod:`weirlab.lab.wiring`. None where there is only one."""
    hosts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Networks behind ``inward`` and ``outward`` beside those of test traffic: a tunnel has to carry them."""

    def further(self, part: str) -> str:
        """Name for another network namespace of the driver's, which is removed with the lab; letters only."""
        return f"{self.netns.rpartition('-')[0]}-{part}"


class DutDriver(Protocol):
    """A device under test: what forwards packets between its two ports, and the rules in its way.

    :class:`Driver` has the defaults for a filter of the kernel.
    """

    @property
    def name(self) -> str: ...

    @property
    def forwards(self) -> bool:
        """Whether something of the driver's own forwards; otherwise the kernel of the namespace does."""

    @property
    def gateways(self) -> Literal[1, 2]:
        """Of how many gateways the device consists; of two, each has a namespace, see :class:`Site`."""

    @property
    def joined(self) -> bool:
        """Whether a cable joins two gateways; otherwise what is between them is the driver's."""

    @property
    def carries(self) -> Sequence[Literal[4, 6]]:
        """IP versions that pass the device."""

    @property
    def tracks(self) -> bool:
        """Whether it tracks connections whatever its rules; they have to fit into the kernel's table."""

    @property
    def takes_turns(self) -> bool:
        """Whether threads of its own take turns on the device's CPU: no real-time priority for them, since a
        real-time thread gives its equal no turn."""

    def check(self) -> list[str]:
        """What is missing to use this driver, one sentence each with the way out; empty if usable."""

    def start(self, site: Site) -> Sequence[int]:
        """Make the device ready before its first rules; returns the IDs of processes that do its work.

        All their threads are watched: a trial during which they waited for a CPU is disturbed. Raises
        ``LabError`` when that fails; :meth:`stop` is called then, too.
        """

    def beside_traffic(self) -> AbstractContextManager[None]:
        """What is to happen to the device while traffic is sent; from its beginning until all is over."""

    def check_alive(self) -> None:
        """Raises ``LabError`` if what :meth:`start` has begun has ended by itself, with its last words."""

    def settle(self) -> None:
        """Wait until nothing of an earlier trial is left in the device; ``LabError`` if that never comes."""

    def longest_packet_bytes(self, ip: Literal[4, 6]) -> int | None:
        """Longest IP packet that passes in one piece; None where nothing but the lab limits it."""

    def stop(self) -> None:
        """End what :meth:`start` has begun; may be called twice. The namespace goes afterwards."""

    def apply(self, site: Site, rules: RuleSetup) -> None:
        """Install the ruleset, replacing what was there.

        Raises ``LabError`` with the command, its message and the file line if there is one;
        ``InputError`` for rules that the device cannot have.
        """

    def listing(self) -> list[str]:
        """The command with which an administrator lists the rules and their counters; empty without."""

    def counters(self) -> Mapping[str, int]:
        """What the device itself counts, cumulative, by names of its own; empty where it counts nothing."""

    def events(self) -> int:
        """How often something has happened to the device beside traffic, as its name asks: an outage, say."""

    def facts(self) -> Mapping[str, object]:
        """Tool versions and how the rules are laid out."""


class Driver(ABC):
    """What a driver is unless it says otherwise: the kernel forwards, and there is nothing to start.

    A driver gives at least a name and what is abstract here; :class:`DutDriver` says what each is to do.
    """

    name: str
    forwards = False
    gateways: Literal[1, 2] = 1
    joined = True
    carries: Sequence[Literal[4, 6]] = (4, 6)
    takes_turns = False
    tracks = False

    @abstractmethod
    def check(self) -> list[str]: ...

    @abstractmethod
    def apply(self, site: Site, rules: RuleSetup) -> None: ...

    @abstractmethod
    def facts(self) -> Mapping[str, object]: ...

    def start(self, site: Site) -> Sequence[int]:
        return ()

    # Most have started nothing.
    def stop(self) -> None:  # noqa: B027
        pass

    def beside_traffic(self) -> AbstractContextManager[None]:
        return nullcontext()

    def check_alive(self) -> None:  # noqa: B027
        pass

    def settle(self) -> None:  # noqa: B027
        pass

    def longest_packet_bytes(self, ip: Literal[4, 6]) -> int | None:
        return None

    def listing(self) -> list[str]:
        return []

    def counters(self) -> Mapping[str, int]:
        return {}

    def events(self) -> int:
        return 0
