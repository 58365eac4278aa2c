"""``weir psock run`` where something ends or fails: connections, programs, the command itself."""

from __future__ import annotations

import hashlib
import json
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from weirlab._engine import ParallelProxy
from weirlab.lab.isolation.groups import unified
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.host import journal
from weirlab.transfers.psock.redirecting import PREFIX, findings

from .conftest import DEADLINE_S
from .psock_hosts import (
    DESTINATION,
    DESTINATION6,
    FAR,
    MARKS,
    TOKEN,
    Received,
    begin,
    command,
    listening,
    proxy_with,
    run,
)

pytestmark = MARKS

Eventually = Callable[[Callable[[], bool]], None]


FAILING: Final = """
import errno, select, socket, sys
for address, port in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    for is_blocking in (True, False):
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        made.setblocking(is_blocking)
        number = made.connect_ex((address, port))
        if number == errno.EINPROGRESS:
            poll = select.poll()
            poll.register(made, select.POLLOUT)
            [(_, events)] = poll.poll()
            # The kernel sets the error before the state: POLLHUP may come a moment later.
            assert events & select.POLLERR
            number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        print(errno.errorcode[number])
"""
ENDS: Final = [
    *((DESTINATION, 9, "ECONNREFUSED"), (DESTINATION6, 9, "ECONNREFUSED"), ("127.0.0.1", 7, "ECONNREFUSED")),
    *(("10.98.1.77", 80, "EHOSTUNREACH"), ("2001:db8:98::77", 80, "EHOSTUNREACH")),
    *(
        ("198.51.100.1", 80, "ENETUNREACH"),
        ("2001:db9::1", 80, "ENETUNREACH"),
        ("192.0.2.7", 80, "EHOSTUNREACH"),
    ),
]
"""Destinations at which nothing listens; a neighbour that does not exist; no route; not allowed."""


@pytest.mark.parametrize("by", ["bpf", "seccomp"])
def test_connect_fails_with_the_error_of_the_far_host_and_loopback_is_left_alone(
    proxy: ParallelProxy, by: str
) -> None:
    ends = [(address, port) for address, port, _ in ENDS]
    allow = [address for address, _ in ends[:-1]]
    allowing = Namespace(FAR).call(lambda: proxy_with(allow, 29106))
    options = ["--via", "10.98.1.2:29106", "--by", by]
    for word in ("any", "10.98.1.77", "2001:db8:98::77"):
        options += ["--only", word]
    words = [str(word) for end in ends for word in end]
    try:
        ran = run(*options, "--", sys.executable, "-c", FAILING, *words)
    finally:
        allowing.stop()
    expected = [number if by == "bpf" else "ECONNREFUSED" for *_, number in ENDS for _ in range(2)]
    assert (ran.code, ran.out.split()) == (0, expected), ran.err
    assert "203.0.113.9:9: the destination refused the connection" in ran.err
    assert "192.0.2.7:80: the proxy does not allow this destination" in ran.err


SILENT: Final = """
import socket, sys, time
begun = time.monotonic()
made = socket.socket()
made.settimeout(0.7)
try:
    made.connect((sys.argv[1], int(sys.argv[2])))
except TimeoutError:
    print("in time" if 0.7 <= time.monotonic() - begun < 5 else "late")
"""


@pytest.mark.parametrize("by", ["bpf", "seccomp"])
def test_a_destination_that_does_not_answer_costs_the_program_its_own_time(
    proxy: ParallelProxy, by: str
) -> None:
    # Its queue is full, so the kernel drops what comes.
    with Namespace(FAR).call(lambda: socket.create_server((DESTINATION, 0), backlog=0)) as server:
        at = server.getsockname()
        waiting = [Namespace(FAR).call(_begun) for _ in range(3)]
        for each in waiting:
            each.connect_ex(at)
        ran = run("--by", by, "--json", "--", sys.executable, "-c", SILENT, *at)
        for each in waiting:
            each.close()
    assert (ran.code, "in time\n" in ran.err) == (0, True), ran.err
    assert json.loads(ran.out)["reset"] == 1


def _begun() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made


MANY: Final = """
import asyncio, sys

address, port, count, is_held = *sys.argv[1:2], *map(int, sys.argv[2:5])

async def one(answered, all_answered):
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(b"x")
    found = await reader.read()
    answered.append(found)
    if len(answered) == count:
        all_answered.set()
    if is_held:
        await all_answered.wait()
    writer.close()
    return found

async def main():
    shared = [], asyncio.Event()
    # Who waits for all must not wait for one that failed.
    made = (one(*shared) for _ in range(count))
    found = await asyncio.gather(*made, return_exceptions=not is_held)
    print(found.count(b"y"), {str(each) for each in found if each != b"y"})

asyncio.run(main())
"""


