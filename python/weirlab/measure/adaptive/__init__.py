"""A profile that chooses its trials while it measures, where the model is least certain.

``design`` says what may be measured and where to begin, ``acquisition`` which trials say most,
``rounds`` measures, fits and chooses until the model is sure or the budget is used up.
"""

from weirlab.measure.adaptive.acquisition import choose, committee, spread, step_doubt
from weirlab.measure.adaptive.design import AdaptivePlan, Candidates
from weirlab.measure.adaptive.rounds import ADAPTIVE, AdaptiveOutcome, Round, kept_rounds, measure, sure

__all__ = [
    "ADAPTIVE", "AdaptiveOutcome", "AdaptivePlan", "Candidates", "Round", "choose", "committee",
    "kept_rounds", "measure", "spread", "step_doubt", "sure",
]  # fmt: skip
