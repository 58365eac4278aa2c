"""``weir library``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from weirlab.base.errors import InputError, NotMet
from weirlab.cli.options import JudgementOptions, ResultOptions, completing, grouped
from weirlab.devices.choice.command import AnswerOptions, CallsOptions

if TYPE_CHECKING:
    from weirlab.cli.output import Session
    from weirlab.library import ProfileLibrary

LIST = """List the profiles of all libraries, and devices of the literature.

A profile is one signed file: trials, model, and where they were measured.
Weir comes with some; your own are in the store. plan, choose --profiles, link
--as and every command with --as take them as library:NAME, without measuring.

Examples:
  weir library list
  weir library list --library https://example.org/profiles --json
  weir plan library:nftables --rules 100 --require 'p99<1ms'
"""

SHOW = """Show what a profile holds and where it was measured.

The thresholds are those of the trials; weir predict library:NAME has more.

Examples:
  weir library show nftables
  weir library show ./nftables-0123456789ab.weir-profile
"""

ADD = """Add a profile: of a run with fitted models, of a file, or of another library.

A run becomes a bundle with its valid trials, model, calibration and facts,
but without your host's name, paths and commands. Give it a name, a licence,
and a signature with an OpenSSH key. --to writes to a folder that a web server
can offer as it is.

Examples:
  weir library add last --name nftables-edge --licence CC0-1.0
  weir library add last --name edge --licence CC0-1.0 --to ./profiles \\
    --sign ~/.ssh/id_ed25519
  weir library add nftables --library https://example.org/profiles
"""

VERIFY = """Verify a profile: its content, its signature, and its model.

Every command checks the digests and refuses a changed bundle. This one also
checks the signature against a list of signers (OpenSSH's allowed_signers; by
default those of Weir), and fits the model to the trials again. The exit code
is 9 if nobody on the list that --signers names signed it.

Examples:
  weir library verify nftables
  weir library verify edge.weir-profile --signers ~/.ssh/allowed_signers
"""

COMPARE = """Rank the devices of the libraries for given calls, as weir choose does.

Nothing is measured. The page also says where each profile was measured, and
has the thresholds of devices of the literature. Without names, all profiles
are compared.

Examples:
  weir library compare --calls 300 --rules 100 --require 'p99<1ms'
  weir library compare nftables bridge --calls 300 --rules 100 --out rank.html
