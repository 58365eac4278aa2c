"""What ESP costs per packet, in and out, for every suite, mode and size, beside other implementations.

Runs ``crates/engine/benches/esp_cost``, which times the engine's ESP and the algorithms alone in turns, under
four conditions: the packets of a round are in the CPU's caches (warm) or not (cold), and belong to one flow
or to many. A line through the sizes gives the fixed cost of a packet and the cost of each byte. Scapy
encapsulates the same packets; intel-ipsec-mb, if it is installed, runs the algorithms that they need.
User-space gateways carry packets between namespaces, each in turn (root; left out with ``--repeats 0``).
Results are valid only on a machine without other work.

    make bench-esp
    .venv/bin/python bench/esp.py --rounds 10 --cold-rounds 1 --repeats 0 --out build/bench/esp
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import costs
import machine
import multibuffer
import tunnels
from costs import VOICE_BYTES, Estimate, Fit, Samples, ratio
from scapys import scapy_costs
from summary import Summary, Tables
from summary import about as called
from summary import parser as options
from weirlab.base.errors import WeirError

HERE = Path(__file__).resolve().parent
WAYS = (
    "out", "out-each", "out-udp", "out-rtp", "in", "in-udp", "in-rtp", "in-layers", "in-system", "raw-out",
    "raw-in",
)  # fmt: skip
FITS = ("suite", "mode", "way", "a ns", "b ns/B", "ns at 200 B", "off the line")
CONDITIONS = ("suite", "mode", "way", "warm, one flow", "warm, many", "cold, one", "cold, many")
BESIDE = ("suite", "mode", "way", "ns at 200 B", "× the algorithms alone", "Scapy, × as long")
VERDICTS = ("target", "found", "verdict")
MOST_OF_RAW = 1.5
LEAST_OF_PEERS = 2.0
SOME_SIZES = (64, 200, 520, 1500)
"""Sizes of cold packets, which take long."""
LEGEND = (
    "Bytes are those of the IP packet in the clear. out, in: packet after packet; out-each: eight at a time; "
    "out-udp, out-rtp: headers written before; in-udp, in-rtp, in-layers, in-system: handed to its call, "
    "with UDP, without, through a queue, or through a socket; raw: the algorithms alone, over as many bytes. "
    "In brackets: 2.5th to 97.5th percentile over drawn rounds."
)


@dataclass(frozen=True)
class Condition:
    """Whether packets and keys are in the caches."""

    name: str
    is_cold: bool
    flows: int

    @property
    def packets(self) -> int:
        """Packets in a round."""
        return 32_768 if self.is_cold else 64


@dataclass(frozen=True)
class Peers:
    """The cost of other tools: ns per packet, and packets per second of every search."""

    scapy_ns: dict[tuple[str, str, str], float]
    multibuffer_ns: multibuffer.Costs
    gateways_pps: dict[str, list[float]]


def conditions(flows: int) -> list[Condition]:
    return [
        Condition(
            f"{'cold' if is_cold else 'warm'}, {count:,} flow{'s' if count > 1 else ''}", is_cold, count
        )
        for is_cold in (False, True)
        for count in (1, flows)
    ]


def main() -> int:
    parser = options("esp", __doc__)
    parser.add_argument("--rounds", type=int, default=40, help="rounds with warm packets (default 40)")
    parser.add_argument("--cold-rounds", type=int, default=5, help="rounds with cold packets (default 5)")
    parser.add_argument("--flows", type=int, default=1024, help="number of flows for 'many' (default 1024)")
    parser.add_argument("--repeats", type=int, default=3, help="searches per gateway (default 3)")
    parser.add_argument(
        "--gateways", default=",".join(tunnels.USUAL), help=f"devices to compare ({', '.join(tunnels.USUAL)})"
    )
    asked = parser.parse_args()
    console = Console(width=140)
    about = {**called("esp"), "versions": machine.versions()}
    try:
        everything = measured(asked, console)
        scapy = scapy_costs(VOICE_BYTES)
        theirs = multibuffer.multibuffer_costs(VOICE_BYTES, console)
        carried = tunnels.throughputs(asked.gateways.split(","), asked.repeats, console)
    except (WeirError, subprocess.CalledProcessError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 1
    publish(asked.out, about, everything, Peers(scapy, theirs, carried), console)
    return 0


def measured(asked: argparse.Namespace, console: Console) -> dict[str, list[str]]:
    """The output lines of the benchmark, by condition."""
    found: dict[str, list[str]] = {}
    for condition in conditions(asked.flows):
        rounds = asked.cold_rounds if condition.is_cold else asked.rounds
        if rounds:
            console.print(f"{condition.name}: {rounds} rounds")
            found[condition.name] = measure(rounds, condition)
    return found


def measure(rounds: int, condition: Condition) -> list[str]:
    """Run the benchmark; returns lines with a JSON document each."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "weir-engine", "--bench", "esp_cost", "--"]
    command += ["--rounds", str(rounds), "--set", str(condition.packets)]
    command += ["--associations", str(condition.flows)]
    if condition.is_cold:
        command += ["--sizes", ",".join(map(str, SOME_SIZES))]
    done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def publish(
    out: Path,
    about: dict[str, Any],
    everything: dict[str, list[str]],
    peers: Peers,
    console: Console,
) -> None:
    """Write the folder with its page and raw data."""
    found = {name: costs.samples(lines) for name, lines in everything.items()}
    warm = next(iter(found.values()))
    fits = [costs.fit(key, sizes) for key, sizes in warm.items()]
    tables: Tables = {
        VERDICTS: verdicts(warm, peers.gateways_pps),
        BESIDE: beside(warm, peers.scapy_ns),
        multibuffer.HEADINGS: multibuffer.rows(warm, peers.multibuffer_ns, VOICE_BYTES),
        FITS: [fitted(one) for one in sorted(fits, key=_order)],
        CONDITIONS: by_condition(list(found.values())),
        tunnels.HEADINGS: tunnels.rows(peers.gateways_pps),
    }
    summary = Summary("What ESP costs per packet", about, about["versions"], tables, LEGEND)
    raw = {
        "fits": [asdict(one) for one in fits],
        "scapy_ns": {" ".join(key): ns for key, ns in peers.scapy_ns.items()},
        "multibuffer_ns": {" ".join(key): each for key, each in peers.multibuffer_ns.items()},
        "gateways_pps": peers.gateways_pps,
    }
    summary.publish(out, raw, console)
    (out / "rounds.jsonl").write_text(
        "".join(
            f'{{"condition":"{name}",{line[1:]}\n' for name, lines in everything.items() for line in lines
        )
    )


