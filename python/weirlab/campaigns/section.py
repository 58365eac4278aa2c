"""What the file of a campaign may say, and the steps that follow from it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import ConfigDict, Field

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.jobs.worker import parse_requirement
from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.document import Document, parse
from weirlab.scenario.model import Lab, Root, Section
from weirlab.scenario.values import Repetitions, Seed, readable
from weirlab.studies import ready, scenarios

MOST_STEPS: Final = 1_000_000

Label = Annotated[str, Field(min_length=1, max_length=100)]
S = TypeVar("S", bound=Section)
Changes = dict[str, Any]
"""Keys of a scenario, and what they become: mappings are merged, everything else is replaced."""


class CampaignSection(Section):
    """The section ``campaign`` of a scenario."""

    scenarios: Annotated[dict[Label, Path | Changes], Field(min_length=1, max_length=limits.MOST_ITEMS)]
    """Scenarios by name: a file beside this one, a scenario that comes with Weir, or its keys."""
    devices: Annotated[dict[Label, Changes], Field(max_length=limits.MOST_ITEMS)] = {}
    """Devices by name, each with the keys that it changes in every scenario: ``dut: {name: nftables}``. Left
    out: the device of each scenario."""
    settings: Annotated[dict[Label, dict[Label, Changes]], Field(max_length=8)] = {}
    """Further dimensions by name, each with its settings by name and the keys that they change."""
    repetitions: Repetitions = 3
    """How often the whole matrix is measured. Each repetition has an order of its own and adds 1 to every
    ``seed`` of a scenario."""
    seed: Seed = 7
    """Seed of the order of steps."""
    attempts: Annotated[int, Field(strict=True, ge=1, le=limits.MOST_ATTEMPTS)] = 3
    """How often a step is tried that the host spoils, or whose test bed fails."""
    requires: Annotated[tuple[Annotated[str, readable(parse_requirement)], ...], Field(max_length=20)] = ()
    """What a test bed of a cluster must have, such as ``kernel>=6.1`` or ``nic=mlx5``."""
    folder: Path | None = None
    """Where relative paths in ``devices`` and ``settings`` start; left out: in the folder of this file."""

    @property
    def cells(self) -> int:
        """Steps of one repetition."""
        sizes = (len(self.scenarios), max(len(self.devices), 1), *map(len, self.settings.values()))
        return reduce(int.__mul__, sizes)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.cells * self.repetitions


@dataclass(frozen=True, slots=True)
class CampaignStep:
    """One cell of the matrix in one repetition; ``number`` counts from 0 and stays the same for a file."""

    number: int
    scenario: str
    device: str
    """Empty: that of the scenario."""
    setting: tuple[str, ...]
    """A setting for each further dimension."""
    repetition: int
    """Counts from 0."""

    @property
    def place(self) -> str:
        """Its place in the matrix, for messages."""
        parts = (self.scenario, self.device, *self.setting, f"repetition {self.repetition + 1}")
        return ", ".join(part for part in parts if part)


class CampaignScenario(Root):
    """A scenario that measures a matrix."""

    KEY = "campaign"
    model_config = ConfigDict(title="Weir scenario: campaign")

    campaign: CampaignSection

    def beside(self, folder: Path) -> Self:
        """See :meth:`Root.beside`; the scenarios of files become part of this one."""
        section = self.campaign
        whole = {
            name: _read(each, folder) if isinstance(each, Path) else each
            for name, each in section.scenarios.items()
        }
        start = (folder / (section.folder or "")).absolute()
        return self.model_copy(
            update={"campaign": section.model_copy(update={"scenarios": whole, "folder": start})}
        )

    def conflicts(self) -> Iterator[Conflict]:
        """See :meth:`Root.conflicts`."""
        if (steps := self.campaign.steps) > MOST_STEPS:
            yield ("campaign",), f"{steps:,} steps, and at most {MOST_STEPS:,} are possible"

    def steps(self) -> Iterator[CampaignStep]:
        """All steps: each cell once before any a second time, shuffled within each repetition."""
        section = self.campaign
        cells = list(
            product(section.scenarios, section.devices or ("",), product(*section.settings.values()))
        )
        for repetition in range(section.repetitions):
            order = list(range(len(cells)))
            random.Random(f"{section.seed}/{repetition}").shuffle(order)
            for cell in order:
                scenario, device, setting = cells[cell]
                number = repetition * len(cells) + cell
                yield CampaignStep(number, scenario, device, setting, repetition)

    def document(self, step: CampaignStep, inputs: Inputs) -> dict[str, Any]:
        """The scenario of ``step`` as plain values, not yet checked."""
        section = self.campaign
        base = section.scenarios[step.scenario]
        changes = [] if not step.device else [section.devices[step.device]]
        changes += [
            section.settings[name][label] for name, label in zip(section.settings, step.setting, strict=True)
        ]
        if isinstance(base, Path):
            base = dict(parse(inputs.read_text(base, "a scenario file", limits.MOST_BYTES), str(base)).value)
        whole = reduce(_merged, changes, base)
        return {**whole, "name": f"{self.name}: {step.place}"[:200], "report": None}

    def root(self, step: CampaignStep, inputs: Inputs) -> Root:
        """The scenario of ``step``, checked; raises ``InputError`` that names the step."""
        root = scenarios.check(Document(step.place, self.document(step, inputs)), inputs=inputs)
        if isinstance(root, CampaignScenario):
            raise InputError(f"{step.place}: a campaign cannot be a step of a campaign")
        lab = getattr(root, "lab", None)
        if isinstance(lab, Lab) and lab.kind == "wired":
            raise InputError(
                f"{step.place}: the lab 'wired' asks before it sends by real ports, which a campaign cannot; "
                "measure this scenario with weir run"
            )
        if self.campaign.folder is not None:
            if inputs.refusal:
                raise InputError(f"campaign.folder: {inputs.refusal}")
            root = root.beside(self.campaign.folder)
        return _reseeded(root, step.repetition) if step.repetition else root


def _read(path: Path, folder: Path) -> dict[str, Any]:
    own = folder / path
    return scenarios.load(own if own.exists() else ready.find(path)).model_dump(
        mode="json", exclude_unset=True
    )


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``: mappings key by key, everything else as a whole."""
    found = dict(base)
    for key, value in changes.items():
        before = found.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = _merged(before, value)
        found[key] = value
    return found


def _reseeded(section: S, repetition: int) -> S:
    """``section`` with every seed in it raised by ``repetition``."""
    changes: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            changes[name] = _reseeded(value, repetition)
        elif name == "seed" and isinstance(value, int):
            changes[name] = value + repetition
    return section.model_copy(update=changes)
