"""The drop-in without root: a program in a folder that stands for its group, the proxy on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from weirlab._engine import ParallelListener, ParallelProxy, ParallelSocket, relay_limits
from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.lab.isolation.groups import CgroupHierarchy, IsolationError
from weirlab.transfers.psock import options, program, redirecting, tables
from weirlab.transfers.psock import redirecting as group_of_programs
from weirlab.transfers.psock.options import SessionOptions, parse_via
from weirlab.transfers.psock.redirecting import ControlGroup

from .conftest import Weir

HOW = SessionOptions().how().plain()


def test_what_python_says_of_limits_is_what_the_engine_says() -> None:
    assert relay_limits() == {"port": options.PROXY_PORT, "connections": options.CONNECTIONS}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.0.2.1", "192.0.2.1", options.PROXY_PORT),
        ("host.example:80", "host.example", 80),
        ("::1", "::1", options.PROXY_PORT),
        ("[::1]", "::1", options.PROXY_PORT),
        ("[2001:db8::1]:65535", "2001:db8::1", 65535),
    ],
)
def test_a_proxy_is_named_by_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_via(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", ":80", "host:", "host:0", "host:65536", "host:1a", "[::1", "[::1]80", "[]:1"]
)
def test_what_names_no_proxy_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--via"):
        parse_via(text)


@pytest.fixture
def group(tmp_path: Path) -> ControlGroup:
    """A folder, into whose file a program writes what it would write into that of a group."""
    (tmp_path / "group").mkdir()
    (tmp_path / "group/cgroup.procs").write_text("")
    return ControlGroup(CgroupHierarchy(tmp_path, 2, "/"), "/group")


def _run(group: ControlGroup, *command: str, look: Callable[[], None] = lambda: None) -> int:
    began = program.UserProgram(program.located(command[0]), command, user="", descriptors=99)
    with program.signals_held(), program.begun(began, group=group.path) as process:
        return program.run(process, look)


def test_a_program_enters_its_group_and_gives_its_exit_code(group: ControlGroup, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    told = f"echo $0 $SEEN $1 $(ulimit -n) > {seen}; trap > {tmp_path}/traps; exit 7"
    os.environ["SEEN"] = "environment"
    try:
        assert _run(group, "sh", "-c", told, "name", "argument") == 7
    finally:
        del os.environ["SEEN"]
    assert seen.read_text() == "name environment argument 99\n"
    assert group.members() == [0]
    # Nothing is ignored that this process ignores: Python does so with SIGPIPE.
    assert (tmp_path / "traps").read_text() == ""


def test_a_program_has_the_open_files_that_it_was_given(group: ControlGroup) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        assert _run(group, "sh", "-c", f"echo given >/dev/fd/{write}") == 0
    finally:
        os.close(write)
    with os.fdopen(read) as file:
        assert file.read() == "given\n"


def test_a_program_that_a_signal_ends_gives_its_number(group: ControlGroup) -> None:
    # Not SIGHUP, which programs under nohup ignore.
    assert _run(group, "sh", "-c", "kill -USR1 $$") == 128 + signal.SIGUSR1
    assert _run(group, "sh", "-c", "kill -PIPE $$; exit 1") == 128 + signal.SIGPIPE


def test_a_signal_to_weir_reaches_the_program(group: ControlGroup, tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    def look() -> None:
        if ready.exists():
            # To this thread: others of this process hold no signals.
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    told = f"trap 'exit 9' TERM; : > {ready}; while :; do sleep 0.01; done"
    assert _run(group, "sh", "-c", told, look=look) == 9


class FakeGroup(ControlGroup):
    """Has other members each time; none after the last."""

    def __init__(self, *members: list[int]) -> None:
        super().__init__(CgroupHierarchy(Path("/nowhere"), 2, "/"), "/group")
        object.__setattr__(self, "each", iter(members))

    def members(self) -> list[int]:
        return next(self.each, [])  # type: ignore[attr-defined, no-any-return]


class FakeRelay:
    """Notes what it is told; has one connection until it is stopped, or finished where that is enough."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends
        self.active = 1
        self.told: list[str] = []

    def finish(self) -> None:
        self.told.append("finish")
        self.active = int(not self.ends)

    def stop(self) -> None:
        self.told.append("stop")
        self.active = 0


