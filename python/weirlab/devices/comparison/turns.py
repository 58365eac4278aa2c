"""Two devices measured in turns: a trial through each, one right after the other, again and again."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from weirlab.base import limits
from weirlab.base.errors import InputError, TrialError
from weirlab.base.files import HOST_FILES
from weirlab.cli.quantities import duration, percent, plural, words
from weirlab.jobs import machine, profiles, testbeds
from weirlab.jobs.progress import Progress, kept
from weirlab.jobs.quick import QuickProfile, profile_in_turn
from weirlab.lab.base import TestBed
from weirlab.lab.dut import make
from weirlab.lab.dut.aiming import RuleTraffic
from weirlab.lab.dut.ruleset import RulesetDriver
from weirlab.measure import Hooks, TrialEntry, run_trial
from weirlab.measure.progress import OVERHEAD_S, estimate_s
from weirlab.measure.scouting import fastest
from weirlab.measure.terms import SINGLE
from weirlab.model.base import F64
from weirlab.model.comparing.matching import OWN_RULES, QUANTITIES, Compared, ComparisonSetting
from weirlab.model.comparing.paired import Power, power, power_of_pairs
from weirlab.model.comparing.verdicts import ComparisonTerms
from weirlab.records import RuleSetup, TrialSpec
from weirlab.store import Run, RunWriter, Store
from weirlab.traffic.load import parse_rate
from weirlab.traffic.sizes import SizeMix, mean_bytes
from weirlab.traffic.spec import Rate, Traffic

KIND: Final = "comparison"
SIDES: Final = ("before", "after")
PLAN: Final = "turns"
"""What was planned, in the run: its settings, and the rules that the packets meet."""
MET: Final = "rules_met"

PAIRS: Final = 60
"""Of trials, for each setting and load."""
MOST_TRIES: Final = 3
"""Times the number of pairs that are tried until enough of them are valid."""
TRIAL_S: Final = 0.1
WARMUP_S: Final = 0.03
BUILD_S: Final = 3.0
"""Time that building a bed takes, about."""
HALF: Final = 0.5
"""Share of the rate that both forward at which delays are compared: far from the threshold of either."""

PROFILES: Final = 4
"""Profiles of each device whose own processes would work beside those of the other."""
OVERLOAD: Final = 0
"""Of the loads in ``_SHORT``."""
_SHORT: Final = ("overload", "half load")


@dataclass(frozen=True)
class TurnsPlan:
    """Two devices to compare, and how often each is measured."""

    before: QuickProfile
    after: QuickProfile
    pairs: int | None = None

    @property
    def sides(self) -> tuple[QuickProfile, QuickProfile]:
        return self.before, self.after

    @property
    def beside(self) -> bool:
        """Whether both can be there at once: the kernel does nothing for a device without packets."""
        names = [side.scenario().dut for side in self.sides]
        return not any(make(dut.name, dut.file, HOST_FILES, dut.files_beside).forwards for dut in names)

    def forecast(self, terms: ComparisonTerms) -> str:
        """What this can find, and how long it takes."""
        settings = min(side.places if self.beside else side.settings for side in self.sides)
        power_of = power_of_pairs if self.beside else power
        count = self.pairs or (PAIRS if self.beside else PROFILES)
        foreseen = power_of(settings, count, terms)
        if self.beside:
            seconds = settings * count * 4 * (TRIAL_S + WARMUP_S + OVERHEAD_S) + 4 * BUILD_S
            what = f"{plural(count, 'pair')} of trials, one of each right after the other"
        else:
            seconds = count * (self.before.expected_s + self.after.expected_s)
            what = f"{plural(count, 'profile')} of each in turns"
        found = words([f"{percent(one.detectable)} in {one.title}" for one in foreseen])
        proved = words([percent(one.provable) for one in foreseen])
        return (
            f"{what}, about {duration(seconds * 1e9, 2)}. If they scatter as assumed, 4 of 5 such "
            f"comparisons find a change of {found}, and prove no change within {proved}"
            f"{_beyond_proof(foreseen, lambda pairs: power_of(settings, pairs, terms), terms)}"
        )


def _beyond_proof(
    foreseen: Sequence[Power], power_of: Callable[[int], Sequence[Power]], terms: ComparisonTerms
) -> str:
    """Which margins so many pairs cannot prove, and how many could; ``foreseen`` is in the order of power."""
    numbers = range(1, limits.MOST_ATTEMPTS + 1)
    told = []
    for index, one in enumerate(foreseen):
        if one.provable <= (margin := terms.margins[one.quantity]):
            continue
        # What can be proved gets less with every pair.
        pairs = 1 + bisect_left(numbers, True, key=lambda n: power_of(n)[index].provable <= margin)
        if pairs <= len(numbers):
            way = f"--pairs {pairs} would"
        else:
            way = f"--pairs {len(numbers)} proves {percent(power_of(len(numbers))[index].provable)}"
        told.append(f"{one.title} within {percent(margin)} ({way})")
    return f". This cannot prove {words(told)}" if told else ". --pairs for more"


def check(plan: TurnsPlan) -> None:
    """Raise ``InputError`` for devices that cannot be compared, before anything is built."""
    if plan.before == plan.after:
        raise InputError(f"{plan.before.device} would be compared with itself: name another one after it")
    for side in plan.sides:
        profiles.refuse_impossible(side.scenario())
        machine.refuse_emulated(side.facts, side.device)


def profile_in_turns(
    store: Store, plan: TurnsPlan, progress: Progress
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Profile both in turns (ABBA), and return the IDs of the runs of each."""
    agree_on_packets(plan)
    order = ((False, True, True, False) * (plan.pairs or PROFILES))[: 2 * (plan.pairs or PROFILES)]
    runs: tuple[list[str], list[str]] = ([], [])
    for turn, outcome in zip(
        order, profile_in_turn(store, [plan.sides[turn] for turn in order], progress), strict=True
    ):
        runs[turn].append(outcome.run.run_id)
        if (problem := outcome.problem()) is not None:
            raise problem
    return tuple(runs[False]), tuple(runs[True])


