"""What a plan with a large number of prefixes costs: checking, making zones, look-ups, serving with BIND.

    make bench-prefixes
    .venv/bin/python bench/prefixes.py --prefixes 20000 --questions 200

Makes a plan of ranges, routes and ENUM entries (100,000 by default) as a file with a separate table. Commands
are timed as users see them, with the start of Python; look-ups are timed within the process. With root, the
lab of the plan is started, and BIND's answers for random numbers are compared with the plan.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import dns.message
import dns.query
import dns.rdatatype
from rich.console import Console
from rich.table import Table

from managing import HEAD, made
from weirlab.numbering.lab import VoiceLab
from weirlab.numbering.plan import load
from weirlab.numbering.plan.model import NumberingPlan
from weirlab.numbering.plan.values import owner_name
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls

SEED = 1
REPEATS = 3
PATIENCE_S = 10.0
COLUMNS = ("prefix", "number", "tree", "service", "uri", "owner", "digits", "at", "to")


def written(folder: Path, prefixes: int) -> Path:
    """The plan as a file with a table."""
    plan = made(prefixes)
    with open(folder / "prefixes.csv", "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(_rows(plan))
    path = folder / "plan.yaml"
    path.write_text(HEAD + "tables: [prefixes.csv]\n")
    return path


def _rows(plan: NumberingPlan) -> Iterator[dict[str, object]]:
    for each in plan.ranges:
        yield {"prefix": each.prefix, "owner": each.owner, "digits": each.digits}
    for entry in plan.enum:
        (naptr,) = entry.naptr
        key = {"prefix": entry.prefix} if entry.prefix else {"number": entry.number}
        yield {**key, "tree": entry.tree, "service": naptr.service, "uri": naptr.uri}
    for route in plan.routes:
        yield {"prefix": route.prefix, "at": route.at, "to": " ".join(route.to)}


def command(*words: str) -> float:
    """How long a Weir command takes, in s."""
    begun_s = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "weirlab", "voice", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"weir voice {' '.join(words)}: {done.stderr}")
    return time.monotonic() - begun_s


def drawn(plan: NumberingPlan, count: int) -> list[str]:
    """Numbers that start with a prefix of the plan; one in five is in no range."""
    draw = random.Random(SEED)
    prefixes = [draw.choice(plan.ranges).prefix if rank % 5 else "+420999999" for rank in range(count)]
    return [each + "".join(draw.choices("0123456789", k=draw.choice((2, 3)))) for each in prefixes]


def per_call_us(act: Callable[[str], object], numbers: list[str]) -> float:
    """The median time per call over the repeats, each over all numbers, in µs."""
    found = []
    for _ in range(REPEATS):
        begun_s = time.perf_counter()
        for number in numbers:
            act(number)
        found.append((time.perf_counter() - begun_s) / len(numbers) * 1e6)
    return statistics.median(found)


def served(network: PlanNetwork, numbers: list[str], table: Table) -> None:
    """Ask BIND for all ``numbers``; exits with an error if an answer differs from the plan."""
    tree = network.plan.trees["public"]
    begun_s = time.monotonic()
    with VoiceLab(network, 0.1) as lab:
        started_s = time.monotonic() - begun_s
        table.add_row("start of the lab: BIND and Kamailio with the whole plan", f"{started_s:.1f} s")
        server = next(daemon.address for daemon in lab.daemons if daemon.program == "named")
        answered = 0
        for number in numbers:
            index = network.trees["public"].lookup(number[1:])
            wanted = [] if index is None else [each.service for each in network.plan.enum[index].naptr]
            answer = lab.at("phone").call(partial(_asked, owner_name(number[1:], tree.suffix), server))
            if answer != wanted:
                sys.exit(f"{number}: BIND answers {answer}, but the plan has {wanted}")
            answered += bool(answer)
        table.add_row("answers of BIND as in the plan", f"{len(numbers):,}, {answered:,} with records")


def _asked(name: str, server: str) -> list[str]:
    question = dns.message.make_query(name, "NAPTR")
    answer, _ = dns.query.udp_with_fallback(question, server, timeout=PATIENCE_S)
    return [
        record.service.decode()
        for found in answer.answer
        if found.rdtype == dns.rdatatype.NAPTR
        for record in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prefixes", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=1000, help="queries to BIND (with root)")
    asked = parser.parse_args()
    table = Table("What", "Cost", title=f"A plan of {asked.prefixes:,} ranges, entries and routes")
    with TemporaryDirectory() as folder:
        path = written(Path(folder), asked.prefixes)
        table.add_row("weir voice check", f"{command('check', '--plan', str(path)):.1f} s")
        zones = command("zones", "--plan", str(path), "--out", f"{folder}/zones")
        table.add_row("weir voice zones", f"{zones:.1f} s")
        network = PlanNetwork(load(path), date.today())
        numbers = drawn(network.plan, asked.questions)
        entries, routes = network.trees["public"], network.routes["core", None, False]
        looked_up = per_call_us(
            lambda number: (entries.lookup(number[1:]), routes.longest(number[1:])), numbers
        )
        table.add_row("look-up of a number's entry and route", f"{looked_up:.1f} us")
        whole = per_call_us(lambda number: next(calls(network, number)), numbers)
        table.add_row("a number's whole path, with its reasons", f"{whole:.0f} us")
        if os.geteuid() == 0:
            served(network, numbers, table)
    Console().print(table)


if __name__ == "__main__":
    main()
