"""The user's own rules, from a file in the format of iptables-save or ``nft list ruleset``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.lab.base import Driver, Site
from weirlab.lab.crossing import make_placeholders
from weirlab.lab.dut import nftables, tool
from weirlab.lab.dut.aiming import COMPARED, MATCHED, PACKETS, RuleTraffic, candidates, same_packets
from weirlab.lab.dut.iptables import restore_command
from weirlab.lab.dut.rules import Family, check_single
from weirlab.lab.dut.rulesets.dryrun import RulesetCopy, aim_checked
from weirlab.lab.dut.rulesets.source import NOTHING, RESTORE_SETS, RulesetSource, save_command, variant
from weirlab.lab.dut.tool import LoadCommand
from weirlab.lab.linux.namespace import Namespace
from weirlab.records import ESTABLISHED, RuleSetup
from weirlab.rules import Ruleset as Rules
from weirlab.rules import iptables_path
from weirlab.rules.encounters import Encounters, from_arrivals, from_matches
from weirlab.rules.nft.listing import arrivals, rule_counters
from weirlab.rules.nft.written import counting, interfaces
from weirlab.rules.passing import VerdictPlace
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.spec import Flows

_TRANSLATION: Final = re.compile(r"\b(?:snat|dnat|masquerade|redirect|netmap)\b", re.I)
"""Words of rules that translate addresses or ports, perhaps only in a comment."""

_SETS: Final = re.compile(r"^(?:\[\d+:\d+\] )?-A .*(?: --match-set |-j SET )", re.M)
_FLOWTABLE: Final = re.compile(r"\bflowtable\b")
_PROBE_FLOWTABLE: Final = (
    nftables.COMMAND,
    "table inet weir { flowtable f { hook ingress priority 0; devices = { lo }; } }\n",
)


class RulesetDriver(Driver):
    """Loads the file unchanged. The file alone decides what happens to the test traffic, so the matching
    position and statefulness of a trial are ignored.

    The device's interfaces are called ``in0`` and ``out0``, unless the rules for the test traffic
    (:meth:`aim`) match on other names. :meth:`open_files` raises ``InputError`` if the file cannot be read or
    is in neither format.
    """

    name = "ruleset"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = [path]
        self.beside = NOTHING

    def open_files(self, inputs: Inputs) -> None:
        self.source = RulesetSource(self.path, inputs, self.beside)
        self.text, self.format = self.source.text, self.source.format
        if self.format == "nft-json":
            raise InputError(
                f"{self.path}: rules in JSON can be read but not loaded; give those of nft list ruleset"
            )
        if self.format == "iptables-save" and _SETS.search(self.text) and self.source.ipset is None:
            raise InputError(
                f"{self.path}: these rules match sets (-m set): give the output of ipset save with "
                "--ipset FILE"
            )
        self._loads = self._choose_loads()
        self._ip: Family | None = None
        """The IP version of test traffic, once that is known."""
        self.translates = _TRANSLATION.search(self.text) is not None
        self._place: VerdictPlace | None = None
        """The rule that test traffic meets."""
        self._netns: str | None = None
        """The device's namespace, as soon as it has the rules."""

    def check(self) -> list[str]:
        if self.format == "nft":
            missing = nftables.Nftables().check()
            if not missing and _FLOWTABLE.search(self.text) and tool.probe("nftables", *_PROBE_FLOWTABLE):
                return ["these rules have a flowtable, which this kernel cannot have (module nf_flow_table)"]
            return missing
        missing = [
            each for load in self._loads for each in tool.probe("iptables", load.command, "*filter\nCOMMIT\n")
        ]
        return missing + ([] if self.source.ipset is None else tool.probe("ipset", RESTORE_SETS, ""))

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_single(rules, self.name)
        nft = self.format == "nft"
        if nft:
            Namespace(site.netns).call(lambda: make_placeholders(interfaces(self.text)))
        if (sets := self.source.ipset) is not None:
            tool.load(site.netns, sets.command, sets.text, source=sets.source, refused=InputError)
        for load in self._loads:
            tool.load(
                site.netns,
                load.command,
                load.text,
                source=load.source,
                prefix=nftables.FLUSH if nft else "",
                refused=InputError,
                origin=self.source,
            )
        self._netns = site.netns

    def aim(
        self,
        match: str | None,
        flows: Flows,
        calls: Calls | None = None,
        like: RuleTraffic | None = None,
    ) -> RuleTraffic | None:
        """Find test traffic that the rules accept, from the rules alone, before anything is sent.

        ``match`` names the rule in the user's words (:mod:`weirlab.rules.naming`); without it, see
        :func:`weirlab.rules.aiming.aim`. ``like`` is traffic that was aimed at other rules: the same packets,
        whichever rule they meet here. None if the tool refuses the ruleset.

        Raises
        ------
        InputError
            The rules accept no such traffic; the message names the rule that is in the way.
        """
        if (path := self.source.resolved_path()) is None:
            return None
        if self.format == "iptables-save" and calls is None:
            # Of dumps for both IP versions, only one names its rules.
            path = [each for each in path if flows.ip in each.families] or path
        if like is not None:
            wanted = iter([same_packets(path, str(self.path), like)])
        else:
            wanted = candidates(path, str(self.path), match, flows, calls)
        # Nothing answers in a copy of the rules; the device's counters tell.
        found = next(wanted) if flows.answered else aim_checked(self._copy(path), wanted, flows, calls)
        self._place, self._ip = found.place, found.ip
        return found

    def counters(self) -> Mapping[str, int]:
        if self._netns is None or (place := self._place) is None:
            return {}
        return Namespace(self._netns).call(lambda: self._counters(place))

    def _counters(self, place: VerdictPlace) -> dict[str, int]:
        """What the rules have counted in the calling thread's namespace since they were loaded."""
        if self.format == "nft":
            if place.rule is None:
                return {}
            family, table = place.table.split(" ", 1)
            done = tool.run(["nft", "-j", "list", "chain", family, table, place.chain], "")
            counts = rule_counters(done.stdout) if done.returncode == 0 else []
            packets = counts[place.rule.number - 1] if len(counts) >= place.rule.number else None
            if packets is None:
                return {}
            return {MATCHED: packets, **({ESTABLISHED: packets} if _accepts_known(place) else {})}
        if (found := self._encounters()) is None:
            return {}
        return {
            PACKETS: round(found.packets),
            COMPARED: round(found.comparisons),
            MATCHED: round(found.at(place)),
            ESTABLISHED: round(sum(packets for end, packets in found.ends if _accepts_known(end))),
        }

    def _encounters(self) -> Encounters | None:
        """Which rules in the format of iptables-save packets met in the calling thread's namespace."""
        path: list[Rules] = []
        for load in self._loads:
            done = tool.run(save_command(load.command), "")
            if done.returncode != 0:
                return None
            path += iptables_path(done.stdout, str(self.path))
        return from_matches([each for each in path if self._ip is None or self._ip in each.families])

    def _copy(self, path: Sequence[Rules]) -> RulesetCopy:
        """How to load the rules once more and see which of them packets meet."""
        if self.format == "iptables-save":
            sets = [] if self.source.ipset is None else [self.source.ipset]
            return RulesetCopy([*sets, *self._loads], (), self._encounters, translates=self.translates)

        def read() -> Encounters | None:
            done = tool.run(("nft", "-j", "list", "ruleset"), "")
            return from_arrivals(path, arrivals(done.stdout)) if done.returncode == 0 else None

        return RulesetCopy(
            [LoadCommand(nftables.COMMAND, counting(self.source.listing.text))],
            interfaces(self.text),
            read,
            translates=self.translates,
        )

    def listing(self) -> list[str]:
        if self.format == "nft":
            return list(nftables.LISTING)
        return save_command(self._loads[0].command)

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version(self._loads[0].command[0]),
            "layout": "the user's rules as they are; matching position and state of trials are ignored",
            "ruleset": self.path.name,
            "ruleset_format": self.format,
            "ruleset_sha256": hashlib.sha256(self.text.encode()).hexdigest(),
            **self._facts_beside(),
        }

    def _facts_beside(self) -> dict[str, object]:
        """What the rules include, and their sets."""
        found: dict[str, object] = {}
        if self.source.included:
            found["ruleset_included"] = [path.name for path in self.source.included]
        if (sets := self.source.ipset) is not None:
            found["ruleset_ipset"] = Path(sets.source).name
            found["ruleset_ipset_sha256"] = hashlib.sha256(sets.text.encode()).hexdigest()
        return found

    def _choose_loads(self) -> list[LoadCommand]:
        if self.format == "nft":
            return [LoadCommand(nftables.COMMAND, self.text, str(self.path))]
        chosen = variant(self.text)
        return [
            LoadCommand(restore_command(family, chosen), text, str(self.path))
            for family, text in self.source.by_family.items()
        ]


def _accepts_known(place: VerdictPlace) -> bool:
    """Whether it is a rule that accepts packets of known connections, and no first ones."""
    states = frozenset() if place.rule is None else place.rule.match.states
    return place.accepts and "ESTABLISHED" in states and states <= {"ESTABLISHED", "RELATED"}
