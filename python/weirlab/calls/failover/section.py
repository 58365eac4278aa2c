"""Scenarios that ask what a failover does to ongoing calls: files with the key ``failover``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.calls.failover.external import ExternalPair
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.scenario.calls import CallShape, MixText
from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.document import Location
from weirlab.scenario.model import Lab, Root, Section, command_beside
from weirlab.scenario.values import (
    Attempts,
    Count,
    NotEmpty,
    NotNegative,
    Repetitions,
    Seconds,
    Seed,
    WarmUp,
    no_repeats,
    readable,
)
from weirlab.traffic.calls.spec import Calls

EventKind = Literal["soft", "hard", "return"]
ProtocolName = Literal["keepalived", "ucarp", "external"]
Sharing = Literal["direct", "cached", "off"]

MOST_CALLS: Final = 3000
"""Calls that are tried if the user names no number."""

_RENAMED: Final = {"advert_s": "advbase_s"}
"""Keys that ucarp calls otherwise."""
_ONLY: Final[dict[str, tuple[str, ...]]] = {
    "keepalived": (
        "priorities", "preempt_delay_s", "version", "use_vmac", "sync_group", "garp_repeat",
        "garp_delay_s", "garp_refresh_s",
    ),
    "ucarp": ("advskews", "deadratio"),
    "external": ("soft", "hard", "restore"),
}  # fmt: skip
"""Keys that only one of the protocols has."""
_EITHER: Final = ("advert_s", "preempt", "step_down")
_BUILT: Final = (*_EITHER, "states", "nat")
"""Keys of pairs that Weir builds."""

Command = Annotated[str, readable(shlex.split)]


class PairSection(Section):
    """One redundant pair. Keys that are left out have the usual values of the protocol."""

    name: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """Name of the pair in results; left out: its settings name it."""
    protocol: ProtocolName
    """Protocol that shares the addresses: VRRP (keepalived) or CARP (ucarp). ``external``: a pair of your own
    between two ports, which commands of yours switch."""
    states: Sharing = "direct"
    """How connection states get to the other firewall: ``direct`` (conntrackd with
    ``DisableExternalCache``), ``cached`` (committed by the script of a new master) or ``off``."""
    nat: bool = False
    """Translate the callers' addresses."""
    advert_s: Annotated[float, Field(gt=0, le=limits.LONGEST_ADVERT_S, allow_inf_nan=False)] | None = None
    """Seconds between advertisements; ucarp supports whole seconds only."""
    preempt: bool | None = None
    """Whether the preferred firewall takes over again when it comes back."""
    step_down: Literal["priority", "stop", "demote"] | None = None
    """How a master steps down: ``priority`` or ``stop`` (keepalived), ``demote`` or ``stop`` (ucarp)."""
    priorities: tuple[int, int] | None = None
    """VRRP priorities of the two firewalls (keepalived)."""
    preempt_delay_s: NotNegative | None = None
    """Seconds that a returned preferred firewall waits before it takes over again (keepalived)."""
    version: Literal[2, 3] | None = None
    """VRRP version (keepalived)."""
    use_vmac: bool | None = None
    """The addresses move with a MAC address of their own (keepalived)."""
    sync_group: bool | None = None
    """Both sides always switch together (keepalived)."""
    garp_repeat: int | None = None
    """Gratuitous ARPs that a new master sends at once (keepalived)."""
    garp_delay_s: int | None = None
    """Seconds until a new master sends its gratuitous ARPs a second time (keepalived)."""
    garp_refresh_s: int | None = None
    """Seconds between further gratuitous ARPs of a master; 0: it sends no more (keepalived)."""
    advskews: tuple[int, int] | None = None
    """What each of the two firewalls adds to its advertisement interval, in 1/256 s (ucarp)."""
    deadratio: int | None = None
    """Number of intervals without advertisement after which a backup takes over (ucarp)."""

    soft: Command = ""
    """Command that has the master step down (external)."""
    hard: Command = ""
    """Command that has the master die (external)."""
    restore: Command = ""
    """Command that undoes the others (external)."""

    def files(self) -> Iterator[Location]:
        """See :meth:`Section.files`; a command is a file of this host."""
        yield from super().files()
        yield from ((key,) for key in _ONLY["external"] if getattr(self, key))

    def beside(self, folder: Path) -> Self:
        """A copy whose commands start from ``folder`` if they are relative paths."""
        given = {
            key: command_beside(text, folder) for key in _ONLY["external"] if (text := getattr(self, key))
        }
        return self.model_copy(update=given)

    def addresses(self) -> Keepalived | Ucarp | ExternalPair:
        """The protocol with its settings; raises ``InputError`` for what cannot work."""
        if self.protocol == "external":
            return ExternalPair(self.soft, self.hard, self.restore)
        keys = (*_EITHER, *_ONLY[self.protocol])
        given: dict[str, Any] = {key: value for key in keys if (value := getattr(self, key)) is not None}
        if self.protocol == "keepalived":
            if given.get("step_down") == "demote":
                raise InputError("step_down: keepalived has 'priority' and 'stop'")
            return Keepalived(**given)
        if given.get("step_down") == "priority":
            raise InputError("step_down: ucarp has 'demote' and 'stop'")
        if (advert_s := given.get("advert_s")) is not None and advert_s != int(advert_s):
            raise InputError(f"ucarp advertises every 1, 2, ... s, not every {advert_s:g} s; keepalived does")
        renamed = {_RENAMED.get(key, key): value for key, value in given.items()}
        if "advbase_s" in renamed:
            renamed["advbase_s"] = int(renamed["advbase_s"])
        return Ucarp(**renamed)

    def sharing(self) -> Conntrackd:
        """How states are shared."""
        if self.states == "off":
            return Conntrackd(mode="off")
        return Conntrackd(external_cache=self.states == "cached")

    def undefined(self) -> Iterator[str]:
        """Keys that are given and belong to the other protocol."""
        others = [key for protocol, keys in _ONLY.items() if protocol != self.protocol for key in keys]
        usual = PairSection.model_fields
        for key in (*others, *(_BUILT if self.protocol == "external" else ())):
            if getattr(self, key) != usual[key].default:
                yield key


