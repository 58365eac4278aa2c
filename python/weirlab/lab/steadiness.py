"""What makes measurements steady on this machine: CPUs, priority, clock, frequency."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weirlab.base.errors import MissingCapability
from weirlab.lab import clean, cores
from weirlab.lab.finding import AS_ROOT, Finding, reason
from weirlab.lab.host import HostReader
from weirlab.lab.isolation import pages
from weirlab.lab.linux import scheduling

_SLOW_CLOCKS: Final = ("hpet", "acpi_pm", "jiffies", "pit")


def findings() -> list[Finding]:
    """Check everything; nothing is left behind."""
    return [two_cpus(), _real_time(), _isolation(), _free_pages(), _clock(), _frequency(), _temperature()]


def two_cpus() -> Finding:
    """Whether sender and device can each have a CPU."""
    try:
        chosen = cores.choose()
    except MissingCapability as error:
        return Finding("CPUs", False, str(error), "give the machine two CPUs, or use --lab sim")
    text = f"sender on {chosen.sender}, device on {chosen.dut}"
    if cores.share_a_core(chosen):
        return Finding(
            "CPUs",
            False,
            f"{text}, which are threads of one core and slow each other down",
            "give the machine a second physical core",
            essential=False,
        )
    return Finding("CPUs", True, text)


def _real_time() -> Finding:
    """Whether sender and device may have real-time priority during a trial."""
    name = "real-time priority"
    try:
        scheduling.attempt()
    except OSError as error:
        why, remedy = scheduling.why_refused()
        told = f"{reason(error)} ({why})" if why else reason(error)
        detail = f"refused: {told}; other work on this machine will disturb more trials"
        return Finding(name, False, detail, remedy, essential=False)
    if not (longest_s := scheduling.longest_s()):
        return Finding(
            name,
            False,
            "the kernel gives it no CPU time (kernel.sched_rt_runtime_us is 0), so no trial has it",
            "sysctl -w kernel.sched_rt_runtime_us=950000",
            essential=False,
        )
    return Finding(name, True, f"sender and device can have it during trials of up to {longest_s:.2g} s")


def _isolation() -> Finding:
    """Tried as a test bed does it, and undone at once."""
    name = "isolated CPUs"
    try:
        chosen = cores.choose()
        claim = clean.LabOwnership()
    except MissingCapability as error:
        return Finding(name, False, str(error), AS_ROOT, essential=False)
    try:
        claim.isolate({chosen.sender, chosen.dut})
        found = claim.isolation
    finally:
        claim.release()
    assert found is not None
    if found.state == "refused":
        detail = f"{found.words}; other work shares the CPUs of sender and device"
        return Finding(name, False, detail, found.remedy, essential=False)
    return Finding(name, True, found.words)


def _free_pages() -> Finding:
    """Tried as a test bed does it, and undone at once."""
    name = "free pages"
    with pages.short_lists(clean.LOCKS) as refused:
        if refused is None:
            return Finding(name, True, "while a lab is open, the kernel moves them in small batches")
    detail = f"refused: {refused}; the device pauses for some 200 µs about every 2,000 packets"
    remedy = (
        f"run as root, with {pages.SETTING} writable" if pages.SETTING.exists() else "use Linux 5.14 or later"
    )
    return Finding(name, False, detail, remedy, essential=False)


def _clock() -> Finding:
    try:
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        return Finding("clock", True, "source not exposed")
    if source in _SLOW_CLOCKS:
        return Finding(
            "clock",
            False,
            f"{source}: reading it takes a microsecond or more",
            "choose a faster one in /sys/devices/system/clocksource/clocksource0 (tsc, kvm-clock)",
            essential=False,
        )
    return Finding("clock", True, source)


def _frequency() -> Finding:
    folder = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    try:
        governor = (folder / "scaling_governor").read_text().strip()
    except OSError:
        return Finding("CPU frequency", True, "not exposed here; records leave it empty")
    if governor == "performance":
        return Finding("CPU frequency", True, "governor performance")
    return Finding(
        "CPU frequency",
        False,
        f"governor {governor}: the device's speed may vary from trial to trial",
        "cpupower frequency-set --governor performance",
        essential=False,
    )


def _temperature() -> Finding:
    celsius = HostReader({}).sample().temperature_c
    if celsius is None:
        return Finding("temperature", True, "not exposed here; records leave it empty")
    return Finding("temperature", True, f"{celsius:.0f} °C")
