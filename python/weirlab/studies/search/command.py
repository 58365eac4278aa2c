"""``weir search`` and ``weir rfc2544``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weirlab import limits
from weirlab.cli import options
from weirlab.cli.output import Session
from weirlab.errors import InputError
from weirlab.quoting import quoted

if TYPE_CHECKING:
    from weirlab.measure.search import Setting, Shape
    from weirlab.scenario import Dut

SEARCH = """Find the loads that a device carries, by a search after RFC 9971 (MLRsearch).

Two goals by default: NDR (no loss) and PDR (at most 0.5 % lost). A load is
carried when at most half of its trials are worse; the bounds end 0.5 % apart.
Where the device is faster than the sender, the result says "at least".

--require says what must hold in every setting, of ndr, pdr, or throughput@1%
for another loss. Between the bounds of the search it is undecided.

Examples:
  weir search --dut iptables --rules 0,400
  weir search --dut iptables --rules 400 --require 'ndr>=300kpps'
  weir search --dut nftables --frame 64,512,1518 --loss 0,0.1%,1%
  weir search --ruleset firewall.rules --sizes imix --out throughput.md
  weir search --duration 60 --duration-sum 60 --exceed 0 --loss 0
  weir search --lab sim --rules 400 --json
"""

RFC2544 = """The tests of RFC 2544: throughput, latency, frame loss rate, bursts.

Frame sizes are those of the RFC (64 to 1518 bytes) unless --frame or --sizes
names others. Trials are short by default; --strict takes the RFC's own times
(60 s and 120 s), which is hours per frame size.

Examples:
  weir rfc2544 --dut iptables --rules 400 --out firewall.md
  weir rfc2544 --tests throughput,latency --frame 64,1518
  weir rfc2544 --tests loss --max-rate 1Gbit/s --step 5% --out loss.csv
  weir rfc2544 --strict --frame 64
  weir rfc2544 --lab sim --json
"""

_GOAL = "Goal"

OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Also write a report: .md to read, .csv for programs.", metavar="FILE"),
]
AllSizesOption = Annotated[
    list[str] | None,
    typer.Option("--sizes", help="A size mix, e.g. imix; repeatable.", rich_help_panel="Traffic"),
]
MaxRateOption = Annotated[
    str | None,
    typer.Option(
        "--max-rate",
        help="Highest load, e.g. 1Gbit/s (default: what the sender can pace).",
        metavar="RATE",
        rich_help_panel="Traffic",
    ),
]
MinRateOption = Annotated[
    str,
    typer.Option("--min-rate", help="Lowest load that is tried.", metavar="RATE", rich_help_panel="Traffic"),
]
SumOption = Annotated[
    float | None,
    typer.Option(
        "--duration-sum",
        min=0,
        max=limits.LONGEST_S * limits.MOST_ATTEMPTS,
        help="Recorded seconds needed to decide a load (default: 11 trials).",
        rich_help_panel=_GOAL,
    ),
]
ExceedOption = Annotated[
    str | None,
    typer.Option(
        "--exceed",
        help="Share of trials that may exceed it (50%; 0: none).",
        metavar="SHARE",
        rich_help_panel=_GOAL,
    ),
]
WidthOption = Annotated[
    str | None,
    typer.Option("--width", help="How close the bounds get (0.5%).", metavar="SHARE", rich_help_panel=_GOAL),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    panel = "Measure"
    app.command("search", help=SEARCH, rich_help_panel=panel)(search)
    app.command("rfc2544", help=RFC2544, rich_help_panel=panel)(rfc2544)


def search(
    ctx: typer.Context,
    lab: options.LabOption = "auto",
    dut: options.DutOption = None,
    rules: options.PositionsOption = None,
    ruleset: options.RulesetOption = None,
    match: options.MatchOption = None,
    stateful: options.StatefulOption = False,
    backend: options.BackendOption = "auto",
    frame: options.FramesOption = None,
    sizes: AllSizesOption = None,
    flows: options.FlowsOption = 1,
    l4: options.Layer4Option = "udp",
    ip: options.IpOption = "4",
    arrivals: options.ArrivalsOption = "constant",
    order: options.OrderOption = "advance",
    seed: options.SeedOption = 1,
    max_rate: MaxRateOption = None,
    min_rate: MinRateOption = "1kpps",
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss",
            help="Loss ratio each goal allows (default: 0,0.5%).",
            metavar="SHARE,...",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    exceed: ExceedOption = None,
    width: WidthOption = None,
    duration: options.DurationOption = None,
    duration_sum: SumOption = None,
    warmup: options.WarmupOption = None,
    attempts: options.AttemptsOption = None,
    out: OutOption = None,
    require: options.RequireOption = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Search the throughput."""
    from weirlab.cli import documents, gates
    from weirlab.measure.search import NDR, PDR, Goal
    from weirlab.studies.search import requiring
    from weirlab.studies.search import told as searched
    from weirlab.studies.search.study import search

    with Session(ctx, as_json=json, store=store) as session:
        documents.check(out)
        device = _device(dut, ruleset, stateful, match, rules)
        shape = _shape(flows, l4, ip, arrivals, order, seed, max_rate, min_rate, warmup)
        changes = _goal_changes(exceed, width, duration, duration_sum)
        usual = (NDR.loss_ratio, PDR.loss_ratio)
        ratios = usual if loss is None else options.listed(loss, options.share, "--loss", "0,0.5%")
        goals = tuple(Goal(_goal_name(ratio), ratio, **changes) for ratio in dict.fromkeys(ratios))
        demands = gates.demands(require, requiring.search_quantities(goals))
        outcome = search(
            session.store,
            options.lab(lab, backend),
            device,
            _settings(device, rules, frame, sizes, (64,)),
            shape,
            goals,
            session.progress,
            command=session.command,
            **({} if attempts is None else {"attempts": attempts}),
        )
        tables, conclusion = searched.search_tables(outcome), searched.search_sentence(outcome)
        if out is not None:
            lead = [conclusion, *searched.search_lead(outcome)]
            title = f"Throughput: {searched.device(outcome)}"
            documents.write(out, title, lead, tables, searched.search_rows(outcome))
        document = {**outcome.document(), **_written(out)}
        judged = requiring.of_search(demands, outcome)
        gates.finish(session, document, conclusion + _told(out), tables, judged, outcome.problem())


