"""What a report is made from: a run, models, and how the models did on held-out trials.

The protocols name the little that a report needs, so that it can be built from anything
that offers as much. :func:`gather` reads all of it once; the rest of the package works on
the resulting :class:`Evidence` and touches no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from weirlab.errors import ModelError
from weirlab.model import ErrorRow, compare, regimes
from weirlab.model.base import Table
from weirlab.records import Observation
from weirlab.report.numbers import rules

TRIAL: Final = "trial"
"""What ``source`` holds in rows that come from trials; other rows hold a model's name."""

_OF_MODELS: Final = (
    "frame_bytes",
    "position",
    "forwarding_pps",
    "loss_ratio",
    "delay_mean_ns",
    "delay_p50_ns",
    "delay_p90_ns",
    "delay_p99_ns",
)


class RunData(Protocol):
    """The part of :class:`weirlab.store.Run` that a report reads."""

    @property
    def manifest(self) -> Any: ...

    def trials(self) -> pl.DataFrame: ...

    def histograms(self) -> pl.DataFrame: ...

    def has(self, name: str) -> bool: ...

    def get_json(self, name: str) -> Any: ...

    def observations(self, role: str | None = None) -> list[Observation]: ...


class Predicted(Protocol):
    """Arrays of one length: what a model expects (``weirlab.model.Prediction``)."""

    @property
    def loss_ratio(self) -> Any: ...
    @property
    def delay_mean_ns(self) -> Any: ...
    @property
    def delay_p50_ns(self) -> Any: ...
    @property
    def delay_p99_ns(self) -> Any: ...


class Predictor(Protocol):
    """The part of a model that a report uses; ``parameters`` and ``in_words`` are optional extras."""

    def predict(self, rate_pps: Any, frame_bytes: Any, position: Any) -> Predicted: ...

    def threshold_pps(self, position: Any, frame_bytes: Any) -> Any: ...


@dataclass(frozen=True)
class Verification:
    """Held-out trials (rows as in ``Run.trials()``) and the models' errors on them (``model.compare``)."""

    trials: pl.DataFrame
    errors: tuple[ErrorRow, ...] = ()


@dataclass(frozen=True)
class Evidence:
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
    calibration: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """The driver's name as recorded with the trials."""
        return str(self.attempts["dut"][0]) if self.attempts.height else "no device"

    @property
    def lab(self) -> str:
        return str(self.attempts["lab"][0]) if self.attempts.height else ""

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
    run: RunData, models: Mapping[str, Predictor], verification: Verification | None = None
) -> Evidence:
    """Read ``run`` once.

    Without ``verification`` the run's own trials of role ``verify`` are taken, and the
    models' errors on them computed.
    """
    attempts = readable(run.trials())
    valid = attempts.filter(pl.col("valid"))
    roles = set(valid["role"].to_list())
    profile = valid.filter(pl.col("role") == ("profile" if "profile" in roles else "single"))
    if verification is None:
        heldout = valid.filter(pl.col("role") == "verify")
        errors = _errors(models, run.observations("verify")) if heldout.height else ()
    else:
        heldout, errors = readable(verification.trials), verification.errors
        attempts = pl.concat(
            [attempts, heldout.filter(~pl.col("trial_id").is_in(attempts["trial_id"].implode()))]
        )
        heldout = heldout.filter(pl.col("valid"))
    return Evidence(
        manifest=_mapping(run.manifest),
        attempts=attempts,
        profile=_with_regime(_steady(profile)),
        heldout=_with_regime(_steady(heldout)),
        histograms=run.histograms(),
        models=models,
        errors=errors,
        calibration=_mapping(run.get_json("calibration")) if run.has("calibration") else {},
    )


