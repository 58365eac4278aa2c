"""Keeps a recorder going: notices its death at once, starts another, works out what was lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.base.errors import InputError, LabError, MissingCapability, StoreError, WeirError
from weirlab.link import bindings
from weirlab.link.account import RecordGap
from weirlab.link.recording.process import (
    Child,
    FrameSource,
    RecorderProcess,
    RecorderRun,
    gap_behind,
    wait_for,
)
from weirlab.link.settings import RecorderSettings, part_path

TRIES: Final = 5
"""Restarts in a row after recorders that died young, before giving up."""
YOUNG_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.5
SILENT_S: Final = 2.0
"""A recorder reports four times a second; one that is silent for this long has stalled."""
PATIENCE_S: Final = 60.0
"""How long to wait for a recorder that does not begin, or makes no progress in finishing."""
PERIOD_S: Final = 0.25

Launch = Callable[[RecorderSettings, Path, FrameSource, str], Child]
Look = Callable[[str], Mapping[str, Any] | None]
Wait = Callable[[Sequence[int], float], None]
Found = list[tuple[str, Mapping[str, Any] | None]]

_KINDS: Final[Mapping[str, type[WeirError]]] = {
    kind.__name__: kind for kind in (InputError, LabError, MissingCapability, StoreError)
}


@dataclass(frozen=True)
class RecorderClocks:
    """The time of day in ns and a monotonic clock in s; tests bring their own."""

    now_ns: Callable[[], int] = time.time_ns
    clock_s: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class RecorderEnvironment:
    """How recorders are started, files counted, and events waited for; tests bring their own."""

    launch: Launch = RecorderProcess
    look: Look = bindings.recorded
    wait: Wait = wait_for
    clocks: RecorderClocks = RecorderClocks()


CLOCKS: Final = RecorderClocks()
MEANS: Final = RecorderEnvironment()


class Supervisor:
    """Runs one recorder after the other, from :meth:`begin` to :meth:`finish`.

    Parameters
    ----------
    recording, source, comment
        What to write, where the frames come from, and the comment in the file.
    tell
        Gets one sentence for the user whenever something happens to the recorder.
    """

    def __init__(
        self,
        recording: RecorderSettings,
        source: FrameSource,
        tell: Callable[[str], None],
        *,
        comment: str = "",
        means: RecorderEnvironment = MEANS,
    ) -> None:
        self._launch, self._look, self._wait = means.launch, means.look, means.wait
        self._now_ns, self._clock_s = means.clocks.now_ns, means.clocks.clock_s
        self._recording, self._source, self._tell, self._comment = recording, source, tell, comment
        self._child: Child | None = None
        self._parts: list[RecorderRun] = []
        self._young_deaths = 0
        self._retry_at_s: float | None = None
        self._launched_s = self._heard_s = 0.0
        self._started = False
        self._given_up = ""
        self._skipped = 0
        """Names of later parts that files of an earlier session already have."""
        self._salvagers = ThreadPoolExecutor(1, "weir-salvage")
        self._salvaged: list[tuple[RecorderRun, Future[Found]]] = []

    @property
    def parts(self) -> Sequence[RecorderRun]:
        """Every recorder so far."""
        return self._parts

    @property
    def pid(self) -> int | None:
        """Process ID of the running recorder."""
        return self._child.pid if self._child else None

    def begin(self) -> None:
        """Start the first recorder and wait until it records. Raises the reason if it cannot."""
        try:
            self._start()
        except (OSError, RuntimeError) as error:
            raise LabError(f"the recorder cannot be started: {error}") from error
        end_s = self._clock_s() + PATIENCE_S
        while not self._started:
            child = self._working()
            self._wait(child.descriptors(), PERIOD_S)
            ended = child.ended()
            for message in child.hear():
                if "error" in message:
                    self._drop()
                    raise _KINDS.get(message["kind"], LabError)(message["error"])
                self._take(message)
            if not self._started and ended is not None:
                words = child.last_words()
                self._drop()
                raise LabError(f"the recorder {how(ended)} before it began: {words or 'no reason given'}")
            if self._clock_s() > end_s:
                self._drop()
                raise LabError(
                    f"the recorder did not begin within {PATIENCE_S:g} s: the machine is overloaded"
                )

    def descriptors(self) -> Sequence[int]:
        """Become readable when :meth:`tick` has something to do."""
        return self._child.descriptors() if self._child else ()

    def tick(self) -> None:
        """Take in what the recorder said; if it died, say so and start another. Never waits."""
        self._collect()
        if self._child is None:
            if self._retry_at_s is not None and self._clock_s() >= self._retry_at_s:
                try:
                    self._start()
                except (OSError, RuntimeError) as error:
                    self._follow(f"cannot be started ({error})")
            return
        ended = self._child.ended()
        reason = self._hear(self._child)
        if ended is not None:
            self._ended(ended, reason)
            self._follow(_because(how(ended), reason))

    def finish(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Let the recorder write what is left; kill it if it makes no progress for ``PATIENCE_S``.

        ``meanwhile`` is called four times a second for as long as that takes.
        """
        self._retry_at_s = None
        if (child := self._child) is not None:
            child.ask_to_finish()
            moved_s, stand = self._clock_s(), self._stand()
            while (ended := child.ended()) is None:
                self._wait(child.descriptors()[-1:], PERIOD_S)
                self._hear(child)
                if self._stand() != stand:
                    moved_s, stand = self._clock_s(), self._stand()
                elif self._clock_s() - moved_s > PATIENCE_S:
                    child.kill()
                meanwhile()
            reason = self._hear(child)
            if ended == 0 and self._parts[-1].ended_ns is not None:
                self._drop()
            else:
                self._ended(ended, reason)
                self._tell(f"the recorder {_because(how(ended), reason)} before it had finished")
        end_s = time.monotonic() + bindings.COUNT_S
        while (pending := [each for _, each in self._salvaged if not each.done()]) and (
            time.monotonic() < end_s
        ):
            wait(pending, PERIOD_S)
            meanwhile()
        self._collect()
        for part, _ in self._salvaged:
            part.uncounted = True
        self._salvaged.clear()
        self._salvagers.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Call :meth:`finish` if that has not happened; may be called twice."""
        if self._child is not None:
            self.finish()
        self._salvagers.shutdown(wait=False, cancel_futures=True)

    def files(self) -> tuple[dict[str, Any], ...]:
        """What has been written and closed."""
        return tuple(file for part in self._parts for file in part.files)

    def current(self) -> tuple[str, int]:
        """The file being written, and the bytes so far, before compression and of all files."""
        return (self._parts[-1].file or str(self._parts[-1].path) if self._parts else ""), sum(
            part.bytes for part in self._parts
        )

    @property
    def interrupted(self) -> bool:
        """Whether any recorder ended before it was asked to."""
        return any(part.died or part.early for part in self._parts)

    @property
    def uncounted(self) -> bool:
        """Whether one died and its files could not be counted."""
        return any(part.uncounted for part in self._parts)

    @property
    def failures(self) -> tuple[str, ...]:
        """The last failure of each, if it was still failing at its end."""
        return tuple(dict.fromkeys(part.failure for part in self._parts if part.failure))

    def gaps(self, vanished: int | None, end_ns: int) -> tuple[RecordGap, ...]:
        """Where the record lacks frames until ``end_ns``.

        ``vanished`` went with recorders that died (None: not known).
        """
        ring = bool(self._source.ring_fds)
        found = [gap for part in self._parts for gap in part.gaps]
        broken: list[tuple[RecorderRun, RecorderRun | None]] = []
        for n, part in enumerate(self._parts):
            following = next((each for each in self._parts[n + 1 :] if each.started), None)
            # The next recorder gets what one that ended in order left in the ring.
            unread = part.early and not (ring and following)
            if part.started and (part.died or unread) and not (ring and vanished == 0):
                broken.append((part, following))
        # Of several, only the total that all of them lost is known.
        frames = vanished if len(broken) == 1 else None
        found += [gap_behind(part, following, frames, ring=ring, end_ns=end_ns) for part, following in broken]
        return tuple(sorted(found, key=lambda gap: gap.from_ns))

    def troubles(self) -> tuple[str, ...]:
        """Current problems."""
        if self._given_up:
            return (self._given_up,)
        if self._child is None:
            return ("no recorder is running just now",) if self._retry_at_s is not None else ()
        found = []
        silent_s = self._clock_s() - self._heard_s
        if silent_s > SILENT_S:
            found.append(f"the recorder has been silent for {silent_s:.0f} s (process {self._child.pid})")
        if failure := self._parts[-1].failure:
            found.append(failure)
        return tuple(found)

    def _working(self) -> Child:
        assert self._child is not None
        return self._child

    def _start(self) -> None:
        """Start a recorder. Raises ``OSError`` or ``RuntimeError`` if the host lacks the resources."""
        self._retry_at_s = None
        self._started = False
        self._launched_s = self._heard_s = self._clock_s()
        number = len(self._parts)
        path = part_path(self._recording.path, number + self._skipped)
        while number and path.exists():
            self._skipped += 1
            path = part_path(self._recording.path, number + self._skipped)
        self._child = self._launch(self._recording, path, self._source, self._comment)
        now_ns = self._now_ns()
        self._parts.append(RecorderRun(number, path, now_ns, now_ns))

    def _hear(self, child: Child) -> str:
        """Take in all messages; returns why it gives up, if it gives a reason."""
        reason = ""
        for message in child.hear():
            reason = str(message["error"]) if "error" in message else reason
            # Skip messages that make no sense: they must not end the process that bridges.
            with suppress(KeyError, TypeError, ValueError):
                self._take(message)
        return reason

    def _take(self, message: Mapping[str, Any]) -> None:
        part = self._parts[-1]
        self._heard_s = self._clock_s()
        if "started" in message:
            self._started = part.started = True
            part.started_ns = self._now_ns()
        elif "progress" in message:
            part.hear(int(message["at_ns"]), message["progress"])
        elif "stopped" in message:
            part.hear(int(message["at_ns"]), message["stopped"])
            part.ended_ns = int(message["at_ns"])

    def _ended(self, returncode: int, reason: str) -> None:
        """Close the account of a recorder that ended unasked or not in good order."""
        part = self._parts[-1]
        self._drop()
        part.failure = part.failure or reason.rstrip(".")
        part.complaint = part.failure or part.complaint
        if part.ended_ns is not None:
            part.early = True
            return
        part.ended_ns, part.died = self._now_ns(), how(returncode)
        if not part.started:
            return
        try:
            self._salvaged.append((part, self._salvagers.submit(self._count, part)))
        except RuntimeError:
            # No thread available.
            part.uncounted = True

    def _follow(self, why: str) -> None:
        """After a recorder that ended or could not be started: another at once, after a pause, or never."""
        lived_s = self._clock_s() - self._launched_s
        self._young_deaths = self._young_deaths + 1 if lived_s < YOUNG_S else 1
        said = f"the recorder {why}; the link is not affected"
        if self._young_deaths > TRIES:
            self._given_up = (
                f"no further recorder is started: {self._young_deaths} failed in a row, and the "
                f"last one {why}"
            )
            self._tell(f"{self._given_up}; the link is not affected")
        elif self._young_deaths == 1:
            try:
                self._start()
            except (OSError, RuntimeError) as error:
                self._tell(said)
                self._follow(f"cannot be started ({error})")
            else:
                self._tell(f"{said}; another writes to {self._parts[-1].path}")
        else:
            pause_s = FIRST_PAUSE_S * 2 ** (self._young_deaths - 2)
            self._retry_at_s = self._clock_s() + pause_s
            self._tell(f"{said}; another is started in {pause_s:g} s")

    def _count(self, part: RecorderRun) -> Found:
        """What is in its files, also in those that came and went between two of its reports."""
        names = set(part.names)
        with suppress(OSError):
            for entry in part.path.parent.iterdir():
                # Older files of that name belong to an earlier session; file times are coarse.
                fresh = entry.stat().st_mtime_ns >= part.launched_ns - 1_000_000_000
                if fresh and part.wrote(entry.name):
                    names.add(str(entry))
        return [(name, self._look(name)) for name in sorted(names)]

    def _collect(self) -> None:
        """Take in what has been counted."""
        for part, counted in [each for each in self._salvaged if each[1].done()]:
            self._salvaged.remove((part, counted))
            try:
                found = counted.result()
                # A missing file was removed by rotation; one that exists but cannot be read was not counted.
                part.uncounted = any(values is None and Path(name).exists() for name, values in found)
                part.salvage(found)
            except (OSError, KeyError, TypeError, ValueError):
                part.uncounted = True

    def _stand(self) -> tuple[int, int]:
        """Grows while the recorder makes progress."""
        part = self._parts[-1]
        return sum(each.seen + each.written + each.not_written for each in part.recorded), part.bytes

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            if child.ended() is None:
                child.kill()
            child.close()


def _because(words: str, reason: str) -> str:
    return f"{words} ({reason})" if reason else words


def how(returncode: int) -> str:
    """How a recorder ended that was not told to, in words from ``subprocess.Popen.returncode``."""
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        return f"was killed by {name}"
    return "ended by itself" if returncode == 0 else f"failed with exit code {returncode}"
