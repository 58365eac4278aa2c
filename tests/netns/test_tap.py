"""``weir tap`` and ``weir log`` between namespaces: real frames, real signals."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

import weirlab
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.link.host import interfaces, journal, offloads

pytestmark = pytest.mark.netns

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
                lambda name=name: offloads.differing(name, dict.fromkeys(offloads.names(name), True))
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


@pytest.fixture
def wires() -> Iterator[Wires]:
    made = Wires()
    try:
        made.build()
        yield made
    finally:
        made.remove()


@pytest.fixture
def weir(tmp_path: Path, eventually: Eventually) -> Iterator[Weir]:
    made = Weir(tmp_path, eventually)
    yield made
    for program in made.running:
        if program.poll() is None:
            program.kill()
        program.communicate()
    journal.clean(pytest.fail)


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


def recorder_of(program: subprocess.Popen[str]) -> int | None:
    """Process number of the recorder that a tap has started and not yet buried."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal():
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == program.pid and state != "Z":
                    return int(entry.name)
    return None


def test_every_frame_of_both_directions_is_forwarded_and_recorded(wires: Wires, weir: Weir) -> None:
    program = weir.tap()
    assert wires.send(X, FRAMES) == list(range(FRAMES))
    assert wires.send(Y, FRAMES, first=FRAMES) == list(range(FRAMES, 2 * FRAMES))
    document = weir.end(program)
    assert document["mode"]["bridge"] == "xdp"
    # Datagrams, and ARP before them: nothing of the tap's host.
    assert sum(side["received"] for side in document["link"]) <= 2 * FRAMES + 8
    assert {frame[12:14] for _, frame in frames(weir.folder / "link.pcapng")} <= {b"\x08\0", b"\x08\x06"}
    assert (document["complete"], document["sums_hold"], document["gaps"]) == (True, True, [])
    assert document == weir.manifest("link.pcapng.json")
    found = list(datagrams(weir.folder / "link.pcapng"))
    # By the interface where they came in, in the order in which they came.
    assert found == [(0, n) for n in range(FRAMES)] + [(1, n) for n in range(FRAMES, 2 * FRAMES)]


def test_a_recorder_that_stands_still_costs_the_link_nothing_and_the_gap_is_named(
    wires: Wires, weir: Weir
) -> None:
    program = weir.tap("--ring", "512KiB")
    assert len(wires.send(X, 100)) == 100
    recorder = recorder_of(program)
    assert recorder is not None
    os.kill(recorder, signal.SIGSTOP)
    # Three times what the ring holds.
    assert len(wires.send(X, FRAMES, 1000, first=100)) == FRAMES
    # Still standing: the tap wakes it to finish its file.
    document = weir.end(program)
    (ta, tb) = document["link"]
    assert ta["not_forwarded"] == tb["not_forwarded"] == 0
    assert ta["not_copied"] > 0
    assert document["missing"] == ta["not_copied"] + tb["not_copied"]
    assert document["sums_hold"]
    gaps = [gap for gap in document["gaps"] if gap["stage"] == "ring"]
    assert sum(gap["frames"] for gap in gaps) == document["missing"]
    assert all(document["start_ns"] <= gap["from_ns"] <= gap["to_ns"] <= document["end_ns"] for gap in gaps)
    assert len(weir.numbers("link.pcapng")) >= 100 + FRAMES - document["missing"]


def test_a_killed_recorder_costs_the_link_nothing_and_is_followed_by_another(
    wires: Wires, weir: Weir, eventually: Eventually
) -> None:
    program = weir.tap()
    assert len(wires.send(X, FRAMES)) == FRAMES
    first = recorder_of(program)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert len(wires.send(X, FRAMES, first=FRAMES)) == FRAMES
    eventually(
        lambda: recorder_of(program) not in (None, first) and (weir.folder / "link.part2.pcapng").exists()
    )
    assert len(wires.send(Y, FRAMES, first=2 * FRAMES)) == FRAMES
    document = weir.end(program)
    assert all(side["not_forwarded"] == 0 for side in document["link"])
    assert document["sums_hold"]
    assert any("killed by SIGKILL" in note for note in document["notes"])
    recorded = set(weir.numbers("link.pcapng", "link.part2.pcapng"))
    missing = set(range(3 * FRAMES)) - recorded
    # ARP may be among the missing frames, and is no datagram.
    assert len(missing) <= document["missing"] <= len(missing) + 4
    if document["missing"]:
        (gap,) = document["gaps"]
        assert (gap["stage"], gap["frames"]) == ("recorder", document["missing"])
        assert gap["from_ns"] <= gap["to_ns"]


