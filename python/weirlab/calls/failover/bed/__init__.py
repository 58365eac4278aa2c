"""A redundant pair of firewalls in namespaces: VRRP or CARP for the addresses, conntrackd for the states."""

from weirlab.calls.failover.bed.external import ExternalPair
from weirlab.calls.failover.bed.lab import RedundantLab
from weirlab.lab.redundant.base import (
    FIREWALLS,
    SIDES,
    AddressProtocol,
    EventKind,
    Firewall,
    PairEvent,
    Side,
    Transition,
)
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp

__all__ = [
    "FIREWALLS",
    "SIDES",
    "AddressProtocol",
    "Conntrackd",
    "EventKind",
    "ExternalPair",
    "Firewall",
    "Keepalived",
    "PairEvent",
    "RedundantLab",
    "Side",
    "Transition",
    "Ucarp",
]
