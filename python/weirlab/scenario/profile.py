"""Scenarios about what a device does to packets: files with the key ``profile``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from weirlab.base.errors import InputError
from weirlab.scenario.conflicts import Conflict, of_device, of_lab
from weirlab.scenario.document import Location
from weirlab.scenario.model import (
    BLACK_BOX,
    NO_DEVICE,
    CalibrationSection,
    Dut,
    Lab,
    Root,
    Section,
    TrafficShape,
)
from weirlab.scenario.values import (
    Attempts,
    Compared,
    Count,
    MayBeEmpty,
    PlacesText,
    Position,
    Positions,
    Repetitions,
    Seconds,
    Seed,
    Share,
    Shares,
    SizeList,
    TimeText,
    WarmUp,
    no_repeats,
)
from weirlab.traffic.flows import describe_headers, min_frame_bytes
from weirlab.traffic.load import LOAD_SHARES
from weirlab.traffic.places import mean_position, parse_places
from weirlab.traffic.sizes import parse_sizes, validate
from weirlab.traffic.spec import Arrivals

NewShares = Annotated[
    tuple[Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)], ...],
    MayBeEmpty,
    AfterValidator(no_repeats),
]


class AdaptiveSection(Section):
    """A profile in which each trial is chosen where the model is least certain.

    Positions give the range; loads and sizes give the choices.
    """

    budget: Count | None = None
    """Maximum trials; left out: half the trials of the same profile without ``adaptive``."""
    target: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] = 0.05
    """Measuring stops when predictions are known to within this ratio at 95 % of the settings."""
    batch: Count = 8
    """Minimum trials between two fits."""


class ProfileSection(Section):
    """The plan of trials that characterises the device."""

    positions: Positions = (0, 50, 100, 150, 200, 280, 400, 600, 800, 1000)
    """Matching positions: number of rules up to and including the one that accepts; 0: no rules."""
    sizes: SizeList = ("64", "512", "1518")
    """Frame sizes with FCS, or mixes."""
    load_shares: Shares = LOAD_SHARES
    """Offered loads as shares of the forwarding rate found in overload, per position and size."""
    load_stride: Annotated[int, Field(strict=True, ge=1, le=100)] | None = None
    """At each position and size, only every n-th of the loads below 1 is measured; neighbours take the loads
    in between. Left out: 3 for the default loads, 1 (all of them) for others."""
    repetitions: Repetitions = 3
    """Trials per setting."""
    trial_s: Seconds = 0.1
    """Recorded part of a trial, in s."""
    warmup_s: WarmUp = 0.03
    """Time of traffic before recording, in s."""
    scout_s: Seconds = 0.1
    """Length of the trials that find the forwarding rate in overload, in s."""
    max_attempts: Attempts | None = None
    """Maximum attempts per trial; a trial that the host spoils is tried again later. Left out: as many as
    chance explains, by the share of attempts that count."""
    seed: Seed = 1
    """Seed of the order of trials."""
    adaptive: AdaptiveSection | None = None
    """Left out: the whole grid of positions, sizes and loads is measured."""
    stateful: Compared = ()
    """``[false, true]``: also some loads with connection tracking; left out: always as in ``dut``."""
    cross_traffic: Compared = ()
    """``[false, true]``: also some loads with a management session on the device; ``[true]``: in every
    trial; left out: none."""
    arrivals: Annotated[tuple[Arrivals, ...], MayBeEmpty, AfterValidator(no_repeats)] = ()
    """``[constant, poisson]``: some loads with both; left out: always as in ``traffic``."""
    new: NewShares = ()
    """With ``answered`` traffic and one position: shares of packets that each open a further flow, e.g.
    ``[0, 0.01, 0.1, 0.5, 1]``. Nothing is measured besides the grid then. Left out: as in ``traffic``."""
    mixed: Annotated[tuple[PlacesText, ...], MayBeEmpty, AfterValidator(no_repeats)] = ()
    """Traffic that matches at several positions at once, as ``position:weight``, e.g. ``1:50,99:50``."""
    rate_step: tuple[Share, Share] | None = None
    """Loads before and after a step in mid-trial, as shares of the forwarding rate in overload."""
    position_step: tuple[Position, Position] | None = None
    """Matching positions before and after a step in mid-trial."""
    extra_position: Position | None = None
    """Position at which state, cross traffic and the rate step are compared; left out: the middle one of
    ``positions``."""
    extra_shares: Shares = (0.08, 0.44, 0.65, 0.82, 0.95, 1.2)
    """Loads of all these extra trials; the nearest of ``load_shares`` are used."""

    @property
    def trials(self) -> int:
        """Upper limit on the number of trials, scouting included."""
        points = len(self.positions) * len(self.sizes) * max(len(self.new), 1)
        settings = len(self.mixed) + len(self.stateful) + len(self.cross_traffic)
        extras = len(self.extra_shares) * (settings + len(self.arrivals) * len(self.positions))
        extras += (self.rate_step is not None) + (self.position_step is not None)
        return points + self.repetitions * (points * len(self.load_shares) + extras)


QUICK: Final[dict[str, Any]] = {
    "positions": (0, 50, 100, 400, 1000),
    "sizes": (64, 1518),
    "load_shares": (0.02, 0.15, 0.4, 0.65, 0.85, 0.95, 1.1, 1.4),
    "trial_s": 0.1,
    "warmup_s": 0.03,
    "scout_s": 0.1,
    # Calls arrive at random: without such trials, plans for calls could not be answered.
    "arrivals": ("constant", "poisson"),
    "extra_shares": (0.4, 0.85),
}
"""Settings of a :class:`Profile` that takes less than four minutes."""


class HeldOutSection(Section):
    """Settings that are measured only to check predictions."""

    positions: Positions
    """Matching positions; those that the profile leaves out are the best test."""
    sizes: SizeList = ("64",)
    """Frame sizes with FCS, or mixes."""
    new: NewShares = ()
    """Of ``answered`` traffic: shares of packets that each open a flow; left out: as in ``traffic``."""
    load_shares: Annotated[tuple[Share, ...], MayBeEmpty, AfterValidator(no_repeats)] = ()
    """Loads below the threshold, as shares of it; drawn at random if left out."""
    draws: Annotated[int, Field(strict=True, ge=0, le=1000)] = 6
    """Number of loads to draw."""
    overload_shares: Annotated[tuple[Share, ...], MayBeEmpty, AfterValidator(no_repeats)] = (1.15, 1.5)
    """Loads beyond the threshold, as shares of it; they also measure it."""
    repetitions: Repetitions = 3
    """Trials per setting."""
    trial_s: Seconds = 0.1
    """Recorded part of a trial, in s."""
    warmup_s: WarmUp = 0.03
    """Time of traffic before recording, in s."""
    seed: Seed = 7
    """Seed of the drawn loads and of the order of trials."""

    @property
    def trials(self) -> int:
        """Upper limit on the number of trials."""
        loads = (len(self.load_shares) or self.draws) + len(self.overload_shares)
        points = len(self.positions) * len(self.sizes) * max(len(self.new), 1)
        return points * loads * self.repetitions


Machine = Literal["usual", "noisy"]


class Scenario(Root, title="Weir scenario"):
    """A scenario: what to test, where, and what to do with the results."""

    KEY = "profile"

    lab: Lab = Lab()
    dut: Dut = Dut()
    traffic: TrafficShape = TrafficShape()
    machine: Machine = "usual"
    """``noisy``: for a machine that is never quiet. More disturbance is tolerated, all trials are repeated
    twice as often, and intervals are wider."""
    time_budget: TimeText | None = None
    """Wall time for all trials, e.g. ``6min``; when it is used up, the run ends with what it has. Left out:
    1.5 times the expected time, and no limit for a simulated device."""
    calibrate: CalibrationSection | None = None
    """Left out: the calibration in force is used."""
    profile: ProfileSection
    verify: Annotated[tuple[HeldOutSection, ...], MayBeEmpty] = ()
    """Left out: the models are fitted but not checked."""

    def conflicts(self) -> Iterator[tuple[tuple[int | str, ...], str]]:
        return of_profile(self)

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        yield ("profile",), self.profile.trials
        for i, held_out in enumerate(self.verify):
            yield ("verify", i), held_out.trials


def of_profile(scenario: Scenario) -> Iterator[Conflict]:
    """Every conflict in a scenario with a profile."""
    yield from of_lab(scenario.lab, scenario.dut)
    yield from of_device(scenario.dut, _position_lists(scenario))
    traffic, profile = scenario.traffic, scenario.profile
    if scenario.dut.has_own_rules:
        if profile.mixed:
            yield ("profile", "mixed"), f"the device {scenario.dut.name!r} has its own rules: leave it out"
        if profile.position_step:
            yield (
                ("profile", "position_step"),
                f"the device {scenario.dut.name!r} has its own rules: leave it out",
            )
    if profile.stateful and scenario.dut.stateful not in profile.stateful:
        yield ("profile", "stateful"), "write [false, true] to compare, or 'stateful: true' below 'dut'"
    if profile.arrivals and traffic.arrivals not in profile.arrivals:
        yield ("profile", "arrivals"), f"must contain {traffic.arrivals!r}, which 'traffic' requests"
    flows = traffic.demand()
    if not flows.answered:
        if flows.new_share:
            yield ("traffic", "new"), "goes with 'answered: true'"
        if profile.new:
            yield ("profile", "new"), "goes with 'answered: true' below 'traffic'"
    is_single = scenario.dut.has_own_rules or (len(profile.positions) == 1 and profile.positions[0] > 0)
    if len(profile.new) > 1 and not is_single:
        yield ("profile", "positions"), "several shares of 'new' need one position above 0"
    if profile.new and profile.adaptive:
        yield ("profile", "new"), "does not go with 'adaptive'"
    smallest = min_frame_bytes(flows)
    for loc, sizes in _size_lists(scenario):
        for i, text in enumerate(sizes):
            try:
                validate(parse_sizes(text), smallest, describe_headers(flows))
            except InputError as error:
                yield (*loc, i), str(error)


def _position_lists(scenario: Scenario) -> Iterator[tuple[Location, tuple[int, ...]]]:
    yield ("profile", "positions"), scenario.profile.positions
    for i, held_out in enumerate(scenario.verify):
        yield ("verify", i, "positions"), held_out.positions


def _size_lists(scenario: Scenario) -> Iterator[tuple[Location, tuple[str, ...]]]:
    yield ("profile", "sizes"), scenario.profile.sizes
    for i, held_out in enumerate(scenario.verify):
        yield ("verify", i, "sizes"), held_out.sizes


FULL: Final[dict[str, Any]] = {
    # Shortest and longest frames, the size classes small, medium and large, and a mix of all sizes.
    "sizes": ("64", "poisson:64-200", "poisson:476-612", "poisson:888-1522", "imix", "1518"),
    "load_stride": 5,
    "stateful": (False, True),
    "cross_traffic": (False, True),
    "arrivals": ("constant", "poisson"),
    "mixed": ("1:50,99:50", "1:50,799:50"),
    "rate_step": (0.3, 0.8),
    "position_step": (1, 2000),
}
"""Settings of a :class:`Profile` that takes about 13 minutes."""

_WALKED: Final = ("iptables", "iptables-legacy", "iptables-nft", "nftables", "vm", "vm:nftables")
"""Devices that walk their rules one by one, so that the position of the matching rule matters."""

_WITHOUT_RULES: Final = ("forward", "ruleset", "image", "vm:forward", BLACK_BOX, NO_DEVICE)
"""Devices whose rules cannot be chosen."""


def full(dut: str, positions: Sequence[int] | None = None, *, own: bool = False) -> dict[str, Any]:
    """Settings of the full profile, as far as the device called ``dut`` supports them.

    With ``positions`` other than the usual ones, mixed positions whose mean is not among them are
    left out: there would be nothing to compare them with. ``own``: it is a device of the user's.
    """
    usual = ProfileSection().positions if dut not in _WITHOUT_RULES else (0,)
    known = tuple(usual if positions is None else positions)
    settings = dict(FULL)
    mixed = tuple(text for text in FULL["mixed"] if mean_position(parse_places(text)) in known)
    if dut not in _WALKED or not mixed:
        del settings["mixed"]
    else:
        settings["mixed"] = mixed
    if dut not in _WALKED or max(known) == 0:
        del settings["position_step"]
    if dut in _WITHOUT_RULES:
        del settings["stateful"]
        settings["positions"] = (0,)
    if own or dut in (BLACK_BOX, NO_DEVICE):
        del settings["cross_traffic"]
    return settings
