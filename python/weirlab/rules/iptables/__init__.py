"""Rules of iptables, from the output of its save commands."""

from __future__ import annotations

from weirlab.rules.iptables.commands import FOR_A_SHELL, Dump, as_dump, is_command
from weirlab.rules.iptables.saved import by_family, iptables_path, reordered
from weirlab.rules.iptables.sets import parse_sets, with_sets

__all__ = [
    "FOR_A_SHELL",
    "Dump",
    "as_dump",
    "by_family",
    "iptables_path",
    "is_command",
    "parse_sets",
    "reordered",
    "with_sets",
]
