"""``weir plan``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.cli.options import CpuOptions, ResultOptions, grouped, reading
from weirlab.devices.planning.options import (
    GIVEN,
    ModelOptions,
    PlanLoadOptions,
    QuestionOptions,
    RequirementOptions,
    RulesetOptions,
)

if TYPE_CHECKING:
    from weirlab.devices.planning.outcome import PlanRequest
    from weirlab.model.planning.requirements import Requirement
    from weirlab.requirements import Demand
    from weirlab.traffic.calls.mix import VoiceMix


PLAN = """Find the load, rules, frame size or device that meets a requirement.

MODEL is a model file, a run with fitted models, or library:NAME (weir library
list); several are compared. Give all but one of load, rules and frame size.
If that leaves a choice, --find names the quantity to find: rate, calls,
rules, frame, delay, loss or device. No packet may be lost unless a limit on
loss is given. Answers stay within the profiled range unless --extrapolate is
given (else exit code 7). If the prediction meets the requirement but the
profile is too noisy to be sure, the plan is undecided (also exit code 7;
JSON: verdict). If the answer is no, the exit code is 9. --require also takes
the quantity found: rate, calls or rules.

With --tunnel, the rules of MODEL stand in front of a tunnel that was profiled
without rules: how many calls pass this tunnel behind these rules?

A path (a file that ends in .yaml) has several devices in series, and flows
through them: docs/chain.md.

With --ruleset, the mean matching position is read from the rules' counters,
and Weir looks for a better order of the rules that has the same meaning. With
root, packets in network namespaces prove it; unproven orders are not given.
Where the best order takes more than 10 moves, it is the fewest moves that
give 90 % of the gain.
With --before, nothing is reordered or measured: the exit code is 9 if packets
meet more rules than before, by more than --margin.

Examples:
  weir plan devices.json --rules 400 --require 'p99<1ms'
  weir plan a.json b.json --rate 90kpps --rules 50 --class cyclic --cycle 4ms
  weir plan path.yaml --require 'p99<10ms'
  weir plan last --codec g711 --calls 500 --find rules --certainty 99%
  weir plan last --codec g711 --rules 400 --require 'calls>=300'
  weir plan last --codec g711:60,g729:40 --packet-time 30ms --rules 400
  weir plan rules.json --tunnel esp.json --codec g711 --rules 400
  weir plan last --dut-cpus 4 --rules 400 --require 'p99<1ms'
  weir plan last --given rules=400 --given frame=214 --find rate --json
  weir plan last --ruleset saved.rules --rate 200kpps --reordered new.rules
  weir plan --ruleset saved.rules --reordered new.diff
  weir plan --ruleset after.rules --before before.rules --require 'rules<=60'
