"""Calls between SIP, H.323 and MGCP through real gateways and gatekeepers; they start once for most tests."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path

import pytest

from weirlab.base.errors import LabError
from weirlab.numbering.configs import configs
from weirlab.numbering.lab import VoiceLab, chroot, engines
from weirlab.numbering.lab.loading import LoadTestLab
from weirlab.numbering.load.study import trial
from weirlab.numbering.load.trials import chosen
from weirlab.numbering.plan import load, loads, ready
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.proof.calling import made
from weirlab.numbering.proof.findings import AS_PLANNED
from weirlab.numbering.proof.ways import ProofCall, planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import LoadSection

pytestmark = pytest.mark.netns

DAY = date(2026, 11, 23)
SPEECH_S = 2.0
"""Gateways may take some time after the answer before speech passes both ways."""


@pytest.fixture(scope="module", autouse=True)
def _needs_engines() -> None:
    """Hundreds of megabytes are nothing that a test fetches."""
    keeper = Engine(kind="gatekeeper")
    if missing := engines.lacking([*engines.PACKAGES]) or chroot.missing() or engines.impossible(keeper):
        pytest.skip(missing)


@pytest.fixture(scope="module")
def translations(_needs_engines: None) -> Iterator[VoiceLab]:
    with VoiceLab(_network("translations"), SPEECH_S) as opened:
        yield opened


@pytest.fixture(scope="module")
def loaded(_needs_engines: None) -> Iterator[LoadTestLab]:
    with LoadTestLab(_network("translations"), 3.0) as opened:
        yield opened


def _network(name: str) -> PlanNetwork:
    return PlanNetwork(load(ready.FOLDER / f"{name}.yaml"), DAY)


def call(net: PlanNetwork, number: str, down: str | None = None, fault: str = "off") -> ProofCall:
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
        ("+420307000001", "OLC alaw"),  # SIP to a telephone of H.323, channels by H.245
        ("+420301000004", "ARQ 420301000004"),  # the other direction
        ("+420302000003", "NTFY L/hd"),  # a telephone of H.323 to MGCP
        ("+420308000001", "Setup 420308000001"),  # H.323 directly, by fast connect
        ("+420407000001", "LRQ 420407000001"),  # H.323 directly, by two gatekeepers
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
        if "mgcp" not in translations.network.plan.engines[row.caller].speaks:
            assert row.codec == "alaw"


@pytest.mark.parametrize(
    ("number", "answer", "message"),
    [
        ("+420900000001", 403, "ARJ"),  # barred by a gatekeeper
        ("+420900000002", 403, "403 Forbidden"),  # barred by a gateway
        ("+420407000003", 403, "LRJ"),  # a gatekeeper that does not admit who its neighbour says is calling
        ("+420401000004", 403, "403 Forbidden"),  # a gateway that does not admit its caller
        ("+420308000003", 503, "ARJ"),  # a third call at a gatekeeper
        ("+420301000005", 503, "Release Complete cause 34"),  # and at a gateway
    ],
)
def test_a_call_that_the_rules_forbid_is_refused_by_the_engine_of_the_plan(
    translations: VoiceLab, number: str, answer: int, message: str
) -> None:
    row, messages = made(translations, call(translations.network, number))
    assert (row.verdict, row.why, row.answer) == (AS_PLANNED, "", answer)
    assert message in [each.text for each in messages]


def test_threads_that_take_calls_by_h323_go_before_the_threads_of_these_calls(translations: VoiceLab) -> None:
    assert translations._machine is not None
    for daemon in translations.daemons:
        if daemon.program == "asterisk":
            threads = engines.takers(translations._machine.run(engines.listing(daemon.file))[1])
            assert len(threads) == 2
            for thread in threads:
                policy = translations._machine.run(("chrt", "--pid", thread))[1][0].partition(": ")[2]
                assert policy in ("SCHED_RR|SCHED_RESET_ON_FORK", "SCHED_BATCH")


def test_gatekeepers_know_whatever_gateways_send_them(translations: VoiceLab) -> None:
    row, messages = made(translations, call(translations.network, "+420401000001"))
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert "ACF" in [each.text for each in messages]
    for name in ("gk-west", "gk-east"):
        assert "is not known here" not in translations.output(name)


def test_nonsense_disturbs_neither_telephones_nor_gatekeepers(translations: VoiceLab) -> None:
    def talk_nonsense() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            for content in (b"", b"\xff" * 40, b"GET / HTTP/1.1\r\n\r\n"):
                datagrams.sendto(content, ("10.95.0.51", 1719))
        with socket.create_connection(("10.95.0.71", 1720)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)

    translations.at("phone").call(talk_nonsense)
    row, _ = made(translations, call(translations.network, "+420308000001"))
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    told = [("gk-west", "no message of H.225.0 RAS"), ("studio", "10.95.0.20 sent no TPKT: 47 45 54 20")]
    for name, words in told:
        said = partial(_says, translations, name, words)
        translations.until(said, f"{name} says nothing of it", name)


def _says(lab: VoiceLab, name: str, words: str) -> bool:
    return words in lab.output(name)


def test_a_gateway_falls_back_to_another_protocol(translations: VoiceLab) -> None:
    row, _ = made(translations, call(translations.network, "+420304000001", "desk", "503"))
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert row.way == "phone > gw-west > fax"
    assert row.tried == "gw-west > desk: 503"


@pytest.mark.parametrize(("number", "caller"), [("+420304000002", "door"), ("+420304000003", "annex")])
def test_a_line_and_a_telephone_of_h323_learn_that_the_callee_is_busy(
    translations: VoiceLab, number: str, caller: str
) -> None:
    row, messages = made(translations, call(translations.network, number, "desk", "486"))
    assert (row.verdict, row.why, row.caller, row.answer) == (AS_PLANNED, "", caller, 486)
    assert ("RQNT L/bz" if caller == "door" else "Release Complete cause 17") in [
        each.text for each in messages
    ]


TELEPHONES = """\
plan: telephones
caller: phone
engines:
  gw: {kind: gateway, protocols: [sip, h323], address: 10.96.0.41, codecs: [alaw]}
  phone: {kind: endpoint, protocols: [sip], address: 10.96.0.20, codecs: [alaw], home: gw}
  desk: {kind: endpoint, protocols: [sip], address: 10.96.0.30, codecs: [alaw], home: gw}
  annex: {kind: endpoint, protocols: [h323], address: 10.96.0.70, codecs: [alaw], home: gw}
