"""What a running watch shows: on a terminal, in a pipe."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from weirlab.transfers.tcp.show.screen import WatchLines, WatchScreen, sentence
from weirlab.transfers.tcp.watching import ConnectionTally, Samples


class Terminal(io.StringIO):
    """Forty lines of 200 characters."""

    def isatty(self) -> bool:
        return True


def samples(time_s: float, acked: int) -> Samples:
    def column(value: int) -> Any:
        return np.array([value], np.uint64), np.array([True])

    fields = {"state": 1, "rtt_us": 2500, "snd_cwnd": 10, "total_retrans": 7, "bytes_acked": acked}
    return Samples(
        np.array([0], np.uint32),
        np.array([round(time_s * 1e9)], np.int64),
        {name: column(value) for name, value in fields.items()}
        | {"bytes_received": (np.array([0], np.uint64), np.array([False]))},
    )


PROGRESS = {
    "connections": [
        {
            "local": ("192.0.2.1", 40000), "remote": ("2001:db8::1", 443), "pid": 7, "process": "cu\x1brl",
            "ended_ns": None, "samples": 2, "missed": 3,
        }
    ],
    "lost": 1,
    "by": "bpf",
}  # fmt: skip


def shown(*names: str) -> str:
    """The screen after two samples, a second apart."""
    stream, now_s, tally = Terminal(), 0.0, ConnectionTally()
    screen = WatchScreen(stream, names, now_s=lambda: now_s)
    screen.waiting()
    for time_s, acked in ((1.0, 0), (2.0, 1_000_000)):
        one = samples(time_s, acked)
        tally.take(one, np.array([0]))
        screen.samples(one, PROGRESS, [tally])
        now_s += 1
    screen.close()
    return stream.getvalue()


def test_a_terminal_shows_rates_states_and_what_was_missed(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    text = shown()
    for part in ("waiting", "192.0.2.1:40000", "[2001:db8::1]:443", "established", "8.00 Mbit/s", "2.50 ms"):
        assert part in text
    assert "cu\\x1brl (7)" in text, "names cannot send escapes"
    assert "1 connection watched, 2 samples by BPF, 4 missed" in text


def test_fields_that_were_asked_for_take_the_place_of_the_usual_columns(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    text = shown("bytes_acked", "bytes_received")
    assert "1,000,000" in text
    assert "–" in text, "a field that is not told"
    assert "Mbit/s" not in text


def test_a_pipe_gets_a_line_at_most_every_ten_seconds() -> None:
    stream, now_s = io.StringIO(), 0.0
    lines = WatchLines(stream, now_s=lambda: now_s)
    for _ in range(25):
        lines.samples(samples(1.0, 0), PROGRESS, [])
        now_s += 1
    assert stream.getvalue().splitlines() == [f"weir: {sentence(PROGRESS)}"] * 2
