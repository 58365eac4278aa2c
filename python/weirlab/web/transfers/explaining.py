"""Why a transfer was not faster, from what both kernels reported while it ran."""

from __future__ import annotations

from typing import Any, Final

from weirlab.cli.options.sockets import shown
from weirlab.cli.results import diagnosis
from weirlab.studies.tcp import sending
from weirlab.studies.tcp.measure import measuring
from weirlab.studies.tcp.measure.measuring import Measured
from weirlab.web.tables import for_page

_EVERY_S: Final = 0.01
"""Between two reports of a kernel, where that is not too much."""
_MOST_REPORTS: Final = 20_000
"""Of all connections and both ends, kept until the end: some 8 kB each."""


def period_s(settings: sending.Settings, most_s: float) -> float | None:
    """How often both kernels report; None where that would be too much to keep, so that nobody explains."""
    lasts_s = most_s if settings.lasts_s is None else settings.lasts_s
    least_s = 2 * (settings.up + settings.down) * lasts_s / _MOST_REPORTS
    if least_s > settings.interval_s:
        return None
    return min(max(_EVERY_S, least_s), settings.interval_s)


def why(measured: Measured) -> list[dict[str, Any]]:
    """By connection: its ends, a ``sentence``, ``tables`` and ``remarks``. Short of data one is left out."""
    started = measured.outcome.started["connections"]
    return [
        {
            "ends": " > ".join(shown(started[number][end]) for end in ("local", "remote")),
            "sentence": found.sentence,
            "tables": [for_page(each) for each in diagnosis.tables(found)],
            "remarks": diagnosis.remarks(found),
        }
        for number, found in sorted(measuring.diagnoses(measured).items())
    ]
