"""Programs over parallel sockets, compared with plain TCP: the same output, exit code and errors.

    make bench-programs
    .venv/bin/python bench/programs.py --only curl --only 'nc -z' --out build/bench

Each program runs three times on a near host: plain, under ``weir psock run --by bpf`` and ``--by
seccomp``. Its servers are at an address of the far host, on which the proxy runs. What is not installed is
named as not run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from machine import versions
from namespaces import inside, namespaces
from program_cases import PROGRAMS, SOURCES, ClientProgram
from program_servers import HOST, OTHER, PORTS, SILENT, servers
from summary import Summary
from summary import about as called
from summary import parser as options

NEAR, FAR = "weir-bench-programs-a", "weir-bench-programs-b"
WAYS: Final = ("plain", "bpf", "seccomp")
TOKEN: Final = "a token of benchmarks"
LIMIT_S: Final = 90.0
HEADINGS: Final = ("program", "exit", "output", *(f"{way}, s" for way in WAYS), "carried", "verdict")
LEGEND: Final = (
    "A program is 'same' if exit code and standard output are those of plain TCP in both ways, and its "
    "connections were carried. Output is the first 12 digits of its SHA-256."
)


@dataclass(frozen=True)
class Outcome:
    """A run: what the program said, how it ended, how many of its connections were carried."""

    program: str
    way: str
    code: int
    output: str
    error: str
    seconds: float
    carried: int


@contextmanager
def hosts() -> Iterator[None]:
    """Two hosts with one path; the far one has the servers' addresses, and a neighbour that says nothing."""
    commands = [
        f"link add p0 netns {NEAR} type veth peer name p0 netns {FAR}",
        *(f"-n {name} link set lo up" for name in (NEAR, FAR)),
        f"-n {NEAR} addr add 198.18.1.1/30 dev p0",
        f"-n {FAR} addr add 198.18.1.2/30 dev p0",
        *(f"-n {name} link set p0 up" for name in (NEAR, FAR)),
        *(f"-n {FAR} addr add {address}/32 dev lo" for address in (HOST, OTHER)),
        f"-n {NEAR} route add 198.18.9.0/24 via 198.18.1.2",
        # Nobody has this Ethernet address.
        f"-n {FAR} neigh add {SILENT} lladdr 02:00:00:00:00:09 dev p0",
        f"-n {FAR} route add {SILENT}/32 dev p0",
    ]
    with namespaces((NEAR, FAR), commands):
        yield


