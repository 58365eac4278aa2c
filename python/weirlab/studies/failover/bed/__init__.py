"""A redundant pair of firewalls in namespaces: VRRP or CARP for the addresses, conntrackd for the states."""

from weirlab.studies.failover.bed.base import AddressProtocol, Event, Transition
from weirlab.studies.failover.bed.conntrackd import Conntrackd
from weirlab.studies.failover.bed.keepalived import Keepalived
from weirlab.studies.failover.bed.lab import RedundantLab
from weirlab.studies.failover.bed.terms import FIREWALLS, SIDES, EventKind, Firewall, Side
from weirlab.studies.failover.bed.ucarp import Ucarp

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
