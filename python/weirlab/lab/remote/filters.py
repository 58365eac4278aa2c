"""What Weir creates in the filter of a device that others use, too.

Rules are those of the drivers in ``lab.dut``, in an object of Weir's own. Only test traffic enters it: all
other traffic meets the device's own rules alone.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.lab.dut import iptables, nftables
from weirlab.lab.dut.rules import FAMILIES, Family, accepted, chain, check
from weirlab.lab.dut.tool import LoadCommand
from weirlab.lab.remote.target import Output, Target
from weirlab.records import RuleSetup

ENTERED: Final = "weir_entered_packets"
"""Counter of the packets that entered Weir's own rules."""

_WORDS: Final[dict[Family, str]] = {4: "ip", 6: "ip6"}
_WAIT_S: Final = "20"


class DeviceFilter(ABC):
    """The filter of a device."""

    name: str
    """As ``--dut`` calls it."""
    program: str
    package: str
    own: str
    """The objects of Weir's own, in words."""
    layout: str
    entries: re.Pattern[str]
    """The packets that entered Weir's own rules, in what :meth:`entered` prints; once for each IP version."""

    def missing(self, target: Target) -> list[str]:
        """What the device lacks, a sentence each."""
        if target.run(["sh", "-c", f"command -v {self.program}"]).returncode:
            return [f"{self.program} is not installed on {target.name}: install {self.package} there"]
        return []

    @abstractmethod
    def listing(self, target: Target) -> Output:
        """All rules of the device, as an administrator lists them, without counters."""

    @abstractmethod
    def existing(self, target: Target) -> str:
        """What there is already under the names that Weir uses; empty if nothing."""

    @abstractmethod
    def loads(self, rules: RuleSetup) -> list[LoadCommand]:
        """The commands that set ``rules``, in place of those set before."""

    @abstractmethod
    def restoring(self) -> str:
        """A shell script that removes Weir's own objects, and fails if they are still there."""

    @abstractmethod
    def entered(self) -> str:
        """A shell command that prints, among other things, how many packets entered Weir's own rules."""

    def packets(self, printed: str) -> int | None:
        """The packets that entered Weir's own rules, by what was printed; None if it does not say."""
        found = self.entries.findall(printed)
        return sum(map(int, found)) if found else None


_OF_WEIR: Final = re.compile(r"^-[NA] WEIR\b| -j WEIR$")


def _printed(target: Target, argv: Sequence[str]) -> str:
    """What a command prints there; raises ``LabError`` if it fails."""
    done = target.run(argv)
    if done.returncode:
        raise LabError(
            f"{target.name} does not tell whether rules of an earlier test are there: {shlex.join(argv)}: "
            f"{(done.stderr or done.stdout).strip()[-400:]}"
        )
    return done.stdout


class NftFilter(DeviceFilter):
    """The table ``inet weir``."""

    name = "nftables"
    program = "nft"
    package = "nftables"
    own = "the table inet weir"
    layout = (
        "linear rules in the table inet weir, entered by test traffic from a base chain at forward, priority "
        "filter; position 0: an empty chain"
    )
    entries = re.compile(r"counter packets (\d+) bytes \d+ jump")

    def listing(self, target: Target) -> Output:
        return target.run(["nft", "-s", "list", "ruleset"])

    def existing(self, target: Target) -> str:
        # A listing that fails, for want of memory for example, does not prove that there is nothing.
        there = "table inet weir" in _printed(target, ["nft", "list", "tables"]).splitlines()
        return _printed(target, ["nft", "list", "table", "inet", "weir"]) if there else ""

    def loads(self, rules: RuleSetup) -> list[LoadCommand]:
        return [LoadCommand(("nft", "-f", "-"), nft_ruleset(rules))]

    def restoring(self) -> str:
        # A command that fails, for want of memory for example, does not prove that the table is gone.
        return (
            "nft delete table inet weir 2>/dev/null\n"
            "tables=$(nft list tables) && ! echo \"$tables\" | grep -q '^table inet weir$'\n"
        )

    def entered(self) -> str:
        return "nft list chain inet weir forward"


class Fw4Filter(NftFilter):
    """OpenWrt's firewall: the same table beside ``inet fw4``, which a reload of the firewall leaves alone."""

    name = "fw4"

    def missing(self, target: Target) -> list[str]:
        if lacking := super().missing(target):
            return lacking
        if target.run(["sh", "-c", "command -v fw4"]).returncode:
            return [f"{target.name} has no fw4, so it is no OpenWrt 22.03 or newer: choose --dut nftables"]
        done = target.run(["uci", "-q", "get", "firewall.@defaults[0].flow_offloading"])
        if done.stdout.strip() == "1":
            return [
                f"{target.name} offloads flows, which then pass no rule: switch that off for the test "
                "(uci set firewall.@defaults[0].flow_offloading=0; fw4 reload)"
            ]
        return []


