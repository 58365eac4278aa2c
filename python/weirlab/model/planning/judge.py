"""Whether a device meets limits at given settings, many settings at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.model.base import DELAYS, F64, Bool, Prediction, Predictor
from weirlab.model.intervals.calibration import NEAR
from weirlab.model.planning import certainty as intervals
from weirlab.model.planning.requirements import QuantityLimit

BOUNDED = (*DELAYS, "jitter_ns", "loss_ratio")
"""Quantities that can be limited."""

Decision = Literal["meets", "undecided", "misses"]
"""For one setting: the limits hold with the requested certainty; the prediction meets them with room to
spare, but its interval is too wide to be sure; the device does not meet them."""

ROOM: Final = 1 / NEAR[0]
"""Anything no further than this from a limit, in load or in the limited quantity, has reached it: a device
this close to its threshold is near it, and a plan must not rely on that."""

_HIGHER = {name: DELAYS[i + 1 :] for i, name in enumerate(DELAYS) if name != "delay_mean_ns"}


@dataclass(frozen=True)
class OperatingPoints:
    """Settings at which a device is judged; arrays of one shape, or numbers."""

    rate_pps: npt.ArrayLike
    frame_bytes: npt.ArrayLike
    position: npt.ArrayLike


@dataclass(frozen=True)
class DeviceVerdict:
    """What a device does at :class:`Settings`; arrays of their shape."""

    prediction: Prediction
    bounds: dict[str, F64]
    """By quantity of the limits: the bound below which it stays with the requested certainty."""
    met: Bool
    """Every limit holds."""
    binding: npt.NDArray[np.intp]
    """Index of the limit that is closest, or exceeded most."""
    outside: Bool
    """Outside the profiled range."""


@dataclass(frozen=True)
class Judge:
    """A model and its requirements.

    ``certainty`` (0.5 to 0.995) chooses the bound of the predictions; a model without
    intervals has only its predictions, see ``uncertain``.
    """

    model: Predictor
    limits: tuple[QuantityLimit, ...]
    certainty: float = intervals.DEFAULT
    gap_scv: float = 0.0
    extrapolate: bool = False

    def at(self, settings: OperatingPoints) -> DeviceVerdict:
        """Judge every setting; raises ``InputError`` for settings without meaning."""
        rate, frame, place = np.broadcast_arrays(
            np.asarray(settings.rate_pps, dtype=np.float64),
            np.asarray(settings.frame_bytes, dtype=np.float64),
            np.asarray(settings.position, dtype=np.float64),
        )
        found = self.model.predict(rate, frame, place, self.gap_scv)
        bounds = {limit.quantity: self.bound(found, limit.quantity, rate) for limit in self.limits}
        # An unknown quantity (jitter that was not measured) does not meet its limit.
        used = np.stack(
            [np.nan_to_num(bounds[limit.quantity] / limit.at_most, nan=np.inf) for limit in self.limits]
        )
        return DeviceVerdict(
            prediction=found,
            bounds=bounds,
            met=np.asarray((used <= 1.0).all(axis=0)),
            binding=np.asarray(used.argmax(axis=0)),
            outside=np.broadcast_to(found.extrapolated, rate.shape),
        )

    def bound(self, found: Prediction, quantity: str, rate_pps: F64) -> F64:
        """The bound below which ``quantity`` stays with the requested certainty."""
        if quantity == "loss_ratio":
            return intervals.loss_at_most(found, rate_pps, self.certainty)
        bound = intervals.at_most(found, quantity, self.certainty)
        for higher in _HIGHER.get(quantity, ()):
            # A bound that 99 % of packets meet, 90 % meet as well.
            if intervals.known(found, higher):
                bound = np.minimum(bound, intervals.at_most(found, higher, self.certainty))
        return bound

    def decide(self, settings: OperatingPoints) -> Decision:
        """The decision on a single setting with the requested certainty.

        ``undecided`` is due to the profile: by the prediction the limits hold here and still do at a
        load a tenth higher, and every bound that misses its limit lies more than a tenth above the
        prediction. A bound of the loss is always far from a predicted loss of zero.
        """
        verdict = self.at(settings)
        if verdict.met:
            return "meets"
        foreseen = replace(self, certainty=0.5)
        more = replace(settings, rate_pps=np.asarray(settings.rate_pps, dtype=np.float64) * ROOM)
        if not (foreseen.at(settings).met and foreseen.at(more).met):
            return "misses"
        wide = all(
            limit.quantity == "loss_ratio" or bound > ROOM * getattr(verdict.prediction, limit.quantity)
            for limit in self.limits
            if (bound := verdict.bounds[limit.quantity]) > limit.at_most
        )
        return "undecided" if wide else "misses"

    def uncertain(self, settings: OperatingPoints) -> tuple[str, ...]:
        """Limited quantities for which the model has no interval although one is requested."""
        if self.certainty == 0.5:
            return ()
        found = self.model.predict(settings.rate_pps, settings.frame_bytes, settings.position, self.gap_scv)
        return tuple(limit.quantity for limit in self.limits if not intervals.known(found, limit.quantity))

    def reasons(self, settings: OperatingPoints) -> list[str]:
        """Why a single setting lies outside the profiled range; empty inside."""
        return self.model.predict(
            settings.rate_pps, settings.frame_bytes, settings.position, self.gap_scv
        ).why
