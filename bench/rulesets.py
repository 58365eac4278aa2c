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
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from weirlab.errors import InputError
from weirlab.files import HOST_FILES
from weirlab.lab.dut.rulesets.listing import list_rules
from weirlab.lab.dut.rulesets.source import RulesetSource
from weirlab.lab.equivalence.bed import FilterBed
from weirlab.lab.equivalence.proof import Proof, prove
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

COMMON = 0.6
"""Share of matches that are common ones."""


def listed(section: str) -> list[str]:
    """The lines of a section of ``PARTS``."""
    _, _, rest = PARTS.read_text().partition(f"[{section}]\n")
    return ["" if line == "-" else line for line in rest.partition("\n\n")[0].splitlines()]


class Maker:
    """Random rulesets of the parts that this kernel loads."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def loadable(self, section: str, load: Callable[[str], object]) -> list[str]:
        """The parts of a section that this kernel knows."""
        parts = listed(section)
        found = []
        for part in dict.fromkeys(parts):
            try:
                load(part)
                found.append(part)
            except InputError:
                print(f"not known here: {part}")
        print(f"{section}: {len(found)} of {len(set(parts))} can be loaded", flush=True)
        return [part for part in parts if part in found]

    def make(self) -> str:
        """A ruleset."""
        raise NotImplementedError

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

        def load(part: str) -> None:
            text = self._text([f"[0:0] -A FORWARD {part}"])
            FilterBed(["iptables-nft-restore"], text, ["eth0"], [0], True, {}).close()

        self.matches, self.targets = (
            self.loadable(f"iptables {section}", load) for section in ("matches", "targets")
        )

    def make(self) -> str:
        lines = [self._rule("FORWARD", self.targets) for _ in range(self.chance.randint(3, 14))]
        inner = [each for each in self.targets if "one" not in each]
        return self._text(lines + [self._rule("one", inner) for _ in range(self.chance.randint(0, 4))])

    def _rule(self, chain: str, targets: Sequence[str]) -> str:
        chance = self.chance
        parts: list[str] = []
        for part in (chance.choice(self.matches) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))):
            names = {word for each in parts for word in each.split() if word.startswith("-")}
            if not names & {word for word in part.split() if word.startswith("-") and word != "-m"}:
                parts.append(part)
        return f"[{self.weight()}:9] -A {chain} {' '.join([*parts, chance.choice(targets)])}"

    def _text(self, rules: Sequence[str]) -> str:
        head = ["*filter", f":FORWARD DROP [{self.weight()}:0]", ":one - [0:0]"]
        return "\n".join([*head, *rules, "COMMIT", ""])


def outcome(path: Path) -> tuple[str, Proof]:
    """What became of the advice on a ruleset, and what packets showed."""
    try:
        source = RulesetSource(path, HOST_FILES)
        advice = advise(source.path_of_packets(elements=False), str(path))
    except InputError as error:
        return ("refused by nft" if "refused by" in str(error) else "no advice possible"), Proof()
    if not advice.chains:
        return "no better order", Proof()
    proof = prove(source, advice)
    if not proof.failure:
        return "same", proof
    if "treated differently" in proof.failure or "counters" in proof.failure:
        return "different", proof
    return ("misread" if "contradicts" in proof.failure else "not compared"), proof


def tried(maker: Maker, name: str, count: int, keep: Path | None) -> tuple[Counter[str], int]:
    """How many of ``count`` rulesets came out how, and the packets that were sent."""
    found: Counter[str] = Counter()
    packets, start_s = 0, time.monotonic()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "random.rules"
        while found.total() < count:
            path.write_text(maker.make())
            what, proof = outcome(path)
            if what == "refused by nft":
                continue
            found[what] += 1
            packets += proof.packets
            if proof.failure:
                print(f"{what}: {proof.failure}", flush=True)
                if keep is not None:
                    keep.mkdir(exist_ok=True, parents=True)
                    (keep / f"{name}-{found.total()}-{what.split()[0]}").write_text(path.read_text())
            if found.total() % 100 == 0:
                print(name, dict(found), f"{time.monotonic() - start_s:.0f} s", flush=True)
    return found, packets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nft", type=int, default=200, help="rulesets of nft")
    parser.add_argument("--iptables", type=int, default=50, help="rulesets of iptables")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for rulesets with a difference")
    arguments = parser.parse_args()
    compared = ("same", "different", "misread", "not compared")
    table = Table("rules of", "rulesets", "advice", *compared, "packets")
    wrong = 0
    for name, count, kind in (
        ("nft", arguments.nft, NftMaker),
        ("iptables", arguments.iptables, IptablesMaker),
    ):
        if count:
            found, packets = tried(kind(arguments.seed), name, count, arguments.keep)
            cells = [count, sum(found[each] for each in compared), *(found[each] for each in compared)]
            table.add_row(name, *map(str, cells), str(packets))
            wrong += found["different"] + found["misread"]
    Console(width=110).print(table)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
