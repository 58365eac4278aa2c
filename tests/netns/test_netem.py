"""A link between namespaces that the kernel carries: by netem, or where that is missing by plain queues."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from weirlab.base.errors import LabError, MissingCapability
from weirlab.emulation.reading import read_link
from weirlab.emulation.spec import PathSpec
from weirlab.lab import doctor
from weirlab.lab.linux.namespace import Namespace, in_thread
from weirlab.link.host import journal, tools
from weirlab.links.emulator import netem
from weirlab.links.emulator.netem import NetemLink, netem_link

from .emulator_hosts import ADDRESS, LINK, PORT, Hosts, X, Y, built, check_tag, exchange, state

pytestmark = pytest.mark.netns

Eventually = Callable[[Callable[[], bool]], None]

MS = 1_000_000


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with built() as made:
        yield made


def has_netem() -> bool:
    return in_thread(doctor._try_netem).returncode == 0


def by_netem(up: str, down: str, said: list[str] | None = None) -> AbstractContextManager[NetemLink]:
    """The link between both hosts, by the kernel."""
    tell = (lambda message: None) if said is None else said.append
    return netem_link(("la", "lb"), LINK, read_link({}, up, down), tell)


def test_a_kernel_without_netem_is_told_and_nothing_is_left(hosts: Hosts) -> None:
    if has_netem():
        pytest.skip("this kernel has netem")
    before = state()
    locks = set(journal.DIRECTORY.glob("*")) if journal.DIRECTORY.exists() else set()
    with pytest.raises(
        MissingCapability, match=r"^this kernel has no netem \(sch_netem\): leave out --by netem$"
    ):
        by_netem("delay 1ms", "loss 1%").__enter__()
    assert state() == before
    assert set(journal.DIRECTORY.glob("*")) <= locks


def test_netem_carries_as_asked(hosts: Hosts, eventually: Eventually) -> None:
    if not has_netem():
        pytest.skip("this kernel has no netem (sch_netem)")
    before = state()
    with by_netem("delay 30ms rate 100Mbps queue 60pkts", "loss 100%") as link:
        with hosts.socket(Y) as into, hosts.socket(X) as out:
            began_ns = time.monotonic_ns()
            for number in range(50):
                out.sendto(struct.pack("!I", number), (ADDRESS[Y], PORT))
            for number in range(50):
                assert struct.unpack("!I", into.recv(64)) == (number,)
                assert time.monotonic_ns() - began_ns >= 30 * MS - 1000
        assert exchange(hosts, Y, 10, frozenset(range(1, 11))) == []
        eventually(lambda: link.account().down.lost == 10)
        account = link.account()
    assert (account.up.sent, account.up.lost, account.up.dropped_full) == (50, 0, 0)
    assert (account.down.sent, account.down.lost) == (0, 10)
    assert state() == before


def plain_queue(target: str, path: PathSpec) -> list[list[str]]:
    """In place of netem, which the kernel may lack."""
    return [["qdisc", "add", "dev", target, "root", "handle", tools.ROOT, "pfifo", "limit", "1000"]]


@pytest.fixture
def without_netem(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link of the kernel with plain queues."""
    monkeypatch.setattr(netem, "shape", plain_queue)
    try:
        with by_netem("", ""):
            pass
    except LabError as error:
        pytest.skip(f"this kernel cannot redirect frames: {error}")


@pytest.mark.usefixtures("without_netem")
def test_the_kernel_carries_frames_both_ways_and_puts_all_back(hosts: Hosts) -> None:
    before = state()
    said: list[str] = []
    with by_netem("", "", said):
        assert exchange(hosts, X, 50) == list(range(1, 51))
        assert exchange(hosts, Y, 50) == list(range(1, 51))
        check_tag()
        assert state() != before
        with (
            pytest.raises(LabError, match=r"la: weir link --by netem .* carries its frames"),
            by_netem("", ""),
        ):
            pass
        assert exchange(hosts, X, 5) == list(range(1, 6))
    assert state() == before
    assert any("switched" in message for message in said)


@pytest.mark.usefixtures("without_netem")
def test_qdiscs_of_somebody_else_stay_and_are_named(hosts: Hosts) -> None:
    for arguments, told in (
        (("lb", "handle", "5:", "root", "pfifo"), "lb has a root qdisc of its own .pfifo 5:."),
        (
            ("la", "clsact"),
            "la has a qdisc for ingress .clsact.; delete it first: tc qdisc del dev la clsact",
        ),
    ):
        add = ["qdisc", "add", "dev", *arguments]
        assert Namespace(LINK).call(lambda add=add: tools.tc(*add)).returncode == 0  # type: ignore[misc]
        before = state()
        with pytest.raises(LabError, match=told), by_netem("", ""):
            pass
        assert state() == before
        for undo in (tools.delete_root, tools.delete_ingress):
            for name in ("la", "lb"):
                Namespace(LINK).call(lambda undo=undo, name=name: undo(name))  # type: ignore[misc]
        assert state() == before


OWNER = """
import sys
from weirlab.emulation.reading import read_link
from weirlab.links.emulator import netem

netem.shape = lambda target, path: [
    ["qdisc", "add", "dev", target, "root", "handle", netem.ROOT, "pfifo", "limit", "1000"]
]
with netem.netem_link(("la", "lb"), sys.argv[1], read_link({}, None, None), lambda message: None):
    print("linked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("without_netem")
def test_the_kernel_goes_on_after_a_kill_until_somebody_cleans_up(hosts: Hosts) -> None:
    before = state()
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, LINK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "linked\n"
    owner.kill()
    owner.communicate()
    assert state() != before
    assert any(name.startswith("weir-") for name in journal.clean(pytest.fail))
    assert state() == before
