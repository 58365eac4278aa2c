"""Random numbers: what the plan says of each is what name servers answer, and the way that Kamailio takes.

``make voice-numbers`` asks for 10,000 of them, and has Kamailio route 300.
"""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Iterable, Iterator
from datetime import date
from functools import partial

import dns.message
import dns.query
import dns.rdatatype
import pytest

from weirlab.numbering.configs.parts import sip_uri
from weirlab.numbering.lab import VoiceLab, engines
from weirlab.numbering.plan import load, ready
from weirlab.numbering.plan.values import MOST_DIGITS, digits_below, owner_name
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls, in_order

pytestmark = pytest.mark.netns

NUMBERS = int(os.environ.get("WEIR_VOICE_NUMBERS", "500"))
"""Asked of the name servers; 3 % of them are called."""
SEED = 20261123
DAY = date(2026, 11, 23)
PLAN = "carriers"
PATIENCE_S = 60.0
AGAIN_S = 1.0
"""A request without an answer is sent again, as UDP asks for it."""

Naptr = tuple[int, int, str, str, str, str]
"""Order, preference, flags, service, expression, replacement."""


@pytest.fixture(scope="module")
def lab() -> Iterator[VoiceLab]:
    if missing := engines.lacking([*engines.PACKAGES]):
        pytest.skip(missing)
    with VoiceLab(PlanNetwork(load(ready.FOLDER / f"{PLAN}.yaml"), DAY), 0.3) as opened:
        yield opened


def drawn(named: Iterable[str], count: int, beginning: str = "") -> list[str]:
    """Digits of different numbers that begin so: they continue those ``named``, or a part of them."""
    draw = random.Random(SEED)
    known = [each for each in named if each.startswith(beginning)] or [beginning]
    found: dict[str, None] = {}
    while len(found) < count:
        whole = draw.choice(known)
        kept = draw.choice((whole, whole[: draw.randint(len(beginning), len(whole))]))
        more = "".join(draw.choices("0123456789", k=draw.randint(0, MOST_DIGITS - len(kept))))
        digits = draw.choice((whole, kept + more, kept + more))
        if len(digits) > len(beginning):
            found[digits] = None
    return [*found]


def planned_records(network: PlanNetwork, tree: str, digits: str) -> list[Naptr]:
    """What the plan says that the tree answers."""
    index = network.trees[tree].lookup(digits)
    if index is None:
        return []
    entry = network.plan.enum[index]
    found: list[Naptr] = []
    for _, each in in_order(entry):
        if each.refer is not None:
            refer = owner_name(entry.digits, network.plan.trees[each.refer].suffix)
            found.append((each.order, each.preference, "", "", "", refer))
        else:
            found.append((each.order, each.preference, "u", each.service, each.expression, "."))
    return sorted(found)


def served_records(name: str, server: str) -> list[Naptr]:
    """What the name server at this address answers. Call inside a host."""
    answer = dns.query.udp(dns.message.make_query(name, "NAPTR"), server, timeout=PATIENCE_S)
    return sorted(
        (each.order, each.preference, each.flags.decode(), each.service.decode(), each.regexp.decode(),
         str(each.replacement))
        for rrset in answer.answer
        if rrset.rdtype == dns.rdatatype.NAPTR
        for each in rrset
    )  # fmt: skip


def test_name_servers_answer_what_the_plan_says(lab: VoiceLab) -> None:
    network, host = lab.network, lab.at("phone")
    servers = [daemon.address for daemon in lab.daemons if daemon.program == "named"]
    trees = [*network.plan.trees.items()]
    answered = 0
    for rank, (name, tree) in enumerate(trees):
        top = digits_below(tree.origin, tree.suffix)
        assert top is not None
        share = len(range(rank, NUMBERS, len(trees)))
        entries = [entry for entry in network.plan.enum if entry.tree == name]
        # Numbers of their own are few, and soon all drawn.
        named = [entry.digits for entry in entries for _ in range(1 if entry.number else 9)]
        for count, digits in enumerate(drawn(named, share, top)):
            wanted = planned_records(network, name, digits)
            ask = partial(served_records, owner_name(digits, tree.suffix), servers[count % len(servers)])
            assert host.call(ask) == wanted, f"+{digits} in tree {name}"
            answered += bool(wanted)
    assert NUMBERS / 10 < answered < NUMBERS * 9 / 10, "numbers with an answer, and numbers without one"


_ROUTE = re.compile(r"\bROUTE num=(\S*) via=(\S+)(?: target=(\S+))?")


def planned_decision(network: PlanNetwork, number: str, caller: str) -> tuple[str, str]:
    """By what the caller's proxy decides, and where it sends the call first; else the answer."""
    way = next(calls(network, number, caller))
    home = str(network.plan.engines[caller].home)
    for step in way.steps:
        if step.engine == home and step.what == "prefix":
            return "static", "|".join(sip_uri(network, each) for each in step.facts["to"])
        if step.engine == home and step.what == "record":
            return str(step.facts["tree"]), str(step.facts["uri"])
    return "none", str(way.answer)


def invited(number: str, here: str, there: tuple[str, int]) -> str:
    """The status of the first answer to an INVITE: 100 once the proxy has decided. Call inside a host."""
    text = "\r\n".join((
        f"INVITE sip:{number}@{there[0]} SIP/2.0",
        f"Via: SIP/2.0/UDP {here};branch=z9hG4bK{number[1:]};rport",
        f"From: <sip:weir@{here}>;tag=weir", f"To: <sip:{number}@{there[0]}>", f"Call-ID: {number}",
        "CSeq: 1 INVITE", f"Contact: <sip:weir@{here}>", "Max-Forwards: 70", "Content-Length: 0", "", "",
    ))  # fmt: skip
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(AGAIN_S)
        asking.connect(there)
        for _ in range(round(PATIENCE_S / AGAIN_S)):
            asking.send(text.encode())
            try:
                answer = asking.recv(1 << 16).decode()
            except TimeoutError:
                continue
            assert f"Call-ID: {number}\r\n" in answer
            return answer.split()[1]
    raise AssertionError(f"no answer to an INVITE for {number}")


def test_kamailio_takes_the_way_of_the_plan(lab: VoiceLab) -> None:
    network, caller = lab.network, "phone"
    host, here = lab.at(caller), str(network.plan.engines[caller].address)
    home = str(network.plan.engines[caller].home)
    there = (str(network.plan.engines[home].address), network.plan.engines[home].port("sip"))
    seen = set()
    plan = network.plan
    named = [*(entry.digits for entry in plan.enum), *(route.prefix[1:] for route in plan.routes)]
    for digits in drawn(named, NUMBERS * 3 // 100):
        number = f"+{digits}"
        via, target = planned_decision(network, number, caller)
        before = len(lab.output(home))
        status = host.call(partial(invited, number, here, there))
        decided = [line.groups() for line in _ROUTE.finditer(lab.output(home)[before:]) if line[1] == number]
        if via == "none":
            assert status == target, number
            assert all(line[1:] == ("none", None) for line in decided), number
        else:
            assert (status, set(decided)) == ("100", {(number, via, target)}), number
        seen.add(via)
    assert {"static", "none"} < seen
