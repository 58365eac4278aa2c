"""A site for tests, which does not exist on the host."""

from __future__ import annotations

from typing import Final

from weirlab.lab import wiring
from weirlab.lab.base import Site

SITE: Final = Site("weir-none", wiring.IN0, wiring.OUT0, wiring.TX0, wiring.RX0, 1)