def test_after_ctrl_c_every_interface_is_as_it_was(wires: Wires, weir: Weir) -> None:
    before = wires.features(), {name: facts.up for name, facts in interfaces.look(TAP).items()}
    locks = set(journal.DIRECTORY.glob("*")) if journal.DIRECTORY.exists() else set()
    program = weir.tap("--fallback", "only", "--mirror", "tc", "--logger-mac", LOGGER_MAC)
    assert wires.features() != before[0]
    weir.end(program)
    found = interfaces.look(TAP)
    assert (wires.features(), {name: facts.up for name, facts in found.items()}) == before
    assert not any(facts.xdp or facts.master for facts in found.values())
    assert set(journal.DIRECTORY.glob("*")) <= locks
    assert tables_of(TAP) == ""
    assert Namespace(TAP).call(Path("/proc/sys/net/ipv6/conf/ta/disable_ipv6").read_text) == "0\n"


@pytest.mark.parametrize(
    "options",
    [(), ("--fallback", "only", "--mirror", "tc", "--logger-mac", LOGGER_MAC)],
    ids=["xdp", "bridge"],
)
def test_killed_with_its_file_finished_and_its_changes_undone_by_the_next(
    wires: Wires, weir: Weir, eventually: Eventually, options: tuple[str, ...]
) -> None:
    before = wires.features(), set(interfaces.look(TAP))
    program = weir.tap(*options)
    recorder = recorder_of(program)
    assert len(wires.send(X, FRAMES)) == FRAMES
    program.kill()
    program.wait()
    eventually(lambda: not Path(f"/proc/{recorder}").exists())
    assert weir.numbers("link.pcapng") == list(range(FRAMES))
    assert weir.manifest("link.pcapng.json")["state"] == "running"
    assert any(name.startswith("weir-") for name in journal.clean(pytest.fail))
    found = interfaces.look(TAP)
    assert (wires.features(), set(found)) == before
    assert not any(facts.xdp or facts.master for facts in found.values())
    assert tables_of(TAP) == ""


def test_a_dead_taps_table_goes_also_where_path_lacks_the_systems_folders(wires: Wires, weir: Weir) -> None:
    program = weir.tap("--fallback", "only", "--mirror", "tc", "--logger-mac", LOGGER_MAC)
    program.kill()
    program.wait()
    assert tables_of(TAP) != ""
    clean = weir.launch("lab", "clean", PATH="/nowhere")
    out, err = clean.communicate(timeout=60)
    assert clean.returncode == 0, err
    assert len(json.loads(out)["taps"]) == 1
    assert tables_of(TAP) == ""


def test_a_second_session_does_not_write_the_first_ones_record(wires: Wires, weir: Weir) -> None:
    arguments = ("log", "--interface", "l0", "--netns", LOGGER, "--write", "log.pcapng")
    first = weir.start(*arguments, manifest="log.pcapng.json")
    second = weir.launch(*arguments, "--force")
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert f"--write log.pcapng: weir log (process {first.pid}) is writing it" in err
    assert weir.end(first)["complete"]
    assert (weir.folder / "log.pcapng").stat().st_mode & 0o777 == 0o600


def test_frames_that_cross_while_the_tap_ends_are_in_the_record_or_told(wires: Wires, weir: Weir) -> None:
    program = weir.tap()
    arrived: list[int] = []
    flood = threading.Thread(target=lambda: arrived.extend(wires.send_until_cut(X)))
    flood.start()
    weir.eventually(lambda: weir.received("link.pcapng.json") > 0)
    document = weir.end(program)
    flood.join()
    assert document["sums_hold"], document["sums"]
    assert set(arrived) <= set(weir.numbers("link.pcapng"))


