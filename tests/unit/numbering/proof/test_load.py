"""Calls per second, in a lab that only pretends."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import NO_FILES
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.numbering.fakes import FakeLoadLab, statistics
from weirlab.numbering.load import trials
from weirlab.numbering.load.findings import (
    LoadFindings,
    LoadLimitRow,
    LoadTrialRow,
    limit_sentence,
    limits,
    not_loaded,
)
from weirlab.numbering.load.study import VoiceLoadStudy, checked, stored, trial
from weirlab.numbering.load.trials import LoadTarget, counted, edges, searched
from weirlab.numbering.plan import load, ready
from weirlab.numbering.proof.ways import planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import LoadScenario, LoadSection
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies.registry import studies

from ..conftest import Voice
from ..plans import DAY, ready_network

RECORDED = Path(__file__).parent / "recorded"
ASKED = LoadSection(plan=Path("campus"), trial_s=1.0, trials=1, lowest=50, highest=2000, media_calls=1)


def target(number: str = "+420111222001") -> LoadTarget:
    return checked(scenario(numbers=[number]), NO_FILES)[1][0]


def scenario(**asked: object) -> LoadScenario:
    content = {
        "name": "test",
        "voice_load": {"plan": "campus", "date": "2026-11-22", **asked},
        "report": None,
    }
    return from_plain(content, "test", LoadScenario)


def test_a_number_that_is_named_twice_is_called_once() -> None:
    one, other = "+420111222001", "+420111444001"
    found = checked(scenario(numbers=[one, other, one]), NO_FILES)[1]
    assert [each.number for each in found] == [one, other]


def test_the_statistics_of_sipp_are_read_as_it_writes_them() -> None:
    found = counted((RECORDED / "sipp-statistics.csv").read_text(), 20, 40, 250)
    assert (found.calls, found.unsent, found.failed, found.slow, found.retransmissions) == (40, 0, 0, 0, 0)
    assert (sum(found.classes.values()), found.longer) == (40, 0)
    assert (found.percentile_ms(0.5), found.percentile_ms(0.99)) == (10, 30)
    assert counted((RECORDED / "sipp-statistics.csv").read_text(), 20, 40, 20).slow == 5


def test_a_caller_that_is_late_has_not_sent_what_it_should() -> None:
    late = (RECORDED / "sipp-statistics.csv").read_text()
    assert counted(late, 40, 80, 250).unsent == 40
    assert counted(statistics(100, 0, {}, edges(250), 2.0), 100, 200, 250).unsent == 100
    # Of few calls, the next one is not yet due.
    assert counted(statistics(3, 0, {}, edges(250), 2.2), 2, 4, 250).unsent == 1
    assert counted(statistics(4, 0, {}, edges(250), 2.2), 2, 4, 250).unsent == 0
    assert (
        counted(
            "\n".join(
                [statistics(1, 0, {}, [5], 1.05).strip(), statistics(6, 0, {}, [5], 3.1).splitlines()[1]]
            ),
            2,
            6,
            5,
        ).unsent
        == 0
    )


def test_a_set_up_above_all_classes_has_no_percentile() -> None:
    found = counted(statistics(0, 0, {}, edges(250), 1.0), 10, 0, 250)
    assert math.isnan(found.percentile_ms(0.5))
    with pytest.raises(ValueError, match="no row"):
        counted("StartTime;\n", 10, 10, 250)


def limit(lab: FakeLoadLab, asked: LoadSection = ASKED) -> LoadLimitRow:
    def measure(rate: int) -> LoadTrialRow:
        return trial(lab, target().planned, asked, 0, rate)[0]

    return searched(asked, target(), measure)


@pytest.mark.parametrize(
    ("engines", "carried", "too_many", "at_least"),
    [
        ({"capacity_per_s": 640.0}, 640, 640, False),
        ({"capacity_per_s": 1e9, "slow_from_per_s": 300.0}, 300, 300, False),
        ({"capacity_per_s": 1e9}, 2000, math.nan, True),
        ({"capacity_per_s": 1e9, "caller_per_s": 900.0}, 900, 900, True),
        ({"capacity_per_s": 1.0}, math.nan, 50, False),
    ],
    ids=["fail", "slow", "highest", "caller", "none"],
)
def test_the_search_ends_where_calls_fail_or_are_slow(
    tmp_path: Path, engines: dict[str, float], carried: float, too_many: float, at_least: bool
) -> None:
    found = limit(FakeLoadLab(ready_network("campus"), tmp_path, **engines))
    assert found.carried_per_s == pytest.approx(carried, rel=0.06, nan_ok=True)
    assert found.too_many_per_s == pytest.approx(too_many, rel=0.06, nan_ok=True)
    assert found.at_least is at_least
    if not math.isnan(carried + too_many) and not at_least:
        assert found.carried_per_s < found.too_many_per_s
    assert (found.way, found.decided) == ("phone > core > cyrus", "core: public")


def test_a_trial_has_set_up_times_speech_and_the_work_of_the_engines(tmp_path: Path) -> None:
    lab = FakeLoadLab(ready_network("campus"), tmp_path)
    row, work, _ = trial(lab, target().planned, ASKED, 3, 500)
    assert (row.index, row.rate_per_s, row.calls, row.failed, row.bad) == (3, 500, 500, 0, 0)
    assert (row.setup_p50_ms, row.setup_p99_ms) == (5, 5)
    assert (row.media_calls, row.media_lost_ratio) == (1, 0)
    assert row.media_mos > 4
    assert row.media_jitter_ms == pytest.approx(0, abs=1e-3)
    assert [(each.engine, each.program, each.cpu_share) for each in work] == [
        ("branch", "kamailio", 0.25),
        ("core", "kamailio", 0.25),
        ("named", "named", 0.25),
        ("sipp", "sipp", pytest.approx(1 / 6)),
    ]


def test_without_numbers_one_by_a_route_and_one_by_enum_are_called() -> None:
    _, found = checked(scenario(), NO_FILES)
    assert [(each.number, each.planned.way.decided_by) for each in found] == [
        ("+420111444001", "static"),
        ("+420111222001", "public"),
    ]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"numbers": ["+420999"]}, r"\+420999 is not one of its test numbers; choose from \+420111222001"),
        ({"numbers": ["+420111777000"]}, r"\+420111777000 cannot be called many times: its answer is 404"),
        ({"lowest": 100, "highest": 100}, "highest must be above lowest"),
        ({"plan": "federation", "numbers": ["+420950052123"]}, "the lab has no program for gw-a"),
    ],
)
def test_what_cannot_be_loaded_is_refused_before_anything_runs(asked: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        checked(scenario(**asked), NO_FILES)


ONE_LINE = "fax is an MGCP line, which carries one call at a time"
TELEPHONE = "hall is an H.323 telephone; only SIP endpoints carry many calls at once"
TRANSLATIONS = {
    "SIP to SIP": "",
    "SIP to MGCP": ONE_LINE,
    "MGCP to SIP": ONE_LINE,
    "MGCP to MGCP": ONE_LINE,
    "SIP to H.323 to SIP": "",
    "SIP to H.323 to MGCP": ONE_LINE.replace("fax", "lobby"),
    "MGCP to H.323 to SIP": ONE_LINE,
    "MGCP to H.323 to MGCP": ONE_LINE.replace("fax", "lobby"),
    "SIP to H.323": TELEPHONE,
    "H.323 to SIP": TELEPHONE,
    "MGCP to H.323": ONE_LINE,
    "H.323 to MGCP": TELEPHONE,
}


def test_every_translation_has_a_number_or_the_reason_why_it_has_no_rate(has_asterisk: None) -> None:
    with pytest.raises(InputError, match=f"cannot be called many times: {ONE_LINE}"):
        checked(scenario(plan="translations", numbers=["+420302000001"]), NO_FILES)
    _, found = checked(scenario(plan="translations"), NO_FILES)
    assert {each.translation: each.no_load for each in found} == TRANSLATIONS


def test_a_plan_of_lines_alone_has_nothing_to_load(has_asterisk: None) -> None:
    lines = PlanNetwork(load(ready.FOLDER / "translations.yaml"), DAY)
    calls = [each for each in planned(lines, fall_back=False) if each.caller == "fax"]
    with pytest.raises(InputError, match=f"none of its test numbers can be called many times: {ONE_LINE}"):
        trials.chosen(lines, calls)


LATE = "Late calls by H.323"


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[FakeLoadLab]:
    opened: list[FakeLoadLab] = []

    def opener(net: PlanNetwork, talk_s: float) -> FakeLoadLab:
        opened.append(FakeLoadLab(net, tmp_path))
        return opened[-1]

    monkeypatch.setitem(studies(), "voice_load", VoiceLoadStudy(opener))
    monkeypatch.setenv("WEIR_STORE", str(tmp_path / "store"))
    return opened


def test_a_load_test_tells_the_limit_of_each_number_and_is_kept(
    voice: Voice, labs: list[FakeLoadLab], tmp_path: Path
) -> None:
    answer = voice("load", "--plan", "campus", "--trial", "1", "--trials", "1", "--media-calls", "1")
    assert answer.code == 0, answer.err
    assert "+420111444001 (core: static): 62" in answer.out
    run = Store(tmp_path / "store").open("last")
    story = VoiceLoadStudy().page(run)
    assert story.answer.startswith("+420111444001 (core: static): 62")
    assert [tile.label for tile in story.tiles] == [
        "Calls to +420111444001", "Calls to +420111222001", "Lowest MOS",
    ]  # fmt: skip
    (chapter,) = story.chapters
    assert len(chapter.figures) == 2
    assert set(chapter.figures[0].data["verdict"]) == {"few calls bad", "too many calls bad"}
    assert LATE not in [term for term, _ in story.terms]


def test_translations_have_rates_of_their_own(
    has_asterisk: None, voice: Voice, labs: list[FakeLoadLab], tmp_path: Path
) -> None:
    answer = voice("load", "--plan", "translations", "--trial", "1", "--trials", "1", "--media-calls", "1")
    assert answer.code == 0, answer.err
    assert "+420401000001 (SIP to H.323 to SIP, gw-west: static; gk-west: static;" in answer.out
    assert f"+420302000001 (SIP to MGCP, gw-west: static) has no rate: {ONE_LINE}" in answer.err
    lines = "SIP to MGCP, MGCP to SIP, MGCP to MGCP, MGCP to H.323 to SIP and MGCP to H.323"
    assert f"no rate for {lines}: {ONE_LINE}" in " ".join(answer.out.split())
    run = Store(tmp_path / "store").open("last")
    found = stored(run)
    assert [row[1] for row in limits(found).rows] == ["SIP to SIP", "SIP to H.323 to SIP"]
    left = not_loaded(found)
    assert left is not None
    assert {row[1]: row[2] for row in left.rows} == {key: why for key, why in TRANSLATIONS.items() if why}
    story = VoiceLoadStudy().page(run)
    assert [tile.label for tile in story.tiles] == [
        "Calls to +420301000001", "Calls to +420401000001", "Lowest MOS",
    ]  # fmt: skip
    assert LATE in [term for term, _ in story.terms]


def test_a_number_without_a_result_makes_the_exit_code_9(
    voice: Voice, labs: list[FakeLoadLab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeLoadLab.__init__, "__defaults__", (1.0, 5000, 1e9, None))
    answer = voice("load", "--plan", "campus", "--number", "+420111222001", "--trial", "1", "--trials", "1")
    assert answer.code == 9
    assert "+420111222001 (core: public): even 10 calls/s are too many" in answer.err


def test_a_host_that_cannot_make_the_calls_leaves_the_limit_open(
    voice: Voice, labs: list[FakeLoadLab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeLoadLab.__init__, "__defaults__", (640, 5, 1e9, None))
    answer = voice("load", "--plan", "campus", "--number", "+420111222001", "--trial", "1", "--trials", "1")
    assert answer.code == 7
    assert "the sender did not keep up with 10 calls/s" in answer.err


@pytest.mark.parametrize(
    ("slow_from", "others", "code", "words"),
    [
        (1.0, 0.01, 9, "even 10 calls/s are too many"),
        (1.0, 0.5, 7, "other work had 25 % of the CPUs (at most 10 %); let it finish first"),
        (300.0, 0.01, 0, "+420111222001 (core: public): 289"),
        (300.0, 0.5, 0, "+420111222001 (core: public): at least 289"),
    ],
)
def test_calls_that_are_slow_beside_other_work_say_nothing_about_the_engines(
    voice: Voice,
    labs: list[FakeLoadLab],
    monkeypatch: pytest.MonkeyPatch,
    slow_from: float,
    others: float,
    code: int,
    words: str,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(FakeLoadLab.__init__, "__defaults__", (640, 5000, slow_from, others))
    answer = voice("load", "--plan", "campus", "--number", "+420111222001", "--trial", "1", "--trials", "1")
    assert answer.code == code
    assert words in answer.err


def test_an_interrupted_search_goes_on_with_the_trials_that_it_has(
    labs: list[FakeLoadLab], tmp_path: Path
) -> None:
    asked = scenario(trial_s=1.0, trials=1, media_calls=0, numbers=["+420111222001"])
    study = studies()["voice_load"]
    store = Store(tmp_path / "store")
    work = Work(store, SilentProgress())

    class Enough(Exception):
        pass

    def interrupted(load: Callable[..., object]) -> Callable[..., object]:
        def one(*arguments: object) -> object:
            if len(labs[0].rates) == 3:
                raise Enough
            return load(*arguments)

        return one

    with study.open(asked, work) as ground:
        writer = store.create("voice_load", asked.model_dump(mode="json"), dict(ground.facts))
        lab = labs[0]
        lab.load = interrupted(lab.load)  # type: ignore[method-assign, assignment]
        with pytest.raises(Enough):
            study.measure(ground, asked, writer, work)
    with study.open(asked, work) as ground:
        found = study.measure(ground, asked, writer, work)
    assert isinstance(found, LoadFindings)
    assert labs[1].rates != labs[0].rates
    assert [row.rate_per_s for row in found.trials] == labs[0].rates + labs[1].rates
    assert len({row.rate_per_s for row in found.trials}) == len(found.trials)
    assert limit_sentence(found.limits[0]).startswith("+420111222001 (core: public): 6")