class OngoingCalls(CallShape):
    """The calls in progress while the pair switches."""

    count: Count | None = None
    """Number of calls; fewer are made if the pair does not carry them without loss. Left out: 60 % of those
    that every pair carries, of 3,000 at most."""
    codec: MixText = "g711:60ms"
    """Codec, followed by a colon and the packet time if that is not the usual one, or a mix of codecs. By
    default, both directions of 3,000 calls are 100,000 packets per second."""
    rtcp: bool = False
    """Whether RTCP packets are sent."""
    one_flow: bool = False
    """All calls have the addresses and ports of the first, so that the firewalls see a single connection."""

    def calls(self, count: int) -> Calls:
        """``count`` such calls that stand all the time; nobody dials meanwhile."""
        return replace(super().calls(count), signalling=False, one_flow=self.one_flow)


class Failover(Section):
    """Switches to measure: every kind of event with every pair."""

    pairs: Annotated[tuple[PairSection, ...], NotEmpty]
    kinds: Annotated[tuple[EventKind, ...], NotEmpty, AfterValidator(no_repeats)] = ("soft", "hard")
    """``soft``: the master steps down; ``hard``: it dies; ``return``: the dead one comes back."""
    repetitions: Repetitions = 7
    """Valid runs of each kind with each pair."""
    event_s: Seconds = 3.0
    """From when all calls are in progress to the event, in s."""
    after_s: Seconds = 13.0
    """From the event to the end, in s."""
    affected_s: Seconds = 10.0
    """What callers heard in this time after the event is reported separately, in s."""
    warmup_s: WarmUp = 0.5
    """Time of traffic before recording, in s."""
    load_s: Seconds = 2.0
    """Recorded part of the trials that find how many calls the pair carries without loss, in s."""
    find_load: bool = True
    """First find how many calls the pair carries; else the calls are made whether it carries them or not."""
    close_admission: bool = True
    """Admit no new calls from before the event on, so that a stream continues only if the new master knows
    its state. Otherwise the next UDP packet would create a new state."""
    cut_ratio: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.1
    """Largest share of the protocol's detection time that cutting off a master may take."""
    max_attempts: Attempts = 4
    """Maximum attempts at a switch that the host spoils."""
    seed: Seed = 1
    """Seed of the order of switches."""


