"""Planning with fitted models: which device, up to which load, with how many rules, for which traffic.

Pure. A :class:`~weirlab.model.planning.planner.PlanningQuestion` says what is given and what to find;
:func:`~weirlab.model.planning.planner.answer` answers it with one model.
"""

from __future__ import annotations

from weirlab.model.planning.planner import (
    Conclusion,
    Find,
    Headroom,
    OfferedLoad,
    PlanAnswer,
    PlanForecast,
    PlanningQuestion,
    answer,
    best,
)
from weirlab.model.planning.requirements import (
    NOTHING_LOST,
    QuantityLimit,
    Requirement,
    for_calls,
    for_class,
    limits,
    parse_limit,
)
from weirlab.model.planning.search import Reach

__all__ = [
    "NOTHING_LOST", "Conclusion", "Find", "Headroom", "OfferedLoad", "PlanAnswer", "PlanForecast",
    "PlanningQuestion", "QuantityLimit", "Reach", "Requirement", "answer", "best", "for_calls", "for_class",
    "limits", "parse_limit",
]  # fmt: skip
