"""``weir calibrate``, ``weir trial`` and ``weir profile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options import (
    DeviceOptions,
    JudgementOptions,
    NameOption,
    ResultOptions,
    ResumeOption,
    TrialsOptions,
    given,
    grouped,
    listed,
    only,
    reading,
    spelled,
    typed,
    without,
    work_of,
)
from weirlab.devices.profile.options import ProfilePlan, ProfileTraffic, TrialPlanOptions, TrialTraffic

if TYPE_CHECKING:
    from weirlab.scenario import Dut, Scenario
    from weirlab.store import Store
    from weirlab.traffic.spec import Traffic

_RULES_OF_SHARES: Final = 1000
"""Rules behind that for known connections, if several shares of new flows are profiled and none is given."""

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
invalid. They are kept and repeated; if every attempt is invalid, the exit
code is 5.

--require sets a limit on loss, delay (mean, p50, p90, p99, p99.9, min, max),
jitter or rate (the forwarding rate). A single trial is compared with the
limit itself. With several (--repetitions), the 95 % interval of the mean must
lie on one side of it.

Examples:
  weir trial --dut iptables --rules 1000 --rate 2Mpps --duration 2 --json
  weir trial --ruleset firewall.rules --rate 300Mbit/s --sizes imix
  weir trial --ruleset firewall.rules --match "web out" --rate 1Mpps
  weir trial --ruleset firewall.rules --answered --new 10% --rate 200kpps
  weir trial --rate 50kpps --step 1:200kpps --flows 1000
  weir trial --rate 50kpps --rules 1 --position-step 1:2000
  weir trial --rate 200kpps --places 1:50,99:50 --cross-traffic
  weir trial --rate 200kpps --require 'p99<1ms' --require loss=0
  weir trial --lab sim --rate 40%@10Gbit/s
"""

PROFILE = """Characterise a device: loads x frame sizes x rule counts, in shuffled order.

The full profile takes about 13 minutes. Besides that grid, it measures the
cost of connection tracking and of a management session on the device, traffic
that matches at several positions at once, random arrivals, and steps of load
and matching position. --quick takes less than four minutes; of these extras,
it keeps only random arrivals.

Short trials in overload first find the forwarding rate. Loads are shares of
that rate, so every rule count is measured from idle to beyond its own
threshold. --adaptive chooses each trial where the model is least certain, and
reaches the accuracy of the whole grid with at most half the trials. Ctrl-C
keeps the finished trials; --resume continues.

Invalid trials are repeated later, every setting once before any twice, until
--time-budget is used up (default: 1.5 times the expected time). If almost no
trial is valid, the profile stops early with exit code 5; --resume continues.
--machine noisy is for machines that are never quiet: it tolerates more
disturbance and repeats trials twice as often, so intervals are wider. The
result rates the machine: good, usable or not usable (exit code 5).

Examples:
  weir profile --quick
  weir profile --quick --time-budget 6min
  weir profile --adaptive --target 5% --budget 200
  weir profile --dut nftables --rules 0,100,1000 --frame 64,512,1518
  weir profile --ruleset firewall.rules --sizes imix
  weir profile --answered --flows 1000 --new 0,1%,10%,50%,100% --rules 1000
  weir profile --resume last
"""


def add_to(app: typer.Typer) -> None:
    panel = "Measure"
    app.command("calibrate", help=CALIBRATE, rich_help_panel=panel)(grouped(calibrate))
    app.command("trial", help=TRIAL, rich_help_panel=panel)(grouped(trial))
    app.command("profile", help=PROFILE, rich_help_panel=panel)(grouped(profile))


def calibrate(
    ctx: typer.Context,
    *,
    rates: Annotated[
        str | None,
        typer.Option(
            help="Loads (default: 1kpps,10kpps,100kpps,1Mpps,max).",
            metavar="RATE,...",
            rich_help_panel="Plan",
        ),
    ] = None,
    trials: Annotated[TrialsOptions, only("repetitions", "trial_s")],
    device: Annotated[DeviceOptions, only("lab", "backend", "wired")],
    result: ResultOptions,
) -> None:
    from weirlab.devices.profile import tables, wording
    from weirlab.jobs.calibrations import calibrate
    from weirlab.scenario import CalibrationSection, section

    with result.session(ctx) as session:
        wanted = {} if rates is None else {"rates": listed(rates, str, "--rates", "1kpps,1Mpps")}
        plan = section(CalibrationSection, {**typed(wanted, rates="--rates"), **typed(trials)})
        outcome = calibrate(
            session.store, device.where(session.store), plan, session.progress, command=session.command
        )
        shown = [tables.calibration(map(vars, outcome.calibration.points))]
        session.finish(outcome.document(), wording.calibration(outcome.calibration), shown)


def trial(
    ctx: typer.Context,
    traffic: TrialTraffic,
    device: Annotated[DeviceOptions, without("positions")],
    plan: Annotated[TrialPlanOptions, only("bin_ms", "trial_s", "warmup_s", "max_attempts", "repetitions")],
    *,
    name: NameOption = None,
    latency: Annotated[
        bool,
        typer.Option(
            "--latency",
            help="Show the latency of a store-and-forward device, too: delays without the time on the wire "
            "(RFC 1242).",
            rich_help_panel="Plan",
        ),
    ] = False,
    result: JudgementOptions,
) -> None:
    from weirlab.cli.results import gates
    from weirlab.devices.profile import tables, wording
    from weirlab.jobs import requiring
    from weirlab.jobs.trials import TrialRequest, trial
    from weirlab.records import TrialSpec

    with result.session(ctx) as session:
        demands = gates.demands(result.require, requiring.TRIAL)
        dut = device.device()
        sent = _traffic(traffic, plan)
        outcome = trial(
            work_of(session, name),
            device.where(session.store),
            dut,
            TrialRequest(
                TrialSpec(sent, device.rule_setup(sent.steps), cross_traffic=device.cross_traffic),
                attempts=plan.max_attempts or 3,
                repetitions=plan.repetitions or 1,
                any_size=traffic.sizes.unspecified,
                latency=latency,
            ),
        )
        document = outcome.document()
        gates.finish(
            session,
            document,
            wording.trial(outcome.row, len(outcome.records)) + wording.repeated(document["repetitions"]),
            tables.trial(outcome),
            requiring.of_trial(demands, outcome),
            outcome.problem(),
        )


