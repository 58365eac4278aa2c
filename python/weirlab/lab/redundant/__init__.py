"""A redundant pair of firewalls in namespaces: VRRP or CARP for the addresses, conntrackd for the states."""

from weirlab.lab.redundant.base import (
    FIREWALLS,
    SIDES,
    AddressProtocol,
    Event,
    EventKind,
    Firewall,
    Side,
    Transition,
)
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.lab import RedundantLab
from weirlab.lab.redundant.ucarp import Ucarp

__all__ = [
    "FIREWALLS",
    "SIDES",
    "AddressProtocol",
    "Conntrackd",
    "Event",
    "EventKind",
    "Firewall",
    "Keepalived",
    "RedundantLab",
    "Side",
    "Transition",
    "Ucarp",
]
