"""More causes on the path and in its settings; some only disturb a transfer that something else limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cases import SECONDS, Case, Draw, Truth, path, since_first_hit, until_the_end, where_idle
from weirlab.diagnosis import causes

PORT = 5001
AMPLE: Final = {"mode": "fast", "options": {"SO_RCVBUFFORCE": 16_000_000}}
"""A window that never limits."""


def _burst_loss(draw: Draw) -> Case:
    bursts = f"{draw('loss_percent', 1.5, 0.8, 3):.2f}%,burst={draw('run', 4, 2, 8):.1f}"
    return Case(
        "burst loss",
        causes.LOSS,
        since_first_hit,
        "since the first loss",
        path(
            draw("delay_s", 0.02, 0.01, 0.04),
            draw("rate_bps", 100e6, 80e6, 200e6),
            1000,
            loss=bursts,
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        also=(causes.TIMEOUT,),
        void=where_idle,
        when=until_the_end(since_first_hit),
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _loss_without_sack(draw: Draw) -> Case:
    return Case(
        "loss without SACK",
        causes.LOSS,
        since_first_hit,
        "since the first loss",
        path(
            draw("delay_s", 0.02, 0.01, 0.04),
            draw("rate_bps", 100e6, 80e6, 200e6),
            1000,
            loss=f"{draw('loss_percent', 1, 0.5, 2):.2f}%",
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        sysctls=({}, {"net/ipv4/tcp_sack": 0}),
        also=(causes.TIMEOUT,),
        void=where_idle,
        when=until_the_end(since_first_hit),
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _dropping(draw: Draw) -> str:
    """A token bucket that drops, at the receiver's host."""
    rate, burst = draw("rate_kbytes", 1000, 500, 2500), draw("burst_kbytes", 20, 10, 60)
    return f"tcp dport {PORT} limit rate over {rate:.0f} kbytes/second burst {burst:.0f} kbytes drop"


