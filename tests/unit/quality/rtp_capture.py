"""A capture of RTP packets, as bytes, and what tshark says of it."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PORT = 20_000


@dataclass(frozen=True)
class Rtp:
    """One packet on the wire; ``arrival_ns`` has to be whole microseconds for tshark's sake."""

    arrival_ns: int
    seq: int
    timestamp: int
    payload_type: int = 0
    payload_bytes: int = 160


def write(path: Path, packets: Iterable[Rtp]) -> None:
    """A pcap file with time stamps in ns (magic a1b23c4d), Ethernet."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    for packet in packets:
        rtp = struct.pack(
            ">BBHII", 0x80, packet.payload_type, packet.seq % (1 << 16), packet.timestamp % (1 << 32), 7
        ) + bytes(packet.payload_bytes)
        udp = struct.pack(">HHHH", PORT, PORT, 8 + len(rtp), 0) + rtp
        hosts = bytes([10, 0, 0, 1, 10, 0, 0, 2])
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + hosts
        frame = bytes(12) + b"\x08\x00" + ip + udp
        seconds, rest_ns = divmod(packet.arrival_ns, 10**9)
        out.append(struct.pack("<IIII", seconds, rest_ns, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(out))


@dataclass(frozen=True)
class Stream:
    """A line of ``tshark -z rtp,streams``."""

    packets: int
    lost: int
    mean_jitter_ms: float
    max_jitter_ms: float


def streams_of_tshark(path: Path) -> list[Stream]:
    """What tshark makes of the capture."""
    done = subprocess.run(
        ["tshark", "-r", str(path), "-d", f"udp.port=={PORT},rtp", "-q", "-z", "rtp,streams"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = []
    for line in done.stdout.splitlines():
        words = line.split()
        if "0x00000007" not in words:
            continue
        # ... payload packets lost (percent) min/mean/max delta min/mean/max jitter [problems]
        numbers = line[line.index("0x00000007") :].split("0x00000007")[1].split()
        at = next(i for i, word in enumerate(numbers) if word.startswith("("))
        found.append(
            Stream(
                packets=int(numbers[at - 2]),
                lost=int(numbers[at - 1]),
                mean_jitter_ms=float(numbers[at + 5]),
                max_jitter_ms=float(numbers[at + 6]),
            )
        )
    return found
