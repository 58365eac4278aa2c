"""A TCP transfer as a study: its scenario, what a run keeps, and the page about it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.store import Run, Store
from weirlab.studies import reports, runner, scenarios
from weirlab.studies.contract import Outcome
from weirlab.transfers.tcp.page.story import tell
from weirlab.transfers.tcp.results import Interval
from weirlab.transfers.tcp.study import kept, recording
from weirlab.transfers.tcp.study.findings import AxisView
from weirlab.transfers.tcp.study.running import SilentObserver, TcpStudy, TransferDisplay
from weirlab.transfers.tcp.study.section import TcpScenario

from ...conftest import Weir
from .conftest import Served

Serve = Callable[..., Served]
BYTES = 20_000_000
SCENARIO = """\
name: over loopback
tcp: {{host: 127.0.0.1, port: {port}, total: {total}, rate: 200Mbit/s, every: 1ms, capture: none}}
report: null
"""


def asked(port: int, **more: Any) -> TcpScenario:
    found = scenarios.loads(SCENARIO.format(port=port, total=BYTES))
    assert isinstance(found, TcpScenario)
    return found.model_copy(update={"tcp": found.tcp.model_copy(update=more)})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def outcome(store: Store) -> Outcome[Any]:
    """Two connections over loopback, measured once."""
    from weirlab._engine import TcpServer

    server = TcpServer(
        address="127.0.0.1", port=0, token="secret words here", most_ns=None, most_bytes=None, most_clients=1,
        options=[],
    )  # fmt: skip
    try:
        what = asked(server.address[1], connections=2)
        return runner.run(
            TcpStudy(TransferDisplay(tokens=("secret words here", ""))), what, Work(store, SilentProgress())
        )
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tcp: {}", "give 'host', where weir tcp serve runs, or 'path'"),
        ("tcp: {host: a, path: {}}", "excludes 'host'"),
        ("tcp: {host: a, lasts: 3s, total: 1MB}", "excludes 'lasts'"),
        ("tcp: {host: a, server_options: {SO_RCVBUF: 1}}", "can be set with 'path' only"),
        ("tcp: {path: {}, capture: eth0}", "with 'path' names no interface"),
        ("tcp: {host: a, capture: 'auto,receiver'}", "expected auto, none, or"),
        ("tcp: {path: {up: {delay: soon}}}", "is no time"),
        ("tcp: {path: {both: {speed: 1}}}", "'speed' is not known"),
        ("tcp: {path: {up: {queue: 10pkts}}}", "needs rate or trace"),
        ("tcp: {host: a, every: 10us}", "1ms is the shortest"),
        ("tcp: {host: a, fields: nonsense}", "there is no field"),
        ("tcp: {host: a, lasts: never}", "is no time"),
        ("tcp: {host: a, connections: 1000}", "less than or equal to 128"),
        ("tcp: {host: a, block: 5}", "24 bytes (its header) or more"),
        ("tcp: {host: a, client: b, buffer: 1MB}", "with 'client' it has none"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        scenarios.loads(f"name: x\n{text}\n")
    assert told in str(refused.value)
    assert str(refused.value).startswith("<text>:2:")


def test_a_scenario_says_what_is_sent() -> None:
    what = asked(1, reverse=True, connections=3, options={"TCP_NODELAY": "1"}, rate="8Mbit/s")
    settings = what.tcp.settings(host="[::1]", token="t")
    assert (settings.host, settings.up, settings.down) == ("::1", 0, 3)
    assert (settings.lasts_s, settings.total_bytes, settings.rate_bps) == (None, BYTES, 8e6)
    assert settings.options == (("TCP_NODELAY", "1"),)
    assert asked(1, total=None).tcp.settings(host="a", token="").lasts_s == 10.0


def test_a_test_has_a_block_and_a_buffer_at_each_end() -> None:
    what = asked(1, block="16KiB", buffer="6MB", options={"TCP_NODELAY": "1"})
    settings = what.tcp.settings(host="a", token="t")
    assert settings.block_bytes == 16_384
    assert settings.options == (("SO_SNDBUF", "6000000"), ("TCP_NODELAY", "1"))
    # The server receives.
    assert what.tcp.buffers(receives=True) == (("SO_RCVBUF", "6000000"),)
    assert asked(1, buffer="6MB", reverse=True).tcp.settings(host="a", token="").options == (
        ("SO_RCVBUF", "6000000"),
    )


def test_directions_of_a_path_have_random_numbers_of_their_own() -> None:
    path = scenarios.loads("name: x\ntcp: {path: {both: {delay: 5ms, loss: 1%}}}").tcp.path  # type: ignore[attr-defined]
    up, down = path.read("up"), path.read("down")
    assert up.delay_ns == down.delay_ns == 5_000_000
    assert up.seed != down.seed


def test_the_ready_scenario_is_one() -> None:
    from weirlab.studies import ready

    what = scenarios.load(ready.find(Path("slow-transfer")))
    assert isinstance(what, TcpScenario)
    assert what.tcp.path is not None
    assert what.tcp.path.read("up").rate_bps == 200_000_000


def test_a_transfer_is_a_trial_with_its_rows(outcome: Outcome[Any]) -> None:
    run = outcome.run
    trials = run.trials()
    assert trials.select("index", "valid", "backend", "dut", "lost").rows() == [(0, True, "tcp", "tcp", 0)]
    assert trials["received"][0] > 0
    assert trials["delay_mean_ns"][0] is None
    for name in (recording.TRANSFERS, recording.DIRECTIONS, recording.CONNECTIONS, recording.FINDINGS):
        assert set(run.table(name)["trial_id"]) == {trials["trial_id"][0]}, name
    connections = run.table(recording.CONNECTIONS)
    assert connections["received_bytes"].to_list() == [BYTES // 2, BYTES // 2]
    shares = run.table(recording.FINDINGS).group_by("connection", "source").agg(share=_sum("time_share"))
    assert shares["share"].to_list() == pytest.approx([1.0] * shares.height, abs=0.02)
    assert run.manifest.scenario["tcp"]["connections"] == 2


def _sum(name: str) -> Any:
    import polars as pl

    return pl.col(name).sum()


def test_what_is_read_from_the_run_is_what_was_told(outcome: Outcome[Any]) -> None:
    found = kept.read(outcome.run)
    assert found.summaries()[0].received_bytes == BYTES
    assert found.summaries()[0].shares is not None
    assert found.best == outcome.found.kept.best
    assert found.transfer.same_clock
    document = outcome.document()
    assert (document["kind"], document["run_id"]) == ("tcp measure", outcome.run.run_id)
    assert document["directions"][0]["received_bytes"] == BYTES


def test_the_page_begins_with_the_sentence_and_draws_all_on_one_axis(outcome: Outcome[Any]) -> None:
    story = tell(outcome.run)
    found = kept.read(outcome.run)
    assert found.best[found.busiest].sentence in story.answer
    linked = [figure for figure in story.figures if figure.linked]
    assert {figure.key for figure in linked} >= {"time-throughput", "time-window", "time-rtt", "time-buffers"}
    ends = {tuple(figure.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]) for figure in linked}
    assert len(ends) == 1
    html = story.html()
    assert "Where the time went" in html
    assert "secret words here" not in html


def test_the_throughput_that_is_drawn_is_that_of_the_transfer(outcome: Outcome[Any]) -> None:
    figure = next(each for each in tell(outcome.run).figures if each.key == "time-throughput")
    read = figure.data.filter(_is("read by the receiver")).sort("at_s")
    step_s = read["at_s"].diff().drop_nulls().min()
    assert read["value"].sum() / 8 * step_s == pytest.approx(BYTES, rel=0.1)  # type: ignore[operator]


def _is(name: str) -> Any:
    import polars as pl

    return pl.col("series") == name


def test_no_file_of_a_run_has_the_token(outcome: Outcome[Any]) -> None:
    for path in outcome.run.path.rglob("*"):
        assert path.is_dir() or b"secret words here" not in path.read_bytes(), path


def test_going_on_with_a_complete_run_measures_nothing(
    outcome: Outcome[Any], store: Store, tmp_path: Path
) -> None:
    again = runner.resume(
        TcpStudy(), outcome.run.run_id, Work(store, SilentProgress()), out=tmp_path / "page.html"
    )
    assert again.run.trials().height == 1
    assert again.summary().conclusion.startswith("To the server: ")
    assert (tmp_path / "page.html").stat().st_size > 100_000


class Impatient(SilentObserver):
    """Presses Ctrl-C as soon as something is reported."""

    def interval(self, interval: Interval) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("caught_signals")
def test_ctrl_c_keeps_what_was_measured_until_then(serve: Serve, tmp_path: Path) -> None:
    store, what = Store(tmp_path), asked(serve().port, total=None, lasts="1h")
    study = TcpStudy(TransferDisplay(Impatient(), AxisView(print_ns=1_000_000)))
    with pytest.raises(RunInterrupt, match="1 valid attempt kept"):
        runner.run(study, what, Work(store, SilentProgress()))
    run = store.open("last")
    assert run.manifest.status == "interrupted"
    assert kept.read(run).transfer.interrupted
    # It is gone on with: nothing is left to be measured.
    again = runner.resume(TcpStudy(), run.run_id, Work(store, SilentProgress()))
    assert again.run.manifest.status == "complete"
    assert again.run.trials().height == 1


def test_a_server_that_does_not_answer_leaves_no_run_behind(free_port: int, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot connect"):
        runner.run(TcpStudy(), asked(free_port), Work(Store(tmp_path), SilentProgress()))
    assert Store(tmp_path).runs() == []


def test_a_run_without_a_transfer_says_how_to_go_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.create("tcp", asked(1).model_dump(mode="json"), {}) as writer:
        run: Run = writer.run
    with pytest.raises(InputError, match="was interrupted before the transfer had ended"):
        reports.write(run, out=tmp_path / "page.html", plots=None)


def test_the_token_is_not_kept_with_the_command(
    weir: Weir, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weirlab.cli.program.app import _unsecret

    assert list(_unsecret(["tcp", "--token", "a b", "--token=c", "--port", "1"])) == [
        "tcp", "--token", "...", "--token=...", "--port", "1",
    ]  # fmt: skip
    port = serve(token="secret words here").port
    answer = weir(
        *("tcp", "measure", "127.0.0.1", "--port", port, "--token", "secret words here", "--store", tmp_path),
        *("--bytes", "1MB", "--capture", "none", "--json"),
    )
    assert answer.code == 0, answer.err
    for path in Path(answer.json["path"]).rglob("*"):
        assert path.is_dir() or b"secret words here" not in path.read_bytes(), path