def test_a_linux_bridge_stands_in_where_xdp_cannot_run(wires: Wires, weir: Weir) -> None:
    program = weir.tap("--fallback", "only", "--mirror", "tc", "--logger-mac", LOGGER_MAC)
    log = weir.start(
        *("log", "--interface", "l0", "--netns", LOGGER, "--write", "mirror.pcapng"),
        manifest="mirror.pcapng.json",
    )
    assert len(wires.send(X, FRAMES)) == FRAMES
    assert len(wires.send(Y, FRAMES, first=FRAMES)) == FRAMES
    weir.eventually(
        lambda: weir.seen("mirror.pcapng.json") >= weir.received("link.pcapng.json") >= 2 * FRAMES
    )
    mirrored, document = weir.end(log), weir.end(program)
    assert document["mode"]["bridge"] == "linux"
    assert document["mode"]["differences"]
    assert (document["missing"], document["sums_hold"]) == (0, True)
    # Nobody tells what the other end refused, and so nothing is claimed of it.
    assert document["link_assumed"]
    assert "none lost" not in document["conclusion"]
    assert weir.numbers("link.pcapng") == list(range(2 * FRAMES))
    assert (mirrored["missing"], weir.numbers("mirror.pcapng")) == (0, list(range(2 * FRAMES)))


def test_a_logger_on_the_mirror_gets_every_frame_with_its_own_address(wires: Wires, weir: Weir) -> None:
    tap = weir.start(
        *("tap", "--between", "ta", "tb", "--netns", TAP, "--mirror", "tc", "--logger-mac", LOGGER_MAC),
        *("--manifest", "tap.json"),
        manifest="tap.json",
    )
    log = weir.start(
        *("log", "--interface", "l0", "--netns", LOGGER, "--write", "mirror.pcapng"),
        manifest="mirror.pcapng.json",
    )
    assert len(wires.send(X, FRAMES)) == FRAMES
    weir.eventually(lambda: weir.seen("mirror.pcapng.json") >= weir.received("tap.json") >= FRAMES)
    mirrored, document = weir.end(log), weir.end(tap)
    assert (document["missing"], document["mirror"]["not_sent"], document["sums_hold"]) == (0, 0, True)
    assert weir.numbers("mirror.pcapng") == list(range(FRAMES))
    address = bytes.fromhex(LOGGER_MAC.replace(":", ""))
    assert {frame[:6] for _, frame in frames(weir.folder / "mirror.pcapng")} == {address}
    assert mirrored["complete"]


def test_a_logger_whose_recorder_was_killed_says_that_nobody_knows_what_is_missing(
    wires: Wires, weir: Weir, eventually: Eventually
) -> None:
    program = weir.start(
        *("log", "--interface", "y0", "--netns", Y, "--write", "log.pcapng"), manifest="log.pcapng.json"
    )
    first = recorder_of(program)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(
        lambda: recorder_of(program) not in (None, first) and (weir.folder / "log.part2.pcapng").exists()
    )
    document = weir.end(program)
    assert (document["complete"], document["missing_unknown"]) == (False, True)
    assert [(gap["stage"], gap["frames"]) for gap in document["gaps"]] == [("recorder", None)]
    assert "an unknown number of frames" in document["conclusion"]


def test_a_logger_whose_interface_goes_leaves_a_gap_until_the_end(
    wires: Wires, weir: Weir, eventually: Eventually
) -> None:
    program = weir.start(
        *("log", "--interface", "y0", "--netns", Y, "--write", "log.pcapng"), manifest="log.pcapng.json"
    )
    Namespace(Y).call(lambda: journal.delete_link("y0"))
    eventually(lambda: weir.manifest("log.pcapng.json")["parts"][0]["ended_ns"] is not None)
    document = weir.end(program)
    assert (document["complete"], document["missing_unknown"]) == (False, True)
    (gap,) = document["gaps"]
    assert (gap["stage"], gap["frames"]) == ("recorder", None)
    assert gap["to_ns"] >= document["parts"][0]["ended_ns"]
    assert document["parts"][0]["failure"]


def test_a_logger_leaves_offloads_alone_unless_frames_are_wanted_as_on_the_wire(
    wires: Wires, weir: Weir
) -> None:
    Namespace(X).call(lambda: offloads.switch("x0", {"rx-gro": True}))
    before = wires.features()
    for option, name in ((), "a"), (("--wire",), "b"):
        program = weir.start(
            *("log", "--interface", "x0", "--netns", X, "--write", f"{name}.pcapng", *option),
            manifest=f"{name}.pcapng.json",
        )
        assert (wires.features() == before) == (option == ())
        notes = weir.end(program)["notes"]
        assert any("--wire" in note if option == () else "GRO" in note for note in notes), notes
        assert wires.features() == before


def tables_of(netns: str) -> str:
    """What nftables has in a namespace."""
    listed = Namespace(netns).call(
        lambda: subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False)
    )
    return listed.stdout.strip()