class IptablesFilter(DeviceFilter):
    """The chain ``WEIR`` in the table filter, and a rule in FORWARD that leads to it."""

    package = "iptables"
    own = "the chain WEIR, and the first rule of FORWARD"
    layout = (
        "linear rules in the chain WEIR of the table filter, entered by test traffic from the first rule of "
        "FORWARD; position 0: an empty chain"
    )
    entries = re.compile(r"^\s*(\d+)\s+\d+\s+WEIR\s", re.M)

    def __init__(self, variant: str = "") -> None:
        suffix = f"-{variant}" if variant else ""
        self.name = f"iptables{suffix}"
        self.program = self.name
        self._suffix = suffix
        self._families: tuple[Family, ...] = FAMILIES
        self._jumps: dict[Family, str] = {}
        """The rule in FORWARD that is there."""

    def missing(self, target: Target) -> list[str]:
        self._families = FAMILIES
        self._jumps = {}
        lacking = super().missing(target)
        if not lacking and target.run([f"ip6tables{self._suffix}", "-S", "FORWARD"]).returncode:
            # The kernel or the tool lacks IPv6: the test is one of IPv4.
            self._families = (4,)
        return lacking

    def listing(self, target: Target) -> Output:
        saves = "; ".join(f"{self._command(family)}-save -t filter" for family in self._families)
        done = target.run(["sh", "-c", saves])
        # An empty table that accepts is the same as none; iptables makes one when it adds the first rule.
        done.stdout = re.sub(
            r"^(#.*|\*filter|COMMIT|:\S+ ACCEPT \S+)\n| \[\d+:\d+\]$", "", done.stdout, flags=re.M
        )
        return done

    def existing(self, target: Target) -> str:
        commands = [[self._command(family), "-w", _WAIT_S, "-S"] for family in self._families]
        lines = [line for command in commands for line in _printed(target, command).splitlines()]
        return "\n".join(line for line in lines if _OF_WEIR.search(line))

    def loads(self, rules: RuleSetup) -> list[LoadCommand]:
        loads = []
        for family in self._families:
            jump = f"{iptables.match_words(accepted(family, rules))} -j WEIR"
            change = [f"-D FORWARD {old}"] if (old := self._jumps.get(family)) else []
            self._jumps[family] = jump
            lines = [
                "*filter",
                ":WEIR - [0:0]",
                *change,
                f"-I FORWARD 1 {jump}",
                *_iptables_lines(family, rules),
            ]
            command = [f"{self._command(family)}-restore", "--noflush", "--wait", _WAIT_S]
            loads.append(LoadCommand(command, "\n".join([*lines, "COMMIT", ""])))
        return loads

    def restoring(self) -> str:
        # The rule in FORWARD is found by its target, whatever it matches.
        return (
            "".join(
                f"{tool} -w {_WAIT_S} -S FORWARD | sed -n '/ -j WEIR$/s/^-A/-D/p' | while read -r rule; do "
                f"{tool} -w {_WAIT_S} $rule; done\n"
                f"{tool} -w {_WAIT_S} -F WEIR 2>/dev/null; {tool} -w {_WAIT_S} -X WEIR 2>/dev/null\n"
                f"rules=$({tool} -w {_WAIT_S} -S) || exit 1\n"
                "echo \"$rules\" | grep -q -e '^-N WEIR$' -e ' -j WEIR$' && exit 1\n"
                for tool in map(self._command, self._families)
            )
            + "exit 0\n"
        )

    def entered(self) -> str:
        return "; ".join(f"{self._command(family)} -w {_WAIT_S} -vxnL FORWARD 1" for family in self._families)

    def _command(self, family: Family) -> str:
        return f"{'iptables' if family == 4 else 'ip6tables'}{self._suffix}"


