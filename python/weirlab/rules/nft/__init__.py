"""Rules of nftables, as nft itself parses them."""

from __future__ import annotations

from weirlab.rules.nft.listing import nftables_path
from weirlab.rules.nft.written import (
    interfaces,
    named_chains,
    reordered_text,
    rule_texts,
    written_places,
)

__all__ = ["interfaces", "named_chains", "nftables_path", "reordered_text", "rule_texts", "written_places"]
