"""Options about the device under test: which one, in which lab, and with which rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import completing, reading
from weirlab.cli.options.groups import WORDS, typed
from weirlab.cli.options.wired import NO_PORTS, WiredOptions

if TYPE_CHECKING:
    from weirlab.records import RuleSetup
    from weirlab.scenario import Dut, Lab
    from weirlab.store import Store
    from weirlab.traffic.spec import LoadStep


@dataclass(frozen=True)
class ElsewhereOptions:
    """A login to the device, and who sets its rules; the fields are keys of ``dut`` in a scenario."""

    PANEL: ClassVar = "Device between two ports (--lab wired)"

    at: Annotated[
        str | None, typer.Option(help="Login to your device: ssh://user@host:port.", metavar="URL")
    ] = None
    ports: Annotated[
        str | None,
        typer.Option(
            help="Test ports of your device as it calls them (default: those with routes to test traffic).",
            metavar="PORT,PORT",
        ),
        WORDS,
    ] = None
    change: Annotated[
        str | None,
        typer.Option(
            help="Who sets the rules of your device: none (default); rules: Weir, by --at; ask: you; or a "
            "command, which gets them as JSON.",
            metavar="WHO",
        ),
    ] = None


NOT_ELSEWHERE: Final = ElsewhereOptions()

LabKind = Literal["auto", "netns", "sim", "wired"]
BackendChoice = Literal["auto", "xdp", "af_packet"]

PANEL: Final = "Device under test"

BackendOption = Annotated[BackendChoice, typer.Option("--backend", help="How to send and receive packets.")]
IncludeOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--include",
        help="A further folder with files that --ruleset includes, besides its own folder; repeatable.",
        metavar="DIR",
    ),
]
TunnelCpusOption = Annotated[
    int | None,
    typer.Option(
        "--cpus", min=1, max=2, help="CPUs of rules and tunnel: 1 for both (default), 2 for one each."
    ),
]
DutCpusOption = Annotated[
    int,
    typer.Option(
        "--dut-cpus",
        min=1,
        max=limits.MOST_CPUS,
        help="CPUs of the device, each with a receive queue; a hash spreads flows over them (default: 1).",
        metavar="N",
    ),
]
AsOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        help="Simulate a measured device: a model file, a run with fitted models, or library:NAME.",
        metavar="MODEL",
        rich_help_panel=PANEL,
        autocompletion=completing.runs,
    ),
]
PositionsOption = Annotated[
    str | None,
    typer.Option(
        "--rules",
        help="Matching positions, e.g. 0,100,1000: rules compared up to and including the one that matches "
        "(0: no rules).",
        metavar="N,...",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class CpuOptions:
    """The CPUs of a profiled device, and the flows that are spread over them."""

    PANEL: ClassVar = PANEL

    dut_cpus: DutCpusOption = 1
    flows: Annotated[
        int | None,
        typer.Option(
            "--flows",
            min=1,
            max=limits.MOST_FLOWS,
            help="With --dut-cpus: number of flows that are spread (default: the same share for every CPU).",
            metavar="N",
        ),
    ] = None

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the packets that each CPU gets; raises ``InputError`` for flows without CPUs."""
        if self.flows is None:
            return (1.0 / self.dut_cpus,) * self.dut_cpus
        if self.dut_cpus == 1:
            raise InputError("--flows are spread over CPUs: add --dut-cpus N")
        from weirlab.traffic.flows import shares, table
        from weirlab.traffic.spec import Flows

        return shares(table(Flows(self.flows)), 4, self.dut_cpus)


ONE_CPU: Final = CpuOptions()


