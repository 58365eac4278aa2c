"""``weir tap`` and ``weir log``: take the link, watch it, and give it back as it was."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyroute2.ethtool.ioctl import EthtoolError
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import LabError, MissingCapability
from weirlab.lab.linux import inventory
from weirlab.lab.linux.syscalls import effective_capabilities, way_out
from weirlab.link import bindings
from weirlab.link.host import interfaces, journal
from weirlab.link.host.duplicate import DIFFERENCES, KernelBridge
from weirlab.link.recording.process import FrameSource
from weirlab.link.recording.supervisor import Supervisor
from weirlab.link.session import LinkOutcome, LinkSession, LinkWatcher, SessionPlan
from weirlab.link.settings import LogSettings, RecorderSettings, TapSettings
from weirlab.link.stopping import Stop

_NET_ADMIN: Final = 12
_NET_RAW: Final = 13

OpenTap = Callable[[TapSettings], bindings.Tap]


class Notes:
    """What was changed and what the user should know: shown at once, and kept for the manifest."""

    def __init__(self, watcher: LinkWatcher) -> None:
        self.kept: list[str] = []
        self._watcher = watcher

    def __call__(self, message: str) -> None:
        self.kept.append(message)
        self._watcher.note(message)

    def each(self, messages: Iterable[str]) -> None:
        """All of them, as they come."""
        for message in messages:
            self(message)


def run_tap(
    settings: TapSettings,
    watcher: LinkWatcher,
    stop: Stop,
    *,
    manifest: Path | None = None,
    command: str = "",
    open_tap: OpenTap = bindings.open_tap,
) -> LinkOutcome:
    """Bridge, copy and record until ``stop`` or the end of the duration; then restore everything.

    Raises
    ------
    InputError
        An interface, a filter or a file cannot be used.
    MissingCapability
        A privilege or a kernel feature is missing, and there is no fallback for it.
    LabError
        Something else uses an interface.
    """
    with understood():
        require_privileges("weir tap")
        notes = Notes(watcher)
        journal.clean(notes)
        where = f"in namespace {settings.netns}" if settings.netns else "here"
        found = inventory.look(settings.netns)
        chosen = interfaces.choose(found, settings.interfaces, where)
        ends = chosen[:2]
        for facts in ends:
            interfaces.check_end(facts, xdp=settings.fallback != "only")
        if settings.mirror is not None:
            interfaces.check_mirror(chosen[2])
        notes.each(interfaces.warnings(ends))
        outputs = _outputs(settings.recording, manifest)
        with _claimed(outputs, "weir tap"), _journal(notes) as changes:
            changes.occupy({facts.name: (settings.netns, facts.index) for facts in ends}, "weir tap")
            # Before they are up, or IPv6 would already have sent.
            notes.each(interfaces.silence(changes, settings.netns, ends))
            notes.each(interfaces.ends(changes, settings.netns, ends))
            for facts in chosen[2:]:
                notes.each(interfaces.up(changes, settings.netns, facts))
            far = interfaces.peers(ends, settings.netns)
            notes.each(interfaces.far_ends(changes, far, xdp=settings.fallback != "only"))
            tap, mode = _bridge(settings, changes, notes, open_tap)
            link = settings.a, settings.b, settings.mirror
            plan = SessionPlan("tap", command, mode, settings.duration_s, manifest, *link)
            try:
                recorder = _recorder(settings, tap, notes)
                return _watch(plan, watcher, stop, notes, lambda: _undo(changes, notes), recorder, tap)
            finally:
                tap.close()


def run_log(
    settings: LogSettings,
    watcher: LinkWatcher,
    stop: Stop,
    *,
    manifest: Path | None = None,
    command: str = "",
) -> LinkOutcome:
    """Record an interface until ``stop`` or the end of the duration. Raises as :func:`run_tap`."""
    with understood():
        require_privileges("weir log")
        notes = Notes(watcher)
        journal.clean(notes)
        where = f"in namespace {settings.netns}" if settings.netns else "here"
        (facts,) = interfaces.choose(inventory.look(settings.netns), (settings.interface,), where)
        outputs = _outputs(settings.recording, manifest)
        with _claimed(outputs, "weir log"), _journal(notes) as changes:
            if not facts.loopback and facts.ethernet:
                if settings.wire:
                    notes.each(interfaces.receive_as_on_the_wire(changes, settings.netns, facts.name))
                elif merging := interfaces.merging(settings.netns, facts.name):
                    notes(
                        f"{facts.name}: {' and '.join(merging)} on: frames that arrive together are recorded "
                        "as one, longer than on the wire; --wire switches that off while recording"
                    )
            notes.each(interfaces.up(changes, settings.netns, facts))
            promiscuous = interfaces.PromiscuousMode(settings.netns, [facts.index])
            try:
                source = FrameSource(interface=settings.interface, netns=settings.netns)
                comment = f"weir log of {settings.interface}"
                recorder = Supervisor(settings.recording, source, notes, comment=comment)
                plan = SessionPlan("log", command, {"capture": "af_packet"}, settings.duration_s, manifest)
                return _watch(plan, watcher, stop, notes, lambda: _undo(changes, notes), recorder)
            finally:
                promiscuous.close()


def require_privileges(command: str) -> None:
    """Raise ``MissingCapability`` without the rights to change interfaces and to open packet sockets."""
    effective = effective_capabilities()
    if not (effective >> _NET_ADMIN & 1 and effective >> _NET_RAW & 1):
        raise MissingCapability(
            f"{command} needs CAP_NET_ADMIN and CAP_NET_RAW (a tap also CAP_BPF): run as root "
            f"(sudo {command} ...); in a container: --privileged"
        )


def _bridge(
    settings: TapSettings, changes: journal.Journal, notes: Notes, open_tap: OpenTap
) -> tuple[bindings.Tap, dict[str, Any]]:
    """Open the bridge; returns it and, for the manifest, how it works."""
    reason = "requested (--fallback only)"
    if settings.fallback != "only":
        try:
            tap = open_tap(settings)
        except MissingCapability as error:
            if settings.fallback == "never":
                raise
            reason = str(error)
        else:
            notes.each(tap.warnings)
            if tap.xdp_mode == "generic":
                notes("XDP runs in the kernel's generic hook here, not in the drivers, which is slower")
            return tap, {"bridge": "xdp", "xdp_mode": tap.xdp_mode}
    notes(f"falling back to a Linux bridge: {reason}. Differences: {'; '.join(DIFFERENCES)}")
    return KernelBridge(settings, changes), {
        "bridge": "linux",
        "fallback_reason": reason,
        "differences": list(DIFFERENCES),
    }


def _recorder(settings: TapSettings, tap: bindings.Tap, notes: Notes) -> Supervisor | None:
    """The recorder of a tap; None for a mirror only."""
    if settings.recording is None:
        return None
    ring_fds = tuple(tap.ring_fds())
    # Without a ring, listen at one end: what arrives and what leaves there are both directions.
    source = FrameSource(ring_fds) if ring_fds else FrameSource(interface=settings.a, netns=settings.netns)
    comment = f"weir tap between {settings.a} and {settings.b}"
    return Supervisor(settings.recording, source, notes, comment=comment)


def _watch(
    plan: SessionPlan,
    watcher: LinkWatcher,
    stop: Stop,
    notes: Notes,
    restore: Callable[[], tuple[str, ...]],
    recorder: Supervisor | None,
    tap: bindings.Tap | None = None,
) -> LinkOutcome:
    try:
        if recorder is not None:
            recorder.begin()
        session = LinkSession(plan, watcher, tap=tap, recorder=recorder, notes=notes.kept)
        session.run(stop)
        return session.finish(restore)
    finally:
        if recorder is not None:
            recorder.close()


@contextmanager
def _claimed(outputs: Mapping[str, Path], who: str) -> Iterator[None]:
    """Keep other sessions from writing ``outputs`` until the last manifest is written."""
    claims = journal.Journal()
    try:
        claims.claim(outputs, who)
        yield
    finally:
        claims.undo()


@contextmanager
def _journal(notes: Notes) -> Iterator[journal.Journal]:
    changes = journal.Journal()
    try:
        yield changes
    finally:
        _undo(changes, notes)


def _undo(changes: journal.Journal, notes: Notes) -> tuple[str, ...]:
    problems = changes.undo()
    notes.each(problems)
    return problems


def _outputs(recording: RecorderSettings | None, manifest: Path | None) -> dict[str, Path]:
    """The files that will be written, by the option that names them."""
    named = {"--write": recording.path if recording else None, "--manifest": manifest}
    return {option: path for option, path in named.items() if path is not None}


@contextmanager
def understood() -> Iterator[None]:
    """Translate the kernel's errors into Weir's."""
    try:
        yield
    except NetlinkError as error:
        if error.code == errno.EPERM:
            advice = way_out(PermissionError(error.code, ""))
            raise MissingCapability(f"no right to change interfaces; {advice}") from error
        raise LabError(f"the kernel refuses: {error}") from error
    except EthtoolError as error:
        raise LabError(f"the kernel refuses to read or switch offloads: {error}") from error
    except PermissionError as error:
        raise MissingCapability(f"{error}; {way_out(error)}") from error
