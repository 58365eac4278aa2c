"""Runs the firewall's own tools inside a namespace and passes on their messages."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from weirlab.base import programs
from weirlab.base.errors import LabError, WeirError
from weirlab.base.quoting import shortened
from weirlab.lab.linux.namespace import Namespace, in_private
from weirlab.lab.linux.syscalls import way_out

_LINE: Final = re.compile(r"\bline:? (\d+)|^/dev/stdin:(\d+):", re.MULTILINE)
MOST_S: Final = 120
"""Longest time that a tool may take to load rules."""
_SHOWN_LINES: Final = 8
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True)
class LoadCommand:
    """A command and its standard input, which loads rules or what they need."""

    command: Sequence[str]
    text: str
    source: str = ""
    """What the text is called in messages."""


class RulesetOrigin(Protocol):
    """What a ruleset was made of."""

    written: str
    """The text as the user wrote it."""

    def located(self, message: str) -> str:
        """A message of a tool about the ruleset with places in the text."""


@functools.cache
def version(name: str, *options: str) -> str:
    """The first line that ``name`` prints with the options (default ``--version``), or an empty string."""
    if programs.find(name) is None:
        return ""
    done: subprocess.CompletedProcess[str] = programs.run(
        [name, *(options or ("--version",))], capture_output=True, text=True
    )
    return (done.stdout.strip() or done.stderr.strip()).split("\n")[0]


def load(
    netns: str,
    command: Sequence[str],
    text: str,
    *,
    source: str,
    prefix: str = "",
    refused: type[WeirError] = LabError,
    origin: RulesetOrigin | None = None,
) -> None:
    """Feed the ruleset ``text`` to ``command`` inside the namespace ``netns``.

    ``source`` names the ruleset in messages. ``prefix`` goes in front of its first line,
    so that line numbers in the tool's messages stay those of the ruleset. ``origin`` is what the ruleset was
    made of, if it is not what the user wrote.

    Raises ``refused``, with the tool's message and the line, if the tool refuses: ``InputError`` if the user
    wrote the rules, ``LabError`` if Weir did.
    """
    done = Namespace(netns).call(lambda: run(command, prefix + text))
    if done.returncode != 0:
        message = done.stderr or done.stdout
        if origin is not None:
            message, text = origin.located(message), origin.written
        raise refused(refusal(command[0], message, text, source))


def relisted(loads: Sequence[LoadCommand], listing: Sequence[str]) -> str | None:
    """What ``listing`` prints after ``loads``, with host names and short forms resolved.

    Loads it in a temporary namespace. None if a tool refuses the rules or cannot be tried; the actual
    loading reports why.
    """

    def attempt() -> str | None:
        if any(run(each.command, each.text).returncode != 0 for each in loads):
            return None
        listed = run(listing, "")
        return listed.stdout if listed.returncode == 0 else None

    try:
        return in_private(attempt)
    except OSError:
        return None


def probe(package: str, command: Sequence[str], text: str) -> list[str]:
    """Why ``command`` cannot load ``text``, tried in a temporary namespace; empty if it can."""
    if programs.find(command[0]) is None:
        return [f"{command[0]} is not installed: apt install {package}"]

    try:
        done = in_private(lambda: run(command, text))
    except OSError as error:
        return [f"{command[0]} could not be tried: {error.strerror}; {way_out(error)}"]
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())
        return [f"{command[0]} does not work with this kernel ({words}); choose another device"]
    return []


def engine_missing() -> list[str]:
    """Why the engine cannot be used; empty if it can."""
    try:
        import weirlab._engine  # noqa: F401
    except ImportError as error:
        return [f"the engine is not built ({error}); make build builds it"]
    return []


def refusal(tool: str, message: str, text: str, source: str) -> str:
    """Turn the tool's output into one message: the ruleset, the line number, the output, the line itself."""
    words = [
        shortened(line.replace("/dev/stdin", source), _SHOWN_CHARACTERS)
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
            quoted = f"\n    {shortened(lines[number - 1].strip(), _SHOWN_CHARACTERS)}"
    if len(words) > _SHOWN_LINES:
        words[_SHOWN_LINES:] = [f"... and {len(words) - _SHOWN_LINES} more lines"]
    said = "\n    ".join(words) or "no reason given"
    return f"{place}: refused by {tool}: {said}{quoted}"


def counted(netns: str, commands: Iterable[Sequence[str]], pattern: re.Pattern[str]) -> int:
    """The sum of the numbers that ``pattern`` finds in what ``commands`` print in a namespace."""
    return sum(int(count) for command in commands for count in pattern.findall(printed(netns, command)))


def printed(netns: str, command: Sequence[str]) -> str:
    """What ``command``, which shows counters, prints in a namespace."""
    done = Namespace(netns).call(functools.partial(run, command, ""))
    if done.returncode:
        raise LabError(f"{command[0]} does not tell its counters: {done.stderr.strip()}")
    return done.stdout


def run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in the calling thread's namespace with ``text`` as its standard input.

    A command that takes longer than ``MOST_S`` has failed: rules of nft may wait for what never comes.
    """
    try:
        return programs.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            env=programs.environment(LC_ALL="C"),
            timeout=MOST_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(list(command), 1, "", f"did not end within {MOST_S} s")