def _answer(stream: socket.socket) -> None:
    stream.recv(1)
    stream.sendall(b"y")


@pytest.mark.parametrize("connections", [60, 256, 2000])
def test_many_connections_at_once_wait_their_turn(proxy: ParallelProxy, connections: int) -> None:
    # The proxy takes 64 at one time.
    with listening(_answer, DESTINATION, count=300) as port:
        options = ("--streams", 2, "--connections", connections)
        ran = run(*options, "--", sys.executable, "-c", MANY, DESTINATION, port, 300, 0)
    assert (ran.code, ran.out) == (0, "300 set()\n"), ran.err


def test_2000_connections_are_open_at_the_same_time(proxy: ParallelProxy) -> None:
    wide = Namespace(FAR).call(lambda: proxy_with([DESTINATION], 29104, 2000))
    try:
        with listening(_answer, DESTINATION, count=2000) as port:
            ran = run(
                "--via", "10.98.1.2:29104", "--", sys.executable, "-c", MANY, DESTINATION, port, 2000, 1
            )
    finally:
        wide.stop()
    assert (ran.code, ran.out) == (0, "2000 set()\n"), ran.err


IN_TURN: Final = """
import socket, sys

for pair in range(int(sys.argv[3])):
    made = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(2)]
    for number, stream in reversed(list(enumerate(made))):
        stream.sendall(bytes([number]))
    for stream in made:
        stream.recv(1)
        stream.close()
"""


@pytest.mark.parametrize("by", ["bpf", "seccomp"])
def test_connections_are_accepted_in_the_order_in_which_they_were_opened(
    proxy: ParallelProxy, by: str
) -> None:
    numbers, pairs = [], 100

    def note(stream: socket.socket) -> None:
        numbers.append(stream.recv(1)[0])

    with listening(note, DESTINATION, count=2 * pairs) as port:
        ran = run("--by", by, "--", sys.executable, "-c", IN_TURN, DESTINATION, port, pairs)
    assert (ran.code, numbers) == (0, [0, 1] * pairs), ran.err


def test_the_doctor_tries_what_is_needed_and_leaves_nothing(proxy: ParallelProxy) -> None:
    before = _groups()
    for found in findings():
        assert (found.ok, found.essential) == (True, False), found.detail
    assert _groups() == before


