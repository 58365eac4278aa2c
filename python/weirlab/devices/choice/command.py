"""``weir choose``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import (
    JudgementOptions,
    LabKind,
    MachineKind,
    TunnelCpusOption,
    completing,
    grouped,
    listed,
    reading,
)

if TYPE_CHECKING:
    from weirlab.devices.choice.study import ChoiceRequest
    from weirlab.traffic.calls.mix import VoiceMix

CHOOSE = """Choose the device that carries given calls: profile what is missing, plan.

Every DEVICE is compared, with every --tunnel behind it (and without, to show
what the tunnel costs): one table with each one's threshold, p99 delay, most
calls, headroom and verdict, and a sentence with the answer. Stored profiles
of this machine serve again; what is missing is measured, after an estimate of
how long that takes. --profiles chooses from runs or model files without
measuring; --tunnel then names such as well.

--rules, --codec and --packet-time may be several, and --factors multiplies
the calls: is there room for twice as many? The first of each decides which
device is best. The exit code is that of the first factor: 0 if a device will
do with all rules and kinds of calls, 9 if none will, 7 if that is undecided.

Examples:
  weir choose iptables nftables --rules 400 --calls 300 --require 'p99<1ms'
  weir choose iptables --tunnel strongswan --tunnel wireguard --rules 400 \\
    --calls 300 --packet-time 20ms,30ms --factors 1,2
  weir choose iptables --rules 400 --calls 300 --codec g711 \\
    --codec g711:60,g729:40
  weir choose iptables nftables --rules 0,400,1000 --calls 500 --out page.html
  weir choose --profiles a.json --profiles last --rules 400 --calls 300 --json
