"""Calls between SIP, H.323 and MGCP through real gateways and gatekeepers; they start once for most tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from weirlab.errors import LabError
from weirlab.studies.voice.lab import VoiceLab, chroot, engines
from weirlab.studies.voice.lab.loading import LoadingLab
from weirlab.studies.voice.load.study import trial
from weirlab.studies.voice.load.targets import chosen
from weirlab.studies.voice.plan import load, ready
from weirlab.studies.voice.plan.model import Engine
from weirlab.studies.voice.proof.calling import made
from weirlab.studies.voice.proof.planned import Planned, planned
from weirlab.studies.voice.proof.rows import AS_PLANNED
from weirlab.studies.voice.routing import Network
from weirlab.studies.voice.section import Load

pytestmark = pytest.mark.netns

DAY = date(2026, 11, 23)


@pytest.fixture(scope="module", autouse=True)
def _needs_engines() -> None:
    """Hundreds of megabytes are nothing that a test fetches."""
    keeper = Engine(kind="gatekeeper")
    if missing := engines.lacking([*engines.PACKAGES]) or chroot.missing() or engines.impossible(keeper):
        pytest.skip(missing)


@pytest.fixture(scope="module")
def translations(_needs_engines: None) -> Iterator[VoiceLab]:
    with VoiceLab(_network("translations"), 0.3) as opened:
        yield opened


@pytest.fixture(scope="module")
def loaded(_needs_engines: None) -> Iterator[LoadingLab]:
    with LoadingLab(_network("translations"), 3.0) as opened:
        yield opened


def _network(name: str) -> Network:
    return Network(load(ready.FOLDER / f"{name}.yaml"), DAY)


def call(net: Network, number: str, down: str | None = None, fault: str = "off") -> Planned:
    return next(
        each
        for each in planned(net, fall_back=True)
        if (each.test.number, each.down, each.fault) == (number, down, fault)
    )


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("+420303000001", "INVITE +420303000001"),  # SIP to SIP, another codec
        ("+420302000001", "NTFY L/hd"),  # SIP to MGCP
        ("+420401000001", "LRQ 420401000001"),  # SIP to H.323 to SIP by two gatekeepers
        ("+420402000001", "Setup 420402000001"),  # SIP to H.323 to MGCP
        ("+420401000002", "NTFY D/4"),  # MGCP to H.323 to SIP
        ("+420555000000", "404 Not Found"),
    ],
)
def test_a_call_is_translated_as_planned_with_speech_both_ways(
    translations: VoiceLab, number: str, message: str
) -> None:
    wanted = call(translations.network, number)
    row, messages = made(translations, wanted)
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert (row.way, row.decided) == (row.way_planned, row.decided_planned)
    assert message in [each.text for each in messages]
    if wanted.answered:
        assert row.setup_ms > 0
        assert row.there_packets > 0
        assert row.back_packets > 0


def test_a_gateway_falls_back_to_another_protocol(translations: VoiceLab) -> None:
    row, _ = made(translations, call(translations.network, "+420304000001", "desk", "503"))
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert row.way == "phone > gw-west > fax"
    assert row.tried == "gw-west > desk: 503"


@pytest.mark.parametrize("title", ["gatekeeper of gk-west", "asterisk of gw-west"])
def test_an_engine_that_dies_is_named_with_its_end(title: str) -> None:
    net = _network("translations")
    with VoiceLab(net, 0.3) as lab:
        assert lab._machine is not None
        lab._machine.signal(title, signal.SIGKILL)
        with pytest.raises(LabError, match=rf"{title} ended by itself \(signal 9\); its last words: "):
            made(lab, call(net, "+420401000001"))


@pytest.mark.parametrize("translation", ["SIP to SIP", "SIP to H.323 to SIP"])
def test_many_calls_are_translated_while_one_speaks(loaded: LoadingLab, translation: str) -> None:
    targets = chosen(loaded.network, planned(loaded.network, fall_back=False))
    target = next(each for each in targets if each.translation == translation)
    asked = Load(plan=Path("translations"), trial_s=4.0, media_calls=1)
    row, work = trial(loaded, target.planned, asked, 0, 5)
    assert (row.number, row.rate_per_s, row.calls) == (target.number, 5, 20)
    assert row.failed + row.slow <= row.calls
    assert row.media_calls == 1
    assert row.media_jitter_ms >= 0
    assert {"gw-west", "gw-east", "gk-west", "gk-east", "sipp"} == {each.engine for each in work}


def test_enum_leads_to_a_gateway_and_through_gatekeepers_to_another() -> None:
    net = _network("federation")
    with VoiceLab(net, 0.3) as lab:
        row, messages = made(lab, call(net, "+420950051123"))
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert row.way == "phone > core > gw-a > gk > gw-b > exchange"
    assert row.decided == "core: public; gw-a: static; gk: public; gw-b: static"
    assert "ARQ 420950051123" in [each.text for each in messages]
