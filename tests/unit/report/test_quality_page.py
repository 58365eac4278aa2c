"""The page of ``weir quality``: what it concludes, and that its pictures can be drawn."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from weirlab.calls.quality import page
from weirlab.calls.quality.page import assessed, quality_page
from weirlab.calls.quality.study import capture_quality
from weirlab.calls.quality.wording import sentence
from weirlab.report.export import rendered

from ..calls.quality.captures import Rtp, frames, pcap, talk, without
from ..calls.quality.test_study import iax2_frames
from .outline import Outline

UNLOCKED = [20 * i + (0, 7, 2, 11, 5, 13, 1)[i % 7] for i in range(1, 40)]


def streams(many: int, lossy: int = 0, payload_type: int = 0) -> list[Rtp]:
    each = [
        talk(120, ssrc=i + 1, src_port=5000 + 2 * i, payload_type=payload_type, seed=i) for i in range(many)
    ]
    lost = list(range(20, 50, 2))
    return [packet for i, sent in enumerate(each) for packet in (without(sent, lost) if i < lossy else sent)]


def told(path: Path, packets: list[tuple[int, bytes]]) -> page.StreamAssessment:
    return assessed(capture_quality(pcap(path / "calls.pcap", packets)))


@pytest.mark.parametrize(
    ("packets", "answer"),
    [
        (frames(streams(3)), "All 3 voice streams were heard well (MOS 4.0 or more)."),
        (
            frames(streams(4, 1)),
            "1 of 4 voice streams is below MOS 4.0: 1 by loss before the capture (stream 1).",
        ),
        (
            frames(streams(2, 1, 96)),
            "2 voice streams in 2 s, 1 without loss; no MOS is known.",
        ),
        (iax2_frames(UNLOCKED), "1 voice stream in 758 ms, 1 with unknown loss; no MOS is known."),
    ],
)
def test_the_page_begins_with_the_sentence_of_the_command(
    tmp_path: Path, packets: list[tuple[int, bytes]], answer: str
) -> None:
    outcome = capture_quality(pcap(tmp_path / "calls.pcap", packets))
    assert assessed(outcome).answer == answer
    assert sentence(outcome).startswith(answer)


@pytest.mark.parametrize("many", [2, 20])
def test_every_picture_can_be_drawn(tmp_path: Path, many: int) -> None:
    heard = told(tmp_path, frames(streams(many, 1))).streams.with_columns(jitter_ns=pl.col("stream") * 1e6)
    figures = list(page._figures(heard))
    assert [figure.key for figure in figures] == ["quality-mos", "quality-loss", "quality-jitter"]
    for figure in figures:
        assert b"192.0.2.1:5000" in rendered(figure, "svg") or many > 16
        assert figure.data.height == many


def test_a_quantity_that_is_0_for_every_stream_is_not_drawn(tmp_path: Path) -> None:
    figures = page._figures(told(tmp_path, frames(streams(2))).streams)
    assert [figure.key for figure in figures] == ["quality-mos"]


def test_the_table_has_the_worst_stream_first(tmp_path: Path) -> None:
    table = page._table(told(tmp_path, frames(streams(5, 1)[::-1])).streams)
    assert table.rows[0][1].startswith("192.0.2.1:5000 > ")
    assert len(table.rows) == 5


def test_the_page_shows_what_weir_quality_prints(tmp_path: Path) -> None:
    outcome = capture_quality(pcap(tmp_path / "calls.pcap", frames(streams(2, 1))))
    html = quality_page(outcome, tmp_path / "calls.html", command="weir").read_text()
    assert f"{outcome.mos.min():.2f}" in html
    assert outcome.notes_on_streams()[0] in Outline(html).text