"""


@dataclass(frozen=True)
class CandidateOptions:
    """What there is to choose from."""

    devices: Annotated[
        list[str] | None, typer.Argument(help="Devices under test, as in --dut.", metavar="DEVICE")
    ] = None
    tunnel: Annotated[
        list[str] | None,
        typer.Option(help="A tunnel behind each device; repeatable.", metavar="DEVICE"),
    ] = None
    profiles: Annotated[
        list[str] | None,
        typer.Option(
            help="Choose from this run, model file or library:NAME, without measuring; repeatable.",
            metavar="MODEL",
            autocompletion=completing.runs,
        ),
    ] = None
    cpus: TunnelCpusOption = None


@dataclass(frozen=True)
class CallsOptions:
    """The calls, and the rules in front of them."""

    PANEL: ClassVar = "Calls"

    calls: Annotated[
        str, typer.Option(help="Two-way calls at once: 300, 3,000, 20erl, 1200bhca@180s.", metavar="N")
    ]
    rules: Annotated[str, typer.Option(help="Mean matching positions, e.g. 0,400.", metavar="N,...")] = "0"
    codec: Annotated[
        list[str] | None,
        typer.Option(
            help="g711 (the default), g729:40ms, g711:60,g729:40 (shares), ...; repeatable.",
            metavar="CODEC,...",
        ),
    ] = None
    packet_time: Annotated[
        str | None,
        typer.Option(help="Packet times of codecs that name none, e.g. 20ms,30ms.", metavar="TIME,..."),
    ] = None
    factors: Annotated[
        str, typer.Option(help="Multiples of the calls; the first decides.", metavar="N,...")
    ] = "1,2"

    def streams(self) -> tuple[VoiceMix, ...]:
        """Every codec with every packet time, each once; raises ``InputError`` for what is neither."""
        from weirlab.traffic.calls.mix import parse_mix, with_packet_time

        times: list[str | None] = [None]
        if self.packet_time is not None:
            times = [*self.packet_time.split(",")]
        codecs = self.codec or ["g711"]
        timed = (with_packet_time(codec, packet_time) for codec in codecs for packet_time in times)
        return tuple(dict.fromkeys(map(parse_mix, timed)))


@dataclass(frozen=True)
class MeasuringOptions:
    """How devices are profiled that have no stored profile."""

    PANEL: ClassVar = "Profiles"

    again: Annotated[bool, typer.Option("--again", help="Measure also what is stored.")] = False
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, max=limits.MOST_ATTEMPTS, help="Trials of each setting."),
    ] = None
    machine: Annotated[
        MachineKind, typer.Option(help="noisy: tolerate more disturbance and repeat more often.")
    ] = "usual"
    lab: Annotated[LabKind, typer.Option(help="Where: netns (root), or sim.")] = "auto"


@dataclass(frozen=True)
class AnswerOptions:
    """How sure the answer is, and where it goes."""

    certainty: Annotated[str, typer.Option(help="Share of trials that meet the answer, 50% to 99.5%.")] = (
        "95%"
    )
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Also answer outside the profiled range.")
    ] = False
    out: Annotated[Path | None, typer.Option(help="Also write a page.", metavar="FILE.html")] = None


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """All options of a choice."""

    candidates: CandidateOptions
    calls: CallsOptions
    measuring: MeasuringOptions
    answer: AnswerOptions

    def request(self, require: list[str] | None) -> ChoiceRequest:
        """The options as a request; raises ``InputError`` for what cannot be chosen."""
        from weirlab.cli.results import gates
        from weirlab.devices.choice.study import ChoiceRequest
        from weirlab.devices.planning import requiring
        from weirlab.devices.planning.outcome import PlanRequest
        from weirlab.jobs.quick import QuickProfile
        from weirlab.model.planning.requirements import LIMITED, Requirement, limit_of

        calls, measuring = self.calls, self.measuring
        streams = calls.streams()
        demands = gates.demands(require, (*LIMITED, requiring.MOST_RATE, requiring.MOST_CALLS))
        limited = [limit_of(demand) for demand in demands if demand.quantity in LIMITED]
        given = (Requirement(requiring.GIVEN, tuple(limited)),) if limited else ()
        tunnels = tuple(self.candidates.tunnel or ())
        if self.candidates.cpus is not None and not tunnels:
            raise InputError("--cpus divides rules from a tunnel: add --tunnel")
        rules = tuple(listed(calls.rules, int, "--rules", "0,400"))
        factors = tuple(listed(calls.factors, float, "--factors", "1,2"))
        if not all(0 <= rule <= limits.MOST_RULES for rule in rules):
            raise InputError(f"--rules {calls.rules}: each must be from 0 to {limits.MOST_RULES:,}")
        if not all(0 < factor <= limits.MOST_CALLS for factor in factors):
            raise InputError(f"--factors {calls.factors}: each must be above 0")
        terms = PlanRequest(
            sources=(),
            cpus=self.candidates.cpus or 1,
            requirements=given,
            certainty=reading.ratio("--certainty", self.answer.certainty, "95%"),
            extrapolate=self.answer.extrapolate,
            demands=demands,
        )
        return ChoiceRequest(
            devices=tuple(self.candidates.devices or ()),
            tunnels=tunnels,
            profiles=tuple(self.candidates.profiles or ()),
            rules=tuple(dict.fromkeys(rules)),
            calls=reading.calls(calls.calls),
            streams=streams,
            factors=tuple(dict.fromkeys(factors)),
            terms=terms,
            profile=QuickProfile(
                "", repetitions=measuring.repetitions, lab=measuring.lab, machine=measuring.machine
            ),
            again=measuring.again,
        )


def add_to(app: typer.Typer) -> None:
    app.command("choose", help=CHOOSE, rich_help_panel="Model")(grouped(choose))


def choose(ctx: typer.Context, options: ChoiceOptions, result: JudgementOptions) -> None:
    from weirlab.base import files
    from weirlab.cli.results import gates
    from weirlab.devices.choice import wording
    from weirlab.devices.choice.study import choose
    from weirlab.traffic.calls.offered import note

    with result.session(ctx) as session:
        out = options.answer.out
        if out is not None:
            files.check_output(out, "--out")
        request = options.request(result.require)
        if counted := note(options.calls.calls):
            session.say(counted)
        outcome = choose(session.store, request, session.progress)
        rows = outcome.rows(wording.why)
        for warning in () if result.json else (*outcome.cases[0].plan.warnings, *wording.notes_on(outcome)):
            session.say(warning)
        confirm = wording.confirmation(outcome)
        document = outcome.document(rows) | {"notes": wording.notes_on(outcome), "confirm": confirm or None}
        if out is not None:
            wording.write_page(outcome, rows, out, session.command)
            document["out"] = out
            session.say(f"Page: {out}")
        session.finish(document, wording.sentence(outcome, session.command), wording.tables(outcome, rows))
        if confirm and not result.json:
            session.say(f"To check it with real calls: {confirm}")
        session.complain(gates.worse(wording.failure(outcome), outcome.problem()))
