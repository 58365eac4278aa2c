"""``weir plan``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from weirlab import limits
from weirlab.cli import completing, options
from weirlab.cli.output import Session
from weirlab.errors import InputError
from weirlab.quoting import quoted

if TYPE_CHECKING:
    from weirlab.model.planning import Requirement
    from weirlab.requirements import Demand
    from weirlab.traffic.calls.codecs import VoiceStream

PLAN = """Find the load, the rules, the frame size or the device that meets a requirement.

MODEL is a model file or a run with fitted models; several are compared. Give
all but one of load, rules and frame size; --find says what is sought if that
leaves a choice: rate, calls, rules, frame, delay, loss or device. No packet
may be lost unless a limit to loss is given. Answers keep to the profiled
range unless --extrapolate is given (else exit code 7). Where the prediction
meets the requirement but the profile is too noisy to be sure, the plan is
undecided (exit code 7 as well; JSON: verdict). If the answer is no, the exit
code is 9. --require also takes what is found: rate, calls or rules.

With --ruleset, the mean matching position is read from its counters and a
better order of its rules is looked for that means the same.

Examples:
  weir plan devices.json --rules 400 --require 'p99<1ms'
  weir plan a.json b.json --rate 90kpps --rules 50 --class cyclic --cycle 4ms
  weir plan last --codec g711 --calls 500 --find rules --certainty 99%
  weir plan last --codec g711 --rules 400 --require 'calls>=300'
  weir plan last --given rules=400 --given frame=214 --find rate --json
  weir plan last --ruleset saved.rules --rate 200kpps --reordered new.rules
"""

_TRAFFIC = "Traffic"
_WANTED = "Requirement"
_SOUGHT = "Question"

Class = Literal["isochronous", "cyclic", "acyclic"]
Sought = Literal["rate", "calls", "rules", "frame", "delay", "loss", "device"]
Kind = Literal["queueing", "piecewise"]

GIVEN: Final = ("rate", "calls", "codec", "frame", "sizes", "rules", "device")
"""What ``--given`` takes, each as the option of that name does."""


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("plan", help=PLAN, rich_help_panel="Model")(plan)


def plan(
    ctx: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Model files, run IDs or 'last'.", metavar="MODEL", autocompletion=completing.runs
        ),
    ] = None,
    more: Annotated[
        list[str] | None, typer.Option("--models", help="The same as MODEL.", metavar="MODEL")
    ] = None,
    device: options.DeviceOption = None,
    find: Annotated[
        Sought | None, typer.Option("--find", help="What is sought.", rich_help_panel=_SOUGHT)
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given", help=f"KEY=VALUE: {', '.join(GIVEN)}.", metavar="KEY=VALUE", rich_help_panel=_SOUGHT
        ),
    ] = None,
    certainty: Annotated[
        str,
        typer.Option(
            "--certainty",
            help="Share of trials that keep to the answer, 50% to 99.5%.",
            rich_help_panel=_SOUGHT,
        ),
    ] = "95%",
    extrapolate: Annotated[
        bool,
        typer.Option(
            "--extrapolate", help="Answer outside the profiled range, too.", rich_help_panel=_SOUGHT
        ),
    ] = False,
    using: Annotated[
        Kind, typer.Option("--using", help="Which of the fitted models to ask.", rich_help_panel=_SOUGHT)
    ] = "queueing",
    rate: Annotated[
        str | None,
        typer.Option("--rate", help="Offered load: 300kpps, 40%@1Gbit/s, ...", rich_help_panel=_TRAFFIC),
    ] = None,
    frame: options.FrameOption = None,
    sizes: options.SizesOption = None,
    rules: Annotated[
        float | None,
        typer.Option(
            "--rules",
            min=0,
            max=limits.MOST_RULES,
            help="Mean matching position: rules compared up to and including the one that matches "
            "(0: no rules).",
            rich_help_panel=_TRAFFIC,
        ),
    ] = None,
    calls: Annotated[
        int | None,
        typer.Option(
            "--calls", min=1, max=limits.MOST_CALLS, help="Number of calls.", rich_help_panel=_TRAFFIC
        ),
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(
            "--codec",
            help="g711, g729:40ms, opus@24kbit/s, ...; also sets the requirement.",
            rich_help_panel=_TRAFFIC,
        ),
    ] = None,
    directions: Annotated[
        int,
        typer.Option(
            "--directions",
            min=1,
            max=2,
            help="Streams per call through the device.",
            rich_help_panel=_TRAFFIC,
        ),
    ] = 2,
    arrivals: Annotated[
        options.Arrivals | None,
        typer.Option(
            "--arrivals",
            help="Gaps between packets (default: poisson for calls, else constant).",
            rich_help_panel=_TRAFFIC,
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            help="p99<1ms, mean<80us, jitter<50us, loss<0.1%, loss=0, calls>=300, ...; repeatable.",
            metavar="LIMIT",
            rich_help_panel=_WANTED,
        ),
    ] = None,
    traffic_class: Annotated[
        Class | None,
        typer.Option("--class", help="Traffic class of IEC/IEEE 60802.", rich_help_panel=_WANTED),
    ] = None,
    cycle: Annotated[
        str | None, typer.Option("--cycle", help="Cycle of that class, e.g. 4ms.", rich_help_panel=_WANTED)
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            "--share",
            help="This device's share of the cycle (default 50%) or of the calls' delay (10%).",
            rich_help_panel=_WANTED,
        ),
    ] = None,
    ruleset: Annotated[
        Path | None,
        typer.Option("--ruleset", help="Rules with counters, from iptables-save -c or nft.", metavar="FILE"),
    ] = None,
    reordered: Annotated[
        Path | None,
        typer.Option("--reordered", help="Write the ruleset in its better order.", metavar="FILE"),
    ] = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Plan."""
    from weirlab.cli import gates
    from weirlab.studies.planning import requiring as required_plans
    from weirlab.studies.planning import told as plans
    from weirlab.studies.planning.study import PlanRequest, plan
    from weirlab.traffic.calls.codecs import parse_codec
    from weirlab.traffic.load import parse_rate

    with Session(ctx, as_json=json, store=store) as session:
        said = merged(
            given or [],
            rate=rate, calls=calls, codec=codec, frame=frame, sizes=sizes, rules=rules, device=device,
        )  # fmt: skip
        chosen = None if said["codec"] is None else parse_codec(said["codec"])
        demands = gates.demands(require, required_plans.KNOWN)
        sized = said["frame"] is not None or said["sizes"] is not None
        request = PlanRequest(
            sources=tuple(models or ()) + tuple(more or ()),
            device=said["device"],
            find=find,
            rate=None if said["rate"] is None else parse_rate(said["rate"]),
            sizes=options.size_mix(said["frame"], said["sizes"]) if sized else None,
            position=said["rules"],
            stream=chosen,
            calls=said["calls"],
            directions=directions,
            requirements=requirements(demands, traffic_class, cycle, share, chosen),
            certainty=ratio("--certainty", certainty),
            arrivals=arrivals,
            extrapolate=extrapolate,
            ruleset=ruleset,
            reordered=reordered,
            model=using,
            demands=demands,
        )
        outcome = plan(session.store, request)
        for warning in outcome.warnings:
            session.say(warning)
        session.finish(outcome.document(), plans.conclusion(outcome), plans.tables(outcome))
        session.complain(gates.worse(gates.failure(outcome.judged), outcome.problem()))


