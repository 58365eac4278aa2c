"""A tap or a logger from its start to its end: watched four times a second, its manifest kept up to date."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from weirlab import __version__
from weirlab.base import files
from weirlab.base.errors import LabError, WeirError
from weirlab.link.account import FrameBalance, LinkSide, RecordGap, RingWatch, added, from_tap, verdict
from weirlab.link.bindings import Tap
from weirlab.link.recording.supervisor import CLOCKS, RecorderClocks, Supervisor
from weirlab.link.stopping import Stop

TICK_S: Final = 0.25
MANIFEST_EVERY_S: Final = 3.0

FORMAT: Final = 1
"""Raised when a reader of an older manifest would misunderstand a newer one."""

_CLOCK: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")

State = Literal["running", "finished"]


@dataclass(frozen=True)
class InterfaceRates:
    """What arrived on an interface since the previous look."""

    frames_per_s: float
    bits_per_s: float


@dataclass(frozen=True)
class Snapshot:
    """What is shown at one moment."""

    account: FrameBalance
    sentence: str
    elapsed_s: float
    left_s: float | None
    rates: Mapping[str, InterfaceRates] = field(default_factory=dict)
    file: str = ""
    file_bytes: int = 0


class LinkWatcher(Protocol):
    """Shows snapshots and notes to the user."""

    def show(self, snapshot: Snapshot) -> None: ...

    def note(self, message: str) -> None: ...


@dataclass(frozen=True)
class SessionPlan:
    """What a session is, for its manifest, and how long it lasts."""

    kind: Literal["tap", "log"]
    command: str
    mode: Mapping[str, Any]
    duration_s: float | None
    manifest: Path | None
    a: str = ""
    b: str = ""
    mirror: str | None = None


@dataclass(frozen=True)
class LinkOutcome:
    """How a session ended. ``document`` is the manifest."""

    document: Mapping[str, Any]
    last: Snapshot
    left: tuple[str, ...] = ()
    """What could not be restored, in words."""

    def problem(self) -> WeirError | None:
        """The error to report; None if everything was restored."""
        if not self.left:
            return None
        return LabError(
            f"the record is not affected, but this host could not be restored: {'; '.join(self.left)}"
        )


class LinkSession:
    """Watches ``tap`` (None: a logger) and ``recorder`` (None: a mirror only), both running already."""

    def __init__(
        self,
        plan: SessionPlan,
        watcher: LinkWatcher,
        *,
        tap: Tap | None = None,
        recorder: Supervisor | None = None,
        notes: list[str] | None = None,
        clocks: RecorderClocks = CLOCKS,
    ) -> None:
        self._plan, self._watcher, self._tap, self._recorder = plan, watcher, tap, recorder
        self._clock_s, self._now_ns = clocks.clock_s, clocks.now_ns
        self._notes = notes if notes is not None else []
        self._start_s, self._start_ns = self._clock_s(), self._now_ns()
        self._host = host_facts()
        self._ring = tap is not None and bool(tap.ring_fds())
        self._ringwatch = RingWatch()
        self._before: tuple[float, Mapping[str, tuple[int, int]]] | None = None
        self._manifest_s = float("-inf")
        self._manifest_failed = False

    def run(self, stop: Stop) -> None:
        """Watch until ``stop`` or the end of the time."""
        self.look()
        while not stop.requested and (self._left_s() is None or self._left_s() != 0.0):
            left_s = self._left_s()
            descriptors = self._recorder.descriptors() if self._recorder else ()
            stop.wait(descriptors, TICK_S if left_s is None else min(TICK_S, left_s))
            self.look()

    def look(self) -> Snapshot:
        """Take in what has happened, show it, and refresh the manifest if that is due."""
        if self._recorder is not None:
            self._recorder.tick()
        snapshot = self._snapshot(self._known(self._account()))
        self._watcher.show(snapshot)
        if self._clock_s() - self._manifest_s >= MANIFEST_EVERY_S:
            self._write(self._document("running", snapshot))
        return snapshot

    def finish(self, restore: Callable[[], tuple[str, ...]] = tuple) -> LinkOutcome:
        """Cut the link, let the recorder write what is in the ring, and close the account.

        ``restore`` restores everything else, and returns what it could not restore.
        """
        counters = None
        if self._tap is not None:
            counters = self._tap.counters()
            self._tap.close()
            # If it no longer answers, the earlier reading is the last one.
            with suppress(ValueError):
                counters = self._tap.counters()
        if self._recorder is not None:
            self._recorder.finish(lambda: self._show_writing(counters))
        left = restore()
        account = replace(self._known(self._settled(self._account(counters)), settled=True), finished=True)
        snapshot = self._snapshot(account)
        document = self._document("finished", snapshot)
        self._write(document, durable=True)
        self._watcher.show(snapshot)
        return LinkOutcome(document, snapshot, left)

    def _show_writing(self, counters: Mapping[str, Any] | None) -> None:
        account = self._known(self._account(counters))
        self._watcher.show(self._snapshot(account, ("writing what is in the ring",)))

    def _account(self, counters: Mapping[str, Any] | None = None) -> FrameBalance:
        sides: tuple[LinkSide, ...] = ()
        mirror = None
        assumed = False
        if self._tap is not None:
            told = self._tap.counters() if counters is None else counters
            sides, mirror = from_tap(told, self._plan.a, self._plan.b, self._plan.mirror)
            assumed = bool(told.get("assumed"))
            if self._ring:
                self._ringwatch.look(self._now_ns(), {side.interface: side.not_copied for side in sides})
        return FrameBalance(
            sides=sides,
            mirror=mirror,
            ring=self._ring,
            recorded=added(part.recorded for part in self._recorder.parts) if self._recorder else (),
            recording=self._recorder is not None,
            assumed=assumed,
        )

    def _known(self, account: FrameBalance, *, settled: bool = False) -> FrameBalance:
        """``account`` with what is known about the recorders themselves."""
        recorder = self._recorder
        if recorder is None:
            return account
        return replace(
            account,
            interrupted=recorder.interrupted,
            # A ring keeps frames while no recorder reads it; an interface does not.
            unknown=recorder.uncounted or (recorder.interrupted and not self._ring),
            failures=recorder.failures,
            gaps=self._gaps(recorder, account, settled=settled),
        )

    def _settled(self, account: FrameBalance) -> FrameBalance:
        """``account`` with what dead recorders lost or repeated, which follows from all other counts."""
        if not self._ring or self._recorder is None or not self._recorder.interrupted:
            return account
        difference = account.copied - sum(each.seen for each in account.recorded)
        return replace(account, vanished=max(difference, 0), repeated=max(-difference, 0))

    def _gaps(self, recorder: Supervisor, account: FrameBalance, *, settled: bool) -> tuple[RecordGap, ...]:
        gaps = recorder.gaps(account.vanished if self._ring and settled else None, self._now_ns())
        if not self._ring:
            return gaps
        # What a dead recorder knew of the ring is gone; what was seen from here counts instead.
        told = sum(gap.frames or 0 for gap in gaps if gap.stage == "ring")
        if told == account.ring_lost:
            return gaps
        others = [gap for gap in gaps if gap.stage != "ring"]
        return tuple(sorted([*others, *self._ringwatch.gaps()], key=lambda gap: gap.from_ns))

    def _snapshot(self, account: FrameBalance, troubles: tuple[str, ...] = ()) -> Snapshot:
        if account.finished:
            troubles = account.failures
        elif not troubles and self._recorder is not None:
            troubles = self._recorder.troubles()
        file, file_bytes = self._recorder.current() if self._recorder is not None else ("", 0)
        return Snapshot(
            account=account,
            sentence=verdict(account, troubles),
            elapsed_s=self._clock_s() - self._start_s,
            left_s=self._left_s(),
            rates=self._rates(account),
            file=file,
            file_bytes=file_bytes,
        )

    def _rates(self, account: FrameBalance) -> dict[str, InterfaceRates]:
        now_s = self._clock_s()
        if account.sides:
            now = {side.interface: (side.received, side.bytes) for side in account.sides}
        else:
            # A recorder reports bytes only for all its interfaces together.
            now = {each.name: (each.seen + each.lost, 0) for each in account.recorded}
        before, self._before = self._before, (now_s, now)
        if before is None or now_s <= before[0]:
            return {}
        lasted_s = now_s - before[0]
        return {
            name: InterfaceRates(
                max(frames - before[1][name][0], 0) / lasted_s, (size - before[1][name][1]) * 8 / lasted_s
            )
            for name, (frames, size) in now.items()
            if name in before[1]
        }

    def _left_s(self) -> float | None:
        if self._plan.duration_s is None:
            return None
        return max(self._plan.duration_s - (self._clock_s() - self._start_s), 0.0)

    def _document(self, state: State, snapshot: Snapshot) -> dict[str, Any]:
        """The manifest for JSON. Sums and ``complete`` are only checked at the end: until then, frames are
        in flight."""
        files: tuple[Mapping[str, Any], ...] = self._recorder.files() if self._recorder is not None else ()
        if state == "running" and self._recorder is not None:
            files = (*files, {"path": snapshot.file, "open": True})
        account = snapshot.account
        sums = [{**asdict(each), "holds": each.holds} for each in account.sums()] if account.finished else []
        return {
            "kind": self._plan.kind,
            "format": FORMAT,
            "version": __version__,
            "command": self._plan.command,
            "host": self._host,
            "mode": dict(self._plan.mode),
            "state": state,
            "start_ns": self._start_ns,
            # While running, the time of the last update, which is all that remains after a crash.
            "end_ns": self._now_ns(),
            "link": [asdict(side) for side in account.sides],
            "mirror": asdict(account.mirror) if account.mirror else None,
            "link_assumed": account.assumed,
            "cut": account.cut,
            "recorder": [asdict(each) for each in account.recorded],
            "lost_with_recorder": account.vanished,
            "repeated": account.repeated,
            "missing": account.missing,
            "missing_unknown": account.unknown,
            "complete": account.complete,
            "sums": sums,
            "sums_hold": all(each["holds"] for each in sums) if sums else None,
            "gaps": [asdict(gap) for gap in account.gaps],
            "parts": [part.document() for part in self._recorder.parts] if self._recorder else [],
            "files": [dict(file) for file in files],
            "notes": list(self._notes),
            "conclusion": snapshot.sentence,
        }

    def _write(self, document: Mapping[str, Any], *, durable: bool = False) -> None:
        """Write the manifest. A failure is reported once and ends nothing; the next write tries again."""
        if self._plan.manifest is None:
            return
        self._manifest_s = self._clock_s()
        try:
            write_manifest(self._plan.manifest, document, durable=durable)
        except WeirError as error:
            if not self._manifest_failed:
                self._watcher.note(str(error))
            self._manifest_failed = True


def host_facts() -> dict[str, str]:
    """What time stamps and losses may depend on."""
    try:
        clock = _CLOCK.read_text().strip()
    except OSError:
        clock = ""
    return {"kernel": platform.release(), "machine": platform.machine(), "clock_source": clock}


def write_manifest(path: Path, content: Mapping[str, Any], *, durable: bool = False) -> None:
    """Replace ``path`` in one step: a reader sees the old manifest or the new one, never half of it.

    ``durable``: it is on the disk when this returns, even if the power then fails.
    Raises as :func:`weirlab.base.files.write`; on error, the old manifest stays.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # A file name that is not UTF-8 becomes a JSON escape.
    encoded = text.encode(errors="backslashreplace")
    elsewhere = "name another place with --manifest"
    files.write_bytes(path, encoded, durable=durable, elsewhere=elsewhere)