@dataclass(frozen=True)
class DeviceOptions:
    """The device of trials. A command has either ``rules``, for one setup, or ``positions``, for several."""

    PANEL: ClassVar = PANEL

    lab: Annotated[
        LabKind,
        typer.Option(
            help="netns: network namespaces, as root; sim: a simulated device; wired: your own device "
            "between two ports (--between); auto: wired with --between, else netns as root, else sim.",
        ),
    ] = "auto"
    as_: AsOption = None
    dut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="iptables (default), nftables, forward, esp, wireguard, openvpn, strongswan (or with its "
            "suite, strongswan:aes128-sha1), vm, link:delay=25ms, none (a cable), ... (see weir doctor). "
            "Repeat it for a chain of devices.",
            autocompletion=completing.devices,
        ),
    ] = None
    rules: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=limits.MOST_RULES,
            help="Matching position: rules compared up to and including the one that matches (0: no rules).",
            metavar="N",
        ),
    ] = None
    positions: PositionsOption = None
    ruleset: Annotated[
        Path | None,
        typer.Option(help="Your own rules, from iptables-save or nft list ruleset.", metavar="FILE"),
    ] = None
    include: IncludeOption = None
    ipset: Annotated[
        Path | None,
        typer.Option(help="Sets that --ruleset matches, from ipset save.", metavar="FILE"),
    ] = None
    image: Annotated[
        Path | None,
        typer.Option(help="Your own disk image of a router or firewall for QEMU.", metavar="FILE"),
    ] = None
    match: Annotated[
        str | None,
        typer.Option(
            help="The rule of --ruleset that test traffic is to match: number in the chain, handle, line or "
            "comment.",
            metavar="RULE",
        ),
    ] = None
    places: Annotated[
        str | None,
        typer.Option(
            help="Several matching positions, e.g. 1:50,99:50 (position:weight).",
            metavar="N:W,...",
        ),
    ] = None
    stateful: Annotated[
        bool, typer.Option("--stateful", help="Put connection tracking in front of the rules.")
    ] = False
    dut_cpus: DutCpusOption = 1
    cross_traffic: Annotated[
        bool, typer.Option("--cross-traffic", help="Run a management session with the device during trials.")
    ] = False
    backend: BackendOption = "auto"
    wired: WiredOptions = NO_PORTS
    elsewhere: ElsewhereOptions = NOT_ELSEWHERE

    def where(self, store: Store) -> Lab:
        """The lab of the trials; a measured device may be that of a run in ``store``.

        Raises
        ------
        InputError
            Options do not fit the lab.
        StoreError, ModelError
            There is no such run, or it has no models.
        """
        from weirlab.scenario import Lab, section

        return section(Lab, self.lab_section(store))

    @property
    def kind(self) -> LabKind:
        """Ports that are named stand for the wired lab."""
        return "wired" if self.lab == "auto" and self.wired.between else self.lab

    def lab_section(self, store: Store) -> dict[str, Any]:
        """The section ``lab`` of a scenario; raises as :meth:`where`."""
        from weirlab.jobs.models import model_file

        if self.kind == "wired":
            self.wired.confirm()
        kind = typed({"kind": self.kind, "backend": self.backend}, kind="--lab", backend="--backend")
        model = {} if self.as_ is None else {"model": model_file(store, self.as_)}
        return {**kind, **self.wired.section(), **model}

    def device(self) -> Dut:
        """The device: the user's ruleset or disk image if one is given, else iptables.

        Raises
        ------
        InputError
            There is no such device, or the file does not fit it or cannot be read.
        """
        from weirlab.base.files import HOST_FILES
        from weirlab.lab.dut import make
        from weirlab.lab.dut.rulesets.source import RulesetFiles
        from weirlab.records import JOINT
        from weirlab.scenario import BLACK_BOX, NO_DEVICE, Dut, section
        from weirlab.scenario.conflicts import misplaced

        of_rules = {"--match": self.match, "--include": self.include, "--ipset": self.ipset}
        for option, value in of_rules.items():
            if value and self.ruleset is None:
                raise InputError(f"{option} goes with --ruleset FILE, which is missing")
        given = {"ruleset": self.ruleset, "image": self.image}
        names = [name for name, path in given.items() if path is not None]
        if len(names) > 1:
            raise InputError("--ruleset and --image exclude each other: give one of them")
        usual = BLACK_BOX if self.kind == "wired" else "iptables"
        chosen = JOINT.join(self.dut) if self.dut else names[0] if names else usual
        if "image" in names and chosen != "image":
            raise InputError(f"--image goes with the device 'image', not with {chosen!r}")
        if chosen != NO_DEVICE and self.kind != "wired" and self.elsewhere == NOT_ELSEWHERE:
            beside = RulesetFiles(tuple(self.include or ()), self.ipset)
            make(chosen, given[names[0]] if names else None, HOST_FILES, beside)
        found = section(
            Dut,
            {
                **typed({"name": chosen}, name="--dut"),
                **{name: path for name, path in given.items() if path is not None},
                "include": tuple(self.include or ()),
                "ipset": self.ipset,
                "match": self.match,
                "stateful": self.stateful,
                "cpus": self.dut_cpus,
                **typed(self.elsewhere),
            },
        )
        # A program of the user's is where he says, and all others are the system's.
        found = found.model_copy(update={"change": found.beside(Path.cwd()).change})
        options = {"name": "dut", "cpus": "dut-cpus"}
        for key, why in misplaced(self.kind, found):
            raise InputError(f"--{options.get(key, key)}: {why}")
        own = {"ruleset": "--ruleset: your ruleset", "image": "--image: your disk image"}
        who = own.get(found.name, "your own device (--change none): it")
        if found.has_own_rules:
            if any(each is not None for each in (self.rules, self.positions, self.places)):
                raise InputError(f"--rules does not go with {who} has its own rules")
            if found.name != "ruleset" and self.stateful:
                raise InputError(f"--stateful does not go with {who} has its own rules")
        return found

    def rule_setup(self, steps: Sequence[LoadStep] = ()) -> RuleSetup:
        """The setup that ``--rules`` or ``--places`` gives, with a rule at each position of a step."""
        return reading.rule_setup(self.rules, self.places, steps, self.stateful)

    def listed_positions(self) -> tuple[int, ...] | None:
        """``--rules`` as a list."""
        return reading.positions(self.positions)
