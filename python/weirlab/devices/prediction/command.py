"""``weir fit``, ``weir predict`` and ``weir verify``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import (
    ONE_CPU,
    ArrivalsOption,
    CpuOptions,
    DeviceOption,
    DeviceOptions,
    FramesOption,
    LoadsOption,
    PositionsOption,
    ResultOptions,
    StepOptions,
    TrialsOptions,
    completing,
    grouped,
    only,
    reading,
    typed,
    work_of,
)
from weirlab.cli.output import Session
from weirlab.devices.prediction import transients_command as transients

FIT = """Fit the models to a profile and keep them with the run.

The queueing model has physical parameters (service time over rules and size,
queue, base delay) with standard errors; the piecewise model is a set of
fitted curves, and lohmiller the published model that it improves on. RUN is
an ID, the beginning of one, or "last" for the newest profile. Several runs
become several devices in one file, which weir plan compares.

Examples:
  weir fit last
  weir fit 20260131-1200 --out firewall.model.json
  weir fit 20260131-1200 20260202-0900 --out both.json --name old --name new
  weir fit last --json
"""

PREDICT = """Predict threshold, loss, delay and jitter at one load, size and rule count.

MODEL is a model file or a run with fitted models. Below the lowest
profiled load, delays and loss at that load serve as bounds. Elsewhere outside
the profiled range the exit code is 7; --extrapolate answers anyway and says
what lies outside.
With --step, the answer is a time series: how the queue fills and drains.

Examples:
  weir predict last --rate 300kpps --frame 64 --rules 200
  weir predict my.model.json --rate 40%@1Gbit/s --sizes imix --rules 400
  weir predict devices.json --device old --rate 300kpps --rules 200
  weir predict last --rate 150kpps --rules 400 --arrivals poisson
  weir predict last --rate 2Mpps --rules 400 --dut-cpus 4 --flows 1000
  weir predict last --rate 100kpps --rules 5000 --extrapolate --json
  weir predict last --rate 300kpps --step 1:600kpps --duration 2
  weir predict last --rate 300kpps --rules 1 --position-step 1:1000 --json
"""

VERIFY = """Compare predictions with measurements that the models have not seen.

Measures held-out settings with the device of the run and scores the fitted
models on them. By default, the rule counts lie between the profiled ones,
except for one beyond the last, which is scored separately because the models
extrapolate there. All frame sizes of the profile are measured. Five loads are
drawn below the threshold and two lie beyond it; --seed draws others. Every
trial is made three times. Beside the models' errors, the result shows the
repeatability: how far a trial is from the others of the same setting.

A run that has been verified is only scored again, unless --again or other
settings are given: these trials become a separate run, as do those for a
model file, for which --dut or --ruleset names the device.

Models are judged only if there are enough valid trials (two or more in most
held-out settings) and the machine was usable. Otherwise the result says why
there is no verdict; the exit code is 5 if the machine is the reason, else 7.

Examples:
  weir verify last
  weir verify last --seed 3
  weir verify last --rules 200,700 --loads 30%,60%,90%,130% --again
  weir verify my.model.json --dut iptables --json
