"""How the options are read that impair what ``weir calls --write`` writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from weirlab.cli import options
from weirlab.errors import InputError

if TYPE_CHECKING:
    from weirlab.traffic.calls.impairments import Impairments

_TIME: Final = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>us|µs|ms|s)")
_UNIT_NS: Final = {"us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


def impairments(
    loss: str | None,
    burst: float | None,
    jitter: str | None,
    reorder: str | None,
    duplicate: str | None,
    seed: int,
) -> Impairments | None:
    """The faults that the options ask for; None for none.

    Raises
    ------
    InputError
        Something is not understood, or cannot be.
    """
    if burst is None and loss is jitter is reorder is duplicate is None:
        return None
    from weirlab.traffic.calls.impairments import Impairments

    if burst is not None and loss is None:
        raise InputError("--loss-burst goes with --loss: it says how long the runs of losses are")
    return Impairments(
        loss_ratio=_share("--loss", loss),
        loss_burst=burst,
        jitter_ns=_time_ns("--jitter", jitter),
        reorder_ratio=_share("--reorder", reorder),
        duplicate_ratio=_share("--duplicate", duplicate),
        seed=seed,
    )


def _share(option: str, text: str | None) -> float:
    if text is None:
        return 0.0
    values = options.listed(text, options.share, option, "2%")
    if len(values) != 1:
        raise InputError(f"{option}: one share is needed, {text!r} holds {len(values)}; e.g. {option} 2%")
    return values[0]


def _time_ns(option: str, text: str | None) -> float:
    if text is None:
        return 0.0
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(f"{option}: {text!r} not understood; give a time with its unit, e.g. {option} 5ms")
    return float(match["value"]) * _UNIT_NS[match["unit"]]
