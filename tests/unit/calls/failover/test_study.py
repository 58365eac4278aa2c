from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.calls.failover import lab
from weirlab.calls.failover.fakes import FakePair, SwitchBehaviour, SwitchFault, instant
from weirlab.calls.failover.section import FailoverScenario
from weirlab.calls.failover.study import FailoverFindings, FailoverStudy, load_text
from weirlab.calls.failover.switches.event import SwitchClocks
from weirlab.calls.failover.switches.plan import PairSpec
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.lab.redundant.base import Transition
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies import runner
from weirlab.studies.contract import Outcome
from weirlab.testing import FakeClock
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Traffic

CONTENT: dict[str, Any] = {
    "name": "test",
    "calls": {"count": 30, "codec": "g711"},
    "failover": {
        "pairs": [
            {"protocol": "keepalived", "advert_s": 0.1},
            {"protocol": "keepalived", "advert_s": 0.1, "states": "off"},
        ],
        "repetitions": 2,
        "event_s": 0.5,
        "after_s": 4.5,
        "affected_s": 2.5,
        "load_s": 0.2,
    },
    "report": None,
}


def scenario(**changes: Any) -> FailoverScenario:
    content = {**CONTENT, "failover": {**CONTENT["failover"], **changes}}
    return from_plain(content, "test", FailoverScenario)


class Opener:
    """Fake pairs on one clock; a pair without states forgets them."""

    def __init__(self, *mishaps: SwitchFault | None, carries_calls: int = 1000) -> None:
        self.clock = FakeClock()
        self.opened: list[FakePair] = []
        self.carries_calls = carries_calls
        self._mishaps = iter(mishaps)

    def __call__(self, pair: PairSpec) -> FakePair:
        usual = instant(pair.protocol)
        manner = SwitchBehaviour(
            usual.outage_s, shares_states=pair.sharing != "off", carries_calls=self.carries_calls
        )
        self.opened.append(FakePair(pair.protocol, manner, self._mishaps, self.clock))
        return self.opened[-1]

    def now_ns(self) -> int:
        return round(self.clock() * 1e9)


Do = Callable[..., Outcome[FailoverFindings]]


def run(store: Store, opener: Opener, what: FailoverScenario | None = None) -> Outcome[FailoverFindings]:
    return runner.run(study(opener), what or scenario(), Work(store, SilentProgress()))


def study(opener: Opener) -> FailoverStudy:
    return FailoverStudy(opener, clocks=SwitchClocks(opener.now_ns, opener.clock.advance))


def test_one_command_measures_every_pair_and_draws_conclusions(store: Store) -> None:
    outcome = run(store, Opener())
    assert outcome.found.planned == 8
    assert outcome.found.missing == ()
    assert outcome.problem() is None
    assert {(group.sharing, group.kind, group.runs) for group in outcome.found.groups} == {
        ("direct", "soft", 2), ("direct", "hard", 2), ("off", "soft", 2), ("off", "hard", 2),
    }  # fmt: skip
    told = "\n".join(outcome.found.conclusions)
    assert "keepalived 0.1 s, master steps down: no packet was lost in all 2 runs" in told
    assert "no conntrackd, master dies: every one of 60 streams died in all 2 runs" in told
    assert "as the timers say (0.261 to 0.361 s)" in told
    manifest = outcome.run.manifest
    assert manifest.status == "complete"
    assert [pair["sharing"] for pair in manifest.facts["pairs"]] == ["direct", "off"]


class UnseenPair(FakePair):
    """A pair of the user's own."""

    looks_inside = False
    expected_failover_s = (0.0, 0.0)

    @property
    def transitions(self) -> list[Transition]:
        return []

    @transitions.setter
    def transitions(self, _: object) -> None:
        """The pair keeps them to itself."""

    def close_admission(self) -> int:
        raise AssertionError("its rules are its own")


@pytest.mark.parametrize(
    ("outage_s", "told"),
    [
        (0.3, "your own pair, master dies: all streams went on after a gap of 320 ms"),
        (
            0.0,
            "no packet was lost in all 2 runs (longest gap of a call 20.0 ms); whether the pair switched,",
        ),
    ],
)
def test_of_a_pair_of_the_users_own_only_the_packets_count(store: Store, outage_s: float, told: str) -> None:
    opener = Opener()

    def opened(_: PairSpec) -> UnseenPair:
        return UnseenPair(Keepalived(), SwitchBehaviour({"hard": outage_s}), clock=opener.clock)

    mine = {"protocol": "external", "hard": "off", "restore": "on"}
    content = {**CONTENT, "lab": {"kind": "wired", "between": ["a", "b"]}}
    content["failover"] = {
        **CONTENT["failover"],
        "pairs": [mine],
        "kinds": ["hard"],
        "close_admission": False,
    }
    what = from_plain(content, "test", FailoverScenario)
    clocks = SwitchClocks(opener.now_ns, opener.clock.advance)
    outcome = runner.run(
        FailoverStudy(opened, clocks=clocks), what, Work(store, SilentProgress(), inputs=HOST_FILES)
    )
    assert [row.invalid for row in outcome.found.rows] == ["", ""]
    assert [(row.new_master, row.states_surviving) for row in outcome.found.rows] == [("", 0), ("", 0)]
    (sentence,) = outcome.found.conclusions
    assert told in sentence
    page = study(opener).page(outcome.run).html()
    assert ("whether the pair switched, its own log tells" in page) is (outage_s == 0.0)