"""


@dataclass(frozen=True)
class PredictionLoadOptions:
    """The load that a prediction is about."""

    rate: Annotated[str, typer.Option(help="Offered load: 300kpps, 40%@1Gbit/s, ...")]
    frame: Annotated[int | None, typer.Option(help="Frame size in bytes (default: 64).")] = None
    sizes: Annotated[str | None, typer.Option(help="Size mix, e.g. imix.")] = None
    rules: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=limits.MOST_RULES,
            help="Matching position: rules compared up to and including the one that matches (default: 0, no "
            "rules; of a profile of your own rules, theirs).",
        ),
    ] = None
    new: Annotated[
        str | None,
        typer.Option(
            help="Of a profile that goes through such shares: share of packets that open a flow, e.g. 10%; "
            "a profiled one, or after weir verify one between them.",
            metavar="SHARE",
        ),
    ] = None
    arrivals: ArrivalsOption = "constant"
    cpus: CpuOptions = ONE_CPU

    @property
    def new_share(self) -> float | None:
        """``--new`` as a ratio."""
        return None if self.new is None else reading.one_share(self.new, "--new", "10%")


@dataclass(frozen=True)
class CourseOptions(StepOptions):
    """What changes on the way, and how long it goes on."""

    duration: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=limits.LONGEST_S,
            help="With --step: seconds in total (default: 1 s after the last step).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HeldOutOptions:
    """Settings that models have not seen."""

    PANEL: ClassVar = "Plan"

    rules: PositionsOption = None
    frame: FramesOption = None
    loads: LoadsOption = None
    new: Annotated[
        str | None,
        typer.Option(help="Of an answered profile: shares of packets that open flows.", metavar="SHARE,..."),
    ] = None
    trials: Annotated[TrialsOptions, only("repetitions", "trial_s", "warmup_s")]
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=limits.HIGHEST_SEED, help="Draw other rule counts and loads."),
    ] = None

    def section(self) -> dict[str, Any]:
        """What was given, as keys of the section ``verify`` of a scenario."""
        shares = reading.loads(self.loads)
        found = {
            "positions": reading.positions(self.rules),
            "sizes": reading.frames(self.frame),
            "new": None if self.new is None else reading.listed(self.new, reading.share, "--new", "5%,30%"),
            "load_shares": None if shares is None else tuple(share for share in shares if share < 1),
            "draws": None if shares is None else 0,
            "overload_shares": None if shares is None else tuple(share for share in shares if share >= 1),
            "seed": self.seed,
        }
        options = {"positions": "--rules", "sizes": "--frame", "new": "--new", "seed": "--seed"}
        shares_of = dict.fromkeys(("load_shares", "overload_shares"), "--loads")
        return {**typed(found, **options, **shares_of), **typed(self.trials)}


def add_to(app: typer.Typer) -> None:
    panel = "Model"
    app.command("fit", help=FIT, rich_help_panel=panel)(grouped(fit))
    app.command("predict", help=PREDICT, rich_help_panel=panel)(grouped(predict))
    app.command("verify", help=VERIFY, rich_help_panel=panel)(grouped(verify))


def fit(
    ctx: typer.Context,
    *,
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run ID, its beginning, or 'last'.", metavar="RUN", autocompletion=completing.runs
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Also write the models to this file.", metavar="FILE")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name of the device in FILE; once per run.", metavar="NAME"),
    ] = None,
    result: ResultOptions,
) -> None:
    from weirlab.devices.prediction import tables, wording
    from weirlab.devices.prediction.modelling import fit, fit_devices

    names = name or []
    if out is None and (names or len(runs) > 1):
        raise InputError("several runs, or names, are for a file: say which with --out FILE")
    if len(runs) == 1 and len(names) > 1:
        raise InputError(f"{len(names)} names for one run; give --name once")
    with result.session(ctx) as session:
        if out is not None and len(runs) > 1:
            several = fit_devices(session.store, runs, out, names, session.progress)
            session.finish(several.document(), wording.devices(several), tables.devices(several))
            return
        outcome = fit(
            session.store, runs[0], out=out, name=names[0] if names else None, progress=session.progress
        )
        session.finish(outcome.document(), wording.fit(outcome), tables.fit(outcome))


def predict(
    ctx: typer.Context,
    *,
    model: Annotated[
        str,
        typer.Argument(help="Model file, run ID or 'last'.", metavar="MODEL", autocompletion=completing.runs),
    ],
    load: PredictionLoadOptions,
    device: DeviceOption = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Also answer outside the profiled range.")
    ] = False,
    later: CourseOptions,
    result: ResultOptions,
) -> None:
    from weirlab.devices.prediction import tables, wording
    from weirlab.devices.prediction.modelling import devices, profile_of
    from weirlab.devices.prediction.outcome import PredictionLoad, position_of, predict
    from weirlab.devices.prediction.transients import LoadSchedule, predict_steps
    from weirlab.model.io import pick
    from weirlab.traffic.load import parse_rate

    with result.session(ctx) as session:
        mix = reading.size_mix(load.frame, load.sizes)
        known = devices(session.store, model)
        profile = profile_of(session.store, known[0]) if len(known) == 1 else []
        if later.step or later.position_step:
            if load.new is not None:
                raise InputError("--new does not go with --step: profiles of new flows have no steps")
            if load.cpus != ONE_CPU:
                raise InputError("--dut-cpus does not go with --step: a course is that of one CPU")
            rate = parse_rate(load.rate)
            asked = LoadSchedule(rate, mix, load.rules, later.steps(), load.arrivals, later.duration)
            course = predict_steps(session.store, model, asked, device=device)
            _tell_outside(session, course.outside, extrapolate, profile)
            session.finish(
                course.document(), transients.over_time(course), transients.over_time_tables(course)
            )
            return
        if later.duration is not None:
            raise InputError(
                "--duration goes with --step: without one, the prediction is the same at any time"
            )
        error = None
        if load.new is not None:
            from weirlab.devices.prediction.verification import share_error

            error = share_error(session.store, model)
        outcome = predict(
            session.store,
            model,
            PredictionLoad(parse_rate(load.rate), mix, load.arrivals, load.cpus.shares),
            position_of(pick(known, device, model), load.rules, load.new_share, error),
            device=device,
            share_error=error,
            extrapolate=extrapolate,
        )
        _tell_outside(session, outcome.outside, extrapolate, profile)
        session.finish(outcome.document(), wording.prediction(outcome), tables.prediction(outcome))


def _tell_outside(
    session: Session, outside: Sequence[str], extrapolate: bool, profile: Sequence[str]
) -> None:
    """Name the reasons for extrapolation; raises ``ModelError`` unless it was asked for.

    ``profile`` is the command that profiled the device.
    """
    from weirlab.model.base import refusal

    if outside and not extrapolate:
        raise refusal("prediction", outside, profile)
    for reason in outside:
        session.say(f"extrapolating: {reason}")


def verify(
    ctx: typer.Context,
    *,
    source: Annotated[
        str,
        typer.Argument(
            help="Run ID, 'last', or a model file.", metavar="RUN_OR_MODEL", autocompletion=completing.runs
        ),
    ],
    settings: HeldOutOptions,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again, even if done before.", rich_help_panel="Plan")
    ] = False,
    device: Annotated[DeviceOptions, only("lab", "as_", "dut", "ruleset", "backend", "wired", "elsewhere")],
    result: ResultOptions,
) -> None:
    from weirlab.cli.options.wired import confirm_stored
    from weirlab.cli.results.tables import machine as machine_in_words
    from weirlab.devices.prediction import tables, wording
    from weirlab.devices.prediction.modelling import find
    from weirlab.devices.prediction.verification import is_measured, verify
    from weirlab.jobs.inventory import scenario_of
    from weirlab.jobs.models import is_file
    from weirlab.scenario import Scenario

    with result.session(ctx) as session:
        held_out = settings.section()
        if not is_file(source):
            _, run = find(session.store, source)
            if run is not None and (again or held_out or not is_measured(run)):
                confirm_stored(run.run_id, scenario_of(run, Scenario), yes=device.wired.yes)
        outcome = verify(
            work_of(session),
            source,
            held_out=held_out,
            again=again or bool(held_out),
            lab=device.where(session.store),
            dut=device.device() if device.dut or device.ruleset or device.image else None,
        )
        problem = outcome.problem()
        session.finish(
            outcome.document(),
            wording.verification(outcome),
            tables.verification(outcome),
            problem,
            machine_in_words(outcome.verdict),
        )
        session.complain(problem)
