"""A TCP transfer over an emulated path between namespaces: the cause is named, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.store import Store
from weirlab.studies import ready, runner, scenarios
from weirlab.studies.contract import Outcome
from weirlab.transfers.tcp.page.story import tell
from weirlab.transfers.tcp.study import kept, running
from weirlab.transfers.tcp.study.running import TcpStudy
from weirlab.transfers.tcp.study.section import TcpScenario

from .conftest import Made

pytestmark = pytest.mark.netns

TOTAL = 3_000_000
LOSSY = f"""
name: lossy
tcp:
  path:
    both: {{delay: 10ms}}
    up: {{loss: 1%, rate: 100Mbit/s, queue: 500pkts}}
  total: {TOTAL}
  congestion: cubic
report: null
"""


def short() -> TcpScenario:
    """The ready-made scenario, for less time."""
    found = scenarios.load(ready.find(Path("slow-transfer")))
    assert isinstance(found, TcpScenario)
    section = found.tcp.model_copy(update={"lasts": "1.5s"})
    return found.model_copy(update={"tcp": section, "report": None})


def test_the_planted_cause_is_named_and_drawn_from_kernel_and_capture(tmp_path: Path, made: Made) -> None:
    outcome = runner.run(TcpStudy(), short(), Work(Store(tmp_path), SilentProgress()))
    assert made.left() == []
    assert outcome.problem() is None
    found = kept.read(outcome.run)
    assert list(found.diagnoses[0]) == ["kernel", "both", "sender", "receiver"]
    for diagnosis in found.diagnoses[0].values():
        assert diagnosis.share("receive_window") > 0.25, diagnosis.sentence
    assert found.files.keys() == {"client", "server"}
    assert found.packets["flight_bytes"].max() == pytest.approx(131_072, rel=0.5)
    told = outcome.run.get_json(running.PATH)
    # Data goes up, and every frame has one end.
    assert told["up"]["sent_bytes"] > told["down"]["sent_bytes"]
    assert told["up"]["adds_up"]
    assert told["down"]["adds_up"]
    story = tell(outcome.run)
    assert {chapter.key for chapter in story.chapters} == {"causes", "time", "places", "connection", "path"}
    # Both planes of time are drawn from the capture, too.
    series = {name for figure in story.figures if figure.linked for name in figure.data["series"]}
    assert {"in flight (capture at the client)", "in flight (sender's kernel)"} <= series
    assert {"data, to the receiver", "ACKs, to the sender"} <= series


def test_both_captures_and_the_kernel_agree_on_a_lossy_path(tmp_path: Path) -> None:
    asked = scenarios.loads(LOSSY)
    outcome = runner.run(TcpStudy(), asked, Work(Store(tmp_path), SilentProgress()))
    found, told = kept.read(outcome.run), outcome.run.get_json(running.PATH)
    assert [(end, row.why_not) for end, row in found.captures.items()] == [("client", ""), ("server", "")]
    if any(row.lost_packets for row in found.captures.values()):
        pytest.skip("packets came too fast to be captured here")
    crossing = found.crossing(0)
    assert crossing is not None
    # What is missing from the other capture is what the emulator lost or had no room for, but for frames
    # without data and those of the control connection.
    mss = found.samples["snd_mss_bytes"].max()
    up, lost = told["up"], crossing.lost_bytes / mss
    gone, others = up["lost"] + up["dropped_full"], up["arrived"] - crossing.sent_bytes / mss
    assert 0 < lost <= gone <= lost + others
    # A connection begins with the 32 bytes that name its session.
    once = TOTAL + 32
    assert crossing.arrived_bytes - crossing.twice_bytes == once
    assert crossing.sent_bytes - crossing.again_bytes == once
    for delay in (crossing.there, crossing.back):
        # Both ends have one clock here.
        assert delay is not None
        assert delay.least >= 10_000_000
    rows = {(each.quantity, each.place): each for each in found.agreement}
    assert {place for _, place in rows} == {"sender", "receiver"}
    for each in found.agreement:
        assert each.agrees or each.why, each
    assert rows["Bytes, each counted once", "sender"].capture == once
    assert rows["Bytes, each counted once", "sender"].agrees
    assert rows["Bytes retransmitted", "sender"].agrees
    assert rows["Segments retransmitted", "sender"].agrees
    assert rows["Minimum round trip", "sender"].agrees
    assert rows["Bytes retransmitted", "receiver"].capture <= rows["Bytes retransmitted", "sender"].capture
    assert "were lost" in found_conclusion(outcome)


def found_conclusion(outcome: Outcome[Any]) -> str:
    return str(outcome.found.conclusion(outcome.run.run_id))


def test_a_reverse_transfer_is_captured_at_its_receiver(tmp_path: Path) -> None:
    asked = short()
    section = asked.tcp.model_copy(update={"reverse": True, "total": "300kB", "lasts": None})
    asked = asked.model_copy(update={"tcp": section})
    outcome = runner.run(TcpStudy(), asked, Work(Store(tmp_path), SilentProgress()))
    (direction,) = kept.read(outcome.run).directions
    assert (direction.direction, direction.received_bytes) == ("down", 300_000)
    told = outcome.run.get_json(running.PATH)
    assert told["down"]["sent_bytes"] > 300_000
