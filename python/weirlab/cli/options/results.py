"""Options about results: where they are kept, how they are shown, what is required of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options import completing
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.jobs.work import Work

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.")
]
StoreOption = Annotated[Path | None, typer.Option("--store", help="Folder of the run store.", metavar="DIR")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Write the report to this file.", metavar="FILE")
]
PlotsOption = Annotated[
    Path | None, typer.Option("--plots", help="Folder for PNG, SVG and CSV of each plot.", metavar="DIR")
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume", help="Continue this interrupted run.", metavar="RUN", autocompletion=completing.runs
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Name of the run, for lists and reports (default: that of the ruleset's file, or the device).",
        metavar="TEXT",
        rich_help_panel="Plan",
    ),
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="The device, if the model file has several.", metavar="NAME")
]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="Limit to check, e.g. 'p99<1ms'; exit code 9 if not met, 7 if undecided; repeatable.",
        metavar="LIMIT",
        rich_help_panel="Requirement",
    ),
]


@dataclass(frozen=True)
class ResultOptions:
    """Where a result is kept, and how it is shown."""

    store: StoreOption = None
    json: JsonOption = False

    def session(self, ctx: typer.Context) -> Session:
        """The session through which the command talks to the user."""
        return Session(ctx, as_json=self.json, store=self.store)


@dataclass(frozen=True)
class JudgementOptions(ResultOptions):
    """The same for results that can be checked against requirements."""

    require: RequireOption = None


@dataclass(frozen=True)
class ReportOptions:
    """The report of a run."""

    out: OutOption = None
    plots: PlotsOption = None

    def check(self) -> None:
        """Raise ``InputError`` for plots without a report."""
        if self.plots is not None and self.out is None:
            raise InputError("--plots needs --out: plots belong to a report")


def work_of(session: Session, name: str | None = None) -> Work:
    """The store and the progress reporter for the jobs of a command; ``name`` is that of the run."""
    from weirlab.base.files import HOST_FILES
    from weirlab.jobs.work import Work

    return Work(session.store, session.progress, session.command, inputs=HOST_FILES, name=name or "")
