"""``weir doctor``, ``weir lab clean`` and ``weir lab build``: this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weirlab.base.errors import LabError, MissingCapability, TrialError
from weirlab.cli.options import JsonOption, StoreOption
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.lab.finding import Finding
    from weirlab.studies.contract import Study

DOCTOR = """Report what works on this machine, what does not, and what to do about it.

If trials work, it watches the CPUs for two seconds and estimates how many
trials other work would spoil now: the machine is good, usable or not usable.
The exit code is 3 if something is missing that trials in namespaces need.
With --require-quiet, it is 5 unless the machine is good: for jobs that
measure.

Examples:
  weir doctor
  weir doctor --require-quiet
  weir doctor --json
"""

CLEAN = """Remove test beds whose owner died (kill -9, power cut); running ones stay.

Interfaces that a dead weir tap had prepared are restored, as are
settings of the kernel that a dead test bed had changed. Control
groups of a dead weir psock run are removed.

The next start does the same by itself. The exit code is 4 if something
could not be restored.

Examples:
  weir lab clean
  weir lab clean --json
"""

BUILD = """Build the virtual machine that the devices vm, vm-esp and vm-wireguard run.

Its kernel and programs come from Debian packages, which apt downloads and
checks but does not install. The result is kept in ~/.cache/weir/vm; remove
that folder to undo it. What was downloaded before an interruption is
not downloaded again. Running it needs root and QEMU.

Examples:
  weir lab build
  weir lab build --again
  weir lab build --json
"""


def add_to(app: typer.Typer) -> None:
    panel = "Machine"
    app.command("doctor", help=DOCTOR, rich_help_panel=panel)(doctor)
    lab = typer.Typer(help="Build the lab's virtual machine, and clean up test beds.", no_args_is_help=True)
    lab.command("build", help=BUILD)(build)
    lab.command("clean", help=CLEAN)(clean)
    app.add_typer(lab, name="lab", rich_help_panel=panel)


def doctor(
    ctx: typer.Context,
    require_quiet: Annotated[
        bool, typer.Option("--require-quiet", help="End with 5 if other work would spoil many trials now.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.cli.program import app
    from weirlab.lab.cores import choose
    from weirlab.lab.doctor import diagnose
    from weirlab.lab.finding import Finding
    from weirlab.measure import noise
    from weirlab.measure.verdict import QUIETER
    from weirlab.studies.commands import tables, wording
    from weirlab.studies.registry import broken, studies

    with Session(ctx, as_json=json, store=store) as session:
        findings = diagnose(session.store.root)
        findings += [finding for study in studies().values() for finding in _checks(study)]
        missing = (*broken(), *app.broken())
        findings += [
            Finding("studies", False, why, "repair or reinstall that package", False) for why in missing
        ]
        sound = all(finding.ok for finding in findings if finding.essential)
        heard = None
        if sound:
            heard = noise.listen(choose())
            findings.append(noise.finding(heard))
        document = {
            "kind": "doctor",
            "ok": sound,
            "machine": heard.verdict if heard else None,
            "findings": findings,
            "noise": heard,
        }
        said = [wording.doctor(findings), noise.sentence(heard) if heard else ""]
        lead = noise.lead(heard) if heard else ""
        session.finish(document, " ".join(filter(None, said)), tables.doctor(findings), lead=lead)
        if not sound:
            raise typer.Exit(MissingCapability.exit_code)
        if require_quiet and heard is not None and heard.verdict != "good":
            session.complain(TrialError(f"the machine is {heard.verdict}, not good: {QUIETER}"))


def _checks(study: Study[Any, Any, Any]) -> Sequence[Finding]:
    """What ``study`` reports about this machine; studies of other packages may raise anything."""
    from weirlab.lab.finding import Finding
    from weirlab.studies.registry import OWN

    try:
        return study.checks()
    except Exception as error:
        if study.key in OWN:
            raise
        detail = f"its checks failed: {type(error).__name__}: {error}"
        return (Finding(study.key, False, detail, "repair or reinstall that package", False),)


def clean(ctx: typer.Context, json: JsonOption = False) -> None:
    from weirlab.lab.clean import clean as remove
    from weirlab.lab.clean import restore_settings, stranded
    from weirlab.link.host.journal import clean as undo
    from weirlab.studies.commands import wording

    with Session(ctx, as_json=json) as session:
        left: list[str] = []
        settings, removed, taps = restore_settings(), remove(), undo(left.append)
        left += stranded().values()
        document = {"kind": "lab clean", "removed": removed, "settings": settings, "taps": taps, "left": left}
        session.finish(document, wording.clean(removed, settings, taps, left))
        session.complain(LabError("; ".join(left)) if left else None)


def build(
    ctx: typer.Context,
    again: Annotated[bool, typer.Option("--again", help="Rebuild it from the current packages.")] = False,
    json: JsonOption = False,
) -> None:
    from weirlab.lab.machines import building, qemu
    from weirlab.studies.commands import wording

    with Session(ctx, as_json=json) as session:
        built = building.build(again=again, tell=session.progress.stage)
        about = built.image.about
        document = {
            "kind": "lab build",
            "folder": str(built.image.folder),
            "renewed": built.renewed,
            "size_bytes": built.image.size_bytes,
            "downloaded_bytes": sum(each.size_bytes for each in built.downloaded),
            "kernel": about.release,
            "packages": about.packages,
            "missing": qemu.missing(),
        }
        session.finish(document, wording.build(built, qemu.missing()))
