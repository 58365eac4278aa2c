"""What ``weir psock run`` costs a program: ``bench/psock.py --cost``.

A program, which is this file too, exchanges 64 bytes with an echo server: over a connection that there is,
over a new one each time, and over a new one on a path with a round trip of 40 ms. It runs on plain TCP, under
``weir psock run``, and through two relays of socat in the places of relay and proxy: what any relay costs.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from namespaces import inside, namespaces

NEAR, BETWEEN, FAR = (f"weir-bench-cost-{part}" for part in "abc")
PROXY, HOST = "198.18.1.2", "198.18.9.9"
ECHO, RELAY = 7000, 7001
TOKEN: Final = "a token of benchmarks"
WAYS: Final = ("plain", "bpf", "seccomp", "socat")
DELAY: Final = "20ms"
HEADINGS: Final[tuple[str, ...]] = (
    "what",
    *WAYS,
    "bpf, of plain",
    "seccomp, of plain",
    "socat, of plain",
    "wanted",
    "met",
)
LEGEND: Final = (
    "Medians of runs that took turns; each run is the median of its exchanges of 64 bytes. socat: two relays "
    "of socat in the places of relay and proxy, a new process for each connection."
)
_ROUNDS, _CONNECTIONS, _DISTANT = 500, 100, 5


def client(host: str, port: int, distant: bool) -> dict[str, float]:
    """Times in seconds: of a round trip, and of a connection with one."""

    def exchange(stream: socket.socket) -> None:
        stream.sendall(bytes(64))
        left = 64
        while left:
            left -= len(stream.recv(left))

    def connection() -> None:
        with socket.create_connection((host, port)) as stream:
            exchange(stream)

    def median(work: Callable[[], None], count: int) -> float:
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            work()
            times.append(time.perf_counter() - begun)
            if distant:
                time.sleep(0.1)
        return statistics.median(times)

    if distant:
        return {"distant": median(connection, _DISTANT)}
    with socket.create_connection((host, port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        round_trip = median(lambda: exchange(stream), _ROUNDS)
    return {"round trip": round_trip, "connection": median(connection, _CONNECTIONS)}


def echo(host: str, port: int) -> None:
    """Answer with what comes, in one thread."""
    with selectors.DefaultSelector() as selector, socket.create_server((host, port), backlog=200) as listener:
        selector.register(listener, selectors.EVENT_READ)
        print("listening", flush=True)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    stream = listener.accept()[0]
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(stream, selectors.EVENT_READ)
                    continue
                stream = key.fileobj  # type: ignore[assignment]
                try:
                    data = stream.recv(1 << 16)
                except OSError:
                    data = b""
                if data:
                    stream.sendall(data)
                else:
                    selector.unregister(stream)
                    stream.close()


@contextmanager
def _hosts(distant: bool) -> Iterator[None]:
    """Two hosts, with a cable between them or an emulated link; the proxy's has the echo server's address."""
    names = (NEAR, BETWEEN, FAR) if distant else (NEAR, FAR)
    cables = (
        [(NEAR, "p0", BETWEEN, "m0"), (BETWEEN, "m1", FAR, "p0")] if distant else [(NEAR, "p0", FAR, "p0")]
    )
    commands = [
        *(f"link add {a} netns {one} type veth peer name {b} netns {two}" for one, a, two, b in cables),
        *(f"-n {name} link set {port} up" for cable in cables for name, port in (cable[:2], cable[2:])),
        *(f"-n {name} link set lo up" for name in names),
        f"-n {NEAR} addr add 198.18.1.1/30 dev p0",
        f"-n {FAR} addr add {PROXY}/30 dev p0",
        f"-n {FAR} addr add {HOST}/32 dev lo",
        f"-n {NEAR} route add {HOST}/32 via {PROXY}",
    ]
    with namespaces(names, commands):
        yield


@contextmanager
def _serving(name: str, says: str, *words: str) -> Iterator[None]:
    """A command that runs while inside, from when it ``says`` that it works."""
    with subprocess.Popen(
        inside(name, *words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            while says and says not in (line := process.stdout.readline()):
                if not line:
                    raise SystemExit(f"{words[0]} does not start.")
            # Nobody waits for whatever else it says.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield
        finally:
            process.terminate()


def _measured(way: str, distant: bool) -> dict[str, float]:
    weir = (
        sys.executable,
        "-m",
        "weirlab",
        "psock",
        "run",
        "--via",
        PROXY,
        "--token",
        TOKEN,
        "--by",
        way,
        "--",
    )
    before = weir if way in ("bpf", "seccomp") else ()
    at = ("127.0.0.1", str(RELAY)) if way == "socat" else (HOST, str(ECHO))
    words = (*before, sys.executable, __file__, "client", *at, *(["distant"] if distant else []))
    ran = subprocess.run(inside(NEAR, *words), check=True, stdout=subprocess.PIPE, timeout=120)
    return dict(json.loads(ran.stdout))


def measure(repeats: int, note: Callable[[str], None]) -> list[dict[str, object]]:
    """Every way in turn, in random order: the times of each run."""
    runs: list[dict[str, object]] = []
    weir = (sys.executable, "-m", "weirlab")
    socat = ("socat", "-d", "-d")
    for distant in (False, True):
        with _hosts(distant), ExitStack() as stack:
            if distant:
                link = (*weir, "link", "m0", "m1", "--delay", DELAY)
                stack.enter_context(_serving(BETWEEN, "Ctrl-C", *link))
            proxy = (*weir, "psock", "proxy", "--bind", PROXY, "--token", TOKEN, "--allow", HOST)
            for says, name, words in (
                ("listening", FAR, (sys.executable, __file__, "echo", HOST, str(ECHO))),
                ("listening", FAR, proxy),
                ("listening", FAR, _relay(socat, PROXY, HOST, ECHO)),
                ("listening", NEAR, _relay(socat, "127.0.0.1", PROXY, RELAY)),
            ):
                stack.enter_context(_serving(name, says, *words))
            for repeat in range(repeats):
                note(f"{'40 ms' if distant else 'Cable'}, repeat {repeat + 1} of {repeats}")
                ways = list(WAYS)
                random.shuffle(ways)
                runs += [{"way": way, "repeat": repeat, **_measured(way, distant)} for way in ways]
    return runs


def _relay(socat: Sequence[str], at: str, to: str, port: int) -> tuple[str, ...]:
    listen = f"TCP-LISTEN:{RELAY},bind={at},fork,reuseaddr,nodelay"
    return (*socat, listen, f"TCP:{to}:{port},nodelay")


def rows(runs: Sequence[dict[str, object]]) -> list[tuple[str, ...]]:
    """Rows for :data:`HEADINGS`."""
    found = []
    for what, unit, scale, wanted in (
        ("round trip", "us", 1e6, 60e-6),
        ("connection", "ms", 1e3, 0.6e-3),
        ("distant", "ms", 1e3, None),
    ):
        of = {
            way: statistics.median(float(str(run[what])) for run in runs if run["way"] == way and what in run)
            for way in WAYS
        }
        # 1.1 round trips of 40 ms more than plain TCP.
        most = wanted or of["plain"] + 1.1 * 0.04
        is_met = [way for way in ("bpf", "seccomp") if of[way] <= most]
        found.append(
            (
                {"round trip": "round trip", "connection": "connect and round trip"}.get(
                    what, "the same at 40 ms"
                ),
                *(f"{of[way] * scale:.3g} {unit}" for way in WAYS),
                *(f"{of[way] / of['plain']:.2f} x" for way in WAYS[1:]),
                f"{most * scale:.3g} {unit}",
                "both" if len(is_met) == 2 else is_met[0] if is_met else "no",
            )
        )
    return found


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["echo", at, number]:
            echo(at, int(number))
        case ["client", at, number, *rest]:
            print(json.dumps(client(at, int(number), bool(rest))))
        case _:
            sys.exit(str(Path(__file__).name) + " is measured by psock.py --cost")
