"""``weir report``, ``weir runs``, ``weir show`` and ``weir export``: commands about stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from weirlab.base.errors import InputError, WeirError
from weirlab.base.quoting import quoted
from weirlab.base.tables import Table
from weirlab.cli.options import JsonOption, StoreOption, completing, grouped
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.store import Run, RunSummary
    from weirlab.store.labels import RunLabel

REPORT = """Write the report of a run: one HTML file that needs no network.

RUN is an ID, the beginning of one, or "last" for the newest run that has a
report. Without --out the report is written beside the run; --plots also
writes each plot as PNG, SVG and CSV.

Examples:
  weir report last --out firewall.html
  weir report last --out firewall.html --plots plots
"""

RUNS = """List the runs in the store, newest first.

A damaged run is listed with the reason.

Examples:
  weir runs
  weir runs --kind profile --json
  weir --store /mnt/lab/weir runs
"""

LABEL = """Give a run a name, a note, tags or a star.

RUN is an ID, the beginning of one, or "last". weir runs and the page of weir
web show them. They are kept beside the runs: what was measured stays as it
is. Without options, the command shows what the run has.

Examples:
  weir label last --name "before the update" --tag office --star
  weir label 20260131-1200 --untag office --no-star --note ""
"""

SHOW = """Show what a run found, what it measured and where.

RUN is an ID, the beginning of one, or "last".

Examples:
  weir show last
  weir show 20260131-1200 --json
"""

EXPORT = """Write a run's tables, or its device as a module for a simulator.

Tables are trials (one row per attempt), histograms, series, flows and calls,
joined by trial_id, and those of capacity and failover. The manifest and
everything else that the run keeps are written as JSON.

With --to, the model of a device (of a run, or a model file) becomes a module
of a simulator: sources, the model as data, and an example that runs as it is.

Examples:
  weir export last --format csv --out data
  weir export last --format parquet --out data
  weir export last --to ns3 --out firewall-ns3
  weir export firewall.model.json --to omnetpp --out firewall-omnetpp
