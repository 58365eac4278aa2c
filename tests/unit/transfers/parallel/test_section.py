"""What a scenario about parallel sockets may say, and which attempts follow from it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import get_args

import pytest

from weirlab._engine import psock_limits
from weirlab.base.errors import InputError
from weirlab.studies import ready, scenarios
from weirlab.transfers.parallel import plan, study
from weirlab.transfers.parallel.section import MethodName, ParallelScenario, ParallelSection, share_of


def asked(text: str) -> ParallelSection:
    found = scenarios.loads(f"name: x\nparallel: {text}\n")
    assert isinstance(found, ParallelScenario)
    return found.parallel


TWO = "cases: [{name: two, paths: [{both: {rate: 10Mbps, delay: 5ms}, copies: 2}]}]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "give 'split', 'cases' or both"),
        ("{split: {both: {rate: 1Mbps}}}", "the rates follow from"),
        ("{split: {rate: fast}}", "is no bit rate"),
        ("{split: {shares: [1.5]}}", "less than 1"),
        ("{split: {both: {queue: many}}}", "give packets, bytes or time"),
        ("{cases: [{name: a, paths: [{both: {speed: 1}}]}]}", "'speed' is not known"),
        ("{cases: [{name: a, paths: [{up: {delay: soon}}]}]}", "is no time"),
        ("{cases: [{name: a, paths: [{copies: 5}, {copies: 4}]}]}", "9 paths: at most 8 are possible"),
        ("{cases: [{name: a, paths: [{}]}, {name: a, paths: [{}]}]}", "another case is called so"),
        (
            "{cases: [{name: a, paths: [{}], outages: [{path: 2, from_s: 0, lasts_s: 1}]}]}",
            "the case has 1 path",
        ),
        ("{cases: [{name: a, paths: [{}], competitors: [{path: 1, from_s: 2}]}]}", "ends after the recorded"),
        (
            "{cases: [{name: a, paths: [{}], outages: [{path: 1, from_s: 1.5, lasts_s: 1}]}]}",
            "which lasts 2 s",
        ),
        ("{cases: [{name: a, paths: [{}]}], methods: [udp]}", "'tcp'"),
        ("{cases: [{name: a, paths: [{}]}], memory: lots}", "is no size"),
        ("{split: {shares: [0.2], ratios: [0.5]}}", "give either 'shares' or 'ratios'"),
        ("{split: {ratios: [0]}}", "greater than or equal to 0.001"),
        ("{cases: [{name: a, paths: [{}]}], buffers: 1.1}", "'buffers' needs paths with a rate"),
        ("{cases: [{name: a, paths: [{}], buffers: 2}]}", "'buffers' needs paths with a rate"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        asked(text)
    assert told in str(refused.value)
    assert str(refused.value).startswith("<text>:2:")


def test_a_split_gives_a_case_for_each_share_with_all_of_the_rate() -> None:
    found = asked("{split: {rate: 100Mbps, shares: [0.1, 0.5]}}").every_case()
    assert [case.name for case in found] == ["10 Mbit/s + 90 Mbit/s", "50 Mbit/s + 50 Mbit/s"]
    rates = [path.read("up").rate_bps for path in found[0].every_path()]
    assert rates == [10_000_000, 90_000_000]


def test_ratios_give_the_first_rate_as_a_multiple_of_the_second_and_survive_being_stored() -> None:
    found = asked("{split: {rate: 90Mbps, ratios: [0.5, 2]}}")
    names = ["30 Mbit/s + 60 Mbit/s", "60 Mbit/s + 30 Mbit/s"]
    assert [case.name for case in found.every_case()] == names
    assert found.split is not None
    assert [share_of(found.split, name) for name in names] == pytest.approx([1 / 3, 2 / 3])
    stored = ParallelScenario.model_validate({"name": "x", "parallel": found.model_dump()})
    assert not [*stored.conflicts()]


def test_socket_buffers_are_a_multiple_of_what_the_fastest_path_of_a_method_holds() -> None:
    paths = "paths: [{both: {rate: 8Mbps, delay: 5ms}}, {both: {rate: 80Mbps, delay: 5ms}}]"
    what = asked(f"{{buffers: 1.5, methods: [tcp, poll-all], cases: [{{name: a, {paths}}}]}}")
    made = {(each.method, each.path): study.course(each, what).buffer_bytes for each in plan.plan(what)}
    assert made[("tcp", 1)] == 15_000
    assert made[("tcp", 2)] == made[("poll-all", 0)] == 150_000
    own = asked(f"{{buffers: 1.5, methods: [poll-all], cases: [{{name: a, buffers: 2, {paths}}}]}}")
    assert {study.course(each, own).buffer_bytes for each in plan.plan(own)} == {200_000}


def test_every_method_is_tried_in_every_round_and_single_tcp_once_over_paths_that_are_alike() -> None:
    what = asked("{split: {shares: [0.3, 0.5]}, repetitions: 2}")
    found = plan.plan(what)
    assert [each.index for each in found] == list(range(len(found)))
    assert {each.repetition for each in found[: len(found) // 2]} == {1}
    alone = {(each.case.name, each.path) for each in found if each.method == "tcp"}
    assert alone == {("30 Mbit/s + 70 Mbit/s", 1), ("30 Mbit/s + 70 Mbit/s", 2), ("50 Mbit/s + 50 Mbit/s", 1)}
    assert len({each.key for each in found}) == len(found)
    # Methods of a case follow each other.
    names = [each.case.name for each in found]
    assert sum(one != other for one, other in itertools.pairwise(names)) <= 3
    assert plan.plan(what) == found
    assert not [each for each in plan.plan(what, {"mptcp"}) if each.method == "mptcp"]


def test_a_path_on_which_something_happens_is_unlike_the_others() -> None:
    what = asked(f"{{{TWO[:-2]}, outages: [{{path: 2, from_s: 0, lasts_s: 1}}]}}]}}")
    assert [each.path for each in plan.plan(what) if each.method == "tcp" and each.repetition == 1] in (
        [1, 2], [2, 1],
    )  # fmt: skip


def test_random_numbers_differ_between_paths_and_repetitions_and_not_between_methods() -> None:
    what = asked(f"{{{TWO}, repetitions: 2, methods: [independent, earliest]}}")
    seeds = {
        (each.method, each.repetition): [
            spec.seed for pair in study.course(each, what).paths.values() for spec in (pair.up, pair.down)
        ]
        for each in plan.plan(what)
    }
    assert seeds["independent", 1] == seeds["earliest", 1]
    assert len({*seeds["earliest", 1], *seeds["earliest", 2]}) == 8


def test_single_tcp_sees_only_what_happens_on_its_own_path() -> None:
    what = asked(f"{{{TWO[:-2]}, competitors: [{{path: 2}}]}}]}}")
    by_path = {each.path: study.course(each, what) for each in plan.plan(what) if each.method == "tcp"}
    assert by_path[1].competitors == ()
    assert [(span.path, span.from_s, span.to_s) for span in by_path[2].competitors] == [(2, 0.0, 2.0)]


def test_every_scheduler_of_the_methods_is_one_of_the_engine() -> None:
    schedulers = set(get_args(MethodName)) - {"tcp", "independent", "mptcp", "earliest-fair"}
    assert schedulers <= set(psock_limits()["schedulers"])
    assert study.how(asked(f"{{{TWO}}}")).plain()["memory_bytes"] == psock_limits()["memory_bytes"]


@pytest.mark.parametrize("name", ["parallel-sockets", "parallel-sockets-full", "parallel-sockets-fair"])
def test_the_ready_scenarios_can_be_planned(name: str) -> None:
    found = scenarios.load(ready.find(Path(name)))
    assert isinstance(found, ParallelScenario)
    what = found.parallel
    planned = plan.plan(what)
    (_, most), *_ = found.trials()
    assert len(planned) <= most
    assert all(study.course(each, what).paths for each in planned)
    minutes = plan.estimate_s(planned, what) / 60
    assert (minutes < 8) == (name == "parallel-sockets")
