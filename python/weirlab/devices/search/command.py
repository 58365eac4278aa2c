"""``weir search`` and ``weir rfc2544``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import (
    DeviceOptions,
    FlowOptions,
    JudgementOptions,
    NameOption,
    ResultOptions,
    SeveralSizesOptions,
    TrialsOptions,
    given,
    grouped,
    listed,
    only,
    reading,
    share,
    without,
    work_of,
)

if TYPE_CHECKING:
    from weirlab.devices.search.rfc2544.suite import Rfc2544Suite
    from weirlab.measure.search.throughput import SearchShape, Setting
    from weirlab.scenario import Dut

SEARCH = """Find the loads that a device carries, with the search of RFC 9971 (MLRsearch).

There are two goals by default: NDR (no loss) and PDR (at most 0.5 % loss).
The device carries a load if at most half of the trials lose more. The search
ends when its bounds are 0.5 % apart. If the device is faster than the sender,
the result says "at least".

--require sets a limit on ndr, pdr or, for another loss ratio, throughput@1%.
Every setting must meet it. A limit between the bounds of the search is
undecided.

Examples:
  weir search --dut iptables --rules 0,400
  weir search --dut iptables --rules 400 --require 'ndr>=300kpps'
  weir search --dut nftables --frame 64,512,1518 --loss 0,0.1%,1%
  weir search --ruleset firewall.rules --sizes imix --out throughput.md
  weir search --duration 60 --duration-sum 60 --exceed 0 --loss 0
  weir search --lab sim --rules 400 --json
"""

RFC2544 = """Run the tests of RFC 2544: throughput, latency, frame loss rate and bursts.

Frame sizes are those of the RFC (64 to 1518 bytes) unless --frame or --sizes
names others. Trials are short by default; --strict uses the durations of the
RFC (60 s and 120 s) and takes hours per frame size.

Examples:
  weir rfc2544 --dut iptables --rules 400 --out firewall.md
  weir rfc2544 --tests throughput,latency --frame 64,1518
  weir rfc2544 --tests loss --max-rate 1Gbit/s --step 5% --out loss.csv
  weir rfc2544 --strict --frame 64
  weir rfc2544 --lab sim --json
