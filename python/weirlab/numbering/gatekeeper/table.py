"""What a gatekeeper knows about its plan: ``gatekeeper.json``, as ``weir voice configs`` writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weirlab.base.documents import typed
from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.routing.trees import Prefixes


@dataclass(frozen=True)
class GatekeeperTarget:
    """Where calls can go."""

    engine: str
    address: str
    port: int
    """Of call signalling; of RAS for a neighbour."""
    neighbour: bool = False
    """A gatekeeper, which is asked where the number leads."""

    @property
    def place(self) -> Address:
        return Address(self.address, self.port)


@dataclass(frozen=True)
class Prefix:
    """A route."""

    prefix: str
    """Digits."""
    strip: int
    prepend: str
    targets: tuple[GatekeeperTarget, ...]
    """In the order of preference."""
    place: str
    """The line of the plan."""

    def leaving(self, digits: str) -> str:
        """The number as it is passed on."""
        return f"{self.prepend}{digits[self.strip :]}"


@dataclass(frozen=True)
class GatekeeperTree:
    """A tree of ENUM."""

    tree: str
    """Its name in the plan."""
    suffix: str


@dataclass(frozen=True)
class Caller:
    """An endpoint, and what its organisation may do here."""

    engine: str
    organisation: str
    admitted: bool = True
    """This gatekeeper takes its calls."""
    may_call: Mapping[str, bool] = field(default_factory=dict)
    """By prefix, digits: may it call these numbers? The longest prefix decides; without any, it may."""
    most_calls: int | None = None
    """Calls that its organisation may have at once; None for no limit."""
    emergency: tuple[str, ...] = ()
    """Numbers, digits, to which calls are not counted."""
    place: str = ""
    """The line of the plan."""

    def may(self, digits: str) -> bool:
        """May it call this number?"""
        found = self._rules.longest(digits)
        return not self.may_call or (found is not None and found[1])

    @cached_property
    def _rules(self) -> Prefixes[bool]:
        return Prefixes(self.may_call.items())


@dataclass(frozen=True)
class GatekeeperTable:
    """The whole of it."""

    gatekeeper: str
    plan: str
    address: str
    ras_port: int
    trees: tuple[GatekeeperTree, ...]
    hand_over: Mapping[str, GatekeeperTarget]
    """Gateways by the protocol of a record that this gatekeeper does not speak."""
    neighbours: Mapping[str, str]
    """Gatekeepers that may ask, by address."""
    prefixes: tuple[Prefix, ...]
    callers: Mapping[str, Caller] = field(default_factory=dict)
    """Gateways and telephones with rules, by address."""
    closed: bool = False
    """Does it take calls of ``callers`` only?"""

    @classmethod
    def of(cls, document: object) -> GatekeeperTable:
        """Read a document; raises ``ValueError`` if it is something else."""
        return typed(cls, document)

    @property
    def ras(self) -> Address:
        return Address(self.address, self.ras_port)

    def named(self, callers: Sequence[str]) -> Caller | None:
        """The endpoint with one of these names."""
        return next((caller for caller in self.callers.values() if caller.engine in callers), None)

    def route(self, digits: str) -> Prefix | None:
        """The route with the longest prefix of ``digits``."""
        found = self._longest.longest(digits)
        return None if found is None else found[1]

    @cached_property
    def _longest(self) -> Prefixes[Prefix]:
        return Prefixes((prefix.prefix, prefix) for prefix in self.prefixes)


@dataclass(frozen=True)
class NaptrRecord:
    """A NAPTR record of ENUM (RFC 6116, 3.4)."""

    order: int
    preference: int
    service: str
    expression: str
    replacement: str = field(default="")
    """The name to which a non-terminal record refers; empty for a terminal one."""
