"""Telephones with their sockets on the loopback interface; the clock stands still unless a test moves it."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.gatekeeper.table import GatekeeperTarget
from weirlab.numbering.telephone import call as calls
from weirlab.numbering.telephone import h225, registering, serving
from weirlab.numbering.telephone.h225 import H225Message
from weirlab.numbering.telephone.serving import MOST_STRANGERS, Telephone
from weirlab.numbering.telephone.settings import TelephoneCodec, TelephoneSettings

HOST = "127.0.0.1"
PATIENCE_S = 60.0
"""Of a test that would fail otherwise."""


class Client:
    """Who gives a telephone an order."""

    def __init__(self, path: str, order: dict[str, Any]) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.sendall(json.dumps(order).encode() + b"\n")
        self.socket.setblocking(False)
        self.text = ""

    @property
    def lines(self) -> list[str]:
        with suppress(BlockingIOError):
            while content := self.socket.recv(1 << 12):
                self.text += content.decode()
        return self.text.splitlines()


class World:
    """Telephones, and whatever else a test has; ``now_s`` is their clock."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 100.0
        self.said: list[str] = []
        self.besides: list[Callable[[], None]] = []
        """What others do in every turn."""
        self._folder = folder
        self._telephones: list[tuple[Telephone, TelephoneSettings]] = []
        self._open = ExitStack()

    def telephone(
        self, name: str, home: Address | None = None, keeper: Address | None = None, *codecs: str
    ) -> Telephone:
        known = {"alaw": TelephoneCodec("alaw", 8, 160), "ulaw": TelephoneCodec("ulaw", 0, 160)}
        settings = TelephoneSettings(
            name, "test", HOST, 0,
            None if keeper is None else GatekeeperTarget("gk", *keeper),
            None if home is None else GatekeeperTarget("gw", *home),
            tuple(known[codec] for codec in codecs or ("alaw",)),
            str(self._folder / name),
        )  # fmt: skip
        made = Telephone(settings, lambda line: self.said.append(f"{name}: {line}"))
        self._telephones.append((made, settings))
        self._open.callback(made.close)
        return made

    def order(self, name: str, **order: Any) -> Client:
        path = next(each.orders for _, each in self._telephones if each.telephone == name)
        client = Client(path, order)
        self._open.callback(client.socket.close)
        return client

    def listener(self) -> socket.socket:
        """Somebody else who takes connections."""
        made = socket.create_server((HOST, 0))
        made.settimeout(PATIENCE_S)
        self._open.callback(made.close)
        return made

    def turn(self) -> None:
        for telephone, _ in self._telephones:
            telephone.turn(self.now_s)
        for each in self.besides:
            each()

    def until(self, done: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not done():
            self.turn()
            assert time.monotonic() < end_s, self.said
            # Others of this machine may have to run first.
            select.select([], [], [], 0.0005)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.turn()

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def told(client: Client, world: World) -> str:
    """How the call of an order ended."""
    world.until(lambda: any(line.startswith("over: ") for line in client.lines))
    return next(line for line in client.lines if line.startswith("over: "))


def up(world: World, times: int = 1) -> tuple[Client, Client]:
    """A call from one telephone to another, which has been answered."""
    desk = world.telephone("desk")
    world.telephone("hall", desk.signalling)
    taking = world.order("desk", takes=True)
    world.until(lambda: taking.lines == ["ready"])
    calling = world.order("hall", calls="420308", times=times, hold_s=2.0)
    world.until(lambda: world.said.count("desk: >> Alerting") == times)
    world.wait(calls.ANSWER_S)
    world.until(lambda: calling.lines.count("answered") == times)
    return taking, calling


@pytest.mark.parametrize("times", [1, 3])
def test_calls_are_answered_speak_both_ways_and_end_after_what_was_heard(world: World, times: int) -> None:
    _, calling = up(world, times)
    world.until(lambda: sum(": speaks alaw to " in line for line in world.said) == 2 * times)
    heard = [talk.session.call for telephone, _ in world._telephones for talk in telephone._talks]
    world.until(lambda: all(call is not None and call.heard_s is not None for call in heard))
    world.wait(2.0)
    world.until(lambda: calling.lines.count("over: cause 16") == times)
    world.until(lambda: sum(line.endswith("over: cause 16") for line in world.said) == 2 * times)


def test_a_call_ends_with_whoever_ordered_it(world: World) -> None:
    taking, calling = up(world)
    calling.socket.close()
    world.until(lambda: "desk: call 420308 over: cause 16" in world.said)
    assert taking.lines == ["ready", "answered"]


def test_a_telephone_that_refuses_says_its_cause(world: World) -> None:
    desk = world.telephone("desk")
    world.telephone("hall", desk.signalling)
    taking = world.order("desk", takes=True, refuses=h225.BUSY)
    world.until(lambda: taking.lines == ["ready"])
    assert told(world.order("hall", calls="420308"), world) == "over: cause 17"


def test_a_telephone_that_nobody_lets_take_calls_takes_none(world: World) -> None:
    world.telephone("hall", world.telephone("desk").signalling)
    assert told(world.order("hall", calls="420308"), world) == "over: cause 18"


def called(world: World) -> tuple[Client, socket.socket]:
    """A call to somebody who has got the Setup, and has said nothing."""
    listener = world.listener()
    world.telephone("hall", Address(*listener.getsockname()))
    calling = world.order("hall", calls="420308", longest_s=30)
    world.until(lambda: "hall: >> Setup 420308" in world.said)
    peer, _ = listener.accept()
    peer.settimeout(PATIENCE_S)
    world._open.callback(peer.close)
    world.turn()
    assert h225.read(peer.recv(1 << 12)[4:]).number == "420308"
    return calling, peer


def test_a_peer_that_closes_mid_set_up_is_named(world: World) -> None:
    calling, peer = called(world)
    peer.close()
    expected = "over: cause 41, 127.0.0.1 closed the connection before the call was answered"
    assert told(calling, world) == expected


def test_a_peer_that_says_nothing_is_given_up(world: World) -> None:
    calling, _ = called(world)
    world.wait(calls.RESPONSE_S)
    assert told(calling, world) == "over: cause 102, no answer to Setup in time"


def test_a_call_that_only_rings_is_given_up(world: World) -> None:
    calling, peer = called(world)
    peer.sendall(h225.tpkt(h225.written(H225Message(h225.ALERTING, _reference(world), True, "00" * 16))))
    world.until(lambda: "hall: << Alerting" in world.said)
    world.wait(calls.RESPONSE_S)
    world.wait(31.0)
    assert told(calling, world) == "over: cause 19, no answer in time"
    assert h225.read(peer.recv(1 << 12)[4:]).kind == h225.RELEASE


def _reference(world: World) -> int:
    (talk,) = world._telephones[-1][0]._talks
    assert talk.session.call is not None
    return talk.session.call.reference


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "no TPKT: 48 54 54 50 2f 31 2e 31"),
        (h225.tpkt(b"\x08\x02\x00\x01\x05\x7e\x00\x04\x05\xff\xff\xff"), "no user information of H.225.0"),
        (h225.tpkt(b"garbage"), "no message of Q.931"),
    ],
)
def test_nonsense_ends_the_call_and_is_told_of(world: World, content: bytes, what: str) -> None:
    calling, peer = called(world)
    peer.sendall(content)
    assert told(calling, world).startswith(f"over: cause 111, 127.0.0.1 sent {what}")


