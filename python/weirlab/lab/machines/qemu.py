"""Weir's own virtual machine: what it is made of, where it is kept, and how QEMU is started (KVM or TCG)."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.confinement import start
from weirlab.base.errors import MissingCapability, WeirError
from weirlab.lab.clean import LOCKS

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

Accelerator = Literal["kvm", "tcg"]

PROGRAM: Final = "qemu-system-x86_64"
PACKAGE: Final = "qemu-system-x86"

FOLDER: Final = "/run/qemu"
"""QEMU's own folder, in the machine that it runs in."""
AGENT: Final = f"{FOLDER}/agent"
"""Socket of the agent's port."""
AGENT_PORT: Final = "weir.agent"

SANDBOX: Final = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
"""System calls that QEMU does without (qemu(1), -sandbox), and so does a guest that takes it over."""

_KVM: Final = Path("/dev/kvm")
_TUN: Final = Path("/dev/net/tun")
_TEMPORARY: Final = Path("/var/tmp")
"""Where QEMU keeps what a guest writes to its disk, in files without a name."""
_TRY_S: Final = 10.0
_KVM_GET_API_VERSION: Final = 0xAE00
_KVM_API_VERSION: Final = 12
_NO_KVM: Final = LOCKS / "no-kvm"
"""Marks that a guest did not start with KVM; removed at this machine's next boot, like all of /run."""

_NOTHING: Final = ("-nodefaults", "-no-user-config", "-display", "none")
_CPUS: Final[dict[Accelerator, str]] = {"kvm": "host", "tcg": "max"}
_KERNEL_OPTIONS: Final = (
    # A panic ends QEMU, whose output shows it. Self-tests of algorithms take seconds in an emulator.
    "console=ttyS0 loglevel=4 panic=-1 random.trust_cpu=on cryptomgr.notests tsc=reliable"
)


def digest() -> str:
    """Hash of everything the image is made of, except the versions of the packages."""
    parts = (KERNEL, repr(sorted(PROGRAMS.items())), DELAYS, repr(MODULES), INIT.read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


BUILD: Final = "weir lab build"
"""The command that builds them."""

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
        return self.folder / "vmlinuz"

    @property
    def root(self) -> Path:
        return self.folder / "root.cpio"

    @property
    def description(self) -> Path:
        """The file with ``about``."""
        return self.folder / _ABOUT

    def describe(self) -> bytes:
        """The content of that file."""
        return json.dumps(asdict(self.about), indent=2).encode() + b"\n"

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


@dataclass(frozen=True)
class Boot:
    """What a guest boots from, and what it needs for that."""

    options: Sequence[str]
    """Options of QEMU."""
    files: Sequence[Path] = ()
    """The files that these options name. QEMU cannot read any other file of this host."""
    has_agent: bool = True
    """Whether the guest runs Weir's agent."""
    memory_mb: int = 256
    """Memory of the guest, in MiB; the default is enough for Weir's own image."""


@dataclass(frozen=True)
class Nic:
    """A network interface of the guest, and the tap that is its other end."""

    tap: str
    mac: str
    mtu_bytes: int


def missing() -> list[str]:
    """What is missing to start any guest, one sentence each."""
    found = []
    if programs.find(PROGRAM) is None:
        found.append(f"{PROGRAM} is not installed: apt install {PACKAGE}")
    if not _TUN.exists():
        found.append("/dev/net/tun is missing: modprobe tun")
    return found


def accelerators() -> Sequence[Accelerator]:
    """Accelerators to try, the best first. KVM may exist and still start no guest."""
    return ("kvm", "tcg") if _kvm_opens() and not _NO_KVM.exists() else ("tcg",)


def give_up_kvm() -> None:
    """Remember, until this machine's next boot, that no guest starts with KVM."""
    with suppress(OSError):
        _NO_KVM.touch()


def boot(image: Image) -> Boot:
    """Boot from Weir's own kernel and root."""
    options = ["-kernel", str(image.kernel), "-initrd", str(image.root), "-append", _KERNEL_OPTIONS]
    return Boot(options, (image.kernel, image.root))


def confined(boot: Boot, nics: Sequence[Nic], accelerator: Accelerator) -> list[str]:
    """:func:`command` without the rights of root: QEMU has another user, no capabilities and few files.

    It opens the taps without rights, because nobody owns them, and stays in the machine's network.
    """
    devices = (_KVM, _TUN) if accelerator == "kvm" else (_TUN,)
    return start.command(
        command(boot, nics, accelerator, sandbox=has_sandbox()),
        read=[path.absolute() for path in boot.files],
        write=(*devices, _TEMPORARY),
        own=[Path(FOLDER)],
    )


@cache
def has_sandbox() -> bool:
    """Whether this QEMU knows :data:`SANDBOX`: one that is old, or was built without it, does not."""
    words = [PROGRAM, *_NOTHING, "-machine", "none", "-monitor", "stdio", "-sandbox", SANDBOX]
    try:
        done = programs.run(words, input=b"quit\n", capture_output=True, timeout=_TRY_S)
    except (OSError, WeirError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def command(boot: Boot, nics: Sequence[Nic], accelerator: Accelerator, *, sandbox: bool) -> list[str]:
    """QEMU's command, with the console on standard output; the guest starts on a connection to :data:`AGENT`.

    The taps have no virtio headers in front of frames, so no checksum or segmentation is left to whoever
    receives a packet.
    """
    words = [PROGRAM, *_NOTHING, "-no-reboot"]
    if sandbox:
        words += ["-sandbox", SANDBOX]
    words += ["-machine", f"q35,accel={accelerator}", "-cpu", _CPUS[accelerator], "-m", str(boot.memory_mb)]
    words += boot.options
    words += ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
    words += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,path={AGENT},server=on,wait=on"]
    words += ["-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"]
    for number, nic in enumerate(nics):
        words += ["-netdev", f"tap,id=net{number},ifname={nic.tap},script=no,downscript=no,vnet_hdr=off"]
        device = f"virtio-net-pci,netdev=net{number},mac={nic.mac},host_mtu={nic.mtu_bytes},romfile="
        words += ["-device", device]
    return words


def _kvm_opens() -> bool:
    try:
        fd = os.open(_KVM, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return fcntl.ioctl(fd, _KVM_GET_API_VERSION) == _KVM_API_VERSION
    except OSError:
        return False
    finally:
        os.close(fd)
