"""Causes that look like others from one end, but can be identified from captures at both ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cases import SECONDS, Case, Draw, path, since_first_hit, until_the_end, where_idle
from weirlab.diagnosis import causes

ONE_END = ("kernel", "sender", "receiver")


def _always_foreign(draw: Draw) -> Case:
    rate_bps = draw("rate_bps", 20e6, 10e6, 30e6)
    return Case(
        "foreign traffic all along",
        causes.FOREIGN,
        lambda truth: min(float(truth.receiver["foreign_s"]) / truth.seconds, 1.0),
        "others' frames behind the bottleneck",
        path(draw("delay_s", 0.02, 0.01, 0.03), rate_bps, draw("queue", 200, 120, 300)),
        send={"mode": "bulk", "foreign_bps": rate_bps * draw("foreign_share", 0.5, 0.35, 0.65), "share": 1.0},
        receive={"mode": "fast", "foreign": True},
        untold=dict.fromkeys(ONE_END, (causes.BOTTLENECK, causes.LOSS)),
        seconds=draw("seconds", SECONDS, 6, 9),
    )


def _reordering_without_sack(draw: Draw) -> Case:
    # As with SACK, but the receiver does not report duplicates.
    reorder = f"{draw('percent', 2, 1, 3):.2f}%,by={draw('by_s', 0.015, 0.01, 0.018) * 1e6:.0f}us"
    return Case(
        "reordering without SACK",
        causes.REORDERING,
        since_first_hit,
        "since the first overtaken",
        path(
            draw("delay_s", 0.02, 0.015, 0.03),
            draw("rate_bps", 50e6, 40e6, 100e6),
            500,
            reorder=reorder,
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        sysctls=(
            {"net/ipv4/tcp_max_reordering": 3, "net/ipv4/tcp_timestamps": 0, "net/ipv4/tcp_sack": 0},
            {},
        ),
        untold=dict.fromkeys(ONE_END, (causes.LOSS,)),
        void=where_idle,
        when=until_the_end(since_first_hit),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _receiver_drops(draw: Draw) -> Case:
    return Case(
        "receiver's host drops",
        causes.RECEIVER_DROPS,
        since_first_hit,
        "since the first dropped",
        path(draw("delay_s", 0.02, 0.012, 0.05), draw("rate_bps", 100e6, 80e6, 200e6), 1000),
        drops=round(draw("drops", 100, 40, 150)),
        untold=dict.fromkeys(ONE_END, (causes.LOSS,)),
        void=where_idle,
        when=until_the_end(since_first_hit),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _ack_queue(draw: Draw) -> Case:
    delay_s, rate_bps = draw("delay_s", 0.02, 0.01, 0.03), draw("acks_bps", 200e3, 150e3, 300e3)
    there, back = path(delay_s, draw("rate_bps", 100e6, 80e6, 150e6), 1000)
    return Case(
        "ACKs wait on their way back",
        causes.ACK_QUEUE,
        lambda truth: truth.utilisation_back,
        "link busy on the way back",
        (
            there,
            {
                **back,
                "rate": f"{rate_bps / 1e3:.0f}kbit/s",
                "queue": f"{draw('queue', 200, 150, 250):.0f}pkts",
            },
        ),
        untold={
            **dict.fromkeys(ONE_END, (causes.BOTTLENECK, causes.FOREIGN)),
            "receiver": (causes.PACING,),
        },
        void=where_idle,
        seconds=draw("seconds", SECONDS, 5, 9),
    )


MAKERS: Final[Mapping[str, Callable[[Draw], Case]]] = {
    "foreign traffic all along": _always_foreign,
    "reordering without SACK": _reordering_without_sack,
    "receiver's host drops": _receiver_drops,
    "ACKs wait on their way back": _ack_queue,
}
