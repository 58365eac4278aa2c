"""What this machine can do, what it lacks, and what to do about it."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from weirlab.base import confinement, programs
from weirlab.base.errors import MissingCapability
from weirlab.base.extras import REPORT
from weirlab.lab import clean, dut, steadiness
from weirlab.lab.finding import AS_ROOT, Finding, reason
from weirlab.lab.linux import interface, syscalls
from weirlab.lab.linux.namespace import in_thread
from weirlab.records import stand_in

_MINIMUM_KERNEL: Final = (5, 18)
_MINIMUM_FREE_BYTES: Final = 500_000_000
_CAPABILITIES: Final = {
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
_PARTS_OF_ADMIN: Final = {"CAP_PERFMON", "CAP_BPF"}
"""What CAP_SYS_ADMIN allows, too (capabilities(7))."""


def diagnose(store: Path | None = None) -> list[Finding]:
    """Try everything that the labs need; nothing is left behind.

    Parameters
    ----------
    store:
        Folder of the run store, to see whether it has room.
    """
    return [
        _capabilities(),
        _kernel(),
        *_namespaces_and_xdp(),
        _af_xdp(),
        _btf(),
        _kernel_threads(),
        _engine(),
        *_devices(),
        _tap(),
        _netem(),
        _confinement(),
        _charts(),
        *steadiness.findings(),
        _room(store or _default_store()),
        _leftovers(),
    ]


def missing_for_namespaces() -> str | None:
    """Why the namespaces lab cannot work here, in one sentence; None if it can."""
    findings = [_capabilities(), *_namespaces_and_xdp(), _kernel_threads(), steadiness.two_cpus()]
    for finding in findings:
        if finding.essential and not finding.ok:
            return f"{finding.name}: {finding.detail}"
    return None


def need_namespaces(who_needs: str) -> None:
    """Raise ``MissingCapability`` if the namespaces lab cannot work. ``who_needs`` begins the message."""
    if (missing := missing_for_namespaces()) is not None:
        raise MissingCapability(
            f"{who_needs} network namespaces, which do not work here ({missing}): run as root (sudo); "
            "weir doctor says more"
        )


def _capabilities() -> Finding:
    name = "privileges"
    effective = syscalls.effective_capabilities()
    lacking = [capability for capability, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    if "CAP_SYS_ADMIN" not in lacking:
        lacking = [capability for capability in lacking if capability not in _PARTS_OF_ADMIN]
    if lacking:
        return Finding(name, False, f"missing {', '.join(lacking)}", AS_ROOT)
    return Finding(name, True, f"all that is needed ({', '.join(_CAPABILITIES)})")


def _kernel() -> Finding:
    release = platform.release()
    found = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    wanted = ".".join(map(str, _MINIMUM_KERNEL))
    if found < _MINIMUM_KERNEL:
        return Finding(
            "kernel",
            False,
            f"Linux {release}; XDP live frames need {wanted}",
            f"use Linux {wanted} or newer; until then packets go through packet sockets, at lower rates",
            essential=False,
        )
    return Finding("kernel", True, f"Linux {release}")


def _namespaces_and_xdp() -> list[Finding]:
    """Try everything in an unnamed namespace, which the kernel removes with the thread."""
    findings: list[Finding] = []

    def try_all() -> None:
        for name, attempt, essential, remedy in _attempts():
            try:
                findings.append(Finding(name, True, attempt(), essential=essential))
            # pyroute2 raises errors that are not OSErrors, and which ones depends on the kernel.
            except Exception as error:
                findings.append(Finding(name, False, reason(error), remedy, essential))
                if essential:
                    return

    in_thread(try_all)
    return findings


def _attempts() -> Iterator[tuple[str, Callable[[], str], bool, str]]:
    """Name, function to try (returns the detail), essential, remedy; each builds on the previous ones."""
    index: list[int] = []
    program: list[int] = []

    def namespace() -> str:
        syscalls.unshare_net()
        os.close(syscalls.mount_sysfs())
        return "can be made"

    def veth() -> str:
        index.append(interface.create_probe_pair())
        return "can be made, with GRO"

    def load() -> str:
        program.append(syscalls.load_xdp())
        return "programs can be loaded"

    def native() -> str:
        os.close(syscalls.attach_native(program[0], index[0]))
        return "can be attached to a veth interface"

    def live() -> str:
        try:
            syscalls.run_live(program[0])
        finally:
            os.close(program.pop())
        return "the kernel sends frames that a program makes"

    packet_sockets = "packets will go through packet sockets (--backend af_packet), at lower rates"
    yield "network namespaces", namespace, True, f"CONFIG_NET_NS and Linux 5.2 are needed; {AS_ROOT}"
    yield "veth interfaces", veth, True, "CONFIG_VETH is needed: modprobe veth, or a kernel that has it"
    yield "BPF", load, False, f"CONFIG_BPF_SYSCALL and CAP_BPF are needed; without them, {packet_sockets}"
    yield "native XDP", native, False, f"Linux 5.9 is needed; without it, {packet_sockets}"
    yield "XDP live frames", live, False, f"Linux 5.18 is needed; without it, {packet_sockets}"


def _af_xdp() -> Finding:
    """What kernel-bypass endpoints need; also tried in an unnamed namespace."""
    name = "AF_XDP"
    try:
        native, zero_copy = in_thread(_try_af_xdp)
    except Exception as error:
        remedy = (
            "Linux 5.4 with CONFIG_XDP_SOCKETS, and root; without AF_XDP leave these endpoints out: "
            "weir ipsec endpoints --arms sockets,sockets-real-time"
        )
        return Finding(name, False, reason(error), remedy, essential=False)
    where = "in the driver" if native else "in generic mode"
    how = "zero-copy" if zero_copy else "copy"
    detail = f"sockets work on a veth interface, in {how} mode; their XDP program runs {where}"
    return Finding(name, True, detail, essential=False)


def _try_af_xdp() -> tuple[bool, bool]:
    from weirlab._engine import try_af_xdp

    syscalls.unshare_net()
    interface.create_probe_pair()
    return try_af_xdp(interface.PROBE)


def _btf() -> Finding:
    path = Path("/sys/kernel/btf/vmlinux")
    if path.exists():
        return Finding("BTF", True, "the kernel provides its type information")
    return Finding(
        "BTF", False, f"{path} is missing", "use a kernel with CONFIG_DEBUG_INFO_BTF", essential=False
    )


def _kernel_threads() -> Finding:
    """Kernel threads do the device's receive work; a PID namespace hides them."""
    try:
        visible = Path("/proc/2/comm").read_text().strip() == "kthreadd"
    except OSError:
        visible = False
    if visible:
        return Finding("kernel threads", True, "visible, so they can be bound to a CPU")
    return Finding("kernel threads", False, "hidden from this process", "in a container: --pid=host")


