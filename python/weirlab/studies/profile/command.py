"""``weir calibrate``, ``weir trial`` and ``weir profile``."""

from __future__ import annotations

from typing import Annotated

import typer

from weirlab import limits
from weirlab.cli import options
from weirlab.cli.output import Session
from weirlab.errors import InputError

CALIBRATE = """Measure the test bed's own error over a plain cable (a veth pair, no device).

Reports pacing error, time-stamp error (p50, p99) and false loss. Later
results name the calibration that was in force.

Examples:
  weir calibrate
  weir calibrate --rates 100kpps --repetitions 200 --duration 1
  weir calibrate --backend af_packet --json
"""

TRIAL = """Send one load through a device once, and show what came out.

Trials that the host spoils (CPU stolen, sender late, receiver drops) are
invalid. They are kept and repeated; if every attempt is invalid, the exit code
is 5.

--require says what must hold: loss, mean, p50, p90, p99, p99.9, min, max
(delay), jitter or rate (forwarding rate). One trial is judged as it is; of
several (--repetitions) the 95 % interval of the mean must lie on one side.

Examples:
  weir trial --dut iptables --rules 1000 --rate 2Mpps --duration 2 --json
  weir trial --ruleset firewall.rules --rate 300Mbit/s --sizes imix
  weir trial --ruleset firewall.rules --match "web out" --rate 1Mpps
  weir trial --rate 50kpps --step 1:200kpps --flows 1000
  weir trial --rate 50kpps --rules 1 --position-step 1:2000
  weir trial --rate 200kpps --places 1:50,99:50 --cross-traffic
  weir trial --rate 200kpps --require 'p99<1ms' --require loss=0
  weir trial --lab sim --rate 40%@10Gbit/s
"""

PROFILE = """Characterise a device: loads x frame sizes x rule counts, repeated, in shuffled order.

The full profile takes some 13 minutes. Besides that grid it measures what
connection tracking and a management session on the device cost, traffic that
matches at several positions at once, random arrivals, and steps of load and
matching position. --quick takes less than four minutes; of these extras it
keeps only random arrivals.

Loads are shares of the forwarding rate that short trials in overload find
first, so that every rule count is measured from idle to beyond its own
threshold. With --adaptive the trials are chosen on the way, where the model
is least certain: the accuracy of the whole grid with at most half the
trials. Ctrl-C keeps what is finished; --resume goes on.

Invalid trials are repeated later, every setting once before any twice,
until --time-budget is used up (default: 1.5 times the expected time). Where
almost nothing is valid it stops early, with exit code 5; --resume goes on.
--machine noisy is for machines that never get quiet: it tolerates
more disturbance and repeats trials twice as often, so intervals are wider.
The result says what the machine was: good, usable or not usable (exit code
5).

Examples:
  weir profile --quick
  weir profile --quick --time-budget 6min
  weir profile --adaptive --target 5% --budget 200
  weir profile --dut nftables --rules 0,100,1000 --frame 64,512,1518
  weir profile --ruleset firewall.rules --sizes imix
  weir profile --resume last
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    panel = "Measure"
    app.command("calibrate", help=CALIBRATE, rich_help_panel=panel)(calibrate)
    app.command("trial", help=TRIAL, rich_help_panel=panel)(trial)
    app.command("profile", help=PROFILE, rich_help_panel=panel)(profile)


def calibrate(
    ctx: typer.Context,
    rates: Annotated[
        str | None,
        typer.Option(
            "--rates",
            help="Loads (default: 1kpps,10kpps,100kpps,1Mpps,max).",
            metavar="RATE,...",
            rich_help_panel="Plan",
        ),
    ] = None,
    repetitions: options.RepetitionsOption = None,
    duration: options.DurationOption = None,
    lab: options.LabOption = "auto",
    backend: options.BackendOption = "auto",
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Calibrate the test bed."""
    from weirlab.jobs.calibrations import calibrate
    from weirlab.scenario import Calibrate, section
    from weirlab.studies.profile import tables, wording

    with Session(ctx, as_json=json, store=store) as session:
        wanted = None if rates is None else options.listed(rates, str, "--rates", "1kpps,1Mpps")
        plan = section(Calibrate, options.plan(rates=wanted, repetitions=repetitions, trial_s=duration))
        outcome = calibrate(
            session.store, options.lab(lab, backend), plan, session.progress, command=session.command
        )
        session.finish(
            outcome.document(),
            wording.calibration(outcome),
            [tables.calibration(map(vars, outcome.calibration.points))],
        )


