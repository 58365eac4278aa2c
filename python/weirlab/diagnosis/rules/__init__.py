"""The rules in the order in which they are tried: each takes its part of the time that is left."""

from __future__ import annotations

from typing import Final

from weirlab.diagnosis.rules.ends import (
    APPLICATION_RULES,
    FLAT_RULES,
    HOST_RULES,
    LIMIT_RULES,
    WINDOW_RULES,
)
from weirlab.diagnosis.rules.losses import LOSS_RULES, MARK_RULES, POLICER_RULES, TIMEOUT_RULES
from weirlab.diagnosis.rules.network import GROWTH_RULES, PATH_RULES
from weirlab.diagnosis.rules.rule import DiagnosisRule

RULES: Final[tuple[DiagnosisRule, ...]] = (
    *TIMEOUT_RULES,
    *APPLICATION_RULES,
    *WINDOW_RULES,
    *POLICER_RULES,
    *MARK_RULES,
    *FLAT_RULES,
    *LIMIT_RULES,
    *PATH_RULES,
    *HOST_RULES,
    *LOSS_RULES,
    *GROWTH_RULES,
)

__all__ = ["RULES", "DiagnosisRule"]
