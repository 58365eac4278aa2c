"""From a scenario to a kept run, over made-up paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies import runner
from weirlab.studies.contract import Outcome
from weirlab.transfers.parallel.fakes import FakeParallelBed, ParallelFault, opener
from weirlab.transfers.parallel.findings import ATTEMPTS, PATHS, SERIES, ParallelFindings
from weirlab.transfers.parallel.section import ParallelScenario
from weirlab.transfers.parallel.study import ParallelStudy, stored

CONTENT: dict[str, Any] = {
    "name": "test",
    "parallel": {
        "split": {"shares": [0.1, 0.5]},
        "methods": ["tcp", "independent", "mptcp", "round-robin", "earliest"],
        "cases": [
            {
                "name": "outage",
                "paths": [{"both": {"rate": "50Mbps", "delay": "5ms"}, "copies": 2}],
                "outages": [{"path": 2, "from_s": 0.5, "lasts_s": 0.5}],
            },
            {
                "name": "rival",
                "paths": [{"both": {"rate": "50Mbps", "delay": "5ms"}, "copies": 2}],
                "competitors": [{"path": 1, "from_s": 1}],
            },
        ],
        "repetitions": 2,
        "max_attempts": 2,
    },
    "report": None,
}
PLANNED = 2 * (6 + 5 + 6 + 6)
FEW = 4
"""Attempts of the small scenario."""

Found = Outcome[ParallelFindings]


def scenario(**changes: Any) -> ParallelScenario:
    content = {**CONTENT, "parallel": {**CONTENT["parallel"], **changes}}
    return from_plain(content, "test", ParallelScenario)


def small(**changes: Any) -> ParallelScenario:
    """One case and two methods, twice."""
    few = {"split": {"shares": [0.1]}, "cases": [], "methods": ["independent", "earliest"]}
    return scenario(**{**few, **changes})


def run(store: Store, bed: FakeParallelBed, what: ParallelScenario) -> Found:
    return runner.run(ParallelStudy(opener(bed)), what, Work(store, SilentProgress()))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """A run in which nothing went wrong."""
    return run(Store(tmp_path_factory.mktemp("store")), FakeParallelBed(), scenario())


def group(outcome: Found, case: str, method: str, path: int = 0) -> Any:
    [found] = [
        each for each in outcome.found.groups if (each.case, each.method, each.path) == (case, method, path)
    ]
    return found


def test_every_method_is_compared_with_the_sum_of_independent_streams(outcome: Found) -> None:
    assert outcome.problem() is None
    assert len(outcome.found.rows) == outcome.found.planned == PLANNED
    uneven = "10 Mbit/s + 90 Mbit/s"
    assert group(outcome, uneven, "earliest").share.median == pytest.approx(1.0)
    # Twice the slower of the two.
    assert group(outcome, uneven, "round-robin").share.median == pytest.approx(0.2)
    assert group(outcome, uneven, "tcp", 2).share.median == pytest.approx(0.9)
    assert group(outcome, uneven, "independent").goodput.median == pytest.approx(100e6 * 1448 / 1514)
    assert group(outcome, "50 Mbit/s + 50 Mbit/s", "round-robin").share.median == pytest.approx(1.0)
    assert group(outcome, uneven, "earliest").spread["reorder_peak_bytes"].median == 80_000
    assert not group(outcome, uneven, "mptcp").spread["reorder_peak_bytes"].known


def test_the_terminal_says_a_sentence_per_case_and_shows_a_table_of_each(outcome: Found) -> None:
    told = outcome.summary()
    first, *cases = told.conclusion.splitlines()
    assert first == (
        "Of what independent streams carry together in 4 cases, MPTCP carries at least 100 %, earliest 100 % "
        "and round-robin 20 %."
    )
    assert cases[0] == (
        "10 Mbit/s + 90 Mbit/s: independent streams carry 95.6 Mbit/s together, of which MPTCP 100 %, "
        "earliest 100 % and round-robin 20 %; reorder memory at most: round-robin 80.0 kB and earliest "
        "80.0 kB."
    )
    assert len(cases) == 4
    assert [table.caption.partition(":")[0] for table in told.tables] == [
        "10 Mbit/s + 90 Mbit/s", "50 Mbit/s + 50 Mbit/s", "outage", "rival", "Every attempt",
    ]  # fmt: skip


def test_an_outage_is_told_by_what_is_left_and_when_the_path_is_back(outcome: Found) -> None:
    found = group(outcome, "outage", "earliest")
    assert found.spread["outage_bps"].median == pytest.approx(50e6 * 1448 / 1514)
    assert found.spread["back_s"].median == pytest.approx(0.1)
    assert not group(outcome, "outage", "tcp", 1).spread["outage_bps"].known
    assert "Outage: independent streams carry" in outcome.summary().conclusion
    assert "while the path is dead: independent streams 47.8 Mbit/s" in outcome.summary().conclusion


def test_a_competitor_is_told_by_its_goodput_and_jains_index(outcome: Found) -> None:
    found = group(outcome, "rival", "mptcp")
    assert found.spread["competitor_bps"].median == pytest.approx(25e6 * 1448 / 1514)
    assert found.spread["jain"].median == pytest.approx(1.0)
    assert found.spread["path_share"].median == pytest.approx(0.5)
    assert "next to MPTCP, which has 50 % (Jain 1.0)" in outcome.summary().conclusion
    # Whose CPU time it was cannot be told.
    assert not found.spread["cpu_s_per_gb"].known
    assert group(outcome, "outage", "mptcp").spread["cpu_s_per_gb"].median == pytest.approx(0.5)


def test_a_run_keeps_rows_of_attempts_paths_and_time(outcome: Found) -> None:
    run = outcome.run
    trials = run.trials()
    assert trials.height == PLANNED
    assert set(trials["backend"]) == {"tcp"}
    assert (trials["sent"] > 0).all()
    attempts, paths, series = (run.table(name) for name in (ATTEMPTS, PATHS, SERIES))
    assert set(attempts["trial_id"]) == set(trials["trial_id"])
    # A path each for single TCP, two for everything else.
    assert paths.height == 2 * (4 * 4 * 2 + 2 + 1 + 2 + 2)
    assert set(series["what"]) == {"application", "path", "competitor"}
    assert series["start_s"].min() == pytest.approx(-0.5)
    assert run.manifest.facts["lacking"] == {}


def test_what_is_read_from_the_run_is_what_was_told(outcome: Found) -> None:
    again = stored(outcome.run)
    assert repr(again.document()) == repr(outcome.found.document())
    document = json.loads(json.dumps(outcome.found.document(), default=str))
    assert document["missing"] == []
    assert {
        each["share_of_independent"] for each in document["attempts"] if each["method"] == "independent"
    } == {1.0}


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ParallelFault(late_ns=5_000_000), "the emulator was late: p99 5.00 ms, 2.00 ms allowed"),
        (ParallelFault(not_received=3), "6 frames were lost by the emulator"),
    ],
)
def test_an_attempt_that_the_emulator_spoils_is_kept_and_repeated(
    store: Store, fault: ParallelFault, told: str
) -> None:
    bed = FakeParallelBed(iter([None, fault]))
    outcome = run(store, bed, small())
    assert outcome.problem() is None
    assert len(bed.carried) == FEW + 1
    [spoiled] = [row for row in outcome.found.rows if not row.valid]
    assert told.split("6 frames")[0] in spoiled.invalid
    assert outcome.run.trials().filter(~outcome.run.trials()["valid"])["attempt"].to_list() == [1]
    assert outcome.found.spoiled == 1


def test_what_never_counts_is_named_and_the_rest_is_shown(store: Store) -> None:
    late = ParallelFault(late_ns=5_000_000)
    outcome = run(store, FakeParallelBed(iter([late, late])), small())
    assert len(outcome.found.missing) == 1
    assert f"1 of {FEW} transfers have no attempt that counts" in str(outcome.problem())
    assert len(outcome.found.sentences()) == 1


def test_paths_that_could_not_be_made_are_tried_again(store: Store) -> None:
    assert (
        run(store, FakeParallelBed(iter([ParallelFault(raises=LabError("no link"))])), small()).problem()
        is None
    )
    with pytest.raises(LabError, match="no link"):
        run(store, FakeParallelBed(iter([ParallelFault(raises=LabError("no link"))] * 2)), small())


def test_ctrl_c_keeps_what_is_done_and_resuming_does_the_rest(store: Store) -> None:
    stopped = FakeParallelBed(iter([*[None] * 2, ParallelFault(raises=KeyboardInterrupt())]))
    with pytest.raises(RunInterrupt, match=r"2 valid attempts kept .* go on with: weir run --resume"):
        run(store, stopped, small())
    rest = FakeParallelBed()
    outcome = runner.resume(ParallelStudy(opener(rest)), "last", Work(store, SilentProgress()))
    assert len(rest.carried) == FEW - 2
    assert outcome.problem() is None
    assert len({(row.case, row.method, row.path, row.repetition) for row in outcome.found.rows}) == FEW
    # It goes on with the one that was broken off.
    assert stopped.carried[2] == rest.carried[0]


def test_a_method_that_is_not_here_is_left_out_and_named(store: Store) -> None:
    lacking = {"mptcp": "this kernel is built without it"}
    outcome = run(store, FakeParallelBed(lacking=lacking), small(methods=["mptcp", "earliest"]))
    assert {row.method for row in outcome.found.rows} == {"earliest"}
    assert "MPTCP was left out: this kernel is built without it." in outcome.summary().remark
    assert "MPTCP was left out" in ParallelStudy().page(outcome.run).warning
    with pytest.raises(MissingCapability, match="built without it"):
        run(store, FakeParallelBed(lacking=lacking), small(methods=["mptcp"]))


def test_a_transfer_that_breaks_off_is_a_result_and_told(store: Store) -> None:
    bed = FakeParallelBed(iter([ParallelFault(failure="the session was lost")] * FEW))
    outcome = run(store, bed, small())
    assert outcome.problem() is None
    assert "the transfer broke off: the session was lost" in outcome.summary().remark


def test_a_run_without_an_attempt_has_no_page(store: Store) -> None:
    with pytest.raises(RunInterrupt):
        run(store, FakeParallelBed(iter([ParallelFault(raises=KeyboardInterrupt())])), small())
    with pytest.raises(InputError, match="before any attempt counted"):
        ParallelStudy().page(store.open("last"))


def test_without_the_reference_throughputs_are_told_instead_of_shares(store: Store) -> None:
    what = small(methods=["earliest"], repetitions=1)
    sentences = run(store, FakeParallelBed(), what).found.sentences()
    assert sentences[0].startswith("10 Mbit/s + 90 Mbit/s: earliest 95.6 Mbit/s")


def test_a_busy_host_is_told_and_its_attempts_are_kept(store: Store) -> None:
    outcome = run(store, FakeParallelBed(waited_s=1.0), small())
    assert outcome.problem() is None
    assert (
        "the threads of the median attempt waited for a CPU 0.40 times as long as it lasted"
        in outcome.summary().remark
    )
