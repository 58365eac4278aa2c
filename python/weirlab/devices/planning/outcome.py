"""The request and the outcome of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from weirlab.base.errors import NotMet, Undecided, WeirError
from weirlab.base.quantities import count, duration, plural, rate, words
from weirlab.devices.planning import requiring as required_plans
from weirlab.devices.planning.changes import MARGIN, RulesetChangeOutcome
from weirlab.devices.planning.requiring import MOST_RULES
from weirlab.devices.prediction.outcome import below_profiled
from weirlab.lab.equivalence.proof import EquivalenceProof
from weirlab.model import DeviceModels, QueueingModel
from weirlab.model.backlog import Backlog, DeviceQueue
from weirlab.model.planning.planner import Conclusion, Find, PlanAnswer, PlanForecast, PlanningQuestion, best
from weirlab.model.planning.requirements import Requirement
from weirlab.records import WHERE
from weirlab.requirements import Demand, DemandCase, DemandJudgement, judge
from weirlab.rules import Advice
from weirlab.rules.costs import known_first, sets
from weirlab.traffic.calls.mix import VoiceMix
from weirlab.traffic.sizes import SizeMix
from weirlab.traffic.spec import Arrivals, Rate

TRIALS_S: Final = (1.0, 10.0)
"""Lengths of trials for which the effect of a deep queue is reported."""


@dataclass(frozen=True)
class PlanRequest:
    """What the user gives; None for what is not given."""

    sources: tuple[str | DeviceModels, ...]
    """Model files and runs, or devices that are loaded already."""
    tunnels: tuple[str | DeviceModels, ...] = ()
    """The same of tunnels, which come after the rules of ``sources``."""
    cpus: int = 1
    """How many CPUs rules and tunnel have: 1 for both, or 2 for one each."""
    shares: tuple[float, ...] = (1.0,)
    """The share of the packets that each CPU of the device gets, which has as many receive queues."""
    device: str | None = None
    find: Find | None = None
    rate: Rate | None = None
    sizes: SizeMix | None = None
    position: float | None = None
    stream: VoiceMix | None = None
    calls: int | None = None
    directions: int = 2
    """Streams per call that pass the device."""
    requirements: tuple[Requirement, ...] = ()
    certainty: float = 0.95
    arrivals: Arrivals | None = None
    extrapolate: bool = False
    ruleset: Path | None = None
    include: tuple[Path, ...] = ()
    """Folders with files that the ruleset includes, besides its own."""
    before: Path | None = None
    """The rules that ``ruleset`` is compared with."""
    margin: float = MARGIN
    """Growth of the mean matching position that is accepted, as a ratio."""
    reordered: Path | None = None
    """Where to write the ruleset in its better order."""
    model: str = QueueingModel.name
    demands: tuple[Demand, ...] = ()
    """The values of ``--require``; their limits are among the requirements as well."""


@dataclass(frozen=True)
class FreedGain:
    """What a device would gain on top of the best order if one more rule could move."""

    rule: str
    saved_ns: float
    """Service time per packet."""
    threshold_pps: float
    gain_ratio: float
    """By how much the threshold grows."""


@dataclass(frozen=True)
class RulesetGain:
    """What one device gains from the better order; outlooks at the given load, None without a load."""

    device: str
    threshold_before_pps: float
    threshold_after_pps: float
    before: PlanForecast | None
    after: PlanForecast | None
    why_extrapolated: tuple[str, ...]
    freed: tuple[FreedGain, ...] = ()
    """For each rule that keeps its place and would gain something."""
    error_ratio: float = 0.0
    """Error of the model in the threshold, relative: a smaller gain may be none."""

    @property
    def ratio(self) -> float:
        """By how much the threshold rises."""
        return self.threshold_after_pps / self.threshold_before_pps - 1


@dataclass(frozen=True)
class RulesetOutcome:
    """Advice on a ruleset."""

    path: Path
    advice: Advice
    """With an order only if that is proven."""
    proof: EquivalenceProof
    unproven_mean_position: float | None
    """What a better order would bring that is not given, because it is not proven."""
    gains: tuple[RulesetGain, ...]
    written: Path | None

    def document(self) -> dict[str, Any]:
        advice, proof = self.advice, self.proof
        return {
            "path": self.path,
            "packets": advice.before.packets,
            "mean_position": advice.before.mean_position,
            "new_mean_position": advice.after.mean_position,
            "moves": advice.moves,
            "best_order": None
            if advice.best is None
            else dict(zip(("moves", "mean_position"), advice.best, strict=True)),
            "comparisons": advice.costs,
            "sets": [one for rules in advice.present for one in sets(rules)],
            "established_first": [one for rules in advice.present for one in known_first(rules)],
            "orders": {chain.name: [place + 1 for place in chain.order] for chain in advice.chains},
            "proof": {
                "packets": proof.packets,
                "undetermined": proof.undetermined,
                "failure": proof.failure or None,
            },
            "unproven_mean_position": self.unproven_mean_position,
            "kept_in_place": [one.text for one in advice.kept],
            "freed": {
                one.text: one.freed_mean_position
                for one in advice.kept
                if one.freed_mean_position is not None
            },
            "freed_and_counted": {
                one.text: one.counted_mean_position
                for one in advice.kept
                if one.counted_mean_position is not None
            },
            "uncounted": [f"{chain} rule {number}" for chain, number in advice.before.uncounted],
            "untried": advice.untried,
            "notes": advice.notes,
            "gains": self.gains,
            "written": self.written,
        }


@dataclass(frozen=True)
class PlanOutcome:
    """Every device's answer, and advice on the ruleset if one was given."""

    question: PlanningQuestion | None
    """None if the plan is about a ruleset only."""
    requirements: tuple[Requirement, ...]
    answers: tuple[PlanAnswer, ...]
    ruleset: RulesetOutcome | None = None
    stream: VoiceMix | None = None
    directions: int = 2
    simulated: tuple[str, ...] = ()
    """The devices that were simulated."""
    calls: int | None = None
    """The load in calls; None if it was given otherwise."""
    demands: tuple[Demand, ...] = ()
    change: RulesetChangeOutcome | None = None
    queues: Mapping[str, Backlog] = field(default_factory=dict)
    """The backlogs of devices with a deep queue, at the settings in question."""

    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """By device: the part of a kernel that a program in user space stands in for."""
    more_trials: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By device: how to profile it again with more trials."""

    unusable: Mapping[str, str] = field(default_factory=dict)
    """By device: why the profile that the answer rests on does not count."""

    disturbed: Mapping[str, str] = field(default_factory=dict)
    """By device: which profiles behind the answer the host disturbed."""

    def doubt(self, answer: PlanAnswer) -> str:
        """Why a disturbed profile cannot tell, and what repeats it; empty if it can, or is not disturbed."""
        disturbed = self.disturbed.get(answer.device, "")
        if not disturbed or answer.verdict != "undecided":
            return ""
        ways = words(self.more_trials.get(answer.device, ()))
        return f"{disturbed}: cannot tell" + (f"; {ways}" if ways else "")

    def name(self, device: str) -> str:
        """What a device is called in tables and sentences: those with a reservation are marked."""
        marks = ["user space"] if device in self.stand_ins else []
        marks += ["does not count"] if device in self.unusable else []
        return f"{device} ({', '.join(marks)})" if marks else device

    @property
    def best(self) -> PlanAnswer | None:
        """The device that answers best; None if none meets the limits."""
        return best(list(self.answers))

    @property
    def verdict(self) -> Conclusion | None:
        """The best verdict of any device; None without a question."""
        order = get_args(Conclusion)
        return min((one.verdict for one in self.answers), key=order.index, default=None)

    @property
    def judged(self) -> tuple[DemandJudgement, ...]:
        """How each requirement is met: on rules by the given ones, else by the best device."""
        answer = self.best or next((one for one in self.answers if one.verdict == self.verdict), None)
        return self._judged([] if answer is None else [answer])

    @property
    def judged_devices(self) -> tuple[DemandJudgement, ...]:
        """The same by every device."""
        return self._judged(self.answers)

    def concluded(self, answer: PlanAnswer) -> Conclusion:
        """The verdict on a device, and on what is required of the most that it carries."""
        if not answer.met:
            return answer.verdict
        found = {
            one.verdict for one in self._judged([answer]) if one.demand.quantity in required_plans.SOUGHT
        }
        return "misses" if "not met" in found else "undecided" if "undecided" in found else "meets"

    def _judged(self, answers: Sequence[PlanAnswer]) -> tuple[DemandJudgement, ...]:
        question = self.question
        rules = None if question is not None and question.find == "rules" else self._rules()
        of_rules = [demand for demand in self.demands if rules is not None and demand.quantity is MOST_RULES]
        others = [demand for demand in self.demands if demand not in of_rules]
        found = [judge(of_rule, [rules]) for of_rule in of_rules if rules is not None]
        if question is not None:
            for answer in answers:
                found += required_plans.judged(others, self.requirements, answer, question.call_pps)
        return tuple(found)

    def _rules(self) -> DemandCase | None:
        """How many rules a packet is compared with; None if no rules are given."""
        if self.change is not None:
            return self.change.case
        return required_plans.rules_met(self.ruleset.advice.before) if self.ruleset is not None else None

    def problem(self) -> WeirError | None:
        """The error to report if the answer is no, or if the profiles do not decide the question."""
        if self.change is not None and (worse := self.change.problem()) is not None:
            return worse
        if self.verdict == "misses":
            limits = self.question.limits if self.question else ()
            return NotMet(f"the answer is no: {', '.join(limit.text for limit in limits)} cannot be kept")
        if self.verdict != "undecided":
            return None
        names = [one.device for one in self.answers if one.verdict == "undecided"]
        sure = f"{self.question.certainty * 100:g} %" if self.question else ""
        return Undecided(
            f"undecided: trials of the profile of {', '.join(names)} scatter too much for {sure} certainty"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader must know about the answers."""
        found: dict[str, None] = {}
        for one in self.answers:
            if one.uncertain:
                found[
                    f"{one.device}: the model has no intervals for {', '.join(one.uncertain)}; there the "
                    "answer is the prediction alone, which every second trial exceeds. Fit again: weir fit"
                ] = None
            if one.outlook is not None:
                for why in one.outlook.why_extrapolated:
                    mark = (
                        "extrapolated"
                        if self.question is None or self.question.extrapolate
                        else "load too high"
                    )
                    found[f"{one.device}: {mark}, {why}"] = None
        for device, part in self.stand_ins.items():
            found[f"{device}: in user space; {part} would be faster ({WHERE})"] = None
        for device, held in self.queues.items():
            found[f"{device}: {self._deep(held)}"] = None
        return tuple(found)

    @property
    def assumption(self) -> str:
        """What an answer for a load below the lowest profiled one rests on; empty for other loads."""
        least = [self._load(one.least_pps) for one in self.answers if one.least_pps is not None]
        return below_profiled(words(list(dict.fromkeys(least)))) if least else ""

    def _deep(self, held: Backlog) -> str:
        """What deep queues do to trials without loss."""
        short, long = (
            f"{_least(held.first(lasts_s))}{self._load(held.lossless_pps(lasts_s))} ({lasts_s:g} s)"
            for lasts_s in TRIALS_S
        )
        # Only the queues that decide; the others have no visible effect.
        queues = list(dict.fromkeys(held.first(lasts_s) for lasts_s in (*TRIALS_S, math.inf)))
        depths = words(
            [
                f"{_least(one)}{count(one.packets)} packets ({duration(one.drains_s * 1e9)} of work)"
                for one in queues
            ]
        )
        return (
            f"{'its queue holds' if len(queues) == 1 else 'its queues hold'} {depths}, so how much passes "
            f"without loss, however late, depends on the length of a trial: {short}, {long}, but in the long "
            f"run only {self._load(held.threshold_pps)}"
        )

    def _load(self, pps: float) -> str:
        """The load, in calls if the question is about calls."""
        if self.question is not None and self.question.call_pps is not None:
            return plural(int(pps / self.question.call_pps), "call")
        return rate(pps)

    def document(self) -> dict[str, Any]:
        question, chosen = self.question, self.best
        return {
            "kind": "plan",
            "find": question.find if question else None,
            "given": None
            if question is None
            else {
                "rate": question.load,
                "frame_bytes": question.frame_bytes,
                "position": question.position,
                "gap_scv": question.gap_scv,
                "call_pps": question.call_pps,
            },
            "certainty": question.certainty if question else None,
            "verdict": self.verdict,
            "limits": question.limits if question else (),
            "requirements": [one.document() for one in self.judged],
            "answers": [
                {
                    "device": a.device,
                    "simulated": a.device in self.simulated,
                    "verdict": a.verdict,
                    "stands_in_for": self.stand_ins.get(a.device),
                    "unusable": self.unusable.get(a.device),
                    "disturbed": self.disturbed.get(a.device),
                    "more_trials": words(self.more_trials.get(a.device, ())) or None
                    if a.verdict == "undecided"
                    else None,
                    "met": a.met,
                    **{k: v for k, v in vars(a).items() if k != "device"},
                }
                for a in self.answers
            ],
            "best": chosen.device if chosen else None,
            "warnings": self.warnings,
            "ruleset": self.ruleset.document() if self.ruleset else None,
            "change": self.change.document() if self.change else None,
        }


def _least(queue: DeviceQueue) -> str:
    return "at least " if queue.endless else ""
