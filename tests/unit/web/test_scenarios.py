"""Scenarios from the page: refused with lines, carried out one at a time, stopped, gone on with."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from weirlab.base import programs
from weirlab.base.errors import InputError
from weirlab.store import Store
from weirlab.testing import SMALL_PROFILE
from weirlab.web.launching.jobs import ProcessJob, ScenarioRunJob
from weirlab.web.launching.launcher import DirectLauncher
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.measurements.space import Space
from weirlab.web.scenarios import child
from weirlab.web.scenarios.asking import ScenarioRequest, understood
from weirlab.web.scenarios.service import Scenarios

from .conftest import DEADLINE_S, Serve, settled

CAMPAIGN = """\
name: which queue
report: null
campaign:
  scenarios:
    calls:
      lab: {kind: sim}
      series: {trial_s: 0.01, repetitions: 1, settings: [{name: overload, rate: max, position: 100}]}
  settings:
    queue:
      short: {lab: {device: {queue_packets: 64}}}
      long: {lab: {device: {queue_packets: 512}}}
  repetitions: 3
"""

TALKING = """
import json, os, signal, sys, time
request = json.loads(sys.stdin.readline())
def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)
def stopped(*_):
    tell("stopped", message="interrupted; 1 valid attempt kept in run R")
    sys.exit(0)
signal.signal(signal.SIGINT, stopped)
tell("run", run_id=request["run_id"] or "R")
tell("stage", title="profiling")
tell("progress", done=1, total=4, what="64 B", left="20 s")
tell("note", text="resumed" if request["run_id"] else "begun")
if not request["run_id"] and "for ever" in request["text"]:
    while True:
        time.sleep(60)
tell("done", run_id="R", conclusion="It carries much.", remark="", tables=[], problem="")
"""
"""A child that says what the real one says, and waits for its end if the scenario's name is so."""