def agree_on_packets(plan: TurnsPlan) -> tuple[RuleTraffic | None, RuleTraffic | None]:
    """The packets that both sides get, and the rule that they meet on each; None for rules of Weir's.

    They are aimed at a rule of the first, and narrowed to those that the second accepts as well.

    Raises ``InputError`` if both cannot get the same packets; the message says why.
    """
    scenarios = [side.scenario() for side in plan.sides]
    if scenarios[0].lab.kind == "sim":
        return None, None
    flows = profiles.flows(scenarios[0])
    duts = [scenario.dut for scenario in scenarios]
    before, after = (make(dut.name, dut.file, HOST_FILES, dut.files_beside) for dut in duts)
    if isinstance(before, RulesetDriver) and isinstance(after, RulesetDriver):
        first = before.aim(duts[0].match, flows)
        second = after.aim(None, flows, like=first)
        if second is not None and first is not None and first.endpoints != second.endpoints:
            first = before.aim(None, flows, like=second)
        if (first is None) != (second is None) or (first and second and not first.sends_as(second)):
            names = " and ".join(str(side.ruleset) for side in plan.sides)
            why = "not both can be read" if first is None or second is None else "they accept different ones"
            raise InputError(f"{names} cannot be sent the same packets: {why}")
        return first, second
    for driver in (before, after):
        if isinstance(driver, RulesetDriver):
            own = driver.aim(duts[0].match if driver is before else None, flows)
            if own is None or own.endpoints is not None or (own.l4, own.ip) != (flows.l4, flows.ip):
                which = "which cannot be read" if own is None else f"and {own.sentence}"
                raise InputError(
                    f"{driver.path} can only be compared with other rules: "
                    f"a device with rules of Weir's gets the usual packets, {which}"
                )
    return None, None


