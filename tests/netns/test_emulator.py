"""An emulated link between namespaces: real frames, real interfaces."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyroute2 import IPRoute

from weirlab.base.errors import LabError
from weirlab.emulation.account import EmulationCounters
from weirlab.emulation.reading import read_path
from weirlab.emulation.spec import PathSpec
from weirlab.jobs.simulated import CrossedDevice
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.host import journal
from weirlab.links.emulator.running import USUAL, EmulatedLink, EmulatorSettings, LinkEnd, emulated_link
from weirlab.model.process import BehaviourGrid

from .emulator_hosts import (
    ADDRESS,
    APART,
    BROADCAST,
    LINK,
    PORT,
    Hosts,
    X,
    Y,
    built,
    check_tag,
    exchange,
    keeper,
    launcher,
    state,
)

pytestmark = pytest.mark.netns

Eventually = Callable[[Callable[[], bool]], None]

MS = 1_000_000


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with built() as made:
        yield made


@pytest.fixture
def hosts_apart() -> Iterator[Hosts]:
    """The same, with the ends of the link in two namespaces."""
    with built(APART) as made:
        yield made


def linked(up: PathSpec, down: PathSpec | None = None, how: EmulatorSettings = USUAL, **options: Any) -> Any:
    """The link between both hosts: ``up`` from X to Y."""
    return emulated_link(LinkEnd("la", LINK), LinkEnd("lb", LINK), up, down, how=how, **options)


def settled(link: EmulatedLink) -> EmulationCounters:
    """What there is to say once all is over."""
    account = link.stop()
    # Lateness depends on what else this host does.
    assert account.not_kept == 0
    assert all(way.adds_up and not way.unfinished for way in account.directions)
    return account


def test_the_frames_of_the_pattern_are_lost_and_no_others(hosts: Hosts) -> None:
    lost = frozenset({5, 17, 100, 200, 300})
    with linked(read_path({"loss": "frames=5,17,/100"}), PathSpec()) as link:
        assert exchange(hosts, X, 300, lost) == [n for n in range(1, 301) if n not in lost]
        # The other direction loses nothing.
        assert exchange(hosts, Y, 150) == list(range(1, 151))
        account = settled(link)
    up, down = account.directions
    assert (up.arrived, up.sent, up.lost, up.held) == (300, 295, 5, 0)
    assert (down.arrived, down.sent, down.lost) == (150, 150, 0)
    # Ethernet, IP and UDP headers.
    assert up.arrived_bytes == 300 * (200 + 42)


def test_no_frame_is_earlier_than_the_delay_and_all_keep_their_order(hosts: Hosts) -> None:
    jitter = read_path({"delay": "30ms", "jitter": "20ms"})
    with linked(read_path({"delay": "30ms"}), jitter) as link:
        for sender, least_ns in ((X, 30 * MS), (Y, 10 * MS)):
            receiver = Y if sender == X else X
            with hosts.socket(receiver) as into, hosts.socket(sender) as out:
                sent_ns = []
                for number in range(50):
                    sent_ns.append(time.monotonic_ns())
                    out.sendto(struct.pack("!I", number), (ADDRESS[receiver], PORT))
                for number in range(50):
                    assert struct.unpack("!I", into.recv(64)) == (number,)
                    # As far as the kernel's two clocks agree.
                    assert time.monotonic_ns() - sent_ns[number] >= least_ns - 1000
        account = settled(link)
    assert account.up.late.count.sum() == account.up.sent == 50


def test_a_transfer_over_a_bad_link_is_whole(hosts: Hosts) -> None:
    words = {
        "rate": "100Mbps", "queue": "60pkts", "delay": "2ms", "jitter": "500us,reorder",
        "loss": "1.5%,burst=2", "duplicate": "1%", "reorder": "1%,by=1ms",
    }  # fmt: skip
    content = random.Random(1).randbytes(3_000_000)
    received = hashlib.sha256()
    with linked(read_path(words)) as link:
        with hosts.socket(Y, socket.SOCK_STREAM) as listener, hosts.socket(X, socket.SOCK_STREAM) as sender:
            listener.listen()

            def receive() -> None:
                accepted, _ = listener.accept()
                with accepted:
                    accepted.settimeout(60.0)
                    while part := accepted.recv(1 << 16):
                        received.update(part)

            receiver = threading.Thread(target=receive)
            receiver.start()
            sender.settimeout(60.0)
            sender.connect((ADDRESS[Y], PORT))
            sender.sendall(content)
            sender.shutdown(socket.SHUT_WR)
            receiver.join()
        account = settled(link)
    assert received.digest() == hashlib.sha256(content).digest()
    up = account.up
    # Every segment a frame of its own, with its checksum.
    assert up.arrived_bytes / up.arrived <= 1514
    assert up.arrived > 2000
    assert min(up.lost, up.duplicated, up.held_back) > 0


def test_a_queue_that_overflows_drops_what_it_has_no_room_for(hosts: Hosts) -> None:
    # 242 bytes at 100 kbit/s take 19 ms: however slow this host is, the burst is faster.
    with linked(read_path({"rate": "100kbps", "queue": "4pkts"}), PathSpec()) as link:
        with hosts.socket(Y) as into, hosts.socket(X) as out:
            for number in range(20):
                out.sendto(struct.pack("!I", number).ljust(200, b"."), (ADDRESS[Y], PORT))
            numbers = [struct.unpack_from("!I", into.recv(2048))[0] for _ in range(5)]
        account = settled(link)
    assert numbers == sorted(numbers)
    assert account.up.arrived == 20
    assert account.up.sent + account.up.held + account.up.dropped_full == 20
    assert account.up.dropped_full > 0


def device(service_ns: float, floor_ns: float, places: int) -> CrossedDevice:
    """A device that takes its time, whatever its load."""
    states = np.zeros((1, 1, 2, 6))
    states[..., 0] = floor_ns
    grid = BehaviourGrid(
        positions=np.zeros(1),
        frames_bytes=np.array([64.0]),
        rhos=np.array([1e-4, 1.0]),
        service_ns=np.array([[service_ns]]),
        states=states,
        queue_packets=places,
        rate_min_pps=1e-3,
    )
    return CrossedDevice("slow", 0, 1, grid)


def test_both_directions_share_the_queue_of_the_device_that_they_cross(
    hosts: Hosts, eventually: Eventually
) -> None:
    # Frames are served for an hour, so the queue stays as full as it is.
    with (
        linked(PathSpec(), device=device(3.6e12, 3.6e12, 4)) as link,
        hosts.socket(X) as x,
        hosts.socket(Y) as y,
    ):
        for _ in range(3):
            x.sendto(b"up", (ADDRESS[Y], PORT))
        eventually(lambda: link.account().up.arrived == 3)
        for _ in range(3):
            y.sendto(b"down", (ADDRESS[X], PORT))
        eventually(lambda: link.account().down.arrived == 3)
        account = settled(link)
    up, down = account.directions
    assert (up.dropped_full, up.held) == (0, 3)
    assert (down.dropped_full, down.held) == (2, 1)


def test_no_frame_is_earlier_than_the_device_that_it_crosses_sends_it(hosts: Hosts) -> None:
    with (
        linked(PathSpec(), device=device(1 * MS, 30 * MS, 100)) as link,
        hosts.socket(Y) as into,
        hosts.socket(X) as out,
    ):
        for number in range(10):
            began_ns = time.monotonic_ns()
            out.sendto(bytes([number]), (ADDRESS[Y], PORT))
            assert into.recv(2048) == bytes([number])
            assert time.monotonic_ns() - began_ns >= 30 * MS
        account = settled(link)
    assert (account.up.sent, account.up.dropped_full) == (10, 0)


def test_vlan_tags_are_where_they_were(hosts: Hosts) -> None:
    with linked(PathSpec()) as link:
        check_tag()
        settled(link)


def test_the_hosts_own_stack_sees_nothing(hosts: Hosts) -> None:
    def received() -> int:
        lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
        header, values, *_ = map(str.split, lines)
        return int(values[header.index("InReceives")])

    with linked(PathSpec()) as link:
        with hosts.socket(Y) as into, hosts.socket(X) as out:
            out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            for _ in range(20):
                out.sendto(b"all", (BROADCAST, PORT))
                assert into.recv(64) == b"all"
        settled(link)
    assert Namespace(LINK).call(received) == 0


def test_the_ends_may_lie_in_two_namespaces(hosts_apart: Hosts) -> None:
    with emulated_link(LinkEnd("la", LINK), LinkEnd("lb", APART), read_path({"loss": "frames=3"})) as link:
        assert exchange(hosts_apart, X, 50, frozenset({3})) == [n for n in range(1, 51) if n != 3]
        assert exchange(hosts_apart, Y, 50, frozenset({3})) == [n for n in range(1, 51) if n != 3]
        account = settled(link)
    assert (account.up.sent, account.down.sent) == (49, 49)


def test_a_direction_changes_while_frames_cross(hosts: Hosts, eventually: Eventually) -> None:
    with linked(PathSpec(), PathSpec()) as link:
        assert exchange(hosts, X, 20) == list(range(1, 21))
        link.change("up", read_path({"loss": "100%"}))
        with hosts.socket(X) as out:

            def one_is_lost() -> bool:
                out.sendto(b"", (ADDRESS[Y], PORT))
                return link.account().up.lost > 0

            eventually(one_is_lost)
        assert exchange(hosts, Y, 20) == list(range(1, 21))
        assert settled(link).up.lost > 0


def test_a_link_ends_by_itself_after_its_time(hosts: Hosts, eventually: Eventually) -> None:
    with linked(PathSpec(), how=EmulatorSettings(for_s=0.1)) as link:
        eventually(lambda: link.account().ended)
        assert link.stop().failure == ""


def test_an_interface_that_goes_away_ends_the_link_with_its_name(
    hosts: Hosts, eventually: Eventually
) -> None:
    def delete() -> None:
        with IPRoute() as netlink:
            netlink.link("del", index=netlink.link_lookup(ifname="la")[0])

    with linked(PathSpec()) as link:
        Namespace(LINK).call(delete)
        eventually(lambda: link.account().ended)
        assert link.stop().failure == "interface la is gone"


@pytest.mark.parametrize(
    "options", [{"busy": True}, {"real_time": False}, {"cpu": 0}, {"slack_s": 0.002}], ids=str
)
def test_however_it_is_scheduled_it_carries_the_same(hosts: Hosts, options: dict[str, Any]) -> None:
    lost = frozenset({2, 7})
    with linked(
        read_path({"delay": "1ms", "loss": "frames=2,7"}), PathSpec(), how=EmulatorSettings(**options)
    ) as link:
        assert exchange(hosts, X, 20, lost) == [n for n in range(1, 21) if n not in lost]
        settled(link)


@pytest.mark.parametrize("ends", [("la", "lb"), ("lb", "la")])
def test_an_interface_carries_the_frames_of_one_link(hosts: Hosts, ends: tuple[str, str]) -> None:
    before = state()
    with linked(read_path({"delay": "1ms"})) as link:
        refused = rf"{ends[0]} in {LINK}: weir link \(process {os.getpid()}\) carries its frames already"
        again = emulated_link(LinkEnd(ends[0], LINK), LinkEnd(ends[1], LINK), PathSpec())
        with pytest.raises(LabError, match=refused), again:
            pytest.fail("both carry frames")
        assert exchange(hosts, X, 5) == [1, 2, 3, 4, 5]
        settled(link)
    assert state() == before


def test_everything_is_as_it_was_afterwards(hosts: Hosts) -> None:
    before = state()
    locks = set(journal.DIRECTORY.glob("*")) if journal.DIRECTORY.exists() else set()
    said: list[str] = []
    with linked(PathSpec(), tell=said.append):
        assert state() != before
    assert state() == before
    assert set(journal.DIRECTORY.glob("*")) <= locks
    assert any("switched" in message for message in said)


@pytest.fixture
def weir(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``weir link`` between both hosts."""
    with launcher(tmp_path) as launch:
        yield launch


def test_ctrl_c_ends_the_command_with_its_account(
    hosts: Hosts, weir: Callable[..., subprocess.Popen[str]]
) -> None:
    before = state()
    program = weir("--delay", "1ms", "--up", "loss frames=2")
    assert exchange(hosts, X, 5, frozenset({2})) == [1, 3, 4, 5]
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    document = json.loads(out)
    assert document["kept"] is (document["up"]["late_p99_ns"] <= 1e6)
    assert (document["up"]["arrived"], document["up"]["lost"], document["up"]["sent"]) == (5, 1, 4)
    assert document["up"]["adds_up"]
    assert document["up"]["late_max_ns"] > 0
    assert sum(document["up"]["late"]["count"]) == 4
    assert state() == before


def test_what_a_killed_one_changed_is_undone_by_the_next_if_its_keeper_died_with_it(
    hosts: Hosts, weir: Callable[..., subprocess.Popen[str]]
) -> None:
    before = state()
    program = weir()
    assert exchange(hosts, X, 5) == [1, 2, 3, 4, 5]
    os.kill(keeper(program), signal.SIGKILL)
    program.kill()
    program.wait()
    assert any(name.startswith("weir-") for name in journal.clean(pytest.fail))
    assert state() == before
