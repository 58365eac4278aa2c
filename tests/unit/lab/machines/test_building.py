"""Packages found, downloaded and put together; what is said when that fails."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability, StoreError
from weirlab.lab.machines import building, qemu, root
from weirlab.lab.machines.qemu import ImageContents

NEEDED = """Reading package lists...
'http://archive.example/pool/main/i/iproute2_6.1.0-3_amd64.deb' iproute2_6.1.0-3_amd64.deb 1041772 MD5Sum:00
'http://archive.example/pool/main/l/libcap2_2.66-4_amd64.deb' libcap2_1%3a2.66-4_amd64.deb 27580
"""
"""Not every line has a sum."""
LISTED = """'http://archive.example/debian/pool/main/i/iproute2/iproute2_6.1.0-3_amd64.deb' \
iproute2_6.1.0-3_amd64.deb 1041772 SHA256:{0}
'http://archive.example/pool/main/l/libcap2/libcap2_1%3a2.66-4_amd64.deb' libcap2_1%3a2.66-4_amd64.deb \
27580 SHA256:{0}
'http://archive.example/pool/l/linux-image-6.1.0-40-cloud-amd64_6.1.153-1_amd64.deb' \
linux-image-6.1.0-40-cloud-amd64_6.1.153-1_amd64.deb 27000000 SHA256:{0}
""".format("ab" * 32)


class Apt:
    """Answers as apt and dpkg would; ``content`` is what a download yields, by file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[Sequence[str]] = []
        self.content: dict[str, bytes] = {}
        self.fails: dict[str, str] = {}
        monkeypatch.setattr(programs, "run", self.run)
        monkeypatch.setattr(programs, "find", lambda name: f"/usr/bin/{name}")

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        said = {
            "--print-architecture": "amd64\n",
            "install": NEEDED,
            "depends": "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-40-cloud-amd64\n",
            "download": LISTED if "--print-uris" in command else "",
        }
        listing = command[1] == "download" and "--print-uris" in command
        if not listing and (failure := self.fails.get(command[1])):
            return subprocess.CompletedProcess(command, 100, "", failure)
        if command[1] == "download" and "--print-uris" not in command:
            for name, content in self.content.items():
                Path(options["cwd"], name).write_bytes(content)
        return subprocess.CompletedProcess(command, 0, said.get(command[1], ""), "")


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch) -> Apt:
    return Apt(monkeypatch)


def package(name: str, content: bytes) -> building.Package:
    return building.Package(f"{name}_1_amd64.deb", len(content), hashlib.sha256(content).hexdigest())


def test_what_is_needed_is_the_kernel_the_programs_and_their_libraries(apt: Apt) -> None:
    found = building.find("linux-image-cloud-amd64", ["iproute2"])
    assert [each.name for each in found] == ["iproute2", "libcap2", "linux-image-6.1.0-40-cloud-amd64"]
    assert [each.version for each in found] == ["6.1.0-3", "1:2.66-4", "6.1.153-1"]
    assert sum(each.size_bytes for each in found) == 27_000_000 + 1_041_772 + 27_580
    assert building.described(found) == "3 packages (28.1 MB)"
    asked = next(command for command in apt.commands if "--print-uris" in command and "download" in command)
    assert list(asked[-3:]) == ["linux-image-6.1.0-40-cloud-amd64", "iproute2", "libcap2"]
    # As if nothing was installed here, and without a change to what apt keeps.
    (install,) = (command for command in apt.commands if command[1] == "install")
    assert any(word.startswith("Dir::State::status=") for word in install)
    assert "Dir::Cache::pkgcache=" in install


def test_what_is_whole_is_not_downloaded_again(apt: Apt, tmp_path: Path) -> None:
    whole, cut, missing = package("a", b"whole"), package("b", b"all of it"), package("c", b"new")
    (tmp_path / whole.file).write_bytes(b"whole")
    (tmp_path / cut.file).write_bytes(b"all")
    apt.content = {cut.file: b"all of it", missing.file: b"new"}
    building.download([whole, cut, missing], tmp_path)
    assert [word for word in apt.commands[-1] if "=1" in word] == ["b=1", "c=1"]
    assert all(each.is_in(tmp_path) for each in (whole, cut, missing))
    apt.commands.clear()
    building.download([whole, cut, missing], tmp_path)
    assert apt.commands == []


