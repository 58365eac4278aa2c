"""What a report is made from: a run, models, and how the models did on held-out trials.

:func:`gather` reads all of it once; the rest of the package works on the resulting
:class:`ProfileEvidence` and touches no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base.errors import ModelError
from weirlab.measure.thresholds import in_overload, irregular, usable
from weirlab.measure.verify import HELD_OUT, parted
from weirlab.model import ErrorRow, compare
from weirlab.model.base import Predictor
from weirlab.model.effects import Effect, effects
from weirlab.model.score import Deviations, deviations
from weirlab.records import Observation, device_in_words
from weirlab.report.numbers import percent
from weirlab.report.numbers import rules as rules_phrase
from weirlab.store import Run
from weirlab.store.steps import StepSeries, step_series

TRIAL: Final = "trial"
"""What ``source`` holds in rows that come from trials; other rows hold a model's name."""


@dataclass(frozen=True)
class VerificationEvidence:
    """Held-out trials (rows as in ``Run.trials()``) and the models' errors on them (``model.compare``)."""

    trials: pl.DataFrame
    errors: tuple[ErrorRow, ...] = ()


@dataclass(frozen=True)
class RunJudgement:
    """What can be believed of a run."""

    machine: str = ""
    """The verdict on the machine in a sentence; empty for a simulated device."""
    good: bool = True
    undecided: str = ""
    """Why no model is judged; empty where they are."""


BELIEVED: Final = RunJudgement()


@dataclass(frozen=True)
class VariedSetting:
    """What a profile goes through: rules, or shares of packets that open a flow."""

    name: str = "rules"
    legend: str = "Rules before the match"
    title: str = "Matching position (rules before the match)"
    """Of a chart's axis."""
    caption: str = "the number of rules walked before the match"
    cost: str = "Cost of a rule"
    unit: str = "rule"
    positions: float = 1.0
    """Positions of a model that are one ``unit``: all rules for a packet that opens a flow."""
    percents: bool = False

    def shown(self, position: pl.Expr) -> pl.Expr:
        """``position`` in the unit of the axis."""
        return position / self.positions * (100 if self.percents else 1)


RULES: Final = VariedSetting()


def new_flows(rules: float) -> VariedSetting:
    """Shares of new flows, whose packets are compared with ``rules``."""
    return VariedSetting(
        "new flows",
        "Packets that open a flow",
        "Packets that open a flow, %",
        f"the share of packets that open a flow, each compared with {rules_phrase(rules)}",
        "Cost of a new flow",
        "first packet, with its answer,",
        rules,
        True,
    )


@dataclass(frozen=True)
class ProfileEvidence:
    """Everything that a report shows, read and sorted.

    Frames have the columns of :func:`readable`; ``profile`` and ``heldout`` also ``overload``.
    """

    manifest: Mapping[str, Any]
    attempts: pl.DataFrame
    """Every attempt of every role, valid or not."""
    profile: pl.DataFrame
    """Valid trials that characterise the device."""
    heldout: pl.DataFrame
    """Valid trials that no model has seen."""
    histograms: pl.DataFrame
    models: Mapping[str, Predictor]
    errors: tuple[ErrorRow, ...] = ()
    deviations: tuple[Deviations, ...] = ()
    """What the models predicted for each held-out trial beside what was measured."""
    calibration: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[StepSeries, ...] = ()
    """Trials whose load changes on the way."""
    judgement: RunJudgement = BELIEVED
    effects: tuple[Effect, ...] = ()
    """What connection tracking, cross traffic and mixed positions cost."""
    irregular: Sequence[Mapping[str, Any]] = ()
    """Valid trials unlike the others, as in ``measure.thresholds.irregular``."""

    @property
    def device(self) -> str:
        """What sentences call the device that is recorded with the trials."""
        return device_in_words(str(self.attempts["dut"][0])) if self.attempts.height else "no device"

    @property
    def lab(self) -> str:
        return str(self.attempts["lab"][0]) if self.attempts.height else ""

    @property
    def varied(self) -> VariedSetting:
        """What the charts have a colour and an axis for."""
        return new_flows(float(self.attempts["rules"][0])) if _shares_vary(self.attempts) else RULES

    @property
    def simulated(self) -> bool:
        """True unless every trial was carried out on a real device."""
        return self.attempts.height > 0 and bool((self.attempts["lab"] == "sim").any())

    @property
    def observed(self) -> str:
        """How trials may be called: nothing is measured on a simulated device."""
        return "simulated" if self.simulated else "measured"

    @property
    def telling(self) -> pl.DataFrame:
        """The trials that answer for the device: its profile, or what else there is."""
        return self.profile if self.profile.height else self.heldout


