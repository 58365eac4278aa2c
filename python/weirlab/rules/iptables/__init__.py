"""Rules of iptables, from the output of its save commands."""

from __future__ import annotations

from weirlab.rules.iptables.saved import by_family, iptables_path, reordered
from weirlab.rules.iptables.sets import parse_sets, with_sets

__all__ = ["by_family", "iptables_path", "parse_sets", "reordered", "with_sets"]
