"""Programs that know nothing of parallel sockets, over two paths to a destination behind the proxy."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from weirlab._engine import ParallelProxy
from weirlab.base import programs
from weirlab.lab.linux.namespace import Namespace

from .conftest import DEADLINE_S
from .psock_hosts import (
    DATA,
    DESTINATION,
    DESTINATION6,
    FAR,
    HASH,
    MARKS,
    NEAR,
    Received,
    begin,
    both_paths_carry,
    command,
    listening,
    run,
)

pytestmark = MARKS


@pytest.fixture(scope="module")
def website(proxy: ParallelProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
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
def _server(words: list[str], says: str) -> Iterator[None]:
    """A server program on the far host, from when it ``says`` that it listens."""
    with Namespace(FAR).call(
        lambda: subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ) as process:
        try:
            assert process.stdout is not None
            while says not in (said := process.stdout.readline()):
                assert said, f"{words[0]} has ended"
            yield
        finally:
            process.terminate()
            process.communicate()


def test_curl_downloads_over_two_paths(proxy: ParallelProxy, website: str, tmp_path: Path) -> None:
    if programs.find("curl") is None:
        pytest.skip("curl is not installed")
    out = tmp_path / "data.bin"
    with both_paths_carry(1):
        ran = run("--json", "--", "curl", "-sS", "-w", "%{remote_ip}", "-o", out, website)
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


def test_a_user_without_privileges_downloads_over_two_paths(proxy: ParallelProxy, website: str) -> None:
    curl, setpriv = map(programs.find, ("curl", "setpriv"))
    if not (curl and setpriv):
        pytest.skip("curl or setpriv is not installed")
    # It may read Python and Weir, wherever they are, and nothing else.
    kept = [f"--{kind}=-all,+dac_read_search" for kind in ("bounding-set", "inh-caps", "ambient-caps")]
    nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", *kept, "--"]
    script = f"id -u; {curl} -sS {website} | sha256sum"
    with both_paths_carry(1), begin([*nobody, *command("--", "sh", "-c", script)]) as process:
        out, err = process.communicate()
    assert (process.returncode, out.split()[:2]) == (0, ["65534", HASH]), err
    assert (
        "seccomp redirects the connections, since BPF cannot: redirecting connections by BPF needs root"
        in err
    )


def test_a_socket_in_another_network_namespace_is_left_alone_by_seccomp(proxy: ParallelProxy) -> None:
    program = "import os, socket; os.unshare(os.CLONE_NEWNET) if hasattr(os, 'unshare') else "
    program += "__import__('ctypes').CDLL(None).unshare(0x40000000); "
    program += f"print(socket.socket().connect_ex(('{DESTINATION}', 80)))"
    ran = run("--by", "seccomp", "--summary", "--", sys.executable, "-c", program)
    # It has no route there.
    assert (ran.code, ran.out) == (0, "101\n"), ran.err
    assert "0 connections," in ran.err


@pytest.mark.parametrize("address", [DESTINATION, DESTINATION6])
def test_poll_dup_fork_and_sendfile_work(proxy: ParallelProxy, address: str, tmp_path: Path) -> None:
    data, received = tmp_path / "data.bin", Received()
    data.write_bytes(DATA)
    with both_paths_carry(0), listening(received.take, address) as port:
        ran = run("--", sys.executable, "-c", PROGRAM, address, port, data)
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


@pytest.mark.parametrize("by", ["bpf", "seccomp"])
@pytest.mark.parametrize("language", ["c", "go"])
def test_static_programs_download_over_two_paths(
    proxy: ParallelProxy, language: str, by: str, tmp_path: Path
) -> None:
    made, out = _built(language, tmp_path), tmp_path / "out"
    with both_paths_carry(1), listening(lambda stream: stream.sendall(DATA)) as port, out.open("wb") as file:
        words = command("--by", by, "--", made, DESTINATION, port)
        code = Namespace(NEAR).call(lambda: subprocess.run(words, stdout=file, check=False)).returncode
    assert code == 0
    assert hashlib.sha256(out.read_bytes()).hexdigest() == HASH


def test_iperf3_receives_over_two_paths(proxy: ParallelProxy) -> None:
    if (iperf3 := programs.find("iperf3")) is None:
        pytest.skip("iperf3 is not installed")
    serve = [iperf3, "-s", "-1", "-B", DESTINATION, "-p", "5298", "--forceflush"]
    with _server(serve, "listening"), both_paths_carry(1):
        # In this direction, it ends when so much has arrived; in the other, when so much was written.
        ran = run("--", iperf3, "-c", DESTINATION, "-p", "5298", "-R", "-n", len(DATA), "--json")
    assert ran.code == 0, (ran.out, ran.err)
    assert json.loads(ran.out)["end"]["sum_received"]["bytes"] >= len(DATA)


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
    with _server([sshd, "-D", "-e", "-f", "/dev/null", *options], "Server listening"):
        client = [
            *(ssh, "-F", "/dev/null", "-i", tmp_path / "user", "-p", "2298"),
            *("-o", f"UserKnownHostsFile={tmp_path / 'known'}", "-o", "BatchMode=yes"),
            *("-o", "IdentitiesOnly=yes", f"root@{DESTINATION}", "sha256sum; exit 5"),
        ]
        data = tmp_path / "data.bin"
        data.write_bytes(DATA)
        with both_paths_carry(0), data.open("rb") as file:
            ran = run("--", *client, stdin=file)
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
        ran = run("--summary", "--", sys.executable, "-c", MANY, DESTINATION, listener.getsockname()[1])
        assert ran.code == 0, ran.err
        thread.join()
    assert "20 connections, 200 kB sent and 200 kB received." in ran.err
