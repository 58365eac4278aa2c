"""Predictions of fitted models, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab.base.errors import InputError, Undecided
from weirlab.base.quantities import percent, words
from weirlab.base.quantities import rules as whole_rules
from weirlab.devices.prediction.modelling import find_device, more_trials_of
from weirlab.model import DeviceModels, Model
from weirlab.model.base import DELAYS, QUANTITIES, TOLD_LEVEL, ProfileRange
from weirlab.model.intervals.calibration import NEAR
from weirlab.model.planning.judge import LoadFloor
from weirlab.model.planning.requirements import NO_LOSS
from weirlab.model.servers import SeveralServers
from weirlab.store import Store
from weirlab.traffic.load import describe_rate, rate_pps
from weirlab.traffic.sizes import SizeMix, describe, mean_bytes
from weirlab.traffic.spec import GAP_SCV, Arrivals, Rate

_MAGNITUDE: Final = 10.0
_SURELY: Final = 0.5
"""Share of the time per packet below which a delay is impossible, whatever the error of the threshold."""

MOST_SHARE_ERROR: Final = 0.1
"""Largest error in the threshold at held-out shares of new flows with which others are predicted."""


@dataclass(frozen=True)
class PredictionOutcome:
    """What each model predicts for one setting."""

    rate_text: str
    rate_pps: float
    sizes_text: str
    frame_bytes: float
    position: float
    predictions: dict[str, dict[str, float]]
    """By model: ``threshold_pps, loss_ratio, delay_*_ns, jitter_ns``."""
    outside: tuple[str, ...]
    """Why this extrapolates; empty inside the profiled range."""
    intervals: dict[str, dict[str, dict[int, tuple[float, float]]]] = field(default_factory=dict)
    """By model, quantity and level in percent: where a new trial should lie; empty if not calibrated."""
    device: str = ""
    simulated: bool = False
    """The models are those of a simulated device."""
    unusable: str = ""
    """Why the profile behind the models does not count; empty if it does."""
    more_trials: str = ""
    """How to profile the device again with more trials."""
    new_share: float | None = None
    """Share of the packets that open a flow, if the profile went through such shares."""
    share_error: float | None = None
    """If that share was not profiled: the largest error in the threshold at held-out shares, as a ratio."""
    cpu_shares: tuple[float, ...] = (1.0,)
    """The share of the packets that each CPU of the device gets."""
    unchecked: str = ""
    """What the intervals of the first model do not cover; empty if nothing."""
    run_id: str = ""
    """The run behind the models, to be cited; empty if unknown."""
    least_pps: float | None = None
    """The lowest profiled load, if it stands for the lower one in question, as a bound."""

    @property
    def unsure(self) -> tuple[str, ...]:
        """The quantities that the first model knows only to an order of magnitude.

        A possible loss far below the threshold comes from the host that disturbed the profile.
        """
        name, found = next(iter(self.predictions.items()))
        bands = {quantity: levels[TOLD_LEVEL] for quantity, levels in self.intervals.get(name, {}).items()}
        delays = [q for q in DELAYS if q in bands and bands[q][1] > _MAGNITUDE * bands[q][0]]
        clear = self.rate_pps < NEAR[0] * found["threshold_pps"]
        loss = clear and "loss_ratio" in bands and bands["loss_ratio"][1] > NO_LOSS
        return (*delays, *(["loss_ratio"] if loss else ()))

    @property
    def impossible(self) -> tuple[str, ...]:
        """The models whose mean or median delay is shorter than the time that the device takes per packet."""
        if len(self.cpu_shares) > 1:
            return ()
        return tuple(
            name
            for name, found in self.predictions.items()
            if min(found["delay_mean_ns"], found["delay_p50_ns"]) < _SURELY * 1e9 / found["threshold_pps"]
        )

    def document(self) -> dict[str, Any]:
        """For ``--json``: the first model's numbers on top, all models' below ``models``."""
        first = next(iter(self.predictions))
        return {
            "kind": "prediction",
            "rate": self.rate_text,
            "rate_pps": self.rate_pps,
            "sizes": self.sizes_text,
            "frame_bytes": self.frame_bytes,
            "position": self.position,
            **({} if self.new_share is None else {"new_share": self.new_share}),
            **({} if self.share_error is None else {"share_error": self.share_error}),
            **({} if len(self.cpu_shares) == 1 else {"cpu_shares": self.cpu_shares}),
            **({} if self.least_pps is None else {"least_pps": self.least_pps}),
            "device": self.device,
            "run_id": self.run_id or None,
            "simulated": self.simulated,
            "unusable": self.unusable or None,
            "model": first,
            **self.predictions[first],
            "extrapolated": bool(self.outside),
            "why_extrapolated": self.outside,
            "models": self.predictions,
            "intervals": self.intervals,
            "unchecked": self.unchecked or None,
            "too_noisy_for": self.unsure,
            "impossible_delays": self.impossible,
        }


def usual_position(models: Mapping[str, Model]) -> int:
    """The matching position that the models know if that is only one, as of the user's own rules; else 0."""
    ranges = (getattr(model, "profiled", None) for model in models.values())
    found = next((profiled for profiled in ranges if isinstance(profiled, ProfileRange)), None)
    if found is None or found.position_min != found.position_max:
        return 0
    return round(found.position_min)


