"""The report on psock, repeated over made-up paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.publications import publication
from weirlab.reproduction import parallel
from weirlab.reproduction.contract import Answer, ReproducedExperiment
from weirlab.scenario.load import from_plain
from weirlab.store import Run, Store
from weirlab.studies import ready, runner, scenarios
from weirlab.transfers.parallel.fakes import HEADERS, FakeParallelBed, opener
from weirlab.transfers.parallel.section import ParallelScenario, ParallelSection
from weirlab.transfers.parallel.study import ParallelStudy

from .answers import unanswered

ABOUT = publication(parallel.KEY)
LISTING = Path(__file__).parents[3] / "crates/psock-c/tests/published.c"


def scenario(experiment: ReproducedExperiment, quick: bool = True) -> ParallelScenario:
    content = {"name": "test", "report": None, **experiment.scenarios(quick)[parallel.RUN]}
    return from_plain(content, "test", ParallelScenario)


def rates(asked: ParallelSection) -> list[list[float]]:
    """Rates of both paths of each case in Mbit/s."""
    return [
        [(path.read("up").rate_bps or 0) / 1e6 for path in case.every_path()] for case in asked.every_case()
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """A run of each experiment in which nothing went wrong."""
    work = Work(Store(tmp_path_factory.mktemp("store")), SilentProgress())
    return {
        each.key: runner.run(ParallelStudy(opener(FakeParallelBed())), scenario(each), work).run
        for each in parallel.EXPERIMENTS
    }


def answers(experiment: ReproducedExperiment, runs: Mapping[str, Run]) -> Mapping[str, Answer]:
    published = ABOUT.experiments[experiment.key]
    return {each.key: each for each in experiment.answers({parallel.RUN: runs[experiment.key]}, published)}


def goodput(run: Run, method: str, path: int = 0) -> Mapping[str, float]:
    """Medians by case in Mbit/s, from the stored table."""
    rows = run.table("parallel").filter((pl.col("method") == method) & (pl.col("path") == path))
    found = rows.group_by("case", maintain_order=True).agg(pl.col("goodput_bps").median() / 1e6)
    return dict(found.iter_rows())


def test_the_nine_ratios_are_exact_and_the_paths_together_have_the_published_rate() -> None:
    published = ABOUT.experiments["two-emulated-paths"].settings
    full = scenarios.load(ready.find(Path("parallel-sockets-full")))
    assert isinstance(full, ParallelScenario)
    assert full.parallel.split is not None
    assert list(full.parallel.split.ratios) == published["ratios"]
    for asked in (scenario(parallel.TwoEmulatedPaths()).parallel, full.parallel):
        pairs = rates(asked)[: len(published["ratios"])]
        assert [first / second for first, second in pairs] == pytest.approx(published["ratios"], rel=1e-6)
        assert [sum(pair) for pair in pairs] == pytest.approx([published["sum_mbit_s"]] * 9)


def test_other_streams_come_and_go_at_the_published_times() -> None:
    published = ABOUT.experiments["cross-traffic"].settings
    full = scenarios.load(ready.find(Path("parallel-sockets-full")))
    assert isinstance(full, ParallelScenario)
    rivals = [case for case in full.parallel.cases if case.competitors]
    for cases in (scenario(parallel.CompetingStreams()).parallel.cases, rivals):
        times = [
            [[each.path, each.from_s, each.from_s + (each.lasts_s or 0)] for each in case.competitors]
            for case in cases
        ]
        assert times == [*published["streams"].values()]
    assert {case.lasts_s for case in rivals} == {published["lasts_s"]}
    at_full_rate = [path.read("up").rate_bps for case in rivals for path in case.every_path()]
    assert set(at_full_rate) == {1e6 * rate for rate in published["channels_mbit_s"]}


def test_slower_channels_hold_as_many_bytes_as_the_published_ones() -> None:
    for experiment in (parallel.UnequalChannels(), parallel.CompetingStreams()):
        published = ABOUT.experiments[experiment.key].settings
        for case in scenario(experiment).parallel.cases:
            paths = [path.read("up") for path in case.every_path()]
            held = [(path.rate_bps or 0) * 2 * path.delay_ns / 8e9 for path in paths]
            wanted = [rate * published["rtt_ms"] * 1e3 / 8 for rate in published["channels_mbit_s"]]
            assert held == pytest.approx(wanted)


def test_every_row_follows_from_the_stored_runs(runs: Mapping[str, Run]) -> None:
    two = answers(parallel.TwoEmulatedPaths(), runs)
    run = runs["two-emulated-paths"]
    taken, shared, alone = goodput(run, "poll-all"), goodput(run, "round-robin"), goodput(run, "tcp", 1)
    assert two["poll-all"].here == pytest.approx(np.median([*taken.values()]))
    assert two["round-robin"].here == pytest.approx(np.median([shared[case] / alone[case] for case in alone]))
    unequal = answers(parallel.UnequalChannels(), runs)
    run, case = runs["unequal-channels"], parallel.UnequalChannels.CASE
    slow, fast = (goodput(run, "tcp", path)[case] * parallel.SLOWER for path in (1, 2))
    for key, value in {
        "single-slow": slow,
        "single-fast": fast,
        "twice-slow": 2 * slow,
        "sum": slow + fast,
        "round-robin": goodput(run, "round-robin")[case] * parallel.SLOWER,
        "poll-all": goodput(run, "poll-all")[case] * parallel.SLOWER,
    }.items():
        assert unequal[key].here == pytest.approx(value)
    assert unequal["single-slow"].here == pytest.approx(155 * HEADERS)


def test_drivers_that_share_a_channel_alike_with_others_support_all_other_claims(
    runs: Mapping[str, Run],
) -> None:
    found = {
        (each.key, key): answer.decision.verdict
        for each in parallel.EXPERIMENTS
        for key, answer in answers(each, runs).items()
        if answer.decision is not None
    }
    # Made-up paths give every method half of a shared path.
    assert {key for key, verdict in found.items() if verdict == "differs"} == {
        ("cross-traffic", "keeps-more"),
        ("cross-traffic", "steadier"),
    }


def test_the_listing_has_the_numbers_of_the_report() -> None:
    published = ABOUT.experiments["library"].settings
    constants = dict(re.findall(r'#define (\w+) "?([\d.]+)"?', LISTING.read_text("utf-8")))
    assert constants.pop("SERVER") == published["server"]
    names = {
        "RECOMMENDED_STREAMS": "recommended_streams",
        "MAXIMUM_STREAMS": "maximum_streams",
        "EXTRA_PORTS": "extra_ports",
        "FIRST_STREAM_BYTES": "first_stream_bytes",
        "CLIENT_BUFFER_BYTES": "client_buffer_bytes",
    }
    assert {names[name]: int(value) for name, value in constants.items()} == {
        name: published[name] for name in names.values()
    }


def test_charts_show_both_drivers_and_what_other_streams_get(runs: Mapping[str, Run]) -> None:
    experiment = parallel.CompetingStreams()
    figures: Any = experiment.figures({parallel.RUN: runs[experiment.key]}, ABOUT.experiments[experiment.key])
    rivals = [each for each in figures if each.key.endswith("-competitors")]
    assert len(rivals) == 3
    for each in rivals:
        assert set(each.data["series"]) == {"round-robin", "poll-all"}
    assert not experiment.figures({}, ABOUT.experiments[experiment.key])


def test_every_value_and_claim_is_answered_or_has_a_reason(runs: Mapping[str, Run]) -> None:
    found = {each.key: answers(each, runs).keys() for each in parallel.EXPERIMENTS}
    assert not unanswered(ABOUT, found)
