"""``weir simulate``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.cli.options import AsOption, ReportOptions, ResultOptions, ResumeOption, given, grouped, work_of
from weirlab.cli.options.cluster import ClusterOptions
from weirlab.devices.simulation.section import SimulatorChoice

SIMULATE = """Simulate a measured device over rules, rates and frame sizes, without root.

Each --over gives values, or a range and how many values it is divided into
(default 5); every combination is simulated. --as names the device: a model
file, a run with fitted models, or library:NAME. --in ns3 runs the module that
weir export --to ns3 writes; it is built first. As many simulations run at
once as there are CPUs (WEIR_JOBS sets how many). With --cluster, the workers
of a Dask scheduler simulate (see weir worker; one for each of their CPUs).
The results are the same either way. They are a run with a page; --resume
continues an interrupted one, here or on a cluster.

SCENARIO is a YAML file with the same (key simulation); options override it.

Examples:
  weir simulate --as library:nftables --over rules=0..400 \\
    --over rate=50kpps..500kpps:10
  weir simulate --as last --over rules=0,100 --over rate=100kpps,200kpps \\
    --over frame=64..1518:3 --in ns3 --out sweep.html
  weir simulate sweep.yaml --over rules=0..1000:11 --json
  weir simulate sweep.yaml --cluster tcp://127.0.0.1:8786
"""

KEYS: Final = {"rules": "rules", "rate": "rates", "frame": "frames"}
"""What ``--over`` takes, and the key of a scenario."""
_RANGE: Final = re.compile(r"(.+?)\.\.(.+?)(?::(\d{1,5}))?")
_STEPS: Final = 5


@dataclass(frozen=True)
class SweepOptions:
    """What is simulated."""

    PANEL: ClassVar = "Sweep"

    as_: AsOption = None
    over: Annotated[
        list[str] | None,
        typer.Option(help="rules=, rate= or frame=: A,B,... or A..B or A..B:N.", metavar="KEY=VALUES"),
    ] = None
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, max=limits.MOST_REPETITIONS, help="Simulations of each combination."),
    ] = None
    trial_s: Annotated[
        float | None,
        typer.Option(
            "--duration", min=0, max=limits.LONGEST_S, help="Simulated time of each, in s (default 0.5)."
        ),
    ] = None
    simulator: Annotated[
        SimulatorChoice | None, typer.Option("--in", help="Simulator (default weir).", show_default=False)
    ] = None
    seed: Annotated[
        int | None, typer.Option(min=0, max=limits.HIGHEST_SEED, help="Seed of all random numbers.")
    ] = None


def add_to(app: typer.Typer) -> None:
    app.command("simulate", help=SIMULATE, rich_help_panel="Model")(grouped(simulate))


def simulate(
    ctx: typer.Context,
    scenario: Annotated[
        Path | None, typer.Argument(help="A YAML file.", metavar="SCENARIO", show_default=False)
    ] = None,
    *,
    resume: ResumeOption = None,
    sweep: SweepOptions,
    cluster: ClusterOptions,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.devices.simulation import SimulationStudy
    from weirlab.devices.simulation.section import SimulationScenario
    from weirlab.jobs.models import model_file
    from weirlab.scenario import OptionValue, from_options
    from weirlab.studies import runner
    from weirlab.studies.commands.scenarios import show
    from weirlab.studies.scenarios import load

    with result.session(ctx) as session:
        report.check()
        work, study = work_of(session), SimulationStudy(cluster.chosen())
        if resume is not None:
            if scenario is not None or given(sweep):
                raise InputError("--resume continues a run as it was begun: give no SCENARIO and no sweep")
            show(session, runner.resume(study, resume, work, out=report.out, plots=report.plots))
            return
        content: dict[str, Any] = {"name": "simulated sweep", "report": None}
        section: dict[str, Any] = {}
        lab: dict[str, Any] = {"kind": "sim"}
        if scenario is not None:
            asked = load(scenario)
            if not isinstance(asked, SimulationScenario):
                raise InputError(
                    f"{scenario} is about {asked.KEY}: weir simulate takes files with the key simulation"
                )
            content = asked.model_dump(mode="json")
            section, lab = content["simulation"], content["lab"]
        section |= {key: OptionValue("--over", values) for key, values in _axes(sweep.over or ())}
        options = {key: getattr(sweep, key) for key in ("repetitions", "trial_s", "simulator", "seed")}
        spelling = {"trial_s": "--duration", "simulator": "--in"}
        for key, value in options.items():
            if value is not None:
                section[key] = OptionValue(spelling.get(key, f"--{key}"), value)
        if sweep.as_ is not None:
            lab["model"] = str(model_file(session.store, sweep.as_))
        if "rates" not in section:
            raise InputError("no load is given: add --over rate=, e.g. --over rate=50kpps..500kpps:10")
        made = from_options({**content, "lab": lab, "simulation": section}, SimulationScenario)
        show(session, runner.run(study, made, work, out=report.out, plots=report.plots))


def _axes(texts: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Keys of the section and their values; raises ``InputError``."""
    given: set[str] = set()
    for text in texts:
        key, _, values = (part.strip() for part in text.partition("="))
        if key not in KEYS or not values:
            raise InputError(
                f"--over: {quoted(text)} not understood; give rules=, rate= or frame= and values"
            )
        if key in given:
            raise InputError(f"--over: {key} is given twice; list its values once")
        given.add(key)
        yield KEYS[key], values_of(key, values)


def values_of(key: str, text: str) -> list[Any]:
    """``0,100``, ``0..1000`` (five values) or ``0..1000:11``; raises ``InputError``."""
    ends = _RANGE.fullmatch(text)
    if ends is None:
        return [part.strip() if key == "rate" else _whole(part, text) for part in text.split(",")]
    low, high, steps = ends[1], ends[2], int(ends[3] or _STEPS)
    if steps < 2:
        raise InputError(f"--over: {quoted(text)}: a range has at least 2 values")
    if key == "rate":
        from weirlab.traffic.load import parse_rate, rate_pps
        from weirlab.traffic.sizes import Constant

        first, last = (rate_pps(parse_rate(end), Constant(64)) for end in (low, high))
        if any(parse_rate(end).unit != "pps" for end in (low, high)):
            raise InputError(f"--over: {quoted(text)}: a range of rates is in packets, e.g. 50kpps..500kpps")
        return [f"{first + (last - first) * step / (steps - 1):.6g}pps" for step in range(steps)]
    first, last = _whole(low, text), _whole(high, text)
    return list(dict.fromkeys(round(first + (last - first) * step / (steps - 1)) for step in range(steps)))


def _whole(text: str, whole: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--over: {quoted(whole)}: {quoted(text.strip())} is no whole number") from None
