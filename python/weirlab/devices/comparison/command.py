"""``weir compare``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.cli.options import (
    DeviceOptions,
    FlowOptions,
    FramesOption,
    LabKind,
    MachineKind,
    ResultOptions,
    completing,
    grouped,
    listed,
    only,
    reading,
)
from weirlab.cli.results import documents as xml
from weirlab.devices.comparison.wording import assumptions, change, interval, margin, sentence, tables

if TYPE_CHECKING:
    from weirlab.devices.comparison.study import ComparisonOutcome
    from weirlab.devices.comparison.turns import TurnsPlan
    from weirlab.model.comparing.matching import Compared
    from weirlab.model.comparing.verdicts import ComparisonTerms


COMPARE = """Compare a run after a change with one before: did the device become slower?

BEFORE and AFTER are IDs, beginnings of IDs, "last", or "last~1" for the one
before it: two profiles, or two runs of single trials (with --repetitions).
Forwarding rate, mean delay, p99 delay and loss are compared setting by
setting, and for each of them the answer is worse, better, unchanged (within
the margin), not worse, or cannot tell. Exit codes: 0 unchanged or better,
9 worse, 7 cannot tell.

Two runs of one device differ by more than their trials show, since all trials
of a run share the state of the host. One run of each does not show by how
much. The scatter of published runs is used unless --scatter gives yours, or
more runs (--before, --after) show it. See docs/ci.md.

With --measure, BEFORE and AFTER are rulesets or devices. Both are there at
once, and trials alternate between them (before, after, after, before, ...),
in overload and at half the rate that both forward: what the host does meets
both trials of a pair alike. How small a change that can find is printed
first.

Examples:
  weir compare last~1 last
  weir compare 20260131-1200 last --margin 5% --margin p99=30%
  weir compare last~3 last~2 --before last~1 --after last --junit weir.xml
  weir compare last~1 last --scatter 2% --json
  weir compare --measure before.rules after.rules --junit weir.xml
  weir compare --measure before.rules after.rules --answered --flows 100
  weir compare --measure iptables nftables --rules 0,400 --pairs 100
