"""A redundant pair of firewalls: roles, failures, and what conntrackd is worth."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from pyroute2 import IPRoute

from weirlab.base.errors import InputError, LabError
from weirlab.calls.failover.lab import RedundantLab
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.redundant.base import Firewall
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.records import EngineResult
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

from .conftest import wait_until

pytestmark = pytest.mark.netns

FLOWS = 50
QUICK = Keepalived(advert_s=0.1)
CALLER, CALLED = ("198.18.1.1", 5000), ("198.19.1.1", 5000)


@pytest.fixture(scope="module", autouse=True)
def _needs_daemons() -> None:
    if missing := [*QUICK.check(), *Ucarp().check(), *Conntrackd().check()]:
        pytest.skip("; ".join(missing))


@pytest.fixture(scope="module")
def synced() -> Iterator[RedundantLab]:
    """VRRP every 0.1 s, states into the other's kernel at once."""
    with RedundantLab(QUICK) as lab:
        yield lab


@pytest.fixture
def fresh(synced: RedundantLab) -> Iterator[RedundantLab]:
    """The same lab as at first."""
    assert synced.pair.settle() == "a"
    synced.pair.clear_states()
    synced.pair.open_admission()
    yield synced
    if synced.pair.events and synced.pair.events[-1].kind != "return":
        synced.pair.restore()


def traffic(duration_s: float = 1.5) -> Traffic:
    """Streams that go on before, during and after an event."""
    return Traffic(Rate(2000), flows=Flows(count=FLOWS), warmup_s=0.0, duration_s=duration_s)


def run_through(lab: RedundantLab, event: Callable[[], object], duration_s: float = 1.5) -> EngineResult:
    """Ongoing streams only, and the event among them once the states are known where they ought to be."""

    def during() -> None:
        wait_until(lambda: lab.pair.states("a") >= FLOWS)
        assert lab.pair.close_admission() == FLOWS
        event()

    return lab.run(traffic(duration_s), during)


def goes_on(lab: RedundantLab) -> bool:
    """Whether packets of the ongoing streams still arrive; no others are admitted."""
    return lab.run(traffic(0.3)).received > 0


def taken_over_ns(lab: RedundantLab, firewall: Firewall) -> int:
    """From the last event until ``firewall`` held both addresses."""
    event = lab.pair.events[-1]
    taken = [
        t.at_ns
        for t in lab.pair.transitions
        if t.firewall == firewall and t.holds and t.at_ns > event.began_ns
    ]
    assert len(taken) == 2
    return max(taken) - event.began_ns


def test_one_is_master_and_the_other_learns_its_states(fresh: RedundantLab) -> None:
    assert fresh.pair.master() == "a"
    assert fresh.pair.holders() == {"lan": {"a"}, "wan": {"a"}}
    result = fresh.run(traffic(0.3))
    assert result.received > 0
    assert fresh.pair.states("a") == FLOWS
    wait_until(lambda: fresh.pair.states("b") == FLOWS)
    assert "Keepalived" in str(fresh.facts["protocol_tool"])


def test_a_master_that_steps_down_takes_its_streams_along_to_the_other(fresh: RedundantLab) -> None:
    def event() -> None:
        wait_until(lambda: fresh.pair.states("b") == FLOWS)
        fresh.pair.step_down()
        wait_until(lambda: fresh.pair.master() == "b")

    result = run_through(fresh, event)
    assert fresh.pair.events[-1].kind == "soft"
    assert fresh.pair.surviving() == FLOWS
    assert goes_on(fresh)
    assert (result.flows.received > 0).all()
    assert fresh.pair.settle() == "b"
    fresh.pair.restore()
    assert fresh.pair.settle() == "a"


def test_after_a_hard_failure_synchronised_streams_go_on_and_the_old_master_returns(
    fresh: RedundantLab,
) -> None:
    def event() -> None:
        wait_until(lambda: fresh.pair.states("b") == FLOWS)
        fresh.pair.cut()
        wait_until(lambda: fresh.pair.master() == "b")

    # Long enough for the event to come while streams go on, on a slow machine too.
    result = run_through(fresh, event, 5.0)
    event_record = fresh.pair.events[-1]
    assert (event_record.kind, event_record.firewall) == ("hard", "a")
    assert 0 < int(event_record.detail["links_down_ns"]) <= event_record.took_ns
    earliest_s, _ = fresh.expected_failover_s
    # A master that was late with its last advertisement is missed a little earlier.
    assert taken_over_ns(fresh, "b") > 0.5 * earliest_s * 1e9
    assert result.lost > 0
    assert result.longest_gap_ns > 0.5 * earliest_s * 1e9
    assert fresh.pair.surviving() == FLOWS
    assert goes_on(fresh)
    assert fresh.pair.restore().kind == "return"
    assert fresh.pair.settle() == "a"
    # It asked the other one for the states that it lost with its power.
    wait_until(lambda: fresh.pair.states("a") == FLOWS)


def test_without_synchronised_states_streams_end_with_their_firewall() -> None:
    with RedundantLab(QUICK, Conntrackd("off")) as lab:
        assert lab.pair.settle() == "a"

        def event() -> None:
            lab.pair.cut()
            wait_until(lambda: lab.pair.master() == "b")

        result = run_through(lab, event)
        assert lab.pair.states("b") == lab.pair.surviving() == 0
        assert result.last_arrival_ns < lab.pair.events[-1].ended_ns
        assert not goes_on(lab)
        # It is the states that are missing: the new master forwards as soon as it may admit calls.
        lab.pair.open_admission()
        assert lab.run(traffic(0.3)).received > 0


