"""From differences of counters to the way of a trial's frames. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from weirlab.links.monitor.bed.base import Stages
from weirlab.records import EngineResult


def stages_of(counted: Mapping[str, int], result: EngineResult, method: str) -> Stages:
    """The way of a trial's frames from differences of counters over time; nobody's record yet."""
    sent = result.sent + result.sent_warmup
    at_receiver = method == "tcpdump-receiver"
    # The engine's receiver tells its probes from anything else; as in `sent`, all of them count.
    received = counted["rx_rx_packets"] if at_receiver else result.arrived
    if not method.startswith("tap-"):
        return Stages(
            sent, counted["tx_tx_dropped"], counted["in_rx_packets"], counted["out_tx_packets"],
            counted["out_tx_dropped"], received, at_receiver=at_receiver,
        )  # fmt: skip
    # A tap has one ring for a recorder and another one for the mirror.
    copies, mirrors = method == "tap-ring", method == "tap-mirror"
    return Stages(
        sent=sent,
        not_entered=counted["tx_tx_dropped"],
        entered=counted["tap_received"],
        # Not the tap's own count: it does not have one in generic mode, but takes the difference.
        forwarded=counted["out_tx_packets"],
        not_forwarded=counted["tap_not_forwarded"],
        received=received,
        copied=counted["tap_copied"] if copies else None,
        not_copied=counted["tap_not_copied"] if copies else None,
        cut=counted["tap_cut"],
        mirrored=counted.get("mirror_sent") if mirrors else None,
        not_mirrored=counted.get("mirror_not_sent") if mirrors else None,
    )
