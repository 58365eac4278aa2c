"""Programs that know nothing of parallel sockets, over two paths to a destination behind the proxy."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from pyroute2 import IPRoute

from weirlab import programs
from weirlab._engine import ParallelProxy
from weirlab.lab.isolation.groups import Refused, unified
from weirlab.lab.linux.interface import add_address
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.host import journal
from weirlab.studies.psock.dropin.group import PREFIX
from weirlab.studies.psock.options import SessionOptions

from .conftest import DEADLINE_S

pytestmark = pytest.mark.netns

try:
    unified()
except Refused as refused:
    pytestmark = [pytest.mark.netns, pytest.mark.skip(reason=str(refused))]

Eventually = Callable[[Callable[[], bool]], None]

NEAR, FAR = (f"weirpr{os.getpid()}{part}" for part in "nf")
DESTINATION: Final = "203.0.113.9"
"""An address of the far host alone, to which the near one has no route."""
DESTINATION6: Final = "2001:db8:9::9"
TOKEN: Final = "token"
SCHEDULER: Final = "round-robin"
"""Each stream in turn: how much a path carries does not depend on its speed."""
DATA: Final = random.Random(3).randbytes(4_000_000)
HASH: Final = hashlib.sha256(DATA).hexdigest()


@dataclass
class Ran:
    """A program at its end."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def hosts() -> Iterator[None]:
    """A near and a far host with two paths between them, 10.98.1.x and 10.98.2.x."""
    try:
        for name in (NEAR, FAR):
            Namespace(name).create()
        Namespace(NEAR).call(_wire)
        Namespace(FAR).call(_wire_far)
        yield
    finally:
        for name in (NEAR, FAR):
            Namespace(name).remove()
        journal.clean(pytest.fail)


def _wire() -> None:
    fd = os.open(Namespace(FAR).path, os.O_RDONLY | os.O_CLOEXEC)
    with IPRoute() as netlink:
        netlink.link("set", index=netlink.link_lookup(ifname="lo")[0], state="up")
        for path in (1, 2):
            netlink.link("add", ifname=f"p{path}", kind="veth", peer={"ifname": f"p{path}", "net_ns_fd": fd})
            index = netlink.link_lookup(ifname=f"p{path}")[0]
            add_address(netlink, index, f"10.98.{path}.1", 24)
            netlink.link("set", index=index, state="up")
    os.close(fd)


def _wire_far() -> None:
    with IPRoute() as netlink:
        loopback = netlink.link_lookup(ifname="lo")[0]
        netlink.link("set", index=loopback, state="up")
        add_address(netlink, loopback, DESTINATION, 32)
        add_address(netlink, loopback, DESTINATION6, 128)
        for path in (1, 2):
            index = netlink.link_lookup(ifname=f"p{path}")[0]
            add_address(netlink, index, f"10.98.{path}.2", 24)
            netlink.link("set", index=index, state="up")


@pytest.fixture(scope="module")
def proxy(hosts: None) -> Iterator[ParallelProxy]:
    how = SessionOptions(token=TOKEN).how(SCHEDULER).plain()
    addresses = [(f"10.98.{path}.2", 29102) for path in (1, 2)]
    allow = ["203.0.113.0/24", "2001:db8::/32", "127.0.0.1:7"]
    made = Namespace(FAR).call(lambda: ParallelProxy(addresses, how, allow=allow, most=64))
    yield made
    made.stop()


def _command(*arguments: object) -> list[str]:
    paths = [word for path in (1, 2) for word in ("--path", f"10.98.{path}.1,10.98.{path}.2")]
    own = [sys.executable, "-m", "weirlab", "psock", "run", "--via", "10.98.1.2", "--token", TOKEN]
    return [*own, *paths, "--streams", "1", "--scheduler", SCHEDULER, *map(str, arguments)]


def _begin(command: list[str], **options: Any) -> subprocess.Popen[str]:
    return Namespace(NEAR).call(
        lambda: subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
    )


def _run(*arguments: object, **options: Any) -> Ran:
    with _begin(_command(*arguments), **options) as process:
        out, err = process.communicate()
    return Ran(process.returncode, out, err)


def _carried() -> list[tuple[int, int]]:
    """Bytes that each path has carried away from the near host, and to it, as its interfaces say."""

    def read() -> list[tuple[int, int]]:
        with IPRoute() as netlink:
            found = []
            for path in (1, 2):
                [link] = netlink.get_links(ifname=f"p{path}")
                stats = link.get_attr("IFLA_STATS64")
                found.append((stats["tx_bytes"], stats["rx_bytes"]))
            return found

    return Namespace(NEAR).call(read)