def gather(
    run: Run,
    models: Mapping[str, Predictor],
    verification: VerificationEvidence | None = None,
    judgement: RunJudgement = BELIEVED,
) -> ProfileEvidence:
    """Read ``run`` once.

    Without ``verification`` the run's own trials of role ``verify`` are taken, and the
    models' errors on them computed. Where no model is judged there are no errors.
    """
    attempts = readable(run.trials())
    valid = attempts.filter(pl.col("valid"))
    observed, _ = parted(run.observations("verify"))
    roles = set(valid["role"].to_list())
    profile = valid.filter(pl.col("role") == ("profile" if "profile" in roles else "single"))
    if verification is None:
        heldout = valid.filter(HELD_OUT)
        errors = _errors(models, observed)
    else:
        heldout, errors = readable(verification.trials), verification.errors
        attempts = pl.concat(
            [attempts, heldout.filter(~pl.col("trial_id").is_in(attempts["trial_id"].implode()))]
        )
        heldout = heldout.filter(pl.col("valid"))
    if judgement.undecided:
        errors, observed = (), []
    return ProfileEvidence(
        manifest=_mapping(run.manifest),
        attempts=attempts,
        profile=in_overload(_steady(profile)),
        heldout=in_overload(_steady(heldout)),
        histograms=run.histograms(),
        models=models,
        errors=errors,
        deviations=_deviations(models, observed),
        calibration=_mapping(run.get_json("calibration")) if run.has("calibration") else {},
        steps=_step_series(run, valid),
        judgement=judgement,
        effects=effects(run.observations("profile")),
        irregular=irregular(usable(run.trials())).to_dicts(),
    )


_COLUMNS: Final = (
    "trial_id", "index", "role", "label", "attempt", "lab", "dut", "backend", "stateful", "new_share",
    "sizes_text", "frame_bytes", "flows", "offered_pps", "achieved_pps", "forwarding_pps", "sent", "lost",
    "loss_ratio", "delay_mean_ns", "delay_p50_ns", "delay_p90_ns", "delay_p99_ns", "jitter_ns", "invalid",
    "valid", "spec",
)  # fmt: skip
_MACHINE: Final = ("frequency_mhz", "temperature_c", "memory_used_bytes")
"""Of runs of all versions that have them."""


def readable(trials: pl.DataFrame) -> pl.DataFrame:
    """The columns that reports use, with labels: ``panel`` (frame size), ``setup`` and ``words`` (rules).

    ``position`` is the one that models know: where shares of new flows vary, the mean over the packets.
    ``gap_scv`` is what models call the variability of the gaps between arrivals.

    CPU columns of the device's core (``dut_*_s``) are kept under their names.
    """
    cpu = [name for name in trials.columns if name.startswith("dut_") and name.endswith("_s")]
    machine = [name for name in _MACHINE if name in trials.columns]
    both = trials["stateful"].n_unique() > 1 if trials.height else False
    vary = _shares_vary(trials)
    labels = [
        _setup(row["dut"], row["position"], row["stateful"] and both, row["new_share"] if vary else None)
        for row in trials.select("dut", "position", "stateful", "new_share").iter_rows(named=True)
    ]
    return trials.select(
        *(pl.col(name) for name in _COLUMNS),
        *(pl.col(name).cast(pl.Float64) for name in (*cpu, *machine)),
        position=pl.col("mean_position" if vary else "position"),
        rules=pl.col("position"),
        gap_scv=(pl.col("spec").str.json_path_match("$.traffic.arrivals").fill_null("") == "poisson").cast(
            pl.Float64
        ),
        panel=pl.Series([_panel(text) for text in trials["sizes_text"]], dtype=pl.String),
        setup=pl.Series([short for short, _ in labels], dtype=pl.String),
        words=pl.Series([phrase for _, phrase in labels], dtype=pl.String),
    )


