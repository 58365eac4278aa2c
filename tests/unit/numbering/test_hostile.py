"""Fuzz targets of voice signalling: their seeds end as their names say, and damaged ones do no harm."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

FUZZ: Final = Path(__file__).parents[3] / "fuzz"


def _targets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("voice_protocols", FUZZ / "src/voice_protocols.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TARGETS: Final = _targets().TARGETS
SEEDS: Final = sorted(path for target in TARGETS for path in (FUZZ / "corpus" / target).iterdir())


def test_every_target_has_seeds() -> None:
    assert {path.parent.name for path in SEEDS} == set(TARGETS)


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_seed_ends_as_its_name_says(path: Path) -> None:
    assert path.name.endswith(f"-{TARGETS[path.parent.name](path.read_bytes())}")


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_damaged_seed_is_borne(path: Path) -> None:
    whole, chance = path.read_bytes(), random.Random(path.name)
    for _ in range(20):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        TARGETS[path.parent.name](bytes(damaged[: chance.randrange(1, len(damaged) + 1)]))
