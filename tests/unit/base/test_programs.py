"""What is started is neither what lies in the current folder nor what PATH or PYTHONPATH lead to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weirlab import lab
from weirlab.base import programs
from weirlab.base.errors import MissingCapability
from weirlab.link import bindings
from weirlab.link.recording.process import FrameSource, RecorderProcess, wait_for
from weirlab.link.settings import RecorderSettings

MODULES = ("json", "os", "re", "runpy", "select", "signal", "socket", "subprocess", "numpy", "polars")


def test_a_terminals_ctrl_c_reaches_weir_alone() -> None:
    # The fifth field of /proc/PID/stat is the process group.
    asked = ["sh", "-c", "read -r pid name state parent group rest < /proc/self/stat; echo $group"]
    ran = programs.run(asked, capture_output=True, text=True)
    with programs.start(asked, stdout=subprocess.PIPE, text=True) as started:
        said, _ = started.communicate()
    assert int(said) == started.pid
    assert int(ran.stdout) != os.getpgrp()


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which modules lie that leave a file ``RAN`` when they are imported."""
    code = f"open({str(tmp_path / 'RAN')!r}, 'a').write(__name__)\n"
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "weirlab").mkdir()
    (tmp_path / "weirlab" / "__init__.py").write_text(code)
    (tmp_path / "nft").write_text("#!/bin/sh\ntouch RAN\n")
    (tmp_path / "nft").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:.")
    monkeypatch.setenv("PYTHONPATH", "")
    return tmp_path


def ran(folder: Path) -> bool:
    return (folder / "RAN").exists()


def test_a_recorder_runs_nothing_that_lies_in_the_current_folder(hostile: Path) -> None:
    child = RecorderProcess(
        RecorderSettings(Path("a")), Path("a"), FrameSource(interface="weir-none", netns="none"), ""
    )
    wait_for(child.descriptors()[1:], 60.0)
    said = child.hear()
    words = child.last_words()
    child.close()
    assert [message["kind"] for message in said] == ["LabError"], words
    assert not ran(hostile)


def test_what_counts_a_record_runs_nothing_that_lies_in_the_current_folder(hostile: Path) -> None:
    (hostile / "no.pcap").write_bytes(b"no capture")
    said = programs.run(
        programs.own("weirlab.link.recording.child", "count", "no.pcap"), capture_output=True, text=True
    )
    assert said.returncode == 2
    assert "no.pcap" in said.stderr
    assert bindings.recorded("no.pcap") is None
    assert not ran(hostile)


@pytest.mark.parametrize(
    ("file", "role"),
    [
        ("machines/init.py", []),
        *(("monitoring/agent.py", [role]) for role in ("sample", "report", "receive")),
    ],
)
def test_programs_inside_the_device_run_nothing_that_lies_in_the_current_folder(
    file: str, role: list[str], hostile: Path
) -> None:
    (folder,) = lab.__path__
    # Too few arguments: it ends once everything has been imported.
    said = programs.run(programs.script(Path(folder, file), *role), capture_output=True, text=True)
    assert "() missing" in said.stderr
    assert not ran(hostile)


def test_the_command_as_a_module_runs_no_module_of_the_current_folder(hostile: Path) -> None:
    # What Python itself imports before is beyond reach: python -P -m weirlab, or weir.
    for name in ("os", "re", "runpy"):
        (hostile / f"{name}.py").unlink()
    (hostile / "weirlab" / "__init__.py").unlink()
    (hostile / "weirlab").rmdir()
    done = subprocess.run(
        [sys.executable, "-m", "weirlab", "runs", "--store", "none"],
        env={**os.environ, "PYTHONPATH": programs._HOME},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not ran(hostile)


def test_a_module_of_weir_finds_packages_where_this_process_does(hostile: Path) -> None:
    command = programs.own("weirlab.link.recording.child")
    path = command[command.index("-c") + 2]
    assert str(hostile) not in path
    assert programs._HOME in path


def test_programs_of_the_system_are_found_whatever_path_says(hostile: Path) -> None:
    assert programs.find("sh") in ("/usr/bin/sh", "/bin/sh")
    assert (programs.find("nft") or "/").startswith("/")
    said = programs.run(["sh", "-c", "echo $PATH; command -v ls"], capture_output=True, text=True)
    folders, ls = said.stdout.split()
    assert folders == programs.FOLDERS
    assert Path(ls).parent in map(Path, folders.split(":"))
    assert not ran(hostile)


def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingCapability, match=r"weir-none is not installed: none of /usr/local/.* has it"):
        programs.start(["weir-none", "--version"])


def test_relative_folders_and_the_current_one_are_not_handed_on(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", ".", "lib", str(hostile), "/elsewhere", *sys.path])
    found = programs.search_path()
    assert found[:2] == [programs._HOME, "/elsewhere"]
    assert not {"", ".", "lib", str(hostile)} & set(found)
