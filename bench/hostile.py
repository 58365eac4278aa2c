"""A user's requests while hostile clients keep the services busy: times, refusals, memory, and what is left.

Starts `weir web` with a token and a numbering plan, `weir tcp serve` and `weir psock proxy` on loopback.
Hostile clients of several loopback addresses send half requests, slow bodies, sign-ins and uploads, and
single bytes to the other two. They know the token, as otherwise they would be refused at once. The user,
at another address, lists runs, opens the page, signs in and uploads a small capture, each with a new
connection. Needs no root.

    make bench-hostile
    .venv/bin/python bench/hostile.py --clients 200 --seconds 20
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import re
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.table import Table

import capture
from weirlab.numbering.managing.accounts import Accounts
from weirlab.numbering.managing.database import opened
from weirlab.numbering.managing.register import Register
from weirlab.numbering.plan import load, ready

TOKEN: Final = "correct horse battery"
PASSWORD: Final = "a weir holds water"
USER: Final = "127.0.0.1"
KINDS: Final = {
    "half request": 0.3,
    "slow body": 0.2,
    "sign-in": 0.15,
    "upload": 0.15,
    "tcp byte": 0.1,
    "psock byte": 0.1,
}
"""Kinds of hostile clients, and their shares."""
PAUSE_S: Final = 0.2
"""Between two attempts of a hostile client."""
MOST_USER_S: Final = 1.0
_HEAD: Final = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
_REST_S: Final = 40.0
"""How long a service may take to be rid of connections when their clients have gone."""


# The hostile clients, in a process of their own.


async def attack(
    clients: int, seconds: float, addresses: int, ports: dict[str, int], content: bytes
) -> Counter[str]:
    """Be all hostile clients; returns what came of their attempts."""
    outcomes: Counter[str] = Counter()
    until = asyncio.get_running_loop().time() + seconds
    tasks = []
    for kind, share in KINDS.items():
        for number in range(round(clients * share)):
            source = f"127.0.0.{2 + number % addresses}"
            tasks.append(asyncio.create_task(_client(kind, source, ports, content, until, outcomes)))
    await asyncio.gather(*tasks)
    return outcomes


async def _client(
    kind: str, source: str, ports: dict[str, int], content: bytes, until: float, outcomes: Counter[str]
) -> None:
    now = asyncio.get_running_loop().time
    port = ports[kind.split()[0]] if kind.endswith("byte") else ports["web"]
    while (left := until - now()) > 0:
        outcome = "still open at the end"
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                try:
                    reader, writer = await asyncio.open_connection(USER, port, local_addr=(source, 0))
                except OSError:
                    outcome = "no connection"
                else:
                    try:
                        outcome = await _ATTACKS[kind](reader, writer, content)
                    except OSError:
                        outcome = "closed"
                    finally:
                        writer.close()
                await asyncio.sleep(PAUSE_S)
        outcomes[f"{kind}: {outcome}"] += 1


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begin: bytes) -> str:
    """Send ``begin`` and then a byte a second, until the service ends the connection."""
    answer = asyncio.ensure_future(reader.read(100))
    writer.write(begin)
    while not answer.done():
        await asyncio.wait([answer], timeout=1.0)
        writer.write(b"x")
    return _status(answer.result())


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> str:
    return await _drip(reader, writer, f"GET / HTTP/1.1\r\n{_HEAD}X-Half: ".encode())


async def _slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> str:
    head = f"POST /api/captures?name=slow HTTP/1.1\r\n{_HEAD}Content-Length: 1000000\r\n\r\n"
    return await _drip(reader, writer, head.encode())


async def _sign_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> str:
    guess = b'{"name": "ann", "password": "a wrong password"}'
    return await _post(reader, writer, "/api/voice/session", "application/json", guess)


async def _upload(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> str:
    return await _post(reader, writer, "/api/captures?name=hostile", "application/octet-stream", content)


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, kind: str, body: bytes
) -> str:
    head = f"POST {path} HTTP/1.1\r\n{_HEAD}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    return _status(await reader.read(100))


async def _byte(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> str:
    writer.write(b"x")
    while await reader.read(100):
        pass
    return "closed"


_ATTACKS: Final[dict[str, Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[str]]]] = {
    "half request": _half, "slow body": _slow, "sign-in": _sign_in, "upload": _upload,
    "tcp byte": _byte, "psock byte": _byte,
}  # fmt: skip


def _status(answer: bytes) -> str:
    return answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/") else "closed"


# The services and their user.


class Service:
    """A running service."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weirlab", *arguments, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        # Not every service has an event for this.
        while (found := re.search(r":(\d+)[/;]", self.process.stderr.readline())) is None:
            pass
        self.port = int(found[1])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.before = self.connections()

    def connections(self) -> int:
        """The number of its TCP sockets; those to its own processes do not count."""
        lines = [
            line.split()
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/{self.process.pid}/net/{table}").read_text().splitlines()[1:]
        ]
        tcp = {f"socket:[{fields[9]}]" for fields in lines}
        number = 0
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(OSError):
                number += str(path.readlink()) in tcp
        return number

    def memory_bytes(self, which: str) -> int:
        """``VmRSS``: what it has in memory; ``VmHWM``: the most that it had."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{which}:"):
                return int(line.split()[1]) * 1024
        raise SystemExit(f"bench: {self.name} has ended")

    def rest(self) -> int:
        """Wait until it has no more sockets than at its start; returns how many there are beyond."""
        until = time.monotonic() + _REST_S
        while (more := self.connections() - self.before) > 0 and time.monotonic() < until:
            time.sleep(0.5)
        return max(0, more)

    def end(self) -> int:
        """End it as Ctrl-C does; returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        return self.process.returncode


