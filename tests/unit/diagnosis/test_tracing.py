"""What of a trace's tables and facts a diagnosis takes, and how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl
import pytest

from weirlab.diagnosis import tracing
from weirlab.diagnosis.capture import ConnectionPackets
from weirlab.diagnosis.connection import is_scaled
from weirlab.diagnosis.connection import refused as refused_by
from weirlab.trace import Trace
from weirlab.trace.facts import MEANINGS, METHODS

from ..trace.made import connection, side

if TYPE_CHECKING:
    from weirlab.trace.facts import Analysis

OPTIONS = {"mss": 1460, "window_scale": 7, "sack": True, "timestamps": True}


SEGMENTS = pl.DataFrame(
    {
        "connection": [7, 7, 7, 7, 8],
        "time_ns": [1, 2, 3, 4, 5],
        "from_side": [0] * 5,
        "seq": [1, 1001, 2001, 2001, 1],
        "payload_bytes": [1000] * 5,
        "ack": [1] * 5,
        "window_bytes": [500] * 5,
        "flags": [16] * 5,
        "meaning": [MEANINGS.index(word) for word in ("new", "fast", "tail_probe", "tail_probe", "fast")],
    }
)
BLOCKS = pl.DataFrame(
    {
        "connection": [7, 7],
        "from_side": [1, 1],
        "left": [2001, 1],
        "right": [3001, 5001],
        "duplicate": [1, 0],
        "time_ns": [1, 2],
    }
)


def packets(folder: Path, blocks: pl.DataFrame, *, stamped: bool = False) -> ConnectionPackets:
    """Those of connection 7, which ``a`` sent."""
    for name, rows in (("segments", SEGMENTS), ("sack", blocks)):
        with (folder / f"{name}.parquet").open("wb") as file:
            rows.write_parquet(file)
    made = connection(a=side("192.0.2.2", 40000), b=side("192.0.2.1", 443), id=7)
    trace = Trace(cast("Analysis", {}), folder)
    return tracing._packets(trace, made, "a", stamped=stamped)


def test_a_probe_of_the_tail_that_was_not_needed_is_no_loss(tmp_path: Path) -> None:
    assert packets(tmp_path, BLOCKS).again.tolist() == [False, True, False, False]
    # Blocks of the sender's own, and those that report what is missing, say nothing of it.
    assert packets(tmp_path, BLOCKS[1:]).again.tolist() == [False, True, True, True]
    own = BLOCKS.with_columns(from_side=pl.lit(0))
    assert packets(tmp_path, own).again.tolist() == [False, True, True, True]


def test_packets_are_those_of_the_connection(tmp_path: Path) -> None:
    found = packets(tmp_path, BLOCKS)
    assert found.seq.tolist() == [1, 1001, 2001, 2001]
    assert found.from_sender.all()
    assert found.window_bytes.tolist() == [500] * 4


def test_series_of_earlier_versions_have_no_time_stamps(tmp_path: Path) -> None:
    assert np.isnan(packets(tmp_path, BLOCKS, stamped=True).tsval).all()


@pytest.mark.parametrize(
    ("a", "b", "refused"),
    [
        ({}, {}, {}),
        ({"window_scale": 0}, {"window_scale": None}, {"window_scale": "the receiver"}),
        # Who answers offers only what was offered.
        ({"sack": False}, {"sack": False}, {"sack": "the sender"}),
    ],
)
def test_a_setting_that_is_off_is_told_with_who_does_not_offer_it(
    a: dict[str, object], b: dict[str, object], refused: dict[str, str]
) -> None:
    made = connection(
        a=side("192.0.2.2", 40000, options={**OPTIONS, **a}),
        b=side("192.0.2.1", 443, options={**OPTIONS, **b}),
    )
    assert refused_by(made, "a") == refused


@pytest.mark.parametrize(("options", "known"), [(OPTIONS, True), (None, False)])
def test_options_that_a_capture_cut_off_leave_the_scale_of_windows_unknown(
    options: dict[str, object] | None, known: bool
) -> None:
    made = connection(
        a=side("192.0.2.2", 40000, options=OPTIONS),
        b=side("192.0.2.1", 443, options=options),
        begin="handshake",
    )
    assert is_scaled(made) is known


@pytest.mark.parametrize(("to_sender_us", "place"), [(50, "sender"), (600, "sender"), (4_000, "between")])
def test_round_trips_through_a_standing_queue_bring_no_sender_near(to_sender_us: int, place: str) -> None:
    rtts = {
        "from_side": np.array([0, 1]),
        "method": np.array([METHODS.index("ack"), METHODS.index("echo")]),
        "time_ns": np.array([0, 1]),
        "rtt_ns": np.array([200_000_000, to_sender_us * 1_000]),
    }
    assert tracing._shown(rtts, "a") == place
