"""Rules of nftables, as nft itself parses them."""

from __future__ import annotations

from weirlab.rules.nft.listing import arrivals, nftables_path, rule_counters
from weirlab.rules.nft.written import (
    counting,
    interfaces,
    named_chains,
    reordered_text,
    rule_texts,
    written_places,
)

__all__ = [
    "arrivals",
    "counting",
    "interfaces",
    "named_chains",
    "nftables_path",
    "reordered_text",
    "rule_counters",
    "rule_texts",
    "written_places",
]
