"""Builds the kernel and the root of virtual machines in one call."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base import files
from weirlab.base.errors import MissingCapability
from weirlab.lab.vm import image, packages, recipe, root
from weirlab.lab.vm.image import Image, ImageContents
from weirlab.lab.vm.packages import Package

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
        Where to keep it; :func:`~weirlab.lab.vm.image.default_folder` by default.
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
    folder = folder or image.default_folder()
    files.make_folder(folder, packages.ELSEWHERE)
    with _alone(folder):
        if not again:
            try:
                return ImageBuild(image.find(folder))
            except MissingCapability:
                pass
        packages.check()
        tell("asking apt which packages the virtual machine needs")
        wanted = packages.find(recipe.KERNEL, list(recipe.PROGRAMS))
        store = folder / _DOWNLOADED
        files.make_folder(store, packages.ELSEWHERE)
        missing = [each for each in wanted if not each.is_in(store)]
        tell(f"downloading {described(missing)} to {store}" if missing else "all packages are downloaded")
        packages.download(missing, store)
        about = _assemble(wanted, store, folder, tell)
        # Other versions of a package are no longer needed.
        kept = {each.file for each in wanted}
        for path in store.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)
        return ImageBuild(Image(folder, about), missing, renewed=True)


def described(found: Sequence[Package]) -> str:
    """``23 packages (48.1 MB)``."""
    size = sum(each.size_bytes for each in found)
    return f"{len(found)} package{'' if len(found) == 1 else 's'} ({size / 1e6:.1f} MB)"


def _assemble(
    wanted: Sequence[Package], store: Path, folder: Path, tell: Callable[[str], None]
) -> ImageContents:
    for left in folder.glob(f"{_UNPACKED}*"):
        shutil.rmtree(left, ignore_errors=True)
    with (
        files.telling(folder, "unpack packages in", packages.ELSEWHERE),
        tempfile.TemporaryDirectory(prefix=_UNPACKED, dir=folder) as scratch,
    ):
        unpacked = Path(scratch)
        tell("unpacking")
        packages.unpack(wanted, store, unpacked)
        tell("assembling kernel and root")
        archive = root.assemble(unpacked)
        about = ImageContents(
            recipe.digest(), root.released(unpacked), [f"{p.name} {p.version}" for p in wanted]
        )
        # Until everything is there, there is no image.
        image.about_path(folder).unlink(missing_ok=True)
        content = root.kernel(unpacked).read_bytes()
        files.write_bytes(image.kernel_path(folder), content, elsewhere=packages.ELSEWHERE)
        files.write(image.root_path(folder), archive.write, elsewhere=packages.ELSEWHERE)
        files.write_bytes(image.about_path(folder), image.about_bytes(about), elsewhere=packages.ELSEWHERE)
    return about


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from building in ``folder``."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files.wait_for_lock(fd)
        yield
    finally:
        os.close(fd)