def test_the_document_is_complete_and_the_run_says_the_same_again(store: Store) -> None:
    outcome = run(store, Opener())
    document = outcome.document()
    assert len(document["switches"]) == 8
    assert document["load"]["calls"] == 30
    assert len(document["groups"]) == 4
    assert len(document["conclusions"]) == 6  # Each group by itself, and both kinds with and without states.
    assert FailoverStudy().headlines(store.open("last")) == document["conclusions"]


def test_calls_in_one_flow_are_one_connection(store: Store) -> None:
    content = {**CONTENT, "calls": {**CONTENT["calls"], "one_flow": True}}
    found = run(store, Opener(), from_plain(content, "test", FailoverScenario)).found
    assert {(row.valid, row.calls, row.states_known) for row in found.rows} == {(True, 30, 1)}
    assert {row.streams for row in found.rows} == {60}


def test_the_schedule_of_all_switches_is_compiled_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Traffic] = []

    def counting(traffic: Traffic) -> DeparturePlan:
        seen.append(traffic)
        return compile_plan(traffic)

    monkeypatch.setattr(lab, "compile_plan", counting)
    lab.compiled.cache_clear()
    found = run(store, Opener()).found
    assert len(seen) == 1
    assert lab.compiled(seen[0]).media is not None
    assert len(seen) == 1
    assert seen[0].calls is not None
    assert seen[0].calls.count == found.load.calls


def test_calls_that_no_pair_carries_are_not_made(store: Store) -> None:
    outcome = run(store, Opener(carries_calls=20))
    assert outcome.found.load.reduced
    assert outcome.found.load.carried in (19, 20)
    assert outcome.found.load.calls < outcome.found.load.carried
    assert all(row.calls == outcome.found.load.calls and row.valid for row in outcome.found.rows)
    assert "30 calls were wanted" in load_text(outcome.found.load)
    assert "90 % of the 20 calls that keepalived 0.1 s carries without loss" in load_text(outcome.found.load)


def test_a_load_that_the_host_limits_does_not_speak_of_the_pair(store: Store) -> None:
    outcome = run(store, Opener(*[SwitchFault(steal_s=1.0)] * 6))
    assert "calls that could be sent undisturbed on this machine, not the most" in load_text(
        outcome.found.load
    )


def test_what_a_run_says_of_its_host_is_not_about_one_of_its_pairs(store: Store) -> None:
    facts = run(store, Opener()).run.manifest.facts
    assert facts["made_of"] == "formulas"
    assert {"keepalived", "conntrackd"} <= set(facts)
    assert not [name for name in facts if name.startswith(("protocol_", "states_"))]


def test_ctrl_c_keeps_what_is_done_and_resuming_does_the_rest(store: Store) -> None:
    stopped = Opener(*[None] * 6, SwitchFault(fails=KeyboardInterrupt()))
    with pytest.raises(RunInterrupt, match="go on with: weir run --resume") as told:
        run(store, stopped)
    held = store.open("last")
    done = held.table("switches").filter("valid").height
    assert 0 < done < 8
    assert held.trials().filter("valid").height > done, "attempts of the search for the load are kept, too"
    assert f"interrupted; {done} valid attempts kept" in str(told.value)
    opener = Opener()
    outcome = runner.resume(study(opener), held.run_id, Work(store, SilentProgress()))
    assert outcome.found.missing == ()
    assert len(opener.opened) == 8 - done
    assert sorted(row.index for row in outcome.found.rows) == list(range(8))


def test_what_the_host_spoils_for_good_is_a_problem_with_advice(store: Store) -> None:
    # The search for the load takes four trials; then the first switch is spoiled in each attempt.
    outcome = run(store, Opener(*[None] * 4, *[SwitchFault(away_ns=10**9)] * 4))
    assert len(outcome.found.missing) == 1
    problem = outcome.problem()
    assert problem is not None
    assert "1 of 8 switches have no valid attempt" in str(problem)
    assert f"weir run --resume {outcome.run.run_id}" in str(problem)


def test_more_calls_than_fit_into_a_switch_are_refused_before_anything_is_built(store: Store) -> None:
    opener = Opener()
    many = scenario().model_copy(update={"calls": scenario().calls.model_copy(update={"count": 100_000})})
    # They would fit into the short trials that find the load.
    with pytest.raises(InputError, match=r"more than the .* of a trial"):
        run(store, opener, many)
    assert opener.opened == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"after_s": 11.5}, "give at least 12 s"),
        (
            {"kinds": ["return"], "pairs": [{"protocol": "keepalived", "preempt_delay_s": 20}]},
            "its timers take up to 23.6 s",
        ),
        (
            {"pairs": [{"protocol": "ucarp"}, {"protocol": "ucarp", "deadratio": 4}]},
            "two pairs are both called 'ucarp 1 s",
        ),
    ],
)
def test_impossible_plans_are_refused_before_anything_is_built(
    store: Store, changes: dict[str, Any], message: str
) -> None:
    opener = Opener()
    with pytest.raises(InputError, match=message):
        run(store, opener, scenario(**({"after_s": 12, "affected_s": 10} | changes)))
    assert opener.opened == []
    assert store.runs() == []
