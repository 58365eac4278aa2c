"""A link as commands of tc: the qdiscs and filters that carry it, and what netem counted. Pure.

The frames that come in by one end are redirected to the root of the other, where netem takes them. With a
rate there are two netems: that of the root delays and loses, and the one below it is queue and transmitter.
One alone would count the frames that are delayed as frames in the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from weirlab.base.errors import InputError, LabError
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
from weirlab.link.host.tools import INGRESS, ROOT

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
