"""DNS queries of engines during a call, and whether the answers agree with the plan. Pure."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.base.quantities import duration, plural
from weirlab.numbering.lab.engines import Daemon
from weirlab.numbering.lab.probes import HEADER, RECORD, name_at
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.plan.values import digits_below, owner_name
from weirlab.numbering.proof.wire.packets import TransportAddress, datagrams
from weirlab.numbering.routing import PlanNetwork

SLOW_NS: Final = 500_000_000
"""Time above which an answer from a server's own zones is slow."""

_PORT: Final = 53
_NAPTR: Final = 35
_TRUNCATED: Final = 0x0200
_KINDS: Final = {1: "A", 28: "AAAA", 33: "SRV", 35: "NAPTR"}

Naptr = tuple[int, int, str, str, str]
"""Order, preference, service, regexp and replacement, which is empty for the root."""


@dataclass(frozen=True)
class DnsQuery:
    """A query to a name server, and its answer."""

    asker: TransportAddress
    server: TransportAddress
    name: str
    kind: str
    at_ns: int
    answered_ns: int | None = None
    naptr: frozenset[Naptr] = frozenset()
    whole: bool = True
    """False for a truncated answer, which is requested again over TCP (RFC 1035, 4.2.1)."""


def questions(frames: Iterable[Frame]) -> list[DnsQuery]:
    """Queries in the order in which they were sent."""
    found: list[DnsQuery] = []
    waiting: dict[tuple[TransportAddress, TransportAddress, int], int] = {}
    for at_ns, source, target, content in datagrams(frames):
        if _PORT not in (source.port, target.port):
            continue
        try:
            number, name, kind, naptr, whole = _read(content)
        except (struct.error, IndexError, ValueError):
            continue
        if target.port == _PORT:
            waiting[source, target, number] = len(found)
            found.append(DnsQuery(source, target, name, _KINDS.get(kind, str(kind)), at_ns))
        elif (place := waiting.pop((target, source, number), None)) is not None:
            asked = found[place]
            found[place] = DnsQuery(
                asked.asker, asked.server, asked.name, asked.kind, asked.at_ns, at_ns, naptr, whole
            )
    return found


def untrue(network: PlanNetwork, asked: Sequence[DnsQuery], servers: Sequence[Daemon]) -> Iterator[str]:
    """A phrase for every name whose NAPTR records differ from the plan."""
    told: set[tuple[str, str]] = set()
    for each in asked:
        is_answered = each.answered_ns is not None and each.whole
        if each.kind != "NAPTR" or not is_answered or (each.server.address, each.name) in told:
            continue
        wanted = _planned(network, each.name)
        if wanted is not None and wanted != each.naptr:
            told.add((each.server.address, each.name))
            yield (
                f"{_server(each, servers)} answers {_shown(each.naptr)} for {each.name}, but the plan says "
                f"{_shown(wanted)}"
            )


def troubles(asked: Sequence[DnsQuery], servers: Sequence[Daemon]) -> Iterator[str]:
    """A phrase for every server that did not answer, or answered slowly."""
    for server in servers:
        to_it = [each for each in asked if each.server.address == server.address]
        silent = sum(each.answered_ns is None for each in to_it)
        if silent:
            yield f"{server.name} did not answer {silent} of {plural(len(to_it), 'query', 'queries')}"
        longest = longest_ns(to_it)
        if longest > SLOW_NS:
            yield f"{server.name} took {duration(longest)} to answer"


def longest_ns(asked: Sequence[DnsQuery]) -> float:
    """The longest time that an answer took; NaN without answers."""
    took = [float(each.answered_ns - each.at_ns) for each in asked if each.answered_ns is not None]
    return max(took, default=math.nan)


def answering(asked: Sequence[DnsQuery], servers: Sequence[Daemon]) -> list[str]:
    """Names of the servers that answered something."""
    found = {each.server.address for each in asked if each.answered_ns is not None}
    return [server.name for server in servers if server.address in found]


def _planned(network: PlanNetwork, name: str) -> frozenset[Naptr] | None:
    """The records that the plan has for a name; None if the name is in no tree."""
    trees = network.plan.trees
    below = ((each, digits_below(name, tree.suffix)) for each, tree in trees.items())
    # A suffix may lie below another one.
    known = [(len(trees[each].suffix), each, digits) for each, digits in below if digits is not None]
    if not known:
        return None
    _, tree, digits = max(known)
    index = network.trees[tree].lookup(digits)
    if index is None:
        return frozenset()
    entry = network.plan.enum[index]
    return frozenset(
        (
            record.order,
            record.preference,
            record.service,
            record.expression,
            owner_name(entry.digits, trees[record.refer].suffix).rstrip(".") if record.refer else "",
        )
        for record in entry.naptr
    )


def _shown(records: frozenset[Naptr]) -> str:
    if not records:
        return "nothing"
    return ", ".join(
        f"{service} {regexp} {replacement}".strip() for *_, service, regexp, replacement in sorted(records)
    )


def _server(asked: DnsQuery, servers: Sequence[Daemon]) -> str:
    return next(
        (server.name for server in servers if server.address == asked.server.address), asked.server.address
    )


def _read(content: bytes) -> tuple[int, str, int, frozenset[Naptr], bool]:
    """ID, name and type of a query; the NAPTR records of its answer, and whether it is complete."""
    number, flags, questions, answers, _, _ = HEADER.unpack_from(content)
    if questions != 1:
        raise ValueError("no single question")
    name, at = name_at(content, HEADER.size)
    (kind,) = struct.unpack_from(">H", content, at)
    at += 4
    naptr = set()
    for _ in range(answers):
        _, at = name_at(content, at)
        found, _, _, size = RECORD.unpack_from(content, at)
        at += RECORD.size
        if found == _NAPTR:
            naptr.add(_naptr(content, at))
        at += size
    return number, name, kind, frozenset(naptr), not flags & _TRUNCATED


def _naptr(content: bytes, at: int) -> Naptr:
    """A record's data (RFC 3403, 4.1)."""
    order, preference = struct.unpack_from(">HH", content, at)
    at += 4
    texts = []
    for _ in range(3):
        size = content[at]
        texts.append(content[at + 1 : at + 1 + size].decode("utf-8", "replace"))
        at += 1 + size
    _, service, regexp = texts
    return order, preference, service, regexp, name_at(content, at)[0]