def _panel(sizes_text: str) -> str:
    """``64`` as ``64-byte frames``; mixes by their names."""
    if sizes_text.isdigit():
        return f"{sizes_text}-byte frames"
    return "Simple IMIX" if sizes_text == "imix" else f"frames {sizes_text}"


def _shares_vary(trials: pl.DataFrame) -> bool:
    return trials["new_share"].drop_nulls().n_unique() > 1


def _setup(dut: str, position: float, stateful: bool, new_share: float | None) -> tuple[str, str]:
    """A setting's name in legends and in sentences; the user's own ruleset has no position."""
    if new_share is not None:
        short, phrase = percent(new_share), f"{percent(new_share)} new flows"
    elif dut == "ruleset":
        short, phrase = "ruleset", "the ruleset"
    else:
        short, phrase = f"{position:,.6g}", rules_phrase(position)
    return (f"{short} stateful", f"{phrase} (stateful)") if stateful else (short, phrase)


def _steady(trials: pl.DataFrame) -> pl.DataFrame:
    """Trials of the grid: neither a step nor silence has a place on a load axis.

    Those that a profile measures beside it (several positions at once, cross traffic, arrivals
    other than most trials') would pass for repetitions of their counterparts in the grid.
    """
    specs = [_spec(text) for text in trials["spec"]]
    arrivals = [spec.get("traffic", {}).get("arrivals") for spec in specs]
    usual = max(set(arrivals), key=arrivals.count, default=None)
    kept = [
        not (spec.get("traffic", {}).get("steps") or spec.get("rules", {}).get("places"))
        and not spec.get("cross_traffic")
        and kind == usual
        for spec, kind in zip(specs, arrivals, strict=True)
    ]
    return trials.filter(pl.Series(kept, dtype=pl.Boolean) & (pl.col("achieved_pps") > 0))


def _step_series(run: Run, trials: pl.DataFrame) -> tuple[StepSeries, ...]:
    """The trials with steps; time series are read only if there are any."""
    stepped = any(_spec(text).get("traffic", {}).get("steps") for text in trials["spec"])
    return tuple(step_series(trials, run.series())) if stepped else ()


def _errors(models: Mapping[str, Any], observations: list[Observation]) -> tuple[ErrorRow, ...]:
    try:
        return tuple(compare(models, observations))
    except ModelError:
        # Held-out trials in which nothing arrived leave nothing to compare; the page says so.
        return ()


def _deviations(models: Mapping[str, Any], observations: list[Observation]) -> tuple[Deviations, ...]:
    try:
        return tuple(deviations(models, observations))
    except ModelError:
        return ()


def _spec(text: str | None) -> dict[str, Any]:
    """A trial's specification; empty where it cannot be read."""
    try:
        spec = json.loads(text or "{}")
    except ValueError:
        return {}
    return spec if isinstance(spec, dict) and isinstance(spec.get("traffic", {}), dict) else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "model_dump"):
        return dict(value.model_dump(mode="json"))
    return dict(vars(value)) if hasattr(value, "__dict__") else {}


def as_floats(value: Any, n: int) -> list[float]:
    """A model's array as ``n`` plain floats (scalars are repeated)."""
    return [float(v) for v in np.broadcast_to(np.asarray(value, dtype=np.float64), (n,))]


def finite(values: Sequence[float | None]) -> list[float]:
    """The numbers among ``values``."""
    return [v for v in values if v is not None and math.isfinite(v)]
