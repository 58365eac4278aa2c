"""A part of a capture as a file of its own, and what of it is read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weirlab import trace
from weirlab.base.errors import InputError
from weirlab.cli.program.app import app
from weirlab.testing import TcpConversation, write_pcap
from weirlab.trace import cutting, quantities


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A handshake, then ten segments 10 ms apart, each acknowledged."""
    talk = TcpConversation()
    talk.handshake()
    for _ in range(10):
        talk.wait(10)
        talk.a.send(1000)
        talk.b.ack()
    path = tmp_path / "whole.pcap"
    write_pcap(path, talk.packets())
    return path


def test_packets_of_a_window_are_those_that_an_analysis_of_the_window_sees(
    capture: Path, tmp_path: Path
) -> None:
    window = quantities.Window(30_000_000, 80_000_000, relative=True)
    part = cutting.cut(capture, tmp_path / "part.pcapng", window=window)
    seen = trace.analyse(capture, window=window)["capture"]
    again = trace.analyse(part.path)["capture"]
    assert 0 < part.packets < part.read
    assert part.packets == seen["selected"] == again["packets"]
    assert (part.first_ns, part.last_ns) == (seen["first_ns"], seen["last_ns"])
    assert (again["first_ns"], again["last_ns"]) == (seen["first_ns"], seen["last_ns"])
    assert again["files"][0]["format"] == "pcapng"
    assert part.bytes == part.path.stat().st_size


def test_a_filter_chooses_and_files_are_one_capture(capture: Path, tmp_path: Path) -> None:
    both = cutting.cut([capture, capture], tmp_path / "both.pcapng")
    data = cutting.cut([capture, capture], tmp_path / "data.pcapng", filter="tcp and greater 1000")
    assert both.packets == both.read == data.read
    assert (data.packets, data.interfaces) == (20, 2)


def test_nothing_is_written_where_nothing_is_chosen_and_what_was_there_stays(
    capture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "part.pcapng"
    out.write_bytes(b"before")
    with pytest.raises(InputError, match=r"none of \d+ packets was selected"):
        cutting.cut(capture, out, filter="udp", option="--pcapng")
    assert out.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: (path, path, ""), "would replace the capture"),
        (lambda path: (path.parent / "none", path.parent / "out", ""), "cannot be opened"),
        (lambda path: (path, path.parent / "out", "no filter at all"), "filter"),
        (lambda path: (path.parent, path.parent / "out", ""), "is a folder"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    capture: Path, spoil: Callable[[Path], tuple[Path, Path, str]], told: str
) -> None:
    source, out, expression = spoil(capture)
    with pytest.raises(InputError, match=told):
        cutting.cut(source, out, filter=expression)
    assert not (capture.parent / "out").exists()


def test_the_packets_of_a_connection_are_found_by_its_filter(capture: Path, tmp_path: Path) -> None:
    (one,) = trace.read(capture).facts["connections"]
    part = cutting.cut(capture, tmp_path / "part.pcapng", filter=cutting.of(one))
    assert part.packets == part.read


def test_the_command_writes_the_part_that_it_shows(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.pcapng"
    window = ["--from", "30ms", "--to", "80ms"]
    told = CliRunner().invoke(app, ["trace", str(capture), *window, "--pcapng", str(out), "--json"])
    assert told.exit_code == 0, told.stderr
    document = json.loads(told.stdout)
    assert document["pcapng"]["packets"] == document["capture"]["selected"]
    assert trace.analyse(out)["capture"]["packets"] == document["capture"]["selected"]
    shown = CliRunner().invoke(app, ["trace", str(capture), *window, "--pcapng", str(out)])
    assert f"of {document['capture']['packets']} in {out}" in shown.stderr
