"""A packet filter in a virtual machine, whose kernel has features that the host's may lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.base.interrupts import shielded
from weirlab.base.quoting import quoted
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import nftables, tool
from weirlab.lab.dut.datapaths import ingress
from weirlab.lab.dut.nftables import Layout
from weirlab.lab.dut.rules import check, check_single, check_stateless
from weirlab.lab.dut.vm import site as sites
from weirlab.lab.vm.guest import Guest
from weirlab.records import RuleSetup

KIND: Final = "vm"
USUAL: Final = "nftables"

_LAYOUTS: Final[Mapping[str, Layout]] = {
    "nftables": "linear",
    "nftables-set": "set",
    "nftables-vmap": "vmap",
    "flowtable": "linear",
}
FLOWER: Final = "tc-flower"
KINDS: Final = ("forward", *_LAYOUTS, FLOWER)
"""The filters that the guest supports."""

_WORDS: Final = {
    "forward": "no filter",
    "flowtable": "nftables, linear rules in front of a flowtable",
    FLOWER: "filters of tc flower, linear",
}


class VirtualFilter(Driver):
    """One virtual machine that forwards between its two interfaces, behind the rules of nftables or none.

    Parameters
    ----------
    kind
        The filter, one of :data:`KINDS`; None for nftables.

    Raises
    ------
    InputError
        There is no such filter.
    """

    forwards = True
    takes_turns = True

    def __init__(self, kind: str | None = None) -> None:
        self.kind = USUAL if kind is None else kind
        if self.kind not in KINDS:
            raise InputError(
                f"the device 'vm' has no filter {quoted(self.kind)}; there are {', '.join(KINDS)}"
            )
        self.name = f"{KIND}:{self.kind}"
        self._guest: Guest | None = None
        self._ports: Mapping[str, str] = {}

    def check(self) -> list[str]:
        return sites.missing()

    @property
    def guest(self) -> Guest:
        """The running virtual machine."""
        if self._guest is None:
            raise LabError("the virtual machine is not switched on")
        return self._guest

    def start(self, site: Site) -> Sequence[int]:
        self._ports = {"in": site.inward.name, "out": site.outward.name}
        sides = sites.inner_sides(site.inward, site.outward, site.sender, site.receiver)
        self._guest = sites.between("the virtual machine", site.netns, site.cpu, sides)
        self._guest.switch_on()
        sites.begin(self._guest, sides)
        return self._guest.machine.processes

    def check_alive(self) -> None:
        self.guest.check()

    def settle(self) -> None:
        # It answers when it has nothing more urgent to do, such as forwarding.
        self.guest.do("true")

    @shielded
    def stop(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.power_off()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check(rules)
        if self.kind == "forward":
            if rules.position or rules.stateful:
                raise InputError(
                    "the device 'vm:forward' has no rules: only matching position 0, stateless, is possible; "
                    "choose 'vm'"
                )
            return
        if self.kind == FLOWER:
            check_stateless(rules, self.name, ingress.MOST_FILTERS)
            load(self.guest, ingress.filters(rules, [*self._ports.values()]), ingress.COMMAND)
            return
        layout = _LAYOUTS[self.kind]
        if layout != "linear":
            check_single(rules, self.name)
        text = nftables.ruleset(rules, layout)
        if self.kind == "flowtable":
            text += nftables.fast_table(nftables.fast_ports(site))
        load(self.guest, nftables.FLUSH + text)

    def listing(self) -> list[str]:
        raise InputError(sites.NO_SESSION)

    def counters(self) -> Mapping[str, int]:
        counted = sites.counted(self.guest, "vm", sites.port_counters(self._ports))
        if self.kind == FLOWER:
            shown = self.guest.do("\n".join(" ".join(ingress.shown(port)) for port in self._ports.values()))
            counted |= {f"vm_{name}": count for name, count in ingress.counted(shown).items()}
        elif self.kind == "flowtable":
            listed = self.guest.do(" ".join(nftables.FAST_LISTING))
            counted[f"vm_{nftables.SLOW}"] = nftables.slow_packets(listed)
        return counted

    def facts(self) -> Mapping[str, object]:
        guests = [] if self._guest is None else [self._guest]
        return {
            "tool": sites.version(),
            "layout": f"a virtual machine with {_WORDS.get(self.kind, self.kind)}",
            **sites.facts(guests),
        }


def load(guest: Guest, text: str, command: Sequence[str] = nftables.COMMAND) -> None:
    """Have a program of the guest load the rules in ``text``; ``LabError`` with its message."""
    code, said = guest.run(sites.pipe_script(command, text))
    if code != 0:
        raise LabError(tool.refusal(command[0], said, text, "generated rules"))
