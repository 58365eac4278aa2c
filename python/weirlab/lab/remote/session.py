"""Changes a device's rules, and has the device undo that by itself if Weir does not come back."""

from __future__ import annotations

import os
import platform
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from weirlab.base.errors import LabError, MissingCapability, WeirError
from weirlab.base.interrupts import shielded
from weirlab.lab.dut.tool import LoadCommand, refusal
from weirlab.lab.remote import deadman
from weirlab.lab.remote.filters import DeviceFilter
from weirlab.lab.remote.target import Output, Target, UnreachableTarget
from weirlab.records import RuleSetup

RESTORE_S: Final = 120.0
"""How long a device waits for Weir before it restores its rules."""

_MACHINE: Final = Path("/etc/machine-id")


class DeviceSession:
    """Weir's rules on a device, from :meth:`begin` to :meth:`end`.

    ``restore_s``: the device restores its rules by itself when Weir has not come back for so long.
    """

    def __init__(self, target: Target, rules: DeviceFilter, restore_s: float = RESTORE_S) -> None:
        self.target = target
        self.filter = rules
        self.restore_s = restore_s
        self._owner = ""
        self._before = ""
        self._probed: set[tuple[bool, bool]] = set()
        """The kinds of rules (any, connection tracking) with which a login was tried."""
        self._left_s = 0.0
        self._lost = False

    @shielded
    def begin(self) -> None:
        """Save what there is and arm the switch; changes no rule.

        Raises ``LabError`` if another Weir uses the device, if objects with Weir's names are there, or if
        something fails there.
        """
        owner = _this_process()
        self._take(owner)
        self._owner = owner
        try:
            if existing := self.filter.existing(self.target):
                raise LabError(
                    f"{self.target.name} has {self.filter.own} already, and nothing that says it is Weir's: "
                    f"rename or remove it first:\n{existing.strip()[:400]}"
                )
            self._before = self._listed()
            self._write("restore", self.filter.restoring())
            self._write("watch", deadman.WATCH)
            self._write("load", deadman.LOAD)
            self._left_s = self.restore_s
            self._succeed(
                self._script(deadman.ARM, f"{self._wait_s}"), "the switch that restores it was not armed"
            )
        except WeirError:
            with suppress(WeirError):
                self.end()
            raise

    def apply(self, rules: RuleSetup) -> list[LoadCommand]:
        """Set ``rules`` and see that the device still lets Weir in; returns what was loaded.

        Raises ``LabError`` if the device refuses them, or restored its own rules meanwhile.
        """
        loads = self.filter.loads(rules)
        for load in loads:
            self.extend()
            done = self._run(["sh", f"{deadman.FOLDER}/load", self._owner, *load.command], load.text)
            if done.returncode == deadman.GONE:
                raise LabError(
                    f"{self.target.name}: rules were not loaded within {self._wait_s} s, after which the "
                    "device restores its own: fewer rules, or a longer time (restore_s)"
                )
            if done.returncode == deadman.FAILED:
                self._succeed(done, "no rule was set")
            if done.returncode:
                # Nothing is there to load with if the device has restored its rules since.
                self.extend()
                message = done.stderr or done.stdout
                raise LabError(refusal(load.command[0], message, load.text, f"rules for {self.target.name}"))
        kind = bool(rules.position), rules.stateful
        if kind not in self._probed:
            self._probe()
            self._probed.add(kind)
        return loads

    def extend(self, beyond_s: float = 0.0) -> None:
        """Have the device wait again, ``beyond_s`` more seconds than usual; raises ``LabError`` if it has
        restored its rules."""
        self._left_s = self.restore_s + beyond_s
        self._succeed(self._script(deadman.MOVE, self._owner, str(self._wait_s)), "the switch was not set")

    def _probe(self) -> None:
        try:
            self.target.check_login()
        except UnreachableTarget as error:
            raise UnreachableTarget(
                f"with Weir's rules, {self.target.name} lets nobody log in any more ({error}): it restores "
                f"its own within {self._wait_s} s"
            ) from error

    @shielded
    def end(self) -> str:
        """Restore the device's rules, disarm, and compare them with those before.

        Returns what differs, empty if nothing does; does nothing without :meth:`begin`. Raises ``LabError``
        if that cannot be done: the device then does it by itself. A device that was lost before is tried once
        more, without a second error.
        """
        owner, self._owner = self._owner, ""
        if not owner:
            return ""
        lost = self._lost
        try:
            done = self._script(deadman.END, owner)
        except UnreachableTarget:
            if lost:
                return ""
            raise
        if done.returncode == deadman.GONE:
            return ""
        if done.returncode:
            raise LabError(
                f"{self.target.name}: Weir's rules could not be removed there: {done.stderr.strip()[-400:]}. "
                f"The device tries again by itself within {self._wait_s} s; docs/remote.md says how to do it "
                "by hand"
            )
        after = self._listed()
        return difference(self._before, after) if self._before else ""

    @property
    def _wait_s(self) -> int:
        return _seconds(self._left_s)

    def _take(self, owner: str) -> None:
        for _ in range(2):
            done = self._script(deadman.BEGIN, owner)
            if done.returncode != deadman.BUSY:
                return self._succeed(done, "nothing was changed there")
            before, _, left = done.stdout.partition("\n")
            if not _is_gone(before):
                host, process = [*before.split(), "?", "?"][:2]
                if re.fullmatch(r"-\d{2,}", left.strip()):
                    raise LabError(
                        f"{self.target.name} has not removed the rules of another Weir (process {process} on "
                        f"{host}) in time, see {deadman.FOLDER}/log there: remove them by hand, as "
                        "docs/remote.md says, and then that folder"
                    )
                wait = f", within {left.strip()} s" if left.strip() else ""
                raise LabError(
                    f"{self.target.name} is being tested by another Weir (process {process} on {host}). "
                    "Wait until it has ended; if it was killed, the device restores its rules by "
                    f"itself{wait}"
                )
            # Its process was on this host and is gone: what it would have done is done now.
            self._succeed(self._script(deadman.END, before), "what an earlier run changed was not restored")
        raise LabError(
            f"{self.target.name}: {deadman.FOLDER} is taken again and again; is another Weir at it?"
        )

    def _listed(self) -> str:
        done = self.filter.listing(self.target)
        if done.returncode:
            raise LabError(
                f"{self.target.name} does not list its rules: {(done.stderr or done.stdout).strip()[-400:]}"
            )
        return done.stdout

    def _write(self, name: str, text: str) -> None:
        done = self._run(["sh", "-c", f"umask 077; cat >{shlex.quote(f'{deadman.FOLDER}/{name}')}"], text)
        self._succeed(done, "nothing was changed there")

    def _script(self, script: str, *arguments: str) -> Output:
        return self._run(["sh", "-s", *arguments], script)

    def _run(self, argv: Sequence[str], stdin: str = "") -> Output:
        try:
            return self.target.run(argv, stdin)
        except UnreachableTarget as error:
            self._lost = True
            if not self._left_s:
                raise
            raise UnreachableTarget(
                f"{error}. The device itself removes the rules that Weir set there, within {self._wait_s} s"
            ) from error

    def _succeed(self, done: Output, otherwise: str) -> None:
        if done.returncode == 0:
            return
        name, words = self.target.name, " ".join((done.stderr or done.stdout).split())[-400:]
        if done.returncode == deadman.GONE:
            self._owner = ""
            away = _seconds(self.restore_s)
            raise LabError(
                f"{name} restored its own rules while Weir was away for more than {away} s, or it was "
                "restarted: what is measured from here on would be another device. Trials so far are "
                "kept; resume the run"
            )
        if done.returncode == deadman.KILLED:
            raise LabError(
                f"{name}: the process that would restore its rules was ended there; Weir restores them now"
            )
        if re.search("no space left|disk quota|not enough space", words, re.IGNORECASE):
            raise LabError(
                f"the disk of {name} is full ({words}): make room below {deadman.FOLDER}; {otherwise}"
            )
        if re.search("read-only", words, re.IGNORECASE):
            raise LabError(
                f"{name}: {words}: {deadman.FOLDER} must be on a file system that can be written to; "
                f"{otherwise}"
            )
        if re.search("permission denied|operation not permitted", words, re.IGNORECASE):
            raise MissingCapability(f"{name}: {words}: Weir needs the rights of root there; {otherwise}")
        raise LabError(f"{name}: {otherwise}: {words or f'exit code {done.returncode}'}")


def _seconds(length_s: float) -> int:
    return max(1, round(length_s))


def difference(before: str, after: str) -> str:
    """The lines in which two listings differ, as ``- before`` and ``+ after``; empty if none."""
    import difflib

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def _this_process() -> str:
    """Identifies this process for good: host, number, the host's identifier, start."""
    return f"{platform.node() or '-'} {os.getpid()} {_machine()}-{_start(os.getpid())}-{time.time_ns()}"


def _is_gone(owner: str) -> bool:
    """Whether ``owner`` was a process of this host that has ended, or nobody."""
    match = re.fullmatch(r"\S+ (\d+) (\S*)-(\d*)-\d+", owner)
    if match is None:
        return not owner.strip()
    return match[2] == _machine() and _start(int(match[1])) != match[3]


def _machine() -> str:
    with suppress(OSError):
        # Images of containers have an empty one.
        if found := _MACHINE.read_text().strip()[:8]:
            return found
    return platform.node()


def _start(process: int) -> str:
    """When a process started, in ticks since the host did; empty if there is none."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
