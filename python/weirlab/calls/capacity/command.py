"""``weir capacity``: how many calls a device carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import (
    DeviceOptions,
    ReportOptions,
    ResultOptions,
    SeedOption,
    TrialsOptions,
    grouped,
    only,
    reading,
    typed,
)

CAPACITY = """Measure how many telephone calls a device carries.

Weir searches for the most calls without loss, and for the most of which 99 %
reach a MOS (--mos), at each matching position (--rules). It then tries
numbers of calls around what it found, seven times each in random order, and
records losses, quality and what the device's own monitoring shows. With
--first and --last, it tries fixed numbers instead, before the search.

A mix of codecs is a comma-separated list, as for weir calls. To compare with
the prediction of a model, use weir run call-capacity.

Examples:
  weir capacity
  weir capacity --dut nftables --rules 0,400 --codec g711:60,g729:40
  weir capacity --first 500 --last 3000 --no-search --directions forward
  weir capacity --codec gsm-fast --transport iax2 --mos none --out calls.html
  weir capacity --lab sim --json
"""


@dataclass(frozen=True)
class CapacityCallOptions:
    """The calls; the fields are keys of ``calls`` in a scenario."""

    PANEL: ClassVar = "Calls"

    codec: Annotated[
        str, typer.Option(help="Codec, with an optional packet time, or a mix (see weir calls).")
    ] = "g711"
    transport: Annotated[
        Literal["rtp", "iax2", "iax2-trunk"], typer.Option(help="Transport of the speech.")
    ] = "rtp"
    directions: Annotated[
        Literal["both", "forward", "back"],
        typer.Option(help="Who talks; forward: from the sender's side."),
    ] = "both"
    rtcp: Annotated[bool, typer.Option("--rtcp/--no-rtcp", help="Whether RTCP packets are sent.")] = True


@dataclass(frozen=True, kw_only=True)
class CapacityPlanOptions:
    """Numbers of calls to try."""

    PANEL: ClassVar = "Plan"

    first: Annotated[
        int | None, typer.Option(min=1, max=limits.MOST_CALLS, help="Fewest calls, with --last.")
    ] = None
    last: Annotated[
        int | None, typer.Option(min=1, max=limits.MOST_CALLS, help="Most calls, with --first.")
    ] = None
    step: Annotated[
        int | None,
        typer.Option(min=1, max=limits.MOST_CALLS, help="Calls from one number to the next (100)."),
    ] = None
    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Search for the most calls that the device carries.")
    ] = True
    mos: Annotated[
        str, typer.Option(help="MOS that 99 % of the calls must reach, or none.", metavar="MOS")
    ] = "4.0"
    trials: Annotated[TrialsOptions, only("repetitions", "trial_s", "warmup_s", "max_attempts")]
    inside: Annotated[bool, typer.Option("--inside/--no-inside", help="Observe the device from inside.")] = (
        True
    )
    seed: SeedOption = 1

    def section(self) -> dict[str, Any]:
        """The section ``capacity`` of a scenario, but for the positions."""
        if self.step is not None and self.first is None:
            raise InputError(
                "--step goes with --first and --last: it is the distance of fixed numbers of calls"
            )
        trials = typed(self.trials)
        attempts = {name: trials.pop(name) for name in ("max_attempts",) if name in trials}
        fixed = {"first": self.first, "last": self.last, "step": self.step}
        sweep = {**typed(fixed, first="--first", last="--last", step="--step"), **trials}
        mos = (
            None if self.mos.strip().lower() == "none" else reading.listed(self.mos, float, "--mos", "4.0")[0]
        )
        lengths = {name: trials[name] for name in ("trial_s", "warmup_s") if name in trials}
        return {
            "sweep": sweep,
            "search": {"mos": mos, **lengths} if self.search else None,
            "predict": None,
            "inside": self.inside,
            **attempts,
            **typed({"seed": self.seed}, seed="--seed"),
        }


def add_to(app: typer.Typer) -> None:
    app.command("capacity", help=CAPACITY, rich_help_panel="Measure")(grouped(capacity))


def capacity(
    ctx: typer.Context,
    *,
    device: Annotated[
        DeviceOptions,
        only(
            "lab",
            "as_",
            "dut",
            "positions",
            "ruleset",
            "include",
            "ipset",
            "image",
            "match",
            "stateful",
            "backend",
            "wired",
        ),
    ],
    calls: CapacityCallOptions,
    plan: CapacityPlanOptions,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.calls.capacity.section import CapacityScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        dut = device.device()
        positions = (0,) if dut.has_own_rules else device.listed_positions()
        content: dict[str, Any] = {
            "name": f"capacity of {dut.name} in calls",
            "lab": device.lab_section(session.store),
            "dut": dut.model_dump(),
            "calls": {**typed(calls), "seed": plan.seed},
            "capacity": {**typed({"positions": positions}, positions="--rules"), **plan.section()},
        }
        carry_out(session, content, CapacityScenario, report)
