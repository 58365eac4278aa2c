"""What ESP costs per packet, in and out, for every suite and mode: ``a + b * bytes`` with intervals.

Runs ``crates/esp/benches/cost.rs``, which times the engine's ESP and the algorithms alone in turns, and
fits a line through the packet sizes. ``a`` is what every packet costs, ``b`` what each of its bytes adds. An
interval is the 2.5th to 97.5th percentile over bootstrapped rounds.

Warm: the packets of a round lie in the CPU's caches; with ``--cold`` they do not. ``--associations`` are used
in turn, as many flows use them. A figure counts only on a machine without other work.

    make bench-esp
    .venv/bin/python bench/esp.py --rounds 100 --cold --associations 1000 --out build/bench
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from machine import versions

HERE = Path(__file__).resolve().parent
WAYS = ("out", "out-each", "in", "raw-out", "raw-in")
HEADINGS = ("suite", "mode", "way", "a ns", "b ns/B", "ns at 200 B", "range", "of the algorithms alone")
COLD_PACKETS = 32_768
WARM_PACKETS = 64
DRAWS = 1000
VOICE_BYTES = 200
"""20 ms of G.711."""

Samples = dict[tuple[str, str, str], dict[int, list[float]]]
"""ns per packet of every round, by suite, mode and way, then by bytes of the packet in the clear."""


@dataclass(frozen=True)
class Fit:
    """``ns = a + b * bytes``, through the median rounds of every size."""

    suite: str
    mode: str
    way: str
    fixed_ns: float
    fixed_ns_interval: tuple[float, float]
    per_byte_ns: float
    per_byte_ns_interval: tuple[float, float]
    voice_ns: float
    """Of a packet of 200 B, by the line."""
    voice_ns_interval: tuple[float, float]
    worst_residual: float
    """The largest distance of a size's median from the line, relative to the line."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--associations", type=int, default=1)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    options = parser.parse_args()
    about = versions()
    text = measure(options.rounds, options.associations, cold=options.cold)
    found = [fit(key, sizes) for key, sizes in samples(text).items()]
    show(found)
    folder = options.out / f"esp-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder.mkdir(parents=True)
    summary = {
        "rounds": options.rounds,
        "associations": options.associations,
        "cold": options.cold,
        "versions": about,
        "fits": [asdict(one) for one in found],
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (folder / "raw.jsonl").write_text(text)
    print(f"raw data: {folder}")


def measure(rounds: int, associations: int, *, cold: bool) -> str:
    """A JSON document per line."""
    packets = COLD_PACKETS if cold else WARM_PACKETS
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "weir-esp", "--bench", "cost", "--"]
    command += ["--rounds", str(rounds), "--set", str(packets), "--associations", str(associations)]
    done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def samples(text: str) -> Samples:
    """Lines of the benchmark, put in order."""
    found: Samples = defaultdict(lambda: defaultdict(list))
    for line in text.splitlines():
        one = json.loads(line)
        found[one["suite"], one["mode"], one["way"]][one["bytes"]].append(one["ns"])
    return found


def fit(key: tuple[str, str, str], sizes: dict[int, list[float]]) -> Fit:
    """A line through the medians by relative distances; rounds are drawn anew for all sizes together."""
    x = np.array(sorted(sizes), dtype=float)
    rounds = np.array([sizes[int(size)] for size in x])
    medians = np.median(rounds, axis=1)
    a, b = line(x, medians)
    rng = np.random.default_rng(1)
    drawn = rng.integers(rounds.shape[1], size=(DRAWS, rounds.shape[1]))
    lines = np.array([line(x, np.median(rounds[:, chosen], axis=1)) for chosen in drawn])
    voice = lines @ (1.0, VOICE_BYTES)
    return Fit(
        *key,
        fixed_ns=a,
        fixed_ns_interval=interval(lines[:, 0]),
        per_byte_ns=b,
        per_byte_ns_interval=interval(lines[:, 1]),
        voice_ns=a + b * VOICE_BYTES,
        voice_ns_interval=interval(voice),
        worst_residual=float(np.max(np.abs(medians / (a + b * x) - 1))),
    )


def line(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Intercept and slope that make the relative residuals least."""
    design = np.stack([np.ones_like(x), x], axis=1) / y[:, None]
    (a, b), *_ = np.linalg.lstsq(design, np.ones_like(y), rcond=None)
    return float(a), float(b)


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)


def show(found: list[Fit]) -> None:
    """A row per suite, mode and way; beside it how much dearer than the algorithms alone."""
    table = Table(*HEADINGS)
    by_key = {(one.suite, one.mode, one.way): one for one in found}
    for one in sorted(found, key=lambda each: (each.suite, each.mode, WAYS.index(each.way))):
        raw = by_key[one.suite, one.mode, "raw-in" if one.way == "in" else "raw-out"]
        low, high = one.voice_ns_interval
        table.add_row(
            one.suite,
            one.mode,
            one.way,
            f"{one.fixed_ns:.1f}",
            f"{one.per_byte_ns:.3f}",
            f"{one.voice_ns:.0f}",
            f"{low:.0f}–{high:.0f}",
            "" if one.way.startswith("raw") else f"{one.voice_ns / raw.voice_ns:.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
