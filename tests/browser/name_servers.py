"""A primary and a secondary BIND on loopback, without any right: ports above 1024, folders of their own.

Nobody can hold a port for a program that is yet to start, so BIND itself is asked: it is started with ports
that are free, and with others if one of them is taken meanwhile. BIND lets a second BIND use its UDP port, so
a lock per port keeps the tests of this machine apart.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import dns.message
import dns.query
import dns.rcode

from weirlab.base import programs

from .devtools import DEADLINE_S

ADDRESS = "127.0.0.1"
_LOOK_S = 0.05
_PORTS: Final = range(10_000, 30_000)
"""Below those that the kernel gives to clients."""
_TAKEN: Final = re.compile(r"address in use|creating IPv4 interface \S+ failed|couldn't add command channel")
"""What BIND says of a port that somebody else has; it runs on without it."""

_OPTIONS = """\
options {{
  directory "{folder}"; pid-file "{folder}/named.pid"; session-keyfile "{folder}/session.key";
  listen-on port {port} {{ {address}; }}; listen-on-v6 {{ none; }};
  recursion no; dnssec-validation no; empty-zones-enable no; notify-delay 0;
  {more}
}};
key rndc-key {{ algorithm hmac-sha256; secret "d2VpciB0ZXN0cyBrbm93IHRoaXMga2V5IG9mIGFsbC4="; }};
"""


@dataclass(frozen=True)
class NameServers:
    """Both, at work."""

    primary: int
    secondary: int
    """Their ports."""
    zones: Path
    """Where the primary finds zones, and their list."""
    rndc: Path

    def ask(self, port: int, name: str, kind: str) -> tuple[str, list[str]]:
        """Response code and records."""
        query = dns.message.make_query(name, kind)
        answer = dns.query.udp(query, ADDRESS, port=port, timeout=DEADLINE_S)
        return dns.rcode.to_text(answer.rcode()), [
            data.to_text()
            for rrset in answer.answer
            for data in rrset
            if rrset.rdtype == query.question[0].rdtype
        ]


def missing() -> str:
    """Why there can be none; empty if there can."""
    lacking = [name for name in ("named", "rndc") if programs.find(name) is None]
    return f"needs {' and '.join(lacking)} (Debian's bind9)" if lacking else ""


@contextmanager
def name_servers(folder: Path, catalog: str) -> Iterator[NameServers]:
    """Both; the secondary has the zone ``catalog``, and all that it lists, as soon as the primary has."""
    ports = iter(_PORTS)
    while True:
        with ExitStack() as held:
            taken = [_held(held, ports) for _ in range(3)]
            started = held.enter_context(_started(folder, catalog, taken))
            if started is not None:
                yield started
                return


@contextmanager
def _started(folder: Path, catalog: str, ports: list[int]) -> Iterator[NameServers | None]:
    """Both at these ports; None if somebody else has one of them."""
    # BIND listens on no other address of loopback: it looks for the addresses of interfaces.
    primary, secondary, control = ports
    published = folder / "zones"
    made = NameServers(primary, secondary, published, folder / "rndc.conf")
    published.mkdir(exist_ok=True)
    (published / "zones.conf").touch()
    texts = {"primary": _primary(folder, made, control), "secondary": _secondary(folder, made, catalog)}
    key = texts["primary"].partition("key rndc-key")[2].partition("\n")[0]
    made.rndc.write_text(
        f"key rndc-key{key}\n"
        f"options {{ default-server {ADDRESS}; default-port {control}; default-key rndc-key; }};\n"
    )
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, text in texts.items():
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "named.conf").write_text(text)
            with (folder / name / "log").open("wb") as log:
                command = [programs.find("named") or "named", "-g", "-c", str(folder / name / "named.conf")]
                started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder / name))
        both = zip(texts, started, strict=True)
        yield made if all(_runs(folder / name / "log", process) for name, process in both) else None
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def _primary(folder: Path, made: NameServers, control: int) -> str:
    notify = (
        f"allow-transfer {{ {ADDRESS}; }}; notify explicit; "
        f"also-notify {{ {ADDRESS} port {made.secondary}; }};"
    )
    return (
        _options(folder / "primary", made.primary, notify)
        + f"controls {{ inet {ADDRESS} port {control} allow {{ {ADDRESS}; }} keys {{ rndc-key; }}; }};\n"
        + f'include "{made.zones}/zones.conf";\n'
    )


def _secondary(folder: Path, made: NameServers, catalog: str) -> str:
    primaries = f"{{ {ADDRESS} port {made.primary}; }}"
    more = (
        "allow-transfer { none; }; notify no; "
        f'catalog-zones {{ zone "{catalog}" default-primaries {primaries} min-update-interval 1; }};'
    )
    zone = f'zone "{catalog}" {{ type secondary; primaries {primaries}; file "{catalog}"; }};\n'
    return _options(folder / "secondary", made.secondary, more) + f"controls {{ }};\n{zone}"


def _options(folder: Path, port: int, more: str) -> str:
    return _OPTIONS.format(folder=folder, address=ADDRESS, port=port, more=more)


def _held(held: ExitStack, ports: Iterator[int]) -> int:
    """The next port that nobody uses, and that no other test takes until ``held`` is closed."""
    folder = Path(tempfile.gettempdir()) / f"weir-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in ports:
        lock = (folder / str(port)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        if _is_free(port):
            held.enter_context(lock)
            return port
        lock.close()
    raise AssertionError(f"none of the ports {_PORTS.start} to {_PORTS.stop - 1} is free")


def _is_free(port: int) -> bool:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        try:
            stream.bind((ADDRESS, port))
            datagrams.bind((ADDRESS, port))
        except OSError:
            return False
    return True


def _runs(log: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait until BIND is at work, however long that takes; False if it has not got its ports."""
    while True:
        ended = process.poll() is not None
        said = log.read_text(errors="replace")
        if _TAKEN.search(said):
            return False
        if " running" in said:
            return True
        assert not ended, f"BIND does not run: {said}"
        time.sleep(_LOOK_S)
