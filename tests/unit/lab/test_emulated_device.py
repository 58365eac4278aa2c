"""An emulated link as a device: what its name says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.base.files import HOST_FILES
from weirlab.emulation.spec import Amount, FrameListPattern
from weirlab.lab import dut
from weirlab.lab.base import Site
from weirlab.lab.dut.datapaths import carrier, emulated
from weirlab.lab.dut.datapaths.emulated import EmulatedLinkDriver
from weirlab.lab.wiring import IN0, OUT0, RX0, TX0
from weirlab.records import RuleSetup


def link(name: str) -> EmulatedLinkDriver:
    found = dut.make(name)
    assert isinstance(found, EmulatedLinkDriver)
    return found


def test_a_name_alone_is_a_cable() -> None:
    found = link("link")
    assert (found.name, found._asked.up.delay_ns, found._asked.up.rate_bps) == ("link", 0, None)
    assert found.facts() == {
        "layout": "an emulated link between two routers", "up": "a cable", "down": "a cable",
    }  # fmt: skip
    assert found.counters() == {}


def test_words_hold_for_both_directions_or_for_one() -> None:
    found = link("link:delay=25ms:up.rate=10Mbps:up.queue=50pkts:down.loss=frames=5,/100:down.delay=5ms")
    up, down = found._asked.up, found._asked.down
    assert (up.delay_ns, up.rate_bps, up.queue) == (25_000_000, 10_000_000, Amount(50, "packets"))
    assert (down.delay_ns, down.rate_bps, down.loss) == (5_000_000, None, FrameListPattern("5,/100"))
    assert up.seed != down.seed
    assert found.facts()["down"] == "delay 5ms loss frames=5,/100"


def test_the_process_that_carries_frames_gets_the_content_of_traces(tmp_path: Path) -> None:
    trace = tmp_path / "lte.up"
    trace.write_bytes(b"1\n3\n")
    made = dut.make(f"link:delay=1ms:up.trace={trace}:up.queue=20pkts", inputs=HOST_FILES)
    assert isinstance(made, EmulatedLinkDriver)
    assert made.files == [trace]
    trace.unlink()
    assert carrier.requested(carrier.request(made._asked)) == made._asked
    assert made._asked.up.plain()["trace"] == b"1\n3\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("link:", "'' of link not understood"),
        ("link:late=1s", "use e.g. 'delay=25ms', 'up.rate=10Mbps'"),
        ("link:left.delay=1ms", "'left.delay=1ms' of link not understood"),
        ("link:.delay=1ms", "'.delay=1ms' of link not understood"),
        ("link:delay", "'delay' of link not understood"),
        ("link:delay=1ms:delay=2ms", "'delay=2ms' of link repeats an earlier setting"),
        ("link:delay=soon", "^link: delay 'soon' is no time"),
        ("link:queue=5pkts", "^link: queue needs --rate"),
        ("link:loss=120%", "'120%' is no share"),
        ("link:trace=/nowhere", "link: trace: /nowhere: no such file"),
    ],
)
def test_what_there_cannot_be_is_refused_with_what_can(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dut.make(name, inputs=HOST_FILES)


def test_there_are_no_rules() -> None:
    site = Site("dut", IN0, OUT0, TX0, RX0, 0, "far")
    found = link("link:delay=1ms")
    found.apply(site, RuleSetup(both_ways=True))
    with pytest.raises(InputError, match="'link:delay=1ms' has no rules"):
        found.apply(site, RuleSetup(position=3))


def test_a_file_of_rules_is_refused() -> None:
    with pytest.raises(InputError, match="makes its own rules"):
        dut.make("link:delay=1ms", Path("rules"))


class Held:
    """Frames on the link at each look, and a clock on which each wait takes 10 s."""

    def __init__(self, *held: int) -> None:
        self._held, self._now_s = iter(held), 0.0

    def look(self) -> dict[str, int]:
        return {"link_held": next(self._held)}

    def sleep(self, _: float) -> None:
        self._now_s += 10

    def monotonic(self) -> float:
        return self._now_s


def settle(monkeypatch: pytest.MonkeyPatch, held: Held) -> None:
    found = link("link:rate=200kbps:queue=1000pkts")
    monkeypatch.setattr(found, "_counted", held.look)
    monkeypatch.setattr(emulated, "time", held)
    found.settle()


def test_a_full_queue_has_the_time_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch, Held(5, 5, 4, 4, 3, 2, 2, 1, 0))


def test_a_trial_is_told_of_frames_that_never_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(3, 3, 3, 3)
    found = link("link:rate=200kbps:queue=1000pkts")
    monkeypatch.setattr(found, "_counted", held.look)
    monkeypatch.setattr(emulated, "time", held)
    for _ in range(2):
        assert found.holds()
        held.sleep(10)
    with pytest.raises(LabError, match="3 frames still on the link"):
        found.holds()
    # A later trial begins anew.
    held.sleep(10)
    held.sleep(10)
    assert found.holds()


def test_frames_that_never_leave_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="3 frames still on the link"):
        settle(monkeypatch, Held(4, *[3] * 9))
