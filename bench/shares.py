"""One large capture read by one process, and by workers that share its flows: python bench/shares.py.

Writes a capture of 10 GB (--gigabytes) to a temporary folder (--folder): TCP connections, one packet in a
hundred lost, beside calls in G.711. Then ``weir trace`` and ``weir quality`` read it, and 1 and 3 workers of
a cluster do. Answers are compared byte for byte, without the time that an analysis took.
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import json
import re
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import campaigns
from weirlab.base import programs

U8 = npt.NDArray[np.uint8]
Values = npt.NDArray[np.int64] | int

TICK_NS: Final = 20_000_000
TALKERS: Final = 500
CONNECTIONS: Final = 620
"""At a time."""
LIFE: Final = 25
"""Ticks from SYN to FIN."""
MSS: Final = 1_448
LOSS: Final = 0.01
_ETHERNET: Final = bytes.fromhex("020000000002020000000001") + b"\x08\x00"
_RECORD: Final = 16


def _packet(protocol: int, transport: bytes, payload: int) -> bytes:
    """A record of pcap; addresses, ports, numbers and times are filled in later."""
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(transport) + payload, 1, 0x4000, 64, protocol, 0, 0, 0)
    frame = _ETHERNET + ip + transport + bytes(payload)
    return struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame


def _tcp(flags: int, payload: int) -> bytes:
    return _packet(6, struct.pack("!HHIIBBHHH", 0, 0, 0, 0, 0x50, flags, 60_000, 0, 0), payload)


def _put(block: U8, at: npt.NDArray[np.int64], value: Values, bytes_: int, big: bool = True) -> None:
    """Write a number into every packet that begins ``at`` these places."""
    for byte in range(bytes_):
        shift = 8 * (bytes_ - 1 - byte if big else byte)
        block[at + byte] = np.asarray(value).astype(np.int64) >> shift & 0xFF


class Kind:
    """Packets of one kind, one for each of ``many`` flows."""

    def __init__(self, record: bytes, many: int) -> None:
        self.block: U8 = np.tile(np.frombuffer(record, np.uint8), many)
        self.at = np.arange(many, dtype=np.int64) * len(record)
        self.size = len(record)

    def ends(self, src: Values, dst: Values, sport: Values, dport: Values) -> None:
        for offset, value, many in ((26, src, 4), (30, dst, 4), (34, sport, 2), (36, dport, 2)):
            self.field(offset, value, many)

    def field(self, offset: int, value: Values, bytes_: int) -> None:
        """``offset`` counts from the Ethernet header."""
        _put(self.block, self.at + _RECORD + offset, value, bytes_)

    def times(self, time_ns: npt.NDArray[np.int64]) -> None:
        _put(self.block, self.at, time_ns // 1_000_000_000, 4, big=False)
        _put(self.block, self.at + 4, time_ns % 1_000_000_000, 4, big=False)

    def taken(self, which: npt.NDArray[np.bool_]) -> bytes:
        return self.block.reshape(-1, self.size)[which].tobytes()


def write(path: Path, size: int) -> int:
    """A capture of about ``size`` bytes; the number of its packets."""
    random, flow = np.random.default_rng(7), np.arange(CONNECTIONS, dtype=np.int64)
    client, server = 0x0A000000 + flow % 250, 0x0A010000 + flow // 250
    handshake, data, fins = (2, 0x12, 0x10), ((0x18, MSS), (0x18, MSS), (0x10, 0)), (0x11, 0x11, 0x10)
    segments = [*((flags, 0) for flags in handshake), *data, *((flags, 0) for flags in fins)]
    kinds = [Kind(_tcp(flags, payload), CONNECTIONS) for flags, payload in segments]
    backwards = {1, 5, 7}
    talker = np.arange(TALKERS, dtype=np.int64)
    voice = Kind(_packet(17, struct.pack("!HHHH", 0, 0, 180, 0) + b"\x80\0" + bytes(10), 160), TALKERS)
    port = 2 * (talker % 4)
    voice.ends(0x0A020000 + talker, 0x0A030000 + talker // 4, 20_000 + port, 30_000 + port)
    voice.field(50, 0x5EED0000 + talker, 4)
    sent, packets = np.zeros(CONNECTIONS, np.int64), 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1))
        tick = 0
        while file.tell() < size:
            base_ns = 1_800_000_000_000_000_000 + tick * TICK_NS
            age, life = (tick + flow) % LIFE, (tick + flow) // LIFE
            sent[age == 0] = 0
            port, first = 1_024 + life * 7 % 60_000, 1_000 * life
            # After a loss, what the last two packets carried is sent again.
            again = (random.random(CONNECTIONS) < LOSS) & (sent > 0)
            sent[again] -= 2 * MSS
            seq, busy = first + 1 + sent, (age > 0) & (age < LIFE - 1)
            fields: dict[int, tuple[Values, Values]] = {
                0: (first, 0), 1: (first, first + 1), 2: (first + 1, first + 1), 3: (seq, first + 1),
                4: (seq + MSS, first + 1), 5: (first + 1, seq + 2 * MSS), 6: (seq, first + 1),
                7: (first + 1, seq + 1), 8: (seq + 1, first + 2),
            }  # fmt: skip
            for number, kind in enumerate(kinds):
                when = (age == 0) if number < 3 else busy if number < 6 else age == LIFE - 1
                if number in backwards:
                    kind.ends(server, client, 443, port)
                else:
                    kind.ends(client, server, port, 443)
                kind.field(18, tick * len(kinds) + number, 2)
                kind.field(38, fields[number][0], 4)
                kind.field(42, fields[number][1], 4)
                kind.times(base_ns + number * 2_000_000 + flow * 1_000)
                file.write(kind.taken(when))
                packets += int(when.sum())
            sent[busy] += 2 * MSS
            voice.field(44, tick, 2)
            voice.field(46, tick * 160, 4)
            voice.times(base_ns + 19_000_000 + np.sort(random.integers(0, 900_000, TALKERS)))
            there = random.random(TALKERS) >= LOSS
            file.write(voice.taken(there))
            packets += int(there.sum())
            tick += 1
    return packets


def peak_mb(pid: int) -> float:
    """The most memory that a running process has had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1e3 if found else 0.0