def _policer(draw: Draw) -> Case:
    rule = _dropping(draw)
    return Case(
        "policer",
        causes.LOSS,
        lambda truth: 1 - truth.utilisation,
        "link idle",
        path(draw("delay_s", 0.02, 0.01, 0.04), draw("link_bps", 100e6, 80e6, 150e6), 1000),
        rule=rule,
        also=(causes.POLICER, causes.RECEIVER_DROPS, causes.TIMEOUT),
        void=where_idle,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _policer_under_bbr(draw: Draw) -> Case:
    rule = _dropping(draw)
    return Case(
        "policer under BBR",
        causes.POLICER,
        lambda truth: 1 - truth.utilisation,
        "link idle",
        path(draw("delay_s", 0.02, 0.01, 0.04), draw("link_bps", 100e6, 80e6, 150e6), 1000),
        send={"mode": "bulk", "options": {"TCP_CONGESTION": "bbr"}},
        rule=rule,
        also=(causes.LOSS, causes.RECEIVER_DROPS, causes.TIMEOUT),
        untold={"receiver": (causes.PACING, causes.LOSS), "kernel": (causes.BOTTLENECK,)},
        void=where_idle,
        seconds=draw("seconds", SECONDS, 3, 6),
    )


def _marks(draw: Draw) -> Case:
    """Congestion marks without a queue, at the receiver's host."""
    every = round(draw("every", 60, 30, 150))
    return Case(
        "ECN marks",
        causes.MARKS,
        lambda truth: 1 - truth.utilisation,
        "link idle",
        path(draw("delay_s", 0.02, 0.01, 0.04), draw("rate_bps", 100e6, 80e6, 150e6), 1000),
        rule=f"tcp dport {PORT} ip length > 1000 numgen inc mod {every} == 0 ip ecn set ce",
        sysctls=({"net/ipv4/tcp_ecn": 1}, {"net/ipv4/tcp_ecn": 1}),
        void=where_idle,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _black_hole(draw: Draw) -> Case:
    return Case(
        "MTU black hole",
        causes.BLACK_HOLE,
        lambda truth: 1.0,
        "arithmetic",
        path(draw("delay_s", 0.02, 0.005, 0.06), draw("rate_bps", 50e6, 20e6, 100e6), 200),
        send={
            "mode": "once",
            "first_bytes": [200, 600],
            "bytes": int(draw("bytes", 40_000, 20_000, 200_000)),
        },
        mtu=round(draw("mtu", 1400, 1280, 1480)),
        also=(causes.TIMEOUT,),
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _jitter(draw: Draw) -> Case:
    delay_s = draw("delay_s", 0.03, 0.02, 0.05)
    return Case(
        "jitter",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(
            delay_s,
            draw("rate_bps", 20e6, 10e6, 40e6),
            draw("queue", 150, 100, 250),
            jitter=f"{delay_s * draw('jitter_share', 0.2, 0.1, 0.3) * 1e6:.0f}us",
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        also=(causes.UNKNOWN,),
        void=_where_busy,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _lost_acks(draw: Draw) -> Case:
    there, back = path(
        draw("delay_s", 0.02, 0.01, 0.04), draw("rate_bps", 20e6, 10e6, 40e6), draw("queue", 150, 100, 250)
    )
    loss = {"loss": f"{draw('loss_percent', 15, 5, 30):.1f}%", "seed": f"{draw('seed', 7, 1, 1000):.0f}"}
    return Case(
        "lost ACKs",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        (there, {**back, **loss}),
        void=_where_busy,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _duplicates(draw: Draw) -> Case:
    return Case(
        "duplicated packets",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(
            draw("delay_s", 0.02, 0.01, 0.04),
            draw("rate_bps", 20e6, 10e6, 40e6),
            draw("queue", 150, 100, 250),
            duplicate=f"{draw('percent', 2, 1, 5):.1f}%",
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        void=_where_busy,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _deep_queue(draw: Draw) -> Case:
    return Case(
        "deep queue",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(
            draw("delay_s", 0.01, 0.005, 0.03),
            draw("rate_bps", 10e6, 4e6, 20e6),
            draw("queue", 1500, 1000, 3000),
        ),
        void=_where_busy,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _codel(draw: Draw) -> Case:
    return Case(
        "bottleneck with CoDel",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(draw("delay_s", 0.015, 0.005, 0.03), draw("rate_bps", 20e6, 5e6, 40e6), 1000, aqm="codel"),
        also=(causes.LOSS, causes.UNKNOWN),
        void=_where_busy,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _token_bucket(draw: Draw) -> Case:
    """A shaper below the sender's TCP, which the packets pass before they are captured."""
    rate_bps = draw("shaper_bps", 10e6, 5e6, 30e6)
    burst, latency_s = draw("burst_kbytes", 16, 8, 64), draw("latency_s", 0.1, 0.05, 0.4)
    return Case(
        "token bucket at the sender",
        causes.BOTTLENECK,
        lambda truth: min(truth.link.up.departed_bytes * 8 / rate_bps / truth.seconds, 1.0),
        "shaper busy",
        path(draw("delay_s", 0.02, 0.01, 0.04), 1e9, 1000),
        shaper=f"tbf rate {rate_bps / 1e3:.0f}kbit burst {burst:.0f}kb latency {latency_s:.3f}s",
        also=(causes.PACING, causes.SENDER_HOST, causes.UNKNOWN),
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _long_path(draw: Draw) -> Case:
    delay_s = draw("delay_s", 0.14, 0.1, 0.2)
    return Case(
        "long round trip",
        causes.SLOW_START,
        lambda truth: 1 - 2 * delay_s / truth.seconds,
        "arithmetic",
        path(delay_s, draw("rate_bps", 300e6, 200e6, 500e6), 10_000),
        receive=AMPLE,
        void=lambda truth: "the link was busy" if truth.utilisation > 0.3 else "",
        seconds=draw("seconds", 2.5, 2, 2.5),
    )


def _short_transfer(draw: Draw) -> Case:
    delay_s = draw("delay_s", 0.05, 0.03, 0.1)
    return Case(
        "short transfer",
        causes.SLOW_START,
        lambda truth: 1.0,
        "arithmetic",
        path(delay_s, draw("rate_bps", 200e6, 100e6, 300e6), 2000),
        send={"mode": "once", "bytes": int(draw("bytes", 300_000, 150_000, 600_000))},
        receive=AMPLE,
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _lost_syn(draw: Draw) -> Case:
    return Case(
        "lost SYN",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(
            draw("delay_s", 0.02, 0.01, 0.04),
            draw("rate_bps", 20e6, 10e6, 40e6),
            draw("queue", 150, 100, 250),
        ),
        rule=f"tcp dport {PORT} tcp flags & (syn | ack) == syn numgen inc mod 2 == 0 drop",
        void=_where_busy,
        notes=("the connection took",),
        seconds=draw("seconds", SECONDS, 2, 4),
    )


def _where_busy(truth: Truth) -> str:
    busy = truth.utilisation
    return f"the link was busy only {busy * 100:.0f} % of the time" if busy < 0.6 else ""


MAKERS: Final[Mapping[str, Callable[[Draw], Case]]] = {
    "burst loss": _burst_loss,
    "loss without SACK": _loss_without_sack,
    "policer": _policer,
    "policer under BBR": _policer_under_bbr,
    "ECN marks": _marks,
    "MTU black hole": _black_hole,
    "jitter": _jitter,
    "lost ACKs": _lost_acks,
    "duplicated packets": _duplicates,
    "deep queue": _deep_queue,
    "bottleneck with CoDel": _codel,
    "token bucket at the sender": _token_bucket,
    "long round trip": _long_path,
    "short transfer": _short_transfer,
    "lost SYN": _lost_syn,
}
