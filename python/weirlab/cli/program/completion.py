"""The command ``weir completion``."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

from weirlab.cli.options import JsonOption
from weirlab.cli.output import Session
from weirlab.cli.streams import tell

COMPLETION = """Print a shell's completion script for weir.

The script completes commands, options, choices, run IDs and the names of
ready-made scenarios. It asks weir for them, so new runs are known at once.

Examples:
  weir completion bash > ~/.local/share/bash-completion/completions/weir
  weir completion zsh > ~/.zfunc/_weir              a folder in fpath
  weir completion fish > ~/.config/fish/completions/weir.fish
"""

VARIABLE: Final = "_WEIR_COMPLETE"
"""Set by these scripts when they ask ``weir`` for completions."""


def add_to(app: typer.Typer) -> None:
    app.command("completion", help=COMPLETION, rich_help_panel="Machine")(completion)


def completion(
    ctx: typer.Context,
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(help="The shell.", metavar="bash|zsh|fish")
    ],
    json: JsonOption = False,
) -> None:
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="weir", complete_var=VARIABLE, shell=shell)
    with Session(ctx, as_json=json) as session:
        if session.json:
            session.finish({"kind": "completion", "shell": shell, "script": script}, f"A script for {shell}.")
        else:
            tell(script)


def answer() -> None:
    """Register Typer's completion classes, so that it can answer such a script."""
    from typer._completion_classes import completion_init

    completion_init()
