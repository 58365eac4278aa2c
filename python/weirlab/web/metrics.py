"""The metrics that ``/metrics`` reports, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, get_args

from weirlab import __version__
from weirlab.jobs.status import Activity
from weirlab.web.captures.service import CaptureService
from weirlab.web.children import Children
from weirlab.web.runs import RunService
from weirlab.web.scenarios.service import Scenarios
from weirlab.web.transfers.service import Transfers

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STEPS: Final = ("done", "failed", "underway", "waiting")
_ACTIVITIES: Final = get_args(Activity)

Samples = Iterable[tuple[dict[str, str], float]]
"""Samples: labels and a number each."""


def text(
    shelf: RunService,
    captures: CaptureService,
    children: Children,
    transfers: Transfers,
    scenarios: Scenarios,
) -> str:
    """The whole text."""
    tally = captures.tally
    runs = [({"kind": kind, "status": status}, number) for (kind, status), number in shelf.counts().items()]
    results = ("received", "refused", "analysed", "failed")
    uploads: Samples = [({"result": name}, getattr(tally, name)) for name in results]
    moved = transfers.moved
    received: Samples = [({"direction": way}, number) for way, number in moved.received_bytes.items()]
    again: Samples = [({"direction": way}, number) for way, number in moved.retransmissions.items()]
    waiting, underway = scenarios.load()
    done, planned = (0, 0) if underway is None else (underway.done, underway.total)
    steps: Samples = [({"state": "done"}, done), ({"state": "planned"}, planned)]
    families: list[tuple[str, str, str, Samples]] = [
        ("weir_build_info", "gauge", "Version of Weir.", [({"version": __version__}, 1)]),
        ("weir_runs", "gauge", "Runs in the store, by kind and status.", runs),
        (
            "weir_web_queue_length",
            "gauge",
            "Captures that wait for their analysis.",
            [({}, children.waiting)],
        ),
        ("weir_web_uploads_total", "counter", "Uploads since the start, by what came of them.", uploads),
        ("weir_web_upload_bytes_total", "counter", "Bytes of uploads.", [({}, tally.received_bytes)]),
        ("weir_web_transfers_total", "counter", "TCP tests begun.", [({}, transfers.begun)]),
        ("weir_web_transfers_failed_total", "counter", "TCP tests that failed.", [({}, transfers.failed)]),
        ("weir_web_transfer_received_bytes_total", "counter", "Bytes received in TCP tests.", received),
        ("weir_web_transfer_retransmissions_total", "counter", "Segments sent again in TCP tests.", again),
        ("weir_web_scenarios_total", "counter", "Scenarios begun.", [({}, scenarios.begun)]),
        ("weir_web_scenarios_failed_total", "counter", "Scenarios that failed.", [({}, scenarios.failed)]),
        ("weir_web_scenarios_waiting", "gauge", "Scenarios that wait for their turn.", [({}, waiting)]),
        (
            "weir_web_scenario_steps",
            "gauge",
            "Trials, or steps of a campaign, of the scenario under way in its present stage.",
            steps,
        ),
        *_campaigns(shelf),
    ]
    return "\n".join(line for family in families for line in _family(*family)) + "\n"


def _campaigns(shelf: RunService) -> list[tuple[str, str, str, Samples]]:
    """The campaigns and sweeps that go on, wherever they were started, and their workers."""
    steps, left, workers, heard, trials = (list[tuple[dict[str, str], float]]() for _ in range(5))
    for run_id, status in shelf.campaigns():
        run = {"run": run_id}
        steps += [({**run, "state": name}, getattr(status, name)) for name in _STEPS]
        left += [] if status.left_s is None else [(run, round(status.left_s))]
        for one in status.workers:
            worker = {**run, "worker": one.name}
            workers += [({**worker, "state": state}, int(state == one.activity)) for state in _ACTIVITIES]
            heard.append((worker, round(one.seen_s, 3)))
            trials.append((worker, one.trials))
    return [
        ("weir_campaign_steps", "gauge", "Steps of campaigns and sweeps that go on, by state.", steps),
        ("weir_campaign_left_seconds", "gauge", "Time until a campaign or a sweep ends, as it goes.", left),
        ("weir_campaign_worker", "gauge", "1 for what a worker of a campaign or sweep does now.", workers),
        ("weir_campaign_worker_seen_seconds", "gauge", "Last sign of life, in seconds since 1970.", heard),
        ("weir_campaign_worker_trials", "gauge", "Trials that a campaign has of a worker.", trials),
    ]


def _family(name: str, kind: str, about: str, samples: Samples) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
