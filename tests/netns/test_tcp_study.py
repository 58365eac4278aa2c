"""A TCP transfer over an emulated path between namespaces: the cause is named, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.jobs.progress import Quiet
from weirlab.store import Store
from weirlab.studies import ready, runner, scenarios
from weirlab.studies.tcp import TcpStudy, page
from weirlab.studies.tcp.study import kept, running
from weirlab.studies.tcp.study.section import TcpScenario

from .conftest import Made

pytestmark = pytest.mark.netns


def short() -> TcpScenario:
    """The ready-made scenario, for less time."""
    found = scenarios.load(ready.find(Path("slow-transfer")))
    assert isinstance(found, TcpScenario)
    section = found.tcp.model_copy(update={"lasts": "1.5s"})
    return found.model_copy(update={"tcp": section, "report": None})


def test_the_planted_cause_is_named_and_drawn_from_kernel_and_capture(tmp_path: Path, made: Made) -> None:
    outcome = runner.run(TcpStudy(), Store(tmp_path), short(), Quiet())
    assert made.left() == []
    assert outcome.problem() is None
    found = kept.read(outcome.run)
    assert set(found.diagnoses[0]) == {"kernel", "sender"}
    for diagnosis in found.diagnoses[0].values():
        assert diagnosis.share("receive_window") > 0.25, diagnosis.sentence
    assert found.capture is not None
    assert found.packets["flight_bytes"].max() == pytest.approx(131_072, rel=0.5)
    told = outcome.run.get_json(running.PATH)
    # Data goes up, and every frame has one end.
    assert told["up"]["sent_bytes"] > told["down"]["sent_bytes"]
    assert told["up"]["adds_up"]
    assert told["down"]["adds_up"]
    story = page.tell(outcome.run)
    assert {chapter.key for chapter in story.chapters} == {"causes", "time", "places", "connection", "path"}
    # Both planes of time are drawn from the capture, too.
    series = {name for figure in story.figures if figure.linked for name in figure.data["series"]}
    assert {"in flight (capture)", "in flight (sender's kernel)"} <= series


def test_a_reverse_transfer_is_captured_at_its_receiver(tmp_path: Path) -> None:
    asked = short()
    section = asked.tcp.model_copy(update={"reverse": True, "total": "300kB", "lasts": None})
    asked = asked.model_copy(update={"tcp": section})
    outcome = runner.run(TcpStudy(), Store(tmp_path), asked, Quiet())
    (direction,) = kept.read(outcome.run).directions
    assert (direction.direction, direction.received_bytes) == ("down", 300_000)
    told = outcome.run.get_json(running.PATH)
    assert told["down"]["sent_bytes"] > 300_000