def position_of(
    device: DeviceModels, rules: float | None, new_share: float | None, share_error: float | None = None
) -> float:
    """The position that the models of ``device`` know for ``rules`` (None: :func:`usual_position`), or for a
    share of packets that open a flow, if the profile went through such shares.

    A share between profiled ones has one if ``share_error``, the largest error in the threshold at held-out
    shares (see :func:`weirlab.devices.prediction.verification.share_error`), is at most
    :data:`MOST_SHARE_ERROR`; else ``Undecided`` says what helps.
    """
    behind = device.new_flow_rules
    if not behind:
        if new_share is not None:
            raise InputError(f"the profile of {device.name} has no shares of new flows: leave --new out")
        return usual_position(device.models) if rules is None else rules
    through = f"the profile of {device.name} went through shares of new flows behind {whole_rules(behind)}"
    if new_share is None:
        raise InputError(f"{through}: give one, e.g. --new 10%")
    if rules not in (None, behind):
        raise InputError(f"{through}: leave --rules out")
    shares = device.facts.get("new_shares", ())
    if not is_profiled(device, new_share):
        profiled = words([percent(share) for share in shares])
        between = min(shares) < new_share < max(shares)
        if between and share_error is not None and share_error <= MOST_SHARE_ERROR:
            return behind * new_share
        run_id = device.facts.get("run_id")
        if not between:
            why, way = f"{percent(new_share)} is not between them", ""
        elif share_error is None:
            why = "what lies between them has not been shown to follow from them"
            way = f"measure shares between them (weir verify {run_id}), or " if run_id else ""
        else:
            why, way = f"thresholds at shares between them were up to {percent(share_error)} off", ""
        raise Undecided(f"{through}, {profiled}: {why}; {way}profile {percent(new_share)} as well")
    return behind * new_share


def is_profiled(device: DeviceModels, new_share: float) -> bool:
    """Whether the profile has trials at this share of packets that open a flow."""
    return any(math.isclose(new_share, share, abs_tol=1e-9) for share in device.facts.get("new_shares", ()))


@dataclass(frozen=True)
class PredictionLoad:
    """The load of a prediction."""

    rate: Rate
    sizes: SizeMix
    arrivals: Arrivals = "constant"
    cpu_shares: tuple[float, ...] = (1.0,)
    """The share of the packets that each CPU of the device gets."""


def predict(
    store: Store,
    source: str,
    load: PredictionLoad,
    position: float | None,
    *,
    device: str | None = None,
    share_error: float | None = None,
    extrapolate: bool = False,
) -> PredictionOutcome:
    """What the models of ``source`` (file or run) say about one setting.

    ``device`` chooses one if a file has several. ``position`` is that of the models, see :func:`position_of`;
    so is ``share_error``. Unless models are to ``extrapolate``, a load below the lowest profiled one is
    answered as that.
    """
    rate, sizes, shares = load.rate, load.sizes, load.cpu_shares
    asked, _ = find_device(store, source, device)
    if position is None:
        position = position_of(asked, None, None)
    pps = rate_pps(rate, sizes)
    if not math.isfinite(pps):
        raise InputError("a prediction needs a load in numbers, not 'max'; e.g. --rate 300kpps")
    frame_bytes = mean_bytes(sizes)
    predictions: dict[str, dict[str, float]] = {}
    intervals: dict[str, dict[str, dict[int, tuple[float, float]]]] = {}
    outside: dict[str, None] = {}
    unchecked: dict[str, str] = {}
    least: list[float] = []
    for name, model in asked.models.items():
        served = SeveralServers(model, shares) if len(shares) > 1 else model
        floor = LoadFloor.of(served)
        if not extrapolate and floor.replaces(pps):
            least.append(floor.least_pps)
        answering = served if extrapolate else floor
        found = answering.predict(pps, frame_bytes, position, GAP_SCV[load.arrivals])
        predictions[name] = {quantity: float(getattr(found, quantity)) for quantity in QUANTITIES}
        intervals[name] = {
            quantity: {level: (float(band.low), float(band.high)) for level, band in bands.items()}
            for quantity, bands in found.intervals.items()
        }
        outside.update(dict.fromkeys(found.why))
        unchecked[name] = found.unchecked
    new_share = position / asked.new_flow_rules if asked.new_flow_rules else None
    return PredictionOutcome(
        describe_rate(rate),
        pps,
        describe(sizes),
        frame_bytes,
        position,
        predictions,
        tuple(outside),
        intervals,
        asked.name,
        asked.simulated,
        asked.unusable,
        more_trials_of(store, asked),
        new_share,
        share_error if new_share is not None and not is_profiled(asked, new_share) else None,
        shares,
        next(iter(unchecked.values())),
        str(asked.facts.get("run_id", "")),
        max(least, default=None),
    )


def below_profiled(least: str) -> str:
    """What an answer for a load below the lowest profiled one rests on."""
    return (
        f"The load is below the lowest profiled one ({least}); delays and losses at that one are "
        "bounds, assuming that a lighter load waits no longer and loses no more."
    )
