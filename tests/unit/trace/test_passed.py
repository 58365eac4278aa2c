"""What of a capture is passed over is said, and why there is nothing to see."""

from __future__ import annotations

import bz2
import lzma
import random
import struct
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.calls.quality.study import capture_quality
from weirlab.trace import analyse, wording

from ..calls.quality.captures import ethernet, frames, pcap, talk, udp_over_ip
from . import made

TCP = struct.pack(">HHIIBBHHH", 40_000, 80, 1, 2, 0x50, 0x18, 1000, 0, 0) + b"GET /"


def over_ip(protocol: int, rest: bytes) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(rest), 7, 0x4000, 64, protocol, 0)
    return head + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + rest


SEGMENT = over_ip(6, TCP)
FRAME = ethernet(SEGMENT)


def to_port(port: int, header: str, inside: bytes) -> bytes:
    return ethernet(udp_over_ip("198.51.100.1", "198.51.100.2", 50_000, port, bytes.fromhex(header) + inside))


ENCAPSULATED = {
    "VXLAN": to_port(4789, "0800000000000100", FRAME),
    "Geneve": to_port(6081, "0000655800000100", FRAME),
    "GTP-U": to_port(2152, "30ff002d00000001", SEGMENT),
    "L2TP": to_port(1701, "000200010002 ff030021", SEGMENT),
    "ERSPAN": ethernet(over_ip(47, bytes.fromhex("100088be00000001 1005000100000009") + FRAME)),
    "SNAP": bytes(12) + bytes.fromhex("0035 aaaa03000000 0800") + SEGMENT,
    "PPP": bytes.fromhex("21") + SEGMENT,
}


@pytest.mark.parametrize("tunnel", ENCAPSULATED)
def test_connections_in_tunnels_are_found(tmp_path: Path, tunnel: str) -> None:
    file = pcap(tmp_path / "file.pcap", [(0, ENCAPSULATED[tunnel])], link=9 if tunnel == "PPP" else 1)
    (connection,) = analyse(file)["connections"]
    assert (connection["a"]["addr"], connection["a"]["data_bytes"]) == ("192.0.2.1", 5)


def test_what_is_not_looked_into_is_named(tmp_path: Path) -> None:
    pseudowire = bytes(12) + bytes.fromhex("8847 00010140 00000000") + bytes(40)
    macsec = bytes(12) + bytes.fromhex("88e5") + bytes(40)
    file = pcap(tmp_path / "file.pcap", [(i, pseudowire) for i in range(5)] + [(9, macsec)])
    facts = analyse(file)
    assert wording.capture(facts).endswith(": 0 TCP connections; 6 are not looked into.")
    assert wording.cautions(facts) == [
        "5 packets carry MPLS without IP right behind its labels (a pseudowire, for instance), which Weir "
        "does not look into.",
        "1 packet carries encrypted frames (MACsec), which Weir does not look into.",
    ]
    with pytest.raises(InputError, match="5 packets carry MPLS without IP"):
        capture_quality(file)


def test_a_capture_without_tcp_says_what_it_has(tmp_path: Path) -> None:
    arp = bytes(12) + bytes.fromhex("0806") + bytes(28)
    file = pcap(tmp_path / "file.pcap", [*frames(talk(20)), (1, arp)])
    told = wording.capture(analyse(file))
    assert told.endswith("0 TCP connections and 1 voice stream; 20 are UDP and 1 not IP.")


def test_a_time_that_cannot_be_is_not_told_as_none(tmp_path: Path) -> None:
    def block(kind: int, body: bytes) -> bytes:
        length = struct.pack("<I", 12 + len(body))
        return struct.pack("<I", kind) + length + body + length

    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack("<HHI", 101, 0, 0))
    # The year 586524, in microseconds.
    high, low = divmod(18_446_744_073_709_551_000, 1 << 32)
    padded = SEGMENT + bytes(-len(SEGMENT) % 4)
    packet = block(6, struct.pack("<IIIII", 0, high, low, len(SEGMENT), len(SEGMENT)) + padded)
    (tmp_path / "file.pcapng").write_bytes(section + interface + packet)
    assert wording.cautions(analyse(tmp_path / "file.pcapng")) == [
        "The capture has 1 packet with a time before 1824 or after 2116, which cannot be."
    ]


def test_one_packet_is_no_packets() -> None:
    assert wording.cautions(
        made.analysis(capture={"timeless": 1, "backwards": 1, "opaque": {"deep": 1}})
    ) == [
        "The capture has 1 packet without a time.",
        "1 packet carries tunnels in more than four tunnels, which Weir does not look into.",
        "1 packet had an earlier time than the packet before.",
    ]


@pytest.mark.parametrize("off_s", [-86_400, -10, 10, 3_600, 20 * 365 * 86_400])
def test_one_misdated_packet_is_named_and_leaves_the_times_as_they_are(tmp_path: Path, off_s: int) -> None:
    times_s = [0, 1, 2, 3 + off_s, 4, 5]
    file = pcap(tmp_path / "file.pcap", [(time * 1_000_000, FRAME) for time in times_s])
    facts = analyse(file)
    capture = facts["capture"]
    assert (capture["last_ns"] or 0) - (capture["first_ns"] or 0) == 5 * 10**9
    assert (capture["redated"], capture["backwards"]) == (1, 0)
    assert capture["files"][0]["first_redated"] == (4, (off_s + 1) * 10**9)
    (note,) = wording.cautions(facts)
    assert note.startswith("Packet 4 has a time that cannot be right, ")


def test_a_compressed_capture_without_its_beginning_is_one_message(tmp_path: Path) -> None:
    whole = pcap(tmp_path / "file.pcap", [(at, FRAME) for at in range(6)]).read_bytes()
    (tmp_path / "cut.bz2").write_bytes(bz2.compress(whole)[:20])
    with pytest.raises(
        InputError, match=r"its bzip2 data is cut short, and nothing can be read .*copy it again"
    ):
        analyse(tmp_path / "cut.bz2")


def test_a_compressed_capture_without_its_end_is_read_until_there(tmp_path: Path) -> None:
    frames = [(at, FRAME + random.Random(at).randbytes(400)) for at in range(200)]
    whole = pcap(tmp_path / "file.pcap", frames).read_bytes()
    (tmp_path / "cut.xz").write_bytes(lzma.compress(whole)[: len(whole) // 2])
    facts = analyse(tmp_path / "cut.xz")
    packets = facts["capture"]["packets"]
    assert 0 < packets < 200
    (note,) = [each for each in wording.cautions(facts) if "xz" in each]
    assert note == (f"The capture ends inside its xz data. Everything before it was read: {packets} packets.")
