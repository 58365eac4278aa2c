"""The built kernel and root, and where they are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from weirlab.base.errors import MissingCapability
from weirlab.lab.vm import recipe

BUILD: Final = "weir lab build"
"""The command that builds them."""

_KERNEL: Final = "vmlinuz"
_ROOT: Final = "root.cpio"
_ABOUT: Final = "image.json"


@dataclass(frozen=True)
class ImageContents:
    """What an image was made of."""

    recipe: str
    release: str
    """Release of the kernel."""
    packages: Sequence[str]
    """Names and versions of the packages."""


@dataclass(frozen=True)
class Image:
    """A kernel and a root that QEMU starts."""

    folder: Path
    about: ImageContents

    @property
    def kernel(self) -> Path:
        return kernel_path(self.folder)

    @property
    def root(self) -> Path:
        return root_path(self.folder)

    @property
    def size_bytes(self) -> int:
        return self.kernel.stat().st_size + self.root.stat().st_size


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/weir/vm``, by default ``~/.cache/weir/vm``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # XDG base directory specification: relative paths are ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "weir" / "vm"


def find(folder: Path | None = None) -> Image:
    """The image that was built.

    Raises ``MissingCapability`` if there is none, or only one with another version's recipe.
    """
    folder = folder or default_folder()
    try:
        about = ImageContents(**json.loads((folder / _ABOUT).read_text()))
    except (OSError, ValueError, TypeError):
        raise MissingCapability(f"no virtual machine has been built yet: {BUILD}") from None
    if about.recipe != recipe.digest():
        raise MissingCapability(f"the virtual machine was built by another version of Weir: {BUILD}")
    image = Image(folder, about)
    if not (image.kernel.is_file() and image.root.is_file()):
        raise MissingCapability(f"files of the virtual machine are missing in {folder}: {BUILD} --again")
    return image


def kernel_path(folder: Path) -> Path:
    return folder / _KERNEL


def root_path(folder: Path) -> Path:
    return folder / _ROOT


def about_path(folder: Path) -> Path:
    return folder / _ABOUT


def about_bytes(about: ImageContents) -> bytes:
    """The content of the file that says what an image was made of."""
    return json.dumps(asdict(about), indent=2).encode() + b"\n"
