"""More causes at the hosts: their applications, their CPUs and their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cases import SECONDS, Case, Draw, Truth, path
from weirlab.diagnosis import causes


def _held(truth: Truth) -> float:
    return min(float(truth.sender["held_s"]) / truth.seconds, 1.0)


def _pauses(draw: Draw) -> Case:
    return Case(
        "application pauses",
        causes.APPLICATION_WRITE,
        _held,
        "nothing to send, nothing outstanding",
        path(draw("delay_s", 0.01, 0.005, 0.03), draw("rate_bps", 50e6, 20e6, 100e6), 300),
        send={
            "mode": "pausing",
            "write_bytes": int(draw("write_bytes", 200_000, 100_000, 400_000)),
            "pause_s": draw("pause_s", 0.4, 0.25, 0.8),
        },
        void=_where_held,
        seconds=draw("seconds", SECONDS, 2.5, 4),
    )


def _server(draw: Draw) -> Case:
    response_bytes = int(draw("response_bytes", 20_000, 2_000, 40_000))
    return Case(
        "server's response time",
        causes.APPLICATION_WRITE,
        _held,
        "server between request and response",
        path(draw("delay_s", 0.01, 0.002, 0.02), draw("rate_bps", 50e6, 30e6, 100e6), 300),
        send={
            "mode": "serving",
            "write_bytes": response_bytes,
            "pause_s": draw("think_s", 0.25, 0.15, 0.5),
        },
        receive={"mode": "requesting", "message_bytes": response_bytes},
        void=_where_held,
        seconds=draw("seconds", SECONDS, 2.5, 4),
    )


def _zero_window(draw: Draw) -> Case:
    delay_s = draw("delay_s", 0.01, 0.005, 0.03)

    def stalled(truth: Truth) -> float:
        held_ns = sum(float(until - since) for since, until in truth.receiver["held_ns"])
        return min(held_ns / 1e9 / truth.seconds, 1.0)

    return Case(
        "zero window",
        causes.APPLICATION_READ,
        stalled,
        "reader's pause with a full buffer",
        path(delay_s, draw("rate_bps", 50e6, 30e6, 100e6), 200),
        receive={
            "mode": "sleepy",
            "reads_s": draw("reads_s", 0.3, 0.2, 0.4),
            "sleeps_s": draw("sleeps_s", 1.8, 1.4, 2.4),
            "options": {"SO_RCVBUF": int(draw("buffer_bytes", 262_144, 65_536, 400_000))},
        },
        seconds=draw("seconds", SECONDS, 2, 3),
    )


def _sender_starved(draw: Draw) -> Case:
    return Case(
        "starved sender",
        causes.SENDER_HOST,
        _held,
        "writer without CPU",
        path(draw("delay_s", 0.01, 0.005, 0.03), draw("rate_bps", 50e6, 30e6, 100e6), 300),
        send={"mode": "starved"},
        also=(causes.APPLICATION_WRITE,),
        void=_where_held,
        seconds=draw("seconds", SECONDS, 2.5, 4),
    )


def _where_held(truth: Truth) -> str:
    share = _held(truth)
    return f"the application held {share * 100:.0f} % only" if share < 0.5 else ""


MAKERS: Final[Mapping[str, Callable[[Draw], Case]]] = {
    "application pauses": _pauses,
    "server's response time": _server,
    "zero window": _zero_window,
    "starved sender": _sender_starved,
}
