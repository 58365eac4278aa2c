"""What one trial does: its traffic, and how the device is set up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from weirlab.base.documents import SPARSE
from weirlab.base.errors import InputError
from weirlab.traffic.places import Places, mean_position, validate
from weirlab.traffic.spec import Traffic


@dataclass(frozen=True)
class RuleSetup:
    """What the device under test is to do with the test traffic.

    ``position`` is the matching position: the 1-based place of the rule that accepts
    the test traffic; 0 means no filter rules at all. ``stateful`` puts connection
    tracking in front. If rules at several positions accept a share of the traffic
    each, ``places`` says where and how much, and ``position`` is the last of them: make
    such a setup with :meth:`mixed`.
    """

    position: int = 0
    stateful: bool = False
    places: Places = field(default=(), metadata=SPARSE)
    both_ways: bool = field(default=False, metadata=SPARSE)
    """Traffic comes from both sides, and the accepting rule matches it in either direction."""
    answered: bool = field(default=False, metadata=SPARSE)
    """Packets of known connections are accepted first, and those of answers with them."""
    networks: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """What the accepting rule matches instead of test traffic, as source and as destination: one network per
    IP version."""

    def __post_init__(self) -> None:
        """Raise ``InputError`` for places that cannot be set up."""
        validate(self.places)
        if self.places and self.places[-1][0] != self.position:
            raise InputError(
                f"matching position {self.position} must be the last of the places {self.places}; "
                "RuleSetup.mixed ensures that"
            )
        if self.places and self.both_ways:
            raise InputError(
                "traffic of both sides cannot match at several positions: the rules tell the positions apart "
                "by destinations behind the device; choose one position, or one direction"
            )

    @classmethod
    def mixed(cls, places: Places, stateful: bool = False) -> Self:
        """Rules at several positions that accept a share of the traffic each."""
        validate(places)
        return cls(places[-1][0] if places else 0, stateful, places)

    @property
    def mean_position(self) -> float:
        """Mean matching position of the packets, not counting steps."""
        return mean_position(self.places) if self.places else float(self.position)

    @property
    def accepting(self) -> tuple[int, ...]:
        """Positions of the rules that accept test traffic, ascending; empty without rules."""
        if self.places:
            return tuple(position for position, _ in self.places)
        return (self.position,) if self.position else ()


@dataclass(frozen=True)
class TrialSpec:
    """One trial: this traffic through a device with this setup.

    With ``cross_traffic`` a management session is open meanwhile: a monitoring system queries
    the device's counters and rules, which adds work for the device's CPU.
    """

    traffic: Traffic
    rules: RuleSetup = RuleSetup()
    label: str = ""
    cross_traffic: bool = False

    @property
    def mean_position(self) -> float:
        """Rules with which a packet is compared on average; with none if it belongs to a known connection,
        since a rule in front accepts it. Not counting steps."""
        flows = self.traffic.flows
        return self.rules.mean_position * (flows.new_share if flows.answered else 1.0)

    def to_json(self) -> dict[str, Any]:
        """The fields, with what a reader looks for first at the top."""
        return {
            "label": self.label,
            "rules": self.rules,
            "traffic": self.traffic,
            "cross_traffic": self.cross_traffic,
        }