def merged(given: list[str], **values: Any) -> dict[str, Any]:
    """The options' ``values`` with what ``--given`` adds.

    Raises
    ------
    InputError
        A key is unknown, its value cannot be read, or it is given twice.
    """
    readers: dict[str, Any] = {"calls": int, "frame": int, "rules": float}
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
    demands: Sequence[Demand],
    traffic_class: Class | None,
    cycle: str | None,
    share: str | None,
    stream: VoiceStream | None,
) -> tuple[Requirement, ...]:
    """All that is demanded, each with its name and derivation."""
    from weirlab.model.planning import Requirement, for_calls, for_class
    from weirlab.model.planning.requirements import LIMITED, limit_of
    from weirlab.studies.planning.requiring import GIVEN

    found: list[Requirement] = []
    shares = {} if share is None else {"share": ratio("--share", share)}
    if traffic_class is not None:
        found.append(for_class(traffic_class, None if cycle is None else milliseconds(cycle), **shares))
    elif cycle is not None:
        raise InputError("--cycle belongs to a class; add --class isochronous or --class cyclic")
    if stream is not None and traffic_class is None:
        found.append(for_calls(stream.packet_ms, **shares))
    elif share is not None and traffic_class is None:
        raise InputError("--share belongs to a class or to calls; add --class or --codec")
    if limited := [demand for demand in demands if demand.quantity in LIMITED]:
        found.append(Requirement(GIVEN, tuple(map(limit_of, limited))))
    return tuple(found)


def ratio(option: str, text: str) -> float:
    """``95%`` or ``0.95``; raises ``InputError`` naming ``option``."""
    try:
        found = options.share(text.strip().replace(" ", ""))
    except ValueError:
        found = float("nan")
    if not 0 < found <= 1:
        raise InputError(f"{option}: {quoted(text)} not understood; e.g. {option} 95%")
    return found


def milliseconds(text: str) -> float:
    """``4ms``, ``500us`` or a bare number of ms; raises ``InputError`` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise InputError(f"--cycle: {quoted(text)} not understood; e.g. --cycle 4ms")
    return float(match[1]) * {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}[match[2] or "ms"]
