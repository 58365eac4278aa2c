"""The causes that `planted.py` plants: what goes wrong, on which path, and how the truth is computed.

Each case has usual parameters, and bounds between which a seed draws them, because a rule that works only for
one rate, one round trip and one buffer is not valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import between
import host_causes
import path_causes
from cases import SECONDS, Case, Draw, Truth, path, since_first_hit, until_the_end, where_idle
from weirlab.diagnosis import causes

MSS = 1448
INITIAL_SEGMENTS = 10
UNSCALED = 65_535


def _after_growth(limit_bytes: float, rtt_s: float) -> Callable[[Truth], float]:
    """The whole time except the round trips in which the window grows to the limit."""
    trips = max(math.ceil(math.log2(limit_bytes / (INITIAL_SEGMENTS * MSS))), 0)
    return lambda truth: 1 - trips * rtt_s / truth.seconds


def _not_read(rtt_s: float) -> Callable[[Truth], list[tuple[float, float]]]:
    """When the receiver's buffer was full, with half a round trip before and after; s since the beginning.

    The sender has used up the window half a round trip before the last data fill the buffer, and learns half
    a round trip late that it is open again. Time after the last data does not count.
    """
    half_ns = rtt_s / 2 * 1e9

    def when(truth: Truth) -> list[tuple[float, float]]:
        begun = ended = float(truth.sender["began_ns"])
        ends, found = begun + truth.seconds * 1e9, []
        for since, until in truth.receiver["held_ns"]:
            # Some may be less than a round trip apart.
            first, last = max(since - half_ns, ended), min(until + half_ns, ends)
            if last > first:
                found.append(((first - begun) / 1e9, (last - begun) / 1e9))
            ended = max(until + half_ns, ended)
        return found

    return when


def _not_reading(rtt_s: float) -> Callable[[Truth], float]:
    """The share of the time in which the receiver's buffer was full, as in :func:`_not_read`."""
    when = _not_read(rtt_s)
    return lambda truth: sum(last - first for first, last in when(truth)) / truth.seconds


def _where_fed(rtt_s: float) -> Callable[[Truth], str]:
    """Void if the reader got enough CPU, so that the link limits more than it does."""
    full = _not_reading(rtt_s)

    def why(truth: Truth) -> str:
        share, busy = full(truth), truth.utilisation
        if share >= busy:
            return ""
        return f"the buffer was full {share * 100:.0f} % of the time, the link busy {busy * 100:.0f} %"

    return why


def _idle_link(truth: Truth) -> float:
    return 1 - truth.utilisation