Make = Callable[..., Scenarios]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Begins to carry out scenarios, with a child process that only talks."""
    (tmp_path / "talking.py").write_text(TALKING)
    made: list[Scenarios] = []

    def talk(job: ProcessJob, stdin: int, stdout: int) -> programs.Program[Any]:
        assert isinstance(job, ScenarioRunJob)
        return programs.start(programs.script(tmp_path / "talking.py"), stdin=stdin, stdout=stdout)

    def begin(*, allowed: bool = True, bench: threading.Lock | None = None) -> Scenarios:
        scenarios = Scenarios(
            DirectLauncher(talk),
            Measurements(tmp_path / "store"),
            Space(tmp_path / "store"),
            allowed,
            bench or threading.Lock(),
        )
        made.append(scenarios)
        return scenarios

    yield begin
    for each in made:
        each.close()


def named(name: str) -> ScenarioRequest:
    return ScenarioRequest(text=SMALL_PROFILE.replace("A small profile", name))


def waited(
    scenarios: Scenarios, one: Measurement, holds: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s:
        if holds(told := scenarios.describe(one)):
            return told
        time.sleep(0.01)
    pytest.fail(f"not within {DEADLINE_S} s: {told}")


def test_a_campaign_from_the_page_shows_its_steps_as_they_are_done(serve: Serve, store: Store) -> None:
    client, _ = serve(allow_run=True)
    data_id = client.post("/api/scenarios", json={"text": CAMPAIGN}).json()["data_id"]
    with client.stream("GET", f"/api/scenarios/{data_id}/events") as events:
        told = [json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: ")]
    assert told[-1]["stage"] == "ready", told[-1]["message"]
    assert {each["total"] for each in told} <= {0, 6}
    done = [each["done"] for each in told if each["total"]]
    assert done == sorted(done)
    run = store.open(told[-1]["run_id"])
    assert (run.manifest.kind, run.manifest.status) == ("campaign", "complete")


def test_metrics_say_what_waits_and_how_far_the_one_under_way_is(make: Make) -> None:
    scenarios = make()
    assert scenarios.load() == (0, None)
    first = scenarios.start(named("for ever"))
    scenarios.start(named("the next"))
    waited(scenarios, first, lambda told: told["total"] == 4)
    waiting, underway = scenarios.load()
    assert underway is not None
    assert (waiting, underway.done, underway.total) == (1, 1, 4)
    scenarios.stop(first)


def over(told: dict[str, Any]) -> bool:
    return told["stage"] not in ("queued", "working")


def test_a_simulated_scenario_is_carried_out_and_its_run_is_in_the_store(serve: Serve, store: Store) -> None:
    client, _ = serve(allow_run=True)
    answer = client.post("/api/scenarios", json={"text": SMALL_PROFILE, "name": "mine.yaml"})
    assert answer.status_code == 201, answer.text
    data_id = answer.json()["data_id"]
    with client.stream("GET", f"/api/scenarios/{data_id}/events") as events:
        told = [json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: ")]
    assert told[-1]["stage"] == "ready", told[-1]["message"]
    run_id = told[-1]["run_id"]
    assert run_id in told[-1]["conclusion"]
    assert told[-1]["tables"]
    assert store.open(run_id).manifest.status == "complete"
    assert store.open(run_id).manifest.scenario["name"] == "A small profile"
    assert client.get(f"/api/runs/{run_id}").json()["simulated"] is True
    assert any(each["title"] for each in told)
    assert "weir_web_scenarios_total 1" in client.get("/metrics").text
    shown = client.get(f"/api/runs/{run_id}").json()
    assert shown["startable"] is True
    again = client.post(f"/api/runs/{run_id}/again", json={})
    assert again.status_code == 201, again.text
    with client.stream("GET", f"/api/scenarios/{again.json()['data_id']}/events") as events:
        told = [json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: ")]
    assert told[-1]["stage"] == "ready", told[-1]["message"]
    first, second = (store.open(each).manifest.scenario for each in (run_id, told[-1]["run_id"]))
    assert first == second


def test_a_child_whose_service_is_killed_ends_in_good_order(store: Store, tmp_path: Path) -> None:
    text = SMALL_PROFILE.replace("repetitions: 1", "repetitions: 1000")
    request = {"text": text, "name": "mine", "lab": None, "run_id": ""}
    with programs.start(
        programs.own(child.__name__, str(store.root)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        heard = []
        for line in process.stdout:
            heard.append(json.loads(line))
            if heard[-1].get("done") == 3:
                # As the kernel does when a process dies.
                process.stdin.close()
    assert heard[-1]["event"] == "stopped", heard[-1]
    (run_id,) = [each["run_id"] for each in heard if each["event"] == "run"]
    assert run_id in heard[-1]["message"]
    assert store.open(run_id).manifest.status == "interrupted"


def test_without_the_right_nothing_is_started(client: TestClient) -> None:
    assert client.get("/api/session").json()["may_run"] is False
    refused = client.post("/api/scenarios", json={"text": SMALL_PROFILE})
    assert refused.status_code == 403
    assert "--allow-run" in refused.json()["error"]["message"]


def test_what_is_wrong_with_a_scenario_is_told_with_its_lines(serve: Serve, store: Store) -> None:
    client, _ = serve(allow_run=True)
    text = SMALL_PROFILE.replace("positions: [0, 100]", "positions: [-1]").replace("trial_s", "trials_s")
    refused = client.post("/api/scenarios", json={"text": text, "name": "mine.yaml"})
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "mine.yaml:5:" in message
    assert "mine.yaml:9:" in message
    assert "did you mean 'trial_s'" in message
    assert not list(store.root.glob("web/*"))


def test_a_scenario_from_the_page_that_names_a_file_of_the_host_is_refused(
    serve: Serve, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("a secret\n")
    client, _ = serve(allow_run=True)
    text = SMALL_PROFILE.replace("name: iptables", f'name: "link:trace={tmp_path}/secret"')
    refused = client.post("/api/scenarios", json={"text": text, "name": "mine.yaml"})
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert message.startswith("mine.yaml:3:13: dut.name: a scenario from the page may name no file")
    assert "a secret" not in message
    assert not list(store.root.glob("web/*"))


def test_the_lab_is_chosen_beside_the_scenario() -> None:
    assert understood(ScenarioRequest(text=SMALL_PROFILE, lab="netns")).lab.kind == "netns"  # type: ignore[attr-defined]


def test_the_ready_made_scenarios_are_offered_with_their_text(serve: Serve) -> None:
    client, _ = serve(allow_run=True)
    ready = {each["name"]: each for each in client.get("/api/scenarios").json()["ready"]}
    assert "firewall-rules" in ready
    for each in ready.values():
        understood(ScenarioRequest(text=each["text"]))
        assert each["about"]


def test_progress_and_messages_are_told(make: Make) -> None:
    scenarios = make()
    one = scenarios.start(named("for ever"))
    told = waited(scenarios, one, lambda now: now["notes"])
    assert (told["stage"], told["title"], told["done"], told["total"]) == ("working", "profiling", 1, 4)
    assert (told["left"], told["what"], told["notes"], told["run_id"]) == ("20 s", "64 B", ("begun",), "R")


def test_one_is_at_work_and_the_others_wait_in_order(make: Make) -> None:
    scenarios = make()
    first = scenarios.start(named("for ever"))
    waited(scenarios, first, lambda now: now["notes"])
    others = [scenarios.start(named(f"number {n}")) for n in (1, 2)]
    assert [scenarios.describe(each)["waiting"] for each in (first, *others)] == [0, 1, 2]
    scenarios.stop(others[0])
    assert scenarios.describe(others[0])["stage"] == "stopped"
    scenarios.stop(first)
    assert waited(scenarios, others[1], over)["conclusion"] == "It carries much."


def test_a_stopped_one_keeps_its_run_and_is_gone_on_with(make: Make) -> None:
    scenarios = make()
    one = scenarios.start(named("for ever"))
    waited(scenarios, one, lambda now: now["notes"])
    scenarios.stop(one)
    told = waited(scenarios, one, over)
    assert (told["stage"], told["run_id"]) == ("stopped", "R")
    assert "1 valid attempt kept" in told["message"]
    with pytest.raises(InputError):
        scenarios.stop(one)
    scenarios.resume(one)
    told = waited(scenarios, one, over)
    assert (told["stage"], told["notes"][-1]) == ("ready", "resumed")
    with pytest.raises(InputError):
        scenarios.resume(one)


def test_when_the_service_ends_nothing_is_lost(make: Make) -> None:
    first = make()
    at_work, waiting = first.start(named("for ever")), first.start(named("next"))
    waited(first, at_work, lambda now: now["notes"])
    first.close()
    assert [first.describe(each)["stage"] for each in (at_work, waiting)] == ["queued", "queued"]
    mute = make(allowed=False)
    mute.go_on()
    assert mute.describe(at_work)["stage"] == "queued"
    second = make()
    second.go_on()
    assert waited(second, at_work, over)["notes"][-1] == "resumed"
    assert waited(second, waiting, over)["stage"] == "ready"


def test_a_child_that_dies_is_told_and_the_next_one_begins(make: Make) -> None:
    scenarios = make()
    one = scenarios.start(named("for ever"))
    waited(scenarios, one, lambda now: now["notes"])
    process = scenarios._jobs[0].process
    assert process is not None
    process.kill()
    told = waited(scenarios, one, over)
    assert told["stage"] == "failed"
    assert "exit code -9" in told["message"]
    assert waited(scenarios, scenarios.start(named("next")), over)["stage"] == "ready"


def test_nothing_is_measured_beside_a_tcp_test(make: Make) -> None:
    bench = threading.Lock()
    scenarios = make(bench=bench)
    with bench:
        one = scenarios.start(named("next"))
        assert scenarios.describe(one)["stage"] == "queued"
    assert waited(scenarios, one, over)["stage"] == "ready"


def test_a_tcp_test_is_refused_beside_a_scenario(serve: Serve) -> None:
    client, made = serve()
    with made.scenarios.bench:
        refused = client.post("/api/transfers", json={"host": "127.0.0.1"})
    assert refused.status_code == 409


def test_other_measurements_are_no_scenarios(client: TestClient) -> None:
    data_id = client.post("/api/transfers", json={"host": "127.0.0.1", "port": 9}).json()["data_id"]
    settled(client, data_id)
    assert client.get(f"/api/scenarios/{data_id}/events").status_code == 400


def test_a_run_is_stopped_and_resumed_by_its_id_where_it_was_started(make: Make) -> None:
    scenarios = make()
    one = scenarios.start(named("for ever"))
    waited(scenarios, one, lambda now: now["notes"])
    assert scenarios.live("R") == {
        "held": True, "title": "profiling", "done": 1, "total": 4, "what": "64 B", "left": "20 s",
    }  # fmt: skip
    assert scenarios.live("another")["held"] is False
    assert not scenarios.resumable("R")
    scenarios.stop(scenarios.of_run("R"))
    waited(scenarios, one, over)
    assert scenarios.live("R")["held"] is False
    assert scenarios.resumable("R")
    assert not make(allowed=False).resumable("R")
    scenarios.resume(scenarios.of_run("R"))
    assert waited(scenarios, one, over)["notes"][-1] == "resumed"
    with pytest.raises(InputError, match="not started from this page"):
        scenarios.of_run("another")