def trial(
    ctx: typer.Context,
    rate: Annotated[
        str,
        typer.Option(
            "--rate",
            help="Offered load: 2Mpps, 450, 300Mbit/s, 40%@10Gbit/s, max.",
            rich_help_panel="Traffic",
        ),
    ],
    lab: options.LabOption = "auto",
    dut: options.DutOption = None,
    rules: options.RulesOption = None,
    ruleset: options.RulesetOption = None,
    match: options.MatchOption = None,
    places: options.PlacesOption = None,
    stateful: options.StatefulOption = False,
    cross_traffic: options.CrossTrafficOption = False,
    backend: options.BackendOption = "auto",
    frame: options.FrameOption = None,
    sizes: options.SizesOption = None,
    flows: options.FlowsOption = 1,
    l4: options.Layer4Option = "udp",
    ip: options.IpOption = "4",
    arrivals: options.ArrivalsOption = "constant",
    order: options.OrderOption = "advance",
    step: Annotated[
        list[str] | None,
        typer.Option(
            "--step",
            help="Later load, e.g. 1:200kpps; repeatable.",
            metavar="AT:RATE",
            rich_help_panel="Traffic",
        ),
    ] = None,
    position_step: Annotated[
        list[str] | None,
        typer.Option(
            "--position-step",
            help="Later matching position, e.g. 1:2000; repeatable.",
            metavar="AT:N",
            rich_help_panel="Traffic",
        ),
    ] = None,
    bin_ms: Annotated[
        float | None,
        typer.Option(
            "--bin",
            min=0,
            max=limits.LONGEST_S * 1e3,
            help="Bins of the time series, ms (default: 10; with steps 1).",
            metavar="MS",
            rich_help_panel="Plan",
        ),
    ] = None,
    seed: options.SeedOption = 1,
    duration: options.DurationOption = None,
    warmup: options.WarmupOption = None,
    attempts: options.AttemptsOption = None,
    repetitions: options.RepetitionsOption = None,
    require: options.RequireOption = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Run one trial."""
    from weirlab.cli import gates
    from weirlab.jobs import requiring
    from weirlab.jobs.trials import trial
    from weirlab.records import TrialSpec
    from weirlab.studies.profile import tables, wording
    from weirlab.traffic.load import parse_rate
    from weirlab.traffic.spec import Flows, Traffic

    with Session(ctx, as_json=json, store=store) as session:
        demands = gates.demands(require, requiring.TRIAL)
        device = options.device(dut, ruleset, stateful, match)
        if device.name == "ruleset" and (rules is not None or places is not None):
            raise InputError("--rules does not go with --ruleset: your ruleset has its own rules")
        steps = options.steps(step or [], position_step or [])
        traffic = Traffic(
            rate=parse_rate(rate),
            sizes=options.size_mix(frame, sizes),
            flows=Flows(count=flows, l4=l4, ip=4 if ip == "4" else 6, order=order, seed=seed),
            arrivals=arrivals,
            steps=steps,
            warmup_s=0.5 if warmup is None else warmup,
            duration_s=2.0 if duration is None else duration,
            seed=seed,
            bin_ns=None if bin_ms is None else round(bin_ms * 1e6),
        )
        setup = options.rule_setup(rules, places, steps, stateful)
        outcome = trial(
            session.store,
            options.lab(lab, backend),
            device,
            TrialSpec(traffic, setup, cross_traffic=cross_traffic),
            attempts=attempts or 3,
            repetitions=repetitions or 1,
            progress=session.progress,
            command=session.command,
        )
        gates.finish(
            session,
            outcome.document(),
            wording.trial(outcome),
            tables.trial(outcome),
            requiring.of_trial(demands, outcome),
            outcome.problem(),
        )


def profile(
    ctx: typer.Context,
    lab: options.LabOption = "auto",
    dut: options.DutOption = None,
    rules: options.PositionsOption = None,
    ruleset: options.RulesetOption = None,
    match: options.MatchOption = None,
    stateful: options.StatefulOption = False,
    backend: options.BackendOption = "auto",
    frame: options.FramesOption = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option("--sizes", help="A size mix, e.g. imix; repeatable.", rich_help_panel="Traffic"),
    ] = None,
    flows: options.FlowsOption = 1,
    l4: options.Layer4Option = "udp",
    ip: options.IpOption = "4",
    arrivals: options.ArrivalsOption = "constant",
    order: options.OrderOption = "advance",
    seed: options.SeedOption = 1,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Fewer settings; of the extras only random arrivals.",
            rich_help_panel="Plan",
        ),
    ] = False,
    loads: options.LoadsOption = None,
    repetitions: options.RepetitionsOption = None,
    duration: options.DurationOption = None,
    warmup: options.WarmupOption = None,
    attempts: options.AttemptsOption = None,
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive", help="Choose trials where the model is least certain.", rich_help_panel="Plan"
        ),
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget",
            min=1,
            max=limits.MOST_TRIALS,
            help="With --adaptive: trials at most (default: half the trials of the whole grid).",
            metavar="N",
            rich_help_panel="Plan",
        ),
    ] = None,
    time_budget: options.TimeBudgetOption = None,
    machine: options.MachineOption = "usual",
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="With --adaptive: stop when predictions are known to within this at 95 % of the "
            "settings (default: 5%).",
            metavar="SHARE",
            rich_help_panel="Plan",
        ),
    ] = None,
    resume: options.ResumeOption = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Measure a profile."""
    from weirlab.cli.wording import machine as machine_in_words
    from weirlab.jobs.profiles import profile, resume_profile
    from weirlab.scenario import QUICK, from_plain, full
    from weirlab.studies.profile import tables, wording

    with Session(ctx, as_json=json, store=store) as session:
        time_budget = options.time_budget(time_budget)
        if resume is not None:
            outcome = resume_profile(session.store, resume, session.progress, time_budget=time_budget)
        else:
            device = options.device(dut, ruleset, stateful, match)
            if device.name == "ruleset" and rules is not None:
                raise InputError("--rules does not go with --ruleset: your ruleset has its own rules")
            if not adaptive and (budget is not None or target is not None):
                raise InputError("--budget and --target go with --adaptive")
            all_sizes = (*(options.frames(frame) or ()), *(sizes or ()))
            plan = options.plan(
                positions=options.positions("0" if device.name == "ruleset" else rules),
                sizes=all_sizes or None,
                load_shares=options.loads(loads),
                repetitions=repetitions,
                trial_s=duration,
                warmup_s=warmup,
                max_attempts=attempts,
                seed=seed,
                adaptive=options.plan(budget=budget, target=options.target(target)) if adaptive else None,
            )
            # An adaptive profile chooses for itself.
            wanted = QUICK if quick else {} if adaptive else full(device.name, options.positions(rules))
            if loads is not None:
                # Loads that someone names are all meant.
                wanted = {name: value for name, value in wanted.items() if name != "load_stride"}
            shape = {
                "flows": flows,
                "l4": l4,
                "ip": int(ip),
                "arrivals": arrivals,
                "order": order,
                "seed": seed,
            }
            scenario = from_plain(
                {
                    "name": "profile",
                    "machine": machine,
                    "time_budget": time_budget,
                    "lab": {"kind": lab, "backend": backend},
                    "dut": device.model_dump(),
                    "traffic": shape,
                    "profile": {**wanted, **plan},
                },
                "the options",
            )
            outcome = profile(
                session.store, scenario, session.progress, command=session.command, unnamed=True
            )
        problem = outcome.problem()
        session.finish(
            outcome.document(),
            wording.profile(outcome),
            tables.profile(outcome),
            problem,
            remark=machine_in_words(outcome.verdict),
        )
        session.complain(problem)
