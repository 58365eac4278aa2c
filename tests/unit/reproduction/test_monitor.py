"""The publication on a link monitor, repeated on links made of formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.links.monitor.fakes import FakeLink, LinkCapacity
from weirlab.links.monitor.plan import MonitorSettings
from weirlab.links.monitor.section import MonitorScenario
from weirlab.links.monitor.study import MonitorStudy
from weirlab.publications import publication
from weirlab.reproduction import monitor
from weirlab.reproduction.contract import Answer, ReproducedExperiment
from weirlab.scenario.load import from_plain
from weirlab.store import Run, Store
from weirlab.studies import runner
from weirlab.transfers.tcp.measure.captured import EACH_ONCE
from weirlab.transfers.tcp.study import kept as transfers

from .answers import unanswered, verdict

ABOUT = publication(monitor.KEY)
USUAL = LinkCapacity()
SLOW = replace(USUAL, record_pps={**USUAL.record_pps, monitor.TCPDUMP: 148_000})
"""tcpdump loses some of the smallest packets at the rate of the link."""


def carried(experiment: ReproducedExperiment, store: Store, capacity: LinkCapacity) -> Mapping[str, Run]:
    def open_link(settings: MonitorSettings) -> FakeLink:
        return FakeLink(settings, capacity)

    work = Work(store, SilentProgress())
    found = {}
    for name, content in experiment.scenarios(quick=True).items():
        asked = from_plain({"name": name, "report": None, **content}, name, MonitorScenario)
        found[name] = runner.run(MonitorStudy(open_link, clock=lambda: 0.0), asked, work).run
    return found


def answers(experiment: ReproducedExperiment, runs: Mapping[str, Run]) -> Mapping[str, Answer]:
    return {each.key: each for each in experiment.answers(runs, ABOUT.experiments[experiment.key])}


@pytest.fixture(scope="module")
def flood(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    return carried(monitor.Flood(), Store(tmp_path_factory.mktemp("store")), SLOW)


def test_every_row_is_an_average_of_the_stored_trials(flood: Mapping[str, Run]) -> None:
    found = answers(monitor.Flood(), flood)
    rows = flood[monitor.FLOOD].table("monitor").filter(pl.col("method") == monitor.TCPDUMP)

    def average(payload: int, column: str) -> Any:
        mine = rows.filter(pl.col("payload_bytes") == payload)
        return (mine[column] / mine["duration_s"]).mean()

    for payload in (10, 1400):
        assert found[f"sent@{payload}"].here == pytest.approx(60 * average(payload, "sent"))
        assert found[f"recorded@{payload}"].here == pytest.approx(60 * average(payload, "logged"))
    missing = rows.filter(pl.col("payload_bytes") == 10)["logged_loss_ratio"].mean()
    assert found["missing-10"].here == pytest.approx(100 * missing)  # type: ignore[operator]
    headers = ABOUT.experiments["udp-flood"].settings["header_bytes"]
    assert found["throughput-1400"].here == pytest.approx(average(1400, "logged") * (1400 + headers) / 1e6)


def test_packets_a_minute_stand_beside_the_published_ones(flood: Mapping[str, Run]) -> None:
    about = ABOUT.experiments["udp-flood"]
    first, *losses = monitor.Flood().figures(flood, about)
    assert first.key == "packets-a-minute"
    assert losses
    points = first.data.filter(series="sent, published")
    assert dict(points.select("x", "y").iter_rows()) == pytest.approx(dict(about.series("sent")), rel=1e-3)
    assert first.data.filter(series="recorded, here").height == len(about.settings["payloads_bytes"])
    assert not monitor.Flood().figures({}, about)


def test_a_slow_recorder_loses_small_packets_only_and_all_of_them_arrive(flood: Mapping[str, Run]) -> None:
    found = answers(monitor.Flood(), flood)
    claims = {key: verdict(answer) for key, answer in found.items() if "@" not in key and "-10" not in key}
    assert claims.pop("throughput-1400") == "holds"
    assert set(claims.values()) == {"holds"}
    assert verdict(found["sent@10"]) == "holds"


def test_without_any_loss_there_is_no_shape_to_judge(tmp_path_factory: pytest.TempPathFactory) -> None:
    runs = carried(monitor.Flood(), Store(tmp_path_factory.mktemp("store")), USUAL)
    found = answers(monitor.Flood(), runs)
    assert verdict(found["falls-with-size"]) == verdict(found["grows-with-rate"]) == "cannot tell"
    assert verdict(found["arrived-not-recorded"]) == "differs"
    assert verdict(found["below-one-percent"]) == "holds"


def test_claims_about_the_design_are_decided_by_overload_and_stalls(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    experiment = monitor.Design()
    store = Store(tmp_path_factory.mktemp("store"))
    runs = carried(experiment, store, replace(USUAL, copies_ratio=0.7))
    found = answers(experiment, runs)
    [figure] = experiment.figures(runs, ABOUT.experiments["design"])
    assert figure.data["x"].to_list() == [size / 1024 for size in monitor.BUFFERS_KIB]
    assert {key: verdict(answer) for key, answer in found.items()} == {
        "on-the-forwarder": "holds",
        "slow-recorder": "holds",
        # A recorder made of formulas has no buffer.
        "larger-buffer": "differs",
    }
    gentle = answers(experiment, carried(experiment, store, replace(USUAL, copies_ratio=1.0)))
    assert verdict(gentle["on-the-forwarder"]) == "differs"


@pytest.mark.parametrize(
    ("lost", "in_record", "expected"), [(0, 1000, "holds"), (2, 1000, "differs"), (0, 900, "differs")]
)
def test_a_tcp_transfer_is_recorded_completely_or_not(
    lost: int, in_record: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = SimpleNamespace(
        place="receiver", quantity=EACH_ONCE, kernel=1000.0, capture=in_record, agrees=in_record == 1000
    )
    kept = SimpleNamespace(
        captures={"server": SimpleNamespace(lost_packets=lost, left_out_packets=0)},
        directions=[SimpleNamespace(throughput_bps=95e6)],
        agreement=[pair],
    )
    monkeypatch.setattr(transfers, "read", lambda run: kept)
    runs: Any = {monitor.TRANSFER: None}
    found = answers(monitor.TcpTransfer(), runs)
    assert found["rate"].here == pytest.approx(95 / 8)
    assert found["missing"].here == lost
    assert verdict(found["complete"]) == expected
    assert found.keys() == {"rate", "missing", "complete"}


def test_every_value_and_claim_is_answered_or_has_a_reason(
    flood: Mapping[str, Run], tmp_path_factory: pytest.TempPathFactory
) -> None:
    design = carried(monitor.Design(), Store(tmp_path_factory.mktemp("store")), USUAL)
    found = {
        "tcp-transfer": ["rate", "missing", "complete"],
        "udp-flood": answers(monitor.Flood(), flood).keys(),
        "design": answers(monitor.Design(), design).keys(),
    }
    assert not unanswered(ABOUT, found)
