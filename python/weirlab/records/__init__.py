"""The plain values that travel from the test bed to the report.

Data moves in one direction: a :class:`TrialSpec` says what to do, a test bed returns
an :class:`EngineResult`, a trial combines it with what the host did into a
:class:`TrialRecord`; the store keeps records, models read them as
:class:`Observation`. Nothing here does I/O. Units are in the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weirlab.base.storage import EMULATED, EMULATION, SIMULATION
from weirlab.records.result import (
    F64,
    U64,
    AnswerResult,
    Backend,
    BinDetails,
    BinSpan,
    DividedLoss,
    EngineResult,
    FlowTable,
    Histogram,
    PacketLog,
    SchedulerCounters,
    Series,
    WholeTrialResult,
    counts_alone,
)
from weirlab.records.trial import (
    ESTABLISHED,
    REFUSED,
    TABLE_FULL,
    CallTable,
    HostSample,
    Observation,
    RuleEncounters,
    RuleSetup,
    TrialRecord,
    TrialSpec,
)

__all__ = [
    "ESTABLISHED", "F64", "REFUSED", "SIMULATION", "SLOWEST_UNPACED_PPS", "TABLE_FULL", "U64", "WHERE",
    "AnswerResult", "Backend", "BinDetails", "BinSpan", "CallTable", "DividedLoss", "EngineResult",
    "FlowTable", "Histogram", "HostSample", "Observation", "PacketLog", "RuleEncounters", "RuleSetup",
    "SchedulerCounters", "Series", "TrialRecord", "TrialSpec", "WholeTrialResult", "counts_alone",
    "device_in_words", "emulation_in_words",
]  # fmt: skip

SLOWEST_UNPACED_PPS: Final = 500_000
"""The XDP sender is faster than this when it sends as fast as possible, unless something holds it up, such
as memory that the host has yet to back."""

_DEVICES: Final = {
    "ruleset": "your ruleset",
    "image": "your disk image",
    "none": "the plain cable",
    "simulated": "the simulated device",
}


USER_SPACE: Final = {"wireguard-go": "a kernel's WireGuard", "strongswan-libipsec": "a kernel's ESP"}
"""Daemons that carry packets themselves, and the part of the kernel that does so where there is one."""


WHERE: Final = (
    "weir doctor tells whether this kernel has it; else measure on a host that does, or, where KVM works, in "
    "virtual machines: vm-esp, vm-wireguard"
)
"""What to do about a stand-in."""


JOINT: Final = " + "
"""Between the devices in the name of a chain."""


def stand_in(dut: str) -> str:
    """What the device recorded as ``dut`` stands in for, because it runs in user space; empty: nothing."""
    names = [device.split(":")[0] for device in dut.split(JOINT)]
    return next((part for name, part in USER_SPACE.items() if name in names), "")


def caution(facts: Mapping[str, object]) -> str:
    """What to know about the device of a run before believing its numbers; empty if there is nothing."""
    part = stand_in(str(facts.get("dut", "")))
    said = f"{facts['dut']} carries packets in user space; {part} would be faster ({WHERE})" if part else ""
    return "; ".join(filter(None, (emulation_in_words(facts), said)))


def emulation_in_words(facts: Mapping[str, object]) -> str:
    """The warning about the numbers of a run whose device ran on an emulated CPU; empty for a real one."""
    return EMULATION if facts.get(EMULATED) else ""


def device_in_words(dut: str, *, first: bool = False) -> str:
    """The name in sentences of the device recorded as ``dut``; ``first`` if the sentence begins with it."""
    said = _DEVICES.get(dut, f"{dut} (user space)" if stand_in(dut) else dut)
    return said[:1].upper() + said[1:] if first and dut in _DEVICES else said