@contextmanager
def _both_paths_carry(data_bytes: int, direction: int) -> Iterator[None]:
    """Each path carries a part of ``data_bytes`` inside (0: away from the near host).

    Which part depends on who is served when. Without streams on it, a path carries a few thousand bytes.
    """
    before = _carried()
    yield
    for path, (then, now) in enumerate(zip(before, _carried(), strict=True), 1):
        assert now[direction] - then[direction] > data_bytes * 0.02, f"path {path}"


@pytest.fixture(scope="module")
def website(hosts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the far host offers ``DATA``."""
    folder = tmp_path_factory.mktemp("website")
    (folder / "data.bin").write_bytes(DATA)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

    handler = partial(Quiet, directory=str(folder))
    with Namespace(FAR).call(lambda: ThreadingHTTPServer((DESTINATION, 0), handler)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{DESTINATION}:{server.server_port}/data.bin"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _listening(
    work: Callable[[socket.socket], None], address: str = DESTINATION, port: int = 0
) -> Iterator[int]:
    """A server on the far host; ``work`` gets its first connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = Namespace(FAR).call(lambda: socket.create_server((address, port), family=family))
    listener.settimeout(DEADLINE_S)

    def serve() -> None:
        with listener, listener.accept()[0] as stream:
            work(stream)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()


def _send_data(stream: socket.socket) -> None:
    stream.sendall(DATA)


class Received:
    """What a server got."""

    def __init__(self) -> None:
        self.digest = ""

    def take(self, stream: socket.socket) -> None:
        found = hashlib.sha256()
        while data := stream.recv(1 << 16):
            found.update(data)
        self.digest = found.hexdigest()
        stream.sendall(b"done")


def test_curl_downloads_over_two_paths(proxy: ParallelProxy, website: str, tmp_path: Path) -> None:
    if programs.find("curl") is None:
        pytest.skip("curl is not installed")
    out = tmp_path / "data.bin"
    with _both_paths_carry(len(DATA), 1):
        ran = _run("--json", "--", "curl", "-sS", "-w", "%{remote_ip}", "-o", out, website)
        assert ran.code == 0, ran.err
    assert hashlib.sha256(out.read_bytes()).hexdigest() == HASH
    # What the program says goes aside; what it sees as its other end is the destination.
    assert DESTINATION in ran.err
    found = json.loads(ran.out)
    assert (found["kind"], found["exit_code"]) == ("psock run", 0)
    assert (found["connections"], found["failed"]) == (1, 0)
    assert found["received_bytes"] > len(DATA)
    assert {each["local"] for each in found["paths"]} == {"10.98.1.1", "10.98.2.1"}
    assert found["last"][0]["to"] == website.split("/")[2]


PROGRAM: Final = """
import os, select, socket, sys
address, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
made.setblocking(False)
assert made.connect_ex((address, port)) in (0, 115)
poll = select.poll()
poll.register(made, select.POLLOUT)
assert poll.poll() == [(made.fileno(), select.POLLOUT)]
assert made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert made.getpeername()[:2] == (address, port), made.getpeername()
copy = socket.socket(fileno=os.dup(made.fileno()))
made.close()
copy.setblocking(True)
if os.fork() == 0:
    with open(path, "rb") as file:
        copy.sendfile(file)
    copy.shutdown(socket.SHUT_WR)
    os._exit(0)
os.wait()
print(copy.recv(100).decode(), copy.recv(1).decode())
"""
"""Polls, duplicates, forks, sends a file, and reads behind its own end."""


@pytest.mark.parametrize("address", [DESTINATION, DESTINATION6])
def test_poll_dup_fork_and_sendfile_work(proxy: ParallelProxy, address: str, tmp_path: Path) -> None:
    data, received = tmp_path / "data.bin", Received()
    data.write_bytes(DATA)
    with _both_paths_carry(len(DATA), 0), _listening(received.take, address) as port:
        ran = _run("--", sys.executable, "-c", PROGRAM, address, port, data)
        assert (ran.code, ran.out) == (0, "done \n"), ran.err
    assert received.digest == HASH


STATIC: Final = r"""
#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
	static char buffer[65536];
	ssize_t got;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return 2;
	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		if (write(1, buffer, got) != got)
			return 3;
	return got < 0;
}
"""

GO: Final = """
package main

import (
	"io"
	"net"
	"os"
)

func main() {
	made, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		panic(err)
	}
	if _, err := io.Copy(os.Stdout, made); err != nil {
		panic(err)
	}
}
"""


def _built(language: str, folder: Path) -> Path:
    made = folder / language
    if language == "c":
        if (compiler := programs.find("cc")) is None:
            pytest.skip("cc is not installed")
        source = folder / "get.c"
        source.write_text(STATIC)
        subprocess.run([compiler, "-static", "-o", made, source], check=True)
    else:
        go = next((found for found in (programs.find("go"), "/usr/local/go/bin/go") if found), "")
        if not Path(go).exists():
            pytest.skip("go is not installed")
        source = folder / "get.go"
        source.write_text(GO)
        env = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": ""}
        subprocess.run([go, "build", "-o", made, source], check=True, env=env)
    return made


@pytest.mark.parametrize("language", ["c", "go"])
def test_static_programs_download_over_two_paths(proxy: ParallelProxy, language: str, tmp_path: Path) -> None:
    made, out = _built(language, tmp_path), tmp_path / "out"
    with _both_paths_carry(len(DATA), 1), _listening(_send_data) as port, out.open("wb") as file:
        command = _command("--", made, DESTINATION, port)
        code = Namespace(NEAR).call(lambda: subprocess.run(command, stdout=file, check=False)).returncode
    assert code == 0
    assert hashlib.sha256(out.read_bytes()).hexdigest() == HASH


def test_iperf3_sends_over_two_paths(proxy: ParallelProxy) -> None:
    if (iperf3 := programs.find("iperf3")) is None:
        pytest.skip("iperf3 is not installed")
    server = Namespace(FAR).call(
        lambda: subprocess.Popen(
            [iperf3, "-s", "-1", "-B", DESTINATION, "-p", "5298", "--forceflush"],
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    with server:
        assert server.stdout is not None
        while "listening" not in (said := server.stdout.readline()):
            assert said, "iperf3 has ended"
        before = _carried()
        ran = _run("--", iperf3, "-c", DESTINATION, "-p", "5298", "-t", "1", "-b", "20M", "--json")
        server.terminate()
        server.stdout.read()
    assert ran.code == 0, (ran.out, ran.err)
    # The server ends the test when its control connection says so, whatever is still on its way.
    received = json.loads(ran.out)["end"]["sum_received"]["bytes"]
    assert received > 100_000
    for (then, _), (now, _) in zip(before, _carried(), strict=True):
        assert now - then > received * 0.02


def test_ssh_copies_over_two_paths(proxy: ParallelProxy, tmp_path: Path) -> None:
    ssh, sshd, keygen = map(programs.find, ("ssh", "sshd", "ssh-keygen"))
    if not (ssh and sshd and keygen):
        pytest.skip("ssh, sshd or ssh-keygen is not installed")
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "known").write_text(f"[{DESTINATION}]:2298 {(tmp_path / 'host.pub').read_text()}")
    os.makedirs("/run/sshd", exist_ok=True)
    given = {
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "user.pub",
        "ListenAddress": DESTINATION,
        "Port": 2298,
        "StrictModes": "no",
        "PermitRootLogin": "yes",
        "UsePAM": "no",
        "PidFile": "none",
    }
    options = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
    server = Namespace(FAR).call(
        lambda: subprocess.Popen(
            [sshd, "-D", "-e", "-f", "/dev/null", *options], stderr=subprocess.PIPE, text=True
        )
    )
    with server:
        assert server.stderr is not None
        while "Server listening" not in (said := server.stderr.readline()):
            assert said, "sshd has ended"
        client = [
            *(ssh, "-F", "/dev/null", "-i", tmp_path / "user", "-p", "2298"),
            *("-o", f"UserKnownHostsFile={tmp_path / 'known'}", "-o", "BatchMode=yes"),
            *("-o", "IdentitiesOnly=yes", f"root@{DESTINATION}", "sha256sum; exit 5"),
        ]
        data = tmp_path / "data.bin"
        data.write_bytes(DATA)
        with _both_paths_carry(len(DATA), 0), data.open("rb") as file:
            ran = _run("--", *client, stdin=file)
        server.terminate()
        server.stderr.read()
    assert (ran.code, ran.out.split()[:1]) == (5, [HASH]), ran.err


MANY: Final = """
import socket, sys, threading
address, port = sys.argv[1], int(sys.argv[2])
problems = []
def ask(number):
    with socket.create_connection((address, port)) as made:
        made.sendall(bytes([number]) * 10000)
        made.shutdown(socket.SHUT_WR)
        got = b""
        while data := made.recv(65536):
            got += data
        if got != bytes([number]) * 10000:
            problems.append(number)
threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
[each.start() for each in threads]
[each.join() for each in threads]
sys.exit(len(problems))
"""


def test_many_connections_at_once_are_kept_apart(proxy: ParallelProxy) -> None:
    listener = Namespace(FAR).call(lambda: socket.create_server((DESTINATION, 0), backlog=64))

    def echo(stream: socket.socket) -> None:
        with stream:
            got = b""
            while data := stream.recv(1 << 16):
                got += data
            stream.sendall(got)

    def serve() -> None:
        for _ in range(20):
            threading.Thread(target=echo, args=(listener.accept()[0],)).start()

    with listener:
        listener.settimeout(DEADLINE_S)
        thread = threading.Thread(target=serve)
        thread.start()
        ran = _run("--summary", "--", sys.executable, "-c", MANY, DESTINATION, listener.getsockname()[1])
        assert ran.code == 0, ran.err
        thread.join()
    assert "20 connections, 200 kB sent and 200 kB received." in ran.err


FAILING: Final = """
import errno, socket, sys
for address, port in [("203.0.113.9", 9), ("192.0.2.7", 80)]:
    with socket.create_connection((address, port)) as made:
        try:
            sys.exit(f"{made.recv(1)!r} instead of an error")
        except ConnectionResetError:
            pass
# Not the far host's, although there is a server at this port.
try:
    socket.create_connection(("127.0.0.1", 7))
    sys.exit("connected")
except ConnectionRefusedError:
    pass
print("failed as it should")
"""


def test_what_cannot_be_reached_is_reset_and_said_and_loopback_is_left_alone(proxy: ParallelProxy) -> None:
    ran = _run("--", sys.executable, "-c", FAILING)
    assert (ran.code, ran.out) == (0, "failed as it should\n"), ran.err
    assert "203.0.113.9:9: the destination refused the connection" in ran.err
    assert "192.0.2.7:80: the proxy does not allow this destination" in ran.err


def test_loopback_that_is_named_is_that_of_the_proxy(proxy: ParallelProxy) -> None:
    received = Received()
    with _listening(received.take, "127.0.0.1", 7):
        program = "import socket; socket.create_connection(('127.0.0.1', 7)).sendall(b'hello')"
        ran = _run("--only", "127.0.0.1:7", "--", sys.executable, "-c", program)
        assert ran.code == 0, ran.err
    # The program ended at once, and what it sent has arrived.
    assert received.digest == hashlib.sha256(b"hello").hexdigest()


def test_the_exit_code_is_the_programs_and_signals_reach_it(proxy: ParallelProxy) -> None:
    assert _run("--", "sh", "-c", "exit 7").code == 7
    assert _run("--", "sh", "-c", "kill -TERM $$").code == 128 + signal.SIGTERM
    script = "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done"
    with _begin(_command("--", "sh", "-c", script)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 9


def test_a_program_may_be_another_users_and_outlive_its_parent(proxy: ParallelProxy) -> None:
    received = Received()
    with _listening(received.take) as port:
        # It connects when the program has ended; whoever nobody is cannot start this Python.
        late = f"exec 3<>/dev/tcp/{DESTINATION}/{port}; printf late >&3"
        script = 'id -un; (while kill -0 $$; do sleep 0.02; done; exec bash -c "$0") 2>&- & exec true'
        ran = _run("--user", "nobody", "--", "sh", "-c", script, late)
    assert (ran.code, ran.out) == (0, "nobody\n"), ran.err
    assert received.digest == hashlib.sha256(b"late").hexdigest()


def _groups() -> list[Path]:
    here = unified()
    return [here.path(here.home, name) for name in here.children(here.home) if name.startswith(PREFIX)]


def test_whatever_ends_the_owner_nothing_is_left_behind(proxy: ParallelProxy, eventually: Eventually) -> None:
    before = set(_groups())
    with _begin(_command("--", "sh", "-c", "echo $$; exec sleep 600")) as process:
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
    assert _run("--", "true").code == 0
    assert set(_groups()) == before


def _has_ended(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_without_a_proxy_nothing_begins_unless_plain_tcp_will_do(hosts: None) -> None:
    def command(*arguments: object) -> list[str]:
        own = [sys.executable, "-m", "weirlab", "psock", "run", "--via", "10.98.1.2:9"]
        return [*own, *map(str, arguments)]

    received = Received()
    with _listening(received.take, "10.98.1.2") as port:
        program = (
            f"import socket; made = socket.create_connection(('10.98.1.2', {port})); made.sendall(b'plain'); "
        )
        program += "made.shutdown(1); print(made.recv(9))"
        with _begin(command("--", sys.executable, "-c", program)) as process:
            out, err = process.communicate()
        assert (process.returncode, out) == (4, ""), err
        assert "cannot connect to 10.98.1.2:9" in err
        with _begin(command("--fallback", "--summary", "--", sys.executable, "-c", program)) as process:
            out, err = process.communicate()
        assert (process.returncode, out) == (0, "b'done'\n"), err
    assert received.digest == hashlib.sha256(b"plain").hexdigest()
    assert "1 by plain TCP" in err
