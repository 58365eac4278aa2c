"""A link that the kernel's netem emulates: the commands of tc that carry it, and what netem counted.

The frames that come in by one end are redirected to the root of the other, where netem takes them. With a
rate there are two netems: that of the root delays and loses, and the one below it is queue and transmitter.
One alone would count the frames that are delayed as frames in the queue.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.emulation.reading import LinkSpec
from weirlab.emulation.spec import (
    DropTail,
    FrameListPattern,
    GilbertElliott,
    NoPattern,
    PathSpec,
    RandomPattern,
    RunPattern,
    Selection,
)
from weirlab.lab.linux import inventory
from weirlab.link.host import interfaces, journal
from weirlab.link.host.tools import INGRESS, ROOT, first_line, occupied, qdiscs, tc
from weirlab.link.tap import require_privileges, understood
from weirlab.links.emulator.running import Tell, prepare

QUEUE: Final = "7766:"
"""Handle of the netem below the root."""

MOST_FRAMES: Final = 1_000_000
"""Most frames on the way at a time. It only bounds the host's memory: the queue has its own limit."""

_IN_ORDER: Final = ("rate", "1000gbit")
"""With a rate netem lets no frame overtake another; this one costs a frame some ns."""

_HEADER_BYTES: Final = 14
_MOST_JITTER_NS: Final = 2**31 - 1
"""netem silently cuts off more (``sch_netem.c``, ``tabledist``)."""


def check(asked: LinkSpec) -> None:
    """Raise ``InputError`` for what netem cannot do, or does differently from ``weir link``."""
    for words, path in ((asked.up_words, asked.up), (asked.down_words, asked.down)):
        if "seed" in words:
            raise _refusal("seed", "it draws other random numbers each time")
        for option, why in _lacking(path):
            raise _refusal(option, why)


def notes(path: PathSpec) -> list[str]:
    """How netem differs from Weir's own emulator on ``path``, in sentences."""
    if path.rate_bps is None or path.loss == NoPattern():
        return []
    return ["netem loses frames before its queue: lost frames use none of the rate"]


def netems(path: PathSpec) -> list[list[str]]:
    """The options of each netem, that of the root first."""
    way: list[str] = []
    if path.delay_ns:
        way += ["delay", _time(path.delay_ns)]
    if (jitter := path.jitter) is not None:
        way += [_time(jitter.ns), *(["distribution", "normal"] if jitter.distribution == "normal" else [])]
        way += _IN_ORDER if jitter.keeps_order else ()
    way += _loss(path.loss)
    if isinstance(path.duplicate, RandomPattern):
        way += ["duplicate", _percent(path.duplicate.ratio)]
    delaying = ["limit", str(MOST_FRAMES), *way]
    if path.rate_bps is None:
        return [delaying]
    overhead = [str(path.overhead_bytes)] if path.overhead_bytes else []
    # The frame in transmission is in netem's queue, too.
    queue = ["limit", str(path.queue.amount + 1), "rate", f"{path.rate_bps}bit", *overhead]
    return [delaying, queue] if way else [queue]


def shape(target: str, path: PathSpec) -> list[list[str]]:
    """The commands of tc that make frames leave by ``target`` as ``path`` says."""
    root, *below = netems(path)
    add = ["qdisc", "add", "dev", target]
    return [
        [*add, "root", "handle", ROOT, "netem", *root],
        *([*add, "parent", f"{ROOT}1", "handle", QUEUE, "netem", *options] for options in below),
    ]


def redirect(source: str, target: str) -> list[list[str]]:
    """The commands of tc that make everything from ``source`` leave by ``target``."""
    return [
        ["qdisc", "add", "dev", source, "handle", INGRESS, "ingress"],
        # Not matchall, which fewer kernels have.
        f"filter add dev {source} parent {INGRESS} protocol all prio 1 u32 match u32 0 0 "
        f"action mirred egress redirect dev {target}".split(),
    ]