_COLUMNS: Final = (
    "trial_id",
    "index",
    "role",
    "attempt",
    "lab",
    "dut",
    "backend",
    "position",
    "stateful",
    "sizes_text",
    "frame_bytes",
    "flows",
    "offered_pps",
    "achieved_pps",
    "forwarding_pps",
    "sent",
    "lost",
    "loss_ratio",
    "delay_mean_ns",
    "delay_p50_ns",
    "delay_p90_ns",
    "delay_p99_ns",
    "jitter_ns",
    "invalid",
    "valid",
    "spec",
)


def readable(trials: pl.DataFrame) -> pl.DataFrame:
    """The columns that reports use, with labels: ``panel`` (frame size), ``setup`` and ``words`` (rules).

    CPU columns of the device's core (``dut_*_s``) are kept under their names.
    """
    cpu = [name for name in trials.columns if name.startswith("dut_") and name.endswith("_s")]
    both = trials["stateful"].n_unique() > 1 if trials.height else False
    labels = [
        _setup(row["dut"], row["position"], row["stateful"] and both)
        for row in trials.select("dut", "position", "stateful").iter_rows(named=True)
    ]
    return trials.select(
        *(pl.col(name) for name in _COLUMNS),
        *(pl.col(name).cast(pl.Float64) for name in cpu),
        panel=pl.Series([_panel(text) for text in trials["sizes_text"]], dtype=pl.String),
        setup=pl.Series([short for short, _ in labels], dtype=pl.String),
        words=pl.Series([phrase for _, phrase in labels], dtype=pl.String),
    )


def _panel(sizes_text: str) -> str:
    """``64`` as ``64-byte frames``; mixes by their names."""
    if sizes_text.isdigit():
        return f"{sizes_text}-byte frames"
    return "Simple IMIX" if sizes_text == "imix" else f"frames {sizes_text}"


def _setup(dut: str, position: float, stateful: bool) -> tuple[str, str]:
    """A setting's name in legends and in sentences; the user's own ruleset has no position."""
    short, phrase = (f"{position:,.6g}", rules(position)) if dut != "ruleset" else ("ruleset", "the ruleset")
    return (f"{short} stateful", f"{phrase} (stateful)") if stateful else (short, phrase)


def _steady(trials: pl.DataFrame) -> pl.DataFrame:
    """Trials with one load throughout: neither a load step nor silence has a place on a load axis."""
    steady = pl.Series([not _steps(text) for text in trials["spec"]], dtype=pl.Boolean)
    return trials.filter(steady & (pl.col("achieved_pps") > 0))


def _with_regime(trials: pl.DataFrame) -> pl.DataFrame:
    """Adds ``overload``, told apart as the models do it, so that both speak of the same threshold."""
    columns = pl.struct(
        usable=pl.all_horizontal(pl.col(*_OF_MODELS).is_not_null()) & (pl.col("forwarding_pps") > 0),
        row=pl.int_range(pl.len()),
    )
    rows = trials.select(columns.alias("at")).unnest("at").filter("usable")["row"].to_list()
    values = trials[rows].select("achieved_pps", *_OF_MODELS, pl.col("jitter_ns").fill_null(math.nan))
    overload = np.zeros(trials.height, dtype=np.bool_)
    if rows:
        table = Table(*(values[name].cast(pl.Float64).to_numpy() for name in values.columns))
        overload[rows] = regimes.sort(table).overload
    return trials.with_columns(overload=pl.Series(overload, dtype=pl.Boolean))


def _errors(models: Mapping[str, Any], observations: list[Observation]) -> tuple[ErrorRow, ...]:
    try:
        return tuple(row for model in models.values() for row in compare(model, observations))
    except ModelError:
        # Held-out trials in which nothing arrived leave nothing to compare; the page says so.
        return ()


def _steps(spec: str | None) -> Sequence[Any]:
    try:
        traffic = json.loads(spec or "{}").get("traffic", {})
    except (ValueError, AttributeError):
        return ()
    return traffic.get("steps") or () if isinstance(traffic, dict) else ()


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
