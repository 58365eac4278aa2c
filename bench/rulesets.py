"""Orders of random rulesets, compared in the kernel with the orders they came from.

    make bench-rulesets ARGS="--nft 5000 --iptables 1000"
    .venv/bin/python bench/rulesets.py --nft 200 --seed 7 --keep failed

Makes random chains of nft and iptables, with every expression and statement of nft(8) and
iptables-extensions(8) that this kernel knows, with random counters. Of each, ``weir plan`` advises an order,
and packets at the limits of every match pass through both orders, each in a network namespace of its own.
Verdicts, marks, log entries, counters, and every rule with an effect that a packet meets must be the same.
Unlike ``weir plan``, the first advice is tried as it is, before packets had a say in it. Needs root.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.lab.dut.rulesets.listing import list_rules
from weirlab.lab.dut.rulesets.source import RulesetSource
from weirlab.lab.equivalence.bed import FilterBed
from weirlab.lab.equivalence.proof import EquivalenceProof, prove
from weirlab.rules import advise

PARTS = Path(__file__).with_suffix(".txt")
"""Matches, statements and verdicts, one a line; ``-`` is none."""

NFT_OBJECTS = """\
  counter named { packets 5 bytes 60; }
  counter other { packets 0 bytes 0; }
  quota spent { over 1 mbytes; }
  limit slowly { rate 1/day burst 3 packets; }
  ct helper sip { type "sip" protocol udp; l3proto ip; }
  ct timeout slow { protocol udp; l3proto ip; policy = { replied : 12, unreplied : 10 }; }
  set addresses { type ipv4_addr; flags interval; elements = { 10.1.0.0/24, 10.2.0.5 } }
  set changing { type ipv4_addr; flags dynamic, timeout; timeout 1h; elements = { 10.2.0.5 } }
  set counting { type ipv4_addr; counter; elements = { 10.1.0.1, 10.1.0.5 } }
  set ports { type inet_service; elements = { 80, 443 } }
  set pairs { type inet_service . mark; elements = { 80 . 1 } }
  set flows { type ipv4_addr . inet_service; flags dynamic, timeout; timeout 1h; }
  map verdicts { type inet_proto : verdict; elements = { tcp : accept, udp : jump two, icmp : drop } }
"""

TABLES = ("filter", "filter", "mangle")
"""Tables of random rules of iptables."""

REFUSED = "refused by nft"
LINE = re.compile(r"\.rules:(\d+):")
"""A line in a message of nft."""

COMMON = 0.6
"""Share of matches that are common ones."""


def listed(section: str) -> list[str]:
    """The lines of a section of ``PARTS``."""
    _, _, rest = PARTS.read_text().partition(f"[{section}]\n")
    return ["" if line == "-" else line for line in rest.partition("\n\n")[0].splitlines()]


class Maker(ABC):
    """Random rulesets of the parts that this kernel loads."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def loadable(self, section: str, load: Callable[[str], object], where: str = "") -> list[str]:
        """The parts of a section that this kernel knows."""
        parts = listed(section)
        found = []
        for part in dict.fromkeys(parts):
            try:
                load(part)
                found.append(part)
            except InputError:
                print(f"not known here{where}: {part}")
        print(f"{section}: {len(found)} of {len(set(parts))} can be loaded{where}", flush=True)
        return [part for part in parts if part in found]

    @abstractmethod
    def make(self) -> str:
        """A ruleset."""

    def weight(self) -> int:
        return int(10 ** self.chance.uniform(0, 6)) - 1


class NftMaker(Maker):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        words = ("addr 1", "addr {", "port 8", "dport", "ifname", "state", "l4proto", "icmp type")
        self.matches, self.effects, self.verdicts = (
            self.loadable(f"nft {section}", lambda part: list_rules(self._text([part], [], []), "part"))
            for section in ("matches", "statements", "verdicts")
        )
        self.common = [part for part in self.matches if any(word in part for word in words)]

    def make(self) -> str:
        chance = self.chance
        forward = [self._rule([]) for _ in range(chance.randint(3, 14))]
        one = [self._rule(["jump", "goto"]) for _ in range(chance.randint(0, 4))]
        two = [self._rule(["jump", "goto", "vmap"]) for _ in range(chance.randint(0, 4))]
        return self._text(forward, one, two)

    def _match(self) -> str:
        """Half of them such as most rulesets have, so that rules can move at all."""
        return self.chance.choice(self.common if self.chance.random() < COMMON else self.matches)

    def _rule(self, without: Sequence[str]) -> str:
        chance = self.chance
        parts = [self._match() for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))]
        counter = f"counter packets {self.weight()} bytes 9" if chance.random() < 0.9 else ""
        if chance.random() < 0.15:
            parts.insert(chance.randint(0, len(parts)), chance.choice(self.effects))
        words = (*without, "verdicts") if without else ()
        verdicts = [each for each in self.verdicts if not any(word in each for word in words)]
        verdict = chance.choice(verdicts)
        place = len(parts) if chance.random() < 0.95 else 0
        parts.insert(place, counter)
        return " ".join([*filter(None, parts), verdict])

    def _text(self, forward: Sequence[str], one: Sequence[str], two: Sequence[str]) -> str:
        def chain(name: str, head: str, rules: Sequence[str]) -> str:
            return f"  chain {name} {{\n{head}" + "".join(f"    {rule}\n" for rule in rules) + "  }\n"

        head = "    type filter hook forward priority filter; policy drop;\n"
        chains = chain("two", "", two) + chain("one", "", one) + chain("forward", head, forward)
        return f"table inet f {{\n{NFT_OBJECTS}{chains}}}\n"


