"""``weir tap`` and ``weir log`` between namespaces: real frames, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from weirlab.lab.linux import inventory
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.host import journal, tools

from .tap_hosts import FRAMES, LOGGER, LOGGER_MAC, TAP, Eventually, Weir, Wires, X, Y, datagrams, frames

pytestmark = pytest.mark.netns


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
    before = wires.features(), {name: facts.up for name, facts in inventory.look(TAP).items()}
    locks = set(journal.DIRECTORY.glob("*")) if journal.DIRECTORY.exists() else set()
    program = weir.tap("--fallback", "only", "--mirror", "tc", "--logger-mac", LOGGER_MAC)
    assert wires.features() != before[0]
    weir.end(program)
    found = inventory.look(TAP)
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
    before = wires.features(), set(inventory.look(TAP))
    program = weir.tap(*options)
    recorder = recorder_of(program)
    assert len(wires.send(X, FRAMES)) == FRAMES
    program.kill()
    program.wait()
    eventually(lambda: not Path(f"/proc/{recorder}").exists())
    assert weir.numbers("link.pcapng") == list(range(FRAMES))
    assert weir.manifest("link.pcapng.json")["state"] == "running"
    assert any(name.startswith("weir-") for name in journal.clean(pytest.fail))
    found = inventory.look(TAP)
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
    Namespace(X).call(lambda: tools.switch_offloads("x0", {"rx-gro": True}))
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
