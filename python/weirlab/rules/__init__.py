"""Rulesets of packet filters: how far packets walk, and an order that makes them walk less. Pure."""

from __future__ import annotations

from weirlab.rules.advice import Advice, ChainAdvice, Move, advise
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.iptables import parse_iptables, reordered
from weirlab.rules.nftables import parse_nftables
from weirlab.rules.walking import Walk, walk

__all__ = [
    "Advice",
    "Chain",
    "ChainAdvice",
    "Move",
    "Rule",
    "Ruleset",
    "Walk",
    "advise",
    "parse_iptables",
    "parse_nftables",
    "reordered",
    "walk",
]