def outcome(program: ClientProgram, way: str, work: Path, env: Mapping[str, str]) -> Outcome:
    """Run it once, in a folder of its own."""
    script = program.script.format(H=HOST, O=OTHER, S=SILENT, W=work, **PORTS)
    words = ["bash", "-c", script]
    if way != "plain":
        own = [sys.executable, "-m", "weirlab", "psock", "run", "--via", "198.18.1.2", "--token", TOKEN]
        words = [*own, "--by", way, "--summary", "--", *words]
    with tempfile.TemporaryDirectory(prefix="weir-programs-") as folder:
        begun = time.monotonic()
        try:
            ran = subprocess.run(
                inside(NEAR, *words), cwd=folder, env=dict(env), capture_output=True, timeout=LIMIT_S,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            code, out, error = ran.returncode, ran.stdout, ran.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired as expired:
            code, out, error = -1, expired.stdout or b"", f"not over after {LIMIT_S:g} s"
        seconds = time.monotonic() - begun
    found = re.findall(r"^([\d,]+) connections?, ", error, re.MULTILINE)
    carried = int(found[-1].replace(",", "")) if found else 0
    return Outcome(
        program.name, way, code, out.decode(errors="replace"), error[-2000:], round(seconds, 2), carried
    )


def row(program: ClientProgram, of: Mapping[str, Outcome]) -> tuple[str, ...]:
    """For :data:`HEADINGS`."""
    plain, *others = (of[way] for way in WAYS)
    problems = []
    for other in others:
        if other.code != plain.code:
            problems.append(f"{other.way}: exit {other.code}")
        elif other.output != plain.output:
            problems.append(f"{other.way}: other output")
        elif other.carried == 0 and other.way in program.ways:
            problems.append(f"{other.way}: not carried")
    if not plain.output or plain.code not in program.codes:
        problems.append(f"plain TCP: exit {plain.code}, which the case does not expect")
    return (
        *(program.name, str(plain.code), _digest(plain.output)),
        *(f"{of[way].seconds:.2f}" for way in WAYS),
        *("/".join(str(other.carried) for other in others), "; ".join(problems) or "same"),
    )


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def proxy(log: Path) -> Iterator[None]:
    """The proxy on the far host, while inside."""
    allow = [word for address in (HOST, OTHER, SILENT) for word in ("--allow", address)]
    words = ["-m", "weirlab", "psock", "proxy", "--bind", "198.18.1.2", "--token", TOKEN, *allow]
    with (
        log.open("w") as file,
        subprocess.Popen(inside(FAR, sys.executable, *words), stdout=file, stderr=file) as process,
    ):
        try:
            while "listening on" not in log.read_text():
                if process.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


def built(work: Path) -> dict[str, str]:
    """Programs of our own: why they are missing, by name."""
    missing = {}
    for name, (text, command) in SOURCES.items():
        source = work / name
        source.write_text(text)
        if not command:
            continue
        words = command.format(W=work).split()
        if shutil.which(words[0]) is None:
            missing[name] = f"{words[0]} is not installed"
            continue
        ran = subprocess.run(
            words, cwd=work, capture_output=True, text=True, check=False, env=_environment(work)
        )
        if ran.returncode:
            missing[name] = ran.stderr.strip().splitlines()[-1]
    return missing


def _environment(work: Path) -> dict[str, str]:
    paths = ("/usr/local/go/bin", "/usr/sbin", "/sbin")
    given = {
        "HOME": str(work),
        "GO111MODULE": "off",
        "CGO_ENABLED": "0",
        "LC_ALL": "C",
        "GOCACHE": str(Path.home() / ".cache" / "go-build"),
    }
    return {**os.environ, **given, "PATH": os.pathsep.join((os.environ["PATH"], *paths))}


def main() -> int:
    parser = options("programs", __doc__)
    parser.add_argument("--only", action="append", help="only programs whose name contains this; repeatable")
    asked = parser.parse_args()
    # Servers and namespaces end with this process, however it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console()
    rows: list[tuple[str, ...]] = []
    outcomes: list[Outcome] = []
    lacking: list[str] = []
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        work.chmod(0o755)
        missing = built(work)
        stack.enter_context(hosts())
        started = stack.enter_context(servers(work, lambda *words: inside(FAR, *words)))
        stack.enter_context(proxy(work / "proxy.log"))
        env = _environment(work)
        for program in PROGRAMS:
            if asked.only and not any(part in program.name for part in asked.only):
                continue
            why = _lack(program, started, missing, env["PATH"])
            if why:
                lacking.append(f"not run: {program.name}: {why}")
                continue
            of = {way: outcome(program, way, work, env) for way in WAYS}
            outcomes += of.values()
            rows.append(row(program, of))
            console.print(*rows[-1], sep=" | ", markup=False)
    about = {**called("programs"), "versions": versions()}
    same = sum(each[-1] == "same" for each in rows)
    remarks = [f"{same} of {len(rows)} programs are the same in all three ways", *lacking]
    Summary(
        "Programs over parallel sockets", about, about["versions"], {HEADINGS: rows}, LEGEND, remarks
    ).publish(asked.out, {"runs": [asdict(each) for each in outcomes]}, console)
    return 0 if same == len(rows) else 1


def _lack(program: ClientProgram, started: Sequence[str], missing: Mapping[str, str], path: str) -> str:
    """Why it cannot be run; empty: it can."""
    for name in program.needs:
        if name in missing:
            return missing[name]
        if name not in SOURCES and shutil.which(name, path=path) is None:
            return f"{name} is not installed"
    absent = [name for name in program.servers if name not in started]
    return f"no server {absent[0]}" if absent else ""


if __name__ == "__main__":
    sys.exit(main())
