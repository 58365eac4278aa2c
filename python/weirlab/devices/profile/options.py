"""Options of ``weir trial`` and ``weir profile``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import (
    FlowOptions,
    LoadsOption,
    MachineKind,
    NameOption,
    SeveralSizesOptions,
    SizeOptions,
    StepOptions,
    TrialsOptions,
    only,
    reading,
    typed,
)


@dataclass(frozen=True)
class SteppedFlowOptions(StepOptions, FlowOptions):
    """Traffic that changes on the way."""


@dataclass(frozen=True, kw_only=True)
class TrialTraffic:
    """The traffic of one trial."""

    PANEL: ClassVar = "Traffic"

    rate: Annotated[str, typer.Option(help="Offered load: 2Mpps, 450, 300Mbit/s, 40%@10Gbit/s, max.")]
    sizes: SizeOptions
    flows: Annotated[
        SteppedFlowOptions,
        only("flows", "l4", "ip", "arrivals", "order", "step", "position_step", "seed", "answered", "new"),
    ]


@dataclass(frozen=True)
class TrialPlanOptions(TrialsOptions):
    """The course of one trial, and its repetitions."""

    bin_ms: Annotated[
        float | None,
        typer.Option(
            "--bin",
            min=0,
            max=limits.LONGEST_S * 1e3,
            help="Bins of the time series in ms (default: 10; with steps: 1).",
            metavar="MS",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ProfileTraffic:
    """The traffic of a profile."""

    sizes: SeveralSizesOptions
    flows: FlowOptions


@dataclass(frozen=True)
class AdaptiveOptions:
    """How far a profile goes that chooses its trials."""

    PANEL: ClassVar = "Plan"

    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Choose trials where the model is least certain.")
    ] = False
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=limits.MOST_TRIALS,
            help="With --adaptive: maximum trials (default: half the trials of the whole grid).",
            metavar="N",
        ),
    ] = None
    time_budget: Annotated[
        str | None,
        typer.Option(
            help="Wall time for all trials, e.g. 6min (default: 1.5 times the expected time).",
            metavar="TIME",
        ),
    ] = None
    machine: Annotated[
        MachineKind, typer.Option(help="noisy: tolerate more disturbance and repeat more often.")
    ] = "usual"
    target: Annotated[
        str | None,
        typer.Option(
            help="With --adaptive: stop when predictions are known to within this at 95 % of the "
            "settings (default: 5%).",
            metavar="SHARE",
        ),
    ] = None

    def section(self) -> dict[str, Any] | None:
        """The section ``profile.adaptive`` of a scenario; None for the whole grid."""
        if not self.adaptive:
            if self.budget is not None or self.target is not None:
                raise InputError("--budget and --target go with --adaptive")
            return None
        target = None if self.target is None else reading.one_share(self.target, "--target", "5%")
        return typed({"budget": self.budget, "target": target}, budget="--budget", target="--target")

    def checked_time(self) -> str | None:
        """``--time-budget`` as it is, if it is a time."""
        from weirlab.base.amounts import parse_budget

        if self.time_budget is not None:
            parse_budget(self.time_budget, "--time-budget")
        return self.time_budget


@dataclass(frozen=True, kw_only=True)
class ProfilePlan:
    """Which trials a profile makes."""

    PANEL: ClassVar = "Plan"

    quick: Annotated[
        bool, typer.Option("--quick", help="Measure fewer settings and, of the extras, only random arrivals.")
    ] = False
    name: NameOption = None
    loads: LoadsOption = None
    trials: TrialsOptions
    choice: AdaptiveOptions
