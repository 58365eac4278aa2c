"""Builds the kernel and the root of virtual machines in one call, from Debian packages that it downloads."""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from weirlab.base import files, programs
from weirlab.base.errors import LabError, MissingCapability
from weirlab.base.files import explain, telling
from weirlab.lab.clean import alone
from weirlab.lab.machines import qemu, root
from weirlab.lab.machines.machine import quote
from weirlab.lab.machines.qemu import KERNEL, PROGRAMS, Image, ImageContents, digest

ARCHITECTURE: Final = "amd64"

_NEEDED: Final = re.compile(r"^'[^']+' (?P<name>[^_\s]+)_\S+\.deb ", re.MULTILINE)
_URI: Final = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+\.deb) (?P<size>\d+) SHA256:(?P<sum>[0-9a-f]{64})")
_KERNEL: Final = re.compile(r"Depends: (linux-image-\d\S*)")
_TOOLS: Final = ("apt-get", "apt-cache", "dpkg", "dpkg-deb")
_WORDS: Final = 4
_FULL: Final = "No space left on device"

ELSEWHERE: Final = "choose another place by XDG_CACHE_HOME"
"""What to do if the disk refuses."""


@dataclass(frozen=True)
class Package:
    """A file of the archive, as described by apt's signed lists."""

    file: str
    size_bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return self.file.partition("_")[0]

    @property
    def version(self) -> str:
        return unquote(self.file.split("_")[1])

    def is_in(self, folder: Path) -> bool:
        """Whether the file is there, complete and unchanged."""
        path = folder / self.file
        if not path.is_file() or path.stat().st_size != self.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def check() -> None:
    """Raise ``MissingCapability`` if packages are not available here."""
    lacking = [name for name in _TOOLS if programs.find(name) is None]
    if lacking:
        raise MissingCapability(
            f"{' and '.join(lacking)} not installed: the virtual machine is built from packages of Debian 12 "
            "or later; build it on such a machine"
        )
    if (found := _output(["dpkg", "--print-architecture"]).strip()) != ARCHITECTURE:
        raise MissingCapability(
            f"this machine's packages are for {found}: only {ARCHITECTURE} machines can build and run the "
            "virtual machine"
        )


def find(kernel: str, names: Sequence[str]) -> list[Package]:
    """Find the kernel that the package ``kernel`` names, the packages ``names``, and their dependencies.

    Raises ``LabError`` with apt's message if it does not know one.
    """
    with tempfile.TemporaryDirectory(prefix="weir-apt-") as scratch:
        # As if nothing were installed, so that libraries installed here are included as well.
        (status := Path(scratch, "status")).touch()
        Path(scratch, "partial").mkdir()
        empty = [f"Dir::State::status={status}", f"Dir::Cache::archives={scratch}"]
        empty += ["Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", "Debug::NoLocking=true"]
        options = [word for each in empty for word in ("-o", each)]
        wanted = ["--yes", "--no-install-recommends", "--print-uris"]
        needed = _NEEDED.findall(_output(["apt-get", "install", *options, *wanted, *names]))
        released = _KERNEL.search(_output(["apt-cache", "depends", kernel]))
        if released is None:
            raise LabError(f"apt-cache depends {kernel} names no kernel: apt-get update, then try again")
        return listed(
            _output(["apt-get", "download", *options, "--print-uris", released[1], *needed], cwd=scratch)
        )


def listed(text: str) -> list[Package]:
    """Parse the list of ``apt-get download --print-uris``."""
    return [Package(each["file"], int(each["size"]), each["sum"]) for each in _URI.finditer(text)]


def download(packages: Iterable[Package], folder: Path) -> None:
    """Download the files of ``packages`` to ``folder``, except those already complete.

    Raises ``LabError`` with apt's message if it cannot get them, ``StoreError`` if the disk is full.
    """
    missing = [package for package in packages if not package.is_in(folder)]
    if not missing:
        return
    with telling(folder, "write to"):
        for each in missing:
            (folder / each.file).unlink(missing_ok=True)
    # apt's user for downloads has no right to write here.
    command = ["apt-get", "download", "-o", "APT::Sandbox::User=root"]
    names = [f"{each.name}={each.version}" for each in missing]
    _output([*command, *names], filling=folder, cwd=str(folder))
    if damaged := [each.file for each in missing if not each.is_in(folder)]:
        raise LabError(f"apt-get download left no complete {' or '.join(damaged)}; try again")