"""

OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Also write a report: .md for people, .csv for programs.", metavar="FILE"),
]


@dataclass(frozen=True)
class SearchReportOptions:
    """What the run is called, and a report of it."""

    name: NameOption = None
    out: OutOption = None


@dataclass(frozen=True)
class SearchRateOptions:
    """The loads between which to search."""

    PANEL: ClassVar = "Traffic"

    max_rate: Annotated[
        str | None,
        typer.Option(
            help="Highest load, e.g. 1Gbit/s (default: what the sender can pace).",
            metavar="RATE",
        ),
    ] = None
    min_rate: Annotated[str, typer.Option(help="Lowest load to try.", metavar="RATE")] = "1kpps"


@dataclass(frozen=True, kw_only=True)
class SearchTraffic:
    """The traffic of a search."""

    sizes: SeveralSizesOptions
    flows: FlowOptions
    rates: SearchRateOptions

    def shape(self, warmup_s: float | None) -> SearchShape:
        """What all trials have in common."""
        from weirlab.measure.search.throughput import SearchShape
        from weirlab.traffic.load import parse_rate

        low, high = self.rates.min_rate, self.rates.max_rate
        lowest = parse_rate(low)
        if lowest.unit != "pps":
            raise InputError(f"--min-rate {low}: give packets per second, e.g. --min-rate 1kpps")
        highest = None if high is None or high.strip().lower() == "max" else parse_rate(high)
        return SearchShape(
            flows=self.flows.chosen(),
            arrivals=self.flows.arrivals,
            max_rate=highest,
            min_load_pps=lowest.value,
            seed=self.flows.seed,
            **({} if warmup_s is None else {"warmup_s": warmup_s}),
        )


@dataclass(frozen=True, kw_only=True)
class ConstantTraffic(SearchTraffic):
    """The same with equal gaps."""

    flows: Annotated[FlowOptions, without("arrivals")]


@dataclass(frozen=True)
class GoalOptions:
    """When a load is carried, and how closely it is found."""

    PANEL: ClassVar = "Goal"

    loss: Annotated[
        str | None,
        typer.Option(help="Loss ratio each goal allows (default: 0,0.5%).", metavar="SHARE,..."),
    ] = None
    exceed: Annotated[
        str | None,
        typer.Option(help="Share of trials that may lose more (50%; 0: none).", metavar="SHARE"),
    ] = None
    width: Annotated[
        str | None,
        typer.Option(help="Distance of bounds at which the search ends (0.5%).", metavar="SHARE"),
    ] = None
    duration_sum_s: Annotated[
        float | None,
        typer.Option(
            "--duration-sum",
            min=0,
            max=limits.LONGEST_S * limits.MOST_ATTEMPTS,
            help="Recorded seconds needed to decide a load (default: 11 trials).",
        ),
    ] = None

    def changes(self, trial_s: float | None, trials: int = 11) -> dict[str, Any]:
        """What the options change in a goal.

        A new duration keeps the number of trials unless a sum is given.
        """
        sum_s = self.duration_sum_s
        if trial_s is not None and sum_s is None:
            sum_s = trial_s * trials
        found = {
            "exceed_ratio": None if self.exceed is None else reading.ratio("--exceed", self.exceed, "5%"),
            "relative_width": None if self.width is None else reading.ratio("--width", self.width, "5%"),
            "trial_s": trial_s,
            "duration_sum_s": sum_s,
        }
        return given(found)


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """Which tests of RFC 2544, and how thoroughly."""

    PANEL: ClassVar = "Plan"

    tests: Annotated[
        str | None,
        typer.Option(help="Some of throughput,latency,loss,bursts (default: all).", metavar="TEST,..."),
    ] = None
    strict: Annotated[bool, typer.Option("--strict", help="Use the RFC's durations and repetitions.")] = False
    step: Annotated[
        str | None,
        typer.Option(help="Loss test: step size down from the maximum rate (10% or finer).", metavar="SHARE"),
    ] = None
    duration: Annotated[TrialsOptions, only("trial_s")]
    repetitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=limits.MOST_REPETITIONS,
            help="Repetitions of the latency and burst tests (20).",
        ),
    ] = None
    trials: Annotated[TrialsOptions, only("warmup_s", "max_attempts")]

    def suite(self, goal: GoalOptions) -> Rfc2544Suite:
        """The tests with what the options change in them."""
        from weirlab.devices.search.rfc2544.suite import STRICT, Rfc2544Suite

        suite = STRICT if self.strict else Rfc2544Suite()
        trial_s = self.duration.trial_s
        of_goal = goal.changes(trial_s, suite.goal.trials)
        changes: dict[str, Any] = {
            "tests": None if self.tests is None else listed(self.tests, str, "--tests", "throughput,loss"),
            "repetitions": self.repetitions,
            "burst_repetitions": self.repetitions,
            "latency_s": trial_s,
            "loss_s": trial_s,
            "loss_step": None if self.step is None else reading.ratio("--step", self.step, "5%"),
        }
        return replace(suite, goal=replace(suite.goal, **of_goal), **given(changes))


def add_to(app: typer.Typer) -> None:
    panel = "Measure"
    app.command("search", help=SEARCH, rich_help_panel=panel)(grouped(search))
    app.command("rfc2544", help=RFC2544, rich_help_panel=panel)(grouped(rfc2544))


def search(
    ctx: typer.Context,
    *,
    device: Annotated[DeviceOptions, without("rules", "places", "cross_traffic")],
    traffic: SearchTraffic,
    goal: GoalOptions,
    trials: Annotated[TrialsOptions, only("trial_s", "warmup_s", "max_attempts")],
    run: SearchReportOptions,
    result: JudgementOptions,
) -> None:
    from weirlab.cli.results import documents, gates
    from weirlab.devices.search import requiring
    from weirlab.devices.search import wording as searched
    from weirlab.devices.search.study import SearchPlan, search
    from weirlab.measure.search.goal import NDR, PDR, SearchGoal

    with result.session(ctx) as session:
        documents.check(run.out)
        dut = device.device()
        shape = traffic.shape(trials.warmup_s)
        changes = goal.changes(trials.trial_s)
        usual = (NDR.loss_ratio, PDR.loss_ratio)
        ratios = usual if goal.loss is None else listed(goal.loss, share, "--loss", "0,0.5%")
        goals = tuple(SearchGoal(_goal_name(ratio), ratio, **changes) for ratio in dict.fromkeys(ratios))
        demands = gates.demands(result.require, requiring.search_quantities(goals))
        settings = _settings(dut, device, traffic, (64,))
        asked = SearchPlan(device.where(session.store), dut, settings, shape, _any_size(device, traffic))
        outcome = search(work_of(session, run.name), asked, goals, **_attempts(trials))
        tables, conclusion = searched.search_tables(outcome), searched.search_sentence(outcome)
        if run.out is not None:
            lead = [conclusion, *searched.search_lead(outcome)]
            title = f"Throughput: {searched.device(outcome)}"
            documents.write(run.out, title, lead, tables, searched.search_rows(outcome))
        document = {**outcome.document(), **_written(run.out)}
        judged = requiring.of_search(demands, outcome)
        gates.finish(session, document, conclusion + _told(run.out), tables, judged, outcome.problem())


def rfc2544(
    ctx: typer.Context,
    *,
    tests: SuiteOptions,
    device: Annotated[DeviceOptions, without("rules", "places", "cross_traffic")],
    traffic: ConstantTraffic,
    goal: Annotated[GoalOptions, without("loss")],
    run: SearchReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.cli.results import documents
    from weirlab.devices.search import wording as searched
    from weirlab.devices.search.rfc2544.suite import FRAME_BYTES
    from weirlab.devices.search.study import SearchPlan, rfc2544

    with result.session(ctx) as session:
        documents.check(run.out)
        dut = device.device()
        suite = tests.suite(goal)
        settings = _settings(dut, device, traffic, FRAME_BYTES)
        shape = traffic.shape(tests.trials.warmup_s)
        asked = SearchPlan(device.where(session.store), dut, settings, shape, _any_size(device, traffic))
        outcome = rfc2544(work_of(session, run.name), asked, suite, **_attempts(tests.trials))
        tables, conclusion = searched.rfc2544_tables(outcome), searched.rfc2544_sentence(outcome)
        if run.out is not None:
            lead = [conclusion, *searched.rfc2544_lead(outcome)]
            title = f"RFC 2544 tests: {searched.device(outcome)}"
            documents.write(run.out, title, lead, tables, searched.rfc2544_rows(outcome))
        document = {**outcome.document(), **_written(run.out)}
        session.finish(document, conclusion + _told(run.out), tables, outcome.problem())
        session.complain(outcome.problem())


def _attempts(trials: TrialsOptions) -> dict[str, int]:
    return {} if trials.max_attempts is None else {"attempts": trials.max_attempts}


def _any_size(device: DeviceOptions, traffic: SearchTraffic) -> bool:
    """Whether frames may be as long as the user's rules need."""
    return device.ruleset is not None and not traffic.sizes.listed()


def _settings(
    dut: Dut, device: DeviceOptions, traffic: SearchTraffic, default: tuple[int, ...]
) -> tuple[Setting, ...]:
    """Every rule count with every frame size; rules are set once for all sizes."""
    from weirlab.measure.search.throughput import Setting
    from weirlab.records import RuleSetup
    from weirlab.traffic.sizes import parse_sizes

    positions = device.listed_positions() or (0,)
    for position in positions:
        if position < 0:
            raise InputError(f"--rules: {position} rules; it must be 0 (none) or more")
    texts = traffic.sizes.listed() or [*map(str, default)]
    return tuple(
        Setting(parse_sizes(text), RuleSetup(position, dut.stateful))
        for position in dict.fromkeys(positions)
        for text in dict.fromkeys(texts)
    )


def _goal_name(loss_ratio: float) -> str:
    return "NDR" if loss_ratio == 0 else "PDR" if loss_ratio == 0.005 else f"loss {loss_ratio * 100:g} %"


def _written(out: Path | None) -> dict[str, Path]:
    return {} if out is None else {"out": out}


def _told(out: Path | None) -> str:
    return "" if out is None else f" Report: {out}"
