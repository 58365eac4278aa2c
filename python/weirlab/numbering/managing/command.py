"""``weir voice manage``: a plan in a database, and who may change it in ``weir web``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from weirlab.base.errors import InputError
from weirlab.base.extras import MANAGE
from weirlab.base.quantities import NOTHING, plural
from weirlab.base.tables import Table
from weirlab.cli.options import JsonOption, grouped
from weirlab.cli.output import Session, to_json
from weirlab.numbering.options import DEFAULT_PLAN, PlanOption

if TYPE_CHECKING:
    from weirlab.numbering.managing.register import Register

MANAGE_HELP = """Keep a numbering plan in a database, where several organisations change it.

weir web --voice DATABASE serves the pages. Each organisation changes what is
its own, all changes are checked and can be undone, and a publication writes
the zones for BIND. DATABASE is an SQLite file or a PostgreSQL URL such as
postgresql://weir@db.example.net/voice.
"""

IMPORT = """Create a database from a numbering plan.

Ranges, routes and entries of its CSV tables are imported, too. Then add
an administrator (weir voice manage add-user) and start weir web --voice.

Examples:
  weir voice manage import --plan mine.yaml --database plan.db
  weir voice manage import --plan federation --database plan.db --json
  weir voice manage import --database postgresql://weir@db.example.net/voice
"""

EXPORT = """Print the plan of a database.

The output is a numbering plan like any other, for weir voice check, route,
prove and all other commands.

Examples:
  weir voice manage export --database plan.db > plan.yaml
  weir voice manage export --database plan.db --json
"""

ADD_USER = """Allow a user to sign in, for one organisation or as an administrator.

Weir asks for the password, or reads it from standard input if that is not a
terminal. Without a password (--no-password), only a proxy can let the user
in: weir web --voice-user-header. A user of an organisation may change its
contacts, its engines and their routes, and everything about its own numbers.
Publishing needs --publish. Administrators may do everything.

Examples:
  weir voice manage add-user alice --database plan.db
  weir voice manage add-user ben --organisation north --publish
  weir voice manage add-user ben --organisation south --replace
  weir voice manage add-user carol@example.net --no-password --json
"""

REMOVE_USER = """Remove a user.

The user's sessions end. Changes that the user made stay, under this name.

Examples:
  weir voice manage remove-user ben --database plan.db
  weir voice manage remove-user ben --json
"""

USERS = """List who may sign in.

The table shows each user's organisation, whether the user may publish, and
whether the user signs in with a password or only through a proxy.

Examples:
  weir voice manage users --database plan.db
  weir voice manage users --json
"""

LOG = """Show the audit log: changes, publications, sign-ins and accounts.

The latest event comes first.

Examples:
  weir voice manage log --database plan.db
  weir voice manage log --last 200 --json