def test_the_exit_code_is_the_programs_and_signals_reach_it(proxy: ParallelProxy) -> None:
    assert run("--", "sh", "-c", "exit 7").code == 7
    assert run("--", "sh", "-c", "kill -TERM $$").code == 128 + signal.SIGTERM
    script = "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done"
    with begin(command("--", "sh", "-c", script)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 9


def test_a_program_may_be_another_users_and_outlive_its_parent(proxy: ParallelProxy) -> None:
    received = Received()
    with listening(received.take) as port:
        # It connects when the program has ended; whoever nobody is cannot start this Python.
        late = f"exec 3<>/dev/tcp/{DESTINATION}/{port}; printf late >&3"
        script = 'id -un; (while kill -0 $$; do sleep 0.02; done; exec bash -c "$0") 2>&- & exec true'
        ran = run("--user", "nobody", "--", "sh", "-c", script, late)
    assert (ran.code, ran.out) == (0, "nobody\n"), ran.err
    assert received.digest == hashlib.sha256(b"late").hexdigest()


def _groups() -> list[Path]:
    here = unified()
    return [here.path(here.home, name) for name in here.children(here.home) if name.startswith(PREFIX)]


URGENT: Final = """
import select, socket, sys
made = socket.create_connection((sys.argv[1], int(sys.argv[2])))
made.sendall(b"abc")
made.send(b"!", socket.MSG_OOB)
made.sendall(b"def")
poll = select.poll()
poll.register(made, select.POLLPRI)
poll.poll()
print(made.recv(1, socket.MSG_OOB))
made.shutdown(socket.SHUT_WR)
assert made.recv(1) == b""
"""


@pytest.mark.parametrize("by", ["bpf", "seccomp"])
def test_an_urgent_byte_is_urgent_at_the_other_end(proxy: ParallelProxy, by: str) -> None:
    got = []

    def work(stream: socket.socket) -> None:
        poll = select.poll()
        poll.register(stream, select.POLLPRI)
        poll.poll()
        got.append(stream.recv(1, socket.MSG_OOB))
        stream.send(b"?", socket.MSG_OOB)
        while data := stream.recv(100):
            got.append(data)

    with listening(work) as port:
        ran = run("--by", by, "--", sys.executable, "-c", URGENT, DESTINATION, port)
    assert (ran.code, ran.out) == (0, "b'?'\n"), ran.err
    assert (got[0], b"".join(got[1:])) == (b"!", b"abcdef")


@pytest.mark.parametrize("by", ["bpf", "seccomp"])
def test_a_destination_that_does_not_end_delays_no_program(proxy: ParallelProxy, by: str) -> None:
    got = []
    has_ended = threading.Event()

    def work(stream: socket.socket) -> None:
        got.append(stream.recv(9))
        assert has_ended.wait(DEADLINE_S)
        got.append(stream.recv(9))

    program = f"import socket; socket.create_connection(('{DESTINATION}', {{}})).sendall(b'all')"
    with listening(work) as port:
        try:
            ran = run("--by", by, "--json", "--", sys.executable, "-c", program.format(port))
        finally:
            has_ended.set()
    found = json.loads(ran.out)
    assert (ran.code, found["connections"], found["failed"], found["reset"]) == (0, 1, 0, 0), ran
    assert got == [b"all", b""]


LOSING: Final = """
import socket, sys
made = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("connected", flush=True)
try:
    made.recv(1)
except ConnectionResetError:
    print("reset")
"""


def test_a_connection_is_reset_when_the_host_of_its_proxy_refuses_another(proxy: ParallelProxy) -> None:
    has_ended = threading.Event()
    serving = [sys.executable, "-m", "weirlab", "psock", "proxy", "--bind", "10.98.1.2", "--port", "29107"]
    serving += ["--token", TOKEN, "--allow", DESTINATION]
    with (
        Namespace(FAR).call(lambda: subprocess.Popen(serving, stderr=subprocess.PIPE, text=True)) as far,
        listening(lambda _: has_ended.wait(DEADLINE_S) or None) as port,
    ):
        try:
            assert far.stderr is not None
            assert "listening" in far.stderr.readline()
            own = [
                sys.executable, "-m", "weirlab", "psock", "run", "--via", "10.98.1.2:29107", "--token",
                TOKEN,
            ]  # fmt: skip
            with begin([*own, "--", sys.executable, "-c", LOSING, DESTINATION, str(port)]) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "connected\n"
                far.kill()
                out, err = process.communicate()
        finally:
            has_ended.set()
            far.kill()
    assert (process.returncode, out) == (0, "reset\n"), err
    assert "the other end has closed all connections, and did not come back" in err


def test_whatever_ends_the_owner_nothing_is_left_behind(proxy: ParallelProxy, eventually: Eventually) -> None:
    before = set(_groups())
    with begin(command("--", "sh", "-c", "echo $$; exec sleep 600")) as process:
        assert process.stdout is not None
        program = int(process.stdout.readline())
        [group] = set(_groups()) - before
        process.kill()
        process.wait()
        # Its connections would be carried no more.
        eventually(lambda: _has_ended(program))
    assert group.exists()
    assert journal.clean(pytest.fail)
    assert not group.exists()
    assert run("--", "true").code == 0
    assert set(_groups()) == before


def _has_ended(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_without_a_proxy_nothing_begins_unless_plain_tcp_will_do(proxy: ParallelProxy) -> None:
    def elsewhere(*arguments: object) -> list[str]:
        own = [sys.executable, "-m", "weirlab", "psock", "run", "--via", "10.98.1.2:9"]
        return [*own, *map(str, arguments)]

    received = Received()
    with listening(received.take, "10.98.1.2") as port:
        program = (
            f"import socket; made = socket.create_connection(('10.98.1.2', {port})); made.sendall(b'plain'); "
        )
        program += "made.shutdown(1); print(made.recv(9))"
        with begin(elsewhere("--", sys.executable, "-c", program)) as process:
            out, err = process.communicate()
        assert (process.returncode, out) == (4, ""), err
        assert "cannot connect to 10.98.1.2:9" in err
        with begin(
            elsewhere("--only", "10.98.1.2", "--fallback", "--summary", "--", sys.executable, "-c", program)
        ) as process:
            out, err = process.communicate()
        assert (process.returncode, out) == (0, "b'done'\n"), err
    assert received.digest == hashlib.sha256(b"plain").hexdigest()
    assert "1 by plain TCP" in err
