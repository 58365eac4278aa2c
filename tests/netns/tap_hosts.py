"""Two hosts with a tap between them, and the commands that watch it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

import weirlab
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.link.host import tools

Eventually = Callable[[Callable[[], bool]], None]
X, Y, TAP, LOGGER = (f"weirlink{os.getpid()}{part}" for part in "xytl")
ADDRESS = {X: "10.99.0.1", Y: "10.99.0.2"}
LOGGER_MAC = "02:00:00:00:00:09"
PORT = 5099
FRAMES = 2000


@dataclass
class Wires:
    """Two hosts, the tap's host between them, and a logger beside it."""

    def build(self) -> None:
        for name in (X, Y, TAP, LOGGER):
            Namespace(name).create()
        for name, far, near in ((X, "x0", "ta"), (Y, "y0", "tb"), (LOGGER, "l0", "tc")):
            Namespace(name).call(lambda name=name, far=far, near=near: self._host(name, far, near))
        # The ends of the link the tap silences by itself; what it sends by the third interface is its own.
        Namespace(TAP).call(lambda: write_sysctls({"net/ipv6/conf/tc/disable_ipv6": 1}))

    def remove(self) -> None:
        for name in (TAP, X, Y, LOGGER):
            Namespace(name).remove()

    def send(self, sender: str, count: int, payload_bytes: int = 100, first: int = 0) -> list[int]:
        """Numbers of the datagrams that arrive, of ``count`` sent to the other host a few at a time."""
        receiver = Y if sender == X else X
        arrived: list[int] = []
        with self._socket(receiver) as into, self._socket(sender) as out:
            into.settimeout(10.0)
            for number in range(first, first + count):
                out.sendto(struct.pack("!I", number).ljust(payload_bytes, b"."), (ADDRESS[receiver], PORT))
                # No more under way than any queue takes: what is lost then was lost by the tap.
                arrived.append(struct.unpack_from("!I", into.recv(4096))[0])
        return arrived

    def send_until_cut(self, sender: str) -> list[int]:
        """Numbers of the datagrams that arrive until the first that does not."""
        receiver = Y if sender == X else X
        arrived: list[int] = []
        with self._socket(receiver) as into, self._socket(sender) as out, suppress(TimeoutError):
            into.settimeout(2.0)
            for number in itertools.count():
                out.sendto(struct.pack("!I", number), (ADDRESS[receiver], PORT))
                arrived.append(struct.unpack_from("!I", into.recv(4096))[0])
        return arrived

    def features(self) -> dict[str, dict[str, bool]]:
        """Offloads of every interface."""
        places = {"ta": TAP, "tb": TAP, "tc": TAP, "x0": X, "y0": Y}
        return {
            name: Namespace(netns).call(
                lambda name=name: tools.differing_offloads(
                    name, dict.fromkeys(tools.offload_names(name), True)
                )
            )
            for name, netns in places.items()
        }

    def _host(self, name: str, far: str, near: str) -> None:
        # Nothing but the test's own frames.
        write_sysctls({"net/ipv6/conf/all/disable_ipv6": 1, "net/ipv6/conf/default/disable_ipv6": 1})
        fd = os.open(Namespace(TAP).path, os.O_RDONLY | os.O_CLOEXEC)
        with IPRoute() as netlink:
            netlink.link("add", ifname=far, kind="veth", peer={"ifname": near, "net_ns_fd": fd})
            index = netlink.link_lookup(ifname=far)[0]
            if name in ADDRESS:
                netlink.addr("add", index=index, address=ADDRESS[name], prefixlen=24)
            netlink.link("set", index=index, state="up")
        os.close(fd)

    def _socket(self, host: str) -> socket.socket:
        made = Namespace(host).call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.bind((ADDRESS[host], PORT))
        return made


@dataclass
class Weir:
    """The command, as a user starts it."""

    folder: Path
    eventually: Eventually
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def launch(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start it."""
        home = str(Path(weirlab.__file__).absolute().parent.parent)
        program = subprocess.Popen(
            [sys.executable, "-m", "weirlab", *arguments, "--json"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": home, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(program)
        return program

    def start(self, *arguments: str, manifest: str = "link.pcapng.json") -> subprocess.Popen[str]:
        """Start it, and wait until it watches."""
        program = self.launch(*arguments)
        self.eventually(lambda: (self.folder / manifest).exists() or program.poll() is not None)
        if program.poll() is not None:
            pytest.fail(f"it ended: {program.communicate()}")
        return program

    def tap(self, *arguments: str) -> subprocess.Popen[str]:
        """A tap between the two hosts that records."""
        return self.start(
            "tap", "--between", "ta", "tb", "--netns", TAP, "--write", "link.pcapng", *arguments
        )

    def end(self, program: subprocess.Popen[str]) -> dict[str, Any]:
        """Ctrl-C; what it printed."""
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
        assert program.returncode == 0, err
        document = json.loads(out)
        assert isinstance(document, dict)
        return document

    def seen(self, manifest: str) -> int:
        """Frames that came to the recorder, when the manifest was last refreshed."""
        return sum(int(each["seen"]) for each in self.manifest(manifest)["recorder"])

    def received(self, manifest: str) -> int:
        """Frames that came to the tap, when the manifest was last refreshed."""
        return sum(int(each["received"]) for each in self.manifest(manifest)["link"])

    def manifest(self, name: str) -> dict[str, Any]:
        """A manifest as it is now."""
        content = json.loads((self.folder / name).read_text())
        assert isinstance(content, dict)
        return content

    def numbers(self, *files: str) -> list[int]:
        """Numbers of the test's datagrams in capture files, sorted."""
        return sorted(number for file in files for _, number in datagrams(self.folder / file))


def frames(path: Path) -> Iterator[tuple[int, bytes]]:
    """Interface and bytes of every frame in a pcapng file of this machine's byte order."""
    content = path.read_bytes()
    at = 0
    while at + 12 <= len(content):
        kind, length = struct.unpack_from("=II", content, at)
        if at + length > len(content):
            return
        if kind == 6:
            number, _, _, captured = struct.unpack_from("=IIII", content, at + 8)
            yield number, content[at + 28 : at + 28 + captured]
        at += length


def datagrams(path: Path) -> Iterator[tuple[int, int]]:
    """Interface and number of the test's datagrams."""
    for number, frame in frames(path):
        if frame[12:14] == b"\x08\0" and frame[23] == 17 and frame[36:38] == PORT.to_bytes(2, "big"):
            yield number, struct.unpack_from("!I", frame, 42)[0]