def verdicts(found: Samples, carried: dict[str, list[float]]) -> list[tuple[str, ...]]:
    """The targets, each with the result that decides it."""
    shares = {key: share for key in found if (share := over_raw(found, key)) is not None}
    rows: list[tuple[str, ...]] = []
    if shares:
        worst = max(shares, key=lambda key: shares[key].value)
        within = sum(share.high <= MOST_OF_RAW for share in shares.values())
        rows.append(
            (
                f"in and out within {MOST_OF_RAW} × of the algorithms alone at {VOICE_BYTES} B",
                f"{within} of {len(shares)}; at most {_times(shares[worst])}: {', '.join(worst)}",
                "met" if within == len(shares) else "missed",
            )
        )
    rows.append(tunnels.verdict(carried, LEAST_OF_PEERS))
    return rows


def over_raw(found: Samples, key: tuple[str, str, str]) -> Estimate | None:
    """Cost of a voice packet relative to the algorithms alone; None if there is nothing to compare."""
    suite, mode, way = key
    if way not in ("out", "out-each", "in"):
        return None
    raw = found.get((suite, mode, "raw-in" if way == "in" else "raw-out"))
    return ratio(found[key][VOICE_BYTES], raw[VOICE_BYTES]) if raw else None


def beside(found: Samples, scapy: dict[tuple[str, str, str], float]) -> list[tuple[str, ...]]:
    """A row per suite, mode and way."""
    rows: list[tuple[str, ...]] = []
    for key in sorted(found, key=_order_of_key):
        share = over_raw(found, key)
        if share is None:
            continue
        ns = ratio(found[key][VOICE_BYTES], [1.0] * len(found[key][VOICE_BYTES]))
        scapys = scapy.get(key)
        slower = "–" if scapys is None else f"{scapys / ns.value:,.0f}"
        rows.append((*key, ns.text(lambda value: f"{value:.0f}"), _times(share), slower))
    return rows


def fitted(one: Fit) -> tuple[str, ...]:
    return (
        one.suite,
        one.mode,
        one.way,
        Estimate(one.fixed_ns, *one.fixed_ns_interval).text(lambda value: f"{value:.1f}"),
        Estimate(one.per_byte_ns, *one.per_byte_ns_interval).text(lambda value: f"{value:.3f}"),
        Estimate(one.voice_ns, *one.voice_ns_interval).text(lambda value: f"{value:.0f}"),
        f"{one.worst_residual:.0%}",
    )


def by_condition(found: list[Samples]) -> list[tuple[str, ...]]:
    """Median ns of a voice packet under every condition."""
    rows = []
    for key in sorted(found[0], key=_order_of_key):
        medians = [
            f"{ratio(each[key][VOICE_BYTES], [1.0] * len(each[key][VOICE_BYTES])).value:.0f}"
            for each in found
        ]
        rows.append((*key, *medians, *["–"] * (len(CONDITIONS) - len(key) - len(medians))))
    return rows


def _times(share: Estimate) -> str:
    return share.text(lambda value: f"{value:.2f}")


def _order(one: Fit) -> tuple[str, str, int]:
    return _order_of_key((one.suite, one.mode, one.way))


def _order_of_key(key: tuple[str, str, str]) -> tuple[str, str, int]:
    return key[0], key[1], WAYS.index(key[2])


if __name__ == "__main__":
    sys.exit(main())
