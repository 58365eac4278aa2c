"""All that is known about a test on one time axis: both kernels, and each capture; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weirlab.transfers.tcp.measure.samples import CAPTURES

if TYPE_CHECKING:
    import polars as pl

    from weirlab.transfers.tcp.measure.measuring import TransferMeasurement

MOST_CONNECTIONS: Final = 4
"""More would draw too many lines."""
_MOST_PERIODS: Final = 2000


class _Chart(NamedTuple):
    """Lines that are drawn together: their values divided by ``scale`` are in ``unit``."""

    title: str
    unit: str
    scale: float = 1.0


_WINDOW: Final = _Chart("Receiver's window", "bytes")
_AGAIN: Final = _Chart("Retransmitted so far", "segments")
_CHARTS: Final[Mapping[str, _Chart]] = {
    "throughput_bps": _Chart("Throughput", "bit/s"),
    "rtt_us": _Chart("Round trip", "ms", 1e3),
    "delay_us": _Chart("One-way delay", "ms", 1e3),
    "snd_cwnd": _Chart("Congestion window", "segments"),
    "flight_bytes": _Chart("In flight", "bytes"),
    "cwnd_bytes": _Chart("Congestion window, estimated", "bytes"),
    "snd_wnd_bytes": _WINDOW,
    "window_bytes": _WINDOW,
    "rcv_wnd_bytes": _WINDOW,
    "notsent_bytes": _Chart("Written, not sent", "bytes"),
    "rqueue_bytes": _Chart("Received, not read", "bytes"),
    "total_retrans": _AGAIN,
    "retransmissions": _AGAIN,
    "duplicate_acks": _Chart("Duplicate ACKs so far", "packets"),
}
_SOURCES: Final[Mapping[str, str]] = {
    "sender": "sender's kernel",
    "receiver": "receiver's kernel",
    **{
        name: f"capture {'in between' if end == 'between' else f'at the {end}'}"
        for end, name in CAPTURES.items()
    },
}


def drawn(
    measured: TransferMeasurement, period_s: float, packets: pl.DataFrame | None = None
) -> dict[str, Any] | None:
    """``time_s`` since the start, and ``charts``: ``title``, ``unit``, ``lines`` (``source``, ``values``).

    ``packets`` is what captures show, if there are any. Returns None for too many connections, or if nothing
    was reported.
    """
    import polars as pl

    from weirlab.transfers.tcp.measure import captured, result

    if len(measured.ups) > MOST_CONNECTIONS or measured.samples.is_empty():
        return None
    start_ns = measured.start.client_since_1970_ns
    lasted_ns = int(measured.samples["time_ns"].max()) - start_ns  # type: ignore[arg-type]
    period_ns = max(round(period_s * 1e9), -(-lasted_ns // _MOST_PERIODS))
    packets = pl.DataFrame(schema=captured.SHOWN) if packets is None else packets
    table = result.axis(measured, packets, result.AnalysisSettings(every_ns=period_ns, period_ns=period_ns))
    charts: dict[_Chart, list[dict[str, Any]]] = {chart: [] for chart in _CHARTS.values()}
    for name in table.columns[1:]:
        source, _, what = name.rpartition(".")
        number, _, place = source.rpartition(".")
        values = (table[name].cast(pl.Float64).fill_nan(None) / _CHARTS[what].scale).to_list()
        if any(value is not None for value in values):
            where = f"{number}: {_SOURCES[place]}" if number else _SOURCES[place]
            charts[_CHARTS[what]].append({"source": where, "values": values})
    times = ((table["time_ns"] - start_ns) / 1e9).to_list()
    told = [
        {"title": chart.title, "unit": chart.unit, "lines": lines} for chart, lines in charts.items() if lines
    ]
    return {"time_s": times, "charts": told}