"""

DEFAULT_DATABASE: Final = "plan.db"
_MOST_EVENTS: Final = 10_000
_ADMINISTRATOR: Final = "administrator"

DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database",
        help="An SQLite file or a PostgreSQL URL.",
        envvar="WEIR_VOICE_DATABASE",
        metavar="DATABASE",
    ),
]
NameArgument = Annotated[str, typer.Argument(help="The user's name.", metavar="NAME")]


def add_to(voice: typer.Typer) -> None:
    manage = typer.Typer(help=MANAGE_HELP, no_args_is_help=True, rich_markup_mode="rich")
    manage.command("import", help=IMPORT)(import_plan)
    manage.command("export", help=EXPORT)(export)
    manage.command("add-user", help=ADD_USER)(grouped(add_user))
    manage.command("remove-user", help=REMOVE_USER)(remove_user)
    manage.command("users", help=USERS)(users)
    manage.command("log", help=LOG)(log)
    voice.add_typer(manage, name="manage")


@contextmanager
def _register(database: str, *, new: bool = False) -> Iterator[Register]:
    MANAGE.require()
    from weirlab.numbering.managing.database import opened
    from weirlab.numbering.managing.register import Register

    found = opened(database, new=new)
    try:
        yield Register(found)
    finally:
        found.close()


def _who() -> str:
    """The system user who runs the command, for the audit log."""
    import pwd

    try:
        return f"{pwd.getpwuid(os.getuid()).pw_name} (weir voice manage)"[:64]
    except KeyError:
        return f"user {os.getuid()} (weir voice manage)"


def import_plan(
    ctx: typer.Context,
    plan: PlanOption = DEFAULT_PLAN,
    database: DatabaseOption = DEFAULT_DATABASE,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering.plan import load, ready

    with Session(ctx, as_json=json) as session:
        book = load(ready.find(plan))
        with _register(database, new=True) as register:
            count = register.begin(_who(), book.plan, Path(book.name).name)
            shown = register.database.shown
        document = {"kind": "voice manage import", "plan": book.plan.plan, "database": shown, "pieces": count}
        remark = "Add an administrator: weir voice manage add-user NAME"
        session.finish(
            document, f"Plan {book.plan.plan}, {plural(count, 'piece')}, is in {shown}.", remark=remark
        )


def export(ctx: typer.Context, database: DatabaseOption = DEFAULT_DATABASE, json: JsonOption = False) -> None:
    with Session(ctx, as_json=json), _register(database) as register:
        state = register.state()
        document = {"kind": "voice manage export", "plan": state.plan.plan, "text": state.text}
        print(to_json(document) if json else state.text.rstrip("\n"))


@dataclass(frozen=True)
class RightsOptions:
    """What a user may do."""

    PANEL: ClassVar = "Rights"

    organisation: Annotated[
        str | None,
        typer.Option(
            help="The user's organisation; without it, the user is an administrator.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    publish: Annotated[bool, typer.Option("--publish", help="Allow the user to publish.")] = False
    password: Annotated[
        bool,
        typer.Option("--password/--no-password", help="Whether to ask for a password.", show_default=False),
    ] = True

    def __str__(self) -> str:
        return f"for {self.organisation}" if self.organisation else "as an administrator"


def add_user(
    ctx: typer.Context,
    *,
    name: NameArgument,
    rights: RightsOptions,
    replace: Annotated[bool, typer.Option("--replace", help="Change an existing user.")] = False,
    database: DatabaseOption = DEFAULT_DATABASE,
    json: JsonOption = False,
) -> None:
    with Session(ctx, as_json=json) as session, _register(database) as register:
        from weirlab.numbering.managing.accounts import Accounts

        given = _password() if rights.password else None
        account = Accounts(register).add(
            _who(), name, given, rights.organisation, publishes=rights.publish, replace=replace
        )
        document = {
            "kind": "voice manage add-user",
            "name": account.name,
            "organisation": account.organisation,
            "publishes": account.may_publish,
        }
        session.finish(document, f"{name} may sign in {rights}.")


def _password() -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    line = "" if sys.stdin is None else sys.stdin.readline()
    if not line:
        raise InputError("no password: give it on standard input, or --no-password")
    return line.rstrip("\r\n")


def remove_user(
    ctx: typer.Context,
    name: NameArgument,
    database: DatabaseOption = DEFAULT_DATABASE,
    json: JsonOption = False,
) -> None:
    with Session(ctx, as_json=json) as session, _register(database) as register:
        from weirlab.numbering.managing.accounts import Accounts

        Accounts(register).remove(_who(), name)
        session.finish({"kind": "voice manage remove-user", "name": name}, f"{name} can no longer sign in.")


def users(ctx: typer.Context, database: DatabaseOption = DEFAULT_DATABASE, json: JsonOption = False) -> None:
    with Session(ctx, as_json=json) as session, _register(database) as register:
        with register.database.reading() as on:
            found = on.accounts()
        listed = [
            {
                "name": each.name,
                "organisation": each.organisation,
                "publishes": each.may_publish,
                "password": bool(each.password),
            }
            for each in found
        ]
        rows = [
            (
                each.name,
                each.organisation or _ADMINISTRATOR,
                "yes" if each.may_publish else "no",
                "password" if each.password else "proxy",
            )
            for each in found
        ]
        table = Table("Users", ("Name", "For", "Publishes", "Signs in by"), rows)
        said = f"{plural(len(found), 'user')}."
        session.finish({"kind": "voice manage users", "users": listed}, said, [table] if rows else [])


def log(
    ctx: typer.Context,
    last: Annotated[int, typer.Option(min=1, max=_MOST_EVENTS, help="Number of events.", metavar="N")] = 50,
    database: DatabaseOption = DEFAULT_DATABASE,
    json: JsonOption = False,
) -> None:
    with Session(ctx, as_json=json) as session, _register(database) as register:
        with register.database.reading() as on:
            found = on.events(most=last)
        rows = [
            (str(each.id), each.at[:19].replace("T", " "), each.who, each.action, each.told or NOTHING)
            for each in found
        ]
        table = Table("Audit log, times in UTC", ("Event", "When", "Who", "What", "About"), rows)
        said = f"{plural(len(found), 'event')}, the latest first."
        session.finish({"kind": "voice manage log", "events": found}, said, [table] if rows else [])
