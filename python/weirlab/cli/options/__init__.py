"""Options that several commands share, and the parsing of their text.

``groups`` turns the fields of dataclasses into options. ``device``, ``traffic``, ``trials`` and ``results``
hold the groups that commands share; ``reading``, ``sockets`` and ``buffers`` parse their text. ``coercion``
converts the values of all options, and ``shapes`` is about how the help shows them.
"""

from __future__ import annotations

from weirlab.cli.options.device import (
    ONE_CPU,
    AsOption,
    CpuOptions,
    DeviceOptions,
    IncludeOption,
    LabKind,
    PositionsOption,
    TunnelCpusOption,
)
from weirlab.cli.options.groups import (
    PERCENT,
    WORDS,
    OptionReading,
    given,
    grouped,
    only,
    spelled,
    typed,
    without,
)
from weirlab.cli.options.reading import listed, share
from weirlab.cli.options.results import (
    DeviceOption,
    JsonOption,
    JudgementOptions,
    NameOption,
    ReportOptions,
    ResultOptions,
    ResumeOption,
    StoreOption,
    work_of,
)
from weirlab.cli.options.trials import (
    Arrivals,
    ArrivalsOption,
    FlowOptions,
    FramesOption,
    IpVersion,
    LoadsOption,
    MachineKind,
    PacketTimeOption,
    SeedOption,
    SeveralSizesOptions,
    SizeOptions,
    StepOptions,
    TrialsOptions,
)
from weirlab.cli.options.wired import WiredOptions

__all__ = [
    "ONE_CPU", "PERCENT", "WORDS", "Arrivals", "ArrivalsOption", "AsOption", "CpuOptions", "DeviceOption",
    "DeviceOptions", "FlowOptions", "FramesOption", "IncludeOption", "IpVersion", "JsonOption",
    "JudgementOptions", "LabKind", "LoadsOption", "MachineKind", "NameOption", "OptionReading",
    "PacketTimeOption", "PositionsOption", "ReportOptions", "ResultOptions", "ResumeOption", "SeedOption",
    "SeveralSizesOptions", "SizeOptions", "StepOptions", "StoreOption", "TrialsOptions", "TunnelCpusOption",
    "WiredOptions", "given", "grouped", "listed", "only", "share", "spelled", "typed", "without", "work_of",
]  # fmt: skip
