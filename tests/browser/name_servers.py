"""A primary and a secondary BIND on loopback, without any right: ports above 1024, folders of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dns.message
import dns.query
import dns.rcode

from weirlab import programs

from .devtools import DEADLINE_S

ADDRESS = "127.0.0.1"
_LOOK_S = 0.05

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
def name_servers(folder: Path, zones: list[str]) -> Iterator[NameServers]:
    """Both; the secondary is to have ``zones`` as soon as the primary has."""
    # BIND listens on no other address of loopback: it looks for the addresses of interfaces.
    primary, secondary, control = _free_ports(3)
    published = folder / "zones"
    made = NameServers(primary, secondary, published, folder / "rndc.conf")
    published.mkdir()
    (published / "zones.conf").touch()
    notify = (
        f"allow-transfer {{ {ADDRESS}; }}; notify explicit; also-notify {{ {ADDRESS} port {secondary}; }};"
    )
    texts = {
        "primary": _options(folder / "primary", primary, notify)
        + f"controls {{ inet {ADDRESS} port {control} allow {{ {ADDRESS}; }} keys {{ rndc-key; }}; }};\n"
        + f'include "{published}/zones.conf";\n',
        "secondary": _options(folder / "secondary", secondary, "allow-transfer { none; }; notify no;")
        + "controls { };\n"
        + "".join(
            f'zone "{zone}" {{ type slave; masters {{ {ADDRESS} port {primary}; }}; file "{zone}"; }};\n'
            for zone in zones
        ),
    }
    key = texts["primary"].partition("key rndc-key")[2].partition("\n")[0]
    made.rndc.write_text(
        f"key rndc-key{key}\n"
        f"options {{ default-server {ADDRESS}; default-port {control}; default-key rndc-key; }};\n"
    )
    started = []
    try:
        for name, text in texts.items():
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "named.conf").write_text(text)
            log = (folder / name / "log").open("wb")
            command = [programs.find("named") or "named", "-g", "-c", str(folder / name / "named.conf")]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder / name))
        for name, process in zip(texts, started, strict=True):
            _wait_for(folder / name / "log", process)
        yield made
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(DEADLINE_S)


def _options(folder: Path, port: int, more: str) -> str:
    return _OPTIONS.format(folder=folder, address=ADDRESS, port=port, more=more)


def _free_ports(count: int) -> list[int]:
    """Ports that nothing uses, below those that the kernel gives to clients."""
    found: list[int] = []
    port = 10_000 + os.getpid() * 7 % 20_000
    while len(found) < count:
        port += 1
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        ):
            try:
                stream.bind((ADDRESS, port))
                datagrams.bind((ADDRESS, port))
            except OSError:
                continue
            found.append(port)
    return found


def _wait_for(log: Path, process: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s and process.poll() is None:
        if " running" in log.read_text(errors="replace"):
            return
        time.sleep(_LOOK_S)
    raise AssertionError(f"BIND does not run: {log.read_text(errors='replace')}")