class FailoverScenario(Root):
    """A scenario about what a failover does to ongoing calls."""

    KEY = "failover"
    model_config = ConfigDict(title="Weir scenario: failover")

    lab: Lab = Lab()
    calls: OngoingCalls = OngoingCalls()
    failover: Failover

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        what = self.failover
        yield ("failover",), len(what.pairs) * len(what.kinds) * what.repetitions

    def commands(self) -> Iterator[str]:
        for pair in self.failover.pairs:
            yield from filter(None, (pair.soft, pair.hard, pair.restore))

    def beside(self, folder: Path) -> Self:
        pairs = tuple(pair.beside(folder) for pair in self.failover.pairs)
        what = self.failover.model_copy(update={"pairs": pairs})
        return super().beside(folder).model_copy(update={"failover": what})

    def conflicts(self) -> Iterator[Conflict]:
        if self.calls.spurts:
            yield ("calls", "spurts"), "a silence would look like a gap: leave it out"
        if self.calls.directions == "back":
            yield ("calls", "directions"), "calls are admitted from the sender's side: 'forward' or 'both'"
        if self.calls.ip != 4:
            yield ("calls", "ip"), "a redundant pair forwards IPv4 only"
        least_s = 2e-3 * max(kind.stream.packet_ms for kind in self.calls.calls(1).classes)
        if self.calls.directions == "both" and self.failover.warmup_s < least_s:
            yield (
                ("failover", "warmup_s"),
                "packets back are dropped until one forward has made the call known to the firewall: give at "
                f"least {least_s:g} s",
            )
        yield from self._misplaced()
        seen: dict[tuple[Keepalived | Ucarp | ExternalPair, Conntrackd, bool], int] = {}
        for i, pair in enumerate(self.failover.pairs):
            place: tuple[int | str, ...] = ("failover", "pairs", i)
            if pair.nat and self.calls.directions != "forward":
                yield (
                    (*place, "nat"),
                    "the addresses that packets back go to are chosen by the firewall: goes with "
                    "'directions: forward' only",
                )
            undefined = list(pair.undefined())
            for key in undefined:
                yield (*place, key), f"{pair.protocol} has no such setting"
            if not undefined:
                try:
                    # As it comes out: settings that are left out equal those given as usual.
                    found = (pair.addresses(), pair.sharing(), pair.nat)
                except InputError as error:
                    yield place, str(error)
                else:
                    if found in seen:
                        yield place, f"is the same as number {seen[found] + 1} of the list"
                    seen.setdefault(found, i)
            if pair.name is not None and pair.name in [other.name for other in self.failover.pairs[:i]]:
                yield (*place, "name"), f"another pair is called {quoted(pair.name)} already"

    def _misplaced(self) -> Iterator[Conflict]:
        """What does not fit between pairs of the user's own and the lab."""
        pairs = self.failover.pairs
        external = [i for i, pair in enumerate(pairs) if pair.protocol == "external"]
        if self.lab.kind == "sim" or self.lab.model is not None:
            yield ("lab", "kind"), "a redundant pair cannot be simulated"
        elif self.lab.kind == "wired" and (len(pairs) > 1 or not external):
            yield ("lab", "kind"), "between two ports is one pair of your own: 'protocol: external'"
        elif self.lab.kind != "wired" and external:
            where = ("failover", "pairs", external[0], "protocol")
            yield where, "a pair of your own is between two ports of this machine (--between A B)"
        if external and not pairs[external[0]].restore:
            yield (
                ("failover", "pairs", external[0], "restore"),
                "'restore' is needed: it undoes the event before the next attempt",
            )
        for i in external:
            for kind in self.failover.kinds:
                if kind == "return":
                    yield ("failover", "kinds"), "'return' is for pairs that Weir builds"
                elif not getattr(pairs[i], kind):
                    yield (
                        ("failover", "pairs", i, kind),
                        f"{kind!r} is needed for the kind of that name; or leave that kind out of 'kinds'",
                    )
        if external and self.failover.close_admission:
            yield (
                ("failover", "close_admission"),
                "your own pair has its own rules, which admit new calls: give false (--admission open)",
            )
