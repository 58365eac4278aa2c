"""The format of scenario files: one pydantic model per section, defaults included.

Units are in the names. Rates and frame sizes are text in the forms that ``weirlab.traffic``
reads (``2Mpps``, ``40%@10Gbit/s``, ``imix``, ``64:7,594:4,1518:1``); a plain number is
packets/s or bytes. A relative path starts from the scenario file's folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.lab.sim import SimDevice
from weirlab.scenario.document import Location
from weirlab.scenario.values import (
    Count,
    MayBeEmpty,
    NotEmpty,
    NotNegative,
    RateText,
    Repetitions,
    Seconds,
    Seed,
    no_repeats,
    readable,
)
from weirlab.traffic.spec import Arrivals, Flows

if TYPE_CHECKING:
    from weirlab.lab.dut.rulesets.source import RulesetFiles

NO_DEVICE: Final = "none"
"""Takes the place of a device's name: sender and receiver are connected by a cable."""

BLACK_BOX: Final = "blackbox"
"""The user's own device in the wired lab."""


def _dut_name(name: str) -> str:
    from weirlab.lab.dut import broken, drivers, files_of, known, refuse_machine
    from weirlab.lab.remote.filters import FILTERS

    try:
        refuse_machine(name)
    except InputError as error:
        raise ValueError(str(error)) from None
    if name != NO_DEVICE and not known(name) and name not in FILTERS:
        raise ValueError(
            "; ".join((f"no such device; there are {', '.join((*drivers(), NO_DEVICE))}", *broken()))
        )
    if name in FILTERS and not known(name):
        return name
    try:
        files_of(name)
    except InputError as error:
        raise ValueError(str(error)) from None
    return name


def _login(text: str) -> object:
    from weirlab.lab.remote.target import parse_address

    return parse_address(text)


def _change(text: str) -> object:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{quoted(text)} is no command: {error}") from None
    if not words:
        raise InputError("write none, ask, rules, or a command")
    return words


_DEVICE: Final = SimDevice()


