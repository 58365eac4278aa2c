"""An emulated link as a device under test: what it does to packets is what its name says."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError
from weirlab.base.files import HOST_FILES
from weirlab.lab.dut import make
from weirlab.lab.dut.datapaths.emulated import EmulatedLinkDriver
from weirlab.lab.netns import NetnsLab
from weirlab.records import EngineResult
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

from .conftest import PlainTraffic

pytestmark = pytest.mark.netns


@pytest.fixture(scope="module")
def lab() -> Iterator[NetnsLab]:
    with NetnsLab(make("link:delay=20ms:up.loss=frames=/10")) as opened:
        yield opened


def carried(lab: NetnsLab, ip: int = 4) -> tuple[EngineResult, dict[str, int]]:
    """What became of some packets, and what the link counted; the first trial whose sender had its CPU."""
    flows = Flows(count=20, ip=ip)  # type: ignore[arg-type]
    for _ in range(20):
        before = lab.counters()
        result = lab.run(Traffic(Rate(1000), Constant(128), flows, warmup_s=0.0, duration_s=0.2))
        lab.settle()
        after = lab.counters()
        if result.sent > 180:
            return result, {name: after[name] - before[name] for name in after if name.startswith("link_")}
    pytest.fail("the host kept the sender from its CPU in 20 trials")


@pytest.mark.parametrize("ip", [4, 6])
def test_packets_are_as_late_and_as_many_are_lost_as_it_says(lab: NetnsLab, ip: int) -> None:
    result, link = carried(lab, ip)
    assert result.received > 0
    assert result.delay_min_ns >= 20_000_000
    assert link["link_up_arrived"] == result.sent
    assert link["link_up_lost"] == result.lost
    # Every tenth, wherever counting stood.
    assert abs(result.lost - result.sent / 10) < 1
    assert link["link_up_sent"] == result.received
    assert (link["link_up_dropped"], link["link_up_not_kept"], link["link_down_arrived"]) == (0, 0, 0)


def test_the_other_direction_has_words_of_its_own(lab: NetnsLab) -> None:
    assert lab.facts["dut_down"] == "delay 20ms"
    assert PlainTraffic(lab).arrives()


def test_a_queue_that_is_full_drops_the_rest(made: Any) -> None:
    # 128 B at 100 kbit/s: some 100 packets/s, of 1,000 offered.
    with NetnsLab(make("link:up.rate=100kbps:up.queue=5pkts")) as lab:
        result, link = carried(lab)
        assert link["link_up_dropped"] == result.lost > 0
        assert link["link_up_sent"] == result.received > 0
    assert made.left() == []


def test_a_trace_says_when_packets_may_leave(tmp_path: Path, made: Any) -> None:
    # 1504 B every 10 ms carry some ten packets of 128 B: as many as are offered.
    (tmp_path / "steps").write_text("10\n")
    with NetnsLab(make(f"link:up.trace={tmp_path}/steps", inputs=HOST_FILES)) as lab:
        result, link = carried(lab)
        assert (link["link_up_dropped"], link["link_up_lost"]) == (0, 0)
        assert link["link_up_sent"] == result.received > 0
        assert result.delay_max_ns > 5_000_000
    assert made.left() == []


@pytest.mark.parametrize(
    "link",
    # A delay longer than the trial, and a queue that sends a packet every 205 ms.
    ["link:delay=300ms", "link:up.rate=5kbps:up.queue=5pkts"],
)
def test_packets_that_stay_long_on_the_link_are_waited_for(made: Any, link: str) -> None:
    with NetnsLab(make(link)) as lab:
        result = lab.run(Traffic(Rate(20), Constant(128), warmup_s=0.0, duration_s=0.2))
        assert result.sent > 0
        assert result.lost == 0
        assert result.delay_max_ns > 200_000_000
    assert made.left() == []


def test_a_link_that_ends_is_told_with_its_name(made: Any) -> None:
    with NetnsLab(make("link:delay=1ms")) as lab:
        driver = lab._driver
        assert isinstance(driver, EmulatedLinkDriver)
        assert driver._process is not None
        os.kill(driver._process.pid, signal.SIGKILL)
        with pytest.raises(LabError, match="link:delay=1ms: the emulated link ended"):
            lab.run(Traffic(Rate(1000), warmup_s=0.0, duration_s=0.1))
    assert made.left() == []


def test_a_link_that_does_not_come_up_leaves_nothing(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = make("link:delay=1ms")
    monkeypatch.setattr("weirlab.lab.dut.datapaths.carrier.__name__", "weirlab.nothing")
    with pytest.raises(LabError, match=r"the emulated link ended: ImportError: .*nothing"):
        NetnsLab(driver)
    assert made.left() == []
