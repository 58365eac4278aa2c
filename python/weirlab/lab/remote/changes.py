"""How the rules of a device elsewhere are set: by Weir, by an operator, by a program, or not at all."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.interrupts import interruptible
from weirlab.base.quoting import shortened
from weirlab.lab.dut.rules import FAMILIES, accepted, chain, check
from weirlab.lab.dut.tool import MOST_S
from weirlab.lab.remote.filters import DeviceFilter, described, make_filter
from weirlab.lab.remote.session import RESTORE_S, DeviceSession
from weirlab.lab.remote.target import Target
from weirlab.records import RuleSetup

FORMAT: Final = 1
"""Version of what a program gets."""

Note = Callable[[str], object]


class RuleChange:
    """One way to set rules; by itself ``none``: the device is measured as it is.

    All methods but ``missing`` raise ``LabError`` if it fails.
    """

    layout = "the device's own rules, unchanged"

    def missing(self) -> list[str]:
        """What is lacking, a sentence each."""
        return []

    def begin(self, note: Note) -> None:
        """Prepare for the first change; ``note`` tells the user what will happen."""

    def apply(self, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False, answered=False) != RuleSetup():
            raise InputError(
                "the device is not changed (change: none), so only position 0, stateless, is possible: its "
                "own rules apply, whatever they are. To set others: --change rules, ask, or a command"
            )

    def confirm(self, beyond_s: float = 0.0) -> None:
        """See that the rules set last are still in force, and keep them for a trial of ``beyond_s``."""

    def entered(self) -> str:
        """A shell command on the device that tells how many packets entered the rules; empty: none does."""
        return ""

    def packets(self, printed: str) -> int | None:
        """That number, of what the command printed."""
        return None

    def end(self, note: Note) -> None:
        """Undo every change; may be called twice."""


class FilterChange(RuleChange):
    """``rules``: Weir sets them through a login."""

    def __init__(self, target: Target, rules: DeviceFilter, restore_s: float = RESTORE_S) -> None:
        self.layout = rules.layout
        self._filter = rules
        self._session = DeviceSession(target, rules, restore_s)
        self._note: Note = lambda _: None
        self._shown = False

    def missing(self) -> list[str]:
        return self._filter.missing(self._session.target)

    def begin(self, note: Note) -> None:
        self._note = note
        self._session.begin()
        note(
            f"{self._session.target.name}: Weir sets {self._filter.own}, for test traffic only; the device "
            f"removes them by itself when Weir has been away for {self._session.restore_s:g} s"
        )

    def apply(self, rules: RuleSetup) -> None:
        loads = self._session.apply(rules)
        if not self._shown and rules.position:
            self._shown = True
            self._note(f"{self._session.target.name}:\n{described(loads)}")

    def confirm(self, beyond_s: float = 0.0) -> None:
        self._session.extend(beyond_s)

    def entered(self) -> str:
        return self._filter.entered()

    def packets(self, printed: str) -> int | None:
        return self._filter.packets(printed)

    def end(self, note: Note) -> None:
        if changed := self._session.end():
            note(
                f"{self._session.target.name}: Weir's rules are gone, but the others are not those of before "
                f"the test; something else changed them meanwhile:\n{shortened(changed, 2000)}"
            )


class OperatorChange(RuleChange):
    """``ask``: the operator sets them, and confirms each time. Needs a terminal."""

    layout = "set by the operator"

    def __init__(self) -> None:
        self._changed = False
        self._note: Note = lambda _: None

    def begin(self, note: Note) -> None:
        self._note = note

    def missing(self) -> list[str]:
        if sys.stdin.isatty() and sys.stderr.isatty():
            return []
        return ["the operator is to set the rules (change: ask), but there is no terminal to ask him at"]

    def apply(self, rules: RuleSetup) -> None:
        check(rules)
        self._changed = True
        self._note(f"set on the device: {in_words(rules)}. Then press Enter (Ctrl-C stops)")
        if not _confirmed():
            raise LabError("nobody confirms the rules any more: standard input has ended")

    def end(self, note: Note) -> None:
        if self._changed:
            self._changed = False
            note("the device still has the rules that you set last: restore its own")


@interruptible
def _confirmed() -> bool:
    return bool(sys.stdin.readline())


@dataclass(frozen=True)
class ChangeCommand:
    """A program of the user's and its arguments."""

    argv: tuple[str, ...]

    def __call__(self, event: str, rules: RuleSetup) -> None:
        """Run it; raises ``LabError`` with its last line if it fails."""
        carry_out(self.argv, "did not set the rules", json.dumps(document(event, rules)))


def carry_out(argv: Sequence[str], otherwise: str, content: str = "") -> None:
    """Run a program of the user's, with ``content`` as its standard input.

    Raises
    ------
    LabError
        It fails (with its last line), or has not ended after ``MOST_S`` (then it ``otherwise``).
    InputError
        It cannot be run.
    """
    try:
        done: subprocess.CompletedProcess[str] = programs.run(
            argv, input=content, capture_output=True, text=True, errors="replace", timeout=MOST_S
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{argv[0]} {otherwise} within {MOST_S} s") from None
    except OSError as error:
        raise InputError(f"{argv[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout).splitlines()
        words = [line.strip() for line in lines if any(map(str.isalnum, line))]
        reason = shortened(words[-1], 400) if words else "it gives no reason"
        raise LabError(f"{argv[0]} (exit code {done.returncode}): {reason}")


class CommandChange(RuleChange):
    """A program of the user's sets them: ``apply`` before trials, and ``restore`` at the end."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.layout = f"set by {argv[0]}"
        self._command = ChangeCommand(tuple(argv))
        self._changed = False

    def missing(self) -> list[str]:
        try:
            programs.located(self._command.argv)
        except MissingCapability as error:
            return [str(error)]
        return []

    def apply(self, rules: RuleSetup) -> None:
        check(rules)
        # A failed change may have changed something.
        self._changed = True
        self._command("apply", rules)

    def end(self, note: Note) -> None:
        changed, self._changed = self._changed, False
        if changed:
            self._command("restore", RuleSetup())


def document(event: str, rules: RuleSetup) -> dict[str, Any]:
    """What a program gets on its standard input; docs/remote.md has the schema."""
    return {
        "version": FORMAT,
        "event": event,
        "position": rules.position,
        "accepting": list(rules.accepting),
        "stateful": rules.stateful,
        "answered": rules.answered,
        "rules": [
            {
                "place": place,
                "ip": family,
                "source": match.source,
                "destination": match.destination,
                "protocol": match.protocol,
                "port": match.port,
                "action": "accept",
            }
            for family in FAMILIES
            for place, match in enumerate(chain(family, rules), 1)
        ],
    }


def in_words(rules: RuleSetup) -> str:
    """For the operator."""
    if not rules.position:
        return "no filter rules" + (", with connection tracking" if rules.stateful else "")
    match = accepted(4, rules)
    places = ", ".join(map(str, rules.accepting))
    tracking = ", after one that drops what connection tracking calls invalid" if rules.stateful else ""
    return (
        f"{rules.position:,} rules, of which number {places} accepts {match.source} to {match.destination} "
        f"and the others match other addresses{tracking}"
    )


def make_change(how: str, name: str, target: Target | None, restore_s: float) -> RuleChange:
    """The change that a scenario's ``change`` means, for the device's filter ``name``.

    Raises ``InputError`` if there is no such filter.
    """
    if how == "none":
        return RuleChange()
    if how == "ask":
        return OperatorChange()
    if how != "rules":
        return CommandChange(shlex.split(how))
    assert target is not None
    return FilterChange(target, make_filter(name), restore_s)
