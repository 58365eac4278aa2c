"""Standard input in the place of a file."""

from __future__ import annotations

import os
import pty
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import standard_input

DASH = Path("-")
Redirect = Callable[[int], None]


@pytest.fixture
def redirect() -> Iterator[Redirect]:
    """Makes an open file the standard input of this process."""
    before = os.dup(0)
    yield lambda number: (os.dup2(number, 0), os.close(number))[1]
    os.dup2(before, 0)
    os.close(before)


def piped(data: bytes, redirect: Redirect) -> threading.Thread:
    out, into = os.pipe()
    redirect(out)

    def feed() -> None:
        with os.fdopen(into, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=feed)
    thread.start()
    return thread


def test_a_pipe_is_read_to_its_end_and_as_often_as_needed(redirect: Redirect) -> None:
    data = bytes(range(256)) * 8192
    thread = piped(data, redirect)
    with standard_input.readable([Path("one.pcap"), DASH]) as (other, path):
        assert other == Path("one.pcap")
        assert path.is_file()
        assert [path.read_bytes() for _ in range(2)] == [data, data]
    thread.join()
    assert os.read(0, 1) == b""


def test_a_pipe_leaves_no_file(redirect: Redirect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    thread = piped(b"capture", redirect)
    with standard_input.readable([DASH]) as (path,):
        assert path.read_bytes() == b"capture"
        assert not list(tmp_path.iterdir())
    thread.join()


@pytest.mark.parametrize(("read", "rest"), [(0, b"capture"), (3, b"ture")])
def test_a_file_is_read_from_where_it_is(redirect: Redirect, tmp_path: Path, read: int, rest: bytes) -> None:
    file = tmp_path / "capture"
    file.write_bytes(b"capture")
    redirect(os.open(file, os.O_RDONLY))
    os.read(0, read)
    with standard_input.readable([DASH]) as (path,):
        assert path.read_bytes() == rest


def test_a_terminal_is_refused(redirect: Redirect) -> None:
    main, terminal = pty.openpty()
    redirect(terminal)
    with pytest.raises(InputError, match="terminal"), standard_input.readable([DASH]):
        pass
    os.close(main)


def test_standard_input_is_named_once() -> None:
    with pytest.raises(InputError, match="twice"), standard_input.readable([DASH, DASH]):
        pass


def test_other_names_are_left_alone() -> None:
    with standard_input.readable([Path("a"), Path("folder/-")]) as paths:
        assert paths == [Path("a"), Path("folder/-")]
