from __future__ import annotations

import pytest

from weirlab.calls.failover.fakes import FakePair, SwitchBehaviour, SwitchFault, instant
from weirlab.calls.failover.study import FailoverStudy
from weirlab.calls.failover.switches.event import SwitchClocks
from weirlab.calls.failover.switches.plan import PairSpec
from weirlab.publications import publication
from weirlab.studies.registry import studies
from weirlab.testing import FakeClock

from ...conftest import Weir

SHORT = ("--calls", "20", "--codec", "g711", "--event", "0.5", "--after", "12", "--repetitions", "2")


@pytest.fixture(autouse=True)
def pairs(monkeypatch: pytest.MonkeyPatch) -> list[SwitchFault | None]:
    """Pairs made of formulas; mishaps put into the list happen one per pair."""
    clock = FakeClock()
    mishaps: list[SwitchFault | None] = []

    def open_pair(pair: PairSpec) -> FakePair:
        manner = SwitchBehaviour(instant(pair.protocol).outage_s, shares_states=pair.sharing != "off")
        return FakePair(pair.protocol, manner, iter([mishaps.pop(0)] if mishaps else []), clock)

    fake = FailoverStudy(open_pair, clocks=SwitchClocks(lambda: round(clock() * 1e9), clock.advance))
    monkeypatch.setitem(studies(), fake.key, fake)
    return mishaps


def test_a_pair_is_told_by_tables_and_a_sentence_per_kind(weir: Weir) -> None:
    answer = weir("failover", "--advert", "0.1", *SHORT)
    assert answer.code == 0
    assert "keepalived 0.1 s, master steps down: no packet was lost in all 2 runs" in answer.out
    assert "keepalived 0.1 s, master dies: all streams went on after a gap of" in answer.out
    assert "as the timers say (0.261 to 0.361 s)" in answer.out
    published = publication("woernhard-2006").experiments["failover-soft"].settings["pps"]
    fewer = f"Load: 20 calls, 2,000 packets per second (fewer than the published {published:,})"
    assert fewer in answer.out
    assert "4 of 4 switches measured" in answer.out
    assert "about" in answer.err
    assert "min, run" in answer.err


def test_one_document_holds_every_switch(weir: Weir) -> None:
    found = weir("failover", "--states", "off", "--kinds", "hard", *SHORT, "--json").json
    assert found["kind"] == "failover"
    assert [row["dead"] for row in found["switches"]] == [40, 40]
    assert found["groups"][0]["survivors"] == 0
    assert found["groups"][0]["sharing"] == "off"
    assert "every one of 40 streams died" in found["conclusion"]


def test_what_stays_spoiled_is_an_error_after_the_result(weir: Weir, pairs: list[SwitchFault | None]) -> None:
    pairs += [None, SwitchFault(away_ns=10**9)]
    answer = weir("failover", "--kinds", "hard", *SHORT, "--attempts", "1", "--no-find-load")
    assert answer.code == 5
    assert "1 of 2 switches have no valid attempt" in answer.err
    assert "1 of 2 switches measured" in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--protocol", "ucarp", "--advert", "0.5"), "ucarp advertises every 1, 2, ... s"),
        (("--advert", "256"), "'--advert': Input should be less than or equal to 255"),
        (("--kinds", "soft,sudden"), "must be 'soft', 'hard' or 'return' (found 'sudden')"),
        (("--nat",), "goes with 'directions: forward' only"),
        (("--codec", "g711:7.5ms"), "--codec: "),
        (("--protocol", "ucarp", "--after", "6"), "give at least"),
        (("--plots", "somewhere"), "--plots needs --out"),
    ],
)
def test_bad_options_are_refused_in_one_message(weir: Weir, arguments: tuple[str, ...], message: str) -> None:
    answer = weir("failover", *arguments)
    assert answer.code == 2
    assert message in answer.err
