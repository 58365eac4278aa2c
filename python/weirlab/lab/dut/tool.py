"""Running the firewall's own tools inside a namespace, and passing on what they say."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weirlab.errors import LabError
from weirlab.lab.linux import syscalls
from weirlab.lab.linux.namespace import Namespace, in_thread

_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_LINE: Final = re.compile(r"\bline:? (\d+)|^/dev/stdin:(\d+):", re.MULTILINE)
_SHOWN_LINES: Final = 8


def find(name: str) -> str | None:
    """Path of a command; administrators' folders are searched even if they are not in PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")


@functools.cache
def version(name: str, option: str = "--version") -> str:
    """The first line of what ``name --version`` says, or an empty string."""
    if (path := find(name)) is None:
        return ""
    done = subprocess.run([path, option], capture_output=True, text=True, check=False)
    return (done.stdout.strip() or done.stderr.strip()).split("\n")[0]


def load(
    netns: str, command: Sequence[str], text: str, *, source: str, prefix: str = "", cwd: Path | None = None
) -> None:
    """Feed the ruleset ``text`` to ``command`` inside the namespace ``netns``.

    ``source`` names the ruleset in messages. ``prefix`` goes in front of its first line,
    so that line numbers in the tool's messages stay those of the ruleset.

    Raises ``LabError`` with the tool's words and the line when it refuses.
    """
    done = Namespace(netns).call(lambda: _run(command, prefix + text, cwd))
    if done.returncode != 0:
        raise LabError(refusal(command[0], done.stderr or done.stdout, text, source))


def probe(package: str, command: Sequence[str], text: str) -> list[str]:
    """Why ``command`` cannot load ``text``, tried in a namespace that vanishes at once; empty if it can."""
    if find(command[0]) is None:
        return [f"{command[0]} is not installed: apt install {package}"]

    def attempt() -> subprocess.CompletedProcess[str]:
        syscalls.unshare_net()
        return _run(command, text, None)

    try:
        done = in_thread(attempt)
    except OSError as error:
        return [f"{command[0]} could not be tried: {error.strerror}; run as root"]
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())
        return [f"{command[0]} does not work with this kernel ({words}); choose another DUT driver"]
    return []


def refusal(tool: str, message: str, text: str, source: str) -> str:
    """One message out of what the tool printed: which ruleset, which line, its words, the line itself."""
    words = [
        line.replace("/dev/stdin", source)
        for line in message.splitlines()
        if line.strip() and not line.startswith("Try `") and not line.startswith("Error occurred at line")
    ]
    place, quoted = source, ""
    if match := _LINE.search(message):
        number = int(match[1] or match[2])
        place = f"{source}, line {number}"
        lines = text.splitlines()
        # nft quotes the line itself.
        if match[1] and 0 < number <= len(lines):
            quoted = f"\n    {lines[number - 1].strip()}"
    if len(words) > _SHOWN_LINES:
        words[_SHOWN_LINES:] = [f"... and {len(words) - _SHOWN_LINES} lines more"]
    said = "\n    ".join(words) or "no reason given"
    return f"{place}: refused by {tool}: {said}{quoted}"


def _run(command: Sequence[str], text: str, cwd: Path | None) -> subprocess.CompletedProcess[str]:
    path = find(command[0])
    if path is None:
        raise LabError(f"{command[0]} is not installed; see weir doctor")
    return subprocess.run(
        [path, *command[1:]],
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C"},
    )