def unpack(packages: Iterable[Package], folder: Path, into: Path) -> None:
    """Extract the packages below ``into``; none of their scripts runs."""
    for package in packages:
        _output(["dpkg-deb", "--extract", str(folder / package.file), str(into)], filling=into.parent)


def _output(command: Sequence[str], *, filling: Path | None = None, **options: Any) -> str:
    """The output of the command; ``filling`` is the folder that it writes to."""
    done = programs.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        env=programs.environment(LC_ALL="C"),
        **options,
    )
    if done.returncode != 0:
        if filling is not None and _FULL in done.stderr:
            raise explain(filling, "write packages to", OSError(errno.ENOSPC, _FULL), ELSEWHERE)
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LabError(f"{' '.join(command[:2])} fails: {quote(words[-_WORDS:])}")
    return str(done.stdout)


_UNPACKED: Final = "unpacked-"
_DOWNLOADED: Final = "packages"


@dataclass(frozen=True)
class ImageBuild:
    """The result. ``downloaded`` is empty if the image already existed."""

    image: Image
    downloaded: Sequence[Package] = ()
    renewed: bool = False


def build(
    folder: Path | None = None, *, again: bool = False, tell: Callable[[str], None] = lambda _: None
) -> ImageBuild:
    """Build an image in ``folder``: download, unpack, assemble. Continues where an earlier attempt ended.

    Parameters
    ----------
    folder
        Where to keep it; :func:`~weirlab.lab.machines.qemu.default_folder` by default.
    again
        Build it from the current packages even if there is one.
    tell
        Gets progress messages.

    Raises
    ------
    MissingCapability
        This machine has no apt, or another architecture.
    LabError
        apt or dpkg fails, with its message; or the packages lack something.
    StoreError
        The disk refuses.
    """
    folder = folder or qemu.default_folder()
    files.make_folder(folder, ELSEWHERE)
    with alone(folder):
        if not again:
            try:
                return ImageBuild(qemu.find(folder))
            except MissingCapability:
                pass
        check()
        tell("asking apt which packages the virtual machine needs")
        wanted = find(KERNEL, list(PROGRAMS))
        store = folder / _DOWNLOADED
        files.make_folder(store, ELSEWHERE)
        missing = [each for each in wanted if not each.is_in(store)]
        tell(f"downloading {described(missing)} to {store}" if missing else "all packages are downloaded")
        download(missing, store)
        image = _assemble(wanted, store, folder, tell)
        # Other versions of a package are no longer needed.
        kept = {each.file for each in wanted}
        for path in store.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)
        return ImageBuild(image, missing, renewed=True)


def described(found: Sequence[Package]) -> str:
    """``23 packages (48.1 MB)``."""
    size = sum(each.size_bytes for each in found)
    return f"{len(found)} package{'' if len(found) == 1 else 's'} ({size / 1e6:.1f} MB)"


def _assemble(wanted: Sequence[Package], store: Path, folder: Path, tell: Callable[[str], None]) -> Image:
    for left in folder.glob(f"{_UNPACKED}*"):
        shutil.rmtree(left, ignore_errors=True)
    with (
        files.telling(folder, "unpack packages in", ELSEWHERE),
        tempfile.TemporaryDirectory(prefix=_UNPACKED, dir=folder) as scratch,
    ):
        unpacked = Path(scratch)
        tell("unpacking")
        unpack(wanted, store, unpacked)
        tell("assembling kernel and root")
        archive = root.assemble(unpacked)
        about = ImageContents(digest(), root.released(unpacked), [f"{p.name} {p.version}" for p in wanted])
        # Until everything is there, there is no image.
        image = Image(folder, about)
        image.description.unlink(missing_ok=True)
        content = root.kernel(unpacked).read_bytes()
        files.write_bytes(image.kernel, content, elsewhere=ELSEWHERE)
        files.write(image.root, archive.write, elsewhere=ELSEWHERE)
        files.write_bytes(image.description, image.describe(), elsewhere=ELSEWHERE)
    return image
