"""How QEMU is started: its command, its rights, and whether KVM or QEMU's translator (TCG) runs the guest."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.confinement import start
from weirlab.base.errors import WeirError
from weirlab.lab.clean import LOCKS
from weirlab.lab.vm.image import Image

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
