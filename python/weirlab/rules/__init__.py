"""Rulesets of packet filters: how many rules packets are compared with, an order that makes that fewer, and
which packets pass. Pure."""

from __future__ import annotations

from weirlab.rules.advice import Advice, ChainAdvice, Move, advise
from weirlab.rules.aiming import Aim, accepted, aim, aims
from weirlab.rules.chains import Chain, Rule, Ruleset, as_written
from weirlab.rules.change import RulesetChange, ruleset_change
from weirlab.rules.iptables.saved import iptables_path, reordered
from weirlab.rules.nft.listing import nftables_path
from weirlab.rules.walking import Walk, walk

__all__ = [
    "Advice",
    "Aim",
    "Chain",
    "ChainAdvice",
    "Move",
    "Rule",
    "Ruleset",
    "RulesetChange",
    "Walk",
    "accepted",
    "advise",
    "aim",
    "aims",
    "as_written",
    "iptables_path",
    "nftables_path",
    "reordered",
    "ruleset_change",
    "walk",
]