"""

_SPARE: Final = ("Created (UTC)", "Invalid", "Trials")

RunArgument = Annotated[
    str,
    typer.Argument(help="Run ID, its beginning, or 'last'.", metavar="RUN", autocompletion=completing.runs),
]


def add_to(app: typer.Typer) -> None:
    panel = "Runs"
    app.command("report", help=REPORT, rich_help_panel=panel)(report)
    app.command("runs", help=RUNS, rich_help_panel=panel)(runs)
    app.command("label", help=LABEL, rich_help_panel=panel)(grouped(label))
    app.command("show", help=SHOW, rich_help_panel=panel)(show)
    app.command("export", help=EXPORT, rich_help_panel=panel)(export)


def report(
    ctx: typer.Context,
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="HTML file (default: report.html beside the run).", metavar="FILE"),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Folder for PNG, SVG and CSV of each plot.", metavar="DIR")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.studies import reports
    from weirlab.studies.commands import wording

    with Session(ctx, as_json=json, store=store) as session:
        outcome = reports.report(session.store, run, out=out, plots=plots)
        session.finish(outcome.document(), wording.report(outcome))


def runs(
    ctx: typer.Context,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Only runs of this kind.",
            metavar="KIND",
            show_default=False,
            autocompletion=completing.kinds,
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Only runs with this tag.", metavar="TAG", show_default=False)
    ] = None,
    star: Annotated[bool, typer.Option("--star", help="Only runs with a star.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.studies.commands import wording
    from weirlab.studies.registry import kinds

    with Session(ctx, as_json=json, store=store) as session:
        found = [
            run
            for run in session.store.runs()
            if kind in (None, run.kind)
            and (tag is None or tag in run.label.tags)
            and (run.label.star or not star)
        ]
        if not found and kind not in (None, *kinds()):
            raise InputError(f"--kind {quoted(kind)}: no such kind of run; there are {', '.join(kinds())}")
        rows = [
            (
                run.run_id,
                run.status,
                run.created[:16].replace("T", " "),
                "" if run.trials is None else str(run.trials),
                "" if run.invalid is None else str(run.invalid),
                " ".join([run.title or run.problem, *_marks(run)]),
            )
            for run in found
        ]
        columns = ("Run", "Status", "Created (UTC)", "Trials", "Invalid", "Name")
        tables = [Table("Runs", columns, rows, spare=_SPARE)] if rows else []
        document = {"kind": "runs", "store": session.store.root, "runs": found}
        session.finish(document, wording.runs(found, session.store.root, kind), tables)


def _marks(run: RunSummary) -> list[str]:
    marks = {"(simulated)": run.simulated, "(does not count)": bool(run.unusable)}
    tags = [f"#{tag}" for tag in run.label.tags]
    return [
        *("★" for _ in range(run.label.star)),
        *(mark for mark, applies in marks.items() if applies),
        *tags,
    ]


@dataclass(frozen=True)
class LabelOptions:
    """What people say about a run; None leaves it as it is."""

    name: Annotated[
        str | None, typer.Option(help="Shown in place of the scenario's name.", show_default=False)
    ] = None
    note: Annotated[str | None, typer.Option(help="A note.", show_default=False)] = None
    tag: Annotated[list[str] | None, typer.Option(help="Add this tag (repeatable).", show_default=False)] = (
        None
    )
    untag: Annotated[
        list[str] | None, typer.Option(help="Remove this tag (repeatable).", show_default=False)
    ] = None
    star: Annotated[
        bool | None, typer.Option("--star/--no-star", help="Mark it with a star.", show_default=False)
    ] = None

    def of(self, before: RunLabel) -> RunLabel:
        """``before`` with these changes; raises ``InputError``."""
        from weirlab.store import labels

        return labels.label(
            name=before.name if self.name is None else self.name,
            star=before.star if self.star is None else self.star,
            note=before.note if self.note is None else self.note,
            tags={*before.tags, *(self.tag or ())} - {*(self.untag or ())},
        )


def label(
    ctx: typer.Context,
    run: RunArgument,
    given: LabelOptions,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.studies.commands import wording

    with Session(ctx, as_json=json, store=store) as session:
        labelled = session.store.open(run).run_id
        before = session.store.labels.one(labelled)
        if (after := given.of(before)) != before:
            session.store.labels.put(labelled, after)
        session.finish({"kind": "label", "run_id": labelled, "label": after}, wording.label(labelled, after))


def show(ctx: typer.Context, run: RunArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    from weirlab.jobs.inventory import show
    from weirlab.studies.commands import tables, wording

    with Session(ctx, as_json=json, store=store) as session:
        outcome = show(session.store, run)
        said = _said(session, outcome.run)
        document = {**outcome.document(), "findings": said}
        session.finish(document, wording.run(outcome), tables.run(outcome), lead="\n".join(said))


def _said(session: Session, run: Run) -> Sequence[str]:
    """What ``run`` found; empty if that fails, since the rest can still be shown."""
    from weirlab.studies.registry import study_of

    try:
        return study_of(run).headlines(run)
    except WeirError as error:
        session.say(str(error))
        return ()


def export(
    ctx: typer.Context,
    run: Annotated[
        str,
        typer.Argument(
            help="Run ID, its beginning, or 'last'; with --to also a model file.",
            metavar="RUN",
            autocompletion=completing.runs,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write into; created if missing.", metavar="DIR")],
    format: Annotated[Literal["csv", "parquet"], typer.Option(help="File format.")] = "csv",
    to: Annotated[
        Literal["ns3", "omnetpp"] | None,
        typer.Option(help="Write the device as a module for this simulator.", show_default=False),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.studies.commands import wording

    with Session(ctx, as_json=json, store=store) as session:
        if to is not None:
            from weirlab.jobs.models import model_file
            from weirlab.jobs.simulated import queueing_model
            from weirlab.simulators import SIMULATORS, write_module

            device, _ = queueing_model(model_file(session.store, run))
            files = write_module(device, to, out)
            document = {"kind": "module", "device": device.name, "to": to, "files": files}
            session.finish(document, wording.module(device.name, out, SIMULATORS[to].further))
            return
        source = session.store.open(run)
        files = source.export(out, format)
        document = {"kind": "export", "run_id": source.run_id, "format": format, "files": files}
        session.finish(document, wording.export(source.run_id, files, out))
