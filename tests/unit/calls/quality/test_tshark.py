"""``weir quality`` beside ``tshark -z rtp,streams``: the same numbers, or the difference explained.

The differences are those of docs/quality.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from weirlab import _engine
from weirlab.calls.quality.study import QualityOutcome, capture_quality

from .captures import Rtp, ethernet, frames, later, pcap, talk, udp_over_ip, without
from .test_study import INVITE

_TOOLS = ("tshark", "editcap", "mergecap", "text2pcap")
_ABSENT = [tool for tool in _TOOLS if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(_ABSENT), reason=f"not here: {', '.join(_ABSENT)}")


@dataclass(frozen=True)
class Line:
    """A stream as tshark has it; times in ms, three decimals."""

    ssrc: int
    packets: int
    lost: int
    max_delta: float
    mean_jitter: float
    max_jitter: float


_LINE = re.compile(
    r"(?P<ssrc>0x[0-9A-F]{8})\s+(?P<payload>\S.*?)\s+(?P<packets>\d+)\s+(?P<lost>-?\d+) \(.*?%\)\s+"
    r"(?P<times>[\d. ]+)"
)


def tshark(file: Path) -> dict[int, Line]:
    """Streams by SSRC."""
    command = ["tshark", "-q", "--enable-heuristic", "rtp_udp", "-r", str(file), "-z", "rtp,streams"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = {}
    for match in _LINE.finditer(done.stdout):
        _, _, max_delta, _, mean_jitter, max_jitter = map(float, match["times"].split()[:6])
        line = Line(
            int(match["ssrc"], 16),
            int(match["packets"]),
            int(match["lost"]),
            max_delta,
            mean_jitter,
            max_jitter,
        )
        lines[line.ssrc] = line
    return lines


def weir(outcome: QualityOutcome) -> dict[int, Line]:
    """The same of Weir."""
    measured = outcome.table.streams
    return {
        stream.ssrc: Line(
            stream.ssrc,
            int(measured.received[i] + measured.duplicated[i]),
            int(measured.losses.count[i]),
            round(float(measured.longest_gap_ns[i]) / 1e6, 3),
            round(float(measured.jitter_ns[i]) / 1e6, 3),
            round(float(measured.jitter_max_ns[i]) / 1e6, 3),
        )
        for i, stream in enumerate(outcome.streams)
    }


SPEECH = talk(300, jitter_us=3000)
ALIKE: dict[str, list[Rtp]] = {
    "as sent": talk(300),
    "jitter": SPEECH,
    "loss": without(SPEECH, [20, 21, 22, 60, 100, 101, 250]),
    "sequence numbers and time stamps wrap": talk(
        300, seq=65_400, stamp=2**32 - 9000, jitter_us=2000, seed=2
    ),
    "a packet late by two": [later(SPEECH[50], 45_000), *without(SPEECH, [50])],
    "loss and late packets": [later(SPEECH[70], 30_000), *without(SPEECH, [30, 31, 70, 90])],
    "another source on the same ports": [
        *talk(100, jitter_us=2000),
        *(later(p, 2_000_000) for p in talk(120, ssrc=77, seq=9000, jitter_us=2000, seed=3)),
    ],
    "many streams at once": [
        p for i in range(12) for p in talk(100, ssrc=i + 1, src_port=5000 + 2 * i, jitter_us=500 * i, seed=i)
    ],
    "A-law": talk(100, payload_type=8, jitter_us=1000),
    "G.729 in packets of 20 ms": talk(100, payload_type=18, payload_bytes=20, jitter_us=1000),
    "IPv6": talk(100, src="2001:db8::1", dst="2001:db8::2", jitter_us=1000),
}


@pytest.mark.parametrize("case", ALIKE)
def test_both_say_the_same(tmp_path: Path, case: str) -> None:
    file = pcap(tmp_path / "file.pcap", frames(ALIKE[case]))
    found = tshark(file)
    assert found
    assert weir(capture_quality(file)) == found


def test_both_take_codec_and_clock_from_sip(tmp_path: Path) -> None:
    sip = ethernet(udp_over_ip("192.0.2.2", "192.0.2.1", 5060, 5060, INVITE))
    speech = talk(200, payload_type=111, jitter_us=2000, stamp=0)
    speech = [replace(p, stamp=960 * i) for i, p in enumerate(speech)]
    file = pcap(tmp_path / "file.pcap", [(0, sip), *frames(speech)])
    assert weir(capture_quality(file)) == tshark(file)


def test_a_copy_is_no_packet_more_for_weir(tmp_path: Path) -> None:
    copies = [later(SPEECH[30], 1500), later(SPEECH[80], 100), later(SPEECH[80], 200)]
    found = tshark(pcap(tmp_path / "copies.pcap", frames([*SPEECH, *copies])))[SPEECH[0].ssrc]
    outcome = capture_quality(tmp_path / "copies.pcap")
    mine = weir(outcome)[SPEECH[0].ssrc]
    # Expected less received: copies make up for losses there.
    assert (found.packets, found.lost) == (mine.packets, mine.lost - 3)
    # Only the first copy of a packet has a delay.
    plain = tshark(pcap(tmp_path / "plain.pcap", frames(SPEECH)))[SPEECH[0].ssrc]
    assert mine == replace(plain, packets=plain.packets + 3)


def test_silence_is_a_gap_for_weir(tmp_path: Path) -> None:
    spurts = [
        replace(p, at_us=p.at_us + i // 50 * 700_000, stamp=p.stamp + i // 50 * 5600, marker=i % 50 == 0)
        for i, p in enumerate(SPEECH)
    ]
    file = pcap(tmp_path / "spurts.pcap", frames(spurts))
    found, mine = tshark(file)[SPEECH[0].ssrc], weir(capture_quality(file))[SPEECH[0].ssrc]
    assert (mine.packets, mine.lost) == (found.packets, found.lost)
    # tshark leaves packets with a marker out of maxima and means.
    jitter = estimates_ms(spurts)
    plain = np.array([not p.marker for p in spurts[1:]])
    gaps = np.diff([p.at_us for p in spurts]) / 1e3
    assert found.max_delta == pytest.approx(gaps[plain].max(), abs=6e-4)
    assert mine.max_delta == pytest.approx(gaps.max(), abs=6e-4)
    assert found.mean_jitter == pytest.approx(running_mean(jitter, plain), abs=6e-4)
    assert mine.mean_jitter == pytest.approx(jitter.mean(), abs=6e-4)


def test_a_source_that_starts_anew_loses_nothing_for_weir(tmp_path: Path) -> None:
    first, second = talk(200, jitter_us=2000), talk(100, seq=40_000, stamp=99_999_999, jitter_us=2000)
    file = pcap(tmp_path / "anew.pcap", frames([*first, *(later(p, 4_100_000) for p in second)]))
    assert tshark(file)[first[0].ssrc].lost > 30_000
    outcome = capture_quality(file)
    assert outcome.table.streams.losses.count.tolist() == [0, 0]
    assert outcome.table.streams.received.tolist() == [200, 100]


def test_a_packet_before_the_first_is_none_too_many_for_weir(tmp_path: Path) -> None:
    late = [SPEECH[1], later(replace(SPEECH[0], at_us=SPEECH[1].at_us), 50), *SPEECH[2:]]
    file = pcap(tmp_path / "late.pcap", frames(late))
    assert tshark(file)[SPEECH[0].ssrc].lost == -1
    measured = capture_quality(file).table.streams
    assert (measured.losses.count.tolist(), measured.reordered.tolist()) == ([0], [1])


def estimates_ms(packets: list[Rtp]) -> np.ndarray:
    """RFC 3550 A.8 in ms after every packet but the first."""
    transit = np.array([p.at_us / 1e3 - p.stamp / 8 for p in packets])
    found, estimate = [], 0.0
    for difference in np.abs(np.diff(transit)):
        estimate += (difference - estimate) / 16
        found.append(estimate)
    return np.array(found)


def running_mean(values: np.ndarray, counted: np.ndarray) -> float:
    """Mean as in Wireshark's ui/tap-rtp-analysis.c: the weight of what is left out stays."""
    mean = 0.0
    for n, (value, counts) in enumerate(zip(values, counted, strict=True), 1):
        if counts:
            mean = (mean * (n - 1) + value) / n
    return float(mean)