def _traffic(options: TrialTraffic, plan: TrialPlanOptions) -> Traffic:
    from weirlab.traffic.flows import min_frame_bytes
    from weirlab.traffic.load import parse_rate
    from weirlab.traffic.spec import Traffic

    flows = options.flows
    steps, chosen = flows.steps(), flows.chosen()
    return Traffic(
        rate=parse_rate(options.rate),
        sizes=options.sizes.mix(min_frame_bytes(chosen)),
        flows=chosen,
        arrivals=flows.arrivals,
        steps=steps,
        warmup_s=0.5 if plan.warmup_s is None else plan.warmup_s,
        duration_s=2.0 if plan.trial_s is None else plan.trial_s,
        seed=flows.seed,
        bin_ns=None if plan.bin_ms is None else round(plan.bin_ms * 1e6),
    )


def profile(
    ctx: typer.Context,
    *,
    device: Annotated[DeviceOptions, without("rules", "places", "cross_traffic")],
    traffic: ProfileTraffic,
    plan: ProfilePlan,
    resume: ResumeOption = None,
    result: ResultOptions,
) -> None:
    from weirlab.base.files import HOST_FILES
    from weirlab.cli.options.wired import confirm_stored
    from weirlab.cli.results.tables import machine as machine_in_words
    from weirlab.devices.profile import tables, wording
    from weirlab.jobs.profiles import ProfileTerms, interrupted, profile, resume_profile

    with result.session(ctx) as session:
        time_budget = plan.choice.checked_time()
        if resume is not None:
            if plan.choice.machine != "usual":
                raise InputError(
                    "--machine: --resume continues a run as it was begun; leave it out, or begin anew"
                )
            run, begun = interrupted(session.store, resume)
            confirm_stored(run.run_id, begun, yes=device.wired.yes)
            outcome = resume_profile(
                session.store, resume, session.progress, time_budget=time_budget, inputs=HOST_FILES
            )
        else:
            scenario = _scenario(session.store, device, traffic, plan, time_budget)
            outcome = profile(
                session.store,
                scenario,
                session.progress,
                command=session.command,
                inputs=HOST_FILES,
                terms=ProfileTerms(
                    unnamed=plan.name is None and device.ruleset is None,
                    any_size=device.ruleset is not None and not traffic.sizes.listed(),
                ),
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


def _scenario(
    store: Store, device: DeviceOptions, traffic: ProfileTraffic, plan: ProfilePlan, time_budget: str | None
) -> Scenario:
    """The scenario that the options are."""
    from weirlab.scenario import from_options

    dut = device.device()
    named = {name: f"--{name}" for name in ("ruleset", "include", "ipset", "image", "match", "stateful")}
    return from_options(
        {
            "name": plan.name
            or ("profile" if device.ruleset is None else f"profile of {device.ruleset.name}"),
            "machine": plan.choice.machine,
            **typed({"time_budget": time_budget}, time_budget="--time-budget"),
            "lab": device.lab_section(store),
            "dut": typed(dut.model_dump(), name="--dut", **named),
            "traffic": traffic.flows.section(),
            "profile": _profile_section(dut, device, traffic, plan),
        }
    )


def _profile_section(
    dut: Dut, device: DeviceOptions, traffic: ProfileTraffic, plan: ProfilePlan
) -> dict[str, Any]:
    """The section ``profile`` of a scenario."""
    from weirlab.scenario import QUICK, OptionValue, full

    adaptive = plan.choice.section()
    frames = reading.frames(traffic.sizes.frame) or ()
    sizes = [OptionValue("--frame", str(frame)) for frame in frames]
    sizes += [OptionValue("--sizes", size) for size in traffic.sizes.sizes or ()]
    positions = device.listed_positions()
    loads = reading.loads(plan.loads)
    shares = traffic.flows.new_shares
    if shares and positions is None:
        positions = (_RULES_OF_SHARES,)
    said = {
        "positions": (0,) if dut.has_own_rules else positions,
        "new": shares or None,
        "sizes": sizes or None,
        "load_shares": loads,
        "seed": traffic.flows.seed,
        "adaptive": adaptive,
        **given(plan.trials),
    }
    # An adaptive profile chooses for itself.
    usual = (
        QUICK if plan.quick else {} if plan.choice.adaptive else full(dut.name, positions, own=dut.elsewhere)
    )
    if loads is not None:
        # Loads that someone names are all meant.
        usual = {name: value for name, value in usual.items() if name != "load_stride"}
    options = {
        "positions": "--rules",
        "sizes": "--frame",
        "new": "--new",
        "load_shares": "--loads",
        "seed": "--seed",
        **spelled(TrialsOptions),
    }
    defaults = {name: OptionValue(option, None) for name, option in options.items()}
    return {**defaults, **typed({**usual, **given(said)}, **options)}
