"""The options that impair what ``weir calls --write`` writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import given, reading

if TYPE_CHECKING:
    from weirlab.traffic.calls.impairments import Impairments

_TIME: Final = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>us|µs|ms|s)")
_UNIT_NS: Final = {"us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class FaultOptions:
    """What is wrong with the speech in a file."""

    PANEL: ClassVar = "With --write"

    loss: Annotated[
        str | None, typer.Option(help="Share of speech packets that are lost.", metavar="SHARE")
    ] = None
    loss_burst: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=limits.LONGEST_LOSS_RUN,
            help="Mean length of a run of losses (Gilbert model); without it, losses are independent.",
            metavar="N",
        ),
    ] = None
    jitter: Annotated[
        str | None,
        typer.Option(help="Mean random delay of speech packets, e.g. 5ms.", metavar="TIME"),
    ] = None
    reorder: Annotated[
        str | None,
        typer.Option(help="Share of packets that the next one overtakes.", metavar="SHARE"),
    ] = None
    duplicate: Annotated[
        str | None, typer.Option(help="Share of packets that arrive twice.", metavar="SHARE")
    ] = None


def impairments(options: FaultOptions, seed: int) -> Impairments | None:
    """The faults that the options ask for; None for none.

    Raises
    ------
    InputError
        A value is not understood or impossible.
    """
    if not given(options):
        return None
    from weirlab.traffic.calls.impairments import Impairments

    loss, burst = options.loss, options.loss_burst
    if burst is not None and loss is None:
        raise InputError("--loss-burst goes with --loss: it says how long the runs of losses are")
    return Impairments(
        loss_ratio=_share("--loss", loss),
        loss_burst=burst,
        jitter_ns=_time_ns("--jitter", options.jitter),
        reorder_ratio=_share("--reorder", options.reorder),
        duplicate_ratio=_share("--duplicate", options.duplicate),
        seed=seed,
    )


def _share(option: str, text: str | None) -> float:
    return 0.0 if text is None else reading.one_share(text, option, "2%")


def _time_ns(option: str, text: str | None) -> float:
    if text is None:
        return 0.0
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(f"{option}: {text!r} not understood; give a time with its unit, e.g. {option} 5ms")
    return float(match["value"]) * _UNIT_NS[match["unit"]]