def _settled(group: FakeGroup, relay: FakeRelay, *signals: signal.Signals) -> list[str]:
    said: list[str] = []
    with program.signals_held():
        for number in signals:
            signal.raise_signal(number)
        program.settle(lambda: bool(group.members()), relay, lambda: None, said.append)
    return said


def test_what_was_sent_is_waited_for_when_all_processes_have_ended() -> None:
    relay = FakeRelay(ends=True)
    said = _settled(FakeGroup([7, 8], [8]), relay)
    assert relay.told == ["finish", "stop"]
    assert said == [
        "the program has ended, processes that it started have not; Ctrl-C breaks off the connections"
    ]


def test_a_signal_ends_both_waits() -> None:
    relay = FakeRelay(ends=True)
    said = _settled(FakeGroup([7], [7], [7]), relay, signal.SIGTERM)
    assert (relay.told, len(said)) == (["stop"], 2)
    relay = FakeRelay(ends=False)
    said = _settled(FakeGroup(), relay, signal.SIGINT)
    assert relay.told == ["finish", "stop"]
    assert said == ["interrupted: not everything that the program sent is known to have arrived"]


def test_programs_are_found_by_path_but_not_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "own"
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{programs.FOLDERS}")
    for name in ("own", "missing", "", "a\0b"):
        with pytest.raises(InputError, match="no program"):
            program.located(name)
    assert program.located("./own") == "./own"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.located("own") == str(made)


def test_what_is_wrong_is_said_before_anything_begins(
    weir: Weir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    answer = weir("psock", "run", "--via", "localhost", "--by", "bpf", "--", "true", "--help")
    assert answer.code == MissingCapability.exit_code
    assert "needs root" in answer.err
    answer = weir("psock", "run", "--via", "localhost", "--user", "root", "--", "true")
    assert answer.code == MissingCapability.exit_code
    assert "--user needs root" in answer.err
    assert weir("psock", "run", "--via", "a:b", "true").code == InputError.exit_code
    answer = weir("psock", "run", "--via", "localhost", "--user", "no such", "true")
    assert (answer.code, "no such user" in answer.err) == (InputError.exit_code, True)
    answer = weir("psock", "run", "--via", "localhost", "--", tmp_path / "missing")
    assert (answer.code, "no program" in answer.err) == (InputError.exit_code, True)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"WEIRPXY\x03\x03" + bytes(7), "has no room for another session"),
        (b"220 mail.example.org ESMTP\r\n", "is no weir psock proxy"),
    ],
    ids=["full", "another"],
)
def test_a_proxy_without_room_is_told_from_what_is_none(weir: Weir, answer: bytes, why: str) -> None:
    listener = ParallelListener([("127.0.0.1", 0)], HOW)

    def reply() -> None:
        while (found := listener.accept(0.1)) is None:
            pass
        found[0].write_all(answer)
        found[0].close()

    thread = threading.Thread(target=reply)
    thread.start()
    told = weir("psock", "run", "--via", f"127.0.0.1:{listener.addresses[0][1]}", "--", "true")
    thread.join()
    assert (told.code, why in told.err) == (LabError.exit_code, True), told.err


def test_a_proxy_connects_to_nothing_that_it_was_not_told(weir: Weir) -> None:
    answer = weir("psock", "proxy", "--port", "0")
    assert (answer.code, "--allow is missing" in answer.err) == (InputError.exit_code, True)
    answer = weir("psock", "proxy", "--port", "0", "--allow", "192.0.2.1/24")
    assert (answer.code, "192.0.2.0/24" in answer.err) == (InputError.exit_code, True)
    answer = weir("psock", "proxy", "--port", "0", "--allow", "any", "--bind", "0.0.0.0")
    assert (answer.code, "needs a token" in answer.err) == (InputError.exit_code, True)