class PfFilter(DeviceFilter):
    """The anchor ``weir``, which the device's own ruleset must have."""

    name = "pf"
    program = "pfctl"
    package = "pf (FreeBSD, OpenBSD)"
    own = "the rules of the anchor weir"
    layout = (
        "linear rules in the anchor weir, each packet meets them on its way in and on its way out; "
        "position 0: an empty anchor"
    )
    entries = re.compile(r"^weir \d+ (\d+) ", re.M)
    """A line of labels: name, evaluations, packets, bytes, ... (pfctl(8))."""

    def missing(self, target: Target) -> list[str]:
        if lacking := super().missing(target):
            return lacking
        rules = target.run(["pfctl", "-sr"])
        if rules.returncode:
            return [f"pf does not work on {target.name}: {rules.stderr.strip()}"]
        if not re.search(r'^anchor "(weir|\*)"', rules.stdout, re.M):
            return [
                f'the rules of {target.name} have no anchor for Weir: put the line anchor "weir" first among '
                "the filter rules of /etc/pf.conf, then pfctl -f /etc/pf.conf"
            ]
        return []

    def listing(self, target: Target) -> Output:
        return target.run(["sh", "-c", "pfctl -sr; pfctl -a weir -sr"])

    def existing(self, target: Target) -> str:
        return target.run(["pfctl", "-a", "weir", "-sr"]).stdout

    def loads(self, rules: RuleSetup) -> list[LoadCommand]:
        # -o none: pf's optimizer would remove and reorder rules.
        return [LoadCommand(("pfctl", "-o", "none", "-a", "weir", "-f", "-"), pf_ruleset(rules))]

    def restoring(self) -> str:
        anchors = ["weir", *(f"weir/rules{family}" for family in FAMILIES)]
        flushes = "".join(f"pfctl -a {anchor} -F rules 2>/dev/null\n" for anchor in anchors)
        return f'{flushes}rules=$(pfctl -a weir -sr) && [ -z "$rules" ]\n'

    def entered(self) -> str:
        return "; ".join(f"pfctl -a weir/rules{family} -s labels" for family in FAMILIES)


FILTERS: Final[dict[str, Callable[[], DeviceFilter]]] = {
    "fw4": Fw4Filter,
    "iptables": IptablesFilter,
    "iptables-legacy": lambda: IptablesFilter("legacy"),
    "iptables-nft": lambda: IptablesFilter("nft"),
    "nftables": NftFilter,
    "pf": PfFilter,
}
"""By the name of the device."""


def make_filter(name: str) -> DeviceFilter:
    """The filter called ``name``; raises ``InputError`` if a device elsewhere has no such filter."""
    if name not in FILTERS:
        raise InputError(
            f"the rules of a device elsewhere are those of {', '.join(FILTERS)}, not of {name!r}"
        )
    return FILTERS[name]()


def nft_ruleset(rules: RuleSetup) -> str:
    """The table ``inet weir`` in nft syntax; replaces the one that is there, in one transaction."""
    check(rules)
    return "\n".join(_nft_lines(rules)) + "\n"


def _nft_lines(rules: RuleSetup) -> Iterator[str]:
    # The first line makes sure that there is a table to delete.
    yield from ("table inet weir", "delete table inet weir", "table inet weir {")
    for family in FAMILIES:
        yield f"  chain rules{family} {{"
        if rules.stateful:
            yield "    ct state invalid drop"
        if rules.answered:
            yield "    ct state established,related accept"
        yield from (
            f"    {nftables.match_words(_WORDS[family], match)} accept" for match in chain(family, rules)
        )
        if rules.position:
            yield "    drop"
        yield "  }"
    yield "  chain forward {"
    yield "    type filter hook forward priority filter; policy accept;"
    for family in FAMILIES:
        words = nftables.match_words(_WORDS[family], accepted(family, rules))
        yield f"    {words} counter jump rules{family}"
    yield from ("  }", "}")


def _iptables_lines(family: Family, rules: RuleSetup) -> Iterator[str]:
    check(rules)
    if rules.stateful:
        yield "-A WEIR -m conntrack --ctstate INVALID -j DROP"
    if rules.answered:
        yield "-A WEIR -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
    for match in chain(family, rules):
        yield f"-A WEIR {iptables.match_words(match)} -j ACCEPT"
    if rules.position:
        yield "-A WEIR -j DROP"


def pf_ruleset(rules: RuleSetup) -> str:
    """The rules of the anchor ``weir`` in the syntax of pf.conf(5)."""
    check(rules)
    return "".join(f"{line}\n" for family in FAMILIES for line in _pf_lines(family, rules))


def _pf_lines(family: Family, rules: RuleSetup) -> Iterator[str]:
    word, state = "inet" if family == 4 else "inet6", "keep state" if rules.stateful else "no state"
    inside = accepted(family, rules)
    if not rules.position:
        return
    yield f'anchor "rules{family}" {word} from {inside.source} to {inside.destination} {{'
    for match in chain(family, rules):
        protocol = "" if match.protocol is None else f" proto {match.protocol}"
        port = "" if match.port is None else f" port {match.port}"
        yield (
            f"  pass quick {word}{protocol} from {match.source} to {match.destination}{port} {state} "
            "label weir"
        )
    yield "  block drop quick"
    yield "}"


def described(loads: Sequence[LoadCommand]) -> str:
    """What the device is given, for the user to read: the rules themselves, the many fillers counted."""
    lines = [line for load in loads for line in load.text.splitlines()]
    shown = [line for line in lines if not re.search(r"\b(10\.|172\.|fd00:|2001:db8:)", line)]
    hidden = len(lines) - len(shown)
    return "\n".join(
        [
            *(f"+ {line}" for line in shown),
            *([f"+ ... and {hidden:,} rules that test traffic does not match"] if hidden else []),
        ]
    )