class Section(BaseModel):
    """A mapping in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def files(self) -> Iterator[Location]:
        """Locations of the keys that name a file or a folder of this host."""
        for name in type(self).model_fields:
            yield from _files(getattr(self, name), (name,))


def _files(value: object, place: Location) -> Iterator[Location]:
    """The locations of what names a file in ``value``, which is at ``place``."""
    match value:
        case Path():
            yield place
        case Section():
            yield from ((*place, *file) for file in value.files())
        case tuple() | list():
            for number, each in enumerate(value):
                yield from _files(each, (*place, number))
        case Mapping():
            for key, each in value.items():
                yield from _files(each, (*place, str(key)))


class ReportSection(Section):
    """What to write at the end."""

    out: Path | None = None
    """HTML file (default: ``report.html`` in the run's folder); relative paths start where ``weir`` runs."""
    plots: Path | None = None
    """Folder for every plot as PNG, SVG and CSV; left out: none."""


class Root(Section):
    """A whole scenario file of one kind."""

    KEY: ClassVar[str]
    """The top-level key that only files of this kind have; also the key of the study that carries it out."""

    version: Literal[1] = 1
    """Version of this file format."""
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Name of this scenario's runs in lists and reports."""
    question: str = ""
    """The question that the run is to answer."""
    report: ReportSection | None = ReportSection()
    """``null``: no report."""

    @model_validator(mode="before")
    @classmethod
    def _name_wired_device(cls, value: Any) -> Any:
        """In the wired lab, the device is the user's own unless the file names one."""
        if isinstance(value, Mapping) and {"lab", "dut"} <= set(cls.model_fields):
            lab, dut = value.get("lab"), value.get("dut", {})
            if isinstance(lab, Mapping) and lab.get("kind") == "wired" and isinstance(dut, Mapping):
                return {**value, "dut": {"name": BLACK_BOX, **dut}}
        return value

    def conflicts(self) -> Iterator[tuple[tuple[int | str, ...], str]]:
        """Locations of keys that are valid by themselves but not together, and why."""
        return iter(())

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        """By section, an upper limit on the number of its trials, without making the plan."""
        return iter(())

    def commands(self) -> Iterator[str]:
        """Programs of the user's that are started, with their arguments."""
        dut = getattr(self, "dut", None)
        if isinstance(dut, Dut) and dut.change not in ("none", "rules", "ask"):
            yield dut.change

    def beside(self, folder: Path) -> Self:
        """A copy whose relative input paths start from ``folder``, the folder of the scenario file."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        moved = {name: part.beside(folder) for name, part in sections.items() if isinstance(part, Lab | Dut)}
        return self.model_copy(update=moved) if moved else self


class SimDeviceSection(Section):
    """A simulated device: what the ``sim`` lab puts between sender and receiver."""

    service_fixed_ns: NotNegative = _DEVICE.service_fixed_ns
    """Service time per packet before any rule, in ns."""
    service_per_rule_ns: NotNegative = _DEVICE.service_per_rule_ns
    """Service time per rule up to the matching one, in ns."""
    service_per_byte_ns: NotNegative = _DEVICE.service_per_byte_ns
    """Service time per byte of frame, in ns."""
    io_service_ns: NotNegative = _DEVICE.io_service_ns
    """Service time of a second stage in series, in ns; the slower stage sets the pace. 0: none."""
    queue_packets: Count = _DEVICE.queue_packets
    """Packets that the device holds before it drops."""
    base_delay_ns: NotNegative = _DEVICE.base_delay_ns
    """Delay of a packet that never waits, without service, in ns."""
    base_per_byte_ns: NotNegative = _DEVICE.base_per_byte_ns
    """Delay per byte of frame, in ns."""
    noise: Literal["none", "exponential", "gamma"] = _DEVICE.noise
    """Distribution of the service time around its mean."""
    noise_cv: NotNegative = _DEVICE.noise_cv
    """Coefficient of variation of the service time (``gamma`` only)."""
    stateful_ns: NotNegative = _DEVICE.stateful_ns
    """What connection tracking adds to the service time, in ns."""
    cross_traffic_ns: NotNegative = _DEVICE.cross_traffic_ns
    """How long a management session takes the device's CPU each time it asks, in ns."""
    cross_traffic_every_ns: NotNegative = _DEVICE.cross_traffic_every_ns
    """Interval between two requests of a management session, in ns."""
    seed: Seed = _DEVICE.seed
    """Seed of the device's random numbers."""


class Lab(Section):
    """Where the trials take place."""

    kind: Literal["auto", "netns", "sim", "wired"] = "auto"
    """``netns``: Linux network namespaces (needs root); ``sim``: a simulated device;
    ``auto``: ``netns`` with root, else ``sim``; ``wired``: a device of your own between two ports."""
    backend: Literal["auto", "xdp", "af_packet"] = "auto"
    """How frames are sent and received, except in the ``sim`` lab."""
    device: SimDeviceSection = SimDeviceSection()
    """The device of the ``sim`` lab."""
    model: Path | None = None
    """A model file of one device (``weir fit --out``), which the ``sim`` lab then simulates instead."""
    between: Annotated[tuple[str, ...], Field(max_length=2), AfterValidator(no_repeats)] = ()
    """Of the ``wired`` lab: the two ports of this machine, the sender's first."""
    addresses: Annotated[tuple[str, ...], Field(max_length=4)] = ()
    """Addresses that these ports get, with prefix length; left out: ``[198.18.0.2/24, 198.19.0.2/24]``.
    Two of IPv6 may follow."""
    gateways: Annotated[tuple[str, ...], Field(max_length=4)] = ()
    """The device's addresses at its two ports; left out: ``[198.18.0.1, 198.19.0.1]``. Two of IPv6 may
    follow."""
    mode: Literal["routed", "bridge"] = "routed"
    """Whether the device routes between its ports, or bridges them."""
    senders: Annotated[int, Field(strict=True, ge=1, le=limits.MOST_SENDERS)] = 1
    """CPUs that send, each with flows of its own; the receiver needs one more."""
    take: bool = False
    """Ports may have addresses; they are taken away for the duration of the test."""
    shared: bool = False
    """Other hosts and switches may be connected to the ports."""
    allow: Annotated[tuple[str, ...], MayBeEmpty] = ()
    """Networks outside 198.18.0.0/15 and 2001:2::/48 to which test traffic may go."""

    def beside(self, folder: Path) -> Self:
        """A copy whose model file is looked for in ``folder``."""
        return self if self.model is None else self.model_copy(update={"model": folder / self.model})

    def files(self) -> Iterator[Location]:
        """See :meth:`Section.files`; so are the ports of this host, through which nothing is sent unasked."""
        yield from super().files()
        yield from (("between",),) if self.between else ()

    @model_validator(mode="after")
    def _check_wired(self) -> Self:
        """The keys of the wired lab go with it, and fit together."""
        from weirlab.lab.wired.ends import read_networks, wired_ends

        try:
            if self.kind == "wired":
                wired_ends(self.between, self.addresses, self.gateways)
                read_networks(self.allow)
            else:
                own = ("between", "addresses", "gateways", "mode", "senders", "take", "shared", "allow")
                usual = Lab.model_fields
                if changed := [key for key in own if getattr(self, key) != usual[key].default]:
                    raise InputError(f"{changed[0]} goes with the lab 'wired', not with {self.kind!r}")
        except InputError as error:
            raise ValueError(str(error)) from None
        return self


class Dut(Section):
    """The device under test."""

    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema["properties"].update(
            chain={
                "type": "array",
                "items": {"type": "string"},
                "minItems": 2,
                "description": "Devices in a row, in place of ``name``.",
            }
        )
    )

    name: Annotated[str, AfterValidator(_dut_name)] = "iptables"
    """Name of the driver. For a tunnel, its cipher suite follows (``strongswan:aes128-sha1``) unless that is
    the usual one. ``weir doctor`` says which drivers work here. ``chain: [nftables, link:delay=5ms]`` in
    place of ``name`` puts several devices in a row."""
    ruleset: Path | None = None
    """The user's own rules (``iptables-save`` or ``nft list ruleset`` format) for the driver ``ruleset``."""
    include: tuple[Path, ...] = ()
    """Folders with files that rules of nft include, besides that of ``ruleset``; nothing else is opened."""
    ipset: Path | None = None
    """The output of ``ipset save``, with the sets that rules of iptables match (``-m set``)."""
    match: Annotated[str, Field(min_length=1)] | None = None
    """The rule of ``ruleset`` that test traffic matches: its place (``12``, ``CHAIN:12``), ``handle 12``,
    ``line 12``, its comment, some words of it, or ``policy``. Left out: of the rules that test traffic can
    match, the one that counted most packets, else the first."""
    image: Path | None = None
    """The user's own disk image of a configured router or firewall, for the driver ``image``."""
    stateful: bool = False
    """Put connection tracking in front of the rules."""
    cpus: Annotated[int, Field(strict=True, ge=1, le=limits.MOST_CPUS)] = 1
    """CPUs of a simulated device, each with a receive queue; a hash spreads flows over them (RSS)."""
    at: Annotated[str, readable(_login)] | None = None
    """Of a device in the ``wired`` lab: the login to it, ``ssh://user@host:port``."""
    ports: Annotated[tuple[str, ...], Field(max_length=2), AfterValidator(no_repeats)] = ()
    """Its two test ports, as it calls them; left out: those with routes to the networks of test traffic."""
    change: Annotated[str, readable(_change)] = "none"
    """Who sets its rules. ``none``: nobody, it has its own; ``rules``: Weir, through the login, in the filter
    that ``name`` says; ``ask``: the operator, who is told which; else a command, which gets them as JSON."""
    restore_s: Seconds = 120.0
    """With ``change: rules``, the device removes Weir's rules by itself after so many s without a word from
    Weir."""

    @property
    def elsewhere(self) -> bool:
        """Whether it is a device that Weir does not build."""
        return self.name == BLACK_BOX or self.at is not None or self.change != "none" or bool(self.ports)

    @property
    def has_own_rules(self) -> bool:
        """Whether its rules cannot be chosen."""
        return self.name in ("ruleset", "image") or (self.elsewhere and self.change == "none")

    @model_validator(mode="before")
    @classmethod
    def _chained(cls, given: Any) -> Any:
        """``given`` with the devices of ``chain`` as a name."""
        from weirlab.records import JOINT

        if not isinstance(given, dict) or "chain" not in given:
            return given
        chain = given["chain"]
        if "name" in given:
            raise ValueError("give either 'name' or 'chain'")
        if not isinstance(chain, (list, tuple)) or not all(isinstance(name, str) for name in chain):
            raise ValueError("'chain' is a list of devices, e.g. [nftables, link:delay=5ms]")
        return {key: value for key, value in given.items() if key != "chain"} | {"name": JOINT.join(chain)}

    def files(self) -> Iterator[Location]:
        """See :meth:`Section.files`; the settings of a device may name a file."""
        from weirlab.lab.dut import files_of

        yield from super().files()
        if not self.elsewhere and files_of(self.name):
            yield ("name",)
        # A login uses the keys of this host, and a command is one of its files.
        yield from (("at",),) if self.at else ()
        yield from (("change",),) if self.change not in ("none", "rules") else ()

    @property
    def file(self) -> Path | None:
        """The user's file that the driver needs, if any."""
        return self.ruleset or self.image

    @property
    def files_beside(self) -> RulesetFiles:
        """What belongs to the ruleset."""
        from weirlab.lab.dut.rulesets.source import RulesetFiles

        return RulesetFiles(self.include, self.ipset)

    def beside(self, folder: Path) -> Self:
        """A copy whose file paths start from ``folder``."""
        found = {"ruleset": self.ruleset, "image": self.image, "ipset": self.ipset}
        moved: dict[str, Any] = {key: folder / path for key, path in found.items() if path}
        moved["change"] = command_beside(self.change, folder)
        if self.include:
            moved["include"] = tuple(folder / path for path in self.include)
        return self.model_copy(update=moved)