def test_nobody_at_the_other_end_is_told_with_the_reason(world: World) -> None:
    with world.listener() as gone:
        place = Address(*gone.getsockname())
    world.telephone("hall", place)
    expected = f"over: cause 41, no connection to 127.0.0.1, port {place.port}: Connection refused"
    assert told(world.order("hall", calls="420308"), world).startswith(expected)


@pytest.mark.parametrize("content", [b"GET / HTTP/1.1\r\n\r\n", b"", b"\x03\x00\x00\x01", h225.tpkt(b"x")])
def test_a_telephone_outlives_foreign_connections(world: World, content: bytes) -> None:
    desk = world.telephone("desk")
    with socket.create_connection(desk.signalling) as foreign:
        foreign.sendall(content)
        foreign.shutdown(socket.SHUT_WR)
        world.until(lambda: "desk: a connection without a Setup has ended" in world.said)
    assert desk._talks == []


def test_a_connection_on_which_nothing_comes_is_closed(world: World) -> None:
    desk = world.telephone("desk")
    with socket.create_connection(desk.signalling):
        world.until(lambda: len(desk._talks) == 1)
        world.wait(5.1)
        assert desk._talks == []


class Keeper:
    """A gatekeeper that registers everybody, and answers a call as it is told."""

    def __init__(self, world: World) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.socket.setblocking(False)
        self.answer: Callable[[ras.AdmissionRequest], ras.RasMessage | None] = lambda asked: None
        self.asked: list[ras.RasMessage] = []
        world.besides.append(self.turn)
        world._open.callback(self.socket.close)

    @property
    def place(self) -> Address:
        return Address(*self.socket.getsockname())

    def turn(self) -> None:
        with suppress(BlockingIOError):
            content, source = self.socket.recvfrom(1 << 12)
            message = datagrams.read(content)
            self.asked.append(message)
            answer: ras.RasMessage | None = None
            if isinstance(message, ras.RegistrationRequest):
                answer = ras.RegistrationConfirm(message.number, "gk", "one", 60)
            elif isinstance(message, ras.AdmissionRequest):
                answer = self.answer(message)
            if answer is not None:
                self.socket.sendto(datagrams.written(answer), source)


