"""Options that stand for a key of a scenario say what the scenario says."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import pytest
from typer.models import ParameterInfo

from weirlab.calls.capacity.command import CapacityCallOptions, CapacityPlanOptions
from weirlab.calls.capacity.section import Capacity, SweepSection
from weirlab.calls.failover.command import OngoingOptions, PairOptions, SwitchOptions
from weirlab.calls.failover.section import Failover, OngoingCalls, PairSection
from weirlab.calls.ipsec.command import CostOptions
from weirlab.calls.ipsec.cost import EspCostSection
from weirlab.cli.options import DeviceOptions, FlowOptions, TrialsOptions
from weirlab.scenario.calls import CallShape
from weirlab.scenario.model import CalibrationSection, Dut, Lab, Section, TrafficShape
from weirlab.scenario.profile import HeldOutSection, ProfileSection


@dataclass(frozen=True)
class Pair:
    """A field of a group of options and the key of a section that it stands for."""

    group: type[Any]
    field: str
    section: type[Section]
    key: str = ""

    def __str__(self) -> str:
        return f"{self.group.__name__}.{self.field}"

    @property
    def option(self) -> ParameterInfo:
        hint = get_type_hints(self.group, include_extras=True)[self.field]
        return next(each for each in hint.__metadata__ if isinstance(each, ParameterInfo))

    @property
    def choices(self) -> set[str]:
        """Of a choice; empty for anything else."""
        hint = get_type_hints(self.group)[self.field]
        return {str(each) for each in get_args(hint) if isinstance(each, str)}

    @property
    def default(self) -> Any:
        return next(each.default for each in dataclasses.fields(self.group) if each.name == self.field)

    @property
    def schema(self) -> dict[str, Any]:
        """What the section's JSON Schema says of the key, alternatives joined."""
        found = self.section.model_json_schema()["properties"][self.key or self.field]
        return {name: value for part in (*found.get("anyOf", ()), found) for name, value in part.items()}


PAIRS = [
    Pair(DeviceOptions, "lab", Lab, "kind"),
    Pair(DeviceOptions, "backend", Lab),
    Pair(DeviceOptions, "stateful", Dut),
    Pair(DeviceOptions, "dut_cpus", Dut, "cpus"),
    *(Pair(FlowOptions, field.name, TrafficShape) for field in dataclasses.fields(FlowOptions)),
    *(Pair(TrialsOptions, field.name, ProfileSection) for field in dataclasses.fields(TrialsOptions)),
    *(Pair(TrialsOptions, name, HeldOutSection) for name in ("repetitions", "trial_s", "warmup_s")),
    *(Pair(TrialsOptions, name, CalibrationSection) for name in ("repetitions", "trial_s")),
    Pair(TrialsOptions, "max_attempts", Capacity),
    *(Pair(CapacityCallOptions, field.name, CallShape) for field in dataclasses.fields(CapacityCallOptions)),
    *(Pair(CapacityPlanOptions, name, SweepSection) for name in ("first", "last", "step")),
    *(Pair(CapacityPlanOptions, name, Capacity) for name in ("inside", "seed")),
    *(Pair(CostOptions, name, EspCostSection) for name in ("codec", "rounds", "packets", "associations")),
    Pair(TrialsOptions, "max_attempts", Failover),
    *(Pair(PairOptions, field.name, PairSection) for field in dataclasses.fields(PairOptions)),
    *(Pair(OngoingOptions, field.name, OngoingCalls) for field in dataclasses.fields(OngoingOptions)),
    *(
        Pair(SwitchOptions, name, Failover)
        for name in ("repetitions", "find_load", "seed", "event_s", "after_s")
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_default_is_that_of_the_section(pair: Pair) -> None:
    usual = pair.schema.get("default")
    if pair.default is not None:
        # A pair of a scenario has to name its protocol.
        assert usual is None or str(pair.default) == str(usual)
    elif isinstance(usual, int | float) and (told := re.search(r"\((\d+)\)", pair.option.help or "")):
        assert float(told[1]) == usual


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_choices_and_limits_are_those_of_the_section(pair: Pair) -> None:
    schema = pair.schema
    assert pair.choices <= {str(each) for each in schema.get("enum", ())} or not schema.get("enum")
    option: Any = pair.option
    for limit, name in ((option.min, "minimum"), (option.max, "maximum")):
        if limit is not None and name in schema:
            # The option may let through what the section then refuses with its own message, not the reverse.
            assert (limit <= schema[name]) if name == "minimum" else (limit >= schema[name])
