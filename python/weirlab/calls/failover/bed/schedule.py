"""The schedule of a pair's traffic."""

from __future__ import annotations

from functools import lru_cache

from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Traffic


@lru_cache(maxsize=1)
def compiled(traffic: Traffic) -> DeparturePlan:
    """The schedule of ``traffic``, every packet of it; the last one stays, since all attempts send the same.

    Raises ``InputError`` for what cannot be sent.
    """
    return compile_plan(traffic)
