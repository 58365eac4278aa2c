"""What the fuzz targets of voice protocols do with their bytes, and what must hold whatever these are.

No target uses a socket or a clock. ``tests/unit/numbering/test_hostile.py`` runs the same functions over
the committed seeds and over damaged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.gatekeeper.answering import Gatekeeper
from weirlab.numbering.gatekeeper.ras import Address, NoMessage
from weirlab.numbering.gatekeeper.table import Caller, GatekeeperTable, GatekeeperTarget, Prefix
from weirlab.numbering.lab.line import MgcpEndpoint, described
from weirlab.numbering.telephone import h225, h245
from weirlab.numbering.telephone.call import Call, TelephoneIdentity
from weirlab.numbering.telephone.registering import Registration

T = TypeVar("T")

HERE: Final = Address("192.0.2.1", 1720)
THERE: Final = Address("192.0.2.2", 1720)
NEIGHBOUR: Final = Address("192.0.2.3", 1719)
CALL: Final = "0123456789abcdef" * 2
CODECS: Final = ("alaw", "g729")
MOST_ANSWERED: Final = 4096
"""Answers that a line keeps for commands that come again."""

TABLE: Final = GatekeeperTable(
    gatekeeper="gk",
    plan="plan",
    address=HERE.host,
    ras_port=ras.PORT,
    trees=(),
    hand_over={},
    neighbours={NEIGHBOUR.host: "neighbour"},
    prefixes=(
        Prefix("420", 0, "", (GatekeeperTarget("gateway", THERE.host, THERE.port),), "plan:1"),
        Prefix("421", 3, "0", (GatekeeperTarget("neighbour", *NEIGHBOUR, neighbour=True),), "plan:2"),
    ),
    callers={THERE.host: Caller("telephone", "organisation", most_calls=2)},
)


def portions(data: bytes) -> Iterator[bytes]:
    """Portions of ``data``, each of which begins with its length in two bytes."""
    while data:
        size = int.from_bytes(data[:2])
        yield data[2 : 2 + size]
        data = data[2 + size :]


def tpkts(data: bytes) -> Iterator[bytes]:
    """Contents of TPKTs, as they are or as :func:`portions`; the first byte chooses."""
    if data[:1] == b"\0":
        yield from portions(data[1:])
    else:
        yield from h225.TpktReader().take(data[1:])


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")


def ras_datagrams(data: bytes) -> str:
    """Datagrams at a gatekeeper, or at a telephone."""
    if data[:1] == b"\0":
        return _at_a_gatekeeper(data[1:])
    return _at_a_telephone(data[1:])


def _at_a_gatekeeper(data: bytes) -> str:
    async def records(digits: str, suffix: str) -> list[Any]:
        return []

    async def places(host: str, port: int | None) -> list[Address]:
        return []

    async def ask(neighbour: Address, digits: str, hops: int, callers: tuple[str, ...]) -> Address:
        return THERE

    told: list[str] = []
    gatekeeper = Gatekeeper(TABLE, records, places, ask, told.append)
    outcome = "nothing"
    for number, datagram in enumerate(portions(data)):
        try:
            message = datagrams.read(datagram)
        except NoMessage:
            outcome = "refused"
            continue
        source = NEIGHBOUR.host if number % 2 else THERE.host
        answer = finished(gatekeeper.answer(message, source, float(number)))
        if answer is None:
            outcome = "unanswered"
        else:
            assert datagrams.read(datagrams.written(answer)).number == message.number
            outcome = "answered"
    return outcome


def _at_a_telephone(data: bytes) -> str:
    registration = Registration(NEIGHBOUR, "telephone", HERE, Address(HERE.host, 1719))
    call = Call(TelephoneIdentity("telephone", HERE, CODECS), HERE, HERE, CALL, 7, "420224355289")
    answers: list[ras.RasMessage | None] = []
    for number, datagram in enumerate(portions(data)):
        registration.due(number * 0.7)
        registration.received(datagram, number * 0.7)
        registration.admission(call, answers=bool(number % 2), done=answers.append)
    for line in registration.news:
        assert "\n" not in line
    return "registered" if registration.endpoint else "unregistered"


def _drain(call: Call) -> None:
    """Everything that a call wants to say can be said, and is understood."""
    while call.out:
        signal = call.out.pop(0)
        assert h225.read(h225.written(signal)).kind == signal.kind
        assert signal.title
    while call.controls:
        message = call.controls.pop(0)
        assert type(h245.read(h245.written(message))) is type(message)


def signalling(data: bytes) -> str:
    """Messages of call signalling at a callee, or at a caller; the first byte chooses."""
    own, now_s = TelephoneIdentity("telephone", HERE, CODECS), 0.0
    call: Call | None = None
    if data[:1] == b"\1":
        call = Call(own, HERE, HERE, CALL, 7, "420224355289")
        call.begin(now_s)
        _drain(call)
    with suppress(NoMessage):
        for content in tpkts(data[1:]):
            now_s += 0.2
            signal = h225.read(content)
            assert signal.title
            if call is None and signal.kind == h225.SETUP:
                call = Call.taken(own, HERE, HERE, signal)
                call.admitted(now_s)
            elif call is not None:
                call.signalled(signal, now_s)
            if call is not None:
                call.due(now_s + 0.1)
                _drain(call)
    if call is None:
        return "nothing"
    call.hang_up()
    _drain(call)
    return "called" if call.connected else "ended"


def control(data: bytes) -> str:
    """Messages of H.245 in an answered call."""
    call, now_s = Call(TelephoneIdentity("telephone", HERE, CODECS), HERE, HERE, CALL, 7, "420224355289"), 0.0
    call.begin(now_s)
    call.opened()
    _drain(call)
    with suppress(NoMessage):
        for content in tpkts(data):
            now_s += 0.2
            message = h245.read(content)
            assert h245.title(message)
            call.controlled(message, now_s)
            call.due(now_s)
            _drain(call)
    return "speaks" if call.speaks_to is not None else "silent"


def mgcp(data: bytes) -> str:
    """Datagrams at a line that calls, or that takes calls; the first byte chooses."""
    dials = "420" if data[:1] == b"\1" else ""
    line, now_s = MgcpEndpoint("aaln/1@line", described(HERE.host, 8), dials, 1.0), 0.0
    line.begin(now_s)
    for datagram in data[1:].split(b"\0"):
        now_s += 0.2
        line.received(datagram.decode(errors="replace"), now_s)
        line.heard(now_s)
        line.due(now_s)
        for text in line.out:
            assert text.encode()
        line.out.clear()
        if line.speaks_to is not None:
            host, port = line.speaks_to
            assert ip_address(host)
            assert 0 < port < 65536
    return "over" if line.over else "off-hook" if line.off_hook else "on-hook"


TARGETS: Final[dict[str, Callable[[bytes], str]]] = {
    "ras": ras_datagrams,
    "signalling": signalling,
    "h245": control,
    "mgcp": mgcp,
}