def command_beside(command: str, folder: Path) -> str:
    """``command`` whose program, if it is a relative path, starts from ``folder``."""
    program, *rest = shlex.split(command)
    return shlex.join([str((folder / program).absolute()), *rest]) if "/" in program else command


class TrafficShape(Section):
    """What all trials' traffic has in common; rates and frame sizes vary."""

    flows: Count = 1
    """Number of flows; packets are sent to them in turn."""
    l4: Literal["udp", "tcp"] = "udp"
    ip: Literal[4, 6] = 4
    order: Literal["advance", "random"] = "advance"
    """``advance``: addresses and ports count up from flow to flow; ``random``: they are drawn."""
    arrivals: Arrivals = "constant"
    """Equal or exponential gaps between packets."""
    seed: Seed = 1
    answered: bool = False
    """The receiver answers: flows are known to connection tracking before the load begins."""
    new: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    """Share of the packets that each open a further flow; only with ``answered``."""

    def demand(self) -> Flows:
        """The flows that this describes."""
        return Flows(self.flows, self.l4, self.ip, self.order, self.seed, self.answered, self.new)


class CalibrationSection(Section):
    """Trials over a plain cable, which measure the test bed's own error."""

    rates: Annotated[tuple[RateText, ...], NotEmpty, AfterValidator(no_repeats)] = (
        "1kpps", "10kpps", "100kpps", "1Mpps", "max",
    )  # fmt: skip
    """Loads at which pacing, time stamps and false loss are measured."""
    repetitions: Repetitions = 3
    """Trials per load."""
    trial_s: Seconds = 0.1
    """Recorded part of a trial, in s."""
