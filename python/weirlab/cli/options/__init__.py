"""Options that several commands share, and how their text is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from weirlab import limits
from weirlab.errors import InputError
from weirlab.quoting import quoted

if TYPE_CHECKING:
    from weirlab.records import RuleSetup
    from weirlab.scenario import Dut, Lab
    from weirlab.traffic.sizes import SizeMix
    from weirlab.traffic.spec import Step

T = TypeVar("T")

LabKind = Literal["auto", "netns", "sim"]
BackendChoice = Literal["auto", "xdp", "af_packet"]
Layer4 = Literal["udp", "tcp"]
IpVersion = Literal["4", "6"]
Arrivals = Literal["constant", "poisson"]
MachineKind = Literal["usual", "noisy"]
FlowOrder = Literal["advance", "random"]

_WHAT = "Device under test"
_TRAFFIC = "Traffic"
_PLAN = "Plan"

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else there.")]
StoreOption = Annotated[Path | None, typer.Option("--store", help="Folder of the run store.", metavar="DIR")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Write the report to this file.", metavar="FILE")
]
PlotsOption = Annotated[
    Path | None, typer.Option("--plots", help="Folder for PNG, SVG and CSV of each plot.", metavar="DIR")
]
ResumeOption = Annotated[
    str | None, typer.Option("--resume", help="Go on with this interrupted run.", metavar="RUN")
]

DeviceOption = Annotated[
    str | None,
    typer.Option("--device", help="Which device, where a model file holds several.", metavar="NAME"),
]
LabOption = Annotated[
    LabKind,
    typer.Option(
        "--lab", help="Network namespaces, or simulated; auto: netns with root.", rich_help_panel=_WHAT
    ),
]
BackendOption = Annotated[
    BackendChoice,
    typer.Option("--backend", help="How packets are sent and received.", rich_help_panel=_WHAT),
]
DutOption = Annotated[
    str | None,
    typer.Option(
        "--dut", help="iptables (default), nftables, forward, none, ... (weir doctor).", rich_help_panel=_WHAT
    ),
]
RulesOption = Annotated[
    int | None,
    typer.Option(
        "--rules",
        min=0,
        max=limits.MOST_RULES,
        help="Matching position: rules compared up to and including the one that matches (0: no rules).",
        metavar="N",
        rich_help_panel=_WHAT,
    ),
]
PositionsOption = Annotated[
    str | None,
    typer.Option(
        "--rules",
        help="Matching positions, e.g. 0,100,1000: rules compared up to and including the one that matches "
        "(0: no rules).",
        metavar="N,...",
        rich_help_panel=_WHAT,
    ),
]
RulesetOption = Annotated[
    Path | None,
    typer.Option(
        "--ruleset",
        help="Your own rules, from iptables-save or nft list ruleset.",
        metavar="FILE",
        rich_help_panel=_WHAT,
    ),
]
MatchOption = Annotated[
    str | None,
    typer.Option(
        "--match",
        help="The rule of --ruleset that test traffic is to match: number in the chain, handle, line or "
        "comment.",
        metavar="RULE",
        rich_help_panel=_WHAT,
    ),
]
StatefulOption = Annotated[
    bool,
    typer.Option("--stateful", help="Connection tracking in front of the rules.", rich_help_panel=_WHAT),
]

CrossTrafficOption = Annotated[
    bool,
    typer.Option("--cross-traffic", help="Hold a management session with the device.", rich_help_panel=_WHAT),
]
PlacesOption = Annotated[
    str | None,
    typer.Option(
        "--places",
        help="Match at several positions, e.g. 1:50,99:50 (position:weight).",
        metavar="N:W,...",
        rich_help_panel=_WHAT,
    ),
]

FrameOption = Annotated[
    int | None,
    typer.Option(
        "--frame", help="Frame size in bytes, FCS included (default: 64).", rich_help_panel=_TRAFFIC
    ),
]
FramesOption = Annotated[
    str | None,
    typer.Option("--frame", help="Frame sizes, e.g. 64,1518.", metavar="BYTES,...", rich_help_panel=_TRAFFIC),
]
SizesOption = Annotated[
    str | None,
    typer.Option(
        "--sizes", help="Size mix: imix, 64:7,594:4,1518:1, poisson:64-200.", rich_help_panel=_TRAFFIC
    ),
]
FlowsOption = Annotated[
    int,
    typer.Option(
        "--flows",
        min=1,
        max=limits.MOST_FLOWS,
        help="Flows that share the load in turn.",
        metavar="N",
        rich_help_panel=_TRAFFIC,
    ),
]
Layer4Option = Annotated[
    Layer4, typer.Option("--l4", help="UDP, or TCP segments without connection.", rich_help_panel=_TRAFFIC)
]
IpOption = Annotated[IpVersion, typer.Option("--ip", help="IP version.", rich_help_panel=_TRAFFIC)]
ArrivalsOption = Annotated[
    Arrivals,
    typer.Option("--arrivals", help="Equal or exponential gaps between packets.", rich_help_panel=_TRAFFIC),
]
OrderOption = Annotated[
    FlowOrder,
    typer.Option("--order", help="Flows' addresses count up, or are drawn.", rich_help_panel=_TRAFFIC),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        max=limits.HIGHEST_SEED,
        help="Seed of every random choice.",
        metavar="N",
        rich_help_panel=_TRAFFIC,
    ),
]

LoadsOption = Annotated[
    str | None,
    typer.Option(
        "--loads",
        help="Loads as shares of the threshold, e.g. 10%,50%,90%,120%.",
        metavar="SHARE,...",
        rich_help_panel=_PLAN,
    ),
]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="What must hold, else exit code 9 (7: undecided), e.g. 'p99<1ms'; repeatable.",
        metavar="LIMIT",
        rich_help_panel="Requirement",
    ),
]
RepetitionsOption = Annotated[
    int | None,
    typer.Option(
        "--repetitions",
        min=1,
        max=limits.MOST_REPETITIONS,
        help="Trials per setting.",
        metavar="N",
        rich_help_panel=_PLAN,
    ),
]
DurationOption = Annotated[
    float | None,
    typer.Option(
        "--duration",
        min=0,
        max=limits.LONGEST_S,
        help="Recorded seconds per trial.",
        metavar="S",
        rich_help_panel=_PLAN,
    ),
]
WarmupOption = Annotated[
    float | None,
    typer.Option(
        "--warmup",
        min=0,
        max=limits.LONGEST_S,
        help="Seconds sent before recording.",
        metavar="S",
        rich_help_panel=_PLAN,
    ),
]
AttemptsOption = Annotated[
    int | None,
    typer.Option(
        "--attempts",
        min=1,
        max=limits.MOST_ATTEMPTS,
        help="Attempts per trial, at most.",
        metavar="N",
        rich_help_panel=_PLAN,
    ),
]
TimeBudgetOption = Annotated[
    str | None,
    typer.Option(
        "--time-budget",
        help="Wall time for all trials, e.g. 6min (default: 1.5 times the expected time).",
        metavar="TIME",
        rich_help_panel=_PLAN,
    ),
]
MachineOption = Annotated[
    MachineKind,
    typer.Option("--machine", help="noisy: bear more disturbance, repeat more often.", rich_help_panel=_PLAN),
]


def listed(text: str, item: Callable[[str], T], option: str, example: str) -> tuple[T, ...]:
    """Read a comma-separated list such as ``0,50,100``.

    Raises
    ------
    InputError
        An item is empty or ``item`` refuses it; the message names the option and an example.
    """
    values: list[T] = []
    for part in text.split(","):
        try:
            values.append(item(part.strip()))
        except ValueError:
            raise InputError(
                f"{option}: {quoted(part.strip())} in {quoted(text)} not understood; e.g. {option} {example}"
            ) from None
    return tuple(values)


def share(text: str) -> float:
    """A ratio: ``0.8`` or ``80%``."""
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def step(text: str) -> Step:
    """A load step ``AT:RATE`` such as ``1:200kpps``; AT in seconds after recording began."""
    from weirlab.traffic.load import parse_rate
    from weirlab.traffic.spec import Step

    at, separator, rate = text.partition(":")
    try:
        at_s = float(at.removesuffix("s"))
    except ValueError:
        at_s = -1.0
    if not separator or not 0 < at_s < float("inf"):
        raise InputError(
            f"--step: {quoted(text)} not understood; give seconds and rate, e.g. --step 1:200kpps"
        )
    return Step(at_s, parse_rate(rate))


def position_step(text: str) -> Step:
    """A step ``AT:POSITION`` to another matching position, such as ``1:2000``."""
    from weirlab.traffic.spec import Step

    at, separator, position = text.partition(":")
    try:
        at_s, n = float(at.removesuffix("s")), int(position)
    except ValueError:
        at_s, n = -1.0, 0
    if not separator or not 0 < at_s < float("inf") or not 1 <= n <= limits.MOST_RULES:
        raise InputError(
            f"--position-step: {quoted(text)} not understood; give seconds and a position from 1 up, "
            "e.g. --position-step 1:2000"
        )
    return Step(at_s, None, n)


def steps(loads: list[str], positions: list[str]) -> tuple[Step, ...]:
    """All ``--step`` and ``--position-step`` in order of time; those at one time are one."""
    found: dict[float, Step] = {}
    for each in (*map(step, loads), *map(position_step, positions)):
        other = found.get(each.at_s, each)
        found[each.at_s] = replace(
            each, rate=each.rate or other.rate, position=each.position or other.position
        )
    return tuple(found[at_s] for at_s in sorted(found))


def rule_setup(rules: int | None, places: str | None, steps: tuple[Step, ...], stateful: bool) -> RuleSetup:
    """The setup that ``--rules`` or ``--places`` gives, with a rule wherever a step goes to.

    Raises
    ------
    InputError
        Both are given, or a step goes to a position and there are no rules to begin with.
    """
    from weirlab.records import RuleSetup
    from weirlab.traffic.places import parse_places

    if rules is not None and places is not None:
        raise InputError("--rules and --places exclude each other: give one of them")
    shares = dict(parse_places(places)) if places is not None else {rules: 1.0} if rules else {}
    later = {step.position for step in steps if step.position is not None}
    if later and not shares:
        raise InputError("--position-step needs a matching position to begin with: --rules N or --places")
    if len(shares) + len(later - shares.keys()) < 2:
        return RuleSetup(rules or max(shares, default=0), stateful)
    return RuleSetup.mixed(tuple(sorted({**dict.fromkeys(later, 0.0), **shares}.items())), stateful)


def size_mix(frame: int | None, sizes: str | None) -> SizeMix:
    """The frame sizes that ``--frame`` or ``--sizes`` gives; 64 bytes without either."""
    from weirlab.traffic.sizes import parse_sizes

    if frame is not None and sizes is not None:
        raise InputError("--frame and --sizes exclude each other: give one of them")
    return parse_sizes(sizes if sizes is not None else str(64 if frame is None else frame))


def plan(**settings: object) -> dict[str, object]:
    """Those of ``settings`` that were given."""
    return {name: value for name, value in settings.items() if value is not None}


def positions(text: str | None) -> tuple[int, ...] | None:
    """``--rules`` as a list."""
    return None if text is None else listed(text, int, "--rules", "0,100,1000")


def loads(text: str | None) -> tuple[float, ...] | None:
    """``--loads`` as ratios."""
    return None if text is None else listed(text, share, "--loads", "50%,90%,120%")


def time_budget(text: str | None) -> str | None:
    """``--time-budget`` as it is, if it is a time."""
    from weirlab.scenario.times import seconds

    try:
        if text is not None:
            seconds(text)
    except ValueError as error:
        raise InputError(f"--time-budget: {error}") from None
    return text


def target(text: str | None) -> float | None:
    """``--target`` as a ratio."""
    if text is None:
        return None
    values = listed(text, share, "--target", "5%")
    if len(values) != 1:
        raise InputError(
            f"--target: one share is needed, {quoted(text)} holds {len(values)}; e.g. --target 5%"
        )
    return values[0]


def loads_by_regime(text: str | None) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """``--loads`` below the threshold, and at or beyond it; None for None."""
    shares = loads(text)
    if shares is None:
        return None, None
    return tuple(s for s in shares if s < 1), tuple(s for s in shares if s >= 1)


def frames(text: str | None) -> tuple[int, ...] | None:
    """``--frame`` as a list."""
    return None if text is None else listed(text, int, "--frame", "64,1518")


def lab(kind: LabKind, backend: BackendChoice = "auto") -> Lab:
    """The lab that the options name."""
    from weirlab.scenario import Lab

    return Lab(kind=kind, backend=backend)


def device(name: str | None, ruleset: Path | None, stateful: bool = False, match: str | None = None) -> Dut:
    """The device that the options name: the user's ruleset if one is given, else iptables.

    Raises
    ------
    InputError
        There is no such device, or the ruleset does not fit it or cannot be read.
    """
    from weirlab.lab.dut import make
    from weirlab.scenario import NO_DEVICE, Dut

    if match is not None and ruleset is None:
        raise InputError("--match names a rule of --ruleset FILE, which is missing")
    chosen = name or ("iptables" if ruleset is None else "ruleset")
    if chosen != NO_DEVICE:
        make(chosen, ruleset)
    return Dut(name=chosen, ruleset=ruleset, match=match, stateful=stateful)
