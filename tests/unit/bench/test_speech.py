"""Calls with planted impairments: what `weir quality` says of them is what was planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import speech
from speakers import CODECS
from weirlab.calls.quality.study import capture_quality

pytest.importorskip("weirlab._engine", reason="the engine is not built")


@pytest.mark.parametrize("situation", speech.SITUATIONS, ids=lambda situation: situation.title)
def test_every_situation_is_measured_as_it_was_planted(tmp_path: Path, situation: speech.Situation) -> None:
    codec = CODECS[speech.SITUATIONS.index(situation) % len(CODECS)]
    planted = speech.write(tmp_path / "call.pcap", codec, situation, seconds=25.0, seed=3)
    assert speech.errors(capture_quality(tmp_path / "call.pcap"), planted).are_small


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_every_codec_is_measured_as_it_was_planted(tmp_path: Path, codec: speech.Codec) -> None:
    network = speech.Network(jitter_ms=5.0, in_order=False, loss=0.04, burst=3.0, copies=0.02)
    situation = speech.Situation("all at once", speech.speakers.plain, network, skew_ppm=80.0)
    planted = speech.write(tmp_path / "call.pcap", codec, situation, seconds=25.0, seed=5)
    assert speech.errors(capture_quality(tmp_path / "call.pcap"), planted).are_small


@pytest.mark.parametrize("draw", range(8))
def test_calls_with_drawn_parameters_are_measured_as_they_were_planted(tmp_path: Path, draw: int) -> None:
    codec, situation, seconds = speech.drawn(np.random.default_rng([11, draw]))
    planted = speech.write(tmp_path / "call.pcap", codec, situation, min(seconds, 60.0), draw)
    assert speech.errors(capture_quality(tmp_path / "call.pcap"), planted).are_small
