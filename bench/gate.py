"""How often `weir compare --measure` is right: rules that cost a packet 10 % more time, or the same rules.

With --rulesets instead: `weir plan --ruleset --before`, which measures nothing, with 300 rules on top of a
drawn ruleset, and with the same. With --failover: `weir failover --protocol keepalived --repetitions 2`, its
valid attempts and time.

    make bench-gate                                 # 20 comparisons of each kind: an hour, if it is quiet
    make bench-gate ARGS="--only slower --pairs 16" # 20 slower devices: a quarter of that
    make bench-gate ARGS="--rounds 5 --load"        # a quarter of that, beside two busy processes
    make bench-gate ARGS="--rulesets"               # a minute, on any machine
    make bench-gate ARGS="--failover --rounds 3"    # nine minutes

The interval of a change narrows with the pairs: a slower device that 16 pairs find, 60 find as well. The
reverse does not hold for a device that did not change: it takes the pairs to prove that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import load
import machine

FRAME = "128"
RULES = 100
"""Before the one that test traffic matches, in the rules before the change."""
SLOWER = 0.1
WANTED = {"slower": 9, "unchanged": 0, "300 rules on top": 9}
"""Exit codes by what has changed."""
MEASURED = ("slower", "unchanged")
ON_TOP = 300


def weir(*arguments: object, store: Path) -> tuple[int, dict[str, Any], float]:
    """Exit code, document and seconds of a command."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "weirlab", *map(str, arguments), "--store", str(store), "--json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return ended.returncode, json.loads(ended.stdout or "{}"), time.monotonic() - begun


def rules(path: Path, before: int) -> Path:
    """A ruleset in which so many rules are compared in vain before the one for test traffic."""
    others = [f"-A FORWARD -s 10.{i // 250}.{i % 250}.0/24 -p udp -j DROP" for i in range(before)]
    accepted = "[9:900] -A FORWARD -s 198.18.0.0/16 -d 198.19.0.0/16 -p udp -j ACCEPT"
    path.write_text("\n".join(["*filter", ":FORWARD DROP [0:0]", *others, accepted, "COMMIT", ""]))
    return path


def drawn(path: Path, seed: int, on_top: int) -> Path:
    """A ruleset of 10 to 100 counted rules, with so many new ones on top, which have no counters."""
    chance = random.Random(seed)

    def rule(counter: str) -> str:
        address = f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"
        protocol = chance.choice(("tcp", "udp"))
        ports = f"-p {protocol} --dport {chance.randrange(1, 65536)}"
        return f"{counter}-A FORWARD -s {address}/32 {ports} -j {chance.choice(('ACCEPT', 'DROP'))}"

    counts = [round(chance.paretovariate(0.8) * 100) for _ in range(chance.randrange(10, 101))]
    counted = [rule(f"[{packets}:{packets * 100}] ") for packets in counts]
    new = [rule("") for _ in range(on_top)]
    path.write_text("\n".join(["*filter", ":FORWARD DROP [50:5000]", *new, *counted, "COMMIT", ""]))
    return path


def planned(rounds: int, folder: Path) -> dict[str, Any]:
    """Exit codes of plans that compare drawn rulesets, without measuring."""
    kinds = {f"{ON_TOP} rules on top": ON_TOP, "unchanged": 0}
    codes: dict[str, Counter[int]] = {kind: Counter() for kind in kinds}
    for seed in range(rounds):
        before = drawn(folder / "before.rules", seed, 0)
        for kind, on_top in kinds.items():
            after = drawn(folder / "after.rules", seed, on_top)
            code, found, _ = weir("plan", "--ruleset", after, "--before", before, store=folder / "store")
            codes[kind][code] += 1
            print(f"{seed + 1}/{rounds} {kind}: exit code {code}, {found.get('conclusion', '')}", flush=True)
    tell(codes, rounds)
    return {"exit codes": codes}


def tell(codes: dict[str, Counter[int]], rounds: int) -> None:
    """Print how many exit codes were right."""
    for kind, counts in codes.items():
        others = ", ".join(f"{n} x {code}" for code, n in sorted(counts.items()) if code != WANTED[kind])
        right = f"{counts[WANTED[kind]]} of {rounds} ended with {WANTED[kind]}"
        print(f"{kind}: {right}" + (f"; {others}" if others else ""))