"""

NameArgument = Annotated[
    str,
    typer.Argument(
        help="Name of a profile (NAME@ID for one of several), a bundle file, or the URL of one.",
        metavar="PROFILE",
        autocompletion=completing.profiles,
    ),
]
LibraryOption = Annotated[
    str | None,
    typer.Option("--library", help="One more library to look in: a folder or a URL.", metavar="PLACE"),
]


@dataclass(frozen=True)
class RunBundleOptions:
    """What a bundle says that a run does not."""

    PANEL: ClassVar = "Bundle of a run"

    name: Annotated[str | None, typer.Option(help="Name of the profile, for a run.", metavar="NAME")] = None
    licence: Annotated[
        str | None,
        typer.Option(help="SPDX licence of a run's data, e.g. CC0-1.0.", metavar="SPDX"),
    ] = None
    host: Annotated[
        str,
        typer.Option(help="Where a run was measured, in words (default: this machine).", metavar="TEXT"),
    ] = ""
    remark: Annotated[str, typer.Option(help="A sentence about the profile.", metavar="TEXT")] = ""
    sign: Annotated[
        Path | None, typer.Option(help="OpenSSH key to sign a run's bundle with.", metavar="KEY")
    ] = None


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Profiles that others measured, as signed files.",
        no_args_is_help=True,
    )
    group.command("list", help=LIST)(grouped(list_))
    group.command("show", help=SHOW)(grouped(show))
    group.command("add", help=ADD)(grouped(add))
    group.command("verify", help=VERIFY)(grouped(verify))
    group.command("compare", help=COMPARE)(grouped(compare))
    app.add_typer(group, name="library", rich_help_panel="Model")


def _places(session: Session, more: str | None) -> tuple[ProfileLibrary, ...]:
    from weirlab.library import ProfileLibrary, libraries
    from weirlab.library.places import is_url

    if more is None:
        return libraries(session.store_root)
    if not is_url(more) and not Path(more).is_dir():
        raise InputError(f"--library {more}: neither a folder nor an http or https URL")
    return (ProfileLibrary(more), *libraries(session.store_root))


def list_(ctx: typer.Context, library: LibraryOption = None, *, result: ResultOptions) -> None:
    from weirlab.cli.quantities import plural
    from weirlab.devices.library import wording
    from weirlab.library.published import published_thresholds

    with result.session(ctx) as session:
        refused: list[InputError] = []
        found = [
            entry for place in _places(session, library) for entry in place.entries(refuse=refused.append)
        ]
        for error in refused:
            session.say(str(error))
        beside = published_thresholds()
        document = {
            "kind": "library",
            "profiles": [
                {
                    "id": one.bundle.id,
                    "library": one.place,
                    "kind": wording.kind(one.bundle),
                    **vars(one.bundle.manifest),
                }
                for one in found
            ],
            "refused": list(map(str, refused)),
            "published": [
                {
                    "device": one.device,
                    "rules": one.rules,
                    "threshold_pps": [one.low_pps, one.high_pps],
                    "publication": one.publication.key,
                    "where": one.where,
                }
                for one in beside
            ],
        }
        devices = len({one.device for one in beside})
        said = (
            f"{plural(len(found), 'profile')}, and {plural(devices, 'device')} of the literature; "
            "next: weir library compare --calls 300 --rules 100"
        )
        session.finish(document, said, [*wording.entries(found), *wording.published(beside)])
        session.complain(refused[0] if refused else None)


def show(
    ctx: typer.Context, name: NameArgument, library: LibraryOption = None, *, result: ResultOptions
) -> None:
    from weirlab.devices.library import wording
    from weirlab.library.places import opened

    with result.session(ctx) as session:
        entry = opened(name, _places(session, library))
        bundle = entry.bundle
        document = {
            "kind": "library-profile",
            "id": bundle.id,
            "library": entry.place,
            **vars(bundle.manifest),
        }
        said = f"{entry.name}: {wording.kind(bundle)} on {bundle.manifest.host}"
        session.finish(document, said, [*wording.thresholds(bundle), *wording.bundle(bundle, entry.place)])


def add(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            help="A run with fitted models, a bundle file or its URL; with --library, a name in it.",
            metavar="SOURCE",
            autocompletion=completing.runs,
        ),
    ],
    to: Annotated[
        Path | None, typer.Option(help="Folder to add to (default: your own library).", metavar="DIR")
    ] = None,
    library: LibraryOption = None,
    *,
    own: RunBundleOptions,
    result: ResultOptions,
) -> None:
    from weirlab.devices.library.bundling import bundle_of
    from weirlab.library import ProfileLibrary, libraries
    from weirlab.library.bundle import SUFFIX
    from weirlab.library.places import is_url, opened
    from weirlab.library.signature import sign as signed

    with result.session(ctx) as session:
        if library is not None or is_url(source) or source.endswith(SUFFIX):
            if given := [name for name, value in vars(own).items() if value]:
                raise InputError(f"--{given[0]} is for a run: {source} is a bundle, which stays as it is")
            bundle = opened(source, _places(session, library)[:1]).bundle
            # What cannot be used is not kept.
            _ = bundle.device, bundle.trials
        else:
            if Path(source).is_file():
                raise InputError(
                    f"{source}: a bundle ends in {SUFFIX}, and a run is named by its ID or 'last'"
                )
            if own.name is None or own.licence is None:
                raise InputError("a run needs --name and --licence, e.g. --name edge --licence CC0-1.0")
            bundle = bundle_of(session.store, source, own.name, own.licence, own.host, own.remark)
            bundle = bundle if own.sign is None else signed(bundle, own.sign)
        place = libraries(session.store_root)[0] if to is None else ProfileLibrary(str(to))
        path = place.add(bundle)
        document = {"kind": "library-add", "path": path, "id": bundle.id, "name": bundle.manifest.name}
        session.finish(
            document, f"Added {bundle.manifest.name}: {path}; next: weir library show {bundle.manifest.name}"
        )


def verify(
    ctx: typer.Context,
    name: NameArgument,
    signers: Annotated[
        Path | None,
        typer.Option(help="Whom you trust, as OpenSSH's allowed_signers.", metavar="FILE"),
    ] = None,
    library: LibraryOption = None,
    *,
    result: ResultOptions,
) -> None:
    from weirlab.base.quantities import percent
    from weirlab.devices.library.bundling import refit_error
    from weirlab.library.places import opened
    from weirlab.library.signature import SIGNERS, signature

    with result.session(ctx) as session:
        bundle = opened(name, _places(session, library)).bundle
        found = signature(bundle, signers or SIGNERS)
        error = refit_error(bundle)
        document = {
            "kind": "library-verification",
            "id": bundle.id,
            "key": found.key or None,
            "signer": found.signer or None,
            "refit_error_ratio": error,
        }
        said = (
            f"{bundle.manifest.name} is unchanged and {found}. Thresholds of its model and of one fitted to "
            f"its trials here differ by at most {percent(error)}."
        )
        session.finish(document, said)
        if signers is not None and not found.signer:
            session.complain(NotMet(f"nobody in {signers} signed {bundle.manifest.name}"))


def compare(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Profiles to compare (default: all).", metavar="PROFILE", autocompletion=completing.profiles
        ),
    ] = None,
    library: LibraryOption = None,
    *,
    calls: CallsOptions,
    answer: AnswerOptions,
    result: JudgementOptions,
) -> None:
    from dataclasses import replace

    from weirlab.base import files
    from weirlab.cli.results import gates
    from weirlab.devices.choice import wording as choices
    from weirlab.devices.choice.command import CandidateOptions, ChoiceOptions, MeasuringOptions
    from weirlab.devices.choice.study import choose
    from weirlab.devices.library import wording
    from weirlab.library.places import opened
    from weirlab.traffic.calls.offered import note

    with result.session(ctx) as session:
        if answer.out is not None:
            files.check_output(answer.out, "--out")
        places = _places(session, library)
        everything = [entry for place in places for entry in place.entries()]
        found = [opened(name, places) for name in names] if names else list(
            {entry.name: entry for entry in reversed(everything)}.values()
        )[::-1]  # fmt: skip
        if not found:
            raise InputError("no library has a profile: weir library add RUN adds one")
        options = ChoiceOptions(
            candidates=CandidateOptions(), calls=calls, measuring=MeasuringOptions(), answer=answer
        )
        request = replace(
            options.request(result.require), profiles=tuple(entry.bundle.device for entry in found)
        )
        if counted := note(calls.calls):
            session.say(counted)
        outcome = choose(session.store, request, session.progress)
        rules, factors = request.rules, request.factors
        codecs = [stream.name for stream in request.streams]
        # Most calls first; devices that were not profiled for this come last.
        rows = sorted(
            outcome.rows(choices.why),
            key=lambda row: (
                codecs.index(row.codecs),
                rules.index(row.rules),
                factors.index(row.factor),
                1 if row.most_calls is None else -row.most_calls,
            ),
        )
        document = {**outcome.document(rows), "kind": "library-comparison"}
        asked = outcome.base.question
        need = None if asked is None or asked.call_pps is None else asked.call_pps * request.calls
        chapters = wording.chapters(found, rules[0], need)
        if answer.out is not None:
            choices.write_page(outcome, rows, answer.out, session.command, chapters)
            document["out"] = answer.out
        tables = [
            *choices.tables(outcome, rows),
            *(table for chapter in chapters for table in chapter.tables),
        ]
        session.finish(document, f"{choices.sentence(outcome, session.command)} {wording.UNEQUAL}", tables)
        session.complain(gates.worse(gates.failure(outcome.judged), outcome.problem()))
