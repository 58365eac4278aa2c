"""A redundant pair: switches it on, watches it, and makes its firewalls change roles."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from weirlab.base.errors import InputError, LabError
from weirlab.base.interrupts import interruptible, shielded
from weirlab.lab.dut import nftables, tool
from weirlab.lab.linux.inventory import forget_connections
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.base import (
    FIREWALLS,
    SIDES,
    AddressProtocol,
    AddressWatch,
    EventKind,
    Firewall,
    FirewallMachine,
    PairEvent,
    Role,
    Side,
    Transition,
)
from weirlab.lab.redundant.conntrackd import Conntrackd

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


_PATIENCE_S: Final = 15.0
"""Time limit in addition to the protocol's own."""

_LOOK_S: Final = 0.005
_OTHER: Final[dict[Firewall, Firewall]] = {"a": "b", "b": "a"}
_Detail = Mapping[str, int | str]
_COUNT: Final = Path("/proc/sys/net/netfilter/nf_conntrack_count")


@dataclass(frozen=True)
class Policy:
    """Which calls pass the firewalls, and how."""

    nat: bool = False
    """Calls leave with the virtual address of the WAN side."""
    admits: tuple[Side, ...] = ("lan",)
    """The sides on which they may begin."""


class FirewallPair:
    """Two firewalls in namespaces that are already connected.

    Parameters
    ----------
    netns:
        Namespaces by firewall.
    protocol:
        ``Keepalived(...)`` or ``Ucarp(...)``: which firewall has the virtual addresses.
    states:
        How connection states are synchronised.
    cpu:
        Where the daemons run.
    behind:
        Networks behind the pair.
    policy:
        Which calls pass.
    """

    def __init__(
        self,
        netns: Mapping[Firewall, Namespace],
        protocol: AddressProtocol,
        states: Conntrackd,
        cpu: int,
        behind: wiring.Behind,
        policy: Policy,
    ) -> None:
        self._netns = netns
        self._protocol = protocol
        self._states = states
        self._cpu = cpu
        self._behind = behind
        self._machines: dict[Firewall, FirewallMachine] = {}
        self._roles: dict[tuple[Firewall, Side], Role] = {}
        self._changed_ns = time.monotonic_ns()
        self._lock = threading.Lock()
        self._events: list[PairEvent] = []
        self._lowered: Firewall | None = None
        self._dead: Firewall | None = None
        self._ongoing: int | None = None
        self._opened = ExitStack()
        try:
            virtual = {side: wiring.NETWORKS[side].virtual for side in SIDES}
            self._watch = AddressWatch(netns, virtual)
            self._opened.callback(self._watch.close)
            translated = behind["lan"][0] if policy.nat else None
            text = nftables.FLUSH + wiring.pair_rules(protocol, translated, policy.admits) + wiring.ADMIT
            self._plugs: dict[Firewall, InterfaceGroup] = {}
            for firewall in FIREWALLS:
                self._plugs[firewall] = plugs = InterfaceGroup(netns[firewall], wiring.LINK_GROUP)
                self._opened.callback(plugs.close)
                self._load(firewall, text)
                netns[firewall].call(partial(write_sysctls, wiring.STATE_TIMEOUTS))
            # The preferred master first: without preemption, the first one up stays master.
            preferred = protocol.preferred
            for firewall in (preferred, _OTHER[preferred]):
                self._power_on(firewall)
        except BaseException:
            self.close()
            raise

    @property
    def transitions(self) -> list[Transition]:
        """Every change of the virtual addresses so far, in order."""
        return self._watch.transitions

    @property
    def events(self) -> list[PairEvent]:
        """Everything done to the pair so far, in order."""
        return [*self._events]

    @property
    def processes(self) -> list[int]:
        """Process IDs of everything that runs in the firewalls."""
        return [process for machine in self._machines.values() for process in machine.processes]

    @property
    def is_reduced(self) -> bool:
        """Whether a firewall stepped down or was cut, and has not been restored."""
        return self._dead is not None or self._lowered is not None

    def holders(self) -> dict[Side, frozenset[Firewall]]:
        """The firewalls that hold the virtual address of each side."""
        return self._watch.holders

    def master(self) -> Firewall | Literal["both"] | None:
        """The firewall with both virtual addresses; ``both`` if both hold one, None if neither holds all."""
        holders = self.holders()
        if any(len(found) > 1 for found in holders.values()):
            return "both"
        for firewall in FIREWALLS:
            if all(firewall in found for found in holders.values()):
                return firewall
        return None

    def check(self) -> None:
        """Raises ``LabError`` if a daemon has ended by itself."""
        for machine in self._machines.values():
            machine.check()

    @interruptible
    def settle(self) -> Firewall:
        """Wait for one stable master and one stable backup; returns the master.

        They have to stay so for longer than a backup waits that hears nothing: only then is it
        known to hear the master. If a firewall is cut off, the other one is master alone.
        """
        stable_s = 1.1 * self._protocol.patience_s
        deadline_s = 3 * stable_s + _PATIENCE_S
        end_s = time.monotonic() + deadline_s
        while True:
            self.check()
            master = self._settled_master()
            changes_ns = [transition.at_ns for transition in self.transitions[-1:]]
            changes_ns += [event.ended_ns for event in self._events[-1:]]
            since_ns = max([self._changed_ns, *changes_ns])
            if master is not None and time.monotonic_ns() - since_ns >= stable_s * 1e9:
                return master
            if time.monotonic() > end_s:
                raise LabError(f"no master and backup within {deadline_s:.0f} s: {self.describe()}")
            time.sleep(_LOOK_S)

    def step_down(self) -> PairEvent:
        """Have the master step down by its protocol's administrative means."""
        master = self._only_master()
        self._lowered = master
        return self._do("soft", master, lambda: {"how": self._protocol.lower(self._machines[master])})

    def cut(self) -> PairEvent:
        """Cut the master's power: its daemons stop, its links go down, then its daemons are killed."""
        master = self._only_master()
        return self._do("hard", master, partial(self._cut, master))

    def restore(self) -> PairEvent:
        """Undo the last ``step_down``, or boot the firewall that was cut."""
        if (dead := self._dead) is not None:
            return self._do("return", dead, partial(self._boot, dead))
        if (lowered := self._lowered) is not None:
            self._lowered = None
            return self._do("return", lowered, partial(self._raise, lowered))
        raise LabError("nothing to restore: no firewall stepped down or was cut")

    def open_admission(self) -> None:
        """Admit new calls."""
        for firewall in FIREWALLS:
            self._load(firewall, wiring.REFUSE + wiring.ADMIT)
        self._ongoing = None

    def close_admission(self) -> int:
        """Let only packets of known states pass from now on; returns the number of states at the master."""
        for firewall in FIREWALLS:
            self._load(firewall, wiring.REFUSE)
        self._ongoing = self.states(self._only_master())
        return self._ongoing

    def states(self, firewall: Firewall) -> int:
        """Entries of the connection table in that firewall's kernel."""
        return self._netns[firewall].call(lambda: int(_COUNT.read_text()) if _COUNT.exists() else 0)

    def surviving(self) -> int:
        """How many states known when admission was closed are at the present master."""
        if self._ongoing is None:
            raise InputError("states of new calls cannot be told from survivors: close the admission first")
        return min(self.states(self._only_master()), self._ongoing)

    def clear_states(self) -> None:
        """Forget all connections, in both firewalls."""
        for firewall in FIREWALLS:
            self._netns[firewall].call(forget_connections)

    def close(self) -> None:
        """Switch everything off. May be called twice."""
        machines, self._machines = self._machines, {}
        for machine in machines.values():
            machine.power_off()
        self._opened.close()

    @shielded
    def _power_on(self, firewall: Firewall) -> None:
        self._forget_roles(firewall)
        machine = FirewallMachine(firewall, self._netns[firewall], self._cpu, partial(self._hear, firewall))
        self._machines[firewall] = machine
        scripts = self._states.start(machine)
        self._wait(machine, lambda: self._states.answers(machine), "conntrackd does not answer")
        self._protocol.start(machine, scripts)
        self._wait_for_roles(machine)

    def _raise(self, firewall: Firewall) -> _Detail:
        machine, other = self._machines[firewall], self._machines[_OTHER[firewall]]
        if self._protocol.ends_to_step_down:
            self._forget_roles(firewall)
        how = self._protocol.raise_again(machine, other)
        self._wait_for_roles(machine)
        return {"how": how}

    def _cut(self, firewall: Firewall) -> _Detail:
        began_ns = time.monotonic_ns()
        machine = self._machines.pop(firewall)
        self._dead = firewall
        # Dying daemons would hold the lock that the links need, and live ones inform the other firewall.
        machine.freeze()
        frozen_ns = time.monotonic_ns()
        self._plugs[firewall].pull()
        down_ns = time.monotonic_ns()
        for side in SIDES:
            self._watch.note(down_ns, firewall, side, holds=False)
        machine.power_off()
        return {
            "how": "daemons stopped, links down, daemons killed",
            "stopped_ns": frozen_ns - began_ns,
            "links_down_ns": down_ns - began_ns,
            "daemons_gone_ns": time.monotonic_ns() - began_ns,
        }

    def _boot(self, firewall: Firewall) -> _Detail:
        netns = self._netns[firewall]
        netns.call(wiring.forget_past)
        netns.call(forget_connections)
        self._states.prepare_return(self._machines[_OTHER[firewall]])
        netns.call(partial(wiring.plug_in, self._behind))
        self._power_on(firewall)
        self._dead = None
        return {"how": "links up, daemons started, no states of its own"}

    def _do(self, kind: EventKind, firewall: Firewall, action: Callable[[], _Detail]) -> PairEvent:
        began_ns = time.monotonic_ns()
        detail = action()
        event = PairEvent(kind, firewall, began_ns, time.monotonic_ns() - began_ns, detail)
        self._events.append(event)
        return event

    def _hear(self, firewall: Firewall, line: str) -> None:
        if (heard := self._protocol.role(line)) is None:
            return
        side, role = heard
        with self._lock:
            if self._roles.get((firewall, side)) != role:
                self._roles[firewall, side] = role
                self._changed_ns = time.monotonic_ns()

    def _settled_master(self) -> Firewall | None:
        master = self.master()
        if master is None or master == "both":
            return None
        with self._lock:
            for firewall in self._machines:
                role = "master" if firewall == master else "backup"
                if role == "backup" and firewall == self._lowered and self._protocol.ends_to_step_down:
                    continue  # its daemons no longer report anything
                if any(self._roles.get((firewall, side)) != role for side in SIDES):
                    return None
        return master

    def _only_master(self) -> Firewall:
        self.check()
        master = self.master()
        if master is None or master == "both":
            raise LabError(f"there is no single master: {self.describe()}")
        return master

    def _forget_roles(self, firewall: Firewall) -> None:
        with self._lock:
            for side in SIDES:
                self._roles.pop((firewall, side), None)

    def _wait_for_roles(self, machine: FirewallMachine) -> None:
        self._wait(
            machine,
            lambda: all((machine.firewall, side) in self._roles for side in SIDES),
            f"{self._protocol.name} does not start working",
        )

    @interruptible
    def _wait(self, machine: FirewallMachine, condition: Callable[[], bool], otherwise: str) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while not condition():
            machine.check()
            if time.monotonic() > end_s:
                raise LabError(f"firewall {machine.firewall}: {otherwise}; {self._words(machine)}")
            time.sleep(_LOOK_S)

    def _load(self, firewall: Firewall, text: str) -> None:
        tool.load(self._netns[firewall].name, nftables.COMMAND, text, source="rules of the pair")

    def describe(self) -> str:
        """Who holds what, and what the daemons say."""
        held = ", ".join(
            f"{side} by {' and '.join(sorted(found)) or 'nobody'}" for side, found in self.holders().items()
        )
        words = "; ".join(self._words(machine) for machine in self._machines.values())
        return f"addresses are held: {held}; {words}"

    def _words(self, machine: FirewallMachine) -> str:
        said = [f"{name}: {' | '.join(machine.output(name)[-4:])}" for name in sorted(machine.running)]
        said += [f"conntrackd: {line}" for line in self._states.words(machine)[-2:]]
        return f"firewall {machine.firewall} says: {'; '.join(said) or 'nothing'}"
