"""A story of each kind of page, made of what the tests of its study make up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from weirlab.calls.capacity.page import tell as tell_capacity
from weirlab.calls.capacity.prediction import CapacityPrediction
from weirlab.calls.failover.page import tell as tell_failover
from weirlab.calls.ipsec.endpoints.fakes import FakeEndpointBed as FakeEndpoints
from weirlab.calls.ipsec.endpoints.study import EndpointsStudy
from weirlab.calls.quality.page import assessed
from weirlab.calls.quality.page import tell as tell_quality
from weirlab.calls.quality.study import capture_quality
from weirlab.devices.profile.page import gather
from weirlab.devices.profile.page import tell as tell_profile
from weirlab.devices.search.page import tell as tell_search
from weirlab.devices.search.page import tell_rfc2544
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.links.monitor.page import tell as tell_monitor
from weirlab.numbering.fakes import FakeLab, FakeLoadLab
from weirlab.numbering.load.page import tell as tell_load
from weirlab.numbering.load.study import VoiceLoadStudy
from weirlab.numbering.plan import load as load_plan
from weirlab.numbering.plan import ready
from weirlab.numbering.proof.calling import made as proof_of
from weirlab.numbering.proof.findings import ProofFindings
from weirlab.numbering.proof.page import tell as tell_voice
from weirlab.numbering.proof.ways import planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import LoadScenario
from weirlab.report.story import Story
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies import runner
from weirlab.trace import Trace
from weirlab.transfers.parallel.fakes import FakeParallelBed
from weirlab.transfers.parallel.study import ParallelStudy
from weirlab.transfers.trace.page.story import tell as tell_trace

from ..calls.calls import test_page as test_calls_page
from ..calls.capacity import test_page as test_capacity_page
from ..calls.failover import test_page as test_failover_page
from ..calls.ipsec.endpoints import test_study as test_endpoints_study
from ..calls.quality.captures import frames, pcap
from ..devices.search import test_page as test_search_page
from ..links.monitor import test_page as test_monitor_page
from ..trace import made
from ..transfers.parallel import test_study as test_parallel_study
from .test_quality_page import streams

DATE = "2026-11-22"


def stories(small_run: Any, models: Any, folder: Path) -> dict[str, Callable[[], Story]]:
    """What makes the story of each kind; files go into ``folder``."""
    dated = {"created": f"{DATE}T10:00:00+00:00"}

    def profile() -> Story:
        evidence = gather(small_run, models)
        return tell_profile(replace(evidence, manifest={**evidence.manifest, **dated}))

    def capacity() -> Story:
        trial, searched = test_capacity_page.trial, test_capacity_page.searched
        rows = [
            trial(i, 100 * i, loss=max(0.0, (i - 5) / 20), position=p) for p in (0, 400) for i in range(1, 9)
        ]
        predicted = CapacityPrediction(test_capacity_page.GOAL, 400, 2625, 262_500.0, 264_000.0, 218.0)
        found = test_capacity_page.findings(rows, search=(searched(500),), predicted=(predicted,))
        return tell_capacity(replace(found, manifest={**found.manifest, **dated}))

    def failover() -> Story:
        switch = test_failover_page.switch
        rows = [
            switch(1, 350),
            switch(2, 360),
            switch(3, 20, "soft", lost=0),
            switch(4, 13_000, sharing="off"),
        ]
        found = test_failover_page.campaign(*rows)
        return tell_failover(replace(found, manifest={**found.manifest, **dated}))

    def monitor() -> Story:
        evidence = test_monitor_page.made(folder, test_monitor_page.FOUND)
        return tell_monitor(replace(evidence, manifest={**evidence.manifest, **dated}))

    def search() -> Story:
        point, found = test_search_page.point, test_search_page.found
        points = [point(found(700e3, 710e3)), point(found(250e3, 252e3), size="1518")]
        searched = test_search_page.searched(points)
        return tell_search(replace(searched, manifest={**searched.manifest, **dated}))

    def rfc2544() -> Story:
        results = [test_search_page.result("64"), test_search_page.result("512")]
        tested = test_search_page.of_rfc2544(results)
        return tell_rfc2544(replace(tested, manifest={**tested.manifest, **dated}))

    def calls() -> Story:
        table = test_calls_page.make_call_table(12)
        table.mos[:] = [4.0 + 0.03 * i for i in range(len(table.mos))]
        record = replace(test_calls_page.make_record(), calls=table)
        told = test_calls_page.page(folder, record)
        return replace(told, manifest={**told.manifest, **dated})

    def quality() -> Story:
        found = assessed(capture_quality(pcap(folder / "calls.pcap", frames(streams(4, 2)))))
        return tell_quality(replace(found, date=DATE), command="weir quality calls.pcap")

    def trace() -> Story:
        made.write_series(folder / "series", segments=300)
        file = {**made.files(1)[0], "path": "x/made.pcap"}
        told = tell_trace(
            Trace(made.analysis([made.connection(0)], capture={"files": [file]}), folder / "series"),
            connection=0,
        )
        assert told.made_from is not None
        assert told.made_from.date == "2026-01-31"
        return replace(told, made_from=replace(told.made_from, date=DATE))

    def voice() -> Story:
        network = PlanNetwork(load_plan(ready.find(Path("campus"))), date.fromisoformat(DATE))
        lab = FakeLab(network, folder, unheard=frozenset({"office"}))
        proved = [proof_of(lab, call) for call in planned(network, fall_back=True)]
        found = ProofFindings("campus", tuple(row for row, _ in proved), partly=False)
        manifest = {
            "facts": {"lab": "netns", "dut": "voice routing"},
            "scenario": {},
            "host": "here",
            **dated,
        }
        return tell_voice(found, [message for _, listed in proved for message in listed], manifest)

    def parallel() -> Story:
        run = test_parallel_study.run(
            Store(folder / "parallel"), FakeParallelBed(), test_parallel_study.scenario(repetitions=1)
        ).run
        return replace(ParallelStudy().page(run), manifest={**vars(run.manifest), **dated})

    def voice_load() -> Story:
        scenario = {"plan": "campus", "trial_s": 1.0, "trials": 1, "width": 0.3, "media_calls": 1}
        study = VoiceLoadStudy(lambda network, talk_s: FakeLoadLab(network, folder))
        asked = from_plain({"name": "here", "voice_load": scenario, "report": None}, "here", LoadScenario)
        outcome = runner.run(study, asked, Work(Store(folder / "load"), SilentProgress()))
        return tell_load(outcome.found, {**vars(outcome.run.manifest), **dated})

    def endpoints() -> Story:
        run = test_endpoints_study.run(
            Store(folder / "endpoints"), FakeEndpoints(), test_endpoints_study.scenario()
        ).run
        return replace(EndpointsStudy().page(run), manifest={**vars(run.manifest), **dated})

    return {
        "profile": profile,
        "capacity": capacity,
        "failover": failover,
        "monitor": monitor,
        "search": search,
        "rfc2544": rfc2544,
        "calls": calls,
        "quality": quality,
        "trace": trace,
        "voice": voice,
        "parallel": parallel,
        "voice_load": voice_load,
        "endpoints": endpoints,
    }
