"""Options about trials: how many, how long, how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import typer

from weirlab.base import limits

MachineKind = Literal["usual", "noisy"]

PANEL: Final = "Plan"

LoadsOption = Annotated[
    str | None,
    typer.Option(
        "--loads",
        help="Loads as shares of the threshold, e.g. 10%,50%,90%,120%.",
        metavar="SHARE,...",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class TrialsOptions:
    """The trials of a plan; the fields have the names of the scenario keys and are None if not given."""

    PANEL: ClassVar = PANEL

    repetitions: Annotated[
        int | None,
        typer.Option(min=1, max=limits.MOST_REPETITIONS, help="Trials per setting.", metavar="N"),
    ] = None
    trial_s: Annotated[
        float | None,
        typer.Option(
            "--duration", min=0, max=limits.LONGEST_S, help="Recorded seconds per trial.", metavar="S"
        ),
    ] = None
    warmup_s: Annotated[
        float | None,
        typer.Option(
            "--warmup", min=0, max=limits.LONGEST_S, help="Seconds of traffic before recording.", metavar="S"
        ),
    ] = None
    max_attempts: Annotated[
        int | None,
        typer.Option(
            "--attempts", min=1, max=limits.MOST_ATTEMPTS, help="Maximum attempts per trial.", metavar="N"
        ),
    ] = None
