"""A process that confines itself, and becomes another program.

Its first argument is a JSON document: the paths that the program may ``read`` and ``write``, and new folders
of its ``own``. The others are the program, by its absolute path, and its arguments. It keeps the network.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from weirlab.base import confinement, programs
from weirlab.base.confinement import Confinement


def command(
    program: Sequence[str], *, read: Iterable[Path] = (), write: Iterable[Path] = (), own: Iterable[Path] = ()
) -> list[str]:
    """The command that starts ``program`` with these paths and no others."""
    found = programs.located(program)
    # The program need not be one of the system's.
    paths = {"read": (Path(found[0]), *read), "write": write, "own": own}
    kept = json.dumps({name: [str(path) for path in each] for name, each in paths.items()})
    return programs.own(__name__, kept, *found)


def main(kept: str, *program: str) -> None:
    """Become ``program``."""
    paths = {name: tuple(map(Path, found)) for name, found in json.loads(kept).items()}
    user = confinement.unused_user() if os.geteuid() == 0 else None
    for folder in paths["own"]:
        folder.mkdir(mode=0o700, exist_ok=True)
        if user is not None:
            os.chown(folder, user, user)
    write = (*paths["write"], *paths["own"])
    # The program has a filter of system calls of its own.
    confinement.enter(Confinement(paths["read"], write=write, network=True, calls="all"), user)
    os.execv(program[0], program)


if __name__ == "__main__":
    main(*sys.argv[1:])