routes:
  - {at: gw, prefix: "+4201", to: [annex, desk]}
tests:
  - {number: "+420100000001", ends_at: annex}
"""
"""A gateway without a gatekeeper: it calls the telephone of H.323 by itself."""


def test_a_telephone_that_refuses_leads_to_the_fall_back_and_one_that_is_busy_or_off_as_planned() -> None:
    net = PlanNetwork(loads(TELEPHONES), DAY)
    taken = {}
    with VoiceLab(net, 0.3) as lab:
        for fault in ("503", "486", "off"):
            row, _ = made(lab, call(net, "+420100000001", "annex", fault))
            assert (row.verdict, row.why) == (AS_PLANNED, "")
            taken[fault] = (row.way, row.tried, row.answer)
    assert taken == {
        "503": ("phone > gw > desk", "gw > annex: 503", 200),
        "486": ("phone > gw > annex", "", 486),
        "off": ("phone > gw > desk", "", 200),
    }


CLOSED = (
    TELEPHONES.replace("engines:\n", "organisations: {own: {admits: []}, other: {}}\nengines:\n")
    .replace("gw: {", "gw: {organisation: own, ")
    .replace("annex: {", "annex: {organisation: other, ")
)


@pytest.mark.parametrize("known", [True, False], ids=["an address of others", "an unknown address"])
def test_a_closed_gateway_refuses_a_call_by_h323(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CLOSED.replace('+420100000001", ends_at: annex', '+420100000001", caller: annex, answer: 403')
    net = PlanNetwork(loads(text.replace("[annex, desk]", "desk")), DAY)

    def unknown(network: PlanNetwork, root: str) -> dict[str, str]:
        """The configurations, but the gateway does not know the telephone's address."""
        found = configs(network, root)
        file = found["gw/ooh323.conf"]
        assert "[annex]\ntype=friend\ncontext=refused" in file
        found["gw/ooh323.conf"] = file if known else file.partition("; <text>:")[0]
        return found

    monkeypatch.setattr("weirlab.numbering.lab.configs", unknown)
    with VoiceLab(net, 0.3) as lab:
        row, messages = made(lab, call(net, "+420100000001"))
    assert (row.verdict, row.why, row.answer) == (AS_PLANNED, "", 403)
    assert "Release Complete cause 21" in [each.text for each in messages]


@pytest.mark.parametrize("title", ["gatekeeper of gk-west", "asterisk of gw-west", "telephone of hall"])
def test_an_engine_that_dies_is_named_with_its_end(title: str) -> None:
    net = _network("translations")
    with VoiceLab(net, 0.3) as lab:
        assert lab._machine is not None
        lab._machine.signal(title, signal.SIGKILL)
        with pytest.raises(LabError, match=rf"{title} ended by itself \(signal 9\); its last output: "):
            made(lab, call(net, "+420401000001"))


@pytest.mark.parametrize("translation", ["SIP to SIP", "SIP to H.323 to SIP"])
def test_many_calls_are_translated_while_one_speaks(loaded: LoadTestLab, translation: str) -> None:
    targets = chosen(loaded.network, planned(loaded.network, fall_back=False))
    target = next(each for each in targets if each.translation == translation)
    asked = LoadSection(plan=Path("translations"), trial_s=4.0, media_calls=1)
    row, work, _ = trial(loaded, target.planned, asked, 0, 5)
    assert (row.number, row.rate_per_s, row.calls) == (target.number, 5, 20)
    assert row.failed + row.slow <= row.calls
    assert row.media_calls == 1
    assert row.media_jitter_ms >= 0
    assert {each.engine for each in work} >= {"gw-west", "gw-east", "gk-west", "gk-east", "sipp"}


def test_enum_leads_to_a_gateway_and_through_gatekeepers_to_another() -> None:
    net = _network("federation")
    with VoiceLab(net, SPEECH_S) as lab:
        row, messages = made(lab, call(net, "+420950051123"))
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert row.way == "phone > core > gw-a > gk > gw-b > exchange"
    assert row.decided == "core: public; gw-a: static; gk: public; gw-b: static"
    assert "ARQ 420950051123" in [each.text for each in messages]
