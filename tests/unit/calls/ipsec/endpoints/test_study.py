"""From a scenario to a kept run, between made-up endpoints."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.base.quantities import duration
from weirlab.calls.ipsec.endpoints.fakes import CAPACITY, SWING_NS, EndpointFault, FakeEndpointBed, opener
from weirlab.calls.ipsec.endpoints.findings import EndpointFindings, EndpointGroup, compared
from weirlab.calls.ipsec.endpoints.plan import CallLimitSection, EndpointScenario, EndpointsSection, talk
from weirlab.calls.ipsec.endpoints.rows import ATTEMPTS, DISTRIBUTIONS, LIMITS, EndpointAttemptRow
from weirlab.calls.ipsec.endpoints.searching import searched
from weirlab.calls.ipsec.endpoints.study import EndpointsStudy, stored
from weirlab.calls.ipsec.published import quality
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies import runner
from weirlab.studies.contract import Outcome

Found = Outcome[EndpointFindings]
CONTENT: dict[str, Any] = {
    "calls": [1, 5],
    "warmup_s": 0.1,
    "lasts_s": 0.2,
    "repetitions": 2,
    "max_attempts": 2,
    "limit": {"most_calls": 2000, "trial_s": 0.2, "trials": 1},
}
PLANNED = 3 * 2 * 2 * 2


def scenario(**changes: Any) -> EndpointScenario:
    content = {"name": "test", "endpoints": {**CONTENT, **changes}, "report": None}
    return from_plain(content, "test", EndpointScenario)


def small(**changes: Any) -> EndpointScenario:
    """Two kinds of endpoints at idle, once, without a search."""
    few = {"arms": ["bypass", "sockets"], "beside": ["idle"], "calls": [1], "repetitions": 1, "limit": None}
    return scenario(**{**few, **changes})


def run(store: Store, bed: FakeEndpointBed, what: EndpointScenario) -> Found:
    return runner.run(EndpointsStudy(opener(bed)), what, Work(store, SilentProgress()))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """A run in which nothing went wrong."""
    return run(Store(tmp_path_factory.mktemp("store")), FakeEndpointBed(), scenario())


def group(outcome: Found, arm: str, beside: str, calls: int) -> EndpointGroup:
    [found] = [
        each for each in outcome.found.groups if (each.arm, each.beside, each.calls) == (arm, beside, calls)
    ]
    return found


def test_every_kind_of_endpoint_is_compared_at_idle_and_beside_a_hog(outcome: Found) -> None:
    assert outcome.problem() is None
    assert outcome.found.planned == PLANNED
    assert len(outcome.found.groups) == 3 * 2 * 2
    for arm, swing_ns in SWING_NS.items():
        found = group(outcome, arm, "idle", 5)
        assert found.attempts == 2
        # The delay swings, so that D is the swing for every packet; J rises towards it.
        assert 0.4 * swing_ns < found.spread["jitter_mean_ns"].median < swing_ns
        assert found.spread["jitter_max_ns"].median < swing_ns
        assert found.spread["delta_max_ns"].median == pytest.approx(20e6 + swing_ns, abs=200)
        assert found.spread["delay_max_ns"].median == pytest.approx(8_000 + swing_ns)
        assert found.spread["late_max_ns"].median == pytest.approx(1_200)
        assert found.lost_ratio == 0
        assert found.ip_bytes == (244,)
    ratio = [
        group(outcome, arm, "hog", 5).spread["jitter_mean_ns"].median
        / group(outcome, arm, "idle", 5).spread["jitter_mean_ns"].median
        for arm in ("bypass", "sockets")
    ]
    assert ratio == pytest.approx([1, 10], rel=0.01)


def test_the_most_calls_are_searched_for_every_kind(outcome: Found) -> None:
    limits = {(row.arm, row.beside): row for row in outcome.found.limits}
    assert len(limits) == 6
    assert limits["bypass", "idle"].at_least
    assert limits["bypass", "idle"].carried == 2000
    sockets = limits["sockets", "hog"]
    assert sockets.carried <= CAPACITY["sockets"] < sockets.too_many
    assert sockets.carried == pytest.approx(CAPACITY["sockets"], rel=0.11)
    assert not sockets.at_least


def test_the_terminal_answers_first_with_the_comparison(outcome: Found) -> None:
    told = outcome.summary()
    first, maximum, idle, hog = told.conclusion.splitlines()
    assert first.startswith("5 calls, with ESP (aes-gcm-16, transport mode): mean jitter is ")
    for sentence in (first, maximum):
        at_idle, _, beside = sentence.partition(" without a CPU hog and ")
        assert at_idle
        assert beside.partition(" beside a CPU hog at bypassing endpoints; ")[2]
        assert " at endpoints on sockets; " in beside
    assert maximum.startswith("Maximum jitter is ")
    assert idle.startswith(
        "Without a CPU hog, bypassing endpoints carry at least 2,000 calls, endpoints on sockets "
    )
    assert hog.startswith("Beside a CPU hog, bypassing endpoints carry at least 2,000 calls")
    assert "AF_XDP is in copy mode" in told.remark
    assert "ESP is Weir's own, in UDP, at all endpoints" in told.remark
    assert [table.caption.partition(":")[0] for table in told.tables] == [
        "Endpoints compared", "Most calls", "Every attempt",
    ]  # fmt: skip
    published = [row for row in told.tables[0].rows if row[2] == "published"]
    assert [row[3] for row in published] == [duration(each.jitter_mean_ms * 1e6) for each in quality()]
    assert outcome.found.publication
    others = replace(outcome.found, asked=outcome.found.asked.model_copy(update={"codec": "g711:60ms"}))
    assert not [row for row in compared(others).rows if row[2] == "published"]


def test_a_run_keeps_attempts_distributions_and_limits(outcome: Found) -> None:
    attempts, bins, limits = (outcome.run.table(name) for name in (ATTEMPTS, DISTRIBUTIONS, LIMITS))
    assert attempts["number"].to_list() == list(range(attempts.height))
    compared = attempts.filter(attempts["purpose"] == "compare")
    assert compared.height == PLANNED
    assert set(bins["number"]) == set(compared["number"])
    delays = bins.filter(bins["quantity"] == "delay")
    assert delays["packets"].sum() == compared["packets"].sum()
    assert limits.height == 6
    assert outcome.run.manifest.facts["cpus"] == [0, 1]


def test_what_is_read_from_the_run_is_what_was_told(outcome: Found) -> None:
    again = stored(outcome.run)
    assert repr(again.document()) == repr(outcome.found.document())
    document = json.loads(json.dumps(outcome.found.document(), default=str))
    assert document["missing"] == []
    assert {each["arm"] for each in document["groups"]} == set(SWING_NS)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (EndpointFault(stolen_s=0.2), "200 ms stolen from the near endpoint's CPU"),
        (EndpointFault(real_time_refused="not permitted"), "could not be real time (not permitted)"),
    ],
    ids=["stolen", "ordinary"],
)
def test_an_attempt_that_the_host_spoils_is_kept_and_repeated(
    store: Store, fault: EndpointFault, told: str
) -> None:
    bed = FakeEndpointBed(iter([fault]))
    outcome = run(store, bed, small(arms=["bypass"]))
    assert outcome.problem() is None
    assert [row.valid for row in outcome.found.attempts] == [False, True]
    assert told in outcome.found.attempts[0].invalid
    assert outcome.found.spoiled == 1
    assert "1 attempt did not count" in outcome.summary().remark


def test_a_kernel_that_lets_no_socket_poll_is_told(store: Store) -> None:
    outcome = run(store, FakeEndpointBed(iter([EndpointFault(polls=False)])), small(arms=["bypass"]))
    assert [row.valid for row in outcome.found.attempts] == [True]
    assert "This kernel does not let a socket poll the queue of a veth pair" in outcome.summary().remark


def test_loss_is_a_result(store: Store) -> None:
    outcome = run(store, FakeEndpointBed(iter([EndpointFault(lost=3)])), small(arms=["sockets"]))
    assert [row.lost for row in outcome.found.attempts] == [3]
    assert outcome.found.attempts[0].bad == 3
    assert outcome.found.groups[0].lost_ratio == pytest.approx(3 / 20)


def test_packets_that_the_system_never_takes_are_counted_and_told(store: Store) -> None:
    outcome = run(store, FakeEndpointBed(iter([EndpointFault(refused=12)])), small(arms=["bypass"]))
    [row] = outcome.found.attempts
    # 5 of them in the warm-up.
    assert (row.refused, row.unsent, row.lost, row.bad) == (12, 7, 0, 7)
    assert outcome.found.groups[0].lost_ratio == pytest.approx(7 / 20)
    said = "12 packets never left, as the system did not take them or they could not be encapsulated"
    assert (
        f"In attempts that count, {said}: those after the warm-up count as lost." in outcome.summary().remark
    )


def test_packets_that_never_left_in_attempts_that_do_not_count_are_not_told(store: Store) -> None:
    faults = [EndpointFault(refused=12, stolen_s=1.0), EndpointFault()]
    outcome = run(store, FakeEndpointBed(iter(faults)), small(arms=["bypass"]))
    assert [(row.refused, row.valid) for row in outcome.found.attempts] == [(12, False), (0, True)]
    assert "never left" not in outcome.summary().remark


def test_what_never_counts_is_named_and_the_rest_is_shown(store: Store) -> None:
    outcome = run(store, FakeEndpointBed(iter([EndpointFault(stolen_s=1.0)] * 2)), small())
    assert len(outcome.found.missing) == 1
    assert "1 of 2 attempts were spoiled by the host every time" in str(outcome.problem())
    assert outcome.found.spoken_of is None
    assert outcome.found.sentences() == ["No attempt counted."]
    assert len(outcome.found.groups) == 1


def test_endpoints_that_could_not_talk_are_tried_again(store: Store) -> None:
    broken = EndpointFault(raises=LabError("no socket"))
    assert run(store, FakeEndpointBed(iter([broken])), small()).problem() is None
    with pytest.raises(LabError, match="no socket"):
        run(store, FakeEndpointBed(iter([broken] * 2)), small())


def test_ctrl_c_keeps_what_is_done_and_resuming_does_the_rest(store: Store) -> None:
    stopped = FakeEndpointBed(iter([None, EndpointFault(raises=KeyboardInterrupt())]))
    with pytest.raises(RunInterrupt, match=r"1 valid attempt kept .* go on with: weir run --resume"):
        run(store, stopped, small(limit=CONTENT["limit"]))
    bed = FakeEndpointBed()
    outcome = runner.resume(EndpointsStudy(opener(bed)), "last", Work(store, SilentProgress()))
    assert outcome.problem() is None
    compared = [row for row in outcome.found.attempts if row.purpose == "compare"]
    assert [row.arm for row in compared] == ["sockets", "bypass"]
    assert [row.number for row in outcome.found.attempts] == list(range(len(outcome.found.attempts)))
    assert [row.arm for row in outcome.found.limits] == ["bypass", "sockets"]


def test_a_run_without_a_valid_attempt_has_no_page(store: Store) -> None:
    with pytest.raises(RunInterrupt):
        run(store, FakeEndpointBed(iter([EndpointFault(raises=KeyboardInterrupt())])), small())
    with pytest.raises(InputError, match="interrupted before any attempt counted"):
        EndpointsStudy().page(store.open("last"))


def test_calls_in_the_clear_are_told_so(store: Store) -> None:
    outcome = run(store, FakeEndpointBed(), small(suite="none"))
    assert outcome.summary().conclusion.startswith("1 call, in the clear: mean jitter is ")
    assert "ESP is" not in outcome.summary().remark
    assert outcome.found.groups[0].ip_bytes == (200,)


def test_trials_of_an_interrupted_search_serve_once() -> None:
    limit = CallLimitSection(most_calls=64, trials=1, trial_s=1.0)
    asked = EndpointsSection(limit=limit)
    bed, made = FakeEndpointBed(), []

    def measure(calls: int) -> EndpointAttemptRow:
        from weirlab.calls.ipsec.endpoints.plan import EndpointPlan
        from weirlab.calls.ipsec.endpoints.rows import recorded

        spec = talk(asked, "bypass", "idle", calls, 0.2)
        planned = EndpointPlan("bypass", "idle", calls, 1)
        made.append(recorded(bed.talk(spec), spec, planned, len(made), "limit", late_ns=1e7).row)
        return made[-1]

    first = searched(limit, "bypass", "idle", measure)
    assert first.carried == 64
    trials = len(made)
    again = searched(limit, "bypass", "idle", measure, made[:trials])
    assert again == first or (math.isnan(again.too_many) and again.carried == first.carried)
    assert len(made) == trials


@pytest.mark.parametrize(("capacity", "carried"), [(1, 1.0), (0, math.nan)])
def test_a_search_of_a_single_call_is_a_trial(
    monkeypatch: pytest.MonkeyPatch, store: Store, capacity: int, carried: float
) -> None:
    monkeypatch.setitem(CAPACITY, "sockets", capacity)  # type: ignore[arg-type]
    limit = {"most_calls": 1, "trial_s": 0.2}
    outcome = run(store, FakeEndpointBed(), small(arms=["sockets"], limit=limit))
    [row] = outcome.found.limits
    assert row.carried == pytest.approx(carried, nan_ok=True)
    assert row.at_least is bool(capacity)
    expected = "at least 1 call" if capacity else "no call in time"
    assert f"endpoints on sockets carry {expected}" in outcome.summary().conclusion