def run(out: Path, *arguments: str) -> dict[str, Any]:
    """A command's time and memory; its answer goes to ``out``."""
    begun, peak = time.monotonic(), 0.0
    with tempfile.TemporaryFile() as file:
        command = subprocess.Popen(programs.own("weirlab", *arguments), stdout=file)
        while command.poll() is None:
            with contextlib.suppress(OSError):
                peak = max(peak, peak_mb(command.pid))
            time.sleep(0.02)
        seconds = time.monotonic() - begun
        file.seek(0)
        with out.open("wb") as kept:
            kept.writelines(line for line in file if b'"elapsed_ns"' not in line)
    return {"exit_code": command.returncode, "s": round(seconds, 1), "mb": round(peak)}


def on_cluster(workers: int, out: Path, *arguments: str) -> dict[str, Any]:
    url = f"tcp://127.0.0.1:{campaigns.PORT}"
    processes = [campaigns.scheduler(), *(campaigns.weir("worker", url) for _ in range(workers))]
    try:
        campaigns.wait_for(url, workers)
        found = run(out, *arguments, "--cluster", url)
        return found | {"mb_workers": [round(peak_mb(process.pid)) for process in processes[1:]]}
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        capture = folder / "large.pcap"
        result: dict[str, Any] = {"packets": write(capture, int(asked.gigabytes * 1e9))}
        result["bytes"] = capture.stat().st_size
        for what in (("trace", "--no-diagnosis"), ("quality",)):
            command, answer = (*what, str(capture), "--json"), folder / f"{what[0]}.json"
            found = {"one process": run(answer, *command)}
            for workers in (1, 3):
                other = folder / "other.json"
                found[f"workers: {workers}"] = one = on_cluster(workers, other, *command)
                one["equal"] = filecmp.cmp(other, answer, shallow=False)
            result[what[0]] = found | {"answer_bytes": answer.stat().st_size}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
