"""Lohmiller's firewall, with the packet filter of this machine."""

from __future__ import annotations

from typing import Final

from weirlab.reproduction.firewall.changes import CHANGES
from weirlab.reproduction.firewall.loads import LOADS
from weirlab.reproduction.firewall.mixtures import MIXTURES
from weirlab.reproduction.firewall.models import MODELS
from weirlab.reproduction.firewall.rules import RULES_EXPERIMENTS
from weirlab.reproduction.firewall.scenarios import shared
from weirlab.reproduction.firewall.shapes import SHAPES

EXPERIMENTS: Final = (*LOADS, *CHANGES, *MIXTURES, *RULES_EXPERIMENTS, *SHAPES, *MODELS)

__all__ = ["EXPERIMENTS", "shared"]