class IptablesMaker(Maker):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.parts = {table: self._parts(table) for table in dict.fromkeys(TABLES)}

    def make(self) -> str:
        table = self.chance.choice(TABLES)
        matches, targets = self.parts[table]
        lines = [self._rule("FORWARD", matches, targets) for _ in range(self.chance.randint(3, 14))]
        inner = [each for each in targets if "one" not in each]
        lines += [self._rule("one", matches, inner) for _ in range(self.chance.randint(0, 4))]
        return self._text(table, lines)

    def _parts(self, table: str) -> tuple[list[str], list[str]]:
        """Matches and targets that the table can have."""

        def load(part: str) -> None:
            text = self._text(table, [f"[0:0] -A FORWARD {part}"])
            FilterBed(["iptables-nft-restore"], text, ["eth0"], [0], True, {}).close()

        matches, targets = (
            self.loadable(f"iptables {section}", load, f" in table {table}")
            for section in ("matches", "targets")
        )
        return matches, targets

    def _rule(self, chain: str, matches: Sequence[str], targets: Sequence[str]) -> str:
        chance = self.chance
        parts: list[str] = []
        for part in (chance.choice(matches) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))):
            names = {word for each in parts for word in each.split() if word.startswith("-")}
            if not names & {word for word in part.split() if word.startswith("-") and word != "-m"}:
                parts.append(part)
        return f"[{self.weight()}:9] -A {chain} {' '.join([*parts, chance.choice(targets)])}"

    def _text(self, table: str, rules: Sequence[str]) -> str:
        head = [f"*{table}", f":FORWARD DROP [{self.weight()}:0]", ":one - [0:0]"]
        return "\n".join([*head, *rules, "COMMIT", ""])


def outcome(path: Path) -> tuple[str, EquivalenceProof]:
    """What became of the advice on a ruleset, and what packets showed."""
    try:
        source = RulesetSource(path, HOST_FILES)
        advice = advise(source.path_of_packets(elements=False), str(path))
    except InputError as error:
        what = REFUSED if REFUSED in str(error) else "no advice possible"
        return what, EquivalenceProof(failure=str(error) if what == REFUSED else "")
    if not advice.chains:
        return "no better order", EquivalenceProof()
    proof = prove(source, advice)
    if not proof.failure:
        return "same", proof
    if "treated differently" in proof.failure or "counters" in proof.failure:
        return "different", proof
    return ("misread" if "contradicts" in proof.failure else "not compared"), proof


@dataclass(frozen=True)
class Comparison:
    """What became of the advice on one ruleset."""

    rules_of: str
    """The tool that loads it: nft or iptables."""
    outcome: str
    packets: int
    undetermined: int
    """Packets about which a rule that depends on time or on earlier packets decided otherwise."""
    failure: str


def without_refused(text: str, message: str) -> str:
    """``text`` without the rules that nft refuses, such as those that compare fields of two protocols; empty
    if it names none, as where it aborts."""
    refused = {int(number) for number in LINE.findall(message)}
    lines = [line for number, line in enumerate(text.splitlines(), 1) if number not in refused]
    return "\n".join([*lines, ""]) if refused else ""


def compared(maker: Maker, name: str, count: int, keep: Path | None) -> Iterator[Comparison]:
    """Compare the orders of so many rulesets."""
    start_s = time.monotonic()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "random.rules"
        for done in range(1, count + 1):
            path.write_text(maker.make())
            while (ruled := outcome(path))[0] == REFUSED:
                path.write_text(without_refused(path.read_text(), ruled[1].failure) or maker.make())
            what, proof = ruled
            if proof.failure:
                print(f"{what}: {proof.failure}", flush=True)
                if keep is not None:
                    keep.mkdir(exist_ok=True, parents=True)
                    (keep / f"{name}-{done}-{what.split()[0]}").write_text(path.read_text())
            yield Comparison(name, what, proof.packets, proof.undetermined, proof.failure)
            if done % 100 == 0:
                print(f"{name}: {done} in {time.monotonic() - start_s:.0f} s", flush=True)


def summary(found: Sequence[Comparison]) -> Table:
    """A row for each tool."""
    with_advice = ("same", "different", "misread", "not compared")
    table = Table("rules of", "rulesets", "advice", *with_advice, "packets")
    for name in dict.fromkeys(each.rules_of for each in found):
        own = [each for each in found if each.rules_of == name]
        counts = Counter(each.outcome for each in own)
        cells = [len(own), sum(counts[each] for each in with_advice), *(counts[each] for each in with_advice)]
        table.add_row(name, *map(str, cells), str(sum(each.packets for each in own)))
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nft", type=int, default=200, help="rulesets of nft")
    parser.add_argument("--iptables", type=int, default=50, help="rulesets of iptables")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for rulesets with a difference")
    parser.add_argument("--raw", type=Path, help="file for what became of each ruleset, one a line")
    arguments = parser.parse_args()
    found: list[Comparison] = []
    for name, count, kind in (
        ("nft", arguments.nft, NftMaker),
        ("iptables", arguments.iptables, IptablesMaker),
    ):
        for each in compared(kind(arguments.seed), name, count, arguments.keep) if count else ():
            found.append(each)
            if arguments.raw is not None:
                with arguments.raw.open("a") as raw:
                    raw.write(f"{json.dumps(asdict(each))}\n")
    Console(width=110).print(summary(found))
    return 1 if any(each.outcome in ("different", "misread") for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