def rfc2544(
    ctx: typer.Context,
    tests: Annotated[
        str | None,
        typer.Option(
            "--tests",
            help="Some of throughput,latency,loss,bursts (default: all).",
            metavar="TEST,...",
            rich_help_panel="Plan",
        ),
    ] = None,
    lab: options.LabOption = "auto",
    dut: options.DutOption = None,
    rules: options.PositionsOption = None,
    ruleset: options.RulesetOption = None,
    match: options.MatchOption = None,
    stateful: options.StatefulOption = False,
    backend: options.BackendOption = "auto",
    frame: options.FramesOption = None,
    sizes: AllSizesOption = None,
    flows: options.FlowsOption = 1,
    l4: options.Layer4Option = "udp",
    ip: options.IpOption = "4",
    order: options.OrderOption = "advance",
    seed: options.SeedOption = 1,
    max_rate: MaxRateOption = None,
    min_rate: MinRateOption = "1kpps",
    strict: Annotated[
        bool,
        typer.Option("--strict", help="The RFC's own durations and repetitions.", rich_help_panel="Plan"),
    ] = False,
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            help="Loss test: steps down from the maximum (10% or finer).",
            metavar="SHARE",
            rich_help_panel="Plan",
        ),
    ] = None,
    exceed: ExceedOption = None,
    width: WidthOption = None,
    duration: options.DurationOption = None,
    duration_sum: SumOption = None,
    repetitions: Annotated[
        int | None,
        typer.Option(
            "--repetitions",
            min=1,
            max=limits.MOST_REPETITIONS,
            help="Of the latency and burst tests (20).",
            rich_help_panel="Plan",
        ),
    ] = None,
    warmup: options.WarmupOption = None,
    attempts: options.AttemptsOption = None,
    out: OutOption = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Do the tests of RFC 2544."""
    from weirlab.cli import documents
    from weirlab.studies.search import told as searched
    from weirlab.studies.search.rfc2544 import FRAME_BYTES, STRICT, Suite
    from weirlab.studies.search.study import rfc2544

    with Session(ctx, as_json=json, store=store) as session:
        documents.check(out)
        device = _device(dut, ruleset, stateful, match, rules)
        suite = STRICT if strict else Suite()
        goal_changes = _goal_changes(exceed, width, duration, duration_sum, suite.goal.trials)
        changes: dict[str, Any] = options.plan(
            tests=None if tests is None else options.listed(tests, str, "--tests", "throughput,loss"),
            repetitions=repetitions,
            burst_repetitions=repetitions,
            latency_s=duration,
            loss_s=duration,
            loss_step=None if step is None else _share(step, "--step"),
        )
        suite = replace(suite, goal=replace(suite.goal, **goal_changes), **changes)
        outcome = rfc2544(
            session.store,
            options.lab(lab, backend),
            device,
            _settings(device, rules, frame, sizes, FRAME_BYTES),
            _shape(flows, l4, ip, "constant", order, seed, max_rate, min_rate, warmup),
            suite,
            session.progress,
            command=session.command,
            **({} if attempts is None else {"attempts": attempts}),
        )
        tables, conclusion = searched.rfc2544_tables(outcome), searched.rfc2544_sentence(outcome)
        if out is not None:
            lead = [conclusion, *searched.rfc2544_lead(outcome)]
            title = f"RFC 2544 tests: {searched.device(outcome)}"
            documents.write(out, title, lead, tables, searched.rfc2544_rows(outcome))
        document = {**outcome.document(), **_written(out)}
        session.finish(document, conclusion + _told(out), tables, outcome.problem())
        session.complain(outcome.problem())


def _device(
    dut: str | None, ruleset: Path | None, stateful: bool, match: str | None, rules: str | None
) -> Dut:
    device = options.device(dut, ruleset, stateful, match)
    if device.name == "ruleset" and rules is not None:
        raise InputError("--rules does not go with --ruleset: your ruleset has its own rules")
    return device


def _settings(
    device: Dut, rules: str | None, frame: str | None, sizes: list[str] | None, default: tuple[int, ...]
) -> tuple[Setting, ...]:
    """Every rule count with every frame size; rules are set once for all sizes."""
    from weirlab.measure.search import Setting
    from weirlab.records import RuleSetup
    from weirlab.traffic.sizes import parse_sizes

    positions = options.positions(rules) or (0,)
    for position in positions:
        if position < 0:
            raise InputError(f"--rules: {position} rules; it must be 0 (none) or more")
    texts = [*map(str, options.frames(frame) or ()), *(sizes or ())] or [*map(str, default)]
    return tuple(
        Setting(parse_sizes(text), RuleSetup(position, device.stateful))
        for position in dict.fromkeys(positions)
        for text in dict.fromkeys(texts)
    )


def _shape(
    flows: int,
    l4: options.Layer4,
    ip: options.IpVersion,
    arrivals: options.Arrivals,
    order: options.FlowOrder,
    seed: int,
    max_rate: str | None,
    min_rate: str,
    warmup: float | None,
) -> Shape:
    from weirlab.measure.search import Shape
    from weirlab.traffic.load import parse_rate
    from weirlab.traffic.spec import Flows

    lowest = parse_rate(min_rate)
    if lowest.unit != "pps":
        raise InputError(f"--min-rate {min_rate}: give packets per second, e.g. --min-rate 1kpps")
    highest = None if max_rate is None or max_rate.strip().lower() == "max" else parse_rate(max_rate)
    return Shape(
        flows=Flows(count=flows, l4=l4, ip=4 if ip == "4" else 6, order=order, seed=seed),
        arrivals=arrivals,
        max_rate=highest,
        min_load_pps=lowest.value,
        seed=seed,
        **({} if warmup is None else {"warmup_s": warmup}),
    )


def _goal_changes(
    exceed: str | None,
    width: str | None,
    duration: float | None,
    duration_sum: float | None,
    trials: int = 11,
) -> dict[str, Any]:
    """What the options change in a goal; a new duration keeps the number of trials unless a sum is given."""
    if duration is not None and duration_sum is None:
        duration_sum = duration * trials
    return options.plan(
        exceed_ratio=None if exceed is None else _share(exceed, "--exceed"),
        relative_width=None if width is None else _share(width, "--width"),
        trial_s=duration,
        duration_sum_s=duration_sum,
    )


def _share(text: str, option: str) -> float:
    try:
        return options.share(text)
    except ValueError:
        raise InputError(f"{option}: {quoted(text)} not understood; e.g. {option} 5%") from None


def _goal_name(loss_ratio: float) -> str:
    return "NDR" if loss_ratio == 0 else "PDR" if loss_ratio == 0.005 else f"loss {loss_ratio * 100:g} %"


def _written(out: Path | None) -> dict[str, Path]:
    return {} if out is None else {"out": out}


def _told(out: Path | None) -> str:
    return "" if out is None else f" Report: {out}"
