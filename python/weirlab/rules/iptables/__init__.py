"""Rules of iptables, from the output of its save commands."""

from __future__ import annotations

from weirlab.rules.iptables.saved import by_family, iptables_path, reordered

__all__ = ["by_family", "iptables_path", "reordered"]