def test_with_an_external_cache_the_new_master_commits_what_it_knows() -> None:
    with RedundantLab(QUICK, Conntrackd(external_cache=True)) as lab:
        assert lab.pair.settle() == "a"

        def event() -> None:
            wait_until(lambda: lab.pair.states("a") == FLOWS)
            assert lab.pair.states("b") == 0
            lab.pair.step_down()
            wait_until(lambda: lab.pair.states("b") == FLOWS)

        run_through(lab, event)
        assert lab.pair.surviving() == FLOWS
        assert goes_on(lab)


def test_ucarp_hands_over_when_told_to_and_when_its_master_dies() -> None:
    with RedundantLab(Ucarp(advskews=(0, 10), deadratio=1)) as lab:
        assert lab.pair.settle() == "a"
        for kind in ("soft", "hard"):
            lab.pair.clear_states()
            lab.pair.open_admission()

            def event(kind: str = kind) -> None:
                wait_until(lambda: lab.pair.states("b") == FLOWS)
                lab.pair.step_down() if kind == "soft" else lab.pair.cut()
                wait_until(lambda: lab.pair.master() == "b")

            # The master's death is noticed after two seconds, which the streams are to see.
            run_through(lab, event, 1.0 if kind == "soft" else 3.0)
            assert lab.pair.events[-1].kind == kind
            assert lab.pair.surviving() == FLOWS
            assert goes_on(lab)
            lab.pair.restore()
            wait_until(lambda: lab.pair.master() == "a")


def test_with_nat_calls_leave_by_the_shared_address_wherever_it_is() -> None:
    with RedundantLab(QUICK, nat=True) as lab:
        assert lab.pair.settle() == "a"

        def event() -> None:
            wait_until(lambda: lab.pair.states("b") == FLOWS)
            lab.pair.cut()
            wait_until(lambda: lab.pair.master() == "b")

        with Sockets(lab) as sockets:
            sockets.caller.sendto(b"hello", CALLED)
            assert sockets.heard(sockets.called)[1][0] == "100.64.2.254"
            with pytest.raises(InputError, match="NAT"):
                lab.run(calls(1))
            lab.pair.clear_states()
            run_through(lab, event)
            assert goes_on(lab)


class Sockets:
    """A phone at either end."""

    def __init__(self, lab: RedundantLab) -> None:
        self._lab = lab
        self.caller = self._phone(lab, "tx", CALLER)
        self.called = self._phone(lab, "rx", CALLED)

    def stranger(self, part: str) -> socket.socket:
        """A phone that nobody knows of yet."""
        return Namespace(self._lab.namespaces[part]).call(
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        )

    def heard(self, phone: socket.socket) -> tuple[bytes, tuple[str, int]]:
        """The next datagram and where it comes from."""
        data, address = phone.recvfrom(100)
        return data, address

    def __enter__(self) -> Sockets:
        return self

    def __exit__(self, *exc: object) -> None:
        self.caller.close()
        self.called.close()

    def _phone(self, lab: RedundantLab, part: str, address: tuple[str, int]) -> socket.socket:
        def build() -> socket.socket:
            with IPRoute() as netlink:
                netlink.addr("replace", index=1, address=address[0], prefixlen=32)
            phone = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            phone.bind(address)
            phone.settimeout(10.0)
            return phone

        return Namespace(lab.namespaces[part]).call(build)


def test_calls_begin_on_the_lan_side_only_and_only_while_they_are_admitted(fresh: RedundantLab) -> None:
    with Sockets(fresh) as sockets, sockets.stranger("rx") as outside, sockets.stranger("tx") as inside:
        outside.sendto(b"from outside", CALLER)
        sockets.caller.sendto(b"from inside", CALLED)
        assert sockets.heard(sockets.called) == (b"from inside", CALLER)
        assert fresh.pair.close_admission() == 1
        inside.sendto(b"another call", CALLED)
        sockets.caller.sendto(b"the same call", CALLED)
        assert sockets.heard(sockets.called) == (b"the same call", CALLER)
        sockets.called.sendto(b"an answer", CALLER)
        assert sockets.heard(sockets.caller) == (b"an answer", CALLED)
    fresh.pair.open_admission()
    with pytest.raises(InputError, match="close the admission"):
        fresh.pair.surviving()


def calls(count: int) -> Traffic:
    """Short calls in both directions."""
    kind = CallClass(parse_codec("g711"))
    return traffic_of(Calls((kind,), count, rtcp=False, signalling=False), 0.3, 0.2)


def test_both_ends_of_a_call_are_heard_and_share_a_state(fresh: RedundantLab) -> None:
    result = fresh.run(calls(10))
    assert (result.flows.received > 0).all()
    assert len(result.flows.received) == 20
    assert fresh.pair.states("a") == 10
    wait_until(lambda: fresh.pair.states("b") == 10)


def test_what_a_pair_cannot_do_is_said_before_it_is_tried(fresh: RedundantLab) -> None:
    with pytest.raises(InputError, match="IPv4"):
        fresh.run(Traffic(Rate(100), Constant(100), Flows(ip=6)))
    with pytest.raises(LabError, match="nf_conntrack_max"):
        fresh.run(Traffic(Rate(100), flows=Flows(count=1 << 22)))
    with pytest.raises(LabError, match="nothing to restore"):
        fresh.pair.restore()


def test_an_error_beside_the_traffic_is_raised_when_it_has_ended(fresh: RedundantLab) -> None:
    def during() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fresh.run(traffic(0.2), during)
