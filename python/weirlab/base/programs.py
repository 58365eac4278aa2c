"""Programs that Weir starts: those of the system from the system's folders, its own in isolation.

Weir mostly runs as root, and from anywhere: perhaps in a folder that others can write to, with a PATH that
leads there or lacks ``/usr/sbin``. So neither the current folder nor PATH decides which program is started.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weirlab.base.errors import MissingCapability

FOLDERS: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the system's programs are looked for, and what they get as PATH."""

Program = subprocess.Popen
"""A program that was started."""

_BARE: Final = ("LANG", "LANGUAGE", "TZ")
"""What every program may know of the environment."""

_HOME: Final = str(Path(__file__).absolute().parent.parent)

# -I: neither the current folder nor PYTHONPATH. -S: no site-packages before the standard library is found.
_ISOLATED: Final = ("-I", "-S")
_MODULE: Final = (
    "import json, runpy, sys; sys.path += json.loads(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def find(name: str, folders: str = FOLDERS) -> str | None:
    """Path of one of the system's programs; or of one in other ``folders``, separated by colons."""
    return shutil.which(name, path=folders)


def own(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of Weir.

    It finds packages where this process does, but none in the current folder, and none that has the name of
    a module of the standard library.
    """
    return [sys.executable, *_ISOLATED, "-c", _MODULE, json.dumps(search_path()), module, *arguments]


def own_files() -> list[str]:
    """The files and folders of Python, of Weir and of the packages that it uses."""
    python = (sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    return list(dict.fromkeys([*python, *search_path()]))


def script(path: Path, *arguments: str) -> list[str]:
    """The command that runs a file of Weir that needs nothing but the standard library."""
    return [sys.executable, *_ISOLATED, str(path), *arguments]


def located(command: Sequence[str]) -> list[str]:
    """``command`` with the path of its program; raises ``MissingCapability`` if that is not installed."""
    name, *arguments = command
    if (path := name if os.path.isabs(name) else find(name)) is None:
        raise MissingCapability(
            f"{name} is not installed: none of {FOLDERS.replace(':', ', ')} has it; see weir doctor"
        )
    return [path, *arguments]


def environment(**more: str) -> dict[str, str]:
    """The environment of a started program: that of this process, with the system's folders as PATH."""
    return {**os.environ, "PATH": FOLDERS, **more}


def bare_environment(**more: str) -> dict[str, str]:
    """The environment of a program that need not know anything of this process, such as its tokens."""
    kept = {name: value for name, value in os.environ.items() if name in _BARE or name.startswith("LC_")}
    return {**kept, "PATH": FOLDERS, **more}


def start(command: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> Program[Any]:
    """``subprocess.Popen`` of one of the system's programs, of :func:`own` or of :func:`script`.

    It has its own process group: Ctrl-C at a terminal reaches only Weir, which ends it in good order.
    Raises ``MissingCapability`` if it is not installed.
    """
    return Program(located(command), env=environment() if env is None else env, **_apart(options))


def run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """``subprocess.run`` as in :func:`start`. A failure shows in ``returncode`` unless ``check`` is set."""
    options.setdefault("check", False)
    return subprocess.run(located(command), env=environment() if env is None else env, **_apart(options))


def _apart(options: dict[str, Any]) -> dict[str, Any]:
    """``options`` with a new process group, which a new session has already."""
    return options if options.get("start_new_session") else {"process_group": 0, **options}


def search_path() -> list[str]:
    """Where this process finds packages, without the current folder unless they were installed there."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        # It was removed.
        here = ""
    kept = {_HOME, *site.getsitepackages(), site.getusersitepackages()}
    found = [
        entry
        for entry in sys.path
        if os.path.isabs(entry) and (entry in kept or os.path.realpath(entry) != here)
    ]
    return list(dict.fromkeys([_HOME, *found]))
