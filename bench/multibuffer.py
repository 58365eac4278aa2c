"""The cost of intel-ipsec-mb for the bytes of the same packets: one at a time, and many in parallel."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from costs import Samples

HEADINGS = ("suite", "way", "Weir, packet after packet", "side by side", "intel-ipsec-mb, one by one", "many")
SOURCE = Path(__file__).with_name("ipsec_mb.c")
HEADER = Path("/usr/include/intel-ipsec-mb.h")
ROUNDS = 20

Costs = dict[tuple[str, str], dict[str, float]]
"""Median ns per packet, by suite and way, then ``one`` or ``many``."""


def multibuffer_costs(packet_bytes: int, console: Console) -> Costs:
    """Costs for an IP packet in tunnel mode; empty if the library is not installed.

    Raises ``CalledProcessError`` if the compiler or the program fails.
    """
    if not HEADER.exists():
        console.print("intel-ipsec-mb is left out: apt-get install libipsec-mb-dev installs it")
        return {}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ipsec_mb"
        subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE), "-lIPSec_MB"], check=True)
        run = [str(program), str(packet_bytes), str(ROUNDS)]
        done = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True)
    return medians(done.stdout.splitlines())


def medians(lines: Iterable[str]) -> Costs:
    """Medians of the rounds in the program's output."""
    rounds: defaultdict[tuple[str, str], defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for line in lines:
        one = json.loads(line)
        rounds[one["suite"], one["way"]][one["how"]].append(one["ns"])
    return {
        key: {how: statistics.median(values) for how, values in each.items()} for key, each in rounds.items()
    }


def rows(found: Samples, theirs: Costs, packet_bytes: int) -> list[tuple[str, ...]]:
    """Rows for ``HEADINGS``, in ns: Weir's ESP in tunnel mode, and the library's algorithms."""

    def ours(suite: str, way: str) -> str:
        sizes = found.get((suite, "tunnel", way))
        return f"{statistics.median(sizes[packet_bytes]):.0f}" if sizes else "–"

    return [
        (
            *(suite, way, ours(suite, way), ours(suite, f"{way}-each")),
            *(f"{costs[how]:.0f}" for how in ("one", "many")),
        )
        for (suite, way), costs in theirs.items()
    ]