def test_a_file_that_is_not_what_the_lists_say_is_refused(apt: Apt, tmp_path: Path) -> None:
    wanted = package("a", b"right")
    apt.content = {wanted.file: b"wrong"}
    with pytest.raises(LabError, match=r"left no complete a_1_amd64\.deb; try again"):
        building.download([wanted], tmp_path)


@pytest.mark.parametrize(
    ("command", "said", "told"),
    [
        ("install", "E: Unable to locate package iproute2", "apt-get install fails: E: Unable to locate"),
        ("download", "E: Failed to fetch http://x  Could not connect", "apt-get download fails: .*Could not"),
        ("--extract", "dpkg-deb: error: archive is damaged", "dpkg-deb --extract fails: .*is damaged"),
        ("--extract", "tar: x: No space left on device", "cannot write packages to .*no space is left on"),
        ("download", "E: write (28: No space left on device)", "no space is left .*place by XDG_CACHE_HOME"),
    ],
)
def test_what_apt_and_dpkg_refuse_is_told_in_their_words(
    command: str, said: str, told: str, apt: Apt, tmp_path: Path
) -> None:
    apt.content = {each.file: b"" for each in building.listed(LISTED)}
    apt.fails[command] = said
    monkey = pytest.MonkeyPatch()
    monkey.setattr(building.Package, "is_in", lambda self, folder: (folder / self.file).exists())
    try:
        with pytest.raises((LabError, StoreError), match=told):
            building.build(tmp_path)
    finally:
        monkey.undo()
    # Nothing of an attempt that failed is taken for an image, and nothing unpacked stays.
    with pytest.raises(MissingCapability, match="weir lab build"):
        qemu.find(tmp_path)
    assert list(tmp_path.glob("unpacked-*")) == []


def test_other_systems_are_told_what_they_lack(
    apt: Apt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    with pytest.raises(MissingCapability, match=r"apt-get and .* not installed: .* Debian 12"):
        building.build(tmp_path)


def test_an_image_is_found_once_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(MissingCapability, match="no virtual machine has been built yet: weir lab build"):
        qemu.find(tmp_path)
    about = ImageContents(qemu.digest(), "6.1.0-40-cloud-amd64", ["iproute2 6.1.0-3"])
    image = qemu.Image(tmp_path, about)
    image.description.write_bytes(image.describe())
    with pytest.raises(MissingCapability, match="files of the virtual machine are missing"):
        qemu.find(tmp_path)
    for path in (image.kernel, image.root):
        path.write_bytes(b"12345")
    found = qemu.find(tmp_path)
    assert found.about == about
    assert found.size_bytes == 10
    assert building.build(tmp_path).renewed is False


def test_an_image_of_another_version_is_not_used(tmp_path: Path) -> None:
    image = qemu.Image(tmp_path, ImageContents("other", "6.1", []))
    image.description.write_bytes(image.describe())
    with pytest.raises(MissingCapability, match="built by another version of Weir"):
        qemu.find(tmp_path)


def test_modules_come_with_what_they_need_and_unknown_ones_are_left_out() -> None:
    needs = {"esp4": ["xfrm_algo"], "xfrm_algo": [], "wireguard": ["udp_tunnel"], "udp_tunnel": []}
    assert root.closure(["esp4", "built_in_here"], needs) == ["esp4", "xfrm_algo"]
    assert root.module_name("kernel/net/netfilter/nf-flow-table.ko") == "nf_flow_table"


def test_the_recipe_has_every_module_once() -> None:
    assert len(set(qemu.MODULES)) == len(qemu.MODULES)
    assert set(qemu.NEEDED) <= set(qemu.MODULES)
