"""Memory that `weir trace` takes for the capture of a SYN scan.

    .venv/bin/python bench/scan.py                      # 110,000 SYNs, never answered
    .venv/bin/python bench/scan.py --syns 55000 --answered

Each SYN goes to another address and port. The most memory resident is that of a whole process.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

SYN, RST_ACK = 0x02, 0x14
OUTPUTS = {"table": [], "JSON": ["--json"], "every row": ["--limit", "100000"]}


def frame(source: bytes, target: bytes, ports: tuple[int, int], flags: int) -> bytes:
    window = 65_535 if flags == SYN else 0
    tcp = struct.pack(">HHIIBBHHH", *ports, 1_000, int(flags != SYN) * 1_001, 5 << 4, flags, window, 0, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, source, target)
    return b"\2" * 6 + b"\4" * 6 + b"\x08\0" + ip + tcp


def records(syns: int, *, answered: bool) -> Iterator[bytes]:
    scanner = bytes([10, 0, 0, 1])
    for number in range(syns):
        target = bytes([10, 1 + (number >> 14 & 127), number >> 8 & 255, number & 255])
        ports = 40_000 + number % 20_000, 1 + number % 1_000
        frames = [frame(scanner, target, ports, SYN)]
        if answered:
            frames.append(frame(target, scanner, ports[::-1], RST_ACK))
        for place, data in enumerate(frames):
            seconds, us = divmod(number * 1_000 + place * 300, 1_000_000)
            yield struct.pack("<IIII", 1_700_000_000 + seconds, us, len(data), len(data)) + data


def most_bytes(command: list[str]) -> int:
    """Most memory resident of a process that runs `command`."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--syns", type=int, default=110_000)
    parser.add_argument("--answered", action="store_true", help="each SYN is answered with RST")
    chosen = parser.parse_args()
    weir = Path(sys.executable).with_name("weir")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scan.pcap"
        with path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1))
            file.writelines(records(chosen.syns, answered=chosen.answered))
        for name, options in OUTPUTS.items():
            most = most_bytes([str(weir), "trace", str(path), *options])
            print(f"{name:10} {most / 1e6:4.0f} MB")


if __name__ == "__main__":
    main()
