"""Where frames went, and sums that must close."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.links.monitor.plan import RecorderReport, Stages
from weirlab.links.monitor.rows import imbalance, losses

LINK = Stages(sent=1000, not_entered=100, entered=900, forwarded=890, not_forwarded=10, received=885)
RING = replace(
    LINK, copied=880, not_copied=20, recorded=RecorderReport(logged=875, seen=880, lost=20, not_written=5)
)
MIRROR = replace(
    LINK, mirrored=890, not_mirrored=10, recorded=RecorderReport(logged=850, seen=852, lost=30, not_written=2)
)
TCPDUMP = replace(LINK, recorded=RecorderReport(logged=600, lost=300, not_written=0))
RECEIVER = replace(LINK, recorded=RecorderReport(logged=800, lost=85, not_written=0), at_receiver=True)


def test_the_link_loses_before_in_and_behind_the_bridge() -> None:
    found = losses(LINK)
    assert (found.before, found.bridge, found.behind) == (100, 10, 5)
    assert (found.link, found.record) == (115, 0)


@pytest.mark.parametrize(
    ("stages", "places"),
    [
        (RING, (20, 0, 0, 0, 5)),
        (MIRROR, (0, 10, 8, 30, 2)),
        (TCPDUMP, (0, 0, 0, 300, 0)),
        (RECEIVER, (0, 0, 0, 85, 0)),
    ],
    ids=["ring", "mirror", "tcpdump", "receiver"],
)
def test_a_frame_missing_in_the_record_is_located(stages: Stages, places: tuple[int, ...]) -> None:
    found = losses(stages)
    assert (found.ring, found.mirror, found.logger, found.socket, found.disk) == places


@pytest.mark.parametrize("stages", [LINK, RING, MIRROR, TCPDUMP, RECEIVER])
def test_sums_that_close_say_nothing(stages: Stages) -> None:
    assert imbalance(stages) == ()


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        (
            replace(LINK, sent=1001),
            "1,001 frames were sent, and at the bridge 900 came in and 100 were refused: +1",
        ),
        (replace(LINK, not_forwarded=8), "900 frames came in, 890 were forwarded and 8 not: +2"),
        (replace(LINK, received=891), "891 frames arrived and only 890 were forwarded"),
        (replace(RING, copied=870), "900 frames came in, 870 were copied and 20 not: +10"),
        (replace(MIRROR, mirrored=893), "900 frames came in, 893 were sent to the logger and 10 not: -3"),
        (
            replace(TCPDUMP, recorded=RecorderReport(logged=590, lost=300, not_written=0)),
            "900 frames came by the monitor, 590 are in the record and 300 are known to be missing: +10",
        ),
        (
            replace(RING, recorded=RecorderReport(logged=875, seen=878, lost=20, not_written=5)),
            "the recorder saw 878 frames, its files hold 875 and 5 were not written: -2",
        ),
        (
            replace(TCPDUMP, recorded=RecorderReport(600, lost=300, not_written=0, failure="no space left")),
            "the recorder failed: no space left",
        ),
    ],
)
def test_a_sum_that_does_not_close_is_told_with_its_numbers(stages: Stages, sentence: str) -> None:
    assert sentence in imbalance(stages)
