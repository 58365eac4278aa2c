"""Writes the captures of `examples/captures`: planted causes on slow paths, so that the files stay small."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from causes import planted
from planting import Bench


@dataclass(frozen=True)
class Example:
    """A case of `causes.py` with `given` parameters, captured at one end."""

    file: str
    case: str
    place: Literal["sender", "receiver"]
    given: Mapping[str, float]


EXAMPLES = (
    Example(
        "backup.pcapng.zst",
        "slow writer",
        "sender",
        {
            "delay_s": 0.015,
            "rate_bps": 8e6,
            "write_bytes": 9_000,
            "every_s": 0.03,
            "share": 0.8,
            "seconds": 4,
        },
    ),
    Example(
        "restore.pcapng.zst",
        "slow reader",
        "receiver",
        {"delay_s": 0.015, "rate_bps": 10e6, "buffer_bytes": 65_536, "reads_s": 0.3, "seconds": 4},
    ),
    Example(
        "overseas.pcapng.zst",
        "small receive window",
        "sender",
        {"delay_s": 0.06, "rate_bps": 100e6, "buffer_bytes": 65_536, "seconds": 4},
    ),
    Example(
        "old-server.pcapng.zst",
        "window scaling off",
        "receiver",
        {"delay_s": 0.05, "rate_bps": 100e6, "seconds": 4},
    ),
    Example(
        "radio-link.pcapng.zst",
        "random loss",
        "sender",
        {"delay_s": 0.04, "rate_bps": 50e6, "loss_percent": 2, "seconds": 5},
    ),
    Example(
        "evening.pcapng.zst",
        "bottleneck saturated",
        "sender",
        {"delay_s": 0.02, "rate_bps": 4e6, "queue": 50, "seconds": 5},
    ),
    Example(
        "requests.pcapng.zst",
        "Nagle, delayed ACK",
        "sender",
        {"delay_s": 0.01, "rate_bps": 20e6, "message_bytes": 600, "seconds": 4},
    ),
)


def write_examples(folder: Path) -> None:
    """Run all examples and write their captures; needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    with Bench() as bench, TemporaryDirectory() as scratch:
        for example in EXAMPLES:
            made = bench.run(planted(example.case, given=example.given), Path(scratch))
            compressed = folder / example.file
            command = ["zstd", "-q", "-19", "-f", str(made.files[example.place]), "-o", str(compressed)]
            subprocess.run(command, check=True)
            print(f"{compressed}: {compressed.stat().st_size:,} B", flush=True)