def measure_in_turns(store: Store, plan: TurnsPlan, progress: Progress, command: str = "") -> Run:
    """Measure pairs of trials as one run.

    Raises
    ------
    LabError, MissingCapability
        A bed cannot be built.
    FailedTrial
        A device forwards nothing.
    """
    with ExitStack() as opened:
        packets = agree_on_packets(plan)
        beds = _open(plan, packets, progress, opened, (0, 1))
        testbeds.tell_if_busy(beds[0].lab, progress)
        for bed in beds:
            machine.refuse_emulated(testbeds.facts(bed), bed.dut)
        facts = {**testbeds.facts(beds[0], command), "after": testbeds.facts(beds[1])}
        names = [side.device if side.ruleset is None else side.ruleset.name for side in plan.sides]
        scenario = {"name": f"{names[1]} against {names[0]}", "before": names[0], "after": names[1]}
        with kept(lambda: store.create(KIND, scenario, facts)) as writer:
            turns = _Turns(plan, writer, progress)
            writer.put_json(PLAN, {**turns.document, MET: _rules_met(names, packets)})
            turns.measure(beds, math.ceil(turns.pairs / 2))
            # Where the memory of a bed lies matters a little: both are built again, the other way round.
            opened.close()
            turns.measure(_open(plan, packets, progress, opened, (1, 0)), turns.pairs)
    return writer.run


def _rules_met(names: Sequence[str], packets: Sequence[RuleTraffic | None]) -> list[dict[str, Any]]:
    """By side: which rule the packets meet, and with how many they are compared before."""
    return [
        {"ruleset": name, "rule": one.rule, "compared": one.compared, "traffic": one.sent, "unmet": one.unmet}
        for name, one in zip(names, packets, strict=True)
        if one is not None
    ]


def _open(
    plan: TurnsPlan,
    packets: Sequence[RuleTraffic | None],
    progress: Progress,
    opened: ExitStack,
    order: Sequence[int],
) -> tuple[TestBed, TestBed]:
    beds = {}
    for side in order:
        scenario = plan.sides[side].scenario()
        sizes = () if plan.sides[side].ruleset is not None else profiles.to_measure(scenario).sizes
        beds[side] = opened.enter_context(
            testbeds.open_bed(
                scenario.lab,
                scenario.dut,
                progress,
                profiles.flows(scenario),
                sizes=sizes,
                inputs=HOST_FILES,
                aim=packets[side],
            )
        )
    return beds[0], beds[1]


def rounds_left(valid: int, tried: int, wanted: int, most: int) -> float:
    """How many more pairs have to be tried until ``wanted`` are valid, at most ``most`` in all, if as large a
    share is valid as of those that were ``tried``.
    """
    share = (valid + 1) / (tried + 1)
    return min((wanted - valid) / share, most - tried)


class _Turns:
    """Pairs of trials, counted over all openings of the beds."""

    def __init__(self, plan: TurnsPlan, writer: RunWriter, progress: Progress) -> None:
        self.pairs = plan.pairs or PAIRS
        scenario = plan.before.scenario()
        self._flows = profiles.flows(scenario)
        self._own = [side.ruleset is not None for side in plan.sides]
        measured = profiles.to_measure(scenario)
        self._settings = [(position, mix) for position in measured.positions for mix in measured.sizes]
        self._terms = replace(SINGLE, max_attempts=1)
        self._writer, self._progress = writer, progress
        self._tried = 0
        self._valid = [[0, 0] for _ in self._settings]
        self._loads: list[Rate] = []

    @property
    def document(self) -> dict[str, Any]:
        own = all(self._own)
        settings = [[OWN_RULES if own else position, mean_bytes(mix)] for position, mix in self._settings]
        return {"settings": settings}

    def measure(self, beds: tuple[TestBed, TestBed], wanted: int) -> None:
        """Go on until so many pairs are valid at every setting and load, or too many were tried."""
        specs = [self._specs(beds, number) for number in range(len(self._settings))]
        most = MOST_TRIES * wanted
        round_s = estimate_s(one for of in specs for pair in of for one in pair)
        begun_s, before = self._terms.clocks.seconds(), self._tried
        what = plural(self.pairs, "pair")
        self._progress.stage(f"{what} of trials, run {self._writer.run_id}")
        while self._tried < most and min(min(of) for of in self._valid) < wanted:
            done = min(min(of) for of in self._valid)
            if rounds := self._tried - before:
                round_s = (self._terms.clocks.seconds() - begun_s) / rounds
            left = rounds_left(done, self._tried, self.pairs, MOST_TRIES * self.pairs)
            self._progress.advance(done, self.pairs, f"pair {done + 1}", left * round_s)
            for number, of in enumerate(specs):
                for load, pair in enumerate(of):
                    if self._valid[number][load] < wanted:
                        self._valid[number][load] += self._pair(beds, pair, (self._tried, number, load))
            self._tried += 1

    def _pair(
        self, beds: tuple[TestBed, TestBed], specs: Sequence[TrialSpec], place: tuple[int, int, int]
    ) -> bool:
        tried, number, load = place
        valid = True
        for side in (0, 1) if tried % 2 == 0 else (1, 0):
            index = ((tried * len(self._settings) + number) * 2 + load) * 2 + side
            entry = TrialEntry(self._writer.run_id, index)
            hooks = Hooks(on_record=self._writer.add)
            several = len(self._settings) > 1
            records = run_trial(
                beds[side], specs[side], entry, terms=self._terms, hooks=hooks, set_rules=several
            )
            valid &= records[-1].valid
        return valid

    def _specs(self, beds: tuple[TestBed, TestBed], number: int) -> list[tuple[TrialSpec, TrialSpec]]:
        """The trials of a setting: of both devices in overload, and at half the rate that both forward."""
        position, mix = self._settings[number]
        rules = [testbeds.rule_setup(bed, RuleSetup(position)) for bed in beds]
        most = self._traffic(fastest(self._flows), mix, beds)
        for bed, setup in zip(beds, rules, strict=True):
            bed.set_rules(setup)
        if number == len(self._loads):
            forwarded = [bed.run(most).forwarding_pps for bed in beds]
            if not min(forwarded):
                raise TrialError(
                    "a device forwards nothing in overload: weir trial shows at which load it does"
                )
            self._loads.append(parse_rate(f"{HALF * min(forwarded):.3g}"))
        half = self._traffic(self._loads[number], mix, beds)
        return [
            (
                TrialSpec(traffic, rules[0], f"{SIDES[0]}, {name}"),
                TrialSpec(traffic, rules[1], f"{SIDES[1]}, {name}"),
            )
            for name, traffic in zip(_SHORT, (most, half), strict=True)
        ]

    def _traffic(self, rate: Rate, mix: SizeMix, beds: tuple[TestBed, TestBed]) -> Traffic:
        for bed in beds:
            (mix,) = testbeds.roomy(bed, self._flows, (mix,))
        return Traffic(rate, mix, self._flows, warmup_s=WARMUP_S, duration_s=TRIAL_S)


