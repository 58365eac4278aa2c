"""``weir voice install``: Asterisk with H.323 and MGCP, for the gateways of the lab."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from weirlab.base.errors import InputError
from weirlab.base.quantities import plural
from weirlab.base.tables import Table
from weirlab.cli.options import JsonOption
from weirlab.cli.output import Session

INSTALL: Final = """Install Asterisk with H.323 and MGCP for the lab, beside the system.

Gateways need an Asterisk with chan_ooh323 and chan_mgcp, which Debian 11 was
the last release to have. Its packages are fetched from the mirror in this
machine's apt sources, verified with Debian's keys, and unpacked into one
folder below /var/cache. Nothing else on the system changes; --remove undoes
it. Needs root and apt.

Examples:
  weir voice install
  weir voice install --mirror URL        another mirror of Debian
  weir voice install --remove
  weir voice install --json
"""

_COLUMNS: Final = ("Package", "Version")


def add_to(voice: typer.Typer) -> None:
    voice.command("install", help=INSTALL)(install)


def install(
    ctx: typer.Context,
    mirror: Annotated[
        str | None,
        typer.Option(help="Fetch from this mirror.", metavar="URL", show_default=False),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Fetch it again even if installed.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it.")] = False,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering.lab import chroot

    with Session(ctx, as_json=json) as session:
        if remove and (again or mirror is not None):
            raise InputError("--remove cannot be combined with --again or --mirror")
        if remove:
            gone = chroot.remove()
            conclusion = f"{chroot.FOLDER} is removed." if gone else "Nothing was installed."
            session.finish({"kind": "voice install", "removed": gone, "folder": chroot.FOLDER}, conclusion)
            return
        found = None if again else chroot.installed()
        fetched = found is None
        if found is None:
            found = chroot.install(session.progress, mirror)
        document = {
            "kind": "voice install",
            "folder": chroot.FOLDER,
            "fetched": fetched,
            "version": found.version,
            "suite": found.suite,
            "bytes": found.bytes,
            "packages": found.packages,
        }
        already = "" if fetched else "already "
        conclusion = (
            f"Asterisk {found.version} of Debian's release {found.suite} is {already}in "
            f"{chroot.FOLDER}: {plural(len(found.packages), 'package')}, {found.bytes / 1e6:.0f} MB."
        )
        rows = [(name, version) for name, version in found.packages.items() if "asterisk" in name]
        session.finish(document, conclusion, [Table("Asterisk's packages", _COLUMNS, rows)])
