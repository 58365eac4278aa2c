"""A reproduction: its scenarios are measured once each, and its rows follow from the stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from weirlab import publications
from weirlab.base.errors import ModelError
from weirlab.publications import PublishedExperiment, PublishedValue
from weirlab.reproduction import claims, study
from weirlab.reproduction.contract import Answer, ReproducedExperiment, ReproductionRow, Runs
from weirlab.store import Run, Store
from weirlab.store.frames import rows_of
from weirlab.studies.contract import Work

from ..conftest import Weir

KEY = "ubik-psock-2007"
FIRST = next(iter(publications.publication(KEY).experiments))


class Delays(ReproducedExperiment):
    """Answers one value and one claim from two small profiles of a simulated device."""

    key = FIRST
    deviations = ("Simulated.",)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        section = {
            "positions": [0],
            "sizes": [64],
            "load_shares": [0.1, 0.4, 0.7, 1.5],
            "repetitions": 1,
            "trial_s": 0.02,
        }
        one = {"lab": {"kind": "sim"}, "profile": section}
        other = {**one, "profile": {**section, "seed": 2}}
        return {"first": one, "second": other}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        counts = [float(run.trials().height) for run in runs.values()]
        value = next(iter(published.values.values()))
        yield Answer(value.key, sum(counts))
        claim = next(iter(published.claims))
        yield Answer(claim, decision=claims.ratio(counts, counts, 0.5, 2, ("one", "other")))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "experiments", lambda key: (Delays(),) if key == KEY else ())


@pytest.mark.usefixtures("made")
def test_every_row_follows_from_the_stored_runs(weir: Weir, store: Store) -> None:
    answer = weir("reproduce", KEY, "--only", FIRST, "--json")
    assert answer.code == 0
    run = store.open(answer.json["run_id"])
    kept = rows_of(ReproductionRow, run.table(study.ROWS))
    recomputed = study.stored(store.open(run.run_id)).rows
    assert [replace(row, here=0, ratio=0) for row in kept] == [
        replace(row, here=0, ratio=0) for row in recomputed
    ]
    first = kept[0]
    trials = sum(store.open(each).trials().height for each in answer.json["runs"].values())
    assert first.here == trials
    assert first.verdict == "beside"
    assert {row.verdict for row in kept if row.kind == "claim"} == {"holds", "cannot tell"}


@pytest.mark.usefixtures("made")
def test_a_published_value_that_changes_changes_the_row_and_nothing_else(
    weir: Weir, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.open(weir("reproduce", KEY, "--only", FIRST, "--json").json["run_id"])
    before = study.stored(run).rows
    about = publications.publication(KEY)
    experiment = about.experiments[FIRST]
    name, value = next(iter(experiment.values.items()))
    changed: PublishedValue = replace(value, low=1234.5, high=1234.5)
    experiments = {
        **about.experiments,
        FIRST: replace(experiment, values={**experiment.values, name: changed}),
    }
    monkeypatch.setattr(study, "publication", lambda _: replace(about, experiments=experiments))
    after = study.stored(run).rows
    different = [new for old, new in zip(before, after, strict=True) if repr(old) != repr(new)]
    assert [
        (row.key, row.published.endswith("1,234.5") or "1234.5" in row.published) for row in different
    ] == [(name, True)]


@pytest.mark.usefixtures("made")
def test_an_interrupted_reproduction_goes_on_with_what_is_left(weir: Weir, store: Store) -> None:
    done = weir("reproduce", KEY, "--only", FIRST, "--json").json
    run = store.open(done["run_id"])
    kept = run.get_json(study.RUNS)
    second = kept.pop(f"{FIRST}/second")["run"]
    run.put_json(study.RUNS, kept)
    again = weir("reproduce", "--resume", done["run_id"], "--json").json
    assert again["runs"][f"{FIRST}/first"] == kept[f"{FIRST}/first"]["run"]
    assert again["runs"][f"{FIRST}/second"] != second


@pytest.mark.usefixtures("made")
def test_an_interruption_counts_what_is_kept(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = study._run

    def interrupted(scenario: Mapping[str, Any], place: str, within: Run, work: Work) -> Run:
        if place.endswith("/second"):
            raise KeyboardInterrupt
        return measure(scenario, place, within, work)

    monkeypatch.setattr(study, "_run", interrupted)
    answer = weir("reproduce", KEY, "--only", FIRST)
    assert answer.code == 130
    assert "1 measurement kept in run" in answer.err


@pytest.mark.usefixtures("made")
def test_the_time_is_said_before_and_during_a_run(weir: Weir, store: Store) -> None:
    answer = weir("reproduce", KEY, "--only", FIRST)
    told = " ".join(answer.err.split())
    assert "2 measurements, about" in told
    assert f"{FIRST}/first: measurement 1 of 2, about" in told
    assert f"{FIRST}/second: measurement 2 of 2, about" in told
    [run] = [store.open(entry.run_id) for entry in store.runs() if entry.kind == "reproduction"]
    run.put_json(study.RUNS, {})
    again = " ".join(weir("reproduce", "--resume", run.run_id).err.split())
    assert "2 measurements, about" in again


@pytest.mark.usefixtures("made")
def test_what_cannot_be_measured_is_said_in_its_rows(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delays, "scenarios", lambda *_: {"first": {"lab": {"kind": "netns"}, "failover": {}}})
    monkeypatch.setattr(Delays, "answers", lambda *_: iter(()))
    answer = weir("reproduce", KEY, "--only", FIRST, "--json")
    assert answer.code in (2, 5)


@pytest.mark.usefixtures("made")
def test_what_no_model_can_be_fitted_to_is_said_in_its_rows(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(*_: object) -> Iterator[Answer]:
        raise ModelError("too few loads for a model")
        yield

    monkeypatch.setattr(Delays, "answers", answers)
    answer = weir("reproduce", KEY, "--only", FIRST, "--json")
    assert answer.code == 0
    assert {row["found"] for row in answer.json["rows"]} == {"too few loads for a model"}


def test_without_an_argument_the_publications_are_listed(weir: Weir) -> None:
    answer = weir("reproduce", "--json")
    listed = answer.json["publications"]
    assert [one["key"] for one in listed] == list(publications.KEYS)
    for one in listed:
        assert {*one["here"], *one["not_here"]} == set(one["experiments"])
        assert not {*one["here"]} & {*one["not_here"]}
        assert all(why and why != "not made here" for why in one["not_here"].values())
        assert 0 < one["expected_s"]["quick"] <= 600
        assert one["expected_s"]["quick"] <= one["expected_s"]["full"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nobody-1999",), "there is no publication"),
        ((KEY, "--only", "nothing"), "has no experiment nothing that is made here; choose"),
        ((KEY, "--only", "library"), "(library: Weir's test of the C library"),
        ((KEY, "--resume", "last"), "leave the other options out"),
    ],
)
def test_mistakes_are_named(weir: Weir, arguments: tuple[str, ...], complaint: str) -> None:
    answer = weir("reproduce", *arguments)
    assert answer.code == 2
    assert complaint in " ".join(answer.err.split())
