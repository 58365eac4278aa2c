from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weirlab.traffic.calls import media
from weirlab.traffic.calls.media import PacketRuns

T = 20


@st.composite
def some_runs(draw: st.DrawFn) -> PacketRuns:
    """Runs of several streams on their grids, in order."""
    rows: list[tuple[int, int, int, int]] = []
    for stream in range(draw(st.integers(1, 4))):
        phase = draw(st.integers(0, T - 1))
        slot = draw(st.integers(0, 5))
        for _ in range(draw(st.integers(0, 4))):
            packets = draw(st.integers(1, 6))
            rows.append((stream, phase + slot * T, slot, packets))
            slot += packets + draw(st.integers(0, 3))
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return PacketRuns(
        table[:, 0], table[:, 1], table[:, 2], table[:, 3], np.full(len(table), T, dtype=np.int64)
    )


def listed(runs: PacketRuns) -> list[tuple[int, int]]:
    """Stream and departure of every packet."""
    return [
        (int(s), int(start + i * T))
        for s, start, n in zip(runs.stream, runs.start_ns, runs.packets, strict=True)
        for i in range(n)
    ]


@given(some_runs())
def test_runs_are_written_out_packet_by_packet(runs: PacketRuns) -> None:
    packets = media.packets_of(runs)
    found = list(zip(runs.stream[packets.run].tolist(), packets.due_ns.tolist(), strict=True))
    assert found == listed(runs)
    assert ((packets.due_ns - packets.slot * T) == (runs.start_ns - runs.slot * T)[packets.run]).all()


@given(some_runs(), st.integers(-50, 500), st.integers(0, 500))
def test_a_window_keeps_what_departs_in_it(runs: PacketRuns, start: int, length: int) -> None:
    cut = media.within(runs, start, start + length)
    assert listed(cut) == [row for row in listed(runs) if start <= row[1] < start + length]
    assert (cut.start_ns - cut.slot * T >= 0).all()


@given(some_runs(), st.lists(st.tuples(st.integers(0, 5), st.integers(-10, 600)), max_size=20))
def test_packets_sent_before_an_instant_are_counted(runs: PacketRuns, asked: list[tuple[int, int]]) -> None:
    stream = np.array([s for s, _ in asked], dtype=np.int64)
    at = np.array([t for _, t in asked], dtype=np.int64)
    expected = [sum(s == of and due < t for of, due in listed(runs)) for s, t in asked]
    assert media.sent_before(runs, stream, at).tolist() == expected


@given(some_runs())
def test_a_spurt_begins_where_the_packet_time_before_was_silent(runs: PacketRuns) -> None:
    packets = media.packets_of(runs)
    first = np.cumsum(runs.packets) - runs.packets
    slots = set(zip(runs.stream[packets.run].tolist(), packets.slot.tolist(), strict=True))
    for begins, at in zip(media.begins_spurt(runs), first, strict=True):
        before = (int(runs.stream[packets.run[at]]), int(packets.slot[at]) - 1)
        assert begins == (before not in slots)


@given(some_runs(), st.integers(0, 200), st.integers(30, 90))
def test_wraps_are_the_first_packets_with_a_new_upper_part(runs: PacketRuns, base: int, modulus: int) -> None:
    stamp = base + runs.slot * T
    run, index = media.wraps(runs, stamp, np.full(len(runs), T, dtype=np.int64), modulus)
    expected, upper, last = [], 0, -1
    for r, (s, n) in enumerate(zip(runs.stream, runs.packets, strict=True)):
        for i in range(n):
            now = int(stamp[r] + i * T) // modulus
            if s != last or now != upper:
                expected.append((r, i))
            upper, last = now, int(s)
    assert list(zip(run.tolist(), index.tolist(), strict=True)) == expected
