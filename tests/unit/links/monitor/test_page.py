"""The page about link monitors: what it concludes, what it compares, and that it renders."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from weirlab.links.monitor import figures
from weirlab.links.monitor.campaign import MonitorLimit, MonitorTrialRunner, measure
from weirlab.links.monitor.fakes import FakeLink, LinkCapacity, TrialFault
from weirlab.links.monitor.page import tell
from weirlab.links.monitor.plan import MonitorSettings, plan
from weirlab.links.monitor.section import Monitor, shapes_of
from weirlab.links.monitor.tables import MonitorEvidence, published_losses
from weirlab.report import palette
from weirlab.store import Store

from ...report.contrast import contrast, distance

WHAT = Monitor.model_validate(
    {"payloads": [10, 1400], "loads": ["max", "400kpps"], "runs": 2, "trial_s": 0.1}
    | {"stall": {"repetitions": 1}, "copy_cost": {"repetitions": 1, "trial_s": 0.1}}
)
MANIFEST = {
    "run_id": "20261121-1200-monitor-abcd",
    "host": "bench",
    "kernel": "6.18",
    "scenario": {"name": "Link", "question": "Is all recorded?", "monitor": WHAT.model_dump(mode="json")},
    "facts": {"lab": "netns", "backend": "xdp", "sender_cpu": 0, "bridge_cpu": 1, "recorder_cpu": 1},
}
FOUND = [
    MonitorLimit("tap-ring", 60, 620e3, 650e3, 20, 0, 12),
    MonitorLimit("tap-ring", 1514, 300e3, 310e3, 20, 40, 0),
    MonitorLimit("tcpdump-bridge", 60, 250e3, 260e3, 20, 0, 900),
]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> MonitorEvidence:
    return made(tmp_path_factory.mktemp("evidence"), FOUND)


def made(
    folder: Any, found: list[MonitorLimit], *mishaps: TrialFault | None, what: Monitor = WHAT
) -> MonitorEvidence:
    writer, left = Store(folder / "store").create("monitor", {}, {}), iter(mishaps)

    def opened(settings: MonitorSettings) -> FakeLink:
        return FakeLink(settings, LinkCapacity(), left)

    carrier = MonitorTrialRunner(writer)
    measure(opened, plan(shapes_of(what)), MonitorSettings("tap-ring"), carrier, clock=lambda: 0.0)
    return MonitorEvidence.of(carrier.rows, found, manifest=MANIFEST)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_the_answer_is_a_rate_beside_tcpdumps(evidence: MonitorEvidence) -> None:
    told = tell(evidence)
    assert plain(told.answer) == (
        "At up to 620 kpps of 60-byte frames, the tap with a ring forwarded and logged every frame in most "
        "trials; tcpdump on the bridge did at up to 250 kpps."
    )
    assert plain(told.lede[0]).startswith("In overload, the link with copies carries at least 95")
    assert "the link lost nothing" in told.lede[1]


def test_without_a_search_the_answer_is_the_loss_at_a_fixed_rate(tmp_path: Any) -> None:
    bare = WHAT.model_copy(update={"search": None, "stall": None, "copy_cost": None})
    told = tell(made(tmp_path, [], what=bare))
    assert plain(told.answer) == (
        "Sent at 400 kpps: the tap with a ring lost nothing; the tap with a mirror lost nothing; tcpdump on "
        "the bridge lost up to 25 %; tcpdump at the receiver lost up to 38 %."
    )
    # What the scenario does not ask for has no section.
    assert [chapter.key for chapter in told.chapters] == ["loss", "where", "found", "setting", "numbers"]


def test_figures_are_there_for_loss_places_and_price(evidence: MonitorEvidence) -> None:
    keys = [figure.key for figure in tell(evidence).figures]
    assert keys == [
        "monitor-loss-max",
        "monitor-loss-400kpps",
        "monitor-loss-max-by",
        "monitor-where-max",
        "monitor-where-400kpps",
        "monitor-cost",
    ]


def test_published_values_stand_beside_measured_ones_and_are_marked(evidence: MonitorEvidence) -> None:
    loss = next(figure for figure in tell(evidence).figures if figure.key == "monitor-loss-max")
    points = loss.data.filter(loss.data["what"] == "published, other hardware")
    assert points["payload"].to_list() == [one.payload_bytes for one in published_losses()]
    assert points["loss_percent"].to_list() == pytest.approx(
        [100 * (one.sent_per_min - one.logged_per_min) / one.sent_per_min for one in published_losses()],
        rel=1e-3,
    )
    page = tell(evidence).html()
    for one in published_losses():
        assert f"{one.sent_per_min:,.1f}" in page
        assert f"{one.logged_per_min:,.1f}" in page


def test_zero_stays_on_an_axis_of_losses(evidence: MonitorEvidence) -> None:
    loss = next(figure for figure in tell(evidence).figures if figure.key == "monitor-loss-400kpps")
    ring = loss.data.filter(loss.data["what"] == "tap, ring")
    assert ring["loss_percent"].to_list() == [0.0, 0.0]
    assert '"symlog"' in loss.chart.to_json()


def test_shares_of_a_bar_are_all_frames(evidence: MonitorEvidence) -> None:
    where = next(figure for figure in tell(evidence).figures if figure.key == "monitor-where-max")
    sums = where.data.select("row", "percent").group_by("row").sum()["percent"].to_list()
    assert sums == pytest.approx([100.0] * len(sums), abs=0.1)


@pytest.mark.parametrize("scheme", [palette.LIGHT, palette.DARK])
def test_places_where_frames_end_can_be_told_apart_and_stand_out(scheme: dict[str, str]) -> None:
    colours = [scheme[name] for name in figures.FATE_COLOURS.values()]
    apart = [distance(one, other) for i, one in enumerate(colours) for other in colours[:i]]
    assert min(apart) > 0.08
    assert min(contrast(colour, scheme["paper"]) for colour in colours) >= 3


def test_frames_in_no_count_are_told_as_such(evidence: MonitorEvidence) -> None:
    whole_group = next(g for g in evidence.groups if g.load == "max" and g.method == "tap-ring")
    # Two of a hundred frames are neither in the files nor known to be lost.
    group = replace(whole_group, kept_ratio=whole_group.kept_ratio - 0.02)
    shares = {row["fate"]: row["percent"] for row in figures.fate_rows([group]).iter_rows(named=True)}
    assert shares["in no count"] == pytest.approx(2.0)
    assert shares["arrived or logged"] == pytest.approx(100 * group.kept_ratio, rel=1e-3)
    whole = figures.fate_rows(evidence.groups)
    assert whole.filter(whole["fate"] == "in no count")["percent"].to_list() == [0.0] * len(evidence.groups)


def test_losses_without_a_counter_are_told(evidence: MonitorEvidence) -> None:
    behind = [replace(row, lost_behind=1, lost_logger=1) for row in evidence.rows]
    told = tell(replace(evidence, rows=behind))
    assert f"{2 * len(behind):,} frames disappeared where losses are not counted" in plain(told.caution)
    assert tell(evidence).caution == ""
    assert "there is no counter of losses" in told.html()


def test_the_ring_of_each_chapter_is_named(evidence: MonitorEvidence) -> None:
    intros = {chapter.key: plain(chapter.intro) for chapter in tell(evidence).chapters}
    assert intros["cost"].startswith("The ring is 512 MiB here")
    assert intros["stall"].startswith("The ring is 8.00 MiB here")


def test_captions_name_bars_only_where_there_are_some(evidence: MonitorEvidence) -> None:
    captions = {figure.key: figure.caption for figure in tell(evidence).figures}
    assert "bars from the least" in captions["monitor-loss-max"]
    assert "bars" not in captions["monitor-loss-max-by"]


def test_a_price_is_not_said_to_be_of_overload_where_the_sender_set_it(evidence: MonitorEvidence) -> None:
    limited = [replace(cost, overload=False, cut_ratio=0.5) for cost in evidence.costs]
    told = tell(replace(evidence, costs=limited))
    assert plain(told.lede[0]).startswith("At the greatest rate of the sender, the link with copies")
    assert "copies cut to 128 bytes" in told.lede[0]
    tile = next(tile for tile in told.tiles if tile.label.startswith("Link with copies"))
    assert "the sender set the limit" in tile.note
    cost = next(figure for figure in told.figures if figure.key == "monitor-cost")
    assert "overload" not in f"{cost.panel} {cost.title} {cost.chart.to_json()}"


def test_a_price_of_copies_that_were_not_all_made_is_doubted(evidence: MonitorEvidence) -> None:
    cost = next(figure for figure in tell(evidence).figures if figure.key == "monitor-cost")
    assert "a copy that finds no room costs less" in plain(cost.caption)


def test_open_sums_and_spoiled_attempts_are_admitted(tmp_path: Any) -> None:
    told = tell(made(tmp_path, FOUND, TrialFault(vanished=2), TrialFault(steal_s=0.05)))
    assert "Counters do not agree in 1 trial" in plain(told.caution)
    assert "1 attempt spoiled by the host" in plain(told.caution)
    page = told.html()
    assert "Attempts that were left out, or whose counters do not agree" in page


def test_the_page_is_whole(evidence: MonitorEvidence) -> None:
    page = tell(evidence).html()
    assert "Is all recorded?" in page
    assert not re.search(r"\bnan\b|None", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
