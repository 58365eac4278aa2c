"""Proof by calls, in a lab that only pretends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from weirlab.numbering.fakes import FakeLab
from weirlab.numbering.proof import findings, page, ways
from weirlab.numbering.proof.calling import MAX_ATTEMPTS, made
from weirlab.numbering.proof.findings import NOT_AS_PLANNED, UNEVEN_MS, ProofFindings
from weirlab.numbering.proof.study import VoiceStudy
from weirlab.numbering.proof.ways import CallHistory, ProofCall, planned
from weirlab.numbering.proof.wire import signalling
from weirlab.numbering.proof.wire.packets import TransportAddress
from weirlab.numbering.proof.wire.signalling import CallLeg
from weirlab.numbering.routing import PlanNetwork
from weirlab.store import Store
from weirlab.studies.registry import studies

from ..conftest import Voice
from ..plans import network, ready_network

NUMBER = "+420111222001"
RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mapping[str, object]:
    """How the lab behaves; tests change it."""
    behaviour: dict[str, object] = {}

    def opened(net: PlanNetwork, talk_s: float) -> FakeLab:
        return FakeLab(net, tmp_path, **behaviour)  # type: ignore[arg-type]

    monkeypatch.setitem(studies(), "voice", VoiceStudy(opened))
    monkeypatch.setenv("WEIR_STORE", str(tmp_path / "store"))
    return behaviour


def call(number: str, down: str | None = None) -> tuple[PlanNetwork, ProofCall]:
    net = ready_network("campus")
    found = planned(net, fall_back=True)
    return net, next(each for each in found if each.test.number == number and each.down == down)


def test_a_call_while_its_preferred_engine_fails_follows_the_one_while_it_does_not() -> None:
    found = [
        (each.test.number, each.down, each.fault, each.answer, each.way.engines[-1])
        for each in planned(call(NUMBER)[0], fall_back=True)
    ]
    at = found.index(("+420111444001", None, "off", 200, "desk"))
    assert found[at + 1 : at + 4] == [
        ("+420111444001", "desk", "off", 200, "voicemail"),
        ("+420111444001", "desk", "503", 200, "voicemail"),
        ("+420111444001", "desk", "486", 486, "desk"),
    ]
    # A proxy is switched off, and never busy.
    assert [each[2] for each in found if each[1] == "branch"] == ["off"]
    assert [each.index for each in planned(call(NUMBER)[0], fall_back=True)] == [*range(len(found))]
    assert all(each.down is None for each in planned(call(NUMBER)[0], fall_back=False))


def test_calls_that_need_a_gateway_say_so() -> None:
    found = {
        each.test.number: each.impossible for each in planned(ready_network("federation"), fall_back=False)
    }
    assert found["+420950052123"] == (
        "the lab has no program for gw-a: it is a gateway, and Asterisk is not installed: weir voice install"
    )
    assert found["+420224355289"] == ""


def leg(source: str, target: str, at: int, answer: int = 0) -> CallLeg:
    net = call(NUMBER)[0]
    here, there = (TransportAddress(str(net.plan.engines[name].address), 5060) for name in (source, target))
    offered = ("alaw", "ulaw")
    return CallLeg(at, here, there, "1", f"{source}{target}", "sip:x", offered, answer, at + 100, offered)


def log(*lines: str) -> str:
    return "\n".join(f" 4(812) NOTICE: <script>: {line}" for line in lines)


def test_the_way_is_the_one_that_was_answered_and_the_others_were_tried() -> None:
    net, wanted = call("+420111444001", "desk")
    legs = [leg("phone", "core", 0, 200), leg("core", "desk", 1), leg("core", "voicemail", 2, 200)]
    found = ways.taken(
        net, wanted, legs, {"core": log("ROUTE num=+420111444001 via=static target=sip:x|sip:y")}
    )
    assert found.engines == ("phone", "core", "voicemail")
    assert found.tried == ("core > desk: no answer",)
    assert found.decisions == {"core": "static"}
    assert (found.answer, found.end, found.setup_ns, found.codec) == (200, "voicemail", 100, "alaw")
    assert ways.differences(wanted, found) == []


def test_a_call_that_goes_astray_says_how_it_differs() -> None:
    net, wanted = call(NUMBER)
    legs = [leg("phone", "core", 0, 200), leg("core", "desk", 1, 200)]
    found = ways.taken(net, wanted, legs, {"core": log(f"ROUTE num={NUMBER} via=private target=sip:x")})
    assert ways.differences(wanted, found) == [
        "way phone > core > desk instead of phone > core > cyrus",
        "core went by private instead of public",
        "the test requires that cyrus answers",
        "the test requires a decision by public",
    ]


def test_the_reason_of_a_failed_call_names_the_number_that_an_engine_got() -> None:
    net, wanted = call("+420111555001")
    first = replace(leg("phone", "core", 0, 484), uri="sip:+420111555001@core")
    lost = replace(leg("core", "branch", 1, 484), uri="sip:420111555001;x=y@branch")
    found = ways.taken(net, wanted, [first, lost], {})
    assert found.numbers == ("+420111555001", "420111555001")
    assert ways.differences(wanted, found)[-1] == "branch got 420111555001, without its +"
    other = replace(lost, uri="sip:+420@branch")
    found = ways.taken(net, wanted, [first, other], {})
    assert ways.differences(wanted, found)[-1] == "branch got +420 instead of +420111555001"


def test_another_number_on_the_way_of_the_plan_is_not_as_planned() -> None:
    net, wanted = call("+420111555001")
    way = wanted.way.engines
    legs = [replace(leg(here, there, at, 200), uri=f"sip:+420111555001@{there}")
            for at, (here, there) in enumerate(pairwise(way))]  # fmt: skip
    logs = {name: log(f"ROUTE num=+420111555001 via={by} target=x") for name, by in wanted.decisions.items()}
    assert ways.differences(wanted, ways.taken(net, wanted, legs, logs)) == []
    for uri in ("sip:+420111555002@x", "sip:420111555001@x"):
        found = ways.taken(net, wanted, [*legs[:-1], replace(legs[-1], uri=uri)], logs)
        (difference,) = ways.differences(wanted, found)
        assert difference.startswith(f"{way[-1]} got {uri[4:-2]}")


@pytest.mark.parametrize(("got", "same"), [("420401000001", True), ("420401000002", False)])
def test_h323_is_compared_by_its_digits(got: str, same: bool) -> None:
    net = ready_network("translations")
    wanted = next(each for each in planned(net, fall_back=False) if each.test.number == "+420401000001")
    numbers = tuple(
        each.number_on_wire if each.facts["protocol"] == "sip" else got for each in wanted.way.legs
    )
    found = CallHistory(wanted.way.engines, (), wanted.decisions, wanted.answer, 1, None, numbers=numbers)
    assert (ways.differences(wanted, found) == []) == same


def test_an_answer_instead_of_a_refusal_is_not_blamed_for_silence(tmp_path: Path) -> None:
    net, wanted = call(NUMBER)
    refused = replace(wanted, fault="486")
    row = made(FakeLab(net, tmp_path, mute=frozenset({"phone"})), refused)[0]
    assert row.why.startswith("answer 200 instead of 486")
    assert "speech" not in row.why


def test_a_worse_mos_than_others_of_the_codec_have_is_the_machines(tmp_path: Path) -> None:
    net, wanted = call(NUMBER)
    row = replace(made(FakeLab(net, tmp_path), wanted)[0], there_mos=4.38, back_mos=4.36)
    worse = replace(row, back_mos=3.88)
    assert ProofFindings("campus", (row, worse), partly=False).uneven == [worse]
    assert (
        ProofFindings("campus", (row, replace(worse, codec="g729", there_mos=3.88)), partly=False).uneven
        == []
    )


def test_a_refused_call_ends_where_it_was_refused() -> None:
    net, wanted = call("+420111777000")
    found = ways.taken(
        net, wanted, [leg("phone", "core", 0, 404)], {"core": log("ROUTE num=+420111777000 via=none")}
    )
    assert (found.engines, found.answer, found.decisions, found.end) == (("phone", "core"), 404, {}, None)
    assert ways.differences(wanted, found) == []


def test_a_loop_ends_the_way() -> None:
    net, wanted = call(NUMBER)
    legs = [leg("phone", "core", 0, 482), leg("core", "branch", 1, 482), leg("branch", "core", 2, 482)]
    assert ways.taken(net, wanted, legs, {}).engines == ("phone", "core", "branch", "core")


def test_a_call_that_comes_again_with_another_number_is_followed_to_its_end() -> None:
    net, wanted = call(NUMBER)

    def between(source: str, target: str, at: int, answered: int, answer: int = 200) -> CallLeg:
        return replace(leg(source, target, at, answer), answered_ns=answered)

    spiral = [
        between("phone", "core", 0, 90),
        between("core", "branch", 10, 80),
        between("branch", "core", 20, 70),
        between("core", "desk", 30, 60),
    ]
    assert ways.taken(net, wanted, spiral, {}).engines == ("phone", "core", "branch", "core", "desk")
    refused = [replace(each, answer=486) for each in spiral]
    assert ways.taken(net, wanted, refused, {}).engines == ("phone", "core", "branch", "core", "desk")
    # The first visit's next target, after the second visit has failed.
    failed = [
        between("phone", "core", 0, 90),
        between("core", "branch", 10, 50, 503),
        between("branch", "core", 20, 40, 503),
        between("core", "desk", 25, 35, 503),
        between("core", "voicemail", 60, 80),
    ]
    assert ways.taken(net, wanted, failed, {}).engines == ("phone", "core", "voicemail")


def test_a_caller_that_sends_nothing_is_no_result() -> None:
    net, wanted = call(NUMBER)
    with pytest.raises(ways.MissingCall):
        ways.taken(net, wanted, [], {})


def test_a_test_number_that_contradicts_its_plan_is_not_proved() -> None:
    net, wanted = call(NUMBER)
    legs = [leg("phone", "core", 0, 200), leg("core", "cyrus", 1, 200)]
    found = ways.taken(net, wanted, legs, {"core": log(f"ROUTE num={NUMBER} via=public target=sip:x")})
    other = replace(wanted, test=wanted.test.model_copy(update={"ends_at": "desk", "via": "private"}))
    assert ways.differences(other, found) == [
        "the test requires that desk answers",
        "the test requires a decision by private",
    ]


def test_every_call_of_the_campus_is_proved_and_kept(voice: Voice, fake: Mapping[str, object]) -> None:
    answer = voice("prove", "campus", "--json")
    assert answer.code == 0, answer.err
    document = answer.json
    assert document["proved"] is True
    assert {row["verdict"] for row in document["calls"]} == {"as planned"}
    first, forged = (row for row in document["calls"] if row["number"] == NUMBER)
    assert (forged["way"], forged["answer"]) == ("phone > core", 481)
    assert (first["way"], first["decided"], first["codec"]) == (
        "phone > core > cyrus",
        "core: public",
        "alaw",
    )
    assert (first["there_packets"], first["back_packets"], first["there_lost"]) == (50, 50, 0)
    assert first["there_mos"] > 4
    assert first["setup_ms"] == 3.0


def test_a_call_that_goes_astray_makes_the_exit_code_9(
    voice: Voice, fake: dict[str, object], tmp_path: Path
) -> None:
    fake["astray"] = {NUMBER: ("phone", "core", "desk")}
    answer = voice("prove", "campus")
    assert answer.code == 9
    assert f"1 call did not go as planned: {NUMBER}: way phone > core > desk instead of" in answer.err
    assert "19 of 20 calls went as the plan campus says; 18 of 23 kinds of routes are proved." in answer.out
    run = Store(tmp_path / "store").open("last")
    story = VoiceStudy().page(run)
    assert story.answer == "19 of 20 calls went as the plan campus says; 18 of 23 kinds of routes are proved."
    assert story.lede[0].startswith(f"{NUMBER}: way phone > core > desk instead of phone > core > cyrus")
    assert [tile.value for tile in story.tiles[:3]] == ["19 of 20", "18 of 23", "3.00 ms"]
    assert [chapter.key for chapter in story.chapters] == ["calls", "kinds", "map", "ladders"]
    assert len(story.chapters[3].figures) == 20
    page = story.html()
    assert 'id="way-0"' in page
    assert ".map:has(#way-0:checked) .w0" in page


def test_a_bad_mos_without_a_device_between_is_the_machines(tmp_path: Path) -> None:
    net, wanted = call(NUMBER)
    row, _ = made(FakeLab(net, tmp_path), wanted)
    assert row.jitter_ms < UNEVEN_MS
    busy = replace(row, there_jitter_ms=41.0, there_mos=1.07)
    found = ProofFindings("campus", (row, busy), partly=False)
    assert found.uneven == [busy]
    assert "This machine was busy: MOS of 1 call, with a jitter of up to 41.0 ms," in found.sentence
    cells = [row[-1] for row in findings.media(found.rows, found.uneven).rows]
    assert cells[2] == "1.07 (busy machine)"
    assert [cell.endswith("(busy machine)") for cell in cells] == [False, False, True, True]
    assert "1.07 (busy machine)" in findings.acceptance(found.rows, found.uneven).rows[1]
    # A device between the endpoints may have delayed it.
    through = replace(found, device="a firewall")
    assert (through.uneven, "busy" in through.sentence) == ([], False)


def test_speech_that_does_not_arrive_is_not_as_planned(tmp_path: Path) -> None:
    net, wanted = call(NUMBER)
    lab = FakeLab(net, tmp_path, unheard=frozenset({"cyrus"}))
    row, _ = made(lab, wanted)
    assert (row.verdict, row.why) == (NOT_AS_PLANNED, "no speech from callee to caller")
    assert len(lab.called) == 1


def test_a_call_in_which_an_endpoint_does_not_talk_is_made_again(tmp_path: Path) -> None:
    net, wanted = call(NUMBER)
    lab = FakeLab(net, tmp_path, mute=frozenset({"cyrus"}))
    row, messages = made(lab, wanted)
    assert (row.verdict, row.why) == (NOT_AS_PLANNED, "cyrus sent no speech")
    assert len(lab.called) == MAX_ATTEMPTS
    assert len(messages) == 4


def test_what_cannot_be_tried_is_not_proved_unless_it_is_left_out(
    voice: Voice, fake: dict[str, object]
) -> None:
    whole = voice("prove", "federation", "--no-fall-back")
    assert whole.code == 9
    assert "3 calls could not be tried: the lab has no program for gw-a: it is a gateway" in whole.err
    assert "--partly leaves such calls out" in whole.err
    partly = voice("prove", "federation", "--no-fall-back", "--partly", "--json")
    assert partly.code == 0
    assert partly.json["proved"] is True
    assert "3 calls could not be tried" in partly.json["conclusion"]


def test_a_plan_without_test_numbers_cannot_be_proved(
    voice: Voice, fake: dict[str, object], tmp_path: Path
) -> None:
    from ..plans import changed

    plan = tmp_path / "plan.yaml"
    plan.write_text(changed(('tests:\n  - {number: "+420111000001", via: public, ends_at: desk}\n', "")))
    answer = voice("prove", plan)
    assert answer.code == 2
    assert "the plan has no test numbers" in answer.err


def test_a_ladder_has_an_arrow_per_message_between_lanes() -> None:
    net, wanted = call(NUMBER)
    frames = FakeLab(net, Path()).call("phone", NUMBER, 200, {})
    listed = signalling.messages(frames)
    assert [message.title for message in listed] == [
        f"INVITE {NUMBER}",
        f"INVITE {NUMBER}",
        "200 OK",
        "200 OK",
    ]
    from weirlab.numbering.proof.calling import _rows

    rows = _rows(net, wanted.index, listed)
    assert page.lanes(rows) == ["phone", "core", "cyrus"]
    drawn = page.ladder_rows(rows)
    assert drawn.select("from", "to").rows() == [(0, 1), (1, 2), (2, 1), (1, 0)]
    assert drawn["rightward"].to_list() == [True, True, False, False]
    page.ladder(drawn, page.lanes(rows)).to_dict()


def test_the_small_plan_is_called_where_its_name_server_says() -> None:
    assert ways.named(network(), TransportAddress("192.0.2.2", 5060)) == "core"
    assert ways.named(network(), TransportAddress("192.0.2.99", 5060)) == "192.0.2.99"


def test_the_plan_may_be_named_as_an_argument_but_not_twice(voice: Voice, fake: dict[str, object]) -> None:
    assert voice("prove", "campus", "--no-fall-back").code == 0
    answer = voice("prove", "campus", "--plan", "carriers")
    assert answer.code == 2
    assert "--plan carriers and campus: name one plan" in answer.err


def test_a_name_server_that_lies_spoils_a_call_that_goes_as_planned_otherwise(tmp_path: Path) -> None:
    net, wanted = call(NUMBER)
    name = next(str(step.facts["asked"]) for step in wanted.way.steps if step.what == "tree").rstrip(".")
    lie = net.plan.enum[0]
    row, _ = made(FakeLab(net, tmp_path, lies={f"{name}.": lie}), wanted)
    assert row.verdict == NOT_AS_PLANNED
    assert row.why.startswith("named answers E2U+sip !^\\+(.*)$!sip:+\\1@office.campus.example! for ")


def test_what_a_callee_accepts_and_nobody_offered_is_told() -> None:
    net, wanted = call(NUMBER)
    other = replace(leg("phone", "core", 0, 200), codecs=("g729",))
    found = ways.taken(net, wanted, [other, leg("core", "cyrus", 1, 200)], {"core": ""})
    assert "codec g729, which was not offered, instead of alaw" in ways.differences(wanted, found)