@contextmanager
def _echo() -> Iterator[int]:
    """A destination that answers with what it gets; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as stream:
            while data := stream.recv(1 << 16):
                stream.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    thread.join()


def _request(address: str, port: int) -> bytes:
    """As docs/psock-run.md says."""
    ip = socket.inet_pton(socket.AF_INET6, f"::ffff:{address}")
    return struct.pack("<7sBH6x16sQQ", b"WEIRPXY", 3, port, ip, 7, 0)


def _read(made: ParallelSocket, size: int) -> bytes:
    got = b""
    while len(got) < size and (data := made.read(size - len(got))):
        got += data
    return got


def test_a_session_names_its_destination_as_it_is_written_down() -> None:
    made = ParallelProxy([("127.0.0.1", 0)], HOW, allow=["127.0.0.1"], most=4)
    with _echo() as port:
        client = ParallelSocket.connect([(None, *made.addresses[0])] * 2, HOW)
        client.write_all(_request("127.0.0.1", port))
        assert _read(client, 16) == b"WEIRPXY\x03" + bytes(8)
        client.write_all(b"\x01\x08\0\0question")
        assert _read(client, 12) == b"\x01\x08\0\0question"
        client.write_all(b"\x03\0\0\0")
        assert _read(client, 4) == b"\x03\0\0\0"
        client.close()
    found = tables.RelayTotals()
    while not found.connections:
        assert found.take(made.ended()) == []
    made.stop()
    assert (found.sent_bytes, found.received_bytes, found.failed) == (8, 8, 0)
    assert tables.relayed(found, "session") == "1 session, 8 B sent and 8 B received."
    document = tables.relayed_document(found)
    assert document["last"][0]["to"] == f"127.0.0.1:{port}"
    [path] = document["paths"]
    assert path["local"] == "127.0.0.1"
    # The heads of parts are carried as well, and the request and the reply.
    assert 8 + 4 <= path["received_bytes"] <= 8 + 8 + 48
    assert 8 + 4 <= path["sent_bytes"] <= 8 + 8 + 16
    captions = [table.caption for table in tables.relayed_tables(found)]
    assert captions == ["Paths", "Connections"]
    assert tables.relayed_tables(found)[1].rows[0][-1] == "done"


def test_what_failed_is_counted_and_said() -> None:
    made = ParallelProxy([("127.0.0.1", 0)], HOW, allow=["any"], most=4)
    client = ParallelSocket.connect([(None, *made.addresses[0])], HOW)
    client.write_all(_request("127.0.0.1", 80))
    assert _read(client, 16) == b"WEIRPXY\x03\x02" + bytes(7)
    client.abort()
    found, said = tables.RelayTotals(), []
    while not said:
        said = found.take(made.ended())
    made.stop()
    assert said == ["127.0.0.1:80: the proxy does not allow this destination (--allow)"]
    assert tables.relayed(found, "session").endswith("and 1 failed.")
    assert tables.relayed_tables(found)[-1].rows[0][-1].startswith("the proxy does not allow")


def _threads(number: int) -> list[str]:
    """Names of the threads of a process."""
    names = []
    for task in Path(f"/proc/{number}/task").iterdir():
        with suppress(OSError):
            names.append((task / "comm").read_text())
    return names


def test_what_programs_need_of_the_machine_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> CgroupHierarchy:
        raise IsolationError("no control groups of version 2 are mounted", "mount them")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(group_of_programs, "unified", refuse)
    found, _ = redirecting.findings()
    assert (found.ok, found.essential, found.remedy) == (False, False, "mount them")
    assert "no control groups of version 2 are mounted" in found.detail
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found, other = redirecting.findings()
    assert not found.ok
    assert "needs root" in found.detail
    assert "--user NAME" in found.remedy
    # That needs no privileges, and was tried; a container's own filter may be in the way.
    assert other.name == "psock run --by seccomp"
    assert other.ok or (other.detail and other.remedy)


def test_a_proxy_tells_at_its_end_what_it_carried() -> None:
    command = ("psock", "proxy", "--port", "0", "--allow", "127.0.0.1", "--json")
    with (
        subprocess.Popen(
            [sys.executable, "-m", "weirlab", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as proxy,
        _echo() as port,
    ):
        assert proxy.stdout is not None
        assert proxy.stderr is not None
        at = int(proxy.stderr.readline().split(";")[0].rpartition(":")[2])
        client = ParallelSocket.connect([(None, "127.0.0.1", at)], HOW)
        client.write_all(_request("127.0.0.1", port) + b"\x01\x08\0\0question\x03\0\0\0")
        assert _read(client, 32)[16:] == b"\x01\x08\0\0question\x03\0\0\0"
        client.close()
        # What it stops, it does not count as done.
        while "psock relay\n" in _threads(proxy.pid):
            time.sleep(0.005)
        proxy.send_signal(signal.SIGINT)
        found = json.loads(proxy.stdout.read())
    assert proxy.returncode == 0
    assert (found["kind"], found["connections"], found["sent_bytes"]) == ("psock proxy", 1, 8)
    assert found["conclusion"] == "1 session, 8 B sent and 8 B received."
