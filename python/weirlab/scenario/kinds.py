"""Which kinds of scenario there are, and of which kind a file is.

The kind shows in a key at the top that no other kind has: ``profile:``, ``capacity:``. A new kind
is a :class:`~weirlab.scenario.model.Root` of its own, named here; ``weirlab.jobs.scenarios``
carries it out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from weirlab.scenario.capacity import CapacityScenario
from weirlab.scenario.failover import FailoverScenario
from weirlab.scenario.model import Root, Scenario
from weirlab.scenario.monitor import MonitorScenario

AnyScenario = Scenario | CapacityScenario | FailoverScenario | MonitorScenario

KINDS: Final[tuple[type[Root], ...]] = (Scenario, CapacityScenario, FailoverScenario, MonitorScenario)
"""The first is meant where nothing tells."""


def telling(keys: Iterable[str]) -> list[str]:
    """Those of ``keys`` that tell a kind; more than one leaves open which is meant."""
    known = {kind.KEY for kind in KINDS}
    return [key for key in keys if key in known]


def kind_of(keys: Iterable[str]) -> type[Root]:
    """The kind of a file with these ``keys`` at the top; a key that is nearly right counts, too."""
    keys = list(keys)
    by_key = {kind.KEY: kind for kind in KINDS}
    for key in telling(keys):
        return by_key[key]
    for key in keys:
        if close := difflib.get_close_matches(key, by_key, n=1):
            return by_key[close[0]]
    return KINDS[0]


def listed() -> str:
    """The keys that tell the kinds apart, for people."""
    keys = [repr(kind.KEY) for kind in KINDS]
    return f"{', '.join(keys[:-1])} and {keys[-1]}"