def _slow_writer(draw: Draw) -> Case:
    return Case(
        "slow writer",
        causes.APPLICATION_WRITE,
        lambda truth: float(truth.sender["held_s"]) / truth.seconds,
        "application between its writes",
        path(draw("delay_s", 0.02, 0.008, 0.04), draw("rate_bps", 20e6, 15e6, 50e6), 100),
        send={
            "mode": "slow",
            "write_bytes": int(draw("write_bytes", 10_000, 5_000, 15_000)),
            "every_s": draw("every_s", 0.02, 0.012, 0.06),
            "share": draw("share", 0.7, 0.6, 0.85),
        },
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _slow_reader(draw: Draw) -> Case:
    delay_s = draw("delay_s", 0.01, 0.005, 0.03)
    return Case(
        "slow reader",
        causes.APPLICATION_READ,
        _not_reading(2 * delay_s),
        "reader's pauses with a full buffer",
        path(delay_s, draw("rate_bps", 50e6, 30e6, 100e6), 200),
        receive={
            "mode": "sleepy",
            "reads_s": draw("reads_s", 0.5, 0.3, 0.7),
            "sleeps_s": draw("sleeps_s", 0.8, 0.5, 1.2),
            "options": {"SO_RCVBUF": int(draw("buffer_bytes", 262_144, 131_072, 400_000))},
        },
        when=_not_read(2 * delay_s),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _send_buffer(draw: Draw) -> Case:
    buffer = int(draw("buffer_bytes", 16_384, 12_000, 60_000))
    # Whole segments: Linux lets a write grow the last segment, if that is not full, beyond the send buffer.
    chunk = round(draw("chunk_segments", 10, 4, 20)) * MSS
    return Case(
        "small send buffer",
        causes.SEND_BUFFER,
        lambda truth: min(float(truth.sender["held_s"]) / truth.seconds, 1.0),
        "time in send()",
        path(draw("delay_s", 0.025, 0.012, 0.045), draw("rate_bps", 200e6, 100e6, 300e6), 1000),
        send={
            "mode": "bulk",
            "chunk": chunk,
            "options": {"SO_SNDBUF": buffer},
        },
        untold=dict.fromkeys(("sender", "receiver"), (causes.APPLICATION_WRITE,)),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _receive_window(draw: Draw) -> Case:
    delay_s, window = draw("delay_s", 0.025, 0.015, 0.05), draw("buffer_bytes", 131_072, 50_000, 200_000)
    return Case(
        "small receive window",
        causes.RECEIVE_WINDOW,
        _after_growth(window, 2 * delay_s),
        "arithmetic",
        path(delay_s, draw("rate_bps", 200e6, 150e6, 300e6), 1000),
        receive={"mode": "fast", "options": {"SO_RCVBUF": int(window)}},
        when=until_the_end(_after_growth(window, 2 * delay_s)),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _window_scaling(draw: Draw) -> Case:
    delay_s = draw("delay_s", 0.025, 0.015, 0.05)
    return Case(
        "window scaling off",
        causes.WINDOW_SCALING,
        _after_growth(UNSCALED, 2 * delay_s),
        "arithmetic",
        path(delay_s, draw("rate_bps", 200e6, 100e6, 300e6), 1000),
        sysctls=({}, {"net/ipv4/tcp_window_scaling": 0}),
        when=until_the_end(_after_growth(UNSCALED, 2 * delay_s)),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _random_loss(draw: Draw) -> Case:
    loss = f"{draw('loss_percent', 1, 0.5, 3):.2f}%"
    return Case(
        "random loss",
        causes.LOSS,
        since_first_hit,
        "since the first loss",
        path(
            draw("delay_s", 0.02, 0.012, 0.05),
            draw("rate_bps", 100e6, 80e6, 200e6),
            1000,
            loss=loss,
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        void=where_idle,
        when=until_the_end(since_first_hit),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _shallow_queue(draw: Draw) -> Case:
    return Case(
        "shallow queue",
        causes.LOSS,
        _idle_link,
        "link idle",
        path(draw("delay_s", 0.05, 0.03, 0.06), draw("rate_bps", 50e6, 30e6, 80e6), draw("queue", 5, 3.6, 8)),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _bottleneck(draw: Draw) -> Case:
    return Case(
        "bottleneck saturated",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(
            draw("delay_s", 0.02, 0.01, 0.04),
            draw("rate_bps", 20e6, 5e6, 40e6),
            draw("queue", 100, 80, 250),
        ),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _foreign(draw: Draw) -> Case:
    rate_bps = draw("rate_bps", 20e6, 10e6, 30e6)
    return Case(
        "foreign traffic",
        causes.FOREIGN,
        lambda truth: min(float(truth.receiver["foreign_s"]) / truth.seconds, 1.0),
        "others' frames behind the bottleneck",
        path(draw("delay_s", 0.02, 0.01, 0.03), rate_bps, draw("queue", 400, 200, 500)),
        send={
            "mode": "bulk",
            "foreign_bps": rate_bps * draw("foreign_share", 0.5, 0.35, 0.65),
            "share": draw("share", 0.65, 0.62, 0.7),
        },
        receive={"mode": "fast", "foreign": True},
        seconds=draw("seconds", SECONDS, 6, 9),
    )


def _reordering(draw: Draw) -> Case:
    # Held back by less than a round trip, and long enough to be overtaken by three segments.
    delay_s = draw("delay_s", 0.02, 0.015, 0.03)
    reorder = f"{draw('percent', 2, 1, 3):.2f}%,by={draw('by_s', 0.015, 0.01, 0.018) * 1e6:.0f}us"
    return Case(
        "reordering",
        causes.REORDERING,
        since_first_hit,
        "since the first overtaken",
        path(
            delay_s,
            draw("rate_bps", 50e6, 40e6, 100e6),
            500,
            reorder=reorder,
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        sysctls=(
            {"net/ipv4/tcp_recovery": 0, "net/ipv4/tcp_max_reordering": 3, "net/ipv4/tcp_timestamps": 0},
            {},
        ),
        void=where_idle,
        when=until_the_end(since_first_hit),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _nagle(draw: Draw) -> Case:
    delay_s, size = draw("delay_s", 0.01, 0.005, 0.025), int(draw("message_bytes", 400, 100, 1200)) // 2 * 2
    return Case(
        "Nagle, delayed ACK",
        causes.NAGLE,
        lambda truth: float(truth.receiver["held_s"]) / truth.seconds,
        "second half behind the first",
        path(delay_s, draw("rate_bps", 20e6, 10e6, 50e6), 100),
        send={"mode": "asking", "message_bytes": size},
        receive={"mode": "answering", "message_bytes": size},
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _starved(draw: Draw) -> Case:
    delay_s = draw("delay_s", 0.01, 0.005, 0.03)
    return Case(
        "starved receiver",
        causes.RECEIVER_HOST,
        _not_reading(2 * delay_s),
        "full buffer of a reader without CPU",
        path(delay_s, draw("rate_bps", 50e6, 30e6, 100e6), 200),
        receive={
            "mode": "starved",
            "options": {"SO_RCVBUF": int(draw("buffer_bytes", 262_144, 131_072, 400_000))},
        },
        untold=dict.fromkeys(("sender", "receiver", "both"), (causes.APPLICATION_READ,)),
        void=_where_fed(2 * delay_s),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _pacing(draw: Draw) -> Case:
    delay_s, rate_bps = draw("delay_s", 0.02, 0.01, 0.04), draw("rate_bps", 100e6, 60e6, 150e6)
    limit_bps = rate_bps * draw("limit_share", 0.2, 0.08, 0.5)
    bbr = draw("bbr", 2, 1, 4) >= 2
    return Case(
        "pacing limit",
        causes.PACING,
        _after_growth(limit_bps / 8 * 2 * delay_s, 2 * delay_s),
        "arithmetic",
        path(delay_s, rate_bps, 500),
        send={
            "mode": "bulk",
            "options": {
                "SO_MAX_PACING_RATE": int(limit_bps / 8),
                "TCP_CONGESTION": "bbr" if bbr else "cubic",
            },
        },
        untold={"receiver": (causes.APPLICATION_WRITE,)},
        when=until_the_end(_after_growth(limit_bps / 8 * 2 * delay_s, 2 * delay_s)),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


def _bbr(draw: Draw) -> Case:
    return Case(
        "bottleneck under BBR",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(
            draw("delay_s", 0.02, 0.01, 0.04),
            draw("rate_bps", 20e6, 5e6, 40e6),
            draw("queue", 300, 200, 500),
        ),
        send={"mode": "bulk", "options": {"TCP_CONGESTION": "bbr"}},
        untold={"sender": (causes.PACING,)},
        seconds=draw("seconds", SECONDS, 6, 9),
    )


def _lossy_bbr(draw: Draw) -> Case:
    return Case(
        "loss under BBR",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(
            draw("delay_s", 0.02, 0.01, 0.04),
            draw("rate_bps", 20e6, 10e6, 50e6),
            draw("queue", 200, 80, 300),
            loss=f"{draw('loss_percent', 1, 0.5, 3):.2f}%",
            seed=f"{draw('seed', 7, 1, 1000):.0f}",
        ),
        send={"mode": "bulk", "options": {"TCP_CONGESTION": "bbr"}},
        untold={"sender": (causes.PACING,)},
        seconds=draw("seconds", SECONDS, 6, 9),
    )


def _settings(draw: Draw) -> Case:
    return Case(
        "odd settings",
        causes.BOTTLENECK,
        lambda truth: truth.utilisation,
        "link busy",
        path(draw("delay_s", 0.01, 0.005, 0.02), draw("rate_bps", 5e6, 3e6, 8e6), draw("queue", 60, 50, 80)),
        send={"mode": "bulk", "options": {"TCP_MAXSEG": int(draw("mss_bytes", 700, 536, 1000))}},
        sysctls=({}, {"net/ipv4/tcp_window_scaling": 0, "net/ipv4/tcp_sack": 0}),
        notes=("window scaling is off", "SACK is off", "the MSS is"),
        # It limits if the link is held up for a moment.
        also=(causes.WINDOW_SCALING,),
        seconds=draw("seconds", SECONDS, 5, 9),
    )


MAKERS: Final[Mapping[str, Callable[[Draw], Case]]] = {
    "slow writer": _slow_writer,
    "slow reader": _slow_reader,
    "small send buffer": _send_buffer,
    "small receive window": _receive_window,
    "window scaling off": _window_scaling,
    "random loss": _random_loss,
    "shallow queue": _shallow_queue,
    "bottleneck saturated": _bottleneck,
    "foreign traffic": _foreign,
    "reordering": _reordering,
    "Nagle, delayed ACK": _nagle,
    "starved receiver": _starved,
    "pacing limit": _pacing,
    "bottleneck under BBR": _bbr,
    "loss under BBR": _lossy_bbr,
    "odd settings": _settings,
    **between.MAKERS,
    **path_causes.MAKERS,
    **host_causes.MAKERS,
}


def planted(name: str, seed: int | None = None, given: Mapping[str, float] | None = None) -> Case:
    """A case by name: with its usual parameters, those that `seed` draws, or the `given` ones."""
    draw = Draw(name, seed, given or {})
    made = MAKERS[name](draw)
    return Case(**{**vars(made), "drawn": draw.drawn})