"""


@dataclass(frozen=True, kw_only=True)
class PlanningOptions:
    """All options of a plan."""

    asked: ModelOptions
    question: QuestionOptions
    load: PlanLoadOptions
    cpus: CpuOptions
    wanted: RequirementOptions
    rules: RulesetOptions

    def request(self) -> PlanRequest:
        """The options as a request."""
        from weirlab.cli.results import gates
        from weirlab.devices.planning import requiring as required_plans
        from weirlab.devices.planning.outcome import PlanRequest
        from weirlab.traffic.calls.mix import parse_mix, with_packet_time
        from weirlab.traffic.load import parse_rate

        asked, question, load, wanted = self.asked, self.question, self.load, self.wanted
        values = {
            "rate": load.rate, "calls": load.calls, "codec": load.codec, "frame": load.size.frame,
            "sizes": load.size.sizes, "rules": load.rules, "device": asked.device,
        }  # fmt: skip
        said = merged(question.given or [], values)
        if load.packet_time is not None and said["codec"] is None:
            raise InputError("--packet-time is that of a codec: add --codec")
        codecs = said["codec"]
        chosen = None if codecs is None else parse_mix(with_packet_time(codecs, load.packet_time))
        demands = gates.demands(wanted.require, required_plans.KNOWN)
        if asked.cpus is not None and not asked.tunnel:
            raise InputError("--cpus divides rules from a tunnel: add --tunnel MODEL")
        sized = said["frame"] is not None or said["sizes"] is not None
        return PlanRequest(
            sources=tuple(asked.models or ()) + tuple(asked.more or ()),
            tunnels=tuple(asked.tunnel or ()),
            cpus=asked.cpus or 1,
            shares=self.cpus.shares,
            device=said["device"],
            find=question.find,
            rate=None if said["rate"] is None else parse_rate(said["rate"]),
            sizes=reading.size_mix(said["frame"], said["sizes"]) if sized else None,
            position=said["rules"],
            stream=chosen,
            calls=None if said["calls"] is None else reading.calls(said["calls"]),
            directions=load.directions,
            requirements=requirements(demands, wanted, chosen),
            certainty=_ratio("--certainty", question.certainty),
            arrivals=load.arrivals,
            extrapolate=question.extrapolate,
            ruleset=self.rules.ruleset,
            include=tuple(self.rules.include or ()),
            before=self.rules.before,
            margin=_margin(self.rules),
            reordered=self.rules.reordered,
            model=question.using,
            demands=demands,
        )


def add_to(app: typer.Typer) -> None:
    app.command("plan", help=PLAN, rich_help_panel="Model")(grouped(plan))


def plan(ctx: typer.Context, options: PlanningOptions, result: ResultOptions) -> None:
    from weirlab.cli.results import gates
    from weirlab.devices.planning import wording as plans
    from weirlab.devices.planning.path.command import answer_path, path_of
    from weirlab.devices.planning.study import plan
    from weirlab.traffic.calls.offered import note

    with result.session(ctx) as session:
        asked = options.asked
        others = {
            "--tunnel": asked.tunnel,
            "--device": asked.device,
            "--find": options.question.find,
            "--given": options.question.given,
            "--class": options.wanted.traffic_class,
            "a load": options.load,
            "--dut-cpus": options.cpus,
            "a ruleset": options.rules,
        }
        if (path := path_of([*(asked.models or ()), *(asked.more or ())], others)) is not None:
            require, extrapolate = options.wanted.require or (), options.question.extrapolate
            answer_path(session, path, require, extrapolate=extrapolate)
            return
        outcome = plan(session.store, options.request())
        if outcome.calls is not None and options.load.calls and (counted := note(options.load.calls)):
            session.say(counted)
        for warning in outcome.warnings:
            session.say(warning)
        session.finish(outcome.document(), plans.conclusion(outcome), plans.tables(outcome))
        session.complain(gates.worse(gates.failure(outcome.judged), outcome.problem()))


def merged(given: Sequence[str], values: dict[str, Any]) -> dict[str, Any]:
    """The options' ``values`` with what ``--given`` adds.

    Raises
    ------
    InputError
        A key is unknown, its value cannot be read, or it is given twice.
    """
    values = dict(values)
    readers: dict[str, Any] = {"frame": int, "rules": float}
    for text in given:
        key, separator, value = (part.strip() for part in text.partition("="))
        if not separator or key not in GIVEN or not value:
            raise InputError(
                f"--given: {quoted(text)} not understood; give KEY=VALUE with one of {', '.join(GIVEN)}"
            )
        if values[key] is not None:
            raise InputError(f"{key} is given twice; leave one of them out")
        try:
            values[key] = readers.get(key, str)(value)
        except ValueError:
            raise InputError(f"--given: {quoted(value)} is no number for {key}") from None
        if key in readers and not values[key] >= (0 if key == "rules" else 1):
            raise InputError(f"--given: {key} cannot be {value}")
    return values


def requirements(
    demands: Sequence[Demand], wanted: RequirementOptions, stream: VoiceMix | None
) -> tuple[Requirement, ...]:
    """All requirements, each with its name and derivation."""
    from weirlab.devices.planning.requiring import GIVEN
    from weirlab.model.planning.requirements import LIMITED, Requirement, for_calls, for_class, limit_of

    traffic_class, cycle, share = wanted.traffic_class, wanted.cycle, wanted.share
    found: list[Requirement] = []
    shares = {} if share is None else {"share": _ratio("--share", share)}
    if traffic_class is not None:
        found.append(for_class(traffic_class, None if cycle is None else milliseconds(cycle), **shares))
    elif cycle is not None:
        raise InputError("--cycle belongs to a class; add --class isochronous or --class cyclic")
    if stream is not None and traffic_class is None:
        found += [for_calls(packet_ms, **shares) for packet_ms in stream.packet_times_ms]
    elif share is not None and traffic_class is None:
        raise InputError("--share belongs to a class or to calls; add --class or --codec")
    if limited := [demand for demand in demands if demand.quantity in LIMITED]:
        found.append(Requirement(GIVEN, tuple(map(limit_of, limited))))
    return tuple(found)


def _ratio(option: str, text: str) -> float:
    return reading.ratio(option, text, "95%", accepted=lambda found: 0 < found <= 1)


def _margin(options: RulesetOptions) -> float:
    """The growth that ``--margin`` accepts, or the default."""
    from weirlab.devices.planning.changes import MARGIN

    if options.margin is None:
        return MARGIN
    if options.before is None:
        raise InputError("--margin belongs to --before: give the rules before the change as well")
    return reading.ratio("--margin", options.margin, "5%", accepted=lambda found: 0 <= found < float("inf"))


def milliseconds(text: str) -> float:
    """``4ms``, ``500us`` or a bare number of ms; raises ``InputError`` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise InputError(f"--cycle: {quoted(text)} not understood; e.g. --cycle 4ms")
    return float(match[1]) * {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}[match[2] or "ms"]
