"""What the engine is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.link import bindings
from weirlab.link.settings import RING_BYTES, SNAP_BYTES, RecorderSettings, TapSettings

MIRROR: dict[str, Any] = {"mirror": "c", "logger_mac": b"\x02\0\0\0\0\x09"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Arguments of the engine's tap."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr("weirlab._engine.Tap", lambda **arguments: seen.append(arguments))
    return seen


def test_a_filter_gets_frames_whole_and_only_then_are_they_cut_for_the_record(
    asked: list[dict[str, Any]],
) -> None:
    for recording in (
        RecorderSettings(Path("a"), snap_bytes=96),
        RecorderSettings(Path("a"), snap_bytes=96, filter="udp"),
    ):
        bindings.open_tap(TapSettings("a", "b", recording=recording))
    plain, filtered = asked
    assert (plain["snap_bytes"], plain["link_first"]) == (96, True)
    assert (filtered["snap_bytes"], filtered["link_first"]) == (SNAP_BYTES, False)


def test_whoever_wants_copies_whole_gets_them_at_the_price_of_the_link(asked: list[dict[str, Any]]) -> None:
    bindings.open_tap(TapSettings("a", "b", recording=RecorderSettings(Path("a")), whole=True))
    assert asked[0]["link_first"] is False


def test_the_ring_is_as_large_as_asked_for_with_a_record_or_a_mirror(asked: list[dict[str, Any]]) -> None:
    for settings in (
        TapSettings("a", "b", **MIRROR),
        TapSettings("a", "b", **MIRROR, ring_bytes=1 << 20),
        TapSettings("a", "b", recording=RecorderSettings(Path("a"), ring_bytes=2 << 20)),
    ):
        bindings.open_tap(settings)
    assert [each["ring_bytes"] for each in asked] == [RING_BYTES, 1 << 20, 2 << 20]
    assert [each["ring"] for each in asked] == [False, False, True]
