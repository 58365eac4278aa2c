"""``weir fit``, ``weir predict`` and ``weir verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weirlab.cli import options
from weirlab.cli.output import Session
from weirlab.errors import ModelError

FIT = """Fit both models to a profile and keep them with the run.

queueing has physical parameters (service time over rules and size, queue,
base delay) with standard errors; piecewise is a set of fitted curves. RUN is
an ID, the beginning of one, or "last" for the newest profile.

Examples:
  weir fit last
  weir fit 20260131-1200 --out firewall.model.json
  weir fit last --json
"""

PREDICT = """Predict threshold, loss, delay and jitter at one load, size and rule count.

MODEL is a model file or a run with fitted models. Outside the profiled range
the exit code is 7; --extrapolate answers anyway and says what lies outside.

Examples:
  weir predict last --rate 300kpps --frame 64 --rules 200
  weir predict my.model.json --rate 40%@1Gbit/s --sizes imix --rules 400
  weir predict last --rate 100kpps --rules 5000 --extrapolate --json
"""

VERIFY = """Compare predictions with measurements that the models have not seen.

Measures held-out settings with the device of the run (by default 200 rules at
loads between the profiled ones), scores the fitted models on them and keeps
the result with the run. A run that has been verified is only scored again,
unless --again is given. With a model file a new run is measured; say which
device it describes.

Examples:
  weir verify last
  weir verify last --rules 200,700 --loads 30%,60%,90%,130% --again
  weir verify my.model.json --dut iptables --json
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    panel = "Model"
    app.command("fit", help=FIT, rich_help_panel=panel)(fit)
    app.command("predict", help=PREDICT, rich_help_panel=panel)(predict)
    app.command("verify", help=VERIFY, rich_help_panel=panel)(verify)


def fit(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(help="Run ID, its beginning, or 'last'.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the models to this file.", metavar="FILE")
    ] = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Fit the models."""
    from weirlab import jobs
    from weirlab.cli import tables, wording

    with Session(ctx, as_json=json, store=store) as session:
        outcome = jobs.fit(session.store, run, out=out)
        session.finish(outcome.document(), wording.fit(outcome), tables.fit(outcome))


def predict(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="Model file, run ID or 'last'.", metavar="MODEL")],
    rate: Annotated[str, typer.Option("--rate", help="Offered load: 300kpps, 40%@1Gbit/s, ...")],
    frame: Annotated[int | None, typer.Option("--frame", help="Frame size in bytes (default: 64).")] = None,
    sizes: Annotated[str | None, typer.Option("--sizes", help="Size mix, e.g. imix.")] = None,
    rules: Annotated[int, typer.Option("--rules", min=0, help="Matching position.")] = 0,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Answer outside the profiled range, too.")
    ] = False,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Predict."""
    from weirlab import jobs
    from weirlab.cli import tables, wording
    from weirlab.traffic.load import parse_rate

    with Session(ctx, as_json=json, store=store) as session:
        outcome = jobs.predict(session.store, model, parse_rate(rate), options.size_mix(frame, sizes), rules)
        if outcome.outside and not extrapolate:
            reasons = "; ".join(outcome.outside)
            raise ModelError(
                f"this prediction would extrapolate: {reasons}. Profile a wider range, or accept the "
                "risk with --extrapolate"
            )
        for reason in outcome.outside:
            session.say(f"extrapolating: {reason}")
        session.finish(outcome.document(), wording.prediction(outcome), tables.prediction(outcome))


def verify(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help="Run ID, 'last', or a model file.", metavar="RUN_OR_MODEL")],
    rules: options.PositionsOption = None,
    frame: options.FramesOption = None,
    loads: options.LoadsOption = None,
    repetitions: options.RepetitionsOption = None,
    duration: options.DurationOption = None,
    warmup: options.WarmupOption = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure anew even if that was done.", rich_help_panel="Plan")
    ] = False,
    lab: options.LabOption = "auto",
    dut: options.DutOption = None,
    ruleset: options.RulesetOption = None,
    backend: options.BackendOption = "auto",
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Verify the models."""
    from weirlab import jobs
    from weirlab.cli import tables, wording

    with Session(ctx, as_json=json, store=store) as session:
        below, beyond = options.loads_by_regime(loads)
        held_out = options.plan(
            positions=options.positions(rules),
            sizes=options.frames(frame),
            load_shares=below,
            overload_shares=beyond,
            repetitions=repetitions,
            trial_s=duration,
            warmup_s=warmup,
        )
        outcome = jobs.verify(
            session.store,
            source,
            held_out=held_out,
            again=again or bool(held_out),
            lab=options.lab(lab, backend),
            dut=options.device(dut, ruleset) if dut or ruleset else None,
            progress=session.progress,
            command=session.command,
        )
        session.finish(outcome.document(), wording.verification(outcome), tables.verification(outcome))