def _engine() -> Finding:
    try:
        import weirlab._engine  # noqa: F401
    except ImportError as error:
        return Finding("engine", False, str(error), "build it: make build")
    return Finding("engine", True, "built")


def _devices() -> Iterator[Finding]:
    for name, factory in dut.drivers().items():
        if name in ("blackbox", "forward", "image", "iptables", "ruleset") or name in dut.VARIANTS:
            continue  # always there; an alias; needs a file or a device of the user's
        try:
            driver = factory(None)
            missing = driver.check()
            detail = "; ".join(missing) or str(driver.facts().get("tool", "usable"))
        except Exception as error:
            if name in dut.own():
                raise
            # A driver of another package may raise anything.
            detail = f"its driver failed: {type(error).__name__}: {error}"
            missing = [detail]
        else:
            if name in dut.TUNNELS and not missing:
                part = stand_in(driver.name)
                detail += f", as {driver.name}" + (f", in user space, without {part}" if part else "")
        remedy = "follow the advice, or choose another device with --dut"
        yield Finding(f"device {name}", not missing, detail, "" if not missing else remedy, essential=False)
    for why in dut.broken():
        yield Finding("devices", False, why, "repair or reinstall that package", essential=False)


def _tap() -> Finding:
    """What a link tap needs in addition to XDP, which is tried above."""
    name = "link tap"
    lacking = []
    if not any(_can_be_loaded(library) for library in ("libpcap.so.1", "libpcap.so.0.8")):
        lacking.append("libpcap, for --filter")
    if programs.find("nft") is None:
        lacking.append("nft, for a mirror without XDP")
    if lacking:
        remedy = "install libpcap0.8 or libpcap, and nftables; without them, a tap lacks only these features"
        return Finding(name, False, f"missing: {'; '.join(lacking)}", remedy, essential=False)
    return Finding(name, True, "libpcap for filters, nft for a mirror without XDP")


def _netem() -> Finding:
    """Tried in an unnamed namespace. Always ok, because Weir has its own emulator."""
    try:
        done = in_thread(_try_netem)
    except (OSError, MissingCapability) as error:
        why = reason(error)
    else:
        if done.returncode == 0:
            return Finding("netem", True, "the kernel can emulate links (weir link --by netem)")
        why = next(iter(done.stderr.removeprefix("Error: ").splitlines()), "tc gives no reason")
    return Finding("netem", True, f"not here ({why}); weir link works without --by netem")


def _try_netem() -> subprocess.CompletedProcess[str]:
    syscalls.unshare_net()
    command = ["tc", "qdisc", "add", "dev", "lo", "root", "netem"]
    return programs.run(command, capture_output=True, text=True, errors="replace")


def _confinement() -> Finding:
    """How well processes are confined that read what strangers sent."""
    name = "confinement"
    try:
        measures = confinement.tried()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Finding(
            name, False, f"a confined process failed: {error}", "see docs/security.md", essential=False
        )
    kept = [confinement.MEASURES[measure] for measure, refusal in measures.items() if not refusal]
    lacking = [f"{confinement.MEASURES[each]} ({refusal})" for each, refusal in measures.items() if refusal]
    detail = f"processes that read captures have {', '.join(kept)}"
    if not lacking:
        return Finding(name, True, detail, essential=False)
    remedy = "the rest is in force; Linux 6.12 with Landlock has all of it, in a container: --privileged"
    return Finding(name, False, f"{detail}; missing: {', '.join(lacking)}", remedy, essential=False)


def _charts() -> Finding:
    name = "reports"
    if missing := REPORT.missing():
        detail = f"missing: {', '.join(missing)}, for the charts"
        return Finding(name, False, detail, REPORT.remedy, essential=False)
    return Finding(name, True, f"{', '.join(REPORT.packages.values())} for the charts")


def _can_be_loaded(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _room(store: Path) -> Finding:
    name = "run store"
    folder = store
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return Finding(name, False, f"{folder} cannot be written", "choose another folder with --store DIR")
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.1f} GB free for {store}"
    if free < _MINIMUM_FREE_BYTES:
        return Finding(
            name,
            False,
            text,
            f"make room for {_MINIMUM_FREE_BYTES / 1e9:.1f} GB, or choose another folder with --store DIR",
        )
    return Finding(name, True, text)


def _default_store() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "weir"


def _leftovers() -> Finding:
    names = clean.leftovers()
    if names:
        return Finding(
            "left-overs",
            False,
            f"namespaces without an owner's lock: {', '.join(names)}",
            "if no trial is running: ip netns delete NAME",
            essential=False,
        )
    return Finding("left-overs", True, "none")