def more_rules(store: Path, folder: Path, pairs: int) -> int:
    """Rules that make packets take ``SLOWER`` longer; found by trying, as their cost is not linear."""
    before, count = rules(folder / "few.rules", RULES), RULES // 4
    options = ("--frame", FRAME, "--pairs", pairs)
    for _ in range(3):
        after = rules(folder / "more.rules", RULES + count)
        _, found, _ = weir("compare", "--measure", before, after, *options, store=store)
        (rate,) = (one for one in found["quantities"] if one["quantity"] == "rate")
        slower = 1 / (1 + float(rate["change"])) - 1
        print(f"{count} rules more than {RULES} cost {slower:.1%} of the time of a packet", flush=True)
        count = round(min(max(SLOWER / max(slower, 0.01), 0.5), 4) * count)
    return count


def compared(kinds: Sequence[str], rounds: int, pairs: int, folder: Path) -> dict[str, Any]:
    """Exit codes of the comparisons, the kinds in turns."""
    store = folder / "store"
    extra = more_rules(store, folder, pairs)
    print(f"{extra} rules more should cost {SLOWER:.0%}", flush=True)
    before = rules(folder / "before.rules", RULES)
    after = {
        "slower": rules(folder / "slower.rules", RULES + extra),
        "unchanged": rules(folder / "unchanged.rules", RULES),
    }
    codes: dict[str, Counter[int]] = {kind: Counter() for kind in kinds}
    changes: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    seconds = []
    for number in range(1, rounds + 1):
        for kind in kinds:
            options = ("--frame", FRAME, "--pairs", pairs)
            code, found, took_s = weir("compare", "--measure", before, after[kind], *options, store=store)
            codes[kind][code] += 1
            changes[kind].append({one["quantity"]: one["change"] for one in found.get("quantities", ())})
            seconds.append(took_s)
            shown = ", ".join(f"{name} {change:+.1%}" for name, change in changes[kind][-1].items())
            print(f"{number}/{rounds} {kind}: exit code {code} after {took_s:.0f} s, {shown}", flush=True)
    tell(codes, rounds)
    for kind, found_changes in changes.items():
        rates = [change["rate"] for change in found_changes if "rate" in change]
        if rates:
            print(f"{kind}: forwarding rate {statistics.median(rates):+.1%} in the median")
    return {"more rules": extra, "exit codes": codes, "changes": changes, "seconds": seconds}


def failovers(rounds: int, folder: Path) -> dict[str, Any]:
    """Valid attempts of runs of failover."""
    runs = []
    for number in range(1, rounds + 1):
        command = ("failover", "--protocol", "keepalived", "--repetitions", 2)
        code, _, took_s = weir(*command, store=folder / "store")
        shown = weir("show", "last", store=folder / "store")[1]
        kept = {role: dict(counts) for role, counts in shown.get("counts", {}).items()}
        runs.append({"exit code": code, "seconds": took_s, "attempts": kept})
        print(f"{number}/{rounds}: exit code {code} after {took_s:.0f} s, {kept}", flush=True)
    return {"failover": runs}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--pairs", type=int, default=60, help="pairs of trials of a comparison")
    arguments.add_argument("--only", choices=MEASURED, help="one kind of comparison")
    arguments.add_argument("--rulesets", action="store_true")
    arguments.add_argument("--failover", action="store_true")
    arguments.add_argument("--load", action="store_true", help="beside two busy processes")
    arguments.add_argument("--out", type=Path, help="write the results to this file, as JSON")
    asked = arguments.parse_args()
    kinds = [asked.only] if asked.only else list(MEASURED)
    found: dict[str, Any] = {"versions": machine.versions()}
    with tempfile.TemporaryDirectory() as name, load.beside() if asked.load else contextlib.nullcontext():
        folder = Path(name)
        if asked.failover:
            found |= failovers(asked.rounds, folder)
        elif asked.rulesets:
            found |= planned(asked.rounds, folder)
        else:
            found |= compared(kinds, asked.rounds, asked.pairs, folder)
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