@dataclass(frozen=True)
class NetemDirection:
    """What netem counted of the frames that came in by ``source`` and were to leave by ``target``."""

    source: str
    target: str
    sent: int
    sent_bytes: int
    lost: int
    dropped_full: int
    """The queue had no room."""
    queued: int
    """Frames that wait for the rate, including the one in transmission."""

    @property
    def arrived(self) -> int:
        """Frames that netem took in, except those that it delays now: it does not report these."""
        return self.sent + self.gone + self.queued

    @property
    def gone(self) -> int:
        """Lost, or dropped."""
        return self.lost + self.dropped_full

    def document(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        return {"from": found.pop("source"), "to": found.pop("target"), **found}


def read_carried(
    told: Sequence[Mapping[str, Any]], source: str, target: str, path: PathSpec
) -> NetemDirection:
    """The counts in the output of ``tc -s -j`` for all qdiscs. Raises ``LabError`` if netem is gone."""
    found = {each["handle"]: each for each in told if each["dev"] == target and each["kind"] == "netem"}
    root, queue = found.get(ROOT), found.get(QUEUE)
    if root is None:
        raise LabError(f"the link ended: {target} is gone, or netem was removed from it")
    if queue is None and path.rate_bps is not None:
        queue = root
    # The root counts what the netem below it drops, too.
    full = queue["drops"] if queue is not None else 0
    return NetemDirection(
        source,
        target,
        sent=root["packets"],
        sent_bytes=root["bytes"],
        lost=root["drops"] - full,
        dropped_full=full,
        queued=queue["qlen"] if queue is not None else 0,
    )


def _lacking(path: PathSpec) -> Iterator[tuple[str, str]]:
    """Options, and why netem cannot do what they say."""
    duplicates = path.duplicate != NoPattern()
    if path.trace is not None:
        yield "trace", "it has no traces"
    if path.discipline != DropTail():
        yield "aqm", "its queue drops frames only when it is full"
    if path.queue.unit != "packets":
        yield "queue", "its queue is limited in packets alone"
    if path.overhead_bytes < -_HEADER_BYTES:
        yield "overhead", f"short frames would cost it less than nothing below -{_HEADER_BYTES}"
    if path.reorder is not None:
        yield "reorder", "it sends such frames at once, although they should leave later"
    if isinstance(path.loss, FrameListPattern):
        yield "loss", "it does not count frames"
    if duplicates and not isinstance(path.duplicate, RandomPattern):
        yield "duplicate", "it duplicates each frame independently"
    if duplicates and (path.rate_bps or path.loss != NoPattern() or path.jitter):
        yield "duplicate", "it duplicates frames first, so both copies meet --loss, --jitter and --rate"
    if path.jitter is not None and path.rate_bps is not None:
        yield "jitter", "it delays frames before its queue, so --rate takes jitter away"
    if path.jitter is not None and path.jitter.ns > _MOST_JITTER_NS:
        yield "jitter", f"its jitter is at most {_MOST_JITTER_NS / 1e9:.1f} s"


def _refusal(option: str, why: str) -> InputError:
    return InputError(f"--{option}: netem cannot do this: {why}; leave it out, or leave out --by netem")


def _loss(loss: Selection) -> list[str]:
    match loss:
        case RandomPattern(ratio):
            return ["loss", "random", _percent(ratio)]
        case RunPattern(ratio, mean_run):
            return _loss(GilbertElliott(ratio / mean_run / (1 - ratio), 1 / mean_run))
        case GilbertElliott(to_bad, to_good, in_bad, in_good):
            return ["loss", "gemodel", *map(_percent, (to_bad, to_good, in_bad, in_good))]
    return []


def _time(ns: int) -> str:
    # Not every tc knows ns.
    return f"{ns / 1000:.15g}us"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.10g}%"


_UNKNOWN: Final = ("qdisc kind is unknown", "qdisc not found", "No such file or directory")
"""What tc prints if the kernel has no such qdisc; the wording has changed over time."""


