"""Runs of the store: listed, opened, compared."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from weirlab.devices.series import SeriesScenario
from weirlab.jobs.inventory import RunOutcome
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.report.story import Story
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.store.index import FILE
from weirlab.studies import runner
from weirlab.studies.registry import studies
from weirlab.studies.reports import report
from weirlab.studies.scenarios import load
from weirlab.testing import SMALL_PROFILE, make_record, make_result, make_spec
from weirlab.web.children import Children
from weirlab.web.launching.jobs import ProcessJob, ReportJob, ServiceFolders
from weirlab.web.launching.launcher import DirectLauncher
from weirlab.web.runs import READING, RunService

from .conftest import Serve

DOCS = Path(__file__).resolve().parents[3] / "docs"


def trials(store: Store, *delays_ns: float, name: str = "trial", kind: str = "trial") -> str:
    with store.create(kind, {"name": name}, {"lab": "netns", "dut": "iptables", "backend": "xdp"}) as writer:
        for index, delay_ns in enumerate(delays_ns):
            result = make_result(1e5, delay_mean_ns=delay_ns)
            spec = make_spec(1e5, position=400)
            writer.add(make_record(result, spec, run_id=writer.run_id, index=index, role="single"))
        return writer.run_id


def listed(client: TestClient) -> dict[str, dict[str, Any]]:
    return {run["run_id"]: run for run in client.get("/api/runs").json()["runs"]}


def test_long_documents_come_compressed_to_those_who_take_that(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    packed, plain = (
        client.get(f"/api/runs/{run_id}", headers={"Accept-Encoding": encoding})
        for encoding in ("gzip", "identity")
    )
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert packed.json().keys() == plain.json().keys()
    assert int(packed.headers["content-length"]) < 0.6 * int(plain.headers["content-length"])
    short = client.get(f"/api/runs/{run_id}/report")
    assert short.headers.get("content-encoding") is None


def test_an_empty_store_is_no_failure(client: TestClient) -> None:
    answer = client.get("/api/runs").json()
    nothing = {"runs": [], "kinds": [], "statuses": [], "devices": [], "tags": []}
    assert answer == {**nothing, "found": 0, "total": 0, "unanswered": 0}


def test_the_store_is_read_when_the_service_starts(serve: Serve, store: Store) -> None:
    trials(store, 20_000.0)
    index = store.root / FILE
    index.unlink()
    serve()
    for thread in threading.enumerate():
        if thread.name == READING:
            thread.join()
    assert index.exists()


def test_every_run_is_listed_with_kind_state_and_a_sentence(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0, 21_000.0, name="before")
    run = listed(client)[run_id]
    assert (run["kind"], run["status"], run["name"]) == ("trial", "complete", "before")
    assert (run["device"], "forwarded all of 100 kpps" in run["conclusion"]) == ("iptables", True)


def test_a_run_without_a_valid_attempt_is_not_complete(client: TestClient, store: Store) -> None:
    with store.create("trial", {}, {"lab": "netns", "dut": "iptables", "backend": "xdp"}) as writer:
        spec, about = make_spec(1e5), {"run_id": writer.run_id, "index": 0, "role": "single"}
        writer.add(make_record(make_result(1e5), spec, **about, invalid=("the sender was late",)))
    assert listed(client)[writer.run_id]["status"] == "nothing valid"
    assert client.get("/api/runs", params={"status": "complete"}).json()["found"] == 0


def test_runs_are_chosen_by_device_and_listed_in_any_order(client: TestClient, store: Store) -> None:
    old, new = trials(store, 20_000.0, name="B"), trials(store, 20_000.0, name="a")

    def names(**query: str) -> list[str]:
        return [run["run_id"] for run in client.get("/api/runs", params=query).json()["runs"]]

    assert set(names(sort="oldest")) == {old, new}
    assert names(sort="oldest") == names()[::-1]
    assert names(sort="name") == [new, old]
    assert names(device="nothing like that") == []
    assert set(names(device="iptables", sort="device")) == {old, new}
    assert client.get("/api/runs", params={"sort": "size"}).status_code == 400


def test_the_list_comes_in_pages_and_is_searched_here(client: TestClient, store: Store) -> None:
    ids = [trials(store, 20_000.0, name=f"run n{number} of Ω") for number in range(5)]
    with store.create("calibrate", {}, {}) as writer:
        pass

    def names(**query: object) -> list[str]:
        return [run["run_id"] for run in client.get("/api/runs", params=query).json()["runs"]]

    # Several may be created within a millisecond.
    newest = [run.run_id for run in store.runs()]
    assert set(newest) == {writer.run_id, *ids}
    assert names() == newest
    assert names(most=2) + names(first=2, most=3) + names(first=5) == newest
    assert names(kind="trial", most=1) == [name for name in newest if name != writer.run_id][:1]
    assert names(text="N3 RUN ω") == [ids[3]]
    assert names(text="complete", status="complete", kind="calibrate") == [writer.run_id]
    assert names(text="nothing like that") == []
    day = store.runs()[0].created[:10]
    assert names(since=day, until=day) == newest
    assert names(since="2999-01-01") == names(until="1999-12-31") == []
    answer = client.get("/api/runs", params={"kind": "trial", "most": 2}).json()
    assert (answer["found"], answer["total"]) == (5, 6)
    assert (answer["kinds"], answer["statuses"]) == (["calibrate", "trial"], ["complete"])
    for wrong in ({"most": 0}, {"most": 1001}, {"first": -1}, {"first": 10**30}, {"text": "x" * 1001}):
        assert client.get("/api/runs", params=wrong).status_code == 400


def test_a_damaged_run_is_listed_with_what_is_wrong(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    (store.open(run_id).path / "manifest.json").write_text("nonsense")
    run = listed(client)[run_id]
    assert run["status"] == "corrupt"
    assert "not JSON" in run["conclusion"]
    assert client.get(f"/api/runs/{run_id}").status_code == 404


def test_the_sentence_of_a_run_is_the_answer_of_its_report(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    story = Story(subject="a firewall", answer="Carries > 3 Mpps & more.", tiles=(), chapters=())
    (store.open(run_id).path / "report.html").write_text(story.html())
    assert listed(client)[run_id]["conclusion"] == "Carries > 3 Mpps & more."


def test_a_report_leaves_its_first_chart_for_the_list(client: TestClient, store: Store) -> None:
    path = store.root.parent / "small.yaml"
    path.write_text(SMALL_PROFILE)
    asked = load(path)
    run_id = runner.run(studies()[asked.KEY], asked, Work(store, SilentProgress())).run.run_id
    without = client.get(f"/api/runs/{run_id}/sketch.png")
    assert (listed(client)[run_id]["sketch"], without.status_code) == (False, 400)
    report(store, run_id)
    image = client.get(f"/api/runs/{run_id}/sketch.png")
    assert (image.headers["content-type"], image.content[:4]) == ("image/png", b"\x89PNG")
    assert listed(client)[run_id]["sketch"] is True


def test_a_run_shows_what_weir_show_tells(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    shown = client.get(f"/api/runs/{run_id}").json()
    assert "forwarded all of 100 kpps" in shown["conclusion"]
    assert (shown["status"], shown["device"], shown["comparable"]) == ("complete", "iptables", True)
    assert ["name", "trial"] in shown["tables"][0]["rows"]
    assert shown["report"] == "possible"


def test_a_run_of_a_kind_without_reports_says_so(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0, kind="unheard")
    assert client.get(f"/api/runs/{run_id}").json()["report"] == "none"
    answer = client.post(f"/api/runs/{run_id}/report", json={})
    assert answer.status_code == 400
    assert "no report about runs of the kind unheard" in answer.json()["error"]["message"]


def test_two_runs_are_compared_in_the_words_of_weir_compare(client: TestClient, store: Store) -> None:
    before = trials(store, *[20_000.0 + n for n in range(6)])
    after = trials(store, *[30_000.0 + n for n in range(6)])
    found = client.get(f"/api/runs/{before}/compared?after={after}").json()
    assert found["verdict"] == "worse"
    assert found["conclusion"].startswith("Changed for the worse")
    assert found["headline"].startswith("Changed for the worse: ")
    (mean,) = [each for each in found["differences"] if each["title"] == "mean delay"]
    assert mean["low"] < mean["change"] < mean["high"]
    assert mean["change"] > mean["margin"] > 0
    assert any(row[0] == "mean delay" for row in found["tables"][0]["rows"]), found["tables"][0]["rows"]


def test_several_runs_of_a_device_are_compared_with_several_of_another(
    client: TestClient, store: Store
) -> None:
    one, other, third, fourth = (
        trials(store, *[base + n for n in range(6)]) for base in (20_000.0, 20_010.0, 30_000.0, 30_010.0)
    )
    address = f"/api/runs/{one}/compared?beside={other}&after={third}&after={fourth}"
    found = client.get(address).json()
    (mean,) = [each for each in found["differences"] if each["title"] == "mean delay"]
    assert (found["verdict"], mean["verdict"]) == ("worse", "worse")
    assert mean["margin"] < mean["low"] < mean["change"] < mean["high"]
    assert mean["change"] == pytest.approx(0.5, abs=0.01)
    assert client.get(f"/api/runs/{one}/compared").status_code == 400


def test_what_cannot_be_compared_is_told(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    answer = client.get(f"/api/runs/{run_id}/compared?after={run_id}")
    assert answer.status_code == 400
    assert "compared with itself" in answer.json()["error"]["message"]
    assert client.get(f"/api/runs/{run_id}/compared?after=nothing").status_code == 404


def test_a_report_is_drawn_when_it_is_asked_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = trials(store, 20_000.0)
    asked: list[tuple[ProcessJob, dict[str, Any]]] = []
    children = Children(1, DirectLauncher.of(ServiceFolders(store.root)))
    monkeypatch.setattr(children, "ask", lambda job, request, **__: asked.append((job, request)))
    monkeypatch.setattr(RunService, "_report_state", lambda *_: "possible")
    RunService(store, children, 1_000_000).prepare(run_id).result()
    children.close()
    ((job, request),) = asked
    assert job == ReportJob(run_id)
    assert request["memory_bytes"] == 1_000_000


def test_metrics_count_runs_and_uploads(client: TestClient, store: Store) -> None:
    trials(store, 20_000.0)
    client.post("/api/captures", content=b"")
    text = client.get("/metrics").text
    assert 'weir_runs{kind="trial",status="complete"} 1' in text
    assert 'weir_web_uploads_total{result="refused"} 1' in text
    assert "weir_web_queue_length 0" in text


def test_the_dashboard_asks_for_metrics_that_there_are(client: TestClient, store: Store) -> None:
    trials(store, 20_000.0)
    there = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.MULTILINE))
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"weir_\w+", target["expr"])
    }
    assert asked
    assert asked <= there


def test_a_small_table_that_decodes_to_much_is_refused_without_decoding_it(
    client: TestClient, store: Store
) -> None:
    import polars as pl

    run_id = trials(store, 20_000.0)
    path = store.open(run_id).path / "trials.parquet"
    with path.open("wb") as file:
        pl.DataFrame({"trial_id": pl.repeat("", 20_000_000, eager=True)}).write_parquet(file)
    before = trials(store, 20_000.0)
    for request in (run_id, f"{before}/compared?after={run_id}"):
        answer = client.get(f"/api/runs/{request}")
        assert answer.status_code == 404
        assert "would take" in answer.json()["error"]["message"]


def test_the_attempts_of_a_run_are_points_while_it_is_running(client: TestClient, store: Store) -> None:
    with store.create("trial", {}, {"lab": "netns", "dut": "iptables", "backend": "xdp"}) as writer:
        address, about = f"/api/runs/{writer.run_id}/live", {"run_id": writer.run_id, "role": "single"}
        assert client.get(address).json()["points"] == []
        for index, position in enumerate((0, 400)):
            result = make_result(1e5, delay_mean_ns=20_000.0)
            writer.add(make_record(result, make_spec(1e5, position=position), index=index, **about))
        writer.add(make_record(make_result(1e5), make_spec(1e5), index=2, invalid=("late",), **about))
        found = client.get(address).json()
        assert (found["status"], found["valid"], found["left_out"]) == ("running", 2, 0)
        assert [point["series"] for point in found["points"]] == ["0 rules", "400 rules", "0 rules"]
        assert [point["delay_ns"] for point in found["points"]][:2] == [20_000.0, 20_000.0]
        assert [point["invalid"] for point in found["points"]] == ["", "", "late"]
        # Another process carries it out, as far as this service knows.
        assert (found["held"], found["stoppable"], found["work"]) == (False, True, None)
    assert client.get(address).json()["status"] == "complete"


def test_only_the_last_attempts_are_drawn(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weirlab.web.live.MOST_POINTS", 2)
    found = client.get(f"/api/runs/{trials(store, 1e4, 2e4, 3e4)}/live").json()
    assert ([each["delay_ns"] for each in found["points"]], found["left_out"]) == ([2e4, 3e4], 1)


def test_name_note_tags_and_star_are_kept_found_and_listed(client: TestClient, store: Store) -> None:
    run_id, other = trials(store, 20_000.0), trials(store, 20_000.0)
    said = {"name": "before the update", "star": True, "note": "in the office", "tags": ["office", "x"]}
    assert client.post(f"/api/runs/{run_id}/label", json=said).status_code == 200
    line = listed(client)[run_id]
    assert (line["name"], line["star"], line["tags"]) == ("before the update", True, ["office", "x"])
    assert listed(client)[other]["star"] is False
    assert client.get(f"/api/runs/{run_id}").json()["label"] == said
    for query in ({"tag": "office"}, {"star": "true"}, {"text": "OFFICE"}, {"text": "before"}):
        found = client.get("/api/runs", params=query).json()
        assert [run["run_id"] for run in found["runs"]] == [run_id], query
        assert found["tags"] == ["office", "x"]
    for wrong in ({"tags": ["two words"]}, {"name": "x" * 201}, {"stars": 3}):
        assert client.post(f"/api/runs/{run_id}/label", json=wrong).status_code == 400
    assert client.get(f"/api/runs/{run_id}").json()["label"] == said


def test_a_run_is_deleted_and_what_refuses_is_told(serve: Serve, store: Store) -> None:
    client, _ = serve()
    run_id = trials(store, 20_000.0)
    assert client.post(f"/api/runs/{run_id}/delete", json={}).status_code == 200
    assert listed(client) == {}
    assert client.post(f"/api/runs/{run_id}/delete", json={}).status_code == 422
    with store.create("trial", {}, {}) as writer:
        refused = client.post(f"/api/runs/{writer.run_id}/delete", json={})
        assert (refused.status_code, "being written" in refused.text) == (422, True)


def test_a_read_only_store_keeps_and_deletes_nothing(
    serve: Serve, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = trials(store, 20_000.0)
    monkeypatch.setattr("weirlab.web.service._may_write", lambda _: False)
    client, _ = serve()
    for deed in ("label", "delete"):
        refused = client.post(f"/api/runs/{run_id}/{deed}", json={})
        assert (refused.status_code, "may not write" in refused.text) == (403, True)
    assert [run.run_id for run in store.runs()] == [run_id]


def test_a_run_that_is_deleted_while_it_is_read_is_gone(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = trials(store, 20_000.0)

    def listed_late(outcome: RunOutcome) -> list[Path]:
        store.remove(run_id)
        return list(outcome.run.path.iterdir())

    monkeypatch.setattr(RunOutcome, "files", property(listed_late))
    answer = client.get(f"/api/runs/{run_id}")
    assert (answer.status_code, f"no run '{run_id}'" in answer.text) == (404, True)


def test_another_web_site_can_neither_stop_nor_delete_a_run(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    for deed in ("label", "delete", "stop", "resume", "again"):
        foreign = client.post(
            f"/api/runs/{run_id}/{deed}", json={}, headers={"Origin": "http://evil.example"}
        )
        assert foreign.status_code == 403
    assert [run.run_id for run in store.runs()] == [run_id]


def test_only_a_run_of_a_scenario_is_started_again(serve: Serve, store: Store) -> None:
    client, _ = serve(allow_run=True)
    run_id = trials(store, 20_000.0)
    shown = client.get(f"/api/runs/{run_id}").json()
    assert (shown["startable"], shown["command"][:5]) == (False, "weir ")
    refused = client.post(f"/api/runs/{run_id}/again", json={})
    assert (refused.status_code, "not made from a scenario" in refused.text) == (400, True)


def test_a_scenario_that_is_too_long_for_a_page_is_not_started_again(serve: Serve, store: Store) -> None:
    client, _ = serve(allow_run=True)
    settings = [{"name": f"setting {number:090}", "rate": "1kpps"} for number in range(400)]
    asked = from_plain({"name": "many", "series": {"settings": settings}}, "a test", SeriesScenario)
    with store.create("series", asked.model_dump(mode="json"), {"lab": "sim", "dut": "iptables"}) as writer:
        run_id = writer.run_id
    answer = client.post(f"/api/runs/{run_id}/again", json={})
    assert (answer.status_code, "longer than a page may send" in answer.text) == (400, True)


def test_a_report_is_compressed_on_its_way(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    content = b"<h1>Whole</h1>" * 100_000
    (store.open(run_id).path / "report.html").write_bytes(content)
    for accepted, encoding in (("gzip", "gzip"), ("identity", None)):
        answer = client.get(f"/api/runs/{run_id}/report", headers={"Accept-Encoding": accepted})
        assert answer.headers.get("Content-Encoding") == encoding
        assert answer.content == content
