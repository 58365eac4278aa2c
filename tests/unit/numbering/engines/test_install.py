"""Asterisk beside the system: what is fetched from where, and what is said when it cannot be."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.jobs.progress import SilentProgress
from weirlab.numbering.lab import chroot, engines
from weirlab.numbering.plan.model import Engine

from ..conftest import Voice

GATEWAY = Engine(kind="gateway", protocols=("sip", "mgcp"))
SOURCES = "Docker|Docker CE|https://d.example/\nDebian|Debian|http://mirror.example/debian/\n"
URIS = (
    "'http://mirror.example/a_1_amd64.deb' a_1_amd64.deb 1000 SHA256:00\n"
    "'http://mirror.example/b_2_amd64.deb' b_2_amd64.deb 2000 SHA256:00\n"
)


class System:
    """The programs of a system, of which the answers are made up."""

    def __init__(self) -> None:
        self.said = {
            "indextargets": SOURCES,
            "--print-uris": URIS,
            "--show": "asterisk 1:16",
            "-V": "Asterisk 16.28.0",
        }
        self.failing = ""
        self.modules = chroot.MODULES
        self.commands: list[Sequence[str]] = []

    def run(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if "--extract" in command:
            folder = Path(command[-1]) / "usr/lib/asterisk/modules"
            folder.mkdir(parents=True, exist_ok=True)
            for module in self.modules:
                (folder / module).write_bytes(bytes(100))
        text = next((text for word, text in self.said.items() if word in command), "")
        failed = bool(self.failing) and self.failing in command
        return subprocess.CompletedProcess(
            command, int(failed), text, "E: it is gone\nmore" if failed else ""
        )

    def start(self, command: Sequence[str], **_: Any) -> Any:
        """Fetches at once."""
        self.commands.append(command)
        cache = next(word for word in command if word.startswith("Dir::Cache=")).partition("=")[2]
        for name in ("a_1_amd64.deb", "b_2_amd64.deb"):
            (Path(cache) / "archives" / name).write_bytes(b"x")
        return subprocess.CompletedProcess(command, 0)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> System:
    made = System()
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()

    class Started:
        def __init__(self, command: Sequence[str], **options: Any) -> None:
            made.start(command)
            self.returncode = 0

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(programs, "run", made.run)
    monkeypatch.setattr(programs, "start", Started)
    monkeypatch.setattr(chroot, "_KEYRING", keyring)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return made


def test_packages_come_from_the_mirror_of_this_machine_and_are_checked_by_debian_s_keys(
    system: System, asterisk: Path, voice: Voice
) -> None:
    killed = asterisk.parent / ".weir-killed"
    killed.mkdir()
    answer = voice("install", "--json")
    assert answer.code == 0, answer.err
    assert not killed.exists()
    assert answer.json["fetched"] is True
    assert answer.json["packages"] == {"asterisk": "1:16"}
    assert (answer.json["version"], answer.json["bytes"]) == ("16.28.0", 300 + 2 * 0 + _written(asterisk))
    update = next(command for command in system.commands if "update" in command)
    assert any(word.startswith("Dir::State::status=") for word in update)
    assert [path.name for path in asterisk.parent.glob(".weir-*")] == []
    assert engines.impossible(GATEWAY) == ""
    assert engines.version("asterisk") == "16.28.0"
    again = voice("install")
    assert "already in" in again.out


def _written(asterisk: Path) -> int:
    return sum((asterisk / "root/etc" / name).stat().st_size for name in ("passwd", "group"))


def test_the_source_is_the_release_that_has_it_and_names_the_keys(system: System, tmp_path: Path) -> None:
    apt = chroot._Apt(tmp_path / "apt", "http://mirror.example/debian/")
    (line,) = (tmp_path / "apt/sources.list").read_text().splitlines()
    assert line == f"deb [signed-by={tmp_path}/keyring.gpg] http://mirror.example/debian/ bullseye main"
    assert apt.wanted() == {"a_1_amd64.deb": 1000, "b_2_amd64.deb": 2000}


def _no_root(system: System, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "geteuid", lambda: 1000)


def _no_keys(system: System, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chroot, "_KEYRING", Path("/nowhere/keys.gpg"))


def _no_mirror(system: System, patch: pytest.MonkeyPatch) -> None:
    system.said["indextargets"] = "Docker|Docker CE|https://d.example/\n"


def _no_release(system: System, patch: pytest.MonkeyPatch) -> None:
    system.failing = "update"


def _no_module(system: System, patch: pytest.MonkeyPatch) -> None:
    system.modules = chroot.MODULES[:2]


@pytest.mark.parametrize(
    ("spoil", "kind", "reason"),
    [
        (_no_root, MissingCapability, r"run it as root \(sudo\)"),
        (_no_keys, MissingCapability, "apt-get install debian-archive-keyring"),
        (_no_mirror, InputError, "name no mirror of Debian .* or name a mirror by --mirror"),
        (_no_release, LabError, "no list of packages of Debian's release bullseye: E: it is gone"),
        (_no_module, LabError, r"has no chan_mgcp\.so at this mirror"),
    ],
)
def test_what_keeps_it_from_being_installed_is_said_and_nothing_is_left(
    system: System,
    asterisk: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[System, pytest.MonkeyPatch], None],
    kind: type[Exception],
    reason: str,
) -> None:
    spoil(system, monkeypatch)
    with pytest.raises(kind, match=reason):
        chroot.install(SilentProgress())
    assert not asterisk.exists()
    assert [*asterisk.parent.glob(".weir-*")] == []
    assert "weir voice install" in engines.impossible(GATEWAY)


def test_it_is_removed(has_asterisk: None, asterisk: Path, voice: Voice) -> None:
    assert voice("install", "--remove", "--json").json["removed"] is True
    assert not asterisk.exists()
    assert voice("install", "--remove").out.startswith("Nothing was installed.")
    assert voice("install", "--remove", "--again").code == 2


def test_a_manifest_that_is_none_says_that_nothing_is_there(asterisk: Path) -> None:
    asterisk.mkdir()
    for text in ("", "[]", json.dumps({"what": 1})):
        (asterisk / "manifest.json").write_text(text)
        assert chroot.installed() is None