@dataclass(frozen=True)
class NetemCounters:
    """Both directions at one moment."""

    up: NetemDirection
    down: NetemDirection
    elapsed_s: float
    ended: bool
    """Its time is over."""

    @property
    def directions(self) -> tuple[NetemDirection, NetemDirection]:
        """Up first."""
        return self.up, self.down


class NetemLink:
    """A link that the kernel carries; for ``for_s``, if that is given."""

    def __init__(
        self, ends: tuple[str, str], netns: str | None, asked: LinkSpec, for_s: float | None
    ) -> None:
        self._ends, self._netns, self._asked, self._for_s = ends, netns, asked, for_s
        self._began_s = time.monotonic()

    def account(self) -> NetemCounters:
        """What netem has counted so far. Raises ``LabError`` if netem has been removed."""
        told = inventory.inside(self._netns, qdiscs)
        a, b = self._ends
        elapsed_s = time.monotonic() - self._began_s
        return NetemCounters(
            read_carried(told, a, b, self._asked.up),
            read_carried(told, b, a, self._asked.down),
            elapsed_s,
            self._for_s is not None and elapsed_s >= self._for_s,
        )

    stop = account


@contextmanager
@shielded
def netem_link(
    ends: tuple[str, str], netns: str | None, asked: LinkSpec, tell: Tell, for_s: float | None = None
) -> Iterator[NetemLink]:
    """Let the kernel carry frames between both ``ends`` in the namespace ``netns`` (None: this one).

    The end of the block ends the link and undoes all changes. After ``kill -9`` it goes on until
    the next ``weir link``, ``weir tap`` or ``weir lab clean``. ``tell`` gets what was changed, in words.

    Raises
    ------
    InputError
        An interface or a namespace is invalid, or netem cannot do what is requested.
    MissingCapability
        A privilege, tc or netem is missing.
    LabError
        An interface is in use by something else.
    """
    check(asked)
    changes: journal.Journal | None = None
    with ExitStack() as stack:
        try:
            with understood():
                require_privileges("weir link")
                if len(set(ends)) < 2:
                    raise InputError(f"{ends[0]}: a link has two ends; name two interfaces")
                journal.clean(tell)
                changes = journal.Journal()
                indices = _put_up(changes, ends, netns, asked, tell)
                stack.callback(interfaces.PromiscuousMode(netns, indices).close)
            yield NetemLink(ends, netns, asked, for_s)
        finally:
            for problem in changes.undo() if changes is not None else ():
                tell(problem)


def _put_up(
    changes: journal.Journal, ends: tuple[str, str], netns: str | None, asked: LinkSpec, tell: Tell
) -> list[int]:
    """Make the link, and return the indices of its interfaces."""
    where = f"in namespace {netns}" if netns else "here"
    chosen = interfaces.choose(inventory.look(netns), ends, where)
    changes.occupy({facts.name: (netns, facts.index) for facts in chosen}, "weir link --by netem")
    for facts in chosen:
        interfaces.check_end(facts, xdp=False)
        if taken := inventory.inside(netns, lambda name=facts.name: occupied(name)):  # type: ignore[misc]
            raise LabError(f"{facts.name} has {taken}")

    def attach() -> None:
        a, b = ends
        ways = ((a, b, asked.up), (b, a, asked.down))
        for _, target, path in ways:
            changes.note("netem", netns, target)
            inventory.inside(netns, partial(_apply, shape(target, path)))
        for source, target, _ in ways:
            changes.note("ingress", netns, source)
            inventory.inside(netns, partial(_apply, redirect(source, target)))

    prepare(changes, netns, chosen, tell, attach)
    return [facts.index for facts in chosen]


def _apply(commands: Sequence[Sequence[str]]) -> None:
    for command in commands:
        done = tc(*command)
        if not done.returncode:
            continue
        if "netem" in command and any(words in done.stderr for words in _UNKNOWN):
            raise MissingCapability("this kernel has no netem (sch_netem): leave out --by netem")
        raise LabError(f"tc: {first_line(done)} (tc {shlex.join(command)})")
