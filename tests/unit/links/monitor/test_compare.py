"""Medians, prices, stalls and searches, on a link made of formulas."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.base.errors import LabError
from weirlab.links.monitor.campaign import MonitorGoal, MonitorLimit, MonitorTrialRunner, measure, search
from weirlab.links.monitor.compare import Cost, compare, conclusions, costs, stalls
from weirlab.links.monitor.fakes import FakeLink, LinkCapacity, TrialFault
from weirlab.links.monitor.plan import (
    BARE,
    METHODS,
    RECORDING,
    Method,
    MonitorPlan,
    MonitorSettings,
    MonitorTrialShape,
    Stall,
    frame_bytes,
    plan,
)
from weirlab.links.monitor.rows import MonitorRow, row_of
from weirlab.store import RunWriter, Store
from weirlab.store.frames import frame_of, rows_of
from weirlab.testing import make_record

COMMON = MonitorSettings("tap-ring")
RING = 1 << 20
USUAL = LinkCapacity()


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return Store(tmp_path / "store").create("monitor", {}, {})


class Opener:
    """Links that are opened one after the other; ``mishaps`` go on from one to the next."""

    def __init__(self, *mishaps: TrialFault | None, powers: LinkCapacity = USUAL) -> None:
        self.opened: list[FakeLink] = []
        self._mishaps, self._powers = iter(mishaps), powers

    def __call__(self, settings: MonitorSettings) -> FakeLink:
        self.opened.append(FakeLink(settings, self._powers, self._mishaps))
        return self.opened[-1]


def shape(part: str = "validation", **more: object) -> MonitorTrialShape:
    known = {
        "part": part,
        "methods": METHODS,
        "payloads": (10, 1400),
        "loads": ("max", "400kpps"),
        "runs": 2,
        "duration_s": 0.1,
        "ring_bytes": RING,
    }
    return MonitorTrialShape(**{**known, **more})  # type: ignore[arg-type]


def measured(writer: RunWriter, opener: Opener, *shapes: MonitorTrialShape) -> list[MonitorRow]:
    carrier = MonitorTrialRunner(writer)
    measure(opener, plan(shapes), COMMON, carrier, clock=lambda: 0.0)
    return carrier.rows


def test_frames_have_at_least_sixty_bytes() -> None:
    assert [frame_bytes(payload) for payload in (1, 18, 19, 1472)] == [60, 60, 61, 1514]


def test_every_run_goes_through_all_methods_and_begins_with_another_one() -> None:
    trials = plan([shape(payloads=(10,), loads=("max",), runs=3)])
    by_run = {run: [one.method for one in trials if one.run == run] for run in (1, 2, 3)}
    assert all(sorted(methods) == sorted(METHODS) for methods in by_run.values())
    assert len({methods[0] for methods in by_run.values()}) == 3
    assert [one.index for one in trials] == list(range(18))


def test_nothing_is_sent_that_is_not_counted() -> None:
    assert all(one.traffic().warmup_s == 0 for one in plan([shape()]))


def test_trials_of_a_run_and_method_share_a_link(writer: RunWriter) -> None:
    opener = Opener()
    rows = measured(writer, opener, shape())
    assert len(rows) == 6 * 2 * 2 * 2
    assert len(opener.opened) == 6 * 2
    assert all(link.closed for link in opener.opened)


def test_a_link_is_closed_when_a_trial_fails(writer: RunWriter) -> None:
    opener = Opener(None, TrialFault(fails=LabError("the recorder died")))
    with pytest.raises(LabError, match="the recorder died"):
        measured(writer, opener, shape())
    assert [link.closed for link in opener.opened] == [True]
    assert len(rows_of(MonitorRow, writer.run.table("monitor"))) == 1


def test_a_trial_that_the_host_spoils_is_made_again_and_kept(writer: RunWriter) -> None:
    rows = measured(writer, Opener(TrialFault(steal_s=0.05)), shape(methods=("tap-ring",), runs=1))
    assert [row.valid for row in rows] == [False, True, True, True, True]
    assert "stolen" in rows[0].invalid


def test_what_is_done_is_not_done_again(writer: RunWriter) -> None:
    measured(writer, Opener(), shape(methods=("tap-ring",)))
    again = Opener()
    rows = measured(writer, again, shape(methods=("tap-ring",)))
    assert again.opened == []
    assert len(rows) == 8


def test_frames_that_vanish_mark_the_trial_and_do_not_spoil_it(writer: RunWriter) -> None:
    rows = measured(writer, Opener(TrialFault(vanished=7)), shape(methods=("plain-bridge",), runs=1))
    assert rows[0].valid
    assert rows[0].balance.endswith(": +7")
    assert [row.balance for row in rows[1:]] == [""] * 3


def test_groups_tell_the_loss_as_published_and_of_what_came_by(writer: RunWriter) -> None:
    found = {
        (group.method, group.load): group
        for group in compare(measured(writer, Opener(), shape()))
        if group.payload_bytes == 10
    }
    ring = found["tap-ring", "max"]
    # Of 2 Mpps sent, 0.95 Mpps come in and 0.7 Mpps are recorded.
    assert ring.sent_per_min == 120e6
    assert ring.logged_per_min == 42e6
    assert ring.logged_loss_ratio == pytest.approx(0.65)
    assert ring.record_loss_ratio == pytest.approx(1 - 0.7 / 0.95)
    assert ring.lost_at["before"] == pytest.approx(0.525)
    assert ring.lost_at["ring"] == pytest.approx(0.125)
    assert found["tap-ring", "400kpps"].logged_loss_ratio == 0
    assert found["tcpdump-bridge", "400kpps"].lost_at["socket"] == pytest.approx(0.25)
    assert found["tap-bare", "max"].logged_per_min is None


def test_the_price_of_copies_is_against_the_same_bridge(writer: RunWriter) -> None:
    rows = measured(writer, Opener(), shape("copy", loads=("max",), runs=3))
    found = costs(rows)
    assert [cost.method for cost in found[::2]] == list(RECORDING)
    assert all(cost.ratio == pytest.approx(0.95) for cost in found)
    assert all(cost.runs == 3 for cost in found)
    assert all(cost.overload for cost in found)


def test_a_price_that_the_sender_set_is_told(writer: RunWriter) -> None:
    strong = LinkCapacity(link_pps=5_000_000)
    methods = ("tap-ring", "tap-bare")
    found = costs(
        measured(writer, Opener(powers=strong), shape("copy", loads=("max",), runs=1, methods=methods))
    )
    assert not any(cost.overload for cost in found)
    (said,) = conclusions([], [], found, [])
    assert said.startswith("Sent as fast as possible, the tap with a ring")
    assert "In overload" not in said
    assert "100 % at 10 B (35 % of the frames recorded; the sender set the limit)" in said


def test_a_price_says_that_copies_were_cut() -> None:
    cost = Cost("tap-ring", 1400, 7, 9.6e5, 1e6, 0.96, 0.5, 0.85, True)
    (said,) = conclusions([], [], [cost], [])
    assert said == (
        "In overload, the tap with a ring forwards this share of what the tap without copies does: 96 % at "
        "1400 B (copies cut to 128 bytes for 85 % of the frames; 50 % of the frames recorded)."
    )


def test_whole_copies_are_measured_beside_the_same_bridge_and_told_apart(writer: RunWriter) -> None:
    opener = Opener()
    methods = ("tap-bare", "tap-ring")
    rows = measured(
        writer, opener, *(shape(part, loads=("max",), runs=1, methods=methods) for part in ("copy", "whole"))
    )
    assert [link.settings.link_first for link in opener.opened] == [True, True, False, False]
    found = costs(rows)
    assert [(cost.payload_bytes, cost.whole) for cost in found] == [
        (10, False),
        (1400, False),
        (10, True),
        (1400, True),
    ]
    assert "the tap with a ring, its copies never cut, forwards" in conclusions([], [], found, [])[1]


def test_what_is_searched_is_told_in_thousands_per_second() -> None:
    _, tried = searched("tap-ring")
    assert tried[0].text == "search, tap-ring, 60 B frames, 2,000.0 kpps, run 1"


def test_a_rate_that_the_sender_never_reached_is_no_rate_with_loss() -> None:
    # Asked for more it sent less, and there frames were lost.
    (said,) = conclusions([], [MonitorLimit("tap-ring", 60, 850e3, 840e3, 9, 0, 5)], [], [])
    assert said.endswith("when more was asked for, the sender was no faster, and the record missed frames.")
    assert "840" not in said


def test_a_stall_is_held_against_the_record_that_names_it(writer: RunWriter) -> None:
    rows = measured(
        writer,
        Opener(),
        shape("stall", payloads=(10,), loads=("100kpps",), duration_s=1.0, stall=Stall(0.2, 0.5)),
    )
    found = {one.method: one for one in stalls(rows)}
    ring = found["tap-ring"]
    # 50,000 frames in half a second, of which the ring holds 20,000.
    assert (ring.link_lost, ring.link_lost_bare) == (0, 0)
    assert (ring.missing, ring.named) == (30_000, 30_000)
    assert ring.gap_s == pytest.approx(0.5)
    assert (found["tcpdump-bridge"].missing, found["tcpdump-bridge"].named) == (30_000, 0)
    assert math.isnan(found["tcpdump-bridge"].gap_s)


def test_only_who_records_is_stopped() -> None:
    trials = plan([shape("stall", stall=Stall(0.1, 0.1))])
    stopped = {one.method for one in trials if one.settings(COMMON).stall is not None}
    assert stopped == set(BARE)


def searched(
    method: Method, *, max_pps: float = 2e6, powers: LinkCapacity = USUAL
) -> tuple[MonitorLimit, list[MonitorPlan]]:
    tried: list[MonitorPlan] = []
    goal = MonitorGoal(20e3, max_pps, 0.05, 0.1, 2, RING)

    def attempt(one: MonitorPlan) -> MonitorRow:
        tried.append(one)
        link = FakeLink(one.settings(COMMON), powers)
        with link:
            return made(one, link)

    return search(method, 60, goal, 100, attempt), tried


def made(one: MonitorPlan, link: FakeLink) -> MonitorRow:
    result = link.run(one.traffic())
    assert link.stages is not None
    return row_of(one, replace(make_record(), result=result), link.stages, None)


@pytest.mark.parametrize(
    ("method", "limit_pps"), [("tap-ring", 700e3), ("tcpdump-bridge", 300e3), ("tcpdump-receiver", 250e3)]
)
def test_a_search_ends_within_its_precision(method: Method, limit_pps: float) -> None:
    found, tried = searched(method)
    assert found.greatest_pps is not None
    assert found.least_lossy_pps is not None
    assert found.greatest_pps <= limit_pps <= found.least_lossy_pps
    assert found.least_lossy_pps <= 1.051 * found.greatest_pps
    assert found.trials == len(tried)
    assert [one.index for one in tried] == list(range(100, 100 + len(tried)))
    assert found.lost_link == 0
    assert found.lost_record > 0


def test_a_search_says_where_no_end_was_found() -> None:
    found, _ = searched("tap-ring", max_pps=500e3)
    assert found.greatest_pps == pytest.approx(500e3)
    assert found.least_lossy_pps is None
    weak = LinkCapacity(record_pps={"tap-ring": 10_000})
    found, tried = searched("tap-ring", powers=weak)
    assert found.greatest_pps is None
    assert tried[-1].load == "20000pps"


@pytest.mark.parametrize(
    ("lossless", "passes"), [("yy", True), ("nyy", True), ("yny", True), ("nn", False), ("ynn", False)]
)
def test_a_rate_passes_if_most_of_its_trials_lose_nothing(lossless: str, passes: bool) -> None:
    goal = MonitorGoal(20e3, 500e3, 0.05, 0.1, 3, RING)
    tried: list[MonitorPlan] = []

    def attempt(one: MonitorPlan) -> MonitorRow:
        tried.append(one)
        with FakeLink(one.settings(COMMON), USUAL) as link:
            row = made(one, link)
        at_the_top = one.load == "500000pps"
        bad = lossless[one.run - 1] == "n" if at_the_top else True
        return replace(row, received=row.sent - 1) if bad else row

    found = search("tap-ring", 60, goal, 100, attempt)
    assert (found.greatest_pps is not None) == passes
    assert sum(one.load == "500000pps" for one in tried) == len(lossless)


def test_rows_come_back_from_the_table_as_they_were(writer: RunWriter) -> None:
    rows = measured(writer, Opener(), shape("stall", stall=Stall(0.01, 0.05), loads=("400kpps",)))
    back = rows_of(MonitorRow, frame_of(MonitorRow, rows))
    assert [row.trial_id for row in back] == [row.trial_id for row in rows]
    assert [row.gap_list() for row in back] == [row.gap_list() for row in rows]
    assert [(row.logged, row.copied, row.stalled_from_ns) for row in back] == [
        (row.logged, row.copied, row.stalled_from_ns) for row in rows
    ]


def test_conclusions_begin_with_the_rate_without_loss(writer: RunWriter) -> None:
    rows = measured(
        writer,
        Opener(),
        shape(),
        shape("copy", loads=("max",)),
        shape("stall", payloads=(10,), loads=("100kpps",), duration_s=1.0, stall=Stall(0.2, 0.5)),
    )
    found = [searched("tap-ring")[0], MonitorLimit("tcpdump-bridge", 60, None, 2e4, 2, 5, 0)]
    said = conclusions(compare(rows), found, costs(rows), stalls(rows))
    assert said[0].startswith("At up to ")
    assert "of 60-byte frames, the tap with a ring forwarded and logged every frame" in said[0]
    assert said[1] == (
        "Tcpdump on the bridge lost 60-byte frames at every rate that was tried, down to 20.0 kpps."
    )
    assert "At 400kpps, the tap with a ring logged every frame of every payload (median run)." in said
    assert "At 400kpps, tcpdump on the bridge lost up to 25 % of the frames (payload 10 B)." in said
    assert any(line.startswith("In overload, the tap with a ring forwards this share") for line in said)
    assert (
        "While the recorder of the tap with a ring was stalled for 0.5 s, the link lost nothing; the record "
        "misses 30,000 and reports 30,000 of them as missing." in said
    )
    assert any(
        line.startswith("While tcpdump on the bridge was stalled") and "reports none of them" in line
        for line in said
    )
