"""Part of a capture as a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab import trace
from weirlab.errors import InputError
from weirlab.testing import Talk, write_pcap
from weirlab.trace import excerpt
from weirlab.trace.times import Window


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A connection of some 80 ms, with a segment each 10 ms."""
    talk = Talk()
    talk.handshake(rtt_ms=10)
    for _ in range(7):
        talk.a.send(100)
        talk.wait(5)
        talk.b.ack()
        talk.wait(5)
    return write_pcap(tmp_path / "whole.pcap", talk.packets())


def test_the_packets_of_a_window_are_written(capture: Path, tmp_path: Path) -> None:
    whole = trace.read(capture)
    first = whole.facts["capture"]["first_ns"]
    assert first is not None
    part = tmp_path / "part.pcapng"
    number = excerpt.write(part, capture, window=Window(first + 20_000_000, first + 50_000_000))
    found = trace.read(part).facts["capture"]
    assert found["packets"] == number
    assert 0 < number < whole.facts["capture"]["packets"]
    assert first + 20_000_000 <= (found["first_ns"] or 0) <= (found["last_ns"] or 0) < first + 50_000_000
    relative = excerpt.write(part, capture, window=Window(20_000_000, 50_000_000, relative=True))
    assert relative == number
    assert part.stat().st_mode & 0o077 == 0


def test_the_packets_of_a_connection_are_found_by_its_filter(capture: Path, tmp_path: Path) -> None:
    (one,) = trace.read(capture).facts["connections"]
    part = tmp_path / "part.pcapng"
    number = excerpt.write(part, capture, filter=excerpt.of(one))
    assert number == trace.read(capture).facts["capture"]["packets"]
    assert excerpt.write(part, capture, filter="udp") == 0


def test_what_is_no_capture_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"no capture" * 20)
    with pytest.raises(InputError, match="neither pcap nor pcapng"):
        excerpt.write(tmp_path / "part.pcapng", tmp_path / "photo.jpg")
    assert not (tmp_path / "part.pcapng").exists()


def test_a_filter_that_is_none_is_refused(capture: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be understood"):
        excerpt.write(tmp_path / "part.pcapng", capture, filter="what is this")
