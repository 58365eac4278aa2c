from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.traffic.calls.signalling import PROBE_BYTES, sip
from weirlab.traffic.calls.signalling.sip import Party, SipCall

CALL = SipCall(7, Party("198.18.0.5", 20_014), Party("198.19.0.5", 20_014), 0, "PCMU/8000", 20)


def parts(payload: bytes) -> tuple[str, dict[str, str], bytes]:
    """Start line, headers and what stands behind them."""
    head, _, rest = payload.partition(b"\r\n\r\n")
    start, *lines = head.decode().split("\r\n")
    return start, dict(line.split(": ", 1) for line in lines), rest


def test_a_dialog_goes_back_and_forth_as_in_rfc_3261() -> None:
    found = [(m.from_caller, m.name, parts(m.payload)[0]) for m in sip.dialog(CALL, 1000)]
    assert found == [
        (True, "INVITE", "INVITE sip:b7@198.19.0.5 SIP/2.0"),
        (False, "100", "SIP/2.0 100 Trying"),
        (False, "180", "SIP/2.0 180 Ringing"),
        (False, "200", "SIP/2.0 200 OK"),
        (True, "ACK", "ACK sip:b7@198.19.0.5:5060 SIP/2.0"),
        (True, "BYE", "BYE sip:b7@198.19.0.5:5060 SIP/2.0"),
        (False, "200", "SIP/2.0 200 OK"),
    ]


def test_times_ascend_and_the_call_lasts_as_long_as_wanted() -> None:
    messages = sip.dialog(CALL, 1000)
    times = [m.at_ms for m in messages]
    assert times == sorted(times)
    assert times[5] - times[4] == 1000
    assert max(times[:5]) < sip.SET_UP_MS


@pytest.mark.parametrize("message", sip.dialog(CALL, 1000), ids=lambda m: str(m.name))
def test_bytes_for_the_probe_lie_behind_the_body(message: sip.SignallingMessage) -> None:
    _, headers, rest = parts(message.payload)
    body = int(headers["Content-Length"])
    assert len(rest) >= body + PROBE_BYTES
    assert rest[-PROBE_BYTES:] == bytes(PROBE_BYTES)
    assert b"\0" not in rest[:-PROBE_BYTES]


def test_one_dialog_has_one_call_id_and_the_same_tags_once_the_callee_has_answered() -> None:
    headers = [parts(m.payload)[1] for m in sip.dialog(CALL, 1000)]
    assert len({h["Call-ID"] for h in headers}) == 1
    assert len({h["From"] for h in headers}) == 1
    assert ["tag=" in h["To"] for h in headers] == [False, False, True, True, True, True, True]
    assert len({h["To"] for h in headers[2:]}) == 1


def test_every_transaction_has_a_branch_and_a_number_of_its_own() -> None:
    headers = [parts(m.payload)[1] for m in sip.dialog(CALL, 1000)]
    branches = [h["Via"].partition("branch=")[2] for h in headers]
    assert all(branch.startswith("z9hG4bK") for branch in branches)
    assert branches[0] == branches[1] == branches[2] == branches[3]
    assert branches[5] == branches[6]
    assert len({branches[0], branches[4], branches[5]}) == 3
    assert [h["CSeq"] for h in headers] == [*["1 INVITE"] * 4, "1 ACK", "2 BYE", "2 BYE"]


def test_offer_and_answer_say_where_each_side_wants_its_speech() -> None:
    call = replace(CALL, callee=Party("198.19.0.5", 20_100), payload_type=96, encoding="opus/48000/2")
    invite, answer = (
        parts(m.payload)[2].decode("latin-1") for m in sip.set_up(call) if m.name in ("INVITE", "200")
    )
    assert "c=IN IP4 198.18.0.5\r\n" in invite
    assert "m=audio 20014 RTP/AVP 96\r\na=rtpmap:96 opus/48000/2\r\na=ptime:20\r\n" in invite
    assert "c=IN IP4 198.19.0.5\r\n" in answer
    assert "m=audio 20100 RTP/AVP 96\r\n" in answer


@pytest.mark.parametrize(
    ("directions", "offered", "answered"),
    [("both", "sendrecv", "sendrecv"), ("forward", "sendonly", "recvonly"), ("back", "recvonly", "sendonly")],
)
def test_who_does_not_talk_says_so(directions: str, offered: str, answered: str) -> None:
    call = replace(CALL, directions=directions)
    invite, answer = (
        parts(m.payload)[2].decode("latin-1") for m in sip.set_up(call) if m.name in ("INVITE", "200")
    )
    assert f"a={offered}\r\n" in invite
    assert f"a={answered}\r\n" in answer


def test_addresses_of_ip_version_6_stand_in_brackets_but_not_in_sdp() -> None:
    call = replace(CALL, caller=Party("2001:2:0:1::5", 20_014), callee=Party("2001:2:0:2::5", 20_014))
    start, headers, body = parts(sip.set_up(call)[0].payload)
    assert start == "INVITE sip:b7@[2001:2:0:2::5] SIP/2.0"
    assert headers["Via"].startswith("SIP/2.0/UDP [2001:2:0:1::5]:5060;")
    assert b"c=IN IP6 2001:2:0:1::5\r\n" in body


def test_the_same_call_gives_the_same_bytes_and_another_one_others() -> None:
    assert sip.dialog(CALL, 1000) == sip.dialog(replace(CALL), 1000)
    ids = {
        parts(sip.set_up(call)[0].payload)[1]["Call-ID"]
        for call in (CALL, replace(CALL, number=8), replace(CALL, seed=2))
    }
    assert len(ids) == 3