def differences(run: Run) -> Mapping[ComparisonSetting, Mapping[Compared, F64]]:
    """The differences of every pair of valid trials in a run."""
    by_setting: dict[ComparisonSetting, dict[Compared, list[float]]] = {}
    for place, load, first, second in _pairs(run):
        of = by_setting.setdefault(place, {quantity: [] for quantity in QUANTITIES})
        if load == OVERLOAD:
            of["rate"].append(math.log(second["forwarding_pps"] / first["forwarding_pps"]))
            continue
        of["loss"].append(second["loss_ratio"] - first["loss_ratio"])
        of["mean"].append(math.log(second["delay_mean_ns"] / first["delay_mean_ns"]))
        of["p99"].append(math.log(second["delay_p99_ns"] / first["delay_p99_ns"]))
    return {
        place: {quantity: np.array(by_setting.get(place, {}).get(quantity, ())) for quantity in QUANTITIES}
        for place in _settings(run)
    }


def rates(run: Run) -> Mapping[ComparisonSetting, F64]:
    """Per setting: the rates that both devices forwarded in overload, in packets/s; shape (pairs, 2)."""
    found: dict[ComparisonSetting, list[tuple[float, float]]] = {}
    for place, load, first, second in _pairs(run):
        if load == OVERLOAD:
            found.setdefault(place, []).append((first["forwarding_pps"], second["forwarding_pps"]))
    return {place: np.array(pairs) for place, pairs in found.items()}


def _settings(run: Run) -> list[ComparisonSetting]:
    return run.get_json(PLAN, lambda kept: [ComparisonSetting(*of) for of in kept["settings"]])


def _pairs(run: Run) -> Iterator[tuple[ComparisonSetting, int, Mapping[str, Any], Mapping[str, Any]]]:
    """Every pair of valid trials: its setting, its load, and the trials of both devices."""
    settings = _settings(run)
    trials = {row["index"]: row for row in run.trials().filter("valid").iter_rows(named=True)}
    for index, first in trials.items():
        second = trials.get(index + 1)
        if index % 2 == 0 and second is not None:
            yield settings[index // 4 % len(settings)], index // 2 % 2, first, second