def asked(world: World) -> tuple[Keeper, Client]:
    """A call about which a gatekeeper is asked."""
    keeper = Keeper(world)
    world.telephone("hall", None, keeper.place)
    world.until(lambda: "hall: registered with gk as one" in world.said)
    return keeper, world.order("hall", calls="420308")


def test_a_call_that_the_gatekeeper_rejects_is_not_made_and_tells_why(world: World) -> None:
    keeper, calling = asked(world)
    keeper.answer = lambda asked: ras.AdmissionReject(asked.number, "requestDenied")
    assert told(calling, world) == "over: cause 21, the gatekeeper rejects the call: requestDenied"


def test_a_gatekeeper_that_does_not_answer_ends_the_call(world: World) -> None:
    keeper, calling = asked(world)
    world.until(lambda: any(isinstance(each, ras.AdmissionRequest) for each in keeper.asked))
    for _ in range(registering.MOST_SENT):
        world.wait(registering.AGAIN_S)
    assert told(calling, world) == "over: cause 34, the gatekeeper does not answer"


def test_a_call_waits_for_the_registration_and_not_for_ever(world: World) -> None:
    keeper = Keeper(world)
    place = keeper.place
    world.besides.clear()
    world.telephone("hall", None, place)
    calling = world.order("hall", calls="420308", longest_s=30)
    world.until(lambda: len(world._telephones[0][0]._wanting) == 1)
    world.wait(30.1)
    expected = "over: cause 34, it is not registered with a gatekeeper"
    assert told(calling, world) == expected


def test_an_admitted_call_is_disengaged_when_it_is_over(world: World) -> None:
    keeper, calling = asked(world)
    desk = world.telephone("desk")
    keeper.answer = lambda asked: ras.AdmissionConfirm(asked.number, 1280, desk.signalling)
    assert told(calling, world) == "over: cause 18"
    world.until(lambda: isinstance(keeper.asked[-1], ras.DisengageRequest))


def test_what_is_no_order_is_answered_so(world: World) -> None:
    world.telephone("hall")
    client = world.order("hall", calls=5)
    world.until(lambda: client.lines != [])
    assert client.lines[0].startswith("no order: ")


def strangers(world: World, telephone: Telephone, count: int) -> list[socket.socket]:
    """Connections that say nothing."""
    made = []
    for _ in range(count):
        each = socket.create_connection(telephone.signalling)
        world._open.callback(each.close)
        made.append(each)
        world.turn()
    return made


@pytest.mark.parametrize("beyond", [10, 385 - MOST_STRANGERS])
def test_strangers_that_say_nothing_are_bounded_and_calls_get_through(world: World, beyond: int) -> None:
    desk = world.telephone("desk")
    world.telephone("hall", desk.signalling)
    silent = strangers(world, desk, MOST_STRANGERS + beyond)
    world.until(lambda: sum("the oldest is closed" in line for line in world.said) == beyond)
    assert len(desk._talks) == MOST_STRANGERS
    # The oldest are gone.
    assert [each.recv(1) for each in silent[:beyond]] == [b""] * beyond
    taking = world.order("desk", takes=True)
    world.until(lambda: taking.lines == ["ready"])
    calling = world.order("hall", calls="420308", hold_s=2.0)
    world.until(lambda: "desk: >> Alerting" in world.said)
    world.wait(calls.ANSWER_S)
    world.until(lambda: "answered" in calling.lines)


def test_a_telephone_with_all_its_calls_refuses_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_CALLS", 2)
    desk = world.telephone("desk")
    third = strangers(world, desk, 3)[2]
    world.until(lambda: any("there are 2 calls already" in line for line in world.said))
    assert third.recv(1) == b""
    assert len(desk._talks) == 2


def test_a_telephone_waits_for_descriptors_above_1023(world: World) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip("the limit of open files is below 1,200")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    world._open.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    below = os.dup(0)
    while below < 1023:
        world._open.callback(os.close, below)
        below = os.dup(0)
    world._open.callback(os.close, below)
    desk = world.telephone("desk")
    assert desk._listener.fileno() > 1023
    strangers(world, desk, 1)
    world.until(lambda: len(desk._talks) == 1)
    desk._wait()
