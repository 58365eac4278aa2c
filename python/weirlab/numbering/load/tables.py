"""A load test as tables."""

from __future__ import annotations

import math
from typing import Final

from weirlab.base.quantities import NOTHING, count, decimals, duration, percent
from weirlab.base.tables import Table
from weirlab.numbering.load.findings import LoadFindings, LoadLimitRow, LoadTrialRow
from weirlab.numbering.through.rows import device_table

_LIMITS: Final = (
    "Number", "Translation", "Decided", "Carried", "Too many", "Set-up", "p99", "Lost", "Jitter", "MOS",
    "Engines' cores",
)  # fmt: skip


def limits(found: LoadFindings) -> Table:
    """A row per number."""
    cells = [
        (
            limit.number,
            limit.translation or NOTHING,
            limit.decided or NOTHING,
            carried(limit),
            count(limit.too_many_per_s),
            *_at_limit(found, limit),
        )
        for limit in found.limits
        if not limit.no_load
    ]
    title = "Calls per second; set-up, speech and work at the highest rate carried"
    return Table(title, _LIMITS, cells, spare=("Decided", "Engines' cores", "Lost", "Jitter"))


def not_loaded(found: LoadFindings) -> Table | None:
    """A row per number that cannot be called many times; None if there are none."""
    cells = [
        (limit.number, limit.translation or NOTHING, limit.no_load) for limit in found.limits if limit.no_load
    ]
    return Table("Not loaded", ("Number", "Translation", "Reason"), cells) if cells else None


def carried(limit: LoadLimitRow) -> str:
    """``at least 640``."""
    return f"{'at least ' if limit.at_least else ''}{count(limit.carried_per_s)}"


def _at_limit(found: LoadFindings, limit: LoadLimitRow) -> tuple[str, ...]:
    """Median and 99th percentile of the set-up time, loss, jitter, MOS, work: of the last good trial."""
    last = next((row for row in reversed(found.at_limit(limit)) if not row.unsent), None)
    if last is None:
        return (NOTHING,) * 6
    work = ", ".join(
        f"{row.engine} {percent(row.cpu_share, 2)}" for row in found.work_of(last) if row.program != "sipp"
    )
    return classed(last.setup_p50_ms), classed(last.setup_p99_ms), *_media(last), work or NOTHING


def _media(row: LoadTrialRow) -> tuple[str, str, str]:
    """Loss, jitter and MOS of the calls with speech."""
    lost = percent(row.media_lost_ratio)
    return lost, duration(row.media_jitter_ms * 1e6), decimals(row.media_mos)


def classed(upper_ms: float) -> str:
    """A class of set-up times by its upper end: ``< 5 ms``."""
    return NOTHING if math.isnan(upper_ms) else f"< {duration(upper_ms * 1e6)}"


def trials(found: LoadFindings) -> Table:
    """A row per trial."""
    columns = (
        "Number", "Calls/s", "Calls", "Unsent", "Failed", "Slow", "Set-up", "p99", "Lost", "Jitter", "MOS",
        "Cores",
    )  # fmt: skip
    cells = [(*_trial(row), _cores(found, row)) for row in found.trials]
    return Table("Trials", columns, cells, details=True)


def through(found: LoadFindings) -> Table | None:
    """Two rows per trial: the packets that passed the device; None if there is none."""
    titles = {row.index: f"{row.number}, {count(row.rate_per_s)} calls/s" for row in found.trials}
    return device_table(found.passed, "Trial", titles, found.device)


def _trial(row: LoadTrialRow) -> tuple[str, ...]:
    counts = (row.rate_per_s, row.calls, row.unsent, row.failed, row.slow)
    return (
        row.number,
        *map(count, counts),
        classed(row.setup_p50_ms),
        classed(row.setup_p99_ms),
        *_media(row),
    )


def _cores(found: LoadFindings, trial: LoadTrialRow) -> str:
    """CPU time of all engines, without SIPp."""
    used = sum(row.cpu_share for row in found.work_of(trial) if row.program != "sipp")
    return percent(used, 2)
