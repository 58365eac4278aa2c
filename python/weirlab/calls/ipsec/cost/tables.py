"""Processing times as tables."""

from __future__ import annotations

from collections.abc import Sequence

from weirlab.base.quantities import NOTHING, duration, percent
from weirlab.base.tables import Table
from weirlab.calls.ipsec.cost.findings import EspCostFindings
from weirlab.measure.spread import Spread


def of(found: EspCostFindings) -> list[Table]:
    """The comparison at the usual packet time, then every size as details."""
    return [compared(found), *(over_size(found, mode) for mode in found.asked.modes)] if found.rows else []


def compared(found: EspCostFindings) -> Table:
    """A row per suite and mode."""
    rows = []
    for suite in found.asked.suites:
        for mode in found.asked.modes:
            by_way = {way: found.spread(suite, mode, way, found.usual_ms) for way in found.asked.ways}
            rows.append(
                (
                    suite,
                    mode,
                    _time(by_way.get("out")),
                    _time(by_way.get("in")),
                    _more(by_way.get("in"), by_way.get("out")),
                    _more(by_way.get("in-udp"), by_way.get("in-rtp")),
                    _more(by_way.get("in-layers"), by_way.get("in-udp")),
                    _more(by_way.get("in-system"), by_way.get("in-udp")),
                )
            )
    columns = ("Suite", "Mode", "Out", "In", "In over out", "UDP", "Layers", "System's socket")
    title = f"Processing time of a packet of {found.usual_ms:g} ms, and what is added to it"
    return Table(title, columns, rows)


def over_size(found: EspCostFindings, mode: str) -> Table:
    """A row per suite and way, a column per packet time."""
    times = found.asked.packet_times_ms
    rows = [
        (suite, way, *(_time(found.spread(suite, mode, way, packet_ms)) for packet_ms in times))
        for suite in found.asked.suites
        for way in found.asked.ways
    ]
    columns = ("Suite", "Way", *(f"{packet_ms:g} ms" for packet_ms in times))
    return Table(f"Processing time by packet time, {mode} mode", columns, rows, details=True)


def _time(spread: Spread | None) -> str:
    return NOTHING if spread is None or not spread.known else duration(spread.median)


def _more(longer: Spread | None, shorter: Spread | None) -> str:
    known: Sequence[Spread] = [each for each in (longer, shorter) if each is not None and each.known]
    return NOTHING if len(known) < 2 else percent(known[0].median / known[1].median - 1)