@pytest.mark.parametrize("kind", ["pcap", "nsecpcap", "modpcap", "pcapng"])
def test_files_converted_by_editcap_hold_the_same(tmp_path: Path, kind: str) -> None:
    source = pcap(tmp_path / "source.pcap", frames(SPEECH))
    converted = tmp_path / f"converted.{kind}"
    subprocess.run(["editcap", "-F", kind, source, converted], check=True, capture_output=True)
    same(source, converted)


def test_files_merged_by_mergecap_hold_the_streams_of_both(tmp_path: Path) -> None:
    parts = [
        pcap(tmp_path / f"{ssrc}.pcap", frames(talk(100, ssrc=ssrc, src_port=5000 + ssrc, jitter_us=1000)))
        for ssrc in (1, 2)
    ]
    merged = tmp_path / "merged.pcapng"
    subprocess.run(["mergecap", "-w", merged, *parts], check=True, capture_output=True)
    assert weir(capture_quality(merged)) == tshark(merged)
    assert capture_quality(merged).table.streams.received.tolist() == [100, 100]


def test_packets_of_text2pcap_are_read(tmp_path: Path) -> None:
    dump = tmp_path / "dump.txt"
    dump.write_text("".join(f"0000 {p.payload.hex(' ')}\n\n" for p in talk(20)))
    made = tmp_path / "made.pcapng"
    command = ["text2pcap", "-u", "4000,4002", dump, made]
    subprocess.run(command, check=True, capture_output=True)
    assert [p[:2] for p in capture_quality(made).streams[0].payload_types] == [(0, 20)]


def same(one: Path, other: Path) -> None:
    """Both files have the same packets."""
    read = [_engine.rtp_packets(str(each))["packets"] for each in (one, other)]
    for name, column in read[0].items():
        assert np.array_equal(read[1][name], column), name
