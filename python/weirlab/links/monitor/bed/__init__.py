"""A link with a monitor on it: sender, bridge in the middle, receiver, and whoever records.

``base`` names the methods and what is counted, ``wiring`` builds the namespaces, ``recording`` and
``tcpdump`` are those who record, ``lab`` joins them.
"""

from weirlab.links.monitor.bed.base import (
    BARE,
    METHODS,
    RECORDING,
    WORDS,
    Method,
    MonitorGap,
    MonitorSettings,
    RecorderReport,
    Stages,
    Stall,
)
from weirlab.links.monitor.bed.lab import LinkLab

__all__ = [
    "BARE", "METHODS", "RECORDING", "WORDS", "LinkLab", "Method", "MonitorGap", "MonitorSettings",
    "RecorderReport", "Stages", "Stall",
]  # fmt: skip
