"""Weir's own virtual machine: what it is made of, the built kernel and root, and where they are kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from weirlab.base.errors import MissingCapability

KERNEL: Final = "linux-image-cloud-amd64"
"""The package that names the newest kernel for virtual machines, half the size of the standard one."""

PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "busybox-static": ["busybox"],
    "iproute2": ["ip", "tc"],
    "nftables": ["nft"],
    "wireguard-tools": ["wg"],
}
"""Programs by package. BusyBox provides all other commands."""

DELAYS: Final = "usr/lib/**/tc/*.dist"
"""The delay distributions of netem."""

NEEDED: Final = ("virtio_pci", "virtio_net", "virtio_console")
"""Modules that are indispensable; kernels may have them built in."""

MODULES: Final = (
    *NEEDED,
    # ESP, and the algorithms of its suites.
    "esp4", "esp6", "ah4", "ah6", "xfrm_user", "xfrm_interface", "tunnel4", "tunnel6", "drbg",
    "jitterentropy_rng", "aes_generic", "aesni_intel", "cbc", "ecb", "gcm", "ccm", "ctr", "ghash_generic",
    "ghash_clmulni_intel", "seqiv", "echainiv", "authenc", "authencesn", "hmac", "md5", "sha1_generic",
    "sha256_generic", "sha512_generic", "chacha20poly1305", "chacha_x86_64", "poly1305_x86_64", "crypto_null",
    "wireguard",
    # The packet filter, connection tracking and the flowtable.
    "crc32c_generic", "crc32c_intel", "nf_tables", "nf_conntrack", "nft_reject_inet", "nft_ct", "nft_numgen",
    "nft_limit", "nft_log", "nft_nat", "nft_masq", "nft_flow_offload", "nf_flow_table", "nf_flow_table_inet",
    "nft_chain_nat", "nft_hash",
    # Filters of tc.
    "cls_flower", "act_gact",
    # Captures and queueing disciplines.
    "af_packet", "sch_netem", "sch_tbf", "sch_fq", "sch_fq_codel", "sch_ingress", "cls_u32", "act_mirred",
)  # fmt: skip

INIT: Final = Path(__file__).with_name("init.sh")


def digest() -> str:
    """Hash of everything the image is made of, except the versions of the packages."""
    parts = (KERNEL, repr(sorted(PROGRAMS.items())), DELAYS, repr(MODULES), INIT.read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


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
    if about.recipe != digest():
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