@contextmanager
def services(folder: Path) -> Iterator[tuple[list[Service], dict[str, int]]]:
    """All services, and their ports by name."""
    plan = folder / "plan" / "plan.db"
    plan.parent.mkdir()
    database = opened(str(plan), new=True)
    register = Register(database)
    register.begin("bench", load(ready.FOLDER / "federation.yaml").plan, "federation.yaml")
    Accounts(register).add("bench", "ann", PASSWORD, None)
    database.close()
    with ExitStack() as stack:
        made = []
        for name, arguments in {
            "web": [
                *("--store", str(folder / "store"), "web"),
                *("--bind", f"{USER}:0", "--token", TOKEN, "--voice", str(plan)),
            ],
            "tcp": ["tcp", "serve", "--bind", USER, "--port", "0"],
            "psock": ["psock", "proxy", "--bind", USER, "--port", "0", "--allow", "192.0.2.0/24"],
        }.items():
            one = Service(name, arguments)
            stack.callback(one.process.kill)
            made.append(one)
        yield made, {each.name: each.port for each in made}


class User:
    """Works with the page, with a new connection for each request."""

    def __init__(self, port: int, content: bytes) -> None:
        self._port = port
        sign_in = json.dumps({"name": "ann", "password": PASSWORD}).encode()
        self._work = (
            ("opens the page", "GET", "/", b""),
            ("lists runs", "GET", "/api/runs", b""),
            ("signs in", "POST", "/api/voice/session", sign_in),
            ("uploads a capture", "POST", "/api/captures?name=user", content),
        )
        self.times: dict[str, list[float]] = {}
        self.failures: Counter[str] = Counter()

    def work(self) -> None:
        """Each of the requests once."""
        for what, method, path, body in self._work:
            kind = "application/octet-stream" if "captures" in path else "application/json"
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
            began = time.perf_counter()
            outcome = self._ask(method, path, body, headers)
            self.times.setdefault(what, []).append(time.perf_counter() - began)
            if not outcome.startswith("2"):
                self.failures[f"{what}: {outcome}"] += 1

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> str:
        connection = http.client.HTTPConnection(USER, self._port, timeout=30)
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            answer.read()
            return str(answer.status)
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--clients", type=int, default=1000, help="hostile clients, at most 5,000 (default 1,000)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, at most 600 (default 60)")
    parser.add_argument(
        "--addresses", type=int, default=16, help="hostile addresses, at most 200 (default 16)"
    )
    parser.add_argument("--ports", help=argparse.SUPPRESS)
    options = parser.parse_args()
    clients, seconds = min(options.clients, 5000), min(options.seconds, 600.0)
    addresses = min(options.addresses, 200)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if options.ports:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        found = asyncio.run(
            attack(clients, seconds, addresses, json.loads(options.ports), sys.stdin.buffer.read())
        )
        print(json.dumps(found))
        return 0
    console = Console()
    with TemporaryDirectory(prefix="weir-bench-") as place, services(Path(place)) as (made, ports):
        file = Path(place) / "small.pcap"
        with file.open("wb") as target:
            capture.write(target, 200, 1)
        content = file.read_bytes()
        user = User(ports["web"], content)
        user.work()
        quiet, user.times = user.times, {}
        arguments = [f"--clients={clients}", f"--seconds={seconds}", f"--addresses={addresses}"]
        with subprocess.Popen(
            [sys.executable, __file__, *arguments, "--ports", json.dumps(ports)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as hostile:  # fmt: skip
            assert hostile.stdin is not None
            hostile.stdin.write(content)
            hostile.stdin.close()
            while hostile.poll() is None:
                user.work()
            assert hostile.stdout is not None
            outcomes: dict[str, int] = json.loads(hostile.stdout.read())
        left = [each.rest() for each in made]
        memory = [(each.memory_bytes("VmHWM"), each.memory_bytes("VmRSS")) for each in made]
        codes = [each.end() for each in made]
    times = Table("the user", "requests", "alone ms", "median ms", "max ms")
    for what, took in user.times.items():
        shown = [f"{each * 1e3:.0f}" for each in (quiet[what][0], statistics.median(took), max(took))]
        times.add_row(what, str(len(took)), *shown)
    console.print(times)
    attempts = Table("hostile clients", "attempts")
    for outcome, number in sorted(outcomes.items()):
        attempts.add_row(outcome, f"{number:,}")
    console.print(attempts)
    states = Table("service", "most MB", "MB afterwards", "sockets left", "exit code")
    for each, (most_bytes, bytes_after), sockets, code in zip(made, memory, left, codes, strict=True):
        states.add_row(
            each.name, f"{most_bytes / 1e6:.0f}", f"{bytes_after / 1e6:.0f}", str(sockets), str(code)
        )
    console.print(states)
    worst = max(max(took) for took in user.times.values())
    for failure, number in user.failures.items():
        console.print(f"the user's request failed {number} times: {failure}")
    return 1 if worst > MOST_USER_S or user.failures or any(left) or any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
