"""Generates a capture of any number of packets: bulk transfers over several connections, with losses.

Packets are computed from their numbers in batches of some hundred thousand and written at once, so memory
use does not grow with the file. They are cut after their headers, so 9 million take 850 MB.

    .venv/bin/python bench/capture.py build/big.pcap --packets 9000000 --connections 8
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

MSS: Final = 1448
BEGIN_S: Final = 1_700_000_000
MS: Final = 1_000_000
WINDOW_SCALE: Final = 9
WINDOW: Final = 6000
ACK, PSH_ACK, SYN, SYN_ACK, FIN_ACK = 0x10, 0x18, 0x02, 0x12, 0x11
SENDER, RECEIVER = 0, 1
BATCH: Final = 1 << 17
"""Data segments that are generated at once."""

RECORD: Final = np.dtype(
    [
        ("seconds", "<u4"), ("nanoseconds", "<u4"), ("captured", "<u4"), ("length", "<u4"),
        ("ethernet", "V14"),
        ("ip_begin", "V2"), ("ip_length", ">u2"), ("ip_id", ">u2"), ("ip_middle", "V6"),
        ("from_address", ">u4"), ("to_address", ">u4"),
        ("from_port", ">u2"), ("to_port", ">u2"), ("seq", ">u4"), ("ack", ">u4"),
        ("data_offset", "u1"), ("flags", "u1"), ("window", ">u2"), ("checksum", "V4"),
        ("stamps_kind", "V4"), ("stamp", ">u4"), ("echo", ">u4"),
        ("sack_kind", "V4"), ("left", ">u4"), ("right", ">u4"),
    ]
)  # fmt: skip
"""A packet of a pcap file with timestamps in ns, cut after its TCP header, which has 24 bytes of options."""
_HEADERS: Final = RECORD.itemsize - 16
_NO_OPTION: Final = b"\x01"


@dataclass(frozen=True)
class Transfer:
    """A connection: the sender sends ``segments``, one every ``gap_ns``; one of ``loss_every`` is lost.

    It is captured at the sender. The receiver acknowledges every second segment, and every one during a loss.
    """

    number: int
    segments: int
    gap_ns: int
    rtt_ns: int
    loss_every: int

    @property
    def begin_ns(self) -> int:
        return self.number * 3 * MS

    @property
    def first_ns(self) -> int:
        """When the first data segment is sent."""
        return self.begin_ns + self.rtt_ns + MS

    @property
    def _isn(self) -> tuple[int, int]:
        """Initial sequence numbers of sender and receiver; the sender's numbers wrap around after a GB."""
        return 3_000_000_000 + self.number, 1_000_000 * (1 + self.number)

    @property
    def end_ns(self) -> int:
        """When the last segment was acknowledged."""
        return self.first_ns + self.segments * self.gap_ns + 3 * self.rtt_ns

    def packets(self, from_ns: int, to_ns: int) -> NDArray[Any]:
        """Its packets in this period, not in order."""
        made = [*self._beginning(), *self._end(), self._data(from_ns, to_ns), self._again(from_ns, to_ns),
                self._acks(from_ns, to_ns)]  # fmt: skip
        whole = np.concatenate(made)
        time_ns = whole["seconds"].astype(np.int64) * 1_000_000_000 + whole["nanoseconds"]
        return np.asarray(whole[(time_ns >= from_ns) & (time_ns < to_ns)])

    def _beginning(self) -> Iterator[NDArray[Any]]:
        handshake = b"\x02\x04\x05\xb4\x04\x02\x03\x03" + bytes([WINDOW_SCALE]) + _NO_OPTION
        for side, at_ns, flags, seq, ack in (
            (SENDER, self.begin_ns, SYN, 0, 0),
            (RECEIVER, self.begin_ns + self.rtt_ns, SYN_ACK, 0, 1),
            (SENDER, self.begin_ns + self.rtt_ns + MS // 10, ACK, 1, 1),
        ):
            made = self._made(side, np.array([at_ns]), flags, seq, ack)
            if flags & SYN:
                # The options of a SYN take the place of NOPs and SACK.
                made["sack_kind"] = np.void(handshake[:4])
                made["left"] = int.from_bytes(handshake[4:8], "big")
                made["right"] = int.from_bytes(handshake[8:10] + 2 * _NO_OPTION, "big")
                made["window"] = 65_535
            yield made

    def _end(self) -> Iterator[NDArray[Any]]:
        last = 1 + self.segments * MSS
        for side, at_ns, flags, seq, ack in (
            (SENDER, self.end_ns, FIN_ACK, last, 1),
            (RECEIVER, self.end_ns + self.rtt_ns, FIN_ACK, 1, last + 1),
            (SENDER, self.end_ns + self.rtt_ns + MS // 10, ACK, last + 1, 2),
        ):
            yield self._made(side, np.array([at_ns]), flags, seq, ack)

    def _data(self, from_ns: int, to_ns: int) -> NDArray[Any]:
        numbers = self._numbers(self.first_ns, from_ns, to_ns)
        made = self._made(SENDER, self._sent_ns(numbers), ACK, 1 + numbers * MSS, 1, MSS)
        made["flags"][numbers % 16 == 15] = PSH_ACK
        return made

    def _again(self, from_ns: int, to_ns: int) -> NDArray[Any]:
        numbers = self._numbers(self.first_ns + self._repair_ns, from_ns, to_ns)
        lost = numbers[self._is_lost(numbers)]
        return self._made(SENDER, self._sent_ns(lost) + self._repair_ns, ACK, 1 + lost * MSS, 1, MSS)

    def _acks(self, from_ns: int, to_ns: int) -> NDArray[Any]:
        numbers = self._numbers(self.first_ns + self.rtt_ns, from_ns, to_ns)
        # The latest loss before it, and whether that has been repaired when this segment arrives.
        lost = (numbers - self.loss_every // 2) // self.loss_every * self.loss_every + self.loss_every // 2
        since = numbers - lost
        repair = -(-(self._repair_ns) // self.gap_ns)
        is_open = (lost >= 0) & (since < repair) & (lost < self.segments)
        # A lost segment causes no ACK; otherwise every second segment does, and every one during a loss.
        is_said = ~self._is_lost(numbers) & (is_open | (numbers % 2 == 1) | (numbers == self.segments - 1))
        numbers, lost, is_open = numbers[is_said], lost[is_said], is_open[is_said]
        ack = np.where(is_open, lost, numbers + 1) * MSS + 1
        made = self._made(RECEIVER, self._sent_ns(numbers) + self.rtt_ns, ACK, 1, ack)
        made["sack_kind"][is_open] = np.void(b"\x01\x01\x05\x0a")
        isn = self._isn[SENDER]
        made["left"][is_open] = (isn + 1 + (lost[is_open] + 1) * MSS) % (1 << 32)
        made["right"][is_open] = (isn + 1 + (numbers[is_open] + 1) * MSS) % (1 << 32)
        return made

    @property
    def _repair_ns(self) -> int:
        """Time from a lost segment to its retransmission, after three duplicate ACKs."""
        return self.rtt_ns + 4 * self.gap_ns

    def _is_lost(self, numbers: I64) -> NDArray[np.bool_]:
        return np.asarray(numbers % self.loss_every == self.loss_every // 2)

    def _numbers(self, first_ns: int, from_ns: int, to_ns: int) -> I64:
        """Segments with an event in this period, if the first segment has it at ``first_ns``."""
        first, end = (-(-(time_ns - first_ns) // self.gap_ns) for time_ns in (from_ns, to_ns))
        return np.arange(max(first, 0), min(max(end, 0), self.segments), dtype=np.int64)

    def _sent_ns(self, numbers: I64) -> I64:
        return self.first_ns + numbers * self.gap_ns

    def _made(
        self, side: int, time_ns: I64, flags: int, seq: I64 | int, ack: I64 | int, payload: int = 0
    ) -> NDArray[Any]:
        made = np.zeros(len(time_ns), RECORD)
        made["seconds"], made["nanoseconds"] = np.divmod(time_ns, 1_000_000_000)
        made["captured"], made["length"] = _HEADERS, _HEADERS + payload
        made["ethernet"] = np.void(bytes([2, 0, 0, 0, 0, 1 - side, 2, 0, 0, 0, 0, side, 8, 0]))
        made["ip_begin"], made["ip_length"] = np.void(b"\x45\x00"), _HEADERS - 14 + payload
        made["ip_id"] = (time_ns // 1000) & 0xFFFF
        made["ip_middle"] = np.void(b"\x40\x00\x40\x06\x00\x00")
        ends = 0xC612_0001, 0xC613_0001  # 198.18.0.1 and 198.19.0.1 (RFC 2544)
        ports = 10_000 + self.number, 5201
        made["from_address"], made["to_address"] = ends[side], ends[1 - side]
        made["from_port"], made["to_port"] = ports[side], ports[1 - side]
        isn = self._isn
        made["seq"] = (np.asarray(seq) + isn[side]) % (1 << 32)
        made["ack"] = np.where(np.asarray(ack) > 0, (np.asarray(ack) + isn[1 - side]) % (1 << 32), 0)
        made["data_offset"], made["flags"], made["window"] = 11 << 4, flags, WINDOW
        made["checksum"] = np.void(bytes(4))
        made["stamps_kind"] = np.void(b"\x01\x01\x08\x0a")
        made["stamp"] = 1 + time_ns // MS
        made["echo"] = np.maximum(1 + (time_ns - self.rtt_ns) // MS, 0)
        for part in ("left", "right"):
            made[part] = int.from_bytes(4 * _NO_OPTION, "big")
        made["sack_kind"] = np.void(4 * _NO_OPTION)
        return made


def transfers(packets: int, connections: int, *, rtt_ns: int = 20 * MS) -> list[Transfer]:
    """Connections with ``packets`` in total, or a few percent more.

    The first has half of them, the next half of the rest, and so on. All last about the same time.
    """
    shares = [2.0**-number for number in range(1, connections)]
    shares.append(1 - sum(shares))
    lasts_ns = max(packets * 8_000, 20 * rtt_ns)
    made = []
    for number, share in enumerate(shares):
        # One ACK per two segments; more during a loss.
        segments = max(round(packets * share / 1.5), 4)
        gap_ns = max(lasts_ns // segments, 1)
        # Several round trips lie between two losses, and each loses one segment of them.
        made.append(Transfer(number, segments, gap_ns, rtt_ns, max(20 * rtt_ns // gap_ns, 400)))
    return made


def write(out: BinaryIO, packets: int, connections: int) -> int:
    """Write a capture of at least ``packets``; returns their number, which may be a few percent higher."""
    out.write(
        bytes.fromhex("4d3cb2a1") + b"\x02\x00\x04\x00" + bytes(8) + b"\x00\x00\x04\x00\x01\x00\x00\x00"
    )
    made = transfers(packets, connections)
    end_ns = max(each.end_ns + 2 * each.rtt_ns for each in made) + MS
    per_ns = sum(each.segments for each in made) / end_ns
    step_ns = max(int(BATCH / per_ns), MS)
    written, from_ns = 0, 0
    while from_ns < end_ns:
        part = np.concatenate([each.packets(from_ns, from_ns + step_ns) for each in made])
        part = part[np.lexsort((part["nanoseconds"], part["seconds"]))]
        part["seconds"] += BEGIN_S
        # Concatenated arrays have numbers in this host's byte order.
        out.write(part.astype(RECORD).tobytes())
        written, from_ns = written + len(part), from_ns + step_ns
    return written


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="pcap file to write")
    parser.add_argument("--packets", type=int, default=1_000_000, help="at least (default 1,000,000)")
    parser.add_argument("--connections", type=int, default=8, help="each half the size of the one before")
    options = parser.parse_args()
    with options.file.open("wb") as out:
        written = write(out, options.packets, options.connections)
    print(f"{options.file}: {written:,} packets, {options.file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
