"""Installs Asterisk with H.323 and MGCP, from the last Debian release that has them, in its own folder.

Later Debian releases have no Asterisk with both. The packages are fetched and verified by the apt of this
machine, from the mirror in its sources, and unpacked apart from the system, which does not change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from weirlab.base import files, programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.interrupts import interruptible
from weirlab.jobs.progress import Progress

SUITE: Final = "bullseye"
"""Debian 11, the last release whose Asterisk has chan_ooh323 and chan_mgcp."""

PACKAGES: Final = ("asterisk", "asterisk-modules", "asterisk-ooh323")
MODULES: Final = ("chan_pjsip.so", "chan_ooh323.so", "chan_mgcp.so")

FOLDER: Final = Path("/var/cache/weir/asterisk")
"""A cache folder, for all users of this machine."""

PROGRAM: Final = "/usr/sbin/asterisk"
"""In the root folder."""

_MODULE_FOLDER: Final = "usr/lib/asterisk/modules"
_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MANIFEST: Final = "manifest.json"
_SCRATCH: Final = ".weir-"
_POLL_S: Final = 0.25
_MOUNTS: Final = ("proc", "dev", "run", "tmp", "mnt", "var/cache/bind")
_URI: Final = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<bytes>\d+)")
_MB: Final = 1_000_000


@dataclass(frozen=True)
class ChrootContents:
    """What is installed in the folder."""

    version: str
    """Of Asterisk."""
    suite: str
    packages: dict[str, str] = field(default_factory=dict)
    """Versions by name."""
    bytes: int = 0
    """Of all files."""


def root(folder: Path | None = None) -> Path:
    """The root folder of its programs."""
    return (folder or FOLDER) / "root"


def installed(folder: Path | None = None) -> ChrootContents | None:
    """What is installed; None for nothing."""
    try:
        text = ((folder or FOLDER) / _MANIFEST).read_text()
        return ChrootContents(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None


def missing() -> str:
    """How to install it; empty if it is installed."""
    return "" if installed() is not None else "Asterisk is not installed: weir voice install"


def remove(folder: Path | None = None) -> bool:
    """Remove it; returns whether there was anything to remove."""
    where = folder or FOLDER
    if not where.exists():
        return False
    with files.telling(where, "remove"):
        shutil.rmtree(where)
    return True


def install(progress: Progress, mirror: str | None = None, folder: Path | None = None) -> ChrootContents:
    """Fetch, check and unpack the packages.

    Raises
    ------
    MissingCapability
        There is no apt, Debian's keys are missing, or the folder is not writable.
    LabError
        The mirror has no such release, or its packages are not what they should be.
    """
    where = folder or FOLDER
    if os.geteuid() != 0:
        raise MissingCapability("weir voice install writes a folder of the system: run it as root (sudo)")
    if not _KEYRING.exists():
        raise MissingCapability(
            f"{_KEYRING}, which verifies the packages, is missing: apt-get install debian-archive-keyring"
        )
    found = mirror or _mirror()
    files.make_folder(where.parent)
    with _alone(where.parent):
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=where.parent))
        try:
            scratch.chmod(0o755)
            made = _made(scratch, found, progress)
            remove(where)
            scratch.rename(where)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    return made


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other installations out, and remove what killed installations have left."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files.wait_for_lock(fd)
        for left in folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(fd)


@interruptible
def _made(scratch: Path, mirror: str, progress: Progress) -> ChrootContents:
    apt = _Apt(scratch / "apt", mirror)
    progress.stage(f"the list of packages of Debian's release {SUITE}")
    apt.update()
    wanted = apt.wanted()
    size = sum(wanted.values())
    progress.stage(f"{len(wanted)} packages, {size / _MB:.0f} MB")
    for done in apt.fetch():
        progress.advance(min(done, size) // _MB, size // _MB, "MB")
    target = scratch / "root"
    packages = sorted(apt.archives.glob("*.deb"))
    progress.stage(f"unpacking {len(packages)} packages")
    versions = {}
    target.mkdir()
    for count, package in enumerate(packages):
        progress.advance(count, len(packages), package.name.partition("_")[0])
        _checked(["dpkg-deb", "--extract", str(package), str(target)], f"{package.name} cannot be unpacked")
        name, version = _checked(
            ["dpkg-deb", "--show", "--showformat=${Package} ${Version}", str(package)], package.name
        ).split()
        versions[name] = version
    shutil.rmtree(apt.folder)
    _complete(target)
    said = _checked(["chroot", str(target), PROGRAM, "-V"], "Asterisk does not start")
    version = said.removeprefix("Asterisk").split()[0]
    size = sum(path.lstat().st_size for path in target.rglob("*") if not path.is_dir())
    made = ChrootContents(version, SUITE, versions, size)
    (scratch / _MANIFEST).write_text(json.dumps(asdict(made), indent=2) + "\n")
    return made


def _complete(target: Path) -> None:
    """Do the work of the packages' scripts: make mount points and expected files."""
    for name in MODULES:
        if not (target / _MODULE_FOLDER / name).exists():
            raise LabError(f"the Asterisk of Debian's release {SUITE} has no {name} at this mirror")
    for name in _MOUNTS:
        (target / name).mkdir(parents=True, exist_ok=True)
    (target / "etc").mkdir(exist_ok=True)
    for name in ("etc/resolv.conf", "etc/hosts"):
        (target / name).touch()
    (target / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (target / "etc/group").write_text("root:x:0:\n")


class _Apt:
    """The apt of this machine with a separate state, in which nothing is installed yet."""

    def __init__(self, folder: Path, mirror: str) -> None:
        self.folder = folder
        self.archives = folder / "cache/archives"
        for name in ("state/lists/partial", "cache/archives/partial", "parts"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        source = f"deb [signed-by={_KEYRING}] {mirror} {SUITE} main\n"
        (folder / "sources.list").write_text(source)
        own = {
            "Dir::State": folder / "state",
            "Dir::State::status": folder / "status",
            "Dir::State::extended_states": folder / "extended",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": folder / "parts",
            "Dir::Etc::preferences": folder / "none",
            "Dir::Etc::preferencesparts": folder / "parts",
            "Dir::Log": folder,
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false",
            "APT::Get::Assume-Yes": "true",
            "Acquire::Retries": "3",
        }
        self._options = [word for key, value in own.items() for word in ("-o", f"{key}={value}")]

    def update(self) -> None:
        """Fetch the lists, signed by Debian."""
        self._run("update", "--error-on=any", what=f"no list of packages of Debian's release {SUITE}")

    def wanted(self) -> dict[str, int]:
        """Files to fetch, and their sizes in bytes."""
        said = self._run("install", "--print-uris", "-qq", *PACKAGES, what="the packages do not fit together")
        return {match["file"]: int(match["bytes"]) for match in _URI.finditer(said)}

    def fetch(self) -> Iterator[int]:
        """Fetch them; yields the number of bytes so far now and then."""
        command = self._command("install", "--download-only", "-qq", *PACKAGES)
        log = self.folder / "fetch.log"
        with log.open("wb") as said:
            running = programs.start(command, stdout=said, stderr=said)
            try:
                while running.poll() is None:
                    yield _bytes_in(self.archives)
                    time.sleep(_POLL_S)
            finally:
                if running.poll() is None:
                    running.terminate()
                    running.wait()
        if running.returncode != 0:
            raise LabError(f"packages cannot be fetched: {_last(log.read_text(errors='replace'))}")

    def _command(self, verb: str, *more: str) -> list[str]:
        return ["apt-get", *self._options, verb, *more]

    def _run(self, verb: str, *more: str, what: str) -> str:
        return _checked(self._command(verb, *more), what)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*.deb*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            # apt has moved it to its final place.
            continue
    return total


def _mirror() -> str:
    """Debian's mirror in the sources of this machine."""
    listed = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
    said = _checked(
        ["apt-get", "indextargets", "--format", listed, "Created-By: Packages"], "apt lists no sources"
    )
    for line in said.splitlines():
        origin, label, uri = line.split("|", 2)
        if (origin, label) == ("Debian", "Debian"):
            return uri
    raise InputError(
        "the sources of this machine's apt name no mirror of Debian whose lists are there: run apt-get "
        "update, or name a mirror by --mirror"
    )


def _checked(command: Sequence[str], what: str) -> str:
    """The output of a program; raises ``LabError`` with its last output if it fails."""
    done = programs.run(
        command, capture_output=True, text=True, errors="replace", env=programs.environment(LC_ALL="C")
    )
    if done.returncode != 0:
        raise LabError(f"{what}: {_last(done.stdout + done.stderr)}")
    said: str = done.stdout
    return said


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("E:", "W:"))] or lines
    return " | ".join(told[-4:]) or "no output"
