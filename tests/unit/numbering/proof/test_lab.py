"""What the lab is made of, without running it."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from weirlab import _engine
from weirlab.base import programs
from weirlab.base.errors import InputError, MissingCapability
from weirlab.numbering.configs import sipp
from weirlab.numbering.lab import VoiceLab, engines, probes, switch

from ..plans import network, ready_network


def test_hosts_have_names_of_letters_alone_and_each_its_own() -> None:
    names = switch.parts(800)
    assert names[:2] == ["ha", "hb"]
    assert len(set(names)) == 800
    assert all(name.isalpha() and name.islower() for name in names)


def test_the_ports_of_a_host_are_read_from_the_kernel_s_table() -> None:
    lines = [
        "   37: 0A5D000A:13C4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9 2 0 0",
        f"   12: {'0' * 32}:0035 {'0' * 32}:0000 07 0:0 0:0 0 0 0 9",
    ]
    assert switch._ports(lines) == {5060, 53}


def test_a_name_server_is_asked_for_the_beginning_of_a_zone() -> None:
    asked = probes.question("2.4.e164.arpa.", 258)
    assert asked == bytes.fromhex(
        "0102 0000 0001 0000 0000 0000 0132 0134 0465313634 0461727061 00 0006 0001"
    )


def answer(flags: int, answers: int = 1) -> bytes:
    return struct.pack(">HHHHHH", 7, flags, 1, answers, 0, 0)


@pytest.mark.parametrize(
    ("datagram", "counts"),
    [
        (answer(0x8400), True),
        (answer(0x8402), False),
        (answer(0x8005), False),
        (answer(0x8000), False),
        (answer(0x0400), False),
        (answer(0x8400, 0), False),
        (b"short", False),
    ],
)
def test_only_an_answer_with_authority_counts(datagram: bytes, counts: bool) -> None:
    assert probes.answers(datagram, 7) is counts
    assert not probes.answers(datagram, 8)


@pytest.mark.parametrize("codec", sipp.BYTES)
def test_speech_is_one_stream_without_a_gap(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "speech.pcap"
    file.write_bytes(switch.speech(codec, 1.0))
    (stream,) = _engine.rtp_packets(str(file))["streams"]
    assert (stream["packets"], stream["lost"], stream["jitter_mean_ns"]) == (50, 0, 0.0)
    assert stream["codec"] == sipp.PAYLOADS[codec][1].partition("/")[0]


def test_caller_and_callee_talk_once_the_call_is_up_and_who_is_refused_does_not() -> None:
    net = ready_network("campus")
    calling = switch.talking(sipp.caller(net, "phone", 200), "/x/alaw.pcap", 2.5)
    called = switch.talking(sipp.callee(net, "desk"), "/x/ulaw.pcap", 2.5)
    refused = sipp.caller(net, "phone", 404)
    for text in (calling, called):
        assert ElementTree.fromstring(text).find("nop/action/exec") is not None
    assert [pause.get("milliseconds") for pause in ElementTree.fromstring(calling).iter("pause")] == ["2500"]
    assert (
        calling.index("ACK [next_url]") < calling.index("play_pcap_audio") < calling.index("BYE [next_url]")
    )
    assert called.index('request="ACK"') < called.index("play_pcap_audio") < called.index('request="BYE"')
    assert switch.talking(refused, "/x/alaw.pcap", 2.5) == refused


def test_the_lab_has_programs_for_name_server_and_proxies() -> None:
    found = engines.daemons(ready_network("campus"), "/x")
    assert [(each.title, each.address, each.port) for each in found] == [
        ("named", "10.93.0.53", 53), ("kamailio of core", "10.93.0.10", 5060),
        ("kamailio of branch", "10.93.0.11", 5060),
    ]  # fmt: skip


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None if name in ("sipp", "named") else f"/bin/{name}")
    with pytest.raises(
        MissingCapability, match=r"named, sipp are not installed: apt-get install bind9 sip-tester$"
    ):
        VoiceLab(ready_network("campus"), 1.0)


def test_a_name_server_without_address_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"plan.yaml:4: ns.example.net has no address"):
        VoiceLab(
            network(("    hosts: {ns.example.net: 192.0.2.53}\n", "    hosts: {x.example.net: 192.0.2.9}\n")),
            1,
        )


def test_an_endpoint_without_address_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="desk has no address"):
        VoiceLab(network((" address: 192.0.2.5, host: desk", " host: desk")), 1)


def test_a_secondary_s_log_tells_which_zones_it_does_not_get() -> None:
    log = (
        "23-Nov-2026 01:02:03.456 transfer of 'small.example/IN' from 192.0.2.53#53: failed while receiving "
        "responses: REFUSED\n23-Nov-2026 01:02:03.456 transfer of '0.2.4.e164.arpa/IN' from 192.0.2.53#53: "
        "Transfer status: success\n"
    )
    assert engines.untransferred(log) == {"small.example": "REFUSED"}