"""

REPETITIONS: Final = 3
"""Trials of each setting in a profile of a device that cannot be there beside another."""


_USUAL_FLOWS: Final = FlowOptions()
_ANY_RULE: Final = DeviceOptions()


@dataclass(frozen=True)
class MoreRunsOptions:
    """Further runs, which show the scatter from run to run."""

    more_before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            help="Another run before the change; repeatable.",
            metavar="RUN",
            autocompletion=completing.runs,
        ),
    ] = None
    more_after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            help="Another run after the change; repeatable.",
            metavar="RUN",
            autocompletion=completing.runs,
        ),
    ] = None


@dataclass(frozen=True)
class MeasureOptions:
    """Trials to measure first."""

    PANEL: ClassVar = "With --measure"

    measure: Annotated[
        bool, typer.Option("--measure", help="Measure BEFORE and AFTER, rulesets or devices, in turns.")
    ] = False
    pairs: Annotated[
        int | None,
        typer.Option(min=1, max=limits.MOST_ATTEMPTS, help="Pairs of trials (default: 60)."),
    ] = None
    rules: Annotated[str | None, typer.Option(help="Matching positions, e.g. 0,400.", metavar="N,...")] = None
    frame: FramesOption = None
    traffic: Annotated[FlowOptions, only("flows", "answered")] = _USUAL_FLOWS
    aim: Annotated[DeviceOptions, only("match")] = _ANY_RULE
    machine: Annotated[MachineKind | None, typer.Option(help="noisy: tolerate more disturbance.")] = None
    lab: Annotated[LabKind | None, typer.Option(help="Where: netns (root), or sim.")] = None

    def plan(self, before: str, after: str) -> TurnsPlan | None:
        """What to measure; None without ``--measure``."""
        from weirlab.devices.comparison.turns import TurnsPlan
        from weirlab.jobs.quick import QuickProfile

        if not self.measure:
            options = (*vars(self).items(), *vars(self.traffic).items(), ("match", self.aim.match))
            usual = {**vars(MeasureOptions()), **vars(_USUAL_FLOWS), "match": None}
            given = {name for name, value in options if value != usual[name]} - {"traffic", "aim"}
            if given:
                raise InputError(f"--{min(given)} goes with --measure, without which nothing is measured")
            return None
        wanted = QuickProfile(
            before,
            None if self.rules is None else tuple(listed(self.rules, int, "--rules", "0,400")),
            reading.frames(self.frame),
            repetitions=REPETITIONS,
            lab=self.lab or "auto",
            machine=self.machine or "usual",
            match=self.aim.match,
            flows=self.traffic.flows,
            answered=self.traffic.answered,
        )
        if self.aim.match is not None and wanted.ruleset is None:
            raise InputError(f"--match names a rule of a file, and {before} is none: leave it out")
        return TurnsPlan(wanted, replace(wanted, device=after, match=None), self.pairs)


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """The runs that are compared, besides those that the arguments name."""

    more: MoreRunsOptions
    turns: MeasureOptions


@dataclass(frozen=True)
class TermsOptions:
    """What counts as a change, and how sure it has to be."""

    margin: Annotated[
        list[str] | None,
        typer.Option(
            help="Largest change that counts as none: 5%, or for one quantity p99=30% "
            "(default: rate=8%, mean=8%, p99=20%; with --measure 5%, 10%, 25%; and 0.2% of the packets "
            "for loss); repeatable.",
            metavar="SHARE",
        ),
    ] = None
    scatter: Annotated[
        list[str] | None,
        typer.Option(
            help="Run-to-run standard deviation of one device here: 2%, or p99=4%; repeatable.",
            metavar="SHARE",
        ),
    ] = None
    certainty: Annotated[
        str,
        typer.Option(help="Share of comparisons without a change that report none, 50% to 99.9%."),
    ] = "98%"

    def terms(self, *, pairs: bool = False) -> ComparisonTerms:
        """The options as terms, for ``pairs`` of trials or for runs; raises ``InputError`` naming an option
        that is invalid."""
        from weirlab.model.comparing import paired, verdicts
        from weirlab.model.comparing.verdicts import ComparisonTerms

        sure = reading.ratio("--certainty", self.certainty, "5%")
        if not 0.5 <= sure <= 0.999:
            raise InputError(f"--certainty {quoted(self.certainty)}: it must be from 50% to 99.9%")
        relative: tuple[Compared, ...] = ("rate", "mean", "p99")
        usual = paired.MARGINS if pairs else verdicts.MARGINS
        margins = {**usual, **_named("--margin", self.margin or [], relative, ("loss",))}
        return ComparisonTerms(margins, sure, _named("--scatter", self.scatter or [], relative))


def add_to(app: typer.Typer) -> None:
    app.command("compare", help=COMPARE, rich_help_panel="Runs")(grouped(compare))


def compare(
    ctx: typer.Context,
    *,
    before: Annotated[
        str,
        typer.Argument(
            help="Run before the change; with --measure, a ruleset or device.",
            metavar="BEFORE",
            autocompletion=completing.runs,
        ),
    ],
    after: Annotated[
        str,
        typer.Argument(
            help="Run after the change; with --measure, a ruleset or device.",
            metavar="AFTER",
            autocompletion=completing.runs,
        ),
    ],
    runs: RunsOptions,
    options: TermsOptions,
    junit: Annotated[
        Path | None, typer.Option(help="Also write JUnit XML for CI systems.", metavar="FILE")
    ] = None,
    result: ResultOptions,
) -> None:
    from weirlab.devices.comparison import turns as measuring
    from weirlab.devices.comparison.study import compare_runs, compare_turns

    with result.session(ctx) as session:
        xml.check_junit(junit)
        more, turns = runs.more, runs.turns
        first: Sequence[str] = [before, *(more.more_before or [])]
        second: Sequence[str] = [after, *(more.more_after or [])]
        plan = turns.plan(before, after)
        pairs = plan is not None and plan.beside
        wanted = options.terms(pairs=pairs)
        if plan is not None:
            if more.more_before or more.more_after:
                raise InputError("--before and --after name runs; --measure makes its own: leave them out")
            measuring.check(plan)
            session.say(plan.forecast(wanted))
            if not pairs:
                first, second = measuring.profile_in_turns(session.store, plan, session.progress)
        if plan is not None and pairs:
            run = measuring.measure_in_turns(session.store, plan, session.progress, session.command)
            outcome = compare_turns(run, wanted)
        else:
            outcome = compare_runs(session.store, first, second, wanted)
        said = sentence(outcome)
        if junit is not None:
            xml.write_junit(junit, "weir compare", _cases(outcome), _properties(outcome, said))
        for note in () if result.json else (*outcome.notes, *assumptions(outcome)):
            session.say(note)
        written = {} if junit is None else {"junit": junit}
        document = {**outcome.document(), "assumptions": assumptions(outcome), **written}
        session.finish(document, said, tables(outcome))
        session.complain(outcome.problem())


def _named(
    option: str, texts: Sequence[str], relative: tuple[Compared, ...], alone: tuple[Compared, ...] = ()
) -> dict[Compared, float]:
    """``5%`` for all that is ``relative``, and ``p99=30%`` for one, whichever comes first."""
    common: dict[Compared, float] = {}
    single: dict[Compared, float] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        share = reading.ratio(option, value, "5%", within=text)
        if not 0 < share < 1:
            raise InputError(f"{option} {quoted(text)}: it must be above 0 and below 100%")
        known = next((each for each in (*relative, *alone) if each == name.strip().lower()), None)
        if separator and known is None:
            names = ", ".join((*relative, *alone))
            raise InputError(f"{option}: {quoted(name)} is not compared; accepted are {names}")
        if known is None:
            common |= dict.fromkeys(relative, share)
        else:
            single[known] = share
    return common | single


def _cases(outcome: ComparisonOutcome) -> list[xml.JunitCase]:
    kinds: dict[str, xml.Outcome] = {"worse": "failure", "cannot tell": "error"}
    return [
        xml.JunitCase(
            one.title,
            kinds.get(one.verdict, "passed"),
            f"{one.text}: {change(one, one.change)} {interval(one, outcome.terms.certainty)}, "
            f"margin {margin(one)}" + (f"; {one.why}" if one.why else ""),
        )
        for one in outcome.findings
    ]


def _properties(outcome: ComparisonOutcome, said: str) -> dict[str, str]:
    from weirlab.devices.comparison.turns import SIDES

    sides = {side: " ".join(run.run_id for run in getattr(outcome, side)) for side in SIDES}
    if outcome.run is not None:
        measured = outcome.run.manifest.scenario
        sides = {side: str(measured[side]) for side in SIDES} | {"run": outcome.run.run_id}
    return {
        **sides,
        "verdict": outcome.verdict,
        "conclusion": said,
        "notes": " ".join((*outcome.notes, *assumptions(outcome))),
    }
